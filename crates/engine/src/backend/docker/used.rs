//! Which engines have got something of this state directory: kept outside the registry, which may be lost.
//!
//! ```text
//! <state>/clawpen/docker/engines/<hash of it>    how an engine is reached, as the registry would say it
//! ```
//!
//! Never shrinks: an engine that is gone is asked in vain.

use std::fs;
use std::path::Path;

use super::endpoint::Endpoint;
use super::failure::DockerFailure;
use super::kept::{self, Kind};

/// Where they are noted.
const ENGINES: &str = "engines";
/// More engines than anybody has.
const MOST: usize = 64;
/// Longer than any note of ours.
const LONGEST: u64 = 16 * 1024;

/// Notes an engine, by what the registry keeps of it.
pub(super) fn note(home: &Path, endpoint: &str) -> Result<(), DockerFailure> {
    let directory = home.join(ENGINES);
    kept::file(&directory, endpoint.as_bytes(), Kind::Text).map(drop).map_err(|cause| {
        DockerFailure::Local { what: "note the engine in", path: directory, cause }
    })
}

/// Every engine that was noted and can be read.
pub(crate) fn used(home: &Path) -> Vec<Endpoint> {
    let entries = fs::read_dir(home.join(ENGINES)).into_iter().flatten().flatten();
    let read = |entry: fs::DirEntry| {
        let facts = fs::symlink_metadata(entry.path()).ok()?;
        if !facts.is_file() || facts.len() > LONGEST {
            return None;
        }
        Endpoint::recorded(&fs::read_to_string(entry.path()).ok()?).ok()
    };
    entries.filter_map(read).take(MOST).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn engines_are_noted_once_and_what_is_no_note_is_passed_over() {
        let home = tempfile::tempdir().unwrap();
        assert_eq!(used(home.path()), []);
        for _ in 0..2 {
            note(home.path(), "unix:///run/one.sock").unwrap();
        }
        note(home.path(), "unix:///run/two.sock").unwrap();
        let engines = home.path().join(ENGINES);
        fs::write(engines.join("odd"), "tcp://example.com:1").unwrap();
        fs::create_dir(engines.join("directory")).unwrap();
        std::os::unix::fs::symlink("/etc/passwd", engines.join("link")).unwrap();
        let mut found: Vec<String> = used(home.path()).iter().map(Endpoint::text).collect();
        found.sort();
        assert_eq!(found, ["unix:///run/one.sock", "unix:///run/two.sock"]);
    }
}
