//! The shim that stands by has the user of the commands: whatever one of them does to it, the next command, the
//! facts and process 1 are well. And makers that are killed on the way leave nothing.

use std::os::fd::AsFd as _;
use std::time::{Duration, Instant};

use clawpen_os::events::{self, Interest};
use clawpen_os::process::{self, Pid};
use clawpen_os::rlimits::{self, Limit, Resource};
use clawpen_os::tree;
use clawpen_wire::pen::Lifetime;
use clawpen_wire::supervisor::{
    End, EnvVar, ErrorCode, Event, Exec, ExecOutput, Kill, Reach, Read, Request, Signal, StdinMode,
    limits,
};

use crate::harness::{
    Host, PATIENCE, Pen, below, exec, give_order, is_root, place, program, sh, spec, start_maker,
};
use crate::{any_maker, makers};

/// Shell functions: `shims` tells the children of process 1 but our own shim; `standby` waits until there is one that
/// was made after ours, in `p`.
const LOOK: &str = "shims() { for s in /proc/[0-9]*/stat; do \
     { read -r pid rest < $s; } 2>/dev/null || continue; set -- ${rest##*) }; \
     if [ \"$2\" = 1 ] && [ \"$pid\" != \"$PPID\" ]; then echo $pid; fi; done; }; \
     standby() { p=; until [ -n \"$p\" ]; do for q in $(shims); do \
     if [ $q -gt $PPID ]; then p=$q; fi; done; done; }; ";

fn look(script: &str) -> Exec {
    sh(&format!("{LOOK}{script}"))
}

/// What a command inherits and others could have changed.
const INHERITED: &str = "cat /proc/self/limits; nice; chrt -p $$ | sed -n 's/.*policy//p'; \
     taskset -p $$ | sed 's/.*mask//'; ionice -p $$";

fn persistent() -> Pen {
    Pen::with(any_maker(), |spec| spec.serve.lifetime = Lifetime::Persistent)
}

fn start(pen: &mut Pen, exec: Exec) -> u64 {
    let output = ExecOutput::Background { buffer: 4096 };
    pen.host.call(Request::Exec(Exec { output, ..exec }), |event| match event {
        Event::Started(started) => started.process,
        other => panic!("{other:?}"),
    })
}

fn kill(pen: &mut Pen, process: u64) {
    let kill = Kill { process, signal: 9, reach: Reach::Tree };
    pen.host.call(Request::Kill(kill), |event| assert_eq!(*event, Event::Done));
}

/// Waits until there is nobody but process 1 and at most one shim.
#[track_caller]
fn wait_until_alone(pen: &Pen) {
    let process_1 = Pid::new(pen.pid).unwrap();
    let started = Instant::now();
    while tree::descendants_of(process_1).unwrap().len() > 1 {
        let left = tree::descendants_of(process_1).unwrap();
        assert!(started.elapsed() < PATIENCE, "{left:?} are left");
        std::thread::yield_now();
    }
}

#[test]
fn what_a_command_does_to_the_next_ones_shim_ends_with_it() {
    for &maker in makers() {
        let mut pen = Pen::new(maker);
        let before = pen.host.shell(INHERITED);
        for tamper in [
            "prlimit --pid $p --fsize=0:0",
            "prlimit --pid $p --nofile=0:0",
            "prlimit --pid $p --nproc=0:0",
            "prlimit --pid $p --as=4096:4096",
            "prlimit --pid $p --cpu=0:0",
            "prlimit --pid $p --memlock=0:0",
            "renice -n 19 -p $p",
            "chrt -i -p 0 $p",
            "taskset -cp $(taskset -cp $p | sed 's/.*: //; s/[-,].*//') $p",
            "ionice -c 3 -p $p",
            "kill -STOP $p",
            "kill -KILL $p",
            "kill -TERM $p",
            "kill -USR1 $p",
            "kill -STOP -1",
        ] {
            let ran = pen.host.run(look(&format!("standby; {tamper}"))).unwrap();
            assert_eq!(ran.end(), End::Code(0), "{tamper}: {ran:?}");
            let ran = pen.host.run(sh(INHERITED)).unwrap();
            assert_eq!((ran.text(), ran.end()), (before.clone(), End::Code(0)), "{tamper}");
            assert_eq!(pen.host.facts().workload.descriptors, [0, 1, 2], "{tamper}");
        }
    }
}

#[test]
fn what_a_command_does_to_its_own_shim_ends_with_it() {
    for &maker in makers() {
        let mut pen = Pen::new(maker);
        let before = pen.host.shell(INHERITED);
        for tamper in [
            "prlimit --pid $PPID --fsize=0:0",
            "prlimit --pid $PPID --nofile=0:0",
            "prlimit --pid $PPID --nproc=0:0",
            "renice -n 19 -p $PPID",
            "chrt -i -p 0 $PPID",
            "taskset -cp $(taskset -cp $$ | sed 's/.*: //; s/[-,].*//') $PPID",
            "ionice -c 3 -p $PPID",
            "kill -USR1 $PPID",
            "kill -STOP $PPID",
        ] {
            // It may kill itself by that, even before its shim could say that it runs, and has ended in any case.
            drop(pen.host.run(sh(&format!("exec 1>&2; {tamper}"))));
            let ran = pen.host.run(sh(INHERITED)).unwrap();
            assert_eq!((ran.text(), ran.end()), (before.clone(), End::Code(0)), "{tamper}");
            assert_eq!(pen.host.facts().workload.descriptors, [0, 1, 2], "{tamper}");
        }
    }
}

#[test]
fn a_shim_that_has_left_nothing_serves_again_and_nothing_of_its_command_stays() {
    let mut pen = Pen::new(any_maker());
    let shim = |pen: &mut Pen| pen.host.shell("echo $PPID");
    let mut last = shim(&mut pen);
    let started = Instant::now();
    loop {
        let next = shim(&mut pen);
        if next == last {
            break;
        }
        last = next;
        assert!(started.elapsed() < PATIENCE, "every command has a shim of its own");
    }
    let secret = EnvVar { name: "SECRET".into(), value: "of the first".into() };
    let with_secret = Exec { env: vec![secret], ..sh("(sleep 1000 &); ulimit -n 20; cd /tmp") };
    assert_eq!(pen.host.run(with_secret).unwrap().end(), End::Code(0));
    let ran =
        pen.host.run(sh("echo \"[$SECRET]\" $(pwd) $(ls /proc/self/fd | wc -l); pgrep sleep"));
    assert_eq!(ran.unwrap().text(), "[] /work 4\n");
}

#[test]
fn killing_the_shim_that_stands_by_makes_no_work() {
    let mut pen = Pen::new(any_maker());
    let channel = pen.host.channel();
    let script = "standby; kill -9 $p; while [ -e /proc/$p ]; do :; done; echo gone; read x; shims; echo end";
    let exec = Exec { stdin: StdinMode::Pipe, ..look(script) };
    pen.host.send(channel, &Request::Exec(exec));
    let mut gone = false;
    while !gone {
        gone = pen.host.next(|_, event| matches!(event, Event::Output(_)));
    }
    // It is reaped, so process 1 has had its chance to make another.
    pen.host.call(Request::Ping, |event| assert_eq!(*event, Event::Done));
    pen.host.send(channel, &Request::Stdin(b"\n"));
    let ran = {
        let mut text = b"gone\n".to_vec();
        loop {
            let end = pen.host.next(|_, event| match event {
                Event::Output(output) => {
                    text.extend_from_slice(output.bytes);
                    None
                }
                Event::Exited(exited) => Some(exited.end),
                other => panic!("{other:?}"),
            });
            if let Some(end) = end {
                break (String::from_utf8(text).unwrap(), end);
            }
        }
    };
    assert_eq!(ran, ("gone\nend\n".to_owned(), End::Code(0)));
}

#[test]
fn facts_are_told_although_no_shim_stands_by() {
    let mut pen = persistent();
    let process = start(&mut pen, look("while :; do standby; kill -9 $p; done"));
    for _ in 0..20 {
        // One that is killed in the middle says that it could not look, and says it soon.
        let told = pen.host.call(Request::Facts, |event| match event {
            Event::FactsReport(report) => Ok(report.workload.descriptors.clone()),
            Event::Failed(failed) => Err(failed.code),
            other => panic!("{other:?}"),
        });
        let expected = [Ok(vec![0, 1, 2]), Err(ErrorCode::Unconfined), Err(ErrorCode::CannotStart)];
        assert!(expected.contains(&told), "{told:?}");
    }
    kill(&mut pen, process);
    pen.host.run(exec(&["true"])).unwrap();
    let started = Instant::now();
    assert_eq!(pen.host.facts().workload.descriptors, [0, 1, 2]);
    // An observer whose pipe does not end is given up after five seconds.
    assert!(started.elapsed() < Duration::from_secs(4), "{:?}", started.elapsed());
}

#[test]
fn a_filter_that_the_kernel_refuses_starts_nothing_and_makes_no_work() {
    // Loads a word and ends without a verdict.
    let mut pen =
        Pen::with(any_maker(), |spec| spec.serve.seccomp = vec![0x20, 0, 0, 0, 0, 0, 0, 0]);
    let failed = pen.host.run(sh("echo never")).unwrap_err();
    assert_eq!(failed.code, ErrorCode::Unconfined, "{failed:?}");
    let told = pen.host.call(Request::Facts, |event| match event {
        Event::Failed(failed) => failed.code,
        other => panic!("{other:?}"),
    });
    assert!([ErrorCode::Unconfined, ErrorCode::CannotStart].contains(&told), "{told:?}");
    // Page faults of reaped children: they grow with every shim that is made and fails.
    let faults = |pen: &Pen| {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", pen.pid)).unwrap();
        stat.rsplit_once(") ").unwrap().1.split(' ').nth(8).unwrap().to_owned()
    };
    let started = Instant::now();
    loop {
        let before = faults(&pen);
        for _ in 0..200 {
            pen.host.call(Request::Ping, |event| assert_eq!(*event, Event::Done));
        }
        if faults(&pen) == before {
            break;
        }
        assert!(started.elapsed() < PATIENCE, "process 1 goes on making shims");
    }
}

#[test]
fn a_shim_that_is_stopped_goes_on() {
    let mut pen = persistent();
    // Its own shim is among those that it stops: the host hears that it has started all the same.
    let stop = "for p in $PPID $(shims); do kill -STOP $p 2>/dev/null; done";
    let process = start(&mut pen, look(&format!("{stop}; while :; do sleep 0.02; {stop}; done")));
    for _ in 0..50 {
        assert_eq!(pen.host.run(exec(&["echo", "hello"])).unwrap().text(), "hello\n");
    }
    kill(&mut pen, process);
    wait_until_alone(&pen);
}

#[test]
fn a_storm_of_stops_holds_up_no_answer_for_long_and_leaves_nothing() {
    let mut pen = persistent();
    let storm = pen.host.channel();
    let script = "touch /work/storm; while :; do kill -STOP -1; done";
    pen.host.send(storm, &Request::Exec(sh(script)));
    let started = Instant::now();
    while !pen.workspace.join("storm").exists() {
        assert!(started.elapsed() < PATIENCE, "there is no storm");
    }
    let mut other = Host::connect(pen.directory.path());
    for _ in 0..8 {
        // Whatever becomes of it, there is an answer.
        let _ = other.run(Exec { timeout_ms: 200, ..exec(&["true"]) });
    }
    other.call(Request::Facts, |event| {
        assert!(matches!(event, Event::FactsReport(_) | Event::Failed(_)), "{event:?}");
    });
    pen.host.send(storm, &Request::Signal(Signal { signal: 9, reach: Reach::Tree }));
    assert_eq!(pen.host.finish(storm).unwrap().end(), End::Signal(9));
    assert_eq!(pen.host.shell("echo still here"), "still here\n");
    wait_until_alone(&pen);
    assert_eq!(pen.host.facts().workload.descriptors, [0, 1, 2]);
}

#[test]
fn a_storm_of_kills_ends_with_its_command_and_leaves_nothing() {
    let mut pen = persistent();
    for _ in 0..20 {
        // It kills its own shim with all others, and dies of that.
        let ran = pen.host.run(sh("(sleep 1000 &); kill -9 -1; sleep 1000")).unwrap();
        assert_eq!(ran.end(), End::Signal(9));
    }
    let process = start(&mut pen, look("while :; do for p in $(shims); do kill -9 $p; done; done"));
    for _ in 0..50 {
        // Whatever becomes of it, there is an answer.
        let _ = pen.host.run(exec(&["true"]));
    }
    kill(&mut pen, process);
    assert_eq!(pen.host.shell("echo still here"), "still here\n");
    wait_until_alone(&pen);
}

#[test]
fn many_quick_commands_leave_nothing_in_process_1() {
    let mut pen = Pen::new(any_maker());
    let open = |pen: &Pen| std::fs::read_dir(format!("/proc/{}/fd", pen.pid)).unwrap().count();
    if !is_root() {
        println!("skipped: a sealed process 1 shows its descriptors to root only");
        return;
    }
    pen.host.run(exec(&["true"])).unwrap();
    wait_until_alone(&pen);
    let before = open(&pen);
    for _ in 0..100 {
        // Two at once: one is given to the shim that stands by, the other has its own.
        let channels = [pen.host.channel(), pen.host.channel()];
        for channel in channels {
            pen.host.send(channel, &Request::Exec(exec(&["true"])));
        }
        let mut ended = 0;
        while ended < channels.len() {
            ended += pen.host.next(|_, event| usize::from(matches!(event, Event::Exited(_))));
        }
    }
    wait_until_alone(&pen);
    let started = Instant::now();
    // What the first command needed may still be open when we begin to count.
    while open(&pen) > before {
        assert!(started.elapsed() < PATIENCE, "{} instead of {before} are open", open(&pen));
        pen.host.call(Request::Ping, |event| assert_eq!(*event, Event::Done));
    }
}

#[test]
fn a_command_arrives_whole_however_long_it_is() {
    let mut pen = Pen::new(any_maker());
    let lengths = (65_000..66_000).step_by(97).chain([1, 4096, 100_000, 131_000]);
    for length in lengths {
        let word = "x".repeat(length / 2);
        let variable = EnvVar { name: "WORD".into(), value: "y".repeat(length / 2).into() };
        let count = exec(&["sh", "-c", "echo $1$WORD | wc -c", "sh", &word]);
        let ran = pen.host.run(Exec { env: vec![variable], ..count }).unwrap();
        assert_eq!(ran.text().trim(), (length / 2 * 2 + 1).to_string());
    }
}

#[test]
fn without_numbers_for_descriptors_a_command_fails_clearly() {
    let few = Limit { soft: Some(48), hard: Some(48) };
    rlimits::set(Resource::OpenFiles, few).unwrap();
    let mut pen = persistent();
    let mut running = Vec::new();
    let failed = loop {
        let output = ExecOutput::Background { buffer: 16 };
        let exec = Exec { output, ..exec(&["sleep", "1000"]) };
        let started = pen.host.call(Request::Exec(exec), |event| match event {
            Event::Started(started) => Ok(*started),
            Event::Failed(failed) => Err(failed.code),
            other => panic!("{other:?}"),
        });
        match started {
            Ok(started) => {
                assert_ne!(started.pid, 0);
                running.push(started.process);
            }
            Err(code) => break code,
        }
    };
    assert!(!running.is_empty());
    assert!([ErrorCode::CannotStart, ErrorCode::WorkingDirectory].contains(&failed), "{failed:?}");
    for process in running {
        kill(&mut pen, process);
    }
    assert_eq!(pen.host.shell("echo again"), "again\n");
}

/// Sends descriptors to itself and does not take them, until the kernel says that there are too many.
const FILL: &str = r#"
use Socket; socketpair(my $a, my $b, AF_UNIX, SOCK_DGRAM, 0) or die; open(my $n, '<', '/dev/null');
my $control = pack('Q i i', 16 + 4 * 250, 1, 1) . pack('i', fileno($n)) x 250; my $byte = 'x';
my $vector = pack('P Q', $byte, 1); my @kept;
for (;;) {
    my $message = pack('Q Q P Q P Q Q', 0, 0, $vector, 1, $control, length $control, 0);
    next if syscall(46, fileno($a), $message, 0x40) > 0;
    last if $!{ETOOMANYREFS}; die "$!" unless $!{EAGAIN};
    push @kept, $a, $b; ($a, $b) = (undef, undef); socketpair($a, $b, AF_UNIX, SOCK_DGRAM, 0) or die;
}
$| = 1; print "full\n"; sleep 1000;
"#;

#[cfg(target_arch = "x86_64")]
#[test]
fn descriptors_on_their_way_keep_no_command_from_starting() {
    let few = Limit { soft: Some(2000), hard: Some(2000) };
    rlimits::set(Resource::OpenFiles, few).unwrap();
    for &maker in makers() {
        let (mut pen, mut other) = (Pen::new(maker), Pen::new(maker));
        let channel = pen.host.channel();
        pen.host.send(channel, &Request::Exec(exec(&["perl", "-MErrno", "-e", FILL])));
        let mut said = Vec::new();
        while said.is_empty() {
            pen.host.next(|_, event| match event {
                Event::Output(output) => said.extend_from_slice(output.bytes),
                Event::Started(_) => {}
                unexpected => panic!("{unexpected:?}"),
            });
        }
        assert_eq!(String::from_utf8_lossy(&said), "full\n");
        assert_eq!(pen.host.shell("echo here"), "here\n");
        assert_eq!(other.host.shell("echo there"), "there\n");
    }
}

#[test]
fn a_command_that_waited_behind_a_full_connection_starts() {
    let mut pen = Pen::new(any_maker());
    std::fs::write(pen.workspace.join("big"), vec![7; 3 << 20]).unwrap();
    for _ in 0..20 {
        let (reading, running) = (pen.host.channel(), pen.host.channel());
        let read =
            Read { place: below("big"), offset: 0, length: u64::MAX, window: limits::WINDOW };
        pen.host.send(reading, &Request::Read(read));
        pen.host.send(running, &Request::Exec(exec(&["true"])));
        let (mut read, mut ended) = (false, false);
        while !read || !ended {
            let credit = pen.host.next(|of, event| match event {
                Event::Data(bytes) => u32::try_from(bytes.len()).unwrap(),
                Event::Done => {
                    assert_eq!(of, reading);
                    read = true;
                    0
                }
                Event::Exited(_) => {
                    ended = true;
                    0
                }
                _ => 0,
            });
            if credit > 0 {
                pen.host.send(reading, &Request::Credit(credit));
            }
        }
    }
}

#[test]
fn input_ends_although_shims_were_made_while_it_was_open() {
    let mut pen = Pen::new(any_maker());
    let reader = pen.host.channel();
    pen.host.send(reader, &Request::Exec(Exec { stdin: StdinMode::Pipe, ..exec(&["cat"]) }));
    pen.host.next(|of, event| assert!(of == reader && matches!(event, Event::Started(_))));
    for _ in 0..10 {
        pen.host.run(exec(&["true"])).unwrap();
    }
    pen.host.send(reader, &Request::StdinEof);
    assert_eq!(pen.host.finish(reader).unwrap().end(), End::Code(0));
}

#[test]
fn a_maker_without_an_engine_and_a_clone_without_a_maker_leave_nothing() {
    let program = program();
    for &maker in makers() {
        for dies in ["the maker, before its order", "the maker, after it", "the engine"] {
            let (directory, workspace) = place();
            let (process, socket) = start_maker(&program, maker);
            let started = Instant::now();
            let clone = loop {
                if let [clone] = tree::children_of(process.pid()).unwrap()[..] {
                    break process::pidfd_open(clone).unwrap();
                }
                assert!(started.elapsed() < PATIENCE, "there is no clone");
            };
            process.signal(process::Signal::STOP).unwrap();
            if dies != "the maker, before its order" {
                give_order(&socket, &spec(maker, &workspace), directory.path());
            }
            if dies == "the engine" {
                drop(socket);
                process.signal(process::Signal::CONT).unwrap();
            } else {
                process.signal(process::Signal::KILL).unwrap();
            }
            process.wait().unwrap();
            let ended = events::poll(&[(clone.as_fd(), Interest::Read)], Some(PATIENCE)).unwrap();
            assert!(!ended.is_empty(), "{maker:?}, without {dies}: process 1 is still there");
        }
    }
}
