//! Any text as a config: reading it, and asking it about agents and sessions, must not panic, hang
//! or recurse without bound.
#![no_main]

use clawpen_rules::config::sandbox::SandboxMode;
use clawpen_rules::config::tree::{At, FileId, Node};
use clawpen_rules::config::{Config, json5};
use clawpen_rules::session::{self, Session};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    read(text);
    // The same inside nesting that goes past the cap: a deep file must be refused, not overflow
    // the stack. The fuzzer would seldom build a thousand brackets itself.
    if let Some(deep) = text.strip_prefix('#') {
        let brackets = if deep.len() % 2 == 0 { "[" } else { "{a:" };
        assert!(json5::parse(&(brackets.repeat(1000) + deep), FileId(0)).is_err());
    }
});

fn read(text: &str) {
    let Ok(parsed) = json5::parse(text, FileId(0)) else { return };
    visit(&At::root(&parsed.root), text);
    let config = Config::from_tree(parsed.root, vec!["openclaw.json".to_owned()]);
    let default_agent = config.default_agent();
    for (id, _) in config.agents() {
        assert!(config.agent(&id).is_some());
    }
    for key in ["main", "global", default_agent.as_str(), "agent:x:main"] {
        let session = Session::resolve(&config, key);
        for mode in [SandboxMode::Off, SandboxMode::NonMain, SandboxMode::All] {
            let _ = session::decide(mode, &session).to_string();
        }
    }
}

/// Every value knows its place: the bytes it claims exist, and lie on character boundaries.
fn visit(at: &At<'_>, text: &str) {
    let Node { span, place, .. } = at.node;
    assert!(text.get(span.start as usize..span.end as usize).is_some());
    assert!(place.line >= 1 && place.column >= 1);
    for child in at.items() {
        visit(&child, text);
    }
    for (_, child) in at.members() {
        visit(&child, text);
    }
}
