//! Things of the host that a pen must not reach: files, sockets, processes, shared memory, a terminal.
//!
//! Each is really there while the value lives, and open to every user of the host: what keeps an attack
//! from it is the pen, not its owner's care.

use std::fs::{File, Permissions};
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::TcpListener;
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::{SocketAddr, UnixListener};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

use anyhow::{Context as _, Result};
use nix::fcntl::{FcntlArg, FdFlag, fcntl};

use crate::built;

/// The canaries of one run.
#[derive(Debug)]
pub struct Canaries {
    directory: tempfile::TempDir,
    files: [tempfile::NamedTempFile; 2],
    /// Handed on to every program that is started: who closes nothing has it.
    _leaked: File,
    _abstract: UnixListener,
    _socket: UnixListener,
    _port: TcpListener,
    process: Child,
    host: Child,
    shared_memory: Option<String>,
    variables: Vec<(&'static str, String)>,
}

impl Canaries {
    /// Puts everything in place.
    pub fn new() -> Result<Self> {
        let directory = tempfile::Builder::new().prefix("host-home").tempdir_in("/var/tmp")?;
        std::fs::set_permissions(directory.path(), Permissions::from_mode(0o755))?;
        let path = |name: &str| directory.path().join(name).display().to_string();
        std::fs::write(path("secret"), "the host's secret\n")?;
        std::fs::write(path("config"), "{}\n")?;
        let leaked = File::open(path("secret"))?;
        fcntl(&leaked, FcntlArg::F_SETFD(FdFlag::empty()))?;
        let files = [open_file("/tmp")?, open_file("/dev/shm")?];
        let number = next_number();
        let name = format!("clawpen-canary-{number}");
        let abstract_socket = UnixListener::bind_addr(&SocketAddr::from_abstract_name(&name)?)?;
        let socket = UnixListener::bind(path("socket"))?;
        std::fs::set_permissions(path("socket"), Permissions::from_mode(0o777))?;
        let port = TcpListener::bind("127.0.0.1:0")?;
        // A length that no other process sleeps for is a name that its command line can be found by.
        let marker = format!("3600.{number}");
        let process =
            Command::new("sleep").arg(&marker).stdin(Stdio::null()).spawn().context("sleep")?;
        let (host, terminal) = host_helper(&name)?;
        let shared_memory = shared_memory();
        let [host_tmp, shm_file] = files.each_ref().map(|file| file.path().display().to_string());
        let neighbour = free_port()?;
        let mut variables = vec![
            ("CANARY_FILE", path("secret")),
            ("CANARY_CONFIG", path("config")),
            ("CANARY_TMP", host_tmp),
            ("CANARY_SHM_FILE", shm_file),
            ("CANARY_ABSTRACT", name.clone()),
            ("CANARY_QUEUE", name.clone()),
            ("CANARY_TERMINAL", terminal),
            ("CANARY_SOCKET", path("socket")),
            ("CANARY_PORT", port.local_addr()?.port().to_string()),
            ("CANARY_PROCESS", marker),
            ("HOST_PID", process.id().to_string()),
            ("NEIGHBOUR", format!("{name}-neighbour")),
            ("NEIGHBOUR_PORT", neighbour.to_string()),
            ("NEIGHBOUR_KEY", (0x0c1a_0000 + u32::from(neighbour)).to_string()),
        ];
        variables.extend(shared_memory.iter().map(|(key, _)| ("CANARY_SHM", key.clone())));
        Ok(Self {
            directory,
            files,
            _leaked: leaked,
            _abstract: abstract_socket,
            _socket: socket,
            _port: port,
            process,
            host,
            shared_memory: shared_memory.map(|(_, id)| id),
            variables,
        })
    }

    /// What the attacks are told, by the environment.
    pub fn variables(&self) -> &[(&'static str, String)] {
        &self.variables
    }

    /// Says whether anything of the host was changed.
    pub fn damage(&self) -> Vec<String> {
        let path = |name: &str| self.directory.path().join(name);
        let mut damage = Vec::new();
        if std::fs::read(path("secret")).ok().as_deref() != Some(b"the host's secret\n") {
            damage.push("the secret was changed".to_owned());
        }
        if path("secret.written").exists() {
            damage.push("a file was written beside the secret".to_owned());
        }
        for file in &self.files {
            if std::fs::read(file.path()).ok().as_deref() != Some(TEXT.as_bytes()) {
                damage.push(format!("{} is gone or changed", file.path().display()));
            }
        }
        damage
    }

    /// Takes away what a control left behind.
    pub fn tidy(&self) {
        let _ = std::fs::remove_file(self.directory.path().join("secret.written"));
    }
}

impl Drop for Canaries {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
        // It clears up when its input ends.
        drop(self.host.stdin.take());
        let _ = self.host.wait();
        if let Some(id) = &self.shared_memory {
            let _ = Command::new("ipcrm").args(["-m", id]).status();
        }
    }
}

const TEXT: &str = "the host's temporary file\n";

fn open_file(directory: &str) -> Result<tempfile::NamedTempFile> {
    let mut file = tempfile::NamedTempFile::new_in(directory)?;
    file.write_all(TEXT.as_bytes())?;
    file.as_file().set_permissions(Permissions::from_mode(0o644))?;
    Ok(file)
}

/// Different for every set of canaries, also of tests that run at the same time.
fn next_number() -> String {
    static NEXT: AtomicU32 = AtomicU32::new(1);
    format!("{}{:02}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed))
}

fn free_port() -> Result<u16> {
    Ok(TcpListener::bind("127.0.0.1:0")?.local_addr()?.port())
}

/// Holds a message queue and a terminal of the host; gives the terminal's path.
fn host_helper(queue: &str) -> Result<(Child, String)> {
    let mut helper = Command::new(built("clawpen-attacks")?);
    helper.args(["host", queue]).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut helper = helper.spawn().context("clawpen-attacks host")?;
    let mut terminal = String::new();
    let output = helper.stdout.take().context("its output")?;
    BufReader::new(output).read_line(&mut terminal)?;
    let terminal = terminal.trim().to_owned();
    anyhow::ensure!(terminal.starts_with("/dev/pts/"), "no terminal: {terminal}");
    std::fs::set_permissions(&terminal, Permissions::from_mode(0o666))?;
    Ok((helper, terminal))
}

/// A shared memory segment that everybody may use: its key (as a number) and its id.
fn shared_memory() -> Option<(String, String)> {
    let made = Command::new("ipcmk").args(["-M", "4096", "-p", "0666"]).output().ok()?;
    let id = String::from_utf8_lossy(&made.stdout).rsplit(':').next()?.trim().to_owned();
    let table = Command::new("ipcs").arg("-m").output().ok()?;
    let table = String::from_utf8_lossy(&table.stdout).into_owned();
    let line = table.lines().find(|line| line.split_whitespace().nth(1) == Some(&id))?;
    let key = line.split_whitespace().next()?.strip_prefix("0x")?;
    Some((u32::from_str_radix(key, 16).ok()?.to_string(), id))
}
