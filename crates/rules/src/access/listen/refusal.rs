//! Why a gateway must not start, each with what to change.

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
    #[error("`--auth token` was given without a token; add `--token`, or set `gateway.auth.token`")]
    NoToken,
    #[error(
        "`gateway.auth.mode` is `{found}`; write `token`, `password`, `none` or `trusted-proxy`"
    )]
    UnknownMode { found: String },
    #[error(
        "`gateway.auth.mode` is `trusted-proxy`, but `gateway.trustedProxies` names no proxy; write its address there"
    )]
    NoProxies,
    #[error(
        "`gateway.trustedProxies` names every address, so anybody could say who he is; write the proxy's own address"
    )]
    EverybodyIsProxy,
    #[error(
        "`gateway.auth.mode` is `trusted-proxy` and the gateway listens on this machine only, where \
         `gateway.trustedProxies` names no proxy; add `127.0.0.1`, or change `gateway.bind`"
    )]
    NoProxyHere,
    #[error(
        "`gateway.auth.mode` is `trusted-proxy`, but `gateway.auth.trustedProxy.userHeader` is not set; \
         write the header in which the proxy names the user"
    )]
    NoUserHeader,
    #[error(
        "`{key}` is `{found}`, which a proxy cannot vouch with; name a header that only the proxy sets"
    )]
    BadHeader { key: &'static str, found: String },
    #[error(
        "`gateway.tls` names one of certificate and key, but not `{missing}`; name both or neither"
    )]
    HalfTls { missing: &'static str },
    #[error("`{key}` is set, which this build does not enforce; remove it")]
    NotEnforced { key: &'static str },
    #[error(
        "`{key}` refers to a secret elsewhere, which this build cannot look up; write it as `${{NAME}}`"
    )]
    Reference { key: &'static str },
}
