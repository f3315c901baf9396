//! Where `exec-approvals` rows are answered differently on purpose.

use serde_json::{Map, Value, json};

use super::Rule;

pub(super) const RULES: &[Rule] = &[
    Rule {
        name: "approvals-file-that-cannot-be-used",
        category: "normalise",
        applies: |input| problem_of_text(input).is_some(),
        transform: |input, _| json!({ "error": problem_of_text(input).unwrap_or_default() }),
    },
    Rule {
        name: "approvals-file-that-cannot-be-used",
        category: "ensure",
        applies: |input| problem_of_text(input).is_some(),
        transform: |input, _| json!({ "error": problem_of_text(input).unwrap_or_default() }),
    },
    Rule {
        name: "approvals-file-that-cannot-be-used",
        category: "resolve",
        applies: |input| problem_of(&input["file"]).is_some(),
        transform: |input, _| json!({ "error": problem_of(&input["file"]).unwrap_or_default() }),
    },
    Rule {
        name: "approvals-file-keeps-unknown-keys",
        category: "normalise",
        applies: |input| problem_of_text(input).is_none(),
        transform: |input, expected| keep_unknown(&text_value(input), expected, "file"),
    },
    Rule {
        name: "approvals-file-keeps-unknown-keys",
        category: "ensure",
        applies: |input| problem_of_text(input).is_none(),
        transform: |input, expected| keep_unknown(&text_value(input), expected, "file"),
    },
    Rule {
        name: "approvals-file-keeps-unknown-keys",
        category: "add",
        applies: |input| problem_of(&input["file"]).is_none(),
        transform: |input, expected| keep_unknown(&input["file"], expected, "saved"),
    },
    Rule {
        name: "approvals-file-keeps-unknown-keys",
        category: "record",
        applies: |input| problem_of(&input["file"]).is_none(),
        transform: |input, expected| keep_unknown(&input["file"], expected, "saved"),
    },
    Rule {
        name: "approvals-older-default-keeps-its-texts",
        category: "normalise",
        applies: |input| merges_texts(&text_value(input)),
        transform: |input, mut expected| {
            let file = text_value(input);
            expected["file"]["agents"]["main"]["allowlist"] = merged_list(&file);
            expected
        },
    },
    Rule {
        name: "approvals-older-default-keeps-its-texts",
        category: "resolve",
        applies: |input| agent_key(input) == "main" && merges_texts(&input["file"]),
        transform: |input, mut expected| {
            let mut all = entries_of(&input["file"], &["*"]);
            all.extend(entries_of(&input["file"], &["main", "default"]));
            if problem_of(&input["file"]).is_none() {
                expected["allowlist"] = all.into();
            }
            expected
        },
    },
    Rule {
        name: "approvals-unknown-word-is-the-strictest",
        category: "resolve",
        applies: |input| problem_of(&input["file"]).is_none(),
        transform: strictest_words,
    },
    Rule {
        name: "approvals-unknown-word-is-the-strictest",
        category: "host-context",
        applies: has_unknown_word,
        transform: strictest_context,
    },
    Rule {
        name: "approvals-file-cannot-silence",
        category: "host-context",
        applies: |input| nearest(input, "ask") == "off",
        transform: |input, mut expected| {
            if expected["error"].is_null() {
                expected["hostAsk"] = input["ask"].clone();
            }
            expected
        },
    },
    Rule {
        name: "silence-allows-no-more-than-policy",
        category: "host-context",
        applies: |_| true,
        transform: |_, mut expected| {
            let rank = |value: &Value| SECURITY.iter().position(|word| value == word);
            if rank(&expected["askFallback"]) > rank(&expected["hostSecurity"]) {
                expected["askFallback"] = expected["hostSecurity"].clone();
            }
            expected
        },
    },
    Rule {
        name: "approvals-use-is-recorded-where-it-stands",
        category: "record",
        applies: |input| problem_of(&input["file"]).is_none(),
        transform: record_where_it_stands,
    },
];

pub(super) const SECURITY: [&str; 3] = ["deny", "allowlist", "full"];
pub(super) const ASK: [&str; 3] = ["off", "on-miss", "always"];

fn text_value(input: &Value) -> Value {
    let text = input["text"].as_str().unwrap_or("{\"version\":1}");
    serde_json::from_str(text).unwrap_or_default()
}

/// Why a text is no file that we use, by the facts that our message must name; `None` if it is one.
fn problem_of_text(input: &Value) -> Option<String> {
    let text = input["text"].as_str()?;
    match serde_json::from_str::<Value>(text) {
        Err(_) => Some(String::new()),
        Ok(file) => problem_of(&file),
    }
}

pub(super) fn problem_of(file: &Value) -> Option<String> {
    let Some(root) = file.as_object() else { return Some(String::new()) };
    if root.get("version").and_then(Value::as_f64) != Some(1.0) {
        let found = root.get("version").map(ToString::to_string);
        let number = found.filter(|found| found.bytes().any(|byte| byte.is_ascii_digit()));
        return Some(number.unwrap_or_default());
    }
    let is_block = |value: &Value| value.is_null() || value.is_object();
    for key in ["socket", "defaults", "agents"] {
        if !is_block(&file[key]) {
            return Some(String::new());
        }
    }
    for key in ["path", "token"] {
        let value = &file["socket"][key];
        if !value.is_null() && !value.is_string() {
            return Some(format!("\"socket.{key}\""));
        }
    }
    let agents = file["agents"].as_object();
    let odd = agents.into_iter().flatten().find(|(_, agent)| !agent.is_object());
    odd.map(|(key, _)| format!("\"agents.{key}\""))
}

/// The reference drops unknown keys at the top, in `socket`, in `defaults`, and of the two entries
/// that become one. A file that was left as it stood still has them all.
fn keep_unknown(file: &Value, mut expected: Value, at: &str) -> Value {
    let root = file.as_object().cloned().unwrap_or_default();
    let known = ["version", "socket", "defaults", "agents"];
    copy_others(&root, &known, expected.pointer_mut(&format!("/{at}")));
    for block in ["socket", "defaults"] {
        let own = file[block].as_object().cloned().unwrap_or_default();
        let known: &[&str] = match block {
            "socket" => &["path", "token"],
            _ => &["security", "ask", "askFallback", "autoAllowSkills"],
        };
        copy_others(&own, known, expected.pointer_mut(&format!("/{at}/{block}")));
    }
    let agents = &file["agents"];
    if agents["default"].is_object() && agents["main"].is_object() {
        let known = ["security", "ask", "askFallback", "autoAllowSkills", "allowlist"];
        for key in ["default", "main"] {
            let own = agents[key].as_object().cloned().unwrap_or_default();
            copy_others(&own, &known, expected.pointer_mut(&format!("/{at}/agents/main")));
        }
    }
    expected
}

fn copy_others(from: &Map<String, Value>, known: &[&str], to: Option<&mut Value>) {
    let Some(to) = to else { return };
    for (key, value) in from.iter().filter(|(key, _)| !known.contains(&key.as_str())) {
        to[key.as_str()] = value.clone();
    }
}

/// Both an entry `default` and one `main`, and a bare text in one of their lists.
fn merges_texts(file: &Value) -> bool {
    let agents = &file["agents"];
    let has_text =
        |key: &str| agents[key]["allowlist"].as_array().into_iter().flatten().any(Value::is_string);
    agents["main"].is_object()
        && agents["default"].is_object()
        && (has_text("main") || has_text("default"))
}

/// Both lists, texts made entries, the first of each pattern.
fn merged_list(file: &Value) -> Value {
    let merged = entries_of(file, &["main", "default"]);
    if merged.is_empty() { Value::Null } else { merged.into() }
}

fn entries_of(file: &Value, keys: &[&str]) -> Vec<Value> {
    let mut seen = Vec::new();
    let mut merged = Vec::new();
    for key in keys {
        for item in file["agents"][*key]["allowlist"].as_array().into_iter().flatten() {
            let mut entry = match item.as_str() {
                Some(text) => json!({ "pattern": text.trim() }),
                None => item.clone(),
            };
            let pattern = entry["pattern"].as_str().unwrap_or_default().trim().to_lowercase();
            if pattern.is_empty() || seen.contains(&pattern) {
                continue;
            }
            seen.push(pattern);
            if entry["id"].is_null() || entry["id"] == "" {
                entry["id"] = json!("${UUID}");
            }
            merged.push(entry);
        }
    }
    merged
}

fn agent_key(input: &Value) -> &str {
    match input["agentId"].as_str().map(str::trim) {
        None | Some("") => "main",
        Some(key) => key,
    }
}

/// The blocks that speak to the row's agent, nearest first. The older `default` speaks as `main`.
fn blocks(input: &Value) -> Vec<Value> {
    let agents = &input["file"]["agents"];
    let mut own = match agent_key(input) {
        "default" => Value::Null,
        key => agents[key].clone(),
    };
    if agent_key(input) == "main" {
        for (key, value) in agents["default"].as_object().into_iter().flatten() {
            if own[key].is_null() {
                own[key] = value.clone();
            }
        }
    }
    vec![own, agents["*"].clone(), input["file"]["defaults"].clone()]
}

/// The nearest value of a key, as written; null if nobody says anything.
pub(super) fn nearest(input: &Value, key: &str) -> Value {
    let written = blocks(input).into_iter().map(|block| block[key].clone());
    written.into_iter().find(|value| !value.is_null()).unwrap_or_default()
}

/// What an unreadable value of a key comes to; `None` for one that can be read.
pub(super) fn strictest(key: &str, value: &Value) -> Option<Value> {
    match key {
        _ if value.is_null() => None,
        "ask" => (!ASK.iter().any(|word| value == word)).then(|| json!("always")),
        "autoAllowSkills" => (!value.is_boolean()).then(|| json!(false)),
        _ => (!SECURITY.iter().any(|word| value == word)).then(|| json!("deny")),
    }
}

const KEYS: [&str; 4] = ["security", "ask", "askFallback", "autoAllowSkills"];

fn strictest_words(input: &Value, mut expected: Value) -> Value {
    for key in KEYS {
        if let Some(value) = strictest(key, &input["file"]["defaults"][key]) {
            expected["defaults"][key] = value.clone();
            // Whoever inherits the default inherits that.
            if nearest(input, key) == input["file"]["defaults"][key] {
                expected["agent"][key] = value;
            }
        }
        if let Some(value) = strictest(key, &nearest(input, key)) {
            expected["agent"][key] = value;
        }
    }
    expected
}

fn has_unknown_word(input: &Value) -> bool {
    KEYS.iter().any(|key| strictest(key, &nearest(input, key)).is_some())
}

fn strictest_context(input: &Value, mut expected: Value) -> Value {
    if strictest("security", &nearest(input, "security")).is_some() {
        return json!({ "error": "host=gateway security=deny" });
    }
    if expected["error"].is_null() {
        if strictest("ask", &nearest(input, "ask")).is_some() {
            expected["hostAsk"] = json!("always");
        }
        if strictest("askFallback", &nearest(input, "askFallback")).is_some() {
            expected["askFallback"] = json!("deny");
        }
    }
    expected
}

/// The reference touches the agent's own list only, and writes the file (with a list for the agent)
/// even if no entry has the pattern.
fn record_where_it_stands(input: &Value, mut expected: Value) -> Value {
    let agents = &input["file"]["agents"];
    let wanted = input["entry"]["pattern"].as_str().unwrap_or_default();
    let pattern = |entry: &Value| {
        let text = entry.as_str().or(entry["pattern"].as_str()).unwrap_or_default();
        text.trim() == wanted
    };
    let stands_in =
        |key: &str| agents[key]["allowlist"].as_array().into_iter().flatten().any(pattern);
    let own = agent_key(input);
    let in_own = stands_in(own) || (own == "main" && stands_in("default"));
    if !in_own && !stands_in("*") {
        expected["saved"] = input["file"].clone();
        return expected;
    }
    if stands_in("*") {
        let list = expected["saved"]["agents"]["*"]["allowlist"].as_array_mut();
        for entry in list.into_iter().flatten().filter(|entry| pattern(entry)) {
            entry["lastUsedAt"] = json!("${NOW_MS}");
            entry["lastUsedCommand"] = input["command"].clone();
            entry["lastResolvedPath"] = input["resolvedPath"].clone();
        }
        if let Some(agents) = expected["saved"]["agents"].as_object_mut()
            && !input["file"]["agents"][own]["allowlist"].is_array()
            && agents.get(own).is_some_and(|agent| agent["allowlist"] == json!([]))
        {
            if input["file"]["agents"][own].is_object() {
                agents.entry(own.to_owned()).and_modify(|agent| agent["allowlist"] = Value::Null);
            } else {
                agents.remove(own);
            }
        }
    }
    expected
}
