//! One list of a policy: as written, and compiled for matching.
//!
//! Compiling normalises every entry, replaces groups by their tools and drops blanks and repeats.
//! What comes out remembers the entry it came from and where that was written, so a verdict can
//! name the rule that settled it. Matching costs one hash look-up plus the list's few patterns.

use std::collections::{HashMap, HashSet};

use super::catalogue::{self, PLUGIN_GROUP};
use super::glob::Glob;
use super::name::{Audience, Subject, ToolName};
use super::warning;
use crate::config::setting::{Layer, Origin};
use crate::config::tree::At;

/// An entry as the config writes it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Written {
    pub text: String,
    /// `key` is the list's key; `place` is where the entry itself stands.
    pub origin: Origin,
}

/// One name of an expanded list, and the entry it came from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Named {
    /// A tool's normal name or a pattern.
    pub name: String,
    pub written: Written,
}

/// Which way a list works. The same mistake fails closed in opposite ways on the two sides.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Side {
    Allow,
    Deny,
}

/// One rule of a compiled list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// As written: a name, a pattern, a group or a profile.
    pub text: String,
    pub origin: Origin,
    pattern: Pattern,
}

/// What an entry matches.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Pattern {
    /// One tool, or all tools of the plugin with this id.
    Name(String),
    Glob(Glob),
    /// Whatever a plugin brings.
    Plugins,
    /// Whatever says of itself that it is for the owner.
    OwnerTools,
    /// Every tool: the entry holds a reference that could not be replaced.
    Everything,
}

/// A compiled list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct List {
    side: Side,
    entries: Vec<Entry>,
    /// Name to position of its entry.
    names: HashMap<String, usize>,
    /// Positions of the entries that are no plain names.
    patterns: Vec<usize>,
}

impl Written {
    /// The strings of the array at `at`; `None` if it is no array.
    pub fn read(layer: Layer, at: &At<'_>) -> Option<Vec<Self>> {
        let items = at.node.as_array()?;
        let entry = |item: &crate::config::tree::Node| {
            let text = item.as_str()?.to_owned();
            let origin = Origin { layer, key: at.key.clone(), place: Some(item.place) };
            Some(Self { text, origin })
        };
        Some(items.iter().filter_map(entry).collect())
    }

    /// Entries of this program, changed by `key`.
    pub fn built_in(names: &[&str], key: &str) -> Vec<Self> {
        let entry = |name: &&str| Self { text: (*name).to_owned(), origin: Origin::built_in(key) };
        names.iter().map(entry).collect()
    }
}

/// Normalises a list and replaces groups by their tools; blanks and repeats are dropped.
pub fn expand<'a>(list: impl IntoIterator<Item = &'a str>) -> Vec<String> {
    let mut seen = HashSet::new();
    let names = list.into_iter().flat_map(expand_entry);
    names.filter(|name| seen.insert(name.clone())).collect()
}

/// The same, each name with the entry it came from. A name that several entries stand for comes
/// once for each: to take it away, all of them must go.
pub(super) fn expand_written(list: &[Written]) -> Vec<Named> {
    let names = |written: &Written| {
        let named = |name| Named { name, written: written.clone() };
        expand_entry(&written.text).into_iter().map(named).collect::<Vec<_>>()
    };
    list.iter().flat_map(names).collect()
}

/// What one entry stands for.
fn expand_entry(text: &str) -> Vec<String> {
    let name = ToolName::normalize(text);
    if name.as_str().is_empty() {
        return Vec::new();
    }
    match catalogue::group(name.as_str()) {
        Some(tools) => tools.into_iter().map(str::to_owned).collect(),
        None => vec![name.as_str().to_owned()],
    }
}

impl List {
    pub(super) fn new(side: Side) -> Self {
        Self { side, entries: Vec::new(), names: HashMap::new(), patterns: Vec::new() }
    }

    pub(super) fn compile(side: Side, written: &[Written]) -> Self {
        Self::of(side, &expand_written(written))
    }

    pub(super) fn of(side: Side, named: &[Named]) -> Self {
        let mut list = Self::new(side);
        for Named { name, written } in named {
            list.push(&written.text, &written.origin, name.clone());
        }
        list
    }

    /// Adds the rule that closes (or opens) what is flagged as the owner's.
    pub(super) fn push_owner_tools(&mut self, origin: Origin) {
        self.patterns.push(self.entries.len());
        let text = "owner-only".to_owned();
        self.entries.push(Entry { text, origin, pattern: Pattern::OwnerTools });
    }

    /// Adds one rule for `name`, which came out of the entry `text`.
    pub(super) fn push(&mut self, text: &str, origin: &Origin, name: String) {
        let position = self.entries.len();
        let pattern = if self.side == Side::Deny && name.contains("${") {
            // A variable that is not set: nobody knows what was to be denied, so everything is.
            Pattern::Everything
        } else if let Some(glob) = Glob::compile(&name) {
            Pattern::Glob(glob)
        } else if name == PLUGIN_GROUP {
            Pattern::Plugins
        } else {
            if let Some(group) = self.misspelt_group(&name) {
                for name in expand_entry(group) {
                    self.push(text, origin, name);
                }
                return;
            }
            Pattern::Name(name)
        };
        match &pattern {
            Pattern::Name(name) => {
                self.names.entry(name.clone()).or_insert(position);
            }
            Pattern::Glob(_) | Pattern::Plugins | Pattern::OwnerTools | Pattern::Everything => {
                self.patterns.push(position);
            }
        }
        self.entries.push(Entry { text: text.to_owned(), origin: origin.clone(), pattern });
    }

    /// The group that a deny entry most likely meant. Group names are a closed set, so an unknown
    /// one is a mistake, and a deny that silently matches nothing would fail open.
    fn misspelt_group(&self, name: &str) -> Option<&'static str> {
        match self.side {
            Side::Allow => None,
            Side::Deny => warning::nearest_group(name),
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// The first entry, in written order, that matches.
    pub(super) fn matching(&self, tool: Subject<'_>) -> Option<&Entry> {
        let named = self.names.get(tool.name).copied();
        let plugin = tool.plugin.and_then(|id| self.position_of_plugin(id));
        let first = named.into_iter().chain(plugin).min();
        let pattern = self.patterns.iter().copied().find(|&position| {
            first.is_none_or(|first| position < first)
                && self.entries.get(position).is_some_and(|entry| entry.matches(tool))
        });
        self.entries.get(pattern.or(first)?)
    }

    /// Every entry that matches, in written order.
    pub(super) fn all_matching(&self, tool: Subject<'_>) -> Vec<&Entry> {
        let id = tool.plugin.filter(|id| self.position_of_plugin(id).is_some());
        let plugin = id.map(Subject::core);
        let matches = |entry: &&Entry| {
            entry.matches(tool) || plugin.is_some_and(|id| entry.is_name() && entry.matches(id))
        };
        self.entries.iter().filter(matches).collect()
    }

    /// The entry that is a plugin's id. Where the id is also the name of a core tool, an allow
    /// entry means the tool only: a plugin cannot let itself in by its choice of id. A deny entry
    /// means both.
    fn position_of_plugin(&self, id: &str) -> Option<usize> {
        match self.side {
            Side::Allow if catalogue::find(id).is_some() => None,
            Side::Allow | Side::Deny => self.names.get(id).copied(),
        }
    }

    pub(super) fn entries(&self) -> &[Entry] {
        &self.entries
    }
}

impl Entry {
    pub(super) fn matches(&self, tool: Subject<'_>) -> bool {
        match &self.pattern {
            Pattern::Name(name) => tool.name == name,
            Pattern::Glob(glob) => glob.matches(tool.name),
            Pattern::Plugins => tool.plugin.is_some(),
            Pattern::OwnerTools => tool.audience == Audience::Owner,
            Pattern::Everything => true,
        }
    }

    /// Says whether the entry is a name for several tools or a pattern, so that taking it out
    /// opens (or closes) more than one tool.
    pub fn covers_more(&self) -> bool {
        match &self.pattern {
            Pattern::Name(name) => *name != ToolName::normalize(&self.text).as_str(),
            Pattern::Glob(_) | Pattern::Plugins | Pattern::OwnerTools | Pattern::Everything => true,
        }
    }

    /// Says whether the entry has a `*` in it.
    pub(super) fn is_pattern(&self) -> bool {
        match &self.pattern {
            Pattern::Glob(_) | Pattern::Everything => true,
            Pattern::Name(_) | Pattern::Plugins | Pattern::OwnerTools => false,
        }
    }

    /// Says whether the entry is a name, of a tool or of a plugin.
    fn is_name(&self) -> bool {
        match &self.pattern {
            Pattern::Name(_) => true,
            Pattern::Glob(_) | Pattern::Plugins | Pattern::OwnerTools | Pattern::Everything => {
                false
            }
        }
    }
}
