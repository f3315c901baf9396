//! `clawpen doctor --repair`: looks at the database and, if it is corrupt and somebody agrees, puts a
//! new one in its place. The corrupt file is kept.

use std::path::Path;

use clawpen_engine::clock::{Clock as _, SystemClock};
use clawpen_engine::config_store;
use clawpen_engine::database::path_in;
use clawpen_engine::database::repair::{self, Health, Rebuilt};
use clawpen_engine::registry::Survivor;
use clawpen_wire::repair as wire;

use super::CommandError;
use crate::args::{DoctorArgs, Format};
use crate::exit::{self, Outcome};
use crate::output::{Answer, Output, safe};

pub(crate) fn run(args: &DoctorArgs, output: &Output) -> Result<Outcome, CommandError> {
    let locations = config_store::locations()?;
    let state = Path::new(&locations.state_dir);
    let shown = path_in(state).to_string_lossy().into_owned();
    let health = repair::examine(state)?;
    let rebuilt = match &health {
        Health::Absent | Health::Sound => None,
        Health::Corrupt { detail } => {
            output.note(&format!("the database `{}` is corrupt: {}", safe(&shown), safe(detail)));
            if agreed(args, output)? {
                Some(repair::rebuild(state, &running(), &SystemClock.now())?)
            } else {
                None
            }
        }
    };
    print(args.format.format(), &shown, (&health, rebuilt.as_ref()), output)?;
    let is_sound = rebuilt.is_some() || !matches!(health, Health::Corrupt { .. });
    Ok(if is_sound { Outcome::Done } else { Outcome::Code(exit::ERROR) })
}

/// What runs and must not be forgotten: nothing is asked here. Sandboxes that live keep a note beside their
/// socket, by which the next call writes them down again (`engine/lifecycle/janitor.rs`).
fn running() -> Vec<Survivor> {
    Vec::new()
}

fn agreed(args: &DoctorArgs, output: &Output) -> Result<bool, CommandError> {
    if args.yes {
        return Ok(true);
    }
    let question = "Keep it under a new name and make a new one from what runs? The record of calls \
                    begins anew.";
    match output.confirm(question)? {
        Answer::Yes => Ok(true),
        Answer::No => Ok(false),
        Answer::Nobody => {
            output.note("nobody can be asked here, so nothing was done; say --yes to repair it");
            Ok(false)
        }
    }
}

fn print(
    format: Format,
    database: &str,
    (health, rebuilt): (&Health, Option<&Rebuilt>),
    output: &Output,
) -> Result<(), CommandError> {
    let (state, detail) = match health {
        Health::Absent => ("absent", None),
        Health::Sound => ("sound", None),
        Health::Corrupt { detail } => ("corrupt", Some(detail.clone())),
    };
    if format == Format::Json {
        let rebuilt = rebuilt.map(|Rebuilt { kept, sandboxes, old_head }| wire::Rebuilt {
            kept: kept.to_string_lossy().into_owned(),
            sandboxes: *sandboxes,
            old_head: old_head.map(|head| head.to_string()),
        });
        let (database, state) = (database.to_owned(), state.to_owned());
        return Ok(output.json(&wire::Repair { database, state, detail, rebuilt })?);
    }
    let lines = match (health, rebuilt) {
        (Health::Absent, _) => vec!["there is no database yet; nothing to repair".to_owned()],
        (Health::Sound, _) => vec![format!("{} is sound; nothing to repair", safe(database))],
        (Health::Corrupt { .. }, None) => vec!["left as it is".to_owned()],
        (Health::Corrupt { .. }, Some(rebuilt)) => {
            let mut lines = vec![
                format!("made a new database, {} running sandboxes in it", rebuilt.sandboxes),
                format!("  the corrupt one is kept: {}", safe(&rebuilt.kept.to_string_lossy())),
            ];
            let head = rebuilt.old_head.map(|head| format!("  its audit chain ended at {head}"));
            lines.extend(head);
            lines
        }
    };
    Ok(output.lines(&lines)?)
}
