//! Files: every operation, and every way out that must stay shut.

use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};

use clawpen_wire::supervisor::{
    Copy, Depth, ErrorCode, Event, FileKind, Hash, Links, List, Listing, Mkdir, OnExisting,
    Parents, Place, Read, Remove, Rename, Request, Stat, WriteMode, WriteOpen, limits,
};

use crate::harness::{Host, Pen, below};
use crate::{any_maker, makers};

fn read(host: &mut Host, place: Place) -> Result<Vec<u8>, ErrorCode> {
    read_range(host, place, 0, u64::MAX)
}

fn read_range(
    host: &mut Host,
    place: Place,
    offset: u64,
    length: u64,
) -> Result<Vec<u8>, ErrorCode> {
    let channel = host.channel();
    host.send(channel, &Request::Read(Read { place, offset, length, window: 300_000 }));
    let mut all = Vec::new();
    loop {
        let step = host.next(|_, event| match event {
            Event::Data(bytes) => {
                all.extend_from_slice(bytes);
                Ok(Some(u32::try_from(bytes.len()).unwrap()))
            }
            Event::Done => Ok(None),
            Event::Failed(failed) => Err(failed.code),
            other => panic!("{other:?}"),
        })?;
        match step {
            Some(count) => host.send(channel, &Request::Credit(count)),
            None => return Ok(all),
        }
    }
}

fn write(
    host: &mut Host,
    path: &str,
    mode: WriteMode,
    parents: Parents,
    contents: &[u8],
) -> Result<bool, ErrorCode> {
    let channel = host.channel();
    let open = WriteOpen { place: below(path), mode, parents, permissions: 0o666 };
    host.send(channel, &Request::WriteOpen(open));
    let mut credit = limits::FIRST_INPUT_WINDOW as usize;
    for piece in contents.chunks(100_000) {
        while credit < piece.len() {
            credit += host.next(|_, event| match event {
                Event::Credit(given) => *given as usize,
                other => panic!("{other:?}"),
            });
        }
        credit -= piece.len();
        host.send(channel, &Request::WriteChunk(piece));
    }
    host.send(channel, &Request::WriteCommit);
    loop {
        let outcome = host.next(|_, event| match event {
            Event::Credit(_) => None,
            Event::Written(written) => {
                assert_eq!(written.bytes, contents.len() as u64);
                Some(Ok(written.created))
            }
            Event::Failed(failed) => Some(Err(failed.code)),
            other => panic!("{other:?}"),
        });
        if let Some(outcome) = outcome {
            return outcome;
        }
    }
}

fn replace(host: &mut Host, path: &str, contents: &[u8]) -> Result<bool, ErrorCode> {
    write(host, path, WriteMode::Replace, Parents::Required, contents)
}

fn simple(host: &mut Host, request: Request<'_>) -> Result<(), ErrorCode> {
    host.call(request, |event| match event {
        Event::Done => Ok(()),
        Event::Failed(failed) => Err(failed.code),
        other => panic!("{other:?}"),
    })
}

#[test]
fn what_is_written_is_read_back() {
    for &maker in makers() {
        let mut pen = Pen::new(maker);
        let big: Vec<u8> = (0..=255).cycle().take(3_000_000).collect();
        assert_eq!(replace(&mut pen.host, "big", &big), Ok(true));
        assert_eq!(read(&mut pen.host, below("big")).as_deref(), Ok(big.as_slice()));
        assert_eq!(
            read_range(&mut pen.host, below("big"), 2_999_990, 100).unwrap(),
            big[2_999_990..]
        );
        assert_eq!(read_range(&mut pen.host, below("big"), 256, 3).unwrap(), [0, 1, 2]);
        assert_eq!(
            read_range(&mut pen.host, below("big"), 9_999_999, 3).unwrap(),
            Vec::<u8>::new()
        );
        assert_eq!(replace(&mut pen.host, "big", b""), Ok(false));
        assert_eq!(
            read(&mut pen.host, Place::InPen("/work/big".into())).unwrap(),
            Vec::<u8>::new()
        );
        assert_eq!(
            read(&mut pen.host, Place::InPen("/etc/passwd".into())).unwrap(),
            b"agent:x:1000:1000::/work:/bin/sh\n"
        );
        assert!(
            read(&mut pen.host, Place::InPen("/proc/self/status".into()))
                .unwrap()
                .starts_with(b"Name:")
        );
    }
}

#[test]
fn a_new_file_has_the_umask_and_an_old_one_keeps_its_mode_and_owner() {
    let mut pen = Pen::new(any_maker());
    assert_eq!(replace(&mut pen.host, "new", b"1"), Ok(true));
    let new = std::fs::metadata(pen.workspace.join("new")).unwrap();
    assert_eq!(new.mode() & 0o7777, 0o644);
    std::fs::set_permissions(pen.workspace.join("new"), std::fs::Permissions::from_mode(0o4751))
        .unwrap();
    assert_eq!(replace(&mut pen.host, "new", b"2"), Ok(false));
    let old = std::fs::metadata(pen.workspace.join("new")).unwrap();
    assert_eq!((old.mode() & 0o7777, old.uid(), old.gid()), (0o751, new.uid(), new.gid()));
    assert_ne!(old.ino(), new.ino());
    // What may not be written may not be replaced.
    std::fs::set_permissions(pen.workspace.join("new"), std::fs::Permissions::from_mode(0o444))
        .unwrap();
    assert_eq!(replace(&mut pen.host, "new", b"3"), Err(ErrorCode::Denied));
    assert_eq!(names(&pen), ["new"]);
}

fn names(pen: &Pen) -> Vec<String> {
    let entries = std::fs::read_dir(&pen.workspace).unwrap();
    let mut names: Vec<_> =
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[test]
fn nothing_shows_before_the_commit_and_an_abort_leaves_nothing() {
    let mut pen = Pen::with(any_maker(), |spec| {
        spec.serve.lifetime = clawpen_wire::pen::Lifetime::Persistent;
    });
    replace(&mut pen.host, "file", b"old").unwrap();
    for way in ["abort", "hang up"] {
        let channel = pen.host.channel();
        let open = WriteOpen {
            place: below("file"),
            mode: WriteMode::Replace,
            parents: Parents::Required,
            permissions: 0o644,
        };
        pen.host.send(channel, &Request::WriteOpen(open));
        pen.host.send(channel, &Request::WriteChunk(b"new"));
        pen.host.call(Request::Ping, |event| assert_eq!(*event, Event::Done));
        assert_eq!(std::fs::read(pen.workspace.join("file")).unwrap(), b"old");
        if way == "abort" {
            pen.host.send(channel, &Request::WriteAbort);
            pen.host.next(|_, event| assert_eq!(*event, Event::Done));
        } else {
            pen.host.hang_up();
            pen.host = Host::connect(pen.directory.path());
        }
        assert_eq!(names(&pen), ["file"], "{way}");
        assert_eq!(std::fs::read(pen.workspace.join("file")).unwrap(), b"old");
    }
}

#[test]
fn create_append_and_parents_do_what_they_say() {
    let mut pen = Pen::new(any_maker());
    let host = &mut pen.host;
    assert_eq!(
        write(host, "a/b/c", WriteMode::Create, Parents::Required, b"1"),
        Err(ErrorCode::NotFound)
    );
    assert_eq!(write(host, "a/b/c", WriteMode::Create, Parents::Make, b"1"), Ok(true));
    assert_eq!(
        write(host, "a/b/c", WriteMode::Create, Parents::Make, b"2"),
        Err(ErrorCode::Exists)
    );
    assert_eq!(write(host, "a/b/c", WriteMode::Append, Parents::Required, b"2"), Ok(false));
    assert_eq!(write(host, "a/d", WriteMode::Append, Parents::Required, b"3"), Ok(true));
    assert_eq!(read(host, below("a/b/c")).unwrap(), b"12");
    assert_eq!(replace(host, "a/b", b"x"), Err(ErrorCode::IsDirectory));
    assert_eq!(replace(host, "a/d/e", b"x"), Err(ErrorCode::NotDirectory));
    let mkdir =
        |path, parents| Request::Mkdir(Mkdir { place: below(path), permissions: 0o755, parents });
    assert_eq!(simple(host, mkdir("x/y", Parents::Required)), Err(ErrorCode::NotFound));
    assert_eq!(simple(host, mkdir("x/y", Parents::Make)), Ok(()));
    assert_eq!(simple(host, mkdir("x/y", Parents::Make)), Ok(()));
    assert_eq!(simple(host, mkdir("x/y", Parents::Required)), Err(ErrorCode::Exists));
}

#[test]
fn links_inside_work_and_nothing_leads_out() {
    for &maker in makers() {
        let mut pen = Pen::new(maker);
        let inside = |name: &str| pen.workspace.join(name);
        std::fs::create_dir(inside("dir")).unwrap();
        std::fs::write(inside("dir/file"), "inside").unwrap();
        symlink("dir/file", inside("good")).unwrap();
        symlink("dir/../dir/file", inside("round")).unwrap();
        symlink("dir/made-by-link", inside("dangling")).unwrap();
        symlink("/etc/passwd", inside("absolute")).unwrap();
        symlink("../../etc/passwd", inside("up")).unwrap();
        symlink("/proc/1/root", inside("magic")).unwrap();
        symlink("loop", inside("loop")).unwrap();
        if crate::harness::is_root() {
            let owner = std::fs::metadata(&pen.workspace).unwrap().uid();
            for path in [inside("dir"), inside("dir/file")] {
                std::os::unix::fs::chown(path, Some(owner), Some(owner)).unwrap();
            }
        }
        let host = &mut pen.host;
        for path in ["good", "round", "dir/../good"] {
            assert_eq!(read(host, below(path)).as_deref(), Ok(&b"inside"[..]), "{path}");
        }
        for path in
            ["absolute", "up", "../tmp", "../../etc/passwd", "dir/../../tmp", "magic/etc/passwd"]
        {
            assert_eq!(read(host, below(path)), Err(ErrorCode::Outside), "{path}");
            assert!(replace(host, path, b"x").is_err(), "{path}");
        }
        assert_eq!(read(host, below("loop")), Err(ErrorCode::Link));
        assert_eq!(read(host, Place::InPen("/work/../etc/passwd".into())), Err(ErrorCode::Outside));
        // A write goes through a link and leaves the link in place.
        assert_eq!(replace(host, "good", b"changed"), Ok(false));
        assert_eq!(replace(host, "dangling", b"made"), Ok(true));
        assert!(pen.workspace.join("good").is_symlink());
        assert_eq!(std::fs::read(pen.workspace.join("dir/file")).unwrap(), b"changed");
        assert_eq!(std::fs::read(pen.workspace.join("dir/made-by-link")).unwrap(), b"made");
    }
}

#[test]
fn what_lies_in_no_root_is_read_only_and_unknown_roots_are_refused() {
    let mut pen = Pen::with(any_maker(), |spec| {
        spec.serve.roots[1].access = clawpen_wire::pen::RootAccess::Read;
    });
    let host = &mut pen.host;
    let mkdir =
        |place| Request::Mkdir(Mkdir { place, permissions: 0o755, parents: Parents::Required });
    assert_eq!(simple(host, mkdir(Place::InPen("/dev/x".into()))), Err(ErrorCode::ReadOnly));
    assert_eq!(simple(host, mkdir(Place::InPen("/tmp/x".into()))), Err(ErrorCode::ReadOnly));
    assert_eq!(
        simple(host, mkdir(Place::Below { root: 1, path: "x".into() })),
        Err(ErrorCode::ReadOnly)
    );
    assert_eq!(
        simple(host, mkdir(Place::Below { root: 9, path: "x".into() })),
        Err(ErrorCode::NoRoot)
    );
    assert_eq!(simple(host, mkdir(Place::InPen("relative".into()))), Err(ErrorCode::Invalid));
    assert_eq!(simple(host, mkdir(Place::InPen("/work/x".into()))), Ok(()));
}

#[test]
fn pipes_and_devices_are_refused_without_waiting() {
    let mut pen = Pen::new(any_maker());
    pen.host.shell("mkfifo pipe");
    let host = &mut pen.host;
    assert_eq!(read(host, below("pipe")), Err(ErrorCode::NotRegular));
    assert_eq!(replace(host, "pipe", b"x"), Err(ErrorCode::NotRegular));
    assert_eq!(
        write(host, "pipe", WriteMode::Append, Parents::Required, b"x"),
        Err(ErrorCode::NotRegular)
    );
    assert_eq!(read(host, Place::InPen("/dev/zero".into())), Err(ErrorCode::NotRegular));
    assert_eq!(read(host, below("")), Err(ErrorCode::IsDirectory));
}

#[test]
fn a_full_file_system_says_so_and_leaves_nothing() {
    let mut pen = Pen::with(any_maker(), |spec| {
        spec.serve.roots.swap(0, 1);
    });
    let contents = vec![b'x'; 9 * 1024 * 1024];
    let channel = pen.host.channel();
    let open = WriteOpen {
        place: below("big"),
        mode: WriteMode::Replace,
        parents: Parents::Required,
        permissions: 0o644,
    };
    pen.host.send(channel, &Request::WriteOpen(open));
    let mut failed = None;
    for piece in contents.chunks(128 * 1024) {
        pen.host.send(channel, &Request::WriteChunk(piece));
        // Credit comes back for each piece of this size.
        failed = pen.host.next(|_, event| match event {
            Event::Credit(_) => None,
            Event::Failed(failed) => Some(failed.code),
            other => panic!("{other:?}"),
        });
        if failed.is_some() {
            break;
        }
    }
    assert_eq!(failed, Some(ErrorCode::NoSpace));
    assert_eq!(pen.host.shell("ls -A /tmp"), "");
}

#[test]
fn stat_and_list_tell_what_is_there() {
    let mut pen = Pen::new(any_maker());
    std::fs::write(pen.workspace.join("file"), "12345").unwrap();
    std::fs::create_dir(pen.workspace.join("dir")).unwrap();
    symlink("file", pen.workspace.join("link")).unwrap();
    for number in 0..2500 {
        std::fs::write(pen.workspace.join(format!("dir/{number}")), "").unwrap();
    }
    let host = &mut pen.host;
    let stat = |path: &str, links| Request::Stat(Stat { place: below(path), links });
    host.call(stat("file", Links::Follow), |event| match event {
        Event::StatResult(result) => {
            assert_eq!((result.metadata.kind, result.metadata.size), (FileKind::File, 5));
            assert!(result.metadata.modified_ns > 1_600_000_000_000_000_000);
        }
        other => panic!("{other:?}"),
    });
    host.call(stat("link", Links::Report), |event| match event {
        Event::StatResult(result) => {
            assert_eq!(
                (result.metadata.kind, result.link.as_deref()),
                (FileKind::Link, Some("file".as_ref()))
            );
        }
        other => panic!("{other:?}"),
    });
    let mut seen = std::collections::BTreeSet::new();
    let mut cursor = Some(0);
    let mut pages = 0;
    while let Some(from) = cursor {
        let list = List { place: below("dir"), cursor: from, limit: 1000, listing: Listing::Full };
        cursor = host.call(Request::List(list), |event| match event {
            Event::Entries(page) => {
                seen.extend(page.entries.iter().map(|entry| entry.name.clone()));
                assert!(page.entries.iter().all(|entry| entry.metadata.is_some()));
                page.next
            }
            other => panic!("{other:?}"),
        });
        pages += 1;
    }
    assert_eq!((seen.len(), pages), (2500, 3));
    let list = List { place: below("file"), cursor: 0, limit: 1, listing: Listing::Names };
    assert_eq!(simple(host, Request::List(list)), Err(ErrorCode::NotDirectory));
}

#[test]
fn rename_copy_remove_and_hash_follow_no_link() {
    for &maker in makers() {
        let mut pen = Pen::new(maker);
        let script = "mkdir -p tree/deep/er && echo hello > tree/deep/file && chmod 751 tree/deep/file && ln -s ../../keep tree/deep/link && mkdir keep && echo safe > keep/me";
        pen.host.shell(script);
        let host = &mut pen.host;
        let copy = |existing| {
            Request::Copy(Copy {
                from: below("tree"),
                to: below("copied"),
                depth: Depth::Tree,
                existing,
            })
        };
        assert_eq!(simple(host, copy(OnExisting::Refuse)), Ok(()));
        assert_eq!(simple(host, copy(OnExisting::Refuse)), Err(ErrorCode::Exists));
        let one = Copy {
            from: below("tree"),
            to: below("x"),
            depth: Depth::One,
            existing: OnExisting::Refuse,
        };
        assert_eq!(simple(host, Request::Copy(one)), Err(ErrorCode::IsDirectory));
        assert_eq!(host.shell("cat copied/deep/file; readlink copied/deep/link; stat -c %a copied/deep/file; ls -A | tr '\\n' ' '"),
            "hello\n../../keep\n751\ncopied keep tree ");
        let remove = |path: &str, depth| Request::Remove(Remove { place: below(path), depth });
        assert_eq!(simple(host, remove("tree", Depth::One)), Err(ErrorCode::NotEmpty));
        assert_eq!(simple(host, remove("tree", Depth::Tree)), Ok(()));
        assert_eq!(simple(host, remove("tree", Depth::Tree)), Err(ErrorCode::NotFound));
        assert_eq!(simple(host, remove("", Depth::Tree)), Err(ErrorCode::Invalid));
        assert_eq!(host.shell("cat keep/me"), "safe\n");
        let rename = |existing| {
            Request::Rename(Rename { from: below("copied"), to: below("keep"), existing })
        };
        assert_eq!(simple(host, rename(OnExisting::Refuse)), Err(ErrorCode::Exists));
        assert_eq!(simple(host, rename(OnExisting::Replace)), Err(ErrorCode::NotEmpty));
        let rename =
            Rename { from: below("copied"), to: below("moved"), existing: OnExisting::Refuse };
        assert_eq!(simple(host, Request::Rename(rename)), Ok(()));
        host.call(Request::Hash(Hash { place: below("moved/deep/file") }), |event| match event {
            Event::Digest(digest) => {
                assert_eq!(
                    (digest.size, digest.sha256[..4].to_vec()),
                    (6, vec![0x58, 0x91, 0xb5, 0xb5])
                );
            }
            other => panic!("{other:?}"),
        });
    }
}

#[test]
fn nothing_is_copied_over_or_into_itself() {
    let mut pen = Pen::new(any_maker());
    pen.host.shell("mkdir -p tree/deep && echo kept > tree/file && ln tree/file twin");
    for (from, to) in [
        ("tree/file", "twin"),
        ("tree/file", "tree/file"),
        ("tree", "tree/deep/er"),
        ("tree", "tree"),
    ] {
        let copy = Copy {
            from: below(from),
            to: below(to),
            depth: Depth::Tree,
            existing: OnExisting::Replace,
        };
        assert_eq!(simple(&mut pen.host, Request::Copy(copy)), Err(ErrorCode::Invalid), "{to}");
    }
    assert_eq!(
        pen.host.shell("cat twin; find . | sort | tr '\\n' ' '"),
        "kept\n. ./tree ./tree/deep ./tree/file ./twin "
    );
}

#[test]
fn long_file_work_keeps_nobody_waiting() {
    let mut pen = Pen::new(any_maker());
    let file = std::fs::File::create(pen.workspace.join("huge")).unwrap();
    // Sparse: costs no disk, and hashing it takes seconds.
    file.set_len(2 << 30).unwrap();
    std::fs::set_permissions(pen.workspace.join("huge"), std::fs::Permissions::from_mode(0o644))
        .unwrap();
    let hash = pen.host.channel();
    pen.host.send(hash, &Request::Hash(Hash { place: below("huge") }));
    let started = std::time::Instant::now();
    assert_eq!(pen.host.shell("echo quick"), "quick\n");
    assert!(started.elapsed() < std::time::Duration::from_secs(1), "{:?}", started.elapsed());
}

#[test]
fn a_race_of_links_never_leads_a_call_out() {
    let mut pen = Pen::new(any_maker());
    pen.host.shell("mkdir good; echo inside > good/file; ln -s /etc evil; mkdir -p /tmp/out; echo outside > /tmp/out/file");
    // `place` is by turns a directory and a link that leads out.
    let racer = pen.host.channel();
    let script = "ln -sfn /tmp/out link; while :; do mv -T good place; mv -T place good; mv -T link place; mv -T place link; done";
    pen.host.send(racer, &Request::Exec(crate::harness::sh(script)));
    pen.host.next(|_, event| assert!(matches!(event, Event::Started(_))));
    for round in 0..2000 {
        match read(&mut pen.host, below("place/file")) {
            Ok(text) => assert_eq!(text, b"inside\n"),
            Err(
                ErrorCode::NotFound
                | ErrorCode::Outside
                | ErrorCode::Link
                | ErrorCode::NotDirectory,
            ) => {}
            Err(other) => panic!("{other:?} in round {round}"),
        }
        let _ = replace(&mut pen.host, "place/new", b"x");
        let remove = Remove { place: below("place/new"), depth: Depth::Tree };
        let _ = simple(&mut pen.host, Request::Remove(remove));
    }
    assert_eq!(pen.host.run(crate::harness::sh("ls -A /tmp/out")).unwrap().text(), "file\n");
}

#[test]
fn absolute_links_work_if_they_stay_in_their_root() {
    for &maker in makers() {
        let mut pen = Pen::new(maker);
        let script = "mkdir dir && echo inside > dir/file && ln -s /work/dir whole && \
                      ln -s /work/whole/file chain && ln -s /work/new dangling && \
                      ln -s /etc/passwd out && ln -s /work/../etc/passwd sly && ln -s / top";
        pen.host.shell(script);
        let host = &mut pen.host;
        for path in ["whole/file", "chain", "dir/../whole/file"] {
            assert_eq!(read(host, below(path)).as_deref(), Ok(&b"inside\n"[..]), "{path}");
        }
        for path in ["out", "sly", "top/etc/passwd", "top/work/dir/file"] {
            assert_eq!(read(host, below(path)), Err(ErrorCode::Outside), "{path}");
            assert!(replace(host, path, b"x").is_err(), "{path}");
        }
        assert_eq!(replace(host, "chain", b"changed"), Ok(false));
        assert_eq!(replace(host, "dangling", b"made"), Ok(true));
        assert_eq!(replace(host, "whole/beside", b"too"), Ok(true));
        let mkdir = Mkdir { place: below("whole/a/b"), permissions: 0o755, parents: Parents::Make };
        assert_eq!(simple(host, Request::Mkdir(mkdir)), Ok(()));
        let remove = Remove { place: below("whole/beside"), depth: Depth::One };
        assert_eq!(simple(host, Request::Remove(remove)), Ok(()));
        let seen = host.shell("cat dir/file new; ls dir; readlink chain");
        assert_eq!(seen, "changedmadea\nfile\n/work/whole/file\n");
    }
}

#[test]
fn a_tree_of_any_depth_can_be_removed_and_one_too_deep_to_copy_says_so() {
    let mut pen = Pen::new(any_maker());
    // Deeper than any path is long, so it cannot be named as a whole.
    let deep = "d/".repeat(1500);
    let script = format!("mkdir -p {deep} && mv d e && mkdir -p {deep} && mv e {deep}");
    pen.host.shell(&script);
    let copy = Copy {
        from: below("d"),
        to: below("copied"),
        depth: Depth::Tree,
        existing: OnExisting::Refuse,
    };
    assert_eq!(simple(&mut pen.host, Request::Copy(copy)), Err(ErrorCode::TooLong));
    let remove = Remove { place: below("d"), depth: Depth::Tree };
    assert_eq!(simple(&mut pen.host, Request::Remove(remove)), Ok(()));
    assert_eq!(pen.host.shell("ls -A"), "");
}

#[test]
fn a_page_of_a_big_directory_costs_the_same_wherever_it_begins() {
    let mut pen = Pen::new(any_maker());
    for number in 0..20_000 {
        std::fs::File::create(pen.workspace.join(number.to_string())).unwrap();
    }
    let host = &mut pen.host;
    let mut names = std::collections::BTreeSet::new();
    let mut cursor = 0;
    loop {
        let list = List { place: below(""), cursor, limit: 100, listing: Listing::Names };
        let page = host.call(Request::List(list), |event| match event {
            Event::Entries(page) => page.clone(),
            other => panic!("{other:?}"),
        });
        let count = page.entries.len();
        names.extend(page.entries.into_iter().map(|entry| entry.name));
        // A page begins where the kernel stopped, so nothing is told twice.
        assert!(count <= 100);
        match page.next {
            Some(next) => cursor = next,
            None => break,
        }
    }
    assert_eq!(names.len(), 20_000);
}
