//! One at a time per sandbox, across processes.
//!
//! ```text
//! <state>/clawpen/locks/<slug of the name>    locked by whoever makes, starts or removes the sandbox
//! ```
//!
//! The kernel drops a lock with its process, so there is none that a dead process holds. Calls in a
//! sandbox that is there need no lock: a lease is enough.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use clawpen_rules::scope::slug;
use rustix::fs::{FlockOperation, flock};

/// The right to make, start or remove one sandbox; given back with the value.
#[derive(Debug)]
pub(super) struct NameLock {
    file: File,
    path: PathBuf,
}

impl NameLock {
    /// Waits until nobody else has it.
    pub(super) fn wait(state_dir: &str, name: &str) -> io::Result<Self> {
        loop {
            let lock = Self::open(state_dir, name)?;
            match flock(&lock.file, FlockOperation::LockExclusive) {
                Ok(()) if lock.is_in_place()? => return Ok(lock),
                // Whoever had it has removed the file: the lock is on nothing that others see.
                Ok(()) | Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Takes it if nobody has it.
    pub(super) fn take(state_dir: &str, name: &str) -> io::Result<Option<Self>> {
        let lock = Self::open(state_dir, name)?;
        match flock(&lock.file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(lock.is_in_place()?.then_some(lock)),
            Err(rustix::io::Errno::WOULDBLOCK) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Gives it back and removes its file: the sandbox is gone, and names come and go.
    pub(super) fn retire(self) {
        // A file that stays does no harm.
        drop(fs::remove_file(&self.path));
    }

    fn open(state_dir: &str, name: &str) -> io::Result<Self> {
        let directory = Path::new(state_dir).join("clawpen/locks");
        let path = directory.join(slug(name));
        let mut options = OpenOptions::new();
        options.write(true).create(true).truncate(false).mode(0o600);
        let file = match options.open(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                DirBuilder::new().recursive(true).mode(0o700).create(&directory)?;
                options.open(&path)?
            }
            opened => opened?,
        };
        Ok(Self { file, path })
    }

    fn is_in_place(&self) -> io::Result<bool> {
        let held = self.file.metadata()?;
        match fs::symlink_metadata(&self.path) {
            Ok(there) => Ok((there.dev(), there.ino()) == (held.dev(), held.ino())),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    #[test]
    fn one_at_a_time_also_when_the_file_goes_and_comes() {
        let state = tempfile::tempdir().unwrap();
        let state = state.path().to_str().unwrap();
        let inside = AtomicUsize::new(0);
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    for round in 0..50 {
                        let lock = NameLock::wait(state, "a/b").unwrap();
                        assert_eq!(inside.fetch_add(1, Ordering::SeqCst), 0);
                        assert!(NameLock::take(state, "a/b").unwrap().is_none());
                        inside.fetch_sub(1, Ordering::SeqCst);
                        if round % 3 == 0 {
                            lock.retire();
                        }
                    }
                });
            }
        });
        assert!(NameLock::take(state, "a/b").unwrap().is_some());
    }
}
