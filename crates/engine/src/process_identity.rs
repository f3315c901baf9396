//! Which process is meant, although numbers are used again: by number and start time.
//!
//! Looks processes up in `/proc`, which tells these facts about everyone to everyone. Decides
//! nothing.

use std::fs;
use std::io;

/// The kernel's flag of a process that is on its way out.
const EXITING: u64 = 0x4;

/// A living process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Living {
    /// Clock ticks between boot and its start.
    pub(crate) start_time: u64,
    /// Bytes of memory that it holds itself.
    pub(crate) memory: u64,
}

/// Whatever the kernel still lists under a number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Listed {
    pub(crate) life: Life,
    pub(crate) start_time: u64,
    memory: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Life {
    Lives,
    /// Killed, and about to be its own remains: the first process of a pen waits for the others.
    Ends,
    /// Dead and not yet reaped.
    Remains,
}

/// Looks at a process; `None` if there is none of that number, or only its remains.
pub(crate) fn look(pid: u32) -> io::Result<Option<Living>> {
    Ok(listed(pid)?.and_then(|found| match found.life {
        Life::Lives => Some(Living { start_time: found.start_time, memory: found.memory }),
        Life::Ends | Life::Remains => None,
    }))
}

/// What stands under a number; `None` if nothing does.
pub(crate) fn listed(pid: u32) -> io::Result<Option<Listed>> {
    match fs::read_to_string(format!("/proc/{pid}/stat")) {
        Ok(text) => {
            let nonsense = || io::Error::other(format!("`/proc/{pid}/stat` makes no sense"));
            parse(&text).map(Some).ok_or_else(nonsense)
        }
        // The second: it went between open and read.
        Err(error)
            if error.kind() == io::ErrorKind::NotFound
                || error.raw_os_error() == Some(libc::ESRCH) =>
        {
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

/// Bytes of memory that all processes below `pid` hold, it included; `living` is what is known of it
/// already.
pub(crate) fn memory_of_tree(pid: u32, living: Option<Living>) -> u64 {
    let mut open = vec![pid];
    let mut sum = 0_u64;
    let mut known = living;
    while let Some(pid) = open.pop() {
        if let Some(living) = known.take().or_else(|| look(pid).ok().flatten()) {
            sum = sum.saturating_add(living.memory);
        }
        let children = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children"));
        open.extend(
            children.unwrap_or_default().split(' ').filter_map(|child| child.parse::<u32>().ok()),
        );
    }
    sum
}

/// The name of a process may hold anything, so the fields are counted from its closing bracket.
fn parse(stat: &str) -> Option<Listed> {
    let (_, fields) = stat.rsplit_once(')')?;
    let fields: Vec<&str> = fields.split_whitespace().collect();
    let number = |index: usize| fields.get(index)?.parse::<u64>().ok();
    let is_ending = number(6)? & EXITING != 0;
    let life = match *fields.first()? {
        "Z" | "X" | "x" => Life::Remains,
        _ if is_ending => Life::Ends,
        _ => Life::Lives,
    };
    let page = u64::try_from(rustix::param::page_size()).ok()?;
    Some(Listed { life, start_time: number(19)?, memory: number(21)?.saturating_mul(page) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_is_known_by_its_start_and_its_remains_are_nobody() {
        let me = std::process::id();
        let first = look(me).unwrap().unwrap();
        assert_eq!(look(me).unwrap().unwrap().start_time, first.start_time);
        assert!(first.memory > 0 && memory_of_tree(me, None) >= first.memory / 2);
        let mut child = std::process::Command::new("true").spawn().unwrap();
        let there = look(child.id()).unwrap();
        assert!(there.is_none_or(|child| child.start_time >= first.start_time));
        // Ended and not yet waited for: it is nobody already.
        let ended = clawpen_os::process::pidfd_open(
            clawpen_os::process::Pid::new(child.id().try_into().unwrap()).unwrap(),
        )
        .unwrap();
        clawpen_os::events::poll(
            &[(std::os::fd::AsFd::as_fd(&ended), clawpen_os::events::Interest::Read)],
            None,
        )
        .unwrap();
        assert_eq!(look(child.id()).unwrap(), None);
        child.wait().unwrap();
        assert_eq!(look(child.id()).unwrap(), None);
    }

    #[test]
    fn a_hostile_name_shifts_no_field() {
        let tail = "S 1 1 1 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 4242 100 7 1 1";
        let living = parse(&format!("12 (a) R 9 9 (b)) {tail}")).unwrap();
        let page = u64::try_from(rustix::param::page_size()).unwrap();
        let expected = Listed { life: Life::Lives, start_time: 4242, memory: 7 * page };
        assert_eq!(living, expected);
        assert_eq!(parse("12 (x) Z 1 1"), None);
        assert_eq!(parse("nonsense"), None);
    }
}
