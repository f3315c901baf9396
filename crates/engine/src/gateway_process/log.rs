//! What a gateway in the background prints: a file that only we write and read.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _, Seek as _, SeekFrom};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::Path;

use crate::state_file;

const O_NOFOLLOW: i32 = 0o400_000;
const O_NONBLOCK: i32 = 0o4000;
const OTHERS: u32 = 0o077;
/// A longer one is put aside before the next start.
const ROTATE: u64 = 8 * 1024 * 1024;

/// The file cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum LogError {
    #[error(
        "`{path}` is {what}; the gateway's output must not go there: see who put it there, then remove it"
    )]
    NotOurs { path: String, what: &'static str },
    #[error("cannot {what} `{path}`")]
    Io {
        what: &'static str,
        path: String,
        #[source]
        cause: io::Error,
    },
}

/// Opens it to be written at its end; made if needed. Gives its length too.
pub fn open_log(path: &Path) -> Result<(File, u64), LogError> {
    let (file, length) = open(path)?;
    if length < ROTATE {
        return Ok((file, length));
    }
    let mut older = path.as_os_str().to_owned();
    older.push(".1");
    fs::rename(path, &older).map_err(failed("put aside", path))?;
    open(path)
}

fn open(path: &Path) -> Result<(File, u64), LogError> {
    let not_ours = |what| LogError::NotOurs { path: state_file::shown(path), what };
    let opened = OpenOptions::new()
        .create(true)
        .append(true)
        .mode(0o600)
        .custom_flags(O_NOFOLLOW | O_NONBLOCK)
        .open(path);
    let file = match opened {
        Ok(file) => file,
        Err(error) if error.raw_os_error() == Some(libc::ELOOP) => {
            return Err(not_ours("a symbolic link"));
        }
        // Nobody reads at the other end.
        Err(error) if error.raw_os_error() == Some(libc::ENXIO) => return Err(not_ours("a pipe")),
        Err(cause) => return Err(failed("open", path)(cause)),
    };
    let facts = file.metadata().map_err(failed("look at", path))?;
    if !facts.is_file() {
        return Err(not_ours("no regular file"));
    }
    if facts.nlink() != 1 {
        return Err(not_ours("a file with another name elsewhere"));
    }
    if facts.uid() != rustix::process::geteuid().as_raw() {
        return Err(not_ours("another user's file"));
    }
    if facts.mode() & OTHERS != 0 {
        let narrow = fs::Permissions::from_mode(0o600);
        file.set_permissions(narrow).map_err(failed("keep others out of", path))?;
    }
    Ok((file, facts.len()))
}

/// What stands in a file from a place on, at most so many bytes of its end, and the place where that begins. Links are not
/// followed.
pub fn read_from(path: &Path, start: u64, most: u64) -> io::Result<(u64, Vec<u8>)> {
    let opened = OpenOptions::new().read(true).custom_flags(O_NOFOLLOW | O_NONBLOCK).open(path);
    let mut file = opened?;
    let facts = file.metadata()?;
    if !facts.is_file() {
        return Err(io::Error::other("it is no regular file"));
    }
    let from = start.max(facts.len().saturating_sub(most));
    file.seek(SeekFrom::Start(from))?;
    let mut bytes = Vec::new();
    file.take(most).read_to_end(&mut bytes)?;
    Ok((from, bytes))
}

fn failed(what: &'static str, path: &Path) -> impl FnOnce(io::Error) -> LogError + use<> {
    let path = state_file::shown(path);
    move |cause| LogError::Io { what, path, cause }
}
