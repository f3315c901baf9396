//! Plans that are misread.

use std::path::Path;

use clawpen_wire::pen::{
    BindOwner, FileRoot, IdPlan, IdRange, IdWriter, MakePlan, MountFlags, MountStep, PenSpec,
    RootAccess, Submounts,
};

use super::is_off;

pub(super) fn spoil(spec: &mut PenSpec) {
    let PenSpec { make, serve } = spec;
    // By the kernel's number: names are the engine's business.
    serve.rlimits.retain(|limit| !is_off(&format!("limit:{}", limit.resource)));
    if is_off("groups") {
        // A group that the map has, and that owns the terminals of every Debian.
        serve.user.groups = vec![5];
    }
    if ["user", "user-namespace", "mount-namespace"].into_iter().any(is_off) {
        // Whoever is somebody else, or elsewhere, may not even enter the workspace.
        serve.roots = vec![FileRoot { path: "/".into(), access: RootAccess::Read }];
    }
    let Some(make) = make else { return };
    if is_off("uid-map") {
        serve.user.uid = other_ids(&mut make.ids.uids, make.ids.writer, serve.user.uid);
    }
    if is_off("gid-map") {
        serve.user.gid = other_ids(&mut make.ids.gids, make.ids.writer, serve.user.gid);
    }
    if is_off("user") {
        let IdPlan { writer, uids, .. } = &mut make.ids;
        serve.user.uid = match writer {
            IdWriter::Direct | IdWriter::Helpers => 1,
            // The only one there is gets another number.
            IdWriter::Single => other_ids(uids, IdWriter::Single, serve.user.uid),
        };
    }
    if is_off("mount-namespace") {
        // Nothing is built and nothing is left: what the spec names is not there.
        make.root.clear();
        for rule in &mut serve.landlock.rules {
            rule.optional = true;
        }
    }
    spoil_root(make);
}

fn spoil_root(make: &mut MakePlan) {
    let bind = |source: &str, target: &Path| MountStep::Bind {
        source: source.into(),
        target: target.to_owned(),
        flags: MountFlags { bits: MountFlags::READ_ONLY },
        submounts: Submounts::Bring,
        owner: BindOwner::AsIs,
    };
    if is_off("pid-namespace") {
        // Who has the host's processes can only mount the host's view of them.
        for step in &mut make.root {
            if let MountStep::Proc { target } = step {
                *step = bind("/proc", target);
            }
        }
    }
    if is_off("extra-mount") {
        make.root.insert(0, bind("/etc", Path::new("/extra")));
    }
    // Hides and protects, by what is at the same place already: without it that comes to light.
    make.root.retain(|step| match step {
        MountStep::Mask { target } | MountStep::ReadOnly { target } => {
            !is_off(&format!("mount:{}", target.display()))
        }
        _ => true,
    });
}

/// Another map than the one asked for, as far as the writer may write it; gives the user's number in it.
fn other_ids(map: &mut Vec<IdRange>, writer: IdWriter, user: u32) -> u32 {
    match writer {
        // The classic: the pen's root is the host's.
        IdWriter::Direct => *map = vec![IdRange { inside: 0, outside: 0, count: 65_536 }],
        IdWriter::Helpers => {
            map.pop();
        }
        IdWriter::Single => {
            for range in map.iter_mut() {
                range.inside = 1;
            }
            return 1;
        }
    }
    user
}
