//! The lines of the socket: reading them, whether they may be believed, and what is said back.

use std::collections::VecDeque;
use std::time::Duration;

use clawpen_rules::approval::Coverage;
use clawpen_rules::approval::answer::{Looks, Word};
use clawpen_rules::command::detect_obfuscation;
use clawpen_rules::exec_host::{self, Security};
use clawpen_rules::ids::AgentId;
use serde_json::{Value, json};

use super::hmac::{hex, hmac_sha256, is_same};
use crate::audit::Door;
use crate::broker::{Approval, Ask, Asker, Resolved, Taken};

/// A longer line is not read.
pub const MAX_LINE: usize = 64 * 1024;
/// An envelope is believed for so long before and after its time.
const FRESH_MS: u64 = 30_000;
/// As many nonces are remembered; while all of them are fresh, no further envelope is believed.
const MOST_NONCES: usize = 4096;
/// Longer names and ids are cut before they are said back.
const MAX_ID: usize = 100;

/// What a client says, after it was believed.
#[derive(Debug, PartialEq)]
pub(super) enum Said {
    Request { id: String, request: Request },
    Resolve { id: String, approval: String, word: Word },
    List { id: String },
    Exec { id: String },
}

/// A question as the reference puts it. Its other keys are what a caller says about itself; none of them
/// counts.
#[derive(Debug, PartialEq)]
pub(super) struct Request {
    command: String,
    cwd: String,
    session: Option<String>,
    agent: AgentId,
    reason: String,
}

/// Nonces that were used.
#[derive(Debug, Default)]
pub(super) struct Nonces(VecDeque<(u64, String)>);

/// A line to say back.
#[derive(Debug, PartialEq)]
pub(super) struct Reply(Value);

impl Nonces {
    /// Takes a nonce; says why not.
    fn take(&mut self, nonce: &str, time: u64, now: u64) -> Result<(), &'static str> {
        let is_fresh = |time: u64| time.abs_diff(now) <= FRESH_MS;
        if !is_fresh(time) {
            return Err("the time of the envelope is too far from now");
        }
        self.0.retain(|(time, _)| is_fresh(*time));
        if self.0.iter().any(|(_, used)| used == nonce) {
            return Err("the nonce was used before");
        }
        if self.0.len() >= MOST_NONCES {
            return Err("too many envelopes at a time");
        }
        self.0.push_back((time, nonce.to_owned()));
        Ok(())
    }
}

/// Reads a line and finds out whether it may be believed.
pub(super) fn read(line: &str, token: &str, nonces: &mut Nonces, now: u64) -> Result<Said, Reply> {
    let malformed = |what: &str| Reply::error("malformed", what);
    let value: Value =
        serde_json::from_str(line).map_err(|error| malformed(&format!("no JSON: {error}")))?;
    let text = |key: &str| value.get(key).and_then(Value::as_str);
    let id: String = text("id").unwrap_or_default().chars().take(MAX_ID).collect();
    let kind = text("type").unwrap_or_default();
    let refused = |what: &str| Reply::error_for(&id, "unauthorized", what);
    if let ("request", Some(shown)) = (kind, text("token")) {
        if !is_same(shown.as_bytes(), token.as_bytes()) {
            return Err(refused("the token is not that of the approvals file"));
        }
        let request = value.get("request").ok_or_else(|| malformed("`request` is missing"))?;
        let request =
            Request::read(request).ok_or_else(|| malformed("`request` has no command"))?;
        return Ok(Said::Request { id, request });
    }
    let (Some(nonce), Some(time), Some(code), Some(body)) =
        (text("nonce"), value.get("ts").and_then(Value::as_u64), text("hmac"), text("requestJson"))
    else {
        return Err(refused("neither a token nor nonce, ts, hmac and requestJson"));
    };
    let expected = hex(&hmac_sha256(token.as_bytes(), format!("{nonce}:{time}:{body}").as_bytes()));
    if !is_same(code.to_ascii_lowercase().as_bytes(), expected.as_bytes()) {
        return Err(refused("the hmac is not that of this message under the token"));
    }
    if nonce.len() != 32 || !nonce.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return Err(malformed("the nonce is not 32 hexadecimal digits"));
    }
    nonces.take(&nonce.to_ascii_lowercase(), time, now).map_err(refused)?;
    let body: Value =
        serde_json::from_str(body).map_err(|error| malformed(&format!("requestJson: {error}")))?;
    enveloped(kind, id, &body)
}

fn enveloped(kind: &str, id: String, body: &Value) -> Result<Said, Reply> {
    let malformed = |what: &str| Reply::error_for(&id, "malformed", what);
    // The code does not cover the type beside it, so the body says it again.
    let said = body.get("type").and_then(Value::as_str);
    if kind != "exec" && said != Some(kind) {
        return Err(malformed("requestJson must carry the same `type`"));
    }
    match kind {
        "exec" => Ok(Said::Exec { id }),
        "list" => Ok(Said::List { id }),
        "request" => {
            let request = body.get("request").and_then(Request::read);
            let request = request.ok_or_else(|| malformed("`request` has no command"))?;
            Ok(Said::Request { id, request })
        }
        "resolve" => {
            let text = |key: &str| body.get(key).and_then(Value::as_str);
            let word = text("decision").and_then(Word::parse);
            let word = word
                .ok_or_else(|| malformed("`decision` is none of allow-once, allow-always, deny"))?;
            let approval = text("id").ok_or_else(|| malformed("`id` is missing"))?.to_owned();
            Ok(Said::Resolve { id, approval, word })
        }
        _ => Err(malformed("`type` is none of request, resolve, list, exec")),
    }
}

impl Request {
    fn read(value: &Value) -> Option<Self> {
        let text = |key: &str| value.get(key).and_then(Value::as_str).map(str::to_owned);
        let command = text("command").filter(|command| !command.trim().is_empty())?;
        Some(Self {
            command,
            cwd: text("cwd").unwrap_or_default(),
            session: text("sessionKey"),
            agent: AgentId::normalize(text("agentId").as_deref().unwrap_or_default()),
            reason: "a program asks at the socket, and runs it by itself".to_owned(),
        })
    }

    /// The question for the broker. Nothing was looked at, so nothing covers it and silence is a no.
    pub(super) fn ask(&self, timeout: Duration) -> Ask<'_> {
        Ask {
            command: &self.command,
            cwd: &self.cwd,
            session: self.session.as_deref(),
            agent: &self.agent,
            plan: None,
            variables: &[],
            reasons: vec![self.reason.clone()],
            security: Security::Allowlist,
            ask: exec_host::Ask::Always,
            fallback: Security::Deny,
            looks: Looks::of(&detect_obfuscation(&self.command)),
            coverage: Coverage::NotAnalysable,
            entries: &[],
            asker: Asker { door: Door::Socket, client: None, agent_process: None },
            timeout,
        }
    }
}

impl Reply {
    pub(super) fn error(reason: &str, message: &str) -> Self {
        Self::error_for("", reason, message)
    }

    pub(super) fn error_for(id: &str, reason: &str, message: &str) -> Self {
        Self(json!({
            "type": "error",
            "id": id,
            "error": { "reason": reason, "message": message },
        }))
    }

    /// The reference's answer to a question; `None`: there is no decision.
    pub(super) fn decision(id: &str, word: Option<Word>) -> Self {
        let word = word.map(Word::as_str);
        Self(json!({ "type": "decision", "id": id, "decision": word }))
    }

    pub(super) fn resolved(id: &str, resolved: &Resolved) -> Self {
        let is_taken = matches!(resolved.what, Taken::Counts { .. });
        let shape = serde_json::to_value(resolved.shape()).unwrap_or_default();
        Self(json!({ "type": "resolve-res", "id": id, "ok": is_taken, "payload": shape }))
    }

    pub(super) fn list(id: &str, found: &[Approval]) -> Self {
        let shapes: Vec<_> = found.iter().map(Approval::shape).collect();
        let shapes = serde_json::to_value(shapes).unwrap_or_default();
        Self(
            json!({ "type": "list-res", "id": id, "ok": true, "payload": { "approvals": shapes } }),
        )
    }

    /// The reference's shape of a refused run.
    pub(super) fn no_exec(id: &str) -> Self {
        let message = "no command runs through this socket; use the tool `exec` of `clawpen mcp`";
        let error = json!({ "reason": "unsupported", "message": message });
        Self(json!({ "type": "exec-res", "id": id, "ok": false, "error": error }))
    }

    pub(super) fn line(&self) -> String {
        format!("{}\n", self.0)
    }
}
