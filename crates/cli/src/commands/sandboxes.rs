//! `clawpen sandbox list|recreate|remove|prune`: the sandboxes that there are.

mod select;
mod show;

pub(crate) use show::duration;

use std::path::Path;

use clawpen_engine::call::{self, Keeping, Target};
use clawpen_engine::config_store::{self, Store};
use clawpen_engine::lifecycle::current::Currents;
use clawpen_engine::lifecycle::{Listed, Listing, Origin};
use clawpen_engine::registry::{InFlight, Kind};
use clawpen_engine::workspaces::{Extent, Workspaces};
use clawpen_engine::yard::Yard;
use clawpen_rules::config::own::Start;
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
    let what = Job { verb: "replace", reseed: args.reseed };
    end(&args.selection, &[], &what, output)
}

pub(crate) fn remove(args: &RemoveArgs, output: &Output) -> Result<Outcome, CommandError> {
    let what = Job { verb: "remove", reseed: false };
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
fn look(store: &Store, kind: Kind) -> Result<Option<(Yard, Listing)>, CommandError> {
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
    verb: &'static str,
    reseed: bool,
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
    let mut lines = vec![format!("Sandboxes to {}:", job.verb)];
    lines.extend(chosen.iter().map(show::line));
    lines.push(format!("Total: {}", chosen.len()));
    output.lines(&lines)?;
    if !selection.force {
        // Ctrl-C ends us here, which is a no as well.
        match output.confirm(&format!("Stop and {} these now?", job.verb))? {
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
        let ended = end_one(&yard, &store, one, selection);
        match ended.and_then(|()| renew(&yard, &store, one, job)) {
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
    if removed > 0 && job.verb == "replace" {
        lines.push("Each is made anew when its agent is next used.".to_owned());
    }
    output.lines(&lines)?;
    Ok(if failed == 0 { Outcome::Done } else { Outcome::Code(exit::ERROR) })
}

fn none(output: &Output) -> Result<Outcome, CommandError> {
    output.lines(&["No sandbox matches.".to_owned()])?;
    Ok(Outcome::Done)
}

fn end_one(
    yard: &Yard,
    store: &Store,
    one: &Listed,
    selection: &Selection,
) -> Result<(), CommandError> {
    let in_flight = if selection.force { InFlight::CutOff } else { InFlight::Respect };
    match &one.origin {
        Origin::Ours(row) => {
            yard.lifecycle().remove(row, in_flight)?;
            call::release_workspace(yard, &Currents::new(store), row)
                .map_err(|what| CommandError::Question { what })?;
        }
        Origin::Reference(foreign) => yard.lifecycle().remove_of_reference(&foreign.name)?,
    }
    Ok(())
}

/// What follows a removal: a workspace that is to be renewed, a sandbox that is not to wait.
fn renew(yard: &Yard, store: &Store, one: &Listed, job: &Job) -> Result<(), CommandError> {
    let Origin::Ours(row) = &one.origin else { return Ok(()) };
    if job.verb != "replace" {
        return Ok(());
    }
    let own = Currents::new(store).own(row);
    if !job.reseed && own.start.value != Start::Eager {
        return Ok(());
    }
    let agent = row.agent.as_ref().map(clawpen_rules::ids::AgentId::as_str);
    let target = Target { session: row.session.as_deref(), agent, backend: None };
    let prepared = call::prepare(store, &target)?;
    if job.reseed {
        let now = yard.clock().now().wall;
        Workspaces::new(&yard.state_dir).reseed(&prepared.workspace, Extent::Whole, now)?;
    }
    if own.start.value == Start::Eager {
        drop(prepared.open(yard, Keeping::Scope, "recreate")?);
    }
    Ok(())
}
