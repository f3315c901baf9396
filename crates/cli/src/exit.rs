//! What a run comes to, as an exit code that scripts can use.

/// How a command ended when nothing went wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// Done; for `why`: it is allowed.
    Done,
    /// `why` says no.
    Refused,
    /// What the command in the sandbox ended with, or what stands for that.
    Code(u8),
    /// `why command` says that a person must agree first.
    MustAsk,
}

impl Outcome {
    pub(crate) const fn code(self) -> u8 {
        match self {
            Self::Done => 0,
            Self::Refused => 3,
            Self::Code(code) => code,
            Self::MustAsk => 4,
        }
    }
}

/// Anything that went wrong: usage, config, system.
pub(crate) const ERROR: u8 = 1;
/// The command ran out of time.
pub(crate) const TIMED_OUT: u8 = 124;
/// There is no sandbox, or it failed: nothing of the command's own.
pub(crate) const NO_SANDBOX: u8 = 125;
/// The command is there and cannot be run.
pub(crate) const NOT_EXECUTABLE: u8 = 126;
/// There is no such command.
pub(crate) const NOT_FOUND: u8 = 127;
