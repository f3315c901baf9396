//! Cases about namespaces and mounts: the parts of a pen.

use std::fs::{self, File};
use std::io;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::Path;

use clawpen_os::mounts::{self, Extent, FsOption, Mount, MountFlags, Propagation};
use clawpen_os::namespaces::{self, IdRange, Namespaces};
use clawpen_os::process::{self, Pid};
use clawpen_os::sockets::{self, Kind};
use clawpen_os::{beneath, capabilities, net};

use crate::harness::{NOBODY, PEN, in_pen, in_pen_with};

fn directory(path: &str) -> OwnedFd {
    beneath::open_root(Path::new(path)).unwrap()
}

fn raw<T>(result: io::Result<T>) -> Option<i32> {
    result.err().map(|error| error.raw_os_error().unwrap_or(0))
}

fn link(kind: Namespaces) -> String {
    let name = kind.name().unwrap();
    let target = fs::read_link(format!("/proc/self/ns/{name}")).unwrap();
    target.into_os_string().into_string().unwrap()
}

pub(crate) fn namespaces() {
    let kinds = [
        Namespaces::USER,
        Namespaces::MOUNT,
        Namespaces::NETWORK,
        Namespaces::IPC,
        Namespaces::UTS,
        Namespaces::CGROUP,
    ];
    let outside = kinds.map(link);
    let network = namespaces::open(Pid::this(), Namespaces::NETWORK).unwrap();
    let seen_from_outside = |child: &process::Child| {
        let uids = namespaces::uid_map(child.pid()).unwrap();
        assert_eq!(uids, namespaces::gid_map(child.pid()).unwrap());
        assert_ne!(uids.first().map(|range| range.outside), Some(0), "never the host's root");
    };
    in_pen_with(Namespaces::ALL, seen_from_outside, || {
        assert_eq!(Pid::this().get(), 1);
        assert_eq!(Pid::parent(), None);
        let inside = kinds.map(link);
        assert!(outside.iter().zip(&inside).all(|(outside, inside)| outside != inside));
        namespaces::set_host_name("pen").unwrap();
        assert_eq!(fs::read_to_string("/proc/sys/kernel/hostname").unwrap(), "pen\n");
        assert_eq!(net::interfaces().unwrap(), ["lo"]);
        let server = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = server.local_addr().unwrap();
        assert_eq!(raw(std::net::TcpStream::connect(address)), Some(libc::ENETUNREACH));
        net::bring_loopback_up().unwrap();
        std::net::TcpStream::connect(address).unwrap();
        // The way back out is closed, also with a handle.
        assert_eq!(raw(namespaces::join(network.as_fd(), Namespaces::NETWORK)), Some(libc::EPERM));
        namespaces::unshare(Namespaces::UTS).unwrap();
    });
}

/// A new root with `usr` of the machine and a `proc` of its own.
pub(crate) fn root() {
    in_pen(Namespaces::ALL.without(Namespaces::CGROUP), || {
        let slash = directory("/");
        let here = Path::new("");
        mounts::set_propagation_at(slash.as_fd(), here, Propagation::Private, Extent::Tree)
            .unwrap();
        let options = [FsOption::Text("size", "1m"), FsOption::Text("mode", "755")];
        let strict = MountFlags::NO_SUID | MountFlags::NO_DEV;
        let new_root = Mount::new_filesystem("tmpfs", &options, strict).unwrap();
        let usr = Mount::clone_of(slash.as_fd(), Path::new("usr"), Extent::Tree).unwrap();
        usr.restrict(MountFlags::READ_ONLY | strict, Extent::Tree).unwrap();
        new_root.attach(slash.as_fd(), Path::new("tmp")).unwrap();
        let root = directory("/tmp");
        for name in ["usr", "proc", "dev"] {
            beneath::make_directory(root.as_fd(), name.as_ref(), 0o755).unwrap();
        }
        usr.attach(root.as_fd(), Path::new("usr")).unwrap();
        let proc = Mount::new_filesystem("proc", &[], strict | MountFlags::NO_EXEC).unwrap();
        proc.attach(root.as_fd(), Path::new("proc")).unwrap();
        let null = Mount::clone_of(slash.as_fd(), Path::new("dev/null"), Extent::One).unwrap();
        null.restrict(MountFlags::NO_SUID | MountFlags::NO_EXEC, Extent::One).unwrap();
        beneath::open(
            root.as_fd(),
            Path::new("dev/null"),
            beneath::Open::CreateNew { mode: 0o666 },
        )
        .unwrap();
        null.attach(root.as_fd(), Path::new("dev/null")).unwrap();
        mounts::pivot_root(root.as_fd()).unwrap();

        let mut names: Vec<_> =
            fs::read_dir("/").unwrap().map(|entry| entry.unwrap().file_name()).collect();
        names.sort();
        assert_eq!(names, ["dev", "proc", "usr"]);
        assert_eq!(fs::read_link("/proc/self").unwrap().to_str(), Some("1"));
        assert_eq!(raw(fs::write("/usr/x", "")), Some(libc::EROFS));
        fs::write("/dev/null", "x").unwrap();
        fs::write("/file", "x").unwrap();
        let table = fs::read_to_string("/proc/self/mountinfo").unwrap();
        let points: Vec<_> = table.lines().filter_map(|line| line.split(' ').nth(4)).collect();
        assert!(points.iter().all(|point| !point.starts_with("/tmp")), "{table}");
        mounts::detach(Path::new("/dev/null")).unwrap();
        assert_eq!(fs::read_to_string("/dev/null").unwrap(), "");
    });
}

pub(crate) fn power() {
    in_pen(Namespaces::MOUNT | Namespaces::NETWORK, || {
        assert_ne!(capabilities::read().unwrap().effective, 0);
        capabilities::drop_all().unwrap();
        assert!(capabilities::read().unwrap().is_empty());
        assert_eq!(raw(mounts::detach(Path::new("/proc"))), Some(libc::EPERM));
        assert_eq!(raw(net::bring_loopback_up()), Some(libc::EPERM));
    });
}

pub(crate) fn peer() {
    let (host, pen) = sockets::pair(Kind::Stream).unwrap();
    assert_eq!(sockets::peer(host.as_fd()).unwrap().pid, Pid::this().get());
    in_pen(Namespaces::PID, || {
        assert_eq!(sockets::peer(pen.as_fd()).unwrap().pid, 0);
    });
}

/// A directory whose files belong to these ids on the disk, seen through the pen's own map.
pub(crate) fn mapped_ids() {
    let host = tempfile::tempdir().unwrap();
    for (name, id) in [("root", 0), ("user", 1000), ("far", 70_000)] {
        let path = host.path().join(name);
        fs::write(&path, "x").unwrap();
        std::os::unix::fs::chown(&path, Some(id), Some(id)).unwrap();
    }
    fs::set_permissions(host.path(), fs::Permissions::from_mode(0o777)).unwrap();
    let handle = directory(host.path().to_str().unwrap());
    let (ours, theirs) = sockets::pair(Kind::Messages).unwrap();
    let send_mount = |child: &process::Child| {
        let mount = Mount::clone_of(handle.as_fd(), Path::new(""), Extent::Tree).unwrap();
        let user = namespaces::open(child.pid(), Namespaces::USER).unwrap();
        mount.restrict(MountFlags::NO_SUID | MountFlags::NO_DEV, Extent::Tree).unwrap();
        mount.map_ids(user.as_fd(), Extent::Tree).unwrap();
        assert_eq!(sockets::send(ours.as_fd(), b"m", &[mount.as_fd()]).unwrap(), 1);
    };
    in_pen_with(Namespaces::MOUNT | Namespaces::PID, send_mount, || {
        attach_received(theirs.as_fd());
        let owner = |name: &str| fs::metadata(format!("/tmp/{name}")).unwrap().uid();
        assert_eq!(["root", "user"].map(owner), [0, 1000]);
        // No id of the pen: shown as nobody, and not to be changed.
        assert_eq!(owner("far"), NOBODY);
        process::set_gid(1000).unwrap();
        process::set_uid(1000).unwrap();
        assert_eq!(raw(fs::write("/tmp/root", "y")), Some(libc::EACCES));
        fs::write("/tmp/user", "y").unwrap();
        fs::write("/tmp/new", "y").unwrap();
    });
    // On the disk: the ids of the disk, not those of the pen's range.
    assert_eq!(fs::metadata(host.path().join("new")).unwrap().uid(), 1000);
    assert_eq!(fs::read_to_string(host.path().join("user")).unwrap(), "y");
}

fn attach_received(socket: BorrowedFd<'_>) {
    let message = sockets::receive(socket, &mut [0], 1).unwrap();
    let mount = Mount::from_fd(message.descriptors.into_iter().next().unwrap());
    mount.attach(directory("/").as_fd(), Path::new("tmp")).unwrap();
}

/// A workspace of the host's root becomes one of the pen's user 1000.
pub(crate) fn owner_map() {
    let host = tempfile::tempdir().unwrap();
    fs::write(host.path().join("file"), "x").unwrap();
    let handle = directory(host.path().to_str().unwrap());
    let map = [IdRange { inside: 0, outside: PEN.outside + 1000, count: 1 }];
    // With threads about: it must not need a process that is alone.
    let (reader, writer) = clawpen_os::events::pipe().unwrap();
    let thread =
        std::thread::spawn(move || clawpen_os::events::read(reader.as_fd(), &mut [0]).unwrap());
    let user = namespaces::user_namespace(&map, &map).unwrap();
    drop(writer);
    thread.join().unwrap();
    let refused = namespaces::user_namespace(&[IdRange { count: 0, ..PEN }], &map);
    assert_eq!(raw(refused), Some(libc::EINVAL));
    assert_eq!(process::reap_any().unwrap(), process::Reaped::NoChildren);

    let mount = Mount::clone_of(handle.as_fd(), Path::new(""), Extent::Tree).unwrap();
    mount.map_ids(user.as_fd(), Extent::Tree).unwrap();
    drop(user);
    let (ours, theirs) = sockets::pair(Kind::Messages).unwrap();
    sockets::send(ours.as_fd(), b"m", &[mount.as_fd()]).unwrap();
    in_pen(Namespaces::MOUNT, || {
        attach_received(theirs.as_fd());
        assert_eq!(fs::metadata("/tmp/file").unwrap().uid(), 1000);
        // Root of the pen has no id on this disk: it may not leave anything there.
        assert_eq!(raw(fs::write("/tmp/by-root", "x")), Some(libc::EOVERFLOW));
        process::set_gid(1000).unwrap();
        process::set_uid(1000).unwrap();
        fs::write("/tmp/new", "x").unwrap();
    });
    assert_eq!(fs::metadata(host.path().join("new")).unwrap().uid(), 0);
}

pub(crate) fn flags() {
    in_pen(Namespaces::MOUNT, || {
        let slash = directory("/");
        let strict = MountFlags::NO_SUID | MountFlags::NO_DEV | MountFlags::NO_EXEC;
        let mount = Mount::new_filesystem("tmpfs", &[], strict).unwrap();
        mount.attach(slash.as_fd(), Path::new("tmp")).unwrap();
        fs::copy("/bin/true", "/tmp/true").unwrap();
        let run = std::process::Command::new("/tmp/true").status();
        assert_eq!(raw(run), Some(libc::EACCES));
        std::os::unix::fs::symlink("true", "/tmp/link").unwrap();
        fs::metadata("/tmp/link").unwrap();
        let tmp = directory("/tmp");
        let more = MountFlags::READ_ONLY | MountFlags::NO_SYMLINK_FOLLOW;
        mounts::restrict_at(tmp.as_fd(), Path::new(""), more, Extent::One).unwrap();
        assert_eq!(raw(fs::write("/tmp/file", "")), Some(libc::EROFS));
        assert_eq!(raw(fs::metadata("/tmp/link")), Some(libc::ELOOP));
        let table = fs::read_to_string("/proc/self/mountinfo").unwrap();
        let line = table.lines().rfind(|line| line.contains(" /tmp ")).unwrap();
        for flag in ["ro", "nosuid", "nodev", "noexec", "nosymfollow"] {
            assert!(line.contains(flag), "{line}");
        }
    });
}

pub(crate) fn propagation() {
    let before = fs::read_to_string("/proc/self/mountinfo").unwrap();
    in_pen(Namespaces::MOUNT, || {
        let slash = directory("/");
        let here = Path::new("");
        mounts::set_propagation_at(slash.as_fd(), here, Propagation::Follow, Extent::Tree).unwrap();
        let mount = Mount::new_filesystem("tmpfs", &[], MountFlags::NONE).unwrap();
        mount.set_propagation(Propagation::Private, Extent::One).unwrap();
        mount.attach(slash.as_fd(), Path::new("tmp")).unwrap();
    });
    assert_eq!(fs::read_to_string("/proc/self/mountinfo").unwrap(), before);
}

pub(crate) fn explanation() {
    in_pen(Namespaces::MOUNT, || {
        let make = |options: &[FsOption<'_>]| {
            let made = Mount::new_filesystem("tmpfs", options, MountFlags::NONE);
            made.unwrap_err().to_string()
        };
        let unknown = make(&[FsOption::Flag("no-such-option")]);
        assert!(unknown.contains("`tmpfs`") && unknown.contains("no-such-option"), "{unknown}");
        let bad = make(&[FsOption::Text("size", "many")]);
        assert!(bad.contains("size"), "{bad}");
        let none = Mount::new_filesystem("no-such-fs", &[], MountFlags::NONE);
        assert_eq!(raw(none), Some(libc::ENODEV));
    });
}

pub(crate) fn removal() {
    in_pen(Namespaces::MOUNT, || {
        let slash = directory("/");
        let tmp = Mount::new_filesystem("tmpfs", &[], MountFlags::NONE).unwrap();
        tmp.attach(slash.as_fd(), Path::new("tmp")).unwrap();
        fs::create_dir_all("/tmp/tree/sub/point").unwrap();
        let inner = Mount::new_filesystem("tmpfs", &[], MountFlags::NONE).unwrap();
        inner.attach(directory("/tmp/tree/sub").as_fd(), Path::new("point")).unwrap();
        fs::create_dir("/tmp/tree/sub/point/kept").unwrap();
        File::create("/tmp/tree/sub/point/kept/file").unwrap();
        let tmp = directory("/tmp");
        let refused = beneath::remove_tree(tmp.as_fd(), "tree".as_ref());
        assert!(matches!(raw(refused), Some(libc::EXDEV | libc::EBUSY)));
        assert!(Path::new("/tmp/tree/sub/point/kept/file").exists());
    });
}
