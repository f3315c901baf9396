//! Hostile or careless configs through the real binary: what must not start, must not be bound and
//! must not be printed.
#![forbid(unsafe_code)]

use std::os::unix::fs::symlink;
use std::os::unix::net::UnixListener;

use clawpen_tests::home::{Home, Run};
use serde_json::{Value, json};

/// A sandbox with these keys, and `more` keys beside it.
fn sandboxed(sandbox: &str, more: &str) -> String {
    format!("{{agents: {{defaults: {{{more}sandbox: {{mode: 'all', {sandbox}}}}}}}}}")
}

fn refusals(home: &Home) -> Vec<String> {
    let run = home.run(&["sandbox", "explain", "--json"]);
    assert_eq!(run.code, Some(0), "{}", run.stderr);
    let refusals = run.json()["clawpen"]["refusals"].clone();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    refusals.as_array().into_iter().flatten().map(text).collect()
}

/// The start is refused once, and the refusal holds all of `words`.
#[track_caller]
fn refused(home: &Home, words: &[&str]) {
    let refusals = refusals(home);
    assert_eq!(refusals.len(), 1, "{refusals:?}");
    for word in words {
        assert!(refusals[0].contains(word), "{word}: {refusals:?}");
    }
}

#[test]
fn a_workspace_that_is_no_workspace_is_refused_with_its_key_and_place() {
    for (workspace, access, shown) in [
        ("/etc", "rw", "`/etc`"),
        ("/run/docker.sock", "rw", "`/run`"),
        ("/", "ro", "`/`"),
        ("~", "rw", "/.aws`"),
        ("~/link", "rw", "`/etc`"),
        ("/root/.ssh", "rw", "`/root/.ssh`"),
        ("~/.openclaw", "rw", "/.openclaw"),
        ("~/.openclaw/agents", "rw", "/.openclaw/agents"),
        ("~/.openclaw/sandboxes", "rw", "/.openclaw/sandboxes"),
        ("~/loop/ws", "rw", "too many symbolic links"),
        ("~/sockets", "rw", "/sockets/docker.sock"),
    ] {
        let access = format!("workspaceAccess: '{access}'");
        let home = Home::with_config(&sandboxed(&access, &format!("workspace: '{workspace}', ")));
        symlink("/etc", home.path("link")).expect("link");
        symlink("loop", home.path("loop")).expect("link");
        std::fs::create_dir(home.path("sockets")).expect("directory");
        let _socket = UnixListener::bind(home.path("sockets/docker.sock")).expect("socket");
        let key = "`agents.defaults.workspace` at ~/.openclaw/openclaw.json:1:33";
        refused(&home, &[shown, key]);
    }
    for root in ["/etc", "", "relative"] {
        let keys = format!("scope: 'shared', workspaceRoot: '{root}'");
        let home = Home::with_config(&sandboxed(&keys, ""));
        let key = "`agents.defaults.sandbox.workspaceRoot` at ~/.openclaw/openclaw.json:1:";
        refused(&home, &[key]);
    }
    for workspace in ["/root/ws", "~/.openclaw/workspace", "~/project"] {
        let workspace = format!("workspace: '{workspace}', ");
        let home = Home::with_config(&sandboxed("workspaceAccess: 'rw'", &workspace));
        assert_eq!(refusals(&home), [""; 0], "{workspace}");
    }
}

#[test]
fn nothing_of_ours_and_no_key_is_bound_even_if_binds_may_come_from_anywhere() {
    let config = "{$include: './shared/more.json5', agents: {defaults: {sandbox: {mode: 'all', \
                  docker: {dangerouslyAllowExternalBindSources: true}}}}}";
    let home = Home::with_config(config)
        .with_file(".openclaw/shared/more.json5", "{}")
        .with_file("project/original", "x")
        .with_file("plain/f", "x");
    std::fs::hard_link(home.path("project/original"), home.path("project/second")).expect("link");
    symlink(".ssh", home.path(".ssh")).expect("link");
    symlink("plain", home.path("alias")).expect("link");
    std::fs::create_dir(home.path("sockets")).expect("directory");
    let _socket = UnixListener::bind(home.path("sockets/podman.sock")).expect("socket");
    let _named = UnixListener::bind(home.path("engine")).expect("socket");
    let ask = |source: &str| {
        let source = if source.starts_with('/') {
            source.to_owned()
        } else {
            home.path(source).to_str().expect("UTF-8").to_owned()
        };
        let bind = format!("{source}:/x");
        let mut command = home.command(&["why", "bind", &bind, "--json"]);
        let socket = home.path("engine").to_str().expect("UTF-8").to_owned();
        Run::of(command.env("DOCKER_HOST", format!("UNIX://{socket}")))
    };
    for source in [
        ".openclaw/shared/more.json5",
        ".openclaw/shared",
        ".openclaw/.env",
        ".openclaw/credentials",
        ".openclaw/agents/main/sessions",
        ".openclaw/sandboxes/agent-other-00000000",
        ".openclaw/sandboxes",
        ".openclaw",
        ".kube/config",
        ".git-credentials",
        ".claude",
        ".codex",
        ".bashrc",
        ".ssh",
        ".ssh/id",
        "project/second",
        "sockets",
        "engine",
        "/home/somebody-unknown/.ssh",
        "/home/somebody-unknown",
        "/Users/somebody/.aws",
    ] {
        let run = ask(source);
        assert_eq!(run.code, Some(3), "{source}: {}{}", run.stdout, run.stderr);
    }
    for source in ["plain", "alias", "project", "/usr/games", "/var/www", ".openclaw/workspace/src"]
    {
        let run = ask(source);
        assert_eq!(run.code, Some(0), "{source}: {}{}", run.stdout, run.stderr);
    }
}

#[test]
fn a_home_at_the_root_has_its_keys_there() {
    let home =
        Home::with_config(&sandboxed("docker: {dangerouslyAllowExternalBindSources: true}", ""));
    let config = home.path(".openclaw/openclaw.json");
    for (bind, code) in [("/.ssh:/x", 3), ("/.aws/credentials:/x", 3), ("/mnt/data:/x", 0)] {
        let mut command = home.command(&["why", "bind", bind]);
        let run = Run::of(command.env("HOME", "/").env("OPENCLAW_CONFIG_PATH", &config));
        assert_eq!(run.code, Some(code), "{bind}: {}{}", run.stdout, run.stderr);
    }
}

#[test]
fn a_path_through_a_link_or_a_url_is_followed_from_either_side() {
    let home = Home::with_config(&sandboxed("workspaceAccess: 'rw'", "workspace: '~/ws', "))
        .with_file("ws/f", "x");
    symlink("/etc", home.path("ws/etc")).expect("link");
    for (path, code) in [
        ("/workspace/f", 0),
        ("/workspace/etc/passwd", 3),
        ("/workspace/etc", 3),
        ("etc/passwd", 3),
        ("file:///workspace/f", 0),
        ("file:///workspace/etc/passwd", 3),
        ("file:///etc/passwd", 3),
    ] {
        let run = home.run(&["why", "path", path, "--json"]);
        assert_eq!(run.code, Some(code), "{path}: {}{}", run.stdout, run.stderr);
    }
    let run = home.run(&["why", "path", "file:///workspace/f", "--json"]);
    assert_eq!(run.json()["containerPath"], json!("/workspace/f"));
}

#[test]
fn what_a_tmpfs_covers_is_not_the_workspace() {
    let tmpfs = "docker: {tmpfs: ['/workspace/cache:size=1m']}";
    let home = Home::with_config(&sandboxed(tmpfs, ""));
    assert_eq!(home.run(&["why", "path", "/workspace/f"]).code, Some(0));
    let run = home.run(&["why", "path", "/workspace/cache/f"]);
    assert_eq!(run.code, Some(3), "{}", run.stdout);
    assert!(run.stdout.contains("`/workspace/cache/f`"), "{}", run.stdout);
}

#[test]
fn a_browser_that_cannot_start_is_shown_before_it_is_tried() {
    let with_browser = |keys: &str| {
        let sandbox = sandboxed(&format!("browser: {{enabled: true, {keys}}}"), "");
        Home::with_config(&format!(
            "{{tools: {{sandbox: {{tools: {{alsoAllow: ['browser'], deny: ['canvas']}}}}}}, {}",
            sandbox.trim_start_matches('{')
        ))
    };
    assert_eq!(refusals(&with_browser("")), [""; 0]);
    for (keys, words) in [
        ("network: 'none'", ["`none`", "browser.network` ", ":1:"]),
        ("cdpPort: 70000", ["70000", "browser.cdpPort`", ":1:"]),
        ("cdpSourceRange: 'a;b'", ["`a;b`", "browser.cdpSourceRange`", ":1:"]),
        ("binds: ['/etc:/e']", ["`/etc:/e`", "browser.binds.0`", ":1:"]),
        ("image: '--privileged'", ["`--privileged`", "browser.image`", ":1:"]),
    ] {
        refused(&with_browser(keys), &words);
    }
    // A browser that nobody may use is not made.
    let home = Home::with_config(&sandboxed("browser: {enabled: true, network: 'none'}", ""));
    assert_eq!(refusals(&home), [""; 0]);
}

#[test]
fn what_a_backend_lacks_is_shown_with_its_place() {
    let ssh = "backend: 'ssh', ssh: {target: 'u@h'}";
    let browser = format!("{ssh}, browser: {{enabled: true}}");
    refused(
        &Home::with_config(&sandboxed(&browser, "")),
        &["`ssh`", "`agents.defaults.sandbox.browser.enabled`", "(at ~/.openclaw/openclaw.json:1:"],
    );
    let binds = format!("{ssh}, docker: {{binds: ['~/.openclaw/workspace/a:/a']}}");
    let home = Home::with_config(&sandboxed(&binds.replace('~', "/srv"), ""));
    let found = refusals(&home);
    assert!(found[0].contains("`agents.defaults.sandbox.docker.binds.0`"), "{found:?}");
    let native = "backend: 'native', docker: {network: 'bridge'}";
    refused(
        &Home::with_config(&sandboxed(native, "")),
        &["`native`", "`agents.defaults.sandbox.docker.network`"],
    );
}

#[test]
fn no_text_from_outside_reaches_the_terminal_raw() {
    let hostile = "\u{1b}[2J\u{9b}31m\u{202e}\u{7f}";
    let home = Home::with_config(&format!(
        "{{agents: {{defaults: {{sandbox: {{mode: 'all', docker: {{workdir: '/w{hostile}', \
         env: {{'A{hostile}': 'x'}}}}}}}}}}, gateway: {{bind: 'lan'}}}}"
    ));
    for args in [
        &["sandbox", "explain"][..],
        &["sandbox", "explain", "--json"],
        &["sandbox", "explain", "--session", hostile],
        &["sandbox", "explain", "--agent", hostile, "--session", "agent:x:y"],
        &["sandbox", "explain", "--docker-args"],
        &["config", "show"],
        &["config", "show", hostile],
        &["why", "path", hostile],
        &["why", "path", hostile, "--json"],
        &["why", "bind", hostile],
        &["why", "bind", hostile, "--json"],
        &["why", "tool", hostile],
        &["why", "tool", hostile, "--json"],
        &["why", hostile],
        &["sandbox", "explain", hostile],
        &[hostile],
    ] {
        quiet(&home.run(args), args);
    }
    let missing = home.path(&format!("missing{hostile}.json"));
    std::fs::create_dir(&missing).expect("directory");
    let mut command = home.command(&["sandbox", "explain"]);
    quiet(&Run::of(command.env("OPENCLAW_CONFIG_PATH", &missing)), &["unreadable"]);
    let broken = home.path(&format!("broken{hostile}.json"));
    std::fs::write(&broken, "{").expect("file");
    for args in [&["config", "validate"][..], &["config", "validate", "--json"]] {
        let mut command = home.command(args);
        quiet(&Run::of(command.env("OPENCLAW_CONFIG_PATH", &broken)), args);
    }
}

#[track_caller]
fn quiet(run: &Run, args: &[&str]) {
    let printed = format!("{}{}", run.stdout, run.stderr);
    let steers = |c: char| (c.is_control() && c != '\n') || c == '\u{202e}';
    assert!(!printed.is_empty() && !printed.contains(steers), "{args:?}: {printed:?}");
    if args.contains(&"--json") {
        let _: Value = run.json();
    }
}

#[test]
fn secrets_are_shown_by_no_way_of_asking() {
    let home = Home::with_config(
        "{env: {vars: {PLAIN: 'hunter2'}}, \
         models: {providers: {a: {baseUrl: 'https://u:hunter2@h/v1', headers: {'X-A': 'hunter2'}}}}, \
         agents: {defaults: {sandbox: {mode: 'all', docker: {env: {PLAIN: 'hunter2', LANG: 'de'}, \
         setupCommand: 'curl -H hunter3 x'}, ssh: {knownHostsData: 'hunter2'}}}}}",
    );
    for args in [
        &["config", "show"][..],
        &["config", "show", "env"],
        &["config", "show", "env.vars.PLAIN"],
        &["config", "show", "agents.defaults.sandbox.docker.env.PLAIN"],
        &["config", "show", "agents.defaults.sandbox.ssh.knownHostsData"],
        &["config", "show", "models.providers.a.headers.X-A"],
        &["config", "show", "models.providers.a.baseUrl"],
        &["sandbox", "explain"],
        &["sandbox", "explain", "--json"],
        &["sandbox", "explain", "--docker-args"],
    ] {
        let run = home.run(args);
        assert_eq!(run.code, Some(0), "{args:?}: {}", run.stderr);
        assert!(!run.stdout.contains("hunter2"), "{args:?}: {}", run.stdout);
        let is_explain = args[0] == "sandbox";
        assert!(!(is_explain && run.stdout.contains("hunter3")), "{args:?}: {}", run.stdout);
    }
    let run = home.run(&["sandbox", "explain", "--docker-args"]);
    for line in ["PLAIN=***", "LANG=de", "OPENCLAW_CLI=1"] {
        assert!(run.stdout.lines().any(|shown| shown == line), "{line}: {}", run.stdout);
    }
}
