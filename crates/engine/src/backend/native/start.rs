//! Starts the maker and waits until process 1 listens.

use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use clawpen_os::sockets;
use clawpen_wire::pen::PenSpec;
use clawpen_wire::supervisor::End;

use super::StartFailure;
use super::run_directory::{RunDirectory, SOCKET};
use crate::channel::{Captured, Channel, Command};
use crate::supervisor_image::{Maker, ProcessOne};

/// The setup command may install things.
const SETUP_PATIENCE: Duration = Duration::from_secs(10 * 60);
/// What is shown of a failed setup command.
const SHOWN: usize = 2000;

/// Process 1, and a connection to it.
pub(super) struct Made {
    pub(super) pid: u32,
    pub(super) pidfd: OwnedFd,
    pub(super) stream: UnixStream,
}

fn failed(what: &'static str) -> impl FnOnce(io::Error) -> StartFailure {
    move |cause| StartFailure::System { what, cause }
}

/// Runs the maker; when this returns, process 1 listens and we are connected.
pub(super) fn make(
    maker: Maker,
    directory: &RunDirectory,
    spec: &PenSpec,
) -> Result<Made, StartFailure> {
    let listener = sockets::listen(directory.opened(), SOCKET.as_ref())
        .map_err(failed("make the pen's socket"))?;
    let ProcessOne { pid, pidfd } = maker.make(spec, listener.as_fd())?;
    let stream =
        sockets::connect(directory.opened(), SOCKET.as_ref()).map_err(failed("reach the pen"))?;
    Ok(Made { pid: pid.get().unsigned_abs(), pidfd, stream: UnixStream::from(stream) })
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
    Err(StartFailure::SetupFailed(if said.is_empty() { how } else { format!("{how}: {said}") }))
}
