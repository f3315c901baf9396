//! The way to an engine: a connection for each request, and who is at its other end.
//!
//! A socket's listener has to be root or ourselves: whoever else answers there would be sent what a
//! container is made of, secrets included. A port has to show a certificate of the one authority that
//! the endpoint names; what else this machine believes counts for nothing. Either is found out on every
//! connection, before the first byte of a request. Knows nothing of what is asked.

use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bollard::errors::Error;
use bollard::{API_DEFAULT_VERSION, BollardRequest, Docker};
use hyper::body::Incoming;
use hyper::header::{HOST, HeaderValue};
use hyper::{Response, Uri};
use hyper_util::rt::TokioIo;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, UnixStream};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use super::DEADLINE;
use crate::backend::docker::endpoint::{Endpoint, TlsFiles};
use crate::backend::docker::failure::DockerFailure;

/// What requests call the other end; an engine does not care.
const NOMINAL: &str = "http://engine";

/// How an engine is reached.
#[derive(Debug, Clone)]
pub(super) enum Way {
    Unix(PathBuf),
    Tls { address: String, name: ServerName<'static>, config: Arc<ClientConfig> },
}

/// Somebody listens on the socket who is neither root nor us.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("its other end belongs to another user (id {uid})")]
pub(super) struct Stranger {
    pub(super) uid: u32,
}

/// A connection to who it should be.
pub(super) enum Connection {
    Unix(UnixStream),
    Tls(Box<TlsStream<TcpStream>>),
}

impl Way {
    pub(super) fn to(endpoint: &Endpoint) -> Result<Self, DockerFailure> {
        match endpoint {
            Endpoint::Unix(socket) => Ok(Self::Unix(socket.clone())),
            Endpoint::Tls { address, files } => Ok(Self::Tls {
                address: address.clone(),
                name: server_name(address)?,
                config: Arc::new(config(files)?),
            }),
        }
    }

    /// A client that takes this way for every request.
    pub(super) fn client(&self) -> Result<Docker, Error> {
        let way = self.clone();
        let transport = move |request: BollardRequest| {
            let way = way.clone();
            async move {
                match way.open().await? {
                    Connection::Unix(stream) => send(stream, request).await,
                    Connection::Tls(stream) => send(*stream, request).await,
                }
            }
        };
        let seconds = DEADLINE.as_secs();
        Docker::connect_with_custom_transport(
            transport,
            Some(NOMINAL),
            seconds,
            API_DEFAULT_VERSION,
        )
    }

    /// Connects, and finds out who is there.
    pub(super) async fn open(&self) -> io::Result<Connection> {
        match self {
            Self::Unix(socket) => {
                let stream = UnixStream::connect(socket).await?;
                check_peer(stream.peer_cred()?.uid())?;
                Ok(Connection::Unix(stream))
            }
            Self::Tls { address, name, config } => {
                let stream = TcpStream::connect(address).await?;
                let connector = TlsConnector::from(Arc::clone(config));
                let stream = connector.connect(name.clone(), stream).await?;
                Ok(Connection::Tls(Box::new(stream)))
            }
        }
    }
}

/// The kernel's word on who began to listen.
fn check_peer(uid: u32) -> io::Result<()> {
    if uid == 0 || uid == rustix::process::geteuid().as_raw() {
        return Ok(());
    }
    Err(io::Error::new(io::ErrorKind::PermissionDenied, Stranger { uid }))
}

/// One request on one connection, which ends with the answer's body.
async fn send<S>(stream: S, mut request: BollardRequest) -> Result<Response<Incoming>, Error>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let (mut sender, connection) =
        hyper::client::conn::http1::handshake(TokioIo::new(stream)).await?;
    // Runs while this thread waits for an answer. How it ends is seen in the answer.
    drop(tokio::spawn(connection));
    let path = request.uri().path_and_query().map_or("/", |path| path.as_str());
    *request.uri_mut() =
        Uri::try_from(path).map_err(|cause| Error::HttpClientError { err: cause.into() })?;
    request.headers_mut().insert(HOST, HeaderValue::from_static("engine"));
    Ok(sender.send_request(request).await?)
}

/// Who a port's certificate has to be for. The endpoint has checked that it is this machine.
fn server_name(address: &str) -> Result<ServerName<'static>, DockerFailure> {
    let host = match address.parse::<SocketAddr>() {
        Ok(socket) => return Ok(ServerName::from(socket.ip())),
        Err(_not_numbers) => address.rsplit_once(':').map_or(address, |(host, _)| host),
    };
    ServerName::try_from(host.to_owned()).map_err(|cause| DockerFailure::Local {
        what: "make out the name in",
        path: address.into(),
        cause: io::Error::other(cause),
    })
}

/// Believes the one authority, and shows our certificate.
fn config(files: &TlsFiles) -> Result<ClientConfig, DockerFailure> {
    let TlsFiles { ca, certificate, key } = files;
    let mut authority = RootCertStore::empty();
    for one in certificates(ca)? {
        authority.add(one).map_err(|cause| unreadable(ca, io::Error::other(cause)))?;
    }
    let key_of_ours = PrivateKeyDer::from_pem_slice(&read(key)?)
        .map_err(|cause| unreadable(key, io::Error::other(cause)))?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|cause| unreadable(ca, io::Error::other(cause)))?
        .with_root_certificates(authority)
        .with_client_auth_cert(certificates(certificate)?, key_of_ours)
        .map_err(|cause| unreadable(certificate, io::Error::other(cause)))
}

/// Every certificate of a file, of which there must be one at least.
fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, DockerFailure> {
    let bytes = read(path)?;
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&bytes).collect();
    let found = found.map_err(|cause| unreadable(path, io::Error::other(cause)))?;
    if found.is_empty() {
        let cause = io::Error::new(io::ErrorKind::InvalidData, "there is none in it");
        return Err(unreadable(path, cause));
    }
    Ok(found)
}

fn read(path: &Path) -> Result<Vec<u8>, DockerFailure> {
    std::fs::read(path).map_err(|cause| unreadable(path, cause))
}

fn unreadable(path: &Path, cause: io::Error) -> DockerFailure {
    DockerFailure::Local { what: "read the certificate", path: path.to_owned(), cause }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_is_known_by_its_address_and_a_name_by_itself() {
        let ip = |text: &str| ServerName::from(text.parse::<std::net::IpAddr>().unwrap());
        assert_eq!(server_name("127.0.0.1:2376").unwrap(), ip("127.0.0.1"));
        assert_eq!(server_name("[::1]:2376").unwrap(), ip("::1"));
        let name = ServerName::try_from("localhost").unwrap();
        assert_eq!(server_name("localhost:2376").unwrap(), name);
    }

    #[test]
    fn only_root_and_we_ourselves_are_believed() {
        let own = rustix::process::geteuid().as_raw();
        assert!(check_peer(0).is_ok());
        assert!(check_peer(own).is_ok());
        let refused = check_peer(own + 1).unwrap_err();
        let stranger = refused.get_ref().and_then(|cause| cause.downcast_ref::<Stranger>());
        assert_eq!(stranger, Some(&Stranger { uid: own + 1 }));
    }
}
