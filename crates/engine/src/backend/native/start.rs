//! Starts the maker, waits until process 1 serves, and connects.

use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use clawpen_os::process::{self, Signal};
use clawpen_os::processors::{Apart, Processor};
use clawpen_os::sockets;
use clawpen_wire::pen::PenSpec;
use clawpen_wire::supervisor::End;

use super::StartFailure;
use super::run_directory::{RunDirectory, SOCKET};
use crate::channel::{Captured, Channel, Command, FactsAsked, Patience};
use crate::supervisor_image::{Maker, ProcessOne};

/// The setup command may install things.
const SETUP_PATIENCE: Duration = Duration::from_secs(10 * 60);
/// What is shown of a failed setup command.
const SHOWN: usize = 2000;

/// Process 1, and our end of a connection to it, on which it was asked what it is.
pub(super) struct Made {
    pub(super) pid: u32,
    pub(super) pidfd: OwnedFd,
    pub(super) asked: FactsAsked,
    /// Keeps us from where process 1 works, as long as we look at it.
    pub(super) apart: Apart,
}

fn failed(what: &'static str) -> impl FnOnce(io::Error) -> StartFailure {
    move |cause| StartFailure::System { what, cause }
}

/// Runs the maker for a pen that nobody comes back to: it has one connection, which has no name. When this
/// returns, process 1 serves it.
pub(super) fn make_nameless(maker: Maker, spec: &PenSpec) -> Result<Made, StartFailure> {
    let (ours, theirs) =
        sockets::pair(sockets::Kind::Stream).map_err(failed("make the pen's socket"))?;
    // The other end is handed to process 1 by its maker, and nobody else ever has it.
    let asked = FactsAsked::over(Box::new(UnixStream::from(ours)), Patience::default())?;
    let ordered = maker.order(spec, theirs.as_fd())?;
    let apart = Apart::from(Processor::here());
    let ProcessOne { pid, pidfd } = ordered.wait()?;
    Ok(Made { pid: pid.get().unsigned_abs(), pidfd, asked, apart })
}

/// Runs the maker; when this returns, process 1 listens and we are connected.
pub(super) fn make(
    maker: Maker,
    directory: &RunDirectory,
    spec: &PenSpec,
) -> Result<Made, StartFailure> {
    let listener = sockets::listen(directory.opened(), SOCKET.as_ref())
        .map_err(failed("make the pen's socket"))?;
    let ordered = maker.order(spec, listener.as_fd())?;
    let apart = Apart::from(Processor::here());
    let ProcessOne { pid, pidfd } = ordered.wait()?;
    let pid = pid.get().unsigned_abs();
    let reach = || {
        let stream = sockets::connect(directory.opened(), SOCKET.as_ref())
            .map_err(failed("reach the pen"))?;
        // By a name in the file system, where somebody else could have listened.
        Ok(FactsAsked::connect(UnixStream::from(stream), pid)?)
    };
    let asked = reach().inspect_err(|_: &StartFailure| {
        // Nobody else knows of it.
        let _ = process::pidfd_signal(pidfd.as_fd(), Signal::KILL);
    })?;
    Ok(Made { pid, pidfd, asked, apart })
}

/// Runs the setup command; what it wrote is shown if it fails.
pub(super) fn set_up(channel: &mut Channel, script: &str) -> Result<(), StartFailure> {
    let mut command = Command::new(["/bin/sh", "-lc", script]);
    command.timeout = Some(SETUP_PATIENCE);
    let mut output = Captured::new(SHOWN);
    let exited = channel.exec(&command, &mut output).map_err(StartFailure::Setup)?;
    let how = match (exited.timed_out, exited.end) {
        (false, End::Code(0)) => return Ok(()),
        (true, _) => "it took longer than ten minutes".to_owned(),
        (false, End::Code(code)) => format!("it ended with code {code}"),
        (false, End::Signal(signal)) => format!("signal {signal} killed it"),
    };
    let said = String::from_utf8_lossy(&output.stderr).trim().to_owned();
    Err(StartFailure::SetupFailed { how, said })
}
