//! Asks a gateway whether it lives, over the network as any client would.

use std::io::{self, Read as _, Write as _};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use clawpen_wire::gateway::TLS_ONLY;

const MOST: usize = 8 * 1024;

/// It did not answer as a gateway does.
#[derive(Debug, thiserror::Error)]
pub enum ProbeError {
    #[error("`{address}` does not answer")]
    Silent {
        address: SocketAddr,
        #[source]
        cause: io::Error,
    },
    #[error("what answers at `{address}` is no gateway")]
    Other { address: SocketAddr },
}

/// Asks; waits no longer than `limit` in all.
pub fn probe(address: SocketAddr, limit: Duration) -> Result<(), ProbeError> {
    let address = reachable(address);
    let answer = ask(address, limit).map_err(|cause| ProbeError::Silent { address, cause })?;
    let answer = String::from_utf8_lossy(&answer);
    let is_live = answer.starts_with("HTTP/1.1 200") && answer.contains("\"status\":\"live\"");
    if is_live || is_tls(&answer) {
        return Ok(());
    }
    Err(ProbeError::Other { address })
}

/// Says whether the gateway there speaks TLS. Whoever asks it without is told so.
pub fn speaks_tls(address: SocketAddr, limit: Duration) -> bool {
    let answer = ask(reachable(address), limit).unwrap_or_default();
    is_tls(&String::from_utf8_lossy(&answer))
}

fn is_tls(answer: &str) -> bool {
    answer.starts_with("HTTP/1.1 400") && answer.ends_with(TLS_ONLY)
}

/// Where to ask whoever listens on every address.
fn reachable(address: SocketAddr) -> SocketAddr {
    let ip = match address.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => IpAddr::V4(Ipv4Addr::LOCALHOST),
        IpAddr::V6(ip) if ip.is_unspecified() => IpAddr::V6(Ipv6Addr::LOCALHOST),
        ip => ip,
    };
    SocketAddr::new(ip, address.port())
}

fn ask(address: SocketAddr, limit: Duration) -> io::Result<Vec<u8>> {
    let start = Instant::now();
    let left = || {
        let left = limit.saturating_sub(start.elapsed());
        if left.is_zero() { Err(io::ErrorKind::TimedOut.into()) } else { Ok::<_, io::Error>(left) }
    };
    let mut stream = TcpStream::connect_timeout(&address, left()?)?;
    stream.set_write_timeout(Some(left()?))?;
    stream.write_all(
        format!("GET /health HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n").as_bytes(),
    )?;
    let mut answer = Vec::new();
    let mut room = [0; 1024];
    while answer.len() < MOST {
        stream.set_read_timeout(Some(left()?))?;
        match stream.read(&mut room)? {
            0 => break,
            count => answer.extend_from_slice(room.get(..count).unwrap_or_default()),
        }
    }
    Ok(answer)
}
