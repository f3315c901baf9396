//! A prepared command as one message to the shim that stands by: the words as bytes, the rest as descriptors.
//!
//! Both ends are this program, and the socket between them is theirs alone; still nothing here trusts a
//! length. A command too long for one message gets a shim of its own, which inherits it instead.

use std::ffi::CString;
use std::io;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};

use clawpen_os::events::{self, Interest};
use clawpen_os::sockets;
use clawpen_os::spawn::Session;

use crate::confine::{Executable, Prepared, Telling};
use crate::facts::Probe;

/// The longest order. Below what a socket takes at once wherever nobody has turned its buffers down.
const LONGEST: usize = 64 * 1024;
/// Directory, input, output, error, and the program if it is no file of the sandbox.
const DESCRIPTORS: usize = 5;

/// The kind of an order whose program comes with it.
const HELD: u8 = 4;

/// Writes `prepared` down; `None` if it is too long.
pub(crate) fn write(prepared: &Prepared) -> Option<Vec<u8>> {
    let Prepared { program, argv, environment, directory: _, session, streams: _, telling } =
        prepared;
    let session = match session {
        Session::Inherit => return None,
        Session::New => 0,
        Session::NewWithTerminal => 1,
    };
    let (kind, places): (u8, &[CString]) = match program {
        Executable::Places(places) => (0, places),
        Executable::Held(_) => (HELD, &[]),
        Executable::Observer(Probe::ListRoot) => (1, &[]),
        Executable::Observer(Probe::WriteOwnName) => (2, &[]),
        Executable::Observer(Probe::Nothing) => (3, &[]),
    };
    let telling = match telling {
        Telling::AtOnce => 0,
        Telling::Gathered => 1,
    };
    let mut message = vec![kind, session, telling];
    for words in [places, argv, environment] {
        message.extend_from_slice(&u32::try_from(words.len()).ok()?.to_le_bytes());
        for word in words {
            message.extend_from_slice(word.to_bytes_with_nul());
        }
        if message.len() > LONGEST {
            return None;
        }
    }
    Some(message)
}

/// Sends what [`write`] wrote.
pub(crate) fn give(to: BorrowedFd<'_>, message: &[u8], prepared: &Prepared) -> io::Result<()> {
    let [input, output, error] = &prepared.streams;
    let mut descriptors = [&prepared.directory, input, output, error].map(|fd| fd.as_fd()).to_vec();
    match &prepared.program {
        Executable::Held(program) => descriptors.push(program.as_fd()),
        Executable::Places(_) | Executable::Observer(_) => {}
    }
    sockets::send(to, message, &descriptors).map(drop)
}

/// The shim's end of the socket.
#[derive(Debug)]
pub(crate) struct Orders<'a> {
    from: BorrowedFd<'a>,
    /// Room for the longest. Kept: fresh memory costs more than the order.
    buffer: Vec<u8>,
}

impl<'a> Orders<'a> {
    pub(crate) fn new(from: BorrowedFd<'a>) -> Self {
        Self { from, buffer: Vec::new() }
    }

    /// Waits for an order; `None` if there will be none.
    pub(crate) fn take(&mut self) -> io::Result<Option<Prepared>> {
        // Apart from taking it: whoever was killed while he waited ends here, with the order unread, and
        // process 1 is told so. Within one call the kernel would still take it for him, and nobody would know
        // whether it ran.
        while events::poll(&[(self.from, Interest::Read)], None)?.is_empty() {}
        self.buffer.resize(LONGEST, 0);
        let message = sockets::receive(self.from, &mut self.buffer, DESCRIPTORS)?;
        if message.bytes == 0 {
            return Ok(None);
        }
        let broken = || io::Error::from(io::ErrorKind::InvalidData);
        let mut came = message.descriptors;
        let program = came.get(DESCRIPTORS - 1).is_some().then(|| came.pop()).flatten();
        let [directory, input, output, error] =
            <[_; DESCRIPTORS - 1]>::try_from(came).map_err(|_few| broken())?;
        let order = self.buffer.get_mut(..message.bytes).ok_or_else(broken)?;
        let words_read = read(order, program).ok_or_else(broken)?;
        // It may hold secrets, and the next command is another one.
        order.fill(0);
        let Words { program, argv, environment, session, telling } = words_read;
        let streams = [input, output, error];
        Ok(Some(Prepared { program, argv, environment, directory, session, streams, telling }))
    }
}

/// What an order says in words.
#[derive(Debug)]
struct Words {
    program: Executable,
    argv: Vec<CString>,
    environment: Vec<CString>,
    session: Session,
    telling: Telling,
}

/// Reads what [`write`] wrote, and was sent with `held`.
fn read(message: &[u8], held: Option<OwnedFd>) -> Option<Words> {
    let (&[kind, session, telling], mut rest) = message.split_first_chunk()?;
    let places = words(&mut rest)?;
    let argv = words(&mut rest)?;
    let environment = words(&mut rest)?;
    let program = match (kind, held) {
        (0, None) => Executable::Places(places),
        (1, None) => Executable::Observer(Probe::ListRoot),
        (2, None) => Executable::Observer(Probe::WriteOwnName),
        (3, None) => Executable::Observer(Probe::Nothing),
        (HELD, Some(program)) => Executable::Held(program),
        _ => return None,
    };
    let session = match session {
        0 => Session::New,
        1 => Session::NewWithTerminal,
        _ => return None,
    };
    let telling = match telling {
        0 => Telling::AtOnce,
        1 => Telling::Gathered,
        _ => return None,
    };
    rest.is_empty().then_some(Words { program, argv, environment, session, telling })
}

fn words(rest: &mut &[u8]) -> Option<Vec<CString>> {
    let (count, mut left) = rest.split_first_chunk()?;
    let count = u32::from_le_bytes(*count);
    let mut words = Vec::new();
    for _ in 0..count {
        let end = left.iter().position(|byte| *byte == 0)?;
        let (word, after) = left.split_at_checked(end + 1)?;
        words.push(CString::from_vec_with_nul(word.to_vec()).ok()?);
        left = after;
    }
    *rest = left;
    Some(words)
}

#[cfg(test)]
mod tests {
    use clawpen_os::sockets::Kind;

    use super::*;

    #[test]
    fn an_order_arrives_as_it_was_given() {
        let (ours, theirs) = sockets::pair(Kind::Messages).unwrap();
        let given = prepared(&["ls", "", "-l"], &["A=b", "EMPTY="]);
        let message = write(&given).unwrap();
        give(ours.as_fd(), &message, &given).unwrap();
        let taken = Orders::new(theirs.as_fd()).take().unwrap().unwrap();
        assert_eq!((taken.argv, taken.environment), (given.argv, given.environment));
        assert_eq!((taken.session, taken.telling), (Session::NewWithTerminal, Telling::Gathered));
        assert!(
            matches!(taken.program, Executable::Places(places) if places == [c"/bin/ls".to_owned()])
        );
    }

    #[test]
    fn a_closed_socket_means_no_order_and_a_long_command_is_none() {
        let (ours, theirs) = sockets::pair(Kind::Messages).unwrap();
        drop(ours);
        assert!(Orders::new(theirs.as_fd()).take().unwrap().is_none());
        let long = "x".repeat(LONGEST);
        assert!(write(&prepared(&[long.as_str()], &[])).is_none());
    }

    #[test]
    fn every_cut_and_every_addition_is_refused() {
        let message = write(&prepared(&["ls", "-l"], &["A=b"])).unwrap();
        for end in 0..message.len() {
            assert!(read(&message[..end], None).is_none(), "{end}");
        }
        assert!(read(&[message.as_slice(), &[0]].concat(), None).is_none());
        assert!(read(&message, Some(events::open_null().unwrap())).is_none());
        assert!(read(&message, None).is_some());
    }

    #[test]
    fn a_held_program_comes_with_its_order() {
        let (ours, theirs) = sockets::pair(Kind::Messages).unwrap();
        let held = Executable::Held(events::open_null().unwrap());
        let given = Prepared { program: held, ..prepared(&["search"], &[]) };
        let message = write(&given).unwrap();
        give(ours.as_fd(), &message, &given).unwrap();
        let taken = Orders::new(theirs.as_fd()).take().unwrap().unwrap();
        assert!(matches!(taken.program, Executable::Held(_)));
        assert_eq!(taken.argv, given.argv);
        assert!(read(&message, None).is_none());
    }

    fn prepared(argv: &[&str], environment: &[&str]) -> Prepared {
        let words =
            |words: &[&str]| words.iter().map(|word| CString::new(*word).unwrap()).collect();
        let null = || events::open_null().unwrap();
        Prepared {
            program: Executable::Places(vec![c"/bin/ls".into()]),
            argv: words(argv),
            environment: words(environment),
            directory: null(),
            session: Session::NewWithTerminal,
            streams: [null(), null(), null()],
            telling: Telling::Gathered,
        }
    }
}
