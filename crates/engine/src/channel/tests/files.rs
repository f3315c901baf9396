//! Files: pieces, windows, pages, and what is taken back.

use std::io::{self, Read as _};

use clawpen_wire::supervisor::{
    Copy, Depth, Digest, Entries, Entry, ErrorCode, Event, FileKind, Hash, Links, List, Listing,
    Metadata, Mkdir, OnExisting, Parents, Place, Read, Remove, Rename, Request, Stat, StatResult,
    WriteMode, WriteOpen, Written, limits,
};

use super::super::*;
use super::failed;
use super::script::{Script, channel, script};

const WINDOW: u32 = 1024 * 1024;
const PIECE: usize = 64 * 1024;

#[test]
fn a_read_ends_at_its_length_or_at_the_end_of_the_file() {
    let script = reading(5, 100)
        .says(1, Event::Data(b"some "))
        .says(1, Event::Data(b"bytes"))
        .says(1, Event::Done);
    let mut sink = Vec::new();
    assert_eq!(channel(script).read(place(), 5, 100, &mut sink).unwrap(), 10);
    assert_eq!(sink, b"some bytes");
}

#[test]
fn a_long_read_is_credited_as_it_is_taken() {
    let chunk = vec![1; limits::CHUNK];
    let credit = Request::Credit(WINDOW / 4);
    let script = reading(0, 1 << 40)
        .says(1, Event::Data(&chunk))
        .hears(1, credit.clone())
        .says(1, Event::Data(&chunk))
        .hears(1, credit)
        .says(1, Event::Done);
    let length = channel(script).read(place(), 0, 1 << 40, &mut io::sink()).unwrap();
    assert_eq!(length, 2 * limits::CHUNK as u64);
}

#[test]
fn a_sink_that_fails_stops_the_read_and_keeps_the_connection() {
    let script = reading(0, 100)
        .says(1, Event::Data(b"too long"))
        .hears(1, Request::ReadStop)
        .says(1, Event::Data(b"under way"))
        .says(1, Event::Done)
        .hears(2, Request::Ping)
        .says(2, Event::Done);
    let mut channel = channel(script);
    let mut room = [0; 3];
    let error = channel.read(place(), 0, 100, &mut &mut room[..]).unwrap_err();
    assert!(matches!(error, CallError::Local(_)), "{error:?}");
    channel.ping().unwrap();
}

#[test]
fn a_small_write_goes_out_in_one_piece() {
    let script = writing()
        .hears(1, Request::WriteChunk(b"contents"))
        .hears(1, Request::WriteCommit)
        .says(1, Event::Credit(8))
        .says(1, Event::Written(Written { bytes: 8, created: true }));
    let written = channel(script).write(place(), options(), &mut &b"contents"[..]).unwrap();
    assert_eq!(written, Written { bytes: 8, created: true });
}

#[test]
fn a_long_write_waits_for_credit() {
    let window = usize::try_from(limits::FIRST_INPUT_WINDOW).unwrap();
    let piece = vec![0; PIECE];
    let mut script = writing();
    for _ in 0..window / PIECE {
        script = script.hears(1, Request::WriteChunk(&piece));
    }
    let total = window as u64 + 7;
    let script = script
        .says(1, Event::Credit(5))
        .hears(1, Request::WriteChunk(&[0; 5]))
        .says(1, Event::Credit(9))
        .hears(1, Request::WriteChunk(&[0; 2]))
        .hears(1, Request::WriteCommit)
        .says(1, Event::Written(Written { bytes: total, created: false }));
    let mut source = io::repeat(0).take(total);
    let written = channel(script).write(place(), options(), &mut source).unwrap();
    assert_eq!(written.bytes, total);
}

#[test]
fn a_refused_write_does_not_send_the_rest() {
    let script = script().says(1, failed(ErrorCode::ReadOnly)).says(2, Event::Done).unheard();
    let mut channel = channel(script);
    let error = channel.write(place(), options(), &mut io::repeat(0)).unwrap_err();
    assert_eq!(error.failure().unwrap().code, ErrorCode::ReadOnly);
    channel.ping().unwrap();
}

#[test]
fn a_source_that_fails_takes_the_write_back() {
    struct Broken;
    impl io::Read for Broken {
        fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
            Err(io::ErrorKind::InvalidData.into())
        }
    }
    let script = writing()
        .hears(1, Request::WriteChunk(b"half"))
        .hears(1, Request::WriteAbort)
        .says(1, Event::Credit(4))
        .says(1, Event::Done);
    let mut source = (&b"half"[..]).chain(Broken);
    let error = channel(script).write(place(), options(), &mut source).unwrap_err();
    assert_eq!(format!("{error:?}"), "Local(Kind(InvalidData))");
}

#[test]
fn a_directory_is_listed_page_by_page_up_to_the_limit() {
    let page = |names: &[&str], next| {
        Event::Entries(Entries { entries: names.iter().map(|name| entry(name)).collect(), next })
    };
    let script = script()
        .hears(1, listing(0, 512))
        .says(1, page(&["a", "b"], Some(77)))
        .hears(2, listing(77, 512))
        .says(2, page(&["c"], None))
        .hears(3, listing(0, 2))
        .says(3, page(&["a", "b"], Some(77)));
    let mut channel = channel(script);
    let all = channel.list(&place(), Listing::Full, 1000).unwrap();
    assert_eq!(all, Listed { entries: ["a", "b", "c"].map(entry).to_vec(), more: false });
    let some = channel.list(&place(), Listing::Full, 2).unwrap();
    assert_eq!(some, Listed { entries: ["a", "b"].map(entry).to_vec(), more: true });
}

#[test]
fn the_other_calls_have_one_answer_each() {
    let to = Place::InPen("/b".into());
    let result = StatResult { metadata: metadata(), link: Some("x".into()) };
    let digest = Digest { sha256: [7; 32], size: 3 };
    let (from, existing, depth) = (place(), OnExisting::Refuse, Depth::Tree);
    let copy = Copy { from: from.clone(), to: to.clone(), depth, existing };
    let script = script()
        .hears(1, Request::Stat(Stat { place: place(), links: Links::Report }))
        .says(1, Event::StatResult(result.clone()))
        .hears(2, Request::Hash(Hash { place: place() }))
        .says(2, Event::Digest(digest))
        .hears(
            3,
            Request::Mkdir(Mkdir { place: place(), permissions: 0o700, parents: Parents::Make }),
        )
        .says(3, Event::Done)
        .hears(4, Request::Remove(Remove { place: place(), depth }))
        .says(4, Event::Done)
        .hears(5, Request::Rename(Rename { from: from.clone(), to: to.clone(), existing }))
        .says(5, Event::Done)
        .hears(6, Request::Copy(copy))
        .says(6, Event::Done);
    let mut channel = channel(script);
    assert_eq!(channel.stat(place(), Links::Report).unwrap(), result);
    assert_eq!(channel.hash(place()).unwrap(), digest);
    channel.mkdir(place(), 0o700, Parents::Make).unwrap();
    channel.remove(place(), depth).unwrap();
    channel.rename(from.clone(), to.clone(), existing).unwrap();
    channel.copy(from, to, depth, existing).unwrap();
}

fn place() -> Place {
    Place::Below { root: 0, path: "a".into() }
}

fn options() -> WriteOptions {
    WriteOptions::default()
}

fn reading(offset: u64, length: u64) -> Script {
    script().hears(1, Request::Read(Read { place: place(), offset, length, window: WINDOW }))
}

fn writing() -> Script {
    let mode = WriteMode::Replace;
    let parents = Parents::Required;
    script().hears(
        1,
        Request::WriteOpen(WriteOpen { place: place(), mode, parents, permissions: 0o644 }),
    )
}

fn listing(cursor: u64, limit: u32) -> Request<'static> {
    Request::List(List { place: place(), cursor, limit, listing: Listing::Full })
}

fn entry(name: &str) -> Entry {
    Entry { name: name.into(), kind: FileKind::File, metadata: Some(metadata()) }
}

fn metadata() -> Metadata {
    Metadata {
        kind: FileKind::File,
        permissions: 0o644,
        uid: 1,
        gid: 2,
        size: 3,
        modified_ns: 4,
        links: 1,
        inode: 5,
    }
}
