//! `clawpen sandbox trash`.

use std::time::Duration;

use clawpen_engine::clock::{Clock as _, SystemClock};
use clawpen_engine::config_store;
use clawpen_engine::workspaces::Workspaces;
use clawpen_engine::workspaces::trash::{Occupied, Trash, TrashError, TrashId, TrashKind, Trashed};
use clawpen_engine::yard::Yard;
use clawpen_rules::timestamp::Timestamp;
use serde_json::{Value, json};

use super::CommandError;
use crate::args::{Format, TrashCommand};
use crate::config_report;
use crate::exit::Outcome;
use crate::output::{Output, safe};

pub(crate) fn run(command: &TrashCommand, output: &Output) -> Result<Outcome, CommandError> {
    let locations = config_store::locations()?;
    let trash = Workspaces::new(&locations.state_dir).trash();
    match command {
        TrashCommand::List(format) => {
            for error in trash.unreadable()? {
                output.note(&format!("warning: {}", safe(&config_report::chain(&error))));
            }
            list(&trash.list()?, format.format(), output)?;
        }
        TrashCommand::Restore { id, swap, format } => {
            let occupied = if *swap { Occupied::Swap } else { Occupied::Refuse };
            let id = &parse(id)?;
            let thing = trash.look_ahead(id, occupied)?;
            let restore = || trash.restore(id, occupied, now());
            let origin = match (thing.kind, Yard::open_existing(&locations.state_dir)?) {
                // Single files and skills are seen at once; a directory is mounted as it was.
                (TrashKind::Workspace, Some(yard)) => {
                    yard.lifecycle().at_rest(&thing.origin, restore)??
                }
                (TrashKind::Workspace | TrashKind::Skills | TrashKind::Files, _) => restore()?,
            };
            let id = id.as_str();
            match format.format() {
                Format::Json => output.json(&json!({ "id": id, "restored": origin }))?,
                Format::Text => {
                    let origin = safe(&origin.to_string_lossy());
                    output.lines(&[format!("brought back to {origin}")])?;
                }
            }
        }
        TrashCommand::Empty { ids, all, format } => {
            let ids = if *all {
                trash.list()?.into_iter().map(|thing| thing.id).collect()
            } else {
                ids.iter().map(|id| parse(id)).collect::<Result<Vec<_>, _>>()?
            };
            empty(&trash, &ids, format.format(), output)?;
        }
    }
    Ok(Outcome::Done)
}

/// This moment.
pub(crate) fn now() -> Timestamp {
    SystemClock.now().wall
}

fn parse(id: &str) -> Result<TrashId, TrashError> {
    TrashId::parse(id).ok_or_else(|| TrashError::Unknown(id.to_owned()))
}

fn empty(
    trash: &Trash,
    ids: &[TrashId],
    format: Format,
    output: &Output,
) -> Result<(), CommandError> {
    // All are looked at first: a typing error deletes nothing.
    for id in ids {
        trash.get(id)?;
    }
    for id in ids {
        trash.delete(id)?;
    }
    match format {
        Format::Json => {
            let deleted: Vec<&str> = ids.iter().map(TrashId::as_str).collect();
            output.json(&json!({ "deleted": deleted }))?;
        }
        Format::Text => output.lines(&[format!("deleted {} for good", ids.len())])?,
    }
    Ok(())
}

fn list(things: &[Trashed], format: Format, output: &Output) -> Result<(), CommandError> {
    match format {
        Format::Json => {
            output.json(&json!({ "trash": things.iter().map(thing_json).collect::<Vec<_>>() }))?;
        }
        Format::Text if things.is_empty() => {
            output.lines(&["the trash is empty".to_owned()])?;
        }
        Format::Text => {
            let now = now();
            let mut lines =
                vec![output.bold(&format!("{:10}  {:9}  {:>5}  {}", "ID", "WHAT", "AGE", "FROM"))];
            for thing in things {
                lines.push(format!(
                    "{:10}  {:9}  {:>5}  {}",
                    thing.id.as_str(),
                    thing.kind.as_str(),
                    age(now.since(thing.since)),
                    safe(&thing.origin.to_string_lossy()),
                ));
                let files = thing.files.join(", ");
                let files = if files.is_empty() { files } else { format!(" ({files})") };
                lines.push(output.dim(&format!(
                    "{:12}{}{}",
                    "",
                    safe(&thing.reason),
                    safe(&files)
                )));
            }
            output.lines(&lines)?;
        }
    }
    Ok(())
}

fn thing_json(thing: &Trashed) -> Value {
    json!({
        "id": thing.id.as_str(),
        "kind": thing.kind.as_str(),
        "sinceMs": thing.since.as_millis(),
        "origin": thing.origin,
        "content": thing.content,
        "files": thing.files,
        "reason": thing.reason,
        "scopeKey": thing.scope_key,
        "agentId": thing.agent,
    })
}

fn age(length: Duration) -> String {
    let seconds = length.as_secs();
    match seconds {
        0..60 => format!("{seconds}s"),
        60..3600 => format!("{}m", seconds / 60),
        3600..86_400 => format!("{}h", seconds / 3600),
        _ => format!("{}d", seconds / 86_400),
    }
}
