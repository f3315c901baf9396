//! One request to one target, over a connection to an address that the rules let through.

use std::io;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use clawpen_rules::web::address::{self, Owner, PublicAddress};
use clawpen_rules::web::limits::Limits;
use clawpen_rules::web::target::{Scheme, Target, TargetHost};
use http_body_util::Empty;
use hyper::body::{Bytes, Incoming};
use hyper::client::conn::http1;
use hyper::header::{ACCEPT, ACCEPT_ENCODING, ACCEPT_LANGUAGE, CONNECTION, HOST, USER_AGENT};
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, RootCertStore};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use super::error::{FetchError, tls_words};

/// Time to look a name up.
const LOOK_UP: Duration = Duration::from_secs(10);
/// Time to connect to one address.
const CONNECT: Duration = Duration::from_secs(5);
/// Time for the TLS greeting.
const GREETING: Duration = Duration::from_secs(10);
/// Time for the head of an answer.
const HEAD: Duration = Duration::from_secs(15);
/// Bytes of the head of an answer.
const HEAD_BYTES: usize = 64 * 1024;
/// Headers of an answer.
const HEADERS: usize = 100;
/// Addresses of one name that are looked at; more are a trick.
const ADDRESSES: usize = 64;
/// Addresses of one name that are tried.
const TRIED: usize = 4;

/// Asks for a page and gives the head of the answer; its body is still to come.
pub(super) async fn ask(
    target: &Target,
    limits: &Limits,
) -> Result<Response<Incoming>, FetchError> {
    let host = || target.host_text().to_owned();
    let addresses = look_up(target).await?;
    let stream = connect(target, &addresses).await?;
    match target.scheme() {
        Scheme::Http => send(stream, target, limits).await,
        Scheme::Https => {
            let name = server_name(target)?;
            let connector = TlsConnector::from(tls()?);
            let greeting = tokio::time::timeout(GREETING, connector.connect(name, stream)).await;
            let stream = greeting
                .map_err(|_late| FetchError::Slow {
                    host: host(),
                    what: "the TLS greeting",
                    limit: GREETING,
                })?
                .map_err(|cause| FetchError::Tls { host: host(), why: tls_words(&cause) })?;
            send(stream, target, limits).await
        }
    }
}

/// Every address of a target, each decided about. One that is refused refuses them all: a name that leads inside too is
/// no name of the public internet.
async fn look_up(target: &Target) -> Result<Vec<PublicAddress>, FetchError> {
    let host = || target.host_text().to_owned();
    let found: Vec<IpAddr> = match target.host() {
        TargetHost::Address(address) => vec![*address],
        TargetHost::Name(name) => {
            let looked = tokio::time::timeout(
                LOOK_UP,
                tokio::net::lookup_host((name.as_str(), target.port())),
            );
            let late =
                |_late| FetchError::Slow { host: host(), what: "looking it up", limit: LOOK_UP };
            let found = looked.await.map_err(late)?;
            let found = found.map_err(|cause| FetchError::Resolve { host: host(), cause })?;
            found.map(|address| address.ip()).take(ADDRESSES + 1).collect()
        }
    };
    if found.is_empty() || found.len() > ADDRESSES {
        return Err(FetchError::NoAddress { host: host() });
    }
    found
        .into_iter()
        .map(|address| {
            let decided = address::decide(address, owner(address));
            decided.map_err(|reason| FetchError::Address { host: host(), address, reason })
        })
        .collect()
}

/// Whether an address is this machine's: only such a one can be bound to. Nothing is sent.
fn owner(address: IpAddr) -> Owner {
    owner_by(UdpSocket::bind(SocketAddr::new(address, 0)).map(drop))
}

/// Only the two answers that say so mean others; whatever else is in the way, such as too many open files, proves
/// nothing.
fn owner_by(bound: io::Result<()>) -> Owner {
    match bound {
        Err(error)
            if error.kind() == io::ErrorKind::AddrNotAvailable
                || error.raw_os_error() == Some(libc::EAFNOSUPPORT) =>
        {
            Owner::Others
        }
        Ok(()) | Err(_) => Owner::ThisMachine,
    }
}

async fn connect(target: &Target, addresses: &[PublicAddress]) -> Result<TcpStream, FetchError> {
    let host = || target.host_text().to_owned();
    let mut last = FetchError::NoAddress { host: host() };
    for address in addresses.iter().take(TRIED) {
        let address = SocketAddr::new(address.ip(), target.port());
        match tokio::time::timeout(CONNECT, TcpStream::connect(address)).await {
            Ok(Ok(stream)) => return Ok(stream),
            Ok(Err(cause)) => last = FetchError::Connect { host: host(), cause },
            Err(_late) => {
                last = FetchError::Slow { host: host(), what: "connecting", limit: CONNECT }
            }
        }
    }
    Err(last)
}

fn server_name(target: &Target) -> Result<ServerName<'static>, FetchError> {
    match target.host() {
        TargetHost::Address(address) => Ok(ServerName::from(*address)),
        TargetHost::Name(name) => {
            ServerName::try_from(name.clone()).map_err(|_invalid| FetchError::Tls {
                host: target.host_text().to_owned(),
                why: "no certificate can be for that name",
            })
        }
    }
}

/// Believes whom this machine believes. Read once: several hundred kilobytes are parsed.
fn tls() -> Result<Arc<ClientConfig>, FetchError> {
    static CONFIG: OnceLock<Arc<ClientConfig>> = OnceLock::new();
    if let Some(config) = CONFIG.get() {
        return Ok(Arc::clone(config));
    }
    let mut roots = RootCertStore::empty();
    // One that cannot be read is one that is not believed.
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    if roots.is_empty() {
        return Err(FetchError::NoAuthorities);
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(FetchError::TlsSetup)?
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(Arc::clone(CONFIG.get_or_init(|| Arc::new(config))))
}

async fn send(
    stream: impl AsyncRead + AsyncWrite + Send + Unpin + 'static,
    target: &Target,
    limits: &Limits,
) -> Result<Response<Incoming>, FetchError> {
    let failed = |cause| FetchError::Http { host: target.host_text().to_owned(), cause };
    let request = Request::get(target.request_path())
        .header(HOST, target.authority())
        .header(USER_AGENT, limits.user_agent.as_str())
        .header(
            ACCEPT,
            "text/markdown, text/html;q=0.9, application/json;q=0.8, text/*;q=0.7, */*;q=0.1",
        )
        .header(ACCEPT_LANGUAGE, "en-US,en;q=0.9")
        .header(ACCEPT_ENCODING, "gzip, deflate")
        .header(CONNECTION, "close")
        .body(Empty::<Bytes>::new())
        .map_err(FetchError::Request)?;
    let mut builder = http1::Builder::new();
    builder.max_buf_size(HEAD_BYTES).max_headers(HEADERS);
    let (mut sender, connection) = builder.handshake(TokioIo::new(stream)).await.map_err(failed)?;
    // Carries bytes until both sides are done; it ends with the runtime at the latest.
    tokio::spawn(connection);
    let answer = tokio::time::timeout(HEAD, sender.send_request(request)).await;
    let late = |_late| FetchError::Slow {
        host: target.host_text().to_owned(),
        what: "the head of its answer",
        limit: HEAD,
    };
    answer.map_err(late)?.map_err(failed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_that_cannot_be_tried_counts_as_ours() {
        for (number, expected) in [
            (libc::EADDRNOTAVAIL, Owner::Others),
            (libc::EAFNOSUPPORT, Owner::Others),
            (libc::EMFILE, Owner::ThisMachine),
            (libc::ENFILE, Owner::ThisMachine),
            (libc::ENOBUFS, Owner::ThisMachine),
            (libc::EACCES, Owner::ThisMachine),
            (libc::EADDRINUSE, Owner::ThisMachine),
        ] {
            assert_eq!(owner_by(Err(io::Error::from_raw_os_error(number))), expected, "{number}");
        }
        assert_eq!(owner_by(Ok(())), Owner::ThisMachine);
    }
}
