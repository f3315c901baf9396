//! What a gateway needs before it listens: what the config means, its secret, its list of pages.
//!
//! What is missing in the config and can be made is made here and written down; the rest is refused by
//! `rules::access::listen`.

use std::time::Duration;

use clawpen_engine::approvals_file::now_ms;
use clawpen_engine::config_file::{self, Base, WriteError};
use clawpen_engine::config_store::Surroundings;
use clawpen_engine::{machine, random};
use clawpen_rules::access::listen::{self, Bind, Listen, Said, Secret, Seed};
use clawpen_rules::config::Config;
use clawpen_rules::config::patch;
use clawpen_rules::config::tree::Node;
use clawpen_rules::timestamp::Timestamp;
use secrecy::{ExposeSecret as _, SecretString};
use serde_json::{Value, json};
use tokio::net::TcpListener;

use super::{Options, StartError};
use crate::throttle::{OwnPrograms, Patience};
use crate::tree_json::to_tree;

/// What the config, the flags and the variables come to.
pub(super) fn wanted(
    config: &Config,
    options: &Options,
    around: &Surroundings,
) -> Result<Listen, StartError> {
    let exposed = |secret: Option<&SecretString>| secret.map(|it| it.expose_secret().to_owned());
    let (token, password) = (exposed(options.token.as_ref()), exposed(options.password.as_ref()));
    let said = Said {
        port: options.port,
        port_variable: around.variable("OPENCLAW_GATEWAY_PORT"),
        bind: options.bind.as_deref(),
        mode: options.auth.as_deref(),
        token: token.as_deref(),
        password: password.as_deref(),
        tailnet: machine::tailnet_address(),
        token_variable: around.variable("OPENCLAW_GATEWAY_TOKEN"),
        password_variable: around.variable("OPENCLAW_GATEWAY_PASSWORD"),
        unconfigured: options.unconfigured,
    };
    listen::decide(config, &said).map_err(StartError::Refused)
}

/// What a certificate that we make is for: the names of this machine, and the address it listens on.
pub(super) fn names(bind: Bind) -> Vec<String> {
    let mut names = vec!["localhost".to_owned(), "127.0.0.1".to_owned(), "::1".to_owned()];
    match bind {
        Bind::Custom(address) if !address.is_loopback() => names.push(address.to_string()),
        Bind::Custom(_) | Bind::Loopback | Bind::Lan => {}
    }
    let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
    let is_name = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.');
    if !host.is_empty() && host != "localhost" && host.bytes().all(is_name) {
        names.push(host);
    }
    names
}

/// Writes down which pages may talk to a gateway that others can reach, if the config says nothing.
pub(super) fn seed_origins(
    around: &Surroundings,
    wanted: &mut Listen,
    listeners: &[TcpListener],
) -> Result<(), StartError> {
    match wanted.seed {
        Seed::No => return Ok(()),
        Seed::Yes => {}
    }
    let port = listeners.first().and_then(|listener| listener.local_addr().ok());
    let port = port.map_or(wanted.port, |address| address.port());
    let origins = listen::seeded_origins(port, wanted.bind, wanted.tls.as_ref());
    let addition = json!({ "gateway": { "controlUi": { "allowedOrigins": origins } } });
    add_to_config(around, &addition).map_err(StartError::Origins)?;
    wanted.origins.allowed = origins;
    Ok(())
}

/// The secret of the config; a token that is not there yet is made and written down.
pub(super) fn ensure_secret(around: &Surroundings, secret: &Secret) -> Result<Secret, StartError> {
    match secret {
        Secret::Token(None) => {}
        other => return Ok(other.clone()),
    }
    let token = random::token().map_err(|error| StartError::Token(error.to_string()))?;
    let addition = json!({ "gateway": { "auth": { "mode": "token", "token": token } } });
    add_to_config(around, &addition).map_err(StartError::Token)?;
    Ok(Secret::Token(Some(token)))
}

/// Adds to the config what it does not say yet; the error is for people.
fn add_to_config(around: &Surroundings, addition: &Value) -> Result<(), String> {
    let addition = to_tree(addition);
    let now = Timestamp::from_millis(now_ms());
    let written = config_file::write(around, Base::Now, now, |old| {
        let mut new: Node = old.shown.clone();
        patch::merge(&mut new, &addition);
        Ok::<_, std::convert::Infallible>(new)
    });
    let failed = |error: WriteError<std::convert::Infallible>| error.to_string();
    written.map(drop).map_err(failed)
}

pub(super) fn patience(config: &Config) -> Patience {
    let built_in = Patience::default();
    let number = |key: &str| {
        let at = config.at(&["gateway", "auth", "rateLimit", key])?;
        format!("{:.0}", at.node.as_number()?).parse::<u64>().ok().filter(|number| *number > 0)
    };
    let duration =
        |key: &str, built_in: Duration| number(key).map_or(built_in, Duration::from_millis);
    let exempt = config.at(&["gateway", "auth", "rateLimit", "exemptLoopback"]);
    let is_counted = exempt.is_some_and(|at| at.node.as_bool() == Some(false));
    let attempts = number("maxAttempts").and_then(|number| u32::try_from(number).ok());
    Patience {
        attempts: attempts.unwrap_or(built_in.attempts),
        window: duration("windowMs", built_in.window),
        lockout: duration("lockoutMs", built_in.lockout),
        own_programs: if is_counted { OwnPrograms::Counted } else { OwnPrograms::Exempt },
    }
}
