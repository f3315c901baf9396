//! Tool names in normal form, and tools as the evaluator sees them.
//!
//! A [`ToolName`] can only be made by normalising, so two spellings of one tool never slip past a
//! list: ` BASH `, `bash` and `exec` are the same name everywhere.

use std::fmt;

/// Spellings that mean another tool.
pub(super) const ALIASES: &[(&str, &str)] = &[("bash", "exec"), ("apply-patch", "apply_patch")];

/// A tool's name in normal form: trimmed, lower case, aliases replaced.
///
/// May be empty: a blank name is no tool, and no exact entry of a list matches it.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ToolName(String);

impl ToolName {
    /// Brings any text into normal form.
    pub fn normalize(text: &str) -> Self {
        let folded = fold(text);
        let alias = ALIASES.iter().find(|(alias, _)| *alias == folded);
        Self(alias.map_or(folded, |(_, name)| (*name).to_owned()))
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for ToolName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Trims and lower-cases. The byte order mark counts as blank, as it does in JavaScript: an entry
/// pasted with one must still match.
pub(crate) fn fold(text: &str) -> String {
    text.trim_matches(|c: char| c.is_whitespace() || c == '\u{feff}').to_lowercase()
}

/// Who may be offered a tool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Audience {
    Everyone,
    /// The tool itself says that only the owner may use it.
    Owner,
}

/// A tool as policy sees it: its name, the plugin that brings it, and who it is for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tool {
    pub(super) name: ToolName,
    pub(super) plugin: Option<ToolName>,
    pub(super) audience: Audience,
}

impl Tool {
    /// A tool of the core, by any spelling of its name.
    pub fn core(name: &str) -> Self {
        Self { name: ToolName::normalize(name), plugin: None, audience: Audience::Everyone }
    }

    /// A tool that the plugin `id` brings.
    pub fn of_plugin(name: &str, id: &str) -> Self {
        Self { plugin: Some(ToolName::normalize(id)), ..Self::core(name) }
    }

    /// The same tool, for the owner only.
    #[must_use]
    pub fn for_owner(self) -> Self {
        Self { audience: Audience::Owner, ..self }
    }

    pub const fn name(&self) -> &ToolName {
        &self.name
    }
}

/// What lists are matched against: a tool by reference, so that one verdict allocates nothing.
#[derive(Debug, Clone, Copy)]
pub(super) struct Subject<'a> {
    pub(super) name: &'a str,
    pub(super) plugin: Option<&'a str>,
    pub(super) audience: Audience,
}

impl Tool {
    pub(super) fn subject(&self) -> Subject<'_> {
        Subject {
            name: self.name.as_str(),
            plugin: self.plugin.as_ref().map(ToolName::as_str),
            audience: self.audience,
        }
    }
}

impl<'a> Subject<'a> {
    /// A tool of the core.
    pub(super) const fn core(name: &'a str) -> Self {
        Self { name, plugin: None, audience: Audience::Everyone }
    }

    /// The tool that this one goes with. A patch writes files, so whoever may not write may not
    /// patch, and whoever may write may patch. Listing and searching are reading in the same way:
    /// the reference has no such tools, so no list of its users names them.
    pub(super) fn goes_with(self) -> Option<Subject<'static>> {
        match self.name {
            "apply_patch" => Some(Subject::core("write")),
            "ls" | "grep" | "find" => Some(Subject::core("read")),
            _ => None,
        }
    }
}
