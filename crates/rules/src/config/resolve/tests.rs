//! Which layer wins for each key, and where a value says it comes from.

use proptest::prelude::*;

use super::*;
use crate::config::json5;
use crate::config::tree::{FileId, Member, Object, Place, Span};

#[test]
fn each_layer_replaces_the_one_below_and_is_remembered() {
    let config = "{agents: {defaults: {sandbox: {mode: 'all', docker: {image: 'd', dns: ['1']}}},\n\
                  list: [{id: 'w', sandbox: {docker: {image: 'a', tmpfs: []}}}]}}";
    let sandbox = resolve(config, Some("w"));
    check(&sandbox.mode, SandboxMode::All, Layer::Defaults, "agents.defaults.sandbox.mode", 1);
    let key = "agents.list.0.sandbox.docker.image";
    check(&sandbox.docker.image, "a".to_owned(), Layer::Agent, key, 2);
    let key = "agents.list.0.sandbox.docker.tmpfs";
    check(&sandbox.docker.tmpfs, Vec::new(), Layer::Agent, key, 2);
    let built_in = Origin::built_in("agents.defaults.sandbox.docker.network");
    assert_eq!(sandbox.docker.network, Setting::new("none".to_owned(), built_in));
    assert_eq!(resolve(config, Some("other")).docker.image.value, "d");
    assert_eq!(resolve(config, None).docker.image.value, "d");
}

#[test]
fn keyed_entries_are_agents_too() {
    let config = "{agents: {entries: {w: {sandbox: {backend: ' ssh '}}}}}";
    let sandbox = resolve(config, Some("W"));
    check(&sandbox.backend, "ssh".to_owned(), Layer::Agent, "agents.entries.w.sandbox.backend", 1);
}

#[test]
fn the_old_scope_key_counts_only_without_the_new_one() {
    let scope = |defaults: &str, agent: &str| {
        let config = format!(
            "{{agents: {{defaults: {{sandbox: {defaults}}}, list: [{{id: 'w', sandbox: {agent}}}]}}}}"
        );
        resolve(&config, Some("w")).scope.value
    };
    assert_eq!(scope("{}", "{}"), Scope::Agent);
    assert_eq!(scope("{perSession: true}", "{}"), Scope::Session);
    assert_eq!(scope("{perSession: true}", "{perSession: false}"), Scope::Shared);
    assert_eq!(scope("{scope: 'agent'}", "{perSession: true}"), Scope::Agent);
    assert_eq!(scope("{scope: 'agent'}", "{scope: 'session'}"), Scope::Session);
    assert_eq!(scope("{scope: 'bogus', perSession: false}", "{scope: 3}"), Scope::Shared);
}

#[test]
fn a_shared_sandbox_ignores_the_blocks_of_the_agent() {
    let config = "{agents: {defaults: {sandbox: {scope: 'shared', docker: {image: 'd'}}}, list: [{id: 'w', sandbox: {
        mode: 'all', workspaceAccess: 'rw', workspaceRoot: '/r', docker: {image: 'a'}, ssh: {target: 't'},
        browser: {enabled: true}, prune: {idleHours: 1}}}]}}";
    let sandbox = resolve(config, Some("w"));
    assert_eq!(sandbox.mode.value, SandboxMode::All);
    assert_eq!(sandbox.workspace_access.value, WorkspaceAccess::ReadWrite);
    assert_eq!(sandbox.workspace_root.value, "/r");
    assert_eq!(sandbox.docker.image.value, "d");
    assert_eq!(sandbox.ssh.target, None);
    assert!(!sandbox.browser.enabled.value);
    assert_eq!(keys(sandbox.prune.idle_hours.origin), ["agents.defaults.sandbox.prune.idleHours"]);
    let ignored = ignored_by_shared_scope(&parse(config), &AgentId::normalize("w"));
    let ignored: Vec<String> = ignored.into_iter().flat_map(keys).collect();
    assert_eq!(
        ignored,
        ["docker", "ssh", "browser", "prune"].map(|block| format!("agents.list.0.sandbox.{block}"))
    );
    assert_eq!(ignored_by_shared_scope(&parse("{}"), &AgentId::main()), []);
}

#[test]
fn variables_are_laid_over_each_other() {
    check_env("{}", "{}", "LANG=C.UTF-8");
    check_env("{}", "{env: {B: '2'}}", "LANG=C.UTF-8 B=2");
    check_env("{}", "{env: {B: '2', LANG: 'C'}}", "LANG=C B=2");
    check_env("{env: {}}", "{}", "");
    check_env("{env: {A: '1', B: '1'}}", "{env: {C: '2', A: '2'}}", "A=2 B=1 C=2");
    check_env("{env: {A: '1'}}", "{env: {A: 5, '7': 'x'}}", "7=x A=1");
    check_env("{env: 'none'}", "{env: []}", "LANG=C.UTF-8");
}

#[test]
fn binds_are_joined_and_limits_laid_over_each_other() {
    let config = "{agents: {defaults: {sandbox: {docker: {binds: ['/a:/a'], ulimits: {x: 1, y: '2'}}, browser: {binds: []}}},
        list: [{id: 'w', sandbox: {docker: {binds: ['/b:/b', 3], ulimits: {y: {soft: 1}, z: true}}}}]}}";
    let sandbox = resolve(config, Some("w"));
    let binds: Vec<_> = sandbox
        .docker
        .binds
        .unwrap()
        .into_iter()
        .map(|bind| (bind.value, bind.origin.key))
        .collect();
    let pair = |value: &str, key: &str| (value.to_owned(), key.to_owned());
    assert_eq!(
        binds,
        [
            pair("/a:/a", "agents.defaults.sandbox.docker.binds.0"),
            pair("/b:/b", "agents.list.0.sandbox.docker.binds.0"),
        ]
    );
    let limits: Vec<_> = sandbox
        .docker
        .ulimits
        .unwrap()
        .into_iter()
        .map(|(name, limit)| (name, limit.value))
        .collect();
    assert_eq!(
        limits,
        [
            ("x".to_owned(), Ulimit::Number(1.0)),
            ("y".to_owned(), Ulimit::Pair { soft: Some(1.0), hard: None }),
        ]
    );
    assert_eq!(sandbox.browser.binds, Some(Vec::new()));
    let plain = resolve("{agents: {defaults: {sandbox: {docker: {binds: []}}}}}", None);
    assert_eq!((plain.docker.binds, plain.docker.ulimits, plain.browser.binds), (None, None, None));
}

#[test]
fn a_blank_ssh_value_of_the_agent_drops_the_one_of_the_defaults() {
    let config = "{agents: {defaults: {sandbox: {ssh: {target: ' u@h ', command: '/bin/ssh', identityData: 'k\\n'}}},
        list: [{id: 'w', sandbox: {ssh: {target: ' ', command: '', identityData: ''}}}]}}";
    let defaults = resolve(config, None).ssh;
    assert_eq!(defaults.target.unwrap().value, "u@h");
    assert_eq!(defaults.command.value, "/bin/ssh");
    assert_eq!(defaults.identity_data.unwrap().value, SecretInput::Inline("k".to_owned()));
    let agent = resolve(config, Some("w")).ssh;
    assert_eq!((agent.target, agent.identity_data), (None, None));
    assert_eq!(agent.command.value, "ssh");
}

#[test]
fn a_remote_root_is_absolute_and_ends_without_a_slash() {
    check_ssh_root(" /r/// ", Ok("/r"));
    check_ssh_root("//", Ok("/"));
    check_ssh_root("\\\\r\\\\x\\\\", Ok("/r/x"));
    check_ssh_root("  ", Ok("/tmp/openclaw-sandboxes"));
    check_ssh_root(
        "r",
        Err(
            "`agents.defaults.sandbox.ssh.workspaceRoot` must be an absolute POSIX path, not `r`; start it with `/`",
        ),
    );
    check_ssh_root(
        "~/r",
        Err(
            "`agents.defaults.sandbox.ssh.workspaceRoot` must be an absolute POSIX path, not `~/r`; start it with `/`",
        ),
    );
}

#[test]
fn the_newer_name_of_a_key_counts_first_within_its_layer() {
    let config =
        "{agents: {defaults: {sandbox: {browser: {noVncEnabled: false, enableNoVnc: true}}},
        list: [{id: 'w', sandbox: {browser: {enableNoVnc: true}}}]}}";
    assert!(!resolve(config, None).browser.enable_no_vnc.value);
    assert!(resolve(config, Some("w")).browser.enable_no_vnc.value);
}

#[test]
fn a_setup_command_may_be_a_list_of_lines() {
    let command = |text: &str| {
        let config =
            format!("{{agents: {{defaults: {{sandbox: {{docker: {{setupCommand: {text}}}}}}}}}}}");
        resolve(&config, None).docker.setup_command.map(|command| command.value)
    };
    assert_eq!(command("['a', 'b']"), Some("a\nb".to_owned()));
    assert_eq!(command("'a'"), Some("a".to_owned()));
    assert_eq!(command("7"), None);
}

#[test]
fn a_blank_user_becomes_the_owner_of_the_workspace() {
    let user = |text: &str| {
        let config = format!("{{agents: {{defaults: {{sandbox: {{docker: {text}}}}}}}}}");
        let mut docker = resolve(&config, None).docker;
        docker.run_as_owner(crate::config::sandbox::Owner { uid: 1, gid: 2 });
        docker.user.map(|user| (user.value, user.origin.layer))
    };
    assert_eq!(user("{}"), Some(("1:2".to_owned(), Layer::Derived)));
    assert_eq!(user("{user: ' '}"), Some(("1:2".to_owned(), Layer::Derived)));
    assert_eq!(user("{user: 'me'}"), Some(("me".to_owned(), Layer::Defaults)));
}

proptest! {
    #[test]
    fn any_tree_resolves_or_is_refused(root in any_node(), defaults in any_node(), agent in any_node()) {
        let id = AgentId::normalize("w");
        let whole = Config::from_tree(root, Vec::new());
        let _ = SandboxConfig::resolve(&whole, Some(&id), "/s");
        let built = layered(defaults, agent);
        let _ = SandboxConfig::resolve(&built, Some(&id), "/s");
        let _ = ignored_by_shared_scope(&built, &id);
    }

    #[test]
    fn whatever_the_agent_sets_wins(defaults in any_sandbox(), agent in any_sandbox()) {
        let alone = layered(object(vec![]), agent.clone());
        let both = layered(defaults, agent);
        let id = AgentId::normalize("w");
        let alone = SandboxConfig::resolve(&alone, Some(&id), "/s").unwrap();
        let both = SandboxConfig::resolve(&both, Some(&id), "/s").unwrap();
        prop_assert!(wins(&alone.mode, &both.mode));
        prop_assert!(wins(&alone.backend, &both.backend));
        prop_assert!(wins(&alone.workspace_access, &both.workspace_access));
        if both.scope.value != Scope::Shared {
            prop_assert!(wins(&alone.docker.image, &both.docker.image));
            prop_assert!(wins(&alone.docker.read_only_root, &both.docker.read_only_root));
            prop_assert!(wins(&alone.docker.tmpfs, &both.docker.tmpfs));
            prop_assert!(wins(&alone.prune.idle_hours, &both.prune.idle_hours));
        }
    }
}

/// What the agent wrote is what counts, whatever the defaults say.
fn wins<T: PartialEq>(alone: &Setting<T>, both: &Setting<T>) -> bool {
    alone.origin.layer != Layer::Agent || alone == both
}

/// Trees of the keys and words that this module looks for, and of others.
pub(crate) fn any_node() -> impl Strategy<Value = Node> {
    let key = prop_oneof![
        proptest::sample::select(vec![
            "agents",
            "defaults",
            "list",
            "entries",
            "id",
            "w",
            "sandbox",
            "mode",
            "scope",
            "perSession",
            "backend",
            "docker",
            "ssh",
            "browser",
            "prune",
            "env",
            "binds",
            "ulimits",
            "workspaceRoot",
            "identityData",
            "source",
            "soft",
            "hard",
            "0",
            "10",
        ])
        .prop_map(str::to_owned),
        ".{0,4}",
    ];
    let word = prop_oneof![
        proptest::sample::select(vec!["", " ", "all", "shared", "ssh", "/r", "r", "\\"])
            .prop_map(str::to_owned),
        ".{0,6}",
    ];
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::Bool),
        any::<f64>().prop_map(Value::Number),
        word.prop_map(Value::String),
    ];
    leaf.prop_map(Node::synthetic).prop_recursive(6, 48, 6, move |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..5)
                .prop_map(|items| Node::synthetic(Value::Array(items))),
            proptest::collection::vec((key.clone(), inner), 0..6).prop_map(object),
        ]
    })
}

/// A `sandbox` block with some of its keys.
fn any_sandbox() -> impl Strategy<Value = Node> {
    let text = |words: &[&'static str]| {
        let words: Vec<Node> =
            words.iter().map(|word| Node::synthetic(Value::String((*word).to_owned()))).collect();
        proptest::option::of(proptest::sample::select(words))
    };
    let flag =
        proptest::option::of(any::<bool>().prop_map(|flag| Node::synthetic(Value::Bool(flag))));
    let number =
        proptest::option::of((0..9).prop_map(|n| Node::synthetic(Value::Number(f64::from(n)))));
    let list = proptest::option::of(
        proptest::collection::vec(Just(Node::synthetic(Value::String("/t".to_owned()))), 0..3)
            .prop_map(|items| Node::synthetic(Value::Array(items))),
    );
    (
        (text(&["off", "all"]), text(&["agent", "shared"]), text(&["ssh", " "])),
        (text(&["none", "rw"]), text(&["x", "y", ""])),
        (flag, number, list),
    )
        .prop_map(|((mode, scope, backend), (access, image), (flag, number, list))| {
            let docker = some([("image", image), ("readOnlyRoot", flag), ("tmpfs", list)]);
            let prune = some([("idleHours", number)]);
            let words = [("mode", mode), ("scope", scope), ("backend", backend)];
            let blocks =
                [("workspaceAccess", access), ("docker", Some(docker)), ("prune", Some(prune))];
            some(words.into_iter().chain(blocks))
        })
}

fn some<'a>(members: impl IntoIterator<Item = (&'a str, Option<Node>)>) -> Node {
    let present = members.into_iter().filter_map(|(key, node)| Some((key.to_owned(), node?)));
    object(present.collect())
}

fn object(members: Vec<(String, Node)>) -> Node {
    let member =
        |(key, node)| Member { key, key_place: Place::default(), key_span: Span::default(), node };
    Node::synthetic(Value::Object(Object::from_members(members.into_iter().map(member).collect())))
}

/// A config with these two `sandbox` blocks; the agent is `w`.
fn layered(defaults: Node, agent: Node) -> Config {
    let entry = some([
        ("id", Some(Node::synthetic(Value::String("w".to_owned())))),
        ("sandbox", Some(agent)),
    ]);
    let agents = some([
        ("defaults", Some(some([("sandbox", Some(defaults))]))),
        ("list", Some(Node::synthetic(Value::Array(vec![entry])))),
    ]);
    Config::from_tree(some([("agents", Some(agents))]), Vec::new())
}

fn parse(text: &str) -> Config {
    Config::from_tree(json5::parse(text, FileId(0)).unwrap().root, Vec::new())
}

fn resolve(text: &str, agent: Option<&str>) -> SandboxConfig {
    let agent = agent.map(AgentId::normalize);
    SandboxConfig::resolve(&parse(text), agent.as_ref(), "/s").unwrap()
}

fn keys(origin: Origin) -> [String; 1] {
    [origin.key]
}

#[track_caller]
fn check_env(defaults: &str, agent: &str, expected: &str) {
    let config = format!(
        "{{agents: {{defaults: {{sandbox: {{docker: {defaults}}}}}, list: [{{id: 'w', sandbox: {{docker: {agent}}}}}]}}}}"
    );
    let env = resolve(&config, Some("w")).docker.env;
    let env: Vec<String> =
        env.iter().map(|(name, setting)| format!("{name}={}", setting.value)).collect();
    assert_eq!(env.join(" "), expected);
}

#[track_caller]
fn check_ssh_root(written: &str, expected: Result<&str, &str>) {
    let config =
        format!("{{agents: {{defaults: {{sandbox: {{ssh: {{workspaceRoot: '{written}'}}}}}}}}}}");
    let root = SandboxConfig::resolve(&parse(&config), None, "/s")
        .map(|sandbox| sandbox.ssh.workspace_root.value)
        .map_err(|error| error.to_string());
    assert_eq!(root, expected.map(str::to_owned).map_err(str::to_owned));
}

#[track_caller]
fn check<T: PartialEq + std::fmt::Debug>(
    setting: &Setting<T>,
    value: T,
    layer: Layer,
    key: &str,
    line: u32,
) {
    let Setting { value: found, origin } = setting;
    assert_eq!((found, origin.layer, origin.key.as_str()), (&value, layer, key));
    assert_eq!(origin.place.map(|place| place.line), Some(line));
}
