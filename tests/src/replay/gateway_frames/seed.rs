//! Puts in place what a recording takes for granted.

use std::collections::{BTreeMap, BTreeSet};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use anyhow::{Context as _, Result};
use serde_json::{Map, Value, json};

/// The secret that every recorded client knows.
pub(super) const TOKEN: &str = "replay-token-that-nobody-else-has";

/// A row with the paths and secrets of this run. Directories called `workspace` were recorded under
/// another name.
pub(super) fn fill(row: &Value, home: &str, port: u16) -> Value {
    let state = format!("{home}/.openclaw");
    let text = row
        .to_string()
        .replace("<STATE_DIR>/srv/appspace", "<STATE_DIR>/workspace")
        .replace("<STATE_DIR>", &state)
        .replace("<HOME>", home)
        .replace("<GATEWAY_TOKEN>", TOKEN)
        .replace("<LLM_PORT>", &port.to_string());
    serde_json::from_str(&text).unwrap_or_default()
}

/// Writes config, approvals and sessions below a home.
pub(super) fn put_in_place(rows: &[Value], home: &str, port: u16) -> Result<()> {
    let state = Path::new(home).join(".openclaw");
    std::fs::create_dir_all(&state)?;
    let config = state.join("openclaw.json");
    std::fs::write(&config, config_text(rows, port))?;
    std::fs::set_permissions(&config, std::fs::Permissions::from_mode(0o600))?;
    if let Some(file) = first_answer(rows, "exec.approvals.get", &["exec.approvals.set"]) {
        let path = state.join("exec-approvals.json");
        std::fs::write(&path, format!("{:#}\n", file["file"]))?;
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600))?;
    }
    for (path, entries) in sessions(rows, &state) {
        let path = Path::new(&path);
        if let Some(parent) = path.parent() {
            std::fs::create_dir_all(parent)?;
        }
        std::fs::write(path, format!("{:#}\n", Value::Object(entries)))?;
    }
    transcripts(rows, &state)?;
    pages(rows, &state)?;
    files(rows)
}

const CONFIG_WRITES: &[&str] = &[
    "config.set",
    "config.patch",
    "config.apply",
    "agents.create",
    "agents.update",
    "agents.delete",
];

/// The first answer to a method that comes before any of `changes` was made.
fn first_answer<'a>(rows: &'a [Value], method: &str, changes: &[&str]) -> Option<&'a Value> {
    for row in rows.iter().filter(|row| row["frame"]["type"] == "res") {
        let asked = row["method"].as_str().unwrap_or_default();
        let is_done = row["frame"]["ok"] == json!(true);
        if is_done && changes.contains(&asked) {
            return None;
        }
        if is_done && asked == method {
            return Some(&row["frame"]["payload"]);
        }
    }
    None
}

fn config_text(rows: &[Value], port: u16) -> String {
    if let Some(answer) = first_answer(rows, "config.get", CONFIG_WRITES)
        && let Some(raw) = answer["raw"].as_str()
    {
        return raw.replace("__OPENCLAW_REDACTED__", TOKEN);
    }
    let model = json!({
        "id": "mock-1", "name": "Mock One", "contextWindow": 128_000, "maxTokens": 4096,
        "input": ["text"], "reasoning": false,
        "cost": { "input": 0, "output": 0, "cacheRead": 0, "cacheWrite": 0 },
    });
    let mut config = json!({
        "gateway": { "mode": "local", "port": 18_999, "bind": "loopback",
                     "auth": { "mode": "token", "token": TOKEN } },
        "models": { "providers": { "mock": { "baseUrl": format!("http://127.0.0.1:{port}/v1"), "apiKey": TOKEN,
                     "api": "openai-completions", "models": [model] } } },
        "agents": { "defaults": { "model": { "primary": "mock/mock-1" },
                                  "sandbox": { "backend": "native" } } },
    });
    let agents = agents(rows);
    if agents.len() > 1 {
        config["agents"]["list"] = Value::Array(agents);
    }
    format!("{config:#}\n")
}

/// The agents that a recording speaks of and does not make.
fn agents(rows: &[Value]) -> Vec<Value> {
    let made: BTreeSet<&str> = rows
        .iter()
        .filter(|row| row["method"] == "agents.create")
        .filter_map(|row| row["frame"]["payload"]["agentId"].as_str())
        .collect();
    let mut found: Vec<Value> = vec![json!({ "id": "main" })];
    let mut add = |id: &str, name: Option<&str>| {
        if id == "main" || made.contains(id) || found.iter().any(|agent| agent["id"] == *id) {
            return;
        }
        let mut agent = json!({ "id": id });
        if let Some(name) = name {
            agent["name"] = json!(name);
        }
        found.push(agent);
    };
    for row in rows {
        let frame = &row["frame"];
        if frame["method"] == "agent"
            && let Some(id) = frame["params"]["agentId"].as_str()
        {
            add(id, None);
        }
        let payload = &frame["payload"];
        for agent in payload["agents"].as_array().into_iter().flatten() {
            if let Some(id) = agent["agentId"].as_str().or_else(|| agent["id"].as_str()) {
                add(id, agent["name"].as_str());
            }
        }
        for agent in payload["heartbeat"]["agents"].as_array().into_iter().flatten() {
            add(agent["agentId"].as_str().unwrap_or("main"), None);
        }
    }
    found
}

/// What changes sessions.
const SESSION_CHANGES: &[&str] = &[
    "sessions.patch",
    "sessions.reset",
    "sessions.create",
    "sessions.delete",
    "chat.send",
    "agent",
    "wake",
    "sessions.send",
];

/// The sessions that were there already, by key.
#[derive(Default)]
struct Sessions(BTreeMap<String, Map<String, Value>>);

impl Sessions {
    /// Adds what an answer tells of a session; what is known already stays.
    fn add(&mut self, key: &str, told: impl IntoIterator<Item = (String, Value)>) {
        let entry = self.0.entry(key.to_owned()).or_default();
        for (name, value) in told {
            if !value.is_null() {
                entry.entry(name).or_insert(value);
            }
        }
    }

    /// The stores of all agents.
    fn stores(self, state: &Path) -> BTreeMap<String, Map<String, Value>> {
        let mut stores: BTreeMap<String, Map<String, Value>> = BTreeMap::new();
        for (key, mut entry) in self.0 {
            let id = || json!(clawpen_engine::random::uuid());
            entry.entry("sessionId").or_insert_with(id);
            let store = stores.entry(store_path(state, &key)).or_default();
            store.insert(key, Value::Object(entry));
        }
        stores
    }
}

fn store_path(state: &Path, key: &str) -> String {
    let agent = key.split(':').nth(1).unwrap_or("main");
    state.join("agents").join(agent).join("sessions/sessions.json").to_string_lossy().into_owned()
}

/// What a row of a list says about its entry; the rest is worked out when it is shown.
fn of_row(row: &Value) -> Vec<(String, Value)> {
    const WORKED_OUT: &[&str] = &[
        "key",
        "kind",
        "agentId",
        "age",
        "flags",
        "remainingTokens",
        "percentUsed",
        "model",
        "modelProvider",
        "contextTokens",
    ];
    let members = row.as_object().into_iter().flatten();
    members
        .filter(|(name, _)| !WORKED_OUT.contains(&name.as_str()))
        .map(|(name, value)| (name.clone(), value.clone()))
        .collect()
}

/// The stores with the sessions that were there already.
fn sessions(rows: &[Value], state: &Path) -> BTreeMap<String, Map<String, Value>> {
    let mut sessions = Sessions::default();
    untouched(rows, &mut sessions);
    let list = first_answer(rows, "sessions.list", SESSION_CHANGES);
    let status = first_answer(rows, "status", SESSION_CHANGES);
    let listed = list.map(|list| &list["sessions"]);
    let recent = status.map(|status| &status["sessions"]["recent"]);
    for row in [listed, recent].into_iter().flatten().filter_map(Value::as_array).flatten() {
        sessions.add(row["key"].as_str().unwrap_or_default(), of_row(row));
    }
    if let Some(health) = first_answer(rows, "health", SESSION_CHANGES) {
        for agent in health["agents"].as_array().into_iter().flatten() {
            for row in agent["sessions"]["recent"].as_array().into_iter().flatten() {
                let told = [("updatedAt".to_owned(), row["updatedAt"].clone())];
                sessions.add(row["key"].as_str().unwrap_or_default(), told);
            }
        }
    }
    if let Some(history) = first_answer(rows, "chat.history", SESSION_CHANGES) {
        let told = ["sessionId", "thinkingLevel"].map(|key| (key.to_owned(), history[key].clone()));
        let told = told.into_iter().filter(|(_, value)| *value != "off");
        sessions.add(history["sessionKey"].as_str().unwrap_or_default(), told);
    }
    told_before(rows, &mut sessions);
    left_alone(rows, &mut sessions);
    asked_on_the_host(rows, &mut sessions);
    deleted(rows, state, &mut sessions);
    sessions.0.remove("");
    sessions.stores(state)
}

/// A session that is deleted, and was not made in the recording, was there with its transcript.
fn deleted(rows: &[Value], state: &Path, sessions: &mut Sessions) {
    let is_made = |key: &str| {
        rows.iter().any(|row| {
            let frame = &row["frame"];
            frame["params"]["sessionKey"] == *key || frame["payload"]["entry"].is_object()
        })
    };
    for row in rows.iter().filter(|row| row["method"] == "sessions.delete") {
        let payload = &row["frame"]["payload"];
        let (Some(key), Some(path)) = (payload["key"].as_str(), payload["archived"][0].as_str())
        else {
            continue;
        };
        let name = path.rsplit('/').next().and_then(|name| name.split_once(".jsonl"));
        let Some((id, _)) = name.filter(|_| !is_made(key)) else { continue };
        let listed = rows
            .iter()
            .flat_map(|row| row["frame"]["payload"]["sessions"].as_array().into_iter().flatten());
        for row in listed.filter(|row| row["key"] == *key) {
            sessions.add(key, of_row(row));
        }
        sessions.add(key, [("sessionId".to_owned(), json!(id))]);
        let file = Path::new(&store_path(state, key)).with_file_name(format!("{id}.jsonl"));
        let head = json!({ "type": "session", "version": 3, "id": id }).to_string();
        // One that cannot be written shows in the row that looks for it.
        let _written = file.parent().map(|parent| {
            std::fs::create_dir_all(parent).and_then(|()| std::fs::write(&file, head + "\n"))
        });
    }
}

/// A run that asked people about a command was set to run it on the host before the recording began.
fn asked_on_the_host(rows: &[Value], sessions: &mut Sessions) {
    let is_clients = |command: &Value| {
        rows.iter().any(|row| {
            let frame = &row["frame"];
            frame["method"] == "exec.approval.request" && frame["params"]["command"] == *command
        })
    };
    for row in rows.iter().filter(|row| row["frame"]["event"] == "exec.approval.requested") {
        let request = &row["frame"]["payload"]["request"];
        if request["host"] == "gateway" && !is_clients(&request["command"]) {
            let told = [("execHost", "host"), ("execSecurity", "security"), ("execAsk", "ask")]
                .map(|(key, said)| (key.to_owned(), request[said].clone()));
            sessions.add(request["sessionKey"].as_str().unwrap_or_default(), told);
        }
    }
}

/// Sessions that an answer shows and that nothing before it speaks of.
fn left_alone(rows: &[Value], sessions: &mut Sessions) {
    for (index, row) in rows.iter().enumerate().filter(|(_, row)| row["frame"]["type"] == "res") {
        let recent = row["frame"]["payload"]["sessions"]["recent"].as_array();
        for shown in recent.into_iter().flatten() {
            let Some(key) = shown["key"].as_str() else { continue };
            let quoted = format!("\"{key}\"");
            let is_named = |row: &Value| {
                let frame = &row["frame"];
                frame["params"].to_string().contains(&quoted) || frame["payload"]["key"] == *key
            };
            if !rows[..index].iter().any(is_named) {
                sessions.add(key, of_row(shown));
            }
        }
    }
}

/// What the first event about a session tells of a run that had ended by then.
fn told_before(rows: &[Value], sessions: &mut Sessions) {
    const KEPT: &[&str] = &[
        "sessionId",
        "chatType",
        "origin",
        "deliveryContext",
        "lastChannel",
        "systemSent",
        "abortedLastRun",
        "inputTokens",
        "outputTokens",
        "totalTokens",
        "totalTokensFresh",
        "estimatedCostUsd",
        "status",
        "startedAt",
        "endedAt",
        "runtimeMs",
        "updatedAt",
    ];
    let mut seen = BTreeSet::new();
    for row in rows {
        let payload = &row["frame"]["payload"];
        let is_told = payload["session"].is_string() || payload["session"].is_object();
        let Some(key) = payload["sessionKey"].as_str().filter(|_| is_told) else { continue };
        if seen.insert(key) && payload["status"] == "done" {
            let told = KEPT.iter().map(|name| ((*name).to_owned(), payload[*name].clone()));
            sessions.add(key, told);
        }
    }
}

/// What the first change of a session left alone was there before it.
fn untouched(rows: &[Value], sessions: &mut Sessions) {
    let mut seen = BTreeSet::new();
    for row in rows.iter().filter(|row| row["frame"]["type"] == "res") {
        let payload = &row["frame"]["payload"];
        let (Some(key), Some(entry)) = (payload["key"].as_str(), payload["entry"].as_object())
        else {
            continue;
        };
        if !seen.insert(key.to_owned()) || row["method"] != "sessions.patch" {
            continue;
        }
        let id = &row["frame"]["id"];
        let asked = rows
            .iter()
            .find(|other| other["frame"]["type"] == "req" && other["frame"]["id"] == *id);
        let params = asked.map_or(Value::Null, |asked| asked["frame"]["params"].clone());
        // `model` asks for an override; the entry's own key is the model that was used last.
        let is_given = |name: &str| match name {
            "model" => false,
            "providerOverride" | "modelOverride" => params.get("model").is_some(),
            other => params.get(other).is_some(),
        };
        let before: Vec<(String, Value)> = entry
            .iter()
            .filter(|(name, _)| !is_given(name))
            .map(|(name, value)| (name.clone(), value.clone()))
            .collect();
        if before.len() > 2 {
            sessions.add(key, before);
        }
    }
}

/// Writes what was said in sessions before the recording began.
fn transcripts(rows: &[Value], state: &Path) -> Result<()> {
    let Some(history) = first_answer(rows, "chat.history", SESSION_CHANGES) else { return Ok(()) };
    let (Some(key), Some(id)) = (history["sessionKey"].as_str(), history["sessionId"].as_str())
    else {
        return Ok(());
    };
    let path = Path::new(&store_path(state, key)).with_file_name(format!("{id}.jsonl"));
    if let Some(parent) = path.parent() {
        std::fs::create_dir_all(parent)?;
    }
    let mut text = json!({ "type": "session", "version": 3, "id": id }).to_string() + "\n";
    for message in history["messages"].as_array().into_iter().flatten() {
        let mut body = message.clone();
        if let Some(body) = body.as_object_mut() {
            body.remove("__openclaw");
        }
        let id = &message["__openclaw"]["id"];
        text += &(json!({ "type": "message", "id": id, "message": body }).to_string() + "\n");
    }
    Ok(std::fs::write(path, text)?)
}

/// Writes the sessions whose pages were read over HTTP: what was shown, and as much before it as there was.
fn pages(rows: &[Value], state: &Path) -> Result<()> {
    for row in rows.iter().filter(|row| row["request"].is_object()) {
        let body = &row["response"]["body"];
        let (Some(key), Some(items)) = (body["sessionKey"].as_str(), body["items"].as_array())
        else {
            continue;
        };
        let store = store_path(state, key);
        let directory = Path::new(&store).parent().context("a directory")?;
        std::fs::create_dir_all(directory)?;
        let id = "11111111-1111-4111-8111-111111111111";
        std::fs::write(&store, json!({ key: { "sessionId": id, "updatedAt": 1 } }).to_string())?;
        let first = items.first().and_then(|item| item["__openclaw"]["seq"].as_u64());
        let mut text = json!({ "type": "session", "version": 3, "id": id }).to_string() + "\n";
        let line = |id: &Value, body: &Value| {
            json!({ "type": "message", "id": id, "message": body }).to_string() + "\n"
        };
        for number in 1..first.unwrap_or(1) {
            let body = json!({ "role": "user", "content": "earlier", "timestamp": number });
            text += &line(&json!(number.to_string()), &body);
        }
        for item in items {
            let mut body = item.clone();
            if let Some(body) = body.as_object_mut() {
                body.remove("__openclaw");
            }
            text += &line(&item["__openclaw"]["id"], &body);
        }
        std::fs::write(directory.join(format!("{id}.jsonl")), text)?;
    }
    Ok(())
}

/// Writes the files of workspaces that the recording reads before it writes them.
fn files(rows: &[Value]) -> Result<()> {
    let made: Vec<&Value> = rows
        .iter()
        .filter(|row| row["method"] == "agents.create")
        .map(|row| &row["frame"]["payload"]["agentId"])
        .collect();
    let mut seen = BTreeSet::new();
    for row in rows.iter().filter(|row| row["frame"]["type"] == "res") {
        let payload = &row["frame"]["payload"];
        let is_file = matches!(
            row["method"].as_str(),
            Some("agents.files.get" | "agents.files.list" | "agents.files.set")
        );
        if !is_file || made.contains(&&payload["agentId"]) {
            continue;
        }
        let listed = payload["files"].as_array().into_iter().flatten();
        for file in listed.chain([&payload["file"]]) {
            let Some(path) = file["path"].as_str() else { continue };
            let is_first = seen.insert(path.to_owned()) && row["method"] != "agents.files.set";
            if !is_first || file["missing"] == json!(true) {
                continue;
            }
            if let Some(parent) = Path::new(path).parent() {
                std::fs::create_dir_all(parent)?;
            }
            std::fs::write(path, file["content"].as_str().unwrap_or("recorded elsewhere\n"))?;
        }
    }
    Ok(())
}
