//! Which hooks there are, where their paths lead, what their templates say, and in which session they run.

use proptest::prelude::*;

use super::session::{KeyFrom, SessionRefused, Wanted};
use super::template::{MOST_RENDERED, Place, Root, Step, Template};
use super::*;
use crate::config::json5;
use crate::config::tree::FileId;

fn config(hooks: &str) -> Config {
    let text =
        format!("{{ agents: {{ list: [{{ id: 'main' }}, {{ id: 'bot' }}] }}, hooks: {hooks} }}");
    Config::from_tree(json5::parse(&text, FileId(0)).unwrap().root, Vec::new())
}

fn hooks(rest: &str) -> (Config, Hooks) {
    let config = config(&format!("{{ enabled: true, token: 't', {rest} }}"));
    let hooks = resolve(&config).unwrap().unwrap();
    (config, hooks)
}

#[track_caller]
fn check_refused(text: &str, expected: &str) {
    let why = resolve(&config(text)).unwrap_err().to_string();
    assert!(why.contains(expected), "{text}: {why}");
}

#[test]
fn hooks_that_are_not_whole_do_not_start() {
    for (text, expected) in [
        ("{ enabled: true }", "hooks.token"),
        ("{ enabled: true, token: ' ' }", "hooks.token"),
        ("{ enabled: true, token: 't', path: '/' }", "hooks.path"),
        ("{ enabled: true, token: 't', path: '/a/../b' }", "no plain path"),
        ("{ enabled: true, token: 't', path: '/a//b' }", "no plain path"),
        ("{ enabled: true, token: 't', path: '/a%2fb' }", "no plain path"),
        ("{ enabled: true, token: 't', path: 'v1/hooks' }", "answers itself"),
        ("{ enabled: true, token: 't', path: '/tools/invoke' }", "answers itself"),
        ("{ enabled: true, token: 't', transformsDir: 'x' }", "hooks.transformsDir"),
        ("{ enabled: true, token: 't', gmail: {} }", "hooks.gmail"),
        ("{ enabled: true, token: 't', maxBodyBytes: 9e9 }", "hooks.maxBodyBytes"),
        ("{ enabled: true, token: 't', presets: ['gitlab'] }", "hooks.presets.0"),
        (
            "{ enabled: true, token: 't', mappings: [{ messageTemplate: 'x', transform: { module: 'm' } }] }",
            "hooks.mappings.0.transform",
        ),
        (
            "{ enabled: true, token: 't', mappings: [{ messageTemplate: 'x', channel: 'telegram' }] }",
            "hooks.mappings.0.channel",
        ),
        (
            "{ enabled: true, token: 't', mappings: [{ action: 'wake', messageTemplate: 'x' }] }",
            "hooks.mappings.0.textTemplate",
        ),
        (
            "{ enabled: true, token: 't', mappings: [{ action: 'run', messageTemplate: 'x' }] }",
            "hooks.mappings.0.action",
        ),
        (
            "{ enabled: true, token: 't', allowedSessionKeyPrefixes: ['x:'] }",
            "hooks.allowedSessionKeyPrefixes",
        ),
        (
            "{ enabled: true, token: 't', allowedSessionKeyPrefixes: ['x:'], defaultSessionKey: 'y:1' }",
            "hooks.defaultSessionKey",
        ),
    ] {
        check_refused(text, expected);
    }
}

#[test]
fn hooks_that_are_off_ask_for_nothing() {
    for text in ["{}", "{ enabled: false, gmail: {} }", "{ token: 't', transformsDir: 'x' }"] {
        assert_eq!(resolve(&config(text)), Ok(None), "{text}");
    }
    let (_, found) = hooks("");
    assert_eq!((found.path.as_str(), found.most_bytes), ("/hooks", 262_144));
    let (_, found) = hooks("path: 'in/coming/', maxBodyBytes: 10.5");
    assert_eq!((found.path.as_str(), found.most_bytes), ("/in/coming", 10));
    assert!(!format!("{found:?}").contains("\"t\""));
}

#[test]
fn a_path_is_taken_by_its_letters() {
    let (_, found) = hooks("");
    for (path, expected) in [
        ("/hooks/wake", Route::Wake),
        ("/hooks/agent", Route::Agent),
        ("/hooks/github", Route::Mapped("github")),
        ("/hooks/git/hub-1.x", Route::Mapped("git/hub-1.x")),
        ("/hooks", Route::Nothing),
        ("/hooks/", Route::Nothing),
        ("/hooks//wake", Route::Nothing),
        ("/hooks/wake/", Route::Nothing),
        ("/hooks/./wake", Route::Nothing),
        ("/hooks/../wake", Route::Nothing),
        ("/hooks/%77ake", Route::Nothing),
        ("/hooks/a%2f..%2fwake", Route::Nothing),
        ("/hooks/wake;x", Route::Nothing),
        ("/hooksy/wake", Route::Elsewhere),
        ("//hooks/wake", Route::Elsewhere),
        ("/Hooks/wake", Route::Elsewhere),
        ("/%68ooks/wake", Route::Elsewhere),
        ("/", Route::Elsewhere),
    ] {
        assert_eq!(found.route(path), expected, "{path}");
    }
}

#[test]
fn the_first_mapping_that_fits_is_taken() {
    let (_, found) = hooks(
        "presets: ['gmail'], mappings: [{ id: 'a', match: { path: '/git/', source: 'hub' }, messageTemplate: 'x' }, \
         { match: { path: 'git' }, action: 'wake', textTemplate: 'y' }]",
    );
    let id = |name, source| found.mapping(name, source).map(|mapping| mapping.id.as_str());
    assert_eq!(id("git", Some("hub")), Some("a"));
    assert_eq!(id("git", Some("lab")), Some("mapping-2"));
    assert_eq!(id("git", None), Some("mapping-2"));
    assert_eq!(id("gmail", None), Some("gmail"));
    assert_eq!(id("other", None), None);
}

#[test]
fn places_of_a_template_are_read_once() {
    let place = |root, steps: &[&str]| {
        let step = |text: &&str| match text.parse() {
            Ok(index) => Step::Index(index),
            Err(_) => Step::Key((*text).to_owned()),
        };
        Place { root, steps: steps.iter().map(step).collect() }
    };
    for (text, expected) in [
        ("{{a.b[0].c}}", place(Root::Payload, &["a", "b", "0", "c"])),
        ("{{ payload.a }}", place(Root::Payload, &["a"])),
        ("{{headers.x-event}}", place(Root::Headers, &["x-event"])),
        ("{{query.q}}", place(Root::Query, &["q"])),
        ("{{path}}", place(Root::Path, &[])),
        ("{{now}}", place(Root::Now, &[])),
        ("{{[2]}}", place(Root::Payload, &["2"])),
        ("{{ }}", place(Root::Payload, &[])),
    ] {
        let template = Template::parse(text).unwrap();
        let seen = std::cell::RefCell::new(Vec::new());
        let rendered = template.render(|place| {
            seen.borrow_mut().push(place.clone());
            // What looks like a place and comes from outside is text.
            Some("{{path}}".to_owned())
        });
        assert_eq!(
            (rendered, seen.into_inner()),
            (Ok("{{path}}".to_owned()), vec![expected]),
            "{text}"
        );
    }
    for text in ["{{}}", "{{a}", "{{a", "{ {a}}", "}}{{", "a{{{", "plain", ""] {
        let template = Template::parse(text).unwrap();
        assert_eq!(template.render(|_| None), Ok(text.to_owned()), "{text}");
        assert!(template.is_fixed(), "{text}");
    }
    assert_eq!(Template::parse("a{{x}}b{{y}}c").unwrap().render(|_| None), Ok("abc".to_owned()));
}

#[test]
fn a_template_that_grows_is_stopped() {
    let bomb = Template::parse(&"{{a}}".repeat(200)).unwrap();
    let large = "x".repeat(MOST_RENDERED / 10);
    assert!(bomb.render(|_| Some(large.clone())).is_err());
    assert!(Template::parse(&"{{a}}".repeat(201)).is_err());
    assert!(Template::parse(&"x".repeat(70_000)).is_err());
    assert!(Template::parse(&format!("{{{{{}}}}}", ".a".repeat(40))).is_err());
}

#[test]
fn a_session_is_the_callers_own() {
    use KeyFrom::{Config as Written, Request, Template as Filled};
    let (config, open) = hooks("allowRequestSessionKey: true");
    let (_, shut) = hooks("");
    let (_, few) = hooks(
        "allowRequestSessionKey: true, allowedAgentIds: ['bot'], allowedSessionKeyPrefixes: ['hook:', 'x-']",
    );
    let ask = |hooks: &Hooks, agent: Option<&str>, key: Option<(&str, KeyFrom)>| {
        let wanted = Wanted { agent, key, fresh: "1" };
        hooks.decide_session(&config, &wanted).map(|session| session.key)
    };
    let ok = |key: &str| Ok(key.to_owned());
    assert_eq!(ask(&shut, None, None), ok("agent:main:hook:1"));
    assert_eq!(ask(&shut, Some("Bot"), None), ok("agent:bot:hook:1"));
    assert_eq!(ask(&shut, None, Some(("hook:x", Request))), Err(SessionRefused::KeyNotTaken));
    assert_eq!(ask(&shut, None, Some(("hook:x", Filled))), ok("agent:main:hook:x"));
    assert_eq!(ask(&shut, None, Some(("main", Written))), ok("agent:main:main"));
    assert_eq!(ask(&open, None, Some((" hook:X ", Request))), ok("agent:main:hook:x"));
    assert_eq!(ask(&open, Some("bot"), Some(("mine", Request))), ok("agent:bot:mine"));
    assert_eq!(ask(&open, None, Some(("agent:bot:mine", Request))), ok("agent:bot:mine"));
    let gone = AgentId::normalize("gone");
    assert_eq!(
        ask(&open, Some("gone"), None),
        Err(SessionRefused::NoAgent { agent: gone.clone() })
    );
    assert_eq!(
        ask(&open, None, Some(("agent:gone:x", Request))),
        Err(SessionRefused::NoAgent { agent: gone })
    );
    let (main, bot) = (AgentId::main(), AgentId::normalize("bot"));
    assert_eq!(
        ask(&open, Some("main"), Some(("agent:bot:hook:x", Request))),
        Err(SessionRefused::OtherAgent { of: bot, agent: main.clone() })
    );
    for key in [
        "main",
        "MAIN",
        " Main ",
        "agent:main:main",
        "agent:bot:main",
        "Agent:BOT:Main",
        "global",
        "agent:bot:subagent:x",
        "subagent:x",
        "cron:job",
        "agent:main:cron:j:run:1",
        "acp:x",
    ] {
        for from in [Request, Filled] {
            assert_eq!(ask(&open, None, Some((key, from))), Err(SessionRefused::Reserved), "{key}");
        }
    }
    for key in [
        "agent:",
        "agent::main",
        "agent:main",
        "a b",
        "a\nb",
        "agent: :x",
        "agent:main:main\u{200b}",
        "ma\u{ad}in",
        "hook:\u{202e}niam",
    ] {
        let found = ask(&open, None, Some((key, Request)));
        assert_eq!(found, Err(SessionRefused::BadKey), "{key}");
    }
    // `agent:bot::` would be looked up as a session of the default agent.
    assert_eq!(ask(&open, Some("bot"), Some((":", Request))), Err(SessionRefused::BadKey));
    assert_eq!(ask(&open, None, Some((&"k".repeat(300), Request))), Err(SessionRefused::BadKey));
    assert_eq!(ask(&few, Some("bot"), Some(("x-1", Request))), ok("agent:bot:x-1"));
    assert_eq!(ask(&few, None, None), Err(SessionRefused::AgentNotAllowed { agent: main.clone() }));
    assert_eq!(
        ask(&few, Some("main"), Some(("hook:x", Request))),
        Err(SessionRefused::AgentNotAllowed { agent: main })
    );
    for key in ["y", "agent:bot:hook:x"] {
        let found = ask(&few, Some("bot"), Some((key, Request)));
        assert!(matches!(found, Err(SessionRefused::Prefix { .. })), "{key}: {found:?}");
    }
}

#[test]
fn the_list_of_agents_holds_for_whoever_is_woken() {
    let refused = SessionRefused::AgentNotAllowed { agent: AgentId::main() };
    for (rest, expected) in [
        ("", Ok(())),
        ("allowedAgentIds: ['Main']", Ok(())),
        ("allowedAgentIds: ['bot']", Err(refused.clone())),
        ("allowedAgentIds: []", Err(refused)),
    ] {
        let (config, found) = hooks(rest);
        assert_eq!(found.decide_wake(&config), expected, "{rest}");
    }
}

#[test]
fn a_session_that_is_there_already_was_begun_by_a_hook() {
    use KeyFrom::{Config as Written, Request, Template as Filled};
    let (config, open) = hooks("allowRequestSessionKey: true");
    for (key, from, label, expected) in [
        ("hook:x", Request, None, Ok(())),
        ("agent:main:Hook:x", Filled, Some("Mine"), Ok(())),
        ("mine", Request, Some("Hook: Git"), Ok(())),
        ("mine", Written, None, Ok(())),
        ("mine", Request, None, Err(SessionRefused::Taken)),
        ("agent:main:dashboard:1", Filled, Some("Mine"), Err(SessionRefused::Taken)),
        ("main:heartbeat", Request, Some("Heartbeat"), Err(SessionRefused::Taken)),
    ] {
        let wanted = Wanted { agent: None, key: Some((key, from)), fresh: "1" };
        let session = open.decide_session(&config, &wanted).unwrap();
        assert_eq!(session.decide_stored(label), expected, "{key}");
    }
}

proptest! {
    #[test]
    fn whatever_is_written_a_template_is_read_and_stays_small(
        text in "(\\{|\\}|\\[|\\]|\\.|a|0| |é|headers|path){0,60}",
        value in ".{0,40}",
    ) {
        let template = Template::parse(&text).unwrap();
        let rendered = template.render(|_| Some(value.clone())).unwrap();
        prop_assert!(rendered.len() <= text.len() + 20 * value.len());
        prop_assert_eq!(template.is_fixed(), template.render(|_| Some("\u{1}".to_owned())).unwrap() == text);
    }

    #[test]
    fn whatever_a_caller_names_it_is_no_main_session(
        key in "(agent|:|main|MAIN|bot|hook|cron|subagent|global| |x){0,8}",
        agent in prop::option::of("(main|bot|x)"),
    ) {
        let (config, open) = hooks("allowRequestSessionKey: true");
        let wanted = Wanted {
            agent: agent.as_deref(),
            key: Some((&key, KeyFrom::Request)),
            fresh: "1",
        };
        if let Ok(session) = open.decide_session(&config, &wanted) {
            let start = format!("agent:{}:", session.agent);
            prop_assert!(session.key.starts_with(&start), "{}", session.key);
            let found = crate::session::Session::resolve(&config, &session.key);
            prop_assert_eq!(found.agent(), &session.agent);
            prop_assert_eq!(found.kind(), crate::session::SessionKind::Other);
        }
    }
}
