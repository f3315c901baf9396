//! Compares secrets. Whoever guesses them is slowed down by `throttle`.
//!
//! Secrets are compared by their digests and in constant time: neither length nor content can be read
//! off the time. They have no `Display` and no `Debug`, so no log line can hold one.

use clawpen_rules::access::connect::SecretVerdict;
use clawpen_rules::access::listen::Secret;
use clawpen_rules::access::trusted_user::{TrustedUsers, UserVerdict};
use sha2::{Digest as _, Sha256};
use subtle::ConstantTimeEq as _;

/// What a client must show, as a digest.
pub(crate) enum Guard {
    Token([u8; 32]),
    Password([u8; 32]),
    /// Nothing: a proxy names the user.
    Proxy(TrustedUsers),
    None,
}

/// Which of a client's secrets counts.
#[derive(Clone, Copy)]
pub(crate) struct Shown<'a> {
    pub(crate) token: Option<&'a str>,
    pub(crate) password: Option<&'a str>,
    /// Whom a proxy names, where one is asked.
    pub(crate) user: Option<&'a UserVerdict>,
}

impl Guard {
    /// `None` if the mode wants a token and there is none.
    pub(crate) fn of(secret: &Secret) -> Option<Self> {
        match secret {
            Secret::Token(token) => token.as_deref().map(|token| Self::Token(digest(token))),
            Secret::Password(password) => Some(Self::Password(digest(password))),
            Secret::Proxy(users) => Some(Self::Proxy(users.clone())),
            Secret::None => Some(Self::None),
        }
    }

    pub(crate) const fn mode(&self) -> &'static str {
        match self {
            Self::Token(_) => "token",
            Self::Password(_) => "password",
            Self::Proxy(_) => "trusted-proxy",
            Self::None => "none",
        }
    }

    /// Says how a client's secret compares with ours.
    pub(crate) fn check(&self, shown: Shown<'_>) -> SecretVerdict {
        let (wanted, given) = match self {
            Self::None => return SecretVerdict::Right,
            Self::Proxy(_) => {
                return match shown.user {
                    Some(UserVerdict::Known(_)) => SecretVerdict::Right,
                    Some(UserVerdict::Denied(_)) | None => SecretVerdict::Denied,
                };
            }
            Self::Token(wanted) => (wanted, shown.token),
            Self::Password(wanted) => (wanted, shown.password),
        };
        match given.filter(|given| !given.is_empty()) {
            None => SecretVerdict::Absent,
            Some(given) if digest(given).ct_eq(wanted).into() => SecretVerdict::Right,
            Some(_) => SecretVerdict::Wrong,
        }
    }
}

/// Says whether two secrets are the same, in constant time.
pub(crate) fn is_same(one: &str, other: &str) -> bool {
    digest(one).ct_eq(&digest(other)).into()
}

pub(crate) fn digest(text: &str) -> [u8; 32] {
    Sha256::digest(text.as_bytes()).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_secret_of_the_mode_counts() {
        let guard = Guard::of(&Secret::Token(Some("right".to_owned()))).unwrap();
        let check = |token, password| guard.check(Shown { token, password, user: None });
        assert_eq!(check(Some("right"), None), SecretVerdict::Right);
        assert_eq!(check(Some("Right"), None), SecretVerdict::Wrong);
        assert_eq!(check(None, Some("right")), SecretVerdict::Absent);
        assert_eq!(check(Some(""), None), SecretVerdict::Absent);
        assert!(Guard::of(&Secret::Token(None)).is_none());
    }
}
