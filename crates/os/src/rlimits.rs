//! Resource limits.

use std::io;
use std::ptr;

use crate::process::Pid;
use crate::syscall::check;

/// What can be limited per process (or user).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Resource {
    /// Address space, bytes.
    AddressSpace,
    /// Core file, bytes.
    Core,
    /// Processor time, seconds.
    Cpu,
    /// Data segment, bytes.
    Data,
    /// File size, bytes.
    FileSize,
    /// File locks.
    Locks,
    /// Locked memory, bytes.
    LockedMemory,
    /// Message queues, bytes.
    MessageQueue,
    /// Niceness ceiling.
    Nice,
    /// Open descriptors.
    OpenFiles,
    /// Processes of the user.
    Processes,
    /// Resident set, bytes (not enforced by Linux).
    ResidentSet,
    /// Real-time priority.
    RealTimePriority,
    /// Real-time burst, microseconds.
    RealTimeTime,
    /// Queued signals.
    PendingSignals,
    /// Stack, bytes.
    Stack,
}

impl Resource {
    /// All of them.
    pub const ALL: [Self; 16] = [
        Self::AddressSpace,
        Self::Core,
        Self::Cpu,
        Self::Data,
        Self::FileSize,
        Self::Locks,
        Self::LockedMemory,
        Self::MessageQueue,
        Self::Nice,
        Self::OpenFiles,
        Self::Processes,
        Self::ResidentSet,
        Self::RealTimePriority,
        Self::RealTimeTime,
        Self::PendingSignals,
        Self::Stack,
    ];

    /// The name that Docker's `--ulimit` uses (`nofile`, `nproc`, …).
    pub const fn name(self) -> &'static str {
        match self {
            Self::AddressSpace => "as",
            Self::Core => "core",
            Self::Cpu => "cpu",
            Self::Data => "data",
            Self::FileSize => "fsize",
            Self::Locks => "locks",
            Self::LockedMemory => "memlock",
            Self::MessageQueue => "msgqueue",
            Self::Nice => "nice",
            Self::OpenFiles => "nofile",
            Self::Processes => "nproc",
            Self::ResidentSet => "rss",
            Self::RealTimePriority => "rtprio",
            Self::RealTimeTime => "rttime",
            Self::PendingSignals => "sigpending",
            Self::Stack => "stack",
        }
    }

    /// The resource of that name.
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|resource| resource.name() == name)
    }

    /// The kernel's number, the same on every architecture that we build for.
    pub(crate) const fn number(self) -> u32 {
        match self {
            Self::AddressSpace => libc::RLIMIT_AS,
            Self::Core => libc::RLIMIT_CORE,
            Self::Cpu => libc::RLIMIT_CPU,
            Self::Data => libc::RLIMIT_DATA,
            Self::FileSize => libc::RLIMIT_FSIZE,
            Self::Locks => libc::RLIMIT_LOCKS,
            Self::LockedMemory => libc::RLIMIT_MEMLOCK,
            Self::MessageQueue => libc::RLIMIT_MSGQUEUE,
            Self::Nice => libc::RLIMIT_NICE,
            Self::OpenFiles => libc::RLIMIT_NOFILE,
            Self::Processes => libc::RLIMIT_NPROC,
            Self::ResidentSet => libc::RLIMIT_RSS,
            Self::RealTimePriority => libc::RLIMIT_RTPRIO,
            Self::RealTimeTime => libc::RLIMIT_RTTIME,
            Self::PendingSignals => libc::RLIMIT_SIGPENDING,
            Self::Stack => libc::RLIMIT_STACK,
        }
    }
}

/// Soft and hard limit; `None` is unlimited.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limit {
    /// In force; may be raised up to `hard`.
    pub soft: Option<u64>,
    /// The ceiling.
    pub hard: Option<u64>,
}

impl Limit {
    pub(crate) fn to_kernel(self) -> libc::rlimit64 {
        let number = |limit: Option<u64>| limit.unwrap_or(libc::RLIM64_INFINITY);
        libc::rlimit64 { rlim_cur: number(self.soft), rlim_max: number(self.hard) }
    }

    fn from_kernel(limit: libc::rlimit64) -> Self {
        let number = |limit: u64| (limit != libc::RLIM64_INFINITY).then_some(limit);
        Self { soft: number(limit.rlim_cur), hard: number(limit.rlim_max) }
    }
}

/// Reads a limit of this process.
pub fn get(resource: Resource) -> io::Result<Limit> {
    prlimit(0, resource, None)
}

/// Reads a limit of another process.
pub fn get_of(pid: Pid, resource: Resource) -> io::Result<Limit> {
    prlimit(pid.get(), resource, None)
}

/// Sets a limit of this process. Raising `hard` needs `CAP_SYS_RESOURCE` in the first user namespace.
pub fn set(resource: Resource, limit: Limit) -> io::Result<()> {
    prlimit(0, resource, Some(limit.to_kernel())).map(drop)
}

/// Sets a limit if given; gives the one before. Process 0 is this one.
fn prlimit(pid: i32, resource: Resource, limit: Option<libc::rlimit64>) -> io::Result<Limit> {
    let new = limit.as_ref().map_or(ptr::null(), ptr::from_ref);
    let mut old = libc::rlimit64 { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: `new` is null or a whole rlimit64, `old` is one; both outlive the call.
    let ret = unsafe { libc::prlimit64(pid, resource.number(), new, &raw mut old) };
    check(ret.into())?;
    Ok(Limit::from_kernel(old))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_resource_has_a_name_and_a_value() {
        for resource in Resource::ALL {
            assert_eq!(Resource::parse(resource.name()), Some(resource));
            assert_eq!(get(resource).unwrap(), get_of(Pid::this(), resource).unwrap());
        }
        assert_eq!(Resource::parse("NOFILE"), None);
    }

    #[test]
    fn a_limit_that_is_set_is_read_back() {
        // Core files of a test process are no loss.
        let lower = Limit { soft: Some(0), hard: get(Resource::Core).unwrap().hard };
        set(Resource::Core, lower).unwrap();
        assert_eq!(get(Resource::Core).unwrap(), lower);
        let above = Limit { soft: None, hard: Some(0) };
        assert_eq!(set(Resource::Core, above).unwrap_err().raw_os_error(), Some(libc::EINVAL));
    }
}
