//! The arguments of `exec` and `process`.

use super::{BadArguments, Reader, Value, flatten};
use crate::elevated::level::CallWish;
use crate::exec_host::{Ask, HostWish, Security, Wishes};
use crate::tools::{BuiltTool, schema};

/// A command that is to run.
#[derive(Debug, Clone, PartialEq)]
pub struct ExecCall {
    pub command: String,
    pub workdir: Option<String>,
    pub env: Vec<(String, String)>,
    pub startup: Startup,
    /// Seconds; not more than 0 means never.
    pub timeout: Option<f64>,
    pub terminal: Terminal,
    pub aim: Aim,
}

/// When the caller gets its answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Startup {
    /// At the end, or when the usual time is over.
    Usual,
    /// At the end, or after so many milliseconds.
    Yield(u64),
    /// At once.
    Background,
}

/// Whether the command gets a terminal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Terminal {
    None,
    Wanted,
}

/// Where the call wants to run, and how strictly.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Aim {
    pub wishes: Wishes,
    pub elevated: CallWish,
    pub node: Option<String>,
}

/// What is wanted of commands in the background.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ProcessCall {
    List,
    On { id: String, action: ProcessAction },
}

/// What is wanted of one of them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ProcessAction {
    Poll { timeout_ms: u64 },
    Log { offset: Option<u64>, limit: Option<u64> },
    Write { data: String, ends: bool },
    SendKeys(Keys),
    Submit,
    Paste { text: String, bracketed: bool },
    Kill,
    Clear,
    Remove,
}

/// What is typed, in this order.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Keys {
    pub literal: String,
    pub hex: Vec<String>,
    pub keys: Vec<String>,
}

/// Reads the arguments of `exec`. A word that is none of the known ones is refused: whoever wrote it meant something.
pub fn parse_exec(arguments: &Value) -> Result<ExecCall, BadArguments> {
    let mut reader = reader(BuiltTool::Exec, arguments)?;
    let startup = if reader.switch("background")? {
        Startup::Background
    } else {
        reader.whole("yieldMs")?.map_or(Startup::Usual, Startup::Yield)
    };
    let elevated = match reader.find("elevated") {
        None => CallWish::Unsaid,
        Some(_) if reader.switch("elevated")? => CallWish::Elevated,
        Some(_) => CallWish::NotElevated,
    };
    let call = ExecCall {
        command: reader.word("command")?,
        workdir: reader.optional("workdir")?,
        env: reader.variables("env")?,
        startup,
        timeout: reader.number("timeout")?,
        terminal: if reader.switch("pty")? { Terminal::Wanted } else { Terminal::None },
        aim: Aim {
            wishes: Wishes {
                host: reader.choice("host", HostWish::parse)?,
                security: reader.choice("security", Security::parse)?,
                ask: reader.choice("ask", Ask::parse)?,
            },
            elevated,
            node: reader.optional("node")?,
        },
    };
    reader.finish(call)
}

/// Reads the arguments of `process`.
pub fn parse_process(arguments: &Value) -> Result<ProcessCall, BadArguments> {
    let mut reader = reader(BuiltTool::Process, arguments)?;
    let action = reader.word("action")?;
    if action.is_empty() {
        return reader.finish(ProcessCall::List);
    }
    let action = match action.trim() {
        "list" => return reader.finish(ProcessCall::List),
        "poll" => ProcessAction::Poll { timeout_ms: reader.whole("timeout")?.unwrap_or(0) },
        "log" => {
            ProcessAction::Log { offset: reader.whole("offset")?, limit: reader.whole("limit")? }
        }
        "write" => {
            ProcessAction::Write { data: reader.any_text("data")?, ends: reader.switch("eof")? }
        }
        "send-keys" => ProcessAction::SendKeys(Keys {
            literal: reader.any_text("literal")?,
            hex: reader.words("hex")?,
            keys: reader.words("keys")?,
        }),
        "submit" => ProcessAction::Submit,
        "paste" => ProcessAction::Paste {
            text: reader.any_text("text")?,
            bracketed: reader.find("bracketed").is_none() || reader.switch("bracketed")?,
        },
        "kill" => ProcessAction::Kill,
        "clear" => ProcessAction::Clear,
        "remove" => ProcessAction::Remove,
        _ => return Err(reader.wrong_choice("action")),
    };
    let call = ProcessCall::On { id: reader.word("sessionId")?, action };
    reader.finish(call)
}

pub(super) fn reader(tool: BuiltTool, arguments: &Value) -> Result<Reader<'_>, BadArguments> {
    reader_of(schema::of_built(tool), arguments)
}

pub(super) fn reader_of<'a>(
    schema: &'static schema::Schema,
    arguments: &'a Value,
) -> Result<Reader<'a>, BadArguments> {
    let Value::Map(members) = arguments else {
        return Err(BadArguments::NoObject { tool: schema.name });
    };
    Ok(Reader { schema, members, missing: Vec::new() })
}

impl Reader<'_> {
    fn wrong_choice(&self, name: &str) -> BadArguments {
        let parameter = self.schema.parameters.iter().find(|one| one.name == name);
        let known = match parameter.map(|one| one.kind) {
            Some(schema::Kind::Choice(known)) => known.join(", "),
            _ => String::new(),
        };
        self.wrong(name, format!("one of {known}"))
    }

    pub(super) fn choice<T>(
        &self,
        name: &'static str,
        parse: impl Fn(&str) -> Option<T>,
    ) -> Result<Option<T>, BadArguments> {
        match self.optional(name)? {
            None => Ok(None),
            Some(word) => match parse(word.trim()) {
                Some(value) => Ok(Some(value)),
                None => Err(self.wrong_choice(name)),
            },
        }
    }

    pub(super) fn number(&self, name: &'static str) -> Result<Option<f64>, BadArguments> {
        let Some((_, value)) = self.find(name) else { return Ok(None) };
        let number = match value {
            Value::Number(number) => Some(*number),
            Value::Text(text) => text.trim().parse().ok(),
            Value::Null | Value::Bool(_) | Value::List(_) | Value::Map(_) => None,
        };
        let number = number.filter(|number: &f64| number.is_finite());
        number.map(Some).ok_or_else(|| self.wrong(name, "a number"))
    }

    /// A text that may be absent or empty.
    fn any_text(&self, name: &'static str) -> Result<String, BadArguments> {
        match self.find(name) {
            Some((_, value)) => flatten(value).ok_or_else(|| self.wrong(name, "a text")),
            None => Ok(String::new()),
        }
    }

    pub(super) fn words(&self, name: &'static str) -> Result<Vec<String>, BadArguments> {
        let text = |value: &Value| match value {
            Value::Text(text) => Some(text.clone()),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::List(_) | Value::Map(_) => {
                None
            }
        };
        let words = match self.find(name) {
            None => return Ok(Vec::new()),
            Some((_, Value::List(items))) => items.iter().map(text).collect(),
            Some((_, single)) => text(single).map(|word| vec![word]),
        };
        words.ok_or_else(|| self.wrong(name, "a list of texts"))
    }

    fn variables(&self, name: &'static str) -> Result<Vec<(String, String)>, BadArguments> {
        let Some((_, value)) = self.find(name) else { return Ok(Vec::new()) };
        let wrong = || self.wrong(name, "an object of texts");
        let Value::Map(members) = value else { return Err(wrong()) };
        let pair = |(name, value): &(String, Value)| match value {
            Value::Text(text) => Ok((name.clone(), text.clone())),
            Value::Bool(on) => Ok((name.clone(), on.to_string())),
            Value::Number(number) => Ok((name.clone(), number.to_string())),
            Value::Null | Value::List(_) | Value::Map(_) => Err(wrong()),
        };
        members.iter().map(pair).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map(members: &[(&str, Value)]) -> Value {
        Value::Map(
            members.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect(),
        )
    }

    fn text(text: &str) -> Value {
        Value::Text(text.to_owned())
    }

    #[test]
    fn a_command_is_read_with_all_that_it_says() {
        let call = parse_exec(&map(&[
            ("command", text("make -j")),
            ("cwd", text("sub")),
            ("env", map(&[("A", text("1")), ("B", Value::Number(2.0))])),
            ("timeout", Value::Number(0.5)),
            ("yieldMs", text("50")),
            ("pty", Value::Bool(true)),
            ("host", text("sandbox")),
            ("elevated", Value::Bool(false)),
        ]));
        let expected = ExecCall {
            command: "make -j".to_owned(),
            workdir: Some("sub".to_owned()),
            env: vec![("A".to_owned(), "1".to_owned()), ("B".to_owned(), "2".to_owned())],
            startup: Startup::Yield(50),
            timeout: Some(0.5),
            terminal: Terminal::Wanted,
            aim: Aim {
                wishes: Wishes { host: Some(HostWish::Sandbox), security: None, ask: None },
                elevated: CallWish::NotElevated,
                node: None,
            },
        };
        assert_eq!(call, Ok(expected));
    }

    #[test]
    fn b30_a_word_that_nobody_knows_is_refused() {
        for (name, expected) in [
            ("host", "`host` of `exec` must be one of sandbox, gateway, node, auto"),
            ("security", "`security` of `exec` must be one of deny, allowlist, full"),
            ("ask", "`ask` of `exec` must be one of off, on-miss, always"),
        ] {
            let call = parse_exec(&map(&[("command", text("ls")), (name, text("bogus"))]));
            assert_eq!(call.unwrap_err().to_string(), expected);
        }
        let missing = parse_exec(&map(&[("command", text("  "))])).unwrap_err().to_string();
        assert_eq!(missing, "`exec` lacks `command`; call it again with every required parameter");
    }

    #[test]
    fn every_action_but_list_names_a_command() {
        assert_eq!(parse_process(&map(&[("action", text("list"))])), Ok(ProcessCall::List));
        for action in
            ["poll", "log", "write", "send-keys", "submit", "paste", "kill", "clear", "remove"]
        {
            let refused = parse_process(&map(&[("action", text(action))])).unwrap_err();
            assert_eq!(
                refused.to_string(),
                "`process` lacks `sessionId`; call it again with every required parameter"
            );
        }
        let paste = parse_process(&map(&[
            ("action", text("paste")),
            ("sessionId", text("quiet-harbor")),
            ("text", text("x")),
        ]));
        let action = ProcessAction::Paste { text: "x".to_owned(), bracketed: true };
        assert_eq!(paste, Ok(ProcessCall::On { id: "quiet-harbor".to_owned(), action }));
        assert!(parse_process(&map(&[("action", text("dance"))])).is_err());
        assert!(parse_process(&map(&[])).is_err());
    }
}
