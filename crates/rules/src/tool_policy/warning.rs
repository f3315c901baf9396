//! Entries of policy lists that are probably mistakes, found when the layers are built.
//!
//! Nothing here changes a verdict; the texts name key, entry and the nearest known name.

use std::fmt;

use super::catalogue::{self, GROUP_PREFIX};
use super::glob::Glob;
use super::list::Written;
use super::name::{ALIASES, Tool, ToolName};
use crate::config::setting::{Layer, Origin};
use crate::spelling;

/// Something about a policy that its author should know.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Warning {
    pub origin: Origin,
    /// The entry as written.
    pub entry: String,
    pub problem: Problem,
}

/// What is odd about an entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Problem {
    /// No group has this name. In an allow list it opens nothing; in a deny list the tools of the
    /// nearest group are denied, if one is near enough.
    UnknownGroup { nearest: Option<&'static str> },
    /// No known tool, plugin or channel has this name.
    UnknownName { nearest: Option<String> },
    /// The same in a deny list: the nearest tool is denied until the name is corrected.
    DeniesNearest { nearest: String },
    /// The entry holds a reference to a variable that is not set. In a deny list it stands for every
    /// tool, in an allow list for none.
    Unresolved,
    /// The pattern matches no known tool.
    MatchesNothing,
    /// The pattern in an allow list takes these names off the sandbox's default deny list.
    LiftsDefaultDenies { lifted: Vec<String> },
    /// No profile has this name: everything is refused until it is corrected.
    UnknownProfile,
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { origin, entry, problem } = self;
        let key = &origin.key;
        match problem {
            Problem::UnknownGroup { nearest: Some(nearest) } => {
                write!(f, "`{entry}` in `{key}` is no group; did you mean `{nearest}`?")
            }
            Problem::UnknownGroup { nearest: None } => {
                write!(f, "`{entry}` in `{key}` is no group and matches nothing")
            }
            Problem::UnknownName { nearest: Some(nearest) } => {
                write!(f, "`{entry}` in `{key}` is no known tool; did you mean `{nearest}`?")
            }
            Problem::UnknownName { nearest: None } => {
                write!(f, "`{entry}` in `{key}` is no known tool")
            }
            Problem::DeniesNearest { nearest } => write!(
                f,
                "`{entry}` in `{key}` is no known tool; `{nearest}` is denied until the name is \
                 corrected"
            ),
            Problem::Unresolved => write!(
                f,
                "`{entry}` in `{key}` refers to a variable that is not set; in a deny list it stands \
                 for every tool, in an allow list for none"
            ),
            Problem::MatchesNothing => write!(f, "`{entry}` in `{key}` matches no known tool"),
            Problem::LiftsDefaultDenies { lifted } => write!(
                f,
                "`{entry}` in `{key}` also lifts the sandbox's default deny of {}; name the tools \
                 you want, or set `deny` beside it",
                lifted.join(", ")
            ),
            Problem::UnknownProfile => write!(
                f,
                "`{entry}` in `{key}` is no profile, so every tool is refused; use minimal, coding, \
                 messaging or full"
            ),
        }
    }
}

/// Looks over the entries of one list. `offered` are the tools that exist beyond the catalogue.
pub(super) fn check(list: &[Written], offered: &[Tool]) -> Vec<Warning> {
    let written = |entry: &&Written| match entry.origin.layer {
        Layer::Defaults | Layer::Agent => true,
        Layer::BuiltIn | Layer::Derived => false,
    };
    let warn = |entry: &Written| {
        let problem = problem(&ToolName::normalize(&entry.text), offered)?;
        Some(Warning { origin: entry.origin.clone(), entry: entry.text.clone(), problem })
    };
    list.iter().filter(written).filter_map(warn).collect()
}

fn problem(name: &ToolName, offered: &[Tool]) -> Option<Problem> {
    let text = name.as_str();
    let is_known = |known: &str| text == known;
    if text.is_empty() {
        return None;
    }
    if text.contains("${") {
        return Some(Problem::Unresolved);
    }
    if let Some(glob) = Glob::compile(text) {
        let matches_one = catalogue::tool_names().any(|name| glob.matches(name))
            || offered.iter().any(|tool| glob.matches(tool.name.as_str()));
        return (!matches_one).then_some(Problem::MatchesNothing);
    }
    if text.starts_with(GROUP_PREFIX) {
        let known = catalogue::group_names().any(is_known);
        return (!known).then(|| Problem::UnknownGroup { nearest: nearest_group(text) });
    }
    let is_offered = |tool: &Tool| {
        tool.name == *name || tool.plugin.as_ref().is_some_and(|plugin| plugin == name)
    };
    if catalogue::tool_names().any(is_known) || offered.iter().any(is_offered) {
        return None;
    }
    let mut names: Vec<&str> = catalogue::tool_names().collect();
    names.extend(ALIASES.iter().map(|(alias, _)| *alias));
    names.extend(offered.iter().map(|tool| tool.name.as_str()));
    let nearest = nearest(text, names.into_iter()).map(str::to_owned);
    Some(Problem::UnknownName { nearest })
}

/// The known group whose name is nearest to a misspelt one.
pub(super) fn nearest_group(name: &str) -> Option<&'static str> {
    // The common prefix must not make strangers look alike: compare what follows it.
    let wanted = name.strip_prefix(GROUP_PREFIX)?;
    let names = catalogue::group_names().filter_map(|name| name.strip_prefix(GROUP_PREFIX));
    let near = nearest(wanted, names)?;
    catalogue::group_names().find(|name| name.strip_prefix(GROUP_PREFIX) == Some(near))
}

/// The name at most two typing mistakes away (one for short names); the first of equals.
fn nearest<'a>(wanted: &str, names: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    // Longer text is no slip of the finger, and must not cost quadratic time.
    const LONGEST: usize = 32;
    let length = wanted.chars().take(LONGEST + 1).count();
    let allowed = match length {
        0 => return None,
        1..=4 => 1,
        5..=LONGEST => 2,
        _ => return None,
    };
    names
        .filter(|name| name.len().abs_diff(length) <= allowed)
        .map(|name| (spelling::distance(wanted, name), name))
        .filter(|(distance, _)| (1..=allowed).contains(distance))
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, name)| name)
}
