//! Comes back to a pen that another process made.
//!
//! A number in a file proves nothing: numbers are used again, and a socket can be anybody's. A pen is
//! the one that was written down if the machine has not booted since, the process of that number
//! started at that moment, and the kernel says that this process listens on the socket. A handle to
//! the process is taken before the questions, so that the answers stay true.

use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use clawpen_os::cgroups::{Hierarchies, Leaf};
use clawpen_os::events::{self, Interest};
use clawpen_os::process::{self, Pid, Signal};
use clawpen_os::{beneath, sockets};
use clawpen_wire::pen::Lifetime;

use super::run_directory::{self, RunDirectory, SOCKET};
use super::{Directory, Pen, Running, TEARDOWN, plan};
use crate::backend::NativeIdentity;
use crate::channel::{Channel, ConnectError};
use crate::process_identity;

/// A pen that may be there and cannot be reached.
#[derive(Debug, thiserror::Error)]
pub enum FindError {
    #[error("cannot look for the pen's first process")]
    Look(#[source] io::Error),
    #[error("cannot reach the pen at `{}`", .socket.display())]
    Reach {
        socket: std::path::PathBuf,
        #[source]
        cause: io::Error,
    },
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
        boot_id: process_identity::boot_id()?.to_owned(),
        pid,
        start_time: living.start_time,
        socket: directory.socket(),
    })
}

/// A handle to the first process of a pen, if it is still that one.
fn first_process(identity: &NativeIdentity) -> io::Result<Option<OwnedFd>> {
    if process_identity::boot_id()? != identity.boot_id {
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
    if process_identity::boot_id()? != identity.boot_id {
        return Ok(false);
    }
    let living = process_identity::look(identity.pid)?;
    Ok(living.is_some_and(|living| living.start_time == identity.start_time))
}

impl Pen {
    /// Connects to a pen that was written down. The value leaves it running.
    pub fn find(identity: &NativeIdentity) -> Result<Found<Self>, FindError> {
        let Some(pidfd) = first_process(identity).map_err(FindError::Look)? else {
            return Ok(Found::Gone);
        };
        let reach = |cause| FindError::Reach { socket: identity.socket.clone(), cause };
        let stream = match connect(&identity.socket) {
            Ok(stream) => stream,
            // It may have ended just now.
            Err(_) if !lives(identity).map_err(FindError::Look)? => return Ok(Found::Gone),
            Err(cause) => return Err(reach(cause)),
        };
        let channel = Channel::connect(stream, identity.pid)?;
        let running = running(identity, pidfd);
        Ok(Found::There(Self { channel: Some(channel), running, asked: None, facts: Vec::new() }))
    }

    /// Ends a pen that was written down, and removes what is left of it on the host. One that is
    /// gone already is no error.
    pub fn end(identity: &NativeIdentity) -> io::Result<()> {
        match first_process(identity)? {
            Some(pidfd) => running(identity, pidfd).end(TEARDOWN),
            None => match identity.socket.parent() {
                Some(directory) => run_directory::remove(directory, TEARDOWN),
                None => Ok(()),
            },
        }
    }
}

fn running(identity: &NativeIdentity, pidfd: OwnedFd) -> Running {
    let directory = identity.socket.parent().unwrap_or(Path::new("")).to_owned();
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

/// What a sweep took away.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Swept {
    /// Directories of pens that nobody knows of.
    pub directories: usize,
    /// Pens that still ran in them.
    pub pens: usize,
}

/// Removes what makers that were killed have left below the state directory. `is_known` says whether
/// a row names a socket.
pub fn sweep(state_dir: &str, mut is_known: impl FnMut(&Path) -> bool) -> io::Result<Swept> {
    let mut swept = Swept::default();
    for leftover in run_directory::unheld(state_dir)? {
        if is_known(&leftover.path.join(SOCKET)) {
            continue;
        }
        // Nobody wrote it down, so nobody has ever run anything in it.
        if let Ok(socket) = leftover.connect()
            && let Ok(pidfd) = sockets::peer_pidfd(socket.as_fd())
            && process::pidfd_signal(pidfd.as_fd(), Signal::KILL).is_ok()
        {
            events::poll(&[(pidfd.as_fd(), Interest::Read)], Some(TEARDOWN))?;
            swept.pens += 1;
        }
        leftover.remove(Duration::from_millis(200))?;
        swept.directories += 1;
    }
    Ok(swept)
}
