//! Reads and writes the approvals file of this machine.
//!
//! What it says is for `rules::approval::file`; this looks it up and keeps it whole. A file that
//! cannot be parsed, is of another version, or could have been written by somebody else is an error
//! and stays as it is: whoever asked must refuse. Every change is made under a lock, to a new file
//! with mode 0600 that takes the old one's place when it is safely on disk.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use clawpen_rules::approval::file::{
    ApprovalsFile, Change, FileHash, FileProblem, FileRefused, SetRefusal, check_base,
};

use crate::file_lock::{self, Hold, NotLocked};
use crate::random;

/// A larger file is refused: ten thousand entries are a tenth of this.
const MAX_BYTES: u64 = 8 * 1024 * 1024;
/// How long a change waits for another process to finish its own.
const LOCK_WAIT: Duration = Duration::from_secs(5);
/// How often a change starts anew because a program that takes no lock wrote in between.
const ATTEMPTS: u32 = 3;

/// Neither follow a link nor wait for a pipe.
const O_NOFOLLOW: i32 = 0o400_000;
const O_NONBLOCK: i32 = 0o4000;
/// Write permission for group and others.
const OTHERS_MAY_WRITE: u32 = 0o022;

/// The approvals file of one home.
#[derive(Debug, Clone)]
pub struct ApprovalsStore {
    path: PathBuf,
}

/// What stands in the file now.
#[derive(Debug, Clone)]
pub struct Snapshot {
    pub path: String,
    pub exists: bool,
    /// Of the exact text; of the empty one if there is no file.
    pub hash: FileHash,
    pub file: ApprovalsFile,
}

/// A change that was not made. The file is as it was.
#[derive(Debug, thiserror::Error)]
pub enum ChangeError {
    #[error("the approvals file is left as it is")]
    Refused(#[source] FileRefused),
    #[error("the new content is no approvals file")]
    NewContent(#[source] FileProblem),
    #[error(transparent)]
    Stale(SetRefusal),
    #[error("another process holds `{path}`; try again")]
    Locked { path: String },
    #[error("cannot {what} `{path}`")]
    Io {
        what: &'static str,
        path: String,
        #[source]
        cause: io::Error,
    },
}

impl ApprovalsStore {
    /// The file below this home, whatever the state directory is: that is where the reference looks.
    pub fn of_home(home: &str) -> Self {
        Self { path: Path::new(home).join(".openclaw").join("exec-approvals.json") }
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The socket that a file without one means.
    pub fn default_socket(&self) -> String {
        shown(&self.path.with_file_name("exec-approvals.sock"))
    }

    /// Reads the file. An absent one says nothing; one that cannot be trusted is an error.
    pub fn read(&self) -> Result<Snapshot, FileRefused> {
        let path = shown(&self.path);
        let untrusted = |why: String| FileRefused::Untrusted { path: path.clone(), why };
        let text = read_text(&self.path).map_err(untrusted)?;
        let file = match &text {
            None => ApprovalsFile::empty(),
            Some(text) => ApprovalsFile::parse(text, &mut random::uuid)
                .map_err(|problem| FileRefused::Problem { path: path.clone(), problem })?,
        };
        let hash = FileHash::of(text.as_deref().unwrap_or_default());
        Ok(Snapshot { path, exists: text.is_some(), hash, file })
    }

    /// Makes sure that the file exists and has a socket path and a token.
    pub fn ensure(&self) -> Result<Snapshot, ChangeError> {
        let socket = self.default_socket();
        self.change(|current| {
            let mut file = current.file.clone();
            let change = file.fill_socket(&socket, &token()?);
            Ok((change == Change::Changed || !current.exists).then_some(file))
        })
    }

    /// Replaces the file with `text`, if `base_hash` is the hash of what stands there now.
    pub fn set(&self, text: &str, base_hash: Option<&str>) -> Result<Snapshot, ChangeError> {
        let new = ApprovalsFile::parse(text, &mut random::uuid).map_err(ChangeError::NewContent)?;
        let socket = self.default_socket();
        self.change(|current| {
            let hash = current.exists.then_some(&current.hash);
            check_base(hash, base_hash).map_err(ChangeError::Stale)?;
            let mut file = new.clone();
            file.keep_socket_of(&current.file);
            file.keep_bindings_of(&current.file);
            let _ = file.fill_socket(&socket, &token()?);
            Ok(Some(file))
        })
    }

    /// Edits the file; written only if the edit changed something.
    pub fn edit(
        &self,
        mut edit: impl FnMut(&mut ApprovalsFile) -> Change,
    ) -> Result<(Snapshot, Change), ChangeError> {
        let mut made = Change::Unchanged;
        let snapshot = self.change(|current| {
            let mut file = current.file.clone();
            made = edit(&mut file);
            Ok((made == Change::Changed).then_some(file))
        })?;
        Ok((snapshot, made))
    }

    /// Reads, lets `plan` say what to write (`None`: nothing) and writes it, all under the lock.
    fn change(
        &self,
        mut plan: impl FnMut(&Snapshot) -> Result<Option<ApprovalsFile>, ChangeError>,
    ) -> Result<Snapshot, ChangeError> {
        let directory = self.path.parent().unwrap_or(Path::new("/"));
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(directory)
            .map_err(io_error("create", directory))?;
        let _lock = lock(&self.path.with_extension("json.lock"))?;
        for _ in 0..ATTEMPTS {
            let current = self.read().map_err(ChangeError::Refused)?;
            let Some(file) = plan(&current)? else { return Ok(current) };
            let text = file.to_text();
            let staged = stage(&self.path, &text)?;
            // The reference takes no lock; what it wrote meanwhile must not be lost.
            if self.read().map_err(ChangeError::Refused)?.hash != current.hash {
                drop(staged);
                continue;
            }
            staged.put_in_place(&self.path)?;
            let hash = FileHash::of(&text);
            return Ok(Snapshot { path: current.path, exists: true, hash, file });
        }
        Err(ChangeError::Locked { path: shown(&self.path) })
    }
}

/// Milliseconds since 1970.
pub fn now_ms() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(now.as_millis()).unwrap_or(u64::MAX)
}

fn token() -> Result<String, ChangeError> {
    random::token().map_err(io_error("read", Path::new("/dev/urandom")))
}

fn shown(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}

fn io_error(what: &'static str, path: &Path) -> impl FnOnce(io::Error) -> ChangeError {
    let path = shown(path);
    move |cause| ChangeError::Io { what, path, cause }
}

/// The file's text; `None` if there is none. Whatever is odd about it is said in words.
fn read_text(path: &Path) -> Result<Option<String>, String> {
    let file = OpenOptions::new().read(true).custom_flags(O_NOFOLLOW | O_NONBLOCK).open(path);
    let file = match file {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(_) if fs::symlink_metadata(path).is_ok_and(|facts| facts.is_symlink()) => {
            return Err("it is a symbolic link; put the file itself there".to_owned());
        }
        Err(error) => return Err(format!("it cannot be opened: {error}")),
    };
    let facts = file.metadata().map_err(|error| format!("it cannot be looked at: {error}"))?;
    if !facts.is_file() {
        return Err("it is no regular file".to_owned());
    }
    let directory = path.parent().map(fs::metadata);
    if directory.is_some_and(|facts| facts.is_ok_and(|facts| anybody_may_replace(&facts))) {
        return Err(
            "anybody may put another file into its directory; run `chmod o-w` on that".to_owned()
        );
    }
    if facts.mode() & OTHERS_MAY_WRITE != 0 {
        return Err("others may write it; run `chmod 600` on it after checking it".to_owned());
    }
    let own = fs::metadata("/proc/self").map(|process| process.uid());
    if facts.uid() != 0 && own.is_ok_and(|own| own != facts.uid()) {
        return Err(format!("it belongs to user {}, not to you", facts.uid()));
    }
    let mut bytes = Vec::new();
    file.take(MAX_BYTES + 1)
        .read_to_end(&mut bytes)
        .map_err(|error| format!("it cannot be read: {error}"))?;
    if bytes.len() as u64 > MAX_BYTES {
        return Err(format!("it is larger than {MAX_BYTES} bytes"));
    }
    let text = String::from_utf8(bytes);
    let text = text.map_err(|error| {
        format!("its text is not valid UTF-8 (byte {})", error.utf8_error().valid_up_to())
    });
    text.map(Some)
}

/// Says whether everybody may replace files of others in a directory.
fn anybody_may_replace(directory: &fs::Metadata) -> bool {
    const ANYBODY_MAY_WRITE: u32 = 0o002;
    const ONLY_OWN_FILES: u32 = 0o1000;
    directory.mode() & (ANYBODY_MAY_WRITE | ONLY_OWN_FILES) == ANYBODY_MAY_WRITE
}

/// Takes the lock beside the file.
fn lock(path: &Path) -> Result<File, ChangeError> {
    file_lock::within(path, Hold::Alone, LOCK_WAIT).map_err(|failed| match failed {
        NotLocked::Open(cause) => io_error("open", path)(cause),
        NotLocked::Lock(cause) => io_error("lock", path)(cause),
        NotLocked::Busy => ChangeError::Locked { path: shown(path) },
    })
}

/// A complete new file beside the old one; removed again unless it is put in place.
struct Staged {
    path: Option<PathBuf>,
}

fn stage(target: &Path, text: &str) -> Result<Staged, ChangeError> {
    let path = target.with_extension(format!("json.{}", random::uuid()));
    let mut file = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(&path)
        .map_err(io_error("create", &path))?;
    let staged = Staged { path: Some(path.clone()) };
    file.write_all(text.as_bytes()).map_err(io_error("write", &path))?;
    file.sync_all().map_err(io_error("write", &path))?;
    Ok(staged)
}

impl Staged {
    fn put_in_place(mut self, target: &Path) -> Result<(), ChangeError> {
        let Some(path) = self.path.take() else { return Ok(()) };
        if let Err(cause) = fs::rename(&path, target) {
            self.path = Some(path);
            return Err(io_error("replace", target)(cause));
        }
        // The rename itself must survive a power cut.
        let directory = target.parent().unwrap_or(Path::new("/"));
        let synced = File::open(directory).and_then(|directory| directory.sync_all());
        synced.map_err(io_error("sync", directory))
    }
}

impl Drop for Staged {
    fn drop(&mut self) {
        if let Some(path) = &self.path {
            // A left-over file is untidy and harmless: nobody reads it.
            let _ = fs::remove_file(path);
        }
    }
}

#[cfg(test)]
mod tests;
