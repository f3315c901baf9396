//! Sandboxes for people and for programs, in the reference's shape with what we know besides.

use std::time::Duration;

use clawpen_engine::lifecycle::{Condition, Listed, Listing, Origin};
use clawpen_engine::registry::{Foreign, Kind, Row, State};
use clawpen_rules::backend::Backend;
use serde_json::{Map, Value, json};

use crate::output::{Output, safe};

pub(super) fn json(listing: &Listing, kind: Kind) -> Value {
    let rows: Vec<Value> = listing.sandboxes.iter().map(item).collect();
    let (containers, browsers) = match kind {
        Kind::Sandbox => (rows, Vec::new()),
        Kind::Browser => (Vec::new(), rows),
    };
    json!({
        "containers": containers,
        "browsers": browsers,
        "clawpen": {
            "problems": listing.problems,
            "recovered": listing.recovered.rows,
            "leftovers": listing.recovered.leftovers,
            "survivors": listing.recovered.survivors,
        },
    })
}

fn item(one: &Listed) -> Value {
    let mut fields = match &one.origin {
        Origin::Ours(row) => ours(row),
        Origin::Reference(foreign) => reference(foreign),
    };
    fields.insert("running".to_owned(), json!(one.condition == Condition::Running));
    fields.insert("imageMatch".to_owned(), json!(one.has_current_image()));
    let (state, error) = state(&one.condition);
    fields.insert(
        "clawpen".to_owned(),
        json!({
            "state": state,
            "error": error,
            "configMatch": one.is_stale().map(|stale| !stale),
            "memoryBytes": one.memory,
            "callsInFlight": one.calls,
            "ageMs": millis(one.age),
            "idleMs": millis(one.idle),
            "madeBy": match &one.origin {
                Origin::Ours(_) => "clawpen",
                Origin::Reference(_) => "reference",
            },
        }),
    );
    Value::Object(fields)
}

fn ours(row: &Row) -> Map<String, Value> {
    let fields = json!({
        "containerName": row.name,
        "backendId": row.backend.as_str(),
        "runtimeLabel": row.name,
        "sessionKey": row.scope.as_str(),
        "createdAtMs": row.created.wall.as_millis(),
        "lastUsedAtMs": row.last_used.wall.as_millis(),
        "image": row.image,
        "configLabelKind": label_kind(row),
        "configHash": row.fingerprint,
    });
    fields.as_object().cloned().unwrap_or_default()
}

fn reference(foreign: &Foreign) -> Map<String, Value> {
    let mut fields = json!({
        "containerName": foreign.name,
        "backendId": foreign.backend,
        "runtimeLabel": foreign.label,
        "sessionKey": foreign.session_key,
        "createdAtMs": foreign.created.wall.as_millis(),
        "lastUsedAtMs": foreign.last_used.wall.as_millis(),
        "image": foreign.image,
        "configLabelKind": foreign.config_label_kind,
        "configHash": foreign.config_hash,
    });
    if let (Kind::Browser, Some(fields)) = (foreign.kind, fields.as_object_mut()) {
        for field in ["backendId", "runtimeLabel", "configLabelKind"] {
            fields.remove(field);
        }
        fields.insert("cdpPort".to_owned(), json!(foreign.cdp_port));
        fields.insert("noVncPort".to_owned(), json!(foreign.no_vnc_port));
    }
    fields.as_object().cloned().unwrap_or_default()
}

const fn label_kind(row: &Row) -> &'static str {
    match row.backend {
        Backend::Native => "Root",
        Backend::Docker | Backend::Kubernetes => "Image",
        Backend::Ssh | Backend::OpenShell => "Target",
    }
}

fn state(condition: &Condition) -> (&'static str, Option<&str>) {
    match condition {
        Condition::Running => ("running", None),
        Condition::Stopped => ("stopped", None),
        Condition::Gone => ("gone", None),
        Condition::Changing(State::Creating) => ("creating", None),
        Condition::Changing(State::Removing | State::Ready) => ("removing", None),
        Condition::Unknown(why) => ("unknown", Some(why)),
    }
}

/// One line for a question.
pub(super) fn line(one: &Listed) -> String {
    let (state, _) = state(&one.condition);
    let backend = match &one.origin {
        Origin::Ours(row) => row.backend.as_str(),
        Origin::Reference(foreign) => &foreign.backend,
    };
    let calls = match one.calls {
        0 => String::new(),
        calls => format!(", {calls} call(s) in flight"),
    };
    format!("  - {} [{}] ({state}{calls})", safe(one.name()), safe(backend))
}

pub(super) fn text(listing: &Listing, kind: Kind, output: &Output) -> Vec<String> {
    let mut lines = Vec::new();
    let (empty, title) = match kind {
        Kind::Sandbox => ("No sandboxes.", "📦 Sandboxes:"),
        Kind::Browser => ("No browser sandboxes.", "🌐 Browser sandboxes:"),
    };
    if listing.sandboxes.is_empty() {
        lines.push(empty.to_owned());
    } else {
        lines.extend([String::new(), output.bold(title), String::new()]);
        for one in &listing.sandboxes {
            lines.extend(block(one, output));
            lines.push(String::new());
        }
        let running =
            listing.sandboxes.iter().filter(|one| one.condition == Condition::Running).count();
        lines.push(format!("Total: {} ({running} running)", listing.sandboxes.len()));
        let stale = listing
            .sandboxes
            .iter()
            .filter(|one| !one.has_current_image() || one.is_stale() == Some(true))
            .count();
        if stale > 0 {
            lines.push(String::new());
            lines.push(format!("⚠️  {stale} made from an older config."));
            lines.push("   Run `clawpen sandbox recreate --all --stale` to renew them.".to_owned());
        }
    }
    for problem in &listing.problems {
        lines.push(format!("⚠️  {}", safe(problem)));
    }
    lines
}

fn block(one: &Listed, output: &Output) -> Vec<String> {
    let (state, error) = state(&one.condition);
    let mark = match &one.condition {
        Condition::Running => "🟢",
        Condition::Stopped | Condition::Gone => "⚫",
        Condition::Changing(_) => "🟡",
        Condition::Unknown(_) => "❓",
    };
    let (image, label, backend, session) = match &one.origin {
        Origin::Ours(row) => {
            (row.image.as_str(), label_kind(row), row.backend.as_str(), row.scope.as_str())
        }
        Origin::Reference(foreign) => (
            foreign.image.as_str(),
            foreign.config_label_kind.as_str(),
            foreign.backend.as_str(),
            foreign.session_key.as_str(),
        ),
    };
    let image = if image.is_empty() { "the host's programs" } else { image };
    let fits = if one.has_current_image() { "✓" } else { "⚠️  mismatch" };
    let row = |label: &str, text: &str| format!("    {:<9}{text}", format!("{label}:"));
    let mut lines = vec![
        format!("  {}", output.bold(&safe(one.name()))),
        row("Status", &format!("{mark} {state}")),
        row(&safe(label), &format!("{} {fits}", safe(image))),
        row("Backend", &safe(backend)),
    ];
    if let Origin::Reference(foreign) = &one.origin {
        lines.extend(foreign.cdp_port.map(|port| row("CDP", &port.to_string())));
        lines.extend(foreign.no_vnc_port.map(|port| row("noVNC", &port.to_string())));
        lines.push(row("Made by", "the reference; left alone without --adopt"));
    }
    lines.extend(one.memory.map(|bytes| row("Memory", &mebibytes(bytes))));
    lines.push(row("Age", &duration(one.age)));
    lines.push(row("Idle", &duration(one.idle)));
    lines.push(row("Session", &safe(session)));
    if one.calls > 0 {
        lines.push(row("Calls", &format!("{} in flight", one.calls)));
    }
    if one.is_stale() == Some(true) {
        lines.push(row("Config", "changed since it was made"));
    }
    lines.extend(error.map(|why| row("Error", &safe(why))));
    lines
}

fn mebibytes(bytes: u64) -> String {
    let tenths = bytes.saturating_mul(10) >> 20;
    format!("{}.{} MiB", tenths / 10, tenths % 10)
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

/// The two largest units; nothing smaller than a second once there is one.
pub(crate) fn duration(time: Duration) -> String {
    if time.is_zero() {
        return "0s".to_owned();
    }
    if time < Duration::from_secs(1) {
        return format!("{}ms", time.as_millis());
    }
    let seconds = (millis(time) + 500) / 1000;
    let units = [
        (seconds / 86_400, "d"),
        (seconds / 3600 % 24, "h"),
        (seconds / 60 % 60, "m"),
        (seconds % 60, "s"),
    ];
    let first = units.iter().position(|(count, _)| *count > 0).unwrap_or(units.len() - 1);
    let shown = units.iter().skip(first).take(2).filter(|(count, _)| *count > 0);
    shown.map(|(count, unit)| format!("{count}{unit}")).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_show_their_two_largest_units() {
        for (millis, expected) in [
            (0, "0s"),
            (1, "1ms"),
            (999, "999ms"),
            (1000, "1s"),
            (1499, "1s"),
            (1500, "2s"),
            (62_000, "1m 2s"),
            (125_000, "2m 5s"),
            (5_400_000, "1h 30m"),
            (3_600_000, "1h"),
            (3_605_000, "1h"),
            (273_600_000, "3d 4h"),
        ] {
            assert_eq!(duration(Duration::from_millis(millis)), expected, "{millis}");
        }
    }
}
