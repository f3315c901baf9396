//! Which process is meant, although numbers are used again: by number and start time.
//!
//! Looks processes up in `/proc`, which tells these facts about everyone to everyone. Decides
//! nothing.

use std::fs::File;
use std::io::{self, Read as _};

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
    /// Who started it, or took it over.
    pub(crate) parent: u32,
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
    match read(&format!("/proc/{pid}/stat")) {
        Ok(text) => {
            let nonsense = || io::Error::other(format!("`/proc/{pid}/stat` makes no sense"));
            parse(&String::from_utf8_lossy(&text)).map(Some).ok_or_else(nonsense)
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
        let memory = known.take().map(|living| living.memory).or_else(|| resident(pid));
        sum = sum.saturating_add(memory.unwrap_or_default());
        let children = read(&format!("/proc/{pid}/task/{pid}/children")).unwrap_or_default();
        let children = String::from_utf8_lossy(&children);
        open.extend(children.split(' ').filter_map(|child| child.parse::<u32>().ok()));
    }
    sum
}

/// Bytes of memory that a process holds. `statm` because the kernel sums up far more for `stat`.
fn resident(pid: u32) -> Option<u64> {
    let text = read(&format!("/proc/{pid}/statm")).ok()?;
    let pages = String::from_utf8_lossy(&text).split(' ').nth(1)?.parse::<u64>().ok()?;
    Some(pages.saturating_mul(u64::try_from(rustix::param::page_size()).ok()?))
}

/// A file of `/proc`, all of it. They have no size, so the standard library would ask for one in vain, begin
/// with a small buffer and ask once more at the end: half of the time that a look takes. The kernel gives
/// less than was asked for only at the end of such a file.
fn read(path: &str) -> io::Result<Vec<u8>> {
    let mut file = File::open(path)?;
    let mut text = Vec::new();
    let mut room = [0; 1024];
    loop {
        let count = file.read(&mut room)?;
        text.extend_from_slice(room.get(..count).unwrap_or_default());
        if count < room.len() {
            return Ok(text);
        }
    }
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
    Some(Listed {
        life,
        start_time: number(19)?,
        parent: u32::try_from(number(1)?).ok()?,
        memory: number(21)?.saturating_mul(page),
    })
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
    fn a_list_that_is_longer_than_one_read_is_read_to_its_end() {
        let mut children: Vec<_> = (0..300)
            .map(|_| std::process::Command::new("sleep").arg("1000").spawn().unwrap())
            .collect();
        let me = std::process::id();
        let thread = rustix::thread::gettid().as_raw_nonzero();
        let listed = read(&format!("/proc/{me}/task/{thread}/children")).unwrap();
        let listed: Vec<u32> = String::from_utf8(listed)
            .unwrap()
            .split(' ')
            .filter_map(|word| word.parse().ok())
            .collect();
        let all = children.iter().all(|child| listed.contains(&child.id()));
        for child in &mut children {
            child.kill().unwrap();
            child.wait().unwrap();
        }
        assert!(all, "{} of 300", listed.len());
    }

    #[test]
    fn a_hostile_name_shifts_no_field() {
        let tail = "S 1 1 1 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 4242 100 7 1 1";
        let living = parse(&format!("12 (a) R 9 9 (b)) {tail}")).unwrap();
        let page = u64::try_from(rustix::param::page_size()).unwrap();
        let expected = Listed { life: Life::Lives, start_time: 4242, parent: 1, memory: 7 * page };
        assert_eq!(living, expected);
        assert_eq!(parse("12 (x) Z 1 1"), None);
        assert_eq!(parse("nonsense"), None);
    }
}
