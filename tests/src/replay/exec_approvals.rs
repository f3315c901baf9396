//! Answers the rows of `exec-approvals.jsonl`: what an approvals file says, and what edits do to it.
//!
//! Rows that write go through the engine's real file below the row's home.

use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};

use anyhow::{Context as _, Result, bail};
use clawpen_engine::approvals_file::{ApprovalsStore, ChangeError};
use clawpen_engine::random;
use clawpen_rules::approval::file::{
    AgentKey, ApprovalsFile, Change, FileProblem, FileRefused, NewEntry, Use,
};
use clawpen_rules::config::tree::FileId;
use clawpen_rules::config::{Config, json5};
use clawpen_rules::elevated::level::Elevation;
use clawpen_rules::exec_host::{
    self, Ask, Chosen, ExecDecision, Security, SessionSandbox, Situation, Wishes,
};
use clawpen_rules::ids::AgentId;
use serde_json::{Value, json};

use super::world::{NOW_MS, World};
use super::{Answer, Row};

/// The product's answer to one row.
pub fn answer(row: &Row, world: &World) -> Result<Answer> {
    let input = &row.input;
    let answer = match row.category() {
        "normalise" => normalise(input, world)?,
        "resolve" => resolve(input, world)?,
        "host-context" => host_context(input)?,
        "ensure" => ensure(input, world)?,
        "add" => add(input, world)?,
        "record" => record(input, world)?,
        other => bail!("no answer for category `{other}`"),
    };
    Ok(Answer::Given(answer))
}

/// The row's home with its file in place, if it has one.
fn store(world: &World, text: Option<&str>) -> Result<ApprovalsStore> {
    let store = ApprovalsStore::of_home(world.get("HOME"));
    if let Some(text) = text {
        std::fs::create_dir_all(store.path().parent().context("the file has a directory")?)?;
        std::fs::write(store.path(), text)?;
        std::fs::set_permissions(store.path(), std::fs::Permissions::from_mode(0o600))?;
    }
    Ok(store)
}

/// Ids and tokens are new in every run: what has their shape and was not in the input stands for
/// the placeholder.
fn shown(text: &str) -> Result<Value> {
    let mut file: Value = serde_json::from_str(text)?;
    for agent in file["agents"].as_object_mut().into_iter().flatten() {
        for entry in agent.1["allowlist"].as_array_mut().into_iter().flatten() {
            if entry["id"].as_str().is_some_and(|id| id.len() == 36 && id.matches('-').count() == 4)
            {
                entry["id"] = json!("${UUID}");
            }
            if entry["lastUsedAt"].as_u64() == Some(NOW_MS) {
                entry["lastUsedAt"] = json!(NOW_MS.to_string());
            }
        }
    }
    if file["socket"]["token"].as_str().is_some_and(|token| token.len() == 32) {
        file["socket"]["token"] = json!("${TOKEN}");
    }
    Ok(file)
}

/// What we say of a file that we do not use: why, in words that name the facts.
fn problem(problem: &FileProblem) -> Value {
    json!({ "error": problem.to_string() })
}

fn normalise(input: &Value, world: &World) -> Result<Value> {
    let store = store(world, input["text"].as_str())?;
    match store.read() {
        Ok(snapshot) => Ok(json!({
            "file": shown(&snapshot.file.to_text())?,
            "snapshot": { "exists": snapshot.exists, "sameFile": true },
        })),
        Err(FileRefused::Problem { problem: found, .. }) => Ok(problem(&found)),
        Err(refused @ FileRefused::Untrusted { .. }) => Err(refused.into()),
    }
}

fn parse(file: &Value) -> Result<ApprovalsFile> {
    Ok(ApprovalsFile::parse(&file.to_string(), &mut random::uuid)?)
}

fn agent(input: &Value) -> AgentKey {
    AgentKey::parse(input["agentId"].as_str().unwrap_or_default())
}

fn resolve(input: &Value, world: &World) -> Result<Value> {
    let file = match ApprovalsFile::parse(&input["file"].to_string(), &mut random::uuid) {
        Ok(file) => file,
        Err(found) => return Ok(problem(&found)),
    };
    let agent = agent(input);
    let policy = file.policy(&agent);
    let defaults = file.defaults();
    let fallback = |key: &str| input["overrides"][key].as_str();
    let security = |chosen: Option<Chosen<Security>>, key: &str| {
        let own = chosen.map(|chosen| chosen.value);
        own.or_else(|| fallback(key).and_then(Security::parse)).unwrap_or(Security::Deny).as_str()
    };
    let ask = |chosen: Option<Chosen<Ask>>| {
        let own = chosen.map(|chosen| chosen.value);
        own.or_else(|| fallback("ask").and_then(Ask::parse)).unwrap_or(Ask::OnMiss).as_str()
    };
    let skills = |chosen: Option<Chosen<bool>>| {
        let own = chosen.map(|chosen| chosen.value);
        own.unwrap_or(input["overrides"]["autoAllowSkills"] == json!(true))
    };
    let socket = file.socket_path().map(|path| match path.strip_prefix('~') {
        Some(rest) => format!("{}{rest}", world.get("HOME")),
        None => path.to_owned(),
    });
    let text = shown(&file.to_text())?;
    let list = |key: &str| text["agents"][key]["allowlist"].as_array().cloned().unwrap_or_default();
    let own = if agent.as_str() == "*" { Vec::new() } else { list(agent.as_str()) };
    let allowlist: Vec<Value> = list("*").into_iter().chain(own).collect();
    // The typed list must be the written one, entry by entry.
    let patterns = |list: &[Value]| -> Vec<String> {
        list.iter()
            .map(|entry| entry["pattern"].as_str().unwrap_or_default().trim().to_owned())
            .collect()
    };
    let typed: Vec<String> = file.allowlist(&agent).map(|entry| entry.pattern.clone()).collect();
    anyhow::ensure!(typed == patterns(&allowlist), "the typed allowlist is another one");
    Ok(json!({
        "defaults": {
            "security": security(defaults.security, "security"),
            "ask": ask(defaults.ask),
            "askFallback": security(defaults.ask_fallback, "askFallback"),
            "autoAllowSkills": skills(defaults.auto_allow_skills),
        },
        "agent": {
            "security": security(policy.security, "security"),
            "ask": ask(policy.ask),
            "askFallback": security(policy.ask_fallback, "askFallback"),
            "autoAllowSkills": skills(policy.auto_allow_skills),
        },
        "allowlist": allowlist,
        "socketPath": socket.unwrap_or_else(|| format!("{}/exec-approvals.sock", world.get("STATE_DIR"))),
        "hasToken": file.has_token(),
    }))
}

/// Where a command of the gateway runs, asked for as the row's own `security` and `ask` say.
pub(super) fn gateway(input: &Value, file: &ApprovalsFile, key: &AgentKey) -> Result<ExecDecision> {
    let exec = json!({ "host": "gateway", "security": input["security"], "ask": input["ask"] });
    let text = json!({ "tools": { "exec": exec } }).to_string();
    let config = Config::from_tree(json5::parse(&text, FileId(0))?.root, Vec::new());
    let none = Wishes::default();
    Ok(exec_host::decide(&Situation {
        config: &config,
        agent: &AgentId::main(),
        sandbox: SessionSandbox::None,
        message: none,
        session: none,
        request: none,
        elevation: &Elevation::Off,
        approvals: Ok(&file.policy(key)),
    }))
}

fn host_context(input: &Value) -> Result<Value> {
    let decision = gateway(input, &parse(&input["file"])?, &agent(input))?;
    Ok(match decision {
        ExecDecision::Gateway(exec) => json!({
            "hostSecurity": exec.security().value.as_str(),
            "hostAsk": exec.ask().value.as_str(),
            "askFallback": exec.ask_fallback().value.as_str(),
        }),
        ExecDecision::Refused(refusal) => json!({ "error": refusal.to_string() }),
        ExecDecision::Sandbox(_) => bail!("a session without a sandbox ran in one"),
    })
}

/// The mode of the file as it stands now.
fn mode(store: &ApprovalsStore) -> Result<String> {
    Ok(format!("{:o}", std::fs::metadata(store.path())?.mode() & 0o777))
}

fn ensure(input: &Value, world: &World) -> Result<Value> {
    let text = input["text"].as_str();
    let store = store(world, text)?;
    match store.ensure() {
        Ok(made) => Ok(json!({ "file": shown(&made.file.to_text())?, "mode": mode(&store)? })),
        Err(ChangeError::Refused(FileRefused::Problem { problem: found, .. })) => {
            let now = std::fs::read_to_string(store.path())?;
            anyhow::ensure!(Some(now.as_str()) == text, "a file that was refused has changed");
            Ok(problem(&found))
        }
        Err(other) => Err(other.into()),
    }
}

fn edit(
    input: &Value,
    world: &World,
    mut edit: impl FnMut(&mut ApprovalsFile) -> Change,
) -> Result<Value> {
    let store = store(world, Some(&input["file"].to_string()))?;
    let (_, _) = store.edit(&mut edit)?;
    let text = std::fs::read_to_string(store.path())?;
    Ok(json!({ "saved": shown(&text)?, "mode": mode(&store)? }))
}

fn add(input: &Value, world: &World) -> Result<Value> {
    let pattern = input["pattern"].as_str().unwrap_or_default();
    edit(input, world, |file| {
        let entry = NewEntry::pattern(pattern, None);
        file.add(&agent(input), entry, NOW_MS, &mut random::uuid)
    })
}

fn record(input: &Value, world: &World) -> Result<Value> {
    let used = Use {
        pattern: input["entry"]["pattern"].as_str().unwrap_or_default(),
        command: input["command"].as_str().unwrap_or_default(),
        resolved_path: input["resolvedPath"].as_str(),
        now_ms: NOW_MS,
    };
    edit(input, world, |file| file.record_use(&agent(input), &used))
}
