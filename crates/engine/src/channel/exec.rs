//! Commands: run one and watch it, start one and come back to it.

mod captured;
mod watch;

use std::ffi::OsString;
use std::io;
use std::os::fd::BorrowedFd;
use std::path::PathBuf;
use std::time::Duration;

use clawpen_wire::supervisor::{
    Attach, EnvVar, EnvironmentBase, ErrorCode, Event, Exec, ExecOutput, ExecProgram, Exited, Kill,
    ProcessEntry, ProcessId, ProcessList, Reach, Request, Started, StderrMode, StdinMode, Stream,
    TtySize, limits,
};

use super::error::{CallError, unexpected};
use super::{Channel, done};
pub use captured::Captured;
use watch::{Kind, Watch};

/// What the supervisor may send ahead of what the caller has taken: enough to keep it busy.
const WINDOW: u32 = 1024 * 1024;

/// A command to run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Command {
    /// The program and its arguments.
    pub argv: Vec<OsString>,
    /// An absolute path in the sandbox; `None` is the sandbox's own working directory.
    pub cwd: Option<PathBuf>,
    /// What `env` is added to.
    pub base: EnvironmentBase,
    /// Variables; a later one wins.
    pub env: Vec<EnvVar>,
    /// Where standard input comes from.
    pub stdin: StdinMode,
    /// Where standard error goes.
    pub stderr: StderrMode,
    /// A terminal for all three streams.
    pub tty: Option<TtySize>,
    /// The supervisor kills the tree after this long; 30 days at most.
    pub timeout: Option<Duration>,
    /// SIGTERM comes this long before SIGKILL on time-out.
    pub grace: Duration,
}

impl Command {
    /// A command with no input, no terminal and no time-out, in the sandbox's own place.
    pub fn new<A: Into<OsString>>(argv: impl IntoIterator<Item = A>) -> Self {
        Self {
            argv: argv.into_iter().map(Into::into).collect(),
            cwd: None,
            base: EnvironmentBase::Sandbox,
            env: Vec::new(),
            stdin: StdinMode::Null,
            stderr: StderrMode::Separate,
            tty: None,
            timeout: None,
            grace: Duration::ZERO,
        }
    }

    fn wire(&self, output: ExecOutput) -> Exec {
        Exec {
            argv: self.argv.clone(),
            cwd: self.cwd.clone(),
            base: self.base,
            env: self.env.clone(),
            stdin: self.stdin,
            stderr: self.stderr,
            tty: self.tty,
            timeout_ms: self.timeout.map_or(0, wire_timeout),
            grace_ms: u32::try_from(self.grace.as_millis()).unwrap_or(u32::MAX),
            output,
        }
    }

    /// How long the command may run. A supervisor that has not ended it by then is not waited for
    /// much longer.
    fn longest_run(&self) -> Option<Duration> {
        self.timeout.map(|timeout| timeout.saturating_add(self.grace))
    }
}

/// A program of ours for a sandbox: a static binary that needs nothing there.
#[derive(Debug, Clone, Copy)]
pub struct Program<'a> {
    /// Tells it from every other one; never used for other bytes.
    pub name: u64,
    pub bytes: &'a [u8],
}

/// Milliseconds, at least one because 0 means never, at most what the supervisor takes.
fn wire_timeout(timeout: Duration) -> u64 {
    u64::try_from(timeout.as_millis()).unwrap_or(u64::MAX).clamp(1, limits::TIMEOUT_MS)
}

/// The caller's side of a running command.
///
/// An error from any of these stops the call: a foreground command is killed with its whole tree,
/// a background one is left alone.
pub trait ExecIo {
    /// The command wrote `bytes`. May block: the command then blocks too, once its window is full.
    fn output(&mut self, stream: Stream, bytes: &[u8]) -> io::Result<()>;

    /// The command runs. Not called for [`Channel::attach`].
    fn started(&mut self, _started: Started) -> io::Result<()> {
        Ok(())
    }

    /// Whether there is input. Asked only for a command with [`StdinMode::Pipe`], and only when
    /// some could be sent.
    fn input(&self) -> Input<'_> {
        Input::Closed
    }

    /// Reads input after [`Input::Ready`], or when the descriptor of [`Input::Wait`] has some;
    /// 0 is its end.
    fn read_input(&mut self, _room: &mut [u8]) -> io::Result<usize> {
        Ok(0)
    }

    /// A descriptor that becomes readable when [`ExecIo::next_order`] has something.
    fn orders(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    /// The next order; `None` when there is no more for now. Never blocks.
    fn next_order(&mut self) -> io::Result<Option<Order>> {
        Ok(None)
    }
}

/// Where input stands.
#[derive(Debug, Clone, Copy)]
pub enum Input<'a> {
    /// There is none any more.
    Closed,
    /// There is some now.
    Ready,
    /// There is some when this is readable.
    Wait(BorrowedFd<'a>),
}

/// What a caller wants of a running command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Order {
    /// Its terminal has a new size.
    Resize(TtySize),
    /// It is to get this signal.
    Signal { signal: i32, reach: Reach },
    /// Enough: a foreground command is killed, a background one is left alone.
    Stop,
}

/// How watching a background command ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AttachEnd {
    /// The command is over.
    Exited(Exited),
    /// [`Order::Stop`] was given; the command goes on.
    Detached,
}

impl Channel {
    /// Runs a command to its end.
    pub fn exec(&mut self, command: &Command, io: &mut dyn ExecIo) -> Result<Exited, CallError> {
        let exec = command.wire(ExecOutput::Stream { window: WINDOW });
        self.exec_as(&Request::Exec(exec), command, io)
    }

    /// The same with a program of ours in place of a file of the sandbox. The command's first word is what it is told to
    /// be called. It is sent if the supervisor does not have it yet, and kept there.
    pub fn exec_program(
        &mut self,
        program: &Program<'_>,
        command: &Command,
        io: &mut dyn ExecIo,
    ) -> Result<Exited, CallError> {
        let exec = command.wire(ExecOutput::Stream { window: WINDOW });
        let request = Request::ExecProgram(ExecProgram { name: program.name, exec });
        match self.exec_as(&request, command, io) {
            Err(CallError::Failed(failure)) if failure.code == ErrorCode::CommandNotFound => {
                self.bring(program)?;
                self.exec_as(&request, command, io)
            }
            done => done,
        }
    }

    fn exec_as(
        &mut self,
        request: &Request<'_>,
        command: &Command,
        io: &mut dyn ExecIo,
    ) -> Result<Exited, CallError> {
        self.run(|link, channel| {
            link.queue(channel, request)?;
            let watch = Watch::new(link, channel, Kind::Foreground, WINDOW);
            match watch.feed(command.stdin).until(command.longest_run()).run(io)? {
                AttachEnd::Exited(exited) => Ok(exited),
                AttachEnd::Detached => Err(CallError::Closed),
            }
        })
    }

    /// Starts a command that outlives this connection; the last `buffer` bytes of its output are
    /// kept.
    pub fn start(&mut self, command: &Command, buffer: u32) -> Result<Started, CallError> {
        let request = Request::Exec(command.wire(ExecOutput::Background { buffer }));
        self.ask(&request, |event| match event {
            Event::Started(started) => Ok(started),
            other => Err(unexpected(&other)),
        })
    }

    /// Follows a background command from byte `offset` of its output on; what is no longer kept
    /// is skipped. With [`StdinMode::Pipe`], input goes to it too.
    pub fn attach(
        &mut self,
        process: ProcessId,
        offset: u64,
        stdin: StdinMode,
        io: &mut dyn ExecIo,
    ) -> Result<AttachEnd, CallError> {
        let request = Request::Attach(Attach { process, offset, window: WINDOW });
        self.run(|link, channel| {
            link.queue(channel, &request)?;
            let watch = Watch::new(link, channel, Kind::Background { offset }, WINDOW);
            watch.feed(stdin).run(io)
        })
    }

    /// Every command that runs or whose output is kept.
    pub fn processes(&mut self) -> Result<Vec<ProcessEntry>, CallError> {
        self.ask(&Request::ListProcesses, |event| match event {
            Event::ProcessList(ProcessList { processes }) => Ok(processes),
            other => Err(unexpected(&other)),
        })
    }

    /// Signals a command by its number.
    pub fn kill(&mut self, process: ProcessId, signal: i32, reach: Reach) -> Result<(), CallError> {
        self.ask(&Request::Kill(Kill { process, signal, reach }), done)
    }

    /// Drops what is kept of a background command that is over.
    pub fn forget(&mut self, process: ProcessId) -> Result<(), CallError> {
        self.ask(&Request::Forget(process), done)
    }
}
