//! What a call asks for: a model's arguments, read by the tool's schema.
//!
//! Models mix up the parameter names of different agents and wrap texts into blocks; both are understood. What no
//! parameter is named after is ignored, as the reference does. Whatever is missing or of the wrong kind is named.

use super::FileTool;
use super::edit::Edit;
use super::schema::{self, Parameter, Schema};

mod commands;
mod image;
mod web;

pub use commands::{
    Aim, ExecCall, Keys, ProcessAction, ProcessCall, Startup, Terminal, parse_exec, parse_process,
};
pub use image::{ImageCall, parse_image};
pub use web::{FetchCall, parse_fetch};

/// An argument: what JSON can say.
#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    Null,
    Bool(bool),
    Number(f64),
    Text(String),
    List(Vec<Value>),
    Map(Vec<(String, Value)>),
}

/// A call that can be carried out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Call {
    Read(ReadCall),
    Write(WriteCall),
    Edit(EditCall),
    ApplyPatch(PatchCall),
    List(ListCall),
    Grep(GrepCall),
    Find(FindCall),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReadCall {
    pub path: String,
    /// The first line, counted from 1.
    pub first_line: u64,
    pub limit: Option<u64>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WriteCall {
    pub path: String,
    pub content: String,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EditCall {
    pub path: String,
    /// At least one.
    pub edits: Vec<Edit>,
    pub run: Run,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PatchCall {
    pub input: String,
    pub run: Run,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListCall {
    pub path: Option<String>,
    pub limit: Option<u64>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GrepCall {
    pub pattern: String,
    pub path: Option<String>,
    pub glob: Option<String>,
    pub case: Case,
    pub syntax: Syntax,
    pub context: u64,
    pub limit: Option<u64>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FindCall {
    pub pattern: String,
    pub path: Option<String>,
    pub limit: Option<u64>,
}

/// Whether files change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Run {
    Real,
    /// Everything is worked out and shown; nothing is written.
    Dry,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Case {
    Sensitive,
    Ignored,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Syntax {
    Regex,
    Literal,
}

/// Arguments that no call can be made of.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadArguments {
    #[error("the arguments of `{tool}` must be an object")]
    NoObject { tool: &'static str },
    #[error("`{tool}` lacks {}; call it again with every required parameter", list(.names))]
    Missing { tool: &'static str, names: Vec<&'static str> },
    #[error("`{name}` of `{tool}` must be {expected}")]
    Wrong { tool: &'static str, name: String, expected: String },
}

fn list(names: &[&str]) -> String {
    names.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ")
}

/// Reads the arguments of one call.
pub fn parse(tool: FileTool, arguments: &Value) -> Result<Call, BadArguments> {
    let Value::Map(members) = arguments else {
        return Err(BadArguments::NoObject { tool: tool.as_str() });
    };
    let mut reader = Reader { schema: schema::of(tool), members, missing: Vec::new() };
    let call = match tool {
        FileTool::Read => Call::Read(ReadCall {
            path: reader.word("path")?,
            // Models count from 0 too; there is no line before the first.
            first_line: reader.whole("offset")?.unwrap_or(1).max(1),
            limit: reader.whole("limit")?,
        }),
        FileTool::Write => {
            Call::Write(WriteCall { path: reader.word("path")?, content: reader.text("content")? })
        }
        FileTool::Edit => Call::Edit(EditCall {
            path: reader.word("path")?,
            edits: reader.edits()?,
            run: reader.run()?,
        }),
        FileTool::ApplyPatch => {
            Call::ApplyPatch(PatchCall { input: reader.word("input")?, run: reader.run()? })
        }
        FileTool::List => {
            Call::List(ListCall { path: reader.optional("path")?, limit: reader.whole("limit")? })
        }
        FileTool::Grep => Call::Grep(GrepCall {
            pattern: reader.word("pattern")?,
            path: reader.optional("path")?,
            glob: reader.optional("glob")?,
            case: if reader.switch("ignoreCase")? { Case::Ignored } else { Case::Sensitive },
            syntax: if reader.switch("literal")? { Syntax::Literal } else { Syntax::Regex },
            context: reader.whole("context")?.unwrap_or(0),
            limit: reader.whole("limit")?,
        }),
        FileTool::Find => Call::Find(FindCall {
            pattern: reader.word("pattern")?,
            path: reader.optional("path")?,
            limit: reader.whole("limit")?,
        }),
    };
    reader.finish(call)
}

struct Reader<'a> {
    schema: &'static Schema,
    members: &'a [(String, Value)],
    /// Required and absent; told together.
    missing: Vec<&'static str>,
}

impl<'a> Reader<'a> {
    fn finish<T>(self, call: T) -> Result<T, BadArguments> {
        if self.missing.is_empty() {
            return Ok(call);
        }
        Err(BadArguments::Missing { tool: self.schema.name, names: self.missing })
    }

    fn find(&self, name: &str) -> Option<(&'static Parameter, &'a Value)> {
        let parameter = self.schema.parameters.iter().find(|one| one.name == name)?;
        Some((parameter, member(self.members, parameter)?))
    }

    fn wrong(&self, name: &str, expected: impl Into<String>) -> BadArguments {
        let tool = self.schema.name;
        BadArguments::Wrong { tool, name: name.to_owned(), expected: expected.into() }
    }

    fn lacks(&mut self, name: &'static str) -> String {
        self.missing.push(name);
        String::new()
    }

    /// A text that must say something.
    fn word(&mut self, name: &'static str) -> Result<String, BadArguments> {
        match self.optional(name)? {
            Some(word) => Ok(word),
            None => Ok(self.lacks(name)),
        }
    }

    fn optional(&self, name: &'static str) -> Result<Option<String>, BadArguments> {
        let Some((_, value)) = self.find(name) else { return Ok(None) };
        let text = flatten(value).ok_or_else(|| self.wrong(name, "a text"))?;
        Ok(Some(text).filter(|text| !text.trim().is_empty()))
    }

    /// A text that may be empty.
    fn text(&mut self, name: &'static str) -> Result<String, BadArguments> {
        match self.find(name) {
            Some((_, value)) => flatten(value).ok_or_else(|| self.wrong(name, "a text")),
            None => Ok(self.lacks(name)),
        }
    }

    fn whole(&self, name: &'static str) -> Result<Option<u64>, BadArguments> {
        let Some((parameter, value)) = self.find(name) else { return Ok(None) };
        let least = match parameter.kind {
            schema::Kind::Whole { least } => least,
            schema::Kind::Word
            | schema::Kind::Text
            | schema::Kind::Switch
            | schema::Kind::Number
            | schema::Kind::Choice(_)
            | schema::Kind::Words
            | schema::Kind::Variables
            | schema::Kind::Edits => 0,
        };
        let number = match value {
            Value::Number(number) => whole(*number),
            // Some models write every argument as a text.
            Value::Text(text) => text.trim().parse().ok(),
            Value::Null | Value::Bool(_) | Value::List(_) | Value::Map(_) => None,
        };
        let number = number.filter(|number| *number >= u64::from(least));
        let expected = || self.wrong(name, format!("a whole number, at least {least}"));
        number.map(Some).ok_or_else(expected)
    }

    fn switch(&self, name: &'static str) -> Result<bool, BadArguments> {
        match self.find(name) {
            None => Ok(false),
            Some((_, Value::Bool(on))) => Ok(*on),
            Some((_, Value::Text(text))) if text == "true" => Ok(true),
            Some((_, Value::Text(text))) if text == "false" => Ok(false),
            Some(_) => Err(self.wrong(name, "true or false")),
        }
    }

    fn run(&self) -> Result<Run, BadArguments> {
        Ok(if self.switch("dryRun")? { Run::Dry } else { Run::Real })
    }

    /// The list, the single pair, or both.
    fn edits(&mut self) -> Result<Vec<Edit>, BadArguments> {
        let mut edits = Vec::new();
        if let Some((_, value)) = self.find("edits") {
            let Value::List(items) = value else {
                return Err(self.wrong("edits", "a list of {oldText, newText}"));
            };
            for (index, item) in items.iter().enumerate() {
                let place = format!("edits[{index}]");
                let pair = match item {
                    Value::Map(members) => pair(members),
                    Value::Null
                    | Value::Bool(_)
                    | Value::Number(_)
                    | Value::Text(_)
                    | Value::List(_) => None,
                };
                edits.push(
                    pair.ok_or_else(|| self.wrong(&place, "{oldText, newText}, both texts"))?,
                );
            }
        }
        let has_pair = [&schema::OLD_TEXT, &schema::NEW_TEXT]
            .into_iter()
            .any(|parameter| member(self.members, parameter).is_some());
        if has_pair || edits.is_empty() {
            edits.push(Edit { old: self.text("oldText")?, new: self.text("newText")? });
        }
        Ok(edits)
    }
}

fn pair(members: &[(String, Value)]) -> Option<Edit> {
    let text = |parameter| flatten(member(members, parameter)?);
    Some(Edit { old: text(&schema::OLD_TEXT)?, new: text(&schema::NEW_TEXT)? })
}

/// The value of a parameter under any of its names; null is as good as absent.
fn member<'a>(members: &'a [(String, Value)], parameter: &Parameter) -> Option<&'a Value> {
    let names = std::iter::once(&parameter.name).chain(parameter.aliases);
    names.into_iter().find_map(|name| {
        let (_, value) = members.iter().find(|(key, _)| key == name)?;
        (*value != Value::Null).then_some(value)
    })
}

/// The text of a value: itself, or the blocks it was wrapped into, one after the other.
fn flatten(value: &Value) -> Option<String> {
    match value {
        Value::Text(text) => Some(text.clone()),
        Value::List(items) => items.iter().map(flatten).collect(),
        Value::Map(members) => {
            let inner = ["text", "content", "parts", "value"]
                .into_iter()
                .find_map(|name| members.iter().find(|(key, _)| key == name));
            inner.and_then(|(_, value)| flatten(value))
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => None,
    }
}

/// Exact up to 2^53, beyond which no file has lines.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "checked to be whole, not negative and below 2^53"
)]
fn whole(number: f64) -> Option<u64> {
    let is_whole = number.fract() == 0.0 && (0.0..9_007_199_254_740_992.0).contains(&number);
    is_whole.then_some(number as u64)
}

#[cfg(test)]
mod tests;
