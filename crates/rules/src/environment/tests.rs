//! Which variables enter a sandbox, by table.

use proptest::prelude::*;

use super::*;
use BlockReason::{Credential, CredentialEnding, NameCharacter, NotPlain, NulInValue};
use EnvDecision::{Block, Pass, PassWith};

#[test]
fn names_of_credentials_are_kept_out_however_they_are_spelled() {
    check("ANTHROPIC_API_KEY", Block(Credential));
    check("aws_secret_access_key", Block(Credential));
    check("AWS_ACCESS_KEY_ID", Pass);
    check("MY_TOKEN", Block(CredentialEnding("TOKEN")));
    check("TOKEN", Block(CredentialEnding("TOKEN")));
    check("x-token", Block(CredentialEnding("TOKEN")));
    check("DbPassword", Block(CredentialEnding("PASSWORD")));
    check("ssh_private_key", Block(CredentialEnding("PRIVATE_KEY")));
}

#[test]
fn only_the_end_of_a_name_counts() {
    check("TOKENS", Pass);
    check("API_KEY_ID", Pass);
    check("PASSWORD_FILE", Pass);
    check("APIKEY", Pass);
    check("SECRET_NAME", Pass);
}

#[test]
fn a_name_cannot_smuggle_another_name_or_end_early() {
    check("A_TOKEN=x", Block(NameCharacter('=')));
    check("=A", Block(NameCharacter('=')));
    check("A\nB_TOKEN=x", Block(NameCharacter('\n')));
    check("A\0B", Block(NameCharacter('\0')));
    check("A\u{1b}[2J", Block(NameCharacter('\u{1b}')));
}

#[test]
fn values_are_kept_out_only_when_they_would_arrive_changed() {
    check_value("x\0y", Block(NulInValue));
    check_value("a\nb", Pass);
    check_value("a=b", Pass);
    check_value("", Pass);
    check_value("é", Pass);
    check_value(&"Q".repeat(79), Pass);
    check_value(&"Q".repeat(80), PassWith(Remark::LooksEncoded));
    check_value(&format!("{}-", "Q".repeat(80)), Pass);
    check_value(&"é".repeat(32_768), Pass);
    check_value(&"é".repeat(32_769), PassWith(Remark::Long));
    check_value(&"Q".repeat(32_769), PassWith(Remark::Long));
}

#[test]
fn an_opt_in_is_exact_and_lets_no_broken_variable_in() {
    let filter = Filter::except_credentials().with_opt_in(["MY_TOKEN", "A=B"]);
    assert_eq!(decide("MY_TOKEN", "v", &filter), Pass);
    assert_eq!(decide("my_token", "v", &filter), Block(CredentialEnding("TOKEN")));
    assert_eq!(decide("MY_TOKEN", "v\0", &filter), Block(NulInValue));
    assert_eq!(decide("A=B", "v", &filter), Block(NameCharacter('=')));
}

#[test]
fn a_strict_filter_knows_its_names() {
    let strict = Filter::plain_names_only().with_opt_in(["EDITOR"]);
    for (name, expected) in [
        ("LANG", Pass),
        ("LC_ALL", Pass),
        ("PATH", Pass),
        ("NODE_ENV", Pass),
        ("EDITOR", Pass),
        ("FOO", Block(NotPlain)),
        ("LC_TOKEN", Block(CredentialEnding("TOKEN"))),
    ] {
        assert_eq!(decide(name, "v", &strict), expected, "{name}");
    }
}

#[test]
fn padded_names_are_trimmed_and_the_later_value_counts_in_the_first_place() {
    let variables = [("A", "1"), ("B", "2"), (" A ", "3"), ("  ", "4"), (" X_TOKEN", "5")];
    let filtered = Filter::except_credentials().apply(variables);
    assert_eq!(filtered.kept.iter().collect::<Vec<_>>(), [("A", "3"), ("B", "2")]);
    assert_eq!(filtered.blocked, [("X_TOKEN".to_owned(), CredentialEnding("TOKEN"))]);
}

#[test]
fn values_do_not_show_in_debug_output() {
    let filtered = Filter::except_credentials().apply([("A", "private")]);
    assert_eq!(format!("{:?}", filtered.kept), r#"["A"]"#);
}

proptest! {
    /// Whatever goes in, what comes out can be written as `NAME=VALUE` and read back unchanged.
    #[test]
    fn what_passes_can_be_read_back(variables in prop::collection::vec(("\\PC{0,6}|.{0,6}", ".{0,8}"), 0..6)) {
        let given = variables.iter().map(|(name, value)| (name.as_str(), value.as_str()));
        let filtered = Filter::except_credentials().apply(given);
        let mut seen = BTreeSet::new();
        for (name, value) in filtered.kept.iter() {
            let text = format!("{name}={value}");
            prop_assert_eq!(text.split_once('='), Some((name, value)));
            prop_assert!(!text.contains('\0') && !name.contains('\n') && !name.is_empty());
            prop_assert!(seen.insert(name.to_owned()));
        }
    }
}

#[track_caller]
fn check(name: &str, expected: EnvDecision) {
    assert_eq!(decide(name, "v", &Filter::except_credentials()), expected, "{name:?}");
}

#[track_caller]
fn check_value(value: &str, expected: EnvDecision) {
    assert_eq!(decide("A", value, &Filter::except_credentials()), expected);
}
