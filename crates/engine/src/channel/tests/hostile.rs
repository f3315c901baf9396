//! A supervisor that lies: each lie is named, breaks the connection, and costs little.

use std::io;

use clawpen_wire::supervisor::{
    Attached, End, Entries, Entry, ErrorCode, Event, FileKind, Listing, Metadata, Place, Started,
    StatResult, StdinMode, Written, limits,
};
use proptest::prelude::*;

use super::super::*;
use super::script::{Script, channel, script};
use super::{exited, failed, output, started};

#[test]
fn a_command_cannot_be_reported_out_of_order() {
    check_exec(&[output(0, b"x")], "Violation(Unexpected { kind: 17 })");
    check_exec(&[exited(End::Code(0))], "Violation(Unexpected { kind: 18 })");
    check_exec(&[started(), started()], "Violation(Unexpected { kind: 16 })");
    check_exec(&[started(), Event::Done], "Violation(Unexpected { kind: 3 })");
    check_exec(&[started(), Event::Data(b"x")], "Violation(Unexpected { kind: 32 })");
    let attached = Event::Attached(Attached { offset: 0 });
    check_exec(&[attached], "Violation(Unexpected { kind: 20 })");
}

#[test]
fn output_keeps_to_its_credit_and_place() {
    check_exec(&[started(), output(0, b"")], "Violation(Empty)");
    let offset = "Violation(Offset { expected: 2, found: 1 })";
    check_exec(&[started(), output(0, b"ab"), output(1, b"c")], offset);
    let offset = "Violation(Offset { expected: 0, found: 9 })";
    check_exec(&[started(), output(9, b"c")], offset);
}

#[test]
fn ends_and_credits_are_in_range() {
    check_exec(&[started(), exited(End::Code(256))], "Violation(Range)");
    check_exec(&[started(), exited(End::Code(-1))], "Violation(Range)");
    check_exec(&[started(), exited(End::Signal(0))], "Violation(Range)");
    check_exec(&[started(), exited(End::Signal(65))], "Violation(Range)");
    check_exec(&[started(), Event::Credit(0)], "Violation(Credit)");
    let script = script().says(1, started()).says(1, Event::Credit(limits::WINDOW + 1)).unheard();
    let command = Command { stdin: StdinMode::Pipe, ..Command::new(["cat"]) };
    let result = channel(script).exec(&command, &mut Endless);
    assert_eq!(format!("{:?}", result.unwrap_err()), "Violation(Credit)");
}

#[test]
fn no_more_comes_than_was_credited() {
    // The caller takes nothing for good, because the first piece ends it; the rest must fit into
    // what had been granted by then.
    let chunk = vec![0; limits::CHUNK];
    let mut script = script().says(1, Event::Data(&chunk));
    for _ in 0..4 {
        script = script.says(1, Event::Data(&chunk));
    }
    let script = script.unheard();
    let result = channel(script).read(place(), 0, u64::MAX, &mut &mut [0; 1][..]);
    assert_eq!(format!("{:?}", result.unwrap_err()), "Violation(OverCredit)");
}

#[test]
fn a_frame_that_is_no_frame_breaks_the_connection() {
    let malformed = |what: &str| format!("Violation(Malformed({what}))");
    check_bytes(&[0xff; 16], &malformed("TooLong { length: 4294967299, cap: 327680 }"));
    check_bytes(&[4, 0, 0, 0, 1, 0, 0, 0], &malformed("Truncated"));
    check_bytes(&[5, 0, 0, 0, 1, 0, 0, 0, 200], &malformed("UnknownTag(200)"));
    check_bytes(&[6, 0, 0, 0, 1, 0, 0, 0, 3, 0], &malformed("LeftOver(1)"));
    check_bytes(&[6, 0, 0, 0, 1, 0, 0, 0, 5, 0], &malformed("Truncated"));
    let wrong = "Violation(WrongChannel { expected: 1, found: 9 })";
    check_bytes(&[5, 0, 0, 0, 9, 0, 0, 0, 3], wrong);
    check_bytes(&[5, 0, 0, 0, 0, 0, 0, 0, 3], "Violation(WrongChannel { expected: 1, found: 0 })");
    // Breaks off in a frame.
    check_bytes(&[5, 0, 0, 0, 1], "Closed");
    check_bytes(&[], "Closed");
}

#[test]
fn a_supervisor_that_gives_up_is_heard() {
    let script = script().says(0, failed(ErrorCode::Protocol)).unheard();
    let error = channel(script).ping().unwrap_err();
    let ended = "Ended(Failure { code: Protocol, errno: 0, message: \"no\" })";
    assert_eq!(format!("{error:?}"), ended);
}

#[test]
fn a_listing_holds_names_and_comes_to_an_end() {
    check_list(&[""], None, "Violation(Name)");
    check_list(&["."], None, "Violation(Name)");
    check_list(&[".."], None, "Violation(Name)");
    check_list(&["../../etc"], None, "Violation(Name)");
    check_list(&["/etc"], None, "Violation(Name)");
    check_list(&[], Some(1), "Violation(Empty)");
    check_list(&["a", "b", "c"], None, "Violation(OverCredit)");
}

#[track_caller]
fn check_list(names: &[&str], next: Option<u64>, expected: &str) {
    let entry = |name: &&str| Entry { name: name.into(), kind: FileKind::File, metadata: None };
    let entries = names.iter().map(entry).collect();
    let script = script().says(1, Event::Entries(Entries { entries, next })).unheard();
    let result = channel(script).list(&place(), Listing::Names, 2);
    assert_eq!(format!("{:?}", result.unwrap_err()), expected);
}

#[test]
fn answers_about_files_add_up() {
    let written = Event::Written(Written { bytes: 4, created: true });
    let mut writes = channel(script().says(1, written).unheard());
    let result = writes.write(place(), WriteOptions::default(), &mut &b"abc"[..]);
    assert_eq!(format!("{:?}", result.unwrap_err()), "Violation(Range)");

    let mut reads = channel(script().says(1, Event::Data(b"abcd")).unheard());
    let result = reads.read(place(), 0, 3, &mut io::sink());
    assert_eq!(format!("{:?}", result.unwrap_err()), "Violation(OverCredit)");

    let metadata = Metadata {
        kind: FileKind::File,
        permissions: 0o10000,
        uid: 0,
        gid: 0,
        size: 0,
        modified_ns: 0,
        links: 0,
        inode: 0,
    };
    let result = Event::StatResult(StatResult { metadata, link: None });
    let mut stats = channel(script().says(1, result).unheard());
    let result = stats.stat(place(), clawpen_wire::supervisor::Links::Follow);
    assert_eq!(format!("{:?}", result.unwrap_err()), "Violation(Range)");
}

#[track_caller]
fn check_exec(events: &[Event<'_>], expected: &str) {
    let mut script = script();
    for event in events {
        script = script.says(1, event.clone());
    }
    check_breaks(script, expected, |channel| {
        channel.exec(&Command::new(["true"]), &mut Captured::new(0)).map(|_| ())
    });
}

#[track_caller]
fn check_bytes(bytes: &[u8], expected: &str) {
    let script = if bytes.is_empty() { script() } else { script().says_bytes(bytes) };
    check_breaks(script.closes(), expected, Channel::ping);
}

#[track_caller]
fn check_breaks(
    script: Script,
    expected: &str,
    call: impl FnOnce(&mut Channel) -> Result<(), CallError>,
) {
    let mut channel = channel(script.unheard());
    assert_eq!(format!("{:?}", call(&mut channel).unwrap_err()), expected);
    assert!(channel.is_broken());
    assert_eq!(format!("{:?}", channel.ping().unwrap_err()), "Broken");
}

fn place() -> Place {
    Place::Below { root: 0, path: "a".into() }
}

/// A caller whose input never ends.
struct Endless;

impl ExecIo for Endless {
    fn output(&mut self, _: clawpen_wire::supervisor::Stream, _: &[u8]) -> io::Result<()> {
        Ok(())
    }

    fn input(&self) -> Input<'_> {
        Input::Ready
    }

    fn read_input(&mut self, room: &mut [u8]) -> io::Result<usize> {
        Ok(room.len())
    }
}

proptest! {
    /// Whatever comes, in whatever order: every call comes to an end, and nothing panics.
    #[test]
    fn any_sequence_of_events_ends_every_call(picks in prop::collection::vec(0_usize..12, 0..12)) {
        let events = [
            started(), output(0, b"x"), output(1, b"y"), exited(End::Code(0)), Event::Done,
            Event::Credit(1), Event::Credit(u32::MAX), failed(ErrorCode::Io), Event::Data(b"z"),
            Event::Attached(Attached { offset: 1 }), Event::Started(Started { process: 0, pid: 0 }),
            Event::Written(Written { bytes: 0, created: false }),
        ];
        for call in 0..4 {
            let script = picks.iter().fold(script(), |script, pick| script.says(1, events[*pick].clone()));
            let mut channel = channel(script.closes().unheard());
            let command = Command { stdin: StdinMode::Pipe, ..Command::new(["true"]) };
            let result = match call {
                0 => channel.exec(&command, &mut Captured::new(9)).map(|_| ()),
                1 => channel.attach(1, 0, StdinMode::Pipe, &mut Endless).map(|_| ()),
                2 => channel.read(place(), 0, 9, &mut io::sink()).map(|_| ()),
                _ => channel.write(place(), WriteOptions::default(), &mut io::empty()).map(|_| ()),
            };
            prop_assert_eq!(channel.is_broken(), result.is_err_and(|error| !matches!(error, CallError::Failed(_))));
        }
    }
}
