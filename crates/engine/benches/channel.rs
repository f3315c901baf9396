//! What the channel adds to an exec, with a peer that answers at once. The budget is 30 µs, system
//! calls and the switch to the peer's thread included.
#![expect(clippy::expect_used, reason = "a bench without its peer measures nothing")]

use std::io::{self, Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::thread;
use std::time::Duration;

use clawpen_engine::channel::{
    Captured, Channel, Command, Patience, Ready, Transport, Wish, WriteOptions,
};
use clawpen_wire::supervisor::frame::{self, Inbox};
use clawpen_wire::supervisor::{
    End, Event, Exited, Place, Request, Started, Usage, Welcome, Written,
};
use divan::Bencher;

fn main() {
    divan::main();
}

/// The channel's own work, without any system call.
#[divan::bench]
fn exec_in_memory(bencher: Bencher<'_, '_>) {
    exec(bencher, Box::new(Memory { answers: Answers::default(), out: Vec::new() }));
}

#[divan::bench]
fn exec_over_a_socket(bencher: Bencher<'_, '_>) {
    exec(bencher, socket());
}

#[divan::bench]
fn ping_over_a_socket(bencher: Bencher<'_, '_>) {
    let mut channel = connect(socket());
    bencher.bench_local(|| channel.ping().is_ok());
}

#[divan::bench]
fn write_4_kib_over_a_socket(bencher: Bencher<'_, '_>) {
    let mut channel = connect(socket());
    let contents = [7; 4096];
    bencher.bench_local(|| {
        let place = Place::Below { root: 0, path: "file".into() };
        channel.write(place, WriteOptions::default(), &mut &contents[..]).is_ok()
    });
}

#[divan::bench]
fn read_4_kib_over_a_socket(bencher: Bencher<'_, '_>) {
    let mut channel = connect(socket());
    let mut sink = Vec::new();
    bencher.bench_local(|| {
        sink.clear();
        let place = Place::Below { root: 0, path: "file".into() };
        channel.read(place, 0, 4096, &mut sink).is_ok()
    });
}

fn exec(bencher: Bencher<'_, '_>, transport: Box<dyn Transport>) {
    let mut channel = connect(transport);
    let command = Command::new(["true"]);
    bencher.bench_local(|| channel.exec(&command, &mut Captured::new(1024)).is_ok());
}

fn connect(transport: Box<dyn Transport>) -> Channel {
    Channel::over(transport, Patience::default()).expect("the peer answers")
}

/// A socket with a thread behind it that answers until we hang up.
fn socket() -> Box<dyn Transport> {
    let (ours, mut theirs) = UnixStream::pair().expect("a pair of sockets");
    thread::spawn(move || {
        let mut answers = Answers::default();
        let mut received = vec![0; 64 * 1024];
        while let Ok(count @ 1..) = theirs.read(&mut received) {
            let mut out = Vec::new();
            answers.to(&received[..count], &mut out);
            if theirs.write_all(&out).is_err() {
                break;
            }
        }
    });
    Box::new(ours)
}

/// A supervisor whose every command is `true` and whose every file is 4 KiB long.
#[derive(Debug)]
struct Answers {
    inbox: Inbox,
    written: u64,
}

impl Default for Answers {
    fn default() -> Self {
        Self { inbox: Inbox::of_requests(), written: 0 }
    }
}

impl Answers {
    fn to(&mut self, mut bytes: &[u8], out: &mut Vec<u8>) {
        while !bytes.is_empty() {
            let room = self.inbox.room();
            let (now, later) = bytes.split_at(bytes.len().min(room.len()));
            room[..now.len()].copy_from_slice(now);
            bytes = later;
            self.inbox.filled(now.len());
            while let Ok(Some(frame)) = self.inbox.next_frame() {
                let request = frame.decode().expect("a request");
                for event in answer(&request, &mut self.written) {
                    frame::append(out, frame.channel, &event).expect("within the caps");
                }
            }
        }
    }
}

fn answer(request: &Request<'_>, written: &mut u64) -> Vec<Event<'static>> {
    match request {
        Request::Hello(hello) => {
            let version = hello.newest;
            let build = String::new();
            vec![Event::Welcome(Welcome { version, build, sealed: true, instance: 0 })]
        }
        Request::Exec(_) => {
            let end = End::Code(0);
            let exited = Exited { end, timed_out: false, usage: Usage::default() };
            vec![Event::Started(Started { process: 1, pid: 2 }), Event::Exited(exited)]
        }
        Request::WriteOpen(_) => {
            *written = 0;
            Vec::new()
        }
        Request::WriteChunk(bytes) => {
            *written += bytes.len() as u64;
            Vec::new()
        }
        Request::WriteCommit => {
            vec![Event::Written(Written { bytes: *written, created: false })]
        }
        Request::Read(_) => vec![Event::Data(&[7; 4096]), Event::Done],
        _ => vec![Event::Done],
    }
}

/// The same peer without a socket.
#[derive(Debug)]
struct Memory {
    answers: Answers,
    out: Vec<u8>,
}

impl Transport for Memory {
    fn send(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.answers.to(bytes, &mut self.out);
        Ok(bytes.len())
    }

    fn receive(&mut self, room: &mut [u8]) -> io::Result<usize> {
        let count = self.out.len().min(room.len());
        room[..count].copy_from_slice(&self.out[..count]);
        self.out.drain(..count);
        Ok(count)
    }

    fn wait(&mut self, _: Wish<'_>, _: Option<Duration>) -> io::Result<Ready> {
        Ok(Ready { receive: true, ..Ready::default() })
    }
}
