//! The key of the session that a message lands in.
//!
//! Takes who wrote where and `session.dmScope`; gives the [`SessionKey`]. Direct messages share the
//! main session unless the config tells them apart, so in mode `non-main` they run unsandboxed.

use super::key::SessionKey;
use crate::ids::{AgentId, trim};

/// `session.dmScope`: which direct messages share a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum DmScope {
    /// All of them, with the main session.
    #[default]
    Main,
    PerPeer,
    PerChannelPeer,
    PerAccountChannelPeer,
}

/// What kind of conversation a message belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum PeerKind {
    Direct,
    Group,
    Channel,
}

/// Where a message comes from. Texts are as the channel gave them; blank means unknown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Peer<'a> {
    pub channel: &'a str,
    pub account: &'a str,
    pub kind: PeerKind,
    pub id: &'a str,
}

/// What the config says about sessions of messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PeerRules<'a> {
    pub dm_scope: DmScope,
    /// `session.identityLinks`: a person's name and the ids they write under, plain (`123`) or
    /// with the channel (`telegram:123`).
    pub identity_links: &'a [(String, Vec<String>)],
    /// `session.mainKey`; blank means `main`.
    pub main_key: &'a str,
}

impl DmScope {
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Main => "main",
            Self::PerPeer => "per-peer",
            Self::PerChannelPeer => "per-channel-peer",
            Self::PerAccountChannelPeer => "per-account-channel-peer",
        }
    }

    pub fn parse(text: &str) -> Option<Self> {
        [Self::Main, Self::PerPeer, Self::PerChannelPeer, Self::PerAccountChannelPeer]
            .into_iter()
            .find(|scope| scope.as_str() == text)
    }
}

impl PeerKind {
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Direct => "direct",
            Self::Group => "group",
            Self::Channel => "channel",
        }
    }

    pub fn parse(text: &str) -> Option<Self> {
        [Self::Direct, Self::Group, Self::Channel].into_iter().find(|kind| kind.as_str() == text)
    }
}

/// Builds the key of the session that `peer`'s messages to `agent` belong to.
pub fn build(agent: &AgentId, peer: &Peer<'_>, rules: &PeerRules<'_>) -> SessionKey {
    let channel = or(&lower(peer.channel), "unknown");
    match peer.kind {
        PeerKind::Direct => direct(agent, peer, &channel, rules),
        PeerKind::Group | PeerKind::Channel => {
            let id = or(&lower(peer.id), "unknown");
            SessionKey::of_agent(agent, &format!("{channel}:{}:{id}", peer.kind.as_str()))
        }
    }
}

fn direct(agent: &AgentId, peer: &Peer<'_>, channel: &str, rules: &PeerRules<'_>) -> SessionKey {
    let main = || SessionKey::of_agent(agent, &super::main_name(rules.main_key));
    let id = linked_name(peer, rules.identity_links).unwrap_or_else(|| lower(peer.id));
    if id.is_empty() {
        return main();
    }
    let rest = match rules.dm_scope {
        DmScope::Main => return main(),
        DmScope::PerPeer => format!("direct:{id}"),
        DmScope::PerChannelPeer => format!("{channel}:direct:{id}"),
        DmScope::PerAccountChannelPeer => {
            format!("{channel}:{}:direct:{id}", account_id(peer.account))
        }
    };
    SessionKey::of_agent(agent, &rest)
}

/// The name under which the config links this peer with others of the same person.
fn linked_name(peer: &Peer<'_>, links: &[(String, Vec<String>)]) -> Option<String> {
    let plain = lower(peer.id);
    if plain.is_empty() {
        return None;
    }
    let channel = lower(peer.channel);
    let scoped = format!("{channel}:{plain}");
    let is_peer = |id: &String| {
        let id = lower(id);
        id == plain || (!channel.is_empty() && id == scoped)
    };
    links
        .iter()
        .map(|(name, ids)| (lower(name), ids))
        .find(|(name, ids)| !name.is_empty() && ids.iter().any(is_peer))
        .map(|(name, _)| name)
}

/// An account's id follows the rules of an agent's id; without one it is `default`.
fn account_id(text: &str) -> String {
    let has_id = text.to_lowercase().chars().any(|c| matches!(c, 'a'..='z' | '0'..='9' | '_'));
    if has_id { AgentId::normalize(text).as_str().to_owned() } else { "default".to_owned() }
}

fn lower(text: &str) -> String {
    trim(text).to_lowercase()
}

fn or(text: &str, otherwise: &str) -> String {
    if text.is_empty() { otherwise.to_owned() } else { text.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn direct_messages_share_the_main_session_unless_told_apart() {
        let peer = Peer { channel: "Telegram", account: "A 1", kind: PeerKind::Direct, id: "ABC" };
        check(peer, DmScope::Main, "agent:work:main");
        check(peer, DmScope::PerPeer, "agent:work:direct:abc");
        check(peer, DmScope::PerChannelPeer, "agent:work:telegram:direct:abc");
        check(peer, DmScope::PerAccountChannelPeer, "agent:work:telegram:a-1:direct:abc");
        check(Peer { id: " ", ..peer }, DmScope::PerPeer, "agent:work:main");
        check(
            Peer { channel: "", ..peer },
            DmScope::PerChannelPeer,
            "agent:work:unknown:direct:abc",
        );
        let no_account = Peer { account: "--", ..peer };
        check(no_account, DmScope::PerAccountChannelPeer, "agent:work:telegram:default:direct:abc");
    }

    #[test]
    fn one_person_on_two_channels_is_one_peer() {
        let peer = Peer { channel: "discord", account: "", kind: PeerKind::Direct, id: "9" };
        check(peer, DmScope::PerPeer, "agent:work:direct:alice");
        check(Peer { id: "77", ..peer }, DmScope::PerPeer, "agent:work:direct:alice");
        check(Peer { channel: "", ..peer }, DmScope::PerPeer, "agent:work:direct:9");
        check(peer, DmScope::Main, "agent:work:main");
    }

    #[test]
    fn groups_and_channels_have_a_session_each() {
        let peer = Peer { channel: "WhatsApp", account: "", kind: PeerKind::Group, id: "1@G.US" };
        check(peer, DmScope::Main, "agent:work:whatsapp:group:1@g.us");
        check(
            Peer { kind: PeerKind::Channel, ..peer },
            DmScope::Main,
            "agent:work:whatsapp:channel:1@g.us",
        );
        check(
            Peer { id: "", channel: "", ..peer },
            DmScope::Main,
            "agent:work:unknown:group:unknown",
        );
    }

    #[track_caller]
    fn check(peer: Peer<'_>, dm_scope: DmScope, expected: &str) {
        let links = [
            ("  ".to_owned(), vec!["discord:9".to_owned()]),
            (
                "Alice".to_owned(),
                vec!["telegram:123".to_owned(), "Discord:9".to_owned(), "77".to_owned()],
            ),
        ];
        let rules = PeerRules { dm_scope, identity_links: &links, main_key: "" };
        let key = build(&AgentId::normalize("Work"), &peer, &rules);
        assert_eq!(key.as_str(), expected);
    }
}
