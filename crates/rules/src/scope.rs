//! Says which sessions share a sandbox, and what that sandbox is called.
//!
//! Takes `sandbox.scope` and a [`Session`]; gives the [`ScopeKey`], and from it the names of the
//! container and of the workspace directory. Names are those of the reference, so that sandboxes
//! made by it are found again, except where two sandboxes would have got one name:
//!
//! - a name that is too long keeps its slug and gets a hash of the whole, instead of losing its end;
//! - a session called like another scope's key (`shared`, `agent:<id>`) is written with its agent.

use std::fmt;

use sha2::{Digest as _, Sha256};

use crate::config::sandbox::Scope;
use crate::ids::{AgentId, dashed, trim};
use crate::session::Session;
use crate::session::key::{KeyShape, SessionKey};

/// The sandbox that a session lands in. Made by [`ScopeKey::new`] from a scope and a session only.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ScopeKey(String);

/// A container's name: at most 63 characters, and different for different sandboxes.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct ContainerName(String);

const SHARED: &str = "shared";

impl ScopeKey {
    pub fn new(scope: Scope, session: &Session) -> Self {
        match scope {
            Scope::Shared => Self(SHARED.to_owned()),
            Scope::Agent => Self(format!("agent:{}", session.agent())),
            Scope::Session => match session.key() {
                None => Self("main".to_owned()),
                // Written as it stands it could be the shared sandbox or another agent's.
                Some(key) if is_reserved(key) => Self(format!("agent:{}:{key}", session.agent())),
                Some(key) => Self(key.as_str().to_owned()),
            },
        }
    }

    /// A key that was made earlier and comes back from a registry or a label; `None` if blank.
    pub fn stored(text: &str) -> Option<Self> {
        let text = trim(text);
        (!text.is_empty()).then(|| Self(text.to_owned()))
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The agent whose settings apply to the sandbox; `None` for the shared one. A key that names
    /// no agent is of the default agent, as its session is.
    pub fn owner(&self, default_agent: &AgentId) -> Option<AgentId> {
        if self.0 == SHARED {
            return None;
        }
        let mut segments = self.0.split(':').filter(|segment| !segment.is_empty());
        if let (Some("agent"), Some(id)) = (segments.next(), segments.next()) {
            return Some(AgentId::normalize(id));
        }
        let named = SessionKey::parse(&self.0).and_then(|key| key.agent());
        Some(named.unwrap_or_else(|| default_agent.clone()))
    }

    /// The name of the sandbox's directory below the workspace root. `shared` is no slug: those end
    /// in a hash.
    pub fn workspace_directory(&self, scope: Scope) -> String {
        match scope {
            Scope::Shared => SHARED.to_owned(),
            Scope::Agent | Scope::Session => slug(&self.0),
        }
    }

    /// The name of the container, after `docker.containerPrefix`.
    pub fn container_name(&self, scope: Scope, prefix: &str) -> ContainerName {
        let slug = self.workspace_directory(scope);
        let full = format!("{prefix}{slug}");
        if full.chars().count() <= ContainerName::MAX_LENGTH {
            return ContainerName(full);
        }
        let hash = sha256_hex(&full, 12);
        let room = ContainerName::MAX_LENGTH - hash.len() - 1;
        let kept: String = prefix.chars().take(room.saturating_sub(slug.len())).collect();
        ContainerName(format!("{kept}{slug}-{hash}"))
    }
}

impl fmt::Display for ScopeKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl ContainerName {
    const MAX_LENGTH: usize = 63;

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for ContainerName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A readable, unique file name for any text: at most 32 characters of `[a-z0-9._-]` and eight hex
/// digits of the text's hash. Never `.`, `..` or hidden by a slash.
pub fn slug(text: &str) -> String {
    let text = match trim(text) {
        "" => "session",
        text => text,
    };
    let readable = dashed(text, |c| matches!(c, 'a'..='z' | '0'..='9' | '.' | '_' | '-'));
    let readable: String = readable.chars().take(32).collect();
    let readable = if readable.is_empty() { "session" } else { &readable };
    format!("{readable}-{}", sha256_hex(text, 8))
}

/// Says whether a session's name could be read as the key of the shared sandbox or of an agent's.
fn is_reserved(key: &SessionKey) -> bool {
    match key.shape() {
        KeyShape::Agent => false,
        KeyShape::MalformedAgent => true,
        KeyShape::LegacyOrAlias => key.as_str() == SHARED,
    }
}

/// The first `digits` hex digits of the SHA-256 of a text.
fn sha256_hex(text: &str, digits: usize) -> String {
    let hash = Sha256::digest(text.as_bytes());
    let halves = hash.iter().flat_map(|byte| [byte >> 4, byte & 15]);
    halves.take(digits).filter_map(|half| char::from_digit(half.into(), 16)).collect()
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use proptest::prelude::*;

    use super::*;
    use crate::config::Config;

    #[test]
    fn slugs_are_those_of_the_reference() {
        for (text, expected) in [
            ("agent:main", "agent-main-f331f052"),
            ("agent:work-bot:main", "agent-work-bot-main-7ebe1695"),
            ("agent:main:telegram:group:123", "agent-main-telegram-group-123-2539fa46"),
            (
                "agent:main:telegram:group:-1001234567890:topic:42",
                "agent-main-telegram-group--10012-d2e66eb4",
            ),
            ("Agent:Main:X", "agent-main-x-2704de9f"),
            ("", "session-3f3af1ec"),
            ("..", "..-5ec1f7e7"),
        ] {
            assert_eq!(slug(text), expected, "{text}");
        }
    }

    #[test]
    fn a_scope_gathers_sessions_by_session_by_agent_or_all() {
        check("agent:Work:x", ["agent:Work:x", "agent:work", "shared"]);
        check(" main ", ["main", "agent:main", "shared"]);
        check("", ["main", "agent:main", "shared"]);
    }

    #[test]
    fn no_session_is_named_like_another_scope() {
        check("shared", ["agent:main:shared", "agent:main", "shared"]);
        check("agent:beta", ["agent:main:agent:beta", "agent:main", "shared"]);
        check("agent:beta:", ["agent:main:agent:beta:", "agent:main", "shared"]);
    }

    #[test]
    fn a_key_that_names_no_agent_is_of_the_default_agent() {
        for (text, expected) in [
            ("shared", None),
            ("agent:Work Bot", Some("work-bot")),
            ("AGENT:x:y", Some("x")),
            ("agent:x:subagent:y", Some("x")),
            ("telegram:group:1", Some("alpha")),
        ] {
            let owner = ScopeKey::stored(text).unwrap().owner(&AgentId::normalize("alpha"));
            assert_eq!(owner.as_ref().map(AgentId::as_str), expected, "{text}");
        }
    }

    #[test]
    fn a_long_prefix_is_cut_and_the_slug_stays() {
        let key = ScopeKey::stored("agent:main").unwrap();
        let name = |scope, prefix: &str| key.container_name(scope, prefix).as_str().to_owned();
        assert_eq!(name(Scope::Agent, "openclaw-sbx-"), "openclaw-sbx-agent-main-f331f052");
        assert_eq!(name(Scope::Shared, "openclaw-sbx-"), "openclaw-sbx-shared");
        assert_eq!(name(Scope::Agent, &"p".repeat(44)), "p".repeat(44) + "agent-main-f331f052");
        let long = name(Scope::Agent, &"p".repeat(45));
        assert_eq!(long, "p".repeat(31) + "agent-main-f331f052-" + &long[51..]);
        assert_eq!(long.len(), 63);
    }

    proptest! {
        #[test]
        fn slugs_are_short_plain_and_stable(text in "\\PC{0,80}") {
            let made = slug(&text);
            prop_assert!(made.len() <= 41);
            prop_assert!(made.bytes().all(|b| matches!(b, b'a'..=b'z' | b'0'..=b'9' | b'.' | b'_' | b'-')));
            prop_assert_eq!(slug(&format!(" {text}\n")), made);
        }

        #[test]
        fn container_names_are_short_and_long_prefixes_do_not_collide(
            prefixes in proptest::collection::hash_set("[a-b]{40,60}|x{50}[a-z]{0,20}", 2..6),
            key in "[a-z:]{1,60}",
        ) {
            let Some(key) = ScopeKey::stored(&key) else { return Ok(()) };
            let names: HashSet<String> = prefixes
                .iter()
                .map(|prefix| key.container_name(Scope::Session, prefix).as_str().to_owned())
                .collect();
            prop_assert_eq!(names.len(), prefixes.len());
            prop_assert!(names.iter().all(|name| name.chars().count() <= 63));
        }
    }

    #[track_caller]
    fn check(key: &str, expected: [&str; 3]) {
        let session = Session::resolve(&Config::empty(), key);
        let keys = [Scope::Session, Scope::Agent, Scope::Shared]
            .map(|scope| ScopeKey::new(scope, &session).as_str().to_owned());
        assert_eq!(keys, expected, "{key:?}");
    }
}
