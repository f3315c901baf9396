//! The mount table and the root directory.

use crate::system::{HERE, address, call, call3, is_control, judge, mount_for_control, text};
use crate::{Attack, Outcome};

pub(crate) const ATTACKS: &[Attack] = &[
    Attack {
        name: "mount-tmpfs",
        about: "mount a tmpfs",
        run: || mount("none", "/mnt", "tmpfs", 0),
    },
    Attack {
        name: "mount-bind",
        about: "bind a directory over another",
        run: || mount("/usr", "/mnt", "", libc::MS_BIND),
    },
    Attack {
        name: "mount-proc",
        about: "mount another /proc without masks",
        run: || mount("proc", "/mnt", "proc", 0),
    },
    Attack { name: "mount-overlay", about: "mount an overlay", run: overlay },
    Attack {
        name: "remount-root-rw",
        about: "make the root writable",
        run: || mount("none", "/", "", libc::MS_REMOUNT | libc::MS_BIND),
    },
    Attack {
        name: "remount-usr-rw",
        about: "make /usr writable",
        run: || {
            shut_usr_for_control();
            mount("none", "/usr", "", libc::MS_REMOUNT | libc::MS_BIND)
        },
    },
    Attack {
        name: "propagation",
        about: "change how mounts propagate",
        run: || mount("none", "/", "", libc::MS_REC | libc::MS_PRIVATE),
    },
    Attack { name: "umount-proc", about: "take /proc away, and its masks with it", run: umount },
    Attack { name: "pivot-root", about: "change the root", run: pivot },
    Attack { name: "chroot", about: "change the root by chroot", run: chroot },
    Attack { name: "fsopen", about: "the new mount interface: a file system", run: fsopen },
    Attack {
        name: "open-tree",
        about: "the new mount interface: a copy of a tree",
        run: open_tree,
    },
    Attack {
        name: "mount-setattr",
        about: "the new mount interface: attributes",
        run: mount_setattr,
    },
    Attack { name: "move-mount", about: "the new mount interface: move", run: move_mount },
    Attack { name: "fspick", about: "the new mount interface: reconfigure", run: fspick },
    Attack {
        name: "open-by-handle",
        about: "open a file by its handle, past every mount",
        run: open_by_handle,
    },
    Attack {
        name: "write-root",
        about: "write into the root directory",
        run: || create("/clawpen-attack"),
    },
    Attack {
        name: "write-usr-bin",
        about: "write into /usr/bin",
        run: || create("/usr/bin/clawpen-attack"),
    },
    Attack { name: "write-etc", about: "write into /etc", run: || create("/etc/clawpen-attack") },
];

fn mount(source: &str, target: &str, kind: &str, flags: libc::c_ulong) -> Outcome {
    let (source, place, kind) = (text(source), text(target), text(kind));
    let flags = usize::try_from(flags).unwrap_or(0);
    let args = [address(&source), address(&place), address(&kind), flags, 0, 0];
    judge(&format!("mount on {target}"), call(libc::SYS_mount, args))
}

fn overlay() -> Outcome {
    let (name, place) = (text("overlay"), text("/mnt"));
    let layers = text("lowerdir=/usr:/etc");
    let args = [address(&name), address(&place), address(&name), 1, address(&layers), 0];
    judge("overlay on /mnt", call(libc::SYS_mount, args))
}

/// In a pen `/usr` is a mount that is read-only; outside it is part of the root.
fn shut_usr_for_control() {
    mount_for_control("/usr", "/usr", "", libc::MS_BIND);
    mount_for_control("none", "/usr", "", libc::MS_REMOUNT | libc::MS_BIND | libc::MS_RDONLY);
}

fn umount() -> Outcome {
    let proc = text("/proc");
    judge("umount /proc", call3(libc::SYS_umount2, address(&proc), 2, 0))
}

/// A pen starts us in its workspace, which is a mount.
fn pivot() -> Outcome {
    mount_for_control("/var/tmp", "/var/tmp", "", libc::MS_BIND);
    if is_control() {
        let _ = std::env::set_current_dir("/var/tmp");
    }
    let here = text(".");
    judge("pivot_root", call3(libc::SYS_pivot_root, address(&here), address(&here), 0))
}

fn chroot() -> Outcome {
    judge("chroot", std::os::unix::fs::chroot("/usr"))
}

fn fsopen() -> Outcome {
    let kind = text("tmpfs");
    judge("fsopen(tmpfs)", call3(libc::SYS_fsopen, address(&kind), 0, 0))
}

fn open_tree() -> Outcome {
    let path = text("/usr");
    judge("open_tree(OPEN_TREE_CLONE)", call3(libc::SYS_open_tree, HERE, address(&path), 1))
}

fn mount_setattr() -> Outcome {
    shut_usr_for_control();
    let (path, attr) = (text("/usr"), [0u64; 4]);
    // Clearing "read-only" is what an attacker wants.
    let attr = [attr[0], 1, attr[2], attr[3]];
    let args = [HERE, address(&path), 0, attr.as_ptr() as usize, size_of_val(&attr), 0];
    judge("mount_setattr(/usr, rw)", call(libc::SYS_mount_setattr, args))
}

fn move_mount() -> Outcome {
    let (from, to) = (text("/proc"), text("/mnt"));
    judge(
        "move_mount",
        call(libc::SYS_move_mount, [HERE, address(&from), HERE, address(&to), 0, 0]),
    )
}

fn fspick() -> Outcome {
    let path = text("/");
    judge("fspick(/)", call3(libc::SYS_fspick, HERE, address(&path), 0))
}

fn open_by_handle() -> Outcome {
    // The handle of an ext4 root: inode 2. Asking is the attack; the kernel checks the right first.
    let mut handle = [0u32; 6];
    (handle[0], handle[1], handle[2]) = (8, 1, 2);
    judge(
        "open_by_handle_at",
        call3(libc::SYS_open_by_handle_at, HERE, handle.as_ptr() as usize, 0),
    )
}

pub(crate) fn create(path: &str) -> Outcome {
    let result = std::fs::OpenOptions::new().write(true).create_new(true).open(path);
    if result.is_ok() {
        // Outside, where this is only the control, nothing stays behind.
        let _ = std::fs::remove_file(path);
    }
    judge(&format!("created {path}"), result)
}
