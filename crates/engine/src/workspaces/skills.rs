//! Copies the skills of the host into a private workspace, all at once.
//!
//! The new tree is built where the sandbox cannot look and then changes places with the old one: a
//! reader sees the old skills or the new, never half. What was there is kept in the trash if somebody
//! changed it, and for a while if not, because a reader may be in the middle of it.

use std::ffi::OsStr;
use std::io;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::path::Path;

use clawpen_os::beneath::{self, Existing, Kind, Open, Place, Root};
use clawpen_rules::workspace::skills::{
    self, DIRECTORY, FoundSkill, LeftOut, MAX_PER_SOURCE, MAX_SKILL_BYTES, MAX_SKILL_ENTRIES,
    MAX_SKILL_FILE, SKILL_FILE, SkillCopy, SkillPlan, SourceKind,
};

use super::ground::Ground;
use super::plain::{self, Attributes};
use super::record::{Locked, SkillsRecord};
use super::trash::{About, Taken, Trash, TrashKind};
use super::tree::{self, Budget, Stamp};
use super::{SkillsDone, Wanted, WorkspaceError};
use crate::faults;
use clawpen_rules::timestamp::Timestamp;

/// The name of the tree that is being built.
const FRESH: &str = "skills";

/// What a copy needs to know.
pub(super) struct Sync<'a> {
    pub(super) ground: &'a Ground,
    pub(super) wanted: &'a Wanted,
    pub(super) trash: &'a Trash,
    pub(super) now: Timestamp,
}

/// The places that skills come from, open; a missing one is `None`.
pub(super) struct Sources(Vec<Option<OwnedFd>>);

impl Sync<'_> {
    /// Brings the skills up to date. The caller writes the record.
    pub(super) fn run(
        &self,
        locked: &mut Locked,
        notes: &mut Vec<String>,
    ) -> Result<SkillsDone, WorkspaceError> {
        let sources = Sources::open(&self.wanted.sources, notes);
        let Some(source) = sources.stamp(self.wanted, notes) else {
            return Ok(SkillsDone::Unchanged);
        };
        let target = self.target();
        if let Some(known) = &locked.record.skills
            && known.source == source
            && (known.target.is_none() || known.target == target)
        {
            return Ok(SkillsDone::Unchanged);
        }
        let plan = sources.plan(self.wanted, notes);
        let was_placed = locked.record.skills.as_ref().is_some_and(|known| known.target.is_some());
        if plan.copies.is_empty() && !was_placed {
            // Nothing to copy, and what may be there is not ours.
            locked.record.skills = Some(SkillsRecord { source, target: None, before: None });
            return Ok(SkillsDone::Unchanged);
        }
        let count = self.replace(&plan, (&sources, &source), locked, notes)?;
        faults::reached("skills.swapped");
        locked.record.skills = Some(SkillsRecord { source, target: self.target(), before: None });
        Ok(SkillsDone::Replaced(count))
    }

    /// Builds the tree and puts it in place.
    fn replace(
        &self,
        plan: &SkillPlan,
        (sources, source): (&Sources, &str),
        locked: &mut Locked,
        notes: &mut Vec<String>,
    ) -> Result<usize, WorkspaceError> {
        let origin = self.ground.path.join(DIRECTORY);
        let failed = || WorkspaceError::io("replace", &origin);
        let workshop = self.ground.workshop().map_err(failed())?;
        let built = build(workshop.as_fd(), sources, plan, (self.ground.owner, notes));
        let count = match built {
            Ok((_, count)) => count,
            Err(error) => {
                // What was built so far takes room that somebody is short of. Whoever builds next clears it otherwise.
                let _emptied = self.ground.workshop();
                return Err(failed()(error));
            }
        };
        faults::reached("skills.built");
        // Announced first: whichever of the two is there after a kill, we know it as ours.
        let known = locked.record.skills.take();
        let ours: Vec<String> =
            known.into_iter().flat_map(|known| [known.target, known.before]).flatten().collect();
        locked.record.skills = Some(SkillsRecord {
            source: source.to_owned(),
            target: stamp_of(workshop.as_fd(), OsStr::new(FRESH)),
            before: ours.first().cloned(),
        });
        locked.save()?;
        faults::reached("skills.announced");
        let fresh = Place { directory: workshop.as_fd(), name: OsStr::new(FRESH) };
        let place = self.ground.at(OsStr::new(DIRECTORY));
        match beneath::rename(fresh, place, Existing::Keep) {
            Ok(()) => return Ok(count),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(failed()(error)),
        }
        let about = About {
            kind: TrashKind::Skills,
            origin: &origin,
            root: self.ground.path.parent().unwrap_or(Path::new("/")),
            reason: "the skills of the host changed, and these had been edited",
            scope_key: &self.wanted.scope_key,
            agent: &self.wanted.agent,
            skills: None,
            now: self.now,
        };
        let id = self.trash.displace(place, fresh, &about)?;
        faults::reached("skills.trashed");
        let attic = self.ground.attic().map_err(failed())?;
        if self.trash.take_if(&id, &ours, (attic.as_fd(), FRESH))? == Taken::No {
            notes.push(format!(
                "the sandbox's own changes in `{}` are in the trash as `{id}`",
                origin.display()
            ));
        }
        Ok(count)
    }

    /// Stamp of what is there; `None` if there is nothing, or too much to be ours.
    fn target(&self) -> Option<String> {
        stamp_of(self.ground.directory(), OsStr::new(DIRECTORY))
    }
}

/// Whether one of these places holds a skill.
pub(super) fn is_any_in(sources: &[skills::SkillSource]) -> bool {
    let opened = Sources::open(sources, &mut Vec::new());
    opened.0.iter().flatten().any(|directory| {
        let mut found = Vec::new();
        find(directory.as_fd(), 0, 1, &mut found).is_ok() && !found.is_empty()
    })
}

/// Stamp of one directory; `None` if it is none, or cannot be looked through.
pub(super) fn stamp_of(directory: BorrowedFd<'_>, name: &OsStr) -> Option<String> {
    let directory = plain::open_directory(directory, name).ok()?;
    let mut stamp = Stamp::default();
    stamp.tree(directory.as_fd(), 0).ok()?;
    Some(stamp.finish())
}

/// Builds a whole tree in a directory of ours, open to nobody else. A skill that cannot be copied is
/// left out and noted.
pub(super) fn build(
    workshop: BorrowedFd<'_>,
    sources: &Sources,
    plan: &SkillPlan,
    (owner, notes): ((u32, u32), &mut Vec<String>),
) -> io::Result<(OwnedFd, usize)> {
    let attributes = Attributes { mode: 0o755, owner };
    let place = Place { directory: workshop, name: OsStr::new(FRESH) };
    let fresh = plain::make_directory(place, attributes)?;
    let mut count = 0;
    for SkillCopy { skill, target } in &plan.copies {
        let target = OsStr::new(target);
        let mut budget =
            Budget { bytes: MAX_SKILL_BYTES, entries: MAX_SKILL_ENTRIES, passed_over: 0 };
        let copied = sources.skill(skill).map_err(tree::CopyError::from).and_then(|from| {
            let to = Place { directory: fresh.as_fd(), name: target };
            let to = plain::make_directory(to, attributes)?;
            tree::copy(from.as_fd(), to.as_fd(), owner, &mut budget, 0)
        });
        match copied {
            Ok(()) => count += 1,
            // Not the skill's fault: to leave it out would take away what a sandbox has.
            Err(tree::CopyError::Io(error)) if is_of_the_place(&error) => return Err(error),
            Err(error) => {
                tree::remove(fresh.as_fd(), &target.to_string_lossy())?;
                notes.push(format!("skill `{}` was not copied: {error}", skill.name));
            }
        }
        if budget.passed_over > 0 {
            let number = budget.passed_over;
            notes.push(format!(
                "skill `{}`: {number} links or special files were not copied",
                skill.name
            ));
        }
    }
    Ok((fresh, count))
}

/// Whether nothing else could have been written there either.
fn is_of_the_place(error: &io::Error) -> bool {
    use io::ErrorKind::{QuotaExceeded, ReadOnlyFilesystem, StorageFull};
    matches!(error.kind(), StorageFull | QuotaExceeded | ReadOnlyFilesystem)
}

impl Sources {
    pub(super) fn open(sources: &[skills::SkillSource], notes: &mut Vec<String>) -> Self {
        let open = |source: &skills::SkillSource| {
            let root = beneath::open_root(Path::new(&source.root));
            let opened = root.and_then(|root| {
                let below = Path::new(&source.below);
                beneath::open(Root::without_links(root.as_fd()), below, Open::Directory)
            });
            match opened {
                Ok(directory) => Some(descend(directory)),
                Err(error) if error.kind() == io::ErrorKind::NotFound => None,
                // The host's own places may be links: they are the user's, and no agent writes there.
                Err(error)
                    if error.raw_os_error() == Some(libc::ELOOP)
                        && matches!(source.kind, SourceKind::Managed | SourceKind::Personal) =>
                {
                    let path = Path::new(&source.root).join(&source.below);
                    beneath::open_root(&path).ok().map(descend)
                }
                Err(error) => {
                    notes.push(format!("skills in `{}/{}`: {error}", source.root, source.below));
                    None
                }
            }
        };
        Self(sources.iter().map(open).collect())
    }

    /// Stamp of everything that decides what is copied; `None` if it cannot be taken.
    pub(super) fn stamp(&self, wanted: &Wanted, notes: &mut Vec<String>) -> Option<String> {
        let mut stamp = Stamp::default();
        stamp.word(format!("{:?}", wanted.skills).as_bytes());
        for (source, directory) in wanted.sources.iter().zip(&self.0) {
            stamp.word(source.root.as_bytes());
            stamp.word(source.below.as_bytes());
            let Some(directory) = directory else { continue };
            if let Err(error) = stamp.tree(directory.as_fd(), 0) {
                notes.push(format!(
                    "skills in `{}/{}` are left as they are: {error}",
                    source.root, source.below
                ));
                return None;
            }
        }
        Some(stamp.finish())
    }

    /// Finds the skills and plans the copies.
    pub(super) fn plan(&self, wanted: &Wanted, notes: &mut Vec<String>) -> SkillPlan {
        let mut found = Vec::new();
        for (source, directory) in self.0.iter().enumerate() {
            if let Some(directory) = directory
                && let Err(error) = find(directory.as_fd(), source, MAX_PER_SOURCE, &mut found)
            {
                notes.push(format!("cannot look for skills: {error}"));
            }
        }
        let plan = skills::plan(&wanted.skills, found);
        let told = plan.left_out.iter().filter(|(_, why)| *why != LeftOut::Shadowed);
        notes.extend(
            told.map(|(skill, why)| format!("skill `{}` stays outside: {why}", skill.name)),
        );
        plan
    }

    fn skill(&self, skill: &FoundSkill) -> io::Result<OwnedFd> {
        let source = self.0.get(skill.source).and_then(Option::as_ref);
        let source = source.ok_or(io::ErrorKind::NotFound)?;
        plain::open_directory(source.as_fd(), OsStr::new(&skill.directory))
    }
}

/// A place may hold its skills one level deeper, in `skills`.
fn descend(directory: OwnedFd) -> OwnedFd {
    let Ok(nested) = plain::open_directory(directory.as_fd(), OsStr::new(DIRECTORY)) else {
        return directory;
    };
    let mut found = Vec::new();
    match find(nested.as_fd(), 0, 1, &mut found) {
        Ok(()) if !found.is_empty() => nested,
        Ok(()) | Err(_) => directory,
    }
}

/// Directories with a `SKILL.md`, at most so many.
fn find(
    directory: BorrowedFd<'_>,
    source: usize,
    most: usize,
    found: &mut Vec<FoundSkill>,
) -> io::Result<()> {
    let mut count = 0;
    for entry in tree::sorted(directory, 10_000)? {
        let Some(name) = entry.name.to_str().filter(|name| skills::is_looked_at(name)) else {
            continue;
        };
        if !matches!(entry.kind, Kind::Directory | Kind::Unknown) {
            continue;
        }
        let file = Path::new(name).join(SKILL_FILE);
        let Ok(text) = plain::read(directory, &file, MAX_SKILL_FILE) else { continue };
        let own = skills::name_in(&String::from_utf8_lossy(&text), name);
        found.push(FoundSkill { source, directory: name.to_owned(), name: own });
        count += 1;
        if count >= most {
            break;
        }
    }
    Ok(())
}
