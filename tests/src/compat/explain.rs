//! Where `explain` rows are answered differently on purpose.

use serde_json::{Value, json};

use super::agents::{self, is_agent_key, normalized};
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
        name: "browser-binds-are-checked",
        category: ANY,
        applies: |input| !bad_browser_binds(input).is_empty(),
        transform: |input, expected| {
            // Other problems are reported as recorded; ours would stand among them.
            if expected["exitCode"] != 0 {
                return expected;
            }
            let problems: Vec<String> = bad_browser_binds(input)
                .into_iter()
                .map(|(key, bind, source)| format!("  - {key}: \"{bind}\" \"{source}\""))
                .collect();
            json!({ "exitCode": 1, "stderr": format!("File: ~/.openclaw/openclaw.json\n{}", problems.join("\n")) })
        },
    },
    Rule {
        name: "keys-of-the-newer-release",
        category: ANY,
        applies: |input| !newer_keys(&config(input)).is_empty(),
        transform: newer_keys_load,
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
    settings_of(input, &agent, answer);
    expected
}

/// With one session for everybody, that session is the main one.
fn global_session(input: &Value, mut expected: Value) -> Value {
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
    // The key of the agent's own main session means the same one.
    let written = answer["sessionKey"].clone();
    if is_main {
        answer["sessionKey"] = "global".into();
    }
    let is_alias = written == format!("agent:{agent}:main");
    let shown = answer["sessionKey"].clone();
    if is_alias {
        answer["sessionKey"] = "global".into();
    }
    settings_of(input, &agent, answer);
    answer["sessionKey"] = shown;
    expected
}

/// Binds of a browser that the older release lets pass: blank, or not from an absolute path.
fn bad_browser_binds(input: &Value) -> Vec<(String, String, String)> {
    let config = config(input);
    let agents = config["agents"]["list"].as_array().cloned().unwrap_or_default();
    let mut blocks = vec![("agents.defaults".to_owned(), config["agents"]["defaults"].clone())];
    blocks.extend(
        agents.into_iter().enumerate().map(|(n, agent)| (format!("agents.list.{n}"), agent)),
    );
    let mut found = Vec::new();
    for (key, block) in blocks {
        let binds = block["sandbox"]["browser"]["binds"].as_array().cloned().unwrap_or_default();
        for (index, bind) in binds.iter().enumerate() {
            let Some(bind) = bind.as_str().map(str::trim) else { continue };
            let source = bind.split(':').next().unwrap_or_default().trim();
            if !source.starts_with('/') {
                let key = format!("{key}.sandbox.browser.binds.{index}");
                found.push((key, bind.to_owned(), source.to_owned()));
            }
        }
    }
    found
}

/// Keys that only the newer release knows, each with the path of its object.
fn newer_keys(config: &Value) -> Vec<(String, &'static str)> {
    let agents = config["agents"]["list"].as_array().cloned().unwrap_or_default();
    let mut blocks = vec![("agents.defaults".to_owned(), config["agents"]["defaults"].clone())];
    blocks.extend(
        agents.into_iter().enumerate().map(|(n, agent)| (format!("agents.list.{n}"), agent)),
    );
    let mut found = Vec::new();
    if !config["agents"]["entries"].is_null() {
        found.push(("agents".to_owned(), "entries"));
    }
    for (path, block) in blocks {
        for (part, key) in [
            ("sandbox.docker", "gpus"),
            ("sandbox.browser", "noVncEnabled"),
            ("sandbox", "networkAllow"),
            ("sandbox", "networkExecAllow"),
            ("sandbox", "networkDocker"),
        ] {
            let object = part.split('.').fold(&block, |value, key| &value[key]);
            if !object[key].is_null() {
                found.push((format!("{path}.{part}"), key));
            }
        }
    }
    found
}

/// The recorded refusal of such a key becomes the answer that the rest of the config gives; other
/// refusals stay.
fn newer_keys_load(input: &Value, expected: Value) -> Value {
    let Some(text) = expected["stderr"].as_str() else { return expected };
    let accepted: Vec<String> = newer_keys(&config(input))
        .into_iter()
        .map(|(path, key)| format!("{path}: Unrecognized key: \"{key}\""))
        .collect();
    let problems: Vec<&str> = text.lines().filter(|line| line.starts_with("  - ")).collect();
    let is_accepted =
        |line: &&str| accepted.iter().any(|accepted| line.ends_with(accepted.as_str()));
    if problems.is_empty() || !problems.iter().all(is_accepted) {
        return expected;
    }
    let asked = flag(input, "--agent");
    let agent = asked.map_or_else(|| default_agent(input), |agent| normalized(&agent));
    let mut answer = default_answer(&agent);
    settings_of(input, &agent, &mut answer);
    json!({ "exitCode": 0, "json": answer })
}

/// What the reference says to an empty config.
fn default_answer(agent: &str) -> Value {
    let list =
        |key: &str| json!({ "source": "default", "key": format!("tools.sandbox.tools.{key}") });
    json!({
        "docsUrl": "https://docs.openclaw.ai/sandbox",
        "agentId": agent,
        "sessionKey": format!("agent:{agent}:main"),
        "mainSessionKey": format!("agent:{agent}:main"),
        "sandbox": {
            "mode": "off", "scope": "agent", "perSession": false, "workspaceAccess": "none",
            "workspaceRoot": "${STATE_DIR}/sandboxes", "sessionIsSandboxed": false,
            "tools": {
                "allow": [
                    "exec", "process", "read", "write", "edit", "apply_patch", "image", "sessions_list",
                    "sessions_history", "sessions_send", "sessions_spawn", "sessions_yield", "subagents",
                    "session_status"
                ],
                "deny": [
                    "browser", "canvas", "nodes", "cron", "gateway", "telegram", "whatsapp", "discord", "irc",
                    "googlechat", "slack", "signal", "imessage", "line"
                ],
                "sources": { "allow": list("allow"), "deny": list("deny") },
            },
        },
        "elevated": {
            "enabled": true, "allowedByConfig": false, "alwaysAllowedByConfig": false, "allowFrom": {},
            "failures": []
        },
        "fixIt": [
            "tools.sandbox.tools.allow", "tools.sandbox.tools.alsoAllow", "tools.sandbox.tools.deny",
            "agents.list[].tools.sandbox.tools.allow", "agents.list[].tools.sandbox.tools.alsoAllow",
            "agents.list[].tools.sandbox.tools.deny", "tools.elevated.enabled"
        ],
    })
}

/// `--agent`, `--session` and the session's own agent, if they name two agents.
fn contradiction(input: &Value) -> Option<(String, String, String)> {
    let agent = normalized(&flag(input, "--agent")?);
    let session = flag(input, "--session")?;
    if !is_agent_key(&session) {
        return None;
    }
    let owner = session.split(':').filter(|part| !part.is_empty()).nth(1)?;
    let owner = normalized(owner);
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

/// The config as a JSON5 reader that is not ours reads it; includes are not followed.
fn config(input: &Value) -> Value {
    input["config"].as_str().and_then(|text| json_five::from_str(text).ok()).unwrap_or_default()
}

/// The id of the agent that is meant when none is named.
fn default_agent(input: &Value) -> String {
    agents::default_agent(&config(input))
}

/// Puts the sandbox settings of one agent into a recorded answer that speaks of another.
fn settings_of(input: &Value, agent: &str, answer: &mut Value) {
    let config = config(input);
    let agents = config["agents"]["list"].as_array().cloned().unwrap_or_default();
    let entry =
        agents.iter().find(|entry| normalized(entry["id"].as_str().unwrap_or_default()) == agent);
    let layers = [
        entry.map(|entry| entry["sandbox"].clone()).unwrap_or_default(),
        config["agents"]["defaults"]["sandbox"].clone(),
    ];
    let pick = |key: &str, built_in: &str| {
        let written = layers.iter().find_map(|layer| layer[key].as_str());
        written.unwrap_or(built_in).to_owned()
    };
    let (mode, scope) = (pick("mode", "off"), pick("scope", "agent"));
    answer["sandbox"]["perSession"] = (scope == "session").into();
    answer["sandbox"]["workspaceAccess"] = pick("workspaceAccess", "none").into();
    answer["sandbox"]["scope"] = scope.into();
    let is_main = answer["sessionKey"] == answer["mainSessionKey"];
    answer["sandbox"]["sessionIsSandboxed"] = match mode.as_str() {
        "all" => true,
        "non-main" => !is_main,
        _ => false,
    }
    .into();
    let switches = ["agents.defaults.sandbox.mode=off", "agents.list[].sandbox.mode=off"];
    if let Some(keys) = answer["fixIt"].as_array_mut() {
        keys.retain(|key| !switches.contains(&key.as_str().unwrap_or_default()));
        if mode != "off" {
            keys.splice(0..0, switches.map(Value::from));
        }
    }
    answer["sandbox"]["mode"] = mode.into();
}

/// Replaces words in a recorded text.
fn edit_text(mut expected: Value, key: &str, from: &str, to: &str) -> Value {
    if let Some(text) = expected.get(key).and_then(Value::as_str) {
        expected[key] = text.replace(from, to).into();
    }
    expected
}
