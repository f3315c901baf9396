//! Where the published ports of a container came out, and what else a browser's container is reached by.
//!
//! Takes a container's id; gives the host's ports as the engine has really bound them. A port that came
//! out anywhere but on the loopback address is a failure: it would be open to other machines.

use std::fs::{self, File, OpenOptions};
use std::io::Write as _;
use std::net::Ipv4Addr;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::PathBuf;

use rustix::fs::{FlockOperation, flock};

use super::engine::Make;
use super::failure::DockerFailure;
use super::find::Sight;
use super::{DockerBackend, request};

/// The one address that ports are published on.
const LOOPBACK: &str = "127.0.0.1";
const LOCK: &str = "browser.lock";

/// Secrets that are kept beside a container, and gone with it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Secret {
    /// The viewer's password.
    Viewer,
    /// The control port's token.
    Control,
}

impl Secret {
    const fn file(self) -> &'static str {
        match self {
            Self::Viewer => "viewer",
            Self::Control => "control",
        }
    }
}

/// What is known of a container from outside.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Published {
    /// The container's ports with the host's, in the order they were asked for.
    pub ports: Vec<(u16, u16)>,
    /// The host's own address on the container's network: whoever comes by a published port comes from
    /// there.
    pub gateway: Option<Ipv4Addr>,
}

impl Published {
    /// The host's port that leads to one of the container's.
    pub fn at(&self, port: u16) -> Option<u16> {
        self.ports.iter().find(|(inside, _)| *inside == port).map(|(_, outside)| *outside)
    }
}

impl DockerBackend {
    /// Looks where the ports of a running container are.
    pub fn published(&self, id: &str, wanted: &[u16]) -> Result<Published, DockerFailure> {
        let found = self.engine.inspect(id)?;
        let settings = found.network_settings.unwrap_or_default();
        let bound = settings.ports.unwrap_or_default();
        let mut ports = Vec::new();
        for port in wanted {
            let missing = DockerFailure::NotPublished { port: *port };
            let bindings = bound.get(&request::tcp(*port)).cloned().flatten().unwrap_or_default();
            let mut outside = None;
            for binding in bindings {
                let address = binding.host_ip.unwrap_or_default();
                if address != LOOPBACK {
                    return Err(DockerFailure::Exposed { port: *port, address });
                }
                outside = binding.host_port.and_then(|text| text.parse::<u16>().ok());
            }
            ports.push((*port, outside.ok_or(missing)?));
        }
        let mut gateways = settings.networks.iter().flatten().filter_map(|(_, network)| {
            network.gateway.as_deref().and_then(|text| text.parse::<Ipv4Addr>().ok())
        });
        Ok(Published { ports, gateway: gateways.next() })
    }

    /// Makes sure of a bridge of this name.
    pub fn ensure_bridge(&self, name: &str) -> Result<(), DockerFailure> {
        match self.engine.network(name) {
            Ok(_) => Ok(()),
            Err(DockerFailure::NoNetwork { .. }) => self.engine.make_network(name),
            Err(failure) => Err(failure),
        }
    }

    /// What an image starts by itself.
    pub fn program(&self, image: &str) -> Result<Vec<String>, DockerFailure> {
        let found = self.engine.image(image)?.config.unwrap_or_default();
        let words = found.entrypoint.into_iter().flatten().chain(found.cmd.into_iter().flatten());
        let words: Vec<String> = words.collect();
        if words.is_empty() {
            return Err(DockerFailure::NoProgram { image: image.to_owned() });
        }
        Ok(words)
    }

    /// Refuses engines where nobody has tried a browser.
    pub fn check_browser(&self) -> Result<(), DockerFailure> {
        match self.maker() {
            Make::Docker => Ok(()),
            Make::Podman => Err(DockerFailure::NoBrowserHere),
        }
    }

    /// What is kept for a container, readable by us alone; nothing if there is none.
    pub fn secret(&self, id: &str, which: Secret) -> Result<Option<String>, DockerFailure> {
        Ok(fs::read_to_string(self.beside(id, which.file())?).ok())
    }

    /// Keeps it, in place of what was kept before.
    pub fn keep_secret(&self, id: &str, which: Secret, secret: &str) -> Result<(), DockerFailure> {
        let path = self.beside(id, which.file())?;
        let beside = path.with_extension("new");
        let write = || {
            let mut file = OpenOptions::new();
            let file = file.write(true).create(true).truncate(true).mode(0o600);
            file.open(&beside)?.write_all(secret.as_bytes())?;
            fs::rename(&beside, &path)
        };
        write().map_err(|cause| DockerFailure::Local { what: "write", path: path.clone(), cause })
    }

    /// Waits until nobody else starts or stops what runs in a container. Over when the file is dropped.
    pub fn alone_with(&self, id: &str) -> Result<File, DockerFailure> {
        let path = self.beside(id, LOCK)?;
        let lock = || {
            let file = File::create(&path)?;
            flock(&file, FlockOperation::LockExclusive)?;
            Ok(file)
        };
        lock().map_err(|cause| DockerFailure::Local { what: "lock", path: path.clone(), cause })
    }

    fn beside(&self, id: &str, name: &str) -> Result<PathBuf, DockerFailure> {
        match self.look(id)? {
            Sight::Ours(seen) => match self.place_of(&seen) {
                Some(place) => Ok(place.private_file(name)),
                None => Err(DockerFailure::Unclear { name: seen.name.clone() }),
            },
            Sight::Absent | Sight::OfReference(_) | Sight::Stranger => {
                Err(DockerFailure::Ended { code: None, said: String::new() })
            }
        }
    }
}
