//! Turns the kernel's return values into results.

use std::io;
use std::os::fd::{FromRawFd as _, OwnedFd, RawFd};

/// The value of a system call made through libc, or the error it left in `errno`.
pub(crate) fn check(ret: libc::c_long) -> io::Result<libc::c_long> {
    if ret < 0 { Err(io::Error::last_os_error()) } else { Ok(ret) }
}

/// The descriptor that a system call returned, or the error it left in `errno`.
///
/// # Safety
/// `ret` must be the result of a call that, on success, returns a new descriptor nobody else owns.
pub(crate) unsafe fn check_fd(ret: libc::c_long) -> io::Result<OwnedFd> {
    let fd = RawFd::try_from(check(ret)?).map_err(io::Error::other)?;
    // SAFETY: the caller says that the kernel has just made `fd` and that nothing else owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// An error that carries one of the kernel's numbers.
pub(crate) fn errno(number: i32) -> io::Error {
    io::Error::from_raw_os_error(number)
}
