//! `clawpen sandbox list|recreate|remove|prune`: the sandboxes that there are.

mod select;
mod show;

pub(crate) use show::duration;

use std::path::Path;

use clawpen_engine::call::{self, Keeping, Prepared, Target};
use clawpen_engine::config_store::{self, Store};
use clawpen_engine::lifecycle::current::Currents;
use clawpen_engine::lifecycle::{Listed, Listing, Origin};
use clawpen_engine::registry::{InFlight, Kind, Row};
use clawpen_engine::workspaces::{Extent, Workspaces};
use clawpen_engine::yard::Yard;
use clawpen_rules::config::own::Start;
use clawpen_rules::ids::AgentId;
use serde_json::json;

use super::CommandError;
use crate::args::Format;
use crate::args::lifecycle::{KindFlag, ListArgs, RecreateArgs, RemoveArgs, Selection};
use crate::config_report::{chain, warning_text};
use crate::exit::{self, Outcome};
use crate::output::{Answer, Output, safe};

pub(crate) fn list(args: &ListArgs, output: &Output) -> Result<Outcome, CommandError> {
    let store = open_store(output)?;
    let listing = look(&store, kind(args.kind))?.map(|(_, listing)| listing).unwrap_or_default();
    match args.format.format() {
        Format::Json => output.json(&show::json(&listing, kind(args.kind)))?,
        Format::Text => output.lines(&show::text(&listing, kind(args.kind), output))?,
    }
    Ok(Outcome::Done)
}

pub(crate) fn recreate(args: &RecreateArgs, output: &Output) -> Result<Outcome, CommandError> {
    let what = Job { verb: Verb::Replace, reseed: args.reseed };
    end(&args.selection, &[], &what, output)
}

pub(crate) fn remove(args: &RemoveArgs, output: &Output) -> Result<Outcome, CommandError> {
    let what = Job { verb: Verb::Remove, reseed: false };
    end(&args.selection, &args.names, &what, output)
}

pub(crate) fn prune(format: Format, output: &Output) -> Result<Outcome, CommandError> {
    let store = open_store(output)?;
    let Some(yard) = Yard::open_existing(&store.locations.state_dir)? else {
        return nothing_to_do(format, output);
    };
    let lifecycle = yard.lifecycle();
    let currents = Currents::new(&store);
    let recovered = lifecycle.recover()?;
    let pruned = lifecycle.prune(|row| currents.limits(row))?;
    for (row, _) in &pruned.removed {
        if let Err(problem) = call::release_workspace(&yard, &currents, row) {
            output.note(&format!("warning: {}", safe(&problem)));
        }
    }
    for problem in &recovered.problems {
        output.note(&format!("warning: {}", safe(problem)));
    }
    match format {
        Format::Json => output.json(&json!({
            "removed": pruned.removed.iter().map(|(row, reason)| json!({
                "name": row.name,
                "reason": reason.to_string(),
            })).collect::<Vec<_>>(),
            "failed": pruned.failed.iter().map(|(row, problem)| json!({
                "name": row.name,
                "error": problem,
            })).collect::<Vec<_>>(),
            "recovered": recovered.rows,
            "leftovers": recovered.leftovers,
        }))?,
        Format::Text => {
            let mut lines = Vec::new();
            for (row, reason) in &pruned.removed {
                lines.push(format!("✓ {}: {reason}", safe(&row.name)));
            }
            for (row, problem) in &pruned.failed {
                lines.push(format!("✗ {}: {}", safe(&row.name), safe(problem)));
            }
            let (gone, left) = (pruned.removed.len(), recovered.rows.len() + recovered.leftovers);
            lines.push(format!("Done: {gone} removed, {left} leftovers cleared"));
            output.lines(&lines)?;
        }
    }
    Ok(if pruned.failed.is_empty() { Outcome::Done } else { Outcome::Code(exit::ERROR) })
}

fn nothing_to_do(format: Format, output: &Output) -> Result<Outcome, CommandError> {
    match format {
        Format::Json => {
            output
                .json(&json!({ "removed": [], "failed": [], "recovered": [], "leftovers": 0 }))?;
        }
        Format::Text => output.lines(&["Done: 0 removed, 0 leftovers cleared".to_owned()])?,
    }
    Ok(Outcome::Done)
}

const fn kind(flag: KindFlag) -> Kind {
    if flag.browser { Kind::Browser } else { Kind::Sandbox }
}

fn open_store(output: &Output) -> Result<Store, CommandError> {
    let store = config_store::open()?;
    for warning in store.warnings() {
        let text = warning_text(warning, store.loaded.config.files(), &store.locations);
        output.note(&format!("warning: {text}"));
    }
    Ok(store)
}

/// Everything there is of one kind; `None` where nothing was ever made. A question makes nothing.
pub(super) fn look(store: &Store, kind: Kind) -> Result<Option<(Yard, Listing)>, CommandError> {
    let state_dir = &store.locations.state_dir;
    let of_reference = Path::new(state_dir).join("sandbox");
    let has_reference =
        ["containers.json", "browsers.json"].iter().any(|name| of_reference.join(name).exists());
    let yard =
        if has_reference { Some(Yard::open(state_dir)?) } else { Yard::open_existing(state_dir)? };
    let Some(yard) = yard else { return Ok(None) };
    let listing = yard.lifecycle().list(kind, &Currents::new(store))?;
    Ok(Some((yard, listing)))
}

/// What is done to sandboxes.
struct Job {
    verb: Verb,
    reseed: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Verb {
    Replace,
    Remove,
}

impl Verb {
    const fn as_str(self) -> &'static str {
        match self {
            Self::Replace => "replace",
            Self::Remove => "remove",
        }
    }
}

fn end(
    selection: &Selection,
    names: &[String],
    job: &Job,
    output: &Output,
) -> Result<Outcome, CommandError> {
    let wanted = select::parse(selection, names)?;
    let store = open_store(output)?;
    let Some((yard, listing)) = look(&store, kind(selection.kind))? else { return none(output) };
    for problem in &listing.problems {
        output.note(&format!("warning: {}", safe(problem)));
    }
    let chosen = select::choose(listing.sandboxes, &wanted, selection, &store)?;
    if chosen.is_empty() {
        return none(output);
    }
    let mut lines = vec![format!("Sandboxes to {}:", job.verb.as_str())];
    lines.extend(chosen.iter().map(show::line));
    lines.push(format!("Total: {}", chosen.len()));
    output.lines(&lines)?;
    if !selection.force {
        // Ctrl-C ends us here, which is a no as well.
        match output.confirm(&format!("Stop and {} these now?", job.verb.as_str()))? {
            Answer::Yes => {}
            Answer::No => {
                output.lines(&["Cancelled.".to_owned()])?;
                return Ok(Outcome::Done);
            }
            Answer::Nobody => {
                output.note("nobody can be asked here, so nothing was done; say --force to go on");
                return Ok(Outcome::Done);
            }
        }
    }
    let mut failed = 0_usize;
    for one in &chosen {
        match end_one(&yard, &store, one, (selection, job)) {
            Ok(()) => output.lines(&[format!("✓ Removed {}", safe(one.name()))])?,
            Err(error) => {
                failed += 1;
                let why = safe(&chain(&error));
                output.lines(&[format!("✗ Failed to remove {}: {why}", safe(one.name()))])?;
            }
        }
    }
    let removed = chosen.len() - failed;
    let mut lines = vec![format!("Done: {removed} removed, {failed} failed")];
    if removed > 0 && job.verb == Verb::Replace {
        lines.push("Each is made anew when its agent is next used.".to_owned());
    }
    output.lines(&lines)?;
    Ok(if failed == 0 { Outcome::Done } else { Outcome::Code(exit::ERROR) })
}

fn none(output: &Output) -> Result<Outcome, CommandError> {
    output.lines(&["No sandbox matches.".to_owned()])?;
    Ok(Outcome::Done)
}

/// Ends one sandbox; what is done to its workspace is done before anybody can make it anew.
fn end_one(
    yard: &Yard,
    store: &Store,
    one: &Listed,
    (selection, job): (&Selection, &Job),
) -> Result<(), CommandError> {
    let row = match &one.origin {
        Origin::Ours(row) => row,
        Origin::Reference(foreign) => {
            return Ok(yard.lifecycle().remove_of_reference(&foreign.name)?);
        }
    };
    let in_flight = if selection.force { InFlight::CutOff } else { InFlight::Respect };
    let currents = Currents::new(store);
    // Before anything is removed: a config that refuses the sandbox refuses its renewal too.
    let is_eager = job.verb == Verb::Replace && currents.own(row).start.value == Start::Eager;
    let prepared = if job.reseed || is_eager { Some(again(store, row)?) } else { None };
    let then = || -> Result<(), CommandError> {
        match (job.verb, &prepared) {
            (Verb::Remove, _) => call::release_workspace(yard, &currents, row)
                .map_err(|what| CommandError::Question { what }),
            (Verb::Replace, Some(prepared)) if job.reseed => {
                let now = yard.clock().now().wall;
                let workspaces = Workspaces::new(&yard.state_dir);
                workspaces.reseed(&prepared.workspace, Extent::Whole, now)?;
                Ok(())
            }
            (Verb::Replace, _) => Ok(()),
        }
    };
    yard.lifecycle().remove_then(row, in_flight, then)?.transpose()?;
    match prepared {
        Some(prepared) if is_eager => drop(prepared.open(yard, Keeping::Scope, "recreate")?),
        Some(_) | None => {}
    }
    Ok(())
}

/// The sandbox of a row as the config would make it now.
fn again(store: &Store, row: &Row) -> Result<Prepared, CommandError> {
    let agent = row.agent.as_ref().map(AgentId::as_str);
    let target = Target { session: row.session.as_deref(), agent, backend: None };
    Ok(call::prepare(store, &target)?)
}
