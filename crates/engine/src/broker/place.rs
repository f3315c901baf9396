//! Where whoever answers stands, as the kernel tells: on the machine, in a sandbox, or below a process
//! that asks for an agent.
//!
//! A command that an agent was allowed to run on the host, and a tool that its program starts by
//! itself, could call `clawpen approvals resolve`, for its own session or for another's. Both are descendants of a
//! process that we know: whoever asks, the keeper of a program on the host, any `clawpen` (which takes over what a
//! program leaves that killed its keeper), or the client of an MCP door. Letting go of its parents does not help a program on
//! the host: it comes to its keeper, or without that to the door. What it has others start for it (`systemd-run`, `at`,
//! a container daemon), and a client's own tool that lets go of its parents, are not seen here: whoever runs as the owner
//! of the state directory can write to it anyway, and SECURITY.md says so.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::PathBuf;

use clawpen_rules::approval::resolver::{Place, Resolver, Speaker};

use super::{Broker, BrokerError, row};
use crate::process_identity;

/// The inode of the machine's own pid namespace: a constant of the kernel.
const MACHINE: u64 = 0xefff_fffc;
/// As many parents are looked at.
const MOST_PARENTS: usize = 256;

/// From which process on parents are looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum From {
    /// The process itself counts: it is somebody else.
    Itself(u32),
    /// It is us, and only who started us counts.
    Parent,
}

impl Broker<'_> {
    /// The user at `clawpen approvals`, in this process.
    pub fn person_here(&self) -> Result<Resolver, BrokerError> {
        let uid = rustix::process::getuid().as_raw();
        Ok(Resolver { speaker: Speaker::CliUser { uid }, place: self.place(From::Parent)? })
    }

    /// Where a process stands.
    pub fn place(&self, from: From) -> Result<Place, BrokerError> {
        let pid = match from {
            From::Itself(pid) => pid,
            From::Parent => std::process::id(),
        };
        let Ok(namespace) = fs::metadata(format!("/proc/{pid}/ns/pid")) else {
            return Ok(Place::Unknown);
        };
        let (mut askers, namespaces) = self.database.read(|sql| {
            let mut askers = BTreeSet::new();
            let mut namespaces = BTreeSet::new();
            // What a lost run left may be below whoever ran it.
            let all = [row::pending(sql)?, row::unused(sql)?, row::running(sql)?, row::lost(sql)?];
            for approval in all.iter().flatten() {
                askers.insert((approval.holder.pid, approval.holder.start_time));
                askers.extend(approval.agent_process);
                namespaces.insert(approval.holder.pid_namespace);
            }
            Ok::<_, BrokerError>((askers, namespaces))
        })?;
        let own = namespace.ino();
        if own != MACHINE && namespaces.iter().any(|asker| *asker != own) {
            return Ok(Place::Sandbox);
        }
        askers.extend(doors());
        Ok(below(pid, from, &askers))
    }
}

/// The doors, below which there is no person, and the processes that MCP doors were started by. Over HTTP there is none
/// of those: whoever opens such a door is no agent.
fn doors() -> Vec<(u32, u64)> {
    let Ok(listed) = fs::read_dir("/proc") else { return Vec::new() };
    let own = program_of(std::process::id());
    let pids = listed.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse::<u32>().ok());
    let mut found = Vec::new();
    for pid in pids {
        let Some(words) = words_of(pid) else { continue };
        let has = |wanted: &str| words.iter().skip(1).any(|word| word == wanted);
        let is_ours = is_clawpen(&words) || (own.is_some() && own == program_of(pid));
        let is_mcp = is_ours && has("mcp") && !has("install");
        let is_http = words.iter().any(|word| word == "--http" || word.starts_with("--http="));
        if !(is_mcp || is_ours && has("gateway")) {
            continue;
        }
        let Ok(Some(door)) = process_identity::listed(pid) else { continue };
        found.push((pid, door.start_time));
        // Everybody is below the first process.
        if is_mcp
            && !is_http
            && door.parent > 1
            && let Ok(Some(client)) = process_identity::listed(door.parent)
        {
            found.push((door.parent, client.start_time));
        }
    }
    found
}

/// Says whether a process is a `clawpen`: by its file, or by the name it was started with.
fn is_ours(pid: u32) -> bool {
    let own = program_of(std::process::id());
    (own.is_some() && own == program_of(pid))
        || words_of(pid).is_some_and(|words| is_clawpen(&words))
}

fn is_clawpen(words: &[String]) -> bool {
    words.first().and_then(|word| word.rsplit('/').next()) == Some("clawpen")
}

/// The file that a process runs.
fn program_of(pid: u32) -> Option<PathBuf> {
    fs::read_link(format!("/proc/{pid}/exe")).ok()
}

/// The words that a process was started with.
fn words_of(pid: u32) -> Option<Vec<String>> {
    let text = fs::read(format!("/proc/{pid}/cmdline")).ok()?;
    let words =
        text.split(|byte| *byte == 0).map(|word| String::from_utf8_lossy(word).into_owned());
    Some(words.collect())
}

/// Says whether a process keeps a program that a door runs on the host.
fn is_keeper(pid: u32) -> bool {
    let is_ours = program_of(pid)
        .is_some_and(|path| path.to_string_lossy().starts_with("/memfd:clawpen-supervisor"));
    is_ours && words_of(pid).is_some_and(|words| words.get(1).is_some_and(|word| word == "keep"))
}

/// Walks up from a process to the first one. A parent that ends while we look hands its children to
/// another, so the walk is then made again.
fn below(pid: u32, from: From, askers: &BTreeSet<(u32, u64)>) -> Place {
    (0..3).find_map(|_| walk(pid, from, askers)).unwrap_or(Place::Unknown)
}

fn walk(pid: u32, from: From, askers: &BTreeSet<(u32, u64)>) -> Option<Place> {
    let mut next = pid;
    for step in 0..MOST_PARENTS {
        let found = process_identity::listed(next).ok()??;
        let counts = step > 0 || matches!(from, From::Itself(_));
        let is_asker = |pid| askers.contains(&(pid, found.start_time)) || is_keeper(pid);
        // No person works below a program of ours, whatever it does there: a talk with an agent is a door too.
        let is_below_ours = |pid| step > 0 && is_ours(pid);
        if counts && (is_asker(next) || is_below_ours(next)) {
            return Some(Place::UnderAsker { pid: next });
        }
        if found.parent == 0 {
            return Some(Place::Host);
        }
        next = found.parent;
    }
    None
}
