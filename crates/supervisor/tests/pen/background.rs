//! Background commands: they survive a disconnect, their newest output is kept, readers attach by offset.

use clawpen_wire::pen::Lifetime;
use clawpen_wire::supervisor::{
    Attach, End, ErrorCode, Event, Exec, ExecOutput, Kill, ProcessState, Reach, Request, StdinMode,
    Stream,
};

use crate::any_maker;
use crate::harness::{Host, Pen, sh};

fn background(script: &str, buffer: u32) -> Exec {
    Exec { output: ExecOutput::Background { buffer }, ..sh(script) }
}

fn start(host: &mut Host, exec: Exec) -> u64 {
    host.call(Request::Exec(exec), |event| match event {
        Event::Started(started) => started.process,
        other => panic!("{other:?}"),
    })
}

fn attach(host: &mut Host, process: u64, offset: u64) -> u32 {
    let channel = host.channel();
    host.send(channel, &Request::Attach(Attach { process, offset, window: 1 << 20 }));
    channel
}

fn persistent() -> Pen {
    Pen::with(any_maker(), |spec| spec.serve.lifetime = Lifetime::Persistent)
}

#[test]
fn a_background_command_survives_its_connection_and_is_read_from_an_offset() {
    let mut pen = persistent();
    pen.host.shell("mkfifo go");
    let process = start(
        &mut pen.host,
        background("echo one; echo two >&2; read x < /work/go; echo three; exit 9", 1 << 16),
    );
    pen.host.hang_up();

    let mut host = Host::connect(pen.directory.path());
    let entry = host.processes().processes.remove(0);
    assert_eq!(
        (entry.process, entry.background, entry.state),
        (process, true, ProcessState::Running)
    );
    // Lets it go on.
    host.shell("echo x > go");
    let channel = attach(&mut host, process, 4);
    // The two streams are two pipes: only within each is there an order.
    let mut all = [String::new(), String::new()];
    let exited = loop {
        let exited = host.next(|of, event| {
            assert_eq!(of, channel);
            match event {
                Event::Attached(attached) => assert_eq!(attached.offset, 4),
                Event::Output(output) => {
                    assert_eq!(output.offset, 4 + (all[0].len() + all[1].len()) as u64);
                    let stream = usize::from(output.stream == Stream::Stderr);
                    all[stream].push_str(std::str::from_utf8(output.bytes).unwrap());
                }
                Event::Exited(exited) => return Some(*exited),
                other => panic!("{other:?}"),
            }
            None
        });
        if let Some(exited) = exited {
            break exited;
        }
    };
    assert_eq!(exited.end, End::Code(9));
    assert_eq!(all, ["three\n", "two\n"]);

    // It is over and still there, for any number of readers, until it is forgotten.
    let channel = attach(&mut host, process, 0);
    let ran = host.finish_attached(channel);
    assert_eq!((ran.text().as_str(), ran.err.as_slice()), ("one\nthree\n", &b"two\n"[..]));
    host.call(Request::Forget(process), |event| assert_eq!(*event, Event::Done));
    assert_eq!(host.processes().processes, []);
    host.call(Request::Forget(process), |event| {
        assert!(matches!(event, Event::Failed(failed) if failed.code == ErrorCode::NoProcess));
    });
}

#[test]
fn only_the_newest_output_is_kept() {
    let mut pen = persistent();
    let process = start(&mut pen.host, background("seq 1 100000; echo end", 1000));
    let channel = attach(&mut pen.host, process, u64::MAX / 2);
    loop {
        if pen.host.next(|of, event| of == channel && matches!(event, Event::Exited(_))) {
            break;
        }
    }
    let entry = pen.host.processes().processes.remove(0);
    assert!(entry.written > 500_000);
    assert_eq!(entry.kept_from, entry.written - 1000);
    let channel = attach(&mut pen.host, process, 0);
    pen.host.next(|_, event| {
        assert!(matches!(event, Event::Attached(attached) if attached.offset == entry.kept_from));
    });
    let ran = pen.host.finish_attached_from(channel, entry.kept_from);
    assert!(ran.text().ends_with("100000\nend\n"));
    assert_eq!(ran.out.len(), 1000);
}

#[test]
fn buffers_are_shared_fairly_and_have_an_end() {
    let mut pen = Pen::with(any_maker(), |spec| {
        spec.serve.caps.background_buffer = 4096;
        spec.serve.caps.background_total = 8192;
    });
    let first = start(&mut pen.host, background("sleep 1000", 4096));
    let second = start(&mut pen.host, background("true", 4096));
    let channel = attach(&mut pen.host, second, 0);
    pen.host.finish_attached(channel);
    // The finished one makes room, the running one does not.
    let third = start(&mut pen.host, background("sleep 1000", 1 << 30));
    let there: Vec<u64> =
        pen.host.processes().processes.iter().map(|entry| entry.process).collect();
    assert_eq!(there, [first, third]);
    let failed = pen.host.run(background("true", 1)).unwrap_err();
    assert_eq!(failed.code, ErrorCode::Busy);
    pen.host.call(Request::Forget(first), |event| {
        assert!(matches!(event, Event::Failed(failed) if failed.code == ErrorCode::Busy));
    });
    pen.host.call(Request::Kill(Kill { process: first, signal: 9, reach: Reach::Tree }), |event| {
        assert_eq!(*event, Event::Done);
    });
}

#[test]
fn a_background_command_that_cannot_start_says_so() {
    let mut pen = persistent();
    let exec = Exec {
        output: ExecOutput::Background { buffer: 1 },
        ..crate::harness::exec(&["there-is-no-such"])
    };
    assert_eq!(pen.host.run(exec).unwrap_err().code, ErrorCode::CommandNotFound);
    pen.host.call(Request::Attach(Attach { process: 77, offset: 0, window: 1 }), |event| {
        assert!(matches!(event, Event::Failed(failed) if failed.code == ErrorCode::NoProcess));
    });
}

#[test]
fn an_attached_host_feeds_resizes_and_ends_a_background_command() {
    let mut pen = persistent();
    let exec = Exec {
        stdin: StdinMode::Pipe,
        output: ExecOutput::Background { buffer: 1 << 16 },
        ..crate::harness::exec(&["cat"])
    };
    let process = start(&mut pen.host, exec);
    let channel = attach(&mut pen.host, process, 0);
    pen.host.next(|_, event| assert!(matches!(event, Event::Attached(_))));
    let mut credit = pen.host.next(|_, event| match event {
        Event::Credit(credit) => *credit,
        other => panic!("{other:?}"),
    });
    // Many times the share: credit comes back as the command reads.
    let piece = [b'x'; 1000];
    let (mut sent, mut seen) = (0, 0);
    while seen < 200_000 {
        if sent < 200_000 && credit >= 1000 {
            pen.host.send(channel, &Request::Stdin(&piece));
            credit -= 1000;
            sent += 1000;
            continue;
        }
        let got = pen.host.next(|_, event| match event {
            Event::Credit(more) => {
                credit += more;
                0
            }
            Event::Output(output) => output.bytes.len(),
            other => panic!("{other:?}"),
        });
        seen += got;
    }
    pen.host.send(channel, &Request::StdinEof);
    loop {
        let end = pen.host.next(|_, event| match event {
            Event::Exited(exited) => Some(exited.end),
            _ => None,
        });
        if let Some(end) = end {
            assert_eq!((end, seen), (End::Code(0), 200_000));
            break;
        }
    }
}

#[test]
fn an_attached_host_that_sends_more_than_its_share_is_cut_off() {
    let mut pen = persistent();
    let exec = Exec {
        stdin: StdinMode::Pipe,
        output: ExecOutput::Background { buffer: 1 << 16 },
        ..crate::harness::exec(&["sleep", "1000"])
    };
    let process = start(&mut pen.host, exec);
    let mut host = Host::connect(pen.directory.path());
    let channel = attach(&mut host, process, 0);
    host.send(channel, &Request::Stdin(&vec![b'x'; 200_000]));
    assert!(host.is_closed());
    assert_eq!(pen.host.processes().processes.len(), 1);
}
