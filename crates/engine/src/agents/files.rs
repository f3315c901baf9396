//! The few files of a workspace that clients may read and write.
//!
//! The agent owns the workspace, so a name may be a link to somewhere else by the time we look. The
//! last step is never followed, and what is no plain file with a single name is refused.

use std::fs::{self, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::fd::AsFd as _;
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::Path;
use std::time::UNIX_EPOCH;

use clawpen_os::beneath::{self, Kind, Open, Root};
use clawpen_rules::agents::FILES;

use crate::random;
use crate::state_file::{StateFileError, failed};

/// A larger file is not shown.
const MAX_BYTES: u64 = 2 * 1024 * 1024;
const O_NOFOLLOW: i32 = 0o400_000;
const O_NONBLOCK: i32 = 0o4000;

/// A file as it stands now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found {
    pub size: u64,
    pub updated_at_ms: u64,
    pub content: String,
}

/// A file that must not be touched, or could not be.
#[derive(Debug, thiserror::Error)]
pub enum FileError {
    #[error("unsafe workspace file \"{name}\" ({why})")]
    Unsafe { name: String, why: &'static str },
    #[error(transparent)]
    File(#[from] StateFileError),
}

/// Reads a file; `None` if there is none.
pub fn read(workspace: &Path, name: &str) -> Result<Option<Found>, FileError> {
    let path = workspace.join(name);
    let refuse = |why| FileError::Unsafe { name: name.to_owned(), why };
    let opened = OpenOptions::new().read(true).custom_flags(O_NOFOLLOW | O_NONBLOCK).open(&path);
    let file = match opened {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(_) if fs::symlink_metadata(&path).is_ok_and(|facts| facts.is_symlink()) => {
            return Err(refuse("it is a link"));
        }
        Err(error) => return Err(failed("open", &path)(error).into()),
    };
    let facts = file.metadata().map_err(failed("look at", &path))?;
    if !facts.is_file() {
        return Err(refuse("it is no regular file"));
    }
    if facts.nlink() > 1 {
        return Err(refuse("it has other names"));
    }
    let mut bytes = Vec::new();
    file.take(MAX_BYTES + 1).read_to_end(&mut bytes).map_err(failed("read", &path))?;
    if bytes.len() as u64 > MAX_BYTES {
        return Err(refuse("it is too large"));
    }
    let since = facts.modified().ok().and_then(|time| time.duration_since(UNIX_EPOCH).ok());
    let updated_at_ms = since.map_or(0, |time| u64::try_from(time.as_millis()).unwrap_or(0));
    let content = String::from_utf8_lossy(&bytes).into_owned();
    Ok(Some(Found { size: facts.len(), updated_at_ms, content }))
}

/// What a picture may be, by the end of its name. Nothing that a browser would run.
const PICTURES: &[(&str, &str)] = &[
    ("png", "image/png"),
    ("jpg", "image/jpeg"),
    ("jpeg", "image/jpeg"),
    ("gif", "image/gif"),
    ("webp", "image/webp"),
];

/// A picture somewhere in the workspace, with its kind; `None` for whatever is none. No link is followed on the way.
pub fn picture(workspace: &Path, path: &str) -> Option<(&'static str, Vec<u8>)> {
    let (_, end) = path.rsplit_once('.')?;
    let (_, kind) = PICTURES.iter().find(|(known, _)| end.eq_ignore_ascii_case(known))?;
    // It would be taken for one below the workspace.
    if Path::new(path).is_absolute() {
        return None;
    }
    let root = beneath::open_root(workspace).ok()?;
    let root = Root::without_links(root.as_fd());
    let file = beneath::open(root, Path::new(path), Open::Read).ok()?;
    let facts = beneath::stat(file.as_fd()).ok()?;
    if facts.kind != Kind::File || facts.links > 1 || facts.size > MAX_BYTES {
        return None;
    }
    let mut bytes = Vec::new();
    fs::File::from(file).take(MAX_BYTES).read_to_end(&mut bytes).ok()?;
    Some((kind, bytes))
}

/// Replaces a file, or makes it.
pub fn write(workspace: &Path, name: &str, content: &str) -> Result<(), FileError> {
    // Whatever is odd about the old one is said before anything is written.
    read(workspace, name)?;
    let path = workspace.join(name);
    let mode =
        fs::symlink_metadata(&path).map_or(0o644, |facts| facts.permissions().mode() & 0o777);
    let staged = workspace.join(format!(".{name}.{}", random::short_id()));
    let write = || {
        let mut file = OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(mode)
            .custom_flags(O_NOFOLLOW)
            .open(&staged)?;
        file.write_all(content.as_bytes())?;
        // A rename replaces a link instead of following it.
        fs::rename(&staged, &path)
    };
    write().map_err(|error| {
        let _ = fs::remove_file(&staged);
        failed("write", &path)(error).into()
    })
}

/// Adds lines to the end of a file.
pub(super) fn append(workspace: &Path, name: &str, lines: &str) -> Result<(), StateFileError> {
    let old = read(workspace, name);
    let unsafe_file = |why: String| StateFileError::Broken {
        path: workspace.join(name).to_string_lossy().into_owned(),
        why,
    };
    let old = match old {
        Ok(old) => old.map(|found| found.content).unwrap_or_default(),
        Err(FileError::File(error)) => return Err(error),
        Err(refused @ FileError::Unsafe { .. }) => return Err(unsafe_file(refused.to_string())),
    };
    match write(workspace, name, &(old + lines)) {
        Ok(()) => Ok(()),
        Err(FileError::File(error)) => Err(error),
        Err(refused @ FileError::Unsafe { .. }) => Err(unsafe_file(refused.to_string())),
    }
}

/// The files to list: all that every workspace has, the first day's until that day is over, and the
/// memory under the name it has.
pub fn names(workspace: &Path) -> Vec<&'static str> {
    let is_there = |name: &str| fs::symlink_metadata(workspace.join(name)).is_ok();
    let has_small = is_there("memory.md") && !is_there("MEMORY.md");
    let shown = FILES.iter().copied().filter(|name| match *name {
        "BOOTSTRAP.md" => is_there(name) || !is_set_up(workspace),
        "MEMORY.md" => !has_small,
        "memory.md" => has_small,
        _ => true,
    });
    shown.collect()
}

/// Says whether the first day is over: the workspace says so, or its file of that day was there and is gone.
fn is_set_up(workspace: &Path) -> bool {
    let read = || {
        let root = beneath::open_root(workspace).ok()?;
        let root = Root::without_links(root.as_fd());
        let path = Path::new(".openclaw/workspace-state.json");
        let file = beneath::open(root, path, Open::Read).ok()?;
        serde_json::from_reader::<_, serde_json::Value>(fs::File::from(file).take(MAX_BYTES)).ok()
    };
    let state = read().unwrap_or_default();
    state["setupCompletedAt"].is_string() || state["bootstrapSeededAt"].is_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_outside_the_workspace_is_read_or_written() {
        let home = tempfile::tempdir().unwrap();
        let (secret, workspace) = (home.path().join("secret"), home.path().join("w"));
        fs::write(&secret, "key").unwrap();
        fs::create_dir(&workspace).unwrap();
        std::os::unix::fs::symlink(&secret, workspace.join("SOUL.md")).unwrap();
        fs::hard_link(&secret, workspace.join("USER.md")).unwrap();
        fs::create_dir(workspace.join("TOOLS.md")).unwrap();
        for (name, why) in [
            ("SOUL.md", "it is a link"),
            ("USER.md", "it has other names"),
            ("TOOLS.md", "it is no regular file"),
        ] {
            for result in [read(&workspace, name).map(|_| ()), write(&workspace, name, "x")] {
                let said = result.unwrap_err().to_string();
                assert_eq!(said, format!("unsafe workspace file \"{name}\" ({why})"));
            }
        }
        assert_eq!(fs::read_to_string(&secret).unwrap(), "key");
    }

    #[test]
    fn a_file_is_written_and_read_back() {
        let home = tempfile::tempdir().unwrap();
        assert_eq!(read(home.path(), "SOUL.md").unwrap(), None);
        write(home.path(), "SOUL.md", "hello").unwrap();
        append(home.path(), "SOUL.md", " you").unwrap();
        assert_eq!(read(home.path(), "SOUL.md").unwrap().unwrap().content, "hello you");
        assert_eq!(names(home.path()).last(), Some(&"MEMORY.md"));
        write(home.path(), "memory.md", "").unwrap();
        assert_eq!(names(home.path()).last(), Some(&"memory.md"));
    }
}
