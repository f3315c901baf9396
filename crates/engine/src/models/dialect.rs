//! What the servers have in common: a request is made of a talk, deltas and a whole turn are read from events.

use clawpen_rules::models::{Api, Model};
use serde_json::{Map, Value};

use super::lines::{Event, Framing};
use super::talk::{Call, Delta, Piece, StopReason, Talk, Turn, Usage};
use super::{anthropic, gemini, ollama, openai, responses};
use crate::random;

/// Tool calls in one answer.
const CALLS: usize = 128;
/// Bytes of the arguments of one call.
const ARGUMENTS: usize = 4 << 20;

/// An answer that is none.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StreamError {
    #[error("the answer broke off before its end")]
    Broken,
    #[error("the answer holds {what}")]
    Malformed { what: &'static str },
    #[error("the {what} is longer than we read")]
    TooLarge { what: &'static str },
    /// The server's own words.
    #[error("the server says: {0}")]
    Server(String),
}

/// A request to a server, without its key.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Wanted {
    /// Follows the base address.
    pub(super) path: String,
    pub(super) body: Value,
    /// The header of the key, and what stands before the key in it.
    pub(super) key_header: (&'static str, &'static str),
    pub(super) headers: &'static [(&'static str, &'static str)],
    pub(super) framing: Framing,
}

pub(super) fn request(model: &Model, talk: &Talk) -> Wanted {
    match model.api {
        Api::OpenAiCompletions => openai::request(model, talk),
        Api::OpenAiResponses => responses::request(model, talk),
        Api::AnthropicMessages => anthropic::request(model, talk),
        Api::GoogleGenerativeAi => gemini::request(model, talk),
        Api::Ollama => ollama::request(model, talk),
    }
}

/// Reads one answer.
#[derive(Debug)]
pub(super) enum Reader {
    OpenAi(openai::Reader),
    Responses(responses::Reader),
    Anthropic(anthropic::Reader),
    Gemini(gemini::Reader),
    Ollama(ollama::Reader),
}

impl Reader {
    pub(super) fn new(api: Api) -> Self {
        match api {
            Api::OpenAiCompletions => Self::OpenAi(openai::Reader::default()),
            Api::OpenAiResponses => Self::Responses(responses::Reader::default()),
            Api::AnthropicMessages => Self::Anthropic(anthropic::Reader::default()),
            Api::GoogleGenerativeAi => Self::Gemini(gemini::Reader::default()),
            Api::Ollama => Self::Ollama(ollama::Reader::default()),
        }
    }

    pub(super) fn feed(
        &mut self,
        event: &Event,
        deltas: &mut Vec<Delta>,
    ) -> Result<(), StreamError> {
        if event.data.trim() == "[DONE]" {
            return Ok(());
        }
        let data: Value = serde_json::from_str(&event.data)
            .map_err(|_error| StreamError::Malformed { what: "an event that is no JSON" })?;
        let error = &data["error"];
        if !error.is_null() {
            return Err(StreamError::Server(words(error)));
        }
        match self {
            Self::OpenAi(reader) => reader.feed(&data, deltas),
            Self::Responses(reader) => reader.feed(&data, deltas),
            Self::Anthropic(reader) => reader.feed(&data, deltas),
            Self::Gemini(reader) => reader.feed(&data, deltas),
            Self::Ollama(reader) => reader.feed(&data, deltas),
        }
    }

    /// The answer, if the server has said that it is whole.
    pub(super) fn finish(self) -> Result<Turn, StreamError> {
        let draft = match self {
            Self::OpenAi(reader) => reader.finish(),
            Self::Responses(reader) => reader.finish(),
            Self::Anthropic(reader) => reader.finish(),
            Self::Gemini(reader) => reader.finish(),
            Self::Ollama(reader) => reader.finish(),
        };
        draft.turn()
    }
}

/// What a server says about an error, cut.
pub(super) fn words(error: &Value) -> String {
    let text = error["message"].as_str().or_else(|| error.as_str());
    let text = text.map_or_else(|| error.to_string(), str::to_owned);
    text.chars().take(500).collect()
}

/// An answer in the making.
#[derive(Debug, Default)]
pub(super) struct Draft {
    pieces: Vec<Open>,
    pub(super) usage: Usage,
    /// Set once the server has said that it is over.
    pub(super) stop: Option<StopReason>,
    pub(super) id: Option<String>,
}

#[derive(Debug)]
enum Open {
    Text(String),
    Thinking(String),
    Call { id: String, name: String, arguments: String, signature: Option<String> },
}

/// The place of a call in its draft.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Position(usize);

impl Draft {
    pub(super) fn text(&mut self, text: &str, deltas: &mut Vec<Delta>) {
        if text.is_empty() {
            return;
        }
        match self.pieces.last_mut() {
            Some(Open::Text(open)) => open.push_str(text),
            _ => self.pieces.push(Open::Text(text.to_owned())),
        }
        deltas.push(Delta::Text(text.to_owned()));
    }

    pub(super) fn thinking(&mut self, text: &str, deltas: &mut Vec<Delta>) {
        if text.is_empty() {
            return;
        }
        match self.pieces.last_mut() {
            Some(Open::Thinking(open)) => open.push_str(text),
            _ => self.pieces.push(Open::Thinking(text.to_owned())),
        }
        deltas.push(Delta::Thinking(text.to_owned()));
    }

    /// Begins a call.
    pub(super) fn call(&mut self, id: &str, name: &str) -> Result<Position, StreamError> {
        let calls = self.pieces.iter().filter(|piece| matches!(piece, Open::Call { .. })).count();
        if calls >= CALLS {
            return Err(StreamError::TooLarge { what: "list of tool calls" });
        }
        let id = if id.is_empty() { format!("call_{}", random::short_id()) } else { id.to_owned() };
        let (name, arguments, signature) = (name.to_owned(), String::new(), None);
        self.pieces.push(Open::Call { id, name, arguments, signature });
        Ok(Position(self.pieces.len() - 1))
    }

    /// More of a call that has begun.
    pub(super) fn extend(
        &mut self,
        at: Position,
        more_name: &str,
        more: &str,
    ) -> Result<(), StreamError> {
        if let Some(Open::Call { name, arguments, .. }) = self.pieces.get_mut(at.0) {
            if arguments.len() + more.len() > ARGUMENTS || name.len() + more_name.len() > 1024 {
                return Err(StreamError::TooLarge { what: "call of a tool" });
            }
            name.push_str(more_name);
            arguments.push_str(more);
        }
        Ok(())
    }

    pub(super) fn sign(&mut self, at: Position, given: &str) {
        if let Some(Open::Call { signature, .. }) = self.pieces.get_mut(at.0) {
            *signature = Some(given.to_owned());
        }
    }

    pub(super) fn turn(self) -> Result<Turn, StreamError> {
        let stop = self.stop.ok_or(StreamError::Broken)?;
        let pieces: Vec<Piece> = self.pieces.into_iter().map(Open::close).collect();
        let has_calls = pieces.iter().any(|piece| matches!(piece, Piece::Call(_)));
        // Servers differ in what they call the end of an answer with calls.
        let stop = match (stop, has_calls) {
            (StopReason::Length, _) => StopReason::Length,
            (_, true) => StopReason::ToolUse,
            (_, false) => StopReason::Stop,
        };
        Ok(Turn { pieces, usage: self.usage, stop, id: self.id })
    }
}

impl Open {
    fn close(self) -> Piece {
        match self {
            Self::Text(text) => Piece::Text(text),
            Self::Thinking(text) => Piece::Thinking(text),
            Self::Call { id, name, arguments, signature } => {
                let parsed = match arguments.trim() {
                    "" => Value::Object(Map::new()),
                    text => match serde_json::from_str(text) {
                        Ok(Value::Object(object)) => Value::Object(object),
                        Ok(_) | Err(_) => Value::String(arguments),
                    },
                };
                Piece::Call(Call { id, name, arguments: parsed, signature })
            }
        }
    }
}

/// Arguments as a server takes them back: always an object.
pub(super) fn object(arguments: &Value) -> Value {
    match arguments {
        Value::Object(_) => arguments.clone(),
        _ => Value::Object(Map::new()),
    }
}

/// A count of tokens.
pub(super) fn count(value: &Value) -> u64 {
    value.as_u64().unwrap_or_default()
}
