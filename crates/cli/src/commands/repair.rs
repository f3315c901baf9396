//! `clawpen doctor --repair`: looks at the database and, if it is corrupt and somebody agrees, puts a
//! new one in its place, filled from what lives; the corrupt file is kept. Then it looks at everything
//! that the database names, and puts right what killed processes left.

use std::path::Path;

use clawpen_engine::backend::Engines;
use clawpen_engine::clock::{Clock as _, SystemClock};
use clawpen_engine::config_store;
use clawpen_engine::database::path_in;
use clawpen_engine::database::repair::{self, Health, Rebuilt};
use clawpen_engine::lifecycle::Survivors;
use clawpen_engine::yard::Yard;
use clawpen_wire::repair as wire;

use super::CommandError;
use crate::args::{DoctorArgs, Format};
use crate::exit::{self, Outcome};
use crate::output::{Answer, Output, safe};

/// What was found and done.
struct Done {
    database: String,
    health: Health,
    rebuilt: Option<Rebuilt>,
    put_right: Option<wire::PutRight>,
}

pub(crate) fn run(args: &DoctorArgs, output: &Output) -> Result<Outcome, CommandError> {
    let locations = config_store::locations()?;
    let state = Path::new(&locations.state_dir);
    let database = path_in(state).to_string_lossy().into_owned();
    let health = repair::examine(state)?;
    let survivors = match &health {
        // Whoever lives and is not in it is found below.
        Health::Sound => Survivors::default(),
        Health::Absent | Health::Corrupt { .. } => {
            Survivors::look(&Engines::default(), &locations.state_dir)
        }
    };
    let rebuilt = match &health {
        Health::Absent | Health::Sound => None,
        Health::Corrupt { detail } => {
            let shown = safe(&database);
            output.note(&format!("the database `{shown}` is corrupt: {}", safe(detail)));
            if agreed(args, output)? {
                Some(repair::rebuild(state, &survivors.found, &SystemClock.now())?)
            } else {
                None
            }
        }
    };
    let yard = match (&health, &rebuilt) {
        (Health::Corrupt { .. }, None) => None,
        // A lost database is made anew only if somebody is left whom it should know.
        (Health::Absent, _) if survivors.found.is_empty() => None,
        (Health::Absent, _) => Some(Yard::open(&locations.state_dir)?),
        (Health::Sound | Health::Corrupt { .. }, _) => Yard::open_existing(&locations.state_dir)?,
    };
    let put_right = match yard {
        Some(yard) => Some(put_right(&yard, survivors.problems)?),
        None => None,
    };
    let done = Done { database, health, rebuilt, put_right };
    print(args.format.format(), &done, output)?;
    let is_sound = done.rebuilt.is_some() || !matches!(done.health, Health::Corrupt { .. });
    Ok(if is_sound { Outcome::Done } else { Outcome::Code(exit::ERROR) })
}

fn put_right(yard: &Yard, mut problems: Vec<String>) -> Result<wire::PutRight, CommandError> {
    let recovered = yard.lifecycle().recover()?;
    let new = recovered.problems.into_iter().filter(|problem| !problems.contains(problem));
    let new: Vec<String> = new.collect();
    problems.extend(new);
    Ok(wire::PutRight {
        survivors: recovered.survivors,
        rows: recovered.rows,
        leftovers: recovered.leftovers,
        problems,
    })
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

fn print(format: Format, done: &Done, output: &Output) -> Result<(), CommandError> {
    match format {
        Format::Json => Ok(output.json(&shape(done))?),
        Format::Text => Ok(output.lines(&text(done))?),
    }
}

fn shape(done: &Done) -> wire::Repair {
    let (state, detail) = match &done.health {
        Health::Absent => ("absent", None),
        Health::Sound => ("sound", None),
        Health::Corrupt { detail } => ("corrupt", Some(detail.clone())),
    };
    let rebuilt =
        done.rebuilt.as_ref().map(|Rebuilt { kept, sandboxes, old_head }| wire::Rebuilt {
            kept: kept.to_string_lossy().into_owned(),
            sandboxes: sandboxes.len(),
            names: sandboxes.clone(),
            old_head: old_head.map(|head| head.to_string()),
        });
    wire::Repair {
        database: done.database.clone(),
        state: state.to_owned(),
        detail,
        rebuilt,
        put_right: done.put_right.clone(),
    }
}

fn text(done: &Done) -> Vec<String> {
    let mut lines = match (&done.health, &done.rebuilt) {
        (Health::Absent, _) => vec!["there is no database; nothing to repair in it".to_owned()],
        (Health::Sound, _) => vec![format!("{} is sound; nothing to repair", safe(&done.database))],
        (Health::Corrupt { .. }, None) => vec!["left as it is".to_owned()],
        (Health::Corrupt { .. }, Some(rebuilt)) => {
            let count = rebuilt.sandboxes.len();
            let mut lines = vec![
                format!("made a new database from what lives: {count} sandboxes"),
                format!("  the corrupt one is kept: {}", safe(&rebuilt.kept.to_string_lossy())),
            ];
            let head = rebuilt.old_head.map(|head| format!("  its audit chain ended at {head}"));
            lines.extend(head);
            lines.extend(rebuilt.sandboxes.iter().map(|name| format!("  ✓ {}", safe(name))));
            lines
        }
    };
    if let Some(found) = &done.put_right {
        let again =
            |name: &String| format!("  ✓ {}: it lives, and is written down again", safe(name));
        lines.extend(found.survivors.iter().map(again));
        let gone = |name: &String| format!("  ✓ {}: its row lied, and is gone", safe(name));
        lines.extend(found.rows.iter().map(gone));
        if found.leftovers > 0 {
            lines.push(format!("  ✓ {} leftovers of killed processes cleared", found.leftovers));
        }
        lines.extend(found.problems.iter().map(|problem| format!("  ✗ {}", safe(problem))));
    }
    lines
}
