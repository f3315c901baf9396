//! Any bytes as what a supervisor sends, against the real channel: every call comes to an end, no
//! panic, no memory beyond the caps, and no more reaches the caller than was sent.
#![no_main]

use std::io;
use std::time::Duration;

use clawpen_engine::channel::{
    Channel, Command, ExecIo, Input, Patience, Ready, Transport, Wish, WriteOptions,
};
use clawpen_wire::supervisor::frame;
use clawpen_wire::supervisor::{Event, Links, Listing, Place, StdinMode, Stream, Welcome};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let [call, piece, rest @ ..] = bytes else { return };
    // Half of the runs may spoil the greeting too.
    let mut stream = if *call < 128 { welcome() } else { Vec::new() };
    stream.extend_from_slice(rest);
    let length = stream.len();
    let peer = Hostile { stream, at: 0, piece: usize::from(*piece) + 1 };
    let patience = Patience { answer: Duration::from_secs(5), work: Duration::from_secs(5) };
    let Ok(mut channel) = Channel::over(Box::new(peer), patience) else { return };
    // An answered call may be followed by another; each takes a frame, so this ends.
    let mut taken = 0;
    while !channel.is_broken() {
        let mut caller = Caller::default();
        match call % 8 {
            0 => drop(channel.exec(&command(), &mut caller)),
            1 => drop(channel.attach(1, 5, StdinMode::Pipe, &mut caller)),
            2 => drop(channel.read(place(), 0, 1 << 20, &mut caller)),
            3 => {
                let mut source = io::repeat(b'w');
                let mut source = io::Read::take(&mut source, 100);
                drop(channel.write(place(), WriteOptions::default(), &mut source));
            }
            4 => drop(channel.list(&place(), Listing::Full, 2000)),
            5 => drop(channel.stat(place(), Links::Report)),
            6 => drop(channel.facts()),
            _ => drop(channel.processes()),
        }
        taken += caller.taken;
        assert!(taken <= length, "{taken} bytes of output from {length} bytes");
    }
});

fn command() -> Command {
    Command { stdin: StdinMode::Pipe, ..Command::new(["cat"]) }
}

fn place() -> Place {
    Place::InPen("/a".into())
}

fn welcome() -> Vec<u8> {
    let welcome = Welcome { version: 1, build: String::new(), sealed: true, instance: 0 };
    let mut out = Vec::new();
    frame::append(&mut out, 0, &Event::Welcome(welcome)).expect("it is short");
    out
}

/// A peer that has said all it will ever say, and takes whatever it is sent.
#[derive(Debug)]
struct Hostile {
    stream: Vec<u8>,
    at: usize,
    piece: usize,
}

impl Transport for Hostile {
    fn send(&mut self, bytes: &[u8]) -> io::Result<usize> {
        Ok(bytes.len())
    }

    fn receive(&mut self, room: &mut [u8]) -> io::Result<usize> {
        let end = self.stream.len().min(self.at + self.piece);
        let count = io::Read::read(&mut &self.stream[self.at..end], room)?;
        self.at += count;
        Ok(count)
    }

    fn wait(&mut self, wish: Wish<'_>, _: Option<Duration>) -> io::Result<Ready> {
        Ok(Ready { receive: true, input: wish.input.is_some(), orders: false })
    }
}

/// A caller with a little input, that counts what it is given.
#[derive(Default)]
struct Caller {
    taken: usize,
    fed: usize,
}

impl ExecIo for Caller {
    fn output(&mut self, _: Stream, bytes: &[u8]) -> io::Result<()> {
        self.taken += bytes.len();
        Ok(())
    }

    fn input(&self) -> Input<'_> {
        if self.fed < 300_000 { Input::Ready } else { Input::Closed }
    }

    fn read_input(&mut self, room: &mut [u8]) -> io::Result<usize> {
        self.fed += room.len();
        Ok(room.len())
    }
}

impl io::Write for Caller {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.taken += bytes.len();
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
