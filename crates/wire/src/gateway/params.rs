//! The parameters of every method, as data: one table that checks requests and prints the reference.

mod cron;

use super::shape::{FILLED, Field, Form, Shape, TEXT, needed, optional};

/// The parameters of `connect`.
pub static CONNECT: Shape = Shape::Object(&[
    needed("minProtocol", POSITIVE),
    needed("maxProtocol", POSITIVE),
    needed("client", Shape::Object(CLIENT)),
    optional("caps", Shape::List(&FILLED)),
    optional("commands", Shape::List(&FILLED)),
    optional("permissions", Shape::Map(&Shape::Bool)),
    optional("pathEnv", TEXT),
    optional("role", FILLED),
    optional("scopes", Shape::List(&FILLED)),
    optional("device", Shape::Object(DEVICE)),
    optional("auth", Shape::Object(AUTH)),
    optional("locale", TEXT),
    optional("userAgent", TEXT),
]);

const POSITIVE: Shape = Shape::Integer { least: 1, most: i64::MAX };

const CLIENT: &[Field] = &[
    needed("id", Shape::Words(CLIENT_IDS)),
    optional("displayName", FILLED),
    needed("version", FILLED),
    needed("platform", FILLED),
    optional("deviceFamily", FILLED),
    optional("modelIdentifier", FILLED),
    needed("mode", Shape::Words(&["webchat", "cli", "ui", "backend", "node", "probe", "test"])),
    optional("instanceId", FILLED),
];

const CLIENT_IDS: &[&str] = &[
    "webchat-ui",
    "openclaw-control-ui",
    "openclaw-tui",
    "webchat",
    "cli",
    "gateway-client",
    "openclaw-macos",
    "openclaw-ios",
    "openclaw-android",
    "node-host",
    "test",
    "fingerprint",
    "openclaw-probe",
];

const DEVICE: &[Field] = &[
    needed("id", FILLED),
    needed("publicKey", FILLED),
    needed("signature", FILLED),
    needed("signedAt", Shape::Integer { least: 0, most: i64::MAX }),
    needed("nonce", TEXT),
];

const AUTH: &[Field] = &[
    optional("token", TEXT),
    optional("bootstrapToken", TEXT),
    optional("deviceToken", TEXT),
    optional("password", TEXT),
];

/// No parameters at all.
static NONE: Shape = Shape::Object(&[]);

/// None that mean anything; the reference does not look, so clients may send some.
static OPEN: Shape = Shape::Open(&[]);

static SESSION_KEY: Shape = Shape::Text { least: 1, most: 512 };

/// The methods that this build has, with their parameters: what `hello-ok` lists.
pub static METHODS: &[(&str, &Shape)] = &[
    ("health", &Shape::Open(&[optional("probe", Shape::Bool)])),
    ("status", &OPEN),
    ("config.get", &NONE),
    ("config.set", &Shape::Object(&[needed("raw", FILLED), optional("baseHash", FILLED)])),
    ("config.apply", &Shape::Object(CONFIG_WRITE)),
    ("config.patch", &Shape::Object(CONFIG_WRITE)),
    ("config.schema", &NONE),
    ("config.schema.lookup", &Shape::Object(&[needed("path", Shape::Formed(&CONFIG_PATH))])),
    ("exec.approvals.get", &NONE),
    (
        "exec.approvals.set",
        &Shape::Object(&[
            needed("file", Shape::Object(APPROVALS_FILE)),
            optional("baseHash", FILLED),
        ]),
    ),
    ("agents.list", &NONE),
    (
        "agents.create",
        &Shape::Object(&[
            needed("name", FILLED),
            needed("workspace", FILLED),
            optional("emoji", TEXT),
            optional("avatar", TEXT),
        ]),
    ),
    (
        "agents.update",
        &Shape::Object(&[
            needed("agentId", FILLED),
            optional("name", FILLED),
            optional("workspace", FILLED),
            optional("model", FILLED),
            optional("avatar", TEXT),
        ]),
    ),
    (
        "agents.delete",
        &Shape::Object(&[needed("agentId", FILLED), optional("deleteFiles", Shape::Bool)]),
    ),
    ("agents.files.list", &Shape::Object(&[needed("agentId", FILLED)])),
    ("agents.files.get", &Shape::Object(&[needed("agentId", FILLED), needed("name", FILLED)])),
    (
        "agents.files.set",
        &Shape::Object(&[
            needed("agentId", FILLED),
            needed("name", FILLED),
            needed("content", TEXT),
        ]),
    ),
    (
        "agent.identity.get",
        &Shape::Object(&[optional("agentId", FILLED), optional("sessionKey", TEXT)]),
    ),
    ("sessions.list", &Shape::Object(SESSIONS_LIST)),
    (
        "sessions.preview",
        &Shape::Object(&[
            needed("keys", Shape::Items(&FILLED)),
            optional("limit", POSITIVE),
            optional("maxChars", Shape::Integer { least: 20, most: i64::MAX }),
        ]),
    ),
    (
        "sessions.resolve",
        &Shape::Object(&[
            optional("key", FILLED),
            optional("sessionId", FILLED),
            optional("label", LABEL),
            optional("agentId", FILLED),
            optional("spawnedBy", FILLED),
            optional("includeGlobal", Shape::Bool),
            optional("includeUnknown", Shape::Bool),
        ]),
    ),
    ("sessions.patch", &Shape::Object(SESSIONS_PATCH)),
    (
        "sessions.reset",
        &Shape::Object(&[
            needed("key", FILLED),
            optional("reason", Shape::Words(&["new", "reset"])),
        ]),
    ),
    (
        "sessions.delete",
        &Shape::Object(&[
            needed("key", FILLED),
            optional("deleteTranscript", Shape::Bool),
            // Nothing here listens to them.
            optional("emitLifecycleHooks", Shape::Bool),
        ]),
    ),
    (
        "sessions.create",
        &Shape::Object(&[
            optional("key", FILLED),
            optional("agentId", FILLED),
            optional("label", LABEL),
            optional("model", FILLED),
            optional("parentSessionKey", FILLED),
            optional("task", TEXT),
            optional("message", TEXT),
        ]),
    ),
    ("device.pair.list", &NONE),
    ("device.pair.approve", &Shape::Object(&[needed("requestId", FILLED)])),
    ("device.pair.reject", &Shape::Object(&[needed("requestId", FILLED)])),
    ("device.pair.remove", &Shape::Object(&[needed("deviceId", FILLED)])),
    ("device.token.revoke", &Shape::Object(&[needed("deviceId", FILLED), needed("role", FILLED)])),
    (
        "device.token.rotate",
        &Shape::Object(&[
            needed("deviceId", FILLED),
            needed("role", FILLED),
            optional("scopes", Shape::List(&FILLED)),
        ]),
    ),
    ("system-presence", &OPEN),
    (
        "logs.tail",
        &Shape::Object(&[
            optional("cursor", NOT_NEGATIVE),
            optional("limit", Shape::Integer { least: 1, most: 5000 }),
            optional("maxBytes", Shape::Integer { least: 1, most: 1_000_000 }),
        ]),
    ),
    ("gateway.identity.get", &OPEN),
    ("models.list", &NONE),
    (
        "tools.catalog",
        &Shape::Object(&[optional("agentId", FILLED), optional("includePlugins", Shape::Bool)]),
    ),
    (
        "tools.effective",
        &Shape::Object(&[optional("agentId", FILLED), needed("sessionKey", FILLED)]),
    ),
    ("skills.status", &Shape::Object(&[optional("agentId", FILLED)])),
    (
        "skills.install",
        &Shape::Object(&[
            needed("name", FILLED),
            needed("installId", FILLED),
            optional("timeoutMs", Shape::Integer { least: 1000, most: i64::MAX }),
        ]),
    ),
    (
        "skills.update",
        &Shape::Object(&[
            needed("skillKey", FILLED),
            optional("enabled", Shape::Bool),
            optional("apiKey", TEXT),
            optional("env", Shape::Map(&TEXT)),
        ]),
    ),
    ("cron.list", &Shape::Object(cron::LIST)),
    ("cron.status", &NONE),
    ("cron.add", &Shape::Object(cron::ADD)),
    ("cron.update", &Shape::Object(cron::UPDATE)),
    ("cron.remove", &Shape::Object(cron::ID)),
    ("cron.run", &Shape::Object(cron::RUN)),
    ("cron.runs", &Shape::Object(cron::RUNS)),
    (
        "usage.cost",
        &Shape::Open(&[
            optional("startDate", TEXT),
            optional("endDate", TEXT),
            optional("mode", Shape::Words(DATE_MODES)),
            optional("utcOffset", TEXT),
            optional("days", NOT_NEGATIVE),
        ]),
    ),
    (
        "sessions.usage",
        &Shape::Object(&[
            optional("key", FILLED),
            optional("startDate", Shape::Formed(&DATE)),
            optional("endDate", Shape::Formed(&DATE)),
            optional("mode", Shape::Words(DATE_MODES)),
            optional("utcOffset", Shape::Formed(&UTC_OFFSET)),
            optional("limit", POSITIVE),
            optional("includeContextWeight", Shape::Bool),
        ]),
    ),
    ("node.list", &NONE),
    ("sessions.get", &Shape::Open(&[needed("key", FILLED), optional("limit", POSITIVE)])),
    ("sessions.compact", &Shape::Object(&[needed("key", FILLED), optional("maxLines", POSITIVE)])),
    ("sessions.subscribe", &OPEN),
    ("sessions.unsubscribe", &OPEN),
    ("sessions.messages.subscribe", &Shape::Object(&[needed("key", FILLED)])),
    ("sessions.messages.unsubscribe", &Shape::Object(&[needed("key", FILLED)])),
    ("exec.approval.request", &Shape::Object(APPROVAL_REQUEST)),
    ("exec.approval.waitDecision", &Shape::Open(&[optional("id", TEXT)])),
    ("exec.approval.resolve", &Shape::Object(&[needed("id", FILLED), needed("decision", FILLED)])),
    ("exec.approval.list", &NONE),
    ("exec.approval.get", &Shape::Object(&[needed("id", FILLED)])),
    ("sandbox.list", &NONE),
    ("sandbox.explain", &Shape::Object(SANDBOX)),
    ("sandbox.facts", &Shape::Object(SANDBOX)),
    ("sandbox.recreate", &Shape::Object(SANDBOX)),
    (
        "sandbox.exec",
        &Shape::Object(&[
            optional("sessionKey", FILLED),
            optional("agentId", FILLED),
            needed("command", FILLED),
            optional("workdir", FILLED),
            optional("env", Shape::Map(&TEXT)),
            optional("timeout", POSITIVE),
            optional("yieldMs", POSITIVE),
            optional("background", Shape::Bool),
        ]),
    ),
    (
        "chat.send",
        &Shape::Object(&[
            needed("sessionKey", Shape::Text { least: 1, most: 512 }),
            needed("message", TEXT),
            needed("idempotencyKey", RUN_ID),
            optional("thinking", TEXT),
            optional("deliver", Shape::Bool),
            optional("attachments", Shape::List(&Shape::Any)),
            optional("timeoutMs", NOT_NEGATIVE),
            // Pages of ours send it; it asks for nothing that happens here.
            optional("echoUserMessage", Shape::Bool),
            // Who else a message came from: for those who may say so.
            optional("originatingChannel", TEXT),
            optional("originatingTo", TEXT),
            optional("originatingAccountId", TEXT),
            optional("originatingThreadId", TEXT),
            optional("systemInputProvenance", Shape::Object(PROVENANCE)),
            optional("systemProvenanceReceipt", TEXT),
        ]),
    ),
    (
        "chat.abort",
        &Shape::Object(&[
            needed("sessionKey", Shape::Text { least: 1, most: 512 }),
            optional("runId", FILLED),
        ]),
    ),
    (
        "chat.inject",
        &Shape::Object(&[
            needed("sessionKey", Shape::Text { least: 1, most: 512 }),
            needed("message", FILLED),
            optional("label", Shape::Text { least: 0, most: 100 }),
        ]),
    ),
    ("agent", &Shape::Object(AGENT)),
    ("agent.wait", &Shape::Object(&[needed("runId", FILLED), optional("timeoutMs", NOT_NEGATIVE)])),
    ("sessions.send", &Shape::Object(SESSIONS_SEND)),
    ("sessions.steer", &Shape::Object(SESSIONS_SEND)),
    ("sessions.abort", &Shape::Object(&[needed("key", FILLED), optional("runId", FILLED)])),
    (
        "wake",
        &Shape::Object(&[
            needed("mode", Shape::Words(&["now", "next-heartbeat"])),
            needed("text", LINE),
        ]),
    ),
    ("last-heartbeat", &OPEN),
    ("set-heartbeats", &Shape::Object(&[needed("enabled", Shape::Bool)])),
    ("system-event", &Shape::Object(SYSTEM_EVENT)),
    (
        "chat.history",
        &Shape::Object(&[
            needed("sessionKey", Shape::Text { least: 1, most: 512 }),
            optional("limit", POSITIVE),
        ]),
    ),
];

/// Methods that are answered as the protocol wants it where there is nothing to tell. They read nothing,
/// so `hello-ok` does not list them.
pub static EMPTY: &[(&str, &Shape)] = &[("channels.status", &CHANNELS), ("usage.status", &OPEN)];

static CHANNELS: Shape =
    Shape::Object(&[optional("probe", Shape::Bool), optional("timeoutMs", NOT_NEGATIVE)]);

/// A line for a session.
const LINE: Shape = Shape::Text { least: 1, most: 8000 };

/// A line, and what its sender tells of a machine.
const SYSTEM_EVENT: &[Field] = &[
    needed("text", LINE),
    optional("deviceId", ABOUT),
    optional("instanceId", ABOUT),
    optional("host", ABOUT),
    optional("ip", ABOUT),
    optional("mode", ABOUT),
    optional("version", ABOUT),
    optional("platform", ABOUT),
    optional("deviceFamily", ABOUT),
    optional("modelIdentifier", ABOUT),
    optional("lastInputSeconds", NOT_NEGATIVE),
    optional("reason", ABOUT),
    optional("roles", Shape::List(&ABOUT)),
    optional("scopes", Shape::List(&ABOUT)),
    optional("tags", Shape::List(&ABOUT)),
];

const ABOUT: Shape = Shape::Text { least: 0, most: 200 };

const NOT_NEGATIVE: Shape = Shape::Integer { least: 0, most: i64::MAX };

/// Whose days are meant: those of UTC, of this machine, or of `utcOffset`.
const DATE_MODES: &[&str] = &["utc", "gateway", "specific"];

static CONFIG_PATH: Form = Form {
    length: (1, 1024),
    pattern: r"^[A-Za-z0-9_./\[\]\-*]+$",
    fits: |text| {
        let is_known = |byte: u8| byte.is_ascii_alphanumeric() || b"_./[]-*".contains(&byte);
        !text.is_empty() && text.bytes().all(is_known)
    },
};
static DATE: Form =
    Form { length: (0, usize::MAX), pattern: r"^\d{4}-\d{2}-\d{2}$", fits: is_date };
static UTC_OFFSET: Form = Form {
    length: (0, usize::MAX),
    pattern: r"^UTC[+-]\d{1,2}(?::[0-5]\d)?$",
    fits: |text| utc_offset(text).is_some(),
};

fn is_date(text: &str) -> bool {
    let parts: Vec<&str> = text.split('-').collect();
    let is_number = |part: &str| part.bytes().all(|byte| byte.is_ascii_digit());
    matches!(parts.as_slice(), [year, month, day]
        if year.len() == 4 && month.len() == 2 && day.len() == 2
            && is_number(year) && is_number(month) && is_number(day))
}

/// The minutes that `UTC+2` or `UTC-05:30` is ahead of UTC.
pub fn utc_offset(text: &str) -> Option<i64> {
    let rest = text.strip_prefix("UTC")?;
    let sign = match rest.as_bytes().first()? {
        b'+' => 1,
        b'-' => -1,
        _ => return None,
    };
    let rest = rest.get(1..)?;
    let (hours, minutes) = match rest.split_once(':') {
        None => (rest, "00"),
        Some(both) => both,
    };
    let is_number = |part: &str| part.bytes().all(|byte| byte.is_ascii_digit());
    let is_sound = matches!(hours.len(), 1 | 2) && minutes.len() == 2;
    if !is_sound || !is_number(hours) || !is_number(minutes) {
        return None;
    }
    let (hours, minutes): (i64, i64) = (hours.parse().ok()?, minutes.parse().ok()?);
    (minutes < 60).then_some(sign * (hours * 60 + minutes))
}

/// Who a message really came from.
const PROVENANCE: &[Field] = &[
    needed("kind", Shape::Words(&["external_user", "inter_session", "internal_system"])),
    optional("originSessionId", TEXT),
    optional("sourceSessionKey", TEXT),
    optional("sourceChannel", TEXT),
    optional("sourceTool", TEXT),
];

/// A run's name, chosen by whoever asks for it.
const RUN_ID: Shape = Shape::Text { least: 1, most: 256 };

/// All that the reference takes; what this build has not is refused by its name, in the method.
const AGENT: &[Field] = &[
    needed("message", FILLED),
    needed("idempotencyKey", RUN_ID),
    optional("agentId", FILLED),
    optional("sessionId", FILLED),
    optional("sessionKey", FILLED),
    optional("thinking", TEXT),
    optional("timeout", NOT_NEGATIVE),
    optional("attachments", Shape::List(&Shape::Any)),
    optional("deliver", Shape::Bool),
    optional("bestEffortDeliver", Shape::Bool),
    optional("to", TEXT),
    optional("replyTo", TEXT),
    optional("channel", TEXT),
    optional("replyChannel", TEXT),
    optional("accountId", TEXT),
    optional("replyAccountId", TEXT),
    optional("threadId", TEXT),
    optional("lane", TEXT),
    optional("label", LABEL),
    optional("provider", TEXT),
    optional("model", TEXT),
    optional("extraSystemPrompt", TEXT),
    optional("inputProvenance", Shape::Object(PROVENANCE)),
    optional("internalEvents", Shape::List(&Shape::Any)),
    optional("groupId", TEXT),
    optional("groupChannel", TEXT),
    optional("groupSpace", TEXT),
];

const SESSIONS_SEND: &[Field] = &[
    needed("key", FILLED),
    needed("message", TEXT),
    optional("thinking", TEXT),
    optional("attachments", Shape::List(&Shape::Any)),
    optional("timeoutMs", NOT_NEGATIVE),
    optional("idempotencyKey", RUN_ID),
];

const SANDBOX: &[Field] = &[optional("sessionKey", FILLED), optional("agentId", FILLED)];

const APPROVAL_REQUEST: &[Field] = &[
    optional("id", FILLED),
    optional("command", FILLED),
    optional("commandArgv", Shape::List(&TEXT)),
    optional("systemRunPlan", Shape::Object(RUN_PLAN)),
    optional("env", Shape::Map(&TEXT)),
    optional("cwd", NULL_OR_ANY_TEXT),
    optional("nodeId", NULL_OR_TEXT),
    optional("host", NULL_OR_ANY_TEXT),
    optional("security", NULL_OR_ANY_TEXT),
    optional("ask", NULL_OR_ANY_TEXT),
    optional("agentId", NULL_OR_ANY_TEXT),
    optional("resolvedPath", NULL_OR_ANY_TEXT),
    optional("sessionKey", NULL_OR_ANY_TEXT),
    optional("turnSourceChannel", NULL_OR_ANY_TEXT),
    optional("turnSourceTo", NULL_OR_ANY_TEXT),
    optional("turnSourceAccountId", NULL_OR_ANY_TEXT),
    optional("turnSourceThreadId", Shape::AnyOf(&[TEXT, Shape::Numeric, Shape::Null])),
    optional("timeoutMs", POSITIVE),
    optional("twoPhase", Shape::Bool),
];

const NULL_OR_ANY_TEXT: Shape = Shape::Nullable(&TEXT);

/// What a node would run.
const RUN_PLAN: &[Field] = &[
    needed("argv", Shape::List(&TEXT)),
    needed("cwd", NULL_OR_ANY_TEXT),
    needed("commandText", TEXT),
    optional("commandPreview", NULL_OR_ANY_TEXT),
    needed("agentId", NULL_OR_ANY_TEXT),
    needed("sessionKey", NULL_OR_ANY_TEXT),
    optional("mutableFileOperand", Shape::Nullable(&FILE_OPERAND)),
];

static FILE_OPERAND: Shape = Shape::Object(&[
    needed("argvIndex", NOT_NEGATIVE),
    needed("path", TEXT),
    needed("sha256", TEXT),
]);

/// The events that this build sends.
pub static EVENTS: &[&str] = &[
    "connect.challenge",
    "exec.approval.requested",
    "exec.approval.resolved",
    "agent",
    "chat",
    "sessions.changed",
    "session.message",
    "session.tool",
    "sandbox.output",
    "presence",
    "tick",
    "shutdown",
    "health",
    "cron",
    "heartbeat",
    "device.pair.requested",
    "device.pair.resolved",
];

/// The parameters of a method; `None` if this build does not have it.
pub fn of(method: &str) -> Option<&'static Shape> {
    METHODS.iter().chain(EMPTY).find(|(name, _)| *name == method).map(|(_, shape)| *shape)
}

const LABEL: Shape = Shape::Text { least: 1, most: 512 };

const CONFIG_WRITE: &[Field] = &[
    needed("raw", FILLED),
    optional("baseHash", FILLED),
    optional("sessionKey", TEXT),
    optional("note", TEXT),
    optional("restartDelayMs", Shape::Integer { least: 0, most: i64::MAX }),
];

const POLICY: [Field; 4] = [
    optional("security", TEXT),
    optional("ask", TEXT),
    optional("askFallback", TEXT),
    optional("autoAllowSkills", Shape::Bool),
];

const APPROVALS_FILE: &[Field] = &[
    needed("version", Shape::Number(1)),
    optional("socket", Shape::Object(&[optional("path", TEXT), optional("token", TEXT)])),
    optional("defaults", Shape::Object(&POLICY)),
    optional("agents", Shape::Map(&APPROVALS_AGENT)),
];

static APPROVALS_AGENT: Shape = Shape::Object(&[
    optional("security", TEXT),
    optional("ask", TEXT),
    optional("askFallback", TEXT),
    optional("autoAllowSkills", Shape::Bool),
    optional("allowlist", Shape::List(&APPROVALS_ENTRY)),
]);

static APPROVALS_ENTRY: Shape = Shape::Object(&[
    optional("id", FILLED),
    needed("pattern", TEXT),
    optional("lastUsedAt", Shape::Integer { least: 0, most: i64::MAX }),
    optional("lastUsedCommand", TEXT),
    optional("lastResolvedPath", TEXT),
]);

const SESSIONS_LIST: &[Field] = &[
    optional("limit", POSITIVE),
    optional("activeMinutes", POSITIVE),
    optional("includeGlobal", Shape::Bool),
    optional("includeUnknown", Shape::Bool),
    optional("includeDerivedTitles", Shape::Bool),
    optional("includeLastMessage", Shape::Bool),
    optional("label", LABEL),
    optional("spawnedBy", FILLED),
    optional("agentId", FILLED),
    optional("search", TEXT),
];

static NULLABLE_TEXT: Shape = Shape::Text { least: 1, most: usize::MAX };
const NULL_OR_TEXT: Shape = Shape::Nullable(&NULLABLE_TEXT);

const SESSIONS_PATCH: &[Field] = &[
    needed("key", FILLED),
    optional("label", Shape::Nullable(&SESSION_KEY)),
    optional("thinkingLevel", NULL_OR_TEXT),
    optional("fastMode", Shape::Nullable(&Shape::Bool)),
    optional("verboseLevel", NULL_OR_TEXT),
    optional("reasoningLevel", NULL_OR_TEXT),
    optional("responseUsage", Shape::Nullable(&RESPONSE_USAGE)),
    optional("elevatedLevel", NULL_OR_TEXT),
    optional("execHost", NULL_OR_TEXT),
    optional("execSecurity", NULL_OR_TEXT),
    optional("execAsk", NULL_OR_TEXT),
    optional("execNode", NULL_OR_TEXT),
    optional("model", NULL_OR_TEXT),
    optional("spawnedBy", NULL_OR_TEXT),
    optional("spawnedWorkspaceDir", NULL_OR_TEXT),
    optional("spawnDepth", Shape::Nullable(&NOT_NEGATIVE)),
    optional("subagentRole", Shape::Nullable(&SUBAGENT_ROLE)),
    optional("subagentControlScope", Shape::Nullable(&CONTROL_SCOPE)),
    optional("sendPolicy", Shape::Nullable(&SEND_POLICY)),
    optional("groupActivation", Shape::Nullable(&GROUP_ACTIVATION)),
];

static RESPONSE_USAGE: Shape = Shape::Words(&["off", "tokens", "full", "on"]);
static SEND_POLICY: Shape = Shape::Words(&["allow", "deny"]);
static GROUP_ACTIVATION: Shape = Shape::Words(&["mention", "always"]);
static SUBAGENT_ROLE: Shape = Shape::Words(&["orchestrator", "leaf"]);
static CONTROL_SCOPE: Shape = Shape::Words(&["children", "none"]);
