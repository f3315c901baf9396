//! Resource limits.

use std::io;

use crate::process::Pid;

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
    pub const ALL: [Self; 16] = [Self::AddressSpace, Self::Core, Self::Cpu, Self::Data, Self::FileSize, Self::Locks, Self::LockedMemory,
        Self::MessageQueue, Self::Nice, Self::OpenFiles, Self::Processes, Self::ResidentSet, Self::RealTimePriority, Self::RealTimeTime,
        Self::PendingSignals, Self::Stack];
    /// The name that Docker's `--ulimit` uses (`nofile`, `nproc`, …).
    pub fn name(self) -> &'static str { todo!() }
    /// The resource of that name.
    pub fn parse(name: &str) -> Option<Self> { todo!() }
}

/// Soft and hard limit; `None` is unlimited.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limit {
    /// In force; may be raised up to `hard`.
    pub soft: Option<u64>,
    /// The ceiling.
    pub hard: Option<u64>,
}

/// Reads a limit of this process.
pub fn get(resource: Resource) -> Limit { todo!() }
/// Reads a limit of another process.
pub fn get_of(pid: Pid, resource: Resource) -> io::Result<Limit> { todo!() }
/// Sets a limit of this process. Raising `hard` needs `CAP_SYS_RESOURCE`.
pub fn set(resource: Resource, limit: Limit) -> io::Result<()> { todo!() }
