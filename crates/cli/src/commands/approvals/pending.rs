//! `clawpen approvals list` and `resolve`: what waits for a person, and the answer.

use std::path::Path;

use clawpen_engine::approvals_file::ApprovalsStore;
use clawpen_engine::broker::{Approval, Broker, Remembered, Resolved, State, Taken, Which};
use clawpen_engine::clock::{Clock as _, SystemClock};
use clawpen_engine::config_store;
use clawpen_engine::database::Database;
use clawpen_rules::command::escape;
use clawpen_wire::approvals as wire;

use crate::args::Format;
use crate::args::approvals::{ListArgs, ResolveArgs};
use crate::commands::CommandError;
use crate::commands::why_command::shown_word;
use crate::exit::Outcome;
use crate::output::Output;

/// The approvals of the user's state directory.
#[derive(Debug)]
pub(super) struct Desk {
    pub(super) database: Database,
    pub(super) approvals: ApprovalsStore,
}

impl Desk {
    /// Opens what is there; a question makes nothing.
    pub(super) fn find() -> Result<Option<Self>, CommandError> {
        let locations = config_store::locations()?;
        let database = Database::open_existing(Path::new(&locations.state_dir))?;
        let approvals = ApprovalsStore::of_home(&locations.home);
        Ok(database.map(|database| Self { database, approvals }))
    }

    pub(super) fn broker(&self) -> Broker<'_> {
        let Self { database, approvals } = self;
        Broker { database, approvals, clock: &SystemClock }
    }
}

pub(crate) fn list(args: &ListArgs, output: &Output) -> Result<Outcome, CommandError> {
    let which = if args.all { Which::All } else { Which::Pending };
    let found = match Desk::find()? {
        Some(desk) => desk.broker().list(which)?,
        None => Vec::new(),
    };
    match args.format.format() {
        Format::Json => {
            let approvals = found.iter().map(Approval::shape).collect();
            output.json(&wire::List { approvals })?;
        }
        Format::Text if found.is_empty() => output.note("nothing waits for an answer"),
        Format::Text => {
            let blocks = found.iter().map(|approval| {
                let mut lines = vec![output.bold(&headline(approval))];
                lines.extend(details(approval));
                lines.join("\n")
            });
            let blocks: Vec<String> = blocks.collect();
            output.lines(&[blocks.join("\n\n")])?;
            if found.iter().any(|approval| approval.state == State::Pending) {
                output
                    .note("answer with: clawpen approvals resolve ID allow-once|allow-always|deny");
            }
        }
    }
    Ok(Outcome::Done)
}

pub(crate) fn resolve(args: &ResolveArgs, output: &Output) -> Result<Outcome, CommandError> {
    let Some(desk) = Desk::find()? else {
        let what = format!("no approval is called `{}`; nothing was ever asked", escape(&args.id));
        return Err(CommandError::Question { what });
    };
    let broker = desk.broker();
    let resolved = broker.resolve(&args.id, args.decision, &broker.person_here()?)?;
    match args.format.format() {
        Format::Json => output.json(&resolved.shape())?,
        Format::Text => output.lines(&told(&resolved))?,
    }
    Ok(match resolved.what {
        Taken::Counts { .. } => Outcome::Done,
        Taken::Late { .. } | Taken::Refused(_) => Outcome::Refused,
    })
}

/// What came of an answer, in words.
pub(super) fn told(resolved: &Resolved) -> Vec<String> {
    let slug = resolved.id.slug();
    let mut lines = match &resolved.what {
        Taken::Counts { .. } => vec![format!("{}: {slug}", resolved.word.as_str())],
        Taken::Late { .. } => vec![format!("too late, nothing changed: {slug}")],
        Taken::Refused(_) => vec![format!("not accepted, nothing changed: {slug}")],
    };
    if let Taken::Counts { remembered: Remembered::Entries(patterns), .. } = &resolved.what {
        let entry = |pattern: &String| format!("  remembered: {}", escape(pattern));
        lines.extend(patterns.iter().map(entry));
    }
    lines.extend(resolved.note().map(|note| format!("  {}", escape(&note))));
    lines
}

/// One line: which, how it stands, whose, what.
pub(super) fn headline(approval: &Approval) -> String {
    format!(
        "{}  {}  {}  {}",
        approval.id.slug(),
        standing(approval),
        escape(approval.agent.as_str()),
        escape(&approval.command)
    )
}

/// How it stands: the time that is left, or what came of it.
pub(super) fn standing(approval: &Approval) -> String {
    match (approval.state, approval.word) {
        (State::Pending, _) => {
            let left = approval.left(&SystemClock.now()).as_secs();
            format!("{}:{:02}", left / 60, left % 60)
        }
        (State::Settled, Some(word)) => word.as_str().to_owned(),
        (State::Settled, None) => "timed out".to_owned(),
        (state, _) => state.as_str().to_owned(),
    }
}

/// Everything a person should see before answering; nothing in it can steer a terminal.
pub(crate) fn details(approval: &Approval) -> Vec<String> {
    let shape = approval.shape();
    let mut lines = vec![format!("  id: {}", approval.id)];
    lines.push(format!("  command: {}", escape(&approval.command)));
    lines.push(format!("  directory: {}", escape(&approval.cwd)));
    let session = approval.session.as_deref().unwrap_or("none");
    lines.push(format!(
        "  session: {} (agent {})",
        escape(session),
        escape(approval.agent.as_str())
    ));
    let client = approval.client.as_deref().map(|client| format!(", client {}", escape(client)));
    let gone = if shape.asker == "gone" { "; whoever asked is gone" } else { "" };
    let door = approval.door.as_str();
    lines.push(format!("  asked by: {door}{}{gone}", client.unwrap_or_default()));
    lines.extend(approval.reasons.iter().map(|reason| format!("  why: {}", escape(reason))));
    lines.push(format!(
        "  policy: security {}, ask {}; silence means {}",
        approval.security, approval.ask, approval.fallback
    ));
    lines.extend(approval.plan.as_ref().map_or_else(|| planless_lines(approval), plan_lines));
    let always = match approval.entries.as_slice() {
        [] => "nothing may be remembered: allow-always allows it once".to_owned(),
        entries => {
            let exact = entries.iter().map(|kept| {
                let words: Vec<String> = kept.argv.iter().map(|word| shown_word(word)).collect();
                format!("exactly {} as {}", shown_word(&kept.executable), words.join(" "))
            });
            format!("{} in this directory", exact.collect::<Vec<_>>().join(", and "))
        }
    };
    lines.push(format!("  allow-always: {always}"));
    if let (Some(word), Some(by)) = (approval.word, &approval.resolver) {
        lines.push(format!("  answer: {} by {}", word.as_str(), escape(by)));
    }
    lines.extend(approval.ending.map(|ending| format!("  ended: {ending}")));
    lines
}

/// What is shown where nothing is frozen: the names of the variables are all there is beside the
/// command.
fn planless_lines(approval: &Approval) -> Vec<String> {
    let mut lines = vec!["  plan: none; whoever asked runs it by itself".to_owned()];
    if !approval.variables.is_empty() {
        let names: Vec<String> = approval.variables.iter().map(|name| escape(name)).collect();
        lines.push(format!("  variables that it sets: {}", names.join(" ")));
    }
    lines
}

fn plan_lines(plan: &wire::Plan) -> Vec<String> {
    let how = match plan.form.as_str() {
        "words" => "these words, nothing expanded, no shell",
        _ => "a shell reads the text",
    };
    let mut lines = vec![format!("  plan: {how}; {}", plan.hash)];
    for step in &plan.steps {
        let words: Vec<String> = step.argv.iter().map(|word| shown_word(word)).collect();
        let joint = if step.joint.is_empty() { String::new() } else { format!("{} ", step.joint) };
        lines.push(format!("    {joint}{}", words.join(" ")));
        for file in std::iter::once(&step.file).chain(&step.others) {
            let (path, real) = (shown_word(&file.path), shown_word(&file.real_path));
            let hash = file.sha256.get(..16).unwrap_or(&file.sha256);
            let path = if path == real { path } else { format!("{path} -> {real}") };
            lines.push(format!("      file: {path} (sha256 {hash}…)"));
        }
        lines.extend(step.input.iter().map(|input| format!("      reads: '{}'", escape(input))));
    }
    let names: Vec<String> = plan.environment.iter().map(|name| escape(name)).collect();
    lines.push(format!("    variables: {}", names.join(" ")));
    lines
}
