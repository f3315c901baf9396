//! Comes back to a pen that another process made.
//!
//! A number in a file proves nothing: numbers are used again, and a socket can be anybody's. A pen is
//! the one that was written down if the machine has not booted since, the process of that number
//! started at that moment, and the kernel says that this process listens on the socket. A handle to
//! the process is taken before the questions, so that the answers stay true.

use std::collections::BTreeSet;
use std::io;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clawpen_os::cgroups::{Hierarchies, Leaf};
use clawpen_os::events::{self, Interest};
use clawpen_os::process::{self, Pid, Signal};
use clawpen_os::{beneath, sockets};
use clawpen_wire::pen::Lifetime;

use super::run_directory::{self, ABOUT, RunDirectory, SOCKET};
use super::{Directory, Pen, Running, TEARDOWN, plan};
use crate::channel::{CallError, Channel, ConnectError};
use crate::clock;
use crate::process_identity::{self, Living};
use crate::registry::NativeIdentity;

/// Between a killed process's last answer and its end.
const LAST_MOMENTS: Duration = Duration::from_millis(500);

/// A pen that may be there and cannot be reached.
#[derive(Debug, thiserror::Error)]
pub enum FindError {
    #[error("cannot look for the pen's first process")]
    Look(#[source] io::Error),
    #[error("cannot reach the pen at `{socket}`")]
    Reach {
        socket: String,
        #[source]
        cause: io::Error,
    },
    #[error(
        "the pen at `{socket}` belongs to another container or machine that shares this state \
         directory; use it from there, or give each a state directory of its own"
    )]
    Elsewhere { socket: String },
    #[error(transparent)]
    Connect(#[from] ConnectError),
}

/// Whether a pen that was written down is still there.
#[derive(Debug)]
pub enum Found<T> {
    There(T),
    /// Its first process has ended, and with it everything in it.
    Gone,
}

/// What tells a pen from all others.
pub(super) fn identity(pid: u32, directory: &RunDirectory) -> io::Result<NativeIdentity> {
    let living = process_identity::look(pid)?.ok_or(io::ErrorKind::NotFound)?;
    Ok(NativeIdentity {
        boot_id: clock::boot_id()?.to_owned(),
        pid,
        start_time: living.start_time,
        socket: directory.socket().to_string_lossy().into_owned(),
    })
}

/// A handle to the first process of a pen, if it is still that one.
fn first_process(identity: &NativeIdentity) -> io::Result<Option<OwnedFd>> {
    if clock::boot_id()? != identity.boot_id {
        return Ok(None);
    }
    let Some(pid) = i32::try_from(identity.pid).ok().and_then(Pid::new) else { return Ok(None) };
    let pidfd = match process::pidfd_open(pid) {
        Err(error) if error.raw_os_error() == Some(libc::ESRCH) => return Ok(None),
        opened => opened?,
    };
    // After the handle: whoever has the number now has had it since.
    let living = process_identity::look(identity.pid)?;
    let is_same = living.is_some_and(|living| living.start_time == identity.start_time);
    Ok(is_same.then_some(pidfd))
}

/// Whether the pen lives, without a word to it.
pub fn lives(identity: &NativeIdentity) -> io::Result<bool> {
    Ok(look(identity)?.is_some())
}

/// The pen's first process, if it lives.
pub(crate) fn look(identity: &NativeIdentity) -> io::Result<Option<Living>> {
    if clock::boot_id()? != identity.boot_id {
        return Ok(None);
    }
    let living = process_identity::look(identity.pid)?;
    Ok(living.filter(|living| living.start_time == identity.start_time))
}

impl Pen {
    /// Connects to a pen that was written down. The value leaves it running.
    pub fn find(identity: &NativeIdentity) -> Result<Found<Self>, FindError> {
        let Some(pidfd) = first_process(identity).map_err(FindError::Look)? else {
            return match connect(Path::new(&identity.socket)) {
                Err(_) => Ok(Found::Gone),
                // Its number means nothing here, and yet it answers.
                Ok(_) => Err(FindError::Elsewhere { socket: identity.socket.clone() }),
            };
        };
        let reach = |cause| FindError::Reach { socket: identity.socket.clone(), cause };
        let stream = match connect(Path::new(&identity.socket)) {
            Ok(stream) => stream,
            // It may have ended just now.
            Err(_) if !lives(identity).map_err(FindError::Look)? => return Ok(Found::Gone),
            Err(cause) => return Err(reach(cause)),
        };
        let channel = match Channel::connect(stream, identity.pid) {
            Ok(channel) => channel,
            // Killed while it greeted us: it ends any moment.
            Err(ConnectError::Hello(CallError::Closed | CallError::Connection(_)))
                if has_ended(&pidfd) =>
            {
                return Ok(Found::Gone);
            }
            Err(error) => return Err(error.into()),
        };
        let running = running(identity, pidfd);
        Ok(Found::There(Self { channel: Some(channel), running, asked: None, facts: Vec::new() }))
    }

    /// Ends a pen that was written down, and removes what is left of it on the host. One that is
    /// gone already is no error.
    pub fn end(identity: &NativeIdentity) -> io::Result<()> {
        match first_process(identity)? {
            Some(pidfd) => running(identity, pidfd).end(TEARDOWN),
            None => match Path::new(&identity.socket).parent() {
                Some(_) if connect(Path::new(&identity.socket)).is_ok() => Err(io::Error::other(
                    "it belongs to another container or machine that shares this state directory",
                )),
                Some(directory) => run_directory::remove(directory, TEARDOWN),
                None => Ok(()),
            },
        }
    }
}

/// Waits a moment for a process that is on its way out.
fn has_ended(pidfd: &OwnedFd) -> bool {
    let ended = events::poll(&[(pidfd.as_fd(), Interest::Read)], Some(LAST_MOMENTS));
    ended.is_ok_and(|ended| !ended.is_empty())
}

fn running(identity: &NativeIdentity, pidfd: OwnedFd) -> Running {
    let directory = Path::new(&identity.socket).parent().unwrap_or(Path::new("")).to_owned();
    let id = directory.file_name().unwrap_or_default().to_string_lossy();
    // Known from here only if the maker stood where we stand; its note leads to it in any case.
    let leaf = if directory.join("groups").exists() {
        let found = Hierarchies::find().and_then(|all| Leaf::open(&all, &plan::group_name(&id)));
        found.ok()
    } else {
        None
    };
    Running {
        pid: identity.pid,
        pidfd,
        leaf,
        directory: Directory::Found(directory),
        lifetime: Lifetime::Persistent,
    }
}

fn connect(socket: &Path) -> io::Result<UnixStream> {
    let directory = socket.parent().ok_or(io::ErrorKind::NotFound)?;
    let opened = beneath::open_root(directory)?;
    Ok(UnixStream::from(sockets::connect(opened.as_fd(), SOCKET.as_ref())?))
}

/// What a pen says about itself; `None` if it was never finished.
pub fn about(identity: &NativeIdentity) -> Option<String> {
    let directory = Path::new(&identity.socket).parent()?;
    std::fs::read_to_string(directory.join(ABOUT)).ok()
}

/// A finished pen that no row names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Survivor {
    pub identity: NativeIdentity,
    pub about: String,
    pub protocol: u16,
}

/// What a sweep found and took away.
#[derive(Debug, Default)]
pub struct Swept {
    /// Directories of pens that were never finished, or are gone.
    pub removed: usize,
    /// Pens that were finished and live: somebody has lost the registry.
    pub survivors: Vec<Survivor>,
}

/// Removes what makers that were killed have left below the state directory. `known` are the
/// directories that rows name, and `is_known` asks again about one that is not among them.
pub fn sweep(
    state_dir: &str,
    known: &BTreeSet<PathBuf>,
    mut is_known: impl FnMut(&Path) -> bool,
) -> io::Result<Swept> {
    let mut swept = Swept::default();
    for leftover in run_directory::unheld(state_dir, known)? {
        if is_known(&leftover.path) {
            continue;
        }
        match leftover.connect() {
            // Nobody is there any more.
            Err(_) => {}
            Ok(socket) => {
                if let Some(survivor) = survivor(&leftover.path, socket.as_fd()) {
                    swept.survivors.push(survivor);
                    continue;
                }
                kill_peer(socket.as_fd())?;
            }
        }
        leftover.remove(TEARDOWN)?;
        swept.removed += 1;
    }
    Ok(swept)
}

/// The pen behind a socket, if it was finished and we understand it.
fn survivor(directory: &Path, socket: BorrowedFd<'_>) -> Option<Survivor> {
    let about = std::fs::read_to_string(directory.join(ABOUT)).ok()?;
    let pid = u32::try_from(sockets::peer(socket).ok()?.pid).ok()?;
    let living = process_identity::look(pid).ok()??;
    let stream = UnixStream::from(socket.try_clone_to_owned().ok()?);
    let channel = Channel::connect(stream, pid).ok()?;
    channel.welcome().sealed.then(|| Survivor {
        identity: NativeIdentity {
            boot_id: clock::boot_id().unwrap_or_default().to_owned(),
            pid,
            start_time: living.start_time,
            socket: directory.join(SOCKET).to_string_lossy().into_owned(),
        },
        about,
        protocol: channel.welcome().version,
    })
}

/// Ends whoever listens at the other end and waits for it. A pen that was not finished was never
/// written down, so nobody has ever run anything in it.
fn kill_peer(socket: BorrowedFd<'_>) -> io::Result<()> {
    match kill_whoever_listens(socket) {
        // It ended meanwhile.
        Err(error) if error.raw_os_error() == Some(libc::ESRCH) => Ok(()),
        done => done,
    }
}

fn kill_whoever_listens(socket: BorrowedFd<'_>) -> io::Result<()> {
    let pidfd = match sockets::peer_pidfd(socket) {
        Ok(pidfd) => pidfd,
        // Before Linux 6.5 there is no such handle, and the number is all there is.
        Err(_) => match Pid::new(sockets::peer(socket)?.pid) {
            Some(pid) => process::pidfd_open(pid)?,
            None => return Err(io::Error::other("it belongs to another machine or container")),
        },
    };
    process::pidfd_signal(pidfd.as_fd(), Signal::KILL)?;
    events::poll(&[(pidfd.as_fd(), Interest::Read)], Some(TEARDOWN)).map(drop)
}
