//! What a caller of the bridge shows, compared with what it must.

use axum::http::HeaderMap;
use axum::http::header::AUTHORIZATION;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use clawpen_rules::browser::bridge::Credential;
use subtle::{Choice, ConstantTimeEq as _};

use crate::auth::digest;

/// A header that carries the password alone.
const PASSWORD_HEADER: &str = "x-openclaw-password";

/// The secrets that open a bridge, as digests; nothing prints them.
#[derive(Clone, Default)]
pub struct Auth {
    token: Option<[u8; 32]>,
    password: Option<[u8; 32]>,
}

impl std::fmt::Debug for Auth {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Auth(***)")
    }
}

impl Auth {
    /// Opened by a token; a blank one opens nothing.
    #[must_use]
    pub fn with_token(mut self, token: &str) -> Self {
        self.token = (!token.trim().is_empty()).then(|| digest(token));
        self
    }

    /// Opened by a password; a blank one opens nothing.
    #[must_use]
    pub fn with_password(mut self, password: &str) -> Self {
        self.password = (!password.trim().is_empty()).then(|| digest(password));
        self
    }

    pub(super) const fn is_none(&self) -> bool {
        self.token.is_none() && self.password.is_none()
    }

    /// Looks at everything that a request shows. Several values of one header are none.
    pub(super) fn check(&self, headers: &HeaderMap) -> Credential {
        let single = |name: &str| {
            let mut values = headers.get_all(name).iter();
            let value = values.next()?.to_str().ok()?;
            values.next().is_none().then_some(value)
        };
        let is_shown = headers.contains_key(AUTHORIZATION) || headers.contains_key(PASSWORD_HEADER);
        let scheme = single(AUTHORIZATION.as_str()).and_then(|value| value.split_once(' '));
        let of_scheme = |wanted: &str| {
            let (scheme, rest) = scheme?;
            scheme.eq_ignore_ascii_case(wanted).then(|| rest.trim())
        };
        let basic = of_scheme("basic").and_then(|text| {
            let decoded = String::from_utf8(STANDARD.decode(text).ok()?).ok()?;
            decoded.split_once(':').map(|(_, password)| password.to_owned())
        });
        let is_right = is(self.token.as_ref(), of_scheme("bearer"))
            | is(self.password.as_ref(), single(PASSWORD_HEADER))
            | is(self.password.as_ref(), basic.as_deref());
        match (bool::from(is_right), is_shown) {
            (true, _) => Credential::Right,
            (false, true) => Credential::Wrong,
            (false, false) => Credential::Missing,
        }
    }
}

fn is(wanted: Option<&[u8; 32]>, shown: Option<&str>) -> Choice {
    match (wanted, shown) {
        (Some(wanted), Some(shown)) => wanted.ct_eq(&digest(shown)),
        (None, _) | (_, None) => Choice::from(0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(headers: &[(&'static str, &str)], expected: Credential) {
        let auth = Auth::default().with_token("the-token").with_password("a pass:word");
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            map.append(*name, value.parse().unwrap());
        }
        assert_eq!(auth.check(&map), expected, "{headers:?}");
    }

    #[test]
    fn a_token_or_a_password_opens_it_each_in_its_place() {
        use Credential::{Missing, Right, Wrong};
        let basic = |text: &str| format!("Basic {}", STANDARD.encode(text));
        check(&[], Missing);
        check(&[("authorization", "Bearer the-token")], Right);
        check(&[("authorization", "bearer  the-token ")], Right);
        check(&[("authorization", &basic("anyone:a pass:word"))], Right);
        check(&[("x-openclaw-password", "a pass:word")], Right);
        check(&[("authorization", "Bearer no"), ("x-openclaw-password", "a pass:word")], Right);
        for wrong in ["Bearer", "Bearer ", "Bearer a pass:word", "the-token", "Basic the-token"] {
            check(&[("authorization", wrong)], Wrong);
        }
        check(&[("authorization", &basic("a pass:word"))], Wrong);
        check(&[("x-openclaw-password", "the-token")], Wrong);
        check(&[("x-openclaw-password", "")], Wrong);
        check(&[("authorization", "Bearer the-token"), ("authorization", "Bearer x")], Wrong);
    }

    #[test]
    fn nothing_opens_what_has_no_secret() {
        let none = Auth::default().with_token(" ").with_password("");
        assert!(none.is_none());
        let headers = [("authorization".parse().unwrap(), "Bearer  ".parse().unwrap())];
        assert_eq!(none.check(&headers.into_iter().collect()), Credential::Wrong);
    }
}
