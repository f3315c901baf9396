//! The keys of `gateway`: those that this build enforces, with what they do, and the others that either
//! release of the reference knows.

use super::{
    COUNT, FILLED, NUMBER, POSITIVE_INTEGER, SECRET, TEXT, TEXTS, field, other, required, strict,
};
use crate::config::schema::{Field, ObjectSchema, Schema};

pub(super) static GATEWAY: ObjectSchema = strict(&[
    field("port", POSITIVE_INTEGER, "built-in: 18789"),
    field("mode", Schema::Words(&["local", "remote"]), "local: a gateway may start here"),
    field(
        "bind",
        Schema::Words(&["auto", "lan", "loopback", "custom", "tailnet"]),
        "who can reach it; built-in: loopback",
    ),
    field("customBindHost", TEXT, "the IPv4 address of bind custom"),
    other("publicOrigin"),
    field("portals", Schema::Any, "not enforced: its ingress refuses the start"),
    field("controlUi", Schema::Object(&CONTROL_UI), "pages that control the gateway"),
    other("cliAgents"),
    other("terminal"),
    field("auth", Schema::Object(&AUTH), "who may log in"),
    field("roles", Schema::Any, "not enforced: refuses the start"),
    field("trustedProxies", TEXTS, "addresses or ranges whose forwarding headers are believed"),
    field("allowRealIpFallback", Schema::Bool, "true: X-Real-IP of those proxies counts, too"),
    field("tools", Schema::Object(&TOOLS), "what can be called over HTTP"),
    field("channelHealthCheckMinutes", COUNT, ""),
    field("channelStaleEventThresholdMinutes", POSITIVE_INTEGER, ""),
    field("channelMaxRestartsPerHour", POSITIVE_INTEGER, ""),
    field("tailscale", Schema::Object(&TAILSCALE), "only mode off is enforced"),
    field("remote", Schema::Object(&REMOTE), "the gateway that clients here talk to"),
    field("reload", Schema::Object(&RELOAD), "what the reference does when the config changes"),
    field("tls", Schema::Object(&TLS), "TLS on the gateway's port"),
    field("http", Schema::Object(&HTTP), "HTTP on the gateway's port"),
    field("push", Schema::Object(&PUSH), ""),
    field("nodes", Schema::Object(&NODES), ""),
]);

static CONTROL_UI: ObjectSchema = strict(&[
    field("enabled", Schema::Bool, "false: there is no page, and no list of pages is needed"),
    field("basePath", TEXT, ""),
    field("root", TEXT, ""),
    field("allowedOrigins", TEXTS, "pages that may talk to the gateway, as scheme://host:port"),
    field(
        "dangerouslyAllowHostHeaderOriginFallback",
        Schema::Bool,
        "true: a page may talk to the host it came from, whatever its name",
    ),
    field("allowInsecureAuth", Schema::Bool, "true: control pages of this machine need no device"),
    field("dangerouslyDisableDeviceAuth", Schema::Bool, "true: no control page needs a device"),
    other("experimental"),
    other("environment"),
    other("communityInvite"),
    other("github"),
    other("sessionObserver"),
    other("embedSandbox"),
    other("allowExternalEmbedUrls"),
    other("automaticallyFetchFavicons"),
]);

static AUTH: ObjectSchema = strict(&[
    field(
        "mode",
        Schema::Words(&["none", "token", "password", "trusted-proxy"]),
        "what a client must show",
    ),
    field("token", SECRET, "made and written down if there is none"),
    field("password", SECRET, "for mode password"),
    field("allowTailscale", Schema::Bool, "not enforced: true refuses the start"),
    field("identityScopes", Schema::Any, "not enforced: refuses the start"),
    field("rateLimit", Schema::Object(&RATE_LIMIT), "how wrong secrets are put up with"),
    field("trustedProxy", Schema::Object(&TRUSTED_PROXY), "for mode trusted-proxy"),
]);

static RATE_LIMIT: ObjectSchema = strict(&[
    field("maxAttempts", NUMBER, "built-in: 10"),
    field("windowMs", NUMBER, "built-in: 60000"),
    field("lockoutMs", NUMBER, "built-in: 300000"),
    field("exemptLoopback", Schema::Bool, "false: programs of this machine are counted, too"),
]);

static TRUSTED_PROXY: ObjectSchema = strict(&[
    required("userHeader", FILLED, "the header in which the proxy names the user"),
    field("requiredHeaders", TEXTS, "headers that must be there as well"),
    field("allowUsers", TEXTS, "only these users; empty: all that the proxy names"),
    field("allowLoopback", Schema::Bool, "false: no proxy on this machine is believed"),
    field("cloudflareAccessOidc", Schema::Any, "not enforced: refuses the start"),
    field("deviceAutoApprove", Schema::Any, "not enforced: refuses the start when enabled"),
]);

static TOOLS: ObjectSchema = strict(&[
    field("deny", TEXTS, "never these over HTTP"),
    field("allow", TEXTS, "open these over HTTP too: sessions_send, sessions_spawn"),
]);

static TAILSCALE: ObjectSchema = strict(&[
    field("mode", Schema::Words(&["off", "serve", "funnel"]), "others than off refuse the start"),
    field("resetOnExit", Schema::Bool, ""),
    field("preserveFunnel", Schema::Bool, ""),
]);

static REMOTE: ObjectSchema = strict(&[
    field("url", TEXT, ""),
    field("transport", Schema::Words(&["ssh", "direct"]), ""),
    field("token", SECRET, ""),
    field("password", SECRET, ""),
    field("tlsFingerprint", TEXT, ""),
    field("sshTarget", TEXT, ""),
    field("sshIdentity", TEXT, ""),
    other("edgeAuth"),
    other("remotePort"),
    other("sshHostKeyPolicy"),
]);

static RELOAD: ObjectSchema = strict(&[
    field("mode", Schema::Words(&["off", "restart", "hot", "hybrid"]), ""),
    field("debounceMs", COUNT, ""),
    field("deferralTimeoutMs", COUNT, ""),
]);

static TLS: ObjectSchema = strict(&[
    field("enabled", Schema::Bool, "true: the port speaks TLS, and nothing else"),
    field("autoGenerate", Schema::Bool, "false: a missing certificate refuses the start"),
    field("certPath", TEXT, "the certificate and its chain, in PEM"),
    field("keyPath", TEXT, "its key, in PEM"),
    field("caPath", TEXT, "authorities that must have signed it, in PEM"),
]);

static HTTP: ObjectSchema = strict(&[
    field("endpoints", Schema::Object(&ENDPOINTS), ""),
    field("securityHeaders", Schema::Object(&SECURITY_HEADERS), "headers of every answer"),
]);

static SECURITY_HEADERS: ObjectSchema = strict(&[field(
    "strictTransportSecurity",
    Schema::Either(&[TEXT, Schema::Bool]),
    "the value of Strict-Transport-Security, or false",
)]);

static ENDPOINTS: ObjectSchema = strict(&[
    field("chatCompletions", Schema::Object(&CHAT_COMPLETIONS), ""),
    field("responses", Schema::Object(&RESPONSES), ""),
]);

static CHAT_COMPLETIONS: ObjectSchema = strict(&[
    field("enabled", Schema::Bool, ""),
    field("maxBodyBytes", POSITIVE_INTEGER, ""),
    field("maxImageParts", COUNT, ""),
    field("maxTotalImageBytes", POSITIVE_INTEGER, ""),
    field("images", Schema::Object(&IMAGES), ""),
]);

static RESPONSES: ObjectSchema = strict(&[
    field("enabled", Schema::Bool, ""),
    field("maxBodyBytes", POSITIVE_INTEGER, ""),
    field("maxUrlParts", COUNT, ""),
    field("files", Schema::Object(&FILES), ""),
    field("images", Schema::Object(&IMAGES), ""),
]);

macro_rules! fetched {
    ($($more:expr),*) => {
        &[
            field("allowUrl", Schema::Bool, ""),
            field("urlAllowlist", TEXTS, ""),
            field("allowedMimes", TEXTS, ""),
            field("maxBytes", POSITIVE_INTEGER, ""),
            field("maxRedirects", COUNT, ""),
            field("timeoutMs", POSITIVE_INTEGER, ""),
            $($more),*
        ]
    };
}

static IMAGES: ObjectSchema = strict(fetched!());
static FILES: ObjectSchema = strict(fetched!(
    field("maxChars", POSITIVE_INTEGER, ""),
    field("pdf", Schema::Object(&PDF), "")
));
static PDF: ObjectSchema = strict(PDF_FIELDS);
static PDF_FIELDS: &[Field] = &[
    field("maxPages", POSITIVE_INTEGER, ""),
    field("maxPixels", POSITIVE_INTEGER, ""),
    field("minTextChars", COUNT, ""),
];

static PUSH: ObjectSchema = strict(&[field("apns", Schema::Object(&APNS), "")]);
static APNS: ObjectSchema = strict(&[field("relay", Schema::Object(&RELAY), "")]);
static RELAY: ObjectSchema =
    strict(&[field("baseUrl", TEXT, ""), field("timeoutMs", POSITIVE_INTEGER, "")]);

static NODES: ObjectSchema = strict(&[
    field("browser", Schema::Object(&NODE_BROWSER), ""),
    field("allowCommands", TEXTS, ""),
    field("denyCommands", TEXTS, ""),
    other("pairing"),
    other("pluginTools"),
    other("allowSkills"),
    other("commands"),
]);

static NODE_BROWSER: ObjectSchema = strict(&[
    field("mode", Schema::Words(&["auto", "manual", "off"]), ""),
    field("node", TEXT, ""),
]);
