//! Things of the host that a pen must not reach: files, sockets, processes, shared memory.
//!
//! Each is really there while the value lives, so that an attack that reaches it has escaped.

use std::io::Write as _;
use std::net::TcpListener;
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::net::{SocketAddr, UnixListener};
use std::process::{Child, Command, Stdio};

use anyhow::{Context as _, Result};

/// The canaries of one run.
#[derive(Debug)]
pub struct Canaries {
    directory: tempfile::TempDir,
    host_tmp: tempfile::NamedTempFile,
    _abstract: UnixListener,
    _socket: UnixListener,
    _port: TcpListener,
    process: Child,
    shared_memory: Option<String>,
    variables: Vec<(&'static str, String)>,
}

impl Canaries {
    /// Puts everything in place. `home` is a directory of the host, such as somebody's home.
    pub fn new() -> Result<Self> {
        let directory = tempfile::Builder::new().prefix("host-home").tempdir_in("/var/tmp")?;
        let path = |name: &str| directory.path().join(name).display().to_string();
        std::fs::write(path("secret"), "the host's secret\n")?;
        std::fs::write(path("config"), "{}\n")?;
        let mut host_tmp = tempfile::NamedTempFile::new_in("/tmp")?;
        writeln!(host_tmp, "the host's temporary file")?;
        let name = format!("clawpen-canary-{}", std::process::id());
        let abstract_socket = UnixListener::bind_addr(&SocketAddr::from_abstract_name(&name)?)?;
        let socket = UnixListener::bind(path("socket"))?;
        let port = TcpListener::bind("127.0.0.1:0")?;
        let process =
            Command::new("sleep").arg("3600").stdin(Stdio::null()).spawn().context("sleep")?;
        let shared_memory = shared_memory();
        let mut variables = vec![
            ("CANARY_FILE", path("secret")),
            ("CANARY_CONFIG", path("config")),
            ("CANARY_TMP", host_tmp.path().display().to_string()),
            ("CANARY_ABSTRACT", name),
            ("CANARY_SOCKET", path("socket")),
            ("CANARY_PORT", port.local_addr()?.port().to_string()),
            ("CANARY_PROCESS", "sleep\u{0}3600".to_owned()),
            ("HOST_PID", process.id().to_string()),
        ];
        // A NUL cannot stand in a variable; the name of the program is enough.
        if let Some(process) = variables.iter_mut().find(|(name, _)| *name == "CANARY_PROCESS") {
            "3600".clone_into(&mut process.1);
        }
        variables.extend(shared_memory.iter().map(|(key, _)| ("CANARY_SHM", key.clone())));
        Ok(Self {
            directory,
            host_tmp,
            _abstract: abstract_socket,
            _socket: socket,
            _port: port,
            process,
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
        if !self.host_tmp.path().exists() {
            damage.push("the host's temporary file is gone".to_owned());
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
        if let Some(id) = &self.shared_memory {
            let _ = Command::new("ipcrm").args(["-m", id]).status();
        }
    }
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
