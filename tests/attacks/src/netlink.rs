//! The kernel's own sockets: what they tell, and what they would change.

use crate::system::{call, call3, given, judge, number_of};
use crate::{Attack, Outcome};

pub(crate) const ATTACKS: &[Attack] = &[
    Attack { name: "netlink-link", about: "change a network interface", run: link_flags },
    Attack {
        name: "netlink-sockets",
        about: "find the host's listening sockets in the kernel's list",
        run: host_sockets,
    },
    Attack { name: "netlink-uevent", about: "listen to the machine's devices", run: || open(15) },
    Attack { name: "netlink-audit", about: "talk to the audit system", run: || open(9) },
    Attack {
        name: "netlink-netfilter",
        about: "talk to the packet filter's rules",
        run: || open(12),
    },
    Attack {
        name: "netlink-connector",
        about: "listen to every process that starts",
        run: || open(11),
    },
    Attack {
        name: "netlink-generic",
        about: "talk to the drivers behind generic netlink",
        run: || open(16),
    },
    Attack { name: "netlink-xfrm", about: "talk to the kernel's IPsec", run: || open(6) },
    Attack { name: "mptcp", about: "open a multipath socket", run: || internet(1, 262) },
    Attack {
        name: "udp-lite",
        about: "open a seldom used internet socket",
        run: || internet(2, 136),
    },
    Attack { name: "sctp", about: "open an SCTP socket", run: || internet(1, 132) },
    Attack {
        name: "packet-mark",
        about: "mark packets past the firewall",
        run: || option(1, 36, &[7, 0, 0, 0]),
    },
    Attack {
        name: "iptables",
        about: "read the firewall's rules by the old interface",
        run: iptables,
    },
];

const NETLINK: usize = 16;
const RAW: usize = 3;

fn open(protocol: usize) -> Outcome {
    absent_or(
        &format!("netlink family {protocol}"),
        call3(libc::SYS_socket, NETLINK, RAW, protocol),
    )
}

fn internet(kind: usize, protocol: usize) -> Outcome {
    absent_or(&format!("internet protocol {protocol}"), call3(libc::SYS_socket, 2, kind, protocol))
}

/// Outside any pen, only the kernel itself can lack a protocol.
fn absent_or(what: &str, result: std::io::Result<usize>) -> Outcome {
    match result {
        Err(error)
            if crate::system::is_control()
                && matches!(
                    error.raw_os_error(),
                    Some(libc::EPROTONOSUPPORT | libc::ESOCKTNOSUPPORT | libc::ENOPROTOOPT)
                ) =>
        {
            Outcome::CannotTry(format!("{what} is not in this kernel"))
        }
        other => judge(what, other),
    }
}

fn option(level: usize, name: usize, value: &[u8]) -> Outcome {
    match call3(libc::SYS_socket, 2, 2, 0) {
        Ok(fd) => {
            let args = [fd, level, name, value.as_ptr() as usize, value.len(), 0];
            judge(&format!("setsockopt({level}, {name})"), call(libc::SYS_setsockopt, args))
        }
        Err(error) => Outcome::Blocked(format!("socket: {error}")),
    }
}

/// `IPT_SO_GET_INFO` for the table called `filter`, on the raw socket that it wants.
fn iptables() -> Outcome {
    let fd = match call3(libc::SYS_socket, 2, RAW, 255) {
        Ok(fd) => fd,
        Err(error) => return Outcome::Blocked(format!("socket: {error}")),
    };
    let mut info = [0u8; 84];
    info[..6].copy_from_slice(b"filter");
    let length = [84u32];
    let args = [fd, 0, 64, info.as_ptr() as usize, length.as_ptr() as usize, 0];
    absent_or("getsockopt(IPT_SO_GET_INFO)", call(libc::SYS_getsockopt, args))
}

/// Sends one message to the kernel and gives the start of its answer.
fn ask(protocol: usize, message: &[u8]) -> std::io::Result<(usize, Vec<u8>)> {
    let fd = call3(libc::SYS_socket, NETLINK, RAW, protocol)?;
    call(libc::SYS_sendto, [fd, message.as_ptr() as usize, message.len(), 0, 0, 0])?;
    Ok((fd, next(fd)?))
}

fn next(fd: usize) -> std::io::Result<Vec<u8>> {
    let mut answer = vec![0u8; 16 << 10];
    let args = [fd, answer.as_mut_ptr() as usize, answer.len(), 0, 0, 0];
    let count = call(libc::SYS_recvfrom, args)?;
    answer.truncate(count);
    Ok(answer)
}

/// A header: length, kind, flags, and no sender.
fn header(length: u32, kind: u16, flags: u16) -> Vec<u8> {
    let mut bytes = length.to_ne_bytes().to_vec();
    bytes.extend(kind.to_ne_bytes());
    bytes.extend(flags.to_ne_bytes());
    bytes.extend([0; 8]);
    bytes
}

/// Asks to switch the loopback on, which it is: outside nothing changes.
fn link_flags() -> Outcome {
    let mut message = header(32, 16, 5); // RTM_NEWLINK, acknowledged
    message.extend([0, 0, 0, 0]);
    for word in [1u32, 1, 1] {
        message.extend(word.to_ne_bytes()); // interface 1, up, of the flags only "up"
    }
    let answer = match ask(0, &message) {
        Ok((_, answer)) => answer,
        Err(error) => return Outcome::Blocked(error.to_string()),
    };
    let errno = answer.get(16..20).and_then(|word| Some(i32::from_ne_bytes(word.try_into().ok()?)));
    match errno {
        Some(0) => Outcome::Escaped("changed the loopback's flags".to_owned()),
        Some(errno) => Outcome::Blocked(std::io::Error::from_raw_os_error(-errno).to_string()),
        None => Outcome::Blocked("no answer".to_owned()),
    }
}

/// All listening TCP sockets, by `SOCK_DIAG_BY_FAMILY`; looked through for the host's.
fn host_sockets() -> Outcome {
    let port: u16 = match given("CANARY_PORT") {
        Ok(port) => port.parse().unwrap_or(0),
        Err(outcome) => return outcome,
    };
    let mut message = header(72, 20, 0x301);
    message.extend([2, 6, 0, 0]); // IPv4, TCP
    message.extend((1u32 << 10).to_ne_bytes()); // those that listen
    message.extend([0; 48]);
    let (fd, mut answer) = match ask(4, &message) {
        Ok(first) => first,
        Err(error) => return Outcome::Blocked(error.to_string()),
    };
    loop {
        let mut rest = answer.as_slice();
        while let Some(length) = rest.first_chunk().map(|word| u32::from_ne_bytes(*word) as usize) {
            let kind = rest.get(4..6).map(|kind| u16::from_ne_bytes([kind[0], kind[1]]));
            if kind != Some(20) || length < 24 {
                return Outcome::Blocked("it is not listed".to_owned());
            }
            // Behind the header: family, state, two numbers, then the source port.
            if rest.get(20..22) == Some(port.to_be_bytes().as_slice()) {
                return Outcome::Escaped(format!("found the host's port {port}"));
            }
            rest = rest.get(length.next_multiple_of(4)..).unwrap_or_default();
        }
        answer = match next(fd) {
            Ok(more) => more,
            Err(error) => return Outcome::Blocked(error.to_string()),
        };
        if answer.is_empty() {
            return Outcome::Blocked(format!("the list on {} ended", number_of(0)));
        }
    }
}
