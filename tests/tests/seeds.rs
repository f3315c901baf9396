//! The sample configs of the user's own documents, each with its stated verdict.
#![forbid(unsafe_code)]
#![expect(clippy::expect_used, reason = "a test without its fixture cannot go on")]

use std::path::Path;

use clawpen_tests::home::Home;
use serde_json::{Value, json};

fn explain(name: &str, args: &[&str]) -> Value {
    let file =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus/seeds").join(format!("{name}.json5"));
    let home = Home::with_config(&std::fs::read_to_string(file).expect("a seed config"));
    let run = home.run(&[&["sandbox", "explain", "--json"], args].concat());
    assert_eq!(run.code, Some(0), "{}", run.stderr);
    run.json()
}

/// Mode, scope, access, sandboxed, and how many reasons there are against starting.
#[track_caller]
fn check(name: &str, args: &[&str], expected: Value) -> Value {
    let answer = explain(name, args);
    let sandbox = &answer["sandbox"];
    let refusals = answer["clawpen"]["refusals"].as_array().map_or(0, Vec::len);
    let found = json!([
        sandbox["mode"],
        sandbox["scope"],
        sandbox["workspaceAccess"],
        sandbox["sessionIsSandboxed"],
        refusals
    ]);
    assert_eq!(found, expected, "{name} {args:?}: {}", answer["clawpen"]["refusals"]);
    answer
}

const GROUP: &[&str] = &["--session", "agent:main:telegram:group:1"];

#[test]
fn the_minimal_config_sandboxes_groups_and_not_the_main_session() {
    check("minimal", &[], json!(["non-main", "session", "none", false, 0]));
    check("minimal", GROUP, json!(["non-main", "session", "none", true, 0]));
}

#[test]
fn the_development_config_loads_and_its_docker_socket_is_refused() {
    let answer = check("development", GROUP, json!(["non-main", "agent", "ro", true, 1]));
    let refusal = answer["clawpen"]["refusals"][0].as_str().expect("a refusal");
    assert!(refusal.contains("/var/run/docker.sock"), "{refusal}");
}

#[test]
fn the_high_security_config_holds_for_every_session() {
    check("high-security", &[], json!(["all", "session", "none", true, 0]));
    check("high-security", GROUP, json!(["all", "session", "none", true, 0]));
}

#[test]
fn the_browser_config_needs_the_tool_to_be_allowed_as_well() {
    let answer = check("browser", GROUP, json!(["non-main", "agent", "none", true, 0]));
    assert_eq!(answer["clawpen"]["tools"]["browser"]["allowed"], json!(false));
    assert_eq!(answer["clawpen"]["origins"]["browser.enabled"]["value"], json!("true"));
}

#[test]
fn the_per_agent_config_gives_each_agent_its_own_container() {
    let of = |agent: &str, key: &str| {
        let answer = explain("per-agent", &["--agent", agent]);
        answer["clawpen"]["origins"][key]["value"].as_str().map(str::to_owned)
    };
    assert_eq!(of("main", "docker.memory").as_deref(), Some("2g"));
    assert_eq!(of("dev", "docker.memory").as_deref(), Some("1g"));
    assert_eq!(of("dev", "docker.cpus").as_deref(), Some("1"));
    assert_eq!(of("other", "docker.image").as_deref(), Some("openclaw-sandbox:bookworm-slim"));
    check("per-agent", &["--agent", "dev"], json!(["all", "agent", "none", true, 0]));
}

#[test]
fn the_setup_command_config_sandboxes_nothing_because_it_sets_no_mode() {
    check("setup-command", &["--agent", "dev"], json!(["off", "agent", "none", false, 0]));
}

#[test]
fn the_network_routing_config_loads_and_is_refused_by_its_three_keys() {
    let answer = check("network-routing", GROUP, json!(["all", "session", "rw", true, 3]));
    let refusals = answer["clawpen"]["refusals"].to_string();
    for key in ["networkAllow", "networkExecAllow", "networkDocker"] {
        assert!(refusals.contains(&format!("agents.defaults.sandbox.{key}")), "{refusals}");
    }
}
