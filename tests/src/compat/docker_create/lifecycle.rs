//! Where the rows about config, reuse and pruning are answered differently on purpose.

use serde_json::{Value, json};

use crate::compat::Rule;

pub(super) const RULES: &[Rule] = &[
    Rule {
        name: "a-new-container-starts-a-new-life",
        category: "lifecycle",
        applies: |input| input["registry"].is_object(),
        transform: |_, expected| made_anew(expected),
    },
    Rule {
        name: "a-damaged-registry-is-found-before-docker-is-called",
        category: "lifecycle",
        applies: |input| input["registry"].as_str().is_some_and(is_damaged),
        transform: |_, mut expected| {
            expected["verbs"] = json!([]);
            expected
        },
    },
];

/// The reference keeps the age and the image of the container before; ours are the new one's.
fn made_anew(mut expected: Value) -> Value {
    let verbs = expected["verbs"].as_array();
    if verbs.is_some_and(|verbs| verbs.contains(&json!("create"))) {
        expected["registry"]["createdKept"] = json!(false);
        expected["registry"]["image"] = json!("openclaw-sandbox:bookworm-slim");
    }
    expected
}

/// A registry file is an object that lists entries, each with the name of its container.
fn is_damaged(text: &str) -> bool {
    let file: Option<Value> = serde_json::from_str(text).ok();
    let entries = file.as_ref().and_then(|file| file["entries"].as_array());
    !entries.is_some_and(|entries| entries.iter().all(|entry| entry["containerName"].is_string()))
}
