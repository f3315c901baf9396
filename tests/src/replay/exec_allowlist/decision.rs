//! Answers the rows that decide: run, ask or deny, and what silence means.

use std::collections::BTreeMap;

use anyhow::{Context as _, Result, bail};
use clawpen_engine::random;
use clawpen_rules::approval::answer::{self, Answer, Looks, Settled};
use clawpen_rules::approval::file::{AgentKey, ApprovalsFile};
use clawpen_rules::approval::{
    self, AskReason, Coverage, Decision, Findings, InlineRule, RunReason,
};
use clawpen_rules::command::{DEFAULT_NAMES, Request, SafeBins, Trust};
use clawpen_rules::exec_host::{Ask, ExecDecision, HostExec, Security};
use serde_json::{Value, json};

use super::files::FixtureFiles;
use super::{World, text, texts};
use crate::replay::exec_approvals;

pub(super) fn answer(category: &str, input: &Value, world: &World) -> Result<Value> {
    match category {
        "combine" => combine(input),
        "approval" => requires_approval(input),
        "fallback" => fallback(input),
        "gateway-decision" => gateway(input, world),
        other => bail!("no answer for category `{other}`"),
    }
}

fn security(value: &Value) -> Result<Security> {
    value.as_str().and_then(Security::parse).context("a word of security")
}

fn ask(value: &Value) -> Result<Ask> {
    value.as_str().and_then(Ask::parse).context("a word of ask")
}

fn combine(input: &Value) -> Result<Value> {
    let result = match (&input["minSecurity"], &input["maxAsk"]) {
        (Value::Array(pair), _) => security(&pair[0])?.min(security(&pair[1])?).as_str(),
        (_, Value::Array(pair)) => ask(&pair[0])?.max(ask(&pair[1])?).as_str(),
        _ => bail!("nothing to combine"),
    };
    Ok(json!({ "result": result }))
}

fn requires_approval(input: &Value) -> Result<Value> {
    let coverage = match (&input["analysisOk"], &input["allowlistSatisfied"]) {
        (Value::Bool(true), Value::Bool(true)) => Coverage::Covered,
        (Value::Bool(true), _) => Coverage::Missed,
        _ => Coverage::NotAnalysable,
    };
    let needed =
        approval::policy_asks(security(&input["security"])?, ask(&input["ask"])?, coverage);
    Ok(json!({ "requiresApproval": needed }))
}

fn fallback(input: &Value) -> Result<Value> {
    let given = match input["decision"].as_str() {
        None => Answer::Silence,
        Some(word) => Answer::parse(word).context("a word of decision")?,
    };
    let is_obfuscated = input["obfuscationDetected"] == json!(true);
    let looks = if is_obfuscated { Looks::Obfuscated } else { Looks::Plain };
    let settled = answer::decide(given, security(&input["askFallback"])?, looks);
    let denied = match settled {
        Settled::Refuse(denied) => Some(denied.to_string()),
        Settled::Run | Settled::RunAndRemember | Settled::RunUnanswered | Settled::RunIfCovered => {
            None
        }
    };
    Ok(json!({
        "approvedByAsk": settled == Settled::RunUnanswered,
        "deniedReason": denied,
        "timedOut": given == Answer::Silence,
    }))
}

fn gateway(input: &Value, world: &World) -> Result<Value> {
    let deny = |message: String| json!({ "decision": "deny", "message": message, "warnings": [] });
    let file = match &input["approvals"] {
        Value::Null => ApprovalsFile::empty(),
        written => match ApprovalsFile::parse(&written.to_string(), &mut random::uuid) {
            Ok(file) => file,
            Err(problem) => return Ok(deny(problem.to_string())),
        },
    };
    let key = AgentKey::parse(text(input, "agentId"));
    let policy = match policy(input, &file, &key)? {
        Ok(policy) => policy,
        Err(message) => return Ok(deny(message)),
    };
    let files = FixtureFiles::new(world.fixture());
    let home = Some(world.get("HOME"));
    let environment = BTreeMap::from([("PATH".to_owned(), text(input, "path").to_owned())]);
    let (text, cwd) = (text(input, "command"), text(input, "cwd"));
    let request = Request { text, cwd, home, environment: &environment };
    let entries: Vec<_> = file.allowlist(&key).filter_map(|entry| entry.to_trusted(home)).collect();
    let safe_bins = safe_bins(input);
    let trust = Trust { entries: &entries, safe_bins: &safe_bins, skills: &[] };
    let findings = Findings::of(&request, &trust, &files);
    let is_strict = input["strictInlineEval"] == json!(true);
    let inline = if is_strict { InlineRule::AlwaysAsk } else { InlineRule::AsPolicySays };
    Ok(match approval::decide(&policy, &findings, inline) {
        Decision::Run(RunReason::Full { .. }) => {
            json!({ "decision": "run", "execCommand": null, "warnings": [] })
        }
        Decision::Run(RunReason::Covered) => {
            let plan = findings.analysis?.freeze(&files)?;
            json!({ "decision": "run", "execCommand": plan.command_line(), "warnings": [] })
        }
        Decision::Ask(reasons) => json!({ "decision": "ask", "warnings": warnings(&reasons) }),
        Decision::Refuse(reason) => deny(reason.to_string()),
    })
}

/// The policy of the gateway's machine, or why nothing may run there.
fn policy(input: &Value, file: &ApprovalsFile, key: &AgentKey) -> Result<Result<HostExec, String>> {
    let decision = exec_approvals::gateway(input, file, key)?;
    match decision {
        ExecDecision::Gateway(policy) => Ok(Ok(policy)),
        ExecDecision::Refused(refusal) => Ok(Err(refusal.to_string())),
        ExecDecision::Sandbox(_) => bail!("a session without a sandbox ran in one"),
    }
}

fn safe_bins(input: &Value) -> SafeBins {
    let directories = texts(&input["trustedSafeBinDirs"]);
    let directories = directories.iter().map(String::as_str);
    let names = texts(&input["safeBins"]);
    if input["safeBins"].is_array() {
        SafeBins::new(names.iter().map(String::as_str), directories)
    } else {
        SafeBins::new(DEFAULT_NAMES.iter().copied(), directories)
    }
}

/// What the recording warns about: the reasons that are in the text, not in the policy.
fn warnings(reasons: &[AskReason]) -> Vec<String> {
    let in_text = reasons.iter().filter(|reason| match reason {
        AskReason::HereDocument | AskReason::InlineCode(_) | AskReason::Obfuscated(_) => true,
        AskReason::Always { .. } | AskReason::Missed { .. } | AskReason::NotAnalysable { .. } => {
            false
        }
    });
    in_text.map(ToString::to_string).collect()
}
