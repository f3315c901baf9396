//! Compares a live container with what was asked for, field by field.
//!
//! Takes the request and the engine's inspection; gives every field that differs. A field nobody
//! asked for has to be empty: the rule is equality, and [`EXCEPTIONS`] names each field that an
//! engine may fill by itself, with the reason. A field that a later API adds is compared as well.
//! Podman says some things in words of its own, which [`podman`] turns into Docker's first.

mod podman;

use std::collections::BTreeSet;
use std::fmt;

use bollard::models::{ContainerCreateBody, ContainerInspectResponse, Mount, MountPoint};
use serde_json::{Map, Value};
use sha2::{Digest as _, Sha256};

use super::engine::Make;

/// What stands for a field without a value.
const NOTHING: &str = "nothing";

/// One field that is not as it was asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Difference {
    /// As the engine's API names it, such as `HostConfig.Privileged`.
    pub field: String,
    pub asked: String,
    pub observed: String,
}

impl Difference {
    /// Whether nothing was asked for in this field.
    pub fn is_unasked(&self) -> bool {
        self.asked == NOTHING
    }
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { field, asked, observed } = self;
        write!(f, "`{field}` was asked to be {asked} and is {observed}")
    }
}

/// How a field may differ from the request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Exception {
    /// The engine chooses if nothing was asked for.
    FilledIn,
    /// The engine may add to what was asked for.
    Superset,
    /// The engine chooses if nothing was asked for, and these are in the list.
    AtLeast(&'static [&'static str]),
    /// Compared elsewhere, or says nothing about what the container may do.
    Elsewhere,
}

use Exception::{AtLeast, Elsewhere, FilledIn, Superset};

/// What shows the kernel's memory, keys or firmware: every engine of ours has masked it since Docker 20.10.
const MASKED: &[&str] = &["/proc/kcore", "/proc/keys", "/proc/timer_list", "/sys/firmware"];
/// What steers the kernel.
const READ_ONLY: &[&str] =
    &["/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger"];

/// Each exception with its reason.
const EXCEPTIONS: &[(&str, Exception, &str)] = &[
    ("HostConfig.ShmSize", FilledIn, "the engine's 64 MiB"),
    ("HostConfig.Runtime", FilledIn, "the engine's default runtime"),
    ("HostConfig.MaskedPaths", AtLeast(MASKED), "Podman's own list, which grows with the kernel"),
    ("HostConfig.ReadonlyPaths", AtLeast(READ_ONLY), "the engine's list as well"),
    ("HostConfig.MemorySwap", FilledIn, "twice the memory limit unless told"),
    ("HostConfig.MemorySwappiness", FilledIn, "the kernel's default, shown as a number"),
    ("HostConfig.PidsLimit", FilledIn, "an engine may have a default limit; none is shown as -1"),
    ("HostConfig.OomScoreAdj", FilledIn, "an engine's default"),
    ("HostConfig.Isolation", FilledIn, "says `default` on some engines"),
    ("HostConfig.ConsoleSize", Elsewhere, "the size of a terminal nobody has"),
    ("HostConfig.Ulimits", Superset, "an engine's default limits are added"),
    ("HostConfig.NetworkMode", Elsewhere, "an engine writes names in its own way"),
    ("HostConfig.Mounts", Elsewhere, "compared as mounted, from the top-level list"),
    ("HostConfig.Binds", Elsewhere, "compared as mounted, from the top-level list"),
    ("HostConfig.LogConfig", Elsewhere, "where the supervisor's last words go"),
    ("Config.Hostname", FilledIn, "the container's id"),
    ("Config.ExposedPorts", FilledIn, "what the image says it listens on; nothing is published"),
    ("Config.Volumes", Elsewhere, "a volume of the image shows as a mount"),
    ("Config.OnBuild", FilledIn, "instructions for builds"),
    ("Config.StopSignal", FilledIn, "the image's"),
    ("Config.Shell", FilledIn, "for builds on the image"),
    ("Config.ArgsEscaped", FilledIn, "for Windows"),
];

/// How much of a value an error shows.
const SHOWN: usize = 240;

/// The lists whose order means nothing.
const SETS: &[&str] =
    &["Config.Env", "HostConfig.SecurityOpt", "HostConfig.CapDrop", "HostConfig.ExtraHosts"];

/// Every difference; `image` is the id of the image that was looked at before.
pub(super) fn differences(
    asked: &ContainerCreateBody,
    image: &str,
    observed: &ContainerInspectResponse,
    make: Make,
) -> Vec<Difference> {
    let mut asked_config = object(asked);
    let asked_host = asked_config.remove("HostConfig").unwrap_or_default();
    asked_config.remove("NetworkingConfig");
    let mut found = Vec::new();
    let asked_host = asked_host.as_object().cloned().unwrap_or_default();
    let mut observed_config = object(&observed.config);
    let mut observed_host = object(&observed.host_config);
    match make {
        Make::Docker => {}
        Make::Podman => {
            podman::translate_config(&asked_config, &mut observed_config);
            podman::translate_host(&asked_host, &mut observed_host);
        }
    }
    compare("Config", &asked_config, &observed_config, &mut found);
    compare("HostConfig", &asked_host, &observed_host, &mut found);
    let mode = |host: &Map<String, Value>| {
        host.get("NetworkMode").and_then(Value::as_str).map(network).unwrap_or_default()
    };
    note("HostConfig.NetworkMode", mode(&asked_host), mode(&observed_host), &mut found);
    note("Image", image, observed.image.as_deref().unwrap_or_default(), &mut found);
    found.extend(networks(&mode(&asked_host), observed));
    found.extend(mounts(asked, observed));
    found
}

/// Each network that the container is on besides the one that was asked for.
fn networks(asked: &str, observed: &ContainerInspectResponse) -> Option<Difference> {
    let settings = observed.network_settings.as_ref();
    let attached = settings.and_then(|settings| settings.networks.as_ref());
    let extra: Vec<&str> = attached
        .into_iter()
        .flatten()
        .filter(|(name, settings)| {
            let id = settings.network_id.as_deref().unwrap_or_default();
            // The engine's default network is `podman` in one of them.
            let default = asked == "bridge" && matches!(name.as_str(), "bridge" | "podman");
            !default && *name != asked && !(asked.len() >= 12 && id.starts_with(asked))
        })
        .map(|(name, _)| name.as_str())
        .collect();
    (!extra.is_empty()).then(|| Difference {
        field: "NetworkSettings.Networks".to_owned(),
        asked: format!("`{asked}`"),
        observed: format!("`{}` as well", extra.join("`, `")),
    })
}

fn object(value: &impl serde::Serialize) -> Map<String, Value> {
    match serde_json::to_value(value) {
        Ok(Value::Object(map)) => map,
        Ok(_) | Err(_) => Map::new(),
    }
}

fn compare(
    part: &str,
    asked: &Map<String, Value>,
    observed: &Map<String, Value>,
    found: &mut Vec<Difference>,
) {
    // A list that must be there is missed also where the engine does not show it at all.
    let needed = EXCEPTIONS.iter().filter_map(|(field, exception, _)| match exception {
        AtLeast(_) => field.strip_prefix(part)?.strip_prefix('.'),
        FilledIn | Superset | Elsewhere => None,
    });
    let names = asked.keys().chain(observed.keys()).map(String::as_str);
    let names: BTreeSet<&str> = names.chain(needed).collect();
    for name in names {
        let field = format!("{part}.{name}");
        let exception = EXCEPTIONS.iter().find(|(known, ..)| *known == field);
        let wanted = match exception {
            Some((_, AtLeast(least), _)) => Value::from(least.to_vec()),
            Some((_, FilledIn | Superset | Elsewhere, _)) | None => plain(&field, asked.get(name)),
        };
        let seen = plain(&field, observed.get(name));
        let fits = match exception.map(|(_, exception, _)| exception) {
            None => wanted == seen,
            Some(FilledIn) => wanted == Value::Null || wanted == seen,
            Some(Superset | AtLeast(_)) => has_all(&seen, &wanted),
            Some(Elsewhere) => true,
        };
        if !fits {
            note(&field, wanted, seen, found);
        }
    }
}

/// The value without ways to say "nothing": an engine answers with any of them.
fn plain(field: &str, value: Option<&Value>) -> Value {
    match value {
        None | Some(Value::Null | Value::Bool(false)) => Value::Null,
        Some(Value::String(text)) if text.is_empty() => Value::Null,
        Some(Value::Number(number)) if number.as_f64() == Some(0.0) => Value::Null,
        Some(Value::Array(items)) if items.is_empty() => Value::Null,
        Some(Value::Array(items)) => {
            let mut items: Vec<Value> = items.iter().map(|item| plain("", Some(item))).collect();
            if SETS.contains(&field) {
                items.sort_by_key(ToString::to_string);
            }
            Value::Array(items)
        }
        Some(Value::Object(map)) => {
            // An empty text in a map is a value: a tmpfs without options has one.
            let kept = map.iter().filter_map(|(key, value)| match value {
                Value::String(_) => Some((key.clone(), value.clone())),
                other => Some((key.clone(), plain("", Some(other)))).filter(|(_, v)| !v.is_null()),
            });
            let kept: Map<String, Value> = kept.collect();
            if kept.is_empty() { Value::Null } else { Value::Object(kept) }
        }
        Some(other) => other.clone(),
    }
}

fn has_all(list: &Value, wanted: &Value) -> bool {
    let items = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let list = items(list);
    items(wanted).iter().all(|item| list.contains(item))
}

/// The engine's default network has several names.
fn network(mode: &str) -> String {
    match mode {
        "default" | "bridge" | "slirp4netns" | "pasta" => "bridge".to_owned(),
        other => other.to_owned(),
    }
}

/// Each mount that is missing, wider than asked for, or not asked for at all.
fn mounts(asked: &ContainerCreateBody, observed: &ContainerInspectResponse) -> Vec<Difference> {
    let host = asked.host_config.as_ref();
    let listed = host.and_then(|host| host.mounts.as_ref()).into_iter().flatten().map(of_request);
    let bound = host.and_then(|host| host.binds.as_ref()).into_iter().flatten();
    let asked: BTreeSet<(String, String)> = listed.chain(bound.map(|bind| of_bind(bind))).collect();
    let observed: BTreeSet<(String, String)> =
        observed.mounts.iter().flatten().map(of_container).collect();
    let targets: BTreeSet<&String> =
        asked.symmetric_difference(&observed).map(|(target, _)| target).collect();
    let mut found = Vec::new();
    for target in targets {
        let show = |mounts: &BTreeSet<(String, String)>| {
            let here = mounts.iter().filter(|(place, _)| place == target);
            let shown: Vec<&str> = here.map(|(_, what)| what.as_str()).collect();
            if shown.is_empty() { NOTHING.to_owned() } else { shown.join(" and ") }
        };
        let field = format!("Mounts[{target}]");
        found.push(Difference { field, asked: show(&asked), observed: show(&observed) });
    }
    found
}

fn of_request(mount: &Mount) -> (String, String) {
    let source = mount.source.as_deref().unwrap_or_default();
    let access = if mount.read_only == Some(true) { "read-only" } else { "writable" };
    (mount.target.clone().unwrap_or_default(), format!("bind `{source}` {access}"))
}

fn of_bind(bind: &str) -> (String, String) {
    let mut parts = bind.splitn(3, ':');
    let source = parts.next().unwrap_or_default();
    let target = parts.next().unwrap_or_default();
    let read_only = parts.next().unwrap_or_default().split(',').any(|option| option == "ro");
    let access = if read_only { "read-only" } else { "writable" };
    (target.to_owned(), format!("bind `{source}` {access}"))
}

fn of_container(mount: &MountPoint) -> (String, String) {
    let kind = mount.typ.as_deref().unwrap_or("bind");
    let source = mount.source.as_deref().unwrap_or_default();
    let access = if mount.rw == Some(false) { "read-only" } else { "writable" };
    (mount.destination.clone().unwrap_or_default(), format!("{kind} `{source}` {access}"))
}

/// A seccomp profile may have a million letters; who reads an error needs to know that it is another
/// one.
fn short(text: &str) -> String {
    let shown: String = text.chars().take(SHOWN).collect();
    if shown.len() == text.len() {
        return shown;
    }
    let hash = Sha256::digest(text.as_bytes());
    let hash = hash.iter().take(4).fold(0_u32, |sum, byte| (sum << 8) | u32::from(*byte));
    format!("{shown}… ({} bytes, hash {hash:08x})", text.len())
}

fn note(
    field: &str,
    asked: impl Into<Value>,
    observed: impl Into<Value>,
    found: &mut Vec<Difference>,
) {
    let (asked, observed) = (asked.into(), observed.into());
    if asked == observed {
        return;
    }
    // A variable's value may be a secret: only its name is shown.
    let show = |value: &Value| match value {
        Value::Null => NOTHING.to_owned(),
        Value::Array(items) if field == "Config.Env" => {
            let names = items.iter().filter_map(Value::as_str);
            let names = names.filter_map(|entry| Some(entry.split_once('=')?.0));
            format!("{} with values (not shown)", names.collect::<Vec<_>>().join(", "))
        }
        other => format!("`{}`", short(&other.to_string())),
    };
    found.push(Difference {
        field: field.to_owned(),
        asked: show(&asked),
        observed: show(&observed),
    });
}

#[cfg(test)]
mod tests;
