//! What the session store says about a session. Read only, and only to explain: the store is the
//! reference's file, and whatever is wrong with it is as good as no record.

use std::io::Read as _;
use std::path::Path;

use clawpen_rules::session::key::SessionKey;

/// A larger store is not searched: it would cost more than the answer is worth.
const MAX_BYTES: u64 = 64 * 1024 * 1024;

/// The fields that may name a session's channel, most recent first.
const CHANNEL_FIELDS: [&str; 4] = ["lastChannel", "channel", "lastProvider", "provider"];

/// The names that a session's record gives for its channel, best first. Empty if there is no store,
/// no record or no such field.
pub fn channels(store: &Path, session: &SessionKey) -> Vec<String> {
    let Ok(file) = std::fs::File::open(store) else { return Vec::new() };
    if !file.metadata().is_ok_and(|facts| facts.is_file() && facts.len() <= MAX_BYTES) {
        return Vec::new();
    }
    let mut text = String::new();
    if file.take(MAX_BYTES).read_to_string(&mut text).is_err() {
        return Vec::new();
    }
    let Ok(records) = serde_json::from_str::<serde_json::Value>(&text) else { return Vec::new() };
    let record = &records[session.as_str()];
    let named = CHANNEL_FIELDS.iter().filter_map(|field| record[*field].as_str());
    named.map(str::to_owned).collect()
}
