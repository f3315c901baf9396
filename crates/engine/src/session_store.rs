//! What the session store says about a session. Read only, and only to explain: the store is the
//! reference's file, and whatever is wrong with it is as good as no record.

use std::fmt;
use std::fs::OpenOptions;
use std::io::{BufReader, Read as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use clawpen_rules::session::key::SessionKey;
use serde::de::{Deserializer as _, IgnoredAny, MapAccess, Visitor};

/// A larger store is not searched: it would cost more than the answer is worth.
const MAX_BYTES: u64 = 64 * 1024 * 1024;

/// Do not wait for a writer if a pipe stands there.
const O_NONBLOCK: i32 = 0o4000;

/// The fields that may name a session's channel, most recent first.
const CHANNEL_FIELDS: [&str; 4] = ["lastChannel", "channel", "lastProvider", "provider"];

/// The names that a session's record gives for its channel, best first. Empty if there is no store,
/// no record or no such field.
pub fn channels(store: &Path, session: &SessionKey) -> Vec<String> {
    let Ok(file) = OpenOptions::new().read(true).custom_flags(O_NONBLOCK).open(store) else {
        return Vec::new();
    };
    if !file.metadata().is_ok_and(|facts| facts.is_file() && facts.len() <= MAX_BYTES) {
        return Vec::new();
    }
    // Record by record: only the one that is asked for is kept.
    let mut reader = serde_json::Deserializer::from_reader(BufReader::new(file.take(MAX_BYTES)));
    let record = reader.deserialize_map(Find { key: session.as_str() }).ok().flatten();
    let Some(record) = record else { return Vec::new() };
    let named = CHANNEL_FIELDS.iter().filter_map(|field| record[*field].as_str());
    named.map(str::to_owned).collect()
}

/// Looks for one member of an object and passes over the others.
struct Find<'a> {
    key: &'a str,
}

impl<'de> Visitor<'de> for Find<'_> {
    type Value = Option<serde_json::Value>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object of sessions")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut found = None;
        while let Some(key) = map.next_key::<String>()? {
            if key == self.key {
                found = Some(map.next_value()?);
            } else {
                map.next_value::<IgnoredAny>()?;
            }
        }
        Ok(found)
    }
}
