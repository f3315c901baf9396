//! The text that a model gets when it calls a tool that the sandbox policy closed.
//!
//! It carries the facts to act on: the tool, the mode, the session (shortened, because chat ids are
//! private), the list that refused, the keys to change and the command that explains it all.

use super::layers::Layers;
use super::name::{Tool, fold};
use super::sandbox::SandboxPolicy;
use super::{BlockReason, Change, Verdict, decide, smallest_change};
use crate::config::sandbox::SandboxMode;
use crate::config::setting::Layer;
use crate::ids::AgentId;

/// The facts of a call that was refused.
#[derive(Debug, Clone, Copy)]
pub struct SandboxRefusal<'a> {
    /// The tool as the model asked for it.
    pub asked: &'a str,
    pub mode: SandboxMode,
    pub session_key: &'a str,
    pub agent: &'a AgentId,
}

/// The text for a refused call; `None` if the sandbox policy does not refuse this tool.
pub fn sandbox_refusal(policy: &SandboxPolicy, refusal: SandboxRefusal<'_>) -> Option<String> {
    let asked = fold(refusal.asked);
    if asked.is_empty() {
        return None;
    }
    let layers = Layers::of_sandbox(policy);
    let tool = Tool::core(&asked);
    let block = match decide(&layers, &tool) {
        Verdict::Allowed(_) => return None,
        Verdict::Blocked(block) => block,
    };
    let mode = refusal.mode.as_str();
    let key = refusal.session_key.trim();
    let reason = match block.reason {
        BlockReason::Denied(_) | BlockReason::DeniedWithPartner(_) => "deny list",
        BlockReason::NotListed(_) => "allow list",
    };
    let mut lines = vec![
        format!("The sandbox keeps the tool \"{asked}\" closed (mode={mode})."),
        format!("Session: {}", shortened(key)),
        format!("Refused by: {reason}"),
        "What would open it:".to_owned(),
        "- agents.defaults.sandbox.mode=off (no sandbox at all)".to_owned(),
    ];
    lines.push(match block.reason {
        BlockReason::Denied(entry) | BlockReason::DeniedWithPartner(entry) => {
            let source = policy.deny_source.key;
            let step = match entry.origin.layer {
                Layer::BuiltIn | Layer::Derived => "it stands there by default, so ",
                Layer::Defaults | Layer::Agent => "",
            };
            let changes = changes(&layers, &tool);
            format!("- \"{asked}\" is closed by {source}: {step}{changes}")
        }
        BlockReason::NotListed(_) => {
            let source = policy.allow_source.key;
            format!("- \"{asked}\" is missing from {source}: {}", changes(&layers, &tool))
        }
    });
    match refusal.mode {
        SandboxMode::NonMain => {
            lines.push("- ask in the agent's main session, which has no sandbox".to_owned());
        }
        SandboxMode::All | SandboxMode::Off => {}
    }
    lines.push(format!("- more: clawpen sandbox explain {}", explain_argument(key, refusal.agent)));
    Some(lines.join("\n"))
}

fn changes(layers: &Layers, tool: &Tool) -> String {
    let steps: Vec<String> = smallest_change(layers, tool).iter().map(Change::to_string).collect();
    steps.join(", then ")
}

/// The first and last six characters of a session key; a short one is not shown at all.
fn shortened(key: &str) -> String {
    const SHOWN: usize = 6;
    let characters: Vec<char> = key.chars().collect();
    if characters.is_empty() {
        return "(unknown)".to_owned();
    }
    if characters.len() <= 2 * SHOWN {
        return "(redacted)".to_owned();
    }
    let (head, _) = characters.split_at(SHOWN);
    let (_, tail) = characters.split_at(characters.len() - SHOWN);
    let escaped = |part: &[char]| part.iter().map(|&c| escape(c)).collect::<String>();
    format!("{}…{}", escaped(head), escaped(tail))
}

/// Control characters as escapes, so that no key can draw on a terminal or fake a line.
fn escape(character: char) -> String {
    match character {
        '\n' => "\\n".to_owned(),
        '\r' => "\\r".to_owned(),
        '\t' => "\\t".to_owned(),
        other if other.is_control() => format!("\\x{:02x}", u32::from(other)),
        other => other.to_string(),
    }
}

/// How to ask `explain` about the session. A key with control characters cannot be pasted into a
/// shell, so then it is the agent.
fn explain_argument(key: &str, agent: &AgentId) -> String {
    if key.is_empty() || key.chars().any(char::is_control) {
        return format!("--agent {agent}");
    }
    format!("--session '{}'", key.replace('\'', "'\\''"))
}
