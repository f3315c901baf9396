//! Starts a gateway in the background and waits until it answers.

use std::ffi::OsString;
use std::io;
use std::os::fd::AsFd as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use clawpen_os::events::{self, Interest};
use clawpen_os::process::{self, Pid};

use super::log::{self, LogError};
use super::place::Place;
use super::probe::probe;
use super::record::{self, RecordError, Running};

/// How long a start may take.
const PATIENCE: Duration = Duration::from_secs(30);
/// How often the record is looked for; an end of the process is noticed at once.
const STEP: Duration = Duration::from_millis(10);
const PROBE: Duration = Duration::from_secs(2);
/// How much of what a failed gateway printed is told.
const TOLD: u64 = 16 * 1024;

/// What to start.
#[derive(Debug)]
pub struct Launch<'a> {
    pub program: &'a Path,
    pub arguments: &'a [OsString],
    /// Where it works: not where `up` was called, whose files are none of its business.
    pub directory: &'a Path,
    /// Variables that must mean the same over there.
    pub variables: &'a [(&'static str, String)],
}

/// There is no gateway.
#[derive(Debug, thiserror::Error)]
pub enum LaunchError {
    #[error(transparent)]
    Log(#[from] LogError),
    #[error(transparent)]
    Record(#[from] RecordError),
    #[error("cannot start `{program}`")]
    Spawn {
        program: PathBuf,
        #[source]
        cause: io::Error,
    },
    #[error("the gateway ended at once ({status}); it said:\n{said}")]
    Ended { status: ExitStatus, said: String },
    #[error("the gateway did not answer within {} s and was ended; see `{log}`", PATIENCE.as_secs())]
    Silent { log: String },
    #[error("cannot wait for the gateway")]
    Wait(#[source] io::Error),
}

/// Starts it. Whoever calls holds the place's lock.
pub fn start(place: &Place, launch: &Launch<'_>) -> Result<Running, LaunchError> {
    let path = place.log();
    let (output, length) = log::open_log(&path)?;
    let errors = output.try_clone().map_err(LaunchError::Wait)?;
    let mut child = Command::new(launch.program)
        .args(launch.arguments)
        .current_dir(launch.directory)
        .envs(launch.variables.iter().map(|(name, value)| (name, value)))
        .stdin(Stdio::null())
        .stdout(output)
        .stderr(errors)
        .spawn()
        .map_err(|cause| LaunchError::Spawn { program: launch.program.to_owned(), cause })?;
    match wait(place, &mut child) {
        Ok(Some(running)) => Ok(running),
        Ok(None) => Err(match child.wait() {
            Ok(status) => LaunchError::Ended { status, said: said(&path, length) },
            Err(error) => LaunchError::Wait(error),
        }),
        Err(error) => {
            // It is our child and not yet waited for, so the number still means it.
            let _ = child.kill();
            let _ = child.wait();
            Err(error)
        }
    }
}

/// Waits for it to answer; `None` if it ended.
fn wait(place: &Place, child: &mut Child) -> Result<Option<Running>, LaunchError> {
    let begin = Instant::now();
    let pid = i32::try_from(child.id()).ok().and_then(Pid::new);
    let pid = pid.ok_or_else(|| LaunchError::Wait(io::ErrorKind::InvalidData.into()))?;
    let handle = process::pidfd_open(pid).map_err(LaunchError::Wait)?;
    while begin.elapsed() < PATIENCE {
        let ended = events::poll(&[(handle.as_fd(), Interest::Read)], Some(STEP));
        if !ended.map_err(LaunchError::Wait)?.is_empty() {
            return Ok(None);
        }
        let Some(running) = record::find(place)? else { continue };
        let address = running.record.addresses.first().copied();
        if running.record.pid == child.id()
            && address.is_some_and(|address| probe(address, PROBE).is_ok())
        {
            return Ok(Some(running));
        }
    }
    Err(LaunchError::Silent { log: crate::state_file::shown(&place.log()) })
}

fn said(path: &Path, length: u64) -> String {
    let (_, bytes) = log::read_from(path, length, TOLD).unwrap_or_default();
    String::from_utf8_lossy(&bytes).trim().to_owned()
}

/// Called by the gateway itself: from now on no terminal is its own, so none takes it along when it closes.
pub fn leave_terminal() -> io::Result<()> {
    process::new_session()
}
