//! What the session store says about a session. Read only, and only to explain: the store is the
//! reference's file, and whatever is wrong with it is as good as no record.

use std::fmt;
use std::fs::OpenOptions;
use std::io::{BufReader, Read as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use clawpen_rules::elevated::level::Level;
use clawpen_rules::exec_host::{Ask, HostWish, Security, Wishes};
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
    let Some(record) = record(store, session) else { return Vec::new() };
    let named = CHANNEL_FIELDS.iter().filter_map(|field| record[*field].as_str());
    named.map(str::to_owned).collect()
}

/// What a session's record sets for exec. A word that is none of ours is the strictest one: somebody
/// meant to set something.
pub fn exec_wishes(store: &Path, session: &SessionKey) -> Wishes {
    let Some(record) = record(store, session) else { return Wishes::default() };
    let text = |field: &str| match &record[field] {
        serde_json::Value::Null => None,
        value => Some(value.as_str().unwrap_or_default().to_owned()),
    };
    Wishes {
        // A sandbox that is not there refuses, so that is the strictest place.
        host: text("execHost").map(|word| HostWish::parse(&word).unwrap_or(HostWish::Sandbox)),
        security: text("execSecurity")
            .map(|word| Security::parse(&word).unwrap_or(Security::STRICTEST)),
        ask: text("execAsk").map(|word| Ask::parse(&word).unwrap_or(Ask::STRICTEST)),
    }
}

/// The level of elevated that a session's record sets. A word that is none of ours is `off`.
pub fn elevated_level(store: &Path, session: &SessionKey) -> Option<Level> {
    let record = record(store, session)?;
    match &record["elevatedLevel"] {
        serde_json::Value::Null => None,
        value => Some(value.as_str().and_then(Level::parse).unwrap_or(Level::Off)),
    }
}

/// One session's record.
fn record(store: &Path, session: &SessionKey) -> Option<serde_json::Value> {
    let Ok(file) = OpenOptions::new().read(true).custom_flags(O_NONBLOCK).open(store) else {
        return None;
    };
    if !file.metadata().is_ok_and(|facts| facts.is_file() && facts.len() <= MAX_BYTES) {
        return None;
    }
    // Record by record: only the one that is asked for is kept.
    let mut reader = serde_json::Deserializer::from_reader(BufReader::new(file.take(MAX_BYTES)));
    reader.deserialize_map(Find { key: session.as_str() }).ok().flatten()
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
