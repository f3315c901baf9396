//! Which chat channel a session belongs to.

use crate::tool_policy::fold;

/// The channel of the gateway's own chat page: always there.
pub(crate) const WEBCHAT: &str = "webchat";

/// Other names of channels.
const ALIASES: &[(&str, &str)] = &[
    ("imsg", "imessage"),
    ("internet-relay-chat", "irc"),
    ("google-chat", "googlechat"),
    ("gchat", "googlechat"),
];

/// A channel that exists here, by its id.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Channel(String);

impl Channel {
    /// A channel by any of its names; `None` unless it is among the `registered` ones.
    pub fn normalize(text: &str, registered: &[&str]) -> Option<Self> {
        let name = fold(text);
        let name = ALIASES
            .iter()
            .find(|(alias, _)| *alias == name)
            .map_or(name, |(_, id)| (*id).to_owned());
        (name == WEBCHAT || registered.contains(&name.as_str())).then_some(Self(name))
    }

    /// The channel of a session: what its record says (`stored`, the first of its channel fields
    /// that is set), else the first part of its key.
    ///
    /// `agent:w:telegram:group:1` says `telegram`; a main session and an unscoped key say nothing.
    pub fn of_session(stored: Option<&str>, key: &str, registered: &[&str]) -> Option<Self> {
        let recorded = stored.and_then(|text| Self::normalize(text, registered));
        recorded.or_else(|| {
            let rest = fold(key).strip_prefix("agent:")?.split_once(':')?.1.to_owned();
            let first = rest.split(':').find(|part| !part.is_empty())?;
            Self::normalize(first, registered)
        })
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}
