//! Between the product and its engine: kills the engine when a certain request is on its way.

use std::io::{Read as _, Write as _};
use std::net::Shutdown;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use anyhow::Result;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

/// When an engine dies, seen from a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Moment {
    /// It never gets it.
    Before,
    /// It has it, and is at work.
    During,
    /// It is done, and nobody hears of it.
    After,
}

/// A request and when the engine dies of it.
#[derive(Debug, Clone, Copy)]
struct Deadly {
    request: &'static str,
    moment: Moment,
    engine: Pid,
}

/// Listens in an engine's place, for as long as the test runs.
#[derive(Debug)]
pub(crate) struct Relay {
    directory: tempfile::TempDir,
    deadly: Arc<Mutex<Option<Deadly>>>,
}

impl Relay {
    pub(crate) fn start(engine: &Path) -> Result<Self> {
        let directory = tempfile::Builder::new().prefix("relay").tempdir_in("/var/tmp")?;
        let listener = UnixListener::bind(directory.path().join("s"))?;
        let deadly = Arc::new(Mutex::new(None));
        let (engine, shared) = (engine.to_owned(), Arc::clone(&deadly));
        thread::spawn(move || {
            for client in listener.incoming().flatten() {
                let (engine, shared) = (engine.clone(), Arc::clone(&shared));
                thread::spawn(move || serve(client, &engine, &shared));
            }
        });
        Ok(Self { directory, deadly })
    }

    pub(crate) fn socket(&self) -> PathBuf {
        self.directory.path().join("s")
    }

    /// The next request that holds this text is the engine's last.
    pub(crate) fn arm(&self, request: &'static str, moment: Moment, engine: Pid) {
        let mut deadly = self.deadly.lock().unwrap_or_else(PoisonError::into_inner);
        *deadly = Some(Deadly { request, moment, engine });
    }

    /// Whether the engine was killed since.
    pub(crate) fn has_killed(&self) -> bool {
        self.deadly.lock().unwrap_or_else(PoisonError::into_inner).is_none()
    }
}

/// One connection. A client of HTTP sends a request in one piece, and waits for its answer.
fn serve(mut client: UnixStream, engine: &Path, shared: &Mutex<Option<Deadly>>) {
    let Ok(server) = UnixStream::connect(engine) else { return };
    let held = Arc::new(Mutex::new(None));
    let (Ok(from), Ok(to), Ok(mut up)) =
        (server.try_clone(), client.try_clone(), server.try_clone())
    else {
        return;
    };
    let answers = Arc::clone(&held);
    let back = thread::spawn(move || answer(from, to, &answers));
    let mut buffer = vec![0; 256 * 1024];
    while let Ok(length) = client.read(&mut buffer) {
        let Some(piece) = buffer.get(..length).filter(|piece| !piece.is_empty()) else { break };
        let mut deadly = shared.lock().unwrap_or_else(PoisonError::into_inner);
        let hit = deadly.take_if(|deadly| String::from_utf8_lossy(piece).contains(deadly.request));
        drop(deadly);
        match hit.map(|deadly| (deadly.moment, deadly.engine)) {
            Some((Moment::Before, engine)) => {
                die(engine);
                break;
            }
            Some((Moment::During, engine)) => {
                drop(up.write_all(piece));
                die(engine);
                break;
            }
            Some((Moment::After, engine)) => {
                *held.lock().unwrap_or_else(PoisonError::into_inner) = Some(engine);
                drop(up.write_all(piece));
            }
            None if up.write_all(piece).is_err() => break,
            None => {}
        }
    }
    drop(server.shutdown(Shutdown::Both));
    drop(client.shutdown(Shutdown::Both));
    drop(back.join());
}

/// The engine's answers; the one that is its last is swallowed.
fn answer(mut from: UnixStream, mut to: UnixStream, last: &Mutex<Option<Pid>>) {
    let mut buffer = vec![0; 256 * 1024];
    while let Ok(length) = from.read(&mut buffer) {
        let Some(piece) = buffer.get(..length).filter(|piece| !piece.is_empty()) else { break };
        if let Some(engine) = last.lock().unwrap_or_else(PoisonError::into_inner).take() {
            die(engine);
            break;
        }
        if to.write_all(piece).is_err() {
            break;
        }
    }
    drop(to.shutdown(Shutdown::Both));
}

fn die(engine: Pid) {
    // It is our own child, and not waited for yet: the number is still its own.
    let _gone = kill(engine, Signal::SIGKILL);
}
