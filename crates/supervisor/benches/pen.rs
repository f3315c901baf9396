//! How long a pen takes to make, and a call into it: `cargo bench -p clawpen-supervisor`.
//!
//! Root measures its own pens and those of an ordinary user. Plain spawn and wait of the same program comes
//! first, because this machine has moods: compare within one run only. With `CLAWPEN_SUPERVISOR` set to the
//! static build that the engine embeds, that one is measured.
#![expect(clippy::print_stdout, reason = "a benchmark prints its figures")]

use std::time::{Duration, Instant};

use clawpen_wire::supervisor::{Event, Parents, Read, Request, WriteMode, WriteOpen};

#[path = "../tests/pen/harness.rs"]
#[expect(dead_code, reason = "tests use the rest of it")]
#[expect(clippy::unwrap_used, clippy::expect_used, reason = "a harness fails by panicking")]
mod harness;

use harness::{Host, Maker, Pen, below, exec, place, program, spec, start_with};

fn show(what: &str, mut times: Vec<Duration>) {
    times.sort_unstable();
    let at = |part: usize| times[(times.len() - 1) * part / 100].as_secs_f64() * 1e3;
    println!("{what:<42} p50 {:.3}  p95 {:.3}  p99 {:.3} ms", at(50), at(95), at(99));
}

fn measure(what: &str, rounds: usize, mut run: impl FnMut()) {
    let times = (0..rounds).map(|_| {
        let started = Instant::now();
        run();
        started.elapsed()
    });
    show(what, times.collect());
}

#[expect(clippy::unwrap_used, reason = "a benchmark that cannot run has no figures")]
fn main() {
    measure("plain spawn and wait of true", 300, || {
        std::process::Command::new("true").status().unwrap();
    });
    let makers: &[Maker] =
        if harness::is_root() { &[Maker::Root, Maker::Ordinary] } else { &[Maker::Ordinary] };
    for &maker in makers {
        println!("{maker:?}");
        let program = program();
        let (directory, workspace) = place();
        let spec = spec(maker, &workspace);
        let mut pens = Vec::new();
        let (mut created, mut observed, mut first) = (Vec::new(), Vec::new(), Vec::new());
        for _ in 0..60 {
            let started = Instant::now();
            let pen = start_with(&program, maker, &spec, directory.path()).unwrap();
            let mut host = Host::connect(directory.path());
            created.push(started.elapsed());
            host.facts();
            observed.push(started.elapsed());
            host.call(Request::Seal, |_| {});
            host.run(exec(&["/usr/bin/true"])).unwrap();
            first.push(started.elapsed());
            pens.push((pen, host));
        }
        let each = pens.iter().map(|((pid, _), _)| proportional_kib(*pid)).sum::<u64>() / 60;
        println!("{:<42} {each} KiB of memory each", "60 idle pens");
        drop(pens);
        show("create to Welcome", created);
        show("create to facts", observed);
        show("nothing to the end of the first true", first);

        let mut pen = Pen::new(maker);
        let host = &mut pen.host;
        measure("exec true", 500, || {
            host.run(exec(&["/usr/bin/true"])).unwrap();
        });
        measure("facts", 200, || {
            host.facts();
        });
        let contents = vec![b'x'; 4096];
        measure("write 4 KiB, new and replaced", 2000, || {
            let channel = host.channel();
            let open = WriteOpen {
                place: below("file"),
                mode: WriteMode::Replace,
                parents: Parents::Required,
                permissions: 0o644,
            };
            host.send(channel, &Request::WriteOpen(open));
            host.send(channel, &Request::WriteChunk(&contents));
            host.send(channel, &Request::WriteCommit);
            host.next(|_, event| assert!(matches!(event, Event::Written(_))));
        });
        measure("read 4 KiB", 5000, || {
            let channel = host.channel();
            host.send(
                channel,
                &Request::Read(Read {
                    place: below("file"),
                    offset: 0,
                    length: 4096,
                    window: 65_536,
                }),
            );
            host.next(|_, event| {
                assert!(matches!(event, Event::Data(bytes) if bytes.len() == 4096));
            });
            host.next(|_, event| assert_eq!(*event, Event::Done));
        });
        measure("ping", 5000, || host.call(Request::Ping, |_| {}));
    }
}

/// Memory of a process, shared pages divided among those who share them.
#[expect(clippy::unwrap_used, reason = "a benchmark that cannot run has no figures")]
fn proportional_kib(pid: i32) -> u64 {
    let text = std::fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).unwrap();
    let line = text.lines().find_map(|line| line.strip_prefix("Pss:")).unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}
