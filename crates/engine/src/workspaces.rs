//! The workspaces of sandboxes on disk: made, seeded, kept in step, moved aside, brought back.
//!
//! ```text
//! <workspaceRoot>/<slug>/              the private copy that a sandbox sees: hostile ground
//! <workspaceRoot>/<slug>.skills/       the host's skills beside an agent's own workspace; the sandbox only reads it
//! <state>/clawpen/workspaces/<id>.json what we last put there (seeds, skills), when it was released
//! <state>/clawpen/workspaces/<id>.lock one at a time, across processes
//! <state>/clawpen/trash/<id>/          what was moved aside, with a manifest
//! ```
//!
//! Takes a [`Wanted`], which the rules have decided; does it. The agent may plant links, pipes and
//! deep trees in its workspace and rename them meanwhile, so every path below it is resolved by the
//! kernel beneath an open directory, without links and mounts; what is copied is a plain file with one
//! name. New things are made whole beside their place and renamed into it: a reader, or a kill at any
//! moment, sees the old or the new. Nothing of an agent's is deleted here: it is moved to the trash.
//! An agent's own workspace (`rw`) is never seeded, moved or removed; the host's skills are mounted into it, and all
//! that it gets is the empty directory where they stand.

use std::ffi::OsStr;
use std::io;
use std::os::fd::AsFd as _;
use std::path::{Path, PathBuf};

use clawpen_os::beneath;
use clawpen_rules::backend::Backend;
use clawpen_rules::config::own::OwnConfig;
use clawpen_rules::config::sandbox::WorkspaceAccess;
use clawpen_rules::explain::Explanation;
use clawpen_rules::ids::AgentId;
use clawpen_rules::timestamp::Timestamp;
use clawpen_rules::workspace::removal::{self, Fate, KeepReason, RemovalPolicy};
use clawpen_rules::workspace::seeds::{MAX_BYTES, Standing};
use clawpen_rules::workspace::skills::{self as rules_skills, SkillPolicy, SkillSource};
use clawpen_rules::workspace::{HostSkills, Layout, SKILLS_MOUNT};

mod ground;
pub mod media;
mod plain;
mod record;
mod reseed;
mod settled;
mod skills;
pub mod trash;
mod tree;

use self::ground::Ground;
use self::plain::{Attributes, NotPlain};
use self::record::{Locked, Record};
use self::settled::Places;
use self::skills::Sync;
use self::trash::{About, Trash, TrashId, TrashKind};

pub use self::settled::Settled;
use crate::config_store::Store;
use crate::error_text::chain;
use crate::faults;

/// The workspace of one sandbox, decided.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wanted {
    pub layout: Layout,
    pub scope_key: String,
    pub agent: String,
    /// Whom a new directory belongs to, if not to us: the user of a container whose ids are the host's.
    pub owner: Option<(u32, u32)>,
    pub skills: SkillPolicy,
    /// The weakest first.
    pub sources: Vec<SkillSource>,
}

/// The workspaces of one state directory.
#[derive(Debug, Clone)]
pub struct Workspaces {
    home: PathBuf,
}

/// What [`Workspaces::prepare`] did.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Ready {
    /// Files that were copied in.
    pub seeded: Vec<&'static str>,
    pub skills: SkillsDone,
    /// What is in the way of the skills in an agent's own workspace: a new sandbox cannot be made, one that runs goes on.
    pub obstacle: Option<Obstacle>,
    /// What could not be brought up to date, with its cause. The sandbox goes on with what was there.
    pub trouble: Option<String>,
    /// What was left out and why, for the log; none of it stops a sandbox.
    pub notes: Vec<String>,
}

impl Ready {
    /// Nothing was to do.
    fn unchanged() -> Self {
        Self { skills: SkillsDone::Unchanged, ..Self::default() }
    }
}

/// Something of the agent's stands where the host's skills are mounted.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{}` is no plain directory, and the skills of the host are mounted there; move it away", .path.display())]
pub struct Obstacle {
    pub path: PathBuf,
}

/// What became of the skills.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum SkillsDone {
    /// The sandbox works on the originals.
    #[default]
    NotCopied,
    /// As they were.
    Unchanged,
    /// Replaced as a whole; so many now.
    Replaced(usize),
}

/// How much is renewed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Extent {
    /// The seeded files; everything else stays. A running sandbox sees the new ones at once.
    Files,
    /// The whole copy: a fresh one takes its place. The sandbox must not be running, because it would
    /// go on with the old one, in the trash.
    Whole,
}

/// What [`Workspaces::reseed`] did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reseeded {
    /// Files that were written or replaced.
    pub renewed: Vec<&'static str>,
    /// Where the old ones are; `None` if nothing was there.
    pub trashed: Option<TrashId>,
}

/// How the copy of one file stands to its original.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Compared {
    pub name: &'static str,
    pub standing: Standing,
    /// Both texts, as far as they can be shown.
    pub original: Option<Vec<u8>>,
    pub copy: Option<Vec<u8>>,
}

/// A sandbox that was removed, as its registry row says.
#[derive(Debug, Clone, Copy)]
pub struct Released<'a> {
    /// The private copy: `Layout::private`.
    pub directory: &'a Path,
    pub scope_key: &'a str,
    pub agent: &'a str,
}

/// A workspace that [`Workspaces::sweep`] moved aside.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Swept {
    pub directory: PathBuf,
    pub trashed: TrashId,
}

/// Something about a workspace did not work; what was there before is still there.
#[derive(Debug, thiserror::Error)]
pub enum WorkspaceError {
    #[error("cannot {what} `{}`", .path.display())]
    Io {
        what: &'static str,
        path: PathBuf,
        #[source]
        cause: io::Error,
    },
    #[error("the workspace `{}` is a link; put the directory itself there, or set `sandbox.workspaceRoot`", .path.display())]
    Link { path: PathBuf },
    #[error("`{}` is the agent's own workspace (`workspaceAccess` is `rw`), which is never seeded or moved", .path.display())]
    NotPrivate { path: PathBuf },
    #[error("`{}` was written by a newer clawpen (version {found}, this one knows {known}); use that one", .path.display())]
    Newer { path: PathBuf, found: u32, known: u32 },
    #[error(transparent)]
    Obstacle(#[from] Obstacle),
    #[error("somebody else has held `{}` for a minute; `fuser` shows who", .path.display())]
    Busy { path: PathBuf },
}

impl Wanted {
    /// The workspace of an explained session.
    pub fn of(explanation: &Explanation, store: &Store) -> Self {
        let (config, agent) = (&store.loaded.config, explanation.session.agent());
        let layout = explanation.runtime.layout.clone();
        let mut sources = rules_skills::sources(config, &store.locations, layout.agent());
        // The others are there already, and are the agent's to change.
        if layout.skills_mount().is_some() {
            sources.retain(|source| source.kind.is_of_host());
        }
        Self {
            skills: SkillPolicy::resolve(config, agent, &explanation.layers),
            sources,
            scope_key: explanation.runtime.scope_key.as_str().to_owned(),
            agent: agent.as_str().to_owned(),
            owner: foreign_user(explanation),
            layout,
        }
    }

    /// What is ours to fill: the private copy, or the skills beside an agent's own workspace.
    fn directory(&self) -> Option<PathBuf> {
        let shown = self.layout.skills_mount().map(|mount| mount.source);
        self.layout.private().map(str::to_owned).or(shown).map(PathBuf::from)
    }
}

/// Whether the host has skills to show in an agent's own workspace. Looks only where that is asked.
pub(crate) fn host_skills(store: &Store, layout: &Layout) -> HostSkills {
    if layout.skills_directory().is_none() {
        return HostSkills::None;
    }
    let sources =
        rules_skills::sources(&store.loaded.config, &store.locations, layout.agent()).into_iter();
    let sources: Vec<SkillSource> = sources.filter(|source| source.kind.is_of_host()).collect();
    if skills::is_any_in(&sources) { HostSkills::Some } else { HostSkills::None }
}

/// The user of a container whose ids are the host's own. A native pen maps ids, so there a directory
/// belongs to whoever makes it; and only root can give one away.
fn foreign_user(explanation: &Explanation) -> Option<(u32, u32)> {
    if !explanation.sandbox.backend.value.eq_ignore_ascii_case(Backend::Docker.as_str()) {
        return None;
    }
    let (uid, gid) = explanation.runtime.spec.as_ref().ok()?.user()?.split_once(':')?;
    let (uid, gid) = (uid.parse().ok()?, gid.parse().ok()?);
    let ours = clawpen_os::process::identity().ok()?;
    (ours.uid == 0 && uid != 0).then_some((uid, gid))
}

impl WorkspaceError {
    fn io(what: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        move |cause| Self::Io { what, path, cause }
    }
}

impl Workspaces {
    /// Those of a state directory. Makes nothing.
    pub fn new(state_dir: &str) -> Self {
        Self { home: Path::new(state_dir).join("clawpen") }
    }

    /// What was moved aside.
    pub fn trash(&self) -> Trash {
        Trash::new(&self.home)
    }

    /// The same as [`Workspaces::prepare`], and cheaper where nothing was to do the last time.
    pub fn prepare_again(
        &self,
        (wanted, settled): (&Wanted, &Settled),
        now: Timestamp,
    ) -> Result<Ready, WorkspaceError> {
        if settled.holds() {
            return Ok(Ready::unchanged());
        }
        // Looked at first: what changes from here on is seen now or the next time.
        let places = wanted.directory().and_then(|directory| {
            let record = record::path(&self.home, &directory);
            Places::look(wanted, directory, record)
        });
        let ready = self.prepare(wanted, now)?;
        if let Some(places) = places {
            settled.note(places, &ready);
        }
        Ok(ready)
    }

    /// Makes the workspace ready for a sandbox: its directories, the seeds that are missing, the
    /// skills. Cheap if nothing changed. Call it before a sandbox is made, started or found again.
    ///
    /// Skills that cannot be copied do not stop a sandbox; the notes say so.
    pub fn prepare(&self, wanted: &Wanted, now: Timestamp) -> Result<Ready, WorkspaceError> {
        match wanted.layout.access() {
            WorkspaceAccess::ReadWrite | WorkspaceAccess::ReadOnly => {
                ensure_agents_own(Path::new(wanted.layout.agent()), wanted.owner)?;
            }
            WorkspaceAccess::None => {}
        }
        let Some(directory) = wanted.directory() else { return Ok(Ready::default()) };
        let record = Record::new(&directory, &wanted.scope_key, &wanted.agent);
        let mut locked = Locked::open(&self.home, record)?;
        let ground = Ground::ensure(&directory, wanted.owner)?;
        locked.record.released_ms = None;
        let mut ready = Ready { obstacle: mount_point(&wanted.layout)?, ..Ready::default() };
        if let Some(aside) = &locked.broken {
            let aside = aside.display();
            ready.notes.push(format!(
                "what was known of the workspace could not be read; it is now `{aside}`"
            ));
        }
        seed(wanted, &ground, &mut locked, &mut ready)?;
        let trash = self.trash();
        let sync = Sync { ground: &ground, wanted, trash: &trash, now };
        match sync.run(&mut locked, &mut ready.notes) {
            Ok(done) => ready.skills = done,
            Err(error) => {
                ready.trouble = Some(format!("skills were not copied: {}", chain(&error)));
            }
        }
        locked.save()?;
        faults::reached("skills.recorded");
        Ok(ready)
    }

    /// To be called when a sandbox was removed: its workspace stays, is moved aside, or begins to age.
    pub fn release(
        &self,
        released: &Released<'_>,
        policy: &RemovalPolicy,
        now: Timestamp,
    ) -> Result<Fate, WorkspaceError> {
        let record = Record::new(released.directory, released.scope_key, released.agent);
        let mut locked = Locked::open(&self.home, record)?;
        if Ground::open(released.directory)?.is_none() {
            locked.forget()?;
            return Ok(Fate::Keep(KeepReason::Missing));
        }
        // Written first: a kill in between leaves a workspace that ages, not one that nobody knows.
        locked.record.released_ms = Some(now.as_millis());
        locked.save()?;
        faults::reached("workspace.released");
        let fate = removal::decide(policy, now, now);
        if let Fate::Trash(why) = &fate {
            self.move_aside(locked, &why.to_string(), now)?;
        }
        Ok(fate)
    }

    /// Forgets the skills that were shown in an agent's own workspace, when no sandbox shows them any more. They are
    /// copies that nobody but us could change.
    pub fn forget_skills(&self, released: &Released<'_>) -> Result<(), WorkspaceError> {
        let record = Record::new(released.directory, released.scope_key, released.agent);
        let locked = Locked::open(&self.home, record)?;
        if let Some(ground) = Ground::open(released.directory)? {
            let failed = || WorkspaceError::io("remove", released.directory);
            let place = ground.place();
            tree::remove(place.directory, &place.name.to_string_lossy()).map_err(failed())?;
            ground.clear().map_err(failed())?;
        }
        locked.forget()
    }

    /// Moves released workspaces aside that are due, and deletes what is due in the trash. Leaves
    /// everything that `is_in_use`. For a janitor; also cleans up after a kill.
    ///
    /// A workspace that was never released to us, such as one of the reference, is not touched.
    pub fn sweep(
        &self,
        own: &OwnConfig,
        is_in_use: &dyn Fn(&Path) -> bool,
        now: Timestamp,
    ) -> Result<Vec<Swept>, WorkspaceError> {
        let policy = |agent: &str| own.resolve(&AgentId::normalize(agent)).workspaces;
        self.trash().tidy(&|agent| policy(agent).trash_days.value, now)?;
        let mut swept = Vec::new();
        for known in record::all(&self.home)? {
            let directory = known.directory.clone();
            if known.released_ms.is_none() || is_in_use(&directory) {
                continue;
            }
            // Looked at again under the lock: it may be in use by now.
            let locked = Locked::open(&self.home, known)?;
            let Some(released) = locked.record.released_ms else { continue };
            let released = Timestamp::from_millis(released);
            let policy = policy(&locked.record.agent);
            if let Fate::Trash(why) = removal::decide(&policy, released, now)
                && let Some(trashed) = self.move_aside(locked, &why.to_string(), now)?
            {
                swept.push(Swept { directory, trashed });
            }
        }
        Ok(swept)
    }

    fn move_aside(
        &self,
        locked: Locked,
        reason: &str,
        now: Timestamp,
    ) -> Result<Option<TrashId>, WorkspaceError> {
        let Some(ground) = Ground::open(&locked.record.directory)? else {
            locked.forget()?;
            return Ok(None);
        };
        let about = About {
            kind: TrashKind::Workspace,
            origin: &ground.path,
            root: ground.path.parent().unwrap_or(Path::new("/")),
            reason,
            scope_key: &locked.record.scope_key,
            agent: &locked.record.agent,
            skills: locked.record.skills.as_ref(),
            now,
        };
        let id = self.trash().put(ground.place(), &about)?;
        ground.clear().map_err(WorkspaceError::io("clear up after", &ground.path))?;
        locked.forget()?;
        Ok(id)
    }
}

/// Copies the originals of files that are missing. A file that is there stays, whatever it is.
fn seed(
    wanted: &Wanted,
    ground: &Ground,
    locked: &mut Locked,
    ready: &mut Ready,
) -> Result<(), WorkspaceError> {
    let failed = || WorkspaceError::io("seed", &ground.path);
    let originals = beneath::open_root(Path::new(wanted.layout.agent())).ok();
    let mut missing = Vec::new();
    for name in wanted.layout.seeds() {
        match beneath::stat_name(ground.directory(), OsStr::new(name)) {
            Ok(_) => continue,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(failed()(error)),
        }
        let Some(originals) = &originals else { continue };
        match plain::read(originals.as_fd(), Path::new(name), MAX_BYTES) {
            Ok(bytes) => missing.push((*name, bytes)),
            Err(NotPlain::Missing) => {}
            Err(NotPlain::Unusable(why)) => {
                ready
                    .notes
                    .push(format!("`{name}` of the agent's workspace was not copied: {why}"));
            }
        }
    }
    if missing.is_empty() {
        return Ok(());
    }
    for (name, bytes) in &missing {
        let digest = plain::digest(bytes).to_string();
        locked.record.seeded.insert((*name).to_owned(), digest);
    }
    // First, so that a copy is never there without our knowing what it was.
    locked.save()?;
    faults::reached("workspace.recorded");
    let attributes = Attributes { mode: 0o644, owner: ground.owner };
    for (name, bytes) in missing {
        match plain::put(ground.at(OsStr::new(name)), &bytes, attributes) {
            Ok(()) => ready.seeded.push(name),
            // The sandbox was quicker: then it is the sandbox's.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(failed()(error)),
        }
        faults::reached("workspace.seeded");
    }
    Ok(())
}

/// Makes the empty directory in an agent's own workspace that the host's skills are mounted at. The agent may have put
/// anything there: no link is followed, and nothing is replaced.
fn mount_point(layout: &Layout) -> Result<Option<Obstacle>, WorkspaceError> {
    if layout.skills_mount().is_none() {
        return Ok(None);
    }
    let mut path = PathBuf::from(layout.agent());
    let failed = WorkspaceError::io;
    let mut directory = beneath::open_root(&path).map_err(failed("open", &path))?;
    let found = beneath::stat(directory.as_fd()).map_err(failed("look at", &path))?;
    let attributes = Attributes { mode: 0o755, owner: (found.uid, found.gid) };
    for name in SKILLS_MOUNT.split('/').map(OsStr::new) {
        path.push(name);
        let place = beneath::Place { directory: directory.as_fd(), name };
        directory = match plain::make_directory(place, attributes) {
            Ok(directory) => directory,
            Err(error)
                if matches!(
                    error.raw_os_error(),
                    Some(libc::ELOOP | libc::ENOTDIR | libc::EXDEV)
                ) =>
            {
                return Ok(Some(Obstacle { path }));
            }
            Err(error) => return Err(failed("make", &path)(error)),
        };
    }
    Ok(None)
}

/// Makes an agent's own workspace if it is missing, for its owner alone.
fn ensure_agents_own(path: &Path, owner: Option<(u32, u32)>) -> Result<(), WorkspaceError> {
    let failed = || WorkspaceError::io("make the workspace", path);
    match std::fs::metadata(path) {
        Ok(found) if found.is_dir() => return Ok(()),
        Ok(_) => return Err(failed()(io::ErrorKind::NotADirectory.into())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(failed()(error)),
    }
    let invalid = || io::Error::from(io::ErrorKind::InvalidInput);
    let parent = path.parent().ok_or_else(invalid).map_err(failed())?;
    let name = path.file_name().ok_or_else(invalid).map_err(failed())?;
    record::make_private(parent).map_err(failed())?;
    let root = beneath::open_root(parent).map_err(failed())?;
    let ours = clawpen_os::process::identity().map_err(failed())?;
    let attributes = Attributes { mode: 0o700, owner: owner.unwrap_or((ours.uid, ours.gid)) };
    let place = beneath::Place { directory: root.as_fd(), name };
    plain::make_directory(place, attributes).map(drop).map_err(failed())
}

#[cfg(test)]
mod tests;
