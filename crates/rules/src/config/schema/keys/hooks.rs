//! The keys of `hooks`.

use super::super::{Field, ObjectSchema, Range, Schema};
use super::{POSITIVE_INTEGER, TEXT, TEXTS, field, other, strict};

pub(super) static HOOKS: ObjectSchema = strict(HOOKS_FIELDS);

static HOOKS_FIELDS: &[Field] = &[
    field("enabled", Schema::Bool, "true: other systems may start agents by POST, with `token`"),
    field("path", TEXT, "built-in: /hooks"),
    field("token", TEXT, "what a call shows; must not be the gateway's own"),
    field("defaultSessionKey", TEXT, "where calls run that name no session; built-in: one each"),
    field("allowRequestSessionKey", Schema::Bool, "true: a call may name its session"),
    field("allowedSessionKeyPrefixes", TEXTS, "what such a name must begin with"),
    field("allowedAgentIds", TEXTS, "only these agents; left out or `*`: any"),
    field("maxBodyBytes", POSITIVE_INTEGER, "built-in: 262144, at most 2097152"),
    field("presets", TEXTS, "mappings that are built in: gmail"),
    field("transformsDir", TEXT, "not enforced: refuses the start when enabled"),
    field("mappings", Schema::List(&MAPPING), "what calls of other names become"),
    field("gmail", Schema::Any, "not enforced: refuses the start when enabled"),
    other("internal"),
];

static MAPPING: Schema = Schema::Object(&MAPPING_OBJECT);
static MAPPING_OBJECT: ObjectSchema = strict(&[
    field("id", TEXT, ""),
    field("match", Schema::Object(&MATCH), "which calls it is for"),
    field("action", Schema::Words(&["wake", "agent"]), "built-in: agent"),
    field("wakeMode", Schema::Words(&["now", "next-heartbeat"]), "built-in: now"),
    field("name", TEXT, "a template"),
    field("agentId", TEXT, ""),
    field("sessionKey", TEXT, "a template"),
    field("messageTemplate", TEXT, "what an agent is told, with {{places}} of the payload"),
    field("textTemplate", TEXT, "the same for wake"),
    field("deliver", Schema::Bool, ""),
    field("allowUnsafeExternalContent", Schema::Bool, "true: not marked as foreign to the model"),
    field("channel", TEXT, "last; others refuse the start"),
    field("to", TEXT, ""),
    field("model", TEXT, "a template"),
    field("thinking", TEXT, ""),
    field("timeoutSeconds", Schema::Number(Range::PositiveInteger), ""),
    field("transform", Schema::Any, "not enforced: refuses the start when enabled"),
]);

static MATCH: ObjectSchema = strict(&[field("path", TEXT, ""), field("source", TEXT, "")]);
