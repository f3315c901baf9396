//! The official MCP clients that the MCP suite drives, installed with their ordinary package managers.
//!
//! Versions are pinned; the packages land in the target directory and nowhere else.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result};

use crate::tools::{built, run};

/// The Python SDK.
const PYTHON: &str = "1.30.0";
/// The TypeScript SDK.
const NODE: &str = "1.32.2";

/// Where the clients are.
#[derive(Debug)]
pub(crate) struct Clients {
    python: PathBuf,
    node: PathBuf,
}

impl Clients {
    /// Installs what is missing.
    pub(crate) fn install() -> Result<Self> {
        let target = built()?;
        let place = target.parent().context("the target directory")?.join("mcp-clients");
        Ok(Self { python: python(&place)?, node: node(&place)? })
    }

    /// Tells a test run where they are.
    pub(crate) fn known_to<'c>(&self, command: &'c mut Command) -> &'c mut Command {
        command.env("CLAWPEN_MCP_PYTHON", &self.python).env("CLAWPEN_MCP_NODE", &self.node)
    }
}

/// A Python of its own with the SDK in it.
fn python(place: &Path) -> Result<PathBuf> {
    let place = place.join(format!("python-{PYTHON}"));
    let program = place.join("bin/python");
    let done = place.join("installed");
    if !done.exists() {
        run(Command::new("python3").args(["-m", "venv", "--clear"]).arg(&place))?;
        let package = format!("mcp=={PYTHON}");
        let quiet = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check"];
        run(Command::new(&program).args(quiet).arg(package))?;
        std::fs::write(&done, "").context("cannot note that Python's SDK is there")?;
    }
    Ok(program)
}

/// A directory with the SDK in its `node_modules`.
fn node(place: &Path) -> Result<PathBuf> {
    let place = place.join(format!("node-{NODE}"));
    let done = place.join("installed");
    if !done.exists() {
        std::fs::create_dir_all(&place).context("cannot make a directory for packages")?;
        let package = format!("@modelcontextprotocol/sdk@{NODE}");
        let quiet =
            ["install", "--silent", "--no-audit", "--no-fund", "--no-save", "--ignore-scripts"];
        run(Command::new("npm").args(quiet).arg(package).current_dir(&place))?;
        std::fs::write(&done, "").context("cannot note that TypeScript's SDK is there")?;
    }
    Ok(place)
}
