//! The keys of `models` and `auth`: which models there are, and how their providers are asked.

use super::{
    COUNT, FILLED, NUMBER, POSITIVE, POSITIVE_INTEGER, SECRET, TEXT, TEXTS, field, other, required,
    strict,
};
use crate::config::schema::{ObjectSchema, Schema};

/// The model of an agent: its name, or with those that take its place.
pub(super) const MODEL: Schema = Schema::Either(&[TEXT, Schema::Object(&MODEL_CHOICE)]);

static MODEL_CHOICE: ObjectSchema = strict(&[
    field("primary", TEXT, "the model, as provider/model"),
    field("fallbacks", TEXTS, "asked in this order when it fails"),
    other("timeoutMs"),
]);

pub(super) static MODELS: ObjectSchema = strict(&[
    field("mode", Schema::Words(&["merge", "replace"]), ""),
    field("providers", Schema::Map(&Schema::Object(&PROVIDER)), "providers of models, by name"),
    field("bedrockDiscovery", Schema::Object(&BEDROCK), ""),
    other("catalogRefresh"),
]);

const API: Schema = Schema::Words(&[
    "openai-completions",
    "openai-responses",
    "openai-codex-responses",
    "anthropic-messages",
    "google-generative-ai",
    "github-copilot",
    "bedrock-converse-stream",
    "ollama",
    "openai-chatgpt-responses",
    "google-vertex",
    "pi-messages",
    "azure-openai-responses",
]);

static PROVIDER: ObjectSchema = strict(&[
    field("baseUrl", FILLED, "where it is asked"),
    field("apiKey", SECRET, "what it is shown"),
    field("auth", Schema::Words(&["api-key", "aws-sdk", "oauth", "token"]), ""),
    field("api", API, "the language it speaks"),
    field("injectNumCtxForOpenAICompat", Schema::Bool, ""),
    field("headers", Schema::Map(&SECRET), "headers of every request"),
    field("authHeader", Schema::Bool, ""),
    field("models", Schema::List(&Schema::Object(&MODEL_ENTRY)), "its models"),
    other("maxTokens"),
    other("timeoutSeconds"),
    other("region"),
    other("params"),
    other("agentRuntime"),
    other("localService"),
    other("request"),
]);

static MODEL_ENTRY: ObjectSchema = strict(&[
    required("id", FILLED, "the provider's name of it"),
    field("name", FILLED, "as people call it; built-in: the id"),
    field("api", API, ""),
    field("reasoning", Schema::Bool, "true: it thinks before it answers"),
    field(
        "input",
        Schema::List(&Schema::Words(&["text", "image", "video", "audio"])),
        "what it can be shown",
    ),
    field("cost", Schema::Object(&COST), "what a million tokens cost"),
    field("contextWindow", POSITIVE, "how many tokens it reads"),
    field("maxTokens", POSITIVE, "how many tokens it answers with"),
    field("headers", Schema::Map(&TEXT), ""),
    other("compat"),
    other("baseUrl"),
    other("contextTokens"),
    other("thinkingLevelMap"),
    other("params"),
    other("agentRuntime"),
    other("mediaInput"),
    other("metadataSource"),
]);

static COST: ObjectSchema = strict(&[
    field("input", NUMBER, ""),
    field("output", NUMBER, ""),
    field("cacheRead", NUMBER, ""),
    field("cacheWrite", NUMBER, ""),
    other("tieredPricing"),
]);

static BEDROCK: ObjectSchema = strict(&[
    field("enabled", Schema::Bool, ""),
    field("region", TEXT, ""),
    field("providerFilter", TEXTS, ""),
    field("refreshInterval", COUNT, ""),
    field("defaultContextWindow", POSITIVE_INTEGER, ""),
    field("defaultMaxTokens", POSITIVE_INTEGER, ""),
]);

/// `agents.defaults.models`: the models that may be chosen, by provider/model.
pub(super) const CHOICES: Schema = Schema::Map(&Schema::Object(&CHOICE));

static CHOICE: ObjectSchema = strict(&[
    field("alias", TEXT, "a short name for it"),
    other("params"),
    field("streaming", Schema::Bool, ""),
    other("agentRuntime"),
    other("pickerRuntimes"),
    other("codeMode"),
]);

pub(super) static AUTH: ObjectSchema = strict(&[
    field("profiles", Schema::Map(&Schema::Object(&PROFILE)), ""),
    field("order", Schema::Map(&TEXTS), ""),
    field("cooldowns", Schema::Object(&COOLDOWNS), ""),
]);

static PROFILE: ObjectSchema = strict(&[
    required("provider", TEXT, ""),
    required("mode", Schema::Words(&["api_key", "oauth", "token", "aws-sdk"]), ""),
    field("email", TEXT, ""),
    field("displayName", TEXT, ""),
]);

static COOLDOWNS: ObjectSchema = strict(&[
    field("billingBackoffHours", POSITIVE, ""),
    field("billingBackoffHoursByProvider", Schema::Map(&POSITIVE), ""),
    field("billingMaxHours", POSITIVE, ""),
    field("failureWindowHours", POSITIVE, ""),
]);
