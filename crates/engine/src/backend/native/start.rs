//! Starts the maker and waits until process 1 listens.

use std::fs::DirBuilder;
use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::fs::DirBuilderExt as _;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use clawpen_os::{beneath, sockets};
use clawpen_wire::pen::PenSpec;
use clawpen_wire::supervisor::End;

use super::{Request, StartFailure, leftovers};
use crate::channel::{Captured, Channel, Command};
use crate::supervisor_image::{Maker, ProcessOne};

/// The name of a pen's socket in its own directory.
const SOCKET: &str = "s";
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

/// A number that no other pen of this process has.
pub(super) fn number() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

fn failed(what: &'static str) -> impl FnOnce(io::Error) -> StartFailure {
    move |cause| StartFailure::System { what, cause }
}

/// Runs the maker; when this returns, process 1 listens and we are connected.
pub(super) fn make(
    maker: Maker,
    request: &Request<'_>,
    spec: &PenSpec,
) -> Result<Made, StartFailure> {
    let directory = RunDirectory::make(request)?;
    let opened =
        beneath::open_root(&directory.0).map_err(failed("open the pen's own directory"))?;
    let listener = sockets::listen(opened.as_fd(), SOCKET.as_ref())
        .map_err(failed("make the pen's socket"))?;
    let ProcessOne { pid, pidfd } = maker.make(spec, listener.as_fd())?;
    let stream =
        sockets::connect(opened.as_fd(), SOCKET.as_ref()).map_err(failed("reach the pen"))?;
    Ok(Made { pid: pid.get().unsigned_abs(), pidfd, stream: UnixStream::from(stream) })
}

/// The directory of one pen's socket, gone again as soon as somebody is connected.
struct RunDirectory(PathBuf);

impl RunDirectory {
    fn make(request: &Request<'_>) -> Result<Self, StartFailure> {
        let parent = Path::new(request.state_dir).join(leftovers::RUN);
        let name = leftovers::name(request.name, number())
            .map_err(failed("name the pen's own directory"))?;
        let own = parent.join(name);
        let private = || {
            let mut builder = DirBuilder::new();
            builder.mode(0o700);
            builder
        };
        let made = match private().create(&own) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                private()
                    .recursive(true)
                    .create(&parent)
                    .map_err(failed("make the directory for sockets"))?;
                private().create(&own)
            }
            other => other,
        };
        made.map_err(failed("make the pen's own directory"))?;
        Ok(Self(own))
    }
}

impl Drop for RunDirectory {
    fn drop(&mut self) {
        // What stays is private and of no use, and swept later.
        drop(std::fs::remove_file(self.0.join(SOCKET)));
        drop(std::fs::remove_dir(&self.0));
    }
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
