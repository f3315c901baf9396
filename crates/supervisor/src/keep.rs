//! The process between a door and one program on the host: parent of all that the program leaves behind.
//!
//! ```text
//! keep file ARGV...        descriptor 4 is the program
//! keep path PATH ARGV...   the program is at PATH; descriptor 3, if there is one, is its script
//! ```
//!
//! Descriptors 7, 8 and 9 become the program's input, output and errors; the environment and the directory are the
//! program's own already. Descriptor 5 is the door's: `r` is said when the program runs, `f <step> <errno>` when it
//! does not, `c <code>` or `s <signal>` when it has ended and nothing of it is left. When the door closes it, or dies,
//! everything ends. It is a subreaper, so whatever the program starts stays below it, however it detaches.
//!
//! No boundary: the program runs as the same user on the same machine, and could stop this process. It holds what
//! behaves, and a door that was killed leaves nothing behind.

use std::ffi::CString;
use std::io;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::Path;
use std::time::Duration;

use clawpen_os::events::{self, Interest};
use clawpen_os::process::{self, Child, ExitStatus, Signal};
use clawpen_os::sockets;
use clawpen_os::spawn::{Image, Plan, Session, SpawnError};
use clawpen_os::tree;

use crate::report::{Failure, Step as _};

const SCRIPT: i32 = 3;
const PROGRAM: i32 = 4;
const DOOR: i32 = 5;
const STREAMS: [i32; 3] = [7, 8, 9];
/// How long what is left is tried to be ended.
const TREE_LIMIT: Duration = Duration::from_secs(5);

/// The descriptors of a program, as they came.
struct Given {
    streams: Vec<OwnedFd>,
    script: Option<OwnedFd>,
    program: Option<OwnedFd>,
}

/// Starts the program, waits for its end or the door's, and ends whatever is left.
pub(crate) fn run(words: &[&Path]) -> Result<(), Failure> {
    let door = process::inherited(DOOR).step("take the door's socket")?;
    process::set_child_subreaper().step("keep what the program leaves behind")?;
    let given = Given {
        streams: STREAMS
            .iter()
            .map(|number| process::inherited(*number))
            .collect::<io::Result<_>>()
            .step("take the program's streams")?,
        script: process::inherited(SCRIPT).ok(),
        program: process::inherited(PROGRAM).ok(),
    };
    let words = words.iter().map(|word| CString::new(word.as_os_str().as_bytes()));
    let words: Vec<CString> =
        words.collect::<Result<_, _>>().map_err(|_nul| Failure::new("a word holds a NUL"))?;
    let started = start(&words, &given)?;
    // While we held an end of its pipes, nobody would see the other end close.
    drop(given);
    match started {
        Ok(child) => {
            // A door that is gone shows in the wait.
            let _gone = sockets::send(door.as_fd(), b"r", &[]);
            watch(&child, door.as_fd()).step("wait for the program")
        }
        Err(SpawnError { step, cause }) => {
            let mut message = vec![b'f'];
            message.extend_from_slice(&(step as u32).to_le_bytes());
            message.extend_from_slice(&cause.raw_os_error().unwrap_or_default().to_le_bytes());
            let _gone = sockets::send(door.as_fd(), &message, &[]);
            Ok(())
        }
    }
}

fn start(words: &[CString], given: &Given) -> Result<Result<Child, SpawnError>, Failure> {
    let odd = || Failure::new("cannot tell what to keep: say file ARGV or path PATH ARGV");
    let (kind, rest) = words.split_first().ok_or_else(odd)?;
    let (image, argv) = match (kind.as_bytes(), &given.program, rest) {
        (b"file", Some(program), argv) => (Image::File(program.as_fd()), argv),
        (b"path", None, [path, argv @ ..]) => (Image::Paths(vec![path.clone()]), argv),
        _ => return Err(odd()),
    };
    let environment = std::env::vars_os().filter_map(|(name, value)| {
        let mut text = name.into_vec();
        text.push(b'=');
        text.extend(value.into_vec());
        CString::new(text).ok()
    });
    let mut plan = Plan::new(image, argv.to_vec(), environment.collect())
        .session(Session::New)
        // If we are killed, so is the program; what it started is then the door's, if that lives.
        .death_signal(Signal::KILL);
    for (number, stream) in (0..).zip(&given.streams) {
        plan = plan.descriptor(number, stream.as_fd());
    }
    if let Some(script) = &given.script {
        plan = plan.descriptor(SCRIPT, script.as_fd());
    }
    Ok(plan.spawn())
}

fn watch(child: &Child, door: BorrowedFd<'_>) -> io::Result<()> {
    let status = loop {
        if let Some(ended) = child.try_wait()? {
            break Some(ended.status);
        }
        let happened =
            events::poll(&[(child.pidfd(), Interest::Read), (door, Interest::Read)], None)?;
        // The door says nothing: whatever happens there is that it is shut.
        if happened.iter().any(|event| event.token == 1) {
            break None;
        }
    };
    tree::kill_descendants(TREE_LIMIT, &mut |_ended| {})?;
    let message = match status {
        None => return Ok(()),
        Some(ExitStatus::Code(code)) => [b'c', code],
        // At most 64.
        Some(ExitStatus::Signal(signal)) => [b's', signal.get().to_le_bytes()[0]],
    };
    let _gone = sockets::send(door, &message, &[]);
    Ok(())
}
