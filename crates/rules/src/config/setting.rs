//! A value with its origin: which layer set it, under which key, in which file and line.
//!
//! `explain`, `why` and every refusal print these, so "where does this come from" always has an
//! answer.

use super::tree::{At, Place};

/// The layers of the config, weakest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Layer {
    /// A value of this program.
    BuiltIn,
    /// `agents.defaults` or a root section such as `tools`.
    Defaults,
    /// One agent's own entry.
    Agent,
    /// Found out on the machine, such as the owner of the workspace.
    Derived,
}

/// Where a value comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Origin {
    pub layer: Layer,
    /// The dotted key path as written (`agents.list.0.sandbox.mode`); for a built-in value, the key
    /// that would change it.
    pub key: String,
    /// Where it is written; `None` for what no file wrote.
    pub place: Option<Place>,
}

/// A value and its origin.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Setting<T> {
    pub value: T,
    pub origin: Origin,
}

impl Origin {
    /// A value of this program, changed by `key`.
    pub fn built_in(key: impl Into<String>) -> Self {
        Self { layer: Layer::BuiltIn, key: key.into(), place: None }
    }

    /// A value written at `at`.
    pub fn written(layer: Layer, at: &At<'_>) -> Self {
        Self { layer, key: at.key.clone(), place: Some(at.node.place) }
    }

    /// A value found out on this machine, in place of what `key` would set.
    pub fn derived(key: impl Into<String>) -> Self {
        Self { layer: Layer::Derived, key: key.into(), place: None }
    }
}

impl<T> Setting<T> {
    pub const fn new(value: T, origin: Origin) -> Self {
        Self { value, origin }
    }

    /// Changes the value, keeps the origin.
    pub fn map<U>(self, change: impl FnOnce(T) -> U) -> Setting<U> {
        Setting { value: change(self.value), origin: self.origin }
    }
}
