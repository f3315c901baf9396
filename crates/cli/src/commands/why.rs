//! `clawpen why`: the verdict, the rule, where it is written, and the smallest change.

use clawpen_engine::config_store::{self, Store};
use clawpen_engine::explain::{self, Question};
use clawpen_engine::host_files::RealFiles;
use clawpen_rules::explain::Explanation;
use clawpen_rules::mounts::{self, Access, Advice, BindDecision, Change};
use clawpen_rules::paths;
use clawpen_rules::tool_policy::{self, AllowReason, BlockReason, Tool, Verdict};
use serde_json::json;

use super::explain::origin_text;
use super::{CommandError, Format};
use crate::args::Subject;
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
            BlockReason::Denied(entry) | BlockReason::DeniedWithWrite(entry) => &entry.origin,
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
            let mut text = format!(
                "{word}: {} in {} ({})\n  rule: {} [{}]\n",
                safe(tool.name().as_str()),
                safe(&session(&explanation)),
                safe(&explanation.placement.to_string()),
                safe(&shown.reason),
                safe(&shown.layer),
            );
            if let Some(origin) = place {
                text.push_str(&format!("  from: {}\n", origin_text(origin, &store)));
            }
            push_changes(&mut text, &changes);
            if !is_known {
                text.push_str("  note: this build's catalogue has no tool of that name\n");
            }
            output.text(&text)?;
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
    let table = explanation.mount_table();
    let query = paths::Query { input, working_directory: None, home: &store.locations.home };
    match paths::resolve(&table, &query, &RealFiles) {
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
                    let mut text = format!(
                        "yes: it may be {access}\n  inside: {}\n  host:   {}\n",
                        safe(&found.container_path),
                        safe(&found.host_path)
                    );
                    if !is_writable {
                        let origin = &explanation.sandbox.workspace_access.origin;
                        text.push_str(&format!(
                            "  rule:   workspaceAccess `{}`, or a bind with `ro`; from: {}\n",
                            explanation.sandbox.workspace_access.value.as_str(),
                            origin_text(origin, &store)
                        ));
                    }
                    output.text(&text)?;
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
                    let mut text =
                        format!("no: {}\n  visible inside:\n", safe(&escape.to_string()));
                    for mount in table.mounts() {
                        text.push_str(&format!(
                            "    {} <- {}\n",
                            safe(&mount.container_root),
                            safe(&mount.host_root)
                        ));
                    }
                    text.push_str("  change: put the file there, or bind its directory in sandbox.docker.binds\n");
                    output.text(&text)?;
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
    match format {
        Format::Json => output.json(&json!({
            "inside": false,
            "reason": format!("this session runs on the host: {why}"),
            "session": session(explanation),
        }))?,
        Format::Text => output.text(&format!(
            "no sandbox: {} runs on the host ({}); its file tools see the host's paths\n  \
             change: set agents.defaults.sandbox.mode to \"all\"\n",
            safe(&session(explanation)),
            safe(&why)
        ))?,
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
            let mut text = format!("{word}: {}\n", safe(&reason));
            push_changes(&mut text, &changes);
            output.text(&text)?;
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

fn push_changes(text: &mut String, changes: &[String]) {
    for change in changes {
        text.push_str(&format!("  change: {}\n", safe(change)));
    }
}
