//! Decides whether a sandbox is what it was asked to be, from what was observed in it.
//!
//! Takes [`Asked`], made from the same values the sandbox was made from, and [`Observed`]: the
//! kernel's own texts about process 1 as the host reads them, about process 1 as it reads them
//! itself, and about a probe that was confined exactly like a command. [`compare`] lays them side
//! by side, for `explain --live`; [`decide`] refuses on the first look if anything on the floor of
//! the backend does not hold. What was not observed does not hold: nobody is believed.
//!
//! Both sides' texts go through the one reader in [`kernel`].

mod compare;
mod floor;
pub mod kernel;
mod kind;

pub use compare::compare;
pub use floor::{Floor, Need, floor};
pub use kind::FactKind;

use crate::backend::Backend;
use crate::native::ids::Range;
use crate::native::{PenUser, Rlimit, RlimitKind};
use kernel::{Limit, MountFact, Status};

/// What a sandbox was asked to be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Asked {
    pub backend: Backend,
    /// Whom commands run as, inside.
    pub user: PenUser,
    /// Whom the host sees as process 1 where no id map that we made tells it.
    pub outside_uid: Option<u32>,
    pub groups: GroupsAsked,
    /// The id maps; `None` if the sandbox has no user namespace of its own.
    pub ids: Option<MapsAsked>,
    /// Kinds of namespaces that are not the host's, by their names in `/proc/self/ns`.
    pub namespaces: Vec<&'static str>,
    pub mounts: MountsAsked,
    pub interfaces: Interfaces,
    pub rlimits: Vec<Rlimit>,
    pub cgroup: CgroupLimits,
    pub landlock: LandlockAsked,
}

/// The groups of commands besides their user's own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GroupsAsked {
    None,
    /// The kernel forbids whoever has a single id to drop his groups: they stay, as ones that have no
    /// number in the sandbox.
    Nameless,
    /// What the engine finds in the image.
    Given,
}

/// Id maps, as the host sees them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MapsAsked {
    pub uids: Vec<Range>,
    pub gids: Vec<Range>,
}

/// The mounts of a sandbox.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MountsAsked {
    /// These and no others.
    Exactly(Vec<MountAsked>),
    /// These among others, which an engine made.
    AtLeast(Vec<MountAsked>),
}

/// One mount.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MountAsked {
    pub target: String,
    /// Option words that must be there: `ro`, `nosuid`, `nodev`, `noexec`.
    pub flags: Vec<&'static str>,
    pub below: Below,
    pub source: SourceAsked,
}

/// What must be mounted, whatever it was called when the engine took it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SourceAsked {
    /// It has no file of the host as its source, or whoever mounted it held that file open.
    Any,
    /// The file that was checked.
    Is(FileId),
    /// What was checked is no longer there.
    Gone,
}

/// Which file it is, under whatever name: the same numbers inside and outside.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileId {
    pub device: u64,
    pub inode: u64,
}

/// Whether other mounts may lie below a mount.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Below {
    Nothing,
    /// Those that the host has there, with the same flags.
    Submounts,
}

/// The network interfaces of a sandbox.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Interfaces {
    LoopbackOnly,
    /// What the engine gave.
    Given,
}

/// Limits that a cgroup keeps.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CgroupLimits {
    /// In bytes.
    pub memory: Option<u64>,
    pub pids: Option<u64>,
    /// In thousandths of a processor.
    pub cpu_millis: Option<u64>,
}

/// Whether Landlock must be there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LandlockAsked {
    Required,
    /// Where the kernel has it, it must be in force.
    IfPresent,
    /// Everything is open to it: there is no place where it could be seen to refuse.
    OpenEverywhere,
}

/// What was observed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Observed {
    /// The namespaces of the observer, who is on the host.
    pub host_namespaces: Vec<(String, u64)>,
    /// Process 1 as the host sees it; `None` where the engine's processes cannot be looked at.
    pub outside: Option<Outside>,
    /// What the groups that hold process 1 say, which more people may read than the rest of it; `None`
    /// if it is in no group of ours.
    pub cgroup: Option<CgroupLimits>,
    pub inside: Inside,
}

/// Process 1 as the host sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outside {
    pub status: Status,
    pub namespaces: Vec<(String, u64)>,
    pub uid_map: Vec<Range>,
    pub gid_map: Vec<Range>,
    pub mounts: Vec<MountFact>,
}

/// The supervisor's report.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Inside {
    pub supervisor: Process,
    /// A probe, confined like a command.
    pub workload: Process,
    pub uid_map: Vec<Range>,
    pub gid_map: Vec<Range>,
    pub mounts: Vec<MountFact>,
    pub interfaces: Vec<Interface>,
    pub landlock: Landlock,
    pub sealing: Sealing,
}

/// One process, seen by itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Process {
    pub status: Status,
    pub limits: Vec<(RlimitKind, Limit)>,
    pub namespaces: Vec<(String, u64)>,
    pub memory: Memory,
    pub descriptors: Vec<u32>,
}

/// Whether others of the same user may look into a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Memory {
    Open,
    Closed,
}

/// One network interface.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Interface {
    pub name: String,
    pub kind: InterfaceKind,
}

/// What an interface leads to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum InterfaceKind {
    Loopback,
    Other,
}

/// What Landlock does in the sandbox.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Landlock {
    /// Zero: the kernel has none.
    pub abi: u32,
    pub effect: LandlockEffect,
}

/// Tried out, not believed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LandlockEffect {
    Refuses,
    Nothing,
}

/// Process 1 closes itself to observers when they have seen enough.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sealing {
    Before,
    After,
}

/// What is compared.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fact {
    Namespace(&'static str),
    UidMap,
    GidMap,
    User,
    Groups,
    Capabilities,
    NoNewPrivs,
    Seccomp,
    Landlock,
    Mount(String),
    Interfaces,
    Rlimit(RlimitKind),
    Cgroup(&'static str),
    Descriptors,
    Memory,
}

/// One fact, side by side.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Line {
    pub fact: Fact,
    pub need: Need,
    pub asked: String,
    /// From the host; `None` if it cannot be seen from there.
    pub outside: Option<String>,
    /// From inside; `None` if it cannot be seen from there.
    pub inside: Option<String>,
    pub holds: Holds,
}

/// The verdict on one fact.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Holds {
    Yes,
    No,
}

/// A fact that does not hold.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{} is not as asked: asked {asked}, found {}", .fact, .found.join(", "))]
pub struct Mismatch {
    pub fact: Fact,
    pub asked: String,
    /// What was found, with where.
    pub found: Vec<String>,
}

/// Decides whether the sandbox may be used. All facts of the floor must hold.
pub fn decide(asked: &Asked, observed: &Observed) -> Result<Vec<Line>, Vec<Mismatch>> {
    let lines = compare(asked, observed);
    let failed: Vec<Mismatch> = lines
        .iter()
        .filter(|line| line.holds == Holds::No && line.need == Need::Floor)
        .map(|line| {
            let outside = line.outside.iter().map(|text| format!("{text} from outside"));
            let inside = line.inside.iter().map(|text| format!("{text} from inside"));
            let mut found: Vec<String> = outside.chain(inside).collect();
            if found.is_empty() {
                found.push("nothing".to_owned());
            }
            Mismatch { fact: line.fact.clone(), asked: line.asked.clone(), found }
        })
        .collect();
    if failed.is_empty() { Ok(lines) } else { Err(failed) }
}

/// Where something was seen from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Seen {
    Outside,
    Inside,
}

/// Decides whether process 1 has really closed itself to observers.
pub fn decide_sealed(memory: Memory, from: Seen) -> Result<Line, Mismatch> {
    let word = match memory {
        Memory::Closed => "closed",
        Memory::Open => "open",
    };
    let asked = "closed".to_owned();
    let (outside, inside, place) = match from {
        Seen::Outside => (Some(word.to_owned()), None, "outside"),
        Seen::Inside => (None, Some(word.to_owned()), "inside"),
    };
    match memory {
        Memory::Closed => Ok(Line {
            fact: Fact::Memory,
            need: Need::Floor,
            asked,
            outside,
            inside,
            holds: Holds::Yes,
        }),
        Memory::Open => {
            let found = vec![format!("{word} from {place}")];
            Err(Mismatch { fact: Fact::Memory, asked, found })
        }
    }
}

#[cfg(test)]
mod tests;
