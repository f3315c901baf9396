//! What of a config may be a secret, by the names of keys and by the shape of values.
//!
//! The names of keys are shown, their values are not: everything below `env`, `vars` and `headers`,
//! and below a key that is called like a credential, whatever stands there. A reference to a secret
//! (`{source, id}`) is none; neither is `true`. In all other texts only the password of a URL is hidden.

use crate::config::tree::{Node, Value};

/// What is shown in place of a secret.
pub const HIDDEN: &str = "***";

/// What may be seen of a part of the config.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sight {
    /// What its keys do not hide.
    Open,
    /// No value.
    Hidden,
    /// All of it: it holds no secrets.
    Everything,
}

/// Whose members are values from outside, under names that anybody may choose.
const FREE_NAMES: &[&str] = &["env", "vars", "headers"];

/// How keys of credentials end, `_` and `-` and capitals left out. A plural counts as well.
const ENDINGS: &[&str] = &[
    "token",
    "secret",
    "password",
    "passwd",
    "passphrase",
    "cookie",
    "credential",
    "authorization",
    "apikey",
    "accesskey",
    "authkey",
    "encryptionkey",
    "privatekey",
    "secretkey",
    "sharedkey",
    "signingkey",
    "serviceaccount",
    "serviceaccountjson",
    "connectionstring",
    "webhookurl",
];

/// Whole names of the same kind. A setup command logs in to registries and fetches with tokens;
/// `explain` shows no more of it either.
const NAMES: &[&str] =
    &["identitydata", "certificatedata", "knownhostsdata", "pat", "dsn", "bearer", "setupcommand"];

impl Sight {
    /// What may be seen of a member.
    #[must_use]
    pub fn below(self, key: &str, node: &Node) -> Self {
        match self {
            Self::Everything | Self::Hidden => self,
            Self::Open if holds_secret(key, node) => Self::Hidden,
            Self::Open => Self::Open,
        }
    }
}

fn holds_secret(key: &str, node: &Node) -> bool {
    let folded: String =
        key.chars().filter(|c| !matches!(c, '_' | '-')).collect::<String>().to_ascii_lowercase();
    if FREE_NAMES.contains(&folded.as_str()) {
        return true;
    }
    let single = folded.strip_suffix('s').unwrap_or(&folded);
    // `maxTokens` is a limit; a list of tokens is none.
    if single == "token" || folded.ends_with("tokens") {
        let is_number = matches!(node.value, Value::Number(_));
        return !is_reference(node) && (!is_number || !folded.ends_with('s'));
    }
    let upper = key.to_ascii_uppercase();
    let is_named = [folded.as_str(), single]
        .iter()
        .any(|name| NAMES.contains(name) || ENDINGS.iter().any(|ending| name.ends_with(ending)));
    (is_named || upper.ends_with("_KEY") || upper.ends_with("_PAT")) && !is_reference(node)
}

/// Says whether a value only tells where a secret is kept.
fn is_reference(node: &Node) -> bool {
    let is_text = |key: &str| node.get(key).is_some_and(|part| part.as_str().is_some());
    is_text("source") && is_text("id")
}

/// A text in which the passwords of URLs are hidden: `scheme://user:***@host`. A web address with a
/// name only is hidden too, since tokens are written there.
pub fn without_url_password(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(start) = rest.find("://") {
        let (before, after) = rest.split_at(start + "://".len());
        shown.push_str(before);
        let end = after.find(|c: char| matches!(c, '/' | '?' | '#') || c.is_whitespace());
        let (authority, tail) = after.split_at(end.unwrap_or(after.len()));
        match authority.rsplit_once('@') {
            Some((user, host)) => {
                match user.split_once(':') {
                    Some((user, _)) => {
                        shown.extend([user, ":", HIDDEN]);
                    }
                    None if is_web(before) => shown.push_str(HIDDEN),
                    None => shown.push_str(user),
                }
                shown.push('@');
                shown.push_str(host);
            }
            None => shown.push_str(authority),
        }
        rest = tail;
    }
    shown.push_str(rest);
    shown
}

fn is_web(before: &str) -> bool {
    let before = before.to_ascii_lowercase();
    before.ends_with("http://") || before.ends_with("https://")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::print::{Secrets, json};
    use crate::config::{json5, tree::FileId};

    #[test]
    fn values_under_free_names_are_hidden_whole() {
        hidden("{env: {A: 'x', N: 5, deep: {B: 'x'}, on: true}}");
        hidden("{docker: {env: {PLAIN: 'x'}}}");
        hidden("{env: {vars: {A: 'x'}}}");
        hidden("{headers: {'X-Any': ['x']}}");
        hidden("{env: ['A=x']}");
    }

    #[test]
    fn keys_that_are_called_like_credentials_hide_all_below() {
        for key in [
            "token",
            "botToken",
            "tokens",
            "GITHUB_PAT",
            "pat",
            "MY_KEY",
            "api_key",
            "apiKeys",
            "cookie",
            "sessionCookies",
            "authorization",
            "serviceAccount",
            "credentials",
            "knownHostsData",
            "webhookUrl",
            "private-key",
            "setupCommand",
        ] {
            hidden(&format!("{{'{key}': 'x'}}"));
            hidden(&format!("{{'{key}': ['x', {{a: 'x'}}]}}"));
            hidden(&format!("{{'{key}': {{a: 'x'}}}}"));
            seen(&format!("{{'{key}': {{source: 'env', id: 'x'}}}}"));
        }
        hidden("{token: 7}");
        for open in ["{mainKey: 'x'}", "{pattern: 'x'}", "{path: 'x'}", "{maxTokens: 7}"] {
            seen(open);
        }
    }

    #[test]
    fn passwords_in_urls_are_hidden() {
        for (text, shown) in [
            ("postgres://u:p@h/db", "postgres://u:***@h/db"),
            ("https://ghp_1@github.com/a", "https://***@github.com/a"),
            ("ssh://git@h/a", "ssh://git@h/a"),
            ("a http://u:p:q@h b https://x:@y", "a http://u:***@h b https://x:***@y"),
            ("redis://:p@h", "redis://:***@h"),
            ("http://h/a@b", "http://h/a@b"),
            ("u@h:p", "u@h:p"),
        ] {
            assert_eq!(without_url_password(text), shown);
        }
    }

    #[track_caller]
    fn hidden(text: &str) {
        assert!(!shows_value(text), "{text}");
    }

    #[track_caller]
    fn seen(text: &str) {
        assert!(shows_value(text), "{text}");
    }

    /// Says whether one of the values that the texts above hold is to be seen.
    fn shows_value(text: &str) -> bool {
        let node = json5::parse(text, FileId(0)).unwrap().root;
        let shown = json(&node, Secrets::Hide);
        ["\"x\"", "\"A=x\"", ": 7", ": 5"].iter().any(|value| shown.contains(value))
    }
}
