//! Decides what becomes of somebody who wants to log in.
//!
//! The order is the reference's: page of origin ([`super::origin`]), then the secret, then what a missing
//! device means, then pairing. Whether a secret or a signature is right is looked up by the caller and
//! comes in as a fact; nothing here compares secrets.

use std::net::IpAddr;

use super::trusted_user::UserVerdict;
use super::{Role, Scopes};

/// Facts about the connection itself, before anybody said anything.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Peer {
    /// Whom the connection comes from: the other end of the socket, or whom a believed proxy names.
    pub address: Option<IpAddr>,
    /// The `Host` header.
    pub host: Option<String>,
    pub origin: Option<String>,
    /// A header that only a proxy sets is there. Whoever comes through a proxy is never of this machine:
    /// an address in a header decides nothing that is granted to neighbours.
    pub is_forwarded: bool,
    /// Whom the proxy vouches for, where `gateway.auth.mode` is `trusted-proxy`.
    pub user: Option<UserVerdict>,
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

pub(super) fn is_loopback_name(name: &str) -> bool {
    name.eq_ignore_ascii_case("localhost")
        || name.parse::<IpAddr>().is_ok_and(|address| address.to_canonical().is_loopback())
}

/// How the shared secret went.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SecretVerdict {
    /// It is the right one, a proxy vouches for the user, or the mode asks for nothing.
    Right,
    /// None was given.
    Absent,
    Wrong,
    /// Too many wrong ones came from there: it was not even looked at.
    Throttled,
    /// No proxy vouches for anybody who may come in.
    Denied,
}

/// When a control page needs a device of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum DeviceRule {
    #[default]
    Always,
    /// `gateway.controlUi.allowInsecureAuth`: not on this machine, where a browser makes no keys for a
    /// page that came without TLS.
    NotLocally,
    /// `gateway.controlUi.dangerouslyDisableDeviceAuth`: the secret alone is worth every scope.
    Never,
}

/// What is known of a login without a device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Deviceless<'a> {
    pub peer: &'a Peer,
    pub kind: ClientKind,
    pub role: Role,
    pub secret: SecretVerdict,
    pub rule: DeviceRule,
}

/// What a login without a device gets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WithoutDevice {
    /// Let in, with no scope at all.
    LetIn,
    /// Let in with the scopes that were asked for: the config says so.
    LetInWithScopes,
    /// A control page must show a device.
    ControlUiNeedsDevice,
    NeedsDevice,
    /// The secret is wrong, which is said first.
    Unauthorized,
}

/// Says whether the config lets this control page in without a device.
fn is_excused(login: &Deviceless<'_>) -> bool {
    match (login.kind, login.role, login.rule) {
        (ClientKind::ControlUi, Role::Operator, DeviceRule::Never) => true,
        (ClientKind::ControlUi, Role::Operator, DeviceRule::NotLocally) => login.peer.is_local(),
        (ClientKind::ControlUi, Role::Operator, DeviceRule::Always)
        | (ClientKind::ControlUi, Role::Node, _)
        | (ClientKind::Webchat | ClientKind::Other, _, _) => false,
    }
}

/// Decides what a login without a device gets. A shared secret alone never gives a scope, unless the
/// config says so: whoever reads it off a screen could do everything with it.
#[must_use]
pub fn decide_without_device(login: &Deviceless<'_>) -> WithoutDevice {
    if login.secret == SecretVerdict::Denied {
        return WithoutDevice::Unauthorized;
    }
    let is_named = matches!(login.peer.user, Some(UserVerdict::Known(_)));
    let is_excused = is_excused(login);
    if login.kind == ClientKind::ControlUi && !is_excused && !is_named {
        // Said first, whatever the secret was: the page can do nothing without a device.
        return WithoutDevice::ControlUiNeedsDevice;
    }
    match (login.secret, login.role) {
        (SecretVerdict::Wrong | SecretVerdict::Throttled | SecretVerdict::Denied, _) => {
            WithoutDevice::Unauthorized
        }
        (SecretVerdict::Right, Role::Operator) if is_excused => WithoutDevice::LetInWithScopes,
        (SecretVerdict::Right, Role::Operator) => WithoutDevice::LetIn,
        (SecretVerdict::Absent, _) if is_excused && login.rule == DeviceRule::Never => {
            WithoutDevice::Unauthorized
        }
        (SecretVerdict::Right, Role::Node) | (SecretVerdict::Absent, _) => {
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

impl KnownDevice {
    /// Says whether a device that shows itself is of another kind. What a device never said about itself is not held
    /// against it.
    fn is_another_than(&self, shown: &ShownDevice) -> bool {
        let differs =
            |pinned: &Option<String>, shown: &Option<String>| pinned.is_some() && pinned != shown;
        differs(&self.platform, &shown.platform) || differs(&self.family, &shown.family)
    }
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
    /// Not written down: the proxy names the user of this control page, or nothing is asked of pages of
    /// this machine.
    NotKept,
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

/// What a gateway asks of whoever comes in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Asked {
    Nothing,
    Something,
}

/// Decides whether a device, whose signature is right, is let in.
#[must_use]
pub fn decide_pairing(
    peer: &Peer,
    (kind, asked): (ClientKind, Asked),
    known: Option<&KnownDevice>,
    shown: &ShownDevice,
) -> Pairing {
    let is_control = kind == ClientKind::ControlUi && shown.role == Role::Operator;
    let is_named = matches!(peer.user, Some(UserVerdict::Known(_)));
    // The reference lets any control page in where nothing is asked; here it must be of this machine.
    let is_open = asked == Asked::Nothing && peer.is_local();
    if is_control && (is_named || is_open) {
        return Pairing::NotKept;
    }
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
    } else if known.is_another_than(shown) {
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
            ..Peer::default()
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

    #[track_caller]
    fn check_deviceless(kind: ClientKind, secret: SecretVerdict, expected: WithoutDevice) {
        let peer = peer("localhost", None);
        let rule = DeviceRule::Always;
        let login = Deviceless { peer: &peer, kind, role: Role::Operator, secret, rule };
        assert_eq!(decide_without_device(&login), expected, "{login:?}");
    }

    #[test]
    fn the_secret_alone_gives_no_scope() {
        use SecretVerdict::{Absent, Denied, Right, Throttled, Wrong};
        check_deviceless(ClientKind::Other, Right, WithoutDevice::LetIn);
        check_deviceless(ClientKind::Other, Absent, WithoutDevice::NeedsDevice);
        check_deviceless(ClientKind::Other, Wrong, WithoutDevice::Unauthorized);
        check_deviceless(ClientKind::Other, Denied, WithoutDevice::Unauthorized);
        check_deviceless(ClientKind::Webchat, Throttled, WithoutDevice::Unauthorized);
        check_deviceless(ClientKind::ControlUi, Right, WithoutDevice::ControlUiNeedsDevice);
        check_deviceless(ClientKind::ControlUi, Wrong, WithoutDevice::ControlUiNeedsDevice);
        check_deviceless(ClientKind::ControlUi, Denied, WithoutDevice::Unauthorized);
    }

    #[test]
    fn a_control_page_is_excused_from_its_device_by_the_config_only() {
        use SecretVerdict::{Absent, Right, Wrong};
        use WithoutDevice::{ControlUiNeedsDevice, LetInWithScopes, NeedsDevice, Unauthorized};
        let local = peer("localhost", Some("http://localhost:1"));
        let remote = Peer { is_forwarded: true, ..local.clone() };
        for (peer, rule, role, secret, expected) in [
            (&local, DeviceRule::Always, Role::Operator, Right, ControlUiNeedsDevice),
            (&local, DeviceRule::NotLocally, Role::Operator, Right, LetInWithScopes),
            (&local, DeviceRule::NotLocally, Role::Operator, Wrong, Unauthorized),
            (&local, DeviceRule::NotLocally, Role::Operator, Absent, NeedsDevice),
            (&remote, DeviceRule::NotLocally, Role::Operator, Right, ControlUiNeedsDevice),
            (&remote, DeviceRule::Never, Role::Operator, Right, LetInWithScopes),
            (&remote, DeviceRule::Never, Role::Operator, Wrong, Unauthorized),
            (&remote, DeviceRule::Never, Role::Operator, Absent, Unauthorized),
            (&local, DeviceRule::Never, Role::Node, Right, ControlUiNeedsDevice),
        ] {
            let kind = ClientKind::ControlUi;
            let login = Deviceless { peer, kind, role, secret, rule };
            assert_eq!(decide_without_device(&login), expected, "{login:?}");
            // No other program profits from it.
            let other = Deviceless { kind: ClientKind::Other, ..login };
            assert_ne!(decide_without_device(&other), LetInWithScopes);
        }
        let node = Deviceless {
            peer: &local,
            kind: ClientKind::Other,
            role: Role::Node,
            secret: Right,
            rule: DeviceRule::Always,
        };
        assert_eq!(decide_without_device(&node), NeedsDevice);
    }

    #[test]
    fn whom_a_proxy_names_comes_in_without_a_device_and_without_scopes() {
        let user = Some(UserVerdict::Known("ada".to_owned()));
        let peer = Peer { user, is_forwarded: true, ..peer("gw.example", None) };
        for kind in [ClientKind::ControlUi, ClientKind::Webchat, ClientKind::Other] {
            let (secret, rule) = (SecretVerdict::Right, DeviceRule::Always);
            let login = Deviceless { peer: &peer, kind, role: Role::Operator, secret, rule };
            assert_eq!(decide_without_device(&login), WithoutDevice::LetIn, "{kind:?}");
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
            decide_pairing(&local, (ClientKind::Other, Asked::Something), known, shown)
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
            decide(Some(&known), &ShownDevice { family: Some("Mac".to_owned()), ..read.clone() }),
            Pairing::Paired
        );
        assert_eq!(
            decide(Some(&known), &ShownDevice { platform: Some("mac".to_owned()), ..read.clone() }),
            Pairing::Ask(AskReason::MetadataUpgrade)
        );
        assert_eq!(decide(None, &read), Pairing::Silent);
        let page = peer("127.0.0.1:1", Some("http://localhost"));
        let new = |peer: &Peer, kind, asked| decide_pairing(peer, (kind, asked), None, &read);
        let ask = Pairing::Ask(AskReason::NotPaired);
        assert_eq!(new(&page, ClientKind::Other, Asked::Something), ask);
        assert_eq!(new(&page, ClientKind::Webchat, Asked::Something), Pairing::Silent);
        let remote = Peer { is_forwarded: true, ..local.clone() };
        assert_eq!(new(&remote, ClientKind::Other, Asked::Something), ask);
        assert_eq!(new(&remote, ClientKind::ControlUi, Asked::Nothing), ask);
        assert_eq!(new(&page, ClientKind::ControlUi, Asked::Nothing), Pairing::NotKept);
        let named = Peer { user: Some(UserVerdict::Known("ada".to_owned())), ..remote.clone() };
        assert_eq!(new(&named, ClientKind::ControlUi, Asked::Something), Pairing::NotKept);
        assert_eq!(new(&named, ClientKind::Other, Asked::Something), ask);
    }
}
