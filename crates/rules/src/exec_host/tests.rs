//! Where exec runs and under which policy, and that nothing stricter ever loosens.

use super::*;
use crate::approval::file::{AgentKey, ApprovalsFile, FileProblem};
use crate::config::json5;
use crate::config::tree::{FileId, Kind};
use crate::elevated::level::LevelSource;
use proptest::prelude::*;

/// A situation that can be changed piece by piece.
#[derive(Clone, Default)]
struct Case {
    exec: String,
    file: String,
    session: Wishes,
    message: Wishes,
    request: Wishes,
    sandboxed: bool,
    elevation: Option<Elevation>,
    broken_file: bool,
}

fn case(exec: &str, file: &str) -> Case {
    Case { exec: exec.to_owned(), file: file.to_owned(), ..Case::default() }
}

fn wish(host: &str, security: &str, ask: &str) -> Wishes {
    Wishes {
        host: HostWish::parse(host),
        security: Security::parse(security),
        ask: Ask::parse(ask),
    }
}

fn config(exec: &str) -> Config {
    let text = format!("{{tools: {{exec: {{{exec}}}}}}}");
    Config::from_tree(json5::parse(&text, FileId(0)).unwrap().root, Vec::new())
}

fn policy(file: &str) -> FilePolicy {
    let text = format!("{{\"version\":1{file}}}");
    let file = ApprovalsFile::parse(&text, &mut String::new).unwrap();
    file.policy(&AgentKey::of(&AgentId::main()))
}

impl Case {
    fn decide(&self) -> ExecDecision {
        let config = config(&self.exec);
        let policy = policy(&self.file);
        let problem = FileProblem::NotAnObject { kind: Kind::Array };
        let refused = FileRefused::Problem { path: "/f".to_owned(), problem };
        decide(&Situation {
            config: &config,
            agent: &AgentId::main(),
            sandbox: if self.sandboxed { SessionSandbox::Required } else { SessionSandbox::None },
            message: self.message,
            session: self.session,
            request: self.request,
            elevation: self.elevation.as_ref().unwrap_or(&Elevation::Off),
            approvals: if self.broken_file { Err(&refused) } else { Ok(&policy) },
        })
    }
}

/// `gateway security/ask`, `sandbox`, or the refusal.
fn shown(decision: &ExecDecision) -> String {
    match decision {
        ExecDecision::Sandbox(_) => "sandbox".to_owned(),
        ExecDecision::Gateway(exec) => {
            format!("gateway {}/{}", exec.security().value, exec.ask().value)
        }
        ExecDecision::Refused(refusal) => format!("refused: {refusal}"),
    }
}

#[track_caller]
fn check(case: &Case, expected: &str) {
    let found = shown(&case.decide());
    assert!(found.starts_with(expected), "expected {expected}\nfound    {found}");
}

#[test]
fn the_stricter_of_config_call_and_file_counts() {
    check(&case("", ""), "gateway allowlist/on-miss");
    check(&case("security: 'full', ask: 'off'", ""), "gateway full/off");
    let strict_file = r#","agents":{"main":{"security":"allowlist","ask":"always"}}"#;
    check(&case("security: 'full', ask: 'off'", strict_file), "gateway allowlist/always");
    let asked = Case { request: wish("", "full", "off"), ..case("", "") };
    check(&asked, "gateway allowlist/on-miss");
    let denied = Case { request: wish("", "deny", ""), ..case("security: 'full', ask: 'off'", "") };
    check(&denied, "refused: nothing may run: host=gateway security=deny (set by the call)");
    let wildcard = r#","defaults":{"security":"deny"},"agents":{"*":{"security":"allowlist"}}"#;
    check(&case("security: 'full', ask: 'off'", wildcard), "gateway allowlist/off");
}

#[test]
fn b30_the_approvals_file_cannot_silence_a_stricter_setting() {
    let lax = r#","agents":{"main":{"security":"full","ask":"off"}}"#;
    check(&case("security: 'allowlist', ask: 'always'", lax), "gateway allowlist/always");
    check(&case("security: 'full', ask: 'on-miss'", lax), "gateway full/on-miss");
    let asked = Case { request: wish("", "", "always"), ..case("ask: 'off'", lax) };
    check(&asked, "gateway allowlist/always");
}

#[test]
fn b30_a_word_that_nobody_knows_is_the_strictest() {
    let bogus = r#","defaults":{"security":"full"},"agents":{"*":{"security":"full"},"main":{"security":"bogus"}}"#;
    check(&case("security: 'full'", bogus), "refused: nothing may run: host=gateway security=deny");
    let bogus = r#","agents":{"main":{"ask":"sometimes"}}"#;
    check(&case("security: 'full', ask: 'off'", bogus), "gateway full/always");
    check(&case("security: 'ful'", ""), "refused: `tools.exec.security` says `ful`");
    check(&case("ask: true", ""), "refused: `tools.exec.ask` says `boolean`");
    check(&case("host: 'sandbx'", ""), "refused: `tools.exec.host` says `sandbx`");
}

#[test]
fn b30_an_approvals_file_that_cannot_be_used_refuses_every_host() {
    let broken = Case { broken_file: true, ..case("security: 'full', ask: 'off'", "") };
    check(&broken, "refused: the approvals file cannot be used, so nothing runs on host=gateway");
    let elevated = Some(Elevation::Full { by: LevelSource::Session });
    check(&Case { elevation: elevated, ..broken.clone() }, "refused: the approvals file cannot");
    // Inside the sandbox the file has no say, so a broken one does not matter there.
    check(&Case { sandboxed: true, ..broken }, "sandbox");
}

#[test]
fn b26_a_host_that_nobody_set_is_the_sandbox_or_the_whole_approval_path() {
    check(&Case { sandboxed: true, ..case("", "") }, "sandbox");
    check(&case("", ""), "gateway allowlist/on-miss");
    let denied = r#","agents":{"main":{"security":"deny"}}"#;
    check(
        &case("", denied),
        "refused: nothing may run: host=gateway security=deny (set by `agents.main.security`",
    );
    check(&case("host: 'auto'", denied), "refused: nothing may run");
}

#[test]
fn b26_a_sandbox_that_is_not_there_is_never_replaced_by_the_host() {
    check(
        &case("host: 'sandbox'", ""),
        "refused: host=sandbox is asked for (by `tools.exec.host`)",
    );
    let session = Case { session: wish("sandbox", "", ""), ..case("", "") };
    check(&session, "refused: host=sandbox is asked for (by the session)");
    let request = Case { request: wish("sandbox", "", ""), ..case("", "") };
    check(&request, "refused: host=sandbox is asked for (by the call)");
}

#[test]
fn b26_a_call_cannot_choose_another_host_than_the_one_in_force() {
    let out = |host| Case { sandboxed: true, request: wish(host, "", ""), ..case("", "") };
    check(&out("gateway"), "refused: the call asks for host=gateway, but this session runs in a");
    check(&out("node"), "refused: the call asks for host=node, but this session runs in a sandbox");
    check(&out("auto"), "sandbox");
    check(&out("sandbox"), "sandbox");
    let other = Case { request: wish("sandbox", "", ""), ..case("host: 'gateway'", "") };
    check(&other, "refused: the call asks for host=sandbox, but host=gateway is in force");
    let same = Case { request: wish("gateway", "", ""), ..case("host: 'gateway'", "") };
    check(&same, "gateway allowlist/on-miss");
}

#[test]
fn a_node_is_decided_and_then_refused() {
    check(&case("host: 'node'", ""), "refused: host=node is chosen (by `tools.exec.host`)");
    check(&case("host: 'node', security: 'deny'", ""), "refused: nothing may run: host=node");
    let message = Case { message: wish("node", "", ""), ..case("", "") };
    check(&message, "refused: host=node is chosen (by the message)");
}

#[test]
fn message_beats_session_beats_agent_beats_global_and_loosening_is_said() {
    let mut session = case("security: 'deny'", "");
    session.session = wish("", "full", "off");
    check(&session, "gateway full/off");
    let ExecDecision::Gateway(exec) = session.decide() else { panic!("it runs") };
    let warnings: Vec<String> = exec.warnings().iter().map(ToString::to_string).collect();
    assert_eq!(
        warnings,
        [
            "the session loosens `security` from `deny` to `full`",
            "the session loosens `ask` from `on-miss` to `off`"
        ]
    );
    session.message = wish("", "allowlist", "always");
    check(&session, "gateway allowlist/always");
}

#[test]
fn exec_that_leaves_the_sandbox_by_config_is_said() {
    let outside = Case { sandboxed: true, ..case("host: 'gateway'", "") };
    let ExecDecision::Gateway(exec) = outside.decide() else { panic!("it runs") };
    assert!(matches!(exec.warnings(), [Warning::OutsideSandbox { .. }]), "{:?}", exec.warnings());
}

#[test]
fn the_newer_mode_stands_for_the_pair_and_the_stricter_counts() {
    check(&case("mode: 'full'", ""), "gateway full/off");
    check(&case("mode: 'auto'", ""), "gateway allowlist/on-miss");
    check(&case("mode: 'deny', security: 'full'", ""), "refused: nothing may run");
    check(&case("mode: 'full', ask: 'always'", ""), "gateway full/always");
    check(&case("mode: 'yolo'", ""), "refused: `tools.exec.mode` says `yolo`");
}

#[test]
fn b27_elevated_full_skips_nothing_that_config_and_file_do_not_skip_themselves() {
    let full = |case| Case {
        sandboxed: true,
        elevation: Some(Elevation::Full { by: LevelSource::Session }),
        ..case
    };
    check(&full(case("", "")), "gateway allowlist/on-miss");
    let denied = r#","agents":{"main":{"security":"deny"}}"#;
    check(&full(case("security: 'full', ask: 'off'", denied)), "refused: nothing may run");
    let prompts = |case: &Case| match case.decide() {
        ExecDecision::Gateway(exec) => exec.prompts(),
        other => panic!("{other:?}"),
    };
    let open = case("security: 'full', ask: 'off'", "");
    assert_eq!(prompts(&full(open.clone())), Prompts::Skip);
    assert_eq!(prompts(&open), Prompts::Ask);
    assert_eq!(prompts(&full(case("security: 'full'", ""))), Prompts::Ask);
    let asking = Some(Elevation::Ask { by: LevelSource::Session });
    assert_eq!(prompts(&Case { elevation: asking, ..open }), Prompts::Ask);
}

#[test]
fn silence_allows_no_more_than_the_policy() {
    let fallback = |exec: &str, file: &str| match case(exec, file).decide() {
        ExecDecision::Gateway(exec) => exec.ask_fallback().value,
        other => panic!("{other:?}"),
    };
    let full = r#","defaults":{"askFallback":"full"}"#;
    assert_eq!(fallback("", ""), Security::Deny);
    assert_eq!(fallback("", full), Security::Allowlist);
    assert_eq!(fallback("security: 'full'", full), Security::Full);
    assert_eq!(
        fallback("security: 'full'", r#","defaults":{"askFallback":"ful"}"#),
        Security::Deny
    );
}

#[test]
fn an_agents_own_setting_beats_the_global_one() {
    let text = "{tools: {exec: {security: 'full', ask: 'off'}}, \
                agents: {list: [{id: 'main', tools: {exec: {ask: 'always'}}}]}}";
    let config = Config::from_tree(json5::parse(text, FileId(0)).unwrap().root, Vec::new());
    let (none, policy) = (Wishes::default(), policy(""));
    let decision = decide(&Situation {
        config: &config,
        agent: &AgentId::main(),
        sandbox: SessionSandbox::None,
        message: none,
        session: none,
        request: none,
        elevation: &Elevation::Off,
        approvals: Ok(&policy),
    });
    assert_eq!(shown(&decision), "gateway full/always");
    let ExecDecision::Gateway(exec) = decision else { panic!("it runs") };
    assert_eq!(exec.ask().source.key(), Some("agents.list.0.tools.exec.ask"));
}

/// How much a decision lets through: nothing is the least.
fn openness(decision: &ExecDecision) -> (Security, std::cmp::Reverse<Ask>, Security) {
    match decision {
        ExecDecision::Gateway(exec) => {
            (exec.security().value, std::cmp::Reverse(exec.ask().value), exec.ask_fallback().value)
        }
        ExecDecision::Sandbox(_) | ExecDecision::Refused(_) => {
            (Security::Deny, std::cmp::Reverse(Ask::Always), Security::Deny)
        }
    }
}

fn is_no_laxer(tight: &ExecDecision, before: &ExecDecision) -> bool {
    let (tight, before) = (openness(tight), openness(before));
    tight.0 <= before.0 && tight.1 <= before.1 && tight.2 <= before.2
        // Whoever may run nothing is asked about nothing.
        || tight.0 == Security::Deny
}

fn maybe<T: Clone + std::fmt::Debug + 'static>(values: &[T]) -> impl Strategy<Value = Option<T>> {
    prop::option::of(prop::sample::select(values.to_vec()))
}

fn any_wishes() -> impl Strategy<Value = Wishes> {
    (maybe(&Security::ALL), maybe(&Ask::ALL)).prop_map(|(security, ask)| Wishes {
        host: None,
        security,
        ask,
    })
}

fn block(key: &str, wishes: Wishes, fallback: Option<Security>) -> String {
    let mut fields = Vec::new();
    fields.extend(wishes.security.map(|value| format!("\"security\":\"{value}\"")));
    fields.extend(wishes.ask.map(|value| format!("\"ask\":\"{value}\"")));
    fields.extend(fallback.map(|value| format!("\"askFallback\":\"{value}\"")));
    format!("\"{key}\":{{{}}}", fields.join(","))
}

fn layered(layers: &[Wishes; 6], fallback: Option<Security>) -> Case {
    let [config, session, message, request, own, defaults] = layers;
    let mut exec = Vec::new();
    exec.extend(config.security.map(|value| format!("security: '{value}'")));
    exec.extend(config.ask.map(|value| format!("ask: '{value}'")));
    let own = block("main", *own, fallback);
    let defaults = block("defaults", *defaults, fallback);
    Case {
        session: *session,
        message: *message,
        request: *request,
        ..case(&exec.join(", "), &format!(",{defaults},\"agents\":{{{own}}}"))
    }
}

proptest! {
    /// Making any written value stricter, in any layer, never lets more through.
    #[test]
    fn a_stricter_word_in_any_layer_never_loosens(
        layers in prop::array::uniform6(any_wishes()),
        fallback in maybe(&Security::ALL),
        layer in 0_usize..6,
        security in prop::sample::select(Security::ALL.to_vec()),
        ask in prop::sample::select(Ask::ALL.to_vec()),
    ) {
        let before = layered(&layers, fallback).decide();
        let mut tight = layers;
        tight[layer].security = tight[layer].security.map(|old| old.min(security));
        tight[layer].ask = tight[layer].ask.map(|old| old.max(ask));
        let after = layered(&tight, fallback).decide();
        prop_assert!(is_no_laxer(&after, &before), "{before:?}\n{after:?}");
    }

    /// What a call asks for, and an approvals file where there was none, only ever tighten.
    #[test]
    fn a_call_and_a_file_never_loosen(
        layers in prop::array::uniform6(any_wishes()),
        request in any_wishes(),
        own in any_wishes(),
    ) {
        let mut without = layers;
        without[3] = Wishes::default();
        without[4] = Wishes::default();
        without[5] = Wishes::default();
        let before = layered(&without, None).decide();
        for (index, added) in [(3, request), (4, own)] {
            let mut with = without;
            with[index] = added;
            let after = layered(&with, None).decide();
            prop_assert!(is_no_laxer(&after, &before), "{before:?}\n{after:?}");
        }
    }
}

#[test]
fn b22_a_calls_own_words_never_loosen() {
    let asked = |request| Case { request, ..case("security: 'allowlist', ask: 'always'", "") };
    check(&asked(wish("", "full", "off")), "gateway allowlist/always");
    check(&asked(wish("gateway", "full", "")), "gateway allowlist/always");
    check(&asked(wish("", "", "off")), "gateway allowlist/always");
}

#[test]
fn b22_a_call_may_only_tighten() {
    let open = |request| Case { request, ..case("security: 'full', ask: 'off'", "") };
    check(&open(wish("", "allowlist", "")), "gateway allowlist/off");
    check(&open(wish("", "", "always")), "gateway full/always");
}

#[test]
fn b22_the_approvals_file_stands_above_what_a_call_says() {
    let file = r#","agents":{"main":{"security":"allowlist","ask":"always"}}"#;
    let asked =
        Case { request: wish("", "full", "off"), ..case("security: 'full', ask: 'off'", file) };
    check(&asked, "gateway allowlist/always");
}
