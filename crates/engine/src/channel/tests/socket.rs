//! The channel over a real socket: who is there, and bulk in both directions at once.

use std::io::{self, Read as _, Write as _};
use std::os::unix::net::{UnixListener, UnixStream};
use std::thread;

use clawpen_wire::supervisor::frame::{self, Inbox};
use clawpen_wire::supervisor::{
    End, Event, Exec, ExecOutput, Output, Request, StdinMode, Stream, Welcome,
};

use super::super::*;
use super::{exit, exited, started};

#[test]
fn only_the_expected_process_is_spoken_to() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("s");
    let listener = UnixListener::bind(&path).unwrap();
    let us = std::process::id();
    let wrong = Channel::connect(UnixStream::connect(&path).unwrap(), us + 1).unwrap_err();
    assert_eq!(format!("{wrong:?}"), format!("WrongPeer {{ expected: {}, found: {us} }}", us + 1));
    // The refused stream got no greeting.
    let mut nothing = Vec::new();
    listener.accept().unwrap().0.read_to_end(&mut nothing).unwrap();
    assert_eq!(nothing, b"");

    let peer = thread::spawn(move || Echo::new(listener.accept().unwrap().0).serve());
    let mut channel = Channel::connect(UnixStream::connect(&path).unwrap(), us).unwrap();
    channel.ping().unwrap();
    drop(channel);
    peer.join().unwrap();
}

/// Far more than the socket and both windows hold: neither side may wait for the other to read
/// while the other waits for it.
#[test]
fn input_and_output_flow_at_the_same_time() {
    let (ours, theirs) = UnixStream::pair().unwrap();
    let peer = thread::spawn(|| Echo::new(theirs).serve());
    let mut channel = Channel::over(Box::new(ours), Patience::default()).unwrap();
    let input: Vec<u8> = (0..9_000_000_u32).map(|number| number.to_le_bytes()[1]).collect();
    let command = Command { stdin: StdinMode::Pipe, ..Command::new(["cat"]) };
    let mut captured = Captured::new(usize::MAX).with_input(input.clone());
    let end = channel.exec(&command, &mut captured).unwrap();
    assert_eq!(end, exit(End::Code(0)));
    assert!(captured.stdout == input, "{} bytes came back", captured.stdout.len());
    drop(channel);
    peer.join().unwrap();
}

/// A supervisor whose every command is `cat`.
struct Echo {
    stream: UnixStream,
    /// Input that has not been written back.
    held: Vec<u8>,
    written: u64,
    window: usize,
    ended: bool,
}

impl Echo {
    fn new(stream: UnixStream) -> Self {
        Self { stream, held: Vec::new(), written: 0, window: 0, ended: false }
    }

    fn serve(mut self) {
        let mut inbox = Inbox::of_requests();
        loop {
            let count = match self.stream.read(inbox.room()) {
                Ok(0) => return,
                Ok(count) => count,
                Err(error) if error.kind() == io::ErrorKind::ConnectionReset => return,
                Err(error) => panic!("{error}"),
            };
            inbox.filled(count);
            while let Some(frame) = inbox.next_frame().unwrap() {
                self.hear(frame.channel, frame.decode().unwrap());
            }
        }
    }

    fn hear(&mut self, channel: u32, request: Request<'_>) {
        match request {
            Request::Hello(hello) => {
                let build = "echo".to_owned();
                let version = hello.newest;
                let welcome = Welcome { version, build, sealed: true, instance: 0 };
                self.say(channel, &Event::Welcome(welcome));
            }
            Request::Ping => self.say(channel, &Event::Done),
            Request::Exec(Exec { output: ExecOutput::Stream { window }, .. }) => {
                self.window = window as usize;
                self.say(channel, &started());
            }
            Request::Stdin(bytes) => self.held.extend_from_slice(bytes),
            Request::StdinEof => self.ended = true,
            Request::Credit(credit) => self.window += credit as usize,
            other => panic!("{other:?}"),
        }
        self.flow(channel);
    }

    fn flow(&mut self, channel: u32) {
        while self.window > 0 && !self.held.is_empty() {
            let count = self.held.len().min(self.window).min(50_000);
            let bytes: Vec<u8> = self.held.drain(..count).collect();
            let (stream, offset) = (Stream::Stdout, self.written);
            self.say(channel, &Event::Output(Output { stream, offset, bytes: &bytes }));
            self.written += count as u64;
            self.window -= count;
            self.say(channel, &Event::Credit(u32::try_from(count).unwrap()));
        }
        if self.ended && self.held.is_empty() {
            self.ended = false;
            self.say(channel, &exited(End::Code(0)));
        }
    }

    fn say(&mut self, channel: u32, event: &Event<'_>) {
        let mut out = Vec::new();
        frame::append(&mut out, channel, event).unwrap();
        self.stream.write_all(&out).unwrap();
    }
}
