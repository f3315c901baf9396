//! Every key we know, with what it takes and one line about it.
//!
//! The sandbox, tool and session keys are ours to enforce; whatever else the reference knows is
//! accepted and passed through, so that one `openclaw.json` serves both. Order matters: it is the
//! order in which problems are reported.

mod gateway;
mod hooks;
mod models;
mod parts;
mod web;

use super::{Field, ObjectSchema, Others, Presence, Range, Schema, rules};
use gateway::GATEWAY;
use hooks::HOOKS;
use models::{AUTH, CHOICES, MODEL, MODELS};
use web::WEB;

const fn field(name: &'static str, schema: Schema, about: &'static str) -> Field {
    Field { name, schema, about, presence: Presence::Optional }
}

const fn required(name: &'static str, schema: Schema, about: &'static str) -> Field {
    Field { name, schema, about, presence: Presence::Required }
}

/// A key of the reference that we keep and do not read.
const fn other(name: &'static str) -> Field {
    field(name, Schema::Any, "")
}

const fn strict(fields: &'static [Field]) -> ObjectSchema {
    ObjectSchema { fields, rule: None, others: Others::Refuse }
}

const TEXT: Schema = Schema::Text { least: 0 };
const FILLED: Schema = Schema::Text { least: 1 };
const TEXTS: Schema = Schema::List(&TEXT);
const POSITIVE_INTEGER: Schema = Schema::Number(Range::PositiveInteger);
const COUNT: Schema = Schema::Number(Range::NotNegativeInteger);
const NUMBER: Schema = Schema::Number(Range::Any);
const POSITIVE: Schema = Schema::Number(Range::Positive);
const NOT_NEGATIVE: Schema = Schema::Number(Range::NotNegative);
const TEXT_OR_NUMBER: Schema = Schema::Either(&[TEXT, NUMBER]);
const ON_OR_OFF: Schema = Schema::Words(&["on", "off"]);

/// The whole file.
pub static ROOT: Schema =
    Schema::Object(&ObjectSchema { fields: ROOT_FIELDS, rule: None, others: Others::Refuse });

static ROOT_FIELDS: &[Field] = &[
    other("$schema"),
    field("meta", Schema::Object(&parts::META), "who wrote the file last"),
    field("env", Schema::Object(&ENV), "variables for this process, used by ${NAME} references"),
    other("wizard"),
    other("diagnostics"),
    field("logging", Schema::Object(&parts::LOGGING), ""),
    other("cli"),
    other("update"),
    other("telemetry"),
    other("browser"),
    field("ui", Schema::Object(&parts::UI), ""),
    other("secrets"),
    field("auth", Schema::Object(&AUTH), "how providers of models know us"),
    other("accessGroups"),
    other("acp"),
    field("models", Schema::Object(&MODELS), "providers of models"),
    other("nodeHost"),
    field("agents", Schema::Object(&AGENTS), "the agents and what they share"),
    other("worktreeRoot"),
    other("worktreeAcceleration"),
    field("tools", Schema::Object(&TOOLS), "which tools exist, and for whom"),
    other("security"),
    field("bindings", parts::BINDINGS, "which conversations are whose"),
    other("broadcast"),
    other("audio"),
    other("media"),
    other("attachments"),
    field("messages", Schema::Object(&parts::MESSAGES), ""),
    other("tts"),
    field("commands", Schema::Object(&parts::COMMANDS), ""),
    field("approvals", Schema::Object(&parts::APPROVALS), ""),
    field("session", Schema::Object(&SESSION), "how sessions are told apart"),
    other("web"),
    other("channels"),
    field("cron", Schema::Object(&parts::CRON), "planned jobs"),
    other("transcripts"),
    field("hooks", Schema::Object(&HOOKS), "webhooks of the gateway"),
    other("discovery"),
    other("canvasHost"),
    other("talk"),
    field("gateway", Schema::Object(&GATEWAY), "the server of clients and pages"),
    other("cloudWorkers"),
    other("desktop"),
    other("vault"),
    other("memory"),
    other("mcp"),
    other("proxy"),
    field("skills", Schema::Object(&parts::SKILLS), "what agents can be taught"),
    other("plugins"),
    other("marketplaces"),
    other("commitments"),
    other("systemAgent"),
    other("surfaces"),
];

static ENV: ObjectSchema = ObjectSchema {
    fields: &[
        field("shellEnv", Schema::Object(&parts::SHELL_ENV), ""),
        field("vars", Schema::Map(&TEXT), "variables, set unless the environment already has them"),
    ],
    rule: None,
    others: Others::Keep,
};

static AGENTS: ObjectSchema = strict(&[
    field("defaults", Schema::Object(&DEFAULTS), "what every agent starts from"),
    field("list", Schema::List(&Schema::Object(&AGENT)), "the agents, each with its id"),
    field("entries", Schema::Map(&Schema::Object(&AGENT_ENTRY)), "the agents, keyed by id"),
]);

static DEFAULTS: ObjectSchema = strict(&[
    field("model", MODEL, "the model of agents that name none"),
    other("utilityModel"),
    field("imageModel", MODEL, "the model that looks at images"),
    field("imageGenerationModel", MODEL, ""),
    other("musicGenerationModel"),
    other("videoGenerationModel"),
    other("mediaGenerationAutoProviderFallback"),
    field("pdfModel", MODEL, ""),
    field("pdfMaxBytesMb", POSITIVE, ""),
    field("pdfMaxPages", POSITIVE_INTEGER, ""),
    field("models", CHOICES, "the models that may be chosen; none: all"),
    other("modelPolicy"),
    other("params"),
    field("workspace", TEXT, "the default agent's own directory"),
    field("repoRoot", TEXT, ""),
    other("skills"),
    field("skipBootstrap", Schema::Bool, "true: write no template files into workspaces"),
    other("skipOptionalBootstrapFiles"),
    other("contextInjection"),
    field("bootstrapMaxChars", POSITIVE_INTEGER, ""),
    field("bootstrapTotalMaxChars", POSITIVE_INTEGER, ""),
    other("bootstrapPromptTruncationWarning"),
    other("startupContext"),
    other("contextLimits"),
    other("skillsLimits"),
    other("experimental"),
    other("promptOverlays"),
    other("systemPromptOverride"),
    other("additionalSystemPrompt"),
    other("silentReply"),
    field("userTimezone", TEXT, ""),
    field("timeFormat", Schema::Words(&["auto", "12", "24"]), ""),
    field("envelopeTimezone", TEXT, ""),
    field("envelopeTimestamp", ON_OR_OFF, ""),
    field("envelopeElapsed", ON_OR_OFF, ""),
    field("contextTokens", POSITIVE_INTEGER, ""),
    other("cliBackends"),
    other("memorySearch"),
    other("memory"),
    other("contextPruning"),
    other("compaction"),
    other("embeddedPi"),
    other("embeddedAgent"),
    other("agentRuntime"),
    other("embeddedHarness"),
    field("thinkingDefault", THINKING, "how long models think"),
    field("verboseDefault", Schema::Words(&["off", "on", "full"]), ""),
    other("toolProgressDetail"),
    other("reasoningDefault"),
    other("fastModeDefault"),
    field(
        "elevatedDefault",
        Schema::Words(&["off", "on", "ask", "full"]),
        "level of elevated runs",
    ),
    field("blockStreamingDefault", Schema::Words(&["off", "on"]), ""),
    field("blockStreamingBreak", Schema::Words(&["text_end", "message_end"]), ""),
    other("blockStreamingChunk"),
    other("blockStreamingCoalesce"),
    other("humanDelay"),
    field("timeoutSeconds", POSITIVE_INTEGER, "when a run is ended"),
    field("mediaMaxMb", POSITIVE, ""),
    field("imageMaxDimensionPx", POSITIVE_INTEGER, ""),
    other("imageQuality"),
    other("typingIntervalSeconds"),
    other("typingMode"),
    field(
        "heartbeat",
        Schema::Object(&DEFAULT_HEARTBEAT),
        "when agents look after things by themselves",
    ),
    other("maxConcurrent"),
    field("subagents", Schema::Object(&SUBAGENTS), "how sub-agents are spawned"),
    other("tts"),
    field("sandbox", Schema::Object(&SANDBOX), "the sandbox every agent starts from"),
]);

macro_rules! heartbeat_fields {
    ($($more:expr),*) => {
        &[
            field("every", TEXT, "how often, like `30m`; `0m`: never"),
            field("activeHours", Schema::Object(&ACTIVE_HOURS), "the hours of a day in which it runs"),
            field("model", TEXT, "the model that is asked instead of the session's"),
            field("session", TEXT, "which session of the agent; built-in: the main one"),
            field("prompt", TEXT, "what is asked"),
            field("ackMaxChars", COUNT, "so much beside HEARTBEAT_OK still counts as nothing; built-in: 300"),
            field("lightContext", Schema::Bool, "true: of the workspace's files only HEARTBEAT.md is shown"),
            field("isolatedSession", Schema::Bool, "true: a new talk every time, in a session beside it"),
            field("timeoutSeconds", POSITIVE_INTEGER, "how long one may take"),
            field("target", TEXT, "where answers go: `none` or `last`; there are no channels here"),
            other("to"),
            other("accountId"),
            other("directPolicy"),
            other("includeReasoning"),
            other("suppressToolErrorWarnings"),
            other("includeSystemPromptSection"),
            other("skipWhenBusy"),
            $($more),*
        ]
    };
}

static HEARTBEAT: ObjectSchema = ObjectSchema {
    fields: heartbeat_fields!(),
    rule: Some(rules::heartbeat),
    others: Others::Refuse,
};

static DEFAULT_HEARTBEAT: ObjectSchema = ObjectSchema {
    fields: heartbeat_fields!(field("agentId", TEXT, "whose it is; built-in: the default agent's")),
    rule: Some(rules::heartbeat),
    others: Others::Refuse,
};

static ACTIVE_HOURS: ObjectSchema = ObjectSchema {
    fields: &[
        field("start", TEXT, "from, like `08:00`"),
        field("end", TEXT, "to before, like `22:00` or `24:00`"),
        field("timezone", TEXT, "`user`, `local` or one like `Europe/Berlin`"),
    ],
    rule: Some(rules::active_hours),
    others: Others::Refuse,
};
const THINKING: Schema = Schema::Words(&[
    "off", "minimal", "low", "medium", "high", "xhigh", "adaptive", "max", "ultra",
]);

static SUBAGENTS: ObjectSchema = ObjectSchema {
    fields: &[field("maxSpawnDepth", POSITIVE_INTEGER, "how deep sub-agents may nest")],
    rule: None,
    others: Others::Keep,
};

macro_rules! agent_fields {
    ($id:expr) => {
        &[
            $id,
            field("default", Schema::Bool, "true: the agent meant when none is named"),
            field("name", TEXT, "as people call it"),
            other("description"),
            field("workspace", TEXT, "this agent's own directory"),
            field("agentDir", TEXT, "where this agent's state is kept"),
            field("model", MODEL, "this agent's own model"),
            other("utilityModel"),
            other("models"),
            other("modelPolicy"),
            field("thinkingDefault", THINKING, ""),
            other("verboseDefault"),
            other("toolProgressDetail"),
            other("reasoningDefault"),
            other("fastModeDefault"),
            other("contextInjection"),
            other("bootstrapMaxChars"),
            other("bootstrapTotalMaxChars"),
            other("systemPromptOverride"),
            other("experimental"),
            other("skills"),
            other("memorySearch"),
            other("memory"),
            other("humanDelay"),
            other("typingMode"),
            other("typingIntervalSeconds"),
            other("tts"),
            other("skillsLimits"),
            other("contextLimits"),
            other("contextTokens"),
            field("heartbeat", Schema::Object(&HEARTBEAT), "this agent's own heartbeat"),
            other("identity"),
            other("groupChat"),
            other("subagents"),
            other("embeddedAgent"),
            other("embeddedPi"),
            other("embeddedHarness"),
            other("agentRuntime"),
            other("plugins"),
            field("sandbox", Schema::Object(&SANDBOX), "this agent's own sandbox settings"),
            other("params"),
            field("tools", Schema::Object(&AGENT_TOOLS), "this agent's own tool settings"),
            other("runtime"),
            other("cliBackends"),
        ]
    };
}

static AGENT: ObjectSchema = strict(agent_fields!(required("id", TEXT, "the agent's name")));
static AGENT_ENTRY: ObjectSchema = strict(agent_fields!(field("id", TEXT, "the agent's name")));

/// `agents.defaults.sandbox` and the agents' own.
pub(super) static SANDBOX: ObjectSchema = ObjectSchema {
    fields: &[
        field(
            "mode",
            Schema::Words(&["off", "non-main", "all"]),
            "which sessions run in a sandbox; built-in: off",
        ),
        field(
            "backend",
            FILLED,
            "what runs the sandbox: docker, native, ssh, openshell or kubernetes; built-in: docker",
        ),
        field(
            "workspaceAccess",
            Schema::Words(&["none", "ro", "rw"]),
            "what of the agent's workspace is visible inside; built-in: none",
        ),
        field(
            "sessionToolsVisibility",
            Schema::Words(&["spawned", "all"]),
            "which sessions a sandboxed session sees; refused at start: not enforced by this build",
        ),
        field(
            "scope",
            Schema::Words(&["session", "agent", "shared"]),
            "which sessions share one sandbox; built-in: agent",
        ),
        field("perSession", Schema::Bool, "older spelling of scope: true session, false shared"),
        field(
            "workspaceRoot",
            TEXT,
            "where private workspaces are kept; built-in: sandboxes in the state directory",
        ),
        field("docker", Schema::Object(&DOCKER), "the shape of the container"),
        field("ssh", Schema::Object(&SSH), "the host of the ssh backend"),
        field("browser", Schema::Object(&BROWSER), "the browser sandbox"),
        field("prune", Schema::Object(&PRUNE), "when unused sandboxes are removed"),
        field("networkAllow", TEXTS, "refused at start: not enforced by this build"),
        field("networkExecAllow", TEXTS, "refused at start: not enforced by this build"),
        field("networkDocker", Schema::Any, "refused at start: not enforced by this build"),
    ],
    rule: Some(rules::sandbox),
    others: Others::Refuse,
};

static DOCKER: ObjectSchema = ObjectSchema {
    fields: &[
        field("image", TEXT, "built-in: openclaw-sandbox:bookworm-slim"),
        field("containerPrefix", TEXT, "start of container names; built-in: openclaw-sbx-"),
        field("workdir", TEXT, "where the workspace is mounted; built-in: /workspace"),
        field("readOnlyRoot", Schema::Bool, "built-in: true"),
        field("tmpfs", TEXTS, "writable memory directories; built-in: /tmp, /var/tmp, /run"),
        field("network", TEXT, "built-in: none"),
        field("user", TEXT, "uid:gid inside; built-in: owner of the workspace"),
        field("capDrop", TEXTS, "capabilities taken away; built-in: ALL"),
        field("env", Schema::Map(&TEXT), "variables of every command; built-in: LANG=C.UTF-8"),
        field("setupCommand", Schema::Either(&[TEXT, TEXTS]), "run once in a new container"),
        field("pidsLimit", POSITIVE_INTEGER, "most processes at once"),
        field("memory", TEXT_OR_NUMBER, "most memory, such as 1g"),
        field("memorySwap", TEXT_OR_NUMBER, "most memory and swap together"),
        field("cpus", Schema::Number(Range::Positive), "most processor time, in cores"),
        field("gpus", FILLED, "graphics processors to pass in"),
        field(
            "ulimits",
            Schema::Map(&Schema::Either(&[
                TEXT,
                Schema::Number(Range::Any),
                Schema::Object(&strict(&[
                    field("soft", COUNT, "the limit in force"),
                    field("hard", COUNT, "the limit it may be raised to"),
                ])),
            ])),
            "resource limits by name",
        ),
        field("seccompProfile", TEXT, "system call filter; unconfined is refused"),
        field("apparmorProfile", TEXT, "AppArmor profile; unconfined is refused"),
        field("dns", TEXTS, "name servers"),
        field("extraHosts", TEXTS, "host:address entries"),
        field("binds", TEXTS, "extra mounts, host:container[:ro]"),
        field(
            "dangerouslyAllowReservedContainerTargets",
            Schema::Bool,
            "true: binds may cover /workspace and /agent",
        ),
        field(
            "dangerouslyAllowExternalBindSources",
            Schema::Bool,
            "true: binds may come from outside the workspaces",
        ),
        field(
            "dangerouslyAllowContainerNamespaceJoin",
            Schema::Bool,
            "true: network may join another container",
        ),
    ],
    rule: Some(rules::docker),
    others: Others::Refuse,
};

/// The keys of `sandbox.docker`, in order.
#[cfg(test)]
pub(crate) fn docker_keys() -> impl Iterator<Item = &'static str> {
    DOCKER.fields.iter().map(|field| field.name)
}

static SSH: ObjectSchema = strict(&[
    field("target", FILLED, "user@host[:port]"),
    field("command", FILLED, "the client; built-in: ssh"),
    field("workspaceRoot", FILLED, "absolute directory on the remote host"),
    field("strictHostKeyChecking", Schema::Bool, "built-in: true"),
    field("updateHostKeys", Schema::Bool, "built-in: true"),
    field("identityFile", FILLED, "private key"),
    field("certificateFile", FILLED, "certificate"),
    field("knownHostsFile", FILLED, "known hosts"),
    field("identityData", SECRET, "private key as a secret"),
    field("certificateData", SECRET, "certificate as a secret"),
    field("knownHostsData", SECRET, "known hosts as a secret"),
]);

const SECRET: Schema = Schema::Either(&[TEXT, Schema::Object(&SECRET_REFERENCE)]);

static SECRET_REFERENCE: ObjectSchema = strict(&[
    required("source", TEXT, "env, file or exec"),
    field("provider", TEXT, "which provider of that kind"),
    required("id", TEXT, "the secret's name there"),
]);

static BROWSER: ObjectSchema = ObjectSchema {
    fields: &[
        field("enabled", Schema::Bool, "built-in: false; the browser tool must be allowed too"),
        field("image", TEXT, "built-in: openclaw-sandbox-browser:bookworm-slim"),
        field("containerPrefix", TEXT, "built-in: openclaw-sbx-browser-"),
        field("network", TEXT, "built-in: openclaw-sandbox-browser"),
        field("cdpPort", POSITIVE_INTEGER, "built-in: 9222"),
        field("cdpSourceRange", TEXT, "addresses that may connect"),
        field("vncPort", POSITIVE_INTEGER, "built-in: 5900"),
        field("noVncPort", POSITIVE_INTEGER, "built-in: 6080"),
        field("headless", Schema::Bool, "built-in: false"),
        field("enableNoVnc", Schema::Bool, "built-in: true"),
        field("noVncEnabled", Schema::Bool, "newer spelling of enableNoVnc"),
        field("allowHostControl", Schema::Bool, "built-in: false"),
        field("autoStart", Schema::Bool, "built-in: true"),
        field("autoStartTimeoutMs", POSITIVE_INTEGER, "built-in: 12000"),
        field("binds", TEXTS, "mounts instead of docker.binds"),
    ],
    rule: Some(rules::browser),
    others: Others::Refuse,
};

static PRUNE: ObjectSchema = strict(&[
    field("idleHours", COUNT, "remove after so many idle hours; 0: never; built-in: 24"),
    field("maxAgeDays", COUNT, "remove at this age; 0: never; built-in: 7"),
]);

static POLICY: ObjectSchema = ObjectSchema {
    fields: &[
        field("allow", TEXTS, "only these"),
        field("alsoAllow", TEXTS, "these besides"),
        field("deny", TEXTS, "never these"),
    ],
    rule: Some(rules::policy),
    others: Others::Refuse,
};

static PROVIDER_POLICY: ObjectSchema = ObjectSchema {
    fields: &[
        field("allow", TEXTS, "only these"),
        field("alsoAllow", TEXTS, "these besides"),
        field("deny", TEXTS, "never these"),
        field("profile", PROFILE, "start from this set"),
    ],
    rule: Some(rules::provider_policy),
    others: Others::Refuse,
};

const PROFILE: Schema = Schema::Words(&["minimal", "coding", "messaging", "full"]);
const BY_PROVIDER: Schema = Schema::Map(&Schema::Object(&PROVIDER_POLICY));
const BY_SENDER: Schema = Schema::Map(&Schema::Object(&POLICY));

static POLICY_HOLDER: ObjectSchema =
    strict(&[field("tools", Schema::Object(&POLICY), "allow, alsoAllow and deny")]);

static ELEVATED: ObjectSchema = strict(&[
    field("enabled", Schema::Bool, "false: nobody leaves the sandbox"),
    field(
        "allowFrom",
        Schema::Map(&Schema::List(&TEXT_OR_NUMBER)),
        "who may leave the sandbox, by channel",
    ),
]);

static FS: ObjectSchema =
    strict(&[field("workspaceOnly", Schema::Bool, "true: file tools stay in the workspace")]);

macro_rules! exec_fields {
    ($($more:expr),*) => {
        &[
            field("host", Schema::Words(&["auto", "sandbox", "gateway", "node"]), "where commands run"),
            other("mode"),
            field("security", Schema::Words(&["deny", "allowlist", "full"]), "what may run on the host"),
            field("ask", Schema::Words(&["off", "on-miss", "always"]), "when a person is asked"),
            field("node", TEXT, "which node"),
            field("pathPrepend", TEXTS, "directories put before PATH"),
            field("safeBins", TEXTS, "filters that need no approval"),
            field("strictInlineEval", Schema::Bool, "true: always ask about inline programs"),
            other("commandHighlighting"),
            field("safeBinTrustedDirs", TEXTS, "where those filters may live"),
            field("safeBinProfiles", Schema::Map(&Schema::Any), "their accepted arguments"),
            other("reviewer"),
            field("backgroundMs", POSITIVE_INTEGER, "when a command goes to the background"),
            field("timeoutSec", POSITIVE_INTEGER, "when a command is killed"),
            field("timeoutSeconds", POSITIVE_INTEGER, "newer spelling of timeoutSec"),
            field("cleanupMs", POSITIVE_INTEGER, "how long finished commands are kept"),
            field("notifyOnExit", Schema::Bool, "false: no turn when a command in the background ends"),
            field(
                "notifyOnExitEmptySuccess",
                Schema::Bool,
                "true: also when it went well and wrote nothing"
            ),
            other("allowSessionHostEscape"),
            field("applyPatch", Schema::Object(&APPLY_PATCH), "the apply_patch tool"),
            $($more),*
        ]
    };
}

static APPLY_PATCH: ObjectSchema = strict(&[
    field("enabled", Schema::Bool, "offer the tool"),
    field("workspaceOnly", Schema::Bool, "built-in: true"),
    field("allowModels", TEXTS, "models that get it"),
]);

static EXEC: ObjectSchema = strict(exec_fields!());
static AGENT_EXEC: ObjectSchema = strict(exec_fields!(other("approvalRunningNoticeMs")));

static TOOLS: ObjectSchema = ObjectSchema {
    fields: &[
        field("profile", PROFILE, "start from this set of tools"),
        field("allow", TEXTS, "only these tools"),
        field("alsoAllow", TEXTS, "these besides the profile"),
        field("deny", TEXTS, "never these tools"),
        field("byProvider", BY_PROVIDER, "policies by provider or provider/model"),
        field("toolsBySender", BY_SENDER, "policies by sender"),
        field("web", Schema::Object(&WEB), "tools that reach the web"),
        other("media"),
        other("links"),
        other("sessions"),
        other("loopDetection"),
        other("toolSearch"),
        other("codeMode"),
        other("swarm"),
        other("message"),
        other("agentToAgent"),
        field("elevated", Schema::Object(&ELEVATED), "who may leave the sandbox"),
        field("exec", Schema::Object(&EXEC), "the exec tool"),
        field("fs", Schema::Object(&FS), "the file tools"),
        field("subagents", Schema::Object(&POLICY_HOLDER), "tools of sub-agents"),
        field("sandbox", Schema::Object(&POLICY_HOLDER), "tools of sandboxed sessions"),
        other("sessions_spawn"),
        other("experimental"),
    ],
    rule: Some(rules::root_tools),
    others: Others::Refuse,
};

static AGENT_TOOLS: ObjectSchema = ObjectSchema {
    fields: &[
        field("profile", PROFILE, "this agent's set of tools"),
        field("allow", TEXTS, "only these tools"),
        field("alsoAllow", TEXTS, "these besides the profile"),
        field("deny", TEXTS, "never these tools"),
        field("byProvider", BY_PROVIDER, "policies by provider or provider/model"),
        field("toolsBySender", BY_SENDER, "policies by sender"),
        other("codeMode"),
        other("swarm"),
        field("elevated", Schema::Object(&ELEVATED), "who may leave this agent's sandbox"),
        field("exec", Schema::Object(&AGENT_EXEC), "the exec tool"),
        field("fs", Schema::Object(&FS), "the file tools"),
        other("loopDetection"),
        other("message"),
        field(
            "sandbox",
            Schema::Object(&POLICY_HOLDER),
            "tools of this agent's sandboxed sessions",
        ),
    ],
    rule: Some(rules::agent_tools),
    others: Others::Refuse,
};

static SESSION: ObjectSchema = strict(&[
    field(
        "scope",
        Schema::Words(&["per-sender", "global"]),
        "one session for each sender, or one for all",
    ),
    field(
        "dmScope",
        Schema::Words(&["main", "per-peer", "per-channel-peer", "per-account-channel-peer"]),
        "which direct messages share a session",
    ),
    field("identityLinks", Schema::Map(&TEXTS), "peers that are one person"),
    other("transcriptRetentionDays"),
    other("maxRecentTurns"),
    field("resetTriggers", TEXTS, ""),
    field("idleMinutes", POSITIVE_INTEGER, ""),
    field("reset", Schema::Object(&parts::RESET), ""),
    field("resetByType", Schema::Object(&parts::RESET_BY_TYPE), ""),
    field("resetByChannel", Schema::Map(&Schema::Object(&parts::RESET)), ""),
    field("store", TEXT, "where sessions are recorded"),
    field("typingIntervalSeconds", POSITIVE_INTEGER, ""),
    other("typingMode"),
    field("parentForkMaxTokens", COUNT, ""),
    field("mainKey", TEXT, "ignored: the main session is always main"),
    field("sendPolicy", Schema::Object(&parts::SEND_POLICY), "which sessions are answered"),
    other("agentToAgent"),
    field("threadBindings", Schema::Object(&parts::THREAD_BINDINGS), ""),
    other("maintenance"),
    other("writeLock"),
]);

/// `clawpen.json`.
pub static OWN: Schema = Schema::Object(&strict(&[
    field("defaults", Schema::Object(&OWN_SETTINGS), "what every agent starts from"),
    field(
        "agents",
        Schema::Map(&Schema::Object(&OWN_SETTINGS)),
        "settings of single agents, keyed by id",
    ),
    field("audit", Schema::Object(&OWN_AUDIT), "how long records of calls are kept"),
]));

static OWN_AUDIT: ObjectSchema = strict(&[
    field("keepDays", COUNT, "drop records older than so many days; 0: never; built-in: 365"),
    field("keepAtLeast", COUNT, "so many of the newest records stay, however old; built-in: 10000"),
]);

static OWN_SETTINGS: ObjectSchema = strict(&[
    field(
        "backend",
        FILLED,
        "what runs the sandbox; beats sandbox.backend of the same layer in openclaw.json",
    ),
    field(
        "ahead",
        Schema::Bool,
        "true: a door that lives long keeps a native pen ready for each session, after the first use of one; built-in: true",
    ),
    field(
        "askInSandbox",
        Schema::Bool,
        "true: commands of an agent are asked about in the sandbox too; built-in: false",
    ),
    field("approvals", Schema::Object(&OWN_APPROVALS), "how people are asked about commands"),
    field("docker", Schema::Object(&OWN_DOCKER), "what only containers have"),
    field("envAllow", TEXTS, "secret-looking variables that may enter the sandbox all the same"),
    field(
        "implicitToolGrants",
        Schema::Bool,
        "true: a tools.exec or tools.fs section widens the profile, as older releases do; built-in: false",
    ),
    field("native", Schema::Object(&OWN_NATIVE), "what only native pens have"),
    field(
        "start",
        Schema::Words(&["lazy", "eager"]),
        "when a sandbox is made: with the first call, or as soon as its session begins; built-in: lazy",
    ),
    field(
        "workspaces",
        Schema::Object(&OWN_WORKSPACES),
        "what becomes of private workspaces whose sandbox was removed",
    ),
]);

static OWN_APPROVALS: ObjectSchema = strict(&[
    field("timeoutSec", COUNT, "so many seconds a person has to answer; built-in: 120"),
    field(
        "elicitation",
        Schema::Words(&["off", "sandbox", "host"]),
        "whose word counts that an MCP client passes on: nobody's, about commands in the sandbox, or also about \
         commands on the host; built-in: sandbox",
    ),
]);

static OWN_WORKSPACES: ObjectSchema = strict(&[
    field(
        "removed",
        Schema::Words(&["keep", "trash", "age"]),
        "keep: they stay; trash: moved aside at once; age: moved aside after afterDays; built-in: age",
    ),
    field(
        "afterDays",
        COUNT,
        "with age: moved aside when nobody used them for so many days; built-in: 30",
    ),
    field(
        "trashDays",
        COUNT,
        "what was moved aside is deleted after so many days; 0: only by sandbox trash empty; built-in: 0",
    ),
]);

static OWN_DOCKER: ObjectSchema = strict(&[field(
    "workspaceLabel",
    Schema::Words(&["none", "shared", "private"]),
    "SELinux label that the engine gives the workspace: shared with all containers, or private to one; built-in: none",
)]);

static OWN_NATIVE: ObjectSchema = strict(&[
    field("rootfs", FILLED, "directory of an unpacked image; built-in: the host's own programs"),
    field(
        "require",
        TEXTS,
        "layers that must be in force beyond the floor: landlock, cgroup, subordinateIds, idmappedMounts",
    ),
]);
