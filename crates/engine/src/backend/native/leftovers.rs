//! What a killed process leaves behind, and who may take it away.
//!
//! Whatever we make on the host for a pen carries its maker in its name: process number, start time and the
//! process namespace in which that number means anything. So the next process can tell what belongs to somebody
//! who lives from what nobody will ever come back for, without a list that could be lost or lie.
//!
//! [`sweep`] takes away empty control groups and unused socket directories of makers that are gone. A control
//! group in which something runs is left alone, whoever made it: the kernel refuses to remove it. It never
//! kills anything.

use std::collections::BTreeMap;
use std::fmt;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use clawpen_os::cgroups::{Controller, Hierarchies};

/// How names of control groups begin.
const GROUP: &str = "clawpen-";
/// Where socket directories are, below the state directory.
pub(super) const RUN: &str = "clawpen/run";

/// Who made something: one process, told apart from any later one of the same number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Maker {
    namespace: u64,
    process: u32,
    /// In ticks since the machine started. What we name does not outlive the machine's run either.
    started: u64,
}

/// What became of a maker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Life {
    Lives,
    Gone,
    /// Its number means nothing here: it runs, or ran, in another process namespace.
    Elsewhere,
}

impl Maker {
    /// This process.
    pub fn this() -> io::Result<Self> {
        let process = std::process::id();
        let started = started(process)?.ok_or(io::ErrorKind::NotFound)?;
        Ok(Self { namespace: namespace()?, process, started })
    }

    /// Reads what [`fmt::Display`] wrote.
    pub fn parse(text: &str) -> Option<Self> {
        let mut parts = text.split('.');
        let mut number = || u64::from_str_radix(parts.next()?, 16).ok();
        let (namespace, process, started) = (number()?, number()?, number()?);
        let process = u32::try_from(process).ok()?;
        parts.next().is_none().then_some(Self { namespace, process, started })
    }

    /// Looks whether it still runs. Whoever cannot be looked at counts as living.
    pub fn life(&self) -> Life {
        if !namespace().is_ok_and(|ours| ours == self.namespace) {
            return Life::Elsewhere;
        }
        match started(self.process) {
            Ok(found) if found != Some(self.started) => Life::Gone,
            Ok(_) | Err(_) => Life::Lives,
        }
    }
}

impl fmt::Display for Maker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { namespace, process, started } = self;
        write!(f, "{namespace:x}.{process:x}.{started:x}")
    }
}

fn namespace() -> io::Result<u64> {
    Ok(fs::metadata("/proc/self/ns/pid")?.ino())
}

/// When a process started; `None` if there is none of that number.
fn started(process: u32) -> io::Result<Option<u64>> {
    let stat = match fs::read_to_string(format!("/proc/{process}/stat")) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        // Between the opening and the reading it may end.
        Err(error) if error.raw_os_error() == Some(libc::ESRCH) => return Ok(None),
        found => found?,
    };
    // The name in brackets may hold anything; after it, the state is the first field and the start the 20th.
    let fields = stat.rsplit_once(')').map(|(_, rest)| rest.split_whitespace());
    let started = fields.and_then(|mut fields| fields.nth(19)?.parse().ok());
    started.map(Some).ok_or_else(|| io::ErrorKind::InvalidData.into())
}

/// The name of a new thing of the pen `pen`: no other has it, now or later.
pub(super) fn name(pen: &str, number: u64) -> io::Result<String> {
    Ok(format!("{pen}-{number}-{}", Maker::this()?))
}

/// The same for a control group.
pub(super) fn group_name(pen: &str, number: u64) -> io::Result<String> {
    Ok(format!("{GROUP}{}", name(pen, number)?))
}

/// Who made the thing of this name.
fn maker_of(name: &str) -> Option<Maker> {
    Maker::parse(name.rsplit_once('-')?.1)
}

/// Takes away what makers that are gone have left, in every control group hierarchy and below `state_dir`;
/// says what. What cannot be removed stays for the next time.
pub fn sweep(state_dir: &Path) -> Vec<PathBuf> {
    let mut lives = BTreeMap::new();
    let mut is_left = |name: &str| {
        maker_of(name)
            .is_some_and(|maker| *lives.entry(maker).or_insert_with(|| maker.life()) == Life::Gone)
    };
    let mut swept = Vec::new();
    for directory in group_directories() {
        for (name, path) in entries(&directory) {
            // Only an empty one can be removed: a pen that outlives its maker keeps its own.
            if name.starts_with(GROUP) && is_left(&name) && fs::remove_dir(&path).is_ok() {
                swept.push(path);
            }
        }
    }
    for (name, path) in entries(&state_dir.join(RUN)) {
        // A private directory with one socket, on which nobody listens any more.
        if is_left(&name) && fs::remove_dir_all(&path).is_ok() {
            swept.push(path);
        }
    }
    swept
}

/// Where we make control groups.
fn group_directories() -> Vec<PathBuf> {
    let Ok(hierarchies) = Hierarchies::find() else { return Vec::new() };
    let places = Controller::ALL.into_iter().filter_map(|one| hierarchies.place(one));
    let mut found: Vec<PathBuf> =
        places.map(|(path, _)| path).chain(hierarchies.unified()).map(Path::to_path_buf).collect();
    found.sort_unstable();
    found.dedup();
    found
}

fn entries(directory: &Path) -> Vec<(String, PathBuf)> {
    let Ok(listed) = fs::read_dir(directory) else { return Vec::new() };
    let named = listed
        .flatten()
        .filter_map(|entry| Some((entry.file_name().into_string().ok()?, entry.path())));
    named.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_lives_and_an_earlier_one_of_its_number_does_not() {
        let this = Maker::this().unwrap();
        assert_eq!(this.life(), Life::Lives);
        assert_eq!(Maker { started: this.started - 1, ..this }.life(), Life::Gone);
        assert_eq!(Maker { process: u32::MAX, ..this }.life(), Life::Gone);
        assert_eq!(Maker { namespace: 1, ..this }.life(), Life::Elsewhere);
    }

    #[test]
    fn a_name_tells_its_maker() {
        let this = Maker::this().unwrap();
        assert_eq!(maker_of(&group_name("openclaw-sbx-main", 7).unwrap()), Some(this));
        for other in ["clawpen-x", "clawpen-x-1-2", "x-1.2", "x-1.2.3.4", "x-1.2.z", ""] {
            assert_eq!(maker_of(other), None, "{other}");
        }
    }

    #[test]
    fn only_what_nobody_comes_back_for_is_swept() {
        let state = tempfile::tempdir().unwrap();
        let run = state.path().join(RUN);
        let this = Maker::this().unwrap();
        let gone = Maker { started: this.started - 1, ..this };
        let elsewhere = Maker { namespace: 1, ..gone };
        let place = |maker: String| run.join(format!("pen-0-{maker}"));
        for maker in [this, gone, elsewhere] {
            fs::create_dir_all(place(maker.to_string())).unwrap();
        }
        fs::create_dir_all(place("other".to_owned())).unwrap();
        fs::write(place(gone.to_string()).join("s"), "").unwrap();
        let swept = sweep(state.path());
        assert!(swept.contains(&place(gone.to_string())), "{swept:?}");
        let left = fs::read_dir(&run).unwrap().count();
        assert_eq!((left, place(gone.to_string()).exists()), (3, false));
    }
}
