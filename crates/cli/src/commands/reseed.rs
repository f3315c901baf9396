//! `clawpen sandbox reseed`.

use std::path::Path;

use clawpen_engine::config_store;
use clawpen_engine::explain::{self, Question};
use clawpen_engine::workspaces::trash::TrashId;
use clawpen_engine::workspaces::{Compared, Extent, Wanted, Workspaces};
use clawpen_engine::yard::Yard;
use clawpen_rules::workspace::seeds::{Renewal, Standing};
use serde_json::{Value, json};

use super::CommandError;
use super::trash::now;
use crate::args::{Format, ReseedArgs};
use crate::exit::Outcome;
use crate::output::{Output, safe};

/// Lines of one file that a difference shows.
const MOST_LINES: usize = 400;

pub(crate) fn run(args: &ReseedArgs, output: &Output) -> Result<Outcome, CommandError> {
    let store = config_store::open()?;
    let question = Question {
        agent: args.subject.agent.as_deref(),
        session: args.subject.session.as_deref(),
        channels: &[],
    };
    let explanation = explain::explain(&store, &question)?;
    let wanted = Wanted::of(&explanation, &store);
    let workspaces = Workspaces::new(&store.locations.state_dir);
    if args.diff {
        return show(&workspaces.compare(&wanted)?, &wanted, args.format.format(), output);
    }
    let extent = if args.whole { Extent::Whole } else { Extent::Files };
    let renew = || workspaces.reseed(&wanted, extent, now());
    let done = match (extent, Yard::open_existing(&store.locations.state_dir)?) {
        (Extent::Whole, Some(yard)) => {
            yard.lifecycle().at_rest(Path::new(wanted.layout.mounted()), renew)??
        }
        (Extent::Files | Extent::Whole, _) => renew()?,
    };
    match args.format.format() {
        Format::Json => output.json(&json!({
            "workspace": wanted.layout.mounted(),
            "renewed": done.renewed,
            "trashed": done.trashed.as_ref().map(TrashId::as_str),
        }))?,
        Format::Text => {
            let renewed = match done.renewed.as_slice() {
                [] => "nothing to renew: the copies equal the originals".to_owned(),
                names => format!("renewed {}", names.join(", ")),
            };
            let mut lines = vec![renewed];
            lines.extend(done.trashed.map(|id| {
                format!("what was there: clawpen sandbox trash restore {id} --swap brings it back")
            }));
            output.lines(&lines)?;
        }
    }
    Ok(Outcome::Done)
}

fn show(
    files: &[Compared],
    wanted: &Wanted,
    format: Format,
    output: &Output,
) -> Result<Outcome, CommandError> {
    match format {
        Format::Json => output.json(&json!({
            "workspace": wanted.layout.mounted(),
            "originals": wanted.layout.agent(),
            "files": files.iter().map(file_json).collect::<Vec<_>>(),
        }))?,
        Format::Text => {
            let mut lines = Vec::new();
            for file in files.iter().filter(|file| file.standing != Standing::Absent) {
                lines.push(output.bold(&format!("{}: {}", file.name, file.standing)));
                lines.extend(difference(file));
            }
            if lines.is_empty() {
                lines.push("nothing is copied into this sandbox".to_owned());
            }
            output.lines(&lines)?;
        }
    }
    Ok(Outcome::Done)
}

fn file_json(file: &Compared) -> Value {
    json!({
        "name": file.name,
        "standing": file.standing.as_str(),
        "meaning": file.standing.to_string(),
        "reseed": match file.standing.renewal() {
            Renewal::Leave => "leave",
            Renewal::Write => "write",
            Renewal::Replace => "replace",
        },
        "diff": difference(file),
    })
}

/// The lines that re-seeding takes away and brings, without what is the same at both ends.
fn difference(file: &Compared) -> Vec<String> {
    if file.standing.renewal() == Renewal::Leave {
        return Vec::new();
    }
    let text = |bytes: &Option<Vec<u8>>| {
        String::from_utf8_lossy(bytes.as_deref().unwrap_or_default()).into_owned()
    };
    let (copy, original) = (text(&file.copy), text(&file.original));
    let (old, new): (Vec<&str>, Vec<&str>) = (copy.lines().collect(), original.lines().collect());
    let same = |(a, b): &(&&str, &&str)| a == b;
    let head = old.iter().zip(&new).take_while(same).count();
    let rest = old.len().min(new.len()) - head;
    let tail = old.iter().rev().zip(new.iter().rev()).take(rest).take_while(same).count();
    let middle = |lines: &[&str], sign: char| -> Vec<String> {
        let end = lines.len().saturating_sub(tail);
        let shown = lines.get(head..end).unwrap_or_default();
        shown.iter().map(|line| format!("  {sign} {}", safe(line))).collect()
    };
    let mut lines = vec![format!("  @ line {}", head + 1)];
    lines.extend(middle(&old, '-'));
    lines.extend(middle(&new, '+'));
    if lines.len() > MOST_LINES {
        let more = lines.len() - MOST_LINES;
        lines.truncate(MOST_LINES);
        lines.push(format!("  … {more} more lines"));
    }
    lines
}
