//! `clawpen why`: the verdict, the rule, where it is written, and the smallest change.

use clawpen_engine::config_store::{self, Store};
use clawpen_engine::explain::{self, Question};
use clawpen_engine::host_files::RealFiles;
use clawpen_rules::config::setting::Layer;
use clawpen_rules::explain::Explanation;
use clawpen_rules::mounts::{self, Access, Advice, BindDecision, Change};
use clawpen_rules::paths;
use clawpen_rules::tool_policy::{self, AllowReason, BlockReason, Tool, Verdict};
use serde_json::json;

use super::CommandError;
use super::explain::origin_text;
use crate::args::{Format, Subject};
use crate::exit::Outcome;
use crate::output::{Output, safe};

/// May a tool be called?
pub(crate) fn tool(
    name: &str,
    subject: &Subject,
    format: Format,
    output: &Output,
) -> Result<Outcome, CommandError> {
    let (store, explanation) = ask(subject)?;
    let tool = Tool::core(name);
    let verdict = tool_policy::decide(&explanation.layers, &tool);
    let changes = tool_policy::smallest_change(&explanation.layers, &tool);
    let is_known = tool_policy::catalogue::find(tool.name().as_str()).is_some();
    let shown = explain::tool_verdict(&verdict);
    let place = match &verdict {
        Verdict::Allowed(AllowReason::NoAllowList) => None,
        Verdict::Allowed(AllowReason::Listed { entry, .. }) => Some(&entry.origin),
        Verdict::Blocked(block) => Some(match block.reason {
            BlockReason::Denied(entry) | BlockReason::DeniedWithPartner(entry) => &entry.origin,
            BlockReason::NotListed(origin) => origin,
        }),
    };
    let changes: Vec<String> = changes.iter().map(ToString::to_string).collect();
    match format {
        Format::Json => output.json(&json!({
            "tool": tool.name().as_str(),
            "known": is_known,
            "session": session(&explanation),
            "sandboxed": explanation.is_sandboxed(),
            "allowed": shown.allowed,
            "layer": shown.layer,
            "reason": shown.reason,
            "origin": place.map(|origin| explain::origin(origin, String::new(), &store)),
            "changes": changes,
        }))?,
        Format::Text => {
            let word = if shown.allowed { "yes" } else { "no" };
            let mut lines = vec![
                format!(
                    "{word}: {} in {} ({})",
                    safe(tool.name().as_str()),
                    safe(&session(&explanation)),
                    safe(&explanation.placement.to_string())
                ),
                format!("  rule: {}", safe(&shown.reason)),
            ];
            lines.extend(place.map(|origin| format!("  from: {}", origin_text(origin, &store))));
            lines.extend(change_lines(&changes));
            if !is_known {
                lines.push("  note: this build's catalogue has no tool of that name".to_owned());
            }
            output.lines(&lines)?;
        }
    }
    Ok(if shown.allowed { Outcome::Done } else { Outcome::Refused })
}

/// Where does a path lead?
pub(crate) fn path(
    input: &str,
    subject: &Subject,
    format: Format,
    output: &Output,
) -> Result<Outcome, CommandError> {
    let (store, explanation) = ask(subject)?;
    if !explanation.is_sandboxed() {
        return direct(&explanation, format, output);
    }
    if let Some(refusal) = explain::refusals(&explanation, &store).into_iter().next() {
        return no_sandbox(&explanation, &refusal, format, output);
    }
    let table = explanation.mount_table();
    let query = paths::Query { input, working_directory: None, home: &store.locations.home };
    match paths::open::decide(&table, &query, &RealFiles) {
        Ok(found) => {
            let is_writable = found.access == Access::ReadWrite;
            match format {
                Format::Json => output.json(&json!({
                    "inside": true,
                    "hostPath": found.host_path,
                    "containerPath": found.container_path,
                    "relativePath": found.relative_path,
                    "writable": is_writable,
                    "session": session(&explanation),
                }))?,
                Format::Text => {
                    let access = if is_writable { "read and written" } else { "read, not written" };
                    let mut lines = vec![
                        format!("yes: it may be {access}"),
                        format!("  inside: {}", safe(&found.container_path)),
                        format!("  host:   {}", safe(&found.host_path)),
                    ];
                    if !is_writable {
                        let asked = &explanation.sandbox.workspace_access;
                        lines.push(format!(
                            "  rule:   workspaceAccess `{}`, or a bind with `ro`; from: {}",
                            asked.value.as_str(),
                            origin_text(&asked.origin, &store)
                        ));
                    }
                    output.lines(&lines)?;
                }
            }
            Ok(Outcome::Done)
        }
        Err(escape) => {
            match format {
                Format::Json => output.json(&json!({
                    "inside": false,
                    "reason": escape.to_string(),
                    "session": session(&explanation),
                }))?,
                Format::Text => {
                    let mut lines = vec![
                        format!("no: {}", safe(&escape.to_string())),
                        "  visible inside:".to_owned(),
                    ];
                    lines.extend(table.mounts().iter().map(|mount| {
                        format!("    {} <- {}", safe(&mount.container_root), safe(&mount.host_root))
                    }));
                    lines.push("  change: put the file into one of these directories".to_owned());
                    output.lines(&lines)?;
                }
            }
            Ok(Outcome::Refused)
        }
    }
}

/// Without a sandbox there is no table: file tools act on the host.
fn direct(
    explanation: &Explanation,
    format: Format,
    output: &Output,
) -> Result<Outcome, CommandError> {
    let why = explanation.placement.to_string();
    let mode = &explanation.sandbox.mode.origin;
    // An agent's own setting beats the defaults, so that is the one to change.
    let key = match mode.layer {
        Layer::Agent => mode.key.as_str(),
        Layer::BuiltIn | Layer::Defaults | Layer::Derived => "agents.defaults.sandbox.mode",
    };
    match format {
        Format::Json => output.json(&json!({
            "inside": false,
            "reason": why,
            "session": session(explanation),
        }))?,
        Format::Text => output.lines(&[
            format!(
                "no: {} has no sandbox, its file tools see the host's paths",
                safe(&session(explanation))
            ),
            format!("  rule: {}", safe(&why)),
            format!("  change: set {} to \"all\"", safe(key)),
        ])?,
    }
    Ok(Outcome::Refused)
}

/// A sandbox that may not be made shows no file at all.
fn no_sandbox(
    explanation: &Explanation,
    refusal: &str,
    format: Format,
    output: &Output,
) -> Result<Outcome, CommandError> {
    match format {
        Format::Json => output.json(&json!({
            "inside": false,
            "reason": refusal,
            "session": session(explanation),
        }))?,
        Format::Text => output.lines(&[
            format!("no: the sandbox of {} cannot be made", safe(&session(explanation))),
            format!("  rule: {}", safe(refusal)),
        ])?,
    }
    Ok(Outcome::Refused)
}

/// May a bind be mounted?
pub(crate) fn bind(
    spec: &str,
    subject: &Subject,
    format: Format,
    output: &Output,
) -> Result<Outcome, CommandError> {
    let (_, explanation) = ask(subject)?;
    let why = mounts::why(spec, &explanation.runtime.bind_policy, &RealFiles);
    let is_allowed = matches!(why.decision, BindDecision::Allow(_));
    let reason = match &why.decision {
        BindDecision::Allow(bind) => format!(
            "`{}` would be mounted at `{}`, {}",
            bind.real_source(),
            bind.target(),
            match bind.access() {
                Access::ReadWrite => "writable",
                Access::ReadOnly => "read-only",
            }
        ),
        BindDecision::Blank => "the entry is blank; write it as `source:target`".to_owned(),
        BindDecision::Refuse(refusal) => refusal.to_string(),
    };
    let changes: Vec<String> = match &why.advice {
        Advice::NotNeeded => Vec::new(),
        Advice::Change(changes) => changes
            .iter()
            .map(|change| match change {
                Change::SetTrue(key) => format!("set {key} to true, if you trust what runs there"),
                Change::Write(entry) => format!("write it as {entry}"),
            })
            .collect(),
        Advice::ByHand(what) => vec![(*what).to_owned()],
        Advice::Never(_) => vec!["nothing: no setting lets this in".to_owned()],
    };
    match format {
        Format::Json => output.json(&json!({
            "bind": spec,
            "allowed": is_allowed,
            "reason": reason,
            "changes": changes,
            "session": session(&explanation),
        }))?,
        Format::Text => {
            let word = if is_allowed { "yes" } else { "no" };
            let mut lines = vec![format!("{word}: {}", safe(&reason))];
            lines.extend(change_lines(&changes));
            output.lines(&lines)?;
        }
    }
    Ok(if is_allowed { Outcome::Done } else { Outcome::Refused })
}

fn ask(subject: &Subject) -> Result<(Store, Explanation), CommandError> {
    let store = config_store::open()?;
    let question = Question {
        agent: subject.agent.as_deref(),
        session: subject.session.as_deref(),
        channels: &[],
    };
    let explanation = explain::explain(&store, &question)?;
    Ok((store, explanation))
}

fn session(explanation: &Explanation) -> String {
    explanation.session.key().map(ToString::to_string).unwrap_or_default()
}

fn change_lines(changes: &[String]) -> impl Iterator<Item = String> {
    changes.iter().map(|change| format!("  change: {}", safe(change)))
}
