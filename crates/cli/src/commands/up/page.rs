//! `--open`: shows the gateway's page in a browser. The address holds no secret, because others see it in the list of processes.

use std::path::PathBuf;
use std::process::{Command, Stdio};

use super::note;
use crate::output::Output;

/// Starts a browser and does not wait for it; without one, says so.
pub(super) fn open(url: &str, output: &Output) {
    let Some(program) = browser() else {
        output.note(&format!("note: no browser found (`BROWSER`, xdg-open); open {url} yourself"));
        return;
    };
    let started = Command::new(program)
        .arg(url)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn();
    if let Err(error) = started {
        note(output, &error);
    }
}

fn browser() -> Option<PathBuf> {
    let named = std::env::var_os("BROWSER").filter(|name| !name.is_empty()).map(PathBuf::from);
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found = || {
        let places = std::env::split_paths(&path).map(|directory| directory.join("xdg-open"));
        places.into_iter().find(|path| path.is_file())
    };
    named.or_else(found)
}
