//! Nothing outlives its command, however it tries; the workload can neither stop nor trick process 1.

use std::time::{Duration, Instant};

use clawpen_wire::pen::{CgroupEntry, CgroupVersion};
use clawpen_wire::supervisor::{End, ErrorCode, Event, Exec, Kill, Reach, Request, Signal};

use crate::harness::{Maker, PATIENCE, Pen, below, exec, sh};
use crate::{any_maker, makers};

/// How many processes of commands the pen has, seen from outside: all but process 1 and its shims, which run the
/// same program.
fn processes_of(pen: &Pen) -> usize {
    let namespace = std::fs::read_link(format!("/proc/{}/ns/pid", pen.pid)).ok();
    let program = |path: &std::path::Path| std::fs::read_link(path.join("exe")).ok();
    let ours = program(format!("/proc/{}", pen.pid).as_ref());
    let entries = std::fs::read_dir("/proc").unwrap().flatten();
    entries
        .filter(|entry| {
            let link = std::fs::read_link(entry.path().join("ns/pid")).ok();
            // One that has ended and only waits to be reaped runs nothing.
            let runs = program(&entry.path());
            link.is_some() && link == namespace && runs.is_some() && runs != ours
        })
        .count()
}

#[track_caller]
fn wait_until_alone(pen: &Pen) {
    let started = Instant::now();
    while processes_of(pen) > 0 {
        assert!(
            started.elapsed() < Duration::from_secs(10),
            "{} processes are left",
            processes_of(pen)
        );
        std::thread::yield_now();
    }
}

const DAEMON: &str = "setsid sh -c '(trap \"\" TERM HUP INT; while :; do sleep 1000; done) & exit' >/dev/null 2>&1 </dev/null &";

#[test]
fn what_a_command_leaves_behind_ends_with_it() {
    for &maker in makers() {
        let mut pen =
            Pen::with(maker, |spec| spec.serve.lifetime = clawpen_wire::pen::Lifetime::Persistent);
        let ran = pen.host.run(sh(&format!("{DAEMON} {DAEMON} sleep 1000 & echo done"))).unwrap();
        assert_eq!((ran.text().as_str(), ran.end()), ("done\n", End::Code(0)));
        // `Exited` says that the tree is gone: no waiting here.
        if crate::harness::is_root() {
            assert_eq!(processes_of(&pen), 0);
        }
    }
}

#[test]
fn a_kill_reaches_daemons_and_leaves_other_commands_alone() {
    let mut pen = Pen::new(any_maker());
    let other = pen.host.channel();
    pen.host.send(other, &Request::Exec(sh("sleep 1000 & wait")));
    let channel = pen.host.channel();
    pen.host
        .send(channel, &Request::Exec(sh(&format!("{DAEMON} sleep 0.05; echo ready; sleep 1000"))));
    let mut ready = false;
    while !ready {
        ready = pen.host.next(|of, event| of == channel && matches!(event, Event::Output(_)));
    }
    pen.host.send(channel, &Request::Signal(Signal { signal: 9, reach: Reach::Tree }));
    pen.host.next(|of, event| {
        assert_eq!(of, channel);
        assert!(
            matches!(event, Event::Exited(exited) if exited.end == End::Signal(9)),
            "{event:?}"
        );
    });
    let left = pen.host.processes().processes;
    assert_eq!(left.len(), 1);
    let kill = Kill { process: left[0].process, signal: 9, reach: Reach::Tree };
    let answer = pen.host.channel();
    pen.host.send(answer, &Request::Kill(kill));
    let mut seen = Vec::new();
    while seen.len() < 2 {
        seen.push(pen.host.next(|of, event| (of, matches!(event, Event::Done | Event::Exited(_)))));
    }
    seen.sort_unstable();
    assert_eq!(seen, [(other, true), (answer, true)]);
    wait_until_alone(&pen);
}

#[test]
fn killing_or_stopping_the_shim_helps_nobody() {
    let mut pen = Pen::new(any_maker());
    // The parent of the command is its shim.
    let ran = pen.host.run(sh(&format!("{DAEMON} sleep 0.05; kill -9 $PPID; sleep 1000"))).unwrap();
    assert_eq!(ran.end(), End::Signal(9));
    wait_until_alone(&pen);

    let exec = Exec { timeout_ms: 200, ..sh(&format!("{DAEMON} kill -STOP $PPID; sleep 1000")) };
    let ran = pen.host.run(exec).unwrap();
    assert_eq!((ran.end(), ran.exited.unwrap().timed_out), (End::Signal(9), true));
    wait_until_alone(&pen);
    assert_eq!(pen.host.shell("echo still here"), "still here\n");
}

#[test]
fn signals_from_inside_do_not_reach_process_1() {
    for &maker in makers() {
        let mut pen = Pen::new(maker);
        let script = "for signal in 1 2 3 9 15 17 19 10 12 34 64; do kill -$signal 1 2>/dev/null; done; echo sent";
        assert_eq!(pen.host.shell(script), "sent\n");
        assert_eq!(pen.host.shell("echo still here"), "still here\n");
        assert!(pen.is_alive());
    }
}

#[test]
fn a_signal_from_outside_ends_the_pen() {
    let pen = Pen::new(any_maker());
    clawpen_os::process::pidfd_signal(
        std::os::fd::AsFd::as_fd(&pen.pidfd),
        clawpen_os::process::Signal::TERM,
    )
    .unwrap();
    pen.wait_for_end();
}

/// A control group that is removed again.
struct Group(std::path::PathBuf);

impl Drop for Group {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir(&self.0);
    }
}

#[test]
fn at_the_process_limit_files_and_kill_work_and_a_new_command_fails_clearly() {
    let group =
        Group(format!("/sys/fs/cgroup/pids/clawpen-supervisor-test-{}", std::process::id()).into());
    if std::fs::create_dir(&group.0).is_err() {
        println!("skipped: needs root and the pids controller of cgroup v1");
        return;
    }
    std::fs::write(group.0.join("pids.max"), "40").unwrap();
    {
        let directory = group.0.clone();
        let mut pen = Pen::with(Maker::Root, |spec| {
            let make = spec.make.as_mut().unwrap();
            make.cgroups.push(CgroupEntry { directory, version: CgroupVersion::One });
        });
        let bomb = pen.host.channel();
        // bash waits and tries again where other shells give up, so the limit stays reached.
        pen.host.send(
            bomb,
            &Request::Exec(exec(&["bash", "-c", "while :; do sleep 1000 & done 2>/dev/null"])),
        );
        pen.host.next(|_, event| assert!(matches!(event, Event::Started(_))));
        let started = Instant::now();
        while std::fs::read_to_string(group.0.join("pids.current")).unwrap().trim() != "40" {
            assert!(started.elapsed() < PATIENCE, "the bomb never filled the limit");
            std::thread::yield_now();
        }
        let failed = pen.host.run(sh("exit 0")).unwrap_err();
        assert_eq!(failed.code, ErrorCode::CannotStart, "{failed:?}");
        let channel = pen.host.channel();
        pen.host.send(
            channel,
            &Request::Mkdir(clawpen_wire::supervisor::Mkdir {
                place: below("made"),
                permissions: 0o755,
                parents: clawpen_wire::supervisor::Parents::Required,
            }),
        );
        let mut done = false;
        while !done {
            done = pen.host.next(|of, event| of == channel && *event == Event::Done);
        }
        assert!(pen.workspace.join("made").is_dir());
        pen.host.send(bomb, &Request::Signal(Signal { signal: 9, reach: Reach::Tree }));
        let mut over = false;
        while !over {
            over = pen.host.next(|of, event| of == bomb && matches!(event, Event::Exited(_)));
        }
        wait_until_alone(&pen);
        assert_eq!(pen.host.shell("echo again"), "again\n");
    }
}

#[test]
fn an_ephemeral_pen_ends_with_its_connection_and_takes_everything_along() {
    for &maker in makers() {
        let mut pen = Pen::new(maker);
        let channel = pen.host.channel();
        pen.host.send(channel, &Request::Exec(sh(&format!("{DAEMON} sleep 1000"))));
        pen.host.next(|_, event| assert!(matches!(event, Event::Started(_))));
        pen.host.hang_up();
        pen.wait_for_end();
    }
}

/// Eight lines of processes, each of which forks the next and ends.
const LINES: &str = "for (1..8) { if (!fork) { for (;;) { exit if fork } } }";

#[test]
fn a_command_that_never_stops_forking_is_told_of_and_ends_whole() {
    let mut pen = Pen::new(any_maker());
    for rest in ["sleep 1000", "exit 3"] {
        let channel = pen.host.channel();
        let line = format!("{LINES} $| = 1; print 'x'; {rest}");
        pen.host.send(channel, &Request::Exec(exec(&["perl", "-e", &line])));
        let first = pen.host.next(|of, event| (of, matches!(event, Event::Started(_))));
        assert_eq!(first, (channel, true), "{rest}");
        if rest != "exit 3" {
            pen.host.next(|_, event| assert!(matches!(event, Event::Output(_)), "{event:?}"));
            pen.host.send(channel, &Request::Signal(Signal { signal: 9, reach: Reach::Tree }));
        }
        let end = pen.host.finish(channel).unwrap().end();
        assert_eq!(end, if rest == "exit 3" { End::Code(3) } else { End::Signal(9) });
        wait_until_alone(&pen);
    }
    assert_eq!(pen.host.shell("echo still here"), "still here\n");
}

/// How a command is ended before its start was told.
#[derive(Debug, Clone, Copy)]
enum Early {
    Killed,
    TimedOut,
    Abandoned,
}

#[test]
fn whatever_ends_a_command_at_once_leaves_nothing_of_it() {
    let persistent = |spec: &mut clawpen_wire::pen::PenSpec| {
        spec.serve.lifetime = clawpen_wire::pen::Lifetime::Persistent;
    };
    let mut pen = Pen::with(any_maker(), persistent);
    let daemons = format!("{DAEMON} {DAEMON} kill -STOP $PPID; sleep 1000 & sleep 1000");
    let lines = format!("{LINES} sleep 1000");
    let tty = Some(clawpen_wire::supervisor::TtySize { rows: 24, columns: 80 });
    for how in [Early::Killed, Early::TimedOut, Early::Abandoned] {
        for round in 0..24 {
            let command = if round % 3 == 0 { exec(&["perl", "-e", &lines]) } else { sh(&daemons) };
            let tty = tty.filter(|_| round % 2 == 0);
            let timeout_ms = match how {
                Early::TimedOut => 1 + round / 8,
                Early::Killed | Early::Abandoned => 0,
            };
            let command = Exec { tty, timeout_ms, ..command };
            let mut host = crate::harness::Host::connect(pen.directory.path());
            let channel = host.channel();
            host.send(channel, &Request::Exec(command));
            match how {
                Early::Killed => {
                    host.send(channel, &Request::Signal(Signal { signal: 9, reach: Reach::Tree }));
                    assert_eq!(host.finish(channel).unwrap().end(), End::Signal(9));
                }
                Early::TimedOut => {
                    let exited = host.finish(channel).unwrap().exited.unwrap();
                    assert_eq!((exited.end, exited.timed_out), (End::Signal(9), true));
                }
                Early::Abandoned => host.hang_up(),
            }
        }
        // Process 1 may still have to read the last order, and that nobody waits for it.
        let started = Instant::now();
        while !pen.host.processes().processes.is_empty() {
            assert!(started.elapsed() < Duration::from_secs(10), "{how:?}");
        }
        wait_until_alone(&pen);
    }
    assert_eq!(pen.host.shell("echo still here"), "still here\n");
}
