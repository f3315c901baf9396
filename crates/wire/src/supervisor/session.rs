//! The start of a connection, and how a call fails.

use super::codec::{Cap, choice, record};
use super::limits;

record! {
    /// The first request. The supervisor picks the newest version that both speak.
    pub struct Hello {
        /// The oldest protocol version that the host speaks.
        pub oldest: u16,
        /// The newest protocol version that the host speaks.
        pub newest: u16,
    }
}

record! {
    /// The answer to [`Hello`].
    pub struct Welcome {
        /// The version spoken from here on.
        pub version: u16,
        /// Which build of the supervisor this is, for people.
        pub build: String [Cap::bytes(limits::TEXT)],
        /// Whether `Seal` has been done, by this connection or an earlier one.
        pub sealed: bool,
        /// Made at random when the supervisor started: says whether it is still the same one.
        pub instance: u64,
    }
}

record! {
    /// A call that did not work. Ends its channel; on [`super::CONTROL`] it ends the connection.
    pub struct Failed {
        /// What kind of failure, for programs.
        pub code: ErrorCode,
        /// The kernel's error number, or 0.
        pub errno: i32,
        /// What failed, for people: lower case, no full stop.
        pub message: String [Cap::bytes(limits::TEXT)],
    }
}

choice! {
    /// The ways a call fails.
    #[derive(Copy, Hash)]
    pub enum ErrorCode {
        /// The host and the supervisor share no protocol version.
        Version = 1,
        /// A frame that makes no sense here; the connection is closed after it.
        Protocol = 2,
        /// `Exec` or a file call before `Seal`.
        NotSealed = 3,
        /// More calls, commands or buffers at once than the caps allow.
        Busy = 4,
        /// An argument that cannot be meant: an empty command, a relative working directory.
        Invalid = 5,
        /// The kernel or this build lacks what the call needs.
        Unsupported = 6,

        /// The command's file does not exist (a shell would exit with 127).
        CommandNotFound = 16,
        /// The command's file exists and cannot be run (a shell would exit with 126).
        NotExecutable = 17,
        /// The working directory is missing or closed.
        WorkingDirectory = 18,
        /// No process could be made: a process or memory limit is reached.
        CannotStart = 19,
        /// A protection could not be put on the command, so it was not started.
        Unconfined = 20,
        /// There is no process with this number.
        NoProcess = 21,

        /// The path does not exist.
        NotFound = 32,
        /// The path exists and was to be made.
        Exists = 33,
        /// A part of the path is no directory.
        NotDirectory = 34,
        /// The path is a directory and a file was needed.
        IsDirectory = 35,
        /// The directory has entries.
        NotEmpty = 36,
        /// The kernel refused by mode, owner or Landlock.
        Denied = 37,
        /// The file system is read-only there.
        ReadOnly = 38,
        /// The path leads out of its root.
        Outside = 39,
        /// Too many links, or a link where none is followed.
        Link = 40,
        /// The two places are on different file systems.
        CrossDevice = 41,
        /// No room left, or over quota.
        NoSpace = 42,
        /// Longer than a name, path or file may be.
        TooLong = 43,
        /// Neither a file nor a directory: a device, pipe or socket is not read or written.
        NotRegular = 44,
        /// There is no root with this number.
        NoRoot = 45,

        /// Any other error of the kernel; `errno` says which.
        Io = 63,
    }
}
