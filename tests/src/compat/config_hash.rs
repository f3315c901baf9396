//! Where `config-hash` rows are answered differently on purpose.

use serde_json::{Value, json};

use super::Rule;

pub(super) const RULES: &[Rule] = &[
    Rule {
        name: "a-shared-sandbox-belongs-to-no-agent",
        category: "container",
        applies: concerns_a_shared_sandbox,
        transform: without_agent_directory,
    },
    Rule {
        name: "a-shared-sandbox-belongs-to-no-agent",
        category: "browser",
        applies: concerns_a_shared_sandbox,
        transform: without_agent_directory,
    },
];

fn concerns_a_shared_sandbox(input: &Value) -> bool {
    is_shared(&input["a"]) || is_shared(&input["b"])
}

/// Shared, and no agent's workspace is mounted.
fn is_shared(side: &Value) -> bool {
    let agents = &side["config"]["agents"];
    let id = side["agentId"].as_str().unwrap_or_default().to_lowercase();
    let entries = agents["list"].as_array().into_iter().flatten();
    let entry = entries.into_iter().find(|entry| !id.is_empty() && entry["id"] == id.as_str());
    let agent = entry.map_or(&Value::Null, |entry| &entry["sandbox"]);
    let defaults = &agents["defaults"]["sandbox"];
    let nearest = |key: &str| if agent[key].is_null() { &defaults[key] } else { &agent[key] };
    let scope = nearest("scope");
    let access = nearest("workspaceAccess");
    let shared = scope == "shared" || scope.is_null() && nearest("perSession") == false;
    shared && (access.is_null() || access == "none")
}

/// The agent's directory counts for a sandbox that is not shared, and not for one that is.
fn without_agent_directory(input: &Value, mut expected: Value) -> Value {
    let (a, b) = (&input["a"], &input["b"]);
    if is_shared(a) != is_shared(b) {
        expected["same"] = json!(false);
    } else if agentless(a) == agentless(b) {
        expected["same"] = json!(true);
    }
    expected
}

/// The side without the agent's directory.
fn agentless(side: &Value) -> Value {
    let mut side = side.clone();
    if let Some(directories) = side["dirs"].as_object_mut() {
        directories.remove("agentWorkspaceDir");
        if directories.is_empty() {
            side["dirs"] = Value::Null;
        }
    }
    side
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_agent_directory_counts_only_where_the_sandbox_is_not_shared() {
        let side = |sandbox: Value, directory: &str| {
            json!({
                "config": {"agents": {"defaults": {"sandbox": sandbox}}},
                "dirs": {"agentWorkspaceDir": directory},
            })
        };
        let shared = || json!({"scope": "shared"});
        let mounted = || json!({"scope": "shared", "workspaceAccess": "rw"});
        let (same, other) = (json!({"same": true}), json!({"same": false}));
        check(side(shared(), "/a"), side(shared(), "/b"), &other, &same);
        check(side(shared(), "/a"), side(json!({"scope": "agent"}), "/a"), &same, &other);
        check(side(mounted(), "/a"), side(mounted(), "/b"), &other, &other);
    }

    #[track_caller]
    fn check(a: Value, b: Value, recorded: &Value, expected: &Value) {
        let input = json!({"a": a, "b": b});
        for rule in RULES {
            let recorded = recorded.clone();
            let ours =
                if (rule.applies)(&input) { (rule.transform)(&input, recorded) } else { recorded };
            assert_eq!(&ours, expected);
        }
    }
}
