//! How a call to a supervisor fails, and which failures end the connection.

use std::io;

use clawpen_wire::supervisor::codec::{DecodeError, EncodeError};
use clawpen_wire::supervisor::{ErrorCode, Event, Failed, OLDEST_VERSION, VERSION};

/// There is no connection.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    #[error("cannot find out who is at the other end of the sandbox's socket")]
    Peer(#[source] io::Error),
    #[error(
        "process {found} answers in place of the sandbox's first process {expected}; \
         remove the sandbox and start it again"
    )]
    WrongPeer { expected: u32, found: i32 },
    #[error("the supervisor did not answer the greeting")]
    Hello(#[source] CallError),
    #[error(
        "the supervisor chose protocol version {theirs}, we speak {OLDEST_VERSION} to {VERSION}; \
         recreate the sandbox"
    )]
    Version { theirs: u16 },
}

impl ConnectError {
    /// Whether the two sides share no protocol version.
    pub const fn is_other_protocol(&self) -> bool {
        match self {
            Self::Version { .. } => true,
            Self::Hello(CallError::Failed(failure) | CallError::Ended(failure)) => {
                matches!(failure.code, ErrorCode::Version)
            }
            Self::Hello(_) | Self::Peer(_) | Self::WrongPeer { .. } => false,
        }
    }
}

/// A call did not work.
#[derive(Debug, thiserror::Error)]
pub enum CallError {
    /// The supervisor could not do it and said so.
    #[error(transparent)]
    Failed(Failure),
    /// We would not send it.
    #[error("the call is too large for one request")]
    TooLarge(#[source] EncodeError),
    /// The caller's own source or sink failed. The other side has been told to stop.
    #[error("input or output on our side failed")]
    Local(#[source] io::Error),
    /// The connection failed.
    #[error("the connection to the supervisor failed")]
    Connection(#[source] io::Error),
    /// The supervisor went away.
    #[error("the supervisor closed the connection")]
    Closed,
    /// The supervisor went away and said why.
    #[error("the supervisor ended the connection")]
    Ended(#[source] Failure),
    /// The supervisor did not answer in time.
    #[error("the supervisor did not answer in time")]
    NoAnswer,
    /// The supervisor broke the protocol.
    #[error("the supervisor broke the protocol")]
    Violation(#[source] Violation),
    /// An earlier call broke the connection.
    #[error("the connection was broken by an earlier call; connect again")]
    Broken,
}

impl CallError {
    /// Whether the two sides may now disagree on where they are.
    pub(super) const fn breaks_connection(&self) -> bool {
        match self {
            Self::Failed(_) | Self::TooLarge(_) | Self::Local(_) => false,
            Self::Connection(_)
            | Self::Closed
            | Self::Ended(_)
            | Self::NoAnswer
            | Self::Violation(_)
            | Self::Broken => true,
        }
    }

    /// The failure that the supervisor reported, if it was that.
    pub const fn failure(&self) -> Option<&Failure> {
        match self {
            Self::Failed(failure) => Some(failure),
            _ => None,
        }
    }
}

/// What the supervisor said went wrong.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Failure {
    pub code: ErrorCode,
    /// The kernel's error number, or 0.
    pub errno: i32,
    /// Without control characters, which could forge lines of a log or move a terminal's cursor.
    pub message: String,
}

impl From<Failed> for Failure {
    fn from(failed: Failed) -> Self {
        let Failed { code, errno, message } = failed;
        let clean = |c: char| if c.is_control() { char::REPLACEMENT_CHARACTER } else { c };
        Self { code, errno, message: message.chars().map(clean).collect() }
    }
}

/// What no honest supervisor sends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Violation {
    #[error("bytes that are no message")]
    Malformed(#[source] DecodeError),
    #[error("a frame for channel {found} during the call of channel {expected}")]
    WrongChannel { expected: u32, found: u32 },
    #[error("an event of kind {kind} that does not belong here")]
    Unexpected { kind: u8 },
    #[error("more bytes than there was credit for")]
    OverCredit,
    #[error("a credit of nothing, or beyond the largest window")]
    Credit,
    #[error("an empty piece of output or data, or an empty page with a next one")]
    Empty,
    #[error("output at offset {found} where {expected} was due")]
    Offset { expected: u64, found: u64 },
    #[error("a name that no directory can hold")]
    Name,
    #[error("a value out of its range")]
    Range,
}

impl From<Violation> for CallError {
    fn from(violation: Violation) -> Self {
        Self::Violation(violation)
    }
}

/// The error for an event that has no business in the call's present state.
pub(super) fn unexpected(event: &Event<'_>) -> CallError {
    CallError::Violation(Violation::Unexpected { kind: event.tag() })
}
