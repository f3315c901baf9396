//! `models.list`: the models that the config names. There is no built-in catalogue: what nobody
//! configured cannot be used either.

use std::collections::BTreeSet;

use clawpen_rules::config::Config;
use clawpen_rules::config::tree::{At, Node};
use clawpen_rules::session::entry::default_model;
use clawpen_wire::gateway::ErrorShape;
use serde_json::{Map, Value, json};

use crate::shared::Shared;
use crate::tree_json::to_json;

pub(crate) fn list(shared: &Shared) -> Result<Value, ErrorShape> {
    let sound = shared.sound()?;
    Ok(json!({ "models": all(&sound.store.loaded.config) }))
}

/// Every model, by provider and name. A list under `agents.defaults.models` leaves only those in it.
fn all(config: &Config) -> Vec<Value> {
    let mut found: Vec<Value> = configured(config);
    let listed = config.at(&["agents", "defaults", "models"]);
    let listed: Vec<String> = listed
        .map(|at| at.members().into_iter().map(|(id, _)| id.to_owned()).collect())
        .unwrap_or_default();
    let mut known: BTreeSet<String> = found.iter().map(full_id).collect();
    let primary = default_model(config, &config.default_agent()).map(|model| model.id());
    for id in listed.iter().cloned().chain(primary.clone()) {
        let Some((provider, model)) = id.split_once('/') else { continue };
        if known.insert(id.to_lowercase()) {
            found.push(json!({ "id": model, "name": model, "provider": provider }));
        }
    }
    if !listed.is_empty() {
        let is_kept = |id: &str| {
            let is = |other: &String| other.eq_ignore_ascii_case(id);
            listed.iter().any(is) || primary.iter().any(is)
        };
        found.retain(|model| is_kept(&full_id(model)));
    }
    found.sort_by_key(|model| {
        let text = |key: &str| model[key].as_str().unwrap_or_default().to_lowercase();
        (text("provider"), text("name"))
    });
    found
}

fn full_id(model: &Value) -> String {
    let text = |key: &str| model[key].as_str().unwrap_or_default();
    format!("{}/{}", text("provider"), text("id")).to_lowercase()
}

fn configured(config: &Config) -> Vec<Value> {
    let providers = config.at(&["models", "providers"]);
    let providers = providers.as_ref().map(At::members).unwrap_or_default();
    let mut found = Vec::new();
    for (provider, at) in providers {
        let models = at.get("models");
        for model in models.as_ref().map(At::items).unwrap_or_default() {
            let Some(id) = model.node.get("id").and_then(Node::as_str) else { continue };
            let name = model.node.get("name").and_then(Node::as_str).unwrap_or(id);
            let mut shown = Map::new();
            shown.insert("id".into(), json!(id));
            shown.insert("name".into(), json!(name));
            shown.insert("provider".into(), json!(provider));
            for key in ["contextWindow", "reasoning", "input"] {
                shown.extend(model.node.get(key).map(|value| (key.to_owned(), to_json(value))));
            }
            found.push(Value::Object(shown));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use clawpen_rules::config::json5;
    use clawpen_rules::config::tree::FileId;

    #[test]
    fn models_are_those_of_the_config_and_a_list_leaves_only_its_own() {
        let providers = "models: {providers: {mock: {models: [{id: 'b', name: 'Bee', contextWindow: 9, \
                         cost: {input: 1}}, {id: 'a'}]}}}";
        let check = |text: &str, expected: Value| {
            let root = json5::parse(text, FileId(0)).unwrap().root;
            assert_eq!(json!(all(&Config::from_tree(root, Vec::new()))), expected, "{text}");
        };
        let a = json!({ "id": "a", "name": "a", "provider": "mock" });
        let b = json!({ "id": "b", "name": "Bee", "provider": "mock", "contextWindow": 9 });
        let other = json!({ "id": "x", "name": "x", "provider": "far" });
        check("{}", json!([]));
        check(&format!("{{{providers}}}"), json!([a, b]));
        check(
            &format!("{{{providers}, agents: {{defaults: {{model: 'far/x'}}}}}}"),
            json!([other, a, b]),
        );
        check(
            &format!("{{{providers}, agents: {{defaults: {{models: {{'MOCK/b': {{}}}}}}}}}}"),
            json!([b]),
        );
    }
}
