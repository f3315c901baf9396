//! The policy of a chat group and of one sender in it: `channels.<channel>.groups`.
//!
//! The first of these that exists counts, nothing is merged: the group's rule for this sender, the
//! group's rule, the same two of the group `*`.

use super::name::fold;
use super::section::Section;
use crate::config::Config;
use crate::config::setting::Layer;
use crate::config::tree::At;

/// The chat a session belongs to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Chat {
    pub channel: String,
    pub group: String,
    /// The account of ours that is in the group, if the channel has several.
    pub account: Option<String>,
    pub sender: ChatSender,
}

/// What is known of who wrote. All but `id` and `e164` can be changed by the sender.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ChatSender {
    pub id: Option<String>,
    pub e164: Option<String>,
    pub username: Option<String>,
    pub name: Option<String>,
}

impl Chat {
    /// The group that a session key names: `[agent:<id>:][subagent:]<channel>:group:<id>` or
    /// `…:channel:<id>`, with the part that names a thread or topic left off.
    pub fn of_session_key(key: &str) -> Option<Self> {
        let key = key.trim();
        let rest = match key.strip_prefix("agent:") {
            Some(rest) => rest.split_once(':')?.1,
            None => key,
        };
        let rest = rest.strip_prefix("subagent:").unwrap_or(rest);
        let thread = [":thread:", ":topic:"].iter().filter_map(|mark| rest.find(mark)).min();
        let rest = thread.and_then(|end| rest.get(..end)).unwrap_or(rest);
        let (channel, rest) = rest.split_once(':')?;
        let (kind, group) = rest.split_once(':')?;
        if !matches!(kind, "group" | "channel") || channel.is_empty() || group.is_empty() {
            return None;
        }
        Some(Self {
            channel: fold(channel),
            group: group.to_owned(),
            account: None,
            sender: ChatSender::default(),
        })
    }

    /// The section that applies to this chat and sender.
    pub(super) fn section(&self, config: &Config) -> Option<Section> {
        let channel = member(&config.at(&["channels"])?, &self.channel)?;
        let account = self.account.as_deref().and_then(|account| {
            member(&channel.get("accounts")?, account).and_then(|at| at.get("groups"))
        });
        let groups = account.or_else(|| channel.get("groups"))?;
        let scopes = [member(&groups, &self.group), groups.get("*")];
        scopes.into_iter().flatten().find_map(|group| {
            let by_sender = group.get("toolsBySender").and_then(|map| self.sender.find(&map));
            let section = |at: At<'_>| {
                let section = Section::read(Layer::Defaults, &at);
                section.pick().is_some().then_some(section)
            };
            by_sender.and_then(section).or_else(|| group.get("tools").and_then(section))
        })
    }
}

impl ChatSender {
    /// The entry of a `toolsBySender` map for this sender.
    fn find<'a>(&self, map: &At<'a>) -> Option<At<'a>> {
        let known = [
            ("id", self.id.as_deref()),
            ("e164", self.e164.as_deref()),
            ("username", self.username.as_deref()),
            ("name", self.name.as_deref()),
        ];
        let members = map.members();
        let find = |wanted: &dyn Fn(&str, &str) -> bool| {
            let hit = members.iter().find(|(key, _)| {
                let (field, value) = parse_key(key);
                wanted(field, &value)
            });
            hit.map(|(_, at)| at.clone())
        };
        known
            .into_iter()
            .filter_map(|(field, value)| Some((field, plain(field, value?))))
            .filter(|(_, value)| !value.is_empty())
            .find_map(|(field, value)| find(&|key, text| key == field && text == value))
            .or_else(|| find(&|field, _| field == "*"))
    }
}

/// Splits a key of `toolsBySender`; without a known prefix it is an id.
fn parse_key(key: &str) -> (&'static str, String) {
    let folded = fold(key);
    if folded == "*" {
        return ("*", String::new());
    }
    for field in ["id", "e164", "username", "name"] {
        if let Some(value) = folded.strip_prefix(field).and_then(|rest| rest.strip_prefix(':')) {
            return (field, plain(field, value));
        }
    }
    ("id", folded)
}

fn plain(field: &str, value: &str) -> String {
    let value = fold(value);
    if field == "username" { value.trim_start_matches('@').to_owned() } else { value }
}

/// A member by its key, exactly or else without regard to case.
fn member<'a>(at: &At<'a>, key: &str) -> Option<At<'a>> {
    at.get(key).or_else(|| {
        let folded = fold(key);
        at.members().into_iter().find(|(other, _)| fold(other) == folded).map(|(_, at)| at)
    })
}
