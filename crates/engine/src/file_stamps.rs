//! Says whether what was read from files would be read again: a stamp of each, then and now.
//!
//! Of a config every file that was read, and those that would be read if they were there, are looked at. What no stamp
//! shows (a variable file that appeared elsewhere) is seen after [`OLDEST`].

use std::fs::Metadata;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use clawpen_rules::config::locate::Locations;

use crate::config_store::Store;

/// Looked at anew after so long, whatever the stamps say.
const OLDEST: Duration = Duration::from_secs(1);

/// A file or directory at one moment; of a directory, it changes with every name that this gains or loses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stamp {
    pub(crate) device: u64,
    pub(crate) inode: u64,
    pub(crate) size: u64,
    /// Seconds and nanoseconds.
    pub(crate) modified: (i64, i64),
    pub(crate) changed: (i64, i64),
}

impl Stamp {
    pub(crate) fn of(found: &Metadata) -> Self {
        Self {
            device: found.dev(),
            inode: found.ino(),
            size: found.size(),
            modified: (found.mtime(), found.mtime_nsec()),
            changed: (found.ctime(), found.ctime_nsec()),
        }
    }

    /// What stands there, links followed; `None` if nothing that can be looked at does.
    pub(crate) fn at(path: impl AsRef<Path>) -> Option<Self> {
        std::fs::metadata(path).ok().map(|found| Self::of(&found))
    }

    /// Clocks of file systems are coarse, so what has just changed may change once more and look the same. Nobody can
    /// set the time of the last change back, but the clock may be.
    pub(crate) fn is_settled(&self) -> bool {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        self.is_settled_at(now)
    }

    fn is_settled_at(&self, now: Duration) -> bool {
        // The kernel's own clock for files stands still for at most ten milliseconds; some file systems keep whole
        // seconds, or two of them, and show that by what they leave out.
        const FINE: Duration = Duration::from_millis(100);
        const COARSE: Duration = Duration::from_secs(3);
        let is_fine = |(_, nanos): (i64, i64)| nanos % 1_000_000 != 0;
        let latest = self.modified.max(self.changed);
        let (Ok(seconds), Ok(nanos)) = (u64::try_from(latest.0), u32::try_from(latest.1)) else {
            return false;
        };
        let grain = if is_fine(self.modified) && is_fine(self.changed) { FINE } else { COARSE };
        Duration::new(seconds, nanos).saturating_add(grain) < now
    }
}

/// The files of a config at one moment.
#[derive(Debug)]
pub(crate) struct Stamps {
    files: Vec<(String, Option<Stamp>)>,
    made: Instant,
}

impl Stamps {
    /// Those of a config that was loaded, by somebody who began at `began`. `None` if one of its files may have changed
    /// since then, or so shortly before that its clock would not show a second change: what was read may not be what
    /// stands there now, so it is not to be kept.
    pub(crate) fn of(store: &Store, began: SystemTime) -> Option<Self> {
        let read = store.loaded.config.files();
        Some(Self::new(&store.locations, read)).filter(|stamps| stamps.were_settled(read, began))
    }

    fn were_settled(&self, read: &[String], began: SystemTime) -> bool {
        let began = began.duration_since(UNIX_EPOCH).unwrap_or_default();
        self.files.iter().all(|(path, stamp)| match stamp {
            Some(stamp) => stamp.is_settled_at(began),
            None => !read.contains(path),
        })
    }

    fn new(locations: &Locations, read: &[String]) -> Self {
        let variables = format!("{}/.env", locations.state_dir);
        let fixed = [locations.config.clone(), locations.own_config.clone(), variables];
        let mut paths: Vec<String> = fixed.into_iter().chain(read.iter().cloned()).collect();
        paths.sort_unstable();
        paths.dedup();
        let files = paths.into_iter().map(|path| (path.clone(), Stamp::at(&path))).collect();
        Self { files, made: Instant::now() }
    }

    /// Nothing has changed since.
    pub(crate) fn are_current(&self) -> bool {
        self.made.elapsed() < OLDEST
            && self.files.iter().all(|(path, stamp)| Stamp::at(path) == *stamp)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_changed_after_it_was_read_or_just_before_is_not_kept() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("openclaw.json").to_string_lossy().into_owned();
        std::fs::write(&path, "{}").unwrap();
        let read = [path.clone()];
        let stamps = || Stamps {
            files: vec![(path.clone(), Stamp::at(&path)), ("/missing/.env".to_owned(), None)],
            made: Instant::now(),
        };
        let written = std::fs::metadata(&path).unwrap().modified().unwrap();
        assert!(!stamps().were_settled(&read, written), "its clock may not have moved on");
        assert!(!stamps().were_settled(&read, written - Duration::from_secs(9)), "written since");
        assert!(stamps().were_settled(&read, written + Duration::from_secs(9)));
        std::fs::remove_file(&path).unwrap();
        assert!(!stamps().were_settled(&read, written + Duration::from_secs(9)), "it is gone");
    }

    #[test]
    fn a_stamp_settles_when_its_clock_must_have_moved_on() {
        let now = Duration::from_secs(50);
        let fine = |seconds| (seconds, 123_456_789);
        for (modified, changed, expected) in [
            (fine(49), fine(49), true),
            ((49, 950_000_001), fine(49), false),
            (fine(49), (49, 950_000_001), false),
            // Whole seconds, or milliseconds, say that the rest is not kept.
            ((48, 0), fine(48), false),
            (fine(48), (48, 500_000_000), false),
            ((46, 0), (46, 0), true),
            // A file from the future, or from before all time, is not trusted.
            (fine(50), fine(50), false),
            (fine(-1), fine(-1), false),
        ] {
            let stamp = Stamp { device: 1, inode: 2, size: 3, modified, changed };
            assert_eq!(stamp.is_settled_at(now), expected, "{stamp:?}");
        }
    }
}
