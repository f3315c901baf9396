//! Reads the kernel's texts about a process: `status`, `mountinfo`, `limits`, id maps.
//!
//! What cannot be read is an error, never a default: a missing line must not look like a
//! protection that holds.

use super::FileId;
use crate::native::RlimitKind;
use crate::native::ids::Range;

/// A text that is not as the kernel writes it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum KernelText {
    #[error("`{0}` is missing in the process's status")]
    Missing(&'static str),
    #[error("`{line}` in `{file}` makes no sense")]
    Line { file: &'static str, line: String },
}

/// What `/proc/<pid>/status` says about a process's power.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Status {
    /// Real, effective, saved, file system.
    pub uids: [u32; 4],
    pub gids: [u32; 4],
    pub groups: Vec<u32>,
    pub capabilities: Capabilities,
    pub no_new_privs: bool,
    /// 0 none, 1 strict, 2 filter.
    pub seccomp: u8,
    /// How many filters are stacked; `None` on kernels that do not say.
    pub seccomp_filters: Option<u32>,
}

/// The five sets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Capabilities {
    pub inheritable: u64,
    pub permitted: u64,
    pub effective: u64,
    pub bounding: u64,
    pub ambient: u64,
}

/// One line of `mountinfo`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MountFact {
    /// The kernel's number of the mount.
    pub id: u64,
    pub target: String,
    /// The directory of the file system that is mounted.
    pub root: String,
    /// Options of this mount and of its file system.
    pub options: Vec<String>,
    pub file_system: String,
    /// What is mounted below it elsewhere does not appear here, nor the other way round.
    pub is_private: bool,
    /// The file at its root, where somebody looked. `mountinfo` does not tell.
    pub source: Option<FileId>,
}

/// One line of `limits`; `None` is no limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limit {
    pub soft: Option<u64>,
    pub hard: Option<u64>,
}

impl Capabilities {
    pub const fn are_none(self) -> bool {
        let Self { inheritable, permitted, effective, bounding, ambient } = self;
        inheritable | permitted | effective | bounding | ambient == 0
    }
}

impl Status {
    pub fn parse(text: &str) -> Result<Self, KernelText> {
        let field = |name: &'static str| {
            let mut lines = text.lines();
            lines
                .find_map(|line| line.strip_prefix(name)?.strip_prefix(':').map(str::trim))
                .ok_or(KernelText::Missing(name))
        };
        let bad = |line: &str| KernelText::Line { file: "status", line: line.to_owned() };
        let ids = |name| -> Result<[u32; 4], KernelText> {
            let line = field(name)?;
            let found: Option<Vec<u32>> =
                line.split_whitespace().map(|word| word.parse().ok()).collect();
            found.and_then(|found| found.try_into().ok()).ok_or_else(|| bad(line))
        };
        let set = |name| -> Result<u64, KernelText> {
            let line = field(name)?;
            u64::from_str_radix(line, 16).map_err(|_odd| bad(line))
        };
        let number = |name| -> Result<u32, KernelText> {
            let line = field(name)?;
            line.parse().map_err(|_odd| bad(line))
        };
        let groups = field("Groups")?;
        let groups: Option<Vec<u32>> =
            groups.split_whitespace().map(|word| word.parse().ok()).collect();
        Ok(Self {
            uids: ids("Uid")?,
            gids: ids("Gid")?,
            groups: groups.ok_or_else(|| bad("Groups"))?,
            capabilities: Capabilities {
                inheritable: set("CapInh")?,
                permitted: set("CapPrm")?,
                effective: set("CapEff")?,
                bounding: set("CapBnd")?,
                ambient: set("CapAmb")?,
            },
            no_new_privs: number("NoNewPrivs")? == 1,
            seccomp: u8::try_from(number("Seccomp")?).map_err(|_odd| bad("Seccomp"))?,
            seccomp_filters: number("Seccomp_filters").ok(),
        })
    }
}

/// Reads `uid_map` or `gid_map`.
pub fn id_map(text: &str) -> Result<Vec<Range>, KernelText> {
    text.lines()
        .map(|line| {
            let numbers: Option<Vec<u32>> =
                line.split_whitespace().map(|word| word.parse().ok()).collect();
            match numbers.as_deref() {
                Some(&[inside, outside, count]) => Ok(Range { inside, outside, count }),
                _ => Err(KernelText::Line { file: "id map", line: line.to_owned() }),
            }
        })
        .collect()
}

/// Reads `mountinfo`, in the kernel's order.
pub fn mounts(text: &str) -> Result<Vec<MountFact>, KernelText> {
    text.lines()
        .map(|line| {
            mount(line).ok_or_else(|| KernelText::Line { file: "mountinfo", line: line.to_owned() })
        })
        .collect()
}

fn mount(line: &str) -> Option<MountFact> {
    let (left, right) = line.split_once(" - ")?;
    let mut left = left.split(' ');
    let id = left.next()?.parse().ok()?;
    let mut left = left.skip(2);
    let (root, target, options) = (left.next()?, left.next()?, left.next()?);
    let is_joined = |word: &str| word.starts_with("shared:") || word.starts_with("master:");
    let is_private = !left.any(is_joined);
    let mut right = right.split(' ');
    let file_system = right.next()?.to_owned();
    let super_options = right.nth(1).unwrap_or_default();
    // A read-only file system is read-only through every mount of it.
    let of_super = super_options.split(',').filter(|option| *option == "ro");
    let mut options: Vec<String> = options
        .split(',')
        .chain(of_super)
        .filter(|word| !word.is_empty())
        .map(str::to_owned)
        .collect();
    if options.iter().any(|option| option == "ro") {
        options.retain(|option| option != "rw");
    }
    options.sort();
    options.dedup();
    Some(MountFact {
        id,
        target: unescape(target),
        root: unescape(root),
        options,
        file_system,
        is_private,
        source: None,
    })
}

/// The kernel writes blanks and backslashes as `\040`.
fn unescape(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&first, tail)) = rest.split_first() {
        let octal = tail.first_chunk::<3>().filter(|_| first == b'\\');
        let octal = octal.and_then(|digits| {
            let digits = std::str::from_utf8(digits).ok()?;
            u8::from_str_radix(digits, 8).ok()
        });
        let (byte, skipped) = octal.map_or((first, 0), |byte| (byte, 3));
        bytes.push(byte);
        rest = tail.get(skipped..).unwrap_or_default();
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Reads `limits`.
pub fn limits(text: &str) -> Result<Vec<(RlimitKind, Limit)>, KernelText> {
    let mut found = Vec::new();
    for kind in RlimitKind::ALL {
        let name = title(kind);
        let line = text.lines().find_map(|line| line.strip_prefix(name));
        let Some(line) = line else {
            let line = name.to_owned();
            return Err(KernelText::Line { file: "limits", line });
        };
        let mut words = line.split_whitespace().map(|word| match word {
            "unlimited" => Some(None),
            number => number.parse().ok().map(Some),
        });
        match (words.next().flatten(), words.next().flatten()) {
            (Some(soft), Some(hard)) => found.push((kind, Limit { soft, hard })),
            _ => return Err(KernelText::Line { file: "limits", line: line.to_owned() }),
        }
    }
    Ok(found)
}

/// What `limits` calls it.
const fn title(kind: RlimitKind) -> &'static str {
    match kind {
        RlimitKind::Cpu => "Max cpu time",
        RlimitKind::FileSize => "Max file size",
        RlimitKind::Data => "Max data size",
        RlimitKind::Stack => "Max stack size",
        RlimitKind::Core => "Max core file size",
        RlimitKind::Resident => "Max resident set",
        RlimitKind::Processes => "Max processes",
        RlimitKind::OpenFiles => "Max open files",
        RlimitKind::LockedMemory => "Max locked memory",
        RlimitKind::AddressSpace => "Max address space",
        RlimitKind::FileLocks => "Max file locks",
        RlimitKind::PendingSignals => "Max pending signals",
        RlimitKind::MessageQueues => "Max msgqueue size",
        RlimitKind::Nice => "Max nice priority",
        RlimitKind::RealtimePriority => "Max realtime priority",
        RlimitKind::RealtimeTime => "Max realtime timeout",
    }
}
