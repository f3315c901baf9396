//! The keys of `tools.web`.

use super::{COUNT, NOT_NEGATIVE, POSITIVE_INTEGER, SECRET, TEXT, field, other, strict};
use crate::config::schema::{Field, ObjectSchema, Range, Schema};

pub(super) static WEB: ObjectSchema = strict(&[
    field("search", Schema::Object(&SEARCH), ""),
    field("fetch", Schema::Object(&FETCH), "the web_fetch tool"),
    field("x_search", Schema::Object(&X_SEARCH), ""),
]);

static FETCH: ObjectSchema = strict(&[
    field("enabled", Schema::Bool, "false: nobody has the tool"),
    other("provider"),
    field("maxChars", POSITIVE_INTEGER, "how much of a page a model sees"),
    field("maxCharsCap", POSITIVE_INTEGER, "the most that a call may ask for"),
    field("maxResponseBytes", POSITIVE_INTEGER, "how much of an answer is read"),
    field("timeoutSeconds", POSITIVE_INTEGER, "how long an answer may take"),
    field("cacheTtlMinutes", NOT_NEGATIVE, ""),
    field("maxRedirects", COUNT, "how often a page may send on"),
    field("userAgent", TEXT, "what the tool calls itself"),
    other("headers"),
    field("readability", Schema::Bool, ""),
    field("firecrawl", Schema::Object(&FETCH_FIRECRAWL), ""),
    other("useTrustedEnvProxy"),
    other("ssrfPolicy"),
]);

static FETCH_FIRECRAWL: ObjectSchema = strict(&[
    field("enabled", Schema::Bool, ""),
    field("apiKey", SECRET, ""),
    field("baseUrl", TEXT, ""),
    field("onlyMainContent", Schema::Bool, ""),
    field("maxAgeMs", COUNT, ""),
    field("timeoutSeconds", POSITIVE_INTEGER, ""),
]);

static SEARCH: ObjectSchema = strict(&[
    field("enabled", Schema::Bool, ""),
    field("provider", TEXT, ""),
    field("maxResults", POSITIVE_INTEGER, ""),
    field("timeoutSeconds", POSITIVE_INTEGER, ""),
    field("cacheTtlMinutes", NOT_NEGATIVE, ""),
    field("apiKey", SECRET, ""),
    field("brave", Schema::Object(&BRAVE), ""),
    field("firecrawl", Schema::Object(&PROVIDER), ""),
    field("gemini", Schema::Object(&PROVIDER), ""),
    field("grok", Schema::Object(&GROK), ""),
    field("kimi", Schema::Object(&PROVIDER), ""),
    field("perplexity", Schema::Object(&PROVIDER), ""),
    other("openaiCodex"),
]);

macro_rules! provider {
    ($($more:expr),*) => {
        &[field("apiKey", SECRET, ""), field("baseUrl", TEXT, ""), field("model", TEXT, ""), $($more),*]
    };
}

static PROVIDER: ObjectSchema = strict(provider!());
static BRAVE: ObjectSchema = strict(provider!(field("mode", TEXT, "")));
static GROK: ObjectSchema = strict(provider!(field("inlineCitations", Schema::Bool, "")));

static X_SEARCH: ObjectSchema = strict(X_SEARCH_FIELDS);
static X_SEARCH_FIELDS: &[Field] = &[
    field("enabled", Schema::Bool, ""),
    field("apiKey", SECRET, ""),
    field("model", TEXT, ""),
    field("inlineCitations", Schema::Bool, ""),
    field("maxTurns", Schema::Number(Range::Any), ""),
    field("timeoutSeconds", POSITIVE_INTEGER, ""),
    field("cacheTtlMinutes", NOT_NEGATIVE, ""),
];
