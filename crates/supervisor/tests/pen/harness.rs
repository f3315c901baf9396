//! Makes real pens from hand-written specs and speaks to them in frames.

use std::ffi::CString;
use std::io::{Read as _, Write as _};
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::fs::{PermissionsExt as _, chown};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use clawpen_os::beneath;
use clawpen_os::events::{self, Interest};
use clawpen_os::memfd;
use clawpen_os::process::{Child, Identity, Signal};
use clawpen_os::sockets;
use clawpen_os::spawn::{Image, Plan};
use clawpen_wire::pen::{
    BindOwner, Credentials, FileRoot, IdPlan, IdRange, IdWriter, LandlockAccess, LandlockPlan,
    LandlockRule, Lifetime, MakePlan, MountFlags, MountStep, Namespaces, Network, PenSpec,
    ResourceLimit, RootAccess, ServeCaps, ServePlan, Submounts,
};
use clawpen_wire::supervisor::frame::{self, Inbox};
use clawpen_wire::supervisor::{
    End, EnvVar, EnvironmentBase, Event, Exec, ExecOutput, Exited, FactsReport, Failed, Hello,
    Place, ProcessList, Request, StderrMode, StdinMode, Stream, VERSION, Welcome, limits,
};

pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

/// Who makes the pen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Maker {
    Root,
    /// An ordinary user without subordinate ids.
    Ordinary,
}

pub(crate) const ORDINARY: u32 = 23_456;

/// A pen that is running, and one connection to it.
pub(crate) struct Pen {
    pub(crate) host: Host,
    pub(crate) pid: i32,
    pub(crate) pidfd: OwnedFd,
    pub(crate) workspace: PathBuf,
    pub(crate) directory: tempfile::TempDir,
}

pub(crate) struct Host {
    stream: UnixStream,
    inbox: Inbox,
    next: u32,
}

pub(crate) fn is_root() -> bool {
    clawpen_os::process::identity().unwrap().uid == 0
}

pub(crate) fn allow_everything() -> Vec<u8> {
    // One instruction: return SECCOMP_RET_ALLOW.
    vec![0x06, 0, 0, 0, 0, 0, 0xff, 0x7f]
}

/// A spec that a test can change before it makes the pen.
pub(crate) fn spec(maker: Maker, workspace: &Path) -> PenSpec {
    let (writer, uids) = match maker {
        Maker::Root => {
            (IdWriter::Direct, vec![IdRange { inside: 0, outside: 0x7000_0000, count: 65_536 }])
        }
        Maker::Ordinary => {
            let outside = clawpen_os::process::identity().unwrap().uid;
            let outside = if outside == 0 { ORDINARY } else { outside };
            (IdWriter::Single, vec![IdRange { inside: 1000, outside, count: 1 }])
        }
    };
    let owner = if maker == Maker::Root { BindOwner::SameIds } else { BindOwner::AsIs };
    let read_only = MountFlags { bits: MountFlags::READ_ONLY };
    let mut root = vec![bind("/usr", "/usr", read_only, BindOwner::AsIs)];
    for name in ["bin", "lib", "lib64", "sbin"] {
        root.push(match std::fs::read_link(format!("/{name}")) {
            Ok(to) => MountStep::Symlink { target: format!("/{name}").into(), to },
            Err(_) => bind(&format!("/{name}"), &format!("/{name}"), read_only, BindOwner::AsIs),
        });
    }
    for device in ["null", "zero", "full", "random", "urandom"] {
        let path = PathBuf::from(format!("/dev/{device}"));
        root.push(MountStep::Device { source: path.clone(), target: path });
    }
    root.extend([
        MountStep::Devpts { target: "/dev/pts".into() },
        MountStep::Symlink { target: "/dev/ptmx".into(), to: "pts/ptmx".into() },
        MountStep::Proc { target: "/proc".into() },
        MountStep::Mask { target: "/proc/keys".into() },
        MountStep::Mask { target: "/proc/acpi".into() },
        MountStep::Mask { target: "/proc/there-is-no-such".into() },
        MountStep::ReadOnly { target: "/proc/sys".into() },
        tmpfs("/tmp", 8 * 1024 * 1024),
        MountStep::File {
            target: "/etc/passwd".into(),
            contents: b"agent:x:1000:1000::/work:/bin/sh\n".to_vec(),
            permissions: 0o644,
        },
        bind(workspace.to_str().unwrap(), "/work", MountFlags::NONE, owner),
        MountStep::ReadOnly { target: "/".into() },
    ]);
    PenSpec {
        make: Some(Box::new(MakePlan {
            hostname: "pen".into(),
            namespaces: Namespaces::ALL,
            ids: IdPlan { writer, gids: uids.clone(), uids },
            root,
            network: Network::None,
            cgroups: Vec::new(),
        })),
        serve: ServePlan {
            lifetime: Lifetime::UntilDisconnect,
            user: Credentials { uid: 1000, gid: 1000, groups: Vec::new() },
            workdir: "/work".into(),
            env: vec![
                EnvVar { name: "PATH".into(), value: "/usr/bin:/bin".into() },
                EnvVar { name: "HOME".into(), value: "/work".into() },
            ],
            rlimits: vec![ResourceLimit { resource: 4, soft: 0, hard: 0 }],
            umask: 0o022,
            seccomp: allow_everything(),
            landlock: LandlockPlan {
                lowest_abi: 1,
                rules: [
                    ("/", LandlockAccess::ReadExecute),
                    ("/tmp", LandlockAccess::Full),
                    ("/work", LandlockAccess::Full),
                    ("/dev", LandlockAccess::ReadWriteFiles),
                ]
                .map(|(path, access)| LandlockRule { path: path.into(), access, optional: false })
                .to_vec(),
                tcp: true,
            },
            roots: vec![
                FileRoot { path: "/work".into(), access: RootAccess::Write },
                FileRoot { path: "/tmp".into(), access: RootAccess::Write },
            ],
            caps: ServeCaps::default(),
        },
    }
}

pub(crate) fn bind(source: &str, target: &str, flags: MountFlags, owner: BindOwner) -> MountStep {
    MountStep::Bind {
        source: source.into(),
        target: target.into(),
        flags,
        submounts: Submounts::Leave,
        owner,
    }
}

pub(crate) fn tmpfs(target: &str, size: u64) -> MountStep {
    MountStep::Tmpfs {
        target: target.into(),
        size,
        inodes: 0,
        permissions: 0o1777,
        flags: MountFlags::NONE,
    }
}

/// A directory for a workspace and a socket.
pub(crate) fn place() -> (tempfile::TempDir, PathBuf) {
    let directory = tempfile::tempdir().unwrap();
    std::fs::set_permissions(directory.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
    let workspace = directory.path().join("workspace");
    std::fs::create_dir(&workspace).unwrap();
    (directory, workspace)
}

impl Pen {
    /// The ordinary pen of most tests, sealed.
    pub(crate) fn new(maker: Maker) -> Self {
        Self::with(maker, |_| {})
    }

    pub(crate) fn with(maker: Maker, change: impl FnOnce(&mut PenSpec)) -> Self {
        let mut pen = Self::unsealed(maker, change).unwrap();
        pen.host.call(Request::Seal, |event| assert_eq!(*event, Event::Done));
        pen
    }

    /// Says what the maker reported if there is no pen.
    pub(crate) fn unsealed(
        maker: Maker,
        change: impl FnOnce(&mut PenSpec),
    ) -> Result<Self, String> {
        let (directory, workspace) = place();
        if is_root() {
            let owner = if maker == Maker::Root { 1000 } else { ORDINARY };
            chown(&workspace, Some(owner), Some(owner)).unwrap();
        }
        let mut spec = spec(maker, &workspace);
        change(&mut spec);
        let (pid, pidfd) = start(maker, &spec, directory.path())?;
        let host = Host::connect(directory.path());
        Ok(Self { host, pid, pidfd, workspace, directory })
    }

    /// Whether process 1 is still there.
    pub(crate) fn is_alive(&self) -> bool {
        events::poll(&[(self.pidfd.as_fd(), Interest::Read)], Some(Duration::ZERO))
            .unwrap()
            .is_empty()
    }

    /// Waits until process 1 has ended.
    #[track_caller]
    pub(crate) fn wait_for_end(&self) {
        let ended = events::poll(&[(self.pidfd.as_fd(), Interest::Read)], Some(PATIENCE)).unwrap();
        assert!(!ended.is_empty(), "process 1 is still there");
    }
}

impl Drop for Pen {
    fn drop(&mut self) {
        let _ = clawpen_os::process::pidfd_signal(self.pidfd.as_fd(), Signal::KILL);
        let _ = events::poll(&[(self.pidfd.as_fd(), Interest::Read)], Some(PATIENCE));
    }
}

/// The supervisor under test, as the engine starts it: from memory.
pub(crate) fn program() -> OwnedFd {
    // `cargo bench`-like runs measure the static release build instead.
    let path = std::env::var("CLAWPEN_SUPERVISOR")
        .unwrap_or(env!("CARGO_BIN_EXE_clawpen-supervisor").into());
    let bytes = std::fs::read(path).unwrap();
    memfd::sealed("clawpen-supervisor", &bytes, memfd::Use::Execute).unwrap()
}

pub(crate) fn start(
    maker: Maker,
    spec: &PenSpec,
    directory: &Path,
) -> Result<(i32, OwnedFd), String> {
    start_with(&program(), maker, spec, directory)
}

pub(crate) fn start_with(
    program: &OwnedFd,
    maker: Maker,
    spec: &PenSpec,
    directory: &Path,
) -> Result<(i32, OwnedFd), String> {
    let (maker, ours) = start_maker(program, maker);
    give_order(&ours, spec, directory);
    let mut process_1 = None;
    let outcome = loop {
        let mut buffer = [0_u8; 1024];
        let message = sockets::receive(ours.as_fd(), &mut buffer, 1).unwrap();
        match &buffer[..message.bytes] {
            [b'M', pid @ ..] => {
                let pid = i32::from_le_bytes(pid.try_into().unwrap());
                process_1 = Some((pid, message.descriptors.into_iter().next().unwrap()));
            }
            [b'R'] if process_1.is_some() => break Ok(process_1.take().unwrap()),
            [b'R'] => {
                // Process 1 was quicker than its maker; the other message follows.
                let message = sockets::receive(ours.as_fd(), &mut buffer, 1).unwrap();
                let pid = i32::from_le_bytes(buffer[1..5].try_into().unwrap());
                break Ok((pid, message.descriptors.into_iter().next().unwrap()));
            }
            [b'F', text @ ..] => break Err(String::from_utf8_lossy(text).into_owned()),
            other => break Err(format!("unexpected report {other:?}")),
        }
    };
    maker.wait().unwrap();
    outcome
}

/// A maker that waits for its order, and the socket to it.
pub(crate) fn start_maker(program: &OwnedFd, maker: Maker) -> (Child, OwnedFd) {
    let (ours, theirs) = sockets::pair(sockets::Kind::Messages).unwrap();
    let null = events::open_null().unwrap();
    let argv = vec![CString::from(c"clawpen-supervisor"), CString::from(c"make")];
    let mut plan = Plan::new(Image::File(program.as_fd()), argv, Vec::new())
        .descriptor(0, null.as_fd())
        .descriptor(1, null.as_fd())
        .descriptor(2, null.as_fd())
        .descriptor(3, theirs.as_fd());
    if maker == Maker::Ordinary && is_root() {
        plan = plan.identity(Identity { uid: ORDINARY, gid: ORDINARY, groups: Vec::new() });
    }
    (plan.spawn().unwrap(), ours)
}

/// Has a maker make `spec`, listening at `s` in `directory`.
pub(crate) fn give_order(to: &OwnedFd, spec: &PenSpec, directory: &Path) {
    let spec = memfd::sealed("spec", &spec.to_bytes().unwrap(), memfd::Use::Read).unwrap();
    let place = beneath::open_root(directory).unwrap();
    let _ = std::fs::remove_file(directory.join("s"));
    let listener = sockets::listen(place.as_fd(), "s".as_ref()).unwrap();
    sockets::send(to.as_fd(), b"P", &[spec.as_fd(), listener.as_fd()]).unwrap();
}

impl Host {
    pub(crate) fn connect(directory: &Path) -> Self {
        let mut host = Self::connect_silently(directory);
        host.send(0, &Request::Hello(Hello { oldest: VERSION, newest: VERSION }));
        host.next(|channel, event| {
            assert_eq!(channel, 0);
            assert!(matches!(event, Event::Welcome(Welcome { version: VERSION, .. })), "{event:?}");
        });
        host
    }

    pub(crate) fn connect_silently(directory: &Path) -> Self {
        let stream = UnixStream::connect(directory.join("s")).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        Self { stream, inbox: Inbox::of_events(), next: 1 }
    }

    pub(crate) fn channel(&mut self) -> u32 {
        self.next += 1;
        self.next
    }

    #[track_caller]
    pub(crate) fn send(&mut self, channel: u32, request: &Request<'_>) {
        let mut bytes = Vec::new();
        frame::append(&mut bytes, channel, request).unwrap();
        self.stream.write_all(&bytes).unwrap();
    }

    pub(crate) fn send_raw(&mut self, bytes: &[u8]) {
        let _ = self.stream.write_all(bytes);
    }

    /// Whether the supervisor has closed the connection, after reading what it still said.
    pub(crate) fn is_closed(&mut self) -> bool {
        loop {
            let mut buffer = [0; 4096];
            match self.stream.read(&mut buffer) {
                Ok(0) => return true,
                Ok(_) => {}
                Err(error) => return error.kind() == std::io::ErrorKind::ConnectionReset,
            }
        }
    }

    #[track_caller]
    pub(crate) fn next<T>(&mut self, take: impl FnOnce(u32, &Event<'_>) -> T) -> T {
        loop {
            if let Some(frame) = self.inbox.next_frame().unwrap() {
                return take(frame.channel, &frame.decode().unwrap());
            }
            let count = self.stream.read(self.inbox.room()).expect("an event");
            assert!(count > 0, "the supervisor has closed the connection");
            self.inbox.filled(count);
        }
    }

    /// One request, one answer.
    #[track_caller]
    pub(crate) fn call<T>(
        &mut self,
        request: Request<'_>,
        take: impl FnOnce(&Event<'_>) -> T,
    ) -> T {
        let channel = self.channel();
        self.send(channel, &request);
        self.next(|answered, event| {
            assert_eq!(answered, channel);
            take(event)
        })
    }

    #[track_caller]
    pub(crate) fn facts(&mut self) -> FactsReport {
        self.call(Request::Facts, |event| match event {
            Event::FactsReport(report) => (**report).clone(),
            other => panic!("{other:?}"),
        })
    }

    #[track_caller]
    pub(crate) fn processes(&mut self) -> ProcessList {
        self.call(Request::ListProcesses, |event| match event {
            Event::ProcessList(list) => list.clone(),
            other => panic!("{other:?}"),
        })
    }

    /// Runs a command to its end.
    #[track_caller]
    pub(crate) fn run(&mut self, exec: Exec) -> Result<Ran, Failed> {
        let channel = self.channel();
        self.send(channel, &Request::Exec(exec));
        self.finish(channel)
    }

    #[track_caller]
    pub(crate) fn finish(&mut self, channel: u32) -> Result<Ran, Failed> {
        let mut ran = Ran::default();
        let started = Instant::now();
        loop {
            assert!(started.elapsed() < PATIENCE, "the command does not end; so far {ran:?}");
            let (credit, end) = self.next(|answered, event| {
                assert_eq!(answered, channel);
                match event {
                    Event::Started(started) => {
                        ran.pid = started.pid;
                        (0, None)
                    }
                    Event::Output(output) => {
                        assert_eq!(output.offset, (ran.out.len() + ran.err.len()) as u64);
                        let to = if output.stream == Stream::Stdout {
                            &mut ran.out
                        } else {
                            &mut ran.err
                        };
                        to.extend_from_slice(output.bytes);
                        (u32::try_from(output.bytes.len()).unwrap(), None)
                    }
                    Event::Attached(_) | Event::Credit(_) => (0, None),
                    Event::Exited(exited) => (0, Some(Ok(*exited))),
                    Event::Failed(failed) => (0, Some(Err(failed.clone()))),
                    other => panic!("{other:?}"),
                }
            });
            match end {
                Some(Ok(exited)) => return Ok(Ran { exited: Some(exited), ..ran }),
                Some(Err(failed)) => return Err(failed),
                None if credit > 0 => self.send(channel, &Request::Credit(credit)),
                None => {}
            }
        }
    }

    /// What a shell says to `script`; it must exit with 0.
    #[track_caller]
    pub(crate) fn shell(&mut self, script: &str) -> String {
        let ran = self.run(sh(script)).unwrap();
        assert_eq!(ran.end(), End::Code(0), "{script}: {ran:?}");
        String::from_utf8(ran.out).unwrap()
    }
}

#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(crate) struct Ran {
    pub(crate) pid: u32,
    pub(crate) out: Vec<u8>,
    pub(crate) err: Vec<u8>,
    pub(crate) exited: Option<Exited>,
}

impl Ran {
    pub(crate) fn end(&self) -> End {
        self.exited.unwrap().end
    }

    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.out).into_owned()
    }
}

pub(crate) fn sh(script: &str) -> Exec {
    exec(&["sh", "-c", script])
}

pub(crate) fn exec(argv: &[&str]) -> Exec {
    Exec {
        argv: argv.iter().map(Into::into).collect(),
        cwd: None,
        base: EnvironmentBase::Sandbox,
        env: Vec::new(),
        stdin: StdinMode::Null,
        stderr: StderrMode::Separate,
        tty: None,
        timeout_ms: 0,
        grace_ms: 0,
        output: ExecOutput::Stream { window: limits::WINDOW },
    }
}

pub(crate) fn below(path: &str) -> Place {
    Place::Below { root: 0, path: path.into() }
}

impl Host {
    /// Closes the connection; the value can be replaced by a new one.
    pub(crate) fn hang_up(&mut self) {
        self.stream.shutdown(std::net::Shutdown::Both).unwrap();
    }

    #[track_caller]
    pub(crate) fn finish_attached(&mut self, channel: u32) -> Ran {
        self.finish(channel).unwrap()
    }

    /// The rest of an attached output that does not start at 0.
    #[track_caller]
    pub(crate) fn finish_attached_from(&mut self, channel: u32, start: u64) -> Ran {
        let mut ran = Ran::default();
        loop {
            let exited = self.next(|of, event| {
                assert_eq!(of, channel);
                match event {
                    Event::Output(output) => {
                        assert_eq!(output.offset, start + (ran.out.len() + ran.err.len()) as u64);
                        ran.out.extend_from_slice(output.bytes);
                        None
                    }
                    Event::Exited(exited) => Some(*exited),
                    other => panic!("{other:?}"),
                }
            });
            if exited.is_some() {
                return Ran { exited, ..ran };
            }
        }
    }
}

impl Host {
    /// Sending gives up when the other side does not read.
    pub(crate) fn set_write_timeout(&mut self) {
        self.stream.set_write_timeout(Some(Duration::from_millis(500))).unwrap();
    }
}
