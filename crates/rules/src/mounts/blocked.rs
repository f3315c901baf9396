//! Which host paths no sandbox may ever see, whatever the config says.
//!
//! A source is stopped if it is a blocked path, lies below one, or *holds* one: binding `/var`
//! hands out `/var/run/docker.sock` just as well as naming it.

use crate::host_files::{EntryKind, FactError, HostFiles, real_path};
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

/// What a home keeps its keys in. `.claude` and `.codex` hold the sign-in of other agents, and the
/// hooks that those run on the host.
const CREDENTIALS: &[&str] = &[
    ".aws",
    ".cargo",
    ".claude",
    ".codex",
    ".config",
    ".docker",
    ".git-credentials",
    ".gnupg",
    ".kube",
    ".netrc",
    ".npm",
    ".npmrc",
    ".pypirc",
    ".ssh",
];

/// Files of a home that programs on the host run, or take commands from, the next time they start.
/// Whoever can write one is on the host; to read one is the owner's choice.
const START_FILES: &[&str] = &[
    ".bash_login",
    ".bash_logout",
    ".bash_profile",
    ".bashrc",
    ".gitconfig",
    ".profile",
    ".zlogin",
    ".zprofile",
    ".zshenv",
    ".zshrc",
];

/// A container engine's socket is the engine: whoever reaches it can start a privileged container.
const ENGINE_SOCKETS: &[&str] = &["docker.sock", "podman.sock", "containerd.sock", "crio.sock"];

/// Blocked as a source of binds, but where the state directory of a gateway run by root lies.
const ROOTS_HOME: &str = "/root";

/// The first user id that people get on Linux, and the one that stands for nobody.
const FIRST_PERSON: u32 = 1000;
const NOBODY: u32 = 65_534;

/// Facts about this machine that add to the list.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct KnownPlaces {
    /// Home directories of people. None may be bound whole.
    pub homes: Vec<String>,
    /// Home directories of service accounts. Often plain system directories (`/bin`, `/var/www`), so
    /// only keys in them are blocked.
    pub service_homes: Vec<String>,
    /// Directories full of what belongs to us or to other sandboxes. A session sees its own
    /// directories in them and nothing else.
    pub private: Vec<String>,
    /// Single paths that must stay outside every sandbox: the config files, the approvals file, our
    /// database, the socket that `DOCKER_HOST` names.
    pub guarded: Vec<String>,
}

/// The blocked paths of this machine, links followed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Blocklist {
    places: Vec<Place>,
    /// As in [`KnownPlaces`].
    private: Vec<String>,
    /// What of the private directories is the session's own.
    own: Vec<String>,
    start_files: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Place {
    path: String,
    parents: Parents,
}

/// Whether what holds a blocked path is blocked as well.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Parents {
    Blocked,
    /// Nothing is there to be handed out.
    Free,
}

/// How a source touches a blocked path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Touch {
    /// It is that path, or lies below it.
    Targets,
    /// It holds that path.
    Covers,
}

impl Touch {
    /// What the source does to the path.
    pub(super) const fn verb(self) -> &'static str {
        match self {
            Self::Targets => "reaches into",
            Self::Covers => "holds",
        }
    }
}

/// A blocked path and how a source touches it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Hit {
    pub(super) touch: Touch,
    pub(super) path: String,
}

impl KnownPlaces {
    /// Adds the home of an account of this machine.
    pub fn add_account(&mut self, uid: u32, home: &str) {
        let is_person = uid == 0 || (uid >= FIRST_PERSON && uid != NOBODY);
        let homes = if is_person { &mut self.homes } else { &mut self.service_homes };
        homes.push(home.to_owned());
    }
}

impl Hit {
    fn targets(path: &str) -> Self {
        Self { touch: Touch::Targets, path: path.to_owned() }
    }

    fn covers(path: &str) -> Self {
        Self { touch: Touch::Covers, path: path.to_owned() }
    }
}

impl Blocklist {
    /// Collects the paths. Where a credential directory is a link (`~/.ssh` to an encrypted volume),
    /// the place it leads to is blocked as well. Relative homes and paths are passed over.
    pub fn resolve(known: &KnownPlaces, files: &impl HostFiles) -> Self {
        let always = |path: String| Place { path, parents: Parents::Blocked };
        let mut places: Vec<Place> = SYSTEM.iter().map(|&path| always(path.to_owned())).collect();
        let homes: Vec<String> = absolute(&known.homes).collect();
        let service_homes: Vec<String> = absolute(&known.service_homes).collect();
        let keys = homes.iter().flat_map(|home| names_in(home, CREDENTIALS));
        for path in keys.chain(absolute(&known.guarded)) {
            places.extend(with_real(path, files).map(always));
        }
        for path in service_homes.iter().flat_map(|home| names_in(home, CREDENTIALS)) {
            // Walked from the root first, so that whoever remembers knows what is missing.
            let found: Vec<String> = with_real(path.clone(), files).collect();
            let parents = match files.entry(&path) {
                Ok(None) => Parents::Free,
                // What cannot be looked at may be there.
                Ok(Some(_)) | Err(_) => Parents::Blocked,
            };
            places.extend(found.into_iter().map(|path| Place { path, parents }));
        }
        let private = absolute(&known.private).flat_map(|path| with_real(path, files));
        // A service has no shell that would read its own.
        let start_files = homes
            .iter()
            .flat_map(|home| names_in(home, START_FILES))
            .flat_map(|path| with_real(path, files));
        Self {
            places,
            private: private.collect(),
            own: Vec::new(),
            start_files: start_files.collect(),
        }
    }

    /// Lets a session see these directories of its own, as far as they lie in private ones.
    #[must_use]
    pub(super) fn with_own(mut self, own: &[String]) -> Self {
        let lies_in_private = |own: &&String| {
            self.private.iter().any(|private| private != *own && posix::is_inside(private, own))
        };
        self.own = own.iter().filter(lies_in_private).cloned().collect();
        self
    }

    /// The same with more directories of its own.
    #[must_use]
    pub(super) fn and_own(self, own: &[String]) -> Self {
        let known = self.own.clone();
        let mut list = self.with_own(own);
        list.own.extend(known);
        list
    }

    /// The list that workspaces are held to: root keeps its workspaces at home like everyone else, so
    /// of that home only what every home hides is blocked.
    pub(super) fn for_workspaces(&self) -> Self {
        let mut list = self.clone();
        list.places.retain(|place| place.path != ROOTS_HOME);
        let keys = names_in(ROOTS_HOME, CREDENTIALS);
        list.places.extend(keys.map(|path| Place { path, parents: Parents::Blocked }));
        list
    }

    /// The first blocked path that a normalised, absolute source touches.
    pub(super) fn hit(&self, source: &str) -> Option<Hit> {
        if source == "/" {
            return Some(Hit::covers("/"));
        }
        let below = |path: &&str| posix::is_inside(path, source);
        let mut paths = self.places.iter().map(|place| place.path.as_str());
        if let Some(path) = paths.find(below) {
            return Some(Hit::targets(path));
        }
        let private = self.private.iter().map(String::as_str);
        if let Some(path) = private.clone().find(|path| below(path) && !self.is_own(path, source)) {
            return Some(Hit::targets(path));
        }
        let blocked = self.places.iter().filter(|place| place.parents == Parents::Blocked);
        let blocked = blocked.map(|place| place.path.as_str());
        let mut held = ALL_HOMES.iter().copied().chain(blocked).chain(private);
        let holds = held.find(|path| posix::is_inside(source, path));
        holds.map(Hit::covers).or_else(|| unknown_home(source))
    }

    /// Says whether a source is named like a container engine's socket.
    pub(super) fn socket(source: &str) -> Option<Hit> {
        let is_socket = ENGINE_SOCKETS.contains(&posix::basename(source));
        is_socket.then(|| Hit::targets(source))
    }

    /// The container engine's socket that lies in a source. Deeper ones are found only where they
    /// usually are.
    pub(super) fn socket_in(
        source: &str,
        files: &impl HostFiles,
    ) -> Result<Option<Hit>, FactError> {
        for name in ENGINE_SOCKETS {
            let engine = name.trim_end_matches(".sock");
            for path in [(*name).to_owned(), format!("{engine}/{name}")] {
                let path = posix::join(source, &path);
                let real = real_path(files, &path)?;
                let entry = files.entry(&real)?;
                if entry.is_some_and(|entry| entry.kind == EntryKind::Other) {
                    return Ok(Some(Hit::covers(&path)));
                }
            }
        }
        Ok(None)
    }

    /// The file that a source is, or holds, and that programs on the host take commands from.
    pub(super) fn start_file(&self, source: &str) -> Option<String> {
        let known = self.start_files.iter().find(|path| posix::is_inside(source, path));
        let in_unknown_home = || {
            let is_home = ALL_HOMES.contains(&posix::parent(posix::parent(source)));
            (is_home && START_FILES.contains(&posix::basename(source))).then(|| source.to_owned())
        };
        known.cloned().or_else(in_unknown_home)
    }

    /// Says whether a source in the private directory `private` is the session's.
    fn is_own(&self, private: &str, source: &str) -> bool {
        let mut own =
            self.own.iter().filter(|own| own.as_str() != private && posix::is_inside(private, own));
        own.any(|own| posix::is_inside(own, source))
    }
}

/// Every directory beside the homes is taken for one: not all users are in a file we can read.
fn unknown_home(source: &str) -> Option<Hit> {
    let below = ALL_HOMES.iter().find_map(|homes| {
        let rest = posix::relative(homes, source)?;
        Some((*homes, rest))
    });
    let (homes, rest) = below?;
    let (user, rest) = rest.split_once('/').unwrap_or((rest, ""));
    let home = posix::join(homes, user);
    let name = rest.split('/').next().unwrap_or_default();
    if name.is_empty() {
        return names_in(&home, CREDENTIALS).next().map(|path| Hit::covers(&path));
    }
    CREDENTIALS.contains(&name).then(|| Hit::targets(&posix::join(&home, name)))
}

fn absolute(paths: &[String]) -> impl Iterator<Item = String> {
    paths.iter().filter(|path| path.starts_with('/')).map(|path| posix::normalize(path))
}

fn names_in(home: &str, names: &'static [&str]) -> impl Iterator<Item = String> {
    names.iter().map(move |name| posix::join(home, name))
}

/// Where a path leads, if that is elsewhere, and the path. In a home that we may not search nobody
/// can tell; the path itself counts all the same.
fn with_real(path: String, files: &impl HostFiles) -> impl Iterator<Item = String> {
    let real = real_path(files, &path).ok().filter(|real| *real != path);
    real.into_iter().chain([path])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host_files::FileTable;

    fn files() -> FileTable {
        FileTable::new()
            .with_link("/home/ann/.ssh", "/vault/keys")
            .with_link("/home/ann/.bashrc", "dotfiles/bashrc")
            .with_link("/home/ann/.aws", ".aws")
            .with("/home/ann/dotfiles/bashrc", EntryKind::File)
            .with("/opt/web/.ssh/id", EntryKind::File)
            .with("/srv/run/docker.sock", EntryKind::Other)
            .with("/srv/user/podman/podman.sock", EntryKind::Other)
            .with("/srv/fixtures/docker.sock", EntryKind::File)
            .with_link("/srv/linked/docker.sock", "/srv/run/docker.sock")
    }

    fn blocklist() -> Blocklist {
        let mut known = KnownPlaces {
            homes: vec!["/home/ann/".into(), "relative".into(), String::new(), "/".into()],
            private: vec!["/srv/state".into(), "/srv/state/sandboxes".into()],
            guarded: vec!["/srv/config/openclaw.json".into()],
            ..KnownPlaces::default()
        };
        for (uid, home) in [(0, "/root"), (2, "/bin"), (33, "/var/www"), (34, "/opt/web")] {
            known.add_account(uid, home);
        }
        known.add_account(1001, "/data/bob");
        known.add_account(65_534, "/usr/games");
        let own = ["/srv/state/sandboxes/s-1", "/srv/state/workspace", "/srv/state/sandboxes"];
        Blocklist::resolve(&known, &files()).with_own(&own.map(str::to_owned))
    }

    #[track_caller]
    fn check(source: &str, expected: Option<(Touch, &str)>) {
        let hit = blocklist().hit(source).map(|hit| (hit.touch, hit.path));
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
        check("/home/ann/.kube/config", Some((Touch::Targets, "/home/ann/.kube")));
        check("/home/ann/.sshx", None);
        check("/home/ann/project", None);
        check("/vault", Some((Touch::Covers, "/vault/keys")));
        check("/vault/keys", Some((Touch::Targets, "/vault/keys")));
        check("/data/bob", Some((Touch::Covers, "/data/bob/.aws")));
    }

    #[test]
    fn homes_that_no_list_names_are_homes() {
        check("/home/eve", Some((Touch::Covers, "/home/eve/.aws")));
        check("/home/eve/.claude/x", Some((Touch::Targets, "/home/eve/.claude")));
        check("/Users/eve/.git-credentials", Some((Touch::Targets, "/Users/eve/.git-credentials")));
        check("/home/eve/project/.ssh", None);
        // A home at the root of everything.
        check("/.ssh", Some((Touch::Targets, "/.ssh")));
        check("/.sshx", None);
    }

    #[test]
    fn the_home_of_a_service_may_be_bound_unless_it_holds_keys() {
        check("/bin", None);
        check("/usr/games", None);
        check("/var/www", None);
        check("/var/www/.ssh", Some((Touch::Targets, "/var/www/.ssh")));
        check("/opt", Some((Touch::Covers, "/opt/web/.ssh")));
    }

    #[test]
    fn of_private_directories_a_session_sees_its_own() {
        check("/srv", Some((Touch::Covers, "/srv/config/openclaw.json")));
        for source in ["/srv/state", "/srv/state/.env", "/srv/state/credentials/x"] {
            check(source, Some((Touch::Targets, "/srv/state")));
        }
        check("/srv/state/workspace/src", None);
        check("/srv/state/workspace-bob", Some((Touch::Targets, "/srv/state")));
        check("/srv/state/sandboxes/s-1", None);
        // The directory of all sandboxes is nobody's own.
        check("/srv/state/sandboxes", Some((Touch::Targets, "/srv/state/sandboxes")));
        check("/srv/state/sandboxes/s-2", Some((Touch::Targets, "/srv/state/sandboxes")));
    }

    #[test]
    fn a_workspace_may_lie_in_roots_home_but_not_be_its_keys() {
        let hit = |source| blocklist().for_workspaces().hit(source).map(|hit| hit.path);
        assert_eq!(hit("/root/ws"), None);
        assert_eq!(hit("/root"), Some("/root/.aws".to_owned()));
        assert_eq!(hit("/root/.ssh/x"), Some("/root/.ssh".to_owned()));
        check("/root/ws", Some((Touch::Targets, "/root")));
    }

    #[test]
    fn start_files_are_found_by_name_and_through_links() {
        for (source, expected) in [
            ("/home/ann/.zshrc", Some("/home/ann/.zshrc")),
            ("/home/ann/dotfiles", Some("/home/ann/dotfiles/bashrc")),
            ("/home/eve/.profile", Some("/home/eve/.profile")),
            ("/home/ann/project", None),
            ("/home/ann/project/.profile", None),
            ("/var/www", None),
        ] {
            assert_eq!(blocklist().start_file(source).as_deref(), expected, "{source}");
        }
    }

    #[test]
    fn engine_sockets_and_guarded_files_are_stopped_wherever_they_are() {
        for (source, is_socket) in
            [("/srv/run/docker.sock", true), ("/podman.sock", true), ("/srv/docker.sock.d", false)]
        {
            assert_eq!(Blocklist::socket(source).is_some(), is_socket, "{source}");
        }
        for (source, held) in [
            ("/srv/run", Some("/srv/run/docker.sock")),
            ("/srv/linked", Some("/srv/linked/docker.sock")),
            ("/srv/user", Some("/srv/user/podman/podman.sock")),
            ("/srv/fixtures", None),
            ("/srv", None),
        ] {
            let found = Blocklist::socket_in(source, &files()).unwrap().map(|hit| hit.path);
            assert_eq!(found.as_deref(), held, "{source}");
        }
        check("/srv/config", Some((Touch::Covers, "/srv/config/openclaw.json")));
        check("/srv/config/workspace", None);
    }
}
