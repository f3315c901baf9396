//! The frames as bytes: frozen, round, capped, in any pieces.

use std::fmt::Write as _;

use proptest::prelude::*;

use super::codec::{self, Cap, DecodeError, EncodeError, Wire};
use super::frame::{self, Inbox};
use super::sample::{Sample as _, SampleChoice, Source};
use super::*;
use crate::pen::{self, PenSpec};

/// Every kind of frame with its bytes, as released. Lines are added, never changed.
const GOLDEN: &str = include_str!("../../golden/supervisor-v1.txt");
const GOLDEN_FILE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/golden/supervisor-v1.txt");

#[test]
fn a_released_message_never_changes_its_bytes() {
    let current = golden_lines();
    if std::env::var_os("CLAWPEN_BLESS").is_some() {
        let known: Vec<&str> = GOLDEN.lines().collect();
        let mut text = GOLDEN.to_owned();
        for line in current.iter().filter(|line| !known.iter().any(|old| name(old) == name(line))) {
            writeln!(text, "{line}").unwrap();
        }
        std::fs::write(GOLDEN_FILE, text).unwrap();
        return;
    }
    // A kind's line stands where it was added, not in the order of the kinds.
    let sorted = |mut lines: Vec<String>| {
        lines.sort_unstable();
        lines
    };
    let frozen = GOLDEN.lines().map(str::to_owned).collect();
    assert_eq!(
        sorted(current),
        sorted(frozen),
        "a message that was released has changed; give the new shape a new kind, raise VERSION, \
         and run this test with CLAWPEN_BLESS=1 to add its line"
    );
}

/// `request 16 Exec#0`: what a line is about.
fn name(line: &str) -> &str {
    line.split_once(" = ").unwrap().0
}

/// Three samples of each message, as `direction kind Name#n = hex`.
fn golden_lines() -> Vec<String> {
    let mut lines = Vec::new();
    golden_of::<Request<'_>>("request", &mut lines);
    golden_of::<Event<'_>>("event", &mut lines);
    golden_parts(&mut lines);
    for number in 0..3 {
        let spec = PenSpec::sample(&mut Source::new(9_000 + number), Cap::NONE);
        lines.push(format!("pen spec#{number} = {}", hex(&spec.to_bytes().unwrap())));
    }
    lines
}

fn golden_of<'w, M: SampleChoice + frame::Message<'w>>(direction: &str, lines: &mut Vec<String>) {
    for (tag, name) in M::TAGS {
        for number in 0..3 {
            let seed = u64::from(*tag) * 10 + number;
            let message = M::sample_tag(*tag, &mut Source::new(seed));
            let mut out = Vec::new();
            frame::append(&mut out, u32::from(*tag), &message).unwrap();
            lines.push(format!("{direction} {tag} {name}#{number} = {}", hex(&out)));
        }
    }
}

/// Every choice inside a message: three samples of a message do not meet them all.
fn golden_parts(lines: &mut Vec<String>) {
    golden_part::<ErrorCode>(lines);
    golden_part::<EnvironmentBase>(lines);
    golden_part::<StdinMode>(lines);
    golden_part::<StderrMode>(lines);
    golden_part::<ExecOutput>(lines);
    golden_part::<Stream>(lines);
    golden_part::<End>(lines);
    golden_part::<Reach>(lines);
    golden_part::<ProcessState>(lines);
    golden_part::<Place>(lines);
    golden_part::<WriteMode>(lines);
    golden_part::<Parents>(lines);
    golden_part::<Links>(lines);
    golden_part::<FileKind>(lines);
    golden_part::<Listing>(lines);
    golden_part::<Depth>(lines);
    golden_part::<OnExisting>(lines);
    golden_part::<pen::IdWriter>(lines);
    golden_part::<pen::MountStep>(lines);
    golden_part::<pen::Submounts>(lines);
    golden_part::<pen::BindOwner>(lines);
    golden_part::<pen::Network>(lines);
    golden_part::<pen::CgroupVersion>(lines);
    golden_part::<pen::Lifetime>(lines);
    golden_part::<pen::LandlockAccess>(lines);
    golden_part::<pen::RootAccess>(lines);
}

fn golden_part<'w, T: SampleChoice + Wire<'w>>(lines: &mut Vec<String>) {
    let part = std::any::type_name::<T>().rsplit("::").next().unwrap();
    for (tag, name) in T::TAGS {
        let value = T::sample_tag(*tag, &mut Source::new(u64::from(*tag)));
        lines.push(format!("part {part} {tag} {name} = {}", hex(&bytes_of(&value))));
    }
}

#[test]
fn a_frame_is_length_channel_kind_and_body() {
    let output = Output { stream: Stream::Stderr, offset: 258, bytes: b"no\n" };
    check_bytes(
        7,
        &Event::Output(output),
        "15000000 07000000 11 02 0201000000000000 03000000 6e6f0a",
    );
    check_bytes(0, &Event::Done, "05000000 00000000 03");
    let hello = Request::Hello(Hello { oldest: 1, newest: 2 });
    check_bytes(0, &hello, "09000000 00000000 01 0100 0200");
    let place = Place::Below { root: 1, path: "a".into() };
    let stat = Request::Stat(Stat { place, links: Links::Report });
    check_bytes(9, &stat, "0e000000 09000000 26 01 0100 01000000 61 02");
}

#[track_caller]
fn check_bytes<'w, M: frame::Message<'w>>(channel: u32, message: &M, expected: &str) {
    let mut out = Vec::new();
    frame::append(&mut out, channel, message).unwrap();
    assert_eq!(hex(&out), expected.replace(' ', ""));
}

#[test]
fn what_is_no_message_is_an_error_with_its_reason() {
    check_event("", DecodeError::Truncated);
    check_event("ff", DecodeError::UnknownTag(0xff));
    check_event("00", DecodeError::UnknownTag(0));
    check_event("0300", DecodeError::LeftOver(1));
    check_event("05ff0000", DecodeError::Truncated);
    // Output: an unknown stream, a length beyond the cap, a length beyond the frame.
    check_event("1103", DecodeError::UnknownTag(3));
    let over = DecodeError::TooLong { length: limits::CHUNK + 1, cap: limits::CHUNK };
    check_event("110100000000000000000100040061", over);
    check_event("1101000000000000000002000000 61", DecodeError::Truncated);
    // Welcome: a build name that is no text, a yes that is neither.
    check_event("01 0100 01000000ff 01 0000000000000000", DecodeError::NoText);
    check_event("01 0100 00000000 02 0000000000000000", DecodeError::NoBool(2));
    // Entries: a name with a zero byte; a count whose elements are not there.
    check_event("23 01000000 01000000 00 01 00 00", DecodeError::ZeroByte);
    check_event("23 00040000 00", DecodeError::Truncated);
    let over = DecodeError::TooLong { length: limits::ENTRIES + 1, cap: limits::ENTRIES };
    check_event("23 01040000 00", over);
}

#[track_caller]
fn check_event(bytes: &str, expected: DecodeError) {
    assert_eq!(codec::decode::<Event<'_>>(&unhex(bytes)), Err(expected));
}

#[test]
fn what_the_peer_would_refuse_is_not_sent() {
    let long = vec![0; limits::CHUNK + 1];
    let too_long = EncodeError::TooLong { length: limits::CHUNK + 1, cap: limits::CHUNK };
    check_refused(&Request::Stdin(&long), too_long);
    let place = Place::InPen("/a\0b".into());
    check_refused(&Request::Hash(Hash { place }), EncodeError::ZeroByte);
    // Each argument fits; together they do not.
    let argv = vec!["x".repeat(limits::WORD).into(); 9];
    let mut source = Source::new(0);
    let Request::Exec(exec) = Request::sample_tag(16, &mut source) else { panic!("no exec") };
    let mut out = b"before".to_vec();
    let refused = frame::append(&mut out, 1, &Request::Exec(Exec { argv, ..exec }));
    assert!(matches!(refused, Err(EncodeError::TooLong { cap: limits::REQUEST_FRAME, .. })));
    assert_eq!(out, b"before");
}

#[track_caller]
fn check_refused(request: &Request<'_>, expected: EncodeError) {
    let mut out = Vec::new();
    assert_eq!(frame::append(&mut out, 1, request), Err(expected));
    assert_eq!(out, b"");
}

#[test]
fn the_largest_answers_fit_into_a_frame() {
    let mut source = Source::new(1);
    let metadata = Some(Metadata::sample(&mut source, Cap::NONE));
    let entry = Entry { name: "n".repeat(limits::NAME).into(), kind: FileKind::File, metadata };
    let entries = vec![entry; limits::ENTRIES];
    check_fits(&Event::Entries(Entries { entries, next: Some(1) }));

    let process = ProcessEntry {
        command: "c".repeat(256).into(),
        ..ProcessEntry::sample(&mut source, Cap::NONE)
    };
    let processes = vec![process; limits::PROCESSES + limits::FINISHED_PROCESSES];
    check_fits(&Event::ProcessList(ProcessList { processes }));

    let text = vec![b'x'; limits::KERNEL_TEXT];
    let namespace = NamespaceFact { name: "n".repeat(32), inode: 1 };
    let process = ProcessFacts {
        status: text.clone(),
        limits: text.clone(),
        cgroup: text,
        namespaces: vec![namespace; limits::NAMESPACES],
        descriptors: vec![0; limits::DESCRIPTORS],
        ..ProcessFacts::sample(&mut source, Cap::NONE)
    };
    let interface = Interface { name: "i".repeat(32), up: true, loopback: true };
    check_fits(&Event::FactsReport(Box::new(FactsReport {
        supervisor: process.clone(),
        workload: process,
        mountinfo: vec![b'm'; limits::MOUNT_TEXT],
        uid_map: vec![b'u'; limits::ID_MAP_TEXT],
        gid_map: vec![b'g'; limits::ID_MAP_TEXT],
        interfaces: vec![interface; limits::INTERFACES],
        ..FactsReport::sample(&mut source, Cap::NONE)
    })));
    check_fits(&Event::Data(&vec![0; limits::CHUNK]));
}

#[track_caller]
fn check_fits(event: &Event<'_>) {
    assert_eq!(frame::append(&mut Vec::new(), 1, event), Ok(()));
}

#[test]
fn a_length_that_no_frame_has_is_refused_before_room_is_made() {
    let over = u32::try_from(limits::EVENT_FRAME - 3).unwrap();
    let too_long = |length: usize| DecodeError::TooLong { length, cap: limits::EVENT_FRAME };
    check_length(over, Err(too_long(limits::EVENT_FRAME + 1)));
    check_length(u32::MAX, Err(too_long(u32::MAX as usize + 4)));
    check_length(over - 1, Ok(false));
    check_length(4, Err(DecodeError::Truncated));
    check_length(0, Err(DecodeError::Truncated));
    check_length(5, Ok(false));
}

#[track_caller]
fn check_length(length: u32, expected: Result<bool, DecodeError>) {
    let mut inbox = Inbox::of_events();
    inbox.room()[..4].copy_from_slice(&length.to_le_bytes());
    inbox.filled(4);
    assert_eq!(inbox.has_frame(), expected);
    assert!(inbox.room().len() <= limits::EVENT_FRAME);
}

#[test]
fn an_idle_inbox_gives_the_memory_of_a_long_frame_back() {
    let mut out = Vec::new();
    frame::append(&mut out, 1, &Event::Data(&vec![7; limits::CHUNK])).unwrap();
    let mut inbox = Inbox::of_events();
    let frames = feed(&mut inbox, &out, &[1000, 100_000, 300_000]);
    assert_eq!(frames, 1);
    inbox.settle();
    assert_eq!(inbox.room().len(), 16 * 1024);
}

/// Pushes `bytes` in pieces of at most these sizes, over and over; gives how many frames came.
fn feed(inbox: &mut Inbox, mut bytes: &[u8], sizes: &[usize]) -> usize {
    let mut frames = 0;
    for size in sizes.iter().cycle() {
        if bytes.is_empty() {
            break;
        }
        let room = inbox.room();
        let count = bytes.len().min(room.len()).min(*size);
        let (now, later) = bytes.split_at(count);
        room[..count].copy_from_slice(now);
        bytes = later;
        inbox.filled(count);
        while inbox.next_frame().unwrap().is_some() {
            frames += 1;
        }
    }
    frames
}

#[test]
fn a_pen_spec_of_another_version_is_refused() {
    let spec = PenSpec::sample(&mut Source::new(5), Cap::NONE);
    let bytes = spec.to_bytes().unwrap();
    assert_eq!(PenSpec::from_bytes(&bytes), Ok(spec));
    let wrong = Err(DecodeError::WrongSpec { expected: pen::SPEC_VERSION });
    for place in [0, 8] {
        let mut other = bytes.clone();
        other[place] ^= 0x40;
        assert_eq!(PenSpec::from_bytes(&other), wrong);
    }
    assert_eq!(PenSpec::from_bytes(&[]), Err(DecodeError::Truncated));
    let long = vec![0; limits::PEN_SPEC + 1];
    assert!(matches!(PenSpec::from_bytes(&long), Err(DecodeError::TooLong { .. })));
}

#[test]
fn a_variable_shows_its_name_and_never_its_value() {
    let variable = EnvVar { name: "TOKEN".into(), value: "hush".into() };
    assert_eq!(format!("{variable:?}"), "EnvVar { name: \"TOKEN\", .. }");
}

proptest! {
    #[test]
    fn every_message_comes_back_as_it_went(seed: u64) {
        for (tag, _) in Request::TAGS {
            let request = Request::sample_tag(*tag, &mut Source::new(seed));
            let bytes = bytes_of(&request);
            prop_assert_eq!(codec::decode::<Request<'_>>(&bytes), Ok(request));
        }
        for (tag, _) in Event::TAGS {
            let event = Event::sample_tag(*tag, &mut Source::new(seed));
            let bytes = bytes_of(&event);
            prop_assert_eq!(codec::decode::<Event<'_>>(&bytes), Ok(event));
        }
        let spec = PenSpec::sample(&mut Source::new(seed), Cap::NONE);
        prop_assert_eq!(PenSpec::from_bytes(&spec.to_bytes().unwrap()), Ok(spec));
    }

    /// There is one form of each value: what differs in bytes differs in meaning.
    #[test]
    fn damaged_bytes_are_refused_or_mean_just_what_they_say(
        seed: u64, at: prop::sample::Index, byte: u8, cut: prop::sample::Index,
    ) {
        let mut source = Source::new(seed);
        let mut request = bytes_of(&Request::sample(&mut source, Cap::NONE));
        let mut event = bytes_of(&Event::sample(&mut source, Cap::NONE));
        for bytes in [&mut request, &mut event] {
            let place = at.index(bytes.len());
            bytes[place] = byte;
        }
        same_or_refused::<Request<'_>>(&request);
        same_or_refused::<Event<'_>>(&event);
        same_or_refused::<Request<'_>>(&request[..cut.index(request.len())]);
        same_or_refused::<Event<'_>>(&event[..cut.index(event.len())]);
    }

    #[test]
    fn frames_come_out_whole_whatever_pieces_they_came_in(
        seeds in prop::collection::vec(any::<u64>(), 1..20),
        sizes in prop::collection::vec(1_usize..100, 1..20),
    ) {
        let mut out = Vec::new();
        for seed in &seeds {
            let event = Event::sample(&mut Source::new(*seed), Cap::NONE);
            frame::append(&mut out, 3, &event).unwrap();
        }
        prop_assert_eq!(feed(&mut Inbox::of_events(), &out, &sizes), seeds.len());
    }
}

fn bytes_of<'w, T: Wire<'w>>(value: &T) -> Vec<u8> {
    let mut out = Vec::new();
    value.put(&mut out, Cap::NONE).unwrap();
    out
}

#[track_caller]
fn same_or_refused<'w, T: Wire<'w>>(bytes: &'w [u8]) {
    if let Ok(value) = codec::decode::<T>(bytes) {
        assert_eq!(bytes_of(&value), bytes);
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        write!(text, "{byte:02x}").unwrap();
        text
    })
}

fn unhex(text: &str) -> Vec<u8> {
    let digits: String = text.split_whitespace().collect();
    let byte = |at: usize| u8::from_str_radix(&digits[at..at + 2], 16).unwrap();
    (0..digits.len()).step_by(2).map(byte).collect()
}
