//! Kills whole process trees, for those who are a subreaper or process 1.
//!
//! A tree is stopped before it is killed, so that it does not fork away from under the walk; what
//! it forked in between is found in the next round, because orphans come to us. Needs `/proc`.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::time::Duration;

use crate::backoff::Backoff;
use crate::process::{Ended, Pid, Reaped, Signal, kill, reap_any};

/// The children of a process, from `/proc`.
pub fn children_of(pid: Pid) -> io::Result<Vec<Pid>> {
    Ok(children()?.remove(&pid).unwrap_or_default())
}

/// Every living descendant of a process, parents before children.
pub fn descendants_of(pid: Pid) -> io::Result<Vec<Pid>> {
    let mut children = children()?;
    let mut found = children.remove(&pid).unwrap_or_default();
    let mut next = 0;
    while let Some(parent) = found.get(next) {
        if let Some(more) = children.remove(parent) {
            found.extend(more);
        }
        next += 1;
    }
    Ok(found)
}

/// A child of this process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OwnChild {
    /// Its number.
    pub pid: Pid,
    /// It, or somebody between us and it, began a session of its own. There is no way back into ours.
    pub is_elsewhere: bool,
    /// It waits to be reaped.
    pub has_ended: bool,
}

/// The children of this process, those that came to it as a subreaper included.
pub fn own_children() -> io::Result<Vec<OwnChild>> {
    let this = Pid::this().get();
    let facts = |stat: &[u8]| -> Option<(bool, i32, i32)> {
        let fields = fields_of(stat)?;
        let number = |index: usize| fields.get(index)?.parse::<i32>().ok();
        let has_ended = matches!(*fields.first()?, "Z" | "X");
        Some((has_ended, number(1)?, number(3)?))
    };
    let nonsense = || io::Error::other("`/proc/self/stat` makes no sense");
    let (_, _, own) = facts(&fs::read("/proc/self/stat")?).ok_or_else(nonsense)?;
    let mut found = Vec::new();
    for entry in fs::read_dir("/proc")? {
        let name = entry?.file_name();
        let Some(pid) = name.to_str().and_then(|name| Pid::new(name.parse().ok()?)) else {
            continue;
        };
        // Gone between listing and reading: not a child any more.
        let Ok(stat) = fs::read(format!("/proc/{pid}/stat")) else { continue };
        if let Some((has_ended, parent, session)) = facts(&stat)
            && parent == this
        {
            found.push(OwnChild { pid, is_elsewhere: session != own, has_ended });
        }
    }
    Ok(found)
}

/// Kills and reaps every descendant of this process, which must be a subreaper or process 1.
///
/// `ended` sees every child that is reaped.
///
/// # Errors
/// `TimedOut` after `limit`: a process stuck in the kernel does not die.
pub fn kill_descendants(limit: Duration, ended: &mut dyn FnMut(Ended)) -> io::Result<()> {
    let mut backoff = Backoff::new(limit);
    // First, because mostly there is nobody left: that costs one system call.
    while !reap_ended(ended)? {
        let tree = descendants_of(Pid::this())?;
        for signal in [Signal::STOP, Signal::KILL] {
            for pid in &tree {
                // It may have ended meanwhile: nothing to do. For its number to belong to somebody
                // else by now, the pen would have to run through all numbers within this loop.
                let _gone = kill(*pid, signal);
            }
        }
        if reap_ended(ended)? {
            break;
        }
        backoff.pause()?;
    }
    Ok(())
}

/// Reaps all that have ended; whether there are no children any more.
fn reap_ended(ended: &mut dyn FnMut(Ended)) -> io::Result<bool> {
    loop {
        match reap_any()? {
            Reaped::Ended(child) => ended(child),
            Reaped::NoneEnded => return Ok(false),
            Reaped::NoChildren => return Ok(true),
        }
    }
}

/// Each parent's children. The parent's number is in every `stat`, whatever the kernel was built
/// with; the `children` files are optional.
fn children() -> io::Result<BTreeMap<Pid, Vec<Pid>>> {
    let mut children: BTreeMap<Pid, Vec<Pid>> = BTreeMap::new();
    for entry in fs::read_dir("/proc")? {
        let name = entry?.file_name();
        let Some(pid) = name.to_str().and_then(|name| Pid::new(name.parse().ok()?)) else {
            continue;
        };
        // Gone between listing and reading: not a child any more.
        let Ok(stat) = fs::read(format!("/proc/{pid}/stat")) else { continue };
        if let Some(parent) = parent_in(&stat) {
            children.entry(parent).or_default().push(pid);
        }
    }
    Ok(children)
}

/// The fourth field of `stat`, counted after the name, which may itself hold `)` and spaces. An
/// ended process that waits to be reaped (`Z`) is no one to kill.
fn parent_in(stat: &[u8]) -> Option<Pid> {
    let fields = fields_of(stat)?;
    match *fields.first()? {
        "Z" | "X" => None,
        _ => Pid::new(fields.get(1)?.parse().ok()?),
    }
}

/// What stands behind the name: state, parent, group, session.
fn fields_of(stat: &[u8]) -> Option<Vec<&str>> {
    let end_of_name = stat.iter().rposition(|byte| *byte == b')')?;
    let rest = std::str::from_utf8(stat.get(end_of_name + 1..)?).ok()?;
    Some(rest.split_ascii_whitespace().take(4).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_cannot_forge_a_parent() {
        check("7 (sh) S 3 7 7 0", Some(3));
        check("7 (x) S 1 (y) S 4 7 7 0", Some(4));
        check("7 (a b) R 0 7", None);
        check("7 (sh) Z 3 7", None);
        check("", None);
    }

    #[track_caller]
    fn check(stat: &str, expected: Option<i32>) {
        assert_eq!(parent_in(stat.as_bytes()).map(Pid::get), expected);
    }
}
