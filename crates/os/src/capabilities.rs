//! Capabilities of the calling thread: read, and dropped for good.

use std::io;

use rustix::thread::{
    CapabilitiesSecureBits, CapabilitySet, CapabilitySets as ThreadSets, capabilities,
    set_capabilities, set_capabilities_secure_bits,
};

use crate::syscall::check;

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
pub fn read() -> io::Result<CapabilitySets> {
    let sets = capabilities(None)?;
    let mut bounding = 0;
    let mut ambient = 0;
    for capability in 0..u64::BITS {
        let Some(is_bounding) = is_in_bounding(capability)? else { break };
        bounding |= u64::from(is_bounding) << capability;
        ambient |= u64::from(is_ambient(capability)?) << capability;
    }
    Ok(CapabilitySets {
        effective: sets.effective.bits(),
        permitted: sets.permitted.bits(),
        inheritable: sets.inheritable.bits(),
        bounding,
        ambient,
    })
}

/// Empties all five sets, and checks that they are.
///
/// # Errors
/// `EPERM` if the bounding set is not empty and `CAP_SETPCAP` is missing; nothing is dropped then.
pub fn drop_all() -> io::Result<()> {
    drop_all_but(0)?;
    let left = read()?;
    if left.is_empty() {
        return Ok(());
    }
    Err(io::Error::other(format!("capabilities are left after dropping all: {left:?}")))
}

/// Empties all but keeps `kept` (bits) permitted and effective, as far as they were permitted.
pub fn drop_all_but(kept: u64) -> io::Result<()> {
    // First, because it needs CAP_SETPCAP.
    drop_bounding()?;
    clear_ambient()?;
    let kept = capabilities(None)?.permitted & CapabilitySet::from_bits_retain(kept);
    let inheritable = CapabilitySet::empty();
    Ok(set_capabilities(None, ThreadSets { effective: kept, permitted: kept, inheritable })?)
}

/// Empties all but the bounding set, which needs a power to shrink that others may lack. Without the
/// others, and with no-new-privs, it gives nothing.
pub fn drop_all_but_bounding() -> io::Result<()> {
    clear_ambient()?;
    let none = CapabilitySet::empty();
    let sets = ThreadSets { effective: none, permitted: none, inheritable: none };
    Ok(set_capabilities(None, sets)?)
}

/// Empties the bounding set. Needs `CAP_SETPCAP` unless it is empty.
pub(crate) fn drop_bounding() -> io::Result<()> {
    let mut capability = 0;
    while capability < u64::BITS && drop_from_bounding(capability)? == Known::Yes {
        capability += 1;
    }
    Ok(())
}

/// uid 0 is nobody special from here on, and no set survives a change of ids by itself, for good.
/// Needs `CAP_SETPCAP`.
pub fn lock_securebits() -> io::Result<()> {
    let bits = CapabilitiesSecureBits::NO_ROOT
        | CapabilitiesSecureBits::NO_ROOT_LOCKED
        | CapabilitiesSecureBits::NO_SETUID_FIXUP
        | CapabilitiesSecureBits::NO_SETUID_FIXUP_LOCKED
        | CapabilitiesSecureBits::KEEP_CAPS_LOCKED
        | CapabilitiesSecureBits::NO_CAP_AMBIENT_RAISE
        | CapabilitiesSecureBits::NO_CAP_AMBIENT_RAISE_LOCKED;
    Ok(set_capabilities_secure_bits(bits)?)
}

/// The secure bits of the calling thread, as the kernel numbers them.
pub fn securebits() -> io::Result<u32> {
    Ok(rustix::thread::capabilities_secure_bits()?.bits())
}

/// `None` for a number that this kernel does not know: there are no more after it.
fn is_in_bounding(capability: u32) -> io::Result<Option<bool>> {
    // SAFETY: this option of prctl takes an integer by value.
    let ret = unsafe { libc::prctl(libc::PR_CAPBSET_READ, libc::c_ulong::from(capability)) };
    match check(ret.into()) {
        Ok(present) => Ok(Some(present == 1)),
        Err(error) if error.raw_os_error() == Some(libc::EINVAL) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Whether the kernel knows a capability of a number; there are no more after the first it does not.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Known {
    Yes,
    No,
}

fn drop_from_bounding(capability: u32) -> io::Result<Known> {
    // SAFETY: this option of prctl takes an integer by value.
    let ret = unsafe { libc::prctl(libc::PR_CAPBSET_DROP, libc::c_ulong::from(capability)) };
    match check(ret.into()) {
        Ok(_) => Ok(Known::Yes),
        Err(error) if error.raw_os_error() == Some(libc::EINVAL) => Ok(Known::No),
        // Without the power to drop it, it may be gone already.
        Err(error) => match is_in_bounding(capability)? {
            Some(true) => Err(error),
            Some(false) => Ok(Known::Yes),
            None => Ok(Known::No),
        },
    }
}

fn is_ambient(capability: u32) -> io::Result<bool> {
    ambient(libc::PR_CAP_AMBIENT_IS_SET, capability).map(|present| present == 1)
}

pub(crate) fn clear_ambient() -> io::Result<()> {
    ambient(libc::PR_CAP_AMBIENT_CLEAR_ALL, 0).map(drop)
}

#[cfg(feature = "fault-switches")]
pub(crate) fn raise_ambient(capability: u32) -> io::Result<()> {
    ambient(libc::PR_CAP_AMBIENT_RAISE, capability).map(drop)
}

fn ambient(operation: libc::c_int, capability: u32) -> io::Result<libc::c_long> {
    let operation = libc::c_ulong::from(operation.unsigned_abs());
    let none: libc::c_ulong = 0;
    // SAFETY: this option of prctl takes four integers by value; the unused ones must be 0.
    let ret = unsafe {
        let capability = libc::c_ulong::from(capability);
        libc::prctl(libc::PR_CAP_AMBIENT, operation, capability, none, none)
    };
    check(ret.into())
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;

    /// Capabilities belong to a thread, so a thread that dies afterwards is a safe place to drop them.
    #[test]
    fn all_five_sets_are_empty_after_dropping() {
        let dropping = thread::spawn(|| {
            let before = read().expect("sets");
            drop_all().map(|()| (before, read().expect("sets")))
        });
        match dropping.join().expect("no panic") {
            Ok((_, after)) => assert_eq!(after, CapabilitySets::default()),
            // An ordinary user has a full bounding set and may not empty it.
            Err(error) => {
                assert_eq!(error.raw_os_error(), Some(libc::EPERM));
                assert_ne!(rustix::process::geteuid().as_raw(), 0);
            }
        }
    }

    #[test]
    fn what_is_kept_is_permitted_and_effective_only() {
        const CAP_CHOWN: u64 = 1;
        if rustix::process::geteuid().as_raw() != 0 {
            return;
        }
        let kept = thread::spawn(|| {
            drop_all_but(CAP_CHOWN).expect("root may");
            read().expect("sets")
        });
        let expected = CapabilitySets {
            effective: CAP_CHOWN,
            permitted: CAP_CHOWN,
            ..CapabilitySets::default()
        };
        assert_eq!(kept.join().expect("no panic"), expected);
    }
}
