//! Commands: streams, terminals, environment, time-outs, failures, usage.

use clawpen_wire::supervisor::{
    End, EnvVar, EnvironmentBase, ErrorCode, Event, Exec, ExecOutput, Reach, Request, Signal,
    StderrMode, StdinMode, TtySize, limits,
};

use crate::harness::{Pen, exec, sh};
use crate::{any_maker, makers};

#[test]
fn a_command_runs_as_the_pens_user_and_says_how_it_ended() {
    for &maker in makers() {
        let mut pen = Pen::new(maker);
        assert_eq!(pen.host.shell("id -u; id -g; pwd; hostname"), "1000\n1000\n/work\npen\n");
        let ran = pen.host.run(sh("echo out; echo err >&2; exit 7")).unwrap();
        assert_eq!(
            (ran.text().as_str(), ran.err.as_slice(), ran.end()),
            ("out\n", &b"err\n"[..], End::Code(7))
        );
        assert!(ran.pid > 1);
        let ran = pen.host.run(sh("kill -SEGV $$")).unwrap();
        assert_eq!(ran.end(), End::Signal(11));
    }
}

#[test]
fn the_start_is_told_before_all_else_however_quick_the_command() {
    let mut pen = Pen::new(any_maker());
    // Over before its start is told, over a little later, and with something left behind.
    for script in ["echo x", "echo x; sleep 0.01", "echo x; sleep 1000 &"] {
        let channel = pen.host.channel();
        pen.host.send(channel, &Request::Exec(sh(script)));
        let first = pen.host.next(|of, event| (of, matches!(event, Event::Started(_))));
        assert_eq!(first, (channel, true), "{script}");
        let ran = pen.host.finish(channel).unwrap();
        assert_eq!((ran.text().as_str(), ran.end()), ("x\n", End::Code(0)), "{script}");
        assert_eq!(pen.host.processes().processes, [], "{script}");
    }
}

#[test]
fn no_command_ignores_a_signal_that_process_1_ignores() {
    for &maker in makers() {
        let mut pen = Pen::new(maker);
        let ignored = "grep -E '^Sig(Blk|Ign)' /proc/self/status | tr -d '\\t\\n'";
        // By a shim of its own, by the one that stands by, and by one that serves again.
        for _ in 0..3 {
            let text = pen.host.shell(ignored);
            assert_eq!(text, "SigBlk:0000000000000000SigIgn:0000000000000000");
        }
    }
}

#[test]
fn what_cannot_be_started_says_why() {
    let mut pen = Pen::new(any_maker());
    std::fs::write(pen.workspace.join("plain"), "x").unwrap();
    check(&mut pen, exec(&["there-is-no-such"]), ErrorCode::CommandNotFound);
    check(&mut pen, exec(&["/work/there-is-no-such"]), ErrorCode::CommandNotFound);
    check(&mut pen, exec(&["/work/plain"]), ErrorCode::NotExecutable);
    check(&mut pen, exec(&["/work"]), ErrorCode::NotExecutable);
    check(&mut pen, exec(&[]), ErrorCode::Invalid);
    check(&mut pen, exec(&[""]), ErrorCode::Invalid);
    check(
        &mut pen,
        Exec { cwd: Some("/nowhere".into()), ..exec(&["true"]) },
        ErrorCode::WorkingDirectory,
    );
    check(&mut pen, Exec { cwd: Some("work".into()), ..exec(&["true"]) }, ErrorCode::Invalid);
    let odd = EnvVar { name: "A=B".into(), value: "c".into() };
    check(&mut pen, Exec { env: vec![odd], ..exec(&["true"]) }, ErrorCode::Invalid);
    check(&mut pen, Exec { timeout_ms: u64::MAX, ..exec(&["true"]) }, ErrorCode::Invalid);
    assert_eq!(pen.host.shell("echo still here"), "still here\n");
    assert_eq!(pen.host.processes().processes, []);
}

#[track_caller]
fn check(pen: &mut Pen, exec: Exec, expected: ErrorCode) {
    let failed = pen.host.run(exec).unwrap_err();
    assert_eq!(failed.code, expected, "{failed:?}");
}

#[test]
fn the_environment_is_the_pens_with_the_calls_on_top() {
    let mut pen = Pen::new(any_maker());
    let variable = |name: &str, value: &str| EnvVar { name: name.into(), value: value.into() };
    let env = vec![variable("HOME", "/elsewhere"), variable("A", "1"), variable("A", "2")];
    let ran = pen.host.run(Exec { env: env.clone(), ..exec(&["env"]) }).unwrap();
    let mut lines: Vec<_> = ran.text().lines().map(str::to_owned).collect();
    lines.sort();
    assert_eq!(lines, ["A=2", "HOME=/elsewhere", "PATH=/usr/bin:/bin"]);
    let ran = pen.host.run(Exec { base: EnvironmentBase::Empty, ..exec(&["env"]) }).unwrap();
    assert_eq!(ran.text(), "");
}

#[test]
fn input_is_streamed_and_ends() {
    let mut pen = Pen::new(any_maker());
    let channel = pen.host.channel();
    pen.host.send(channel, &Request::Exec(Exec { stdin: StdinMode::Pipe, ..exec(&["sha256sum"]) }));
    // Four times the first window: credit has to come back on the way.
    let piece = vec![b'x'; 64 * 1024];
    let mut credit = i64::from(limits::FIRST_INPUT_WINDOW);
    for _ in 0..16 {
        while credit < 64 * 1024 {
            credit += pen.host.next(|_, event| match event {
                Event::Credit(more) => i64::from(*more),
                Event::Started(_) => 0,
                other => panic!("{other:?}"),
            });
        }
        pen.host.send(channel, &Request::Stdin(&piece));
        credit -= 64 * 1024;
    }
    pen.host.send(channel, &Request::StdinEof);
    let ran = pen.host.finish(channel).unwrap();
    assert!(ran.text().starts_with("8f990ba0b577b51c"), "{}", ran.text());
}

#[test]
fn more_input_than_credit_breaks_the_connection_only() {
    let mut pen = Pen::with(any_maker(), |spec| {
        spec.serve.lifetime = clawpen_wire::pen::Lifetime::Persistent;
    });
    let channel = pen.host.channel();
    pen.host
        .send(channel, &Request::Exec(Exec { stdin: StdinMode::Pipe, ..exec(&["sleep", "1000"]) }));
    for _ in 0..8 {
        pen.host.send_raw(&{
            let mut bytes = Vec::new();
            let piece = vec![b'x'; 128 * 1024];
            clawpen_wire::supervisor::frame::append(&mut bytes, channel, &Request::Stdin(&piece))
                .unwrap();
            bytes
        });
    }
    assert!(pen.host.is_closed());
    let mut host = crate::harness::Host::connect(pen.directory.path());
    assert_eq!(host.shell("echo here"), "here\n");
}

#[test]
fn output_stops_without_credit_and_goes_on_with_it() {
    let mut pen = Pen::new(any_maker());
    let channel = pen.host.channel();
    let exec =
        Exec { output: ExecOutput::Stream { window: 1000 }, ..sh("head -c 1000000 /dev/zero") };
    pen.host.send(channel, &Request::Exec(exec));
    let mut got = 0;
    while got < 1000 {
        got += pen.host.next(|_, event| match event {
            Event::Output(output) => output.bytes.len(),
            Event::Started(_) => 0,
            other => panic!("{other:?}"),
        });
    }
    assert_eq!(got, 1000);
    // Another call is answered, and nothing more of the first comes before it.
    pen.host.call(Request::Ping, |event| assert_eq!(*event, Event::Done));
    pen.host.send(channel, &Request::Credit(limits::WINDOW));
    let mut exited = false;
    while !exited {
        let (more, over) = pen.host.next(|_, event| match event {
            Event::Output(output) => (output.bytes.len(), false),
            Event::Exited(_) => (0, true),
            other => panic!("{other:?}"),
        });
        got += more;
        exited = over;
    }
    assert_eq!(got, 1_000_000);
}

#[test]
fn endless_output_neither_fills_memory_nor_keeps_others_waiting() {
    let mut pen = Pen::new(any_maker());
    let channel = pen.host.channel();
    pen.host.send(channel, &Request::Exec(exec(&["yes"])));
    let mut got = 0_usize;
    while got < 3 * 1024 * 1024 {
        got +=
            pen.host.next(
                |_, event| if let Event::Output(output) = event { output.bytes.len() } else { 0 },
            );
    }
    pen.host.send(channel, &Request::Signal(Signal { signal: 9, reach: Reach::Tree }));
    // The window was never widened, so there is an end to what still comes.
    loop {
        let over = pen.host.next(|_, event| match event {
            Event::Exited(exited) => Some(exited.end),
            _ => None,
        });
        if let Some(end) = over {
            assert_eq!(end, End::Signal(9));
            break;
        }
        pen.host.send(channel, &Request::Credit(65_536));
    }
    let memory = std::fs::read_to_string(format!("/proc/{}/status", pen.pid)).unwrap();
    let peak = memory.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    let peak: u64 = peak.trim().trim_end_matches(" kB").parse().unwrap();
    assert!(peak < 16 * 1024, "{peak} KiB");
}

#[test]
fn merged_output_keeps_its_order() {
    let mut pen = Pen::new(any_maker());
    let exec = Exec { stderr: StderrMode::Merged, ..sh("echo 1; echo 2 >&2; echo 3") };
    let ran = pen.host.run(exec).unwrap();
    assert_eq!((ran.text().as_str(), ran.err.as_slice()), ("1\n2\n3\n", &b""[..]));
}

#[test]
fn a_terminal_has_a_size_echoes_and_ends() {
    for &maker in makers() {
        let mut pen = Pen::new(maker);
        let tty = Some(TtySize { rows: 30, columns: 101 });
        let ran = pen
            .host
            .run(Exec { tty, ..sh("test -t 0 && test -t 1 && test -t 2 && stty size && tty") })
            .unwrap();
        assert_eq!(ran.text(), "30 101\r\n/dev/pts/0\r\n");

        let channel = pen.host.channel();
        let script = "trap 'stty size; exit 3' WINCH; echo ready; while :; do sleep 0.05; done";
        pen.host.send(channel, &Request::Exec(Exec { tty, ..sh(script) }));
        let mut seen = String::new();
        while !seen.contains("ready") {
            pen.host.next(|_, event| {
                if let Event::Output(output) = event {
                    seen.push_str(std::str::from_utf8(output.bytes).unwrap());
                }
            });
        }
        pen.host.send(channel, &Request::Resize(TtySize { rows: 11, columns: 22 }));
        let mut rest = String::new();
        let end = loop {
            let end = pen.host.next(|_, event| match event {
                Event::Output(output) => {
                    rest.push_str(std::str::from_utf8(output.bytes).unwrap());
                    None
                }
                Event::Exited(exited) => Some(exited.end),
                other => panic!("{other:?}"),
            });
            if let Some(end) = end {
                break end;
            }
        };
        assert_eq!((rest.as_str(), end), ("11 22\r\n", End::Code(3)));

        let channel = pen.host.channel();
        pen.host
            .send(channel, &Request::Exec(Exec { tty, stdin: StdinMode::Pipe, ..exec(&["cat"]) }));
        pen.host.send(channel, &Request::Stdin(b"hello\n"));
        pen.host.send(channel, &Request::StdinEof);
        let ran = pen.host.finish(channel).unwrap();
        assert_eq!((ran.text().as_str(), ran.end()), ("hello\r\nhello\r\n", End::Code(0)));
    }
}

#[test]
fn a_time_out_kills_and_says_so() {
    let mut pen = Pen::new(any_maker());
    // The harness waits less long than the command would sleep.
    let ran = pen
        .host
        .run(Exec { timeout_ms: 100, ..sh("trap '' TERM INT HUP; while :; do sleep 100; done") })
        .unwrap();
    assert_eq!((ran.end(), ran.exited.unwrap().timed_out), (End::Signal(9), true));

    // Long enough for a shell to set its trap on a machine that has other things to do.
    let polite = Exec {
        timeout_ms: 2000,
        grace_ms: 10_000,
        ..sh("trap 'echo bye; exit 5' TERM; while :; do sleep 0.02; done")
    };
    let ran = pen.host.run(polite).unwrap();
    assert_eq!(
        (ran.text().as_str(), ran.end(), ran.exited.unwrap().timed_out),
        ("bye\n", End::Code(5), true)
    );

    let deaf =
        Exec { timeout_ms: 100, grace_ms: 100, ..sh("trap '' TERM; while :; do sleep 100; done") };
    let ran = pen.host.run(deaf).unwrap();
    assert_eq!((ran.end(), ran.exited.unwrap().timed_out), (End::Signal(9), true));
}

#[test]
fn a_signal_reaches_the_first_process() {
    let mut pen = Pen::new(any_maker());
    let channel = pen.host.channel();
    pen.host.send(
        channel,
        &Request::Exec(sh(
            "trap 'echo got; exit 4' USR1; echo ready; while :; do sleep 0.02; done",
        )),
    );
    let mut ready = false;
    while !ready {
        ready = pen.host.next(|_, event| matches!(event, Event::Output(_)));
    }
    pen.host.send(channel, &Request::Signal(Signal { signal: 10, reach: Reach::Process }));
    loop {
        let end = pen.host.next(|_, event| match event {
            Event::Exited(exited) => Some(exited.end),
            _ => None,
        });
        if let Some(end) = end {
            assert_eq!(end, End::Code(4));
            break;
        }
    }
}

#[test]
fn usage_covers_what_the_command_started() {
    let mut pen = Pen::new(any_maker());
    let ran = pen
        .host
        .run(sh("sh -c 'i=0; while [ $i -lt 100000 ]; do i=$((i+1)); done' & wait"))
        .unwrap();
    let usage = ran.exited.unwrap().usage;
    assert!(usage.user_us > 10_000, "{usage:?}");
    assert!(usage.max_rss_kib > 500, "{usage:?}");
    assert!(usage.wall_us >= 10_000, "{usage:?}");
}

#[test]
fn many_commands_run_at_once_and_one_too_many_is_refused() {
    let mut pen = Pen::with(any_maker(), |spec| spec.serve.caps.processes = 20);
    let channels: Vec<u32> = (0..20)
        .map(|_| {
            let channel = pen.host.channel();
            pen.host.send(channel, &Request::Exec(exec(&["sleep", "1000"])));
            channel
        })
        .collect();
    let mut started = 0;
    while started < 20 {
        started += pen.host.next(|_, event| usize::from(matches!(event, Event::Started(_))));
    }
    assert_eq!(pen.host.run(exec(&["true"])).unwrap_err().code, ErrorCode::Busy);
    assert_eq!(pen.host.processes().processes.len(), 20);
    for channel in channels {
        pen.host.send(channel, &Request::Signal(Signal { signal: 9, reach: Reach::Tree }));
    }
    let mut ended = 0;
    while ended < 20 {
        ended += pen.host.next(|_, event| usize::from(matches!(event, Event::Exited(_))));
    }
    assert_eq!(pen.host.shell("echo free again"), "free again\n");
}
