//! The hash against the published vector, and what does and does not change it.

use proptest::prelude::*;

use super::super::Config;
use super::super::sandbox::{Owner, SandboxConfig};
use super::super::tree::{FileId, Object, Value};
use super::super::{defaults, json5};
use super::*;

const DIRECTORIES: Directories<'_> = Directories {
    workspace: "/home/u/.openclaw/sandboxes/agent-main-f331f052",
    agent_workspace: "/home/u/.openclaw/workspace",
};

#[test]
fn the_published_vector_is_reproduced() {
    let mut config = resolve("{}");
    config.docker.run_as_owner(Owner { uid: 1000, gid: 1000 });
    assert_eq!(
        Fingerprint::of_shell(&config, DIRECTORIES).as_str(),
        "75dbc28d6e549ca58500d72bee6b0cd9dcdc3b422b14d651e2ede2f788bd622b"
    );
}

#[test]
fn canonical_text_is_what_json_stringify_prints_with_sorted_keys() {
    for (written, expected) in [
        ("{b: 1, a: 2}", r#"{"a":2,"b":1}"#),
        ("{B: 1, a: 2, A: 3, '10': 4, '9': 5}", r#"{"10":4,"9":5,"A":3,"B":1,"a":2}"#),
        ("[1e21, 0.1, -0, 1e-7, 1e3]", "[1e+21,0.1,0,1e-7,1000]"),
        ("[NaN, Infinity, null, true, false]", "[null,null,null,true,false]"),
        (
            r#"["\"\\\b\f\n\r\t\u0001\u007f\u2028é😀/"]"#,
            "[\"\\\"\\\\\\b\\f\\n\\r\\t\\u0001\u{7f}\u{2028}é😀/\"]",
        ),
        ("{a: {}, b: [], c: ''}", r#"{"a":{},"b":[],"c":""}"#),
    ] {
        assert_eq!(Canonical::from(&parse(written)).to_json(), expected, "{written}");
    }
}

#[test]
fn what_shapes_the_container_changes_the_hash_and_nothing_else_does() {
    same(
        "{}",
        "{agents: {defaults: {sandbox: {mode: 'all', prune: {idleHours: 1}, ssh: {target: 'h'}}}}}",
    );
    same(
        "{}",
        "{agents: {defaults: {sandbox: {docker: {image: 'openclaw-sandbox:bookworm-slim', binds: []}}}}}",
    );
    differ("{}", "{agents: {defaults: {sandbox: {docker: {dns: []}}}}}");
    differ("{}", "{agents: {defaults: {sandbox: {docker: {ulimits: {}}}}}}");
    differ(
        "{agents: {defaults: {sandbox: {docker: {memory: 1}}}}}",
        "{agents: {defaults: {sandbox: {docker: {memory: '1'}}}}}",
    );
    differ("{}", "{agents: {defaults: {sandbox: {workspaceAccess: 'rw'}}}}");
}

#[test]
fn a_shared_sandbox_that_mounts_no_agent_workspace_is_the_same_for_all_agents() {
    let of = |access: &str, agent_workspace| {
        let text = format!(
            "{{agents: {{defaults: {{sandbox: {{scope: 'shared', workspaceAccess: '{access}'}}}}}}}}"
        );
        Fingerprint::of_shell(&resolve(&text), Directories { agent_workspace, ..DIRECTORIES })
    };
    assert_eq!(of("none", "/a"), of("none", "/b"));
    assert_ne!(of("ro", "/a"), of("ro", "/b"));
    assert_ne!(of("rw", "/a"), of("rw", "/b"));
}

#[test]
fn a_browser_has_a_shape_of_its_own() {
    let of = |text: &str, epoch| Fingerprint::of_browser(&resolve(text), DIRECTORIES, epoch);
    let epoch = defaults::BROWSER_SECURITY_EPOCH;
    let plain = of("{}", epoch);
    assert_ne!(plain, Fingerprint::of_shell(&resolve("{}"), DIRECTORIES));
    assert_ne!(plain, of("{}", "another"));
    let sandbox = |body: &str| of(&format!("{{agents: {{defaults: {{sandbox: {body}}}}}}}"), epoch);
    assert_eq!(plain, sandbox("{browser: {network: ' ', cdpSourceRange: ' ', autoStart: false}}"));
    assert_eq!(plain, sandbox("{docker: {image: 'x', network: 'bridge'}}"));
    assert_ne!(plain, sandbox("{browser: {binds: []}}"));
    assert_ne!(plain, sandbox("{browser: {headless: true}}"));
}

proptest! {
    #[test]
    fn the_order_of_keys_does_not_show(tree in any_node(), seed: u64) {
        prop_assert_eq!(Fingerprint::of_tree(&tree), Fingerprint::of_tree(&shuffled(&tree, seed)));
    }

    #[test]
    fn the_order_of_items_shows(first in any_node(), second in any_node()) {
        let one = Node::synthetic(Value::Array(vec![first.clone(), second.clone()]));
        let other = Node::synthetic(Value::Array(vec![second.clone(), first.clone()]));
        let alike = Canonical::from(&first).to_json() == Canonical::from(&second).to_json();
        prop_assert_eq!(Fingerprint::of_tree(&one) == Fingerprint::of_tree(&other), alike);
    }
}

fn any_node() -> impl Strategy<Value = Node> {
    crate::config::resolve::tests::any_node()
}

/// The same tree with the members of every object in another order.
fn shuffled(node: &Node, seed: u64) -> Node {
    let value = match &node.value {
        Value::Array(items) => {
            Value::Array(items.iter().map(|item| shuffled(item, seed)).collect())
        }
        Value::Object(object) => {
            let mut members = object.members().to_vec();
            let count = members.len().max(1);
            members.rotate_left(usize::try_from(seed).unwrap_or(1) % count);
            if seed.is_multiple_of(2) {
                members.reverse();
            }
            for member in &mut members {
                member.node = shuffled(&member.node, seed / 2);
            }
            Value::Object(Object::from_members(members))
        }
        plain => plain.clone(),
    };
    Node { value, ..node.clone() }
}

fn parse(text: &str) -> Node {
    json5::parse(text, FileId(0)).unwrap().root
}

fn resolve(text: &str) -> SandboxConfig {
    SandboxConfig::resolve(&Config::from_tree(parse(text), Vec::new()), None, "/s").unwrap()
}

#[track_caller]
fn same(a: &str, b: &str) {
    let of = |text| Fingerprint::of_shell(&resolve(text), DIRECTORIES);
    assert_eq!(of(a), of(b));
}

#[track_caller]
fn differ(a: &str, b: &str) {
    let of = |text| Fingerprint::of_shell(&resolve(text), DIRECTORIES);
    assert_ne!(of(a), of(b));
}
