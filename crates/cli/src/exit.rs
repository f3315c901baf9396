//! What a run comes to, as an exit code that scripts can use.

/// How a command ended when nothing went wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// Done; for `why`: it is allowed.
    Done,
    /// `why` says no.
    Refused,
    /// `why command` says that a person must agree first.
    MustAsk,
}

impl Outcome {
    pub(crate) const fn code(self) -> u8 {
        match self {
            Self::Done => 0,
            Self::Refused => 3,
            Self::MustAsk => 4,
        }
    }
}

/// Anything that went wrong: usage, config, system.
pub(crate) const ERROR: u8 = 1;
