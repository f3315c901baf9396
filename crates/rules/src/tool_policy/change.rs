//! The smallest change of the config that lets a refused tool through.
//!
//! Every layer that stops the tool contributes what it needs, in order, so that following all of
//! it is enough. Nothing here edits a file.

use std::fmt;

use super::catalogue::{self, Profile};
use super::layers::{LayerKind, Layers, PolicyLayer, Remedy};
use super::list::Entry;
use super::name::{Subject, Tool, ToolName};
use crate::config::setting::Layer;
use crate::config::tree::Place;

/// One step of a change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change {
    /// Add an entry to a list; the list may not exist yet.
    Add { key: String, entry: String },
    /// Take an entry out of a list.
    Remove { key: String, entry: String, place: Option<Place> },
    /// Take a group out of a list and name its other tools instead.
    Replace { key: String, entry: String, with: Vec<String>, place: Option<Place> },
    /// Give a key another value.
    Set { key: String, value: String },
    /// The owner must be the one who asks.
    OwnerSpeaks,
    /// No setting changes this layer.
    NotConfigurable(LayerKind),
}

impl Change {
    /// The key to edit, if there is one.
    pub fn key(&self) -> Option<&str> {
        match self {
            Self::Add { key, .. }
            | Self::Remove { key, .. }
            | Self::Replace { key, .. }
            | Self::Set { key, .. } => Some(key),
            Self::OwnerSpeaks | Self::NotConfigurable(_) => None,
        }
    }
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Add { key, entry } => write!(f, "add \"{entry}\" to {key}"),
            Self::Remove { key, entry, .. } => write!(f, "take \"{entry}\" out of {key}"),
            Self::Replace { key, entry, with, .. } if with.is_empty() => {
                write!(f, "take \"{entry}\" out of {key}")
            }
            Self::Replace { key, entry, with, .. } => {
                let others: Vec<String> = with.iter().map(|name| format!("\"{name}\"")).collect();
                write!(f, "in {key}, put {} in place of \"{entry}\"", others.join(", "))
            }
            Self::Set { key, value } => write!(f, "set {key} to \"{value}\""),
            Self::OwnerSpeaks => f.write_str("have the owner ask for it"),
            Self::NotConfigurable(layer) => {
                write!(f, "no setting changes this ({})", layer.label())
            }
        }
    }
}

/// What has to change so that `tool` may be called; empty if it already may.
#[must_use]
pub fn smallest_change(layers: &Layers, tool: &Tool) -> Vec<Change> {
    let mut changes = Vec::new();
    for layer in layers.iter() {
        for change in of_layer(layer, tool) {
            if !changes.contains(&change) {
                changes.push(change);
            }
        }
    }
    changes
}

fn of_layer(layer: &PolicyLayer, tool: &Tool) -> Vec<Change> {
    let subject = tool.subject();
    if layer.decide(subject).is_ok() {
        return Vec::new();
    }
    let partner = subject.goes_with();
    let mut denied = layer.deny.all_matching(subject);
    denied.extend(partner.into_iter().flat_map(|write| layer.deny.all_matching(write)));
    let mut changes: Vec<Change> = Vec::new();
    let mut push = |change: Change| {
        if !changes.contains(&change) {
            changes.push(change);
        }
    };
    for entry in &denied {
        match entry.origin.layer {
            Layer::Defaults | Layer::Agent => push(without(entry, subject)),
            Layer::BuiltIn | Layer::Derived => push(remedy(layer, tool)),
        }
    }
    let is_listed = layer.allow.is_empty()
        || layer.allow.matching(subject).is_some()
        || partner.is_some_and(|write| layer.allow.matching(write).is_some());
    if !is_listed {
        push(remedy(layer, tool));
    }
    changes
}

/// A written deny entry less one tool.
fn without(entry: &Entry, tool: Subject<'_>) -> Change {
    let (key, place) = (entry.origin.key.clone(), entry.origin.place);
    let text = entry.text.clone();
    let group = catalogue::group(ToolName::normalize(&text).as_str());
    let Some(group) = group else { return Change::Remove { key, entry: text, place } };
    // Whoever may not write may not patch, so both names go.
    let write = tool.goes_with().map(|write| write.name);
    let others = group.into_iter().filter(|name| *name != tool.name && Some(*name) != write);
    Change::Replace { key, entry: text, with: others.map(str::to_owned).collect(), place }
}

fn remedy(layer: &PolicyLayer, tool: &Tool) -> Change {
    let entry = tool.name.as_str().to_owned();
    match &layer.remedy {
        Remedy::AddTool { key } => Change::Add { key: key.clone(), entry },
        Remedy::AddEntry { key, entry } => Change::Add { key: key.clone(), entry: entry.clone() },
        Remedy::Set { key, value } => Change::Set { key: key.clone(), value: value.clone() },
        Remedy::WiderProfile { key } => {
            let value = wider_profile(&layer.kind, tool).as_str().to_owned();
            Change::Set { key: key.clone(), value }
        }
        Remedy::OwnerSpeaks => Change::OwnerSpeaks,
        Remedy::None => Change::NotConfigurable(layer.kind.clone()),
    }
}

/// A profile that holds the tool and all the present one holds. Only `minimal` is part of others.
fn wider_profile(kind: &LayerKind, tool: &Tool) -> Profile {
    let present = match kind {
        LayerKind::Profile(name) | LayerKind::ProviderProfile(name) => Profile::parse(name),
        LayerKind::WorkspaceAccess
        | LayerKind::ApplyPatch
        | LayerKind::GroupNames
        | LayerKind::MemoryFlush
        | LayerKind::MessageProvider
        | LayerKind::OwnerOnly
        | LayerKind::Global
        | LayerKind::GlobalProvider
        | LayerKind::Agent(_)
        | LayerKind::AgentProvider(_)
        | LayerKind::Chat
        | LayerKind::Sandbox
        | LayerKind::Subagent
        | LayerKind::DirectInvoke => None,
    };
    match present {
        Some(Profile::Minimal) | None => Profile::narrowest_with(tool.name.as_str()),
        Some(Profile::Coding | Profile::Messaging | Profile::Full) => Profile::Full,
    }
}
