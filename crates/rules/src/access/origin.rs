//! Decides whether the page behind a connection may talk to us.
//!
//! A browser says in `Origin` which page a request comes from; nothing else about a page can be believed.
//! An origin is compared whole: scheme, name and port. A name with a dot at its end, with a user in
//! front or in other letters than a browser sends is another one, or none at all.

use std::net::{Ipv4Addr, Ipv6Addr};

use super::connect::{ClientKind, Peer, is_loopback_name};

/// What the config says about pages.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct OriginRules {
    /// `gateway.controlUi.allowedOrigins`; `*` is every page.
    pub allowed: Vec<String>,
    /// `gateway.controlUi.dangerouslyAllowHostHeaderOriginFallback`: a page may talk to the host that it
    /// came from, whatever that is called. A name that was made to point here passes, too.
    pub host_header_counts: bool,
}

/// Whether a page may talk to us.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OriginVerdict {
    /// No page is involved, or an allowed one.
    Fine,
    /// A page must say which one it is, and this one says nothing that can be read.
    Missing,
    NotAllowed,
}

/// Decides whether the page behind a login may talk to us.
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
    if is_page && peer.origin.is_none() {
        return OriginVerdict::Missing;
    }
    decide_page(peer, rules)
}

/// Decides the same for a request over HTTP: programs send no origin.
#[must_use]
pub fn decide_page(peer: &Peer, rules: &OriginRules) -> OriginVerdict {
    let Some(text) = peer.origin.as_deref() else { return OriginVerdict::Fine };
    let Some(origin) = Origin::parse(text) else { return OriginVerdict::Missing };
    let is_listed = rules.allowed.iter().any(|allowed| {
        let allowed = allowed.trim();
        allowed == "*" || Origin::parse(allowed.trim_end_matches('/')).as_ref() == Some(&origin)
    });
    let own = peer.host.as_deref().and_then(|host| Authority::parse(&host.to_ascii_lowercase()));
    let is_own_host = rules.host_header_counts && own.is_some_and(|own| origin.is_at(&own));
    let is_local_page = peer.is_local() && is_loopback_name(&origin.authority.name);
    if is_listed || is_own_host || is_local_page {
        OriginVerdict::Fine
    } else {
        OriginVerdict::NotAllowed
    }
}

/// Whether an `Origin` names a page of this machine.
pub(crate) fn is_loopback_page(origin: &str) -> bool {
    Origin::parse(origin).is_some_and(|origin| is_loopback_name(&origin.authority.name))
}

/// Whether a `Host` header names this machine, and nothing besides.
pub(crate) fn is_loopback_host(host: &str) -> bool {
    let host = Authority::parse(&host.trim().to_ascii_lowercase());
    host.is_some_and(|host| is_loopback_name(&host.name))
}

/// A page's origin as browsers send it.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Origin {
    scheme: Scheme,
    authority: Authority,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Scheme {
    Http,
    Https,
}

impl Scheme {
    const fn port(self) -> u16 {
        match self {
            Self::Http => 80,
            Self::Https => 443,
        }
    }
}

impl Origin {
    /// `null`, a path, a user or anything else that no browser sends is none. A port that the scheme
    /// means anyway is as good as not written.
    fn parse(text: &str) -> Option<Self> {
        let text = text.trim().to_ascii_lowercase();
        let (scheme, authority) = text.split_once("://")?;
        let scheme = match scheme {
            "http" => Scheme::Http,
            "https" => Scheme::Https,
            _ => return None,
        };
        let mut authority = Authority::parse(authority)?;
        authority.port = authority.port.filter(|port| *port != scheme.port());
        Some(Self { scheme, authority })
    }

    /// Says whether a `Host` header names this page's host. The header has no scheme of its own.
    fn is_at(&self, host: &Authority) -> bool {
        let port = |authority: &Authority| authority.port.unwrap_or(self.scheme.port());
        self.authority.name == host.name && port(&self.authority) == port(host)
    }
}

/// A name and a port.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Authority {
    name: String,
    port: Option<u16>,
}

impl Authority {
    fn parse(text: &str) -> Option<Self> {
        let (name, port) = match text.strip_prefix('[') {
            Some(rest) => {
                let (name, rest) = rest.split_once(']')?;
                name.parse::<Ipv6Addr>().ok()?;
                let port = if rest.is_empty() { None } else { Some(rest.strip_prefix(':')?) };
                (name, port)
            }
            None => match text.split_once(':') {
                Some((name, port)) => (name, Some(port)),
                None => (text, None),
            },
        };
        let port = match port {
            Some(digits) if digits.bytes().all(|byte| byte.is_ascii_digit()) => {
                Some(digits.parse::<u16>().ok()?)
            }
            Some(_) => return None,
            None => None,
        };
        let is_address = name.parse::<Ipv6Addr>().is_ok() || name.parse::<Ipv4Addr>().is_ok();
        let is_plain =
            |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-' | b'_');
        let is_name = !name.is_empty() && name.bytes().all(is_plain);
        (is_address || is_name).then(|| Self { name: name.to_owned(), port })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use OriginVerdict::{Fine, Missing, NotAllowed};

    fn peer(host: &str, origin: Option<&str>) -> Peer {
        Peer {
            address: Some([127, 0, 0, 1].into()),
            host: Some(host.to_owned()),
            origin: origin.map(str::to_owned),
            ..Peer::default()
        }
    }

    #[track_caller]
    fn check(id: &str, origin: Option<&str>, expected: OriginVerdict) {
        let allowed = vec!["https://ok.example/".to_owned(), "http://studio:3000".to_owned()];
        let rules = OriginRules { allowed, host_header_counts: false };
        let peer = peer("127.0.0.1:1", origin);
        let found = decide_origin(&peer, id, ClientKind::of(id, "ui"), &rules);
        assert_eq!(found, expected, "{id} {origin:?}");
    }

    #[test]
    fn a_foreign_page_gets_nowhere() {
        check("cli", None, Fine);
        check("cli", Some("http://evil.example"), NotAllowed);
        check("cli", Some("null"), Missing);
        check("openclaw-tui", None, Fine);
        for page in ["openclaw-control-ui", "webchat-ui"] {
            check(page, None, Missing);
            check(page, Some(""), Missing);
            check(page, Some("null"), Missing);
            check(page, Some("http://localhost:3000"), Fine);
            check(page, Some("http://[::1]:3000"), Fine);
            check(page, Some("https://ok.example"), Fine);
            check(page, Some("https://OK.example"), Fine);
            check(page, Some("https://ok.example:443"), Fine);
        }
    }

    #[test]
    fn a_page_that_looks_like_an_allowed_one_is_another() {
        for (origin, expected) in [
            ("http://ok.example", NotAllowed),
            ("https://ok.example:8443", NotAllowed),
            ("https://ok.example.", NotAllowed),
            ("https://ok.example.evil.example", NotAllowed),
            ("https://sub.ok.example", NotAllowed),
            ("https://ok-example", NotAllowed),
            ("http://studio", NotAllowed),
            ("http://studio:3001", NotAllowed),
            ("http://localhost.", NotAllowed),
            ("http://localhost.evil.example", NotAllowed),
            ("http://127.0.0.1.evil.example", NotAllowed),
            ("http://127.1", NotAllowed),
            ("http://0.0.0.0", NotAllowed),
            ("https://ok.example/path", Missing),
            ("https://ok.example, http://evil.example", Missing),
            ("http://localhost:3000@evil.example", Missing),
            ("http://localhost:99999", Missing),
            ("http://localhost:+80", Missing),
            ("http://[::1", Missing),
            ("http://[localhost]", Missing),
            ("file://", Missing),
            ("chrome-extension://abc", Missing),
            ("https://ok.exa\u{430}mple", Missing),
        ] {
            check("webchat-ui", Some(origin), expected);
        }
    }

    #[test]
    fn a_loopback_page_of_another_machine_is_foreign() {
        let remote = Peer {
            address: Some([10, 0, 0, 1].into()),
            ..peer("gw:1", Some("http://localhost:3000"))
        };
        assert_eq!(decide_page(&remote, &OriginRules::default()), NotAllowed);
    }

    #[test]
    fn a_name_that_was_made_to_point_here_counts_only_if_the_config_dares() {
        let dares = OriginRules { allowed: Vec::new(), host_header_counts: true };
        for (host, origin, plain, daring) in [
            ("evil.example:18789", "http://evil.example:18789", NotAllowed, Fine),
            ("EVIL.example:18789", "http://evil.example:18789", NotAllowed, Fine),
            ("evil.example", "https://evil.example", NotAllowed, Fine),
            ("evil.example:18789", "http://evil.example", NotAllowed, NotAllowed),
            ("gw:18789", "http://evil.example:18789", NotAllowed, NotAllowed),
            ("evil.example.:18789", "http://evil.example:18789", NotAllowed, NotAllowed),
        ] {
            let peer = peer(host, Some(origin));
            assert_eq!(decide_page(&peer, &OriginRules::default()), plain, "{host} {origin}");
            assert_eq!(decide_page(&peer, &dares), daring, "{host} {origin}");
        }
    }

    #[test]
    fn a_star_is_every_page_that_says_which_one_it_is() {
        let all = OriginRules { allowed: vec![" * ".to_owned()], host_header_counts: false };
        assert_eq!(decide_page(&peer("gw", Some("https://any.example")), &all), Fine);
        assert_eq!(decide_page(&peer("gw", Some("null")), &all), Missing);
    }
}
