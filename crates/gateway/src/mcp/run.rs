//! Opens a door and keeps it open, on threads of its own.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use super::http::{self, Guard, HttpError};
use super::stdio::{self, StdioError};
use super::{Backroom, Server, Settings};

/// How often somebody looks whether something is due.
const TIDY: Duration = Duration::from_secs(60);
/// How long calls may take to end when the door is shut.
const LAST_MOMENTS: Duration = Duration::from_secs(10);
/// Threads that serve clients; what blocks has others.
const THREADS: usize = 2;

/// Why a door was not opened or did not stay open.
#[derive(Debug, thiserror::Error)]
pub enum DoorError {
    #[error("cannot start the threads of the door")]
    Threads(#[source] io::Error),
    #[error(transparent)]
    Stdio(#[from] StdioError),
    #[error(transparent)]
    Http(#[from] HttpError),
}

/// Serves the client at standard input and output until it leaves.
pub fn over_stdio(settings: Settings) -> Result<(), DoorError> {
    let backroom = Backroom::open();
    on_threads(&backroom, stdio::serve(Server::new(backroom.clone(), settings)))?;
    Ok(())
}

/// Serves clients over HTTP until we are told to end. `listening` is told where.
pub fn over_http(
    settings: Settings,
    (address, guard): (SocketAddr, Guard),
    listening: impl FnOnce(SocketAddr),
) -> Result<(), DoorError> {
    let backroom = Backroom::open();
    let server = Server::new(backroom.clone(), settings);
    on_threads(&backroom, async {
        let door = http::Door::open(address).await?;
        listening(door.address());
        door.serve(server, guard).await
    })?;
    Ok(())
}

fn on_threads<T, E: Into<DoorError>>(
    backroom: &Backroom,
    job: impl Future<Output = Result<T, E>>,
) -> Result<T, DoorError> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(THREADS)
        .enable_all()
        .build()
        .map_err(DoorError::Threads)?;
    let desk = std::sync::Arc::clone(&backroom.desk);
    runtime.spawn(async move {
        loop {
            tokio::time::sleep(TIDY).await;
            let desk = std::sync::Arc::clone(&desk);
            // What did not work is tried again; the calls do not depend on it.
            let _notes = tokio::task::spawn_blocking(move || desk.tidy()).await;
        }
    });
    let done = runtime.block_on(job);
    runtime.shutdown_timeout(LAST_MOMENTS);
    done.map_err(Into::into)
}
