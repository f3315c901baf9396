//! Who wrote a message, and whether an entry of an allow list means them.

use super::Grant;
use super::channel::WEBCHAT;
use crate::tool_policy::catalogue::CHANNELS;
use crate::tool_policy::fold;

/// The entry that lets everyone in.
pub(super) const ANYONE: &str = "*";

/// What a channel says of a sender. Recipient fields have no place here: they never match.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Sender {
    pub id: Option<String>,
    /// The address the message came from, often with the channel before it.
    pub from: Option<String>,
    pub e164: Option<String>,
    pub name: Option<String>,
    pub username: Option<String>,
    pub tag: Option<String>,
}

/// What of a sender an entry matched.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Identity {
    Anyone,
    Id,
    From,
    E164,
    Name,
    Username,
    Tag,
}

impl Identity {
    /// Says whether the sender can change it.
    pub const fn is_mutable(self) -> bool {
        match self {
            Self::Name | Self::Username | Self::Tag => true,
            Self::Anyone | Self::Id | Self::From | Self::E164 => false,
        }
    }

    /// The identity that an entry asks for by its prefix.
    fn parse(prefix: &str) -> Option<Self> {
        match fold(prefix).as_str() {
            "id" => Some(Self::Id),
            "from" => Some(Self::From),
            "e164" => Some(Self::E164),
            "name" => Some(Self::Name),
            "username" => Some(Self::Username),
            "tag" => Some(Self::Tag),
            _ => None,
        }
    }
}

impl Sender {
    /// The first entry that means this sender.
    pub(super) fn find(&self, list: &[String]) -> Option<Grant> {
        let grant = |entry: &String, identity| Grant { entry: entry.clone(), identity };
        if let Some(entry) = list.iter().find(|entry| *entry == ANYONE) {
            return Some(grant(entry, Identity::Anyone));
        }
        list.iter().find_map(|entry| self.matches(entry).map(|identity| grant(entry, identity)))
    }

    fn matches(&self, entry: &str) -> Option<Identity> {
        let explicit = entry.split_once(':').and_then(|(prefix, value)| {
            let value = value.trim();
            if value.is_empty() { None } else { Some((Identity::parse(prefix)?, value)) }
        });
        match explicit {
            Some((identity, value)) => self.has(identity, value).then_some(identity),
            None => [Identity::Id, Identity::From, Identity::E164]
                .into_iter()
                .find(|identity| self.has(*identity, entry)),
        }
    }

    fn has(&self, identity: Identity, value: &str) -> bool {
        match identity {
            Identity::Anyone => true,
            Identity::Id => same_address(self.id.as_deref(), value),
            Identity::From => same_address(self.from.as_deref(), value),
            Identity::E164 => self.e164.as_deref().is_some_and(|own| same(own, value)),
            Identity::Name => same_name(self.name.as_deref(), value),
            Identity::Username => same_name(self.username.as_deref(), value),
            Identity::Tag => same_name(self.tag.as_deref(), value),
        }
    }
}

fn same(own: &str, value: &str) -> bool {
    let own = fold(own);
    !own.is_empty() && own == fold(value)
}

/// Compares addresses with and without the channel before them.
fn same_address(own: Option<&str>, value: &str) -> bool {
    let Some(own) = own else { return false };
    let own = [own, without_prefix(own)];
    let value = [value, without_prefix(value)];
    own.iter().any(|own| value.iter().any(|value| same(own, value)))
}

/// Drops one leading `telegram:`, `user:` and the like.
fn without_prefix(address: &str) -> &str {
    let address = address.trim();
    let Some((prefix, rest)) = address.split_once(':') else { return address };
    let prefix = prefix.to_ascii_lowercase();
    let known = CHANNELS.iter().copied().chain([WEBCHAT, "user", "group", "channel"]);
    if known.into_iter().any(|known| known == prefix) { rest } else { address }
}

/// Compares names as written and in a form without decoration: `@Alice`, `alice`; `Alice Liddell`,
/// `alice-liddell`.
fn same_name(own: Option<&str>, value: &str) -> bool {
    let Some(own) = own else { return false };
    let forms = |text: &str| [fold(text), slug(text)];
    let value = forms(value);
    forms(own).iter().any(|own| !own.is_empty() && value.contains(own))
}

/// Lower case letters and digits, anything else between them one dash.
fn slug(text: &str) -> String {
    let folded = fold(text);
    let mut slug = String::with_capacity(folded.len());
    for c in folded.chars() {
        if c.is_ascii_lowercase() || c.is_ascii_digit() {
            slug.push(c);
        } else if !slug.is_empty() && !slug.ends_with('-') {
            slug.push('-');
        }
    }
    slug.trim_end_matches('-').to_owned()
}
