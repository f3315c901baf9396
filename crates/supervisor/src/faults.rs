//! Protections that a test can leave out by name, to prove that their absence is noticed.
//!
//! `CLAWPEN_FAULT` lists them, separated by commas. Only in builds with the feature `fault-switches`; in
//! every other build [`is_off`] is `false` before the optimiser starts, and no variable is read.
//!
//! Most are a plan that is misread ([`spoil`]): the maker does something else than the engine asked for, and the
//! engine, which knows what it asked, has to find out. The others are steps left out where they stand.

use std::io;
use std::os::fd::BorrowedFd;
use std::path::Path;

use clawpen_os::capabilities;
use clawpen_os::mounts::{self, MountFlags};
use clawpen_wire::pen::PenSpec;
use clawpen_wire::supervisor::VERSION;

use crate::report::Failure;

#[cfg(feature = "fault-switches")]
mod plans;

/// Whether the test asked for the protection called `name` to be left out.
#[cfg(feature = "fault-switches")]
pub(crate) fn is_off(name: &str) -> bool {
    std::env::var("CLAWPEN_FAULT").is_ok_and(|list| list.split(',').any(|fault| fault == name))
}

/// Never: this build has no switches.
#[cfg(not(feature = "fault-switches"))]
pub(crate) const fn is_off(_: &str) -> bool {
    false
}

/// The newest protocol that this supervisor speaks before it is sealed: an older one if the test asked for that.
#[cfg(feature = "fault-switches")]
pub(crate) fn open_version() -> u16 {
    if is_off("protocol:1") { 1 } else { VERSION }
}

/// The same once it is sealed. No host would make a pen that it does not understand, but a later one may find it.
#[cfg(feature = "fault-switches")]
pub(crate) fn sealed_version() -> u16 {
    if is_off("sealed-protocol:0") { 0 } else { open_version() }
}

/// The newest one.
#[cfg(not(feature = "fault-switches"))]
pub(crate) const fn open_version() -> u16 {
    VERSION
}

/// The newest one.
#[cfg(not(feature = "fault-switches"))]
pub(crate) const fn sealed_version() -> u16 {
    VERSION
}

/// Misreads the plan as the test asked.
#[cfg(feature = "fault-switches")]
pub(crate) fn spoil(spec: &mut PenSpec) {
    plans::spoil(spec);
}

/// Leaves the plan alone.
#[cfg(not(feature = "fault-switches"))]
pub(crate) const fn spoil(_: &mut PenSpec) {}

/// The flags of the mount at `target`: none if the test asked for that one.
#[cfg(feature = "fault-switches")]
pub(crate) fn flags(target: &Path, flags: MountFlags) -> MountFlags {
    if is_off(&format!("mount:{}", target.display())) { MountFlags::NONE } else { flags }
}

/// The flags as they are.
#[cfg(not(feature = "fault-switches"))]
pub(crate) const fn flags(_: &Path, flags: MountFlags) -> MountFlags {
    flags
}

/// Moves into the new root; the old one stays in sight if the test asked for that.
pub(crate) fn pivot_root(root: BorrowedFd<'_>) -> io::Result<()> {
    #[cfg(feature = "fault-switches")]
    if is_off("root") {
        return clawpen_os::faults::pivot_root_and_keep_the_old(root);
    }
    mounts::pivot_root(root)
}

/// One interface more than asked for, if the test asked for it.
#[cfg(feature = "fault-switches")]
pub(crate) fn add_interface() -> Result<(), Failure> {
    use crate::report::Step as _;
    if is_off("interfaces") {
        clawpen_os::faults::add_interface().step("add an interface")?;
    }
    Ok(())
}

/// None more.
#[cfg(not(feature = "fault-switches"))]
#[expect(clippy::unnecessary_wraps, reason = "the same as where it can fail")]
pub(crate) const fn add_interface() -> Result<(), Failure> {
    Ok(())
}

/// Locks the secure bits, but for the ambient set if the test wants to keep it.
pub(crate) fn lock_securebits() -> io::Result<()> {
    #[cfg(feature = "fault-switches")]
    if kept_capabilities() == Some("ambient") {
        return clawpen_os::faults::lock_securebits_but_ambient();
    }
    capabilities::lock_securebits()
}

/// Empties the five sets, but for the one that the test wants to keep.
pub(crate) fn drop_capabilities() -> io::Result<()> {
    #[cfg(feature = "fault-switches")]
    if let Some(kept) = kept_capabilities() {
        return clawpen_os::faults::drop_all_capabilities_but(kept);
    }
    if is_off("capabilities") {
        return Ok(());
    }
    capabilities::drop_all()
}

#[cfg(feature = "fault-switches")]
fn kept_capabilities() -> Option<&'static str> {
    let sets = ["effective", "permitted", "inheritable", "bounding", "ambient"];
    sets.into_iter().find(|set| is_off(&format!("capabilities:{set}")))
}
