//! The config as clients are shown it: with the values that the reference fills in.
//!
//! They are shown and never written: a default that nobody asked for does not become part of the
//! user's file.

use super::patch::member;
use super::tree::{Node, Object, Value};

/// Fills in what a config does not say.
#[must_use]
pub fn with_defaults(config: &Node) -> Node {
    let mut config = config.clone();
    if !matches!(config.value, Value::Object(_)) {
        config.value = Value::Object(Object::default());
    }
    // See `load`: no other name is honoured.
    if let Some(key) = config.child("session").and_then(|session| session.child("mainKey")) {
        key.value = Value::String("main".to_owned());
    }
    for (path, value) in [
        (["commands", "native"], text("auto")),
        (["commands", "nativeSkills"], text("auto")),
        (["commands", "restart"], Node::synthetic(Value::Bool(true))),
        (["commands", "ownerDisplay"], text("raw")),
        (["messages", "ackReactionScope"], text("group-mentions")),
    ] {
        fill(&mut config, &path, value);
    }
    fill(&mut config, &["agents", "defaults", "maxConcurrent"], number(4.0));
    fill(&mut config, &["agents", "defaults", "subagents", "maxConcurrent"], number(8.0));
    let providers = config.child("models").and_then(|models| models.child("providers"));
    if let Some(Value::Object(providers)) = providers.map(|node| &mut node.value) {
        for provider in providers.members_mut() {
            fill_models(&mut provider.node);
        }
    }
    config
}

/// What each model of a provider has, whether it is written or not.
fn fill_models(provider: &mut Node) {
    let api = provider.get("api").cloned();
    let Some(Value::Array(models)) = provider.child("models").map(|node| &mut node.value) else {
        return;
    };
    for model in models.iter_mut().filter(|model| model.as_object().is_some()) {
        if let Some(api) = &api {
            fill(model, &["api"], api.clone());
        }
        fill(model, &["reasoning"], Node::synthetic(Value::Bool(false)));
        fill(model, &["input"], Node::synthetic(Value::Array(vec![text("text")])));
        for price in ["input", "output", "cacheRead", "cacheWrite"] {
            fill(model, &["cost", price], number(0.0));
        }
        fill(model, &["contextWindow"], number(200_000.0));
        fill(model, &["maxTokens"], number(8192.0));
    }
}

/// Sets a value that is not there. A part of the path that is no object stays as it is.
fn fill(node: &mut Node, path: &[&str], value: Node) {
    let Some((key, rest)) = path.split_first() else { return };
    let Value::Object(object) = &mut node.value else { return };
    if rest.is_empty() {
        if !object.contains(key) {
            object.insert(member(key, value));
        }
        return;
    }
    if !object.contains(key) {
        object.insert(member(key, Node::synthetic(Value::Object(Object::default()))));
    }
    if let Some(next) = object.get_mut(key) {
        fill(next, rest, value);
    }
}

impl Node {
    fn child(&mut self, key: &str) -> Option<&mut Self> {
        match &mut self.value {
            Value::Object(object) => object.get_mut(key),
            Value::Null
            | Value::Bool(_)
            | Value::Number(_)
            | Value::String(_)
            | Value::Array(_) => None,
        }
    }
}

fn text(text: &str) -> Node {
    Node::synthetic(Value::String(text.to_owned()))
}

fn number(number: f64) -> Node {
    Node::synthetic(Value::Number(number))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::patch::is_same;
    use crate::config::{json5, tree::FileId};

    #[test]
    fn what_is_written_wins_over_what_is_filled_in() {
        let tree = |text: &str| json5::parse(text, FileId(0)).unwrap().root;
        let shown = with_defaults(&tree(
            "{commands: {restart: false}, agents: {defaults: {subagents: 7}}, \
              models: {providers: {p: {api: 'x', models: [{id: 'm', reasoning: true}]}}}}",
        ));
        let expected = tree(
            "{commands: {restart: false, native: 'auto', nativeSkills: 'auto', ownerDisplay: 'raw'}, \
              agents: {defaults: {subagents: 7, maxConcurrent: 4}}, \
              messages: {ackReactionScope: 'group-mentions'}, \
              models: {providers: {p: {api: 'x', models: [{id: 'm', reasoning: true, api: 'x', \
                input: ['text'], cost: {input: 0, output: 0, cacheRead: 0, cacheWrite: 0}, \
                contextWindow: 200000, maxTokens: 8192}]}}}}",
        );
        assert!(is_same(&shown, &expected));
    }
}
