//! Commands: start, feed, watch, resize, signal, list.

use std::ffi::OsString;
use std::fmt;
use std::path::PathBuf;

use super::codec::{Cap, DecodeError, EncodeError, Reader, Wire, choice, record};
use super::limits;

/// A command of one supervisor, foreground or background. Never used twice.
pub type ProcessId = u64;

record! {
    /// Starts a command.
    pub struct Exec {
        /// The program and its arguments; not empty. A name without `/` is looked up in `PATH`.
        pub argv: Vec<OsString> [Cap::each(limits::ARGUMENTS, limits::WORD)],
        /// An absolute path in the sandbox; `None` is the sandbox's own working directory.
        pub cwd: Option<PathBuf> [Cap::bytes(limits::PATH)],
        /// What `env` is added to.
        pub base: EnvironmentBase,
        /// Variables; a later one wins over an earlier one and over the base.
        pub env: Vec<EnvVar> [Cap::count(limits::VARIABLES)],
        /// Where standard input comes from.
        pub stdin: StdinMode,
        /// Where standard error goes.
        pub stderr: StderrMode,
        /// A terminal of this size for all three streams; `stderr` does not matter then.
        pub tty: Option<TtySize>,
        /// Kill the tree after this long; 0 is never.
        pub timeout_ms: u64,
        /// On time-out, send SIGTERM this long before SIGKILL; 0 is SIGKILL at once.
        pub grace_ms: u32,
        /// Where output goes.
        pub output: ExecOutput,
    }
}

record! {
    /// Brings a program: a static binary of the host's, which no file of the sandbox holds. `WriteChunk`s follow, at
    /// most [`limits::PROGRAM`] bytes, then `WriteCommit`, answered by `Written`. It takes the place of the one before.
    #[derive(Copy)]
    pub struct ProgramOpen {
        /// What the host calls these bytes.
        pub name: u64,
    }
}

record! {
    /// Starts a command from the program that was brought: [`super::ErrorCode::CommandNotFound`] if none of that name is
    /// kept. All else is as with [`Exec`].
    pub struct ExecProgram {
        /// What the host calls the program.
        pub name: u64,
        /// The command; its first word is only what the program is told to be called.
        pub exec: Exec,
    }
}

/// One environment variable. The name holds no `=`.
///
/// Written out by hand for the sake of `Debug`, which never shows the value.
#[derive(Clone, PartialEq, Eq)]
pub struct EnvVar {
    /// Its name.
    pub name: OsString,
    /// Its value.
    pub value: OsString,
}

impl fmt::Debug for EnvVar {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EnvVar").field("name", &self.name).finish_non_exhaustive()
    }
}

impl Wire<'_> for EnvVar {
    const MIN_BYTES: usize = 2 * OsString::MIN_BYTES;

    fn put(&self, out: &mut Vec<u8>, _: Cap) -> Result<(), EncodeError> {
        self.name.put(out, Cap::bytes(limits::WORD))?;
        self.value.put(out, Cap::bytes(limits::WORD))
    }

    fn take(input: &mut Reader<'_>, _: Cap) -> Result<Self, DecodeError> {
        let name = OsString::take(input, Cap::bytes(limits::WORD))?;
        let value = OsString::take(input, Cap::bytes(limits::WORD))?;
        Ok(Self { name, value })
    }
}

choice! {
    /// The variables that a command starts from.
    #[derive(Copy)]
    pub enum EnvironmentBase {
        /// Those of the sandbox.
        Sandbox = 1,
        /// None.
        Empty = 2,
    }
}

choice! {
    /// Standard input.
    #[derive(Copy)]
    pub enum StdinMode {
        /// Nothing to read.
        Null = 1,
        /// What `Stdin` brings, until `StdinEof`.
        Pipe = 2,
    }
}

choice! {
    /// Standard error.
    #[derive(Copy)]
    pub enum StderrMode {
        /// A stream of its own.
        Separate = 1,
        /// Into standard output, in the order written.
        Merged = 2,
    }
}

record! {
    /// The size of a terminal in characters.
    #[derive(Copy)]
    pub struct TtySize {
        /// Lines.
        pub rows: u16,
        /// Characters in a line.
        pub columns: u16,
    }
}

choice! {
    /// What becomes of a command's output.
    #[derive(Copy)]
    pub enum ExecOutput {
        /// It goes to this channel. The command is killed when the connection closes.
        Stream {
            /// Bytes that may be sent before the first `Credit`; at most [`limits::WINDOW`].
            window: u32,
        } = 1,
        /// The newest part of it is kept, for `Attach`. The command outlives the connection.
        Background {
            /// Bytes to keep; at most [`limits::BACKGROUND_BUFFER`].
            buffer: u32,
        } = 2,
    }
}

record! {
    /// The command runs.
    #[derive(Copy)]
    pub struct Started {
        /// Its number here.
        pub process: ProcessId,
        /// Its process number inside the sandbox.
        pub pid: u32,
    }
}

choice! {
    /// Which stream bytes were written to.
    #[derive(Copy, Hash)]
    pub enum Stream {
        /// Standard output, or the terminal.
        Stdout = 1,
        /// Standard error.
        Stderr = 2,
    }
}

record! {
    /// A piece of a command's output.
    pub struct Output<'a> {
        /// Where it was written.
        pub stream: Stream,
        /// How many bytes, of both streams together, came before it.
        pub offset: u64,
        /// The bytes; never empty.
        pub bytes: &'a [u8] [Cap::bytes(limits::CHUNK)],
    }
}

record! {
    /// The command has ended, its tree is gone, all its output was sent.
    #[derive(Copy)]
    pub struct Exited {
        /// How it ended.
        pub end: End,
        /// Whether the time-out killed it.
        pub timed_out: bool,
        /// What it used, with all its descendants that were waited for.
        pub usage: Usage,
    }
}

choice! {
    /// How a command ended.
    #[derive(Copy, Hash)]
    pub enum End {
        /// It exited with this code, 0 to 255.
        Code(i32) = 1,
        /// This signal killed it.
        Signal(i32) = 2,
    }
}

record! {
    /// What a command used.
    #[derive(Copy, Default)]
    pub struct Usage {
        /// Processor time in the program, in microseconds.
        pub user_us: u64,
        /// Processor time in the kernel, in microseconds.
        pub system_us: u64,
        /// The most memory that one process of it held, in KiB.
        pub max_rss_kib: u64,
        /// Time from start to end, in microseconds.
        pub wall_us: u64,
    }
}

record! {
    /// Signals the command of this channel. No answer: the command may have ended already.
    #[derive(Copy)]
    pub struct Signal {
        /// The signal's number.
        pub signal: i32,
        /// Who gets it.
        pub reach: Reach,
    }
}

record! {
    /// Signals a command by its number. Answered by `Done`.
    #[derive(Copy)]
    pub struct Kill {
        /// Which command.
        pub process: ProcessId,
        /// The signal's number.
        pub signal: i32,
        /// Who gets it.
        pub reach: Reach,
    }
}

choice! {
    /// How far a signal goes.
    #[derive(Copy)]
    pub enum Reach {
        /// The command's first process.
        Process = 1,
        /// Every descendant, however it tried to get away. Use with SIGKILL to end a command.
        Tree = 2,
    }
}

record! {
    /// Opens the output of a background command.
    #[derive(Copy)]
    pub struct Attach {
        /// Which command.
        pub process: ProcessId,
        /// The first byte wanted. What is no longer kept is skipped.
        pub offset: u64,
        /// Bytes that may be sent before the first `Credit`; at most [`limits::WINDOW`].
        pub window: u32,
    }
}

record! {
    /// The answer to [`Attach`].
    #[derive(Copy)]
    pub struct Attached {
        /// Where the output will start: not before the offset asked for.
        pub offset: u64,
    }
}

record! {
    /// Every command that is running or whose output is still kept.
    pub struct ProcessList {
        /// In the order started.
        pub processes: Vec<ProcessEntry>
            [Cap::count(limits::PROCESSES + limits::FINISHED_PROCESSES)],
    }
}

record! {
    /// One command.
    pub struct ProcessEntry {
        /// Its number.
        pub process: ProcessId,
        /// The first process's number inside the sandbox.
        pub pid: u32,
        /// The start of the command line, cut to 256 bytes, for people.
        pub command: OsString [Cap::bytes(256)],
        /// Whether it outlives its connection.
        pub background: bool,
        /// Bytes written so far, of both streams.
        pub written: u64,
        /// The first byte that is still kept.
        pub kept_from: u64,
        /// Microseconds since it started.
        pub age_us: u64,
        /// Running or over.
        pub state: ProcessState,
    }
}

choice! {
    /// Whether a command goes on.
    #[derive(Copy)]
    pub enum ProcessState {
        /// It runs.
        Running = 1,
        /// It is over.
        Exited(Exited) = 2,
    }
}
