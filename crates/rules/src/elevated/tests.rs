//! Who passes the gates, by table.

use super::*;
use crate::config::json5;
use crate::config::tree::FileId;

const CHANNELS: &[&str] = &["telegram", "signal", "googlechat", "imessage", "slack"];

#[test]
fn the_sender_must_pass_every_gate() {
    let ids =
        |entries: &str| format!("{{tools:{{elevated:{{allowFrom:{{signal:[{entries}]}}}}}}}}");
    check("{}", &["tools.elevated.allowFrom.signal"]);
    check("{tools:{elevated:{enabled:false}}}", &["tools.elevated.enabled"]);
    check("{tools:{elevated:{enabled:'no'}}}", &["tools.elevated.enabled"]);
    check(&ids("'*'"), &[]);
    check(&ids("' 123 '"), &[]);
    check(&ids("123"), &[]);
    check(&ids("'id:123'"), &[]);
    check(&ids("'e164:+1555'"), &[]);
    check(&ids("'from:signal:+1555'"), &[]);
    check(&ids("'SIGNAL:+1555'"), &[]);
    check(&ids("'id:+1555'"), &["tools.elevated.allowFrom.signal"]);
    check(&ids("'',' '"), &["tools.elevated.allowFrom.signal"]);
    let agent = "agents:{list:[{id:'w',tools:{elevated:";
    let both = |own: &str| {
        format!("{{tools:{{elevated:{{allowFrom:{{signal:['*']}}}}}},{agent}{own}}}}}]}}}}")
    };
    check(&both("{}"), &[]);
    check(&both("{enabled:false}"), &["agents.list[].tools.elevated.enabled"]);
    check(&both("{allowFrom:{}}"), &["agents.list[].tools.elevated.allowFrom.signal"]);
    check(&both("{allowFrom:{signal:['9']}}"), &["agents.list[].tools.elevated.allowFrom.signal"]);
    check(&both("{allowFrom:{signal:['123']}}"), &[]);
}

#[test]
fn a_name_counts_only_where_the_entry_says_so() {
    let with = |entry: &str| {
        let text = format!("{{tools:{{elevated:{{allowFrom:{{signal:['{entry}']}}}}}}}}");
        match decide(&config(&text), &agent(), "signal", &alice()) {
            ElevatedVerdict::Allowed(grant) => Some(grant.identity),
            ElevatedVerdict::Refused(_) => None,
        }
    };
    assert_eq!(with("Alice"), None);
    assert_eq!(with("Alice Liddell"), None);
    assert_eq!(with("name:alice-liddell"), Some(Identity::Name));
    assert_eq!(with("USERNAME: @alice "), Some(Identity::Username));
    assert_eq!(with("tag:alice#1"), Some(Identity::Tag));
    assert!(Identity::Name.is_mutable() && !Identity::Id.is_mutable());
}

#[test]
fn without_a_provider_nobody_passes() {
    let config = config("{tools:{elevated:{allowFrom:{'':['*']}}}}");
    let verdict = decide(&config, &agent(), "", &alice());
    assert_eq!(verdict, ElevatedVerdict::Refused(vec![GateFailure::Provider]));
    assert!(verdict.is_enabled());
}

#[test]
fn the_report_lists_every_shut_gate() {
    let text = "{tools:{elevated:{enabled:false}},
        agents:{list:[{id:'w',tools:{elevated:{enabled:false,allowFrom:{telegram:['*']}}}}]}}";
    let channel = Channel::normalize("telegram", CHANNELS);
    assert_eq!(
        report(&config(text), &agent(), channel.clone()),
        ElevatedReport {
            enabled: false,
            channel: channel.clone(),
            allowed_by_config: false,
            always_allowed_by_config: false,
            allow_from_global: Some(vec![]),
            allow_from_agent: Some(vec!["*".to_owned()]),
            failures: vec![
                GateFailure::Enabled(GateScope::Global),
                GateFailure::Enabled(GateScope::Agent),
                GateFailure::AllowFrom(GateScope::Global, "telegram".to_owned()),
            ],
        }
    );
    let text = "{tools:{elevated:{allowFrom:{telegram:[' * ',123]}}}}";
    assert_eq!(
        report(&config(text), &agent(), channel.clone()),
        ElevatedReport {
            enabled: true,
            channel,
            allowed_by_config: true,
            always_allowed_by_config: true,
            allow_from_global: Some(vec!["*".to_owned(), "123".to_owned()]),
            allow_from_agent: None,
            failures: vec![],
        }
    );
    assert_eq!(
        report(&config(text), &agent(), None),
        ElevatedReport {
            enabled: true,
            channel: None,
            allowed_by_config: false,
            always_allowed_by_config: false,
            allow_from_global: None,
            allow_from_agent: None,
            failures: vec![],
        }
    );
}

#[test]
fn the_record_of_a_session_names_its_channel_before_the_key_does() {
    let channel = |stored, key| {
        Channel::of_session(stored, key, CHANNELS).map(|channel| channel.as_str().to_owned())
    };
    let is = |name: &str| Some(name.to_owned());
    assert_eq!(channel(None, "agent:w:telegram:group:1"), is("telegram"));
    assert_eq!(channel(Some("slack"), "agent:w:telegram:group:1"), is("slack"));
    assert_eq!(channel(Some("carrier-pigeon"), "agent:w:telegram:group:1"), is("telegram"));
    assert_eq!(channel(None, "agent:w:google-chat:group:x"), is("googlechat"));
    assert_eq!(channel(None, "agent:w:imsg:direct:x"), is("imessage"));
    assert_eq!(channel(None, "agent:w:webchat:direct:1"), is("webchat"));
    for key in ["agent:w:main", "agent:w:subagent:1", "telegram:group:1", "agent:w:matrix:x", ""] {
        assert_eq!(channel(None, key), None, "{key}");
    }
}

fn config(text: &str) -> Config {
    let parsed = json5::parse(text, FileId(0)).expect("the test's config parses");
    Config::from_tree(parsed.root, vec![])
}

fn agent() -> AgentId {
    AgentId::normalize("w")
}

fn alice() -> Sender {
    let text = |text: &str| Some(text.to_owned());
    Sender {
        id: text("123"),
        from: text("signal:+1555"),
        e164: text("+1555"),
        name: text("Alice Liddell"),
        username: text("Alice"),
        tag: text("alice#1"),
    }
}

/// Compares the keys of the gates that refuse Alice on Signal.
#[track_caller]
fn check(text: &str, expected: &[&str]) {
    let verdict = decide(&config(text), &agent(), "signal", &alice());
    let keys: Vec<String> = verdict.failures().iter().map(GateFailure::key).collect();
    assert_eq!(keys, expected, "{text}");
}
