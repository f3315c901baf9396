//! How long things take; run with `--ignored --nocapture`, best with `CLAWPEN_SUPERVISOR` set to the static build.

use std::time::{Duration, Instant};

use clawpen_wire::supervisor::{Event, Parents, Read, Request, WriteMode, WriteOpen};

use crate::harness::{Host, Pen, below, exec, place, program, spec, start_with};
use crate::makers;

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

#[test]
#[ignore = "a measurement, not a test"]
fn figures() {
    measure("plain spawn and wait of true", 300, || {
        std::process::Command::new("true").status().unwrap();
    });
    for &maker in makers() {
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
                assert!(matches!(event, Event::Data(bytes) if bytes.len() == 4096))
            });
            host.next(|_, event| assert_eq!(*event, Event::Done));
        });
        measure("ping", 5000, || host.call(Request::Ping, |_| {}));
        let status = std::fs::read_to_string(format!("/proc/{}/smaps_rollup", pen.pid)).unwrap();
        println!("{}", status.lines().find(|line| line.starts_with("Pss:")).unwrap());
    }
}
