//! Sockets of every kind.

use std::net::{TcpStream, UdpSocket};
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::net::{SocketAddr, UnixStream};
use std::time::Duration;

use crate::system::{call, call3, given, judge};
use crate::{Attack, Outcome};

pub(crate) const ATTACKS: &[Attack] = &[
    Attack {
        name: "abstract-socket",
        about: "reach a host service on an abstract socket",
        run: abstract_socket,
    },
    Attack {
        name: "host-loopback",
        about: "reach a host service on the loopback",
        run: host_loopback,
    },
    Attack {
        name: "host-unix-socket",
        about: "reach a host service on a socket file",
        run: host_unix,
    },
    Attack { name: "docker-socket", about: "reach the container engine", run: docker_socket },
    Attack {
        name: "supervisor-socket",
        about: "find the pen's own control socket",
        run: supervisor_socket,
    },
    Attack {
        name: "vsock",
        about: "open a socket to the hypervisor",
        run: || family(40, libc::SOCK_STREAM),
    },
    Attack {
        name: "packet-socket",
        about: "open a raw network socket",
        run: || family(libc::AF_PACKET, libc::SOCK_RAW),
    },
    Attack { name: "raw-icmp", about: "open a raw IP socket", run: raw_ip },
    Attack {
        name: "alg-socket",
        about: "open a kernel cryptography socket",
        run: || family(38, libc::SOCK_SEQPACKET),
    },
    Attack {
        name: "bluetooth-socket",
        about: "open a Bluetooth socket",
        run: || family(31, libc::SOCK_RAW),
    },
    Attack {
        name: "can-socket",
        about: "open a CAN bus socket",
        run: || family(29, libc::SOCK_RAW),
    },
    Attack { name: "xdp-socket", about: "open an XDP socket", run: || family(44, libc::SOCK_RAW) },
    Attack {
        name: "kcm-socket",
        about: "open a kernel multiplexer socket",
        run: || family(41, libc::SOCK_DGRAM),
    },
    Attack {
        name: "interfaces",
        about: "see a network interface besides the loopback",
        run: interfaces,
    },
    Attack { name: "route-out", about: "have a route to somewhere", run: route_out },
    Attack {
        name: "shared-memory",
        about: "attach to the host's System V shared memory",
        run: shared_memory,
    },
    Attack {
        name: "message-queue",
        about: "open a host's POSIX message queue",
        run: message_queue,
    },
];

fn abstract_socket() -> Outcome {
    let name = match given("CANARY_ABSTRACT") {
        Ok(name) => name,
        Err(outcome) => return outcome,
    };
    let result =
        SocketAddr::from_abstract_name(name).and_then(|address| UnixStream::connect_addr(&address));
    judge("connected to an abstract socket", result)
}

fn host_loopback() -> Outcome {
    let port: u16 = match given("CANARY_PORT") {
        Ok(port) => port.parse().unwrap_or(0),
        Err(outcome) => return outcome,
    };
    let address = std::net::SocketAddr::from(([127, 0, 0, 1], port));
    judge(
        "connected to the host's loopback",
        TcpStream::connect_timeout(&address, Duration::from_secs(2)),
    )
}

fn host_unix() -> Outcome {
    match given("CANARY_SOCKET") {
        Ok(path) => judge("connected to a socket file", UnixStream::connect(path)),
        Err(outcome) => outcome,
    }
}

fn docker_socket() -> Outcome {
    for path in [
        "/var/run/docker.sock",
        "/run/docker.sock",
        "/run/podman/podman.sock",
        "/run/containerd/containerd.sock",
    ] {
        if UnixStream::connect(path).is_ok() {
            return Outcome::Escaped(format!("connected to {path}"));
        }
    }
    // The control stands for an engine: the harness listens there.
    match std::env::var("CANARY_SOCKET") {
        Ok(path) => judge("connected to an engine's socket", UnixStream::connect(path)),
        Err(_) => Outcome::Blocked("no engine's socket is there".to_owned()),
    }
}

/// Any socket that somebody listens on, by the kernel's own list.
fn supervisor_socket() -> Outcome {
    let table = match std::fs::read_to_string("/proc/net/unix") {
        Ok(table) => table,
        Err(error) => return Outcome::Blocked(format!("/proc/net/unix: {error}")),
    };
    for line in table.lines().skip(1) {
        let Some(path) = line.split_whitespace().nth(7) else { continue };
        let connected = match path.strip_prefix('@') {
            Some(name) => SocketAddr::from_abstract_name(name)
                .and_then(|address| UnixStream::connect_addr(&address)),
            None => UnixStream::connect(path),
        };
        if connected.is_ok() {
            return Outcome::Escaped(format!("connected to {path}"));
        }
    }
    Outcome::Blocked("no listening socket can be reached".to_owned())
}

fn family(family: i32, kind: i32) -> Outcome {
    let result =
        call3(libc::SYS_socket, family.unsigned_abs() as usize, kind.unsigned_abs() as usize, 0);
    match result {
        // The kernel does not know the family at all.
        Err(error)
            if error.raw_os_error() == Some(libc::EAFNOSUPPORT)
                && std::env::var_os("CONTROL").is_some() =>
        {
            Outcome::CannotTry(format!("family {family} is not in this kernel"))
        }
        other => judge(&format!("socket(family {family})"), other),
    }
}

fn raw_ip() -> Outcome {
    judge("socket(AF_INET, SOCK_RAW)", call3(libc::SYS_socket, 2, 3, 1))
}

fn interfaces() -> Outcome {
    let table = std::fs::read_to_string("/proc/net/dev").unwrap_or_default();
    let names: Vec<&str> = table
        .lines()
        .skip(2)
        .filter_map(|line| line.split(':').next())
        .map(str::trim)
        .filter(|name| *name != "lo")
        .collect();
    if names.is_empty() {
        Outcome::Blocked("only the loopback".to_owned())
    } else {
        Outcome::Escaped(names.join(" "))
    }
}

/// Choosing a route sends nothing.
fn route_out() -> Outcome {
    let result = UdpSocket::bind("0.0.0.0:0").and_then(|socket| socket.connect("192.0.2.1:9"));
    judge("a route to 192.0.2.1", result)
}

fn shared_memory() -> Outcome {
    let key: usize = match given("CANARY_SHM") {
        Ok(key) => key.parse().unwrap_or(0),
        Err(outcome) => return outcome,
    };
    judge("shmget of the host's segment", call3(libc::SYS_shmget, key, 0, 0))
}

fn message_queue() -> Outcome {
    let name = match given("CANARY_QUEUE") {
        Ok(name) => crate::system::text(&name),
        Err(outcome) => return outcome,
    };
    judge(
        "mq_open of the host's queue",
        call(libc::SYS_mq_open, [crate::system::address(&name), 0, 0, 0, 0, 0]),
    )
}
