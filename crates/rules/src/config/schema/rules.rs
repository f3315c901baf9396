//! Rules of the schema that look at several keys of one object.
//!
//! What may be mounted, joined or left unconfined is decided in [`crate::mounts`]; this only hands
//! it the written values and puts its answer at the right key.

use super::{Issue, Problem};
use crate::config::tree::{At, Node};
use crate::mounts::{
    NamespaceJoin, NetworkRefusal, ProfileKind, decide_bind_entry, decide_browser_network,
    decide_network, decide_profile,
};

/// `allow` and `alsoAllow` of one scope exclude each other, unless one of them is empty.
pub(super) fn policy(at: &At<'_>, issues: &mut Vec<Issue>) {
    both_lists(at, "this tool policy", issues);
}

pub(super) fn root_tools(at: &At<'_>, issues: &mut Vec<Issue>) {
    both_lists(at, "the tools section", issues);
}

pub(super) fn agent_tools(at: &At<'_>, issues: &mut Vec<Issue>) {
    both_lists(at, "this agent's tools section", issues);
}

pub(super) fn provider_policy(at: &At<'_>, issues: &mut Vec<Issue>) {
    both_lists(at, "this byProvider policy", issues);
}

fn both_lists(at: &At<'_>, scope: &'static str, issues: &mut Vec<Issue>) {
    let is_filled = |key: &str| {
        at.node.get(key).and_then(Node::as_array).is_some_and(|items| !items.is_empty())
    };
    if is_filled("allow") && is_filled("alsoAllow") {
        let problem = Problem::AllowAndAlsoAllow { scope };
        issues.push(Issue { key: at.key.clone(), place: at.node.place, problem });
    }
}

/// Binds, network and profiles of a `docker` block.
pub(super) fn docker(at: &At<'_>, issues: &mut Vec<Issue>) {
    binds(at, issues);
    let join = join_flag(at.node);
    refuse(at, "network", issues, |text| reason(decide_network(text, join)));
    let profile = |kind| move |text: &str| reason(decide_profile(kind, text));
    refuse(at, "seccompProfile", issues, profile(ProfileKind::Seccomp));
    refuse(at, "apparmorProfile", issues, profile(ProfileKind::AppArmor));
}

/// Binds and network of a `browser` block, as far as they can be judged alone.
pub(super) fn browser(at: &At<'_>, issues: &mut Vec<Issue>) {
    binds(at, issues);
    // Joining another container is judged by `sandbox`, which sees the flag.
    let judge = |text: &str| reason(decide_browser_network(text, NamespaceJoin::Allowed));
    refuse(at, "network", issues, judge);
}

/// How often an agent is woken: a time that can be read.
pub(super) fn heartbeat(at: &At<'_>, issues: &mut Vec<Issue>) {
    refuse(at, "every", issues, |text| {
        let is_read = crate::heartbeat::duration(text).is_some();
        (!is_read).then(|| format!("`{text}` is no time; write it like `30m`, `2h` or `0m`"))
    });
}

/// The hours in which it is.
pub(super) fn active_hours(at: &At<'_>, issues: &mut Vec<Issue>) {
    for key in ["start", "end", "timezone"] {
        refuse(at, key, issues, |text| crate::heartbeat::check_hours(key, text));
    }
}

/// Whether the browser may join another container's network: the flag stands in `docker`.
pub(super) fn sandbox(at: &At<'_>, issues: &mut Vec<Issue>) {
    let join = at.node.get("docker").map_or(NamespaceJoin::Refused, join_flag);
    let Some(browser) = at.get("browser") else { return };
    refuse(&browser, "network", issues, |text| match decide_browser_network(text, join) {
        Err(refusal @ NetworkRefusal::Join { .. }) => Some(refusal.to_string()),
        Err(NetworkRefusal::Host { .. }) | Ok(()) => None,
    });
}

fn join_flag(docker: &Node) -> NamespaceJoin {
    match docker.get("dangerouslyAllowContainerNamespaceJoin").and_then(Node::as_bool) {
        Some(true) => NamespaceJoin::Allowed,
        Some(false) | None => NamespaceJoin::Refused,
    }
}

/// The reason of a refusal, in words.
fn reason<E: std::fmt::Display>(verdict: Result<(), E>) -> Option<String> {
    verdict.err().map(|refusal| refusal.to_string())
}

fn binds(at: &At<'_>, issues: &mut Vec<Issue>) {
    let Some(list) = at.get("binds") else { return };
    for bind in list.items() {
        if let Some(why) = bind.node.as_str().and_then(|text| reason(decide_bind_entry(text))) {
            let problem = Problem::Unsafe(why);
            issues.push(Issue { key: bind.key, place: bind.node.place, problem });
        }
    }
}

/// Reports the text at `key` if `judge` gives a reason against it.
fn refuse(at: &At<'_>, key: &str, issues: &mut Vec<Issue>, judge: impl Fn(&str) -> Option<String>) {
    let Some(value) = at.get(key) else { return };
    if let Some(why) = value.node.as_str().and_then(judge) {
        let problem = Problem::Unsafe(why);
        issues.push(Issue { key: value.key, place: value.node.place, problem });
    }
}
