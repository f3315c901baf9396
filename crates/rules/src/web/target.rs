//! What an address text leads to: scheme, name and port, before anything is looked up.
//!
//! Read by the rules of browsers, so that the odd spellings of numbers (`0x7f.1`, `2130706433`) are the addresses that
//! they are. What a refusal says of an address is its host, never its path or what stands before an `@`.

use std::net::IpAddr;

use url::{Host, Url};

/// A longer address is none that people use.
pub const LONGEST: usize = 4096;

/// Where a request goes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {
    url: Url,
    host: TargetHost,
    port: u16,
}

/// Who is asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TargetHost {
    /// A name in lower case, in the letters of DNS.
    Name(String),
    Address(IpAddr),
}

/// How it is spoken to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scheme {
    Http,
    Https,
}

/// Why nobody is asked.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TargetRefused {
    #[error("that is no web address; write it in full, as in `https://example.com/page`")]
    NoUrl,
    #[error("the address has more than {LONGEST} bytes")]
    TooLong,
    #[error("`{scheme}` addresses are not fetched; only http and https are")]
    Scheme { scheme: String },
    #[error("the address has no host")]
    NoHost,
    #[error(
        "the address of `{host}` holds a user name or a password; nothing is sent with such an address, leave them out"
    )]
    Credentials { host: String },
    #[error("`{host}` is a name of inner networks; only the public internet is fetched from")]
    InnerName { host: String },
    #[error("port {port} of `{host}` is not fetched from: other services than the web live there")]
    Port { host: String, port: u16 },
}

/// Ends of names that never mean a machine of the public internet.
const INNER_ENDS: &[&str] = &["localhost", "local", "internal", "localdomain", "home.arpa"];
/// Names under which clouds keep their metadata.
const METADATA_NAMES: &[&str] = &["metadata", "instance-data", "metadata.goog"];
/// Ports of other protocols, which a request can be taken for. The list of the Fetch standard.
const FOREIGN_PORTS: &[u16] = &[
    0, 1, 7, 9, 11, 13, 15, 17, 19, 20, 21, 22, 23, 25, 37, 42, 43, 53, 69, 77, 79, 87, 95, 101,
    102, 103, 104, 109, 110, 111, 113, 115, 117, 119, 123, 135, 137, 139, 143, 161, 179, 389, 427,
    465, 512, 513, 514, 515, 526, 530, 531, 532, 540, 548, 554, 556, 563, 587, 601, 636, 989, 990,
    993, 995, 1719, 1720, 1723, 2049, 3659, 4045, 4190, 5060, 5061, 6000, 6566, 6665, 6666, 6667,
    6668, 6669, 6679, 6697, 10080,
];

/// Reads an address and says whether it may be asked.
pub fn decide(text: &str) -> Result<Target, TargetRefused> {
    let text = text.trim();
    if text.len() > LONGEST {
        return Err(TargetRefused::TooLong);
    }
    let url = Url::parse(text).map_err(|_none| TargetRefused::NoUrl)?;
    admit(url)
}

impl Target {
    /// Where an answer sends on to.
    pub fn decide_redirect(&self, location: &str) -> Result<Self, TargetRefused> {
        if location.len() > LONGEST {
            return Err(TargetRefused::TooLong);
        }
        admit(self.url.join(location).map_err(|_none| TargetRefused::NoUrl)?)
    }

    pub const fn host(&self) -> &TargetHost {
        &self.host
    }

    pub const fn port(&self) -> u16 {
        self.port
    }

    pub fn scheme(&self) -> Scheme {
        if self.url.scheme() == "https" { Scheme::Https } else { Scheme::Http }
    }

    /// Its host as text, for people and records.
    pub fn host_text(&self) -> &str {
        self.url.host_str().unwrap_or_default()
    }

    /// Host, and the port if it is not the usual one: the `Host` header.
    pub fn authority(&self) -> String {
        match self.url.port() {
            Some(port) => format!("{}:{port}", self.host_text()),
            None => self.host_text().to_owned(),
        }
    }

    /// Path and query: what is asked for.
    pub fn request_path(&self) -> String {
        match self.url.query() {
            Some(query) => format!("{}?{query}", self.url.path()),
            None => self.url.path().to_owned(),
        }
    }

    /// The whole address, without a fragment.
    pub fn as_str(&self) -> &str {
        self.url.as_str()
    }

    /// Where a link of the page leads, if it leads to the web.
    pub fn link(&self, href: &str) -> Option<String> {
        let url = self.url.join(href.trim()).ok()?;
        let is_web = matches!(url.scheme(), "http" | "https");
        let is_plain = url.username().is_empty() && url.password().is_none();
        (is_web && is_plain).then(|| url.to_string())
    }
}

fn admit(mut url: Url) -> Result<Target, TargetRefused> {
    if !matches!(url.scheme(), "http" | "https") {
        let scheme = url.scheme().chars().take(20).collect();
        return Err(TargetRefused::Scheme { scheme });
    }
    let shown = || url.host_str().unwrap_or_default().to_owned();
    if !url.username().is_empty() || url.password().is_some() {
        return Err(TargetRefused::Credentials { host: shown() });
    }
    let host = match url.host() {
        None => return Err(TargetRefused::NoHost),
        Some(Host::Ipv4(address)) => TargetHost::Address(IpAddr::V4(address)),
        Some(Host::Ipv6(address)) => TargetHost::Address(IpAddr::V6(address)),
        Some(Host::Domain(name)) => {
            // `name.` is the same name.
            let name = name.trim_end_matches('.').to_ascii_lowercase();
            if name.is_empty() {
                return Err(TargetRefused::NoHost);
            }
            if is_inner(&name) {
                return Err(TargetRefused::InnerName { host: name });
            }
            TargetHost::Name(name)
        }
    };
    let port = url.port_or_known_default().unwrap_or_default();
    if FOREIGN_PORTS.contains(&port) {
        return Err(TargetRefused::Port { host: shown(), port });
    }
    url.set_fragment(None);
    Ok(Target { url, host, port })
}

fn is_inner(name: &str) -> bool {
    let ends = |end: &&str| {
        name.strip_suffix(*end).is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
    };
    name.starts_with("localhost") || METADATA_NAMES.contains(&name) || INNER_ENDS.iter().any(ends)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[track_caller]
    fn refused(text: &str, expected: TargetRefused) {
        assert_eq!(decide(text), Err(expected), "{text}");
    }

    #[test]
    fn an_address_is_read_as_browsers_do() {
        for (text, host, port, path) in [
            ("http://Example.COM/a?b#c", "example.com", 80, "/a?b"),
            ("  https://example.com  ", "example.com", 443, "/"),
            ("https://example.com.:8443/x", "example.com", 8443, "/x"),
            ("https:example.com", "example.com", 443, "/"),
            ("http://b\u{fc}cher.example/", "xn--bcher-kva.example", 80, "/"),
            ("http://\u{ff45}xample.com/", "example.com", 80, "/"),
        ] {
            let target = decide(text).unwrap();
            let expected = TargetHost::Name(host.to_owned());
            assert_eq!((target.host(), target.port()), (&expected, port), "{text}");
            assert_eq!(target.request_path(), path);
        }
    }

    #[test]
    fn every_spelling_of_an_address_is_that_address() {
        for text in [
            "http://127.0.0.1/",
            "http://127.1/",
            "http://0x7f.0.0.1/",
            "http://0177.0.0.01/",
            "http://2130706433/",
            "http://0x7f000001/",
            "http://127.0.0.1./",
            "http://%31%32%37.0.0.1/",
            "http://\u{ff11}27.0.0.1/",
            "http://127\u{3002}0.0.1/",
            "http:\\\\127.0.0.1\\",
        ] {
            let expected = TargetHost::Address("127.0.0.1".parse().unwrap());
            assert_eq!(decide(text).unwrap().host(), &expected, "{text}");
        }
        let six = decide("http://[::ffff:7f00:1]/").unwrap();
        assert_eq!(six.host(), &TargetHost::Address("::ffff:7f00:1".parse().unwrap()));
        assert_eq!(six.authority(), "[::ffff:7f00:1]");
    }

    #[test]
    fn what_is_no_public_web_address_says_why() {
        refused("example.com", TargetRefused::NoUrl);
        refused("http://", TargetRefused::NoUrl);
        refused("http://1.2.3.4.5/", TargetRefused::NoUrl);
        refused("http://a b/", TargetRefused::NoUrl);
        refused(&format!("http://a.example/{}", "x".repeat(LONGEST)), TargetRefused::TooLong);
        for scheme in ["file", "ftp", "gopher", "data", "javascript", "unix"] {
            refused(
                &format!("{scheme}:///etc/passwd"),
                TargetRefused::Scheme { scheme: scheme.to_owned() },
            );
        }
        let host = || "example.com".to_owned();
        refused("http://user@example.com/", TargetRefused::Credentials { host: host() });
        refused("http://:secret@example.com/", TargetRefused::Credentials { host: host() });
        refused("http://example.com:22/", TargetRefused::Port { host: host(), port: 22 });
        refused("http://example.com:0/", TargetRefused::Port { host: host(), port: 0 });
        for name in [
            "localhost",
            "localhost.localdomain",
            "localhost6",
            "a.localhost",
            "printer.local",
            "metadata.google.internal",
            "metadata",
            "metadata.goog",
            "instance-data",
            "host.docker.internal",
            "router.home.arpa",
        ] {
            refused(&format!("http://{name}/"), TargetRefused::InnerName { host: name.to_owned() });
            refused(
                &format!("http://{}./", name.to_uppercase()),
                TargetRefused::InnerName { host: name.to_owned() },
            );
        }
        assert!(decide("http://notlocal.example/").is_ok());
        assert!(decide("http://thelocal/").is_ok());
    }

    #[test]
    fn a_redirect_is_decided_like_an_address() {
        let from = decide("https://example.com/a/b?c").unwrap();
        assert_eq!(from.decide_redirect("../d").unwrap().as_str(), "https://example.com/d");
        assert_eq!(
            from.decide_redirect("//other.example/").unwrap().as_str(),
            "https://other.example/"
        );
        for location in [
            "file:///etc/passwd",
            "http://localhost/",
            "http://u:p@example.com/",
            "http://example.com:25/",
        ] {
            assert!(from.decide_redirect(location).is_err(), "{location}");
        }
        let inner = from.decide_redirect("http://127.0.0.1:8080/").unwrap();
        assert_eq!(inner.host(), &TargetHost::Address("127.0.0.1".parse().unwrap()));
    }

    #[test]
    fn links_lead_to_the_web_or_nowhere() {
        let page = decide("https://example.com/a/").unwrap();
        for (href, expected) in [
            ("b", Some("https://example.com/a/b")),
            ("#x", Some("https://example.com/a/#x")),
            ("javascript:alert(1)", None),
            ("data:text/html,x", None),
            ("http://u:p@example.com/", None),
        ] {
            assert_eq!(page.link(href).as_deref(), expected, "{href}");
        }
    }

    proptest! {
        #[test]
        fn no_refusal_repeats_a_path_or_a_password(user in "[a-z]{1,8}", word in "[A-Z]{12}") {
            for text in [
                format!("http://{user}:{word}@example.com/"),
                format!("ftp://example.com/{word}"),
                format!("http://localhost/{word}"),
                format!("http://example.com:22/{word}"),
            ] {
                let refused = decide(&text).unwrap_err().to_string();
                prop_assert!(!refused.contains(&word), "{}", refused);
            }
        }

        #[test]
        fn any_text_is_read_or_refused(text in ".{0,64}") {
            if let Ok(target) = decide(&text) {
                prop_assert!(target.as_str().starts_with("http"));
                prop_assert!(!target.as_str().contains('#'));
            }
        }
    }
}
