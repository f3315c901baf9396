//! A door keeps its connections between calls: each call still finds the sandbox that is there, and what
//! one call left unfinished is not met by the next.

use std::os::fd::AsFd as _;
use std::os::unix::net::UnixStream;
use std::time::Duration;

use clawpen_engine::audit::{Door, Filter};
use clawpen_engine::call::{self, About, Keeping, OpenError, Prepared, Target};
use clawpen_engine::channel::{Captured, Channel, Command, ExecIo};
use clawpen_engine::config_store;
use clawpen_engine::lifecycle::How;
use clawpen_engine::registry::InFlight;
use clawpen_engine::yard::Yard;
use clawpen_os::events::{self, Interest};
use clawpen_os::process::{self, Pid, Signal};
use clawpen_wire::supervisor::Stream;

const PATIENCE: Duration = Duration::from_secs(30);

/// A door with a sandbox that it has used before.
struct World {
    _directory: tempfile::TempDir,
    yard: Yard,
    prepared: Prepared,
}

impl World {
    fn new() -> Self {
        let directory = tempfile::Builder::new().prefix("pen").tempdir().unwrap();
        let state = directory.path().to_str().unwrap();
        let config = "{agents: {defaults: {sandbox: {backend: 'native'}}}}";
        std::fs::write(directory.path().join("openclaw.json"), config).unwrap();
        let store = config_store::open_in(state).unwrap();
        let target = Target { session: None, agent: None, backend: None };
        let prepared = call::prepare(&store, &target).unwrap();
        let world = Self { yard: Yard::open(state).unwrap(), prepared, _directory: directory };
        assert_eq!(world.run(first_process).0, Some(How::Created));
        // This one was found again, and stays connected.
        assert_eq!(world.run(first_process).0, Some(How::Kept));
        world
    }

    /// One call; how it came to its sandbox, and what it gave.
    fn run<T>(&self, job: impl FnOnce(&mut call::Open<'_>) -> T) -> (Option<How>, T) {
        let about = About { door: Door::Cli, tool: "exec", keeping: Keeping::Scope };
        let done = call::run(&self.yard, &self.prepared, &about, |open, _| job(open)).unwrap();
        (done.how, done.value)
    }

    fn says(&self, script: &str) -> String {
        self.run(|open| said(open.sandbox().channel().unwrap(), script)).1
    }
}

impl Drop for World {
    fn drop(&mut self) {
        for row in self.yard.database.registry().list().unwrap() {
            self.yard.lifecycle().remove(&row, InFlight::CutOff).unwrap();
        }
    }
}

fn first_process(open: &mut call::Open<'_>) -> u32 {
    open.sandbox().first_process()
}

fn said(channel: &mut Channel, script: &str) -> String {
    let mut output = Captured::new(4096);
    channel.exec(&Command::new(["sh", "-c", script]), &mut output).unwrap();
    String::from_utf8(output.stdout).unwrap()
}

/// How many connections this process has to anything.
fn connections() -> usize {
    let fds = std::fs::read_dir("/proc/self/fd").unwrap();
    let targets = fds.flatten().filter_map(|fd| std::fs::read_link(fd.path()).ok());
    targets.filter(|target| target.to_string_lossy().starts_with("socket:")).count()
}

#[test]
fn calls_one_after_the_other_use_one_connection() {
    let before = connections();
    let world = World::new();
    assert_eq!(connections(), before + 1);
    for _ in 0..3 {
        assert_eq!(world.says("echo here"), "here\n");
    }
    assert_eq!(connections(), before + 1);
}

#[test]
fn a_sandbox_that_died_between_two_calls_is_made_anew() {
    let world = World::new();
    let (_, pid) = world.run(first_process);
    let handle = process::pidfd_open(Pid::new(pid.cast_signed()).unwrap()).unwrap();
    process::pidfd_signal(handle.as_fd(), Signal::KILL).unwrap();
    let ended = events::poll(&[(handle.as_fd(), Interest::Read)], Some(PATIENCE)).unwrap();
    assert!(!ended.is_empty());
    let (how, next) = world.run(first_process);
    assert_eq!(how, Some(How::Created));
    assert_ne!(next, pid);
    assert_eq!(world.says("echo new"), "new\n");
}

#[test]
fn a_sandbox_that_was_removed_and_made_by_somebody_else_is_the_one_that_is_used() {
    let world = World::new();
    let (_, old) = world.run(first_process);
    let state = world.yard.state_dir.clone();
    let other = Yard::open(&state).unwrap();
    for row in other.database.registry().list().unwrap() {
        other.lifecycle().remove(&row, InFlight::Respect).unwrap();
    }
    drop(world.prepared.open(&other, Keeping::Scope, "other").unwrap());
    let (how, new) = world.run(first_process);
    assert_eq!(how, Some(How::Kept));
    assert_ne!(new, old);
}

/// Takes nothing of what a command writes.
struct Full;

impl ExecIo for Full {
    fn output(&mut self, _stream: Stream, _bytes: &[u8]) -> std::io::Result<()> {
        Err(std::io::ErrorKind::StorageFull.into())
    }
}

#[test]
fn what_a_call_left_unfinished_is_not_met_by_the_next() {
    let world = World::new();
    world.run(|open| {
        let channel = open.sandbox().channel().unwrap();
        let endless = Command::new(["sh", "-c", "while :; do echo more; done"]);
        channel.exec(&endless, &mut Full).unwrap_err();
    });
    assert_eq!(world.says("echo clean"), "clean\n");
}

/// Nobody but process 1 can be at the other end of what is kept, whatever stands at its path later.
#[test]
fn a_socket_that_takes_the_place_of_the_sandboxs_is_not_spoken_to() {
    let world = World::new();
    let rows = world.yard.database.registry().list().unwrap();
    let Some(clawpen_engine::registry::Identity::Native(identity)) = &rows[0].identity else {
        panic!("{rows:?}")
    };
    std::fs::rename(&identity.socket, format!("{}.away", identity.socket)).unwrap();
    let listener = std::os::unix::net::UnixListener::bind(&identity.socket).unwrap();
    listener.set_nonblocking(true).unwrap();
    assert_eq!(world.says("echo mine"), "mine\n");
    let met: std::io::Result<UnixStream> = listener.accept().map(|(stream, _)| stream);
    assert_eq!(met.unwrap_err().kind(), std::io::ErrorKind::WouldBlock);
    std::fs::remove_file(&identity.socket).unwrap();
    std::fs::rename(format!("{}.away", identity.socket), &identity.socket).unwrap();
}

/// A command that fills the disk and empties it again must not keep its call out of the record. Here a newer schema
/// stands for the disk: nothing can be written while it is there.
#[test]
fn a_call_that_could_not_be_recorded_is_recorded_before_the_next_runs() {
    let world = World::new();
    let other = rusqlite::Connection::open(world.yard.database.path()).unwrap();
    let version: u32 = other.query_row("PRAGMA user_version", [], |row| row.get(0)).unwrap();
    let set = |version: u32| other.pragma_update(None, "user_version", version).unwrap();
    let recorded = || world.yard.database.audit().list(&Filter::default()).unwrap().len();
    let before = recorded();
    let about = About { door: Door::Cli, tool: "exec", keeping: Keeping::Scope };
    let ran = call::run(&world.yard, &world.prepared, &about, |open, _| {
        let said = said(open.sandbox().channel().unwrap(), "echo ran");
        set(version + 1);
        said
    });
    assert!(matches!(ran, Err(OpenError::Audit(_))), "{ran:?}");
    // Nothing runs until it is written.
    let mut has_run = false;
    let next = call::run(&world.yard, &world.prepared, &about, |_, _| has_run = true);
    assert!(matches!(next, Err(OpenError::Audit(_))), "{next:?}");
    assert!(!has_run);
    set(version);
    assert_eq!(recorded(), before);
    assert_eq!(world.says("echo next"), "next\n");
    assert_eq!(recorded(), before + 2);
    assert_eq!(world.yard.database.registry().all_leases().unwrap(), []);
    assert!(world.yard.database.audit().verify(None).unwrap().breaks.is_empty());
}
