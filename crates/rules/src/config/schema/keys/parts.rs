//! The keys of parts that this build reads little of: their values are checked, so that a slip is told where it is made.

use super::{
    COUNT, FILLED, NOT_NEGATIVE, POSITIVE_INTEGER, SECRET, TEXT, TEXT_OR_NUMBER, TEXTS, field,
    other, required, strict,
};
use crate::config::schema::{ObjectSchema, Schema};

pub(super) static META: ObjectSchema = strict(&[
    field("lastTouchedVersion", TEXT, "who wrote the file last"),
    other("lastTouchedAt"),
    other("migrations"),
]);

pub(super) static SHELL_ENV: ObjectSchema =
    strict(&[field("enabled", Schema::Bool, ""), field("timeoutMs", COUNT, "")]);

const LOG_LEVEL: Schema =
    Schema::Words(&["silent", "fatal", "error", "warn", "info", "debug", "trace"]);

pub(super) static LOGGING: ObjectSchema = strict(&[
    field("level", LOG_LEVEL, ""),
    field("file", TEXT, ""),
    field("maxFileBytes", POSITIVE_INTEGER, ""),
    field("consoleLevel", LOG_LEVEL, ""),
    field("consoleStyle", Schema::Words(&["pretty", "compact", "json"]), ""),
    field("redactSensitive", Schema::Words(&["off", "tools"]), ""),
    field("redactPatterns", TEXTS, ""),
    other("audit"),
]);

pub(super) static UI: ObjectSchema = strict(&[
    field("seamColor", TEXT, ""),
    field("assistant", Schema::Object(&ASSISTANT), ""),
    other("prefs"),
]);

static ASSISTANT: ObjectSchema = strict(&[field("name", TEXT, ""), field("avatar", TEXT, "")]);

/// Which conversations are whose.
pub(super) const BINDINGS: Schema =
    Schema::List(&Schema::Either(&[Schema::Object(&ROUTE), Schema::Object(&ACP_BINDING)]));

static ROUTE: ObjectSchema = strict(&[
    field("type", Schema::Words(&["route"]), ""),
    required("agentId", TEXT, "whose conversation it is"),
    field("comment", TEXT, ""),
    required("match", Schema::Object(&MATCH), "which conversations"),
    other("session"),
]);

static ACP_BINDING: ObjectSchema = strict(&[
    required("type", Schema::Words(&["acp"]), ""),
    required("agentId", TEXT, ""),
    field("comment", TEXT, ""),
    required("match", Schema::Object(&MATCH), ""),
    field("acp", Schema::Object(&ACP_MODE), ""),
]);

static MATCH: ObjectSchema = strict(&[
    required("channel", TEXT, ""),
    field("accountId", TEXT, ""),
    field("peer", Schema::Object(&PEER), ""),
    field("guildId", TEXT, ""),
    field("teamId", TEXT, ""),
    field("roles", TEXTS, ""),
]);

static PEER: ObjectSchema = strict(&[
    required("kind", Schema::Words(&["direct", "group", "channel", "dm"]), ""),
    required("id", TEXT, ""),
]);

static ACP_MODE: ObjectSchema = strict(&[
    field("mode", Schema::Words(&["persistent", "oneshot"]), ""),
    field("label", TEXT, ""),
    field("cwd", TEXT, ""),
    field("backend", TEXT, ""),
]);

pub(super) static MESSAGES: ObjectSchema = strict(&[
    field("messagePrefix", TEXT, ""),
    field("responsePrefix", TEXT, ""),
    field("groupChat", Schema::Object(&GROUP_CHAT), ""),
    field("queue", Schema::Object(&QUEUE), ""),
    field("inbound", Schema::Object(&INBOUND), ""),
    field("ackReaction", TEXT, ""),
    field(
        "ackReactionScope",
        Schema::Words(&["group-mentions", "group-all", "direct", "all", "off", "none"]),
        "",
    ),
    field("removeAckAfterReply", Schema::Bool, ""),
    other("statusReactions"),
    field("suppressToolErrors", Schema::Bool, ""),
    other("tts"),
    other("visibleReplies"),
    other("usageTemplate"),
    other("responseUsage"),
]);

static GROUP_CHAT: ObjectSchema = strict(&[
    field("mentionPatterns", TEXTS, ""),
    field("historyLimit", POSITIVE_INTEGER, ""),
    other("unmentionedInbound"),
    other("visibleReplies"),
]);

const QUEUE_MODE: Schema = Schema::Words(&[
    "steer",
    "followup",
    "collect",
    "steer-backlog",
    "steer+backlog",
    "queue",
    "interrupt",
]);

static QUEUE: ObjectSchema = strict(&[
    field("mode", QUEUE_MODE, ""),
    field("byChannel", Schema::Map(&QUEUE_MODE), ""),
    field("debounceMs", COUNT, ""),
    field("debounceMsByChannel", Schema::Map(&COUNT), ""),
    field("cap", POSITIVE_INTEGER, ""),
    field("drop", Schema::Words(&["old", "new", "summarize"]), ""),
]);

static INBOUND: ObjectSchema =
    strict(&[field("debounceMs", COUNT, ""), field("byChannel", Schema::Map(&COUNT), "")]);

const AUTO: Schema = Schema::Either(&[Schema::Bool, Schema::Words(&["auto"])]);

pub(super) static COMMANDS: ObjectSchema = strict(&[
    field("native", AUTO, ""),
    field("nativeSkills", AUTO, ""),
    field("text", Schema::Bool, ""),
    field("bash", Schema::Bool, ""),
    field("bashForegroundMs", COUNT, ""),
    field("config", Schema::Bool, ""),
    field("mcp", Schema::Bool, ""),
    field("plugins", Schema::Bool, ""),
    field("debug", Schema::Bool, ""),
    field("restart", Schema::Bool, ""),
    field("useAccessGroups", Schema::Bool, ""),
    field("ownerAllowFrom", Schema::List(&TEXT_OR_NUMBER), ""),
    field("ownerDisplay", Schema::Words(&["raw", "hash"]), ""),
    field("ownerDisplaySecret", TEXT, ""),
    field("allowFrom", Schema::Map(&Schema::List(&TEXT_OR_NUMBER)), ""),
]);

pub(super) static APPROVALS: ObjectSchema = strict(&[
    field("exec", Schema::Object(&FORWARDED), ""),
    field("plugin", Schema::Object(&FORWARDED), ""),
]);

static FORWARDED: ObjectSchema = strict(&[
    field("enabled", Schema::Bool, ""),
    field("mode", Schema::Words(&["session", "targets", "both"]), ""),
    field("agentFilter", TEXTS, ""),
    field("sessionFilter", TEXTS, ""),
    field("targets", Schema::List(&Schema::Object(&TARGET)), ""),
]);

static TARGET: ObjectSchema = strict(&[
    required("channel", FILLED, ""),
    required("to", FILLED, ""),
    field("accountId", TEXT, ""),
    field("threadId", TEXT_OR_NUMBER, ""),
]);

pub(super) static CRON: ObjectSchema = strict(&[
    field("enabled", Schema::Bool, "false: no planned job runs"),
    field("store", TEXT, "where jobs are kept"),
    field("maxConcurrentRuns", POSITIVE_INTEGER, ""),
    field("retry", Schema::Object(&RETRY), ""),
    field("webhook", TEXT, ""),
    field("webhookToken", SECRET, ""),
    field("sessionRetention", Schema::Either(&[TEXT, Schema::Bool]), ""),
    field("runLog", Schema::Object(&RUN_LOG), ""),
    field("failureAlert", Schema::Object(&FAILURE_ALERT), ""),
    field("failureDestination", Schema::Object(&FAILURE_DESTINATION), ""),
    other("skipMissedJobs"),
    other("triggers"),
    other("webhookSsrfPolicy"),
]);

static RETRY: ObjectSchema = strict(&[
    field("maxAttempts", COUNT, ""),
    field("backoffMs", Schema::List(&COUNT), ""),
    field(
        "retryOn",
        Schema::List(&Schema::Words(&[
            "rate_limit",
            "overloaded",
            "network",
            "timeout",
            "server_error",
        ])),
        "",
    ),
]);

static RUN_LOG: ObjectSchema =
    strict(&[field("maxBytes", TEXT_OR_NUMBER, ""), field("keepLines", POSITIVE_INTEGER, "")]);

const DELIVERY: Schema = Schema::Words(&["announce", "webhook"]);

static FAILURE_ALERT: ObjectSchema = strict(&[
    field("enabled", Schema::Bool, ""),
    field("after", POSITIVE_INTEGER, ""),
    field("cooldownMs", COUNT, ""),
    field("mode", DELIVERY, ""),
    field("accountId", TEXT, ""),
    other("includeSkipped"),
    other("channel"),
    other("to"),
]);

static FAILURE_DESTINATION: ObjectSchema = strict(&[
    field("channel", TEXT, ""),
    field("to", TEXT, ""),
    field("accountId", TEXT, ""),
    field("mode", DELIVERY, ""),
]);

pub(super) static SKILLS: ObjectSchema = strict(&[
    field("allowBundled", TEXTS, ""),
    field("load", Schema::Object(&SKILL_LOAD), "where skills are looked for"),
    field("install", Schema::Object(&SKILL_INSTALL), ""),
    field("limits", Schema::Object(&SKILL_LIMITS), ""),
    field("entries", Schema::Map(&Schema::Object(&SKILL)), "settings of single skills"),
    other("workshop"),
]);

static SKILL_LOAD: ObjectSchema = strict(&[
    field("extraDirs", TEXTS, "more directories with skills"),
    field("watch", Schema::Bool, ""),
    field("watchDebounceMs", COUNT, ""),
    other("allowSymlinkTargets"),
]);

static SKILL_INSTALL: ObjectSchema = strict(&[
    field("preferBrew", Schema::Bool, ""),
    field("nodeManager", Schema::Words(&["npm", "pnpm", "yarn", "bun"]), ""),
    other("allowUploadedArchives"),
]);

static SKILL_LIMITS: ObjectSchema = strict(&[
    field("maxCandidatesPerRoot", POSITIVE_INTEGER, ""),
    field("maxSkillsLoadedPerSource", POSITIVE_INTEGER, ""),
    field("maxSkillsInPrompt", COUNT, ""),
    field("maxSkillsPromptChars", COUNT, ""),
    field("maxSkillFileBytes", COUNT, ""),
]);

static SKILL: ObjectSchema = strict(&[
    field("enabled", Schema::Bool, "false: nobody has it"),
    field("apiKey", SECRET, "for the variable that it names"),
    field("env", Schema::Map(&TEXT), "variables for it"),
    other("config"),
]);

/// When a session begins anew.
pub(super) static RESET: ObjectSchema = strict(&[
    field("mode", Schema::Words(&["daily", "idle", "none"]), ""),
    field("atHour", COUNT, ""),
    field("idleMinutes", POSITIVE_INTEGER, ""),
]);

pub(super) static RESET_BY_TYPE: ObjectSchema = strict(&[
    field("direct", Schema::Object(&RESET), ""),
    field("dm", Schema::Object(&RESET), ""),
    field("group", Schema::Object(&RESET), ""),
    field("thread", Schema::Object(&RESET), ""),
]);

pub(super) static SEND_POLICY: ObjectSchema = strict(&[
    field("default", ALLOW_OR_DENY, ""),
    field("rules", Schema::List(&Schema::Object(&SEND_RULE)), ""),
]);

const ALLOW_OR_DENY: Schema = Schema::Words(&["allow", "deny"]);

static SEND_RULE: ObjectSchema = strict(&[
    required("action", ALLOW_OR_DENY, ""),
    field("match", Schema::Object(&SEND_MATCH), ""),
]);

static SEND_MATCH: ObjectSchema = strict(&[
    field("channel", TEXT, ""),
    field("chatType", Schema::Words(&["direct", "group", "channel", "dm"]), ""),
    field("keyPrefix", TEXT, ""),
    field("rawKeyPrefix", TEXT, ""),
]);

pub(super) static THREAD_BINDINGS: ObjectSchema = strict(&[
    field("enabled", Schema::Bool, ""),
    field("idleHours", NOT_NEGATIVE, ""),
    field("maxAgeHours", NOT_NEGATIVE, ""),
    other("spawnSessions"),
    other("defaultSpawnContext"),
]);
