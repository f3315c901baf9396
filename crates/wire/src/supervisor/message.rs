//! The two sets of messages. The tag of each is the kind in its frame.

use super::codec::{Cap, choice};
use super::exec::{
    Attach, Attached, Exec, ExecProgram, Exited, Kill, Output, ProcessId, ProcessList, ProgramOpen,
    Signal, Started, TtySize,
};
use super::facts::{FactsReport, Identified, Identify};
use super::files::{
    Copy, Digest, Entries, Hash, List, Mkdir, Read, Remove, Rename, Stat, StatResult, WriteOpen,
    Written,
};
use super::limits;
use super::session::{Failed, Hello, Welcome};

choice! {
    /// What the host says.
    pub enum Request<'a> {
        /// Starts the connection, on the control channel.
        Hello(Hello) = 1,
        /// Asks for the inside report.
        Facts = 2,
        /// Says that the host has seen what it wanted: process 1 closes itself to observers.
        Seal = 3,
        /// Asks for a sign of life; answered by `Done`.
        Ping = 4,
        /// Ends the supervisor, and so the sandbox; answered by `Done` before it goes.
        Shutdown = 5,
        /// Asks which files stand at some places. Since version 2.
        Identify(Identify) = 6,

        /// Starts a command.
        Exec(Exec) = 16,
        /// Input for the command of this channel.
        Stdin(&'a [u8] [Cap::bytes(limits::CHUNK)]) = 17,
        /// The end of the input. On a terminal, the end-of-file character.
        StdinEof = 18,
        /// The terminal of this channel has a new size.
        Resize(TtySize) = 19,
        /// Signals the command of this channel.
        Signal(Signal) = 20,
        /// Lets the supervisor send this many more bulk bytes on this channel.
        Credit(u32) = 21,
        /// Asks for all commands.
        ListProcesses = 22,
        /// Opens the output of a background command.
        Attach(Attach) = 23,
        /// Ends an `Attach`; the command goes on. Answered by `Done`.
        Detach = 24,
        /// Signals a command by its number.
        Kill(Kill) = 25,
        /// Drops what is kept of a background command that is over; answered by `Done`.
        Forget(ProcessId) = 26,
        /// Brings a program that `ExecProgram` starts. Since version 3.
        ProgramOpen(ProgramOpen) = 27,
        /// Starts a command whose program was brought. Since version 3.
        ExecProgram(ExecProgram) = 28,

        /// Reads a range of a file.
        Read(Read) = 32,
        /// Ends a `Read` early; answered by `Done`.
        ReadStop = 33,
        /// Opens a file for writing.
        WriteOpen(WriteOpen) = 34,
        /// The next contents.
        WriteChunk(&'a [u8] [Cap::bytes(limits::CHUNK)]) = 35,
        /// All contents were sent: put the file in its place.
        WriteCommit = 36,
        /// Never mind; answered by `Done`, with the target as it was.
        WriteAbort = 37,
        /// Asks what a path is.
        Stat(Stat) = 38,
        /// Lists a directory.
        List(List) = 39,
        /// Makes a directory.
        Mkdir(Mkdir) = 40,
        /// Removes a path.
        Remove(Remove) = 41,
        /// Moves a path.
        Rename(Rename) = 42,
        /// Copies a path.
        Copy(Copy) = 43,
        /// Asks for the SHA-256 of a file.
        Hash(Hash) = 44,
    }
}

choice! {
    /// What the supervisor says.
    pub enum Event<'a> {
        /// The connection stands.
        Welcome(Welcome) = 1,
        /// The inside report.
        FactsReport(Box<FactsReport>) = 2,
        /// It was done; there is nothing to tell.
        Done = 3,
        /// It was not done.
        Failed(Failed) = 4,
        /// Lets the host send this many more bulk bytes on this channel.
        Credit(u32) = 5,
        /// Which files stand at the places. Since version 2.
        Identified(Identified) = 6,

        /// A command runs.
        Started(Started) = 16,
        /// A command wrote something.
        Output(Output<'a>) = 17,
        /// A command is over.
        Exited(Exited) = 18,
        /// All commands.
        ProcessList(ProcessList) = 19,
        /// The output of a background command follows.
        Attached(Attached) = 20,

        /// The next bytes of a file; never empty.
        Data(&'a [u8] [Cap::bytes(limits::CHUNK)]) = 32,
        /// A file was put in its place.
        Written(Written) = 33,
        /// What a path is.
        StatResult(StatResult) = 34,
        /// A page of a directory.
        Entries(Entries) = 35,
        /// The SHA-256 of a file.
        Digest(Digest) = 36,
    }
}
