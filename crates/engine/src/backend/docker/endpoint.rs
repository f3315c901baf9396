//! Where the engine is: `DOCKER_HOST`, else the Docker context in force, else the usual socket.
//!
//! Takes the variables and Docker's own files (`config.json`, `contexts/`), as its command line does;
//! gives an [`Endpoint`] on this machine, or why there is none. Only this machine will do: the
//! supervisor is reached through a directory that both sides see, and proven by a process number
//! that both sides know. So `ssh://` and other machines are refused here, by name; an address that
//! only looks like this machine (a tunnel, a desktop's virtual machine) is found out by the first
//! mount. An unprotected port is refused too: whoever reaches it is root.

use std::fs::File;
use std::io::{self, Read as _};
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use super::failure::DockerFailure;

const UNIX: &str = "unix://";
const DEFAULT_SOCKET: &str = "/var/run/docker.sock";
/// Docker's own files are small; something larger is none of them.
const FILE_BYTES: u64 = 1024 * 1024;

/// An engine of this machine.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Endpoint {
    Unix(PathBuf),
    /// A port of this machine, proven by certificates on both sides.
    Tls {
        address: String,
        files: TlsFiles,
    },
}

/// The client's certificates.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct TlsFiles {
    pub ca: PathBuf,
    pub certificate: PathBuf,
    pub key: PathBuf,
}

impl TlsFiles {
    fn below(directory: &Path) -> Self {
        // A sandbox outlives this process, and is asked after from other directories.
        let directory = std::path::absolute(directory).unwrap_or_else(|_| directory.to_owned());
        let file = |name| directory.join(name);
        Self { ca: file("ca.pem"), certificate: file("cert.pem"), key: file("key.pem") }
    }
}

impl Endpoint {
    /// The socket, if it is one.
    pub fn socket(&self) -> Option<&Path> {
        match self {
            Self::Unix(socket) => Some(socket),
            Self::Tls { .. } => None,
        }
    }

    /// As a person would write it into `DOCKER_HOST`.
    pub fn text(&self) -> String {
        match self {
            Self::Unix(socket) => format!("{UNIX}{}", socket.display()),
            Self::Tls { address, .. } => format!("tcp://{address}"),
        }
    }

    /// As the registry keeps it: whoever reads it reaches this engine again, whatever its
    /// environment says. A path that is no text, or that depends on where we are, is refused.
    pub fn record(&self) -> Result<String, DockerFailure> {
        match self {
            Self::Unix(socket) => Ok(format!("{UNIX}{}", lasting(socket)?)),
            Self::Tls { address, files: TlsFiles { ca, certificate, key } } => Ok(json!({
                "tls": address,
                "ca": lasting(ca)?,
                "certificate": lasting(certificate)?,
                "key": lasting(key)?,
            })
            .to_string()),
        }
    }

    /// Reads what [`record`](Self::record) gave.
    pub fn recorded(text: &str) -> Result<Self, DockerFailure> {
        let unreadable = || DockerFailure::Recorded { text: text.to_owned() };
        // The first registries had the path alone.
        let path = text.strip_prefix(UNIX).unwrap_or(text);
        if path.starts_with('/') {
            return Ok(Self::Unix(path.into()));
        }
        let tls: Value = serde_json::from_str(text).map_err(|_odd| unreadable())?;
        let field = |name| tls.get(name).and_then(Value::as_str).ok_or_else(unreadable);
        let file = |name| {
            let path = Path::new(field(name)?);
            if path.is_absolute() { Ok(path.to_owned()) } else { Err(unreadable()) }
        };
        let address = field("tls")?.to_owned();
        if !is_this_machine(&address) {
            return Err(unreadable());
        }
        let files =
            TlsFiles { ca: file("ca")?, certificate: file("certificate")?, key: file("key")? };
        Ok(Self::Tls { address, files })
    }
}

/// A path that means the same later and elsewhere.
fn lasting(path: &Path) -> Result<&str, DockerFailure> {
    let refused = || DockerFailure::Local {
        what: "write down the engine's path",
        path: path.to_owned(),
        cause: io::Error::new(io::ErrorKind::InvalidInput, "it is relative, or not UTF-8"),
    };
    path.to_str().filter(|_| path.is_absolute()).ok_or_else(refused)
}

/// Finds the engine as its own command line would.
pub fn locate(variable: impl Fn(&str) -> Option<String>) -> Result<Endpoint, DockerFailure> {
    let set = |name: &str| variable(name).filter(|value| !value.is_empty());
    let config = set("DOCKER_CONFIG").map(PathBuf::from);
    let config = config.or_else(|| set("HOME").map(|home| Path::new(&home).join(".docker")));
    let checks = set("DOCKER_TLS_VERIFY").is_some() || set("DOCKER_TLS").is_some();
    if let Some(host) = set("DOCKER_HOST") {
        let certificates = set("DOCKER_CERT_PATH").map(PathBuf::from).or(config);
        let files = certificates.filter(|_| checks).map(|directory| TlsFiles::below(&directory));
        return read(&host, "DOCKER_HOST", files);
    }
    let (name, origin) = match set("DOCKER_CONTEXT") {
        Some(name) => (Some(name), "DOCKER_CONTEXT"),
        None => (current_context(config.as_deref())?, "the Docker context in force"),
    };
    match (name.filter(|name| name != "default"), config) {
        (None, _) => Ok(Endpoint::Unix(DEFAULT_SOCKET.into())),
        (Some(name), Some(config)) => context(&config, &name, origin),
        (Some(name), None) => Err(DockerFailure::NoContext { name, origin, path: "~".into() }),
    }
}

/// Sockets of engines that are there although nothing leads to them, for a helpful error.
pub(super) fn others(variable: impl Fn(&str) -> Option<String>) -> Vec<PathBuf> {
    let mut known = vec![PathBuf::from(DEFAULT_SOCKET), PathBuf::from("/run/podman/podman.sock")];
    if let Some(runtime) = variable("XDG_RUNTIME_DIR").filter(|value| !value.is_empty()) {
        known.push(Path::new(&runtime).join("docker.sock"));
        known.push(Path::new(&runtime).join("podman/podman.sock"));
    }
    known.retain(|socket| socket.exists());
    known
}

/// An address as `DOCKER_HOST` and contexts write it.
fn read(
    host: &str,
    origin: &'static str,
    files: Option<TlsFiles>,
) -> Result<Endpoint, DockerFailure> {
    let remote = || DockerFailure::Remote { origin, host: host.to_owned() };
    if let Some(path) = host.strip_prefix(UNIX) {
        return if path.starts_with('/') { Ok(Endpoint::Unix(path.into())) } else { Err(remote()) };
    }
    let address = host.strip_prefix("tcp://").or_else(|| host.strip_prefix("https://"));
    let address = address.map(|address| address.trim_end_matches('/')).ok_or_else(remote)?;
    if !is_this_machine(address) {
        return Err(remote());
    }
    match files {
        Some(files) => Ok(Endpoint::Tls { address: address.to_owned(), files }),
        None => Err(DockerFailure::Unprotected { origin, host: host.to_owned() }),
    }
}

/// A loopback address with a port. A name is not looked up: what it leads to could change.
fn is_this_machine(address: &str) -> bool {
    if let Some(port) = address.strip_prefix("localhost:") {
        return port.parse::<u16>().is_ok();
    }
    address.parse::<SocketAddr>().is_ok_and(|address| match address.ip() {
        IpAddr::V4(ip) => ip.is_loopback(),
        IpAddr::V6(ip) => ip.is_loopback(),
    })
}

/// What `docker context use` wrote down.
fn current_context(config: Option<&Path>) -> Result<Option<String>, DockerFailure> {
    let Some(path) = config.map(|config| config.join("config.json")) else { return Ok(None) };
    let Some(file) = json(&path)? else { return Ok(None) };
    Ok(file["currentContext"].as_str().filter(|name| !name.is_empty()).map(str::to_owned))
}

/// The engine that a context leads to. Its files are named after the hash of its name.
fn context(config: &Path, name: &str, origin: &'static str) -> Result<Endpoint, DockerFailure> {
    let id = id(name);
    let path = config.join("contexts/meta").join(&id).join("meta.json");
    let missing = || DockerFailure::NoContext { name: name.to_owned(), origin, path: path.clone() };
    let file = json(&path)?.ok_or_else(missing)?;
    let docker = &file["Endpoints"]["docker"];
    let host = docker["Host"].as_str().ok_or_else(missing)?;
    if docker["SkipTLSVerify"].as_bool() == Some(true) {
        return Err(DockerFailure::Unprotected { origin, host: host.to_owned() });
    }
    let directory = config.join("contexts/tls").join(&id).join("docker");
    let files = directory.is_dir().then(|| TlsFiles::below(&directory));
    read(host, origin, files)
}

fn id(name: &str) -> String {
    Sha256::digest(name.as_bytes()).iter().fold(String::new(), |text, byte| {
        let (high, low) = (byte >> 4, byte & 15);
        let digit = |number: u8| char::from_digit(u32::from(number), 16).unwrap_or('0');
        text + &String::from_iter([digit(high), digit(low)])
    })
}

/// A file of Docker's; `None` if there is none.
fn json(path: &Path) -> Result<Option<Value>, DockerFailure> {
    let failed = |cause| DockerFailure::Local { what: "read", path: path.to_owned(), cause };
    let file = match File::open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        file => file.map_err(failed)?,
    };
    let mut text = String::new();
    file.take(FILE_BYTES).read_to_string(&mut text).map_err(failed)?;
    serde_json::from_str(&text).map(Some).map_err(|cause| failed(cause.into()))
}

#[cfg(test)]
mod tests;
