//! The frames of the gateway's WebSocket protocol, versions 3 and 4, and its constants.
//!
//! One JSON object per text frame. What comes in is taken apart strictly: a key too many refuses the
//! frame. What goes out has exactly the keys of its kind, and an absent value is left out instead of
//! written as `null`, because the reference's client drops a frame that looks otherwise.

pub mod params;
pub mod shape;

use serde_json::{Map, Value, json};

use shape::Shape;

/// The protocols we speak; the newest one that a client knows too is used.
pub const OLDEST_PROTOCOL: u64 = 3;
pub const NEWEST_PROTOCOL: u64 = 4;
/// The release whose methods and shapes we serve.
pub const COMPATIBLE_RELEASE: &str = "2026.3.28";

/// The largest frame of a client that has not logged in.
pub const MAX_HANDSHAKE_BYTES: usize = 65_536;
/// The largest frame of a client that has.
pub const MAX_PAYLOAD_BYTES: usize = 26_214_400;
/// How much may wait for a client that reads slowly.
pub const MAX_BUFFERED_BYTES: usize = 52_428_800;
/// How often a sign of life is sent.
pub const TICK_INTERVAL_MS: u64 = 30_000;
/// How long a login may take.
pub const HANDSHAKE_TIMEOUT_MS: u64 = 10_000;
/// How many clients of one address may be connected without having logged in.
pub const MAX_PENDING_PER_ADDRESS: usize = 32;
/// How many requests of the wrong role in a row are put up with.
pub const MAX_UNAUTHORIZED: u32 = 10;
/// A frame nested deeper is refused before it is looked at.
pub const MAX_DEPTH: usize = 64;
/// The longest reason that is put into a close frame.
pub const MAX_CLOSE_REASON: usize = 120;
/// What somebody reads who comes without TLS to a port that speaks nothing else.
pub const TLS_ONLY: &str = "this port speaks TLS; use https:// or wss:// here\n";

/// Why a connection is closed.
pub mod close {
    pub const NORMAL: u16 = 1000;
    pub const PROTOCOL: u16 = 1002;
    pub const POLICY: u16 = 1008;
    pub const TOO_BIG: u16 = 1009;
    pub const RESTART: u16 = 1012;
    pub const DEVICE_REMOVED: u16 = 4001;
}

/// The codes that clients branch on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ErrorCode {
    InvalidRequest,
    Unavailable,
    NotPaired,
}

impl ErrorCode {
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::InvalidRequest => "INVALID_REQUEST",
            Self::Unavailable => "UNAVAILABLE",
            Self::NotPaired => "NOT_PAIRED",
        }
    }
}

/// An error as it leaves us.
#[derive(Debug, Clone, PartialEq)]
pub struct ErrorShape {
    pub code: ErrorCode,
    pub message: String,
    pub details: Option<Box<Value>>,
    /// When to try again; only for what passes by itself.
    pub retry_after_ms: Option<u64>,
    /// What is answered beside the error; few methods do.
    pub payload: Option<Box<Value>>,
}

impl ErrorShape {
    pub fn invalid(message: impl Into<String>) -> Self {
        Self {
            code: ErrorCode::InvalidRequest,
            message: message.into(),
            details: None,
            retry_after_ms: None,
            payload: None,
        }
    }

    pub fn unavailable(message: impl Into<String>) -> Self {
        Self { code: ErrorCode::Unavailable, ..Self::invalid(message) }
    }

    #[must_use]
    pub fn with_details(self, details: Value) -> Self {
        Self { details: Some(Box::new(details)), ..self }
    }

    fn to_json(&self) -> Value {
        // An empty message would make the reference's client drop the frame.
        let message = if self.message.is_empty() { "error" } else { &self.message };
        let mut error = Map::new();
        error.insert("code".into(), json!(self.code.as_str()));
        error.insert("message".into(), json!(message));
        if let Some(details) = &self.details {
            error.insert("details".into(), details.as_ref().clone());
        }
        if let Some(after) = self.retry_after_ms {
            error.insert("retryable".into(), json!(true));
            error.insert("retryAfterMs".into(), json!(after));
        }
        Value::Object(error)
    }
}

/// A request of a client.
#[derive(Debug, Clone, PartialEq)]
pub struct Request {
    pub id: String,
    pub method: String,
    /// `{}` if the client sent none.
    pub params: Value,
}

/// A frame that is no request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BadFrame {
    /// The id to answer to.
    pub id: String,
    pub why: String,
    /// It claims to be a request, so an answer will be understood.
    pub is_request: bool,
}

static REQUEST: Shape = Shape::Object(&[
    shape::needed("type", Shape::Constant("req")),
    shape::needed("id", Shape::Text { least: 1, most: usize::MAX }),
    shape::needed("method", Shape::Text { least: 1, most: usize::MAX }),
    shape::optional("params", Shape::Any),
]);

impl Request {
    /// Takes a frame apart.
    pub fn parse(frame: Value) -> Result<Self, BadFrame> {
        if let Err(why) = shape::check(&frame, &REQUEST) {
            let id = frame.get("id").and_then(Value::as_str).unwrap_or("invalid").to_owned();
            return Err(BadFrame { id, why, is_request: frame["type"] == "req" });
        }
        let mut frame = frame;
        let mut text = |key: &str| match frame[key].take() {
            Value::String(text) => text,
            _ => String::new(),
        };
        let (id, method) = (text("id"), text("method"));
        let params = match frame.get_mut("params").map(Value::take) {
            None | Some(Value::Null) => json!({}),
            Some(params) => params,
        };
        Ok(Self { id, method, params })
    }
}

/// The text of an answer.
pub fn response(id: &str, outcome: &Result<Value, ErrorShape>) -> String {
    match outcome {
        Ok(payload) => json!({ "type": "res", "id": id, "ok": true, "payload": payload }),
        Err(error) => {
            let mut frame =
                json!({ "type": "res", "id": id, "ok": false, "error": error.to_json() });
            if let Some(payload) = &error.payload {
                frame["payload"] = payload.as_ref().clone();
            }
            frame
        }
    }
    .to_string()
}

/// Where an event stands among the others: its number, and the state it tells of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct EventPlace {
    /// `None` for events that only some get.
    pub seq: Option<u64>,
    pub state: Option<StateVersion>,
}

/// How often presence and health have changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct StateVersion {
    pub presence: u64,
    pub health: u64,
}

impl StateVersion {
    pub fn to_json(self) -> Value {
        json!({ "presence": self.presence, "health": self.health })
    }
}

/// The text of an event.
pub fn event(name: &str, payload: &Value, place: EventPlace) -> String {
    let mut frame = Map::new();
    frame.insert("type".into(), json!("event"));
    frame.insert("event".into(), json!(name));
    frame.insert("payload".into(), payload.clone());
    if let Some(seq) = place.seq {
        frame.insert("seq".into(), json!(seq));
    }
    if let Some(state) = place.state {
        frame.insert("stateVersion".into(), state.to_json());
    }
    Value::Object(frame).to_string()
}

/// A reason that fits into a close frame: cut at a character, never inside one.
pub fn close_reason(text: &str) -> String {
    let mut end = text.len().min(MAX_CLOSE_REASON);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    text[..end].to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_has_its_keys_and_no_others() {
        check(json!({"type": "req", "id": "a", "method": "m"}), Ok(json!({})));
        check(json!({"type": "req", "id": "a", "method": "m", "params": null}), Ok(json!({})));
        check(json!({"type": "req", "id": "a", "method": "m", "params": [1]}), Ok(json!([1])));
        check(
            json!({"type": "req", "id": "", "method": "m"}),
            Err(("", "at /id: must NOT have fewer than 1 characters")),
        );
        check(
            json!({"type": "req", "id": "a", "method": "m", "extra": 1}),
            Err(("a", "at root: unexpected property 'extra'")),
        );
        check(
            json!({"type": "event", "event": "x"}),
            Err((
                "invalid",
                "must have required property 'id'; must have required property 'method'; \
                 at root: unexpected property 'event'; at /type: must be equal to constant",
            )),
        );
        check(json!([]), Err(("invalid", "must be object")));
    }

    #[track_caller]
    fn check(frame: Value, expected: Result<Value, (&str, &str)>) {
        let parsed = Request::parse(frame).map(|request| request.params);
        let expected = expected.map_err(|(id, why)| (id.to_owned(), why.to_owned()));
        assert_eq!(parsed.map_err(|bad| (bad.id, bad.why)), expected);
    }

    #[test]
    fn nothing_is_written_as_null_that_may_be_absent() {
        assert_eq!(
            response("1", &Err(ErrorShape::invalid("no"))),
            r#"{"type":"res","id":"1","ok":false,"error":{"code":"INVALID_REQUEST","message":"no"}}"#
        );
        assert_eq!(
            event("tick", &json!({"ts": 1}), EventPlace::default()),
            r#"{"type":"event","event":"tick","payload":{"ts":1}}"#
        );
    }

    #[test]
    fn a_close_reason_is_cut_at_a_character() {
        assert_eq!(close_reason(&"é".repeat(100)).len(), MAX_CLOSE_REASON);
        assert_eq!(close_reason(&format!("a{}", "é".repeat(100))).len(), MAX_CLOSE_REASON - 1);
    }
}
