//! The name of a session, and what can be read off the name alone.
//!
//! ```text
//! agent:<id>:main                                      the main session
//! agent:<id>:[<channel>:[<account>:]]direct:<peer>     one person
//! agent:<id>:<channel>:(group|channel):<peer>          many
//! <base>:thread:<id>, <base>:topic:<id>                a thread of either
//! agent:<id>:subagent:<uuid>[:subagent:<uuid>…]        spawned by another session
//! agent:<id>:cron:<job>[:run:<run>], agent:<id>:acp:…  started by the clock, by an editor
//! global, main, anything else                          no agent in the name
//! ```
//!
//! Reading is lenient (case and empty segments do not count), because names come from many doors.
//! Nothing here says whether a session is the main one: that is [`super::decide`]'s question, and
//! it is strict.

use std::fmt;

use crate::ids::{AgentId, is_blank, trim};

/// A session's name: trimmed, never blank, otherwise as it was given.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SessionKey(String);

/// The form of a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum KeyShape {
    /// `agent:<id>:<rest>`.
    Agent,
    /// Starts like the above and lacks a part.
    MalformedAgent,
    /// `main`, `global`, or a key from before agents had names.
    LegacyOrAlias,
}

/// A key of shape [`KeyShape::Agent`] in its parts, lower case and without empty segments.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AgentKey {
    /// The segment that names the agent, not yet an [`AgentId`].
    pub segment: String,
    /// What follows; never blank.
    pub rest: String,
}

/// Who is on the other side, as far as the key tells.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ChatType {
    Direct,
    Group,
    Channel,
    Unknown,
}

impl SessionKey {
    /// Takes any text but a blank one.
    pub fn parse(text: &str) -> Option<Self> {
        let text = trim(text);
        (!text.is_empty()).then(|| Self(text.to_owned()))
    }

    /// `agent:<id>:<rest>`. The caller gives a `rest` that is trimmed and not empty.
    pub(super) fn of_agent(agent: &AgentId, rest: &str) -> Self {
        Self(format!("agent:{agent}:{rest}"))
    }

    /// The one session of a config with `session.scope: "global"`.
    pub(super) fn global() -> Self {
        Self("global".to_owned())
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }

    pub fn shape(&self) -> KeyShape {
        if self.split().is_some() {
            KeyShape::Agent
        } else if self.0.to_lowercase().starts_with("agent:") {
            KeyShape::MalformedAgent
        } else {
            KeyShape::LegacyOrAlias
        }
    }

    /// The parts of an agent's key; `None` for any other shape.
    pub fn split(&self) -> Option<AgentKey> {
        let lower = self.0.to_lowercase();
        let mut segments = lower.split(':').filter(|segment| !segment.is_empty());
        if segments.next()? != "agent" {
            return None;
        }
        let segment = trim(segments.next()?).to_owned();
        let rest = segments.collect::<Vec<_>>().join(":");
        // Blank segments at the end go too: a key that is read back must stay the same key.
        let rest = rest.trim_end_matches(|c| c == ':' || is_blank(c));
        let complete = !segment.is_empty() && !trim(rest).is_empty();
        complete.then(|| AgentKey { segment, rest: rest.to_owned() })
    }

    /// The agent that the key names; `None` if it names none, and then it is the default agent's.
    pub fn agent(&self) -> Option<AgentId> {
        self.split().map(|key| AgentId::normalize(&key.segment))
    }

    /// The key without its agent, as doors show it.
    pub fn request_key(&self) -> String {
        self.split().map_or_else(|| self.0.clone(), |key| key.rest)
    }

    pub fn chat_type(&self) -> ChatType {
        let rest = self.lower_rest();
        let has = |name: &str| rest.split(':').any(|segment| segment == name);
        if has("group") {
            ChatType::Group
        } else if has("channel") || is_old_discord_channel(&rest) {
            ChatType::Channel
        } else if has("direct") || has("dm") {
            ChatType::Direct
        } else {
            ChatType::Unknown
        }
    }

    pub fn is_subagent(&self) -> bool {
        self.lower_rest().starts_with("subagent:")
    }

    /// How many spawns lie between this session and one that a person started.
    ///
    /// A key without an agent (`subagent:x`) counts as well: its session was spawned too, and a
    /// depth of 0 would give it the tools of a main session.
    pub fn subagent_depth(&self) -> usize {
        format!(":{}", self.0.to_lowercase()).matches(":subagent:").count()
    }

    pub fn is_cron(&self) -> bool {
        self.split().is_some_and(|key| key.rest.starts_with("cron:"))
    }

    /// One run of a job: `cron:<job>:run:<run>` and nothing after it.
    pub fn is_cron_run(&self) -> bool {
        self.split().is_some_and(|key| {
            let segments: Vec<&str> = key.rest.split(':').collect();
            matches!(segments.as_slice(), ["cron", _, "run", _])
        })
    }

    pub fn is_acp(&self) -> bool {
        self.lower_rest().starts_with("acp:")
    }

    /// The session that a thread or topic branches from, spelled as in this key.
    pub fn thread_parent(&self) -> Option<Self> {
        // ASCII only, so that positions in the lower-case text are positions in the key.
        let lower = self.0.to_ascii_lowercase();
        let marker = [":thread:", ":topic:"].iter().filter_map(|marker| lower.rfind(marker)).max();
        Self::parse(self.0.get(..marker?)?)
    }

    /// The rest of an agent's key, or the whole of any other, in lower case.
    fn lower_rest(&self) -> String {
        self.split().map_or_else(|| self.0.to_lowercase(), |key| key.rest)
    }
}

impl ChatType {
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Direct => "direct",
            Self::Group => "group",
            Self::Channel => "channel",
            Self::Unknown => "unknown",
        }
    }
}

impl fmt::Display for SessionKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// `discord:[<account>:]guild-<id>:channel-<id>`, the form that older releases stored.
fn is_old_discord_channel(rest: &str) -> bool {
    let segments: Vec<&str> = rest.split(':').collect();
    let (guild, channel) = match segments.as_slice() {
        ["discord", guild, channel] => (guild, channel),
        ["discord", account, guild, channel] if !account.is_empty() => (guild, channel),
        _ => return false,
    };
    let has_id =
        |segment: &str, prefix: &str| segment.strip_prefix(prefix).is_some_and(|id| !id.is_empty());
    has_id(guild, "guild-") && has_id(channel, "channel-")
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_key_is_read_without_regard_to_case_and_empty_segments() {
        check_split("agent:main:main", Some(("main", "main")));
        check_split("AGENT:Work:Telegram:Group:A", Some(("work", "telegram:group:a")));
        check_split(":agent::main::x:", Some(("main", "x")));
        check_split("agent: main :x", Some(("main", "x")));
        check_split("agent:main:x :", Some(("main", "x")));
        check_split("agent:main", None);
        check_split("agent:main: :", None);
        check_split("agent: :x", None);
        check_split("agents:main:x", None);
        check_split("main", None);
    }

    #[test]
    fn shapes_tell_broken_agent_keys_from_old_ones() {
        for (text, expected) in [
            ("agent:main:x", KeyShape::Agent),
            ("agent:main", KeyShape::MalformedAgent),
            ("AGENT:", KeyShape::MalformedAgent),
            ("agent", KeyShape::LegacyOrAlias),
            (":agent:main", KeyShape::LegacyOrAlias),
            ("global", KeyShape::LegacyOrAlias),
        ] {
            assert_eq!(key(text).shape(), expected, "{text}");
        }
    }

    #[test]
    fn chat_types_come_from_whole_segments() {
        for (text, expected) in [
            ("agent:main:telegram:group:-100:topic:5", ChatType::Group),
            ("agent:main:slack:channel:c0", ChatType::Channel),
            ("agent:main:discord:acct:guild-1:channel-2", ChatType::Channel),
            ("discord:guild-1:channel-2", ChatType::Channel),
            ("discord::guild-1:channel-2", ChatType::Unknown),
            ("discord:guild-:channel-2", ChatType::Unknown),
            ("agent:main:signal:DM:1", ChatType::Direct),
            ("agent:main:direct:1", ChatType::Direct),
            ("agent:group:main", ChatType::Unknown),
            ("agent:main:subgroup", ChatType::Unknown),
        ] {
            assert_eq!(key(text).chat_type(), expected, "{text}");
        }
    }

    #[test]
    fn spawned_sessions_are_never_at_depth_zero() {
        for (text, depth) in [
            ("agent:main:main", 0),
            ("subagent:x", 1),
            ("agent:main:subagent:a", 1),
            ("agent:main:subagent:a:SUBAGENT:b", 2),
        ] {
            assert_eq!((key(text).is_subagent(), key(text).subagent_depth()), (depth > 0, depth));
        }
    }

    #[test]
    fn cron_runs_and_editors_are_told_by_the_rest() {
        for (text, expected) in [
            ("agent:main:cron:daily", (true, false, false)),
            ("agent:main:cron:daily:run:9", (true, true, false)),
            ("agent:main:cron:daily:run:9:x", (true, false, false)),
            ("cron:nightly", (false, false, false)),
            ("agent:main:acp:x", (false, false, true)),
            ("ACP:x", (false, false, true)),
        ] {
            let key = key(text);
            assert_eq!((key.is_cron(), key.is_cron_run(), key.is_acp()), expected, "{text}");
        }
    }

    #[test]
    fn the_last_thread_marker_counts() {
        for (text, expected) in [
            ("agent:main:slack:channel:C0:THREAD:1", Some("agent:main:slack:channel:C0")),
            ("a:thread:1:topic:2", Some("a:thread:1")),
            ("İ:thread:1", Some("İ")),
            (":thread:1", None),
            ("agent:main:main", None),
        ] {
            assert_eq!(key(text).thread_parent(), expected.map(key), "{text}");
        }
    }

    proptest! {
        #[test]
        fn a_key_put_together_again_is_the_same_key(text in "(agent:)?[ :a-cAİσΣ\u{feff}]{0,12}") {
            if let Some(parts) = SessionKey::parse(&text).and_then(|key| key.split()) {
                let again = key(&format!("agent:{}:{}", parts.segment, parts.rest));
                prop_assert_eq!(again.split(), Some(parts));
            }
        }
    }

    fn key(text: &str) -> SessionKey {
        SessionKey::parse(text).unwrap()
    }

    #[track_caller]
    fn check_split(text: &str, expected: Option<(&str, &str)>) {
        let parts = key(text).split();
        let parts = parts.as_ref().map(|key| (key.segment.as_str(), key.rest.as_str()));
        assert_eq!(parts, expected, "{text}");
    }
}
