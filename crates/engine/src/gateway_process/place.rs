//! The directory where a gateway writes down who it is: ours alone, or an error.

use std::fs::{self, DirBuilder, File, Metadata};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::state_file::{self, StateFileError};

const ALL_MAY_WRITE: u32 = 0o002;
const OTHERS_MAY_WRITE: u32 = 0o022;
const OTHERS: u32 = 0o077;
/// Only owners rename.
const STICKY: u32 = 0o1000;
/// A start may take its time, and whoever comes second waits for its end.
const LOCK_WAIT: Duration = Duration::from_secs(60);

/// A state directory, or a config, that must not be trusted or cannot be looked at.
#[derive(Debug, thiserror::Error)]
pub enum PlaceError {
    #[error("cannot {what} `{path}`")]
    Io {
        what: &'static str,
        path: String,
        #[source]
        cause: io::Error,
    },
    #[error(
        "`{path}` belongs to user {owner}, not to you ({own}); run as that user, or name a directory of your own in \
         OPENCLAW_STATE_DIR"
    )]
    Foreign { path: String, owner: u32, own: u32 },
    #[error(
        "others may write `{path}`, and so decide what runs here; run `chmod go-w {path}`, after a look at what is in it"
    )]
    Open { path: String },
    #[error("`{path}` is no directory; move it away")]
    NotADirectory { path: String },
    #[error(transparent)]
    Lock(StateFileError),
}

/// `clawpen` in a state directory, both proven to be ours.
#[derive(Debug, Clone)]
pub struct Place(PathBuf);

impl Place {
    /// Looks; `None` if nothing was ever made. A question must not make anything.
    pub fn find(state_dir: &Path) -> Result<Option<Self>, PlaceError> {
        let directory = state_dir.join("clawpen");
        for (path, most) in [(state_dir, ALL_MAY_WRITE), (&directory, OTHERS_MAY_WRITE)] {
            let found = match fs::metadata(path) {
                Ok(found) => found,
                Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
                Err(cause) => return Err(failed("look at", path)(cause)),
            };
            if !found.is_dir() {
                return Err(PlaceError::NotADirectory { path: state_file::shown(path) });
            }
            trusted(path, &found, most)?;
        }
        let directory = fs::canonicalize(&directory).map_err(failed("resolve", &directory))?;
        Ok(Some(Self(directory)))
    }

    /// The same, made if needed.
    pub fn ensure(state_dir: &Path) -> Result<Self, PlaceError> {
        // Before anything is made in a directory, it must be ours.
        if let Ok(found) = fs::metadata(state_dir) {
            trusted(state_dir, &found, ALL_MAY_WRITE)?;
        }
        let directory = state_dir.join("clawpen");
        let made = DirBuilder::new().recursive(true).mode(0o700).create(&directory);
        made.map_err(failed("create", &directory))?;
        let place = Self::find(state_dir)?;
        place.ok_or_else(|| failed("find", &directory)(io::ErrorKind::NotFound.into()))
    }

    /// Who the gateway is.
    pub fn record(&self) -> PathBuf {
        self.0.join("gateway.json")
    }

    /// What a gateway in the background prints.
    pub fn log(&self) -> PathBuf {
        self.0.join("gateway.log")
    }

    /// Held while a gateway is started or ended; goes with the handle.
    pub fn lock(&self) -> Result<File, PlaceError> {
        state_file::lock_within(&self.0.join("gateway"), LOCK_WAIT).map_err(PlaceError::Lock)
    }
}

/// Whether others may read a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Private {
    Yes,
    No,
}

/// Whether a config may be trusted: ours or root's, and nobody else writes it. `None` if there is none.
pub fn check_config(path: &Path) -> Result<Option<Private>, PlaceError> {
    match fs::symlink_metadata(path) {
        Ok(_) => {}
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(cause) => return Err(failed("look at", path)(cause)),
    }
    let found = fs::metadata(path).map_err(failed("look at", path))?;
    if found.uid() != 0 {
        trusted(path, &found, ALL_MAY_WRITE)?;
    } else if found.mode() & ALL_MAY_WRITE != 0 {
        return Err(PlaceError::Open { path: state_file::shown(path) });
    }
    // Where everybody may rename, everybody may put another file in its place.
    let real = fs::canonicalize(path).map_err(failed("resolve", path))?;
    let directory = real.parent().unwrap_or(Path::new("/"));
    let around = fs::metadata(directory).map_err(failed("look at", directory))?;
    if around.mode() & (ALL_MAY_WRITE | STICKY) == ALL_MAY_WRITE {
        return Err(PlaceError::Open { path: state_file::shown(directory) });
    }
    Ok(Some(if found.mode() & OTHERS == 0 { Private::Yes } else { Private::No }))
}

fn trusted(path: &Path, found: &Metadata, open: u32) -> Result<(), PlaceError> {
    let own = rustix::process::geteuid().as_raw();
    let path = state_file::shown(path);
    match found.uid() {
        owner if owner != own => Err(PlaceError::Foreign { path, owner, own }),
        _ if found.mode() & open != 0 => Err(PlaceError::Open { path }),
        _ => Ok(()),
    }
}

fn failed(what: &'static str, path: &Path) -> impl FnOnce(io::Error) -> PlaceError + use<> {
    let path = state_file::shown(path);
    move |cause| PlaceError::Io { what, path, cause }
}
