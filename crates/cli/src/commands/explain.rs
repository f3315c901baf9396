//! `clawpen sandbox explain`.

use clawpen_engine::config_store;
use clawpen_engine::explain::{self, Question};
use clawpen_rules::config::locate::shorten_home;
use clawpen_rules::config::setting::{Layer, Origin};
use clawpen_rules::environment;
use clawpen_rules::explain::{Explanation, origins};
use clawpen_wire::explain as wire;

use super::CommandError;
use crate::args::ExplainArgs;
use crate::config_report::warning_text;
use crate::exit::Outcome;
use crate::output::{Output, safe};

pub(crate) fn run(args: &ExplainArgs, output: &Output) -> Result<Outcome, CommandError> {
    let store = config_store::open()?;
    let question = Question {
        agent: args.subject.agent.as_deref(),
        session: args.subject.session.as_deref(),
        channels: &args.channels,
    };
    let explanation = explain::explain(&store, &question)?;
    let files = store.loaded.config.files();
    let warnings: Vec<String> = store
        .warnings()
        .iter()
        .map(|warning| warning_text(warning, files, &store.locations))
        .collect();
    for warning in &warnings {
        output.note(&format!("warning: {warning}"));
    }
    if args.live {
        return super::live::run(args, output);
    }
    if args.docker_args {
        return docker_args(&explanation, &store, output);
    }
    if args.json {
        output.json(&explain::to_wire(&explanation, &store, warnings))?;
    } else {
        // The config's warnings stand above; the screen need not repeat them.
        let answer = explain::to_wire(&explanation, &store, Vec::new());
        output.lines(&screen(&explanation, &answer, &store, output))?;
    }
    Ok(Outcome::Done)
}

/// One argument per line, so that blanks in them stay visible; values of variables may be secrets
/// and are not shown. What would be refused is not shown:
/// such a container is never made.
fn docker_args(
    explanation: &Explanation,
    store: &config_store::Store,
    output: &Output,
) -> Result<Outcome, CommandError> {
    if let Some(what) = explain::refusals(explanation, store).into_iter().next() {
        return Err(CommandError::Question { what });
    }
    if !explanation.is_sandboxed() {
        output.note(&format!(
            "note: {}; this is the container it would get in a sandbox",
            safe(&explanation.placement.to_string())
        ));
    }
    let spec = explanation.runtime.spec.as_ref();
    let spec = spec.map_err(|refused| CommandError::Question { what: refused.to_string() })?;
    let mut lines = vec!["docker".to_owned()];
    let arguments = spec.docker_args();
    let flags = std::iter::once("").chain(arguments.iter().map(String::as_str));
    lines.extend(flags.zip(&arguments).map(|(flag, argument)| match flag {
        "--env" => safe(&environment::shown(argument)),
        _ => safe(argument),
    }));
    output.lines(&lines)?;
    Ok(Outcome::Done)
}

/// The reference's screen, then ours.
fn screen(
    explanation: &Explanation,
    answer: &wire::Explain,
    store: &config_store::Store,
    output: &Output,
) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    effective(answer, &mut lines, output);
    policy(answer, &mut lines, output);
    elevated(answer, &mut lines, output);
    if answer.sandbox.mode == "non-main" && answer.sandbox.session_is_sandboxed {
        lines.push(format!(
            "Hint: mode non-main keeps only the main session on the host, which is {}",
            safe(&answer.main_session_key)
        ));
        lines.push(String::new());
    }
    lines.push(output.bold("Fix-it:"));
    lines.extend(answer.fix_it.iter().map(|key| format!("  - {}", safe(key))));
    lines.push(String::new());
    lines.push(format!("Docs: {}", answer.docs_url));
    lines.push(String::new());
    reasons(explanation, answer, &mut lines, output);
    origin_table(explanation, store, &mut lines, output);
    lines
}

fn effective(answer: &wire::Explain, lines: &mut Vec<String>, output: &Output) {
    let sandbox = &answer.sandbox;
    lines.push(output.bold("Effective sandbox:"));
    lines.push(format!("  agentId: {}", safe(&answer.agent_id)));
    lines.push(format!("  sessionKey: {}", safe(&answer.session_key)));
    lines.push(format!("  mainSessionKey: {}", safe(&answer.main_session_key)));
    let runtime = if sandbox.session_is_sandboxed { "sandboxed" } else { "direct" };
    lines.push(format!("  runtime: {runtime}"));
    lines.push(format!(
        "  mode: {} scope: {} perSession: {}",
        sandbox.mode, sandbox.scope, sandbox.per_session
    ));
    lines.push(format!(
        "  workspaceAccess: {} workspaceRoot: {}",
        sandbox.workspace_access,
        safe(&sandbox.workspace_root)
    ));
    lines.push(String::new());
}

fn policy(answer: &wire::Explain, lines: &mut Vec<String>, output: &Output) {
    let tools = &answer.sandbox.tools;
    let list = |names: &[String]| {
        if names.is_empty() { "(empty)".to_owned() } else { safe(&names.join(", ")) }
    };
    lines.push(output.bold("Sandbox tool policy:"));
    lines.push(format!("  allow ({}): {}", tools.sources.allow.source, list(&tools.allow)));
    lines.push(format!("  deny  ({}): {}", tools.sources.deny.source, list(&tools.deny)));
    lines.push(String::new());
}

fn elevated(answer: &wire::Explain, lines: &mut Vec<String>, output: &Output) {
    let elevated = &answer.elevated;
    lines.push(output.bold("Elevated:"));
    lines.push(format!("  enabled: {}", elevated.enabled));
    lines.push(format!("  channel: {}", safe(elevated.channel.as_deref().unwrap_or("(unknown)"))));
    lines.push(format!("  allowedByConfig: {}", elevated.allowed_by_config));
    if !elevated.failures.is_empty() {
        let gates: Vec<String> = elevated
            .failures
            .iter()
            .map(|failure| format!("{} ({})", failure.gate, safe(&failure.key)))
            .collect();
        lines.push(format!("  failing gates: {}", gates.join(", ")));
    }
    lines.push(String::new());
}

/// Why it is so, what it would run in, and what stands in the way.
fn reasons(
    explanation: &Explanation,
    answer: &wire::Explain,
    lines: &mut Vec<String>,
    output: &Output,
) {
    let clawpen = &answer.clawpen;
    lines.push(output.bold("Why:"));
    lines.push(format!("  {}", safe(&clawpen.placement)));
    lines.push(String::new());
    if let Some(runtime) = &clawpen.runtime {
        lines.push(output.bold("Sandbox:"));
        lines.push(format!("  backend   {}", safe(&clawpen.backend)));
        lines.push(format!("  name      {}", safe(&runtime.name)));
        lines.push(format!("  scope     {}", safe(&runtime.scope_key)));
        let browser = clawpen.browser.as_ref();
        lines.extend(browser.map(|browser| format!("  browser   {}", safe(browser))));
        for mount in &runtime.mounts {
            let access = if mount.writable { "rw" } else { "ro" };
            lines.push(format!(
                "  {access}        {} <- {}",
                safe(&mount.container_root),
                safe(&mount.host_root)
            ));
        }
        lines.push(String::new());
    }
    if let Some(workspace) = &clawpen.workspace {
        persistence(workspace, lines, output);
    }
    let is_sandboxed = explanation.is_sandboxed();
    for (title, entries) in [
        (
            if is_sandboxed { "Refused at start:" } else { "A sandbox would be refused:" },
            &clawpen.refusals,
        ),
        ("Worth knowing:", &clawpen.warnings),
    ] {
        if entries.is_empty() {
            continue;
        }
        lines.push(output.bold(title));
        lines.extend(entries.iter().map(|entry| format!("  - {}", safe(entry))));
        lines.push(String::new());
    }
}

/// What outlives what, and how the seeded files stand.
fn persistence(workspace: &wire::Workspace, lines: &mut Vec<String>, output: &Output) {
    lines.push(output.bold("What persists:"));
    let width = workspace.persists.iter().map(|place| place.at.chars().count()).max().unwrap_or(0);
    for place in &workspace.persists {
        lines.push(format!("  {:width$}  {}", safe(&place.at), place.meaning));
    }
    let width = workspace.seeds.iter().map(|seed| seed.name.len()).max().unwrap_or(0);
    for seed in &workspace.seeds {
        lines.push(format!("  {:width$}  {}: {}", seed.name, seed.standing, seed.meaning));
    }
    lines.extend(workspace.change_to_originals.iter().map(|text| format!("  {}", safe(text))));
    lines.push(String::new());
}

/// The values that somebody set, and the five that matter most.
fn origin_table(
    explanation: &Explanation,
    store: &config_store::Store,
    lines: &mut Vec<String>,
    output: &Output,
) {
    const ALWAYS: [&str; 5] = ["mode", "backend", "scope", "workspaceAccess", "workspaceRoot"];
    const WIDEST: usize = 44;
    let shown: Vec<origins::OriginLine> = origins::lines(&explanation.sandbox)
        .into_iter()
        .filter(|line| line.origin.layer != Layer::BuiltIn || ALWAYS.contains(&line.key.as_str()))
        .collect();
    let width = shown.iter().map(|line| line.key.chars().count()).max().unwrap_or(0);
    let value_width =
        shown.iter().map(|line| line.value.chars().count()).max().unwrap_or(0).min(WIDEST);
    lines.push(output.bold("Where it comes from:"));
    for line in shown {
        let value = shorten(&safe(&line.value), WIDEST);
        let from = output.dim(&origin_text(&line.origin, store));
        lines.push(format!("  {:width$}  {value:value_width$}  {from}", safe(&line.key)));
    }
}

fn shorten(text: &str, longest: usize) -> String {
    if text.chars().count() <= longest {
        return text.to_owned();
    }
    let start: String = text.chars().take(longest - 1).collect();
    format!("{start}…")
}

/// Where a value comes from, in words.
pub(crate) fn origin_text(origin: &Origin, store: &config_store::Store) -> String {
    match origin.layer {
        Layer::BuiltIn => "built in".to_owned(),
        Layer::Derived if origin.place.is_none() => "found on this machine".to_owned(),
        Layer::Defaults | Layer::Agent | Layer::Derived => {
            let place = origin.place.map(|place| {
                let file = store.file(place.file).unwrap_or_default();
                let file = safe(&shorten_home(file, &store.locations.home));
                format!(" {file}:{}:{}", place.line, place.column)
            });
            format!("{}{}", safe(&origin.key), place.unwrap_or_default())
        }
    }
}
