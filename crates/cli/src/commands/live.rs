//! `clawpen sandbox explain --live`: starts the session's sandbox and shows what was asked beside
//! what is found in it.

use clawpen_engine::backend::{Plan, Sandbox};
use clawpen_engine::call::{Open, OpenError, Prepared};
use clawpen_engine::registry::Identity;
use clawpen_engine::yard::Yard;
use clawpen_rules::facts::{Holds, Line, Need, floor};
use clawpen_wire::pen::Lifetime;
use serde_json::{Value, json};

use super::CommandError;
use super::exec::{about, prepare};
use crate::args::{ExplainArgs, TargetArgs};
use crate::config_report::chain;
use crate::exit::Outcome;
use crate::output::{Output, safe};

/// Wider texts are cut on the screen; JSON has them whole.
const WIDEST: usize = 36;

pub(crate) fn run(args: &ExplainArgs, output: &Output) -> Result<Outcome, CommandError> {
    let target = TargetArgs { subject: args.subject.clone(), ..TargetArgs::default() };
    let opened = prepare(&target, output)?;
    let prepared = &opened.prepared;
    let done = opened.run(&about(&target, "explain"), output, |open, _| {
        let lines = look(open, prepared, &opened.yard)?;
        Ok::<_, OpenError>((lines, open.sandbox().first_process()))
    })?;
    let backend = done.backend;
    let (lines, first_process) = done.value?;
    if args.json {
        output.json(&json!({
            "backend": backend.as_str(),
            "sandbox": prepared.name(),
            "firstProcess": first_process,
            "floor": floor(backend).holds,
            "notPromised": floor(backend).not,
            "facts": lines.iter().map(line_json).collect::<Vec<_>>(),
        }))?;
    } else {
        let mut shown = vec![output.bold(&format!(
            "In force in {} ({}, process {}):",
            safe(prepared.name()),
            backend.as_str(),
            first_process
        ))];
        shown.extend(table(&lines, output));
        output.lines(&shown)?;
    }
    Ok(Outcome::Done)
}

/// What is in force now, in a sandbox that was just made or has been there for a week.
fn look(open: &mut Open<'_>, prepared: &Prepared, yard: &Yard) -> Result<Vec<Line>, OpenError> {
    let identity = open.identity().cloned();
    let refused = |error: &dyn std::error::Error| OpenError::Refused(vec![chain(error)]);
    match (open.sandbox(), &prepared.plan, identity) {
        (Sandbox::Native(pen), Plan::Native(plan), _) => {
            let request = plan.request(prepared.place(), Lifetime::Persistent);
            pen.look_again(&request).map_err(|error| refused(&error))
        }
        (Sandbox::Docker(pen), Plan::Docker(spec), Some(Identity::Docker(identity))) => {
            let engine = yard.engines.docker(&yard.state_dir).map_err(|error| refused(&error))?;
            let looked = pen.look_again(&engine, spec, &identity.container_id);
            looked.map_err(|error| refused(&error))
        }
        (sandbox, _, _) => Ok(sandbox.facts().to_vec()),
    }
}

fn line_json(line: &Line) -> Value {
    json!({
        "kind": line.fact.kind().as_str(),
        "fact": line.fact.to_string(),
        "asked": line.asked,
        "outside": line.outside,
        "inside": line.inside,
        "holds": line.holds == Holds::Yes,
        "floor": line.need == Need::Floor,
    })
}

fn table(lines: &[Line], output: &Output) -> Vec<String> {
    let cell = |text: &str| {
        let text = safe(text);
        if text.chars().count() <= WIDEST {
            return text;
        }
        let start: String = text.chars().take(WIDEST - 1).collect();
        format!("{start}…")
    };
    let rows: Vec<[String; 4]> = lines
        .iter()
        .map(|line| {
            let side = |text: &Option<String>| text.as_deref().map_or("-".to_owned(), cell);
            [
                cell(&line.fact.to_string()),
                cell(&line.asked),
                side(&line.outside),
                side(&line.inside),
            ]
        })
        .collect();
    let head = ["", "asked", "from outside", "from inside"];
    let width = |column: usize| {
        let cells = rows.iter().filter_map(|row| row.get(column)).map(String::as_str);
        let head = head.get(column).copied();
        cells.chain(head).map(|text| text.chars().count()).max().unwrap_or(0)
    };
    let (first, second, third) = (width(0), width(1), width(2));
    let mut shown = vec![output.dim(&format!(
        "    {:first$}  {:second$}  {:third$}  from inside",
        "", "asked", "from outside"
    ))];
    for (line, [fact, asked, outside, inside]) in lines.iter().zip(&rows) {
        let mark = match (line.holds, line.need) {
            (Holds::Yes, _) => "ok",
            (Holds::No, Need::Floor) => "NO",
            (Holds::No, Need::Shown) => "--",
        };
        shown.push(format!("{mark}  {fact:first$}  {asked:second$}  {outside:third$}  {inside}"));
    }
    shown
}
