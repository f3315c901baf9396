//! Where a sandbox is called differently on purpose; the reasons are those of the `session-key` rows.

use serde_json::Value;
use sha2::{Digest as _, Sha256};

use super::asked::{Asked, agent_of};
use crate::compat::Rule;

/// The longest name of a container.
const LONGEST: usize = 63;

/// A session whose key names no agent gets the sandbox of the agent whose policy it runs under.
pub(super) const fn owner(category: &'static str) -> Rule {
    Rule {
        name: "keyless-session-owner",
        category,
        applies: |input| {
            let is_keyless = !key(input).is_empty() && agent_of(key(input)).is_none();
            is_keyless && Asked::new(input).scope() == "agent"
        },
        transform: |input, expected| {
            let agent = Asked::default_agent(input);
            renamed(expected, "agent:main", &format!("agent:{agent}"))
        },
    }
}

/// A session called like the key of another scope is written with its agent.
pub(super) const fn reserved(category: &'static str) -> Rule {
    Rule {
        name: "reserved-scope-key",
        category,
        applies: |input| {
            let key = key(input);
            let malformed = key.to_lowercase().starts_with("agent:") && agent_of(key).is_none();
            (malformed || key == "shared") && Asked::new(input).scope() == "session"
        },
        transform: |input, expected| {
            let (agent, key) = (Asked::default_agent(input), key(input));
            renamed(expected, key, &format!("agent:{agent}:{key}"))
        },
    }
}

/// A name that is too long loses part of the prefix, not of the hash that makes it unique.
pub(super) const fn long(category: &'static str) -> Rule {
    Rule {
        name: "long-container-name",
        category,
        applies: |_| true,
        transform: |input, mut expected| {
            let asked = Asked::new(input);
            let prefixes = [
                asked.text("docker", "containerPrefix").unwrap_or("openclaw-sbx-"),
                asked.text("browser", "containerPrefix").unwrap_or("openclaw-sbx-browser-"),
            ];
            let Some(slug) = recorded_slug(&asked, &expected) else { return expected };
            for full in prefixes.map(|prefix| format!("{prefix}{slug}")) {
                if full.chars().count() > LONGEST {
                    let cut: String = full.chars().take(LONGEST).collect();
                    let room = LONGEST - 13 - slug.len();
                    let kept: String = full.chars().take(room).collect();
                    swap(&mut expected, &cut, &format!("{kept}{slug}-{}", hash(&full, 12)));
                }
            }
            expected
        },
    }
}

/// The slug of the scope key that the recorded labels name.
fn recorded_slug(asked: &Asked<'_>, expected: &Value) -> Option<String> {
    if asked.scope() == "shared" {
        return Some("shared".to_owned());
    }
    let calls = expected["calls"].as_array()?;
    let args = calls.iter().flat_map(|call| call.as_array().into_iter().flatten());
    let label = |arg: &Value| arg.as_str()?.strip_prefix("openclaw.sessionKey=").map(slug);
    args.into_iter().find_map(label)
}

fn key(input: &Value) -> &str {
    input["sessionKey"].as_str().unwrap_or_default().trim()
}

fn renamed(mut expected: Value, from: &str, to: &str) -> Value {
    let label = |key: &str| format!("openclaw.sessionKey={key}");
    swap(&mut expected, &label(from), &label(to));
    swap(&mut expected, &slug(from), &slug(to));
    expected
}

/// Replaces a text wherever it stands.
fn swap(value: &mut Value, from: &str, to: &str) {
    match value {
        Value::String(text) => *text = text.replace(from, to),
        Value::Array(items) => items.iter_mut().for_each(|item| swap(item, from, to)),
        Value::Object(members) => members.values_mut().for_each(|item| swap(item, from, to)),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

fn slug(key: &str) -> String {
    let mut readable = String::new();
    for c in key.to_lowercase().chars() {
        match c {
            'a'..='z' | '0'..='9' | '.' | '_' | '-' => readable.push(c),
            _ if readable.ends_with('\0') => {}
            _ => readable.push('\0'),
        }
    }
    let readable = readable.replace('\0', "-");
    let readable: String = readable.trim_matches('-').chars().take(32).collect();
    format!("{readable}-{}", hash(key, 8))
}

fn hash(text: &str, digits: usize) -> String {
    let digest = Sha256::digest(text.as_bytes());
    let hex = digest.iter().fold(String::new(), |hex, byte| hex + &format!("{byte:02x}"));
    hex.chars().take(digits).collect()
}
