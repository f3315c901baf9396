//! What counts as the main session, and where sessions run.

use proptest::prelude::*;

use super::*;
use crate::config::json5;
use crate::config::tree::FileId;

const PLAIN: &str = "{}";
const TWO_AGENTS: &str = "{agents: {list: [{id: 'beta'}, {id: 'Alpha', default: true}]}}";
const HOME: &str = "{session: {mainKey: ' Home '}}";
const GLOBAL: &str = "{session: {scope: 'global'}, agents: {list: [{id: 'alpha'}]}}";

#[test]
fn the_main_session_is_recognised_in_its_exact_spelling_only() {
    check(PLAIN, "main", "main", "agent:main:main", SessionKind::Main);
    check(PLAIN, " agent:main:main\n", "main", "agent:main:main", SessionKind::Main);
    check(PLAIN, "agent:work:main", "work", "agent:work:main", SessionKind::Main);
    for key in
        ["Main", "agent:main:MAIN", "AGENT:main:main", "agent:main::main", "agent:main:main:"]
    {
        check(PLAIN, key, "main", key, SessionKind::Other);
    }
    check(PLAIN, "agent:W k:main", "w-k", "agent:W k:main", SessionKind::Other);
    check(PLAIN, "agent:../..:main", "main", "agent:../..:main", SessionKind::Other);
}

#[test]
fn a_name_without_an_agent_belongs_to_the_default_agent() {
    check(TWO_AGENTS, "main", "alpha", "agent:alpha:main", SessionKind::Main);
    check(TWO_AGENTS, "telegram:group:1", "alpha", "telegram:group:1", SessionKind::Other);
    check(TWO_AGENTS, "agent:beta:main", "beta", "agent:beta:main", SessionKind::Main);
    check(TWO_AGENTS, "agent:main", "alpha", "agent:main", SessionKind::Other);
}

#[test]
fn a_custom_main_key_and_main_both_mean_the_main_session() {
    check(HOME, "home", "main", "agent:main:home", SessionKind::Main);
    check(HOME, "agent:x:main", "x", "agent:x:home", SessionKind::Main);
    check(HOME, "HOME", "main", "HOME", SessionKind::Other);
}

#[test]
fn in_global_scope_every_agents_main_session_is_the_global_one() {
    check(GLOBAL, "global", "alpha", "global", SessionKind::Main);
    check(GLOBAL, "agent:beta:main", "beta", "global", SessionKind::Main);
    check(GLOBAL, "agent:beta:global", "beta", "agent:beta:global", SessionKind::Other);
    check(PLAIN, "global", "main", "global", SessionKind::Other);
}

#[test]
fn only_mode_off_and_the_main_session_run_on_the_host() {
    use SandboxMode::{All, NonMain, Off};
    let main = || SessionKey::parse("agent:main:main").unwrap();
    let compared = SessionKey::parse("x").unwrap();
    for (mode, key, expected) in [
        (Off, "x", Placement::Direct(DirectReason::ModeIsOff)),
        (Off, "", Placement::Direct(DirectReason::ModeIsOff)),
        (All, "main", Placement::Sandboxed(SandboxedReason::ModeIsAll)),
        (All, "", Placement::Sandboxed(SandboxedReason::ModeIsAll)),
        (NonMain, "main", Placement::Direct(DirectReason::IsMain { main: main() })),
        (NonMain, "x", Placement::Sandboxed(SandboxedReason::IsNotMain { compared, main: main() })),
        (NonMain, " ", Placement::Sandboxed(SandboxedReason::HasNoSession { main: main() })),
    ] {
        assert_eq!(decide(mode, &Session::resolve(&config(PLAIN), key)), expected, "{key:?}");
    }
}

#[test]
fn records_are_stored_in_lower_case_under_their_agent() {
    for (text, key, expected) in [
        (PLAIN, "", "agent:main:main"),
        (PLAIN, "MAIN", "agent:main:main"),
        (HOME, "Main", "agent:main:home"),
        (TWO_AGENTS, "Telegram:Group:1", "agent:alpha:telegram:group:1"),
        (PLAIN, "agent:Work::X", "agent:work:x"),
        (PLAIN, "AGENT:x", "agent:x"),
        (PLAIN, "global", "agent:main:global"),
    ] {
        let stored = Session::resolve(&config(text), key).store_key();
        assert_eq!(stored.as_str(), expected, "{key:?}");
    }
}

#[test]
fn explain_finds_the_session_that_a_call_would_run_in() {
    explained(PLAIN, ["", ""], ("main", "agent:main:main", "agent:main:main", SessionKind::Main));
    explained(
        PLAIN,
        ["", "MAIN"],
        ("main", "agent:main:main", "agent:main:main", SessionKind::Main),
    );
    explained(
        PLAIN,
        ["", "Home"],
        ("main", "agent:main:home", "agent:main:main", SessionKind::Other),
    );
    explained(PLAIN, ["", "a:B"], ("main", "a:B", "agent:main:main", SessionKind::Other));
    explained(PLAIN, ["", "global"], ("main", "global", "agent:main:main", SessionKind::Other));
    explained(
        PLAIN,
        ["", "agent:w k:main"],
        ("w-k", "agent:w k:main", "agent:w-k:main", SessionKind::Other),
    );
    explained(
        TWO_AGENTS,
        ["", "main"],
        ("alpha", "agent:alpha:main", "agent:alpha:main", SessionKind::Main),
    );
    explained(
        TWO_AGENTS,
        ["Beta", " main "],
        ("beta", "agent:beta:main", "agent:beta:main", SessionKind::Main),
    );
    explained(
        TWO_AGENTS,
        ["beta", "t:group:1"],
        ("beta", "agent:beta:t:group:1", "agent:beta:main", SessionKind::Other),
    );
    explained(GLOBAL, ["", ""], ("alpha", "global", "global", SessionKind::Main));
    explained(GLOBAL, ["", "global"], ("alpha", "global", "global", SessionKind::Main));
    explained(
        GLOBAL,
        ["", "agent:beta:main"],
        ("beta", "agent:beta:main", "global", SessionKind::Main),
    );
}

#[test]
fn explain_refuses_flags_that_contradict_each_other() {
    let flags = ExplainFlags { agent: Some("beta"), session: Some("agent:Alpha:main") };
    let expected = AgentMismatch {
        flag: AgentId::normalize("beta"),
        session: SessionKey::parse("agent:Alpha:main").unwrap(),
        owner: AgentId::normalize("alpha"),
    };
    assert_eq!(resolve_for_explain(&config(PLAIN), flags), Err(expected));
}

#[test]
fn two_agents_never_share_a_session_by_a_name_without_an_agent() {
    use SessionKind::Other;
    let main = |agent: &'static str| match agent {
        "alpha" => "agent:alpha:main",
        _ => "agent:beta:main",
    };
    for (agent, session, key) in [
        // The default agent's, as the reference has it.
        ("alpha", "group:1", "group:1"),
        ("beta", "group:1", "agent:beta:group:1"),
        ("beta", ":", "agent:beta::"),
        ("beta", "agent:beta:x", "agent:beta:x"),
        ("beta", "global", "global"),
    ] {
        explained(TWO_AGENTS, [agent, session], (agent, key, main(agent), Other));
    }
}

proptest! {
    #[test]
    fn canonical_and_stored_keys_stay_as_they_are(
        key in "(agent:)?(alpha|main|Home|[ :a-c\u{feff}İ]{0,6})(:(main|home|x|[ :A]{0,4}))?",
        text in proptest::sample::select(vec![PLAIN, TWO_AGENTS, HOME, GLOBAL]),
    ) {
        let config = config(text);
        let session = Session::resolve(&config, &key);
        if let Some(canonical) = session.canonical_key() {
            let again = Session::resolve(&config, canonical.as_str());
            prop_assert_eq!(again.canonical_key(), Some(canonical));
        }
        // An old key keeps its empty segments when it is stored, an agent's key drops them.
        if key.split(':').all(|segment| !trim(segment).is_empty()) {
            let stored = session.store_key();
            prop_assert_eq!(Session::resolve(&config, stored.as_str()).store_key(), stored);
        }
    }

    #[test]
    fn a_session_that_is_not_spelled_as_a_main_key_is_sandboxed(key in "\\PC{0,20}") {
        let session = Session::resolve(&config(PLAIN), &key);
        let spelled = matches!(trim(&key), "main" | "agent:main:main");
        prop_assert_eq!(decide(SandboxMode::NonMain, &session).is_sandboxed(), !spelled);
    }
}

fn config(text: &str) -> Config {
    Config::from_tree(json5::parse(text, FileId(0)).unwrap().root, Vec::new())
}

#[track_caller]
fn check(text: &str, key: &str, agent: &str, canonical: &str, kind: SessionKind) {
    let session = Session::resolve(&config(text), key);
    let given =
        (session.agent().as_str(), session.canonical_key().map(SessionKey::as_str), session.kind());
    assert_eq!(given, (agent, Some(canonical), kind), "{key:?}");
}

#[track_caller]
fn explained(text: &str, [agent, session]: [&str; 2], expected: (&str, &str, &str, SessionKind)) {
    let flags = ExplainFlags { agent: Some(agent), session: Some(session) };
    let found = resolve_for_explain(&config(text), flags).unwrap();
    let key = found.key().map_or("", SessionKey::as_str);
    let given = (found.agent().as_str(), key, found.main_key().as_str(), found.kind());
    assert_eq!(given, expected, "--agent {agent:?} --session {session:?}");
}
