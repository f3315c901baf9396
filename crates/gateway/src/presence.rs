//! Who is connected, as clients see it: the gateway itself, and every client that shows itself.

use std::collections::HashMap;

use serde_json::{Value, json};

/// How long somebody who left is still listed, and how many are at most.
const KEPT_MS: u64 = 300_000;
const MAX_ENTRIES: usize = 200;
/// How many of them are there by somebody's word only.
const MAX_TOLD: usize = 100;

/// The list.
#[derive(Default)]
pub(crate) struct Presence {
    entries: HashMap<String, Value>,
    /// What `system-event` told: beside those who are connected, never in their place, and not for long.
    told: HashMap<String, Value>,
}

impl Presence {
    /// Notes that somebody came or left.
    pub(crate) fn note(&mut self, key: &str, entry: Value) {
        self.entries.insert(key.to_owned(), entry);
    }

    /// Notes what somebody said of a machine; the oldest word goes when there are too many.
    pub(crate) fn told(&mut self, name: &str, entry: Value) {
        let oldest = || {
            let age = |entry: &Value| entry["ts"].as_u64();
            self.told.iter().min_by_key(|(_, entry)| age(entry)).map(|(name, _)| name.clone())
        };
        if self.told.len() >= MAX_TOLD
            && !self.told.contains_key(name)
            && let Some(oldest) = oldest()
        {
            self.told.remove(&oldest);
        }
        self.told.insert(name.to_owned(), entry);
    }

    /// The list, newest first; the gateway's own entry is always fresh.
    pub(crate) fn list(&mut self, own: Value, now_ms: u64) -> Value {
        let is_new = |entry: &Value| {
            let since = entry["ts"].as_u64().unwrap_or_default();
            now_ms.saturating_sub(since) <= KEPT_MS
        };
        self.entries.retain(|_, entry| entry["reason"] == "connect" || is_new(entry));
        self.told.retain(|_, entry| is_new(entry));
        let all = self.entries.values().chain(self.told.values());
        let mut entries: Vec<Value> = all.cloned().collect();
        entries.sort_by_key(|entry| std::cmp::Reverse(entry["ts"].as_u64()));
        entries.truncate(MAX_ENTRIES);
        entries.insert(0, own);
        json!(entries)
    }
}

/// The gateway's own entry.
pub(crate) fn own(now_ms: u64) -> Value {
    let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default().trim().to_owned();
    let host = read("/proc/sys/kernel/hostname");
    let version = clawpen_wire::gateway::COMPATIBLE_RELEASE;
    json!({
        "host": host,
        "version": version,
        "platform": format!("linux {}", read("/proc/sys/kernel/osrelease")),
        "deviceFamily": "Linux",
        "modelIdentifier": if cfg!(target_arch = "x86_64") { "x64" } else { std::env::consts::ARCH },
        "mode": "gateway",
        "reason": "self",
        "text": format!("Gateway: {host} · app {version} · mode gateway · reason self"),
        "ts": now_ms,
    })
}
