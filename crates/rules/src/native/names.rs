//! The words of a native pen: its user, its memory file systems, its name servers and host names.

use std::net::IpAddr;

use super::{KeyRefused, Problem, refuse};
use crate::config::setting::{Layer, Setting};
use crate::posix;

/// Memory that programs share; the one place below `/dev` that a tmpfs may take.
pub(super) const SHARED_MEMORY: &str = "/dev/shm";
/// Resolvers read this many and pass over the rest.
const MAX_SERVERS: usize = 3;
/// A tmpfs without a size: half of what the smallest machine has.
const TMPFS_BYTES: u64 = 512 << 20;
/// World-writable and sticky, as such places are everywhere.
const TMPFS_MODE: u32 = 0o1777;

/// Whom commands run as, by the numbers that hold inside the pen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PenUser {
    pub uid: u32,
    pub gid: u32,
}

/// Private memory at one place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tmpfs {
    pub path: String,
    pub bytes: u64,
    pub mode: u32,
    pub programs: Programs,
}

/// Whether programs may be started from a mount.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Programs {
    Run,
    Refused,
}

/// A line of the hosts file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExtraHost {
    pub name: String,
    pub address: IpAddr,
}

impl Tmpfs {
    /// Memory at `path` as pens have it without any option.
    pub fn plain(path: &str) -> Self {
        Self {
            path: path.to_owned(),
            bytes: TMPFS_BYTES,
            mode: TMPFS_MODE,
            programs: Programs::Run,
        }
    }
}

/// `uid`, `uid:gid` or `root`. Without any: the first ordinary user of most systems. A root that
/// nobody wrote down, but that owns the workspace, is that user too: the workspace's ids are mapped,
/// so nothing is gained by calling him root.
pub(super) fn user(setting: Option<&Setting<String>>) -> Result<PenUser, KeyRefused> {
    let ordinary = PenUser { uid: 1000, gid: 1000 };
    let Some(setting) = setting else { return Ok(ordinary) };
    let text = setting.value.trim();
    if text.is_empty() {
        return Ok(ordinary);
    }
    let (user, group) = text.split_once(':').unwrap_or((text, ""));
    let uid = number(user);
    let gid = if group.is_empty() { uid } else { number(group) };
    match (uid, gid) {
        (Some(0), Some(_)) if setting.origin.layer == Layer::Derived => Ok(ordinary),
        (Some(uid), Some(gid)) => Ok(PenUser { uid, gid }),
        _ => Err(refuse(&setting.origin, Problem::User(text.to_owned()))),
    }
}

fn number(text: &str) -> Option<u32> {
    if text == "root" {
        return Some(0);
    }
    let is_plain = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    // The highest number means "nobody said" to the kernel.
    text.parse().ok().filter(|&number| is_plain && number != u32::MAX)
}

/// The entries `path[:options]`; their shape was checked with the spec.
pub(super) fn tmpfs(entries: &Setting<Vec<String>>) -> Result<Vec<Tmpfs>, KeyRefused> {
    let mut found: Vec<Tmpfs> = Vec::new();
    for entry in &entries.value {
        let (path, options) = entry.split_once(':').unwrap_or((entry, ""));
        let mut tmpfs = Tmpfs { path: posix::normalize(path), ..Tmpfs::plain("") };
        for option in options.split(',').filter(|option| !option.is_empty()) {
            apply(&mut tmpfs, option).ok_or_else(|| {
                let problem =
                    Problem::TmpfsOption { entry: entry.clone(), option: option.to_owned() };
                refuse(&entries.origin, problem)
            })?;
        }
        found.retain(|known| known.path != tmpfs.path);
        found.push(tmpfs);
    }
    Ok(found)
}

fn apply(tmpfs: &mut Tmpfs, option: &str) -> Option<()> {
    match option.split_once('=').unwrap_or((option, "")) {
        ("size", size) => tmpfs.bytes = super::limits::bytes(size).filter(|&bytes| bytes > 0)?,
        ("mode", mode) => {
            tmpfs.mode = u32::from_str_radix(mode, 8).ok().filter(|mode| *mode <= 0o1777)?;
        }
        ("noexec", "") => tmpfs.programs = Programs::Refused,
        ("exec", "") => tmpfs.programs = Programs::Run,
        // These hold for every mount of a pen, or change nothing that can be seen.
        ("rw" | "nosuid" | "nodev" | "noatime" | "relatime", "") => {}
        _ => return None,
    }
    Some(())
}

pub(super) fn dns(setting: Option<&Setting<Vec<String>>>) -> Result<Vec<IpAddr>, KeyRefused> {
    let Some(setting) = setting else { return Ok(Vec::new()) };
    let written = setting.value.iter().map(|text| text.trim()).filter(|text| !text.is_empty());
    let addresses: Result<Vec<IpAddr>, KeyRefused> = written
        .map(|text| {
            let parsed = text.parse().ok();
            parsed.ok_or_else(|| refuse(&setting.origin, Problem::Address(text.to_owned())))
        })
        .collect();
    let addresses = addresses?;
    if addresses.len() > MAX_SERVERS {
        return Err(refuse(&setting.origin, Problem::TooManyServers(MAX_SERVERS)));
    }
    Ok(addresses)
}

/// `name:address`, as the engine takes them.
pub(super) fn hosts(setting: Option<&Setting<Vec<String>>>) -> Result<Vec<ExtraHost>, KeyRefused> {
    let Some(setting) = setting else { return Ok(Vec::new()) };
    let written = setting.value.iter().map(|text| text.trim()).filter(|text| !text.is_empty());
    written
        .map(|text| {
            host(text).ok_or_else(|| refuse(&setting.origin, Problem::Host(text.to_owned())))
        })
        .collect()
}

fn host(text: &str) -> Option<ExtraHost> {
    let (name, address) = text.split_once([':', '='])?;
    let is_name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_');
    let address = address.trim_start_matches('[').trim_end_matches(']');
    let address = address.parse().ok()?;
    (!name.is_empty() && name.chars().all(is_name))
        .then(|| ExtraHost { name: name.to_owned(), address })
}
