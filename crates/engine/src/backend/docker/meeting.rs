//! Where host and supervisor meet: a directory that both see, until they have met.
//!
//! ```text
//! <run>/<id>/          0700, the host's alone
//!            inside/   0777, mounted into the container
//!                 plan     written by the host, read by the supervisor at its start
//!                 s        the supervisor's socket, when it serves
//!                 failure  its last words, if it cannot
//!            s         the same socket, after the host has moved it
//!            user      who its processes are, in numbers, as the image had them
//!            about     what the container is; written last, so one that has it was finished
//!            owner     whose it is: our mark and the engine's; there before anything else
//! ```
//!
//! Anyone in the container may write into `inside`, also under the supervisor's own user id. So the
//! host moves the socket out of sight, removes the plan and then the directory itself: in a removed
//! directory nobody can make anything, not even root. Who answers on the socket is proven by its
//! process number, never by its name.

use std::fs::{self, DirBuilder, OpenOptions, Permissions};
use std::io::{self, Read as _, Write as _};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd as _, AsRawFd as _, OwnedFd};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{FlockOperation, flock, inotify};

use super::failure::DockerFailure;
use super::mark::Owner;

/// The supervisor's socket, on both sides.
pub(super) const SOCKET: &str = "s";
/// What the supervisor is to do.
pub(super) const PLAN: &str = "plan";
/// Why the supervisor could not serve.
const FAILURE: &str = "failure";
const LONGEST_WORDS: u64 = 2048;
const INSIDE: &str = "inside";
const ABOUT: &str = "about";
const OWNER: &str = "owner";
/// A file that is being written.
const OWNER_NEW: &str = "owner.new";
const USER: &str = "user";
/// How often a new name is tried.
const TRIES: usize = 8;
/// How often a wait looks whether the container still lives.
const LOOK_EVERY: Duration = Duration::from_millis(250);
/// Between the socket's birth and its first listening there are two system calls.
const NOT_YET: Duration = Duration::from_micros(100);
/// How long it takes to look whether somebody is at work, and how long a busy machine may take for it.
const LOOKED_AT: Duration = Duration::from_millis(1);
const LOOKED_WITHIN: Duration = Duration::from_secs(5);

/// One container's meeting place. Removed with the value unless it is kept.
#[derive(Debug)]
pub(super) struct MeetingPlace {
    id: String,
    directory: PathBuf,
    kept: bool,
    /// Open and locked while somebody is at work in it; see [`MeetingPlace::is_held`].
    held: Option<OwnedFd>,
}

/// Whether it is worth waiting on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Life {
    Lives,
    Ended,
}

/// How a wait for the supervisor came out.
#[derive(Debug)]
pub(super) enum Met {
    Stream(UnixStream),
    Ended,
    TooLate,
}

/// Sees the socket appear.
#[derive(Debug)]
pub(super) struct Watch(OwnedFd);

impl MeetingPlace {
    /// Makes a new one below `run`. Whose it is stands there before a container can have it, so that
    /// no other engine's sweep takes it for a leftover.
    pub(super) fn make(run: &Path, owner: &Owner) -> Result<Self, DockerFailure> {
        let private = DirBuilder::new().recursive(true).mode(0o700).create(run);
        private.map_err(|cause| local("make", run, cause))?;
        let mut place = Self::try_make(run);
        for _ in 1..TRIES {
            match &place {
                // A janitor may hold or take a directory in the moment before it is locked.
                Err(DockerFailure::Local { what: "lock", .. }) => place = Self::try_make(run),
                Ok(_) | Err(_) => break,
            }
        }
        let place = place?;
        let (path, beside) = (place.directory.join(OWNER), place.directory.join(OWNER_NEW));
        let written = fs::write(&beside, owner.to_text()).and_then(|()| fs::rename(&beside, &path));
        written.map_err(|cause| local("write", &path, cause))?;
        place.make_inside()?;
        Ok(place)
    }

    fn try_make(run: &Path) -> Result<Self, DockerFailure> {
        let id = crate::random::short_id();
        let directory = run.join(&id);
        let made = DirBuilder::new().mode(0o700).create(&directory);
        made.map_err(|cause| local("make", &directory, cause))?;
        let held = hold(&directory).map_err(|cause| local("lock", &directory, cause))?;
        if !directory.is_dir() {
            return Err(local("lock", &directory, io::ErrorKind::NotFound.into()));
        }
        Ok(Self { id, directory, kept: false, held: Some(held) })
    }

    /// Opens the shared directory, for the first meeting or one more.
    fn make_inside(&self) -> Result<(), DockerFailure> {
        let inside = self.inside();
        let made = DirBuilder::new().create(&inside);
        // Not by the call above, where the umask would have its say.
        let made = made.and_then(|()| fs::set_permissions(&inside, Permissions::from_mode(0o777)));
        made.map_err(|cause| local("make", &inside, cause))
    }

    /// Prepares another meeting, with a container that has ended and is to be started again.
    pub(super) fn renew(&mut self) -> Result<(), DockerFailure> {
        let directory = self.directory.clone();
        let held = hold_soon(&directory).map_err(|cause| local("lock", &directory, cause))?;
        self.held = Some(held);
        for old in [self.inside(), directory.join(SOCKET)] {
            let removed = match fs::symlink_metadata(&old) {
                Ok(found) if found.is_dir() => fs::remove_dir_all(&old),
                Ok(_) => fs::remove_file(&old),
                Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
                Err(error) => Err(error),
            };
            removed.map_err(|cause| local("clear", &old, cause))?;
        }
        self.make_inside()
    }

    /// Whether somebody is at work there: making a container, or starting one.
    pub(super) fn is_held(&self) -> bool {
        hold(&self.directory).is_err_and(|error| error.kind() != io::ErrorKind::NotFound)
    }

    /// Every place below `run`, by name.
    pub(super) fn all(run: &Path) -> Vec<Self> {
        let entries = fs::read_dir(run).into_iter().flatten().flatten();
        entries.filter_map(|entry| Self::open(run, entry.file_name().to_str()?)).collect()
    }

    /// Finds the one of a container that was kept. The name comes from a label, so from anyone.
    pub(super) fn open(run: &Path, id: &str) -> Option<Self> {
        let directory = Self::is_name(id).then(|| run.join(id)).filter(|path| path.is_dir())?;
        Some(Self { id: id.to_owned(), directory, kept: true, held: None })
    }

    /// Whether a place could have this name.
    pub(super) fn is_name(id: &str) -> bool {
        id.len() == 16 && id.bytes().all(|byte| byte.is_ascii_hexdigit())
    }

    /// What the container of a place gets, whether it is there or not.
    pub(super) fn inside_of(run: &Path, id: &str) -> PathBuf {
        run.join(id).join(INSIDE)
    }

    /// Whose it is; `None` if nothing says so.
    pub(super) fn owner(&self) -> Option<Owner> {
        Owner::parse(&fs::read_to_string(self.directory.join(OWNER)).ok()?)
    }

    /// Whether its maker died before anybody could have it.
    pub(super) fn is_blank(&self) -> bool {
        let names = fs::read_dir(&self.directory)
            .map(|entries| entries.map(|entry| entry.map(|entry| entry.file_name() == OWNER_NEW)));
        names.is_ok_and(|mut names| names.all(|is_begun| matches!(is_begun, Ok(true))))
    }

    /// Whether there is a socket to meet the container by.
    pub(super) fn has_socket(&self) -> bool {
        self.directory.join(SOCKET).exists()
    }

    /// The name that leads back here.
    pub(super) fn id(&self) -> &str {
        &self.id
    }

    /// The directory that the container gets.
    pub(super) fn inside(&self) -> PathBuf {
        self.directory.join(INSIDE)
    }

    /// Lays out what the supervisor is to do. To be done before the container starts.
    pub(super) fn lay_out(&self, plan: &[u8]) -> Result<(), DockerFailure> {
        let path = self.inside().join(PLAN);
        let write = || {
            let mut file =
                OpenOptions::new().write(true).create_new(true).mode(0o644).open(&path)?;
            file.set_permissions(Permissions::from_mode(0o644))?;
            file.write_all(plan)
        };
        write().map_err(|cause| local("write", &path, cause))
    }

    /// Watches for the socket. To be asked before the container starts, or it may be missed.
    pub(super) fn watch(&self) -> Result<Watch, DockerFailure> {
        let inside = self.inside();
        let seen = || {
            let watch =
                inotify::init(inotify::CreateFlags::CLOEXEC | inotify::CreateFlags::NONBLOCK)?;
            let events = inotify::WatchFlags::CREATE | inotify::WatchFlags::MOVED_TO;
            inotify::add_watch(&watch, &inside, events)?;
            Ok(Watch(watch))
        };
        seen().map_err(|cause: io::Error| local("watch", &inside, cause))
    }

    /// Waits until the supervisor serves, takes its socket out of the container's sight and connects.
    pub(super) fn meet(
        &self,
        watch: &Watch,
        within: Duration,
        mut look: impl FnMut() -> Result<Life, DockerFailure>,
    ) -> Result<Met, DockerFailure> {
        let deadline = Instant::now() + within;
        let inside = self.inside();
        let mut looked = Instant::now();
        loop {
            let wait = match connect_in(&inside) {
                Ok(stream) => {
                    self.hide_socket()?;
                    return Ok(Met::Stream(stream));
                }
                Err(cause) => match cause.kind() {
                    io::ErrorKind::NotFound => Wait::ForSocket,
                    // Bound, and not listening yet: two system calls apart.
                    io::ErrorKind::ConnectionRefused => Wait::ForListener,
                    _ => return Err(local("connect to a socket in", &inside, cause)),
                },
            };
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(Met::TooLate);
            }
            match wait {
                Wait::ForSocket => watch
                    .wait(left.min(LOOK_EVERY))
                    .map_err(|cause| local("watch", &inside, cause))?,
                Wait::ForListener => std::thread::sleep(NOT_YET),
            }
            if looked.elapsed() >= LOOK_EVERY {
                looked = Instant::now();
                if look()? == Life::Ended {
                    return Ok(Met::Ended);
                }
            }
        }
    }

    /// Connects once more.
    pub(super) fn connect(&self) -> io::Result<UnixStream> {
        connect_in(&self.directory)
    }

    /// What the supervisor wrote down when it could not serve.
    pub(super) fn last_words(&self) -> Option<String> {
        let file = fs::File::open(self.inside().join(FAILURE)).ok()?;
        let mut text = Vec::new();
        file.take(LONGEST_WORDS).read_to_end(&mut text).ok()?;
        let text = String::from_utf8_lossy(&text);
        Some(text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect())
    }

    /// Notes what the container is: from here on it is finished.
    pub(super) fn note(&self, about: &str) -> Result<(), DockerFailure> {
        let path = self.directory.join(ABOUT);
        let beside = self.directory.join("about.new");
        let written = fs::write(&beside, about).and_then(|()| fs::rename(&beside, &path));
        written.map_err(|cause| local("write", &path, cause))
    }

    /// Notes who the container's processes are. Asked of its files once, before anything has run: a
    /// command may be able to write the list of users.
    pub(super) fn note_user(&self, (uid, gid): (u32, u32)) -> Result<(), DockerFailure> {
        let path = self.directory.join(USER);
        fs::write(&path, format!("{uid}:{gid}")).map_err(|cause| local("write", &path, cause))
    }

    /// Who they are; `None` if an older release made it.
    pub(super) fn user(&self) -> Option<(u32, u32)> {
        let text = fs::read_to_string(self.directory.join(USER)).ok()?;
        let (uid, gid) = text.split_once(':')?;
        Some((uid.parse().ok()?, gid.parse().ok()?))
    }

    /// What the container is; `None` if it was never finished.
    pub(super) fn about(&self) -> Option<String> {
        fs::read_to_string(self.directory.join(ABOUT)).ok()
    }

    /// Where something is kept that only we may read, as long as the container is there.
    pub(super) fn private_file(&self, name: &str) -> PathBuf {
        self.directory.join(name)
    }

    /// Leaves the socket for later.
    pub(super) fn keep(&mut self) {
        self.kept = true;
    }

    /// The work on it is done: a janitor may look at it, and others may start it again.
    pub(super) fn let_go(&mut self) {
        self.held = None;
    }

    /// Lets it go with the value after all.
    pub(super) fn forget(&mut self) {
        self.kept = false;
    }

    /// Moves the socket out of the container's sight, then removes everything else in the shared
    /// directory, and it. No command has run yet; what is there
    /// besides the plan came from the image, so it may be anything but is never followed.
    fn hide_socket(&self) -> Result<(), DockerFailure> {
        let inside = self.inside();
        fs::rename(inside.join(SOCKET), self.directory.join(SOCKET))
            .map_err(|cause| local("move the socket out of", &inside, cause))?;
        fs::remove_dir_all(&inside).map_err(|cause| local("remove", &inside, cause))
    }
}

/// Why there is no stream yet.
enum Wait {
    ForSocket,
    ForListener,
}

/// Takes a place that nobody is at work in.
fn hold(directory: &Path) -> io::Result<OwnedFd> {
    let opened = OwnedFd::from(fs::File::open(directory)?);
    flock(&opened, FlockOperation::NonBlockingLockExclusive)?;
    Ok(opened)
}

/// The same, where others may only be looking: see [`MeetingPlace::is_held`], which takes it for a
/// moment. Whoever is at work there has locked the sandbox's name, and we have.
fn hold_soon(directory: &Path) -> io::Result<OwnedFd> {
    let deadline = Instant::now() + LOOKED_WITHIN;
    loop {
        match hold(directory) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                if Instant::now() >= deadline {
                    return Err(error);
                }
                std::thread::sleep(LOOKED_AT);
            }
            held => return held,
        }
    }
}

/// Connects by way of an open directory: the path itself may be longer than a socket's may be.
fn connect_in(directory: &Path) -> io::Result<UnixStream> {
    let directory = fs::File::open(directory)?;
    UnixStream::connect(format!("/proc/self/fd/{}/{SOCKET}", directory.as_raw_fd()))
}

impl Drop for MeetingPlace {
    fn drop(&mut self) {
        if !self.kept {
            // Nothing depends on it any more; what cannot be removed now is found by its age later.
            let _unremoved = fs::remove_dir_all(&self.directory);
        }
    }
}

impl Watch {
    /// Waits for any change, or for the time to pass.
    fn wait(&self, time: Duration) -> io::Result<()> {
        let time = Timespec {
            tv_sec: i64::try_from(time.as_secs()).unwrap_or(i64::MAX),
            tv_nsec: i64::from(time.subsec_nanos()),
        };
        let mut entries = [PollFd::from_borrowed_fd(self.0.as_fd(), PollFlags::IN)];
        match poll(&mut entries, Some(&time)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        let mut buffer = [MaybeUninit::<u8>::uninit(); 1024];
        let mut reader = inotify::Reader::new(&self.0, &mut buffer);
        // What happened is looked up on disk; this only empties the queue.
        while reader.next().is_ok() {}
        Ok(())
    }
}

fn local(what: &'static str, path: &Path, cause: io::Error) -> DockerFailure {
    DockerFailure::Local { what, path: path.to_owned(), cause }
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixListener;

    use super::*;

    fn place_in(run: &Path) -> Result<MeetingPlace, DockerFailure> {
        let owner = Owner { mark: "mark".to_owned(), engine: "at unix:///s".to_owned() };
        let place = MeetingPlace::make(run, &owner)?;
        assert_eq!(place.owner(), Some(owner));
        Ok(place)
    }

    #[test]
    fn a_janitor_that_looks_does_not_stop_who_starts_a_container_again() {
        let run = tempfile::tempdir().unwrap();
        let mut place = place_in(run.path()).unwrap();
        place.let_go();
        // As long as `is_held` has it, and no longer.
        let looking = hold(&place.directory).unwrap();
        let (tell, told) = std::sync::mpsc::channel();
        std::thread::scope(|scope| {
            let renewed = scope.spawn(|| {
                tell.send(()).unwrap();
                place.renew()
            });
            told.recv().unwrap();
            drop(looking);
            renewed.join().unwrap().unwrap();
        });
        assert!(place.is_held());
    }

    #[test]
    fn a_place_that_nobody_could_have_had_is_told_from_others() {
        let run = tempfile::tempdir().unwrap();
        let begun = MeetingPlace::try_make(run.path()).unwrap();
        assert!(begun.is_blank());
        fs::write(begun.directory.join(OWNER_NEW), "ma").unwrap();
        assert!(begun.is_blank());
        assert!(!place_in(run.path()).unwrap().is_blank());
        fs::create_dir(begun.inside()).unwrap();
        assert!(!begun.is_blank());
    }

    #[test]
    fn the_socket_is_taken_out_of_sight_and_the_place_is_dead() {
        let run = tempfile::tempdir().unwrap();
        let place = place_in(run.path()).unwrap();
        place.lay_out(b"plan").unwrap();
        let inside = place.inside();
        // What the container holds on to, by its mount.
        let mounted = fs::File::open(&inside).unwrap();
        let seen = format!("/proc/self/fd/{}", mounted.as_raw_fd());
        assert_eq!(fs::read(inside.join(PLAN)).unwrap(), b"plan");
        let watch = place.watch().unwrap();
        let _listener = UnixListener::bind(inside.join(SOCKET)).unwrap();
        let met = place.meet(&watch, Duration::from_secs(5), || Ok(Life::Lives)).unwrap();
        assert!(matches!(met, Met::Stream(_)), "{met:?}");
        assert!(!inside.exists());
        let denied = fs::write(format!("{seen}/x"), b"x").unwrap_err();
        assert_eq!(denied.kind(), io::ErrorKind::NotFound);
        drop(place);
        assert_eq!(fs::read_dir(run.path()).unwrap().count(), 0);
    }

    #[test]
    fn a_user_is_kept_in_numbers() {
        let run = tempfile::tempdir().unwrap();
        let place = place_in(run.path()).unwrap();
        assert_eq!(place.user(), None);
        place.note_user((1000, 1005)).unwrap();
        assert_eq!(MeetingPlace::open(run.path(), place.id()).unwrap().user(), Some((1000, 1005)));
    }

    #[test]
    fn a_socket_that_comes_later_is_seen() {
        let run = tempfile::tempdir().unwrap();
        let place = place_in(run.path()).unwrap();
        let watch = place.watch().unwrap();
        let path = place.inside().join(SOCKET);
        let mut listener = None;
        let met = place.meet(&watch, Duration::from_secs(5), || {
            listener = Some(UnixListener::bind(&path).unwrap());
            Ok(Life::Lives)
        });
        assert!(matches!(met, Ok(Met::Stream(_))), "{met:?}");
    }

    #[test]
    fn nobody_is_waited_for_in_vain() {
        let run = tempfile::tempdir().unwrap();
        let place = place_in(run.path()).unwrap();
        let watch = place.watch().unwrap();
        let met = place.meet(&watch, Duration::from_secs(5), || Ok(Life::Ended)).unwrap();
        assert!(matches!(met, Met::Ended), "{met:?}");
        let met = place.meet(&watch, Duration::ZERO, || Ok(Life::Lives)).unwrap();
        assert!(matches!(met, Met::TooLate), "{met:?}");
    }
}
