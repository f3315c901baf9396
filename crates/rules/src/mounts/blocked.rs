//! Which host paths no sandbox may ever see, whatever the config says.
//!
//! A source is stopped if it is a blocked path, lies below one, or *holds* one: binding `/var`
//! hands out `/var/run/docker.sock` just as well as naming it.

use crate::host_files::{Entry, EntryKind, FactError, HostFiles, real_path};
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
    start_files: Vec<Place>,
}

/// Something that is blocked with all that lies below it.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Place {
    /// This path, and what holds it.
    One(String),
    /// These names in a directory, and what holds one of `held`. Several hundred paths on a machine of a few
    /// accounts, so none is written down.
    Names { directory: String, names: &'static [&'static str], held: Held },
}

/// Which names of a directory are there to be handed out with it.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Held {
    All,
    These(Vec<&'static str>),
}

impl Place {
    /// The path that `source` is, or lies below.
    fn over(&self, source: &str) -> Option<String> {
        match self {
            Self::One(path) => posix::is_inside(path, source).then(|| path.clone()),
            Self::Names { directory, names, held: _ } => {
                let name = posix::relative(directory, source)?.split('/').next()?;
                names.contains(&name).then(|| posix::join(directory, name))
            }
        }
    }

    /// The path that `source` is, or holds.
    fn held_by(&self, source: &str) -> Option<String> {
        match self {
            Self::One(path) => posix::is_inside(source, path).then(|| path.clone()),
            Self::Names { directory, names, held } => {
                let held = match held {
                    Held::All => names,
                    Held::These(held) => held.as_slice(),
                };
                let name = if posix::is_inside(source, directory) {
                    held.first()
                } else {
                    let name = posix::relative(directory, source)?;
                    held.iter().find(|held| **held == name)
                };
                name.map(|name| posix::join(directory, name))
            }
        }
    }
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
        let one = |path: &&str| Place::One((*path).to_owned());
        let mut places: Vec<Place> = SYSTEM.iter().map(one).collect();
        let homes: Vec<String> = absolute(&known.homes).collect();
        let mut start_files = Vec::new();
        for home in &homes {
            look_in(home, CREDENTIALS, Owner::Person, files, &mut places);
            // A service has no shell that would read its own.
            look_in(home, START_FILES, Owner::Person, files, &mut start_files);
        }
        for path in absolute(&known.guarded) {
            places.extend(with_real(path, files).map(Place::One));
        }
        for home in absolute(&known.service_homes) {
            look_in(&home, CREDENTIALS, Owner::Service, files, &mut places);
        }
        let private = absolute(&known.private).flat_map(|path| with_real(path, files)).collect();
        Self { places, private, own: Vec::new(), start_files }
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
        list.places.retain(|place| !matches!(place, Place::One(path) if path == ROOTS_HOME));
        let (directory, names) = (ROOTS_HOME.to_owned(), CREDENTIALS);
        list.places.push(Place::Names { directory, names, held: Held::All });
        list
    }

    /// The first blocked path that a normalised, absolute source touches.
    pub(super) fn hit(&self, source: &str) -> Option<Hit> {
        if source == "/" {
            return Some(Hit::covers("/"));
        }
        if let Some(path) = self.places.iter().find_map(|place| place.over(source)) {
            return Some(Hit { touch: Touch::Targets, path });
        }
        let mut private = self.private.iter();
        let over = |path: &&String| posix::is_inside(path, source) && !self.is_own(path, source);
        if let Some(path) = private.find(over) {
            return Some(Hit::targets(path));
        }
        let held = |path: &str| posix::is_inside(source, path).then(|| path.to_owned());
        let path = (ALL_HOMES.iter().find_map(|homes| held(homes)))
            .or_else(|| self.places.iter().find_map(|place| place.held_by(source)))
            .or_else(|| self.private.iter().find_map(|private| held(private)));
        path.map(|path| Hit { touch: Touch::Covers, path }).or_else(|| unknown_home(source))
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
        let known = self.start_files.iter().find_map(|place| place.held_by(source));
        let in_unknown_home = || {
            let is_home = ALL_HOMES.contains(&posix::parent(posix::parent(source)));
            (is_home && START_FILES.contains(&posix::basename(source))).then(|| source.to_owned())
        };
        known.or_else(in_unknown_home)
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

/// Whose home it is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Owner {
    Person,
    /// What is not there now is nothing that its home would hand out.
    Service,
}

/// Adds names in a home and what they lead to. The home is walked once and its names are asked for together:
/// there are many homes on a machine, and nearly every name is missing in nearly every one.
fn look_in(
    home: &str,
    names: &'static [&str],
    owner: Owner,
    files: &impl HostFiles,
    places: &mut Vec<Place>,
) {
    let mut add = |directory: &str, held: &Held| {
        let (directory, held) = (directory.to_owned(), held.clone());
        places.push(Place::Names { directory, names, held });
    };
    let Ok(real_home) = real_path(files, home) else {
        // Nobody can tell where it is: each name counts as it stands.
        return add(home, &Held::All);
    };
    let mut led_to = Vec::new();
    let mut there = Vec::new();
    for (&name, found) in names.iter().zip(files.entries(&real_home, names)) {
        match found {
            Ok(None) => continue,
            Ok(Some(Entry { kind: EntryKind::Symlink { .. }, .. })) => {
                led_to.extend(real_path(files, &posix::join(home, name)).ok());
            }
            // What cannot be looked at may be there.
            Ok(Some(_)) | Err(_) => {}
        }
        there.push(name);
    }
    let held = match owner {
        Owner::Person => Held::All,
        Owner::Service => Held::These(there),
    };
    if real_home != home {
        add(&real_home, &held);
    }
    add(home, &held);
    places.extend(led_to.into_iter().map(Place::One));
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

    /// Every path written down, one by one: what the list stands for.
    fn spelled_out(known: &KnownPlaces, files: &FileTable) -> Vec<(String, bool)> {
        let mut paths: Vec<(String, bool)> =
            SYSTEM.iter().map(|&path| (path.to_owned(), true)).collect();
        for home in absolute(&known.homes) {
            let keys =
                CREDENTIALS.iter().flat_map(|name| with_real(posix::join(&home, name), files));
            paths.extend(keys.map(|path| (path, true)));
        }
        for home in absolute(&known.service_homes) {
            for path in CREDENTIALS.iter().map(|name| posix::join(&home, name)) {
                let real = real_path(files, posix::parent(&path)).unwrap();
                let name = posix::basename(&path);
                let is_there = files.entry(&posix::join(&real, name)).unwrap().is_some();
                paths.extend(with_real(path, files).map(|path| (path, is_there)));
            }
        }
        paths
    }

    proptest::proptest! {
        #[test]
        fn the_list_is_what_it_stands_for(
            homes in proptest::collection::vec(0_usize..6, 0..3),
            services in proptest::collection::vec(0_usize..6, 0..3),
            entries in proptest::collection::vec((0_usize..6, 0_usize..4, 0_usize..7), 0..6),
        ) {
            const HOMES: [&str; 6] = ["/h/a", "/h/a/.ssh/b", "/s", "/", "/h/l", "/h/none"];
            const NAMES: [&str; 4] = [".ssh", ".aws", ".x", ".netrc"];
            let mut files = FileTable::new().with_link("/h/l", "/s/real");
            for (home, name, kind) in entries {
                let path = posix::join(HOMES[home], NAMES[name]);
                if path.starts_with("/h/l/") {
                    continue;
                }
                files = match kind {
                    0..4 => files.with_link(&path, HOMES[kind]),
                    4 => files.with(&path, EntryKind::File),
                    _ => files.with(&path, EntryKind::Directory),
                };
            }
            let pick = |list: &[usize]| list.iter().map(|&at| HOMES[at].to_owned()).collect();
            let known = KnownPlaces {
                homes: pick(&homes),
                service_homes: pick(&services),
                ..KnownPlaces::default()
            };
            if [&known.homes, &known.service_homes]
                .into_iter()
                .flatten()
                .any(|home| real_path(&files, home).is_err())
            {
                return Ok(());
            }
            let list = Blocklist::resolve(&known, &files);
            let spelled = spelled_out(&known, &files);
            let below = |path: &String| [path.clone(), format!("{path}/x"), format!("{path}x")];
            let sources = spelled.iter().flat_map(|(path, _)| below(path));
            let parents = spelled.iter().map(|(path, _)| posix::parent(path).to_owned());
            for source in sources.chain(parents).chain(["/q".to_owned()]) {
                let over = spelled.iter().any(|(path, _)| posix::is_inside(path, &source));
                let held = spelled
                    .iter()
                    .any(|(path, is_there)| *is_there && posix::is_inside(&source, path));
                let touch = match (source.as_str(), over, held) {
                    ("/", ..) | (_, false, true) => Some(Touch::Covers),
                    (_, true, _) => Some(Touch::Targets),
                    (_, false, false) => None,
                };
                proptest::prop_assert_eq!(list.hit(&source).map(|hit| hit.touch), touch, "{}", source);
            }
        }
    }
}
