//! Where `session-key` rows are answered differently on purpose.

use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use super::Rule;
use super::agents::{self, is_agent_key};

/// The categories whose rows say everything about one session.
const WHOLE: [&str; 4] = ["default-config", "default-agent", "global-scope", "main-key"];

pub(super) const RULES: &[Rule] = &[
    keyless_owner(WHOLE[0]),
    keyless_owner(WHOLE[1]),
    keyless_owner(WHOLE[2]),
    keyless_owner(WHOLE[3]),
    reserved_scope_key(WHOLE[0]),
    reserved_scope_key(WHOLE[1]),
    reserved_scope_key(WHOLE[2]),
    reserved_scope_key(WHOLE[3]),
    no_session(WHOLE[0]),
    no_session(WHOLE[1]),
    no_session(WHOLE[2]),
    no_session(WHOLE[3]),
    no_session("agent-mode"),
    spawned_depth(WHOLE[0]),
    spawned_depth(WHOLE[1]),
    spawned_depth(WHOLE[2]),
    spawned_depth(WHOLE[3]),
    LONG_NAME,
    own_directory(WHOLE[0]),
    own_directory(WHOLE[1]),
    own_directory(WHOLE[2]),
    own_directory(WHOLE[3]),
];

/// The shared sandbox does not get the directory that holds all others.
const fn own_directory(category: &'static str) -> Rule {
    Rule {
        name: "a-shared-sandbox-has-its-own-directory",
        category,
        applies: |_| true,
        transform: |_, mut expected| {
            if expected["workspaceDirName"]["shared"] == "" {
                expected["workspaceDirName"]["shared"] = json!("shared");
            }
            expected
        },
    }
}

/// A session whose key names no agent gets the sandbox of the agent whose policy it runs under.
const fn keyless_owner(category: &'static str) -> Rule {
    Rule {
        name: "keyless-session-owner",
        category,
        applies: |input| !is_agent_key(key(input)) && default_agent(input) != "main",
        transform: |input, mut expected| {
            let agent = default_agent(input);
            rename(&mut expected, "agent", &format!("agent:{agent}"));
            expected["scopeAgentId"]["agent"] = json!(agent);
            if !expected["scopeAgentId"]["session"].is_null() {
                expected["scopeAgentId"]["session"] = json!(agent);
            }
            expected
        },
    }
}

/// A session called like the key of another scope is written with its agent.
const fn reserved_scope_key(category: &'static str) -> Rule {
    Rule {
        name: "reserved-scope-key",
        category,
        applies: |input| {
            let looks_like_agent = key(input).to_lowercase().starts_with("agent:");
            key(input) == "shared" || (looks_like_agent && !is_agent_key(key(input)))
        },
        transform: |input, mut expected| {
            let agent = default_agent(input);
            rename(&mut expected, "session", &format!("agent:{agent}:{}", key(input)));
            expected["scopeAgentId"]["session"] = json!(agent);
            expected
        },
    }
}

/// A call without a session is not the main session.
const fn no_session(category: &'static str) -> Rule {
    Rule {
        name: "no-session-is-not-main",
        category,
        applies: |input| key(input).is_empty(),
        transform: |_, mut expected| {
            if let Some(modes) = expected["sandboxedByMode"].as_object_mut() {
                modes["non-main"] = json!(true);
                modes["all"] = json!(true);
            }
            if let Some(mode) = expected["mode"].as_str() {
                expected["sandboxed"] = json!(mode != "off");
            }
            expected
        },
    }
}

/// A spawned session is not at depth 0, whether its key names an agent or not.
const fn spawned_depth(category: &'static str) -> Rule {
    Rule {
        name: "spawned-session-depth",
        category,
        applies: |input| key(input).to_lowercase().starts_with("subagent:"),
        transform: |_, mut expected| {
            expected["subagentDepth"] = json!(expected["subagentDepth"].as_u64().map(|d| d + 1));
            expected
        },
    }
}

/// A name that is too long loses part of the prefix, not of the hash that makes it unique.
const LONG_NAME: Rule = Rule {
    name: "long-container-name",
    category: "prefix",
    applies: |input| full_name(input).chars().count() > 63,
    transform: |input, mut expected| {
        let full = full_name(input);
        let prefix = input["containerPrefix"].as_str().unwrap_or_default();
        let slug = full.strip_prefix(prefix).unwrap_or_default();
        let kept: String = prefix.chars().take(63 - 13 - slug.len()).collect();
        expected["containerName"] = json!(format!("{kept}{slug}-{}", hash(&full, 12)));
        expected
    },
};

fn key(input: &Value) -> &str {
    input["sessionKey"].as_str().unwrap_or_default().trim()
}

/// The prefix and the slug of a `prefix` row, however long. Its keys all name their agent, or are
/// of `main`.
fn full_name(input: &Value) -> String {
    let prefix = input["containerPrefix"].as_str().unwrap_or_default();
    let slug = match input["scope"].as_str() {
        Some("shared") => "shared".to_owned(),
        Some("agent") => {
            let parts = parts(key(input));
            let agent = parts.get(1).filter(|_| is_agent_key(key(input)));
            slug(&format!("agent:{}", agent.map_or("main", String::as_str)))
        }
        _ => slug(key(input)),
    };
    format!("{prefix}{slug}")
}

/// The id of the agent marked as default, else of the first one; rows have plain ids.
fn default_agent(input: &Value) -> String {
    agents::default_agent(&input["config"])
}

fn parts(key: &str) -> Vec<String> {
    key.to_lowercase().split(':').filter(|part| !part.is_empty()).map(str::to_owned).collect()
}

/// Puts another key, and the names that follow from it, in the place of one scope's.
fn rename(expected: &mut Value, scope: &str, key: &str) {
    expected["scopeKey"][scope] = json!(key);
    expected["workspaceDirName"][scope] = json!(slug(key));
    expected["containerName"][scope] = json!(format!("openclaw-sbx-{}", slug(key)));
}

fn slug(key: &str) -> String {
    let mut readable = String::new();
    for c in key.to_lowercase().chars() {
        let plain = c.is_ascii_alphanumeric() || "._-".contains(c);
        readable.push(if plain { c } else { ' ' });
    }
    let runs: Vec<&str> = readable.split(' ').filter(|run| !run.is_empty()).collect();
    let readable: String = runs.join("-").trim_matches('-').chars().take(32).collect();
    let readable = if readable.is_empty() { "session" } else { &readable };
    format!("{readable}-{}", hash(if key.is_empty() { "session" } else { key }, 8))
}

fn hash(text: &str, digits: usize) -> String {
    let pairs: Vec<String> = Sha256::digest(text).iter().map(|b| format!("{b:02x}")).collect();
    pairs.concat()[..digits].to_owned()
}
