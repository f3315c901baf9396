//! Who set a value of exec policy.

use std::fmt;

use super::values::{Ask, Security};
use crate::config::setting::Origin;

/// Who set a value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Source {
    /// Nobody: the built-in value of this key.
    BuiltIn(&'static str),
    /// The config.
    Config(Origin),
    /// The session's record.
    Session,
    /// The message before this call.
    Message,
    /// The call's own parameter.
    Request,
    /// The approvals file, under this key.
    Approvals(String),
}

/// A value and who set it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Chosen<T> {
    pub value: T,
    pub source: Source,
}

impl<T> Chosen<T> {
    pub const fn new(value: T, source: Source) -> Self {
        Self { value, source }
    }
}

impl Chosen<Security> {
    /// The stricter of two; of equals the first, which was there before.
    pub(super) fn stricter_security(self, other: Option<Self>) -> Self {
        match other {
            Some(other) if other.value < self.value => other,
            Some(_) | None => self,
        }
    }
}

impl Chosen<Ask> {
    /// The stricter of two; of equals the first.
    pub(super) fn stricter_ask(self, other: Option<Self>) -> Self {
        match other {
            Some(other) if other.value > self.value => other,
            Some(_) | None => self,
        }
    }
}

impl Source {
    /// The key to change, where there is one.
    pub fn key(&self) -> Option<&str> {
        match self {
            Self::BuiltIn(key) => Some(key),
            Self::Config(origin) => Some(&origin.key),
            Self::Approvals(key) => Some(key),
            Self::Session | Self::Message | Self::Request => None,
        }
    }
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::BuiltIn(key) => write!(f, "the default of `{key}`"),
            Self::Config(origin) => write!(f, "`{}`", origin.key),
            Self::Session => f.write_str("the session"),
            Self::Message => f.write_str("the message"),
            Self::Request => f.write_str("the call"),
            Self::Approvals(key) => write!(f, "`{key}` of the approvals file"),
        }
    }
}
