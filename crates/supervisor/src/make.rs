//! The pen maker: turns a pen spec into process 1 of a new pen, and ends.
//!
//! It stays on the host and does the little that cannot be done from inside: it writes the id maps, opens
//! what the pen's own user could not reach, maps the ids of those mounts, and enters control groups.
//! Everything else is done by the clone in its own namespaces (`init.rs`), where a mistake hurts nobody.
//!
//! ```text
//! maker                                   clone (process 1)
//!   clone into new namespaces ──────────►   waits: it has no ids yet and may make nothing
//!   waits for the pen spec
//!   id maps, control groups
//!   S: spec and socket ─────────────────►   keeps them
//!   reports its number
//!   G: go ──────────────────────────────►   begins to build
//!   T: host mounts as descriptors ──────►   takes them in the order of the spec, when it comes to them
//!   ends                                    gives up its power, reports ready
//! ```
//!
//! Nothing before the wait depends on the pen: the engine starts a maker while it still decides, and keeps
//! some ready where pens are made often.
//!
//! If the maker dies on the way, the clone reads the end of the stream and ends too: no half-made pen stays.

use std::collections::VecDeque;
use std::fs::{self, File};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::process::{Command, Stdio};

use clawpen_os::beneath::{self, Open};
use clawpen_os::mounts::{self, Extent, Mount, MountFlags, Propagation};
use clawpen_os::namespaces::{self, IdRange, Namespaces};
use clawpen_os::process::{self, Child, Forked, Pid, Signal};
use clawpen_os::processors::{Apart, Processor};
use clawpen_os::sockets;
use clawpen_wire::pen::{
    self, BindOwner, IdPlan, IdWriter, MakePlan, MountStep, PenSpec, Submounts,
};
use clawpen_wire::supervisor::limits;

use crate::faults;
use crate::init;
use crate::report::{Failure, Report, Step as _};

/// Where the helpers of the package `uidmap` are; the environment is not asked.
const HELPERS: [&str; 3] = ["/usr/bin", "/bin", "/usr/local/bin"];

/// Mounts that are handed over at once: process 1 takes up the first ones while the next are opened.
const BATCH: usize = 4;

pub(crate) fn run() -> Result<(), Failure> {
    let report = Report::new(process::inherited(3).step("take descriptor 3")?);
    close_strangers().inspect_err(|failure| report.failed(failure))?;
    make_for(&report)
}

/// The maker's life, with nothing open but `report` and what every process has.
pub(crate) fn make_for(report: &Report) -> Result<(), Failure> {
    // In the clone this is process 1's whole life; both report here, so each failure is told once.
    make(report).inspect_err(|failure| report.failed(failure))
}

fn make(report: &Report) -> Result<(), Failure> {
    let (ours, theirs) = sockets::pair(sockets::Kind::Messages).step("make a socket pair")?;
    let here = Processor::here();
    let forked = process::clone3(namespaces(), None);
    match forked.step("clone into new namespaces")? {
        Forked::Child => {
            drop(ours);
            // Both of us have work as soon as the order comes.
            let apart = Apart::from(here);
            let Some(Handed { mut spec, socket }) = receive(theirs.as_fd())? else {
                return Ok(());
            };
            faults::spoil(&mut spec);
            let PenSpec { make, serve } = spec;
            let maker = MakerSide { socket: theirs, _apart: apart };
            init::become_process_1(*make.ok_or_else(no_plan)?, serve, socket, maker, report)
        }
        Forked::Parent(child) => {
            drop(theirs);
            hand_over(&child, ours.as_fd(), report).inspect_err(|_| {
                // Nobody will ever tell it to go on.
                let _ = child.signal(Signal::KILL);
            })
        }
    }
}

fn no_plan() -> Failure {
    Failure::new("the pen spec does not say how to make a pen")
}

/// Closes what came through exec and was not asked for. Everything opened since is owned by a value here.
pub(crate) fn close_strangers() -> Result<(), Failure> {
    let open = fs::read_dir("/proc/self/fd").step("look at our own descriptors")?;
    let numbers: Vec<i32> =
        open.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect();
    for number in numbers {
        // Fails for our own and for 0 to 2, which stay.
        drop(process::inherited(number));
    }
    Ok(())
}

/// Reads a spec, from the engine's memory or from a container's file.
pub(crate) fn read_spec(file: File) -> Result<PenSpec, Failure> {
    let length = file.metadata().step("read the pen spec")?.len();
    let most = u64::try_from(limits::PEN_SPEC).unwrap_or(u64::MAX);
    let mut bytes = vec![0; usize::try_from(length.min(most + 1)).unwrap_or(usize::MAX)];
    // From its beginning, wherever the maker has left off: both hold the same open file.
    file.read_exact_at(&mut bytes, 0).step("read the pen spec")?;
    PenSpec::from_bytes(&bytes)
        .map_err(|error| Failure::new(format!("cannot read the pen spec: {error}")))
}

/// A pen whose root is the host's root is no pen: without any capability it may write what belongs to root.
/// The engine never asks for that; this is the second lock on the same door.
fn check_ids(ids: &IdPlan) -> Result<(), Failure> {
    for range in ids.uids.iter().chain(&ids.gids) {
        if range.outside == 0
            || range.count == 0
            || range.outside.checked_add(range.count).is_none()
        {
            return Err(Failure::new(format!(
                "the id map {} {} {} is refused: it reaches the host's root, or nothing",
                range.inside, range.outside, range.count
            )));
        }
    }
    Ok(())
}

fn namespaces() -> Namespaces {
    let mut wanted = Namespaces::NONE;
    let all = [
        (Namespaces::USER, "user-namespace"),
        (Namespaces::PID, "pid-namespace"),
        (Namespaces::MOUNT, "mount-namespace"),
        (Namespaces::NETWORK, "net-namespace"),
        (Namespaces::IPC, "ipc-namespace"),
        (Namespaces::UTS, "uts-namespace"),
        (Namespaces::CGROUP, "cgroup-namespace"),
    ];
    for (namespace, fault) in all {
        if !faults::is_off(fault) {
            wanted = wanted | namespace;
        }
    }
    wanted
}

/// Waits for the engine's order and does what only the host's side can.
fn hand_over(child: &Child, to: BorrowedFd<'_>, report: &Report) -> Result<(), Failure> {
    let Some([spec, socket]) = report.order()? else {
        // A maker that was kept ready and never needed.
        let _ = child.signal(Signal::KILL);
        return Ok(());
    };
    let order = [spec.as_fd(), socket.as_fd()];
    sockets::send(to, b"S", &order).step("hand the pen spec over")?;
    // Ours would keep the engine from seeing that process 1 has closed it.
    drop(socket);
    let mut spec = read_spec(File::from(spec))?;
    let plan = spec.make.as_ref().ok_or_else(no_plan)?;
    if plan.namespaces != pen::Namespaces::ALL {
        return Err(Failure::new("the pen spec leaves a namespace out; a pen has all of them"));
    }
    check_ids(&plan.ids)?;
    faults::spoil(&mut spec);
    let plan = spec.make.ok_or_else(no_plan)?;
    if !faults::is_off("user-namespace") {
        write_id_maps(&plan.ids, child.pid())?;
    }
    for entry in &plan.cgroups {
        if !faults::is_off("cgroups") {
            fs::write(entry.directory.join("cgroup.procs"), child.pid().to_string())
                .step_with(|| format!("enter control group `{}`", entry.directory.display()))?;
        }
    }
    // An ordinary user has no power over mounts out here: the clone opens them itself. Before the go: then process
    // 1 changes its ids, and is closed to whoever lacks the power to look into others.
    let user_namespace = if plan.ids.writer == IdWriter::Direct {
        let opened = namespaces::open(child.pid(), Namespaces::USER);
        Some(opened.step("open the pen's user namespace")?)
    } else {
        None
    };
    // First to the engine: somebody must be able to end process 1, whatever becomes of us.
    report.made(child)?;
    sockets::send(to, b"G", &[]).step("tell the pen's first process to go on")?;
    if let Some(user_namespace) = user_namespace {
        let mut batch = Vec::new();
        host_trees(&plan, Some(user_namespace.as_fd()), &mut |tree| {
            batch.push(tree);
            if batch.len() == BATCH { send_trees(to, &mut batch) } else { Ok(()) }
        })?;
        send_trees(to, &mut batch)?;
    }
    Ok(())
}

fn send_trees(to: BorrowedFd<'_>, batch: &mut Vec<Mount>) -> Result<(), Failure> {
    if batch.is_empty() {
        return Ok(());
    }
    let descriptors: Vec<_> = batch.iter().map(AsFd::as_fd).collect();
    sockets::send(to, b"T", &descriptors).step("hand mounts over")?;
    batch.clear();
    Ok(())
}

/// What the clone gets before the go.
struct Handed {
    spec: PenSpec,
    socket: OwnedFd,
}

/// What process 1 has of its maker, as long as that works for it.
pub(crate) struct MakerSide {
    socket: OwnedFd,
    _apart: Apart,
}

/// The host's mounts in the order of the spec.
pub(crate) enum Trees {
    /// All here.
    Opened(VecDeque<Mount>),
    /// The maker opens them while we build.
    FromMaker { maker: MakerSide, here: VecDeque<Mount> },
}

impl Trees {
    pub(crate) fn from_maker(maker: MakerSide) -> Self {
        Self::FromMaker { maker, here: VecDeque::new() }
    }

    /// The next one; `None` if there are no more, or the maker has ended, who then says why.
    pub(crate) fn next(&mut self) -> Result<Option<Mount>, Failure> {
        match self {
            Self::Opened(trees) => Ok(trees.pop_front()),
            Self::FromMaker { maker, here } => {
                if here.is_empty() {
                    let mut kind = [0_u8; 1];
                    let from = maker.socket.as_fd();
                    let message = sockets::receive(from, &mut kind, sockets::MAX_DESCRIPTORS)
                        .step("wait for the maker")?;
                    if (message.bytes, kind) == (1, *b"T") {
                        here.extend(message.descriptors.into_iter().map(Mount::from_fd));
                    }
                }
                Ok(here.pop_front())
            }
        }
    }
}

/// The clone's side: everything that came before the go; `None` if the maker was never needed.
fn receive(from: BorrowedFd<'_>) -> Result<Option<Handed>, Failure> {
    let mut order = None;
    loop {
        let mut kind = [0_u8; 1];
        let message = sockets::receive(from, &mut kind, sockets::MAX_DESCRIPTORS)
            .step("wait for the maker")?;
        match (message.bytes, kind) {
            (1, [b'S']) => {
                let [spec, socket] = <[OwnedFd; 2]>::try_from(message.descriptors)
                    .map_err(|_others| Failure::new("the maker handed no pen spec over"))?;
                order = Some((read_spec(File::from(spec))?, socket));
            }
            (1, [b'G']) => {
                let (spec, socket) =
                    order.ok_or_else(|| Failure::new("the maker handed no pen spec over"))?;
                return Ok(Some(Handed { spec, socket }));
            }
            _ if order.is_none() => return Ok(None),
            _ => return Err(Failure::new("the maker ended before the pen could be built")),
        }
    }
}

fn write_id_maps(ids: &IdPlan, child: Pid) -> Result<(), Failure> {
    match ids.writer {
        IdWriter::Direct => {
            namespaces::write_gid_map(child, &ranges(&ids.gids)).step("write the group map")?;
            namespaces::write_uid_map(child, &ranges(&ids.uids)).step("write the user map")
        }
        IdWriter::Helpers => {
            run_helper("newgidmap", child, &ids.gids)?;
            run_helper("newuidmap", child, &ids.uids)
        }
        IdWriter::Single => {
            // The kernel lets an ordinary user map a group only after this: a group can also take
            // rights away, and `setgroups` would shake it off.
            namespaces::deny_setgroups(child).step("deny setgroups")?;
            namespaces::write_gid_map(child, &ranges(&ids.gids)).step("write the group map")?;
            namespaces::write_uid_map(child, &ranges(&ids.uids)).step("write the user map")
        }
    }
}

fn run_helper(name: &str, child: Pid, map: &[pen::IdRange]) -> Result<(), Failure> {
    let program = HELPERS
        .iter()
        .map(|directory| Path::new(directory).join(name))
        .find(|program| program.exists())
        .ok_or_else(|| {
            Failure::new(format!("`{name}` is missing; install the package `uidmap`"))
        })?;
    let numbers = map.iter().flat_map(|range| [range.inside, range.outside, range.count]);
    let output = Command::new(&program)
        .arg(child.to_string())
        .args(numbers.map(|number| number.to_string()))
        .env_clear()
        .stdin(Stdio::null())
        .output()
        .step_with(|| format!("run `{}`", program.display()))?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    Err(Failure::new(format!("`{}` refused: {}", program.display(), said.trim())))
}

fn ranges(map: &[pen::IdRange]) -> Vec<IdRange> {
    map.iter()
        .map(|&pen::IdRange { inside, outside, count }| IdRange { inside, outside, count })
        .collect()
}

/// Gives every mount of the host that the spec asks for, in its order. `user_namespace` is the pen's, where
/// ids can be mapped; without one an idmapped mount is refused.
pub(crate) fn host_trees(
    plan: &MakePlan,
    user_namespace: Option<BorrowedFd<'_>>,
    give: &mut dyn FnMut(Mount) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let host = beneath::open_root(Path::new("/")).step("open the host's root")?;
    for step in &plan.root {
        match step {
            MountStep::Bind { source, target, flags, submounts, owner } => {
                let extent = match submounts {
                    Submounts::Leave => Extent::One,
                    Submounts::Bring => Extent::Tree,
                };
                let tree = host_tree(host.as_fd(), source, extent)?;
                let map = || format!("map the ids of `{}`", source.display());
                match (owner, user_namespace) {
                    (BindOwner::AsIs, _) => {}
                    (BindOwner::SameIds, Some(pen)) => tree.map_ids(pen, extent).step_with(map)?,
                    (BindOwner::Mapped { uids, gids }, Some(_)) => {
                        let uids = on_disk_to_host(uids, &plan.ids.uids)?;
                        let gids = on_disk_to_host(gids, &plan.ids.gids)?;
                        let namespace = namespaces::user_namespace(&uids, &gids).step_with(map)?;
                        tree.map_ids(namespace.as_fd(), extent).step_with(map)?;
                    }
                    (BindOwner::SameIds | BindOwner::Mapped { .. }, None) => {
                        let what = format!("cannot {}: only root can; bind it as it is", map());
                        return Err(Failure::new(what));
                    }
                }
                tree.restrict(faults::flags(target, bind_flags(*flags)), extent)
                    .step_with(|| format!("restrict `{}`", source.display()))?;
                give(tree)?;
            }
            MountStep::Device { source, target } => {
                let tree = host_tree(host.as_fd(), source, Extent::One)?;
                let flags = faults::flags(target, MountFlags::NO_SUID | MountFlags::NO_EXEC);
                tree.restrict(flags, Extent::One)
                    .step_with(|| format!("restrict `{}`", source.display()))?;
                give(tree)?;
            }
            MountStep::Directory { .. }
            | MountStep::Tmpfs { .. }
            | MountStep::Proc { .. }
            | MountStep::Devpts { .. }
            | MountStep::File { .. }
            | MountStep::Symlink { .. }
            | MountStep::Mask { .. }
            | MountStep::ReadOnly { .. }
            | MountStep::Mqueue { .. } => {}
        }
    }
    Ok(())
}

/// Opens `source` and makes sure that no link was followed on the way: the engine has resolved it, so a link
/// means that someone has changed the path since, and what it leads to was never checked.
fn host_tree(host: BorrowedFd<'_>, source: &Path, extent: Extent) -> Result<Mount, Failure> {
    let open = || format!("open `{}`", source.display());
    let opened = beneath::open(host, source, Open::Handle).step_with(open)?;
    let number = std::os::fd::AsRawFd::as_raw_fd(&opened);
    let real = fs::read_link(format!("/proc/self/fd/{number}")).step_with(open)?;
    if real != source {
        return Err(Failure::new(format!(
            "`{}` leads to `{}`: the path has changed since it was checked",
            source.display(),
            real.display()
        )));
    }
    let kind = beneath::stat(opened.as_fd()).step_with(open)?.kind;
    if kind == beneath::Kind::Symlink {
        return Err(Failure::new(format!("`{}` is a link", source.display())));
    }
    let tree = Mount::clone_of(opened.as_fd(), Path::new(""), extent)
        .step_with(|| format!("clone the mount of `{}`", source.display()))?;
    // A copy of a shared mount is a peer of it, also in another namespace: what is mounted on one side appears
    // on the other.
    mounts::set_propagation_at(tree.as_fd(), Path::new(""), Propagation::Private, Extent::Tree)
        .step_with(|| format!("make the mount of `{}` private", source.display()))?;
    Ok(tree)
}

pub(crate) fn bind_flags(flags: pen::MountFlags) -> MountFlags {
    let mut wanted = MountFlags::NONE;
    if !faults::is_off("nosuid") {
        wanted = wanted | MountFlags::NO_SUID;
    }
    if !faults::is_off("nodev") {
        wanted = wanted | MountFlags::NO_DEV;
    }
    if flags.has(pen::MountFlags::READ_ONLY) && !faults::is_off("read-only") {
        wanted = wanted | MountFlags::READ_ONLY;
    }
    if flags.has(pen::MountFlags::NO_EXEC) && !faults::is_off("noexec") {
        wanted = wanted | MountFlags::NO_EXEC;
    }
    wanted
}

/// The map of an idmapped mount: ids on disk to ids of the host, by way of the ids in the pen.
fn on_disk_to_host(wanted: &[pen::IdRange], pen: &[pen::IdRange]) -> Result<Vec<IdRange>, Failure> {
    let mut map = Vec::new();
    for range in wanted {
        let (mut inside, mut on_disk, mut left) = (range.inside, range.outside, range.count);
        while left > 0 {
            let holds = |part: &&pen::IdRange| {
                inside.checked_sub(part.inside).is_some_and(|distance| distance < part.count)
            };
            let part = pen.iter().find(holds).ok_or_else(|| {
                Failure::new(format!("id {inside} of a bind is not in the pen's id map"))
            })?;
            let distance = inside - part.inside;
            let count = left.min(part.count - distance);
            map.push(IdRange {
                inside: on_disk,
                outside: part.outside.saturating_add(distance),
                count,
            });
            inside = inside.saturating_add(count);
            on_disk = on_disk.saturating_add(count);
            left -= count;
        }
    }
    Ok(map)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_on_disk_reach_the_host_through_the_pen() {
        let pen = [range(0, 1000, 1), range(1, 100_000, 10)];
        check(&[range(0, 5, 1)], &pen, Some(&[(5, 1000, 1)]));
        check(&[range(3, 1000, 2)], &pen, Some(&[(1000, 100_002, 2)]));
        check(&[range(0, 50, 3)], &pen, Some(&[(50, 1000, 1), (51, 100_000, 2)]));
        check(&[range(9, 50, 3)], &pen, None);
    }

    #[test]
    fn a_map_to_the_hosts_root_is_refused() {
        let plan = |outside| IdPlan {
            writer: IdWriter::Direct,
            uids: vec![range(0, 1000, 1)],
            gids: vec![range(0, outside, 1)],
        };
        assert!(check_ids(&plan(1000)).is_ok());
        assert!(check_ids(&plan(0)).is_err());
        assert!(check_ids(&plan(u32::MAX)).is_err());
    }

    fn range(inside: u32, outside: u32, count: u32) -> pen::IdRange {
        pen::IdRange { inside, outside, count }
    }

    #[track_caller]
    fn check(wanted: &[pen::IdRange], pen: &[pen::IdRange], expected: Option<&[(u32, u32, u32)]>) {
        let map = on_disk_to_host(wanted, pen).ok();
        let map: Option<Vec<_>> = map.map(|map| {
            map.iter().map(|range| (range.inside, range.outside, range.count)).collect()
        });
        assert_eq!(map.as_deref(), expected);
    }
}
