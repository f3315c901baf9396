//! Which sandboxes a command line means.

use clawpen_engine::config_store::Store;
use clawpen_engine::explain::{self, Question};
use clawpen_engine::lifecycle::{Listed, Origin};
use clawpen_rules::ids::AgentId;

use crate::args::lifecycle::Selection;
use crate::commands::CommandError;

/// One way to say which.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Wanted<'a> {
    All,
    /// Any key of a session, or the key of a scope.
    Session(&'a str),
    Agent(&'a str),
    Names(&'a [String]),
}

/// Reads the command line: exactly one way.
pub(super) fn parse<'a>(
    selection: &'a Selection,
    names: &'a [String],
) -> Result<Wanted<'a>, CommandError> {
    let mut ways = Vec::new();
    if selection.all {
        ways.push(Wanted::All);
    }
    ways.extend(selection.subject.session.as_deref().map(Wanted::Session));
    ways.extend(selection.subject.agent.as_deref().map(Wanted::Agent));
    if !names.is_empty() {
        ways.push(Wanted::Names(names));
    }
    let question = |what: &str| CommandError::Question { what: what.to_owned() };
    match ways.as_slice() {
        [_, _, ..] => Err(question("say only one of --all, --session and --agent")),
        _ => ways.pop().ok_or_else(|| question("say which: --all, --session KEY or --agent ID")),
    }
}

/// Those that are meant.
pub(super) fn choose(
    found: Vec<Listed>,
    wanted: &Wanted<'_>,
    selection: &Selection,
    store: &Store,
) -> Result<Vec<Listed>, CommandError> {
    let scope = match wanted {
        Wanted::Session(key) => {
            let question = Question { agent: None, session: Some(key), channels: &[] };
            Some(explain::explain(store, &question)?.runtime.scope_key.as_str().to_owned())
        }
        Wanted::All | Wanted::Agent(_) | Wanted::Names(_) => None,
    };
    let is_meant = |one: &Listed| {
        let key = match &one.origin {
            Origin::Ours(row) => row.scope.as_str(),
            Origin::Reference(foreign) => foreign.session_key.as_str(),
        };
        match wanted {
            Wanted::All => true,
            Wanted::Session(typed) => key == *typed || Some(key) == scope.as_deref(),
            Wanted::Agent(id) => is_of_agent(key, &AgentId::normalize(id)),
            Wanted::Names(names) => names.iter().any(|name| name == one.name()),
        }
    };
    let is_ours = |one: &Listed| match &one.origin {
        Origin::Ours(_) => true,
        Origin::Reference(_) => selection.filter.adopt,
    };
    let is_due = |one: &Listed| !selection.filter.stale || one.is_outdated();
    if let Wanted::Names(names) = wanted {
        names.iter().try_for_each(|name| named(name, &found, selection))?;
    }
    let chosen = found.into_iter().filter(|one| is_meant(one) && is_ours(one) && is_due(one));
    Ok(chosen.collect())
}

/// A name that was typed is there and may be touched: a typing error must not look like work done.
fn named(name: &str, found: &[Listed], selection: &Selection) -> Result<(), CommandError> {
    let what = match found.iter().find(|one| one.name() == name).map(|one| &one.origin) {
        Some(Origin::Ours(_)) => return Ok(()),
        Some(Origin::Reference(_)) if selection.filter.adopt => return Ok(()),
        Some(Origin::Reference(_)) => {
            format!("the reference made `{name}`; say --adopt to touch it")
        }
        None => format!("there is no sandbox `{name}`; `clawpen sandbox list` shows them"),
    };
    Err(CommandError::Question { what })
}

/// `agent:<id>` itself, or a session of that agent.
fn is_of_agent(key: &str, agent: &AgentId) -> bool {
    let Some(rest) = key.strip_prefix("agent:") else { return false };
    let id = rest.split(':').next().unwrap_or_default();
    AgentId::normalize(id) == *agent
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_agents_sandboxes_are_its_own_and_its_sessions() {
        let work = AgentId::normalize("Work");
        for (key, expected) in [
            ("agent:work", true),
            ("agent:work:main", true),
            ("agent:Work:telegram:1", true),
            ("agent:workers", false),
            ("shared", false),
            ("work", false),
        ] {
            assert_eq!(is_of_agent(key, &work), expected, "{key}");
        }
    }
}
