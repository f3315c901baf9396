//! What is in force, as seen from inside: by process 1 itself, and by a child that was confined exactly as a
//! command is.
//!
//! That child comes from the same shim, plan and confinement as any command; only where a command becomes
//! its program it looks at itself. What execve could still change is nothing: no-new-privs is set and the
//! bounding set is empty, and both are among the facts. It tells what the kernel says about it, and whether
//! Landlock refuses it something that the plan does not open: tried, not believed. The kernel's texts travel
//! unparsed; the engine reads them with the reader that it also uses from outside.

use std::fs::{self, File};
use std::io::{self, Read as _, Write as _};
use std::os::fd::AsFd as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clawpen_os::beneath::{self, Open, Root, Stat};
use clawpen_os::capabilities;
use clawpen_os::events;
use clawpen_os::landlock;
use clawpen_os::net;
use clawpen_os::process::{self, Dumpable};
use clawpen_os::spawn::Session;
use clawpen_wire::pen::{LandlockAccess, LandlockPlan, ServePlan};
use clawpen_wire::supervisor::codec::{Cap, Reader, Wire as _};
use clawpen_wire::supervisor::{
    ErrorCode, FactsReport, Failed, FileIdentity, Identified, Identify, Interface, LandlockFact,
    NamespaceFact, ProcessFacts, limits,
};

use crate::confine::{Executable, Prepared, Telling};
use crate::exec::{Ends, failed};
use crate::files::io_failed;

/// The longest report of the observer.
pub(crate) const LONGEST: usize = 64 * 1024;
/// How long the observer may take: it reads a few files of `/proc`.
pub(crate) const PATIENCE: Duration = Duration::from_secs(5);

/// The kernel's smallest table of descriptors has fewer numbers.
const FEWEST_NUMBERS: u32 = 1024;

/// A file that belongs to whoever looks: writable by mode, so only Landlock can refuse it.
const OWN_NAME: &str = "/proc/self/comm";

/// The observer as a command.
pub(crate) fn observer(plan: &ServePlan) -> Result<(Prepared, Ends), Failed> {
    prepare(plan).map_err(|error| io_failed(&error, "observe"))
}

fn prepare(plan: &ServePlan) -> io::Result<(Prepared, Ends)> {
    let (output, stdout) = events::pipe()?;
    events::set_nonblocking(output.as_fd())?;
    let prepared = Prepared {
        program: Executable::Observer(probe(&plan.landlock)),
        argv: Vec::new(),
        environment: Vec::new(),
        directory: beneath::open_root(Path::new("/"))?,
        session: Session::New,
        streams: [events::open_null()?, stdout, events::open_null()?],
        telling: Telling::AtOnce,
    };
    Ok((prepared, Ends { input: None, output, error: None, is_terminal: false }))
}

/// Something that the plan does not open and that nothing but Landlock would refuse.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Probe {
    ListRoot,
    WriteOwnName,
    /// The plan opens everything.
    Nothing,
}

fn probe(plan: &LandlockPlan) -> Probe {
    let opens = |place: &Path, wanted: fn(LandlockAccess) -> bool| {
        plan.rules.iter().any(|rule| place.starts_with(&rule.path) && wanted(rule.access))
    };
    if !opens(Path::new("/"), |_| true) {
        return Probe::ListRoot;
    }
    let writes = |access| match access {
        LandlockAccess::Read | LandlockAccess::ReadExecute => false,
        LandlockAccess::ReadWriteFiles | LandlockAccess::ReadWrite | LandlockAccess::Full => true,
    };
    if opens(Path::new(OWN_NAME), writes) { Probe::Nothing } else { Probe::WriteOwnName }
}

/// The observer's whole life: looks, and writes what it sees to standard output.
pub(crate) fn observe(probe: Probe) -> io::Result<()> {
    if probe == Probe::WriteOwnName {
        // The shim is closed to observers, and so are we: our own files would belong to root, and their
        // mode would refuse us instead of Landlock. For every other probe we stay closed, because
        // commands may run beside us and would like to write this report themselves.
        process::set_dumpable(Dumpable::Yes)?;
    }
    let refused = |error: io::Error| error.kind() == io::ErrorKind::PermissionDenied;
    let enforced = match probe {
        Probe::ListRoot => fs::read_dir("/").err().is_some_and(refused),
        Probe::WriteOwnName => {
            File::options().write(true).open(OWN_NAME).err().is_some_and(refused)
        }
        Probe::Nothing => false,
    };
    let mut report = Vec::new();
    look_at_self()
        .put(&mut report, Cap::NONE)
        .and_then(|()| enforced.put(&mut report, Cap::NONE))
        .map_err(io::Error::other)?;
    let mut output = io::stdout();
    output.write_all(&report).and_then(|()| output.flush())
}

/// What process 1 sees. Taken while the observer starts, on the other processor.
#[derive(Debug)]
pub(crate) struct View {
    supervisor: ProcessFacts,
    mountinfo: Vec<u8>,
    uid_map: Vec<u8>,
    gid_map: Vec<u8>,
    interfaces: Vec<Interface>,
    hostname: Vec<u8>,
}

impl View {
    pub(crate) fn take() -> Self {
        // Asking can only fail for lack of memory; no interface is then one too few, which the host notices.
        let names = net::interfaces().unwrap_or_default();
        Self {
            supervisor: look_at_self(),
            mountinfo: text("/proc/self/mountinfo", limits::MOUNT_TEXT),
            uid_map: text("/proc/self/uid_map", limits::ID_MAP_TEXT),
            gid_map: text("/proc/self/gid_map", limits::ID_MAP_TEXT),
            interfaces: names.into_iter().take(limits::INTERFACES).map(interface).collect(),
            hostname: hostname(),
        }
    }

    /// Puts both views together. `observed` is what the observer wrote.
    pub(crate) fn report(self, observed: &[u8]) -> Result<FactsReport, Failed> {
        let mut reader = Reader::new(observed);
        let workload = ProcessFacts::take(&mut reader, Cap::NONE);
        let enforced = bool::take(&mut reader, Cap::NONE);
        let (Ok(workload), Ok(enforced)) = (workload, enforced) else {
            return Err(failed(
                ErrorCode::Unconfined,
                "a confined child could not report on itself",
            ));
        };
        let abi = landlock::abi().ok().flatten().unwrap_or(0);
        let Self { supervisor, mountinfo, uid_map, gid_map, interfaces, hostname } = self;
        Ok(FactsReport {
            sealed: !supervisor.dumpable,
            supervisor,
            workload,
            mountinfo,
            uid_map,
            gid_map,
            interfaces,
            landlock: LandlockFact { abi, enforced },
            hostname,
        })
    }
}

/// Which files stand at some places. What the engine was asked to mount was a name, and whoever can
/// write beside the source may have swapped it: only the file itself tells.
pub(crate) fn identify(asked: &Identify) -> Identified {
    let look = |place: &PathBuf| -> io::Result<FileIdentity> {
        let root = beneath::open_root(Path::new("/"))?;
        let opened = beneath::open(Root::resolved(root.as_fd()), place, Open::Handle)?;
        let Stat { mount, device, inode, .. } = beneath::stat(opened.as_fd())?;
        Ok(FileIdentity { mount: mount.unwrap_or_default(), device, inode })
    };
    // What cannot be looked at is no proof, and the host takes it for none.
    Identified { files: asked.places.iter().map(|place| look(place).ok()).collect() }
}

fn look_at_self() -> ProcessFacts {
    let status = text("/proc/self/status", limits::KERNEL_TEXT);
    ProcessFacts {
        limits: text("/proc/self/limits", limits::KERNEL_TEXT),
        cgroup: text("/proc/self/cgroup", limits::KERNEL_TEXT),
        namespaces: namespaces(),
        dumpable: !matches!(process::dumpable(), Ok(Dumpable::No)),
        securebits: capabilities::securebits().unwrap_or_default(),
        descriptors: descriptors(&status),
        status,
    }
}

/// A text of the kernel, cut to what the report takes. One that cannot be read is empty, and an empty one
/// is a mismatch to whoever compares.
fn text(path: &str, most: usize) -> Vec<u8> {
    // Room from the start: otherwise the first reads are of 32 bytes each.
    let mut bytes = Vec::with_capacity(most.min(4096));
    let most = u64::try_from(most).unwrap_or(u64::MAX);
    let read = File::open(path).and_then(|file| file.take(most).read_to_end(&mut bytes));
    read.map_or_else(|_| Vec::new(), |_| bytes)
}

/// Asked by name: a sealed process 1 may follow its own links there, and may not list them.
fn namespaces() -> Vec<NamespaceFact> {
    let names = ["cgroup", "ipc", "mnt", "net", "pid", "time", "user", "uts"];
    names.into_iter().filter_map(namespace).collect()
}

fn namespace(name: &str) -> Option<NamespaceFact> {
    // `pid:[4026531836]`
    let link = fs::read_link(format!("/proc/self/ns/{name}")).ok()?;
    let (_, number) = link.to_str()?.split_once(":[")?;
    Some(NamespaceFact { name: name.to_owned(), inode: number.trim_end_matches(']').parse().ok()? })
}

/// Open descriptors. Asked one by one: who is closed to observers cannot list them, and a list that cannot be
/// read would look like an empty one. `status` tells how long the kernel's table is.
fn descriptors(status: &[u8]) -> Vec<u32> {
    let status = String::from_utf8_lossy(status);
    let size = status.lines().find_map(|line| line.strip_prefix("FDSize:")?.trim().parse().ok());
    let mut found = process::open_descriptors(size.unwrap_or(FEWEST_NUMBERS));
    found.truncate(limits::DESCRIPTORS);
    found
}

fn interface(name: String) -> Interface {
    let loopback = name == "lo";
    let flags = text(&format!("/sys/class/net/{name}/flags"), 32);
    let flags = str::from_utf8(&flags).ok().and_then(|text| text.trim().strip_prefix("0x"));
    let up = match flags.and_then(|digits| u32::from_str_radix(digits, 16).ok()) {
        Some(flags) => flags & 1 == 1,
        // A native pen has no `/sys`. A loopback that is down has no route to itself; of another
        // interface the worse is said.
        None => !loopback || loopback_answers(),
    };
    Interface { name, up, loopback }
}

fn loopback_answers() -> bool {
    let socket = std::net::UdpSocket::bind((std::net::Ipv4Addr::LOCALHOST, 0));
    socket.and_then(|socket| socket.send_to(&[], socket.local_addr()?)).is_ok()
}

fn hostname() -> Vec<u8> {
    let mut name = text("/proc/sys/kernel/hostname", limits::HOSTNAME + 1);
    while name.last() == Some(&b'\n') {
        name.pop();
    }
    name.truncate(limits::HOSTNAME);
    name
}
