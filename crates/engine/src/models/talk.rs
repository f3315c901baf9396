//! What is said to a model and what it says, in no server's words.

use serde_json::Value;

/// Everything that a model sees.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Talk {
    pub system: String,
    pub messages: Vec<Said>,
    pub tools: Vec<Tool>,
}

/// A tool that it may call.
#[derive(Debug, Clone, PartialEq)]
pub struct Tool {
    pub name: String,
    pub description: String,
    /// A JSON Schema.
    pub schema: Value,
}

/// One message.
#[derive(Debug, Clone, PartialEq)]
pub enum Said {
    User(Vec<Part>),
    Assistant(Vec<Piece>),
    /// What became of a call.
    Result(ToolResult),
}

/// What became of a call.
#[derive(Debug, Clone, PartialEq)]
pub struct ToolResult {
    pub call: String,
    pub tool: String,
    pub content: Vec<Part>,
    pub success: Success,
}

/// Whether a call did what it should.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Success {
    Yes,
    No,
}

/// A part of what a model is told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Part {
    Text(String),
    /// Base64.
    Image {
        mime_type: String,
        data: String,
    },
}

/// A part of what a model says.
#[derive(Debug, Clone, PartialEq)]
pub enum Piece {
    Text(String),
    Thinking(String),
    Call(Call),
}

/// A tool call.
#[derive(Debug, Clone, PartialEq)]
pub struct Call {
    pub id: String,
    pub name: String,
    /// An object; a text if the model wrote something that is none.
    pub arguments: Value,
    /// What some servers want back with the call.
    pub signature: Option<String>,
}

/// A part of an answer, as it comes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Delta {
    Text(String),
    Thinking(String),
}

/// A whole answer.
#[derive(Debug, Clone, PartialEq)]
pub struct Turn {
    pub pieces: Vec<Piece>,
    pub usage: Usage,
    pub stop: StopReason,
    /// The server's name for it.
    pub id: Option<String>,
}

/// Why an answer ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StopReason {
    Stop,
    ToolUse,
    /// It was cut off.
    Length,
}

/// Tokens.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Usage {
    /// Read anew.
    pub input: u64,
    pub output: u64,
    pub cache_read: u64,
    pub cache_write: u64,
}

impl Usage {
    pub const fn total(self) -> u64 {
        self.input
            .saturating_add(self.output)
            .saturating_add(self.cache_read)
            .saturating_add(self.cache_write)
    }

    #[must_use]
    pub const fn plus(self, other: Self) -> Self {
        Self {
            input: self.input.saturating_add(other.input),
            output: self.output.saturating_add(other.output),
            cache_read: self.cache_read.saturating_add(other.cache_read),
            cache_write: self.cache_write.saturating_add(other.cache_write),
        }
    }
}

impl Turn {
    pub fn calls(&self) -> impl Iterator<Item = &Call> {
        self.pieces.iter().filter_map(|piece| match piece {
            Piece::Call(call) => Some(call),
            Piece::Text(_) | Piece::Thinking(_) => None,
        })
    }

    pub fn text(&self) -> String {
        let texts = self.pieces.iter().filter_map(|piece| match piece {
            Piece::Text(text) => Some(text.as_str()),
            Piece::Call(_) | Piece::Thinking(_) => None,
        });
        texts.collect()
    }
}

impl Part {
    /// Only the images.
    pub(super) fn images(parts: &[Self]) -> Vec<Self> {
        parts.iter().filter(|part| matches!(part, Self::Image { .. })).cloned().collect()
    }

    /// The texts of several parts, one after the other.
    pub fn texts(parts: &[Self]) -> String {
        let texts = parts.iter().filter_map(|part| match part {
            Self::Text(text) => Some(text.as_str()),
            Self::Image { .. } => None,
        });
        texts.collect::<Vec<_>>().join("\n")
    }
}
