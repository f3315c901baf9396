//! One tool verdict under a full set of layers. The budget is 2 µs: it is asked before every call.

use clawpen_rules::config::sandbox::WorkspaceAccess;
use clawpen_rules::config::setting::{Origin, Setting};
use clawpen_rules::config::tree::FileId;
use clawpen_rules::config::{Config, json5};
use clawpen_rules::ids::AgentId;
use clawpen_rules::tool_policy::subagent::SubagentRole;
use clawpen_rules::tool_policy::{
    Layers, Model, SenderStanding, Session, Tool, ToolPlacement, decide, decide_all,
};
use divan::{Bencher, black_box};

const CONFIG: &str = r#"{
  tools: {
    profile: "coding", alsoAllow: ["group:ui", "jira_*"],
    deny: ["gateway", "nodes", "x_*", "*_danger"],
    byProvider: { openai: { profile: "coding", deny: ["canvas", "tts"] } },
    sandbox: { tools: { alsoAllow: ["web_*", "memory_*", "jira"] } },
    subagents: { tools: { deny: ["*_admin"] } },
  },
  agents: { list: [{ id: "w", tools: {
    allow: ["group:fs", "group:runtime", "group:sessions", "web_*"], deny: ["edit_*"],
    byProvider: { openai: { deny: ["image_*"] } },
  } }] },
}"#;

fn main() {
    divan::main();
}

#[expect(clippy::expect_used, reason = "a bench whose config is broken measures nothing")]
fn layers(text: &str) -> Layers {
    let parsed = json5::parse(text, FileId(0)).expect("the bench's config parses");
    let config = Config::from_tree(parsed.root, vec![]);
    let origin = Origin::built_in("agents.defaults.sandbox.workspaceAccess");
    let session = Session {
        placement: ToolPlacement::Sandbox {
            access: Setting::new(WorkspaceAccess::ReadWrite, origin),
        },
        model: Some(Model { provider: "openai".to_owned(), id: Some("gpt-5".to_owned()) }),
        sender: SenderStanding::Other,
        subagent: Some(SubagentRole::Leaf),
        ..Session::host(AgentId::normalize("w"))
    };
    Layers::resolve(&config, &session)
}

/// An allowed tool passes every layer: the slowest answer.
#[divan::bench(args = ["exec", "apply_patch", "sessions_yield", "gateway"])]
fn one_verdict(bencher: Bencher, name: &str) {
    let layers = layers(CONFIG);
    let tool = Tool::core(name);
    bencher.bench_local(|| decide(black_box(&layers), black_box(&tool)).is_allowed());
}

/// Lists of a thousand names and a hundred patterns.
#[divan::bench]
fn one_verdict_with_long_lists(bencher: Bencher) {
    let names: Vec<String> = (0..1_000).map(|n| format!("\"tool_{n}\"")).collect();
    let patterns: Vec<String> = (0..100).map(|n| format!("\"*_{n}_*\"")).collect();
    let text = format!(
        "{{ tools: {{ allow: [\"exec\", {}], deny: [{}] }} }}",
        names.join(","),
        patterns.join(",")
    );
    let layers = layers(&text);
    let tool = Tool::core("tool_500");
    bencher.bench_local(|| decide(black_box(&layers), black_box(&tool)).is_allowed());
}

#[divan::bench]
fn whole_catalogue(bencher: Bencher) {
    let layers = layers(CONFIG);
    bencher.bench_local(|| decide_all(black_box(&layers)).count());
}

#[divan::bench]
fn build_layers(bencher: Bencher) {
    bencher.bench_local(|| layers(black_box(CONFIG)));
}
