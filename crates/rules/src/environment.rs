//! Decides which variables may enter a sandbox.
//!
//! Takes one variable (or a list in config order) and a [`Filter`]; gives a verdict with its
//! reason, or an [`Environment`] that only holds what passed. The same filter stands at the
//! creation of a sandbox and at every command in it, so a secret that is kept out of the one is
//! kept out of the other too.
//!
//! A name that looks like a credential is kept out unless it is on the filter's opt-in list. A name
//! or value that could not be handed over unchanged (`=`, NUL, control characters) is kept out
//! always: no list lets it in. Nothing here reads the real environment.

use std::collections::BTreeSet;
use std::fmt;

use crate::ids::trim;

/// The longest value that passes without a remark, in UTF-16 units.
const LONG_VALUE: usize = 32_768;
/// From this length on, a value of base64 characters only is remarked upon.
const BASE64_LENGTH: usize = 80;

/// Credentials of programs and services we know by name. Compared without regard to case.
const CREDENTIALS: &[&str] = &[
    "AI_GATEWAY_API_KEY",
    "ANTHROPIC_API_KEY",
    "AWS_SECRET_ACCESS_KEY",
    "AWS_SECRET_KEY",
    "AWS_SESSION_TOKEN",
    "AZURE_API_KEY",
    "AZURE_OPENAI_API_KEY",
    "COHERE_API_KEY",
    "DISCORD_BOT_TOKEN",
    "ELEVENLABS_API_KEY",
    "GEMINI_API_KEY",
    "GH_TOKEN",
    "GITHUB_TOKEN",
    "LINE_CHANNEL_ACCESS_TOKEN",
    "LINE_CHANNEL_SECRET",
    "MINIMAX_API_KEY",
    "OPENAI_API_KEY",
    "OPENCLAW_GATEWAY_PASSWORD",
    "OPENCLAW_GATEWAY_TOKEN",
    "OPENROUTER_API_KEY",
    "SLACK_APP_TOKEN",
    "SLACK_BOT_TOKEN",
    "SYNTHETIC_API_KEY",
    "TELEGRAM_BOT_TOKEN",
];

/// How names of credentials end, whatever stands before. Compared without regard to case.
const CREDENTIAL_ENDINGS: &[&str] = &["API_KEY", "TOKEN", "PASSWORD", "PRIVATE_KEY", "SECRET"];

/// The names that a strict filter lets through, besides `LC_…`.
const PLAIN_NAMES: &[&str] = &["LANG", "PATH", "HOME", "USER", "SHELL", "TERM", "TZ", "NODE_ENV"];

/// The variables whose values hold nothing to hide, besides `LC_…`.
const OPEN_VALUES: &[&str] = &["LANG", "OPENCLAW_CLI", "TERM", "TZ"];

/// `NAME=value` as it may be shown: what somebody chose to put into a variable may be a secret,
/// whatever its name.
pub fn shown(variable: &str) -> String {
    let (name, _) = variable.split_once('=').unwrap_or((variable, ""));
    if OPEN_VALUES.contains(&name) || name.starts_with("LC_") {
        variable.to_owned()
    } else {
        format!("{name}=***")
    }
}

/// Which names are let through at all.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum FilterMode {
    /// Whatever does not look like a credential: what the config asks for by name.
    #[default]
    ExceptCredentials,
    /// Only names that are known to be harmless: for variables nobody asked for.
    PlainNamesOnly,
}

/// What a variable is measured against.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Filter {
    mode: FilterMode,
    opted_in: BTreeSet<String>,
}

/// The verdict on one variable.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EnvDecision {
    Pass,
    /// Passes, but someone should look at it.
    PassWith(Remark),
    Block(BlockReason),
}

/// Why a variable is kept out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BlockReason {
    /// The name is that of a credential we know.
    Credential,
    /// The name ends like a credential's.
    CredentialEnding(&'static str),
    /// A strict filter does not know the name.
    NotPlain,
    /// The name holds a character that would move the border between name and value, or end it.
    NameCharacter(char),
    /// The value holds a NUL, which would cut it short.
    NulInValue,
}

/// What is odd about a value that passes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Remark {
    /// Longer than 32 768 characters.
    Long,
    /// Eighty or more characters, all of base64: a credential under another name, perhaps.
    LooksEncoded,
}

/// Variables in the order they reach the sandbox; each name once. Only what a [`Filter`] passed,
/// and what this crate itself sets, can be in it.
#[derive(Clone, PartialEq, Eq, Default)]
pub struct Environment {
    variables: Vec<(String, String)>,
}

/// What a filter made of a list of variables.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Filtered {
    pub kept: Environment,
    /// In the order given.
    pub blocked: Vec<(String, BlockReason)>,
    /// In the order given; the variable is in `kept`.
    pub remarks: Vec<(String, Remark)>,
}

/// Decides whether the variable `name` with this `value` may enter a sandbox.
///
/// `name` is taken as it is: whoever trims does so before.
#[must_use]
pub fn decide(name: &str, value: &str, filter: &Filter) -> EnvDecision {
    // These two come first: no opt-in may let through what cannot arrive unchanged. A `=` in a
    // name would hide the real name from the checks below (`A_TOKEN=x` reads as `A_TOKEN`).
    if let Some(found) = name.chars().find(|&c| c == '=' || c.is_control()) {
        return EnvDecision::Block(BlockReason::NameCharacter(found));
    }
    if value.contains('\0') {
        return EnvDecision::Block(BlockReason::NulInValue);
    }
    if !filter.opted_in.contains(name) {
        if let Some(reason) = credential(name) {
            return EnvDecision::Block(reason);
        }
        match filter.mode {
            FilterMode::ExceptCredentials => {}
            FilterMode::PlainNamesOnly if is_plain(name) => {}
            FilterMode::PlainNamesOnly => return EnvDecision::Block(BlockReason::NotPlain),
        }
    }
    remark(value).map_or(EnvDecision::Pass, EnvDecision::PassWith)
}

fn credential(name: &str) -> Option<BlockReason> {
    if CREDENTIALS.iter().any(|known| known.eq_ignore_ascii_case(name)) {
        return Some(BlockReason::Credential);
    }
    let upper = name.to_ascii_uppercase();
    let ending = CREDENTIAL_ENDINGS.iter().find(|ending| upper.ends_with(**ending))?;
    Some(BlockReason::CredentialEnding(ending))
}

fn is_plain(name: &str) -> bool {
    name.starts_with("LC_") || PLAIN_NAMES.contains(&name)
}

fn remark(value: &str) -> Option<Remark> {
    if value.encode_utf16().count() > LONG_VALUE {
        return Some(Remark::Long);
    }
    let is_base64 = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'+' | b'/' | b'=');
    (value.len() >= BASE64_LENGTH && value.bytes().all(is_base64)).then_some(Remark::LooksEncoded)
}

impl Filter {
    /// Keeps out what looks like a credential.
    pub fn except_credentials() -> Self {
        Self::default()
    }

    /// Lets only names through that are known to be harmless.
    pub fn plain_names_only() -> Self {
        Self { mode: FilterMode::PlainNamesOnly, opted_in: BTreeSet::new() }
    }

    /// Lets these names through although they look like credentials. Exact spelling only: `TOKEN`
    /// does not let `token` in.
    #[must_use]
    pub fn with_opt_in(mut self, names: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.opted_in.extend(names.into_iter().map(Into::into));
        self
    }

    /// Judges variables in their order. Names are trimmed, blank ones skipped; of two with the same
    /// trimmed name, the later value counts, in the place of the first.
    pub fn apply<'a>(&self, variables: impl IntoIterator<Item = (&'a str, &'a str)>) -> Filtered {
        let mut filtered = Filtered::default();
        for (name, value) in variables {
            let name = trim(name);
            if name.is_empty() {
                continue;
            }
            match decide(name, value, self) {
                EnvDecision::Pass => filtered.kept.set(name, value),
                EnvDecision::PassWith(remark) => {
                    filtered.remarks.push((name.to_owned(), remark));
                    filtered.kept.set(name, value);
                }
                EnvDecision::Block(reason) => filtered.blocked.push((name.to_owned(), reason)),
            }
        }
        filtered
    }
}

impl Environment {
    /// Sets a variable. One that is already there keeps its place and takes the new value.
    pub(crate) fn set(&mut self, name: &str, value: &str) {
        match self.variables.iter_mut().find(|(known, _)| known == name) {
            Some((_, old)) => value.clone_into(old),
            None => self.variables.push((name.to_owned(), value.to_owned())),
        }
    }

    pub(crate) fn remove(&mut self, name: &str) -> Option<String> {
        let index = self.variables.iter().position(|(known, _)| known == name)?;
        Some(self.variables.remove(index).1)
    }

    pub fn get(&self, name: &str) -> Option<&str> {
        self.iter().find(|(known, _)| *known == name).map(|(_, value)| value)
    }

    /// The variables in order.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.variables.iter().map(|(name, value)| (name.as_str(), value.as_str()))
    }
}

/// Values may be private: only names are shown.
impl fmt::Debug for Environment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.variables.iter().map(|(name, _)| name)).finish()
    }
}

impl fmt::Display for BlockReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Credential => f.write_str("it is a known credential"),
            Self::CredentialEnding(ending) => {
                write!(f, "names that end in `{ending}` count as credentials")
            }
            Self::NotPlain => f.write_str("it is not on the short list of harmless names"),
            Self::NameCharacter(found) => {
                write!(f, "its name holds the character `{}`", found.escape_default())
            }
            Self::NulInValue => f.write_str("its value holds a NUL"),
        }
    }
}

impl fmt::Display for Remark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Long => "the value is unusually long",
            Self::LooksEncoded => "the value might be a base64-encoded credential",
        })
    }
}

#[cfg(test)]
mod tests;
