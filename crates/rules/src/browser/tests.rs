//! The browser: when it starts, what its container is told, and what is refused.

use super::*;
use crate::config::Config;
use crate::config::json5;
use crate::config::sandbox::WorkspaceAccess;
use crate::config::tree::FileId;
use crate::host_files::FileTable;
use crate::mounts::{BindPolicy, KnownPlaces};
use crate::scope::ScopeKey;
use crate::tool_policy::{self, Layers, Tool};
use crate::workspace::Directories;

#[test]
fn a_browser_needs_to_be_enabled_and_allowed() {
    let decided = |browser: &str, deny: &[&str]| {
        let layers = Layers::of_policy(&[], deny);
        decide(&resolve(browser).browser, &tool_policy::decide(&layers, &Tool::core("browser")))
    };
    assert!(matches!(decided("{}", &[]), BrowserDecision::NotEnabled(_)));
    assert_eq!(decided("{enabled: true}", &[]), BrowserDecision::Start);
    assert_eq!(decided("{enabled: true}", &["browser"]), BrowserDecision::ToolDenied);
}

#[test]
fn its_network_must_let_it_be_reached() {
    let bridge = |name: &str| Ok(NetworkNeed::Bridge(name.to_owned()));
    let unreachable = |network: &str| {
        let key = "agents.defaults.sandbox.browser.network".to_owned();
        Err(BrowserRefused::Unreachable { network: network.to_owned(), key })
    };
    check_network("{}", bridge("openclaw-sandbox-browser"));
    check_network("{network: ' '}", bridge("openclaw-sandbox-browser"));
    check_network("{network: 'mine'}", bridge("mine"));
    check_network("{network: 'bridge'}", Ok(NetworkNeed::Nothing));
    check_network("{network: 'none'}", unreachable("none"));
    check_network("{network: 'NONE '}", unreachable("NONE"));
    assert!(matches!(
        decide_network(&resolve("{network: 'Host'}")),
        Err(BrowserRefused::Network(_))
    ));
    let mut config = resolve("{network: 'container:x'}");
    assert!(matches!(decide_network(&config), Err(BrowserRefused::Network(_))));
    let allowed = config.browser.enabled.clone().map(|_| true);
    config.docker.allow_container_namespace_join = Some(allowed);
    assert_eq!(decide_network(&config), unreachable("container:x"));
}

#[test]
fn its_ports_stay_on_the_loopback_address() {
    check(
        "{}",
        "-p 127.0.0.1::9222 -p 127.0.0.1::6080 -e OPENCLAW_BROWSER_HEADLESS=0 \
         -e OPENCLAW_BROWSER_ENABLE_NOVNC=1 -e OPENCLAW_BROWSER_CDP_PORT=9222 \
         -e OPENCLAW_BROWSER_VNC_PORT=5900 -e OPENCLAW_BROWSER_NOVNC_PORT=6080 \
         -e OPENCLAW_BROWSER_NO_SANDBOX=1 -e OPENCLAW_BROWSER_NOVNC_PASSWORD=aB3dE6gH \
         openclaw-sandbox-browser:bookworm-slim",
    );
    check(
        "{headless: true, cdpPort: 1, cdpSourceRange: ' 172.21.0.1/32 ', image: 'b:1'}",
        "-p 127.0.0.1::1 -e OPENCLAW_BROWSER_HEADLESS=1 -e OPENCLAW_BROWSER_ENABLE_NOVNC=1 \
         -e OPENCLAW_BROWSER_CDP_PORT=1 -e OPENCLAW_BROWSER_CDP_SOURCE_RANGE=172.21.0.1/32 \
         -e OPENCLAW_BROWSER_VNC_PORT=5900 -e OPENCLAW_BROWSER_NOVNC_PORT=6080 \
         -e OPENCLAW_BROWSER_NO_SANDBOX=1 b:1",
    );
}

#[test]
fn what_could_break_out_of_its_start_script_is_refused() {
    for browser in [
        "{cdpPort: 0}",
        "{cdpPort: 65536}",
        "{vncPort: -1}",
        "{noVncPort: 1.5}",
        "{cdpSourceRange: '10.0.0.0/8; id'}",
        "{cdpSourceRange: '$(id)'}",
        "{image: '-v'}",
        "{containerPrefix: '-'}",
        "{binds: ['/etc:/e']}",
        "{network: 'a=b'}",
    ] {
        assert!(build(browser).is_err(), "{browser}");
    }
}

#[test]
fn a_password_is_eight_letters_or_digits_and_never_shown() {
    assert_eq!(ViewerPassword::parse("short"), None);
    assert_eq!(ViewerPassword::parse("aB3dE6g "), None);
    assert_eq!(format!("{:?}", password()), "ViewerPassword(***)");
}

fn resolve(browser: &str) -> SandboxConfig {
    let text = format!("{{agents: {{defaults: {{sandbox: {{browser: {browser}}}}}}}}}");
    let tree = json5::parse(&text, FileId(0)).unwrap().root;
    SandboxConfig::resolve(&Config::from_tree(tree, vec![]), None, "/state").unwrap()
}

fn password() -> ViewerPassword {
    ViewerPassword::parse("aB3dE6gH").unwrap()
}

fn build(browser: &str) -> Result<BrowserSpec, BrowserRefused> {
    let config = resolve(browser);
    let directories = Directories {
        sandbox: "/state/sandboxes/s-1".into(),
        agent: "/home/u/ws".into(),
        workdir: "/workspace".into(),
    };
    let layout = Layout::plan(WorkspaceAccess::None, &directories);
    let scope = ScopeKey::stored("agent:main").unwrap();
    let name = scope.container_name(config.scope.value, &config.browser.container_prefix.value);
    let files = FileTable::new();
    let docker = config.browser_docker();
    let known = KnownPlaces::default();
    let policy = BindPolicy::resolve(&docker, &layout.bind_roots(), &known, &files);
    let plan = BrowserPlan {
        identity: Identity { name, scope, created_at_ms: 7, fingerprint: None },
        layout: &layout,
        config: &config,
        filter: &Filter::except_credentials(),
        password: Some(password()),
    };
    BrowserSpec::build(plan, &policy, &files)
}

#[track_caller]
fn check_network(browser: &str, expected: Result<NetworkNeed, BrowserRefused>) {
    assert_eq!(decide_network(&resolve(browser)), expected, "{browser}");
}

/// The arguments after the workspace's mount.
#[track_caller]
fn check(browser: &str, expected: &str) {
    let args = build(browser).unwrap().docker_args();
    let mount = args.iter().position(|arg| arg == "-v").unwrap();
    assert_eq!(args[mount + 2..].join(" "), expected, "{browser}");
    assert!(args.contains(&"openclaw.sandboxBrowser=1".to_owned()));
    assert!(!args.contains(&"--workdir".to_owned()));
}

#[test]
fn its_container_publishes_what_can_be_reached_and_runs_no_setup() {
    for (browser, ports) in [
        ("{}", &[9222, 6080][..]),
        ("{headless: true}", &[9222]),
        ("{enableNoVnc: false, cdpPort: 7}", &[7]),
    ] {
        let spec = build(browser).unwrap();
        assert_eq!(spec.container().ports(), ports, "{browser}");
        assert_eq!(spec.viewer_port(), ports.get(1).copied());
        assert_eq!(spec.container().setup(), None);
    }
}

#[test]
fn what_the_config_leaves_open_is_closed_to_all_but_a_range() {
    let told = |browser: &str| {
        let told = Told { source_range: Some("172.18.0.1/32"), ..Told::default() };
        let settings = build(browser).unwrap().settings(&told);
        let range = settings.into_iter().find(|(name, _)| name.ends_with("_SOURCE_RANGE"));
        range.map(|(_, range)| range)
    };
    assert_eq!(told("{}").as_deref(), Some("172.18.0.1/32"));
    assert_eq!(told("{cdpSourceRange: '10.0.0.0/8'}").as_deref(), Some("10.0.0.0/8"));
}

#[test]
fn a_password_is_made_of_fair_bytes_only() {
    let made = |bytes: &[u8]| ViewerPassword::of(bytes).map(|made| made.expose().to_owned());
    assert_eq!(made(&[0, 61, 62, 255, 247, 248, 10, 36, 1, 2]).as_deref(), Some("0Z0ZaA12"));
    assert_eq!(made(&[255; 40]), None);
    assert_eq!(made(&[1; 7]), None);
}

#[test]
fn the_control_ports_token_is_told_and_never_shown() {
    let token = ControlToken::of([0xa5; 24]);
    assert_eq!(token.expose(), "a5".repeat(24));
    assert_eq!(ControlToken::parse(token.expose()), Some(token.clone()));
    assert_eq!((ControlToken::parse("a5"), ControlToken::parse(&"g".repeat(48))), (None, None));
    assert_eq!(format!("{token:?}"), "ControlToken(***)");
    let told = Told { token: Some(&token), ..Told::default() };
    let settings = build("{}").unwrap().settings(&told);
    let expected = ("OPENCLAW_BROWSER_CDP_AUTH_TOKEN".to_owned(), "a5".repeat(24));
    assert_eq!(settings.last(), Some(&expected));
}
