//! Every file operation while a command of the pen swaps what its path leads to.
//!
//! The path stays below a root; by turns it leads to a directory in it and, by a link, out of it. An
//! operation may fail, and it may do its work inside. It must never tell or change what is outside.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use clawpen_engine::backend::Sandbox;
use clawpen_engine::channel::{Channel, WriteOptions};
use clawpen_wire::supervisor::{Depth, Links, Listing, OnExisting, Parents, Place, WriteMode};
use sha2::{Digest as _, Sha256};

use crate::{Pens, run as run_attack, start, tell};

/// Bounds of each operation: it ends with the first that is reached.
const ROUNDS: u32 = 400;
const TIME: Duration = Duration::from_secs(1);
const OUTSIDE: &str = "/tmp/outside";
const TEXT: &[u8] = b"outside";

/// Does it once; gives what of the outside it was told. A refusal tells nothing.
type Operation = fn(&mut Channel, u32) -> Option<&'static str>;

const OPERATIONS: &[(&str, Operation)] = &[
    ("read", read),
    ("write", |channel, round| write(channel, round, WriteMode::Replace)),
    ("append", |channel, round| write(channel, round, WriteMode::Append)),
    ("stat", stat),
    ("list", list),
    ("mkdir", mkdir),
    ("remove", remove),
    ("remove-tree", remove_tree),
    ("rename-from", rename_from),
    ("rename-to", rename_to),
    ("copy-from", copy_from),
    ("copy-to", copy_to),
    ("hash", hash),
];

pub(crate) fn run(pens: &Pens) -> Result<()> {
    for (name, operation) in OPERATIONS {
        let mut pen = pens.open("raced")?;
        match race(&mut pen, *operation) {
            Ok(rounds) => tell(name, "ok", &format!("{rounds} rounds")),
            Err(error) => tell(name, "failed", &format!("{error:#}")),
        }
        let race = Place::Below { root: 0, path: "race".into() };
        pen.channel()?.remove(race, Depth::Tree)?;
        pen.remove()?;
    }
    Ok(())
}

fn race(pen: &mut Sandbox, operation: Operation) -> Result<u32> {
    let racer = start(pen, &["race", "/workspace/race", OUTSIDE])?;
    let (_, before) = run_attack(pen, &["outside", OUTSIDE])?;
    ensure!(before == "file=outside only-outside=outside", "before: {before}");
    let deadline = Instant::now() + TIME;
    let mut rounds = 0;
    while rounds < ROUNDS && Instant::now() < deadline {
        let told = operation(pen.channel()?, rounds);
        ensure!(told.is_none(), "{told:?} in round {rounds}");
        rounds += 1;
    }
    pen.channel()?.kill(racer, 9, clawpen_wire::supervisor::Reach::Tree)?;
    let (_, after) = run_attack(pen, &["outside", OUTSIDE])?;
    ensure!(after == before, "outside is now: {after}");
    Ok(rounds)
}

/// By turns relative to the root and as a path of the pen.
fn at(round: u32, path: &str) -> Place {
    let path = format!("race/{path}");
    match round % 2 {
        0 => Place::Below { root: 0, path: path.into() },
        _ => Place::InPen(format!("/workspace/{path}").into()),
    }
}

/// The two paths whose meaning changes: through a directory, and by the last name.
fn target(round: u32) -> Place {
    let name = if (round / 2).is_multiple_of(2) { "place/file" } else { "name" };
    at(round, name)
}

fn read(channel: &mut Channel, round: u32) -> Option<&'static str> {
    let mut found = Vec::new();
    if channel.read(target(round), 0, 100, &mut found).is_ok() && found == TEXT {
        return Some("read what is outside");
    }
    None
}

fn write(channel: &mut Channel, round: u32, mode: WriteMode) -> Option<&'static str> {
    let options = WriteOptions { mode, parents: Parents::Make, ..WriteOptions::default() };
    drop(channel.write(target(round), options, &mut &b"written"[..]));
    None
}

fn stat(channel: &mut Channel, round: u32) -> Option<&'static str> {
    // Only outside there is a file of this name.
    let place = at(round, "place/only-outside");
    if channel.stat(place, Links::Follow).is_ok() {
        return Some("saw what is outside");
    }
    let links = if round.is_multiple_of(3) { Links::Report } else { Links::Follow };
    drop(channel.stat(target(round), links));
    None
}

fn list(channel: &mut Channel, round: u32) -> Option<&'static str> {
    if let Ok(listed) = channel.list(&at(round, "place"), Listing::Full, 100) {
        let told = listed.entries.iter().any(|entry| entry.name == "only-outside");
        return told.then_some("listed what is outside");
    }
    None
}

fn mkdir(channel: &mut Channel, round: u32) -> Option<&'static str> {
    let place = at(round, &format!("place/made/{}", round % 7));
    drop(channel.mkdir(place, 0o755, Parents::Make));
    None
}

fn remove(channel: &mut Channel, round: u32) -> Option<&'static str> {
    drop(channel.remove(at(round, "place/file"), Depth::One));
    drop(channel.remove(at(round, "place/only-outside"), Depth::Tree));
    None
}

/// The racer puts links to the outside into the tree that is being removed.
fn remove_tree(channel: &mut Channel, round: u32) -> Option<&'static str> {
    drop(channel.remove(at(round, "tree"), Depth::Tree));
    drop(channel.mkdir(at(round, "tree/a/b/c"), 0o755, Parents::Make));
    None
}

fn rename_from(channel: &mut Channel, round: u32) -> Option<&'static str> {
    let taken = at(round, "taken");
    drop(channel.rename(at(round, "place/only-outside"), taken.clone(), OnExisting::Replace));
    if channel.stat(taken, Links::Report).is_ok() {
        return Some("took what is outside");
    }
    None
}

fn rename_to(channel: &mut Channel, round: u32) -> Option<&'static str> {
    let options = WriteOptions::default();
    drop(channel.write(at(round, "mine"), options, &mut &b"mine"[..]));
    drop(channel.rename(at(round, "mine"), target(round), OnExisting::Replace));
    None
}

fn copy_from(channel: &mut Channel, round: u32) -> Option<&'static str> {
    let copied = || at(round, "copied");
    drop(channel.copy(target(round), copied(), Depth::One, OnExisting::Replace));
    let mut found = Vec::new();
    if channel.read(copied(), 0, 100, &mut found).is_ok() && found == TEXT {
        return Some("copied what is outside");
    }
    drop(channel.copy(at(round, "place"), at(round, "all"), Depth::Tree, OnExisting::Replace));
    let stolen = at(round, "all/only-outside");
    if channel.stat(stolen, Links::Report).is_ok() {
        return Some("copied the outside");
    }
    drop(channel.remove(at(round, "all"), Depth::Tree));
    None
}

fn copy_to(channel: &mut Channel, round: u32) -> Option<&'static str> {
    let options = WriteOptions::default();
    drop(channel.write(at(round, "mine"), options, &mut &b"mine"[..]));
    drop(channel.copy(at(round, "mine"), target(round), Depth::One, OnExisting::Replace));
    None
}

fn hash(channel: &mut Channel, round: u32) -> Option<&'static str> {
    let outside: [u8; 32] = Sha256::digest(TEXT).into();
    if let Ok(digest) = channel.hash(target(round)) {
        let found: &[u8] = digest.sha256.as_ref();
        if found == outside {
            return Some("hashed what is outside");
        }
    }
    None
}
