//! Who may speak to a browser's bridge, and who may watch its screen.
//!
//! The bridge is a small HTTP server on the loopback address, between whoever drives a browser and the
//! browser's control port. Takes one request's head ([`Asked`]) and gives a [`BridgeVerdict`]; keeps the
//! links that let a person watch ([`ObserverTokens`], a plain value: random bytes and the time come in as
//! arguments); and builds the page that such a link leads to.
//!
//! ```text
//! body too large ─► 413    not a name of this machine ─► 403    a change from another page ─► 403
//! GET /sandbox/novnc ─► no token 400, unknown, old or used 404, else the viewer's page, once
//! everything else ─► the secret, or 401
//! ```
//!
//! Secrets are compared by whoever holds them; what arrives here is how that came out.

use std::fmt;
use std::net::SocketAddr;
use std::time::Duration;

use url::{Url, form_urlencoded};

use super::ViewerPassword;
use crate::access::origin::{is_loopback_host, is_loopback_page};

/// The longest body of a request.
pub const MAX_BODY: u64 = 1024 * 1024;
/// Where a person's link leads.
pub const VIEWER_PATH: &str = "/sandbox/novnc";
/// How long such a link works.
pub const TOKEN_LIFETIME: Duration = Duration::from_secs(60);
/// How many links there are at once; a further one ends the oldest.
pub const MAX_TOKENS: usize = 32;

/// The head of a request. A header that is no text counts as one with an empty value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Asked<'a> {
    pub method: &'a str,
    pub path: &'a str,
    pub query: &'a str,
    /// Every value of `Host`.
    pub hosts: Vec<&'a str>,
    /// Every value of `Origin`.
    pub origins: Vec<&'a str>,
    /// Every value of `Referer`.
    pub referers: Vec<&'a str>,
    /// Every value of `Sec-Fetch-Site`.
    pub fetch_sites: Vec<&'a str>,
    /// The length of the body that is announced.
    pub body: u64,
    pub credential: Credential,
}

/// How what a caller showed compares with our secret.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Credential {
    Right,
    Wrong,
    Missing,
}

/// What becomes of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BridgeVerdict {
    /// It goes on to its route.
    Allowed,
    /// Somebody has a link to the viewer; whether it works is for [`ObserverTokens::redeem`].
    Watch {
        token: String,
    },
    Refused(BridgeRefusal),
}

/// Why a request is sent away.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BridgeRefusal {
    TooLarge,
    /// It was sent to a name that is none of this machine's: a name may be made to point here.
    OtherHost,
    /// A page of another site wants to change something.
    OtherPage,
    MissingToken,
    InvalidToken,
    Unauthorized,
}

impl BridgeRefusal {
    pub const fn status(self) -> u16 {
        match self {
            Self::TooLarge => 413,
            Self::OtherHost | Self::OtherPage => 403,
            Self::MissingToken => 400,
            Self::InvalidToken => 404,
            Self::Unauthorized => 401,
        }
    }
}

/// As clients of the reference know it.
impl fmt::Display for BridgeRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::TooLarge => "Payload too large",
            Self::OtherHost | Self::OtherPage => "Forbidden",
            Self::MissingToken => "Missing token",
            Self::InvalidToken => "Invalid or expired token",
            Self::Unauthorized => "Unauthorized",
        })
    }
}

/// Decides about one request.
#[must_use]
pub fn decide(asked: &Asked<'_>) -> BridgeVerdict {
    if asked.body > MAX_BODY {
        return BridgeVerdict::Refused(BridgeRefusal::TooLarge);
    }
    let [host] = asked.hosts.as_slice() else {
        return BridgeVerdict::Refused(BridgeRefusal::OtherHost);
    };
    if !is_loopback_host(host) {
        return BridgeVerdict::Refused(BridgeRefusal::OtherHost);
    }
    if changes(asked.method) && is_from_another_page(asked) {
        return BridgeVerdict::Refused(BridgeRefusal::OtherPage);
    }
    if asked.method == "GET" && asked.path == VIEWER_PATH {
        let token = form_urlencoded::parse(asked.query.as_bytes())
            .find(|(name, _)| name == "token")
            .map(|(_, token)| token.trim().to_owned())
            .filter(|token| !token.is_empty());
        return match token {
            Some(token) => BridgeVerdict::Watch { token },
            None => BridgeVerdict::Refused(BridgeRefusal::MissingToken),
        };
    }
    match asked.credential {
        Credential::Right => BridgeVerdict::Allowed,
        Credential::Wrong | Credential::Missing => {
            BridgeVerdict::Refused(BridgeRefusal::Unauthorized)
        }
    }
}

/// Whatever is not known to change nothing may change something.
fn changes(method: &str) -> bool {
    !matches!(method, "GET" | "HEAD" | "OPTIONS")
}

/// A browser says where a request comes from; programs say nothing.
fn is_from_another_page(asked: &Asked<'_>) -> bool {
    let is_cross_site = |site: &&str| site.trim().eq_ignore_ascii_case("cross-site");
    if asked.fetch_sites.iter().any(is_cross_site) {
        return true;
    }
    if !asked.origins.is_empty() {
        return !asked.origins.iter().all(|origin| is_loopback_page(origin));
    }
    !asked.referers.iter().all(|referer| is_loopback_address(referer))
}

fn is_loopback_address(referer: &str) -> bool {
    let Ok(url) = Url::parse(referer.trim()) else { return false };
    is_loopback_page(&url.origin().ascii_serialization())
}

/// A person's link: 24 random bytes in hexadecimal digits.
#[derive(Clone, PartialEq, Eq)]
pub struct ObserverToken(String);

impl ObserverToken {
    /// `random` comes from the kernel.
    pub fn of(random: [u8; 24]) -> Self {
        Self(super::hex(random))
    }

    pub fn expose(&self) -> &str {
        &self.0
    }

    /// Takes the same time wherever the two differ.
    fn is(&self, shown: &str) -> bool {
        let (ours, shown) = (self.0.as_bytes(), shown.as_bytes());
        let difference = ours.iter().zip(shown).fold(0, |found, (a, b)| found | (a ^ b));
        ours.len() == shown.len() && std::hint::black_box(difference) == 0
    }
}

impl fmt::Debug for ObserverToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ObserverToken(***)")
    }
}

/// The links that still work. Times are of one clock, which is the caller's and never goes back.
#[derive(Debug, Default)]
pub struct ObserverTokens {
    /// With the moment at which each ends, oldest first.
    issued: Vec<(ObserverToken, Duration)>,
}

impl ObserverTokens {
    /// Makes a link work from `now` on, for [`TOKEN_LIFETIME`] and for one use.
    pub fn issue(&mut self, token: ObserverToken, now: Duration) {
        self.issued.retain(|(_, ends)| now < *ends);
        if self.issued.len() >= MAX_TOKENS {
            self.issued.remove(0);
        }
        self.issued.push((token, now.saturating_add(TOKEN_LIFETIME)));
    }

    /// Uses a link up.
    ///
    /// # Errors
    /// [`BridgeRefusal::InvalidToken`] if there is none like it, or its time is over, or it was used.
    pub fn redeem(&mut self, shown: &str, now: Duration) -> Result<(), BridgeRefusal> {
        self.issued.retain(|(_, ends)| now < *ends);
        let before = self.issued.len();
        self.issued.retain(|(token, _)| !token.is(shown));
        if self.issued.len() == before { Err(BridgeRefusal::InvalidToken) } else { Ok(()) }
    }
}

/// The link for a person.
pub fn observer_url(bridge: SocketAddr, token: &ObserverToken) -> String {
    format!("http://{bridge}{VIEWER_PATH}?token={}", token.0)
}

/// Where the viewer is, as a browser of this machine opens it. The password is behind the `#`, which no
/// browser sends anywhere.
pub fn viewer_url(port: u16, password: &ViewerPassword) -> String {
    let password = password.expose();
    format!("http://127.0.0.1:{port}/vnc.html#autoconnect=1&resize=remote&password={password}")
}

/// The page that a person's link leads to: it goes on to the viewer and leaves no trace in the history.
/// `nonce` is what the answer's policy lets run. Nothing in it needs escaping: a number, letters and digits.
pub fn viewer_page(port: u16, password: &ViewerPassword, nonce: &ObserverToken) -> String {
    let (url, nonce) = (viewer_url(port, password), &nonce.0);
    format!(
        "<!doctype html><html lang=\"en\"><head><meta charset=\"utf-8\">\
         <title>Sandbox browser</title></head><body><p>Opening the viewer …</p>\
         <script nonce=\"{nonce}\">location.replace(\"{url}\")</script></body></html>\n"
    )
}

/// Where a browser may be sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Navigation {
    /// As it was understood, which is what the browser is told.
    To(String),
    Refused(NavigationRefusal),
}

/// Why a browser is not sent there.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NavigationRefusal {
    #[error("`url` is no address; write it whole, like `https://example.com/`")]
    NoAddress,
    #[error("a browser is not sent to `{scheme}:`; use http, https, data or about:blank")]
    Scheme { scheme: String },
    #[error("`url` carries a user or a password; leave them out")]
    Credentials,
}

/// Decides where a browser may be sent. Its own files, its inner pages and scripts are none of it: they
/// would show what no page may see. Redirects are the browser's, which lets no page lead there either.
#[must_use]
pub fn decide_navigation(address: &str) -> Navigation {
    let Ok(url) = Url::parse(address.trim()) else {
        return Navigation::Refused(NavigationRefusal::NoAddress);
    };
    match url.scheme() {
        "http" | "https" if !url.username().is_empty() || url.password().is_some() => {
            Navigation::Refused(NavigationRefusal::Credentials)
        }
        "http" | "https" | "data" => Navigation::To(url.into()),
        "about" if url.path() == "blank" => Navigation::To("about:blank".to_owned()),
        scheme => Navigation::Refused(NavigationRefusal::Scheme { scheme: scheme.to_owned() }),
    }
}

#[cfg(test)]
mod tests;
