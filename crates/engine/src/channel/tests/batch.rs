//! Several files at once: staged, put in place, taken back.

use clawpen_wire::supervisor::{
    ErrorCode, Event, OnExisting, Parents, Place, Rename, Request, WriteMode, WriteOpen, Written,
    limits,
};

use super::super::*;
use super::failed;
use super::script::{Script, channel, script};

#[test]
fn nothing_is_committed_before_all_is_staged() {
    let script = open(open(script(), 1, "a"), 2, "b")
        .hears(3, Request::Ping)
        .says(3, Event::Done)
        .hears(1, Request::WriteCommit)
        .hears(2, Request::WriteCommit)
        .hears(5, rename())
        .says(1, Event::Written(Written { bytes: 1, created: true }))
        .says(2, Event::Written(Written { bytes: 1, created: false }))
        .says(5, Event::Done);
    let outcome = channel(script).write_together(&[write("a", b"x"), write("b", b"x")], &[gone()]);
    let writes = [true, false].map(|created| Ok(Written { bytes: 1, created })).to_vec();
    assert_eq!(outcome.unwrap(), BatchOutcome::Put { writes, moves: vec![Ok(())] });
}

#[test]
fn one_that_cannot_be_staged_takes_all_back() {
    let script = open(open(script(), 1, "a"), 2, "b")
        .hears(3, Request::Ping)
        .says(2, failed(ErrorCode::Denied))
        .says(3, Event::Done)
        .hears(1, Request::WriteAbort)
        .hears(4, Request::Ping)
        .says(1, Event::Done)
        .says(4, Event::Done)
        .hears(6, Request::Ping)
        .says(6, Event::Done);
    let mut channel = channel(script);
    let outcome = channel.write_together(&[write("a", b"x"), write("b", b"x")], &[gone()]).unwrap();
    let BatchOutcome::Refused { write: 1, failure } = outcome else { panic!("{outcome:?}") };
    assert_eq!(failure.code, ErrorCode::Denied);
    channel.ping().unwrap();
}

#[test]
fn what_fails_in_the_end_is_told_for_each() {
    let script = open(script(), 1, "a")
        .says(2, Event::Done)
        .says(1, failed(ErrorCode::Exists))
        .says(4, failed(ErrorCode::NotFound))
        .unheard();
    let outcome = channel(script).write_together(&[write("a", b"x")], &[gone()]).unwrap();
    assert!(!outcome.is_done());
    let BatchOutcome::Put { writes, moves } = outcome else { panic!("{outcome:?}") };
    assert_eq!(writes[0].as_ref().unwrap_err().code, ErrorCode::Exists);
    assert_eq!(moves[0].as_ref().unwrap_err().code, ErrorCode::NotFound);
}

#[test]
fn a_supervisor_that_breaks_the_order_is_not_believed() {
    for (event, expected) in [
        (Event::Done, "Violation(Unexpected { kind: 3 })"),
        (Event::Credit(0), "Violation(Credit)"),
        (Event::Credit(limits::WINDOW), "Violation(Credit)"),
        (Event::Written(Written { bytes: 1, created: true }), "Violation(Unexpected { kind: 33 })"),
    ] {
        let script = script().says(1, event).unheard();
        let error = channel(script).write_together(&[write("a", b"x")], &[]).unwrap_err();
        assert_eq!(format!("{error:?}"), expected);
    }
    let script = script().says(9, Event::Done).unheard();
    let error = channel(script).write_together(&[write("a", b"x")], &[]).unwrap_err();
    assert_eq!(format!("{error:?}"), "Violation(WrongChannel { expected: 1, found: 9 })");
}

fn open(script: Script, number: u32, name: &str) -> Script {
    let WriteOptions { mode, parents, permissions } = options();
    let place = place(name);
    script
        .hears(number, Request::WriteOpen(WriteOpen { place, mode, parents, permissions }))
        .hears(number, Request::WriteChunk(b"x"))
}

fn write<'a>(name: &str, contents: &'a [u8]) -> FileWrite<'a> {
    FileWrite { place: place(name), options: options(), contents }
}

fn gone() -> Move {
    Move { from: place("old"), to: place("aside") }
}

fn rename() -> Request<'static> {
    let Move { from, to } = gone();
    Request::Rename(Rename { from, to, existing: OnExisting::Refuse })
}

fn options() -> WriteOptions {
    WriteOptions { mode: WriteMode::Replace, parents: Parents::Make, permissions: 0o644 }
}

fn place(name: &str) -> Place {
    Place::Below { root: 0, path: name.into() }
}
