//! Capabilities of the calling thread: read, and dropped for good.

use std::io;

/// The five sets, one bit per capability.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CapabilitySets {
    /// In force.
    pub effective: u64,
    /// May be put in force.
    pub permitted: u64,
    /// Kept over exec of a file that has them too.
    pub inheritable: u64,
    /// What an exec can ever give.
    pub bounding: u64,
    /// Kept over every exec.
    pub ambient: u64,
}
impl CapabilitySets {
    /// Whether all five are empty.
    pub const fn is_empty(&self) -> bool {
        self.effective | self.permitted | self.inheritable | self.bounding | self.ambient == 0
    }
}

/// Reads the sets of the calling thread.
pub fn read() -> io::Result<CapabilitySets> { todo!() }
/// Empties all five sets. Fails, and may leave some empty, if the bounding set is not empty and `CAP_SETPCAP` is missing.
pub fn drop_all() -> io::Result<()> { todo!() }
/// Empties all but keeps `kept` (bits) permitted and effective.
pub fn drop_all_but(kept: u64) -> io::Result<()> { todo!() }
/// uid 0 is nobody special from here on, for good. Needs `CAP_SETPCAP`.
pub fn lock_securebits() -> io::Result<()> { todo!() }
