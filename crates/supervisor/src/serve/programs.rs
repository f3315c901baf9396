//! Programs that the host brings: kept in memory, sealed, and started from there.
//!
//! For what must be the host's own program and not a file of the sandbox: no directory has to be writable and executable
//! for it, none of its paths leads to it, and no command can put another in its place. It is mode 0111, readable by
//! nobody: the kernel then closes its processes to those of the same user, who could otherwise write into their memory.
//! It runs as every command does, confined, below its shim; never in process 1.

use std::fs::File;
use std::io::Write as _;
use std::os::fd::{AsFd as _, OwnedFd};

use clawpen_os::beneath;
use clawpen_os::memfd::{self, Use};
use clawpen_wire::supervisor::{ErrorCode, Event, Failed, Request, Written, limits};

use super::Server;
use super::connection::Channel;
use super::watch::ConnectionId;
use crate::exec::{From, failed};
use crate::files::io_failed;

/// Credit goes back in pieces of at least this size.
const CREDIT_PIECE: u32 = limits::FIRST_INPUT_WINDOW / 2;
/// Nobody reads it.
const MODE: u32 = 0o111;

/// One that is here.
#[derive(Debug)]
pub(super) struct Program {
    name: u64,
    file: OwnedFd,
}

/// One on its way.
#[derive(Debug)]
pub(crate) struct Incoming {
    name: u64,
    file: File,
    bytes: u64,
    taken: u32,
}

impl Incoming {
    pub(super) fn open(name: u64) -> Result<Self, Failed> {
        let file = memfd::open("program", Use::Execute);
        let file = file.map_err(|error| io_failed(&error, "a program in memory"))?;
        Ok(Self { name, file, bytes: 0, taken: 0 })
    }

    /// Takes the next piece. Gives the credit to hand back, once it is worth a frame.
    fn write(&mut self, bytes: &[u8]) -> Result<Option<u32>, Failed> {
        self.bytes += bytes.len() as u64;
        if self.bytes > limits::PROGRAM {
            return Err(failed(ErrorCode::TooLong, "a program is longer than it may be"));
        }
        let written = self.file.write_all(bytes);
        written.map_err(|error| io_failed(&error, "a program in memory"))?;
        self.taken = self.taken.saturating_add(u32::try_from(bytes.len()).unwrap_or(u32::MAX));
        Ok((self.taken >= CREDIT_PIECE).then(|| std::mem::take(&mut self.taken)))
    }

    fn finish(self) -> Result<(Program, u64), Failed> {
        let check = |error| io_failed(&error, "a program in memory");
        beneath::set_mode(self.file.as_fd(), MODE).map_err(check)?;
        let file = memfd::seal(self.file).map_err(check)?;
        Ok((Program { name: self.name, file }, self.bytes))
    }
}

impl Server {
    /// The program that the host calls so.
    pub(super) fn brought(&self, name: u64) -> Result<From, Failed> {
        let program = self.program.as_ref().filter(|program| program.name == name);
        let program = program.ok_or_else(|| {
            failed(ErrorCode::CommandNotFound, "no program of that name was brought")
        })?;
        let file = program.file.try_clone();
        file.map(From::Memory).map_err(|error| io_failed(&error, "a program in memory"))
    }

    pub(super) fn continue_program(
        &mut self,
        id: ConnectionId,
        channel: u32,
        request: Request<'_>,
    ) {
        let Some(connection) = self.connections.get_mut(&id) else { return };
        let Some(Channel::Program(incoming)) = connection.channels.get_mut(&channel) else {
            return;
        };
        match request {
            Request::WriteChunk(bytes) => match incoming.write(bytes) {
                Ok(Some(credit)) => connection.say(channel, &Event::Credit(credit)),
                Ok(None) => {}
                Err(failed) => connection.fail(channel, failed),
            },
            Request::WriteCommit => {
                let Some(Channel::Program(incoming)) = connection.channels.remove(&channel) else {
                    return;
                };
                match incoming.finish() {
                    Ok((program, bytes)) => {
                        let created = self.program.replace(program).is_none();
                        connection.say(channel, &Event::Written(Written { bytes, created }));
                    }
                    Err(failed) => connection.fail(channel, failed),
                }
            }
            Request::WriteAbort => {
                connection.channels.remove(&channel);
                connection.say(channel, &Event::Done);
            }
            _ => self.break_off(id, "a request that makes no sense for a program"),
        }
    }
}
