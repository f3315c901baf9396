//! What a client sees of a config holds no secret.

use super::*;
use clawpen_engine::config_store::Surroundings;

fn raw(text: &str) -> String {
    let home = tempfile::tempdir().unwrap();
    std::fs::create_dir_all(home.path().join(".openclaw")).unwrap();
    std::fs::write(home.path().join(".openclaw/openclaw.json"), text).unwrap();
    let around = Surroundings::of_home(home.path().to_str().unwrap());
    let view = config_file::view(&around).unwrap();
    redacted_text(view.text.as_deref(), &view.state.unwrap()).unwrap()
}

#[test]
fn secrets_are_replaced_where_they_stand() {
    assert_eq!(
        raw("{gateway: {auth: {token: 'geheim' /* mine */}}} // end"),
        "{gateway: {auth: {token: \"__OPENCLAW_REDACTED__\" /* mine */}}} // end"
    );
    assert_eq!(raw("{logging: {level: 'info'}}"), "{logging: {level: 'info'}}");
}

#[test]
fn a_secret_that_stands_elsewhere_too_is_not_shown() {
    for text in [
        "{gateway: {auth: {token: 'geheim'}}} // geheim",
        "{gateway: {auth: {token: 'geheim', token: 'anders'}}}",
    ] {
        let shown = raw(text);
        assert!(!shown.contains("geheim") && !shown.contains("anders"), "{shown}");
    }
}
