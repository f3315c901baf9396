//! Where `explain` rows are answered differently on purpose.

use serde_json::{Value, json};

use super::{ANY, Rule};

pub(super) const RULES: &[Rule] = &[
    Rule {
        name: "next-step-after-an-invalid-config",
        category: ANY,
        applies: |_| true,
        transform: |_, expected| {
            edit_text(
                expected,
                "stderr",
                "Run: openclaw doctor --fix",
                "Run: openclaw config validate",
            )
        },
    },
    Rule {
        name: "session-without-an-agent",
        category: ANY,
        applies: |input| {
            flag(input, "--agent").is_none()
                && flag(input, "--session").is_some_and(|session| !is_agent_key(&session))
                && default_agent(input) != "main"
        },
        transform: of_default_agent,
    },
    Rule {
        name: "global-session",
        category: ANY,
        applies: |input| config(input)["session"]["scope"] == "global",
        transform: global_session,
    },
    Rule {
        name: "flags-that-contradict",
        category: ANY,
        applies: |input| contradiction(input).is_some(),
        transform: |input, expected| match contradiction(input) {
            Some((agent, session, owner)) => json!({
                "exitCode": 1,
                "stderr": format!("error: --agent {agent} --session {session} \"{owner}\""),
            }),
            None => expected,
        },
    },
];

/// The runtime gives a session without an agent to the default agent; so does explain.
fn of_default_agent(input: &Value, mut expected: Value) -> Value {
    let agent = default_agent(input);
    let Some(answer) = expected.get_mut("json").filter(|answer| answer.is_object()) else {
        return expected;
    };
    answer["agentId"] = agent.clone().into();
    answer["mainSessionKey"] = format!("agent:{agent}:main").into();
    let session = flag(input, "--session").unwrap_or_default();
    if !session.contains(':') && session != "global" {
        answer["sessionKey"] = format!("agent:{agent}:{}", session.to_lowercase()).into();
    }
    expected
}

/// With one session for everybody, that session is the main one.
fn global_session(input: &Value, mut expected: Value) -> Value {
    let mode = config(input)["agents"]["defaults"]["sandbox"]["mode"].clone();
    let session = flag(input, "--session");
    let is_main = session.as_deref().is_none_or(|session| session.eq_ignore_ascii_case("main"));
    let has_flags = session.is_some() || flag(input, "--agent").is_some();
    let Some(answer) = expected.get_mut("json").filter(|answer| answer.is_object()) else {
        return expected;
    };
    if !has_flags {
        answer["agentId"] = default_agent(input).into();
    }
    let agent = answer["agentId"].as_str().unwrap_or_default().to_owned();
    answer["mainSessionKey"] = "global".into();
    if is_main {
        answer["sessionKey"] = "global".into();
    }
    let key = answer["sessionKey"].as_str().unwrap_or_default();
    if mode == "non-main" {
        let is_main = key == "global" || key == format!("agent:{agent}:main");
        answer["sandbox"]["sessionIsSandboxed"] = (!is_main).into();
    }
    expected
}

/// `--agent`, `--session` and the session's own agent, if they name two agents.
fn contradiction(input: &Value) -> Option<(String, String, String)> {
    let agent = flag(input, "--agent")?.to_lowercase();
    let session = flag(input, "--session")?;
    if !is_agent_key(&session) {
        return None;
    }
    let owner = session.split(':').filter(|part| !part.is_empty()).nth(1)?.to_lowercase();
    (owner != agent).then_some((agent, session, owner))
}

/// The last value of a flag, trimmed; blank counts as absent.
fn flag(input: &Value, name: &str) -> Option<String> {
    let args: Vec<&str> = input["args"].as_array()?.iter().filter_map(Value::as_str).collect();
    let mut found = None;
    for (index, word) in args.iter().enumerate() {
        if *word == name {
            found = args.get(index + 1).map(|value| (*value).to_owned());
        } else if let Some(value) = word.strip_prefix(name).and_then(|rest| rest.strip_prefix('='))
        {
            found = Some(value.to_owned());
        }
    }
    found.map(|value| value.trim().to_owned()).filter(|value| !value.is_empty())
}

fn is_agent_key(session: &str) -> bool {
    let session = session.to_lowercase();
    let parts: Vec<&str> = session.split(':').filter(|part| !part.is_empty()).collect();
    parts.len() >= 3 && parts[0] == "agent"
}

fn config(input: &Value) -> Value {
    // Configs that are more than JSON are of no concern to these rules.
    input["config"].as_str().and_then(|text| serde_json::from_str(text).ok()).unwrap_or_default()
}

/// The id of the agent that is meant when none is named.
fn default_agent(input: &Value) -> String {
    let config = config(input);
    let agents = config["agents"]["list"].as_array().cloned().unwrap_or_default();
    let marked = agents.iter().find(|agent| agent["default"] == true);
    let id = marked.or(agents.first()).and_then(|agent| agent["id"].as_str()).unwrap_or("main");
    id.trim().to_lowercase()
}

/// Replaces words in a recorded text.
fn edit_text(mut expected: Value, key: &str, from: &str, to: &str) -> Value {
    if let Some(text) = expected.get(key).and_then(Value::as_str) {
        expected[key] = text.replace(from, to).into();
    }
    expected
}
