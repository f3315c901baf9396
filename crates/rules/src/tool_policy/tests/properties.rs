//! Properties that hold for any policy.

use std::collections::BTreeMap;

use proptest::prelude::*;
use proptest::sample::{select, subsequence};

use super::*;

/// Entries that lists are made of: names, an alias, groups, patterns, typos.
const ENTRIES: &[&str] = &[
    "read",
    "write",
    "exec",
    "bash",
    "cron",
    "browser",
    "apply_patch",
    "group:fs",
    "group:ui",
    "group:runtime",
    "group:openclaw",
    "sessions_*",
    "*e*",
    "*",
    "image",
    "telegram",
    "nope",
    "group:nope",
    "",
];

/// The lists a config may hold, by key.
const LIST_KEYS: &[&str] = &[
    "tools.allow",
    "tools.deny",
    "tools.byProvider.openai.deny",
    "tools.sandbox.tools.allow",
    "tools.sandbox.tools.alsoAllow",
    "tools.sandbox.tools.deny",
    "tools.subagents.tools.deny",
    "agents.entries.w.tools.allow",
    "agents.entries.w.tools.deny",
    "agents.entries.w.tools.sandbox.tools.allow",
    "agents.entries.w.tools.sandbox.tools.alsoAllow",
    "agents.entries.w.tools.sandbox.tools.deny",
];

/// A config as a map from key to list, plus profiles.
#[derive(Debug, Clone, Default)]
struct Draft {
    lists: BTreeMap<String, Vec<String>>,
    values: BTreeMap<String, String>,
}

impl Draft {
    fn config(&self) -> Config {
        let quoted = |text: &String| format!("\"{text}\"");
        let mut root = Branch::default();
        for (key, list) in &self.lists {
            let items: Vec<String> = list.iter().map(quoted).collect();
            root.put(key, format!("[{}]", items.join(",")));
        }
        for (key, value) in &self.values {
            root.put(key, quoted(value));
        }
        config(&root.text())
    }

    /// Does what a change says; `false` if no edit of the config can.
    fn apply(&mut self, change: &Change) -> bool {
        match change {
            Change::Add { key, entry } => {
                self.lists.entry(key.clone()).or_default().push(entry.clone());
            }
            Change::Remove { key, entry, .. } => {
                self.list(key).retain(|known| known != entry);
            }
            Change::Replace { key, entry, with, .. } => {
                let list = self.list(key);
                list.retain(|known| known != entry);
                list.extend(with.iter().cloned());
            }
            Change::Set { key, value } => {
                self.values.insert(key.clone(), value.clone());
            }
            Change::OwnerSpeaks | Change::NotConfigurable(_) => return false,
        }
        true
    }

    fn list(&mut self, key: &str) -> &mut Vec<String> {
        self.lists.get_mut(key).expect("a written entry stands in a list")
    }
}

#[derive(Default)]
struct Branch {
    value: Option<String>,
    members: BTreeMap<String, Branch>,
}

impl Branch {
    fn put(&mut self, key: &str, value: String) {
        let mut branch = self;
        for part in key.split('.') {
            branch = branch.members.entry(part.to_owned()).or_default();
        }
        branch.value = Some(value);
    }

    fn text(&self) -> String {
        if let Some(value) = &self.value {
            return value.clone();
        }
        let members = self.members.iter();
        let members = members.map(|(key, branch)| format!("\"{key}\":{}", branch.text()));
        format!("{{{}}}", members.collect::<Vec<_>>().join(","))
    }
}

fn entries() -> impl Strategy<Value = Vec<String>> {
    subsequence(ENTRIES, 0..4).prop_map(|entries| entries.into_iter().map(str::to_owned).collect())
}

/// A config that the schema would accept: no scope has entries in both `allow` and `alsoAllow`.
fn draft() -> impl Strategy<Value = Draft> {
    let lists = subsequence(LIST_KEYS, 0..6).prop_flat_map(|keys| {
        let lists: Vec<_> = keys.iter().map(|_| entries()).collect();
        (Just(keys), lists)
    });
    let profile = prop::option::of(select(&["minimal", "coding", "messaging", "full"][..]));
    (lists, profile).prop_map(|((keys, lists), profile)| {
        let mut draft = Draft::default();
        for (key, list) in keys.into_iter().zip(lists) {
            draft.lists.insert(key.to_owned(), list);
        }
        for key in LIST_KEYS.iter().filter_map(|key| key.strip_suffix(".alsoAllow")) {
            if draft.lists.get(&format!("{key}.allow")).is_some_and(|list| !list.is_empty()) {
                draft.lists.remove(&format!("{key}.alsoAllow"));
            }
        }
        let profile = profile.map(|profile| ("tools.profile".to_owned(), profile.to_owned()));
        draft.values.extend(profile);
        draft
    })
}

fn session() -> impl Strategy<Value = Session> {
    let placements = select(vec![
        ToolPlacement::Host,
        sandbox(WorkspaceAccess::ReadWrite),
        sandbox(WorkspaceAccess::ReadOnly),
    ]);
    let roles = select(vec![None, Some(SubagentRole::Leaf), Some(SubagentRole::Orchestrator)]);
    (placements, roles).prop_map(|(placement, subagent)| Session {
        placement,
        subagent,
        model: Some(model("openai", "gpt-5")),
        ..host()
    })
}

fn any_tool() -> impl Strategy<Value = Tool> {
    let names: Vec<&str> = catalogue::tool_names().chain(["weather", "nope"]).collect();
    select(names).prop_map(Tool::core)
}

proptest! {
    #[test]
    fn no_layer_brings_back_what_another_took_away(
        draft in draft(), session in session(), tool in any_tool()
    ) {
        let layers = Layers::resolve(&draft.config(), &session);
        let one_by_one = layers.layers.iter().map(|layer| layer.decide(tool.subject()).is_ok());
        prop_assert_eq!(decide(&layers, &tool).is_allowed(), one_by_one.clone().all(|passes| passes));
        // The same, as a user meets it: with the first layers only, a blocked tool stays blocked
        // when the others are added.
        let mut first = layers.clone();
        while first.layers.pop().is_some() {
            if !decide(&first, &tool).is_allowed() {
                prop_assert!(!decide(&layers, &tool).is_allowed());
            }
        }
    }

    #[test]
    fn a_denied_name_stays_denied_whatever_else_is_written(
        mut draft in draft(), session in session(), tool in any_tool(),
        key in select(vec!["tools.deny", "agents.entries.w.tools.deny"])
    ) {
        draft.lists.entry(key.to_owned()).or_default().push(tool.name().to_string());
        let layers = Layers::resolve(&draft.config(), &session);
        prop_assert!(!decide(&layers, &tool).is_allowed());
    }

    #[test]
    fn the_catalogue_is_decided_like_its_tools(draft in draft(), session in session()) {
        let layers = Layers::resolve(&draft.config(), &session);
        for (tool, verdict) in decide_all(&layers) {
            prop_assert_eq!(verdict, decide(&layers, &tool));
        }
    }

    #[test]
    fn the_smallest_change_is_enough(draft in draft(), session in session(), tool in any_tool()) {
        let layers = Layers::resolve(&draft.config(), &session);
        let changes = smallest_change(&layers, &tool);
        prop_assert_eq!(changes.is_empty(), decide(&layers, &tool).is_allowed());
        let (mut changed, mut session) = (draft.clone(), session);
        for change in &changes {
            prop_assert!(changed.apply(change), "{change:?}");
            if change.key() == Some("agents.defaults.sandbox.workspaceAccess") {
                session.placement = sandbox(WorkspaceAccess::ReadWrite);
            }
        }
        let layers = Layers::resolve(&changed.config(), &session);
        prop_assert!(decide(&layers, &tool).is_allowed(), "{changes:?}\n{changed:?}");
        // The scopes still may not hold both lists.
        for key in changed.lists.keys().filter_map(|key| key.strip_suffix(".alsoAllow")) {
            let has = |name: &str| {
                changed.lists.get(&format!("{key}.{name}")).is_some_and(|list| !list.is_empty())
            };
            prop_assert!(!(has("allow") && has("alsoAllow")), "{changes:?}\n{draft:?}");
        }
    }

    #[test]
    fn a_verdict_is_the_same_by_any_spelling(draft in draft(), tool in any_tool()) {
        let layers = Layers::resolve(&draft.config(), &sandboxed());
        let shouted = Tool::core(&format!(" {}\t", tool.name().as_str().to_uppercase()));
        prop_assert_eq!(decide(&layers, &tool), decide(&layers, &shouted));
    }
}
