//! Who the gateway is, as it wrote it down itself, and whether that process still lives.

use std::fs::{self, OpenOptions};
use std::io::{self, Read as _};
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::Path;

use clawpen_os::process::{self, Pid};
use serde_json::{Value, json};

use super::place::Place;
use crate::approvals_file::now_ms;
use crate::state_file::{self, StateFileError};
use crate::{clock, process_identity};

const VERSION: u64 = 1;
const MOST: u64 = 64 * 1024;
/// Neither follow a link nor wait for a pipe.
const O_NOFOLLOW: i32 = 0o400_000;
const O_NONBLOCK: i32 = 0o4000;

/// What a gateway wrote down.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record {
    pub pid: u32,
    boot_id: String,
    start_time: u64,
    pub addresses: Vec<SocketAddr>,
    /// The version of the program.
    pub program: String,
    pub started_ms: u64,
}

/// A gateway that lives, with a handle that can mean no other process.
#[derive(Debug)]
pub struct Running {
    pub record: Record,
    pub(super) handle: OwnedFd,
}

/// The record cannot be read or written. It is as it was.
#[derive(Debug, thiserror::Error)]
pub enum RecordError {
    #[error(
        "`{path}` is {what}; it should be a file that clawpen wrote: see who put it there, then remove it"
    )]
    NotOurs { path: String, what: &'static str },
    #[error("`{path}` makes no sense; no gateway wrote it: remove it")]
    Nonsense { path: String },
    #[error("cannot {what} `{path}`")]
    Io {
        what: &'static str,
        path: String,
        #[source]
        cause: io::Error,
    },
    #[error(transparent)]
    File(#[from] StateFileError),
    #[error("cannot tell which processes run")]
    Processes(#[source] io::Error),
}

/// Whose record stands there now.
#[derive(Debug, PartialEq, Eq)]
pub enum Claim {
    Ours,
    /// Another gateway of this state directory lives and stays in the record.
    Another {
        pid: u32,
    },
}

/// Writes down that this process is the gateway and listens there.
pub fn claim(place: &Place, addresses: &[SocketAddr], program: &str) -> Result<Claim, RecordError> {
    let path = place.record();
    let _lock = state_file::lock(&path)?;
    let own = std::process::id();
    if let Some(other) = find(place)?.filter(|other| other.record.pid != own) {
        return Ok(Claim::Another { pid: other.record.pid });
    }
    let living = process_identity::look(own).map_err(RecordError::Processes)?;
    let living = living.ok_or_else(|| RecordError::Processes(io::ErrorKind::NotFound.into()))?;
    let addresses: Vec<String> = addresses.iter().map(ToString::to_string).collect();
    let record = json!({
        "version": VERSION,
        "pid": own,
        "bootId": clock::boot_id().map_err(RecordError::Processes)?,
        "startTime": living.start_time,
        "addresses": addresses,
        "program": program,
        "startedAtMs": now_ms(),
    });
    state_file::replace(&path, &format!("{record:#}\n"))?;
    Ok(Claim::Ours)
}

/// Takes our record away; another's stays.
pub fn release(place: &Place) -> Result<(), RecordError> {
    forget(place, std::process::id())
}

/// Takes the record of one process away.
pub(super) fn forget(place: &Place, pid: u32) -> Result<(), RecordError> {
    let path = place.record();
    let _lock = state_file::lock(&path)?;
    if read(&path)?.is_some_and(|record| record.pid == pid) {
        fs::remove_file(&path).map_err(failed("remove", &path))?;
    }
    Ok(())
}

/// The gateway that lives; `None` if none is recorded, or only one that has ended.
pub fn find(place: &Place) -> Result<Option<Running>, RecordError> {
    let Some(record) = read(&place.record())? else { return Ok(None) };
    if clock::boot_id().map_err(RecordError::Processes)? != record.boot_id {
        return Ok(None);
    }
    let Some(pid) = i32::try_from(record.pid).ok().and_then(Pid::new) else { return Ok(None) };
    let handle = match process::pidfd_open(pid) {
        Ok(handle) => handle,
        Err(error) if error.raw_os_error() == Some(libc::ESRCH) => return Ok(None),
        // A number that is a thread's by now: the process has ended.
        Err(error) if error.raw_os_error() == Some(libc::EINVAL) => return Ok(None),
        Err(error) => return Err(RecordError::Processes(error)),
    };
    // After the handle: what is looked at is what the handle means, or it has ended meanwhile.
    let living = process_identity::look(record.pid).map_err(RecordError::Processes)?;
    let is_it = living.is_some_and(|living| living.start_time == record.start_time);
    Ok(is_it.then_some(Running { record, handle }))
}

fn read(path: &Path) -> Result<Option<Record>, RecordError> {
    let not_ours = |what| RecordError::NotOurs { path: state_file::shown(path), what };
    let opened = OpenOptions::new().read(true).custom_flags(O_NOFOLLOW | O_NONBLOCK).open(path);
    let file = match opened {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) if error.raw_os_error() == Some(libc::ELOOP) => {
            return Err(not_ours("a symbolic link"));
        }
        Err(cause) => return Err(failed("open", path)(cause)),
    };
    let facts = file.metadata().map_err(failed("look at", path))?;
    if !facts.is_file() {
        return Err(not_ours("no regular file"));
    }
    if facts.uid() != rustix::process::geteuid().as_raw() {
        return Err(not_ours("another user's file"));
    }
    let mut text = Vec::new();
    file.take(MOST).read_to_end(&mut text).map_err(failed("read", path))?;
    let nonsense = || RecordError::Nonsense { path: state_file::shown(path) };
    let value = serde_json::from_slice::<Value>(&text).map_err(|_detail| nonsense())?;
    parse(&value).map(Some).ok_or_else(nonsense)
}

fn parse(value: &Value) -> Option<Record> {
    if value.get("version")?.as_u64()? != VERSION {
        return None;
    }
    let addresses = value.get("addresses")?.as_array()?.iter();
    let addresses = addresses.map(|address| address.as_str()?.parse().ok());
    Some(Record {
        pid: value.get("pid")?.as_u64()?.try_into().ok()?,
        boot_id: value.get("bootId")?.as_str()?.to_owned(),
        start_time: value.get("startTime")?.as_u64()?,
        addresses: addresses.collect::<Option<Vec<SocketAddr>>>()?,
        program: value.get("program")?.as_str()?.to_owned(),
        started_ms: value.get("startedAtMs")?.as_u64()?,
    })
}

fn failed(what: &'static str, path: &Path) -> impl FnOnce(io::Error) -> RecordError + use<> {
    let path = state_file::shown(path);
    move |cause| RecordError::Io { what, path, cause }
}
