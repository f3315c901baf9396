//! The command line. Whatever follows `--` is taken as it is.

use std::ffi::{OsStr, OsString};
use std::path::PathBuf;

/// What is searched for, and where.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Options {
    pub(crate) tool: Tool,
    pub(crate) pattern: String,
    pub(crate) root: PathBuf,
    pub(crate) limit: usize,
    pub(crate) context: usize,
    pub(crate) case: Case,
    pub(crate) syntax: Syntax,
    pub(crate) glob: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Tool {
    Grep,
    Find,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Case {
    Sensitive,
    Ignored,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Syntax {
    Regex,
    Literal,
}

impl Options {
    pub(crate) fn parse(words: &[OsString]) -> Result<Self, String> {
        let usage = || "say grep or find, options, --, a pattern and a path".to_owned();
        let (tool, rest) = words.split_first().ok_or_else(usage)?;
        let tool = match tool.to_str() {
            Some("grep") => Tool::Grep,
            Some("find") => Tool::Find,
            _ => return Err(usage()),
        };
        let dashes = rest.iter().position(|word| word == "--").ok_or_else(usage)?;
        let (flags, names) = rest.split_at_checked(dashes).ok_or_else(usage)?;
        let [_, pattern, root] = names else { return Err(usage()) };
        let mut options = Self {
            tool,
            pattern: text(pattern)?.to_owned(),
            root: root.into(),
            limit: usize::MAX,
            context: 0,
            case: Case::Sensitive,
            syntax: Syntax::Regex,
            glob: None,
        };
        for flag in flags {
            options.take(text(flag)?)?;
        }
        Ok(options)
    }

    fn take(&mut self, flag: &str) -> Result<(), String> {
        let unknown = || format!("`{flag}` is no option");
        let number = |value: &str| value.parse().map_err(|_no_number| unknown());
        match flag.split_once('=').map_or((flag, None), |(name, value)| (name, Some(value))) {
            ("--ignore-case", None) => self.case = Case::Ignored,
            ("--literal", None) => self.syntax = Syntax::Literal,
            ("--limit", Some(value)) => self.limit = number(value)?,
            ("--context", Some(value)) => self.context = number(value)?,
            ("--glob", Some(value)) => self.glob = Some(value.to_owned()),
            _ => return Err(unknown()),
        }
        Ok(())
    }
}

fn text(word: &OsStr) -> Result<&str, String> {
    word.to_str().ok_or_else(|| "a word is not UTF-8".to_owned())
}
