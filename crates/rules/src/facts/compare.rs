//! Lays what was asked beside what was observed, fact by fact.

use super::floor::need;
use super::kernel::{Capabilities, Limit, MountFact, Status};
use super::{
    Asked, Below, CgroupLimits, Fact, FileId, GroupsAsked, Holds, InterfaceKind, Interfaces,
    LandlockAsked, LandlockEffect, Line, Memory, MountAsked, MountsAsked, Observed, Process,
    Sealing, SourceAsked,
};
use crate::backend::Backend;
use crate::native::ids::Range;
use crate::native::{Bound, Rlimit};
use crate::posix;

/// The standard streams: all a command has open at its start.
const STREAMS: [u32; 3] = [0, 1, 2];

/// What an id is shown as that a user namespace has no number for.
const NAMELESS: u32 = 65_534;

/// Every fact, in the order it is shown.
pub fn compare(asked: &Asked, observed: &Observed) -> Vec<Line> {
    let mut table = Table { asked, observed, lines: Vec::new() };
    table.namespaces();
    table.id_maps();
    table.identity();
    table.power();
    table.landlock();
    table.mounts();
    table.interfaces();
    table.limits();
    table.process_one();
    table.lines
}

struct Table<'a> {
    asked: &'a Asked,
    observed: &'a Observed,
    lines: Vec<Line>,
}

/// What one fact came to.
struct Found {
    asked: String,
    outside: Option<String>,
    inside: Option<String>,
    holds: bool,
}

impl Table<'_> {
    fn push(&mut self, fact: Fact, found: Found) {
        let Found { asked, outside, inside, holds } = found;
        let need = need(self.asked.backend, &fact);
        let holds = if holds { Holds::Yes } else { Holds::No };
        self.lines.push(Line { fact, need, asked, outside, inside, holds });
    }

    /// Another number than the host's, and the same for process 1 and its commands.
    fn namespaces(&mut self) {
        for &kind in &self.asked.namespaces {
            let host = find(&self.observed.host_namespaces, kind);
            let outside = self.observed.outside.as_ref();
            let seen = outside.and_then(|outside| find(&outside.namespaces, kind));
            let one = find(&self.observed.inside.supervisor.namespaces, kind);
            let command = find(&self.observed.inside.workload.namespaces, kind);
            let word = |number: Option<u64>| match (number, host) {
                (Some(number), Some(host)) if number == host => "the host's".to_owned(),
                (Some(number), _) => format!("own ({number})"),
                (None, _) => "unknown".to_owned(),
            };
            let is_own = |number: Option<u64>| number.is_some() && host.is_some() && number != host;
            let found = Found {
                asked: "own".to_owned(),
                outside: outside.map(|_| word(seen)),
                inside: Some(word(command)),
                holds: is_own(command)
                    && command == one
                    && (outside.is_none() || (is_own(seen) && seen == one)),
            };
            self.push(Fact::Namespace(kind), found);
        }
    }

    fn id_maps(&mut self) {
        let Some(maps) = &self.asked.ids else { return };
        let outside = self.observed.outside.as_ref();
        let inside = &self.observed.inside;
        let sides = [
            (Fact::UidMap, &maps.uids, outside.map(|seen| &seen.uid_map), &inside.uid_map),
            (Fact::GidMap, &maps.gids, outside.map(|seen| &seen.gid_map), &inside.gid_map),
        ];
        for (fact, asked, outside, inside) in sides {
            let reaches_root = |map: &Vec<Range>| map.iter().any(|range| range.outside == 0);
            let found = Found {
                asked: map_text(asked),
                outside: outside.map(|map| map_text(map)),
                inside: Some(map_text(inside)),
                // The two sides are different namespaces: only the host's numbers can be compared.
                holds: outside.is_some_and(|map| map == asked && !reaches_root(map)),
            };
            self.push(fact, found);
        }
    }

    fn identity(&mut self) {
        let user = self.asked.user;
        let status = &self.observed.inside.workload.status;
        let outside = self.observed.outside.as_ref();
        // Process 1 has the same user; the host sees it through the map.
        let expected = self
            .asked
            .ids
            .as_ref()
            .map(|maps| (through(&maps.uids, user.uid), through(&maps.gids, user.gid)));
        let outside_holds = match (outside, expected) {
            (Some(seen), Some((uid, gid))) => {
                seen.status.uids.iter().all(|found| Some(*found) == uid)
                    && seen.status.gids.iter().all(|found| Some(*found) == gid)
            }
            (Some(_), None) | (None, _) => true,
        };
        // Where it is known, whoever cannot be seen is not him.
        let is_expected = self.asked.outside_uid.is_none_or(|uid| {
            outside.is_some_and(|seen| seen.status.uids.iter().all(|found| *found == uid))
        });
        let as_seen = self.asked.outside_uid.map(|uid| format!(", {uid} outside"));
        let found = Found {
            asked: format!("{}:{}{}", user.uid, user.gid, as_seen.unwrap_or_default()),
            outside: outside.map(|seen| ids_text(&seen.status)),
            inside: Some(ids_text(status)),
            holds: status.uids.iter().all(|found| *found == user.uid)
                && status.gids.iter().all(|found| *found == user.gid)
                && outside_holds
                && is_expected,
        };
        self.push(Fact::User, found);
        let others: Vec<u32> =
            status.groups.iter().copied().filter(|group| *group != user.gid).collect();
        let shown: Vec<String> = others.iter().map(u32::to_string).collect();
        let (asked, holds) = match self.asked.groups {
            GroupsAsked::None => ("none besides", others.is_empty()),
            GroupsAsked::Nameless => {
                ("none with a number", others.iter().all(|group| *group == NAMELESS))
            }
            GroupsAsked::Given => ("the image's", true),
        };
        let found = Found {
            asked: asked.to_owned(),
            outside: None,
            inside: Some(if others.is_empty() { "none".to_owned() } else { shown.join(", ") }),
            holds,
        };
        self.push(Fact::Groups, found);
    }

    fn power(&mut self) {
        let command = &self.observed.inside.workload.status;
        let one = &self.observed.inside.supervisor.status;
        let outside = self.observed.outside.as_ref().map(|seen| &seen.status);
        let all =
            |test: fn(&Status) -> bool| test(command) && test(one) && outside.is_none_or(test);
        let word = |status: &Status| if status.no_new_privs { "on" } else { "off" }.to_owned();
        self.capabilities();
        let found = Found {
            asked: "on".to_owned(),
            outside: outside.map(word),
            inside: Some(word(worse(command, one, |status| status.no_new_privs))),
            holds: all(|status| status.no_new_privs),
        };
        self.push(Fact::NoNewPrivs, found);
        // The host itself may be filtered; ours must stand on top of what process 1 has.
        let is_stacked = match (command.seccomp_filters, one.seccomp_filters) {
            (Some(command), Some(one)) => command > one,
            _ => one.seccomp == 0,
        };
        let filters = command.seccomp_filters.map(|count| format!(" ({count})"));
        let found = Found {
            asked: "our filter".to_owned(),
            outside: None,
            inside: Some(match command.seccomp {
                2 => format!("filter{}", filters.unwrap_or_default()),
                mode => format!("mode {mode}"),
            }),
            holds: command.seccomp == 2 && is_stacked,
        };
        self.push(Fact::Seccomp, found);
    }

    /// None at all. In a container an engine owns process 1, and who is not root there cannot empty
    /// the bounding set; without the other four, and with no-new-privs, it gives nothing.
    fn capabilities(&mut self) {
        let command = &self.observed.inside.workload.status;
        let one = &self.observed.inside.supervisor.status;
        let outside = self.observed.outside.as_ref().map(|seen| &seen.status);
        let text = |status: &Status| {
            let sets = status.capabilities;
            let named = [
                ("effective", sets.effective),
                ("permitted", sets.permitted),
                ("inheritable", sets.inheritable),
                ("bounding", sets.bounding),
                ("ambient", sets.ambient),
            ];
            let left: Vec<String> = named
                .iter()
                .filter(|(_, bits)| *bits != 0)
                .map(|(name, bits)| format!("{name} {bits:x}"))
                .collect();
            if left.is_empty() { "none".to_owned() } else { left.join(", ") }
        };
        let is_none = |status: &Status| status.capabilities.are_none();
        let found = match self.asked.backend {
            Backend::Native => Found {
                asked: "none".to_owned(),
                outside: outside.map(text),
                inside: Some(text(worse(command, one, is_none))),
                holds: is_none(command) && is_none(one) && outside.is_none_or(is_none),
            },
            Backend::Docker | Backend::Ssh | Backend::OpenShell | Backend::Kubernetes => Found {
                asked: "none".to_owned(),
                outside: None,
                inside: Some(text(command)),
                holds: Capabilities { bounding: 0, ..command.capabilities }.are_none(),
            },
        };
        self.push(Fact::Capabilities, found);
    }

    fn landlock(&mut self) {
        let found = self.observed.inside.landlock;
        let is_in_force = found.abi > 0 && found.effect == LandlockEffect::Refuses;
        let (asked, holds) = match self.asked.landlock {
            LandlockAsked::Required => ("required", is_in_force),
            LandlockAsked::IfPresent => ("if the kernel has it", is_in_force || found.abi == 0),
            LandlockAsked::OpenEverywhere => ("no place shut", true),
        };
        let inside = match found.abi {
            0 => "the kernel has none".to_owned(),
            abi if is_in_force => format!("in force, ABI {abi}"),
            abi => format!("ABI {abi}, refuses nothing"),
        };
        let found = Found { asked: asked.to_owned(), outside: None, inside: Some(inside), holds };
        self.push(Fact::Landlock, found);
    }

    fn mounts(&mut self) {
        let outside = self.observed.outside.as_ref().map(|seen| seen.mounts.as_slice());
        let inside = self.observed.inside.mounts.as_slice();
        let (asked, is_exact) = match &self.asked.mounts {
            MountsAsked::Exactly(asked) => (asked, true),
            MountsAsked::AtLeast(asked) => (asked, false),
        };
        for mount in asked {
            // What an engine has mounted travels as the engine wants it.
            let is_apart = |mounts: &[MountFact]| {
                let mut here = mounts.iter().filter(|found| covers(mount, found));
                !is_exact || here.all(|found| found.is_private)
            };
            let holds = |mounts: &[MountFact]| mount_holds(mount, mounts) && is_apart(mounts);
            let found = Found {
                asked: asked_text(mount),
                outside: outside.map(|mounts| mount_text(mount, mounts)),
                inside: Some(inside_text(mount, inside)),
                holds: holds(inside) && outside.is_none_or(holds) && source_holds(mount, inside),
            };
            self.push(Fact::Mount(mount.target.clone()), found);
        }
        if !is_exact {
            return;
        }
        let mut extra: Vec<&MountFact> = Vec::new();
        for mount in outside.unwrap_or_default().iter().chain(inside) {
            if !asked.iter().any(|asked| covers(asked, mount))
                && !extra.iter().any(|known| known.target == mount.target)
            {
                extra.push(mount);
            }
        }
        for mount in extra {
            let shown = |mounts: &[MountFact]| {
                let is_there = mounts.iter().any(|found| found.target == mount.target);
                if is_there {
                    format!("{} mounted", mount.file_system)
                } else {
                    "absent".to_owned()
                }
            };
            let found = Found {
                asked: "absent".to_owned(),
                outside: outside.map(shown),
                inside: Some(shown(inside)),
                holds: false,
            };
            self.push(Fact::Mount(mount.target.clone()), found);
        }
    }

    fn interfaces(&mut self) {
        let interfaces = &self.observed.inside.interfaces;
        let names: Vec<&str> = interfaces.iter().map(|found| found.name.as_str()).collect();
        let only_loopback = interfaces.iter().all(|found| found.kind == InterfaceKind::Loopback);
        let (asked, holds) = match self.asked.interfaces {
            Interfaces::LoopbackOnly => ("loopback only", only_loopback),
            Interfaces::Given => ("the engine's", true),
        };
        let inside = if names.is_empty() { "none".to_owned() } else { names.join(", ") };
        let found = Found { asked: asked.to_owned(), outside: None, inside: Some(inside), holds };
        self.push(Fact::Interfaces, found);
    }

    fn limits(&mut self) {
        for Rlimit { kind, soft, hard } in &self.asked.rlimits {
            let limits = &self.observed.inside.workload.limits;
            let seen = limits.iter().find(|(known, _)| known == kind).map(|(_, limit)| *limit);
            let wanted = Limit { soft: number(*soft), hard: number(*hard) };
            let found = Found {
                asked: limit_text(wanted),
                outside: None,
                inside: seen.map(limit_text),
                holds: seen == Some(wanted),
            };
            self.push(Fact::Rlimit(*kind), found);
        }
        let asked = self.asked.cgroup;
        let CgroupLimits { memory, pids, cpu_millis } = self.observed.cgroup.unwrap_or_default();
        for (name, wanted, seen) in [
            ("memory", asked.memory, memory),
            ("pids", asked.pids, pids),
            ("cpu", asked.cpu_millis, cpu_millis),
        ] {
            let Some(wanted) = wanted else { continue };
            let found = Found {
                asked: wanted.to_string(),
                outside: seen.map(|limit| limit.to_string()),
                inside: None,
                // The kernel rounds memory down to whole pages.
                holds: seen.is_some_and(|seen| seen <= wanted && wanted - seen < 65_536),
            };
            self.push(Fact::Cgroup(name), found);
        }
    }

    fn process_one(&mut self) {
        let inside = &self.observed.inside;
        let descriptors = &inside.workload.descriptors;
        let list: Vec<String> = descriptors.iter().map(u32::to_string).collect();
        let found = Found {
            asked: "0, 1, 2".to_owned(),
            outside: None,
            inside: Some(list.join(", ")),
            holds: descriptors.iter().all(|number| STREAMS.contains(number)),
        };
        self.push(Fact::Descriptors, found);
        // Before it closes itself it must be open, or nobody could have observed it.
        match inside.sealing {
            Sealing::Before => {}
            Sealing::After => {
                let Process { memory, .. } = &inside.supervisor;
                let word = match memory {
                    Memory::Open => "open",
                    Memory::Closed => "closed",
                };
                let found = Found {
                    asked: "closed".to_owned(),
                    outside: None,
                    inside: Some(word.to_owned()),
                    holds: *memory == Memory::Closed,
                };
                self.push(Fact::Memory, found);
            }
        }
    }
}

fn find(namespaces: &[(String, u64)], kind: &str) -> Option<u64> {
    namespaces.iter().find(|(name, _)| name == kind).map(|(_, number)| *number)
}

/// The one of two processes that has less of a protection.
fn worse<'a>(first: &'a Status, second: &'a Status, holds: fn(&Status) -> bool) -> &'a Status {
    if holds(first) { second } else { first }
}

fn map_text(map: &[Range]) -> String {
    let lines: Vec<String> = map
        .iter()
        .map(|range| format!("{}={}+{}", range.inside, range.outside, range.count))
        .collect();
    lines.join(" ")
}

fn through(map: &[Range], inside: u32) -> Option<u32> {
    map.iter().find_map(|range| {
        let offset = inside.checked_sub(range.inside).filter(|offset| *offset < range.count)?;
        range.outside.checked_add(offset)
    })
}

fn ids_text(status: &Status) -> String {
    let text = |ids: &[u32; 4]| {
        let [real, effective, saved, files] = *ids;
        if [effective, saved, files] == [real; 3] {
            real.to_string()
        } else {
            format!("{real}/{effective}/{saved}/{files}")
        }
    };
    format!("{}:{}", text(&status.uids), text(&status.gids))
}

/// The topmost mount at a place is the one in effect.
fn at<'a>(target: &str, mounts: &'a [MountFact]) -> Option<&'a MountFact> {
    mounts.iter().rev().find(|mount| mount.target == target)
}

fn has(mount: &MountFact, flags: &[&'static str]) -> bool {
    flags.iter().all(|flag| mount.options.iter().any(|option| option == flag))
}

fn mount_holds(asked: &MountAsked, mounts: &[MountFact]) -> bool {
    let is_below = |mount: &&MountFact| {
        mount.target != asked.target && posix::is_inside(&asked.target, &mount.target)
    };
    let below_holds = match asked.below {
        Below::Nothing => true,
        Below::Submounts => mounts.iter().filter(is_below).all(|mount| has(mount, &asked.flags)),
    };
    at(&asked.target, mounts).is_some_and(|mount| has(mount, &asked.flags)) && below_holds
}

/// The kernel's list of mounts has no name of a file that cannot be forged by whoever renames it, so
/// the file is looked at: from inside, where it is mounted.
fn source_holds(asked: &MountAsked, inside: &[MountFact]) -> bool {
    match asked.source {
        SourceAsked::Any => true,
        SourceAsked::Gone => false,
        SourceAsked::Is(file) => {
            at(&asked.target, inside).is_some_and(|mount| mount.source == Some(file))
        }
    }
}

fn asked_text(asked: &MountAsked) -> String {
    let flags = asked.flags.join(",");
    match asked.source {
        SourceAsked::Any => flags,
        SourceAsked::Is(file) => format!("{flags} of {}", file_text(file)),
        SourceAsked::Gone => format!("{flags} of what is no longer there"),
    }
}

fn inside_text(asked: &MountAsked, inside: &[MountFact]) -> String {
    let text = mount_text(asked, inside);
    let source = at(&asked.target, inside).map(|mount| mount.source);
    match (asked.source, source) {
        (SourceAsked::Any, _) | (SourceAsked::Is(_) | SourceAsked::Gone, None) => text,
        (SourceAsked::Is(_) | SourceAsked::Gone, Some(Some(file))) => {
            format!("{text} of {}", file_text(file))
        }
        (SourceAsked::Is(_) | SourceAsked::Gone, Some(None)) => {
            format!("{text} of an unknown file")
        }
    }
}

fn file_text(file: FileId) -> String {
    format!("file {} on device {}", file.inode, file.device)
}

fn mount_text(asked: &MountAsked, mounts: &[MountFact]) -> String {
    match at(&asked.target, mounts) {
        None => "not mounted".to_owned(),
        Some(mount) => {
            let shown = ["ro", "rw", "nosuid", "nodev", "noexec"];
            let options = shown.into_iter().filter(|word| has(mount, &[word]));
            let joined = (!mount.is_private).then_some("joined to mounts elsewhere");
            options.chain(joined).collect::<Vec<_>>().join(",")
        }
    }
}

fn covers(asked: &MountAsked, mount: &MountFact) -> bool {
    asked.target == mount.target
        || match asked.below {
            Below::Nothing => false,
            Below::Submounts => posix::is_inside(&asked.target, &mount.target),
        }
}

const fn number(bound: Bound) -> Option<u64> {
    match bound {
        Bound::At(number) => Some(number),
        Bound::Unlimited => None,
    }
}

fn limit_text(limit: Limit) -> String {
    let text = |bound: Option<u64>| bound.map_or("unlimited".to_owned(), |bound| bound.to_string());
    format!("{}:{}", text(limit.soft), text(limit.hard))
}
