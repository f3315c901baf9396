//! Decides whether a tool may be called.
//!
//! Takes the [`Layers`] a session is under and one tool; returns a [`Verdict`] with the layer and
//! the rule that settled it, so that `explain`, the audit record and the refusal shown to the model
//! agree. [`smallest_change`] says what would have to change for a refused tool.
//!
//! A layer only takes tools away: nothing added to the config after a deny can bring a tool back.
//! Within a layer deny beats allow, and an allow list with entries refuses whatever it does not
//! name, also if none of its entries is known to us. Nothing here reads files, clocks or the
//! environment, and nothing here runs a tool.

pub mod catalogue;
pub mod chat;
pub mod section;
pub mod subagent;

mod change;
mod glob;
mod layers;
mod list;
mod name;
mod refusal;
mod sandbox;
mod warning;

#[cfg(test)]
mod tests;

pub use change::{Change, smallest_change};
pub use layers::{
    Compat, Door, LayerKind, Layers, Model, PolicyLayer, SenderStanding, Session, ToolPlacement,
    Trigger,
};
pub use list::{Entry, Named, Written, expand};
pub(crate) use name::fold;
pub use name::{Audience, Tool, ToolName};
pub use refusal::{SandboxRefusal, sandbox_refusal};
pub use sandbox::{ListSource, SandboxPolicy, SourceScope};
pub use warning::{Problem, Warning};

use std::collections::HashSet;

use crate::config::setting::{Layer, Origin};
use name::Subject;

/// Whether a tool may be called, and why.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict<'a> {
    Allowed(AllowReason<'a>),
    Blocked(Block<'a>),
}

/// Why a tool may be called.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AllowReason<'a> {
    /// No layer has an allow list, and none denies it.
    NoAllowList,
    /// The last layer with an allow list names it.
    Listed { layer: &'a LayerKind, entry: &'a Entry },
}

/// Why a tool may not be called.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Block<'a> {
    /// The first layer that takes the tool away.
    pub layer: &'a LayerKind,
    pub reason: BlockReason<'a>,
}

/// How a layer takes a tool away.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BlockReason<'a> {
    /// A deny entry matches it.
    Denied(&'a Entry),
    /// A deny entry matches `write`, and patching goes with writing; or `read`, and searching goes
    /// with reading.
    DeniedWithPartner(&'a Entry),
    /// The layer has an allow list, written here, and no entry of it matches.
    NotListed(&'a Origin),
}

/// Decides whether `tool` may be called under `layers`.
#[must_use]
pub fn decide<'a>(layers: &'a Layers, tool: &Tool) -> Verdict<'a> {
    let mut reason = AllowReason::NoAllowList;
    for layer in layers.iter() {
        match layer.decide(tool.subject()) {
            Ok(None) => {}
            Ok(Some(entry)) => reason = AllowReason::Listed { layer: &layer.kind, entry },
            Err(reason) => return Verdict::Blocked(Block { layer: &layer.kind, reason }),
        }
    }
    Verdict::Allowed(reason)
}

/// The same for a tool that whoever opened a door switched on by name. The sandbox's built-in allow list knows no such
/// tool, so it does not close it; whatever a person wrote, or chose as a profile, does.
#[must_use]
pub fn decide_switched<'a>(layers: &'a Layers, tool: &Tool) -> Verdict<'a> {
    let mut reason = AllowReason::NoAllowList;
    for layer in layers.iter() {
        match layer.decide(tool.subject()) {
            Ok(None) => {}
            Err(BlockReason::NotListed(origin))
                if layer.kind == LayerKind::Sandbox && origin.layer == Layer::BuiltIn => {}
            Ok(Some(entry)) => reason = AllowReason::Listed { layer: &layer.kind, entry },
            Err(reason) => return Verdict::Blocked(Block { layer: &layer.kind, reason }),
        }
    }
    Verdict::Allowed(reason)
}

/// The verdict on every tool of the catalogue, in its order.
pub fn decide_all(layers: &Layers) -> impl Iterator<Item = (Tool, Verdict<'_>)> {
    catalogue::CATALOGUE.iter().map(|row| {
        let tool = Tool::core(row.name);
        let verdict = decide(layers, &tool);
        (tool, verdict)
    })
}

impl PolicyLayer {
    /// The allow entry that lets the tool through (`None`: the layer has no allow list), or why it
    /// does not pass.
    fn decide(&self, tool: Subject<'_>) -> Result<Option<&Entry>, BlockReason<'_>> {
        let partner = tool.goes_with();
        if let Some(entry) = self.deny.matching(tool) {
            return Err(BlockReason::Denied(entry));
        }
        if let Some(entry) = partner.and_then(|write| self.deny.matching(write)) {
            return Err(BlockReason::DeniedWithPartner(entry));
        }
        if self.allow.is_empty() {
            return Ok(None);
        }
        let listed = self.allow.matching(tool);
        match listed.or_else(|| partner.and_then(|write| self.allow.matching(write))) {
            Some(entry) => Ok(Some(entry)),
            None => Err(BlockReason::NotListed(&self.allow_origin)),
        }
    }

    /// The entries of the allow list as written, without repeats.
    pub fn allow_entries(&self) -> Vec<&str> {
        texts(self.allow.entries())
    }

    /// The entries of the deny list as written, without repeats.
    pub fn deny_entries(&self) -> Vec<&str> {
        texts(self.deny.entries())
    }
}

fn texts(entries: &[Entry]) -> Vec<&str> {
    let mut seen = HashSet::new();
    entries.iter().map(|entry| entry.text.as_str()).filter(|text| seen.insert(*text)).collect()
}

impl Verdict<'_> {
    pub const fn is_allowed(&self) -> bool {
        match self {
            Self::Allowed(_) => true,
            Self::Blocked(_) => false,
        }
    }
}

impl std::fmt::Display for Block<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.reason {
            BlockReason::Denied(entry) => {
                write!(f, "denied by `{}` in `{}`", entry.text, entry.origin.key)
            }
            BlockReason::DeniedWithPartner(entry) => write!(
                f,
                "denied by `{}` in `{}`, because patching files is writing them and searching files \
                 is reading them",
                entry.text, entry.origin.key
            ),
            BlockReason::NotListed(origin) => {
                write!(f, "not in the allow list of `{}`", origin.key)
            }
        }
    }
}
