//! `clawpen down`: ends the gateway, first by asking. Sandboxes, approvals and files stay.

use std::path::Path;
use std::time::Duration;

use clawpen_engine::config_store;
use clawpen_engine::gateway_process::{self as process, Place, Stopped};
use serde_json::json;

use super::CommandError;
use crate::args::Format;
use crate::args::up::DownArgs;
use crate::exit::Outcome;
use crate::output::Output;

/// Nothing to end is no mistake: afterwards there is no gateway either way.
pub(crate) fn run(args: &DownArgs, output: &Output) -> Result<Outcome, CommandError> {
    let locations = config_store::locations()?;
    let ended = match Place::find(Path::new(&locations.state_dir))? {
        None => None,
        Some(place) => {
            let _lock = place.lock()?;
            match process::find(&place)? {
                None => None,
                Some(running) => {
                    let patience = Duration::from_secs(args.timeout);
                    Some((running.record.pid, process::stop(&place, &running, patience)?))
                }
            }
        }
    };
    match args.format.format() {
        Format::Json => output.json(&json!({
            "stopped": ended.is_some(),
            "pid": ended.map(|(pid, _)| pid),
            "killed": ended.map(|(_, how)| how == Stopped::Killed),
        }))?,
        Format::Text => output.lines(&[match ended {
            None => "No gateway runs.".to_owned(),
            Some((pid, Stopped::Gracefully)) => {
                format!("The gateway (process {pid}) has ended. Sandboxes stay: `clawpen sandbox list`.")
            }
            Some((pid, Stopped::Killed)) => {
                format!("The gateway (process {pid}) did not end when asked and was killed. Sandboxes stay.")
            }
        }])?,
    }
    Ok(Outcome::Done)
}
