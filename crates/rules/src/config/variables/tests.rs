//! References, `.env` files and who may set what.

use super::*;
use crate::config::json5;
use crate::config::tree::FileId;

fn process(variables: &[(&str, &str)]) -> Environment {
    Environment::of_process(variables.iter().map(|(name, value)| ((*name).into(), (*value).into())))
}

#[track_caller]
fn check(environment: &Environment, text: &str, expected: &str) {
    let mut warnings = Vec::new();
    let found = environment.substitute_text(text, "models.x", Place::default(), &mut warnings);
    assert_eq!(found, expected);
}

#[test]
fn references_are_upper_case_names_in_braces() {
    let environment = process(&[("A", "1"), ("B_2", "two"), ("EMPTY", ""), ("lower", "x")]);
    check(&environment, "${A}", "1");
    check(&environment, "x${A}y${B_2}z", "x1ytwoz");
    check(&environment, "$${A}", "${A}");
    check(&environment, "$$${A}", "$${A}");
    check(&environment, "${lower} ${} ${A-x} $A {A} ${", "${lower} ${} ${A-x} $A {A} ${");
    check(&environment, "${MISSING}${EMPTY}", "${MISSING}${EMPTY}");
    check(&environment, "ü${A}ß$", "ü1ß$");
}

#[test]
fn a_value_is_not_expanded_again() {
    check(&process(&[("A", "${B}"), ("B", "x")]), "${A}", "${B}");
}

#[test]
fn the_working_directory_has_no_say_about_sandboxes() {
    let mut environment = process(&[]);
    let refused = environment.add_file("SBX=off\nKEY=k", "/p/.env", Source::WorkingDirectory);
    assert_eq!(refused, []);
    let text = "{agents: {defaults: {sandbox: {mode: '${SBX}'}}}, models: {key: '${KEY}'}}";
    let mut root = json5::parse(text, FileId(0)).unwrap().root;
    let warnings = environment.substitute(&mut root);
    let mode =
        root.get("agents").unwrap().get("defaults").unwrap().get("sandbox").unwrap().get("mode");
    assert_eq!(mode.and_then(Node::as_str), Some("${SBX}"));
    assert_eq!(root.get("models").unwrap().get("key").and_then(Node::as_str), Some("k"));
    assert!(matches!(&warnings[..], [VariableWarning::Untrusted { name, .. }] if name == "SBX"));
}

#[test]
fn the_working_directory_cannot_keep_the_configs_own_value_out() {
    let text = "{env: {vars: {DEN: 'exec'}}, tools: {deny: ['${DEN}']}, channels: {x: '${OTHER}'}}";
    let mut root = json5::parse(text, FileId(0)).unwrap().root;
    let mut environment = process(&[]);
    environment.add_file("DEN=x\nOTHER=exec", "/p/.env", Source::WorkingDirectory);
    environment.add_config(&root);
    environment.substitute(&mut root);
    let deny =
        root.get("tools").and_then(|tools| tools.get("deny")).and_then(Node::as_array).unwrap();
    assert_eq!(deny[0].as_str(), Some("exec"));
    assert_eq!(
        root.get("channels").and_then(|c| c.get("x")).and_then(Node::as_str),
        Some("${OTHER}")
    );
}

#[test]
fn what_is_set_stays_and_the_state_file_is_trusted() {
    let mut environment = process(&[("A", "process")]);
    environment.add_file(
        "A=state\nB='state b' # c\nexport C=\"x\\ny\"\n# D=1\nno assignment",
        "/s/.env",
        Source::StateFile,
    );
    environment.add_file("B=project\nE=e # note", "/p/.env", Source::WorkingDirectory);
    for (name, expected) in [
        ("A", Some("process")),
        ("B", Some("state b")),
        ("C", Some("x\ny")),
        ("D", None),
        ("E", Some("e")),
    ] {
        assert_eq!(environment.get(name), expected, "{name}");
    }
}

#[test]
fn no_file_may_take_over_programs_and_a_project_may_not_steer_connections() {
    let names = |warnings: Vec<VariableWarning>| -> Vec<String> {
        warnings
            .into_iter()
            .filter_map(|warning| match warning {
                VariableWarning::Refused { name, .. } => Some(name),
                VariableWarning::Missing { .. } | VariableWarning::Untrusted { .. } => None,
            })
            .collect()
    };
    let text = "LD_PRELOAD=/x.so\nBASH_ENV=x\nNODE_OPTIONS=--require=x\nPATH=/x\nHTTPS_PROXY=p\nOPENCLAW_STATE_DIR=/x\nX_BASE_URL=u\nOK=1";
    let state = names(process(&[]).add_file(text, "f", Source::StateFile));
    assert_eq!(state, ["LD_PRELOAD", "BASH_ENV", "NODE_OPTIONS", "PATH"]);
    let project = names(process(&[]).add_file(text, "f", Source::WorkingDirectory));
    assert_eq!(
        project,
        [
            "LD_PRELOAD",
            "BASH_ENV",
            "NODE_OPTIONS",
            "PATH",
            "HTTPS_PROXY",
            "OPENCLAW_STATE_DIR",
            "X_BASE_URL"
        ]
    );
}

#[test]
fn the_config_sets_only_what_is_blank_and_plain() {
    let mut environment = process(&[("SET", "1"), ("BLANK", " ")]);
    let text = "{env: {vars: {SET: 'x', BLANK: 'b', NEW: 'n', REF: '${SET}'}, DIRECT: 'd', LD_PRELOAD: 'x', shellEnv: {}}}";
    environment.add_config(&json5::parse(text, FileId(0)).unwrap().root);
    for (name, expected) in [
        ("SET", Some("1")),
        ("BLANK", Some("b")),
        ("NEW", Some("n")),
        ("REF", None),
        ("DIRECT", Some("d")),
        ("LD_PRELOAD", None),
    ] {
        assert_eq!(environment.get(name), expected, "{name}");
    }
}
