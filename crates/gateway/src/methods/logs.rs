//! `logs.tail`: the gateway's journal, from its end or from where the reader stopped.

use clawpen_wire::gateway::ErrorShape;
use serde_json::{Value, json};

use crate::journal::Wanted;
use crate::shared::Shared;

const LINES: u64 = 500;
const BYTES: u64 = 250_000;

pub(crate) fn tail(shared: &Shared, params: &Value) -> Result<Value, ErrorShape> {
    let number = |key: &str, built_in: u64| params[key].as_u64().unwrap_or(built_in);
    let wanted = Wanted {
        cursor: params["cursor"].as_u64(),
        lines: usize::try_from(number("limit", LINES)).unwrap_or(usize::MAX),
        bytes: number("maxBytes", BYTES),
    };
    let tail = shared.journal.tail(wanted);
    let tail =
        tail.map_err(|error| ErrorShape::unavailable(format!("log read failed: {error}")))?;
    Ok(json!({
        "file": tail.file.to_string_lossy(),
        "cursor": tail.cursor,
        "size": tail.size,
        "lines": tail.lines,
        "truncated": tail.is_truncated,
        "reset": tail.is_reset,
    }))
}
