//! Where `tool-policy` rows are answered differently on purpose.

mod lists;

use serde_json::Value;

use super::Rule;
use lists::{expand, fold, matches_any, strings};

pub(super) const RULES: &[Rule] = &[
    // The recorded text for a refused call was made by a second, simpler matcher than the one that
    // refuses; ours are the same.
    Rule {
        name: "apply-patch-follows-write",
        category: "sandbox-decision",
        applies: |input| is_patch(input) && couples(input),
        transform: |input, expected| {
            let (allowed, reason) = match patch_by_write(input) {
                Write::Denied => (false, Value::from("deny")),
                Write::Listed => (true, Value::Null),
                Write::Neither => return expected,
            };
            serde_json::json!({
                "allowed": allowed,
                "blockedByDeny": !allowed,
                "blockedByAllow": false,
                "reason": reason,
            })
        },
    },
    // The recorded release throws an allow list away if it knows none of its entries.
    Rule {
        name: "allow-list-always-enforced",
        category: "pipeline",
        applies: |input| layers(input).iter().any(|layer| is_discarded(input, &layer.entries)),
        transform: |input, mut expected| {
            for layer in layers(input) {
                if !is_discarded(input, &layer.entries) {
                    continue;
                }
                for (name, plugin) in tools(input) {
                    let partner = (name == "apply_patch").then_some("write");
                    let names = [Some(name.as_str()), partner];
                    let listed = names
                        .into_iter()
                        .flatten()
                        .any(|name| matches_any(&layer.entries, name, plugin.as_deref()));
                    if !listed {
                        block(&mut expected, &name, &layer.label);
                    }
                }
            }
            expected
        },
    },
    // The recorded release reads a `tools.exec` or `tools.fs` section as a wish for these tools.
    Rule {
        name: "no-implicit-profile-widening",
        category: "pipeline",
        applies: |input| profile(input).is_some() && !implied(input).is_empty(),
        transform: |input, mut expected| {
            let Some(profile) = profile(input) else { return expected };
            let also_allow = also_allow(input);
            for name in implied(input) {
                let partner = if name == "apply_patch" { "write" } else { name };
                let explicit =
                    [name, partner].iter().any(|name| matches_any(&also_allow, name, None));
                if !explicit {
                    block(&mut expected, name, &format!("tools.profile ({profile})"));
                }
            }
            expected
        },
    },
    // The recorded release takes a sub-agent whose key names no agent for a main session.
    Rule {
        name: "unscoped-subagent-has-a-depth",
        category: "pipeline",
        applies: |input| {
            let key = fold(input["sessionKey"].as_str().unwrap_or_default());
            let above = key.matches(":subagent:").count();
            let deepest = &input["config"]["agents"]["defaults"]["subagents"]["maxSpawnDepth"];
            key.starts_with("subagent:") && deepest.as_u64().unwrap_or(1) == above as u64 + 1
        },
        transform: |input, mut expected| {
            let section = &input["config"]["tools"]["subagents"]["tools"];
            let mut lifted: Vec<String> = strings(&section["allow"]);
            lifted.extend(strings(&section["alsoAllow"]));
            for name in ["subagents", "sessions_list", "sessions_history", "sessions_spawn"] {
                if !lifted.iter().any(|entry| fold(entry) == name) {
                    block(&mut expected, name, "subagent tools.allow");
                }
            }
            expected
        },
    },
];

fn is_patch(input: &Value) -> bool {
    let tool = fold(input["tool"].as_str().unwrap_or_default());
    tool == "apply_patch" || tool == "apply-patch"
}

/// What the policy of a row says of `write`, where that settles `apply_patch`.
enum Write {
    Denied,
    Listed,
    Neither,
}

fn patch_by_write(input: &Value) -> Write {
    let allow = expand(&strings(&input["policy"]["allow"]));
    let deny = expand(&strings(&input["policy"]["deny"]));
    let has = |list: &[String], name| matches_any(list, name, None);
    if has(&deny, "apply_patch") {
        Write::Neither
    } else if has(&deny, "write") {
        Write::Denied
    } else if has(&allow, "write") {
        Write::Listed
    } else {
        Write::Neither
    }
}

fn couples(input: &Value) -> bool {
    match patch_by_write(input) {
        Write::Denied | Write::Listed => true,
        Write::Neither => false,
    }
}

/// An allow list of a row's config and the label of its layer.
struct AllowLayer {
    label: String,
    entries: Vec<String>,
}

/// The allow lists that the recorded release might throw away, in order of application.
fn layers(input: &Value) -> Vec<AllowLayer> {
    let id = agent_id(input);
    let sections = [
        ("tools.allow".to_owned(), global(input)),
        ("tools.byProvider.allow".to_owned(), by_provider(input, global(input))),
        (format!("agents.{id}.tools.allow"), agent(input)),
        (format!("agents.{id}.tools.byProvider.allow"), by_provider(input, agent(input))),
    ];
    let entries = |section: &Value| {
        let allow = strings(&section["allow"]);
        // Beside an absent or empty list, `alsoAllow` adds to everything.
        if allow.is_empty() {
            return Vec::new();
        }
        expand(&[allow, strings(&section["alsoAllow"])].concat())
    };
    sections
        .into_iter()
        .map(|(label, section)| AllowLayer { label, entries: entries(section) })
        .collect()
}

/// Says whether a list has entries, none of which is a core tool that is present.
fn is_discarded(input: &Value, entries: &[String]) -> bool {
    let core = strings(&input["coreTools"]);
    !entries.is_empty() && !entries.iter().any(|entry| entry == "*" || core.contains(entry))
}

fn agent_id(input: &Value) -> String {
    let key = fold(input["sessionKey"].as_str().unwrap_or_default());
    let id = key.strip_prefix("agent:").and_then(|rest| rest.split(':').next());
    id.unwrap_or("main").to_owned()
}

fn global(input: &Value) -> &Value {
    &input["config"]["tools"]
}

fn agent(input: &Value) -> &Value {
    let id = agent_id(input);
    let list = input["config"]["agents"]["list"].as_array();
    let entry = list.into_iter().flatten().find(|entry| entry["id"].as_str() == Some(&id));
    entry.map_or(&Value::Null, |entry| &entry["tools"])
}

fn by_provider<'a>(input: &Value, tools: &'a Value) -> &'a Value {
    let text = |key: &str| fold(input[key].as_str().unwrap_or_default());
    let (provider, model) = (text("modelProvider"), text("modelId"));
    let full = if model.contains('/') { model } else { format!("{provider}/{model}") };
    let map = tools["byProvider"].as_object();
    let find = |name: &str| {
        map.into_iter().flatten().find(|(key, _)| fold(key) == name).map(|(_, section)| section)
    };
    find(&full).or_else(|| find(&provider)).unwrap_or(&Value::Null)
}

/// Every tool of a row, with the plugin it comes from.
fn tools(input: &Value) -> Vec<(String, Option<String>)> {
    let core = strings(&input["coreTools"]).into_iter().map(|name| (name, None));
    let plugins = input["pluginTools"].as_array().into_iter().flatten().map(|tool| {
        let text = |key: &str| tool[key].as_str().unwrap_or_default().to_owned();
        (text("name"), Some(text("pluginId")))
    });
    core.chain(plugins).collect()
}

/// The profile in force, if it is one without file and runtime tools.
fn profile(input: &Value) -> Option<&str> {
    let profile = agent(input)["profile"].as_str().or(global(input)["profile"].as_str());
    profile.filter(|profile| matches!(*profile, "minimal" | "messaging"))
}

fn also_allow(input: &Value) -> Vec<String> {
    let own = &agent(input)["alsoAllow"];
    expand(&strings(if own.is_array() { own } else { &global(input)["alsoAllow"] }))
}

/// The tools that the sections of a row's config stand for.
fn implied(input: &Value) -> Vec<&'static str> {
    let has = |key: &str| global(input)[key].is_object() || agent(input)[key].is_object();
    let mut names = Vec::new();
    if has("exec") {
        names.extend(["exec", "process"]);
    }
    if has("fs") {
        names.extend(["read", "write", "edit", "apply_patch"]);
    }
    names
}

/// Takes a tool away in the layer `label`, unless an earlier layer has done so.
fn block(expected: &mut Value, name: &str, label: &str) {
    let recorded = expected["blockedBy"][name].as_str();
    if recorded.is_some_and(|recorded| rank(recorded) <= rank(label)) {
        return;
    }
    let Some(allowed) = expected["allowed"].as_array_mut() else { return };
    let before = allowed.len();
    allowed.retain(|tool| tool != name);
    let was_allowed = allowed.len() != before;
    if was_allowed || expected["blockedBy"][name].is_string() {
        expected["blockedBy"][name] = label.into();
    }
}

/// The order of the layers, by their labels.
fn rank(label: &str) -> usize {
    let is_agent = label.starts_with("agents.");
    match label {
        "owner-only" => 0,
        _ if label.starts_with("tools.profile") => 1,
        _ if label.starts_with("tools.byProvider.profile") => 2,
        "tools.allow" => 3,
        "tools.byProvider.allow" => 4,
        _ if is_agent && !label.contains("byProvider") => 5,
        _ if is_agent => 6,
        "group tools.allow" => 7,
        "sandbox tools.allow" => 8,
        _ => 9,
    }
}
