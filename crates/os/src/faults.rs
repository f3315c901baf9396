//! What a pen maker must never do, for test builds that prove that it is noticed.
//!
//! Only with the feature `fault-switches`. Each function leaves exactly one protection out.

use std::io;
use std::os::fd::BorrowedFd;

use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType};
use rustix::thread::{
    CapabilitiesSecureBits, CapabilitySet, CapabilitySets, capabilities, set_capabilities,
    set_capabilities_secure_bits,
};

use crate::capabilities::{clear_ambient, drop_bounding, raise_ambient};

/// Moves into a new root and leaves the old one mounted above it.
pub fn pivot_root_and_keep_the_old(new_root: BorrowedFd<'_>) -> io::Result<()> {
    rustix::process::fchdir(new_root)?;
    rustix::process::pivot_root(".", ".")?;
    Ok(rustix::process::chdir("/")?)
}

/// The secure bits of a pen but the one that keeps the ambient set shut.
pub fn lock_securebits_but_ambient() -> io::Result<()> {
    let bits = CapabilitiesSecureBits::NO_ROOT | CapabilitiesSecureBits::NO_SETUID_FIXUP;
    Ok(set_capabilities_secure_bits(bits)?)
}

/// Empties every set but the one called `kept`, and those that it cannot be without.
pub fn drop_all_capabilities_but(kept: &str) -> io::Result<()> {
    let all = capabilities(None)?.permitted;
    let none = CapabilitySet::empty();
    let (effective, permitted, inheritable) = match kept {
        "effective" => (all, all, none),
        "permitted" => (none, all, none),
        "inheritable" => (none, none, all),
        "ambient" => (none, all, all),
        _ => (none, none, none),
    };
    clear_ambient()?;
    // Nothing can be inheritable that the bounding set has not, but it stays so afterwards.
    set_capabilities(None, CapabilitySets { effective: all, permitted: all, inheritable })?;
    if kept == "ambient" {
        raise_ambient(0)?;
    }
    if kept != "bounding" {
        drop_bounding()?;
    }
    Ok(set_capabilities(None, CapabilitySets { effective, permitted, inheritable })?)
}

/// Makes one more network interface. Needs `CAP_NET_ADMIN` over the network namespace.
pub fn add_interface() -> io::Result<()> {
    // An RTM_NEWLINK request: header, ifinfomsg, and the attribute that says of which kind.
    const REQUEST_ACK_CREATE_EXCL: u16 = 0x605;
    let kind = b"veth\0\0\0\0";
    let mut message = Vec::new();
    message.extend(52_u32.to_ne_bytes());
    message.extend(libc::RTM_NEWLINK.to_ne_bytes());
    message.extend(REQUEST_ACK_CREATE_EXCL.to_ne_bytes());
    message.extend([0_u8; 8]);
    message.extend([0_u8; 16]);
    for (length, kind) in [(20_u16, libc::IFLA_LINKINFO), (16, libc::IFLA_INFO_KIND)] {
        message.extend(length.to_ne_bytes());
        message.extend(kind.to_ne_bytes());
    }
    message.extend(kind);
    message.resize(52, 0);
    let socket = rustix::net::socket_with(
        AddressFamily::NETLINK,
        SocketType::RAW,
        SocketFlags::CLOEXEC,
        // The first netlink protocol: interfaces and routes.
        None,
    )?;
    rustix::net::send(&socket, &message, SendFlags::empty())?;
    let mut answer = [0_u8; 64];
    rustix::net::recv(&socket, &mut answer[..], RecvFlags::empty())?;
    match answer.get(16..20).and_then(|bytes| bytes.first_chunk()).map(|b| i32::from_ne_bytes(*b)) {
        Some(0) => Ok(()),
        Some(error) => Err(io::Error::from_raw_os_error(-error)),
        None => Err(io::ErrorKind::UnexpectedEof.into()),
    }
}
