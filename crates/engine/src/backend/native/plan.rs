//! Turns a decided pen into the maker's spec, and into what must be observed afterwards. One place
//! makes both, so that nothing can be asked for without being checked.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use clawpen_os::cgroups::{self, Hierarchies, Leaf};
use clawpen_os::{landlock, process};
use clawpen_rules::backend::Backend;
use clawpen_rules::facts::{
    Asked, CgroupLimits, GroupsAsked, Interfaces, LandlockAsked, MapsAsked, MountAsked, MountsAsked,
};
use clawpen_rules::native::ids::{self, Helpers, IdMaps, Range, Starter, Writer};
use clawpen_rules::native::{Bound, Cpu, Keeper, NativePen, PenUser, Rlimit, RlimitKind};
use clawpen_wire::pen::{
    CgroupEntry, CgroupVersion, Credentials, IdPlan, IdRange, IdWriter, LandlockPlan, Lifetime,
    MakePlan, Namespaces, Network, PenSpec, ResourceLimit, ServeCaps, ServePlan,
};
use clawpen_wire::supervisor::EnvVar;

use super::run_directory::RunDirectory;
use super::{Request, Requirement, StartFailure};
use crate::facts::NAMESPACES;
use crate::machine::Subordinate;
use crate::pen_view::{self, Host, Ownership};
use crate::seccomp;

/// Where programs are looked for if the config does not say.
const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
/// Directories in which the helpers for subordinate ids are; the same that the maker tries.
const HELPER_DIRECTORIES: [&str; 3] = ["/usr/bin", "/bin", "/usr/local/bin"];
/// One byte: no core file can be written, and unlike zero it also stops a program of the host from
/// being started to take one.
const NO_CORE: u64 = 1;
/// What new files may be for others: read.
const UMASK: u32 = 0o022;

/// A pen in every detail but its control group, which is made for one pen alone. Equal ones make pens that nobody
/// can tell apart.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Blueprint {
    pub(super) spec: PenSpec,
    pub(super) asked: Asked,
    limits: CgroupLimits,
    /// What of the host's mounts the pen's mounts come from and lie on, in the kernel's words: a file system that was
    /// made read-only since, or something mounted over a part of it, makes another pen.
    host_mounts: BTreeSet<String>,
}

/// A blueprint and the control group of the one pen that is made from it.
pub(super) struct Plan {
    pub(super) spec: PenSpec,
    pub(super) leaf: Option<Leaf>,
}

/// Everything that is needed to make a pen. Looks at the host and changes nothing.
pub(super) fn draw(request: &Request<'_>) -> Result<Blueprint, StartFailure> {
    let pen = request.pen;
    let maps = id_maps(pen, request.name)?;
    let host = Host::look_around()?;
    let view = pen_view::build(pen, ownership(&maps), &host)?;
    let rlimits = rlimits(pen);
    check_required(request, &maps)?;
    let landlock_required = request.require.contains(&Requirement::Landlock);
    let asked = asked(request, &maps, view.mounts);
    let make = MakePlan {
        hostname: pen_view::HOST_NAME.to_owned(),
        namespaces: Namespaces::ALL,
        ids: id_plan(&maps),
        root: view.steps,
        network: Network::None,
        cgroups: Vec::new(),
    };
    let serve = ServePlan {
        lifetime: request.lifetime,
        user: Credentials { uid: pen.user().uid, gid: pen.user().gid, groups: Vec::new() },
        workdir: pen.workdir().into(),
        env: environment(pen),
        rlimits: rlimits.iter().map(resource_limit).collect(),
        umask: UMASK,
        seccomp: seccomp::workload().bytes(),
        landlock: LandlockPlan {
            lowest_abi: u32::from(landlock_required),
            rules: view.landlock,
            // There is nothing to connect to but the pen itself.
            tcp: true,
        },
        roots: view.roots,
        caps: ServeCaps::default(),
    };
    let spec = PenSpec { make: Some(Box::new(make)), serve };
    let mut blueprint =
        Blueprint { spec, asked, limits: group_limits(pen), host_mounts: BTreeSet::new() };
    let about = blueprint.binds().flat_map(|(source, _)| host.about(source)).cloned();
    blueprint.host_mounts = about.collect();
    Ok(blueprint)
}

impl Blueprint {
    /// Whether a pen needs a directory on the host: to be found again, or for its control group to be.
    pub(super) fn needs_directory(&self) -> bool {
        match self.spec.serve.lifetime {
            Lifetime::Persistent => true,
            Lifetime::UntilDisconnect => self.limits != CgroupLimits::default(),
        }
    }

    /// For one pen: with its control group made, and noted in `directory`.
    pub(super) fn furnish(&self, directory: Option<&RunDirectory>) -> Result<Plan, StartFailure> {
        let (leaf, cgroups) = match directory {
            Some(directory) => cgroup(self.limits, directory)?,
            None if self.needs_directory() => {
                let cause = io::ErrorKind::NotFound.into();
                return Err(StartFailure::System { what: "make a control group", cause });
            }
            None => (None, Vec::new()),
        };
        let mut spec = self.spec.clone();
        if let Some(make) = &mut spec.make {
            make.cgroups = cgroups;
        }
        Ok(Plan { spec, leaf })
    }
}

/// What must be observed of a pen of `request`; nothing is made.
pub(super) fn asked_of(request: &Request<'_>) -> Result<Asked, StartFailure> {
    let maps = id_maps(request.pen, request.name)?;
    let view = pen_view::build(request.pen, ownership(&maps), &Host::look_around()?)?;
    Ok(asked(request, &maps, view.mounts))
}

fn asked(request: &Request<'_>, maps: &IdMaps, mounts: Vec<MountAsked>) -> Asked {
    Asked {
        backend: Backend::Native,
        user: request.pen.user(),
        // The id map tells.
        outside_uid: None,
        groups: match maps.writer() {
            Writer::Root | Writer::Helpers => GroupsAsked::None,
            Writer::Single => GroupsAsked::Nameless,
        },
        ids: Some(MapsAsked { uids: maps.uids().to_vec(), gids: maps.gids().to_vec() }),
        namespaces: NAMESPACES.to_vec(),
        mounts: MountsAsked::Exactly(mounts),
        interfaces: Interfaces::LoopbackOnly,
        rlimits: rlimits(request.pen),
        cgroup: group_limits(request.pen),
        landlock: if request.require.contains(&Requirement::Landlock) {
            LandlockAsked::Required
        } else {
            LandlockAsked::IfPresent
        },
    }
}

fn ownership(maps: &IdMaps) -> Ownership {
    match maps.writer() {
        Writer::Root => Ownership::Mapped,
        Writer::Helpers | Writer::Single => Ownership::Same,
    }
}

/// Who starts the pen, looked up now.
fn id_maps(pen: &NativePen, name: &str) -> Result<IdMaps, StartFailure> {
    with_starter(|starter| ids::decide(starter, pen.user(), name))
        .map_err(|cause| StartFailure::System { what: "tell who we are", cause })?
        .map_err(StartFailure::Ids)
}

fn with_starter<T>(ask: impl FnOnce(&Starter<'_>) -> T) -> io::Result<T> {
    let identity = process::identity()?;
    let users = fs::read_to_string("/etc/passwd").unwrap_or_default();
    let login = users.lines().find_map(|line| {
        let mut parts = line.split(':');
        let (name, uid) = (parts.next()?, parts.nth(1)?);
        (uid.parse() == Ok(identity.uid)).then_some(name)
    });
    // A file that is missing sets nothing aside.
    let users_aside = fs::read_to_string("/etc/subuid").unwrap_or_default();
    let groups_aside = fs::read_to_string("/etc/subgid").unwrap_or_default();
    Ok(ask(&Starter {
        uid: identity.uid,
        gid: identity.gid,
        name: login,
        subuid: &users_aside,
        subgid: &groups_aside,
        helpers: helpers(),
    }))
}

/// Whether a pen of ours would have more than one id.
pub(crate) fn subordinate() -> Subordinate {
    let user = PenUser { uid: 1000, gid: 1000 };
    match with_starter(|starter| ids::decide(starter, user, "")) {
        Ok(Ok(maps)) if maps.writer() != Writer::Single => Subordinate::Yes,
        Ok(_) | Err(_) => Subordinate::No,
    }
}

/// Whether both helpers are where the maker looks for them, with the power that they need.
pub(crate) fn helpers() -> Helpers {
    let has = |name: &str| {
        let places = HELPER_DIRECTORIES.iter().map(|directory| Path::new(directory).join(name));
        places.filter(|program| program.exists()).take(1).any(|program| has_power(&program))
    };
    if has("newuidmap") && has("newgidmap") { Helpers::Present } else { Helpers::Missing }
}

/// Some systems make them set-user-id, others give them a capability; without either they can only say
/// no.
fn has_power(program: &Path) -> bool {
    let is_set_id = fs::metadata(program).is_ok_and(|found| found.mode() & 0o4000 != 0);
    is_set_id || rustix::fs::getxattr(program, "security.capability", &mut [0_u8; 64][..]).is_ok()
}

fn check_required(request: &Request<'_>, maps: &IdMaps) -> Result<(), StartFailure> {
    for &requirement in request.require {
        let is_given = match requirement {
            Requirement::Landlock => matches!(landlock::abi(), Ok(Some(_))),
            Requirement::Cgroup => Hierarchies::find()
                .is_ok_and(|hierarchies| hierarchies.place(cgroups::Controller::Pids).is_some()),
            Requirement::SubordinateIds => maps.writer() != Writer::Single,
            Requirement::IdmappedMounts => maps.writer() == Writer::Root,
        };
        if !is_given {
            return Err(StartFailure::Required(requirement));
        }
    }
    Ok(())
}

fn id_plan(maps: &IdMaps) -> IdPlan {
    let ranges = |ranges: &[Range]| {
        let range = |&Range { inside, outside, count }: &Range| IdRange { inside, outside, count };
        ranges.iter().map(range).collect()
    };
    IdPlan {
        writer: match maps.writer() {
            Writer::Root => IdWriter::Direct,
            Writer::Helpers => IdWriter::Helpers,
            Writer::Single => IdWriter::Single,
        },
        uids: ranges(maps.uids()),
        gids: ranges(maps.gids()),
    }
}

/// The configured limits, and those every pen has.
fn rlimits(pen: &NativePen) -> Vec<Rlimit> {
    let limits = pen.limits();
    let mut found = limits.rlimits.clone();
    let mut unless_set = |kind: RlimitKind, number: u64| {
        if found.iter().all(|limit| limit.kind != kind) {
            let bound = Bound::At(number);
            found.push(Rlimit { kind, soft: bound, hard: bound });
        }
    };
    unless_set(RlimitKind::Core, NO_CORE);
    match limits.pids_by {
        Keeper::Cgroup => {}
        Keeper::UserNamespace => unless_set(RlimitKind::Processes, limits.pids),
    }
    found
}

fn resource_limit(limit: &Rlimit) -> ResourceLimit {
    let number = |bound| match bound {
        Bound::At(number) => number,
        Bound::Unlimited => u64::MAX,
    };
    ResourceLimit {
        resource: u32::from(limit.kind.number()),
        soft: number(limit.soft),
        hard: number(limit.hard),
    }
}

fn environment(pen: &NativePen) -> Vec<EnvVar> {
    let usual = [("PATH", PATH), ("HOME", pen.workdir())];
    let missing = usual.into_iter().filter(|(name, _)| pen.env().get(name).is_none());
    missing
        .chain(pen.env().iter())
        .map(|(name, value)| EnvVar { name: name.into(), value: value.into() })
        .collect()
}

/// The limits that only a group can keep.
fn group_limits(pen: &NativePen) -> CgroupLimits {
    let limits = pen.limits();
    CgroupLimits {
        memory: limits.memory,
        pids: match limits.pids_by {
            Keeper::Cgroup => Some(limits.pids),
            Keeper::UserNamespace => None,
        },
        cpu_millis: match limits.cpu {
            Cpu::All => None,
            Cpu::Quota(quota) => Some(quota.quota * 1000 / quota.period),
        },
    }
}

/// A group of our own, if a limit needs one.
fn cgroup(
    asked: CgroupLimits,
    directory: &RunDirectory,
) -> Result<(Option<Leaf>, Vec<CgroupEntry>), StartFailure> {
    if asked == CgroupLimits::default() {
        return Ok((None, Vec::new()));
    }
    let failed = |cause| StartFailure::System { what: "make a control group", cause };
    let hierarchies = Hierarchies::find().map_err(failed)?;
    let wanted = super::switches::spoiled(cgroups::Limits {
        memory_bytes: asked.memory,
        pids: asked.pids,
        cpu_millis: asked.cpu_millis,
    });
    let name = group_name(directory.id());
    // First the note, then the group: whoever finds the one finds the other.
    directory.note_groups(&cgroups::directories_of(&hierarchies, &name)).map_err(failed)?;
    let leaf = Leaf::create(&hierarchies, &name, &wanted).map_err(failed)?;
    let unified = hierarchies.unified().map(Path::to_path_buf);
    let entries = leaf
        .directories()
        .map(|directory| CgroupEntry {
            directory: directory.to_owned(),
            version: match &unified {
                Some(unified) if directory.starts_with(unified) => CgroupVersion::Two,
                Some(_) | None => CgroupVersion::One,
            },
        })
        .collect();
    Ok((Some(leaf), entries))
}

/// A pen's control group, named after its directory.
pub(super) fn group_name(id: &str) -> String {
    format!("clawpen-{id}")
}

/// What the kernel says the group enforces; nothing if the process is not in it.
pub(super) fn cgroup_limits(
    leaf: Option<&Leaf>,
    first_process: u32,
) -> Result<Option<CgroupLimits>, StartFailure> {
    let Some(leaf) = leaf else { return Ok(None) };
    let failed = |cause| StartFailure::System { what: "read the control group", cause };
    // In each of its directories: v1 has one per kind of limit.
    for directory in leaf.directories() {
        let text = fs::read_to_string(directory.join("cgroup.procs")).map_err(failed)?;
        if !text.lines().any(|line| line.parse() == Ok(first_process)) {
            return Ok(None);
        }
    }
    let cgroups::Limits { memory_bytes, pids, cpu_millis } = leaf.limits().map_err(failed)?;
    Ok(Some(CgroupLimits { memory: memory_bytes, pids, cpu_millis }))
}
