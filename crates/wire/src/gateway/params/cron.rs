//! The parameters of `cron.*`. A job is meant by `id`, or by its older name `jobId`.

use super::{NOT_NEGATIVE, POSITIVE};
use crate::gateway::shape::{FILLED, Field, Shape, TEXT, needed, optional};

const PAGE: Shape = Shape::Integer { least: 1, most: 200 };
const JOB_ID: Shape = Shape::Text { least: 1, most: 128 };
/// What a model is told, and what people read in lists.
const MESSAGE: Shape = Shape::Text { least: 1, most: 65_536 };
const NAME: Shape = Shape::Text { least: 0, most: 512 };
const DESCRIPTION: Shape = Shape::Text { least: 0, most: 4096 };
const ORDER: Shape = Shape::Words(&["asc", "desc"]);

pub(super) const LIST: &[Field] = &[
    optional("includeDisabled", Shape::Bool),
    optional("limit", PAGE),
    optional("offset", NOT_NEGATIVE),
    optional("query", TEXT),
    optional("enabled", Shape::Words(&["all", "enabled", "disabled"])),
    optional("sortBy", Shape::Words(&["nextRunAtMs", "updatedAtMs", "name"])),
    optional("sortDir", ORDER),
];

pub(super) const ID: &[Field] = &[optional("id", JOB_ID), optional("jobId", JOB_ID)];

pub(super) const RUN: &[Field] = &[
    optional("id", JOB_ID),
    optional("jobId", JOB_ID),
    optional("mode", Shape::Words(&["due", "force"])),
];

const STATUS: Shape = Shape::Words(&["ok", "error", "skipped"]);
const DELIVERY_STATUS: Shape =
    Shape::Words(&["delivered", "not-delivered", "unknown", "not-requested"]);

pub(super) const RUNS: &[Field] = &[
    optional("scope", Shape::Words(&["job", "all"])),
    optional("id", JOB_ID),
    optional("jobId", JOB_ID),
    optional("limit", PAGE),
    optional("offset", NOT_NEGATIVE),
    optional("statuses", Shape::List(&STATUS)),
    optional("status", Shape::Words(&["all", "ok", "error", "skipped"])),
    optional("deliveryStatuses", Shape::List(&DELIVERY_STATUS)),
    optional("deliveryStatus", DELIVERY_STATUS),
    optional("query", TEXT),
    optional("sortDir", ORDER),
];

const SCHEDULE: Shape = Shape::AnyOf(&[
    Shape::Object(&[needed("kind", Shape::Constant("at")), needed("at", FILLED)]),
    Shape::Object(&[
        needed("kind", Shape::Constant("every")),
        needed("everyMs", POSITIVE),
        optional("anchorMs", NOT_NEGATIVE),
    ]),
    Shape::Object(&[
        needed("kind", Shape::Constant("cron")),
        needed("expr", Shape::Text { least: 1, most: 128 }),
        optional("tz", TEXT),
        optional("staggerMs", NOT_NEGATIVE),
    ]),
]);

/// Of a turn in a session of its own. The last two are taken and change nothing here.
const MODEL: Field = optional("model", FILLED);
const TIMEOUT: Field = optional("timeoutSeconds", NOT_NEGATIVE);
const THINKING: Field = optional("thinking", TEXT);
const LIGHT: Field = optional("lightContext", Shape::Bool);

const PAYLOAD: Shape = Shape::AnyOf(&[
    Shape::Object(&[needed("kind", Shape::Constant("systemEvent")), needed("text", MESSAGE)]),
    Shape::Object(&[
        needed("kind", Shape::Constant("agentTurn")),
        needed("message", MESSAGE),
        MODEL,
        THINKING,
        TIMEOUT,
        LIGHT,
    ]),
]);

const PAYLOAD_CHANGE: Shape = Shape::AnyOf(&[
    Shape::Object(&[needed("kind", Shape::Constant("systemEvent")), optional("text", MESSAGE)]),
    Shape::Object(&[
        needed("kind", Shape::Constant("agentTurn")),
        optional("message", MESSAGE),
        MODEL,
        THINKING,
        TIMEOUT,
        LIGHT,
    ]),
]);

/// There are no channels to deliver to here; what was asked for is kept.
const DELIVERY: Shape = Shape::Object(&[
    needed("mode", Shape::Words(&["none", "announce"])),
    optional("channel", FILLED),
    optional("to", TEXT),
    optional("accountId", FILLED),
    optional("bestEffort", Shape::Bool),
]);

const DELIVERY_CHANGE: Shape = Shape::Object(&[
    optional("mode", Shape::Words(&["none", "announce"])),
    optional("channel", FILLED),
    optional("to", TEXT),
    optional("accountId", FILLED),
    optional("bestEffort", Shape::Bool),
]);

const TARGET: Shape = Shape::Words(&["main", "isolated", "current"]);
const WAKE: Shape = Shape::Words(&["now", "next-heartbeat"]);
const AGENT: Shape = Shape::Nullable(&FILLED);

pub(super) const ADD: &[Field] = &[
    optional("name", NAME),
    optional("agentId", AGENT),
    optional("sessionKey", AGENT),
    optional("description", DESCRIPTION),
    optional("enabled", Shape::Bool),
    optional("deleteAfterRun", Shape::Bool),
    needed("schedule", SCHEDULE),
    optional("sessionTarget", TARGET),
    optional("wakeMode", WAKE),
    needed("payload", PAYLOAD),
    optional("delivery", DELIVERY),
];

pub(super) const UPDATE: &[Field] = &[
    optional("id", JOB_ID),
    optional("jobId", JOB_ID),
    needed(
        "patch",
        Shape::Object(&[
            optional("name", NAME),
            optional("agentId", AGENT),
            optional("sessionKey", AGENT),
            optional("description", DESCRIPTION),
            optional("enabled", Shape::Bool),
            optional("deleteAfterRun", Shape::Bool),
            optional("schedule", SCHEDULE),
            optional("sessionTarget", TARGET),
            optional("wakeMode", WAKE),
            optional("payload", PAYLOAD_CHANGE),
            optional("delivery", DELIVERY_CHANGE),
        ]),
    ),
];
