//! What the engine and the supervisor say to each other.
//!
//! One stream carries frames (see [`frame`]): a length, a channel number, a kind, a body. The host
//! sends [`Request`]s, the supervisor sends [`Event`]s. Channel 0 is the connection's own; every
//! other call gets a channel number that the host has not used before on this connection, so a
//! late frame can never be taken for an answer to a newer call.
//!
//! ```text
//! Hello ► Welcome                      first, once; until then nothing else is answered
//! Facts ► FactsReport                  before and after Seal
//! Identify ► Identified                the same
//! Seal ► Done                          from here on Exec and file calls are accepted
//!
//! Exec ► Started ► Output* ► Exited    foreground; Stdin, StdinEof, Resize, Signal, Credit go the other way
//! Exec ► Started                       background; the channel ends here, the command goes on
//! Attach ► Attached ► Output* ► Exited the output of a background command, from an offset on; Detach ► Done
//!                                      ends it, Stdin, StdinEof, Resize, Signal, Credit as above
//! Read ► Data* ► Done                  Credit goes the other way
//! WriteOpen, WriteChunk*, WriteCommit ► Credit* ► Written
//! ProgramOpen, WriteChunk*, WriteCommit ► Credit* ► Written
//!                                      a program of the host's, kept in memory for ExecProgram, which goes on as Exec
//! any other request ► its one answer
//! ```
//!
//! Any call may end with `Failed` instead. What ends a channel: `Done`, `Failed`, `Exited`,
//! `Written`, the one answer of a one-answer request, and `Started` of a background command. A
//! request that belongs to a call in progress (`Stdin`, `Credit`, `WriteChunk`, …) and arrives on a
//! channel that has ended is dropped without an answer, because the two may have crossed.
//!
//! Bulk bytes flow only as far as credit was given. The host gives the supervisor a window with
//! `Exec`, `Attach` and `Read` and adds to it with `Credit`; the supervisor lets the host send
//! [`limits::FIRST_INPUT_WINDOW`] bytes of `Stdin` or `WriteChunk` and adds to it with `Credit`,
//! which may come before `Started`. An attached command has taken part of its window before, so
//! there the host may send nothing until a `Credit` follows `Attached`; none follows if the command
//! takes no input.
//!
//! [`VERSION`] goes up when a kind is added. A kind never changes: see [`codec`].

#![warn(missing_docs)]

pub mod codec;
mod exec;
mod facts;
mod files;
pub mod frame;
pub mod limits;
mod message;
#[cfg(test)]
pub(crate) mod sample;
mod session;

pub use exec::{
    Attach, Attached, End, EnvVar, EnvironmentBase, Exec, ExecOutput, ExecProgram, Exited, Kill,
    Output, ProcessEntry, ProcessId, ProcessList, ProcessState, ProgramOpen, Reach, Signal,
    Started, StderrMode, StdinMode, Stream, TtySize, Usage,
};
pub use facts::{
    FactsReport, FileIdentity, Identified, Identify, Interface, LandlockFact, NamespaceFact,
    ProcessFacts,
};
pub use files::{
    Copy, Depth, Digest, Entries, Entry, FileKind, Hash, Links, List, Listing, Metadata, Mkdir,
    OnExisting, Parents, Place, Read, Remove, Rename, Stat, StatResult, WriteMode, WriteOpen,
    Written,
};
pub use message::{Event, Request};
pub use session::{ErrorCode, Failed, Hello, Welcome};

/// The protocol that this build speaks.
pub const VERSION: u16 = 3;
/// The oldest protocol that this build still speaks, on both sides.
pub const OLDEST_VERSION: u16 = 1;
/// The oldest protocol with [`Request::Identify`]. Who cannot do without it speaks none before.
pub const IDENTIFY_VERSION: u16 = 2;
/// The oldest protocol with [`Request::ProgramOpen`] and [`Request::ExecProgram`].
pub const PROGRAM_VERSION: u16 = 3;
/// The connection's own channel.
pub const CONTROL: u32 = 0;

#[cfg(test)]
mod tests;
