//! What a file says, what edits do to it, and that nothing in it is lost.

use super::*;
use crate::command::ContentHash;
use crate::exec_host::values::{Ask, Security};
use proptest::prelude::*;

/// Ids that can be told apart.
fn ids() -> impl FnMut() -> String {
    let mut count = 0;
    move || {
        count += 1;
        format!("id-{count}")
    }
}

fn parse(text: &str) -> Result<ApprovalsFile, FileProblem> {
    ApprovalsFile::parse(text, &mut ids())
}

fn main() -> AgentKey {
    AgentKey::parse("")
}

fn compact(file: &ApprovalsFile) -> String {
    file.to_text().split_whitespace().collect()
}

#[track_caller]
fn check(text: &str, expected: &str) {
    assert_eq!(compact(&parse(text).unwrap()), expected, "{text}");
}

#[test]
fn a_file_comes_into_normal_form_and_keeps_what_it_does_not_know() {
    check("{\"version\":1}", "{\"version\":1,\"socket\":{},\"defaults\":{},\"agents\":{}}");
    check(
        "{\"version\":1.0,\"x\":[1],\"socket\":{\"path\":\" /s \",\"token\":\" \",\"y\":2},\
         \"defaults\":{\"z\":3},\"agents\":{\"a\":{\"w\":4,\"allowlist\":[\" /l \",\"\",5,{\"pattern\":\"/m\",\"v\":6}]}}}",
        "{\"version\":1,\"socket\":{\"y\":2,\"path\":\"/s\"},\"defaults\":{\"z\":3},\"agents\":{\"a\":{\"w\":4,\
         \"allowlist\":[{\"pattern\":\"/l\",\"id\":\"id-1\"},{\"pattern\":\"/m\",\"v\":6,\"id\":\"id-2\"}]}},\"x\":[1]}",
    );
    check(
        "{\"version\":1,\"agents\":{\"default\":{\"ask\":\"off\",\"allowlist\":[\"/d\",\"/M\"]},\
         \"main\":{\"security\":\"deny\",\"allowlist\":[\"/m\"]}}}",
        "{\"version\":1,\"socket\":{},\"defaults\":{},\"agents\":{\"main\":{\"security\":\"deny\",\"ask\":\"off\",\
         \"allowlist\":[{\"pattern\":\"/m\",\"id\":\"id-1\"},{\"pattern\":\"/d\",\"id\":\"id-2\"}]}}}",
    );
}

#[test]
fn b30_whatever_could_hide_a_policy_is_a_problem() {
    for (text, expected) in [
        ("", "no JSON: the text ends too early at 1:1"),
        ("{\"version\":1,}", "no JSON: unexpected character '}' at 1:14"),
        ("[]", "it holds array where an object should be"),
        ("{}", "`version` is missing"),
        ("{\"version\":2}", "`version` is 2 and this build reads version 1"),
        ("{\"version\":\"1\"}", "`version` is \"1\""),
        ("{\"version\":1,\"agents\":[]}", "`agents` is array where an object should be"),
        ("{\"version\":1,\"defaults\":\"deny\"}", "`defaults` is string"),
        (
            "{\"version\":1,\n \"agents\":{\"main\":\"deny\"}}",
            "`agents.main` is string where an object should be (line 2, column 19)",
        ),
        ("{\"version\":1,\"socket\":{\"path\":5}}", "`socket.path` is number where a text"),
    ] {
        let found = parse(text).unwrap_err().to_string();
        assert!(found.starts_with(expected), "{text}: {found}");
    }
}

#[test]
fn b30_a_damaged_word_never_falls_back_to_something_laxer() {
    let file = parse(
        "{\"version\":1,\"defaults\":{\"security\":\"full\",\"askFallback\":\"full\"},\"agents\":{\
         \"*\":{\"ask\":\"off\",\"autoAllowSkills\":\"yes\"},\
         \"main\":{\"security\":\"FULL\",\"ask\":3,\"askFallback\":\"\"}}}",
    )
    .unwrap();
    let policy = file.policy(&main());
    assert_eq!(policy.security.map(|chosen| chosen.value), Some(Security::Deny));
    assert_eq!(policy.ask.map(|chosen| chosen.value), Some(Ask::Always));
    assert_eq!(policy.ask_fallback.map(|chosen| chosen.value), Some(Security::Deny));
    assert_eq!(policy.auto_allow_skills.map(|chosen| chosen.value), Some(false));
    assert_eq!(file.warnings().len(), 4);
}

#[test]
fn an_agent_is_answered_by_its_entry_then_by_everybodys_then_by_the_defaults() {
    let file = parse(
        "{\"version\":1,\"defaults\":{\"security\":\"deny\",\"ask\":\"off\",\"askFallback\":\"full\"},\
         \"agents\":{\"*\":{\"ask\":\"always\",\"allowlist\":[\"/w\"]},\"main\":{\"security\":null,\"allowlist\":[\"/m\"]}}}",
    )
    .unwrap();
    let policy = file.policy(&main());
    let source = |source: &crate::exec_host::Source| source.to_string();
    let security = policy.security.unwrap();
    assert_eq!(security.value, Security::Deny);
    assert_eq!(source(&security.source), "`defaults.security` of the approvals file");
    assert_eq!(source(&policy.ask.unwrap().source), "`agents.*.ask` of the approvals file");
    let patterns: Vec<&str> = file.allowlist(&main()).map(|entry| entry.pattern.as_str()).collect();
    assert_eq!(patterns, ["/w", "/m"]);
    let other = AgentKey::parse("Main");
    assert_eq!(file.allowlist(&other).count(), 1);
}

#[test]
fn what_protects_nobody_is_said() {
    let file = parse(
        "{\"version\":1,\"agents\":{\"My Agent\":{\"security\":\"deny\"},\
         \"main\":{\"allowlist\":[\"ls\",{\"pattern\":\"/x\",\"argPattern\":\"^a$\"}]}}}",
    )
    .unwrap();
    let warnings: Vec<String> = file.warnings().iter().map(ToString::to_string).collect();
    assert_eq!(warnings.len(), 3, "{warnings:?}");
    assert!(warnings[0].contains("`agents.My Agent` speaks to no agent"), "{warnings:?}");
    assert!(warnings[1].contains("`ls` of `agents.main` matches nothing"), "{warnings:?}");
    assert!(warnings[2].contains("`argPattern`"), "{warnings:?}");
}

#[test]
fn b11_an_entry_with_a_binding_that_is_not_ours_matches_nothing() {
    for entry in [
        "{\"pattern\":\"/bin/git\",\"argPattern\":\"^status$\"}",
        "{\"pattern\":\"/bin/git\",\"source\":\"allow-always\"}",
        "{\"pattern\":\"/bin/git\",\"clawpen\":{\"argv\":[\"git\"]}}",
        "{\"pattern\":\"/bin/git\",\"clawpen\":{\"sha256\":\"short\"}}",
        "{\"pattern\":\"/bin/git\",\"clawpen\":{\"executable\":\"/bin/git\",\"argv\":[\"git\"],\"cwd\":\"/\"}}",
    ] {
        let text = format!("{{\"version\":1,\"agents\":{{\"main\":{{\"allowlist\":[{entry}]}}}}}}");
        let file = parse(&text).unwrap();
        let found: Vec<&Entry> = file.allowlist(&main()).collect();
        assert!(matches!(found[0].binding, Binding::NotUnderstood { .. }), "{entry}: {found:?}");
    }
}

#[test]
fn entries_are_added_once_removed_whole_and_marked_where_they_stand() {
    let mut file = parse("{\"version\":1,\"agents\":{\"*\":{\"allowlist\":[\"/x\"]}}}").unwrap();
    let new = |pattern: &str| NewEntry::pattern(pattern, None);
    assert_eq!(file.add(&main(), new(" /x "), 7, &mut ids()), Change::Changed);
    assert_eq!(file.add(&main(), new("/x"), 8, &mut ids()), Change::Unchanged);
    assert_eq!(file.add(&main(), new(" "), 8, &mut ids()), Change::Unchanged);
    assert_eq!(file.add(&main(), new("/X"), 8, &mut ids()), Change::Changed);
    let used = Use { pattern: "/x", command: "x", resolved_path: None, now_ms: 9 };
    assert_eq!(file.record_use(&main(), &used), Change::Changed);
    assert_eq!(compact(&file).matches("\"lastUsedAt\":9").count(), 2);
    let unknown = Use { pattern: "/y", ..used };
    assert_eq!(file.record_use(&main(), &unknown), Change::Unchanged);
    assert_eq!(file.remove(&main(), "/x"), Change::Changed);
    assert_eq!(file.remove(&main(), "/X"), Change::Changed);
    assert_eq!(file.remove(&main(), "/X"), Change::Unchanged);
    assert!(!compact(&file).contains("main"), "{}", compact(&file));
}

#[test]
fn a_new_pin_takes_the_place_of_the_old_one() {
    let mut file = ApprovalsFile::empty();
    let pin = |letter: &str| ContentHash::parse(&letter.repeat(64));
    for letter in ["a", "b"] {
        let entry = NewEntry::pattern("/x", pin(letter));
        assert_eq!(file.add(&main(), entry, 1, &mut ids()), Change::Changed);
    }
    let pins: Vec<_> = file.allowlist(&main()).map(|entry| entry.pin).collect();
    assert_eq!(pins, [pin("b")]);
}

#[test]
fn a_pattern_that_is_written_back_alone_stays_as_narrow_as_it_was() {
    let pin = ContentHash::parse(&"a".repeat(64));
    let mut file = parse("{\"version\":1}").unwrap();
    let words = vec!["git".to_owned(), "log".to_owned()];
    let exact = NewEntry::exact("/bin/git".to_owned(), words, "/w".to_owned(), pin.unwrap());
    for entry in [NewEntry::pattern("/x", pin), exact, NewEntry::pattern("/y", None)] {
        assert_eq!(file.add(&main(), entry, 1, &mut ids()), Change::Changed);
    }
    let patterns: Vec<String> = file
        .entries(&main())
        .iter()
        .map(|entry| format!("{{\"pattern\":\"{}\"}}", entry.pattern))
        .collect();
    let echo = |agent: &str| {
        let list = patterns.join(",");
        parse(&format!("{{\"version\":1,\"agents\":{{\"{agent}\":{{\"allowlist\":[{list}]}}}}}}"))
            .unwrap()
    };
    let mut same = echo("main");
    same.keep_bindings_of(&file);
    assert_eq!(same.entries(&main()), file.entries(&main()));
    // Another agent's are its own business: the pin is not his, and the bound name matches nothing.
    let mut other = echo("other");
    other.keep_bindings_of(&file);
    assert!(other.entries(&AgentKey::parse("other")).iter().all(|entry| entry.pin.is_none()));
}

#[test]
fn the_token_leaves_in_no_form() {
    let file = parse("{\"version\":1,\"socket\":{\"path\":\"/s\",\"token\":\"hunter2\"}}").unwrap();
    assert!(file.to_text().contains("hunter2"));
    assert!(!file.redacted().to_text().contains("hunter2"));
    assert!(!format!("{file:?}").contains("hunter2"));
    assert_eq!(file.redacted().socket_path(), Some("/s"));
    let mut echoed = file.redacted();
    echoed.keep_socket_of(&file);
    assert!(echoed.has_token());
}

fn json() -> impl Strategy<Value = String> {
    let leaf = prop_oneof![
        Just("null".to_owned()),
        any::<bool>().prop_map(|value| value.to_string()),
        (0_u32..1000).prop_map(|value| value.to_string()),
        "[a-z~/* ]{0,6}".prop_map(|text| format!("\"{text}\"")),
    ];
    leaf.prop_recursive(3, 24, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4)
                .prop_map(|items| format!("[{}]", items.join(","))),
            prop::collection::btree_map("[a-z]{1,4}", inner, 0..4).prop_map(|members| {
                let members: Vec<String> =
                    members.into_iter().map(|(key, value)| format!("\"{key}\":{value}")).collect();
                format!("{{{}}}", members.join(","))
            }),
        ]
    })
}

fn agent() -> impl Strategy<Value = String> {
    let entry = prop_oneof![
        "[a-z~/*]{1,6}".prop_map(|text| format!("\"{text}\"")),
        ("[a-z~/*]{1,6}", json())
            .prop_map(|(text, value)| format!("{{\"pattern\":\"{text}\",\"k\":{value}}}")),
        json(),
    ];
    let list = prop::collection::vec(entry, 0..4);
    (list, json(), json()).prop_map(|(list, ask, other)| {
        format!("{{\"allowlist\":[{}],\"ask\":{ask},\"other\":{other}}}", list.join(","))
    })
}

proptest! {
    #[test]
    fn a_file_in_normal_form_reads_back_as_itself(
        own in agent(), every in agent(), legacy in prop::option::of(agent()), extra in json(),
    ) {
        let legacy = legacy.map(|legacy| format!(",\"default\":{legacy}")).unwrap_or_default();
        let text = format!(
            "{{\"version\":1,\"extra\":{extra},\"agents\":{{\"main\":{own},\"*\":{every}{legacy}}}}}"
        );
        let file = parse(&text).unwrap();
        let again = parse(&file.to_text()).unwrap();
        prop_assert_eq!(again.to_text(), file.to_text());
        prop_assert_eq!(&again.entries, &file.entries);
        let root: serde_json::Value = serde_json::from_str(&file.to_text()).unwrap();
        prop_assert_eq!(&root["extra"], &serde_json::from_str::<serde_json::Value>(&extra).unwrap());
        prop_assert!(root["agents"]["main"].get("other").is_some() || text.contains("\"other\":null"));
    }

    #[test]
    fn no_text_brings_the_reader_down(text in "\\PC{0,40}") {
        let _ = parse(&text);
        let _ = parse(&format!("{{\"version\":1,\"agents\":{text}}}"));
    }

    #[test]
    fn adding_and_removing_is_as_if_nothing_happened(own in agent(), pattern in "/[a-z]{7,9}") {
        let before = parse(&format!("{{\"version\":1,\"agents\":{{\"main\":{own}}}}}")).unwrap();
        let mut file = before.clone();
        prop_assert_eq!(file.add(&main(), NewEntry::pattern(&pattern, None), 1, &mut ids()), Change::Changed);
        prop_assert_eq!(file.remove(&main(), &pattern), Change::Changed);
        prop_assert_eq!(&file.entries[MAIN], &before.entries[MAIN]);
    }
}
