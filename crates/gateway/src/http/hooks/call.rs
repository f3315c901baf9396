//! A call of a webhook: what it says, as templates and answers need it.

use axum::http::HeaderMap;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use clawpen_rules::hooks::template::{Place, Root, Step, Template, TooLong};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use crate::shared::Shared;

/// Characters of a name that one chooses so that a call counts once.
const MOST_ONCE: usize = 256;
/// What the names of runs begin with that a caller may ask for twice; no client gives such a name (`chat.rs`).
const NAME: &str = "webhook:";
/// Headers that a template does not see.
const SECRET_HEADERS: &[&str] =
    &["authorization", "x-openclaw-token", "cookie", "proxy-authorization"];

/// What a call says.
pub(super) struct Call {
    pub(super) path: String,
    pub(super) query: String,
    pub(super) headers: HeaderMap,
    pub(super) payload: Value,
}

impl Call {
    /// A text of the payload that is not blank.
    pub(super) fn text(&self, key: &str) -> Option<&str> {
        self.payload[key].as_str().map(str::trim).filter(|text| !text.is_empty())
    }

    pub(super) fn fill(&self, name: &str, template: &Template) -> Result<String, TooLong> {
        template.render(|place| self.look(name, place))
    }

    /// What stands at a place, as text.
    fn look(&self, name: &str, place: &Place) -> Option<String> {
        let key = match place.steps.as_slice() {
            [Step::Key(key)] => Some(key.as_str()),
            _ => None,
        };
        match place.root {
            Root::Path => Some(name.to_owned()),
            Root::Now => Some(Shared::now().to_string()),
            Root::Headers => {
                let key = key?.to_ascii_lowercase();
                if SECRET_HEADERS.contains(&key.as_str()) {
                    return None;
                }
                let lines = self.headers.get_all(key.as_str()).iter();
                let lines: Vec<_> =
                    lines.map(|value| String::from_utf8_lossy(value.as_bytes())).collect();
                Some(lines.join(", "))
            }
            Root::Query => {
                let key = key?;
                pairs(&self.query).find(|(name, _)| name == key).map(|(_, value)| value)
            }
            Root::Payload if place.steps.is_empty() => None,
            Root::Payload => place.steps.iter().try_fold(&self.payload, step).and_then(shown),
        }
    }

    /// The run's name, if the caller gave a word by which a second call for the same is the first one.
    pub(super) fn once(&self, what: &Value) -> Option<String> {
        let header = |name: &str| self.headers.get(name).and_then(|value| value.to_str().ok());
        let word = header("idempotency-key")
            .or_else(|| header("x-openclaw-idempotency-key"))
            .or_else(|| self.payload["idempotencyKey"].as_str())
            .map(str::trim)
            .filter(|word| !word.is_empty() && word.chars().count() <= MOST_ONCE)?;
        let what = json!([self.path, word, what]).to_string();
        let name = URL_SAFE_NO_PAD.encode(Sha256::digest(what.as_bytes()));
        Some(format!("{NAME}{name}"))
    }
}

fn step<'a>(value: &'a Value, step: &Step) -> Option<&'a Value> {
    match (value, step) {
        (Value::Array(items), Step::Index(index)) => items.get(*index),
        (Value::Array(items), Step::Key(key)) => items.get(key.parse::<usize>().ok()?),
        (Value::Object(members), Step::Key(key)) => members.get(key),
        _ => None,
    }
}

fn shown(value: &Value) -> Option<String> {
    match value {
        Value::Null => None,
        Value::String(text) => Some(text.clone()),
        other => Some(other.to_string()),
    }
}

/// The parts of a query, decoded.
pub(super) fn pairs(query: &str) -> impl Iterator<Item = (String, String)> + '_ {
    url::form_urlencoded::parse(query.as_bytes()).map(|(name, value)| (name.into(), value.into()))
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;

    use super::*;

    fn call() -> Call {
        let mut headers = HeaderMap::new();
        for (name, value) in [
            ("x-event", "push"),
            ("x-event", "tag"),
            ("authorization", "Bearer secret"),
            ("x-openclaw-token", "secret"),
        ] {
            headers.append(name, HeaderValue::from_static(value));
        }
        Call {
            path: "/hooks/git".to_owned(),
            query: "q=a%20b&q=c".to_owned(),
            headers,
            payload: json!({ "a": { "b": [{ "c": 12_345_678_901_234_567_u64 }, null, "x"] }, "t": true }),
        }
    }

    #[test]
    fn a_template_sees_the_call_and_no_secret() {
        for (text, expected) in [
            ("{{a.b[0].c}}", "12345678901234567"),
            ("{{a.b.2}}", "x"),
            ("{{payload.a.b[0]}}", "{\"c\":12345678901234567}"),
            ("[{{a.b[1]}}{{a.b[9]}}{{a.x.y}}{{t.x}}{{__proto__}}]", "[]"),
            ("{{t}} {{path}}", "true git"),
            ("{{headers.X-Event}}", "push, tag"),
            ("[{{headers.authorization}}{{headers.X-OpenClaw-Token}}]", "[]"),
            ("{{query.q}}", "a b"),
        ] {
            let filled = call().fill("git", &Template::parse(text).unwrap());
            assert_eq!(filled.ok().as_deref(), Some(expected), "{text}");
        }
    }
}
