//! Decides whom a proxy vouches for: `gateway.auth.mode: "trusted-proxy"`.
//!
//! The proxy logs people in and names them in a header. That header is believed only from a machine that
//! `gateway.trustedProxies` names, only if it is there once, and only with the other headers that the
//! config asks for. Takes the address at the other end of the socket, never one that a header names.

use std::net::IpAddr;

use super::proxy::TrustedProxies;

/// `gateway.auth.trustedProxy`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TrustedUsers {
    /// Names of headers are kept in lower case.
    pub user_header: String,
    pub required_headers: Vec<String>,
    /// Empty: whomever the proxy names.
    pub allow_users: Vec<String>,
    /// `allowLoopback: false`: a proxy on this machine is not believed, whatever the list says.
    pub loopback: LoopbackProxies,
}

/// Whether a proxy on this machine is believed. Any program here can be one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum LoopbackProxies {
    #[default]
    Believed,
    NotBelieved,
}

/// Whom the proxy names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum UserVerdict {
    Known(String),
    Denied(UserDenied),
}

/// Why nobody is named.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum UserDenied {
    /// The request does not come from a proxy that is believed.
    NotAProxy,
    MissingHeader(String),
    NoUser,
    /// The header is there more than once, or is no text: somebody else than the proxy wrote one.
    UnclearUser,
    NotAllowed,
}

impl UserDenied {
    /// The word that clients are told.
    pub fn reason(&self) -> String {
        match self {
            Self::NotAProxy => "trusted_proxy_untrusted_source".to_owned(),
            Self::MissingHeader(name) => format!("trusted_proxy_missing_header_{name}"),
            Self::NoUser | Self::UnclearUser => "trusted_proxy_user_missing".to_owned(),
            Self::NotAllowed => "trusted_proxy_user_not_allowed".to_owned(),
        }
    }

    /// What a person can do about it.
    pub fn words(&self) -> String {
        match self {
            Self::NotAProxy => "come through a proxy of gateway.trustedProxies".to_owned(),
            Self::MissingHeader(name) => format!("the proxy must send the header {name}"),
            Self::NoUser => "the proxy names no user".to_owned(),
            Self::UnclearUser => "the header with the user must be there once".to_owned(),
            Self::NotAllowed => {
                "this user is not in gateway.auth.trustedProxy.allowUsers".to_owned()
            }
        }
    }
}

/// A header of a request: absent, there once as text, or something else.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Seen<'a> {
    Absent,
    Once(&'a str),
    /// More than once, or no text.
    Unclear,
}

impl TrustedUsers {
    /// Decides whom a request comes from. `header` looks a header up by its name in lower case.
    #[must_use]
    pub fn decide<'a>(
        &self,
        peer: IpAddr,
        proxies: &TrustedProxies,
        header: impl Fn(&str) -> Seen<'a>,
    ) -> UserVerdict {
        let is_own_machine = peer.to_canonical().is_loopback();
        let is_barred = is_own_machine && self.loopback == LoopbackProxies::NotBelieved;
        if is_barred || !proxies.holds(peer) {
            return UserVerdict::Denied(UserDenied::NotAProxy);
        }
        let missing = self.required_headers.iter().find(|name| match header(name) {
            Seen::Absent => true,
            Seen::Once(text) => text.trim().is_empty(),
            Seen::Unclear => false,
        });
        if let Some(name) = missing {
            return UserVerdict::Denied(UserDenied::MissingHeader(name.clone()));
        }
        let user = match header(&self.user_header) {
            Seen::Unclear => return UserVerdict::Denied(UserDenied::UnclearUser),
            Seen::Absent => "",
            Seen::Once(text) => text.trim(),
        };
        if user.is_empty() {
            return UserVerdict::Denied(UserDenied::NoUser);
        }
        let is_allowed =
            self.allow_users.is_empty() || self.allow_users.iter().any(|name| name == user);
        if is_allowed {
            UserVerdict::Known(user.to_owned())
        } else {
            UserVerdict::Denied(UserDenied::NotAllowed)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use UserDenied::{MissingHeader, NoUser, NotAProxy, NotAllowed, UnclearUser};

    fn users(loopback: LoopbackProxies) -> TrustedUsers {
        TrustedUsers {
            user_header: "x-forwarded-user".to_owned(),
            required_headers: vec!["x-forwarded-proto".to_owned()],
            allow_users: vec!["ada@example.org".to_owned()],
            loopback,
        }
    }

    #[track_caller]
    fn check(peer: &str, headers: &[(&str, &str)], expected: Result<&str, UserDenied>) {
        let proxies = ["10.0.0.0/8".to_owned(), "127.0.0.1".to_owned()];
        let proxies = TrustedProxies::parse(&proxies).unwrap();
        let header = |name: &str| {
            let mut found = headers.iter().filter(|(known, _)| *known == name);
            match (found.next(), found.next()) {
                (None, _) => Seen::Absent,
                (Some((_, text)), None) => Seen::Once(text),
                (Some(_), Some(_)) => Seen::Unclear,
            }
        };
        let found =
            users(LoopbackProxies::Believed).decide(peer.parse().unwrap(), &proxies, header);
        let expected = match expected {
            Ok(name) => UserVerdict::Known(name.to_owned()),
            Err(denied) => UserVerdict::Denied(denied),
        };
        assert_eq!(found, expected, "{peer} {headers:?}");
    }

    #[test]
    fn a_user_is_whom_a_believed_proxy_names_once() {
        let proto = ("x-forwarded-proto", "https");
        let ada = ("x-forwarded-user", "ada@example.org");
        let eve = ("x-forwarded-user", "eve@example.org");
        check("10.0.0.1", &[proto, ada], Ok("ada@example.org"));
        check(
            "10.0.0.1",
            &[proto, ("x-forwarded-user", " ada@example.org ")],
            Ok("ada@example.org"),
        );
        check("192.0.2.1", &[proto, ada], Err(NotAProxy));
        check("192.0.2.1", &[proto, ada, ("x-forwarded-for", "10.0.0.1")], Err(NotAProxy));
        check("10.0.0.1", &[ada], Err(MissingHeader("x-forwarded-proto".to_owned())));
        check(
            "10.0.0.1",
            &[("x-forwarded-proto", " "), ada],
            Err(MissingHeader("x-forwarded-proto".to_owned())),
        );
        check("10.0.0.1", &[proto], Err(NoUser));
        check("10.0.0.1", &[proto, ("x-forwarded-user", "  ")], Err(NoUser));
        check("10.0.0.1", &[proto, eve], Err(NotAllowed));
        check("10.0.0.1", &[proto, ("x-forwarded-user", "ADA@example.org")], Err(NotAllowed));
        check("10.0.0.1", &[proto, eve, ada], Err(UnclearUser));
        check("10.0.0.1", &[proto, ada, eve], Err(UnclearUser));
        check("10.0.0.1", &[proto, ("x_forwarded_user", "ada@example.org")], Err(NoUser));
        let joined = ("x-forwarded-user", "eve@example.org, ada@example.org");
        check("10.0.0.1", &[proto, joined], Err(NotAllowed));
    }

    #[test]
    fn a_proxy_on_this_machine_can_be_barred() {
        let proxies = TrustedProxies::parse(&["127.0.0.1".to_owned()]).unwrap();
        let decide = |loopback| {
            users(loopback)
                .decide([127, 0, 0, 1].into(), &proxies, |_| Seen::Once("ada@example.org"))
        };
        let known = UserVerdict::Known("ada@example.org".to_owned());
        assert_eq!(decide(LoopbackProxies::Believed), known);
        assert_eq!(decide(LoopbackProxies::NotBelieved), UserVerdict::Denied(NotAProxy));
    }
}
