//! Who may come in by HTTP: whoever has the token, speaks to a name of this machine and is no foreign web page.

use http::header::{AUTHORIZATION, HOST, HeaderName, ORIGIN};
use http::uri::Authority;
use http::{Request, StatusCode};

/// The only path there is.
const PATH: &str = "/mcp";
/// Names that lead to this machine whoever answers for names.
const OWN_NAMES: [&str; 3] = ["localhost", "127.0.0.1", "[::1]"];
/// A shorter token could be guessed.
const SHORTEST_TOKEN: usize = 16;

/// What a request must show.
pub struct Guard {
    token: String,
    hosts: Vec<String>,
    origins: Vec<String>,
}

impl std::fmt::Debug for Guard {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Guard").field("hosts", &self.hosts).finish_non_exhaustive()
    }
}

/// Why a request is sent away.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    #[error("there is nothing here; MCP is at {PATH}")]
    Path,
    #[error(
        "the Host header does not name this machine; open the door with --allow-host for other names"
    )]
    Host,
    #[error("web pages of this origin may not call; open the door with --allow-origin to let them")]
    Origin,
    #[error("the bearer token is missing or wrong")]
    Token,
}

impl Refused {
    pub const fn status(self) -> StatusCode {
        match self {
            Self::Path => StatusCode::NOT_FOUND,
            Self::Host | Self::Origin => StatusCode::FORBIDDEN,
            Self::Token => StatusCode::UNAUTHORIZED,
        }
    }
}

/// A token that cannot be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the token is too short; use at least {SHORTEST_TOKEN} characters without blanks")]
pub struct WeakToken;

impl Guard {
    /// Lets in whoever has `token`, also by these names and from pages of these origins.
    pub fn new(token: &str, hosts: Vec<String>, origins: Vec<String>) -> Result<Self, WeakToken> {
        let token = token.trim();
        if token.len() < SHORTEST_TOKEN || !token.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(WeakToken);
        }
        Ok(Self { token: token.to_owned(), hosts, origins })
    }

    /// Looks at the head of a request.
    pub fn check<B>(&self, request: &Request<B>) -> Result<(), Refused> {
        if !self.is_own_name(request) {
            return Err(Refused::Host);
        }
        let mut origins = request.headers().get_all(ORIGIN).iter();
        let is_known = |origin: &http::HeaderValue| {
            self.origins.iter().any(|known| known.as_bytes() == origin.as_bytes())
        };
        if !origins.all(is_known) {
            return Err(Refused::Origin);
        }
        let token = single(request, AUTHORIZATION).and_then(|value| {
            let (scheme, token) = value.split_once(' ')?;
            scheme.eq_ignore_ascii_case("bearer").then(|| token.trim())
        });
        if !token.is_some_and(|token| is_same(token.as_bytes(), self.token.as_bytes())) {
            return Err(Refused::Token);
        }
        if request.uri().path() != PATH {
            return Err(Refused::Path);
        }
        Ok(())
    }

    /// One Host header with a name of ours; the target, if it names a host too, as well.
    fn is_own_name<B>(&self, request: &Request<B>) -> bool {
        let Some(host) = single(request, HOST) else { return false };
        let Ok(host) = host.parse::<Authority>() else { return false };
        let is_own = |authority: &Authority| {
            let name = authority.host();
            // A name and a port, nothing else: `user@` and what is no port are no client's that means us well.
            let rest = authority.as_str().strip_prefix(name);
            if !rest.is_some_and(is_port) {
                return false;
            }
            let mut known = OWN_NAMES.iter().copied().chain(self.hosts.iter().map(String::as_str));
            known.any(|known| known.eq_ignore_ascii_case(name) || known == authority.as_str())
        };
        is_own(&host) && request.uri().authority().is_none_or(is_own)
    }
}

/// Nothing, or a colon and a number that a port can have.
fn is_port(rest: &str) -> bool {
    let is_number =
        |port: &str| port.bytes().all(|byte| byte.is_ascii_digit()) && port.parse::<u16>().is_ok();
    rest.is_empty() || rest.strip_prefix(':').is_some_and(is_number)
}

/// A header that is there exactly once.
fn single<B>(request: &Request<B>, name: HeaderName) -> Option<&str> {
    let mut values = request.headers().get_all(name).iter();
    let value = values.next()?;
    values.next().is_none().then_some(value)?.to_str().ok()
}

/// Takes the same time wherever the two differ. How long ours is, is no secret.
fn is_same(given: &[u8], ours: &[u8]) -> bool {
    if given.len() != ours.len() {
        return false;
    }
    let difference = given.iter().zip(ours).fold(0, |found, (a, b)| found | (a ^ b));
    std::hint::black_box(difference) == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    const TOKEN: &str = "0123456789abcdef";

    #[track_caller]
    fn check(headers: &[(&str, &str)], path: &str, expected: Result<(), Refused>) {
        let guard = Guard::new(
            TOKEN,
            vec!["pen.example".to_owned()],
            vec!["https://app.example".to_owned()],
        )
        .unwrap();
        let mut request = Request::builder().uri(path);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        assert_eq!(guard.check(&request.body(()).unwrap()), expected, "{headers:?}");
    }

    #[test]
    fn only_the_token_a_name_of_ours_and_no_foreign_page_come_in() {
        let token = ("authorization", "Bearer 0123456789abcdef");
        let host = ("host", "127.0.0.1:8080");
        check(&[host, token], "/mcp", Ok(()));
        for odd in [
            "127.0.0.1:8w",
            "127.0.0.1:",
            "127.0.0.1:70000",
            "a@127.0.0.1",
            "localhost@localhost:1",
        ] {
            check(&[("host", odd), token], "/mcp", Err(Refused::Host));
        }
        check(
            &[("host", "LOCALHOST:1"), ("authorization", "bearer 0123456789abcdef")],
            "/mcp",
            Ok(()),
        );
        check(&[("host", "[::1]:80"), token], "/mcp", Ok(()));
        check(&[("host", "pen.example"), token], "/mcp", Ok(()));
        check(&[host, token, ("origin", "https://app.example")], "/mcp", Ok(()));
        for bad in ["evil.example", "127.0.0.1.evil.example", "localhost.evil:80", "", "a b"] {
            check(&[("host", bad), token], "/mcp", Err(Refused::Host));
        }
        check(&[token], "/mcp", Err(Refused::Host));
        check(&[host, host, token], "/mcp", Err(Refused::Host));
        check(&[host, token], "http://evil.example/mcp", Err(Refused::Host));
        for bad in
            ["https://evil.example", "null", "https://app.example.evil", "http://127.0.0.1:8080"]
        {
            check(&[host, token, ("origin", bad)], "/mcp", Err(Refused::Origin));
        }
        for bad in [
            "Bearer 0123456789abcdeX",
            "Bearer",
            "Basic 0123456789abcdef",
            "Bearer 0123456789abcdef0",
            "",
        ] {
            check(&[host, ("authorization", bad)], "/mcp", Err(Refused::Token));
        }
        check(&[host], "/mcp", Err(Refused::Token));
        check(&[host, token, token], "/mcp", Err(Refused::Token));
        check(&[host, token], "/mcp/x", Err(Refused::Path));
    }

    #[test]
    fn a_token_that_can_be_guessed_opens_no_door() {
        for weak in ["", "short", "with blank in it 1234"] {
            assert_eq!(Guard::new(weak, vec![], vec![]).err(), Some(WeakToken));
        }
    }
}
