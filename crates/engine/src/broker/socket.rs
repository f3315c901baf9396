//! The unix socket of the approvals file: programs ask for a decision, or give one.
//!
//! ```text
//! connect ─► same user, not from a sandbox ─► one line, not long, not slow ─► token or HMAC ─► one line back
//! ```
//!
//! One connection carries one message. `request` has the reference's form, with the token in clear;
//! every other message, and `request` too if it likes, comes in an envelope with a nonce, a time and an
//! HMAC, so that whoever listens at the path learns nothing he could use. A nonce counts once. At most
//! [`MAX_CONNECTIONS`] are served at a time; nobody can keep one open without having shown the token.
//!
//! Runs no command: `exec` is refused, because what runs goes through [`crate::host_call`] with a door
//! of its own. Decides nothing: who may answer is `rules::approval::resolver`.

mod hmac;
mod message;

use std::io::{self, Read as _, Write as _};
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::fs::MetadataExt as _;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use clawpen_os::events::{self, Interest};
use clawpen_os::sockets;
use clawpen_rules::approval::file::FileRefused;
use clawpen_rules::approval::resolver::{Place, Proof, Resolver, Speaker};
use clawpen_rules::config::locate::expand_tilde;

use super::place::From as Start;
use super::{Broker, BrokerError};
use crate::approvals_file::{ApprovalsStore, ChangeError};
use crate::clock::SystemClock;
use crate::database::{Database, DatabaseError};
pub use hmac::hmac_sha256;
pub use message::MAX_LINE;
use message::{Nonces, Reply, Said};

/// As many clients are served at a time; the next is told so and sent away.
pub const MAX_CONNECTIONS: usize = 16;
/// A client has so long to say what it wants.
const SAY_WITHIN: Duration = Duration::from_secs(5);
/// How long a question of the socket stands: its clients wait no longer.
const ASK_FOR: Duration = Duration::from_secs(15);
/// How often the server looks whether it is to end.
const LOOK: Duration = Duration::from_millis(200);

/// The socket cannot be served.
#[derive(Debug, thiserror::Error)]
pub enum SocketError {
    #[error("the approvals file cannot be used")]
    File(#[from] FileRefused),
    #[error(transparent)]
    Change(#[from] ChangeError),
    #[error(transparent)]
    Database(#[from] DatabaseError),
    #[error("another process serves `{path}` already")]
    Served { path: String },
    #[error("`{path}` is {what}; move it away, or change `socket.path` in the approvals file")]
    Place { path: String, what: &'static str },
    #[error("cannot {what} `{path}`")]
    Io {
        what: &'static str,
        path: String,
        #[source]
        cause: io::Error,
    },
}

/// A socket that is listened at; gone when dropped.
#[derive(Debug)]
pub struct Server {
    listener: OwnedFd,
    path: PathBuf,
    shared: Arc<Shared>,
}

/// What all connections know.
#[derive(Debug)]
struct Shared {
    state_dir: PathBuf,
    approvals: ApprovalsStore,
    nonces: Mutex<Nonces>,
    served: AtomicUsize,
    is_over: AtomicBool,
}

impl Server {
    /// Binds the socket that the approvals file names, and makes file and token if there are none.
    pub fn bind(state_dir: &Path, home: &str) -> Result<Self, SocketError> {
        let approvals = ApprovalsStore::of_home(home);
        // Both are there before anybody connects.
        drop(Database::open(state_dir)?);
        let file = approvals.ensure()?.file;
        let default = approvals.default_socket();
        let path = expand_tilde(file.socket_path().unwrap_or(&default), home);
        let path = PathBuf::from(path);
        let listener = listen(&path)?;
        let shared = Shared {
            state_dir: state_dir.to_owned(),
            approvals,
            nonces: Mutex::new(Nonces::default()),
            served: AtomicUsize::new(0),
            is_over: AtomicBool::new(false),
        };
        Ok(Self { listener, path, shared: Arc::new(shared) })
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Lets another thread end [`Server::serve`].
    pub fn ender(&self) -> Ender {
        Ender(Arc::clone(&self.shared))
    }

    /// Serves until it is ended. One thread a connection, and never more than the cap.
    pub fn serve(&self) -> io::Result<()> {
        let mut threads: Vec<std::thread::JoinHandle<()>> = Vec::new();
        while !self.shared.is_over.load(Ordering::Acquire) {
            threads.retain(|thread| !thread.is_finished());
            let ready = events::poll(&[(self.listener.as_fd(), Interest::Read)], Some(LOOK))?;
            if ready.is_empty() {
                continue;
            }
            let Some(stream) = sockets::accept(self.listener.as_fd())? else { continue };
            let stream = UnixStream::from(stream);
            if threads.len() >= MAX_CONNECTIONS {
                let _gone = say(&stream, &Reply::error("busy", "too many clients; try again"));
                continue;
            }
            let shared = Arc::clone(&self.shared);
            threads.push(std::thread::spawn(move || {
                shared.served.fetch_add(1, Ordering::Relaxed);
                // A client that went away is told nothing.
                let _gone = shared.meet(&stream);
            }));
        }
        for thread in threads {
            // A thread that panicked took only its own client along.
            let _panicked = thread.join();
        }
        Ok(())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // Left over, it is found out to be dead by whoever comes next.
        let _gone = std::fs::remove_file(&self.path);
    }
}

/// Ends a server.
#[derive(Debug, Clone)]
pub struct Ender(Arc<Shared>);

impl Ender {
    pub fn end(&self) {
        self.0.is_over.store(true, Ordering::Release);
    }
}

/// Listens at a path in a directory that is ours alone. A socket that nobody listens at any more is
/// replaced; anything else there is left alone.
fn listen(path: &Path) -> Result<OwnedFd, SocketError> {
    let shown = path.to_string_lossy().into_owned();
    let io = |what| {
        let path = shown.clone();
        move |cause| SocketError::Io { what, path, cause }
    };
    let place = |what| SocketError::Place { path: shown.clone(), what };
    let (Some(directory), Some(name)) = (path.parent(), path.file_name()) else {
        return Err(place("no path of a socket"));
    };
    let directory = std::fs::File::open(directory).map_err(io("open the directory of"))?;
    let facts = directory.metadata().map_err(io("look at the directory of"))?;
    let own = rustix::process::geteuid().as_raw();
    let may_others = facts.mode() & 0o022 != 0;
    if may_others || (facts.uid() != own && facts.uid() != 0) {
        return Err(place("in a directory that others may write"));
    }
    match std::fs::symlink_metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(cause) => return Err(io("look at")(cause)),
        Ok(found) => {
            use std::os::unix::fs::FileTypeExt as _;
            if !found.file_type().is_socket() {
                return Err(place("no socket"));
            }
            if sockets::connect(directory.as_fd(), name).is_ok() {
                return Err(SocketError::Served { path: shown });
            }
            std::fs::remove_file(path).map_err(io("remove the dead"))?;
        }
    }
    let listener = sockets::listen(directory.as_fd(), name).map_err(io("listen at"))?;
    events::set_nonblocking(listener.as_fd()).map_err(io("listen at"))?;
    Ok(listener)
}

impl Shared {
    fn meet(&self, stream: &UnixStream) -> io::Result<()> {
        let peer = sockets::peer(stream.as_fd())?;
        let own = rustix::process::geteuid().as_raw();
        let pid = u32::try_from(peer.pid).unwrap_or_default();
        if (peer.uid != own && peer.uid != 0) || pid == 0 {
            return say(stream, &Reply::error("unauthorized", "another user, or from a sandbox"));
        }
        let line = match read_line(stream) {
            Ok(line) => line,
            Err(error) if error.kind() == io::ErrorKind::InvalidData => {
                return say(stream, &Reply::error("too-long", &error.to_string()));
            }
            Err(error) if error.kind() == io::ErrorKind::TimedOut => {
                return say(stream, &Reply::error("too-slow", &error.to_string()));
            }
            Err(error) => return Err(error),
        };
        let reply = self.answer(stream, &line, (peer.uid, pid));
        say(stream, &reply)
    }

    /// What a line comes to. Every failure is an answer too: the client must not wait for nothing.
    fn answer(&self, stream: &UnixStream, line: &str, (uid, pid): (u32, u32)) -> Reply {
        let failed = |error: &dyn std::error::Error| Reply::error("failed", &error.to_string());
        let file = match self.approvals.read() {
            Ok(snapshot) => snapshot.file,
            Err(refused) => return failed(&refused),
        };
        let Some(token) = file.token() else {
            return Reply::error("unauthorized", "the approvals file has no token");
        };
        let now = crate::approvals_file::now_ms();
        let said = {
            let mut nonces = match self.nonces.lock() {
                Ok(nonces) => nonces,
                Err(poisoned) => poisoned.into_inner(),
            };
            message::read(line, token, &mut nonces, now)
        };
        let said = match said {
            Ok(said) => said,
            Err(refused) => return refused,
        };
        let database = match Database::open(&self.state_dir) {
            Ok(database) => database,
            Err(error) => return failed(&error),
        };
        let broker =
            Broker { database: &database, approvals: &self.approvals, clock: &SystemClock };
        let place = match broker.place(Start::Itself(pid)) {
            Ok(place) => place,
            Err(error) => return failed(&error),
        };
        let speaker = Speaker::SocketClient { uid, proof: Proof::Token };
        match said {
            Said::Request { .. } if place == Place::Sandbox => {
                Reply::error("unauthorized", "the client stands in a sandbox")
            }
            Said::Request { id, request } => self.ask(&broker, stream, (&id, &request)),
            Said::Resolve { id, approval, word } => {
                match broker.resolve(&approval, word, &Resolver { speaker, place }) {
                    Ok(resolved) => Reply::resolved(&id, &resolved),
                    Err(error) => Reply::error_for(&id, "not-found", &error.to_string()),
                }
            }
            Said::List { id } => match broker.list(super::Which::Pending) {
                Ok(found) => Reply::list(&id, &found),
                Err(error) => Reply::error_for(&id, "failed", &error.to_string()),
            },
            Said::Exec { id } => Reply::no_exec(&id),
        }
    }

    /// Puts a client's question to a person, and waits for the answer while the client does.
    fn ask(
        &self,
        broker: &Broker<'_>,
        stream: &UnixStream,
        (id, request): (&str, &message::Request),
    ) -> Reply {
        let failed = |error: BrokerError| Reply::error_for(id, "failed", &error.to_string());
        let asked = match broker.request(&request.ask(ASK_FOR)) {
            Ok(asked) => asked,
            Err(error) => return failed(error),
        };
        loop {
            match broker.wait_for(&asked, LOOK) {
                Err(error) => return failed(error),
                Ok(Some(_)) => break,
                Ok(None) if self.is_over.load(Ordering::Acquire) || has_left(stream) => {
                    // Whoever wanted to know is gone; a person must not be bothered with it.
                    return broker
                        .withdraw(&asked)
                        .map_or_else(failed, |()| Reply::decision(id, None));
                }
                Ok(None) => {}
            }
        }
        match broker.get(asked.as_str()) {
            Ok(approval) => Reply::decision(id, approval.word),
            Err(error) => failed(error),
        }
    }
}

/// Says whether the client hung up. Bytes that come unasked are no reason to.
fn has_left(stream: &UnixStream) -> bool {
    let happened = events::poll(&[(stream.as_fd(), Interest::None)], Some(Duration::ZERO));
    happened.is_ok_and(|happened| happened.iter().any(|event| event.hung_up))
}

/// One line, within the time and the length that a client has.
fn read_line(mut stream: &UnixStream) -> io::Result<String> {
    let end = Instant::now() + SAY_WITHIN;
    let mut line = Vec::new();
    let mut room = [0; 4096];
    loop {
        let left = end.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(io::Error::new(io::ErrorKind::TimedOut, "no whole line came in time"));
        }
        stream.set_read_timeout(Some(left))?;
        let count = match stream.read(&mut room) {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(count) => count,
            Err(error)
                if matches!(
                    error.kind(),
                    io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted
                ) =>
            {
                continue;
            }
            Err(error) => return Err(error),
        };
        let read = room.get(..count).unwrap_or_default();
        let part = read.split(|byte| *byte == b'\n').next().unwrap_or_default();
        line.extend_from_slice(part);
        if line.len() > MAX_LINE {
            let what = format!("a line is at most {MAX_LINE} bytes long");
            return Err(io::Error::new(io::ErrorKind::InvalidData, what));
        }
        if part.len() < count {
            return String::from_utf8(line)
                .map_err(|_odd| io::Error::new(io::ErrorKind::InvalidData, "no UTF-8"));
        }
    }
}

fn say(mut stream: &UnixStream, reply: &Reply) -> io::Result<()> {
    stream.set_write_timeout(Some(SAY_WITHIN))?;
    stream.write_all(reply.line().as_bytes())
}

#[cfg(test)]
mod tests;
