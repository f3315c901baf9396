//! Says whether the files that a config was read from are still those.
//!
//! Every file that was read, and those that would be read if they were there, are looked at. What no stamp
//! shows (a variable file that appeared elsewhere) is seen after [`OLDEST`].

use std::os::unix::fs::MetadataExt as _;
use std::time::{Duration, Instant};

use clawpen_rules::config::locate::Locations;

use crate::config_store::Store;

/// Looked at anew after so long, whatever the stamps say.
const OLDEST: Duration = Duration::from_secs(1);

/// A file at one moment.
type Stamp = (u64, u64, u64, (i64, i64), (i64, i64));

/// The files of a config at one moment.
#[derive(Debug)]
pub(crate) struct Stamps {
    files: Vec<(String, Option<Stamp>)>,
    made: Instant,
}

impl Stamps {
    /// Those of a config that was loaded.
    pub(crate) fn of(store: &Store) -> Self {
        Self::new(&store.locations, store.loaded.config.files())
    }

    fn new(locations: &Locations, read: &[String]) -> Self {
        let variables = format!("{}/.env", locations.state_dir);
        let fixed = [locations.config.clone(), locations.own_config.clone(), variables];
        let mut paths: Vec<String> = fixed.into_iter().chain(read.iter().cloned()).collect();
        paths.sort_unstable();
        paths.dedup();
        let files = paths.into_iter().map(|path| (path.clone(), look(&path))).collect();
        Self { files, made: Instant::now() }
    }

    /// Nothing has changed since.
    pub(crate) fn are_current(&self) -> bool {
        self.made.elapsed() < OLDEST && self.files.iter().all(|(path, stamp)| look(path) == *stamp)
    }
}

fn look(path: &str) -> Option<Stamp> {
    let facts = std::fs::metadata(path).ok()?;
    let modified = (facts.mtime(), facts.mtime_nsec());
    Some((facts.dev(), facts.ino(), facts.size(), modified, (facts.ctime(), facts.ctime_nsec())))
}
