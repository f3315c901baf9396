//! Decides what a client must show: `gateway.auth`, the flags and the variables.

use super::{ListenRefusal, Said};
use crate::access::trusted_user::{LoopbackProxies, TrustedUsers};
use crate::config::Config;

/// What a client must show.
#[derive(Clone, PartialEq, Eq)]
pub enum Secret {
    /// `None`: none is configured yet, so one must be made.
    Token(Option<String>),
    Password(String),
    /// Nothing: a proxy has asked, and names the user.
    Proxy(TrustedUsers),
    None,
}

impl std::fmt::Debug for Secret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Token(Some(_)) => "Token(***)",
            Self::Token(None) => "Token(none yet)",
            Self::Password(_) => "Password(***)",
            Self::Proxy(_) => "Proxy",
            Self::None => "None",
        })
    }
}

impl Secret {
    /// The word of `gateway.auth.mode`.
    pub const fn mode(&self) -> &'static str {
        match self {
            Self::Token(_) => "token",
            Self::Password(_) => "password",
            Self::Proxy(_) => "trusted-proxy",
            Self::None => "none",
        }
    }
}

const USER: &str = "gateway.auth.trustedProxy.userHeader";
const REQUIRED: &str = "gateway.auth.trustedProxy.requiredHeaders";

/// Headers that clients write themselves, or that say something else than who somebody is.
const NOT_A_PROXYS: &[&str] = &[
    "accept",
    "authorization",
    "connection",
    "content-length",
    "content-type",
    "cookie",
    "forwarded",
    "host",
    "origin",
    "referer",
    "sec-websocket-key",
    "sec-websocket-protocol",
    "transfer-encoding",
    "upgrade",
    "user-agent",
    "via",
    "x-forwarded-for",
    "x-forwarded-host",
    "x-forwarded-proto",
    "x-real-ip",
];

pub(super) fn decide(config: &Config, said: &Said<'_>) -> Result<Secret, ListenRefusal> {
    let filled = |text: &&str| !text.trim().is_empty();
    let of = |name: &str, key: &'static str, (flag, variable): (Option<&str>, Option<&str>)| {
        if let Some(flag) = flag.filter(filled) {
            return Ok(Some(flag.to_owned()));
        }
        let at = config.at(&["gateway", "auth", name]);
        if at.as_ref().is_some_and(|at| at.node.as_object().is_some()) {
            return Err(ListenRefusal::Reference { key });
        }
        let written = at.as_ref().and_then(|at| at.node.as_str());
        Ok(written.filter(filled).or(variable.filter(filled)).map(str::to_owned))
    };
    let token = of("token", "gateway.auth.token", (said.token, said.token_variable))?;
    let passwords = (said.password, said.password_variable);
    let password = of("password", "gateway.auth.password", passwords)?;
    let written = config.at(&["gateway", "auth", "mode"]);
    let written = written.as_ref().and_then(|at| at.node.as_str());
    // A flag that gives a secret says which kind counts, too.
    let by_flag = match (said.token.is_some(), said.password.is_some()) {
        (true, false) => Some("token"),
        (false, true) => Some("password"),
        (true, true) | (false, false) => None,
    };
    match said.mode.or(by_flag).or(written) {
        None if token.is_some() && password.is_some() => Err(ListenRefusal::TwoSecrets),
        None => Ok(password.map_or(Secret::Token(token), Secret::Password)),
        // A token that is made for one run and written nowhere would be known to nobody.
        Some("token") if token.is_none() && said.mode.is_some() => Err(ListenRefusal::NoToken),
        Some("token") => Ok(Secret::Token(token)),
        Some("password") => password.map(Secret::Password).ok_or(ListenRefusal::NoPassword),
        Some("none") => Ok(Secret::None),
        Some("trusted-proxy") => users(config).map(Secret::Proxy),
        Some(found) => Err(ListenRefusal::UnknownMode { found: found.to_owned() }),
    }
}

/// `gateway.auth.trustedProxy`.
fn users(config: &Config) -> Result<TrustedUsers, ListenRefusal> {
    let at = |key: &str| config.at(&["gateway", "auth", "trustedProxy", key]);
    let user = at("userHeader").and_then(|at| at.node.as_str().map(str::to_owned));
    let user = user.filter(|name| !name.trim().is_empty()).ok_or(ListenRefusal::NoUserHeader)?;
    let header = |key: &'static str, found: &String| {
        let name = found.trim().to_ascii_lowercase();
        if is_header(&name) {
            Ok(name)
        } else {
            Err(ListenRefusal::BadHeader { key, found: found.clone() })
        }
    };
    let user_header = header(USER, &user)?;
    if NOT_A_PROXYS.contains(&user_header.as_str()) {
        return Err(ListenRefusal::BadHeader { key: USER, found: user });
    }
    let required = at("requiredHeaders").and_then(|at| at.strings()).unwrap_or_default();
    let required: Result<Vec<String>, _> =
        required.iter().map(|name| header(REQUIRED, name)).collect();
    let is_barred = at("allowLoopback").is_some_and(|at| at.node.as_bool() == Some(false));
    Ok(TrustedUsers {
        user_header,
        required_headers: required?,
        allow_users: at("allowUsers").and_then(|at| at.strings()).unwrap_or_default(),
        loopback: if is_barred { LoopbackProxies::NotBelieved } else { LoopbackProxies::Believed },
    })
}

/// Says whether a text can be the name of a header.
fn is_header(name: &str) -> bool {
    let is_part = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    !name.is_empty() && name.len() <= 128 && name.bytes().all(is_part)
}
