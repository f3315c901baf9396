//! Small files of the user's state: read whole, changed under a lock, replaced in one step.
//!
//! A new text is written beside the old one with mode 0600, put on disk and renamed, so a crash leaves
//! the one or the other. The lock stands beside the file under a name of our own: the reference's locks
//! are files whose mere existence means "taken".

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::file_lock::{self, Hold, NotLocked};
use crate::random;

/// How long a change waits for another process to finish its own.
const LOCK_WAIT: Duration = Duration::from_secs(5);
/// A pipe in its place does not hold us up.
const O_NONBLOCK: i32 = 0o4000;

/// A file that could not be read or replaced. It is as it was.
#[derive(Debug, thiserror::Error)]
pub enum StateFileError {
    #[error("cannot {what} `{path}`: {cause}")]
    Io {
        what: &'static str,
        path: String,
        #[source]
        cause: io::Error,
    },
    #[error("`{path}` is no regular file")]
    NotAFile { path: String },
    #[error("`{path}` is larger than {most} bytes")]
    TooLarge { path: String, most: u64 },
    #[error("`{path}` is not valid: {why}; mend it or move it away")]
    Broken { path: String, why: String },
    #[error("another process holds `{path}`; try again")]
    Locked { path: String },
}

/// A file's text; `None` if there is none.
pub fn read(path: &Path, most: u64) -> Result<Option<String>, StateFileError> {
    let file = OpenOptions::new().read(true).custom_flags(O_NONBLOCK).open(path);
    let file = match file {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(failed("open", path)(error)),
    };
    let facts = file.metadata().map_err(failed("look at", path))?;
    if !facts.is_file() {
        return Err(StateFileError::NotAFile { path: shown(path) });
    }
    let mut bytes = Vec::new();
    file.take(most + 1).read_to_end(&mut bytes).map_err(failed("read", path))?;
    if bytes.len() as u64 > most {
        return Err(StateFileError::TooLarge { path: shown(path), most });
    }
    let text = String::from_utf8(bytes);
    let text = text.map_err(|error| {
        let why = format!("no UTF-8 at byte {}", error.utf8_error().valid_up_to());
        StateFileError::Broken { path: shown(path), why }
    });
    text.map(Some)
}

/// Takes the lock beside a file, whose directory is made if needed. It goes with the handle.
pub fn lock(path: &Path) -> Result<File, StateFileError> {
    lock_within(path, LOCK_WAIT)
}

/// The same, for work that takes its time.
pub fn lock_within(path: &Path, wait: Duration) -> Result<File, StateFileError> {
    let directory = path.parent().unwrap_or(Path::new("/"));
    DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(directory)
        .map_err(failed("create", directory))?;
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(".clawpen-lock");
    let path = path.with_file_name(name);
    file_lock::within(&path, Hold::Alone, wait).map_err(|error| match error {
        NotLocked::Open(cause) => failed("open", &path)(cause),
        NotLocked::Lock(cause) => failed("lock", &path)(cause),
        NotLocked::Busy => StateFileError::Locked { path: shown(&path) },
    })
}

/// Replaces a file in one step. Only whoever holds its [`lock`] should.
pub fn replace(path: &Path, text: &str) -> Result<(), StateFileError> {
    let staged = stage(path, text)?;
    if let Err(cause) = fs::rename(&staged, path) {
        // A left-over file is untidy and harmless: nobody reads it.
        let _ = fs::remove_file(&staged);
        return Err(failed("replace", path)(cause));
    }
    // The rename itself must survive a power cut.
    let directory = path.parent().unwrap_or(Path::new("/"));
    let synced = File::open(directory).and_then(|directory| directory.sync_all());
    synced.map_err(failed("sync", directory))
}

/// Whether a file was made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Created {
    Yes,
    /// Something stands there, and was left alone.
    Exists,
}

/// Makes a file in one step, unless something has its name: a file, a link, whatever it is.
pub fn create(path: &Path, text: &str) -> Result<Created, StateFileError> {
    let staged = stage(path, text)?;
    let made = match fs::hard_link(&staged, path) {
        // Some file systems have no second names, but can rename without replacing.
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => move_to_free(&staged, path),
        linked => linked,
    };
    // A left-over file is untidy and harmless: nobody reads it.
    let _ = fs::remove_file(&staged);
    match made {
        Ok(()) => Ok(Created::Yes),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(Created::Exists),
        Err(cause) => Err(failed("create", path)(cause)),
    }
}

fn move_to_free(from: &Path, to: &Path) -> io::Result<()> {
    use rustix::fs::{CWD, RenameFlags, renameat_with};
    Ok(renameat_with(CWD, from, CWD, to, RenameFlags::NOREPLACE)?)
}

fn stage(path: &Path, text: &str) -> Result<PathBuf, StateFileError> {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(format!(".{}", random::short_id()));
    let staged = path.with_file_name(name);
    let write = || {
        let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&staged)?;
        file.write_all(text.as_bytes())?;
        file.sync_all()
    };
    if let Err(cause) = write() {
        let _ = fs::remove_file(&staged);
        return Err(failed("write", &staged)(cause));
    }
    Ok(staged)
}

pub(crate) fn failed(
    what: &'static str,
    path: &Path,
) -> impl FnOnce(io::Error) -> StateFileError + use<> {
    let path = shown(path);
    move |cause| StateFileError::Io { what, path, cause }
}

pub(crate) fn shown(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}

/// A JSON object in a file of ours; an absent file is an empty one.
pub(crate) fn read_object(
    path: &Path,
    most: u64,
) -> Result<serde_json::Map<String, serde_json::Value>, StateFileError> {
    let Some(text) = read(path, most)? else { return Ok(serde_json::Map::new()) };
    let broken = |why: String| StateFileError::Broken { path: shown(path), why };
    match serde_json::from_str(&text) {
        Ok(serde_json::Value::Object(object)) => Ok(object),
        Ok(_) => Err(broken("it holds no object".to_owned())),
        Err(error) => Err(broken(error.to_string())),
    }
}

/// The text of a JSON object as the reference writes it: two blanks and a line end.
pub(crate) fn object_text(object: &serde_json::Map<String, serde_json::Value>) -> String {
    let text = serde_json::to_string_pretty(object);
    // A map of text and plain values always has a JSON form.
    text.unwrap_or_default() + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::MetadataExt as _;

    #[test]
    fn a_file_is_replaced_in_one_step_and_is_for_its_owner_only() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("deep/state.json");
        assert_eq!(read(&path, 10).unwrap(), None);
        let _lock = lock(&path).unwrap();
        replace(&path, "{}").unwrap();
        assert_eq!(read(&path, 10).unwrap().as_deref(), Some("{}"));
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o600);
        let left = fs::read_dir(path.parent().unwrap()).unwrap().count();
        assert_eq!(left, 2, "the file and its lock");
    }

    #[test]
    fn a_file_is_made_once_and_nothing_that_stands_there_is_touched() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("new.json");
        assert_eq!(create(&path, "{}").unwrap(), Created::Yes);
        assert_eq!(create(&path, "{a: 1}").unwrap(), Created::Exists);
        assert_eq!(fs::read_to_string(&path).unwrap(), "{}");
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o600);
        let link = home.path().join("link.json");
        std::os::unix::fs::symlink(home.path().join("victim"), &link).unwrap();
        assert_eq!(create(&link, "{}").unwrap(), Created::Exists);
        assert!(!home.path().join("victim").exists());
        // The way of file systems without second names.
        let (from, to) = (home.path().join("from"), home.path().join("to"));
        fs::write(&from, "new").unwrap();
        move_to_free(&from, &to).unwrap();
        fs::write(&from, "newer").unwrap();
        let taken = [&to, &link].map(|to| move_to_free(&from, to).unwrap_err().kind());
        assert_eq!(taken, [io::ErrorKind::AlreadyExists; 2]);
        assert_eq!(fs::read_to_string(&to).unwrap(), "new");
    }

    #[test]
    fn a_file_that_is_too_large_or_no_file_is_an_error() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("state.json");
        fs::write(&path, "12345").unwrap();
        assert!(matches!(read(&path, 4), Err(StateFileError::TooLarge { .. })));
        assert!(matches!(read(home.path(), 4), Err(StateFileError::NotAFile { .. })));
        assert!(matches!(read_object(&path, 9), Err(StateFileError::Broken { .. })));
    }
}
