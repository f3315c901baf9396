//! `clawpen sandbox explain --live`: starts the session's sandbox and shows what was asked beside
//! what is found in it.

use clawpen_engine::backend::Plan;
use clawpen_engine::backend::docker::{ImageState, Sight};
use clawpen_engine::call::{Open, OpenError, Prepared, fact_json, look_again};
use clawpen_engine::registry::Identity;
use clawpen_engine::yard::Yard;
use clawpen_rules::facts::{Holds, Line, Need, floor};
use serde_json::json;

use super::CommandError;
use super::exec::{about, prepare};
use crate::args::{ExplainArgs, TargetArgs};
use crate::exit::Outcome;
use crate::output::{Output, safe};

/// Wider texts are cut on the screen; JSON has them whole.
const WIDEST: usize = 36;

pub(crate) fn run(args: &ExplainArgs, output: &Output) -> Result<Outcome, CommandError> {
    let target = TargetArgs { subject: args.subject.clone(), ..TargetArgs::default() };
    let opened = prepare(&target, output)?;
    let prepared = &opened.prepared;
    let done = opened.run(&about(&target, "explain"), output, |open, _| {
        let lines = look_again(open, prepared, &opened.yard)?;
        let image = image(open, prepared, &opened.yard);
        Ok::<_, OpenError>((lines, image, open.sandbox().first_process()))
    })?;
    let backend = done.backend;
    let (lines, image, first_process) = done.value?;
    if args.json {
        output.json(&json!({
            "backend": backend.as_str(),
            "sandbox": prepared.name(),
            "firstProcess": first_process,
            "image": image.map(ImageState::as_str),
            "floor": floor(backend).holds,
            "notPromised": floor(backend).not,
            "facts": lines.iter().map(fact_json).collect::<Vec<_>>(),
        }))?;
    } else {
        let mut shown = vec![output.bold(&format!(
            "In force in {} ({}, process {}):",
            safe(prepared.name()),
            backend.as_str(),
            first_process
        ))];
        shown.extend(table(&lines, output));
        shown.extend(image.and_then(advice).map(str::to_owned));
        output.lines(&shown)?;
    }
    Ok(Outcome::Done)
}

/// How the container stands to what its image's name leads to now; `None` if it is none, or nobody could
/// say.
fn image(open: &Open<'_>, prepared: &Prepared, yard: &Yard) -> Option<ImageState> {
    let (Plan::Docker(spec), Some(Identity::Docker(identity))) = (&prepared.plan, open.identity())
    else {
        return None;
    };
    let engine = yard.engines.docker_of(identity, &yard.state_dir).ok()?;
    match engine.look(&identity.container_id).ok()? {
        Sight::Ours(seen) => engine.image_state(spec.image(), &seen.image_id).ok(),
        Sight::Absent | Sight::OfReference(_) | Sight::Stranger => None,
    }
}

const fn advice(image: ImageState) -> Option<&'static str> {
    match image {
        ImageState::Current => None,
        ImageState::Rebuilt => Some(
            "Its image was built anew since. `clawpen sandbox recreate --all --stale` takes the new one.",
        ),
        ImageState::Deleted => {
            Some("Its image was deleted since: it runs on, but could not be made again.")
        }
    }
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
