//! Any text as a session's name: identities keep their form, and only the exact spelling of a main
//! key runs on the host.
#![no_main]

use clawpen_rules::config::Config;
use clawpen_rules::config::sandbox::{SandboxMode, Scope};
use clawpen_rules::ids::{AgentId, trim};
use clawpen_rules::scope::{ScopeKey, slug};
use clawpen_rules::session::key::SessionKey;
use clawpen_rules::session::{self, ExplainFlags, Session};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    let agent = AgentId::normalize(text);
    assert_eq!(AgentId::normalize(agent.as_str()), agent);

    let made = slug(text);
    assert!(made.len() <= 41 && !made.contains(['/', ':']));

    let config = Config::empty();
    let session = Session::resolve(&config, text);
    let main = format!("agent:{}:main", session.agent());
    let is_main = trim(text) == "main" || trim(text) == main;
    assert_eq!(session::decide(SandboxMode::NonMain, &session).is_sandboxed(), !is_main);

    for scope in [Scope::Session, Scope::Agent, Scope::Shared] {
        let key = ScopeKey::new(scope, &session);
        // The text as prefix too: it is the other part of the name that a config chooses.
        for prefix in ["openclaw-sbx-", text] {
            assert!(key.container_name(scope, prefix).as_str().chars().count() <= 63);
        }
        assert_eq!(key.owner(session.agent()).is_none(), scope == Scope::Shared);
    }

    let _ =
        session::resolve_for_explain(&config, ExplainFlags { agent: None, session: Some(text) });
    let Some(key) = SessionKey::parse(text) else { return };
    let _ = (key.shape(), key.chat_type(), key.is_subagent(), key.subagent_depth());
    let _ = (key.is_cron(), key.is_cron_run(), key.is_acp(), key.thread_parent());
    if let Some(parts) = key.split() {
        let again = SessionKey::parse(&format!("agent:{}:{}", parts.segment, parts.rest));
        assert_eq!(again.and_then(|key| key.split()), Some(parts));
    }
});
