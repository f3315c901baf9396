//! The little a network namespace needs.

use std::ffi::CStr;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::AsRawFd as _;
use std::ptr;

use rustix::net::{AddressFamily, SocketFlags, SocketType};

use crate::syscall::check;

/// Switches the loopback interface on. Needs `CAP_NET_ADMIN` over the network namespace.
pub fn bring_loopback_up() -> io::Result<()> {
    let socket = rustix::net::socket_with(
        AddressFamily::INET,
        SocketType::DGRAM,
        SocketFlags::CLOEXEC,
        None,
    )?;
    let mut request = MaybeUninit::<libc::ifreq>::zeroed();
    // SAFETY: ifreq is a name and a union of plain numbers; all zeros is a valid one.
    let request = unsafe { request.assume_init_mut() };
    for (to, from) in request.ifr_name.iter_mut().zip(c"lo".to_bytes_with_nul()) {
        *to = libc::c_char::from_ne_bytes([*from]);
    }
    let up = libc::c_short::try_from(libc::IFF_UP | libc::IFF_RUNNING).map_err(io::Error::other)?;
    request.ifr_ifru.ifru_flags = up;
    // SAFETY: the socket is open and `request` is a whole ifreq that outlives the call.
    let ret =
        unsafe { libc::ioctl(socket.as_raw_fd(), libc::SIOCSIFFLAGS, ptr::from_ref(request)) };
    check(ret.into()).map(drop)
}

/// The names of all interfaces of this network namespace.
pub fn interfaces() -> io::Result<Vec<String>> {
    // SAFETY: takes nothing; gives an array that is ours until it is freed below.
    let first = unsafe { libc::if_nameindex() };
    if first.is_null() {
        return Err(io::Error::last_os_error());
    }
    let mut names = Vec::new();
    let mut next = first;
    loop {
        // SAFETY: `next` points into the array, which ends with an entry of index 0 and no name.
        let entry = unsafe { &*next };
        if entry.if_index == 0 || entry.if_name.is_null() {
            break;
        }
        // SAFETY: every entry before the last has a name that ends with null.
        let name = unsafe { CStr::from_ptr(entry.if_name) };
        names.push(name.to_string_lossy().into_owned());
        // SAFETY: this was not the last entry, so there is one more.
        next = unsafe { next.add(1) };
    }
    // SAFETY: `first` came from if_nameindex and is freed once; nothing borrows from it any more.
    unsafe { libc::if_freenameindex(first) };
    Ok(names)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loopback_is_among_the_interfaces() {
        assert!(interfaces().expect("a list").contains(&"lo".to_owned()));
    }
}
