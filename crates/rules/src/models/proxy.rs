//! Decides by which way a model's server is reached: directly, or through a proxy that the operator's environment names.
//!
//! Takes the variables and where the request goes; gives the way with its reason, or why there is none. A proxy that we
//! cannot use stops the request: to go past it would be what its owner wanted to prevent. Variables of a project's `.env`
//! never come here (`config::variables` keeps them out): a proxy hears where every request goes.

use std::fmt;
use std::net::IpAddr;

use crate::config::locate::Variables;

/// Where a request goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Target<'a> {
    pub scheme: Scheme,
    /// A name, or an address without brackets.
    pub host: &'a str,
    pub port: u16,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scheme {
    Http,
    Https,
}

/// The way to a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Route {
    Direct(Reason),
    Proxy(Proxy),
}

/// Why there is no proxy between.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reason {
    /// No variable names one.
    NoneNamed,
    /// It is this machine.
    Loopback,
    /// `NO_PROXY` has this entry.
    Excepted(String),
}

/// A proxy. Its password is never printed.
#[derive(Clone, PartialEq, Eq)]
pub struct Proxy {
    pub host: String,
    pub port: u16,
    /// User and password, with a colon between.
    pub login: Option<String>,
    /// The variable that names it.
    pub variable: &'static str,
}

impl fmt::Debug for Proxy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let login = self.login.as_ref().map(|_| "***");
        f.debug_struct("Proxy")
            .field("host", &self.host)
            .field("port", &self.port)
            .field("login", &login)
            .field("variable", &self.variable)
            .finish()
    }
}

impl fmt::Display for Proxy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{} ({})", self.host, self.port, self.variable)
    }
}

/// A proxy that cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadProxy {
    #[error(
        "`{variable}` names a proxy of the kind `{kind}`, and this build knows `http` only; name one like http://proxy:3128, \
         or except the server in NO_PROXY"
    )]
    Kind { variable: &'static str, kind: String },
    #[error("`{variable}` is no address of a proxy; write it like http://proxy:3128")]
    Address { variable: &'static str },
}

/// Decides. A name in lower case wins over the same in upper case, as with other programs.
pub fn decide(variables: &impl Variables, target: Target<'_>) -> Result<Route, BadProxy> {
    let names: [&'static str; 4] = match target.scheme {
        Scheme::Https => ["https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY"],
        Scheme::Http => ["http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"],
    };
    let filled = |name: &'static str| {
        let value = variables.get(name)?.trim();
        (!value.is_empty()).then_some((name, value))
    };
    let Some((variable, address)) = names.into_iter().find_map(filled) else {
        return Ok(Route::Direct(Reason::NoneNamed));
    };
    if is_loopback(target.host) {
        return Ok(Route::Direct(Reason::Loopback));
    }
    let excepted = ["no_proxy", "NO_PROXY"].into_iter().find_map(filled);
    let mut excepted = excepted.map(|(_, list)| list).unwrap_or_default().split([',', ' ']);
    if let Some(entry) = excepted.find(|entry| excepts(entry.trim(), target)) {
        return Ok(Route::Direct(Reason::Excepted(entry.trim().to_owned())));
    }
    parse(variable, address).map(Route::Proxy)
}

fn is_loopback(host: &str) -> bool {
    let name = host.trim_end_matches('.').to_ascii_lowercase();
    name == "localhost"
        || name.ends_with(".localhost")
        || name.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

/// Whether an entry of `NO_PROXY` means a server: `*`, a name (and whatever is below it), an address, a range of them, each
/// perhaps with a port.
fn excepts(entry: &str, target: Target<'_>) -> bool {
    if entry.is_empty() {
        return false;
    }
    if entry == "*" {
        return true;
    }
    let host = target.host.trim_end_matches('.').to_ascii_lowercase();
    if let (Some((range, bits)), Ok(address)) = (entry.split_once('/'), host.parse()) {
        return in_range(range, bits, address);
    }
    let (name, port) = match entry.rsplit_once(':') {
        // More colons are an address of the sixth version.
        Some((name, port)) if !name.contains(':') || name.ends_with(']') => (name, Some(port)),
        Some(_) | None => (entry, None),
    };
    if port.is_some_and(|port| port.parse() != Ok(target.port)) {
        return false;
    }
    let name = name.trim_matches(['[', ']']).trim_start_matches("*.").trim_start_matches('.');
    let name = name.trim_end_matches('.').to_ascii_lowercase();
    if let (Ok(one), Ok(other)) = (name.parse::<IpAddr>(), host.parse::<IpAddr>()) {
        return one == other;
    }
    let below = host.strip_suffix(&name).is_some_and(|rest| rest.ends_with('.'));
    !name.is_empty() && (host == name || below)
}

fn in_range(range: &str, bits: &str, address: IpAddr) -> bool {
    let (Ok(range), Ok(bits)) = (range.parse::<IpAddr>(), bits.parse::<u32>()) else {
        return false;
    };
    // Of both, the bits that are not compared are pushed out.
    let same = |one: u128, other: u128, width: u32| {
        bits <= width && one.checked_shr(width - bits) == other.checked_shr(width - bits)
    };
    match (range, address) {
        (IpAddr::V4(one), IpAddr::V4(other)) => {
            same(one.to_bits().into(), other.to_bits().into(), 32)
        }
        (IpAddr::V6(one), IpAddr::V6(other)) => same(one.to_bits(), other.to_bits(), 128),
        (IpAddr::V4(_), IpAddr::V6(_)) | (IpAddr::V6(_), IpAddr::V4(_)) => false,
    }
}

fn parse(variable: &'static str, address: &str) -> Result<Proxy, BadProxy> {
    let bad = || BadProxy::Address { variable };
    let rest = match address.split_once("://") {
        None => address,
        Some((kind, rest)) if kind.eq_ignore_ascii_case("http") => rest,
        Some((kind, _)) => {
            return Err(BadProxy::Kind { variable, kind: kind.to_ascii_lowercase() });
        }
    };
    let rest = rest.split(['/', '?', '#']).next().unwrap_or_default();
    let (login, place) = match rest.rsplit_once('@') {
        Some((login, place)) => (Some(decoded(login).ok_or_else(bad)?), place),
        None => (None, rest),
    };
    let (host, port) = match place.rsplit_once(':') {
        Some((host, port)) if !host.contains(':') || host.ends_with(']') => {
            (host, port.parse().map_err(|_error| bad())?)
        }
        // As curl does; most proxies say theirs.
        Some(_) | None => (place, 1080),
    };
    let host = host.trim_matches(['[', ']']).to_owned();
    let is_sound = |c: char| c.is_ascii_alphanumeric() || "-_.:".contains(c);
    if host.is_empty() || !host.chars().all(is_sound) {
        return Err(bad());
    }
    Ok(Proxy { host, port, login, variable })
}

/// A login whose special characters are written as `%40`.
fn decoded(text: &str) -> Option<String> {
    let mut bytes = Vec::new();
    let mut rest = text.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        rest = after;
        if *first != b'%' {
            bytes.push(*first);
            continue;
        }
        let (digits, after) = rest.split_at_checked(2)?;
        bytes.push(u8::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()?);
        rest = after;
    }
    let text = String::from_utf8(bytes).ok()?;
    (!text.chars().any(char::is_control)).then_some(text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::variables::{Environment, Source};

    fn environment(variables: &[(&str, &str)]) -> Environment {
        let variables = variables.iter().map(|(name, value)| ((*name).into(), (*value).into()));
        Environment::of_process(variables)
    }

    const SERVER: Target<'static> =
        Target { scheme: Scheme::Https, host: "api.example.com", port: 443 };

    #[track_caller]
    fn is_excepted(list: &str, host: &str) -> bool {
        let variables = environment(&[("HTTPS_PROXY", "http://p:3128"), ("NO_PROXY", list)]);
        let route = decide(&variables, Target { host, ..SERVER }).unwrap();
        matches!(route, Route::Direct(Reason::Excepted(_)))
    }

    #[test]
    fn a_server_is_excepted_by_name_address_range_and_port() {
        for list in [
            "*",
            "example.com",
            ".example.com",
            "*.example.com",
            "x, API.Example.Com.",
            "api.example.com:443",
        ] {
            assert!(is_excepted(list, "api.example.com"), "{list}");
        }
        for list in ["", "ample.com", "api.example.com:8443", "example.co", ",,", "."] {
            assert!(!is_excepted(list, "api.example.com"), "{list}");
        }
        for (list, host, expected) in [
            ("10.0.0.0/8", "10.1.2.3", true),
            ("10.0.0.0/8", "11.1.2.3", false),
            ("0.0.0.0/0", "11.1.2.3", true),
            ("10.1.2.3", "10.1.2.3", true),
            ("fd00::/8", "fd12::1", true),
            ("fd12::1", "fd12:0::1", true),
            ("[fd12::1]:443", "fd12::1", true),
            ("10.0.0.0/33", "10.0.0.1", false),
            ("10.0.0.0/8", "api.example.com", false),
        ] {
            assert_eq!(is_excepted(list, host), expected, "{list} {host}");
        }
    }

    #[test]
    fn this_machine_is_never_asked_through_a_proxy() {
        let variables = environment(&[("ALL_PROXY", "http://p:3128")]);
        for host in ["localhost", "LOCALHOST.", "a.localhost", "127.0.0.1", "127.9.9.9", "::1"] {
            let route = decide(&variables, Target { host, ..SERVER });
            assert_eq!(route, Ok(Route::Direct(Reason::Loopback)), "{host}");
        }
    }

    #[test]
    fn the_scheme_chooses_the_variable_and_a_proxy_that_cannot_be_used_stops_the_request() {
        let of = |variables: &[(&str, &str)]| decide(&environment(variables), SERVER);
        let proxy = |host: &str, port, login: Option<&str>, variable| {
            let (host, login) = (host.to_owned(), login.map(str::to_owned));
            Ok(Route::Proxy(Proxy { host, port, login, variable }))
        };
        assert_eq!(of(&[]), Ok(Route::Direct(Reason::NoneNamed)));
        assert_eq!(of(&[("HTTPS_PROXY", " ")]), Ok(Route::Direct(Reason::NoneNamed)));
        assert_eq!(of(&[("HTTP_PROXY", "http://p:1")]), Ok(Route::Direct(Reason::NoneNamed)));
        assert_eq!(of(&[("HTTPS_PROXY", "p:3128")]), proxy("p", 3128, None, "HTTPS_PROXY"));
        assert_eq!(
            of(&[("HTTPS_PROXY", "http://a:1"), ("https_proxy", "HTTP://b:2/")]),
            proxy("b", 2, None, "https_proxy")
        );
        assert_eq!(
            of(&[("ALL_PROXY", "http://me:p%40ss@[fd00::1]:8080")]),
            proxy("fd00::1", 8080, Some("me:p@ss"), "ALL_PROXY")
        );
        for kind in ["socks5", "https"] {
            let error = of(&[("HTTPS_PROXY", &format!("{kind}://p:1"))]);
            let kind = kind.to_owned();
            assert_eq!(error, Err(BadProxy::Kind { variable: "HTTPS_PROXY", kind }));
        }
        for bad in
            ["http://", "http://p:x", "http://p q:1", "http://a%zz@p:1", "http://a%0d%0ax@p:1"]
        {
            let error = of(&[("HTTPS_PROXY", bad)]);
            assert_eq!(error, Err(BadProxy::Address { variable: "HTTPS_PROXY" }), "{bad}");
        }
        let shown = format!("{:?}", of(&[("ALL_PROXY", "http://me:canary@p:1")]));
        assert!(!shown.contains("canary"), "{shown}");
    }

    #[test]
    fn a_project_names_no_proxy() {
        let mut variables = environment(&[]);
        let text = "HTTPS_PROXY=http://evil:1\nhttps_proxy=http://evil:1\nALL_PROXY=http://evil:1\nno_proxy=*";
        let refused = variables.add_file(text, "/project/.env", Source::WorkingDirectory);
        assert_eq!(refused.len(), 4);
        assert_eq!(decide(&variables, SERVER), Ok(Route::Direct(Reason::NoneNamed)));
        variables.add_file("HTTPS_PROXY=http://mine:1", "/state/.env", Source::StateFile);
        assert!(matches!(decide(&variables, SERVER), Ok(Route::Proxy(_))));
    }
}
