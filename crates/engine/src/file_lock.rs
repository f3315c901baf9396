//! A lock that is a file of its own, beside what it guards. It goes with the handle, also when the process dies.
//!
//! Opens what stands there or makes it, for its owner only; a link is not followed, and a pipe does not hold us up.
//! Waits as long as the caller has patience, and never takes anything by force.

use std::fs::{File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;
use std::time::{Duration, Instant};

use libc::{O_NOFOLLOW, O_NONBLOCK};

/// Until the next try, because nobody is told when a file's lock is free: short at first, then longer.
const FIRST_PAUSE: Duration = Duration::from_millis(1);
const LONGEST_PAUSE: Duration = Duration::from_millis(20);

/// With whom it is held.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Hold {
    /// With others who only share.
    Shared,
    Alone,
}

/// There is no lock.
#[derive(Debug)]
pub(crate) enum NotLocked {
    Open(io::Error),
    Lock(io::Error),
    /// Others had it for as long as there was patience.
    Busy,
}

/// Waits so long and no longer.
pub(crate) fn within(path: &Path, hold: Hold, wait: Duration) -> Result<File, NotLocked> {
    let start = Instant::now();
    until(path, hold, || start.elapsed() >= wait)
}

/// Waits until `is_enough` says so.
pub(crate) fn until(
    path: &Path,
    hold: Hold,
    is_enough: impl Fn() -> bool,
) -> Result<File, NotLocked> {
    let file = OpenOptions::new()
        .create(true)
        .truncate(false)
        .write(true)
        .mode(0o600)
        .custom_flags(O_NOFOLLOW | O_NONBLOCK)
        .open(path)
        .map_err(NotLocked::Open)?;
    let mut pause = FIRST_PAUSE;
    loop {
        let taken = match hold {
            Hold::Shared => file.try_lock_shared(),
            Hold::Alone => file.try_lock(),
        };
        match taken {
            Ok(()) => return Ok(file),
            Err(TryLockError::Error(cause)) => return Err(NotLocked::Lock(cause)),
            Err(TryLockError::WouldBlock) if is_enough() => return Err(NotLocked::Busy),
            Err(TryLockError::WouldBlock) => std::thread::sleep(pause),
        }
        pause = (pause * 2).min(LONGEST_PAUSE);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_alone_or_many_who_share_and_patience_ends() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("lock");
        let ask = |hold| within(&path, hold, Duration::ZERO);
        let shared = [ask(Hold::Shared).unwrap(), ask(Hold::Shared).unwrap()];
        assert!(matches!(ask(Hold::Alone), Err(NotLocked::Busy)));
        drop(shared);
        let alone = ask(Hold::Alone).unwrap();
        assert!(matches!(ask(Hold::Shared), Err(NotLocked::Busy)));
        assert!(matches!(ask(Hold::Alone), Err(NotLocked::Busy)));
        drop(alone);
        ask(Hold::Alone).unwrap();
    }

    #[test]
    fn neither_a_link_nor_a_pipe_is_a_lock() {
        let place = tempfile::tempdir().unwrap();
        let (link, pipe) = (place.path().join("link"), place.path().join("pipe"));
        std::os::unix::fs::symlink(place.path().join("elsewhere"), &link).unwrap();
        let made = std::process::Command::new("mkfifo").arg(&pipe).status().unwrap();
        assert!(made.success());
        for path in [link, pipe] {
            let refused = within(&path, Hold::Alone, Duration::ZERO);
            assert!(matches!(refused, Err(NotLocked::Open(_))), "{}", path.display());
        }
        assert!(!place.path().join("elsewhere").exists());
    }
}
