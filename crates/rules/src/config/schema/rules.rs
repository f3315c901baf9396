//! Rules of the schema that look at several keys of one object.
//!
//! What may be mounted, joined or left unconfined is decided in [`crate::mounts`]; this only hands
//! it the written values and puts its answer at the right key.

use super::{Issue, Problem};
use crate::config::tree::{At, Node};

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
    let join = flag(at.node, "dangerouslyAllowContainerNamespaceJoin");
    refuse(at, "network", issues, |text| mounts_network(text, join));
    refuse(at, "seccompProfile", issues, mounts_seccomp);
    refuse(at, "apparmorProfile", issues, mounts_apparmor);
}

/// Binds and network of a `browser` block, as far as they can be judged alone.
pub(super) fn browser(at: &At<'_>, issues: &mut Vec<Issue>) {
    binds(at, issues);
    refuse(at, "network", issues, mounts_browser_host);
}

/// Whether the browser may join another container's network: the flag stands in `docker`.
pub(super) fn sandbox(at: &At<'_>, issues: &mut Vec<Issue>) {
    let join = at
        .node
        .get("docker")
        .is_some_and(|docker| flag(docker, "dangerouslyAllowContainerNamespaceJoin"));
    if let Some(browser) = at.get("browser") {
        refuse(&browser, "network", issues, |text| mounts_browser_join(text, join));
    }
}

fn flag(node: &Node, key: &str) -> bool {
    node.get(key).and_then(Node::as_bool).unwrap_or(false)
}

fn binds(at: &At<'_>, issues: &mut Vec<Issue>) {
    let Some(list) = at.get("binds") else { return };
    for bind in list.items() {
        if let Some(why) = bind.node.as_str().and_then(mounts_bind) {
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

fn mounts_network(_text: &str, _join: bool) -> Option<String> {
    None
}
fn mounts_seccomp(_text: &str) -> Option<String> {
    None
}
fn mounts_apparmor(_text: &str) -> Option<String> {
    None
}
fn mounts_browser_host(_text: &str) -> Option<String> {
    None
}
fn mounts_browser_join(_text: &str, _join: bool) -> Option<String> {
    None
}
fn mounts_bind(_text: &str) -> Option<String> {
    None
}
