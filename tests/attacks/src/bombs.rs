//! Commands that never stop: `bomb KIND` takes all it can get and holds it, `race ROOT OUTSIDE` swaps names
//! under whoever works there. They are run to see that everything else goes on.

use std::io::{self, Write as _};
use std::path::Path;
use std::time::Duration;

use crate::system::{HERE, address, call, call3, number_of, text};

/// Runs a bomb. Comes back only where its part is to end.
pub(crate) fn bomb(kind: &str) -> io::Result<()> {
    match kind {
        "fork" => fork(),
        "memory" => memory(),
        "descriptors" => descriptors(),
        "output" => output(),
        "tmpfs" => fill(),
        "deaf" => deaf(),
        "daemon" => {
            daemon();
            Ok(())
        }
        "stopped" => stopped(),
        other => Err(io::Error::other(format!("no bomb is called `{other}`"))),
    }
}

/// How many processes of bombs there are.
pub(crate) fn count() -> usize {
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let lines = entries.filter_map(|entry| std::fs::read(entry.path().join("cmdline")).ok());
    lines.filter(|line| line.windows(6).any(|word| word == b"\0bomb\0")).count()
}

fn hold() -> ! {
    loop {
        std::thread::sleep(Duration::from_secs(3600));
    }
}

/// Processes without end; at the limit it tries again and again.
fn fork() -> io::Result<()> {
    loop {
        // SAFETY: this program has one thread; the child only waits.
        match unsafe { libc::fork() } {
            0 => hold(),
            -1 => std::thread::sleep(Duration::from_millis(1)),
            _ => {}
        }
    }
}

fn memory() -> io::Result<()> {
    let mut taken = Vec::new();
    loop {
        let mut piece = vec![0u8; 16 << 20];
        piece.iter_mut().step_by(4096).for_each(|byte| *byte = 1);
        taken.push(piece);
    }
}

fn descriptors() -> io::Result<()> {
    let mut last = 0;
    while let Ok(next) = call3(libc::SYS_dup, 1, 0, 0) {
        last = next;
    }
    // To say so takes one.
    call3(libc::SYS_close, last, 0, 0)?;
    crate::company::say_ready();
    while call3(libc::SYS_dup, 1, 0, 0).is_ok() {}
    hold()
}

fn output() -> io::Result<()> {
    let piece = vec![b'x'; 64 << 10];
    loop {
        io::stdout().write_all(&piece)?;
    }
}

fn fill() -> io::Result<()> {
    let piece = vec![1u8; 1 << 20];
    let mut file = std::fs::File::create("/tmp/bomb")?;
    while file.write_all(&piece).is_ok() {}
    crate::company::say_ready();
    hold()
}

fn ignore(signal: i32) {
    // SAFETY: ignoring a signal installs no handler.
    unsafe { libc::signal(signal, libc::SIG_IGN) };
}

fn deaf() -> io::Result<()> {
    [libc::SIGTERM, libc::SIGINT, libc::SIGHUP, libc::SIGQUIT].into_iter().for_each(ignore);
    detach();
    hold()
}

/// The first process ends at once; what it left wants to stay.
fn daemon() {
    for _ in 0..3 {
        detach();
    }
}

fn stopped() -> io::Result<()> {
    detach();
    call3(libc::SYS_kill, std::process::id() as usize, number_of(libc::SIGSTOP), 0).map(drop)
}

/// A grandchild in a session of its own that nobody waits for, deaf, and not to be told of our end.
fn detach() {
    // SAFETY: this program has one thread; the child forks once more and ends.
    let child = unsafe { libc::fork() };
    if child == 0 {
        let _ = call(libc::SYS_setsid, [0; 6]);
        let _ = call3(libc::SYS_prctl, 1, 0, 0); // no signal when the parent dies
        [libc::SIGTERM, libc::SIGHUP].into_iter().for_each(ignore);
        // SAFETY: as above.
        if unsafe { libc::fork() } != 0 {
            std::process::exit(0);
        }
        hold();
    }
    let mut status = 0;
    // SAFETY: waitpid fills the integer that the pointer leads to.
    unsafe { libc::waitpid(child, &raw mut status, 0) };
}

/// Swaps `ROOT/place` (a directory) with a link that leads to `OUTSIDE`, `ROOT/name` (a file) with a link
/// to a file there, and moves a directory of `ROOT/tree` away and back, as fast as it can.
pub(crate) fn race(root: &str, outside: &str) -> io::Result<()> {
    let root = Path::new(root);
    set_up_race(root, Path::new(outside))?;
    crate::company::say_ready();
    let path = |name: &str| text(&root.join(name).display().to_string());
    let [place, link] = [path("place"), path("place-link")];
    let [name, name_link] = [path("name"), path("name-link")];
    let [sub, away] = [path("tree/a/b"), path("b")];
    let exchange = |one: &std::ffi::CString, other: &std::ffi::CString| {
        let _ = call(libc::SYS_renameat2, [HERE, address(one), HERE, address(other), 2, 0]);
    };
    let hard = path("hard");
    loop {
        exchange(&place, &link);
        exchange(&name, &name_link);
        exchange(&sub, &link);
        let _ = call3(libc::SYS_rename, address(&sub), address(&away), 0);
        let _ = call3(libc::SYS_rename, address(&away), address(&sub), 0);
        // A second name for whatever is there just now, link or file.
        let _ = call3(libc::SYS_link, address(&name), address(&hard), 0);
        let _ = call3(libc::SYS_rename, address(&hard), address(&name), 0);
        let _ = call3(libc::SYS_unlink, address(&hard), 0, 0);
    }
}

fn set_up_race(root: &Path, outside: &Path) -> io::Result<()> {
    use std::os::unix::fs::symlink;
    std::fs::create_dir_all(root.join("place"))?;
    std::fs::create_dir_all(root.join("tree/a/b"))?;
    std::fs::create_dir_all(outside)?;
    std::fs::write(outside.join("file"), "outside")?;
    std::fs::write(outside.join("only-outside"), "outside")?;
    std::fs::write(root.join("place/file"), "within")?;
    std::fs::write(root.join("name"), "within")?;
    symlink(outside, root.join("place-link"))?;
    symlink(outside.join("file"), root.join("name-link"))
}

/// What is outside, as one line: names and contents.
pub(crate) fn outside(directory: &str) -> io::Result<String> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(directory)? {
        let path = entry?.path();
        let contents = std::fs::read_to_string(&path).unwrap_or_else(|_odd| "?".to_owned());
        found.push(format!("{}={contents}", path.file_name().unwrap_or_default().display()));
    }
    found.sort();
    Ok(found.join(" "))
}
