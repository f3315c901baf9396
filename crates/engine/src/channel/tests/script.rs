//! A peer in memory that says and expects what its script holds, step by step. It moves on only
//! when the host waits, so the order of things is the script's and no clock's.

use std::collections::VecDeque;
use std::io;
use std::time::Duration;

use clawpen_wire::supervisor::frame::{self, Inbox};
use clawpen_wire::supervisor::{Event, Hello, Request, Welcome};

use super::super::{Channel, Patience, Ready, Transport, Wish};

/// Patience for tests that wait in vain: short, but long enough that a busy machine does not make
/// the others wait in vain too.
pub(super) const QUICK: Patience =
    Patience { answer: Duration::from_millis(500), work: Duration::from_millis(500) };

/// Patience for tests that never wait in vain: their script ends first, however busy the machine is.
const PATIENT: Patience =
    Patience { answer: Duration::from_secs(600), work: Duration::from_secs(600) };

#[derive(Debug)]
enum Step {
    /// These bytes come from the peer.
    Says(Vec<u8>),
    /// The host has sent just this by now.
    Hears(String),
    /// The caller's input becomes readable.
    Input,
    /// The caller's orders become readable.
    Orders,
    /// The peer goes away.
    Closes,
    /// Nothing ever happens again.
    Silent,
}

/// The peer.
#[derive(Debug)]
pub(super) struct Script {
    steps: VecDeque<Step>,
    arrived: VecDeque<u8>,
    sent: Inbox,
    sent_bytes: Vec<u8>,
    closed: bool,
    /// Whether all that is sent must be heard.
    strict: bool,
}

/// A script that has said hello.
pub(super) fn script() -> Script {
    let welcome = Welcome { version: 1, build: "script".into(), sealed: false, instance: 1 };
    Script::new()
        .hears(0, Request::Hello(Hello { oldest: 1, newest: 1 }))
        .says(0, Event::Welcome(welcome))
}

/// The host's end of a script.
#[track_caller]
pub(super) fn channel(script: Script) -> Channel {
    let is_silent = script.steps.iter().any(|step| matches!(step, Step::Silent));
    let patience = if is_silent { QUICK } else { PATIENT };
    Channel::over(Box::new(script), patience).unwrap()
}

impl Script {
    pub(super) fn new() -> Self {
        Self {
            steps: VecDeque::new(),
            arrived: VecDeque::new(),
            sent: Inbox::of_requests(),
            sent_bytes: Vec::new(),
            closed: false,
            strict: true,
        }
    }

    pub(super) fn says(self, channel: u32, event: Event<'_>) -> Self {
        let mut bytes = Vec::new();
        frame::append(&mut bytes, channel, &event).unwrap();
        self.says_bytes(&bytes)
    }

    pub(super) fn says_bytes(mut self, bytes: &[u8]) -> Self {
        self.steps.push_back(Step::Says(bytes.to_vec()));
        self
    }

    pub(super) fn hears(mut self, channel: u32, request: Request<'_>) -> Self {
        self.steps.push_back(Step::Hears(shown(channel, &request)));
        self
    }

    pub(super) fn input_comes(mut self) -> Self {
        self.steps.push_back(Step::Input);
        self
    }

    pub(super) fn an_order_comes(mut self) -> Self {
        self.steps.push_back(Step::Orders);
        self
    }

    pub(super) fn closes(mut self) -> Self {
        self.steps.push_back(Step::Closes);
        self
    }

    pub(super) fn falls_silent(mut self) -> Self {
        self.steps.push_back(Step::Silent);
        self
    }

    /// Does not mind what the host sends from here on.
    pub(super) fn unheard(mut self) -> Self {
        self.strict = false;
        self
    }

    fn next_sent(&mut self) -> Option<String> {
        loop {
            if let Some(frame) = self.sent.next_frame().unwrap() {
                let request: Request<'_> = frame.decode().unwrap();
                return Some(shown(frame.channel, &request));
            }
            if self.sent_bytes.is_empty() {
                return None;
            }
            let room = self.sent.room();
            let count = room.len().min(self.sent_bytes.len());
            room[..count].copy_from_slice(&self.sent_bytes[..count]);
            self.sent.filled(count);
            self.sent_bytes.drain(..count);
        }
    }
}

impl Transport for Script {
    fn send(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.sent_bytes.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn receive(&mut self, room: &mut [u8]) -> io::Result<usize> {
        if self.arrived.is_empty() {
            return if self.closed { Ok(0) } else { Err(io::ErrorKind::WouldBlock.into()) };
        }
        io::Read::read(&mut self.arrived, room)
    }

    fn wait(&mut self, wish: Wish<'_>, timeout: Option<Duration>) -> io::Result<Ready> {
        if !self.arrived.is_empty() || self.closed {
            return Ok(Ready { receive: true, ..Ready::default() });
        }
        loop {
            let step = self.steps.front();
            if self.strict && !matches!(step, Some(Step::Hears(_))) {
                assert_eq!(self.next_sent(), None, "the host sent what nobody expects");
            }
            match step_kind(self.steps.pop_front()) {
                Step::Hears(expected) => assert_eq!(self.next_sent(), Some(expected)),
                Step::Says(bytes) => {
                    self.arrived.extend(bytes);
                    return Ok(Ready { receive: true, ..Ready::default() });
                }
                Step::Input => {
                    assert!(wish.input.is_some(), "the host does not wait for input");
                    return Ok(Ready { input: true, ..Ready::default() });
                }
                Step::Orders => {
                    assert!(wish.orders.is_some(), "the host does not wait for orders");
                    return Ok(Ready { orders: true, ..Ready::default() });
                }
                Step::Closes => {
                    self.closed = true;
                    return Ok(Ready { receive: true, ..Ready::default() });
                }
                Step::Silent => {
                    assert!(timeout.is_some(), "the host waits for ever");
                    self.steps.push_front(Step::Silent);
                    return Ok(Ready::default());
                }
            }
        }
    }
}

/// A request as it is compared: bulk bytes by how many and what the first is.
fn shown(channel: u32, request: &Request<'_>) -> String {
    match request {
        Request::Stdin(bytes) | Request::WriteChunk(bytes) if bytes.len() > 64 => {
            format!("{channel} {} bulk {} {:?}", request.tag(), bytes.len(), bytes.first())
        }
        request => format!("{channel} {request:?}"),
    }
}

#[track_caller]
fn step_kind(step: Option<Step>) -> Step {
    step.expect("the host waits and the script is at its end")
}

impl Drop for Script {
    fn drop(&mut self) {
        self.steps.retain(|step| !matches!(step, Step::Silent));
        if std::thread::panicking() || !self.strict {
            return;
        }
        let left = std::mem::take(&mut self.steps);
        for step in left {
            match step {
                Step::Hears(expected) => assert_eq!(self.next_sent(), Some(expected)),
                other => panic!("the host did not wait for {other:?}"),
            }
        }
        assert_eq!(self.next_sent(), None, "the host sent what nobody expects");
    }
}
