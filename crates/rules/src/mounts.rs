//! Which host paths may be bound into a sandbox, and how.
//!
//! [`decide`] takes one entry of `docker.binds`, the policy in force and facts about files; it gives
//! the bind to mount or a [`Refusal`] with every fact of it. [`why`] adds the smallest change that
//! would allow the entry, found by deciding again with the change in place. [`decide_workspace`] holds
//! the sandbox's own directories to the same list. [`MountTable`] says what ends up where.
//! [`decide_bind_entry`] is what can be said while a config is read.
//!
//! Nothing here mounts, and nothing here is final: a link may be swapped after the check, so a
//! backend mounts [`CheckedBind::real_source`] and compares what it got.

mod bind_spec;
mod blocked;
mod isolation;
mod options;
mod refusal;
mod table;
mod why;

#[cfg(test)]
mod tests;

pub use bind_spec::BindSpec;
pub use blocked::{Blocklist, KnownPlaces, Touch};
pub use isolation::{
    Isolation, IsolationRefusal, NamespaceJoin, NetworkRefusal, NetworkUser, ProfileKind,
    ProfileRefusal, decide_browser_network, decide_isolation, decide_network, decide_profile,
};
pub use refusal::{Refusal, Remedy};
pub use table::{Access, Mount, MountSource, MountTable, Seen, TablePlan};
pub use why::{Advice, Change, Why, why};

use crate::config::sandbox::DockerConfig;
use crate::config::setting::Setting;
use crate::host_files::{EntryKind, FactError, HostFiles, real_path};
use crate::posix;
use blocked::Hit;

/// Where the reference mounts its own directories, whatever the configured workdir is.
const RESERVED_TARGETS: [&str; 2] = ["/workspace", "/agent"];

/// Places in the sandbox that no bind may take: the root, and what shows or steers the kernel.
const TAKEN_TARGETS: [&str; 3] = ["/", "/proc", "/sys"];

/// What binds are allowed to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BindPolicy {
    pub sources: Sources,
    pub targets: Targets,
    pub blocklist: Blocklist,
}

/// Where binds may come from, apart from the blocked places.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Sources {
    /// `dangerouslyAllowExternalBindSources` is set.
    Anywhere,
    /// Only from these directories or below. None of them: from nowhere.
    Below(Roots),
}

/// Directories that binds may come from, as written and with links followed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Roots(Vec<String>);

/// Where binds may go.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Targets {
    /// `dangerouslyAllowReservedContainerTargets` is set.
    Anywhere,
    /// Not over the sandbox's own mounts.
    NotOver(ReservedTargets),
}

/// The places of the sandbox's own mounts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReservedTargets(Vec<String>);

/// The verdict on one entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BindDecision {
    Allow(CheckedBind),
    /// A blank entry binds nothing.
    Blank,
    Refuse(Refusal),
}

/// A bind that passed every check. Made by [`decide`] only.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CheckedBind {
    text: String,
    source: String,
    real_source: String,
    target: String,
    access: Access,
}

impl BindPolicy {
    /// The policy of a resolved config. `roots` are the directories that binds may come from: the
    /// mounted workspace and the agent's own.
    pub fn resolve(
        docker: &DockerConfig,
        roots: &[&str],
        known: &KnownPlaces,
        files: &impl HostFiles,
    ) -> Self {
        let roots = Roots::resolve(roots, files);
        let blocklist = Blocklist::resolve(known, files).with_own(&roots.0);
        let sources = match &docker.allow_external_bind_sources {
            Some(Setting { value: true, .. }) => Sources::Anywhere,
            Some(_) | None => Sources::Below(roots),
        };
        let targets = match &docker.allow_reserved_container_targets {
            Some(Setting { value: true, .. }) => Targets::Anywhere,
            Some(_) | None => Targets::NotOver(ReservedTargets::new(&docker.workdir.value)),
        };
        Self { sources, targets, blocklist }
    }

    /// Lets a session see one more directory of its own. No bind may come from there.
    #[must_use]
    pub fn with_own(self, directory: &str, files: &impl HostFiles) -> Self {
        let own = Roots::resolve(&[directory], files);
        Self { blocklist: self.blocklist.and_own(&own.0), ..self }
    }
}

impl CheckedBind {
    /// The entry as written, without the blanks around it.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The source, normalised.
    pub fn source(&self) -> &str {
        &self.source
    }

    /// Where the source's links lead.
    pub fn real_source(&self) -> &str {
        &self.real_source
    }

    /// The place in the sandbox, normalised.
    pub fn target(&self) -> &str {
        &self.target
    }

    pub fn access(&self) -> Access {
        self.access
    }
}

impl Roots {
    /// Takes each absolute root and the place its links lead to. Where nobody can say, only the root
    /// itself counts: a bind from below it is followed as well, and refused for the same reason.
    pub fn resolve(roots: &[&str], files: &impl HostFiles) -> Self {
        let mut known = Vec::new();
        for root in roots.iter().map(|root| root.trim()).filter(|root| root.starts_with('/')) {
            let root = posix::normalize(root);
            let real = real_path(files, &root).ok();
            for path in [Some(root), real].into_iter().flatten() {
                if !known.contains(&path) {
                    known.push(path);
                }
            }
        }
        Self(known)
    }
}

impl ReservedTargets {
    /// The fixed places, and the configured workdir: what is mounted there must not be hidden either.
    pub fn new(workdir: &str) -> Self {
        let mut places: Vec<String> = RESERVED_TARGETS.iter().map(|&place| place.into()).collect();
        let workdir = posix::normalize(workdir);
        if workdir.starts_with('/') && !places.contains(&workdir) {
            places.push(workdir);
        }
        Self(places)
    }
}

/// Decides whether one entry of `binds` may be mounted.
#[must_use]
pub fn decide(entry: &str, policy: &BindPolicy, files: &impl HostFiles) -> BindDecision {
    let bind = entry.trim();
    if bind.is_empty() {
        return BindDecision::Blank;
    }
    match check(bind, policy, files) {
        Ok(checked) => BindDecision::Allow(checked),
        Err(refusal) => BindDecision::Refuse(refusal),
    }
}

/// What is wrong with an entry at first sight, while a config is read: no files are looked at.
pub fn decide_bind_entry(entry: &str) -> Result<(), EntryProblem> {
    let bind = entry.trim();
    if bind.is_empty() {
        return Err(EntryProblem::Blank);
    }
    // A drive letter is not told apart here: `C` is what is named as the source of `C:\data:/data`.
    let source = match bind.find(':') {
        None | Some(0) => bind,
        Some(colon) => bind.get(..colon).unwrap_or(bind).trim(),
    };
    if source.starts_with('/') {
        return Ok(());
    }
    Err(EntryProblem::Refused(Refusal::SourceNotAbsolute {
        bind: bind.to_owned(),
        source: source.to_owned(),
    }))
}

/// Why a directory may not be a sandbox's workspace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WorkspaceRefusal {
    /// It is, lies in, or holds a path that no sandbox may see.
    Shows { path: String },
    /// It could be written, and programs on the host take commands from this file.
    RunsOnHost { path: String },
    /// Where it leads could not be found out.
    Unknown(FactError),
}

/// Decides whether a host directory may be a sandbox's workspace: whoever can write the config file
/// or reach an engine's socket is not in a sandbox. Gives the path without links that was decided on.
pub fn decide_workspace(
    directory: &str,
    access: Access,
    policy: &BindPolicy,
    files: &impl HostFiles,
) -> Result<String, WorkspaceRefusal> {
    let blocklist = policy.blocklist.for_workspaces();
    let shows = |hit: Option<Hit>| match hit {
        Some(hit) => Err(WorkspaceRefusal::Shows { path: hit.path }),
        None => Ok(()),
    };
    let directory = posix::normalize(directory);
    shows(blocklist.hit(&directory))?;
    let real = real_path(files, &directory).map_err(WorkspaceRefusal::Unknown)?;
    shows(blocklist.hit(&real))?;
    shows(Blocklist::socket(&directory))?;
    shows(Blocklist::socket(&real))?;
    shows(Blocklist::socket_in(&real, files).map_err(WorkspaceRefusal::Unknown)?)?;
    match access {
        Access::ReadOnly => Ok(real),
        Access::ReadWrite => match blocklist.start_file(&real) {
            Some(path) => Err(WorkspaceRefusal::RunsOnHost { path }),
            None => Ok(real),
        },
    }
}

/// A bind entry that a config may not contain.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EntryProblem {
    #[error("a bind must not be blank; write it as `source:target`")]
    Blank,
    #[error("{0}")]
    Refused(Refusal),
}

/// The checks in the reference's order, then ours.
fn check(bind: &str, policy: &BindPolicy, files: &impl HostFiles) -> Result<CheckedBind, Refusal> {
    let spec = BindSpec::parse(bind).unwrap_or(BindSpec { source: bind, target: "", options: "" });
    if bind.chars().any(forges_text) {
        return Err(Refusal::ControlCharacter { bind: bind.to_owned() });
    }
    if !spec.source.starts_with('/') {
        return Err(Refusal::SourceNotAbsolute {
            bind: bind.to_owned(),
            source: spec.source.to_owned(),
        });
    }
    let readings = readings(spec.source);
    for source in &readings {
        check_blocked(bind, source, policy.blocklist.hit(source))?;
    }
    check_reserved(bind, spec.target, policy)?;
    for source in &readings {
        check_roots(bind, source, policy)?;
    }
    let unknown = |problem| Refusal::SourceUnknown { bind: bind.to_owned(), problem };
    // Engines clean a path as text, a kernel follows `link/..` through the link: both must be fine.
    let followed = readings.iter().map(String::as_str).chain([spec.source]);
    let mut real_source = None;
    for source in followed {
        let real = real_path(files, source).map_err(unknown)?;
        check_blocked(bind, &real, policy.blocklist.hit(&real))?;
        check_roots(bind, &real, policy)?;
        check_blocked(bind, source, Blocklist::socket(source))?;
        check_blocked(bind, &real, Blocklist::socket(&real))?;
        check_blocked(bind, &real, Blocklist::socket_in(&real, files).map_err(unknown)?)?;
        check_names(bind, &real, files)?;
        if source == posix::normalize(spec.source) {
            real_source = Some(real);
        }
    }
    check_target(bind, spec)?;
    let access = options::check(bind, spec.options)?;
    let source = posix::normalize(spec.source);
    let real_source = real_source.unwrap_or_else(|| source.clone());
    check_start_files(bind, [&source, &real_source], access, &policy.blocklist)?;
    Ok(CheckedBind {
        text: bind.to_owned(),
        real_source,
        source,
        target: posix::normalize(spec.target),
        access,
    })
}

/// Characters that would let one entry look like two lines, or like another path.
fn forges_text(c: char) -> bool {
    c.is_control() || matches!(c, '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// What a source may mean, normalised: with backslashes for slashes and without blanks around it
/// (the reference's reading), and letter by letter (Linux's). Either may be what gets mounted.
fn readings(source: &str) -> Vec<String> {
    let mut readings = vec![posix::normalize(&source.trim().replace('\\', "/"))];
    let literal = posix::normalize(source);
    if !readings.contains(&literal) {
        readings.push(literal);
    }
    readings
}

fn check_blocked(bind: &str, source: &str, hit: Option<Hit>) -> Result<(), Refusal> {
    match hit {
        None => Ok(()),
        Some(hit) => Err(Refusal::Blocked {
            bind: bind.to_owned(),
            source: source.to_owned(),
            touch: hit.touch,
            path: hit.path,
        }),
    }
}

fn check_reserved(bind: &str, target: &str, policy: &BindPolicy) -> Result<(), Refusal> {
    let reserved = match &policy.targets {
        Targets::Anywhere => return Ok(()),
        Targets::NotOver(reserved) => reserved,
    };
    let target = target.trim();
    if !target.starts_with('/') {
        return Ok(());
    }
    let target = posix::normalize(target);
    match reserved.0.iter().find(|place| posix::is_inside(place, &target)) {
        None => Ok(()),
        Some(place) => {
            Err(Refusal::ReservedTarget { bind: bind.to_owned(), reserved: place.clone(), target })
        }
    }
}

fn check_roots(bind: &str, source: &str, policy: &BindPolicy) -> Result<(), Refusal> {
    match &policy.sources {
        Sources::Below(roots) if !roots.0.iter().any(|root| posix::is_inside(root, source)) => {
            Err(Refusal::OutsideRoots {
                bind: bind.to_owned(),
                source: source.to_owned(),
                roots: roots.0.clone(),
            })
        }
        Sources::Below(_) | Sources::Anywhere => Ok(()),
    }
}

/// A file with a second name may belong anywhere, such as to our config.
fn check_names(bind: &str, source: &str, files: &impl HostFiles) -> Result<(), Refusal> {
    let unknown = |problem| Refusal::SourceUnknown { bind: bind.to_owned(), problem };
    match files.entry(source).map_err(unknown)? {
        Some(entry) if entry.kind == EntryKind::File && entry.links > 1 => {
            Err(Refusal::HasOtherNames { bind: bind.to_owned(), source: source.to_owned() })
        }
        Some(_) | None => Ok(()),
    }
}

fn check_start_files(
    bind: &str,
    sources: [&String; 2],
    access: Access,
    blocklist: &Blocklist,
) -> Result<(), Refusal> {
    let found = sources.into_iter().find_map(|source| blocklist.start_file(source));
    match (access, found) {
        (Access::ReadWrite, Some(path)) => Err(Refusal::RunsOnHost { bind: bind.to_owned(), path }),
        (Access::ReadWrite, None) | (Access::ReadOnly, _) => Ok(()),
    }
}

fn check_target(bind: &str, spec: BindSpec<'_>) -> Result<(), Refusal> {
    let target = spec.target.trim();
    if target.is_empty() {
        return Err(Refusal::TargetMissing { bind: bind.to_owned() });
    }
    if !target.starts_with('/') {
        return Err(Refusal::TargetNotAbsolute {
            bind: bind.to_owned(),
            target: target.to_owned(),
        });
    }
    let target = posix::normalize(target);
    let taken = |place: &&&str| match **place {
        "/" => target == "/",
        place => posix::is_inside(place, &target),
    };
    if let Some(place) = TAKEN_TARGETS.iter().find(taken) {
        return Err(Refusal::TargetTaken { bind: bind.to_owned(), target, place });
    }
    let padded = |part: &str| part.trim() != part;
    if padded(spec.source) || padded(spec.target) || padded(spec.options) {
        return Err(Refusal::Padded { bind: bind.to_owned() });
    }
    Ok(())
}
