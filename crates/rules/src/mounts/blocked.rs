//! Which host paths no sandbox may ever see, whatever the config says.
//!
//! A source is stopped if it is a blocked path, lies below one, or *holds* one: binding `/var`
//! hands out `/var/run/docker.sock` just as well as naming it.

use crate::host_files::{FactError, HostFiles, real_path};
use crate::posix;

/// System places, in the order in which they are named in a refusal. The sockets are below other
/// entries; they stand here so that a source that holds one is told about it.
const SYSTEM: &[&str] = &[
    "/etc",
    "/private/etc",
    "/proc",
    "/sys",
    "/dev",
    "/root",
    "/boot",
    "/run",
    "/var/run",
    "/private/var/run",
    "/run/docker.sock",
    "/var/run/docker.sock",
    "/private/var/run/docker.sock",
    // Who can write a container engine's store owns every container it starts, and so the host.
    "/var/lib/docker",
    "/var/lib/containerd",
    "/var/lib/containers",
    "/var/lib/kubelet",
];

/// Directories that hold every user's home. One home's projects may be bound, all homes may not,
/// even if we know none of them.
const ALL_HOMES: &[&str] = &["/home", "/Users"];

/// What a home keeps its keys in.
const CREDENTIALS: &[&str] =
    &[".aws", ".cargo", ".config", ".docker", ".gnupg", ".netrc", ".npm", ".ssh"];

/// A container engine's socket is the engine: whoever reaches it can start a privileged container.
const ENGINE_SOCKETS: &[&str] = &["docker.sock", "podman.sock", "containerd.sock", "crio.sock"];

/// Facts about this machine that add to the list.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct KnownPlaces {
    /// Home directories of the users we know of.
    pub homes: Vec<String>,
    /// Single paths that must stay outside every sandbox: the config file, the approvals file, our
    /// database, the socket that `DOCKER_HOST` names.
    pub guarded: Vec<String>,
}

/// The blocked paths of this machine, links followed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Blocklist {
    places: Vec<String>,
}

/// How a source touches a blocked path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Touch {
    /// It is that path, or lies below it.
    Targets,
    /// It holds that path.
    Covers,
}

/// A blocked path and how a source touches it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Hit {
    pub(super) touch: Touch,
    pub(super) path: String,
}

impl Blocklist {
    /// Collects the paths. Where a credential directory is a link (`~/.ssh` to an encrypted volume),
    /// the place it leads to is blocked as well. Relative homes and paths are passed over.
    pub fn resolve(known: &KnownPlaces, files: &impl HostFiles) -> Result<Self, FactError> {
        let mut places: Vec<String> = SYSTEM.iter().map(|&path| path.to_owned()).collect();
        let homes = known.homes.iter().filter(|home| home.starts_with('/'));
        let credentials = homes.flat_map(|home| {
            let home = posix::normalize(home);
            CREDENTIALS.iter().map(move |name| posix::join(&home, name))
        });
        let guarded = known.guarded.iter().filter(|path| path.starts_with('/'));
        for path in credentials.chain(guarded.map(|path| posix::normalize(path))) {
            // In a home that we may not search nobody can tell where a link leads; the path itself is
            // blocked all the same.
            if let Ok(real) = real_path(files, &path)
                && real != path
            {
                places.push(real);
            }
            places.push(path);
        }
        Ok(Self { places })
    }

    /// The first blocked path that a normalised, absolute source touches.
    pub(super) fn hit(&self, source: &str) -> Option<Hit> {
        let covers = |path: &str| Hit { touch: Touch::Covers, path: path.to_owned() };
        let targets = |path: &str| Hit { touch: Touch::Targets, path: path.to_owned() };
        if source == "/" {
            return Some(covers("/"));
        }
        if let Some(path) = self.places.iter().find(|path| posix::is_inside(path, source)) {
            return Some(targets(path));
        }
        let mut held = ALL_HOMES.iter().copied().chain(self.places.iter().map(String::as_str));
        held.find(|path| posix::is_inside(source, path)).map(covers)
    }

    /// Says whether a source is named like a container engine's socket.
    pub(super) fn socket(source: &str) -> Option<Hit> {
        let is_socket = ENGINE_SOCKETS.contains(&posix::basename(source));
        is_socket.then(|| Hit { touch: Touch::Targets, path: source.to_owned() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host_files::FileTable;

    #[track_caller]
    fn check(source: &str, expected: Option<(Touch, &str)>) {
        let known = KnownPlaces {
            homes: vec!["/home/ann/".into(), "relative".into(), String::new()],
            guarded: vec!["/srv/state/openclaw.json".into()],
        };
        let files = FileTable::new().with_link("/home/ann/.ssh", "/vault/keys");
        let blocklist = Blocklist::resolve(&known, &files).unwrap();
        let hit = blocklist.hit(source).map(|hit| (hit.touch, hit.path));
        assert_eq!(hit, expected.map(|(touch, path)| (touch, path.to_owned())), "{source}");
    }

    #[test]
    fn a_blocked_path_stops_itself_what_is_below_it_and_what_holds_it() {
        check("/", Some((Touch::Covers, "/")));
        check("/etc", Some((Touch::Targets, "/etc")));
        check("/etc/ssl/certs", Some((Touch::Targets, "/etc")));
        check("/etcx", None);
        check("/var", Some((Touch::Covers, "/var/run")));
        check("/private", Some((Touch::Covers, "/private/etc")));
        check("/var/lib", Some((Touch::Covers, "/var/lib/docker")));
        check("/var/lib/docker/volumes", Some((Touch::Targets, "/var/lib/docker")));
        check("/var/log", None);
    }

    #[test]
    fn homes_may_not_be_bound_whole_but_their_projects_may() {
        check("/home", Some((Touch::Covers, "/home")));
        check("/home/ann", Some((Touch::Covers, "/home/ann/.aws")));
        check("/home/ann/.ssh", Some((Touch::Targets, "/home/ann/.ssh")));
        check("/home/ann/.ssh/id_ed25519", Some((Touch::Targets, "/home/ann/.ssh")));
        check("/home/ann/.sshx", None);
        check("/home/ann/project", None);
        check("/vault", Some((Touch::Covers, "/vault/keys")));
        check("/vault/keys", Some((Touch::Targets, "/vault/keys")));
    }

    #[test]
    fn engine_sockets_and_guarded_files_are_stopped_wherever_they_are() {
        for (source, is_socket) in
            [("/srv/run/docker.sock", true), ("/podman.sock", true), ("/srv/docker.sock.d", false)]
        {
            assert_eq!(Blocklist::socket(source).is_some(), is_socket, "{source}");
        }
        check("/srv/state", Some((Touch::Covers, "/srv/state/openclaw.json")));
        check("/srv/state/workspace", None);
    }
}
