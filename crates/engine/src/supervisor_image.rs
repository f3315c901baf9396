//! The embedded supervisor, and how a native pen is started from it.
//!
//! The build script has put a static binary beside this module. It is handed to the kernel as a sealed file in
//! memory, made once per process and shared by every pen: nothing is unpacked, nothing on disk can be swapped.
//! A [`Maker`] is that program waiting for its order: started while we still decide, or forked from a [`Zygote`],
//! which is the program started once. The order is a pen spec and a socket; the answer is process 1, serving
//! it. The maker is a small process of its own, so making a pen costs the same however big this one is.

use std::ffi::{CStr, CString};
use std::io;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use clawpen_os::events::{self, Interest};
use clawpen_os::memfd;
use clawpen_os::process::{self, Child, Pid, Signal};
use clawpen_os::sockets;
use clawpen_os::spawn::{Image, Plan, Session, SpawnError};
use clawpen_wire::pen::PenSpec;
use clawpen_wire::supervisor::codec::EncodeError;

use crate::backend::native::switches;

/// The static binary, for backends that mount it into a container.
pub static IMAGE: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/clawpen-supervisor"));

/// How long the making of one pen may take. It takes milliseconds; a machine that is this slow is broken.
const PATIENCE: Duration = Duration::from_secs(20);
/// Longer than any message of the maker.
const MESSAGE: usize = 2048;

/// Process 1 of a pen, as the host sees it.
#[derive(Debug)]
pub struct ProcessOne {
    pub pid: Pid,
    /// Stays valid, and stays this process, even when the number is used again.
    pub pidfd: OwnedFd,
}

/// A pen could not be made.
#[derive(Debug, thiserror::Error)]
pub enum StartPenError {
    #[error("the pen spec is too long to be handed over")]
    Spec(#[source] EncodeError),
    #[error("the pen maker cannot be prepared")]
    Prepare(#[source] io::Error),
    #[error("the pen maker cannot be started")]
    Spawn(#[source] SpawnError),
    #[error("the pen cannot be made: {0}")]
    Refused(String),
    #[error("the pen maker ended before it had made anything")]
    Vanished,
    #[error("the pen's first process was killed while the pen was being made")]
    Killed,
    #[error("the pen was not ready within {} s", PATIENCE.as_secs())]
    TooSlow,
}

/// The embedded supervisor as a sealed file in memory, ready to be executed.
pub fn program() -> io::Result<BorrowedFd<'static>> {
    static PROGRAM: OnceLock<OwnedFd> = OnceLock::new();
    if let Some(program) = PROGRAM.get() {
        return Ok(program.as_fd());
    }
    let made = memfd::sealed("clawpen-supervisor", IMAGE, memfd::Use::Execute)?;
    // Two threads may get here at once; the second file is closed again.
    Ok(PROGRAM.get_or_init(|| made).as_fd())
}

/// A pen maker that has made its namespaces and waits to hear what for. Dropping it ends it.
#[derive(Debug)]
pub struct Maker {
    /// `None` for a child of the zygote, which ends when its socket closes and is reaped there.
    process: Option<Child>,
    socket: OwnedFd,
}

/// The program, started once, that forks makers. Dropping it ends it; makers go on.
#[derive(Debug)]
pub struct Zygote {
    process: Child,
    socket: OwnedFd,
}

/// Starts the program; gives our end of the socket that it has as descriptor 3.
fn start(mode: &CStr) -> Result<(Child, OwnedFd), StartPenError> {
    let program = program().map_err(StartPenError::Prepare)?;
    let null = events::open_null().map_err(StartPenError::Prepare)?;
    let (socket, theirs) =
        sockets::pair(sockets::Kind::Messages).map_err(StartPenError::Prepare)?;
    let argv = [c"clawpen-supervisor", mode].map(CString::from).to_vec();
    let process = Plan::new(Image::File(program), argv, switches::switches())
        .apart()
        .descriptor(0, null.as_fd())
        .descriptor(1, null.as_fd())
        .descriptor(2, null.as_fd())
        .descriptor(3, theirs.as_fd())
        // Ctrl-C at a terminal goes to a whole group: it is meant for the command, not for the pen.
        .session(Session::New)
        .spawn()
        .map_err(StartPenError::Spawn)?;
    Ok((process, socket))
}

impl Zygote {
    pub fn start() -> Result<Self, StartPenError> {
        let (process, socket) = start(c"zygote")?;
        Ok(Self { process, socket })
    }

    #[cfg(test)]
    pub(crate) fn pid(&self) -> u32 {
        self.process.pid().get().unsigned_abs()
    }

    /// Has it fork a maker, which works on its own processor while the caller goes on.
    pub fn maker(&self) -> Result<Maker, StartPenError> {
        let (socket, theirs) =
            sockets::pair(sockets::Kind::Messages).map_err(StartPenError::Prepare)?;
        sockets::send(self.socket.as_fd(), b"N", &[theirs.as_fd()])
            .map_err(StartPenError::Prepare)?;
        Ok(Maker { process: None, socket })
    }
}

impl Drop for Zygote {
    fn drop(&mut self) {
        let _ = self.process.signal(Signal::KILL);
        let _ = self.process.wait();
    }
}

impl Maker {
    /// Starts one. It works on its own processor while the caller goes on.
    pub fn start() -> Result<Self, StartPenError> {
        let (process, socket) = start(c"make")?;
        Ok(Self { process: Some(process), socket })
    }

    /// Has it make a native pen, which serves whoever connects to `socket` if that listens, else the other end
    /// of it, alone.
    pub fn order(self, spec: &PenSpec, socket: BorrowedFd<'_>) -> Result<Ordered, StartPenError> {
        let spec = spec.to_bytes().map_err(StartPenError::Spec)?;
        let spec = memfd::sealed("clawpen-spec", &spec, memfd::Use::Read)
            .map_err(StartPenError::Prepare)?;
        let taken = sockets::send(self.socket.as_fd(), b"P", &[spec.as_fd(), socket]);
        Ok(Ordered { maker: self, taken: taken.map(drop) })
    }

    /// Its own number; nobody knows that of a zygote's child.
    #[cfg(test)]
    pub(crate) fn pid(&self) -> Option<u32> {
        self.process.as_ref().map(|process| process.pid().get().unsigned_abs())
    }

    /// Whether it waits for its order. One that has said anything before it heard one is of no use.
    pub(crate) fn is_waiting(&self) -> bool {
        let said = events::poll(&[(self.socket.as_fd(), Interest::Read)], Some(Duration::ZERO));
        said.is_ok_and(|said| said.is_empty())
    }
}

/// A pen that is being made. Dropping it ends the maker; what that has begun ends with it.
#[derive(Debug)]
pub struct Ordered {
    maker: Maker,
    taken: io::Result<()>,
}

impl Ordered {
    /// Waits until the pen serves.
    ///
    /// Nothing is left behind on failure: the maker kills what it has made, and what it could not kill
    /// ends when its descriptors close.
    pub fn wait(self) -> Result<ProcessOne, StartPenError> {
        match (hear(self.maker.socket.as_fd()), self.taken) {
            // It could not be told at all, and not because it ended.
            (Err(StartPenError::Vanished), Err(error))
                if !matches!(error.raw_os_error(), Some(libc::EPIPE | libc::ECONNRESET)) =>
            {
                Err(StartPenError::Prepare(error))
            }
            (heard, _) => heard,
        }
    }
}

impl Drop for Maker {
    /// One that has made its pen is ending by itself; any other has nothing to say any more.
    fn drop(&mut self) {
        if let Some(process) = &self.process {
            let _ = process.signal(Signal::KILL);
            let _ = process.wait();
        }
    }
}

/// Reads until the pen is ready. Process 1 and the maker both speak, in any order.
fn hear(from: BorrowedFd<'_>) -> Result<ProcessOne, StartPenError> {
    let deadline = Instant::now() + PATIENCE;
    let mut made = None;
    let mut is_ready = false;
    loop {
        match made.take() {
            Some(process_one) if is_ready => return Ok(process_one),
            still_building => made = still_building,
        }
        let outcome = hear_one(from, deadline);
        match outcome {
            Ok(Heard::Made(process_one)) => made = Some(process_one),
            Ok(Heard::Ready) => is_ready = true,
            Err(error) => {
                let Some(process_one) = made else {
                    // Whatever it was about to make ends with its descriptors.
                    return Err(match error {
                        StartPenError::Killed => StartPenError::Vanished,
                        other => other,
                    });
                };
                let _ = process::pidfd_signal(process_one.pidfd.as_fd(), Signal::KILL);
                return Err(error);
            }
        }
    }
}

enum Heard {
    Made(ProcessOne),
    Ready,
}

fn hear_one(from: BorrowedFd<'_>, deadline: Instant) -> Result<Heard, StartPenError> {
    let left = deadline.saturating_duration_since(Instant::now());
    let events =
        events::poll(&[(from, Interest::Read)], Some(left)).map_err(StartPenError::Prepare)?;
    if events.is_empty() {
        return if left.is_zero() { Err(StartPenError::TooSlow) } else { hear_one(from, deadline) };
    }
    let mut buffer = [0_u8; MESSAGE];
    let message = match sockets::receive(from, &mut buffer, 1) {
        // The kernel tells first, and once, that the maker ended with its order unread; what it said before
        // that is still there.
        Err(error) if error.kind() == io::ErrorKind::ConnectionReset => {
            sockets::receive(from, &mut buffer, 1)
        }
        received => received,
    }
    .map_err(StartPenError::Prepare)?;
    match buffer.get(..message.bytes).and_then(<[u8]>::split_first) {
        Some((b'M', number)) => {
            let number = number.first_chunk().copied().map(i32::from_le_bytes);
            let pidfd = message.descriptors.into_iter().next();
            match (number.and_then(Pid::new), pidfd) {
                (Some(pid), Some(pidfd)) => Ok(Heard::Made(ProcessOne { pid, pidfd })),
                _ => Err(StartPenError::Killed),
            }
        }
        Some((b'R', _)) => Ok(Heard::Ready),
        Some((b'F', text)) => {
            Err(StartPenError::Refused(String::from_utf8_lossy(text).into_owned()))
        }
        Some(_) | None => Err(StartPenError::Killed),
    }
}

#[cfg(test)]
pub(crate) mod sample;

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixStream;

    use clawpen_wire::pen::Lifetime;
    use clawpen_wire::supervisor::{End, Place, StdinMode};

    use super::sample::{listener, spec, start_pen};
    use super::*;
    use crate::channel::{Captured, Channel, Command, WriteOptions};

    #[test]
    fn the_supervisor_is_embedded_static_and_small() {
        assert!(IMAGE.starts_with(b"\x7fELF"));
        // Program headers of a 64-bit ELF file: offset at 32, size and number of entries at 54 and 56.
        let half = |at: usize| usize::from(u16::from_le_bytes([IMAGE[at], IMAGE[at + 1]]));
        let start = usize::from(IMAGE[32]);
        let types: Vec<u8> = (0..half(56)).map(|entry| IMAGE[start + entry * half(54)]).collect();
        assert!(types.contains(&1) && !types.contains(&3), "it asks for an interpreter: {types:?}");
        assert!(IMAGE.len() < 2 * 1024 * 1024, "{} bytes", IMAGE.len());
    }

    #[test]
    fn a_spec_without_a_plan_is_refused_with_the_makers_words() {
        let (_directory, listener) = listener();
        let spec = PenSpec { make: None, ..spec() };
        let refused = start_pen(&spec, listener.as_fd()).unwrap_err();
        assert_eq!(
            refused.to_string(),
            "the pen cannot be made: the pen spec does not say how to make a pen"
        );
    }

    #[test]
    fn a_maker_that_is_not_needed_leaves_nothing() {
        let maker = Maker::start().unwrap();
        let pidfd = process::pidfd_open(maker.process.as_ref().unwrap().pid()).unwrap();
        drop(maker);
        let ended = [(pidfd.as_fd(), Interest::Read)];
        assert!(!events::poll(&ended, Some(PATIENCE)).unwrap().is_empty());
    }

    fn make(maker: Maker, listener: BorrowedFd<'_>) -> Result<ProcessOne, StartPenError> {
        maker.order(&spec(), listener)?.wait()
    }

    #[test]
    fn a_zygote_makes_pens_until_it_is_dropped_and_they_outlive_it() {
        let zygote = Zygote::start().unwrap();
        let zygote_itself = process::pidfd_open(zygote.process.pid()).unwrap();
        let mut pens = Vec::new();
        for _ in 0..3 {
            // One that is not needed ends by itself.
            drop(zygote.maker().unwrap());
            let (directory, listener) = listener();
            let process_one = make(zygote.maker().unwrap(), listener.as_fd()).unwrap();
            pens.push((directory, process_one));
        }
        let late = zygote.maker().unwrap();
        drop(zygote);
        let ended = [(zygote_itself.as_fd(), Interest::Read)];
        assert!(!events::poll(&ended, Some(PATIENCE)).unwrap().is_empty());
        // It was forked before, or never will be; in no case does anybody wait for ever.
        let (_directory, listener) = listener();
        drop(make(late, listener.as_fd()));
        for (directory, process_one) in pens {
            let stream = UnixStream::connect(directory.path().join("s")).unwrap();
            let first_process = u32::try_from(process_one.pid.get()).unwrap();
            let mut channel = Channel::connect(stream, first_process).unwrap();
            channel.seal().unwrap();
            let mut captured = Captured::new(1000);
            let exited = channel.exec(&Command::new(["echo", "here"]), &mut captured).unwrap();
            assert_eq!((exited.end, captured.stdout.as_slice()), (End::Code(0), &b"here\n"[..]));
            channel.shutdown().unwrap();
        }
    }

    #[test]
    fn a_pen_that_is_handed_its_connection_serves_it_and_ends_with_it() {
        let (ours, theirs) = sockets::pair(sockets::Kind::Stream).unwrap();
        let process_one = start_pen(&spec(), theirs.as_fd()).unwrap();
        drop(theirs);
        let patience = crate::channel::Patience::default();
        let mut channel = Channel::over(Box::new(UnixStream::from(ours)), patience).unwrap();
        channel.seal().unwrap();
        let mut captured = Captured::new(1000);
        let exited = channel.exec(&Command::new(["echo", "here"]), &mut captured).unwrap();
        assert_eq!((exited.end, captured.stdout.as_slice()), (End::Code(0), &b"here\n"[..]));
        drop(channel);
        let ended = [(process_one.pidfd.as_fd(), Interest::Read)];
        assert!(!events::poll(&ended, Some(PATIENCE)).unwrap().is_empty());
    }

    #[test]
    fn a_pen_that_is_to_stay_must_be_able_to_listen() {
        let (_ours, theirs) = sockets::pair(sockets::Kind::Stream).unwrap();
        let mut spec = spec();
        spec.serve.lifetime = Lifetime::Persistent;
        assert_eq!(
            start_pen(&spec, theirs.as_fd()).unwrap_err().to_string(),
            "the pen cannot be made: a pen that is to stay needs a socket that listens"
        );
    }

    #[test]
    fn a_pen_from_the_embedded_supervisor_answers_over_the_channel() {
        let (directory, listener) = listener();
        let process_one = start_pen(&spec(), listener.as_fd()).unwrap();
        let stream = UnixStream::connect(directory.path().join("s")).unwrap();
        let first_process = u32::try_from(process_one.pid.get()).unwrap();
        let mut channel = Channel::connect(stream, first_process).unwrap();
        let facts = channel.facts().unwrap();
        assert_eq!(facts.workload.descriptors, [0, 1, 2]);
        channel.seal().unwrap();

        let mut captured = Captured::new(1000).with_input(b"through and back".to_vec());
        let cat = Command { stdin: StdinMode::Pipe, ..Command::new(["cat"]) };
        let exited = channel.exec(&cat, &mut captured).unwrap();
        assert_eq!(
            (exited.end, captured.stdout.as_slice()),
            (End::Code(0), &b"through and back"[..])
        );

        let place = || Place::Below { root: 0, path: "file".into() };
        let contents: Vec<u8> = (0..=255).cycle().take(1_000_000).collect();
        let written =
            channel.write(place(), WriteOptions::default(), &mut contents.as_slice()).unwrap();
        assert_eq!((written.bytes, written.created), (1_000_000, true));
        let mut read = Vec::new();
        channel.read(place(), 0, u64::MAX, &mut read).unwrap();
        assert_eq!(read, contents);
        assert_eq!(channel.hash(place()).unwrap().size, 1_000_000);

        let started = channel.start(&Command::new(["echo", "kept"]), 1000).unwrap();
        let mut kept = Captured::new(1000);
        channel.attach(started.process, 0, StdinMode::Null, &mut kept).unwrap();
        assert_eq!(kept.stdout, b"kept\n");
        assert_eq!(channel.processes().unwrap().len(), 1);

        channel.shutdown().unwrap();
        let ended = [(process_one.pidfd.as_fd(), Interest::Read)];
        assert!(!events::poll(&ended, Some(PATIENCE)).unwrap().is_empty());
    }
}
