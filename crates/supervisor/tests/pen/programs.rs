//! Programs that the host brings: run from memory, out of reach of what runs beside them.

use clawpen_wire::pen::Lifetime;
use clawpen_wire::supervisor::{
    End, ErrorCode, Event, Exec, ExecProgram, Failed, ProgramOpen, Request, Written, limits,
};

use crate::harness::{Host, Pen, Ran, exec};
use crate::{any_maker, makers};

fn persistent(maker: crate::Maker) -> Pen {
    Pen::with(maker, |spec| spec.serve.lifetime = Lifetime::Persistent)
}

/// Brings a program; the last word about it.
fn bring(host: &mut Host, name: u64, bytes: &[u8]) -> Result<Written, ErrorCode> {
    let channel = host.channel();
    host.send(channel, &Request::ProgramOpen(ProgramOpen { name }));
    for piece in bytes.chunks(limits::CHUNK) {
        host.send(channel, &Request::WriteChunk(piece));
    }
    host.send(channel, &Request::WriteCommit);
    loop {
        let said = host.next(|of, event| {
            assert_eq!(of, channel);
            match event {
                Event::Credit(_) => None,
                Event::Written(written) => Some(Ok(*written)),
                Event::Failed(failed) => Some(Err(failed.code)),
                other => panic!("{other:?}"),
            }
        });
        if let Some(said) = said {
            return said;
        }
    }
}

fn start(host: &mut Host, name: u64, exec: Exec) -> u32 {
    let channel = host.channel();
    host.send(channel, &Request::ExecProgram(ExecProgram { name, exec }));
    channel
}

fn run(host: &mut Host, name: u64, argv: &[&str]) -> Result<Ran, Failed> {
    let channel = start(host, name, exec(argv));
    host.finish(channel)
}

#[test]
fn a_program_runs_from_memory_as_every_command_does() {
    let echo = std::fs::read("/usr/bin/echo").unwrap();
    let env = std::fs::read("/usr/bin/id").unwrap();
    for &maker in makers() {
        let mut pen = Pen::new(maker);
        assert_eq!(run(&mut pen.host, 7, &["echo"]).unwrap_err().code, ErrorCode::CommandNotFound);
        let written = Written { bytes: echo.len() as u64, created: true };
        assert_eq!(bring(&mut pen.host, 7, &echo), Ok(written));
        // By the shim that stands by, and by one of its own where the order is too long for that.
        for word in ["short", &"long".repeat(20_000)] {
            let ran = run(&mut pen.host, 7, &["any name", word]).unwrap();
            assert_eq!((ran.text(), ran.end()), (format!("{word}\n"), End::Code(0)));
        }
        // One takes the place of the other.
        bring(&mut pen.host, 8, &env).unwrap();
        assert_eq!(run(&mut pen.host, 7, &["echo"]).unwrap_err().code, ErrorCode::CommandNotFound);
        assert_eq!(run(&mut pen.host, 8, &["id", "-u"]).unwrap().text(), "1000\n");
        assert_eq!(pen.host.shell("echo beside"), "beside\n");
    }
}

#[test]
fn what_runs_beside_a_program_cannot_look_into_it_or_change_it() {
    let sleep = std::fs::read("/usr/bin/sleep").unwrap();
    for &maker in makers() {
        let mut pen = persistent(maker);
        bring(&mut pen.host, 1, &sleep).unwrap();
        let channel = start(&mut pen.host, 1, exec(&["sleep", "1000"]));
        let pid = pen.host.next(|of, event| match event {
            Event::Started(started) if of == channel => started.pid,
            other => panic!("{other:?}"),
        });
        let mut beside = Host::connect(pen.directory.path());
        // The same on a command of the sandbox's own, to know that the question is right.
        let look = "for file in exe mem maps environ fd/0; do (: < /proc/$at/$file) 2>/dev/null && echo $file; done; true";
        let own = beside.shell(&format!("sleep 1000 & at=$!; {look}; kill $at"));
        assert!(own.contains("mem\n") && own.contains("exe\n"), "{own:?}");
        assert_eq!(beside.shell(&format!("at={pid}; {look}")), "");
        let holders = "grep -l program /proc/[0-9]*/maps /proc/[0-9]*/fdinfo/* 2>/dev/null; ls -l /proc/[0-9]*/fd /proc/[0-9]*/exe 2>/dev/null | grep -c memfd; true";
        assert_eq!(beside.shell(holders), "0\n");
        beside.shell(&format!("kill {pid}"));
        assert_eq!(pen.host.finish(channel).unwrap().end(), End::Signal(15));
    }
}

#[test]
fn a_program_beyond_its_limit_before_the_seal_or_that_is_none_is_refused() {
    let mut pen = Pen::unsealed(any_maker(), |_| {}).unwrap();
    assert_eq!(bring(&mut pen.host, 1, b""), Err(ErrorCode::NotSealed));
    let refused = run(&mut pen.host, 1, &["x"]).unwrap_err().code;
    assert_eq!(refused, ErrorCode::NotSealed);

    let mut pen = Pen::new(any_maker());
    let long = vec![0; usize::try_from(limits::PROGRAM).unwrap() + 1];
    assert_eq!(bring(&mut pen.host, 1, &long), Err(ErrorCode::TooLong));
    assert_eq!(run(&mut pen.host, 1, &["x"]).unwrap_err().code, ErrorCode::CommandNotFound);
    for text in [&b""[..], b"no program", b"#!/bin/sh\necho script\n"] {
        bring(&mut pen.host, 1, text).unwrap();
        let failed = run(&mut pen.host, 1, &["x"]).unwrap_err().code;
        assert!(
            matches!(failed, ErrorCode::NotExecutable | ErrorCode::CommandNotFound),
            "{failed:?}"
        );
    }
    assert_eq!(pen.host.shell("echo still here"), "still here\n");
}

#[test]
fn a_program_that_is_given_up_or_interrupted_leaves_the_one_before() {
    let echo = std::fs::read("/usr/bin/echo").unwrap();
    let mut pen = persistent(any_maker());
    bring(&mut pen.host, 1, &echo).unwrap();
    let channel = pen.host.channel();
    pen.host.send(channel, &Request::ProgramOpen(ProgramOpen { name: 1 }));
    pen.host.send(channel, &Request::WriteChunk(b"half"));
    pen.host.send(channel, &Request::WriteAbort);
    pen.host.next(|of, event| assert_eq!((of, event), (channel, &Event::Done)));
    let mut goes = Host::connect(pen.directory.path());
    let channel = goes.channel();
    goes.send(channel, &Request::ProgramOpen(ProgramOpen { name: 1 }));
    goes.send(channel, &Request::WriteChunk(b"half"));
    goes.hang_up();
    assert_eq!(run(&mut pen.host, 1, &["echo", "whole"]).unwrap().text(), "whole\n");
    // What makes no sense on such a call ends the connection, and nothing else.
    let mut odd = Host::connect(pen.directory.path());
    let channel = odd.channel();
    odd.send(channel, &Request::ProgramOpen(ProgramOpen { name: 1 }));
    odd.send(channel, &Request::StdinEof);
    assert!(odd.is_closed());
    assert_eq!(run(&mut pen.host, 1, &["echo", "whole"]).unwrap().text(), "whole\n");
}
