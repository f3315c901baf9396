//! Who we are to an engine, and what is ours there.
//!
//! A label alone proves nothing: it travels with an image that somebody commits, and a path is the same
//! in two mount namespaces. So the mark is a random number that only this state directory holds, and a
//! container is ours if it bears the mark and has our own meeting place mounted, from exactly where we
//! keep it. Before anything goes that no row names, the place must be here too, and say the same.

use std::collections::HashMap;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use bollard::models::MountPoint;

use super::failure::DockerFailure;
use super::meeting::MeetingPlace;
use super::request::MEETING_PLACE;
use super::{DockerBackend, RUN_LABEL, STATE_LABEL};

/// The file with the mark.
const FILE: &str = "id";
const MARK_BYTES: usize = 16;

/// Whose a meeting place is: a state directory's, for the containers of one engine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Owner {
    pub(super) mark: String,
    pub(super) engine: String,
}

impl Owner {
    pub(super) fn to_text(&self) -> String {
        let Self { mark, engine } = self;
        format!("{mark}\n{engine}\n")
    }

    pub(super) fn parse(text: &str) -> Option<Self> {
        let (mark, engine) = text.strip_suffix('\n')?.split_once('\n')?;
        Some(Self { mark: mark.to_owned(), engine: engine.to_owned() })
    }
}

/// The mark of a state directory, made when it is first asked for.
pub(super) fn of(home: &Path) -> Result<String, DockerFailure> {
    let path = home.join(FILE);
    let failed =
        |cause| DockerFailure::Local { what: "keep our mark in", path: path.clone(), cause };
    match read(&path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        found => return found.map_err(failed),
    }
    make(home, &path).map_err(failed)?;
    read(&path).map_err(failed)
}

/// Written beside and linked: whoever comes second finds a whole file, and keeps it.
fn make(home: &Path, path: &Path) -> io::Result<()> {
    let mark = crate::random::short_id();
    let beside = home.join(format!("{FILE}.{mark}"));
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&beside)?;
    let linked = file
        .write_all(mark.as_bytes())
        .and_then(|()| file.sync_all())
        .and_then(|()| fs::hard_link(&beside, path));
    fs::remove_file(&beside)?;
    match linked {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        linked => linked.and_then(|()| File::open(home)?.sync_all()),
    }
}

fn read(path: &Path) -> io::Result<String> {
    let mut text = String::new();
    // One more than there may be, to notice.
    File::open(path)?.take(MARK_BYTES as u64 + 1).read_to_string(&mut text)?;
    if text.len() == MARK_BYTES && text.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return Ok(text);
    }
    Err(io::Error::new(io::ErrorKind::InvalidData, "it is no mark; restore it from a backup"))
}

impl DockerBackend {
    /// Whose the places are that we make.
    pub(super) fn owner(&self) -> Result<Owner, DockerFailure> {
        let engine = self.engine.key(&self.endpoint)?;
        Ok(Owner { mark: self.mark.clone(), engine })
    }

    /// Whether a container with these labels and mounts is ours.
    pub(super) fn is_ours(&self, labels: &HashMap<String, String>, mounts: &[MountPoint]) -> bool {
        let Some(run) = labels.get(RUN_LABEL) else { return false };
        if labels.get(STATE_LABEL) != Some(&self.mark) || !MeetingPlace::is_name(run) {
            return false;
        }
        let inside = MeetingPlace::inside_of(&self.home.join("run"), run);
        let here =
            mounts.iter().filter(|mount| mount.destination.as_deref() == Some(MEETING_PLACE));
        let mut here = here.peekable();
        here.peek().is_some() && here.all(|mount| mount.source.as_deref() == inside.to_str())
    }

    /// Whether a place is of this state directory and this engine.
    pub(super) fn owns(&self, place: &MeetingPlace) -> Result<bool, DockerFailure> {
        match place.owner() {
            // Before the engine is asked who it is.
            Some(owner) if owner.mark == self.mark => Ok(owner == self.owner()?),
            Some(_) | None => Ok(false),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn a_mark_is_made_once_and_is_nobody_elses() {
        let (one, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let mark = of(one.path()).unwrap();
        assert_eq!(of(one.path()).unwrap(), mark);
        assert_ne!(of(other.path()).unwrap(), mark);
        let mode = fs::metadata(one.path().join(FILE)).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        assert_eq!(fs::read_dir(one.path()).unwrap().count(), 1);
    }

    #[test]
    fn many_first_calls_at_once_agree_on_one_mark() {
        let home = tempfile::tempdir().unwrap();
        let marks: Vec<String> = std::thread::scope(|scope| {
            let calls: Vec<_> = (0..8).map(|_| scope.spawn(|| of(home.path()).unwrap())).collect();
            calls.into_iter().map(|call| call.join().unwrap()).collect()
        });
        assert_eq!(marks, vec![of(home.path()).unwrap(); 8]);
    }

    #[test]
    fn a_spoiled_mark_is_an_error_and_not_replaced() {
        let home = tempfile::tempdir().unwrap();
        for text in ["", "short", "0123456789abcdefg", "0123456789abcde/"] {
            fs::write(home.path().join(FILE), text).unwrap();
            assert!(of(home.path()).is_err(), "{text:?}");
        }
        assert_eq!(fs::read_to_string(home.path().join(FILE)).unwrap(), "0123456789abcde/");
    }

    #[test]
    fn whose_a_place_is_survives_its_text() {
        let owner = Owner { mark: "m".to_owned(), engine: "at unix:///s".to_owned() };
        assert_eq!(Owner::parse(&owner.to_text()), Some(owner));
        assert_eq!(Owner::parse("m"), None);
    }
}
