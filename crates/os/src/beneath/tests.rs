//! A small tree with links that stay inside and links that want out.

use std::fs::{self, File};
use std::os::unix::fs::symlink as make_link;

use super::*;

struct Tree {
    _keep: tempfile::TempDir,
    path: PathBuf,
    root: OwnedFd,
}

/// `secret` lies beside `root`; `root/dir/file`, and links of every kind.
fn tree() -> Tree {
    let keep = tempfile::tempdir().unwrap();
    let path = keep.path().join("root");
    fs::create_dir_all(path.join("dir/deep")).unwrap();
    fs::write(keep.path().join("secret"), "secret").unwrap();
    fs::write(path.join("dir/file"), "content").unwrap();
    make_link("dir/file", path.join("inside")).unwrap();
    make_link("../dir/file", path.join("dir/around")).unwrap();
    make_link("../secret", path.join("outside")).unwrap();
    make_link("/dir/file", path.join("absolute")).unwrap();
    make_link("/proc/self/root/etc", path.join("magic")).unwrap();
    let root = open_root(&path).unwrap();
    Tree { _keep: keep, path, root }
}

#[track_caller]
fn check<'a>(root: impl Into<Root<'a>>, path: &str, expected: Result<&str, i32>) {
    let opened = open(root, Path::new(path), Open::Read);
    let seen = opened.and_then(|file| io::read_to_string(File::from(file)));
    let seen = seen.map_err(|error| error.raw_os_error().unwrap());
    assert_eq!(seen.as_deref(), expected.as_ref().copied(), "{path}");
}

#[test]
fn links_inside_work_and_nothing_leads_out() {
    let tree = tree();
    let root = tree.root.as_fd();
    check(root, "dir/file", Ok("content"));
    check(root, "/dir/file", Ok("content"));
    check(root, "dir/../dir/./file", Ok("content"));
    check(root, "inside", Ok("content"));
    check(root, "dir/around", Ok("content"));
    check(root, "outside", Err(libc::EXDEV));
    check(root, "../secret", Err(libc::EXDEV));
    check(root, "dir/../../secret", Err(libc::EXDEV));
    check(root, "absolute", Err(libc::EXDEV));
    check(root, "magic/passwd", Err(libc::EXDEV));
    check(root, "missing", Err(libc::ENOENT));
}

#[test]
fn absolute_links_can_mean_the_root() {
    let tree = tree();
    let root = Root::with_absolute_links(tree.root.as_fd());
    check(root, "absolute", Ok("content"));
    check(root, "inside", Ok("content"));
    // `..` at the top stays at the top, as after chroot.
    check(root, "outside", Err(libc::ENOENT));
    check(root, "../../dir/file", Ok("content"));
}

#[test]
fn magic_links_are_refused_even_in_the_machines_root() {
    let root = open_root(Path::new("/")).unwrap();
    let root = Root::with_absolute_links(root.as_fd());
    check(root, "proc/self/root/etc/passwd", Err(libc::ELOOP));
    check(root, "proc/self/exe", Err(libc::ELOOP));
}

#[test]
fn a_fifo_does_not_hang_us() {
    let tree = tree();
    let fifo = tree.path.join("fifo");
    rustix::fs::mkfifoat(rustix::fs::CWD, &fifo, Mode::RUSR | Mode::WUSR).unwrap();
    let read = open(tree.root.as_fd(), Path::new("fifo"), Open::Read).unwrap();
    assert_eq!(stat(read.as_fd()).unwrap().kind, Kind::Fifo);
    drop(read);
    let write = open(tree.root.as_fd(), Path::new("fifo"), Open::Write).unwrap_err();
    assert_eq!(write.raw_os_error(), Some(libc::ENXIO));
}

#[test]
fn names_are_one_component() {
    let tree = tree();
    let root = tree.root.as_fd();
    for name in ["", ".", "..", "a/b", "/a", "a\0b"] {
        let refused = make_directory(root, OsStr::new(name), 0o755).unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::InvalidInput, "{name:?}");
    }
    let (parent, name) = open_parent(root, Path::new("dir/new")).unwrap();
    assert_eq!(name, "new");
    make_directory(parent.as_fd(), &name, 0o700).unwrap();
    assert!(tree.path.join("dir/new").is_dir());
    for path in ["", "/", "dir/.."] {
        let refused = open_parent(root, Path::new(path)).unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::InvalidInput, "{path:?}");
    }
}

#[test]
fn files_are_made_appended_renamed_and_dated() {
    let tree = tree();
    let root = tree.root.as_fd();
    let new = open(root, Path::new("new"), Open::CreateNew { mode: 0o640 }).unwrap();
    let again = open(root, Path::new("new"), Open::CreateNew { mode: 0o640 }).unwrap_err();
    assert_eq!(again.kind(), io::ErrorKind::AlreadyExists);
    set_mode(new.as_fd(), 0o604).unwrap();
    let day = SystemTime::UNIX_EPOCH + Duration::from_secs(86_400);
    set_modified(new.as_fd(), day).unwrap();
    let identity = crate::process::identity().unwrap();
    set_owner(new.as_fd(), identity.uid, identity.gid).unwrap();
    let seen = stat_name(root, OsStr::new("new")).unwrap();
    assert_eq!((seen.kind, seen.mode, seen.size, seen.links), (Kind::File, 0o604, 0, 1));
    assert_eq!((seen.modified, seen.uid), (day, identity.uid));
    assert_eq!(stat(new.as_fd()).unwrap(), seen);

    let append = open(root, Path::new("new"), Open::Append { mode: 0o600 }).unwrap();
    rustix::io::write(append, b"text").unwrap();
    let place = |name| Place { directory: root, name: OsStr::new(name) };
    let kept = rename(place("new"), place("inside"), Existing::Keep).unwrap_err();
    assert_eq!(kept.kind(), io::ErrorKind::AlreadyExists);
    rename(place("new"), place("inside"), Existing::Replace).unwrap();
    assert_eq!(fs::read_to_string(tree.path.join("inside")).unwrap(), "text");
    hard_link(place("inside"), place("twin")).unwrap();
    assert_eq!(stat_name(root, OsStr::new("twin")).unwrap().links, 2);
    symlink(OsStr::new("../secret"), place("link")).unwrap();
    assert_eq!(read_link(root, OsStr::new("link")).unwrap(), "../secret");
    assert_eq!(stat_name(root, OsStr::new("link")).unwrap().kind, Kind::Symlink);
    rename(place("link"), place("twin"), Existing::Exchange).unwrap();
    assert_eq!(stat_name(root, OsStr::new("twin")).unwrap().kind, Kind::Symlink);
    remove_file(root, OsStr::new("twin")).unwrap();
    remove_directory(root, OsStr::new("dir")).unwrap_err();
}

#[test]
fn a_listing_shows_all_but_the_dots_and_can_stop() {
    let tree = tree();
    let mut names = Vec::new();
    list(tree.root.as_fd(), &mut |entry| {
        names.push((entry.name.into_string().unwrap(), entry.kind));
        ControlFlow::Continue(())
    })
    .unwrap();
    names.sort_by(|a, b| a.0.cmp(&b.0));
    let link = |name: &str| (name.to_owned(), Kind::Symlink);
    let expected = [
        link("absolute"),
        ("dir".to_owned(), Kind::Directory),
        link("inside"),
        link("magic"),
        link("outside"),
    ];
    assert_eq!(names, expected);
    let mut count = 0;
    list(tree.root.as_fd(), &mut |_| {
        count += 1;
        ControlFlow::Break(())
    })
    .unwrap();
    assert_eq!(count, 1);
}

#[test]
fn directories_are_made_on_the_way() {
    let tree = tree();
    let root = tree.root.as_fd();
    make_link("dir", tree.path.join("to-dir")).unwrap();
    make_directories(root, Path::new("to-dir/a/b/c"), 0o755).unwrap();
    assert!(tree.path.join("dir/a/b/c").is_dir());
    make_directories(root, Path::new("to-dir/a/b/c"), 0o755).unwrap();
    make_directories(root, Path::new(""), 0o755).unwrap();
    check_error(make_directories(root, Path::new("dir/file/x"), 0o755), libc::ENOTDIR);
    check_error(make_directories(root, Path::new("../x"), 0o755), libc::EXDEV);
    // A link that leads nowhere is not followed to make what it names.
    make_link("../nowhere", tree.path.join("dangling")).unwrap();
    check_error(make_directories(root, Path::new("dangling/x"), 0o755), libc::EXDEV);
    assert!(!tree.path.parent().unwrap().join("nowhere").exists());
}

#[track_caller]
fn check_error<T>(result: io::Result<T>, expected: i32) {
    assert_eq!(result.err().and_then(|error| error.raw_os_error()), Some(expected));
}

#[test]
fn a_tree_is_removed_without_following_links() {
    let tree = tree();
    let root = tree.root.as_fd();
    let keep = tree.path.join("keep");
    fs::create_dir(&keep).unwrap();
    fs::write(keep.join("file"), "").unwrap();
    make_link(&keep, tree.path.join("dir/deep/link")).unwrap();
    remove_tree(root, OsStr::new("dir")).unwrap();
    assert!(!tree.path.join("dir").exists());
    assert!(keep.join("file").exists());
    remove_tree(root, OsStr::new("inside")).unwrap();
    check_error(remove_tree(root, OsStr::new("dir")), libc::ENOENT);
}

#[test]
fn a_tree_far_deeper_than_a_path_or_the_descriptor_table_is_removed() {
    let tree = tree();
    let mut current = tree.root.try_clone().unwrap();
    let name = OsStr::new("a-directory-with-a-rather-long-name");
    for _ in 0..1200 {
        make_directory(current.as_fd(), name, 0o755).unwrap();
        current = open(current.as_fd(), Path::new(name), Open::Directory).unwrap();
    }
    drop(current);
    remove_tree(tree.root.as_fd(), name).unwrap();
    check_error(stat_name(tree.root.as_fd(), name), libc::ENOENT);
}

#[test]
fn a_strict_root_follows_no_link_at_all() {
    let tree = tree();
    let root = Root::without_links(tree.root.as_fd());
    check(root, "dir/file", Ok("content"));
    check(root, "inside", Err(libc::ELOOP));
    check(root, "dir/around", Err(libc::ELOOP));
    check(root, "../secret", Err(libc::EXDEV));
    make_link("dir", tree.path.join("to-dir")).unwrap();
    check(root, "to-dir/file", Err(libc::ELOOP));
    let machine = open_root(Path::new("/")).unwrap();
    check(Root::without_links(machine.as_fd()), "proc/version", Err(libc::EXDEV));
}

#[test]
fn an_unnamed_file_gets_its_name_once_and_whole() {
    let tree = tree();
    let root = tree.root.as_fd();
    let place = |name| Place { directory: root, name: OsStr::new(name) };
    let file = open(root, Path::new("dir"), Open::Unnamed { mode: 0o600 }).unwrap();
    rustix::io::write(&file, b"whole").unwrap();
    for taken in ["inside", "outside", "dir"] {
        let kept = give_name(file.as_fd(), place(taken)).unwrap_err();
        assert_eq!(kept.kind(), io::ErrorKind::AlreadyExists, "{taken}");
    }
    give_name(file.as_fd(), place("new")).unwrap();
    assert_eq!(fs::read_to_string(tree.path.join("new")).unwrap(), "whole");
    assert_eq!(stat_name(root, OsStr::new("new")).unwrap().links, 1);
}

#[test]
fn a_handle_is_read_whatever_took_its_name() {
    let tree = tree();
    let root = tree.root.as_fd();
    let handle = open(root, Path::new("dir/file"), Open::Handle).unwrap();
    fs::remove_file(tree.path.join("dir/file")).unwrap();
    make_link("../secret", tree.path.join("dir/file")).unwrap();
    let file = File::from(reopen(handle.as_fd()).unwrap());
    assert_eq!(io::read_to_string(file).unwrap(), "content");
}

#[test]
fn a_tree_that_was_closed_to_its_owner_is_removed() {
    use std::os::unix::fs::PermissionsExt as _;
    let tree = tree();
    fs::write(tree.path.join("dir/deep/file"), "").unwrap();
    let close = |path: &str| {
        fs::set_permissions(tree.path.join(path), fs::Permissions::from_mode(0o0)).unwrap();
    };
    close("dir/deep");
    close("dir");
    open_up(tree.root.as_fd(), OsStr::new("dir")).unwrap();
    assert_eq!(stat_name(tree.root.as_fd(), OsStr::new("dir")).unwrap().mode, 0o700);
    open_up(tree.root.as_fd(), OsStr::new("inside")).unwrap();
    remove_tree(tree.root.as_fd(), OsStr::new("dir")).unwrap();
    assert!(!tree.path.join("dir").exists());
}
