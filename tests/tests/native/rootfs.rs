//! `native.rootfs`: a pen made of an unpacked image, also of one that was made to betray its host.

use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

use clawpen_tests::home::Home;
use clawpen_tests::people::Person;

/// The least that a shell runs in: its programs with their libraries, copied from here.
fn small_image(at: &Path) {
    for directory in ["usr/bin", "etc", "var/tmp", "tmp", "proc", "dev", "run"] {
        fs::create_dir_all(at.join(directory)).unwrap();
    }
    for program in ["/bin/sh", "/bin/cat", "/bin/ls", "/usr/bin/id", "/usr/bin/touch"] {
        let libraries = Command::new("ldd").arg(program).output().unwrap();
        let libraries = String::from_utf8(libraries.stdout).unwrap();
        let libraries = libraries.split_whitespace().filter(|word| word.starts_with('/'));
        for file in libraries.chain([program]) {
            let to = at.join(file.trim_start_matches('/'));
            fs::create_dir_all(to.parent().unwrap()).unwrap();
            fs::copy(file, to).unwrap();
        }
    }
    fs::write(at.join("etc/image-name"), "small\n").unwrap();
    fs::write(at.join("etc/hosts"), "6.6.6.6 image\n").unwrap();
}

/// A home whose pens are made of the image in it; `spoil` changes the image first.
fn home(spoil: impl FnOnce(&Path)) -> Home {
    let home = Home::new();
    let image = home.path("image");
    small_image(&image);
    spoil(&image);
    configured(home, "image")
}

fn configured(home: Home, image: &str) -> Home {
    let image = home.path(image);
    let config = format!("{{defaults: {{native: {{rootfs: '{}'}}}}}}", image.display());
    home.with_file(".openclaw/clawpen.json", &config).with_file(
        ".openclaw/openclaw.json",
        "{agents: {defaults: {sandbox: {backend: 'native'}}}}",
    )
}

#[track_caller]
fn sh(home: &Home, script: &str) -> String {
    let run = home.run(&["exec", "--", "sh", "-c", script]);
    assert_eq!((run.code, run.stderr.as_str()), (Some(0), ""), "{script}: {}", run.stdout);
    run.stdout
}

#[test]
fn programs_and_files_are_the_images_and_nothing_of_the_host() {
    let home = home(|image| fs::write(image.join("usr/image-only"), "yes\n").unwrap());
    assert_eq!(
        sh(&home, "cat /usr/image-only /etc/image-name; pwd; id -u"),
        "yes\nsmall\n/workspace\n1000\n"
    );
    // The host's programs are not there; the pen's own files stand over the image's.
    let run = home.run(&["exec", "--", "python3", "-c", ""]);
    assert_eq!(run.code, Some(127), "{}", run.stderr);
    assert!(sh(&home, "cat /etc/hosts").starts_with("127.0.0.1 localhost\n"));
    // File calls go through the same view.
    let read = home.run(&["fs", "read", "/etc/image-name"]);
    assert_eq!((read.code, read.stdout.as_str()), (Some(0), "small\n"));
    let written = home.run(&["exec", "--", "sh", "-c", "echo kept > note; cat note"]);
    assert_eq!(written.stdout, "kept\n");
    let live = home.run(&["sandbox", "explain", "--live", "--json"]).json();
    for fact in live["facts"].as_array().unwrap() {
        assert_eq!(fact["holds"], true, "{fact}");
    }
}

#[test]
fn nothing_of_the_image_can_be_changed() {
    let home = home(|_| {});
    let image = home.path("image");
    for path in ["/x", "/usr/x", "/etc/x", "/var/x", "/usr/bin/sh", "/etc/image-name"] {
        let run = home.run(&["exec", "--", "sh", "-c", &format!("echo x > {path}")]);
        assert_ne!(run.code, Some(0), "{path}");
    }
    let written = home.run(&["exec", "--", "sh", "-c", "touch /tmp/a /var/tmp/a /run/a"]);
    assert_eq!(written.code, Some(0), "{}", written.stderr);
    for path in ["x", "usr/x", "etc/x", "var/x", "tmp/a", "var/tmp/a", "run/a"] {
        assert!(!image.join(path).exists(), "{path}");
    }
}

#[test]
fn a_set_user_id_program_of_the_image_gives_nothing() {
    let home = home(|image| {
        let program = image.join("usr/bin/id");
        fs::set_permissions(program, fs::Permissions::from_mode(0o4755)).unwrap();
    });
    assert_eq!(sh(&home, "id -u"), "1000\n");
}

#[test]
fn an_image_that_is_not_there_is_refused_with_its_key() {
    let check = |make: fn(&Home)| {
        let home = configured(Home::new(), "image");
        make(&home);
        let run = home.run(&["exec", "--", "true"]);
        assert_eq!(run.code, Some(125), "{}", run.stderr);
        let expected = format!("`native.rootfs` names `{}`", home.path("image").display());
        assert!(run.stderr.contains(&expected), "{}", run.stderr);
    };
    check(|_| {});
    check(|home| symlink("/nonexistent", home.path("image")).unwrap());
    check(|home| symlink("image", home.path("image")).unwrap());
    check(|home| fs::write(home.path("image"), "a file").unwrap());
}

/// What a link on the way to the host's files would show.
fn secret(home: &Path) -> PathBuf {
    let secret = home.join("secret");
    fs::write(&secret, "the host's secret\n").unwrap();
    secret
}

#[test]
fn links_of_an_image_lead_nowhere_but_into_the_pen() {
    let home = Home::new();
    let image = home.path("image");
    small_image(&image);
    let secret = secret(&home.path(""));
    // Each of these is followed by somebody: by whoever reads the image, or by who mounts in it.
    symlink(&secret, image.join("etc/leak")).unwrap();
    symlink("/etc/shadow", image.join("etc/leak2")).unwrap();
    symlink("../../secret", image.join("etc/leak3")).unwrap();
    symlink(&secret, image.join("leak4")).unwrap();
    symlink("/", image.join("usr/leak5")).unwrap();
    symlink("/proc/1/root", image.join("etc/leak6")).unwrap();
    let home = configured(home, "image");
    let shown = home.path("").display().to_string();
    for path in [
        "/etc/leak",
        "/etc/leak2",
        "/etc/leak3",
        "/leak4",
        &format!("/usr/leak5{shown}/secret"),
        &format!("/etc/leak6{shown}/secret"),
    ] {
        let run = home.run(&["exec", "--", "cat", path]);
        assert_ne!(run.code, Some(0), "{path}: {}", run.stdout);
        assert!(!run.stdout.contains("secret") && !run.stdout.contains("root:"), "{}", run.stdout);
        let read = home.run(&["fs", "read", path]);
        assert_ne!(read.code, Some(0), "{path}: {}", read.stdout);
    }
}

#[test]
fn places_where_the_pen_mounts_something_may_be_links_to_anywhere() {
    let place = |path: &str, to: &str| {
        let (path, to) = (path.to_owned(), to.to_owned());
        home(move |image| {
            let path = image.join(path);
            if path.is_dir() {
                fs::remove_dir_all(&path).unwrap();
            }
            symlink(to, path).unwrap();
        })
    };
    for (path, to) in [
        ("etc", "/"),
        ("proc", "/"),
        ("proc", "/etc"),
        ("tmp", "/"),
        ("tmp", "/../../../../tmp"),
        ("dev", "/dev"),
        ("run", "/run"),
        ("var", "/"),
        ("var", "/var"),
        ("var/tmp", "/var/tmp"),
        ("var/tmp", "/"),
        ("workspace", "/etc"),
        ("sys", "/sys"),
    ] {
        let before = fs::metadata("/tmp").unwrap().ino();
        let home = place(path, to);
        let seen =
            sh(&home, "touch /tmp/t /var/tmp/t /workspace/t; cat /etc/hosts /proc/1/comm; ls /tmp");
        assert!(seen.starts_with("127.0.0.1 localhost\n"), "{path} -> {to}: {seen}");
        assert!(seen.ends_with("\nt\n"), "{path} -> {to}: {seen}");
        let run = home.run(&["exec", "--", "cat", "/proc/1/environ", "/etc/shadow", "/sys/kernel"]);
        assert_eq!((run.code, run.stdout.as_str()), (Some(1), ""), "{path} -> {to}");
        assert_eq!(fs::metadata("/tmp").unwrap().ino(), before);
        assert!(!Path::new("/var/tmp/t").exists() && !Path::new("/tmp/t").exists());
    }
}

#[test]
fn an_image_without_mount_points_gets_them_beside_its_own_entries() {
    let home = home(|image| {
        fs::remove_dir_all(image.join("var")).unwrap();
        fs::create_dir_all(image.join("var/lib/data")).unwrap();
        fs::write(image.join("var/lib/data/file"), "there\n").unwrap();
        fs::create_dir(image.join("workspace")).unwrap();
        fs::write(image.join("workspace/hidden"), "").unwrap();
    });
    assert_eq!(
        sh(&home, "cat /var/lib/data/file; touch /var/tmp/x; ls /workspace /var"),
        "there\n/var:\nlib\nrun\ntmp\n\n/workspace:\n"
    );
}

#[test]
fn files_that_not_everyone_may_read_stay_out_and_odd_ones_hold_nobody() {
    let home = home(|image| {
        fs::write(image.join("etc/shadow"), "the image's own\n").unwrap();
        fs::set_permissions(image.join("etc/shadow"), fs::Permissions::from_mode(0o640)).unwrap();
        let pipes = [image.join("etc/pipe"), image.join("pipe")];
        assert!(Command::new("mkfifo").args(pipes).status().unwrap().success());
        fs::write(image.join("etc/big"), vec![b'x'; 100_000]).unwrap();
    });
    let run = home.run(&["exec", "--", "cat", "/etc/shadow"]);
    assert_eq!((run.code, run.stdout.as_str()), (Some(1), ""));
    assert_eq!(sh(&home, "cat /etc/big").len(), 100_000);
}

#[test]
fn an_ordinary_user_has_images_too() {
    for ids in ["", "pen-tester:900000000:65536\n"] {
        let person = Person::new(ids).unwrap();
        let image = person.path("image");
        small_image(&image);
        let config = format!("{{defaults: {{native: {{rootfs: '{}'}}}}}}", image.display());
        person.write(".openclaw/clawpen.json", &config).unwrap();
        let run =
            person.run(&["exec", "--", "sh", "-c", "cat /etc/image-name; id -u; touch /usr/x"]);
        assert_eq!((run.code, run.stdout.as_str()), (Some(1), "small\n54321\n"), "{}", run.stderr);
    }
}

/// A whole Debian, made by `cargo xtask services`.
#[test]
fn a_debian_works() {
    let Some(image) = std::env::var_os("CLAWPEN_TEST_ROOTFS") else {
        assert!(std::env::var_os("CLAWPEN_TEST_SERVICES").is_none(), "the image was promised");
        return;
    };
    let config = format!("{{defaults: {{native: {{rootfs: {image:?}}}}}}}");
    let home = Home::new().with_file(".openclaw/clawpen.json", &config);
    let seen = sh(
        &home,
        "git init -q repo && cd repo && echo '{\"a\": 1}' | jq .a && python3 -c 'print(6*7)'",
    );
    assert_eq!(seen, "1\n42\n");
}
