//! Decides where the gateway listens and who may log in with what, or why it must not start.
//!
//! Takes the `gateway` part of the config and what flags and variables say; gives a [`Listen`], or a
//! refusal that names the key to change. A gateway that others can reach without a secret never starts.

mod refusal;
mod secret;

use std::net::Ipv4Addr;

pub use refusal::ListenRefusal;
pub use secret::Secret;

use super::connect::DeviceRule;
use super::origin::OriginRules;
use super::proxy::{RealIp, TrustedProxies};
use super::tls::{self, TlsWanted};
use super::trusted_user::LoopbackProxies;
use crate::config::Config;

/// The port, if nothing names another.
pub const DEFAULT_PORT: u16 = 18_789;

/// What was said beside the config: flags win over it, variables lose to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Said<'a> {
    pub port: Option<u16>,
    /// `OPENCLAW_GATEWAY_PORT`.
    pub port_variable: Option<&'a str>,
    pub bind: Option<&'a str>,
    /// `--auth`, `--token` and `--password`.
    pub mode: Option<&'a str>,
    pub token: Option<&'a str>,
    pub password: Option<&'a str>,
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
    pub tls: Option<TlsWanted>,
    pub origins: OriginRules,
    /// The allowed pages must be written into the config before anything is opened.
    pub seed: Seed,
    /// When control pages need a device.
    pub devices: DeviceRule,
    /// `gateway.http.securityHeaders.strictTransportSecurity`.
    pub strict_transport: Option<String>,
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

impl Bind {
    /// The word for an address that others can reach.
    const fn reachable(self) -> Option<&'static str> {
        match self {
            Self::Loopback => None,
            Self::Lan => Some("lan"),
            Self::Custom(address) if address.is_loopback() => None,
            Self::Custom(_) => Some("custom"),
        }
    }
}

/// Whether the list of allowed pages is to be filled in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Seed {
    No,
    /// Others can reach the control page, and the config says nothing about pages.
    Yes,
}

/// What the config may say and this build does not do: each would open or close something.
const NOT_ENFORCED: &[(&[&str], &str)] = &[
    (&["auth", "allowTailscale"], "gateway.auth.allowTailscale"),
    (&["auth", "identityScopes"], "gateway.auth.identityScopes"),
    (
        &["auth", "trustedProxy", "cloudflareAccessOidc"],
        "gateway.auth.trustedProxy.cloudflareAccessOidc",
    ),
    (
        &["auth", "trustedProxy", "deviceAutoApprove", "enabled"],
        "gateway.auth.trustedProxy.deviceAutoApprove",
    ),
    (&["roles"], "gateway.roles"),
    (&["portals", "ingress"], "gateway.portals.ingress"),
];

/// Decides where to listen.
pub fn decide(config: &Config, said: &Said<'_>) -> Result<Listen, ListenRefusal> {
    let text = |keys: &[&str]| config.at(keys).and_then(|at| at.node.as_str().map(str::to_owned));
    let is_local = text(&["gateway", "mode"]).as_deref() == Some("local");
    if !is_local && said.unconfigured == Unconfigured::Refuse {
        return Err(ListenRefusal::NotConfigured);
    }
    check_enforced(config)?;
    let port = port(config, said)?;
    let word = said.bind.map(str::to_owned).or_else(|| text(&["gateway", "bind"]));
    let bind = bind(word, config, said.tailnet)?;
    let proxies = proxies(config)?;
    let secret = secret::decide(config, said)?;
    check_guarded(bind, &secret, &proxies)?;
    let origins = origins(config);
    let flag = |keys: &[&str]| config.at(keys).and_then(|at| at.node.as_bool());
    let has_page = flag(&["gateway", "controlUi", "enabled"]) != Some(false);
    let says_nothing = origins.allowed.iter().all(|origin| origin.trim().is_empty())
        && !origins.host_header_counts;
    let is_open = bind.reachable().is_some() && has_page && says_nothing;
    let strict = ["gateway", "http", "securityHeaders", "strictTransportSecurity"];
    Ok(Listen {
        port,
        bind,
        secret,
        proxies,
        tls: tls::decide(config)?,
        origins,
        seed: if is_open { Seed::Yes } else { Seed::No },
        devices: devices(config),
        strict_transport: text(&strict).filter(|text| !text.trim().is_empty()),
    })
}

/// The pages that are allowed where the config says nothing: those of this machine, and those that the
/// gateway itself would serve under its address.
pub fn seeded_origins(port: u16, bind: Bind, tls: Option<&TlsWanted>) -> Vec<String> {
    let scheme = if tls.is_some() { "https" } else { "http" };
    let mut hosts = vec!["localhost".to_owned(), "127.0.0.1".to_owned()];
    match bind {
        Bind::Loopback | Bind::Lan => {}
        Bind::Custom(address) => hosts.push(address.to_string()),
    }
    hosts.iter().map(|host| format!("{scheme}://{host}:{port}")).collect()
}

fn check_enforced(config: &Config) -> Result<(), ListenRefusal> {
    for (keys, key) in NOT_ENFORCED {
        let set = config.at(&["gateway"]).and_then(|gateway| gateway.path(keys));
        if set.is_some_and(|at| at.node.as_bool() != Some(false)) {
            return Err(ListenRefusal::NotEnforced { key });
        }
    }
    let tailscale = config.at(&["gateway", "tailscale", "mode"]);
    match tailscale.as_ref().and_then(|at| at.node.as_str()) {
        None | Some("off") => Ok(()),
        Some(_) => Err(ListenRefusal::NotEnforced { key: "gateway.tailscale.mode" }),
    }
}

/// Who can reach the gateway must show something.
fn check_guarded(
    bind: Bind,
    secret: &Secret,
    proxies: &TrustedProxies,
) -> Result<(), ListenRefusal> {
    let is_guarded = match secret {
        Secret::Token(token) => token.is_some(),
        Secret::Password(_) => true,
        Secret::None => false,
        Secret::Proxy(_) if proxies.is_empty() => return Err(ListenRefusal::NoProxies),
        Secret::Proxy(_) if proxies.is_everybody() => return Err(ListenRefusal::EverybodyIsProxy),
        Secret::Proxy(users) => {
            let is_here =
                proxies.holds_this_machine() && users.loopback == LoopbackProxies::Believed;
            if bind.reachable().is_none() && !is_here {
                return Err(ListenRefusal::NoProxyHere);
            }
            true
        }
    };
    match bind.reachable() {
        Some(bind) if !is_guarded => Err(ListenRefusal::OpenToOthers { bind }),
        Some(_) | None => Ok(()),
    }
}

fn proxies(config: &Config) -> Result<TrustedProxies, ListenRefusal> {
    let listed = config.at(&["gateway", "trustedProxies"]).and_then(|at| at.strings());
    let proxies = TrustedProxies::parse(&listed.unwrap_or_default())
        .map_err(|found| ListenRefusal::Proxy { found })?;
    let fallback = config.at(&["gateway", "allowRealIpFallback"]);
    let counts = fallback.is_some_and(|at| at.node.as_bool() == Some(true));
    Ok(proxies.with_real_ip(if counts { RealIp::Counts } else { RealIp::Ignored }))
}

fn origins(config: &Config) -> OriginRules {
    let allowed = config.at(&["gateway", "controlUi", "allowedOrigins"]);
    let fallback = config.at(&["gateway", "controlUi", "dangerouslyAllowHostHeaderOriginFallback"]);
    OriginRules {
        allowed: allowed.and_then(|at| at.strings()).unwrap_or_default(),
        host_header_counts: fallback.is_some_and(|at| at.node.as_bool() == Some(true)),
    }
}

fn devices(config: &Config) -> DeviceRule {
    let is_set = |key: &str| {
        let at = config.at(&["gateway", "controlUi", key]);
        at.is_some_and(|at| at.node.as_bool() == Some(true))
    };
    match (is_set("dangerouslyDisableDeviceAuth"), is_set("allowInsecureAuth")) {
        (true, _) => DeviceRule::Never,
        (false, true) => DeviceRule::NotLocally,
        (false, false) => DeviceRule::Always,
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
        // `auto` is this machine where it can be bound, and that is everywhere: it never falls back to
        // every address, as the reference's does.
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

#[cfg(test)]
mod tests;
