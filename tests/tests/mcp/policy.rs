//! What policy closes is neither offered nor done, and says why.

use serde_json::{Value, json};

use crate::door::{CONFIG, Ground, Pipes};

fn names(pipes: &mut Pipes) -> Vec<String> {
    let listed = pipes.ask("tools/list", &json!({}));
    let tools = listed["result"]["tools"].as_array().unwrap();
    tools.iter().map(|tool| tool["name"].as_str().unwrap().to_owned()).collect()
}

fn text(result: &Value) -> &str {
    result["content"][0]["text"].as_str().unwrap()
}

#[test]
fn a_closed_tool_is_not_offered_and_its_refusal_says_rule_file_key_and_change() {
    let config = "{tools: {deny: ['exec', 'write']}, agents: {defaults: {sandbox: {mode: 'all', backend: 'native'}}}}";
    let ground = Ground::new(config);
    let mut pipes = Pipes::open(&ground, &[]);
    assert_eq!(names(&mut pipes), ["process", "read", "edit", "ls", "grep", "find"]);
    let refused = pipes.call("bash", json!({ "command": "touch /workspace/canary" }));
    assert_eq!(refused["isError"], true);
    assert_eq!(refused["structuredContent"]["code"], "policy");
    for part in ["`exec`", "tools.deny", "openclaw.json:1:", "Smallest change"] {
        assert!(text(&refused).contains(part), "{part} in {refused}");
    }
    let patch = "*** Begin Patch\n*** Add File: x\n+x\n*** End Patch";
    assert_eq!(pipes.call("apply_patch", json!({ "input": patch }))["isError"], true);
    let audit = ground.0.run(&["audit", "--json"]);
    assert!(audit.stdout.contains("refused"), "{}", audit.stdout);
}

#[test]
fn a_tightened_policy_holds_for_the_next_call() {
    let ground = Ground::new(CONFIG);
    let mut pipes = Pipes::open(&ground, &[]);
    assert_eq!(
        pipes.call("exec", json!({ "command": "true" }))["structuredContent"]["exitCode"],
        0
    );
    let config = CONFIG.replacen('{', "{tools: {deny: ['exec']}, ", 1);
    std::fs::write(ground.0.path(".openclaw/openclaw.json"), config).unwrap();
    assert_eq!(pipes.call("exec", json!({ "command": "true" }))["isError"], true);
}

#[test]
fn a_session_without_a_sandbox_mode_still_gets_one_and_its_policy() {
    let ground = Ground::new("{agents: {defaults: {sandbox: {mode: 'off', backend: 'native'}}}}");
    let mut pipes = Pipes::open(&ground, &[]);
    let offered = names(&mut pipes);
    assert!(offered.contains(&"exec".to_owned()) && !offered.contains(&"web_fetch".to_owned()));
    let canary = ground.0.path("canary");
    let command = format!("echo out > {} ; echo in > here; ls /", canary.display());
    pipes.call("exec", json!({ "command": command }));
    assert!(!canary.exists(), "the command ran on the host");
}

#[test]
fn what_leads_out_of_the_sandbox_is_refused_or_asked_about_and_not_run() {
    let ground = Ground::new(CONFIG);
    let own = "{defaults: {approvals: {timeoutSec: 1}}}";
    std::fs::write(ground.0.path(".openclaw/clawpen.json"), own).unwrap();
    let canary = ground.0.path("canary");
    let command = format!("touch {}", canary.display());
    let mut pipes = Pipes::open(&ground, &[]);
    for more in
        [json!({ "host": "gateway" }), json!({ "elevated": true }), json!({ "host": "bogus" })]
    {
        let mut arguments = more.clone();
        arguments["command"] = json!(command);
        let refused = pipes.call("exec", arguments);
        assert_eq!(refused["isError"], true, "{more}");
    }
    let config = CONFIG.replacen('{', "{tools: {exec: {host: 'gateway'}}, ", 1);
    std::fs::write(ground.0.path(".openclaw/openclaw.json"), config).unwrap();
    let asked = pipes.call("exec", json!({ "command": command }));
    assert_eq!(asked["structuredContent"]["code"], "approval-timeout", "{asked}");
    // A call may hold itself back further, and not let itself out.
    let open = "{tools: {exec: {host: 'gateway', security: 'full', ask: 'off'}}, ";
    let config = CONFIG.replacen('{', open, 1);
    std::fs::write(ground.0.path(".openclaw/openclaw.json"), config).unwrap();
    let refused = pipes.call("exec", json!({ "command": command, "security": "deny" }));
    assert_eq!(refused["structuredContent"]["code"], "denied", "{refused}");
    let refused = pipes.call("exec", json!({ "command": command, "ask": "always" }));
    assert_eq!(refused["structuredContent"]["code"], "approval-timeout", "{refused}");
    assert!(!canary.exists());
    let done = pipes.call("exec", json!({ "command": command }));
    assert_eq!(done["structuredContent"]["exitCode"], 0, "{done}");
    assert!(canary.exists());
}

#[test]
fn b28_tools_that_manage_sandboxes_are_under_policy_and_in_the_record() {
    let ground = Ground::new(CONFIG);
    let mut pipes = Pipes::open(&ground, &["--admin-tools"]);
    let all = ["sandbox_status", "sandbox_list", "sandbox_explain", "sandbox_recreate"];
    let offered = names(&mut pipes);
    assert!(all.iter().all(|name| offered.contains(&(*name).to_owned())), "{offered:?}");
    assert_eq!(pipes.call("sandbox_status", json!({}))["isError"], false);
    let config = CONFIG.replacen('{', "{tools: {deny: ['sandbox_recreate', 'sandbox_l*']}, ", 1);
    std::fs::write(ground.0.path(".openclaw/openclaw.json"), config).unwrap();
    let offered = names(&mut pipes);
    for (name, is_open) in all.into_iter().zip([true, false, true, false]) {
        assert_eq!(offered.contains(&name.to_owned()), is_open, "{name}");
        assert_eq!(pipes.call(name, json!({}))["isError"], !is_open, "{name}");
    }
    // A list that somebody wrote is closed to what it does not name.
    let config = CONFIG.replacen('{', "{tools: {allow: ['exec', 'sandbox_status']}, ", 1);
    std::fs::write(ground.0.path(".openclaw/openclaw.json"), config).unwrap();
    let refused = pipes.call("sandbox_explain", json!({}));
    assert_eq!(refused["isError"], true);
    assert_eq!(refused["structuredContent"]["code"], "policy", "{refused}");
    assert_eq!(pipes.call("sandbox_status", json!({}))["isError"], false);
    let audit = ground.0.run(&["audit", "--json"]).stdout;
    for name in all {
        assert!(audit.contains(name), "{name} is not in the record");
    }
}

#[test]
fn a_sandbox_that_keeps_an_older_config_says_so() {
    let ground = Ground::new(CONFIG);
    let mut pipes = Pipes::open(&ground, &[]);
    let sent = pipes.call("exec", json!({ "command": "sleep 60", "background": true }));
    assert_eq!(sent["isError"], false, "{sent}");
    let changed = "sandbox: {docker: {env: {NEW: '1'}}, ";
    let config = CONFIG.replacen("sandbox: {", changed, 1);
    std::fs::write(ground.0.path(".openclaw/openclaw.json"), config).unwrap();
    for (tool, arguments) in [("exec", json!({ "command": "true" })), ("ls", json!({}))] {
        let done = pipes.call(tool, arguments);
        assert!(text(&done).contains("keeps its old config"), "{done}");
        let warning = done["structuredContent"]["warning"].as_str().unwrap();
        assert!(warning.contains("sandbox recreate"), "{warning}");
    }
}

#[test]
fn two_agents_never_share_a_session_by_its_name() {
    let ground = Ground::new(CONFIG);
    let mut one = Pipes::open(&ground, &["--agent", "one", "--session", "group:1"]);
    let mut two = Pipes::open(&ground, &["--agent", "two", "--session", "group:1"]);
    let sent = one.call("exec", json!({ "command": "sleep 60", "background": true }));
    let id = sent["structuredContent"]["sessionId"].clone();
    assert_eq!(two.call("process", json!({ "action": "poll", "sessionId": id }))["isError"], true);
    assert_eq!(
        one.call("process", json!({ "action": "poll", "sessionId": id, "timeout": 1 }))["isError"],
        false
    );
    let audit = ground.0.run(&["audit", "--json"]).stdout;
    assert!(audit.contains("agent:one:group:1") && audit.contains("agent:two:group:1"), "{audit}");
}

#[test]
fn another_session_does_not_see_a_command_in_the_background() {
    let ground = Ground::new(CONFIG);
    let mut one = Pipes::open(&ground, &["--session", "one"]);
    let mut two = Pipes::open(&ground, &["--session", "two"]);
    let sent = one.call("exec", json!({ "command": "sleep 60", "background": true }));
    let id = sent["structuredContent"]["sessionId"].clone();
    assert_eq!(two.call("process", json!({ "action": "poll", "sessionId": id }))["isError"], true);
    assert_eq!(
        one.call("process", json!({ "action": "remove", "sessionId": id }))["isError"],
        false
    );
}

#[test]
fn much_output_neither_blocks_nor_grows() {
    let ground = Ground::new(CONFIG);
    let mut pipes = Pipes::open(&ground, &[]);
    let done = pipes.call("exec", json!({ "command": "head -c 100000000 /dev/zero | tr '\\0' a; echo; echo end", "yieldMs": 120_000 }));
    let output = done["structuredContent"]["aggregated"].as_str().unwrap();
    assert!(output.len() <= 200_000 && output.ends_with("end\n"), "{}", output.len());
    let status = std::fs::read_to_string(format!("/proc/{}/status", pipes.child.id())).unwrap();
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    let kib: u64 = peak.trim().trim_end_matches(" kB").parse().unwrap();
    assert!(kib < 200_000, "{kib} KiB");
}
