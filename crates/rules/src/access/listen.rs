//! Decides where the gateway listens and who may log in with what, or why it must not start.
//!
//! Takes the `gateway` part of the config and what flags and variables say; gives a [`Listen`], or a
//! refusal that names the key to change. A gateway that others can reach without a secret never starts.

use std::net::Ipv4Addr;

use super::proxy::TrustedProxies;
use crate::config::Config;
use crate::config::tree::Node;

/// The port, if nothing names another.
pub const DEFAULT_PORT: u16 = 18_789;

/// What was said beside the config: flags win over it, variables lose to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Said<'a> {
    pub port: Option<u16>,
    /// `OPENCLAW_GATEWAY_PORT`.
    pub port_variable: Option<&'a str>,
    pub bind: Option<&'a str>,
    /// The address of this machine in 100.64.0.0/10, if it has one: a fact, not a wish.
    pub tailnet: Option<Ipv4Addr>,
    /// `OPENCLAW_GATEWAY_TOKEN` and `OPENCLAW_GATEWAY_PASSWORD`.
    pub token_variable: Option<&'a str>,
    pub password_variable: Option<&'a str>,
    /// `--allow-unconfigured`.
    pub unconfigured: Unconfigured,
}

/// What a config without `gateway.mode: "local"` means.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Unconfigured {
    #[default]
    Refuse,
    Start,
}

/// Where to listen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listen {
    pub port: u16,
    pub bind: Bind,
    pub secret: Secret,
    pub proxies: TrustedProxies,
}

/// Which addresses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Bind {
    /// This machine only, on both families.
    Loopback,
    /// Whoever can reach us.
    Lan,
    /// One address that the config names.
    Custom(Ipv4Addr),
}

/// What a client must show.
#[derive(Clone, PartialEq, Eq)]
pub enum Secret {
    /// `None`: none is configured yet, so one must be made.
    Token(Option<String>),
    Password(String),
    None,
}

impl std::fmt::Debug for Secret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Token(Some(_)) => "Token(***)",
            Self::Token(None) => "Token(none yet)",
            Self::Password(_) => "Password(***)",
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
            Self::None => "none",
        }
    }
}

/// Why the gateway must not start.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ListenRefusal {
    #[error(
        "`gateway.mode` is not `local`; set it in the config, or start with `--allow-unconfigured`"
    )]
    NotConfigured,
    #[error("`{found}` is no port; give a number from 1 to 65535")]
    Port { found: String },
    #[error("`gateway.bind` is `{found}`; write `loopback`, `lan`, `tailnet`, `auto` or `custom`")]
    UnknownBind { found: String },
    #[error("`gateway.trustedProxies` holds `{found}`, which is neither an address nor a range")]
    Proxy { found: String },
    #[error("`gateway.customBindHost` must be an IPv4 address; found `{found}`")]
    CustomHost { found: String },
    #[error(
        "`gateway.bind` is `{bind}`, so others can reach the gateway, but no token or password guards it; \
         set `gateway.auth.token`"
    )]
    OpenToOthers { bind: &'static str },
    #[error(
        "both `gateway.auth.token` and `gateway.auth.password` are set; say in `gateway.auth.mode` which counts"
    )]
    TwoSecrets,
    #[error("`gateway.auth.mode` is `password`, but `gateway.auth.password` is not set")]
    NoPassword,
    #[error("`gateway.auth.mode` is `{found}`; write `token`, `password` or `none`")]
    UnknownMode { found: String },
    #[error("`{key}` is set, which this build does not enforce; remove it")]
    NotEnforced { key: &'static str },
    #[error(
        "`{key}` refers to a secret elsewhere, which this build cannot look up; write it as `${{NAME}}`"
    )]
    Reference { key: &'static str },
}

/// What the config may say and this build does not do: each would open or close something.
const NOT_ENFORCED: &[(&[&str], &str)] = &[
    (&["tls"], "gateway.tls"),
    (&["auth", "trustedProxy"], "gateway.auth.trustedProxy"),
    (
        &["controlUi", "dangerouslyDisableDeviceAuth"],
        "gateway.controlUi.dangerouslyDisableDeviceAuth",
    ),
    (&["controlUi", "allowInsecureAuth"], "gateway.controlUi.allowInsecureAuth"),
];

/// Decides where to listen.
pub fn decide(config: &Config, said: &Said<'_>) -> Result<Listen, ListenRefusal> {
    let text = |keys: &[&str]| config.at(keys).and_then(|at| at.node.as_str().map(str::to_owned));
    let is_local = text(&["gateway", "mode"]).as_deref() == Some("local");
    if !is_local && said.unconfigured == Unconfigured::Refuse {
        return Err(ListenRefusal::NotConfigured);
    }
    for (keys, key) in NOT_ENFORCED {
        let set = config.at(&["gateway"]).and_then(|gateway| gateway.path(keys));
        if set.is_some_and(|at| at.node.as_bool() != Some(false)) {
            return Err(ListenRefusal::NotEnforced { key });
        }
    }
    let port = port(config, said)?;
    let word = said.bind.map(str::to_owned).or_else(|| text(&["gateway", "bind"]));
    let bind = bind(word, config, said.tailnet)?;
    let listed = config.at(&["gateway", "trustedProxies"]).and_then(|at| at.strings());
    let proxies = TrustedProxies::parse(&listed.unwrap_or_default())
        .map_err(|found| ListenRefusal::Proxy { found })?;
    let secret = secret(config, said)?;
    let name = match bind {
        Bind::Loopback => None,
        Bind::Lan => Some("lan"),
        Bind::Custom(address) if address.is_loopback() => None,
        Bind::Custom(_) => Some("custom"),
    };
    let is_guarded = match &secret {
        Secret::Token(token) => token.is_some(),
        Secret::Password(_) => true,
        Secret::None => false,
    };
    match name {
        Some(bind) if !is_guarded => Err(ListenRefusal::OpenToOthers { bind }),
        Some(_) | None => Ok(Listen { port, bind, secret, proxies }),
    }
}

fn port(config: &Config, said: &Said<'_>) -> Result<u16, ListenRefusal> {
    let valid = |number: f64| {
        let whole = format!("{number}").parse::<u16>().ok().filter(|port| *port > 0);
        whole.ok_or_else(|| ListenRefusal::Port { found: number.to_string() })
    };
    if let Some(port) = said.port {
        // Port 0 asks the kernel for any free one: for tests and for those who embed us.
        return Ok(port);
    }
    if let Some(text) = said.port_variable.map(str::trim).filter(|text| !text.is_empty()) {
        let port = text.parse::<u16>().ok().filter(|port| *port > 0);
        return port.ok_or_else(|| ListenRefusal::Port { found: text.to_owned() });
    }
    match config.at(&["gateway", "port"]) {
        Some(at) => valid(at.node.as_number().unwrap_or(f64::NAN)),
        None => Ok(DEFAULT_PORT),
    }
}

fn bind(
    word: Option<String>,
    config: &Config,
    tailnet: Option<Ipv4Addr>,
) -> Result<Bind, ListenRefusal> {
    match word.as_deref() {
        // `auto` is this machine where it can be bound, and that is everywhere.
        None | Some("loopback" | "auto") => Ok(Bind::Loopback),
        Some("tailnet") => Ok(tailnet.map_or(Bind::Loopback, Bind::Custom)),
        Some("lan") => Ok(Bind::Lan),
        Some("custom") => {
            let at = config.at(&["gateway", "customBindHost"]);
            let found = at.as_ref().and_then(|at| at.node.as_str()).unwrap_or_default().trim();
            let address = found.parse::<Ipv4Addr>().ok();
            address
                .map(Bind::Custom)
                .ok_or_else(|| ListenRefusal::CustomHost { found: found.to_owned() })
        }
        Some(found) => Err(ListenRefusal::UnknownBind { found: found.to_owned() }),
    }
}

fn secret(config: &Config, said: &Said<'_>) -> Result<Secret, ListenRefusal> {
    let of = |name: &str, key: &'static str, variable: Option<&str>| {
        let at = config.at(&["gateway", "auth", name]);
        if at.as_ref().is_some_and(|at| at.node.as_object().is_some()) {
            return Err(ListenRefusal::Reference { key });
        }
        let written = at.as_ref().and_then(|at| at.node.as_str()).map(str::to_owned);
        let filled = |text: &String| !text.trim().is_empty();
        let variable = variable.map(str::to_owned).filter(filled);
        Ok(written.filter(filled).or(variable))
    };
    let token = of("token", "gateway.auth.token", said.token_variable)?;
    let password = of("password", "gateway.auth.password", said.password_variable)?;
    let mode = config.at(&["gateway", "auth", "mode"]);
    match mode.as_ref().and_then(|at| Node::as_str(at.node)) {
        None if token.is_some() && password.is_some() => Err(ListenRefusal::TwoSecrets),
        None => Ok(password.map_or(Secret::Token(token), Secret::Password)),
        Some("token") => Ok(Secret::Token(token)),
        Some("password") => password.map(Secret::Password).ok_or(ListenRefusal::NoPassword),
        Some("none") => Ok(Secret::None),
        Some("trusted-proxy") => {
            Err(ListenRefusal::NotEnforced { key: "gateway.auth.trustedProxy" })
        }
        Some(found) => Err(ListenRefusal::UnknownMode { found: found.to_owned() }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{json5, tree::FileId};

    fn ask(gateway: &str, said: Said<'_>) -> Result<Listen, ListenRefusal> {
        let text = format!("{{gateway: {gateway}}}");
        let config = Config::from_tree(json5::parse(&text, FileId(0)).unwrap().root, Vec::new());
        decide(&config, &said)
    }

    #[track_caller]
    fn refused(gateway: &str, expected: ListenRefusal) {
        assert_eq!(ask(gateway, Said::default()), Err(expected), "{gateway}");
    }

    #[test]
    fn a_plain_gateway_listens_on_this_machine_only() {
        assert_eq!(
            ask("{mode: 'local', auth: {token: 't'}}", Said::default()),
            Ok(Listen {
                port: 18_789,
                bind: Bind::Loopback,
                secret: Secret::Token(Some("t".to_owned())),
                proxies: TrustedProxies::default(),
            })
        );
    }

    #[test]
    fn the_tailnet_is_used_where_there_is_one_and_guarded_like_any_other() {
        let address = Ipv4Addr::new(100, 64, 1, 2);
        let said = Said { tailnet: Some(address), ..Said::default() };
        let bind = |gateway, said| ask(gateway, said).map(|listen| listen.bind);
        let guarded = "{mode: 'local', bind: 'tailnet', auth: {token: 't'}}";
        assert_eq!(bind(guarded, said), Ok(Bind::Custom(address)));
        assert_eq!(bind(guarded, Said::default()), Ok(Bind::Loopback));
        assert_eq!(
            bind("{mode: 'local', bind: 'tailnet'}", said),
            Err(ListenRefusal::OpenToOthers { bind: "custom" })
        );
        assert_eq!(bind("{mode: 'local', bind: 'auto'}", said), Ok(Bind::Loopback));
    }

    #[test]
    fn nobody_else_reaches_a_gateway_without_a_secret() {
        refused("{mode: 'local', bind: 'lan'}", ListenRefusal::OpenToOthers { bind: "lan" });
        refused(
            "{mode: 'local', bind: 'lan', auth: {mode: 'none', token: 't'}}",
            ListenRefusal::OpenToOthers { bind: "lan" },
        );
        refused(
            "{mode: 'local', bind: 'custom', customBindHost: '10.0.0.1', auth: {token: ' '}}",
            ListenRefusal::OpenToOthers { bind: "custom" },
        );
        assert!(ask("{mode: 'local', bind: 'lan', auth: {token: 't'}}", Said::default()).is_ok());
    }

    #[test]
    fn what_is_unclear_or_not_enforced_does_not_start() {
        refused("{}", ListenRefusal::NotConfigured);
        refused("{mode: 'remote'}", ListenRefusal::NotConfigured);
        refused("{mode: 'local', port: 70000}", ListenRefusal::Port { found: "70000".to_owned() });
        refused("{mode: 'local', port: 1.5}", ListenRefusal::Port { found: "1.5".to_owned() });
        refused("{mode: 'local', bind: 'x'}", ListenRefusal::UnknownBind { found: "x".to_owned() });
        refused("{mode: 'local', auth: {token: 'a', password: 'b'}}", ListenRefusal::TwoSecrets);
        refused("{mode: 'local', auth: {mode: 'password'}}", ListenRefusal::NoPassword);
        refused(
            "{mode: 'local', trustedProxies: ['proxy']}",
            ListenRefusal::Proxy { found: "proxy".to_owned() },
        );
        refused(
            "{mode: 'local', auth: {token: {source: 'env', id: 'X'}}}",
            ListenRefusal::Reference { key: "gateway.auth.token" },
        );
        refused(
            "{mode: 'local', bind: 'custom', customBindHost: 'host'}",
            ListenRefusal::CustomHost { found: "host".to_owned() },
        );
    }

    #[test]
    fn flags_win_over_variables_and_variables_over_the_built_in_port() {
        let said = Said { port_variable: Some("7000"), ..Said::default() };
        assert_eq!(ask("{mode: 'local', port: 8000}", said).unwrap().port, 7000);
        let said = Said { port: Some(0), ..said };
        assert_eq!(ask("{mode: 'local', port: 8000}", said).unwrap().port, 0);
        let said = Said { token_variable: Some("v"), ..Said::default() };
        let secret = |gateway| ask(gateway, said).unwrap().secret;
        assert_eq!(secret("{mode: 'local'}"), Secret::Token(Some("v".to_owned())));
        assert_eq!(
            secret("{mode: 'local', auth: {token: 'c'}}"),
            Secret::Token(Some("c".to_owned()))
        );
        assert_eq!(format!("{:?}", secret("{mode: 'local'}")), "Token(***)");
    }
}
