//! The least that commands run in, for tests that need a real pen.

use clawpen_wire::pen::{
    BindOwner, Credentials, FileRoot, IdPlan, IdRange, IdWriter, LandlockAccess, LandlockPlan,
    LandlockRule, Lifetime, MakePlan, MountFlags, MountStep, Namespaces, Network, RootAccess,
    ServeCaps, ServePlan, Submounts,
};
use clawpen_wire::supervisor::EnvVar;

use super::*;

pub(crate) fn start_pen(
    spec: &PenSpec,
    listener: BorrowedFd<'_>,
) -> Result<ProcessOne, StartPenError> {
    Maker::start()?.order(spec, listener)?.wait()
}

pub(crate) fn listener() -> (tempfile::TempDir, OwnedFd) {
    let directory = tempfile::tempdir().unwrap();
    let place = clawpen_os::beneath::open_root(directory.path()).unwrap();
    let listener = sockets::listen(place.as_fd(), "s".as_ref()).unwrap();
    (directory, listener)
}

/// The least that commands run in, for whoever runs the tests.
pub(crate) fn spec() -> PenSpec {
    let me = process::identity().unwrap();
    let (writer, outside) = match me.uid {
        0 => (IdWriter::Direct, 0x7000_0000),
        _ => (IdWriter::Single, me.uid),
    };
    let ids = |outside| vec![IdRange { inside: 1000, outside, count: 1 }];
    let gid = if me.uid == 0 { outside } else { me.gid };
    let flags = MountFlags { bits: MountFlags::READ_ONLY };
    let bind = |path: &str| MountStep::Bind {
        source: path.into(),
        target: path.into(),
        flags,
        submounts: Submounts::Leave,
        owner: BindOwner::AsIs,
    };
    let mut root = vec![bind("/usr"), MountStep::Proc { target: "/proc".into() }];
    root.push(MountStep::Device { source: "/dev/null".into(), target: "/dev/null".into() });
    for (target, size) in [("/pen", 1 << 22), ("/run", 1 << 24)] {
        root.push(MountStep::Tmpfs {
            target: target.into(),
            size,
            inodes: 0,
            permissions: 0o755,
            flags: MountFlags::NONE,
        });
    }
    for name in ["/bin", "/lib", "/lib64"] {
        root.push(match std::fs::read_link(name) {
            Ok(to) => MountStep::Symlink { target: name.into(), to },
            Err(_) => bind(name),
        });
    }
    let make = MakePlan {
        hostname: "pen".into(),
        namespaces: Namespaces::ALL,
        ids: IdPlan { writer, uids: ids(outside), gids: ids(gid) },
        root,
        network: Network::None,
        cgroups: Vec::new(),
    };
    let serve = ServePlan {
        lifetime: Lifetime::UntilDisconnect,
        user: Credentials { uid: 1000, gid: 1000, groups: Vec::new() },
        workdir: "/pen".into(),
        env: vec![EnvVar { name: "PATH".into(), value: "/usr/bin:/bin".into() }],
        rlimits: Vec::new(),
        umask: 0o022,
        // One instruction: allow everything.
        seccomp: vec![0x06, 0, 0, 0, 0, 0, 0xff, 0x7f],
        landlock: LandlockPlan {
            lowest_abi: 0,
            rules: vec![LandlockRule {
                path: "/".into(),
                access: LandlockAccess::Full,
                optional: false,
            }],
            tcp: true,
        },
        roots: ["/pen", "/run"]
            .map(|path| FileRoot { path: path.into(), access: RootAccess::Write })
            .to_vec(),
        caps: ServeCaps::default(),
    };
    PenSpec { make: Some(Box::new(make)), serve }
}
