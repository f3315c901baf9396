//! How much of the machine a native pen may use: the config's texts and numbers as the kernel's.

use super::{KeyRefused, Offer, Problem, Support, refuse};
use crate::config::sandbox::{Amount, DockerConfig, Ulimit};
use crate::config::setting::{Origin, Setting};
use crate::js_number;

/// The period over which processor time is shared out, in microseconds; the kernel's own default.
const CPU_PERIOD: u64 = 100_000;
/// Without a configured limit a pen cannot take all process numbers of the machine.
pub(super) const DEFAULT_PIDS: u64 = 4096;

/// The limits of a pen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits {
    pub pids: u64,
    pub pids_by: Keeper,
    /// In bytes.
    pub memory: Option<u64>,
    /// Memory and swap together, in bytes.
    pub memory_and_swap: Option<u64>,
    pub cpu: Cpu,
    pub rlimits: Vec<Rlimit>,
}

/// Who keeps the number of processes down.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Keeper {
    Cgroup,
    /// `RLIMIT_NPROC`, counted in the pen's own user namespace.
    UserNamespace,
}

/// How much processor time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cpu {
    All,
    Quota(CpuQuota),
}

/// Microseconds per period.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CpuQuota {
    pub quota: u64,
    pub period: u64,
}

/// One resource limit of every process in the pen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rlimit {
    pub kind: RlimitKind,
    pub soft: Bound,
    pub hard: Bound,
}

/// A number, or no end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Bound {
    At(u64),
    Unlimited,
}

/// The resource limits Linux has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum RlimitKind {
    Cpu,
    FileSize,
    Data,
    Stack,
    Core,
    Resident,
    Processes,
    OpenFiles,
    LockedMemory,
    AddressSpace,
    FileLocks,
    PendingSignals,
    MessageQueues,
    Nice,
    RealtimePriority,
    RealtimeTime,
}

impl RlimitKind {
    pub const ALL: [Self; 16] = [
        Self::Cpu,
        Self::FileSize,
        Self::Data,
        Self::Stack,
        Self::Core,
        Self::Resident,
        Self::Processes,
        Self::OpenFiles,
        Self::LockedMemory,
        Self::AddressSpace,
        Self::FileLocks,
        Self::PendingSignals,
        Self::MessageQueues,
        Self::Nice,
        Self::RealtimePriority,
        Self::RealtimeTime,
    ];

    /// As the engine and `limits.conf` write it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Cpu => "cpu",
            Self::FileSize => "fsize",
            Self::Data => "data",
            Self::Stack => "stack",
            Self::Core => "core",
            Self::Resident => "rss",
            Self::Processes => "nproc",
            Self::OpenFiles => "nofile",
            Self::LockedMemory => "memlock",
            Self::AddressSpace => "as",
            Self::FileLocks => "locks",
            Self::PendingSignals => "sigpending",
            Self::MessageQueues => "msgqueue",
            Self::Nice => "nice",
            Self::RealtimePriority => "rtprio",
            Self::RealtimeTime => "rttime",
        }
    }

    /// The kernel's number, the same on every architecture we run on.
    pub const fn number(self) -> u8 {
        match self {
            Self::Cpu => 0,
            Self::FileSize => 1,
            Self::Data => 2,
            Self::Stack => 3,
            Self::Core => 4,
            Self::Resident => 5,
            Self::Processes => 6,
            Self::OpenFiles => 7,
            Self::LockedMemory => 8,
            Self::AddressSpace => 9,
            Self::FileLocks => 10,
            Self::PendingSignals => 11,
            Self::MessageQueues => 12,
            Self::Nice => 13,
            Self::RealtimePriority => 14,
            Self::RealtimeTime => 15,
        }
    }
}

pub(super) fn decide(docker: &DockerConfig, offer: Offer, refused: &mut Vec<KeyRefused>) -> Limits {
    let asked = positive(docker.pids_limit.as_ref()).map(|(number, _)| whole(number));
    let memory = amount(docker.memory.as_ref(), offer.memory, refused);
    let memory_and_swap = swap(docker, offer, memory, refused);
    let cpu = match positive(docker.cpus.as_ref()) {
        None => Cpu::All,
        Some((_, origin)) if offer.cpu == Support::No => {
            refused.push(refuse(origin, Problem::NoCgroup));
            Cpu::All
        }
        Some((cpus, _)) => {
            // A thousandth of a processor is the least that the kernel takes.
            let quota = whole(cpus * 100_000.0).max(1000);
            Cpu::Quota(CpuQuota { quota, period: CPU_PERIOD })
        }
    };
    // A group costs up to a millisecond at the start; what nobody asked for is not worth it.
    let pids_by = match offer.pids {
        Support::Yes if asked.is_some() => Keeper::Cgroup,
        Support::Yes | Support::No => Keeper::UserNamespace,
    };
    let pids = asked.unwrap_or(DEFAULT_PIDS);
    Limits { pids, pids_by, memory, memory_and_swap, cpu, rlimits: rlimits(docker, refused) }
}

fn positive(setting: Option<&Setting<f64>>) -> Option<(f64, &Origin)> {
    let setting = setting?;
    (setting.value > 0.0 && setting.value.is_finite()).then_some((setting.value, &setting.origin))
}

fn whole(number: f64) -> u64 {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "the cast saturates at both ends, which is what a limit should do"
    )]
    let number = number.ceil() as u64;
    number
}

/// An amount of memory; zero or less asks for no limit, as for the engine.
fn amount(
    setting: Option<&Setting<Amount>>,
    support: Support,
    refused: &mut Vec<KeyRefused>,
) -> Option<u64> {
    let setting = setting?;
    let (text, bytes) = match &setting.value {
        Amount::Text(text) if text.trim().is_empty() => return None,
        Amount::Text(text) => (text.clone(), bytes(text.trim())),
        Amount::Number(number) if *number <= 0.0 => return None,
        Amount::Number(number) => {
            (js_number::format(*number), number.is_finite().then(|| whole(*number)))
        }
    };
    let problem = match (bytes, support) {
        (Some(0), _) => return None,
        (Some(bytes), Support::Yes) => return Some(bytes),
        (Some(_), Support::No) => Problem::NoCgroup,
        (None, _) => Problem::Amount(text),
    };
    refused.push(refuse(&setting.origin, problem));
    None
}

/// Memory and swap together; `-1` asks for no limit of swap, which is what there is without it.
fn swap(
    docker: &DockerConfig,
    offer: Offer,
    memory: Option<u64>,
    refused: &mut Vec<KeyRefused>,
) -> Option<u64> {
    let setting = docker.memory_swap.as_ref()?;
    if matches!(&setting.value, Amount::Text(text) if text.trim() == "-1") {
        return None;
    }
    let both = amount(Some(setting), offer.swap, refused)?;
    if memory.is_none_or(|memory| memory > both) {
        // A refused `memory` is reason enough.
        if docker.memory.is_none() || memory.is_some() {
            refused.push(refuse(&setting.origin, Problem::SwapWithoutMemory));
        }
        return None;
    }
    Some(both)
}

/// `512m`, `1.5g`, `64kb`, `1073741824`: powers of 1024, any case, as the engine reads them.
pub(super) fn bytes(text: &str) -> Option<u64> {
    let lower = text.trim().to_ascii_lowercase();
    let (number, shift) =
        ["tib", "tb", "t", "gib", "gb", "g", "mib", "mb", "m", "kib", "kb", "k", "b", ""]
            .into_iter()
            .zip([40, 40, 40, 30, 30, 30, 20, 20, 20, 10, 10, 10, 0, 0])
            .find_map(|(unit, shift)| Some((lower.strip_suffix(unit)?.trim_end(), shift)))?;
    if number.is_empty() || !number.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.') {
        return None;
    }
    let number: f64 = number.parse().ok()?;
    Some(whole(number * f64::from(1_u32 << 10).powi(shift / 10)))
}

fn rlimits(docker: &DockerConfig, refused: &mut Vec<KeyRefused>) -> Vec<Rlimit> {
    let mut found = Vec::new();
    for (name, setting) in docker.ulimits.iter().flatten() {
        let name = name.trim();
        if name.is_empty() {
            continue;
        }
        let kind = RlimitKind::ALL.into_iter().find(|kind| kind.as_str() == name);
        match kind.map(|kind| (kind, bounds(&setting.value))) {
            None => {
                let problem = Problem::UnknownLimit(name.to_owned());
                refused.push(refuse(&setting.origin, problem));
            }
            Some((_, Ok(None))) => {}
            Some((kind, Ok(Some((soft, hard))))) => found.push(Rlimit { kind, soft, hard }),
            Some((_, Err(value))) => {
                let problem = Problem::LimitValue { name: name.to_owned(), value };
                refused.push(refuse(&setting.origin, problem));
            }
        }
    }
    found
}

/// Soft and hard; one of them alone counts for both. `Err` holds what cannot be read.
fn bounds(limit: &Ulimit) -> Result<Option<(Bound, Bound)>, String> {
    let of_number = |number: f64| Bound::At(whole(number.max(0.0)));
    let (soft, hard) = match limit {
        Ulimit::Text(text) if text.trim().is_empty() => return Ok(None),
        Ulimit::Text(text) => {
            let text = text.trim();
            let (soft, hard) = text.split_once(':').unwrap_or((text, text));
            match (bound(soft), bound(hard)) {
                (Some(soft), Some(hard)) => (soft, hard),
                _ => return Err(text.to_owned()),
            }
        }
        Ulimit::Number(number) if *number < 0.0 => (Bound::Unlimited, Bound::Unlimited),
        Ulimit::Number(number) => (of_number(*number), of_number(*number)),
        Ulimit::Pair { soft: None, hard: None } => return Ok(None),
        Ulimit::Pair { soft: Some(only), hard: None }
        | Ulimit::Pair { soft: None, hard: Some(only) } => (of_number(*only), of_number(*only)),
        Ulimit::Pair { soft: Some(soft), hard: Some(hard) } => (of_number(*soft), of_number(*hard)),
    };
    if soft > hard {
        let text = |bound| match bound {
            Bound::At(number) => number.to_string(),
            Bound::Unlimited => "unlimited".to_owned(),
        };
        return Err(format!("{}:{}", text(soft), text(hard)));
    }
    Ok(Some((soft, hard)))
}

fn bound(text: &str) -> Option<Bound> {
    match text.trim() {
        "-1" | "unlimited" => Some(Bound::Unlimited),
        number => number.parse().ok().map(Bound::At),
    }
}
