//! Any text as a web address, and any text as the redirect of another: what is let through is http or https, names no
//! user, and as a number is decided about by its bits, not by its spelling.
#![no_main]

use clawpen_rules::web::target::{self, Target, TargetHost};
use libfuzzer_sys::fuzz_target;

fn check(target: &Target) {
    let text = target.as_str();
    assert!(text.starts_with("http://") || text.starts_with("https://"), "{text}");
    assert!(!text.contains('#') && !target.authority().contains('@'));
    if let TargetHost::Name(name) = target.host() {
        assert!(name.parse::<std::net::IpAddr>().is_err(), "{name} is an address");
        assert!(name != "localhost" && !name.ends_with(".internal"));
    }
    // Reading again what was read changes nothing.
    assert_eq!(target::decide(text).as_ref(), Ok(target));
}

fuzz_target!(|input: &str| {
    let (first, second) = input.split_once('\n').unwrap_or((input, ""));
    if let Ok(target) = target::decide(first) {
        check(&target);
        if let Ok(next) = target.decide_redirect(second) {
            check(&next);
        }
    }
});
