//! Commands: order, credit, input, orders, stopping, coming back.

use std::collections::VecDeque;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd as _, BorrowedFd};
use std::time::Duration;

use clawpen_wire::supervisor::{
    Attach, Attached, End, EnvVar, EnvironmentBase, ErrorCode, Event, Exec, ExecOutput, Kill,
    Output, ProcessEntry, ProcessList, ProcessState, Reach, Request, Signal, StderrMode, StdinMode,
    Stream, TtySize, limits,
};

use super::super::*;
use super::script::{Script, channel, script};
use super::{exit, exited, failed, output, started};

const WINDOW: u32 = 1024 * 1024;
const KILL: Request<'static> = Request::Signal(Signal { signal: 9, reach: Reach::Tree });

#[test]
fn a_command_starts_writes_and_ends() {
    let error = Output { stream: Stream::Stderr, offset: 3, bytes: b"oh\n" };
    let script = script()
        .hears(1, exec(StdinMode::Null))
        .says(1, started())
        .says(1, output(0, b"hi\n"))
        .says(1, Event::Output(error))
        .says(1, exited(End::Code(3)));
    let mut captured = Captured::new(100);
    let end = channel(script).exec(&command(StdinMode::Null), &mut captured).unwrap();
    assert_eq!(end, exit(End::Code(3)));
    assert_eq!((&*captured.stdout, &*captured.stderr), (&b"hi\n"[..], &b"oh\n"[..]));
}

#[test]
fn every_part_of_a_command_is_sent() {
    let variable = EnvVar { name: "A".into(), value: "b".into() };
    let size = TtySize { rows: 24, columns: 80 };
    let command = Command {
        cwd: Some("/work".into()),
        base: EnvironmentBase::Empty,
        env: vec![variable.clone()],
        stderr: StderrMode::Merged,
        tty: Some(size),
        timeout: Some(Duration::from_micros(1)),
        grace: Duration::from_secs(2),
        ..Command::new(["cat", "-n"])
    };
    let expected = Exec {
        argv: vec!["cat".into(), "-n".into()],
        cwd: Some("/work".into()),
        base: EnvironmentBase::Empty,
        env: vec![variable],
        stdin: StdinMode::Null,
        stderr: StderrMode::Merged,
        tty: Some(size),
        timeout_ms: 1,
        grace_ms: 2000,
        output: ExecOutput::Background { buffer: 5 },
    };
    let script = script().hears(1, Request::Exec(expected)).says(1, started());
    let started = channel(script).start(&command, 5).unwrap();
    assert_eq!((started.process, started.pid), (1, 2));
}

#[test]
fn a_command_that_does_not_start_is_a_failure_and_the_connection_lives() {
    let script = script()
        .hears(1, exec(StdinMode::Null))
        .says(1, failed(ErrorCode::CommandNotFound))
        .hears(2, Request::Ping)
        .says(2, Event::Done);
    let mut channel = channel(script);
    let error = channel.exec(&command(StdinMode::Null), &mut Captured::new(1)).unwrap_err();
    assert_eq!(error.failure().unwrap().code, ErrorCode::CommandNotFound);
    channel.ping().unwrap();
}

#[test]
fn credit_follows_what_was_taken() {
    let chunk = vec![b'x'; limits::CHUNK];
    let length = limits::CHUNK as u64;
    let quarter = WINDOW / 4;
    let script = script()
        .hears(1, exec(StdinMode::Null))
        .says(1, started())
        .says(1, output(0, b"y"))
        .says(1, output(1, &chunk))
        .hears(1, Request::Credit(quarter + 1))
        .says(1, output(1 + length, &chunk))
        .hears(1, Request::Credit(quarter))
        .says(1, exited(End::Code(0)));
    let mut captured = Captured::new(10);
    channel(script).exec(&command(StdinMode::Null), &mut captured).unwrap();
    assert_eq!((captured.stdout.len(), captured.dropped), (10, 2 * length - 9));
}

#[test]
fn input_goes_as_far_as_the_window_and_waits_for_credit() {
    let first = usize::try_from(limits::FIRST_INPUT_WINDOW).unwrap();
    let input = vec![b'i'; first + 10];
    let piece = vec![b'i'; 64 * 1024];
    let mut script = script().hears(1, exec(StdinMode::Pipe));
    for _ in 0..first / piece.len() {
        script = script.hears(1, Request::Stdin(&piece));
    }
    let script = script
        .says(1, started())
        .says(1, Event::Credit(3))
        .hears(1, Request::Stdin(b"iii"))
        .says(1, Event::Credit(100))
        .hears(1, Request::Stdin(b"iiiiiii"))
        .hears(1, Request::StdinEof)
        .says(1, Event::Credit(7))
        .says(1, exited(End::Code(0)));
    let mut captured = Captured::new(0).with_input(input);
    channel(script).exec(&command(StdinMode::Pipe), &mut captured).unwrap();
}

#[test]
fn input_is_read_when_its_descriptor_has_some() {
    let script = script()
        .hears(1, exec(StdinMode::Pipe))
        .says(1, started())
        .input_comes()
        .hears(1, Request::Stdin(b"one"))
        .input_comes()
        .hears(1, Request::StdinEof)
        .says(1, exited(End::Code(0)));
    let mut console = Console::new(&["one", ""], &[]);
    channel(script).exec(&command(StdinMode::Pipe), &mut console).unwrap();
}

#[test]
fn orders_are_passed_on_and_stop_kills_the_tree() {
    let size = TtySize { rows: 1, columns: 2 };
    let interrupt = Signal { signal: 2, reach: Reach::Process };
    let script = script()
        .hears(1, exec(StdinMode::Null))
        .says(1, started())
        .an_order_comes()
        .hears(1, Request::Resize(size))
        .hears(1, Request::Signal(interrupt))
        .hears(1, KILL)
        .says(1, output(0, b"late"))
        .says(1, exited(End::Signal(9)));
    let orders =
        [Order::Resize(size), Order::Signal { signal: 2, reach: Reach::Process }, Order::Stop];
    let mut console = Console::new(&[], &orders);
    let end = channel(script).exec(&command(StdinMode::Null), &mut console).unwrap();
    assert_eq!(end, exit(End::Signal(9)));
    assert_eq!(console.output, "");
}

#[test]
fn a_caller_that_fails_kills_the_command_and_keeps_the_connection() {
    let chunk = vec![b'x'; limits::CHUNK];
    let script = script()
        .hears(1, exec(StdinMode::Null))
        .says(1, started())
        .says(1, output(0, b"full"))
        .hears(1, KILL)
        .says(1, output(4, &chunk))
        .hears(1, Request::Credit(WINDOW / 4 + 4))
        .says(1, exited(End::Signal(9)))
        .hears(2, Request::Ping)
        .says(2, Event::Done);
    let mut channel = channel(script);
    let mut console = Console { refuses: Some("full"), ..Console::new(&[], &[]) };
    let error = channel.exec(&command(StdinMode::Null), &mut console).unwrap_err();
    assert_eq!(format!("{error:?}"), "Local(Kind(StorageFull))");
    channel.ping().unwrap();
}

#[test]
fn a_supervisor_that_lets_a_command_run_on_is_not_waited_for() {
    let late = Command { timeout: Some(Duration::from_millis(1)), ..command(StdinMode::Null) };
    let script = script().says(1, started()).falls_silent().unheard();
    let mut channel = channel(script);
    let error = channel.exec(&late, &mut Captured::new(0)).unwrap_err();
    assert_eq!(format!("{error:?}"), "NoAnswer");
    assert_eq!(format!("{:?}", channel.ping().unwrap_err()), "Broken");
}

#[test]
fn a_background_command_is_followed_from_where_it_was_left() {
    let script = attaching(100)
        .says(1, Event::Attached(Attached { offset: 150 }))
        .says(1, output(150, b"ab"))
        // The kept part moved on while nobody looked.
        .says(1, output(200, b"c"))
        .says(1, exited(End::Code(0)));
    let mut console = Console::new(&[], &[]);
    let end = channel(script).attach(9, 100, StdinMode::Null, &mut console).unwrap();
    assert_eq!(end, AttachEnd::Exited(exit(End::Code(0))));
    assert_eq!(console.output, "abc");
}

#[test]
fn a_background_command_gets_input_as_far_as_it_has_room() {
    let script = attaching(0)
        .says(1, Event::Attached(Attached { offset: 0 }))
        .says(1, Event::Credit(2))
        .hears(1, Request::Stdin(b"in"))
        .says(1, Event::Credit(9))
        .hears(1, Request::Stdin(b"put"))
        .hears(1, Request::StdinEof)
        .says(1, exited(End::Code(0)));
    let mut captured = Captured::new(0).with_input(b"input".to_vec());
    channel(script).attach(9, 0, StdinMode::Pipe, &mut captured).unwrap();
}

#[test]
fn stop_leaves_a_background_command_alone() {
    let script = attaching(0)
        .says(1, Event::Attached(Attached { offset: 0 }))
        .an_order_comes()
        .hears(1, Request::Detach)
        .says(1, output(0, b"late"))
        .says(1, Event::Done);
    let mut console = Console::new(&[], &[Order::Stop]);
    let end = channel(script).attach(9, 0, StdinMode::Null, &mut console).unwrap();
    assert_eq!(end, AttachEnd::Detached);
}

#[test]
fn a_background_command_may_end_while_we_leave_it() {
    let script = attaching(0)
        .says(1, Event::Attached(Attached { offset: 0 }))
        .an_order_comes()
        .hears(1, Request::Detach)
        .says(1, exited(End::Code(0)))
        .hears(2, Request::Ping)
        .says(2, Event::Done);
    let mut channel = channel(script);
    let mut console = Console::new(&[], &[Order::Stop]);
    let end = channel.attach(9, 0, StdinMode::Null, &mut console).unwrap();
    assert_eq!(end, AttachEnd::Exited(exit(End::Code(0))));
    channel.ping().unwrap();
}

#[test]
fn background_commands_are_listed_killed_and_forgotten() {
    let entry = ProcessEntry {
        process: 4,
        pid: 5,
        command: "sleep 9".into(),
        background: true,
        written: 10,
        kept_from: 3,
        age_us: 8,
        state: ProcessState::Exited(exit(End::Signal(15))),
    };
    let script = script()
        .hears(1, Request::ListProcesses)
        .says(1, Event::ProcessList(ProcessList { processes: vec![entry.clone()] }))
        .hears(2, Request::Kill(Kill { process: 4, signal: 15, reach: Reach::Tree }))
        .says(2, Event::Done)
        .hears(3, Request::Forget(4))
        .says(3, failed(ErrorCode::NoProcess));
    let mut channel = channel(script);
    assert_eq!(channel.processes().unwrap(), [entry]);
    channel.kill(4, 15, Reach::Tree).unwrap();
    assert_eq!(channel.forget(4).unwrap_err().failure().unwrap().code, ErrorCode::NoProcess);
}

fn command(stdin: StdinMode) -> Command {
    Command { stdin, ..Command::new(["true"]) }
}

/// What [`command`] looks like when it is sent.
fn exec(stdin: StdinMode) -> Request<'static> {
    Request::Exec(Exec {
        argv: vec!["true".into()],
        cwd: None,
        base: EnvironmentBase::Sandbox,
        env: Vec::new(),
        stdin,
        stderr: StderrMode::Separate,
        tty: None,
        timeout_ms: 0,
        grace_ms: 0,
        output: ExecOutput::Stream { window: WINDOW },
    })
}

fn attaching(offset: u64) -> Script {
    script().hears(1, Request::Attach(Attach { process: 9, offset, window: WINDOW }))
}

/// A caller with a descriptor for input and orders.
struct Console {
    any: File,
    input: VecDeque<&'static str>,
    orders: VecDeque<Order>,
    output: String,
    /// The output that it cannot take.
    refuses: Option<&'static str>,
}

impl Console {
    fn new(input: &[&'static str], orders: &[Order]) -> Self {
        Self {
            any: File::open("/dev/null").unwrap(),
            input: input.iter().copied().collect(),
            orders: orders.iter().copied().collect(),
            output: String::new(),
            refuses: None,
        }
    }
}

impl ExecIo for Console {
    fn output(&mut self, _: Stream, bytes: &[u8]) -> io::Result<()> {
        let text = str::from_utf8(bytes).unwrap();
        if self.refuses == Some(text) {
            return Err(io::ErrorKind::StorageFull.into());
        }
        self.output.push_str(text);
        Ok(())
    }

    fn input(&self) -> Input<'_> {
        Input::Wait(self.any.as_fd())
    }

    fn read_input(&mut self, room: &mut [u8]) -> io::Result<usize> {
        let Some(text) = self.input.pop_front() else {
            return Err(io::ErrorKind::WouldBlock.into());
        };
        room[..text.len()].copy_from_slice(text.as_bytes());
        Ok(text.len())
    }

    fn orders(&self) -> Option<BorrowedFd<'_>> {
        Some(self.any.as_fd())
    }

    fn next_order(&mut self) -> io::Result<Option<Order>> {
        Ok(self.orders.pop_front())
    }
}
