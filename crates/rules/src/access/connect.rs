//! Decides what becomes of somebody who wants to log in.
//!
//! The order is the reference's: page of origin, then the secret, then what a missing device means,
//! then pairing. Whether a secret or a signature is right is looked up by the caller and comes in as
//! a fact; nothing here compares secrets.

use std::net::IpAddr;

use super::{Role, Scopes};

/// Facts about the connection itself, before anybody said anything.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Peer {
    /// Who is on the other end of the socket.
    pub address: Option<IpAddr>,
    /// The `Host` header.
    pub host: Option<String>,
    pub origin: Option<String>,
    /// A header that only a proxy sets is there.
    pub is_forwarded: bool,
}

impl Peer {
    /// Somebody on this machine who came straight to us: not through a proxy, and not because a
    /// foreign name was made to point here.
    pub fn is_local(&self) -> bool {
        self.address.is_some_and(|address| address.to_canonical().is_loopback())
            && !self.is_forwarded
            && self.host.as_deref().is_some_and(|host| is_loopback_name(host_name(host)))
    }
}

/// What kind of program a client says it is. This changes which checks apply, never what is allowed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ClientKind {
    /// The control page or the terminal program of the reference.
    ControlUi,
    /// A chat page.
    Webchat,
    Other,
}

impl ClientKind {
    pub fn of(id: &str, mode: &str) -> Self {
        match (id, mode) {
            ("openclaw-control-ui" | "openclaw-tui", _) => Self::ControlUi,
            ("webchat-ui", _) | (_, "webchat") => Self::Webchat,
            (_, _) => Self::Other,
        }
    }
}

/// What the config says about pages.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct OriginRules {
    pub allowed: Vec<String>,
    /// `gateway.controlUi.dangerouslyAllowHostHeaderOriginFallback`.
    pub host_header_counts: bool,
}

/// Whether a page may talk to us.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OriginVerdict {
    /// No page is involved, or an allowed one.
    Fine,
    Missing,
    NotAllowed,
}

/// Decides whether the page behind a connection may talk to us.
#[must_use]
pub fn decide_origin(
    peer: &Peer,
    id: &str,
    kind: ClientKind,
    rules: &OriginRules,
) -> OriginVerdict {
    let is_page = match kind {
        ClientKind::ControlUi => id == "openclaw-control-ui",
        ClientKind::Webchat => true,
        ClientKind::Other => false,
    };
    if !is_page && peer.origin.is_none() {
        return OriginVerdict::Fine;
    }
    let Some(origin) = peer.origin.as_deref().and_then(Origin::parse) else {
        return OriginVerdict::Missing;
    };
    let is_listed = rules.allowed.iter().any(|allowed| {
        let allowed = allowed.trim().to_ascii_lowercase();
        allowed == "*" || allowed.trim_end_matches('/') == origin.text
    });
    let host = peer.host.as_deref().map(str::to_ascii_lowercase);
    let is_own_host = rules.host_header_counts && host.as_deref() == Some(origin.authority());
    let is_local_page = peer.is_local() && is_loopback_name(host_name(origin.authority()));
    if is_listed || is_own_host || is_local_page {
        OriginVerdict::Fine
    } else {
        OriginVerdict::NotAllowed
    }
}

/// `scheme://authority`, lower case.
struct Origin {
    text: String,
    start: usize,
}

impl Origin {
    /// `null`, a path or anything else that no browser sends is none.
    fn parse(text: &str) -> Option<Self> {
        let text = text.trim().to_ascii_lowercase();
        let (scheme, authority) = text.split_once("://")?;
        let is_web = matches!(scheme, "http" | "https");
        let is_plain = !authority.is_empty()
            && authority.bytes().all(|b| {
                b.is_ascii_alphanumeric() || matches!(b, b'.' | b'-' | b':' | b'[' | b']' | b'_')
            });
        let start = scheme.len() + "://".len();
        (is_web && is_plain).then_some(Self { text, start })
    }

    fn authority(&self) -> &str {
        self.text.get(self.start..).unwrap_or_default()
    }
}

/// A host without its port.
fn host_name(host: &str) -> &str {
    if let Some(rest) = host.strip_prefix('[') {
        return rest.split_once(']').map_or(host, |(name, _)| name);
    }
    match host.rsplit_once(':') {
        Some((name, port)) if !name.contains(':') && port.bytes().all(|b| b.is_ascii_digit()) => {
            name
        }
        Some(_) | None => host,
    }
}

fn is_loopback_name(name: &str) -> bool {
    name.eq_ignore_ascii_case("localhost")
        || name.parse::<IpAddr>().is_ok_and(|address| address.to_canonical().is_loopback())
}

/// How the shared secret went.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SecretVerdict {
    /// It is the right one, or the mode asks for none.
    Right,
    /// None was given.
    Absent,
    Wrong,
    /// Too many wrong ones came from there: it was not even looked at.
    Throttled,
}

/// What a login without a device gets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WithoutDevice {
    /// Let in, with no scope at all.
    LetIn,
    /// A control page must show a device.
    ControlUiNeedsDevice,
    NeedsDevice,
    /// The secret is wrong, which is said first.
    Unauthorized,
}

/// Decides what a login without a device gets. A shared secret alone never gives a scope: whoever
/// reads it off a screen could do everything with it.
#[must_use]
pub const fn decide_without_device(kind: ClientKind, secret: SecretVerdict) -> WithoutDevice {
    match (kind, secret) {
        // Said first, whatever the secret was: the page can do nothing without a device.
        (
            ClientKind::ControlUi,
            SecretVerdict::Right
            | SecretVerdict::Absent
            | SecretVerdict::Wrong
            | SecretVerdict::Throttled,
        ) => WithoutDevice::ControlUiNeedsDevice,
        (
            ClientKind::Webchat | ClientKind::Other,
            SecretVerdict::Wrong | SecretVerdict::Throttled,
        ) => WithoutDevice::Unauthorized,
        (ClientKind::Webchat | ClientKind::Other, SecretVerdict::Right) => WithoutDevice::LetIn,
        (ClientKind::Webchat | ClientKind::Other, SecretVerdict::Absent) => {
            WithoutDevice::NeedsDevice
        }
    }
}

/// What we know of a device that shows itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KnownDevice {
    pub role: Role,
    pub scopes: Scopes,
    pub platform: Option<String>,
    pub family: Option<String>,
}

/// What a device says of itself now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ShownDevice {
    pub role: Role,
    pub scopes: Scopes,
    pub platform: Option<String>,
    pub family: Option<String>,
}

/// Whether a device is let in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pairing {
    /// Known, and asks for nothing new.
    Paired,
    /// New, on this machine: taken without asking.
    Silent,
    /// Somebody must agree first.
    Ask(AskReason),
}

/// Why somebody must agree.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AskReason {
    NotPaired,
    RoleUpgrade,
    ScopeUpgrade,
    MetadataUpgrade,
}

impl AskReason {
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::NotPaired => "not-paired",
            Self::RoleUpgrade => "role-upgrade",
            Self::ScopeUpgrade => "scope-upgrade",
            Self::MetadataUpgrade => "metadata-upgrade",
        }
    }
}

/// Decides whether a device, whose signature is right, is let in.
#[must_use]
pub fn decide_pairing(
    peer: &Peer,
    kind: ClientKind,
    known: Option<&KnownDevice>,
    shown: &ShownDevice,
) -> Pairing {
    let Some(known) = known else {
        let is_page = match kind {
            ClientKind::ControlUi | ClientKind::Webchat => true,
            ClientKind::Other => false,
        };
        let is_silent = peer.is_local() && (peer.origin.is_none() || is_page);
        return if is_silent { Pairing::Silent } else { Pairing::Ask(AskReason::NotPaired) };
    };
    if known.role != shown.role {
        Pairing::Ask(AskReason::RoleUpgrade)
    } else if !known.scopes.covers_all(&shown.scopes) {
        Pairing::Ask(AskReason::ScopeUpgrade)
    } else if known.platform != shown.platform || known.family != shown.family {
        Pairing::Ask(AskReason::MetadataUpgrade)
    } else {
        Pairing::Paired
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn peer(host: &str, origin: Option<&str>) -> Peer {
        Peer {
            address: Some([127, 0, 0, 1].into()),
            host: Some(host.to_owned()),
            origin: origin.map(str::to_owned),
            is_forwarded: false,
        }
    }

    #[test]
    fn only_a_direct_caller_by_a_loopback_name_is_local() {
        for (host, expected) in [
            ("127.0.0.1:18789", true),
            ("localhost", true),
            ("LOCALHOST:1", true),
            ("[::1]:18789", true),
            ("::1", true),
            ("evil.example:18789", false),
            ("127.0.0.1.evil.example", false),
            ("localhost.evil.example", false),
            ("", false),
        ] {
            assert_eq!(peer(host, None).is_local(), expected, "{host}");
        }
        assert!(!Peer { is_forwarded: true, ..peer("localhost", None) }.is_local());
        assert!(
            !Peer { address: Some([10, 0, 0, 1].into()), ..peer("localhost", None) }.is_local()
        );
        assert!(!Peer { host: None, ..peer("", None) }.is_local());
    }

    #[test]
    fn a_foreign_page_gets_nowhere() {
        use OriginVerdict::{Fine, Missing, NotAllowed};
        check_origin("cli", None, Fine);
        check_origin("cli", Some("http://evil.example"), NotAllowed);
        check_origin("openclaw-control-ui", None, Missing);
        check_origin("openclaw-control-ui", Some("null"), Missing);
        check_origin("openclaw-control-ui", Some("http://localhost:3000"), Fine);
        check_origin("openclaw-control-ui", Some("http://[::1]:3000"), Fine);
        check_origin("openclaw-control-ui", Some("http://localhost:3000@evil.example"), Missing);
        check_origin("openclaw-control-ui", Some("http://localhost.evil.example"), NotAllowed);
        check_origin("webchat-ui", Some("https://ok.example"), Fine);
        check_origin("webchat-ui", Some("https://OK.example"), Fine);
        check_origin("webchat-ui", Some("http://ok.example"), NotAllowed);
        check_origin("openclaw-tui", None, Fine);
    }

    #[track_caller]
    fn check_origin(id: &str, origin: Option<&str>, expected: OriginVerdict) {
        let rules = OriginRules {
            allowed: vec!["https://ok.example/".to_owned()],
            host_header_counts: false,
        };
        let kind = ClientKind::of(id, "ui");
        let peer = peer("127.0.0.1:1", origin);
        assert_eq!(decide_origin(&peer, id, kind, &rules), expected, "{id} {origin:?}");
    }

    #[test]
    fn a_loopback_page_of_another_machine_is_foreign() {
        let remote = Peer {
            address: Some([10, 0, 0, 1].into()),
            ..peer("gw:1", Some("http://localhost:3000"))
        };
        let rules = OriginRules::default();
        let verdict = decide_origin(&remote, "webchat-ui", ClientKind::Webchat, &rules);
        assert_eq!(verdict, OriginVerdict::NotAllowed);
    }

    #[test]
    fn the_secret_alone_gives_no_scope() {
        use SecretVerdict::{Absent, Right, Throttled, Wrong};
        for (kind, secret, expected) in [
            (ClientKind::Other, Right, WithoutDevice::LetIn),
            (ClientKind::Other, Absent, WithoutDevice::NeedsDevice),
            (ClientKind::Other, Wrong, WithoutDevice::Unauthorized),
            (ClientKind::Webchat, Throttled, WithoutDevice::Unauthorized),
            (ClientKind::ControlUi, Right, WithoutDevice::ControlUiNeedsDevice),
        ] {
            assert_eq!(decide_without_device(kind, secret), expected);
        }
    }

    #[test]
    fn a_known_device_asks_again_for_whatever_is_new() {
        let shown = |scopes: &[&str]| ShownDevice {
            role: Role::Operator,
            scopes: Scopes::of(scopes.iter().copied()),
            platform: Some("linux".to_owned()),
            family: None,
        };
        let known = KnownDevice {
            role: Role::Operator,
            scopes: Scopes::of(["operator.read"]),
            platform: Some("linux".to_owned()),
            family: None,
        };
        let local = peer("127.0.0.1:1", None);
        let decide = |known: Option<&KnownDevice>, shown: &ShownDevice| {
            decide_pairing(&local, ClientKind::Other, known, shown)
        };
        let read = shown(&["operator.read"]);
        assert_eq!(decide(Some(&known), &read), Pairing::Paired);
        assert_eq!(
            decide(Some(&known), &shown(&["operator.admin"])),
            Pairing::Ask(AskReason::ScopeUpgrade)
        );
        assert_eq!(
            decide(Some(&known), &ShownDevice { role: Role::Node, ..read.clone() }),
            Pairing::Ask(AskReason::RoleUpgrade)
        );
        assert_eq!(
            decide(Some(&known), &ShownDevice { platform: Some("mac".to_owned()), ..read.clone() }),
            Pairing::Ask(AskReason::MetadataUpgrade)
        );
        assert_eq!(decide(None, &read), Pairing::Silent);
        let page = peer("127.0.0.1:1", Some("http://localhost"));
        assert_eq!(
            decide_pairing(&page, ClientKind::Other, None, &read),
            Pairing::Ask(AskReason::NotPaired)
        );
        assert_eq!(decide_pairing(&page, ClientKind::Webchat, None, &read), Pairing::Silent);
        let remote = Peer { is_forwarded: true, ..local.clone() };
        assert_eq!(
            decide_pairing(&remote, ClientKind::Other, None, &read),
            Pairing::Ask(AskReason::NotPaired)
        );
    }
}
