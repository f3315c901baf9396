//! What Podman says about a container, in Docker's words.
//!
//! Each rewriting keeps what could open something: a value that does not mean the same as what was
//! asked for is left as it is, and differs. What Podman does not say at all (the cgroup namespace) is
//! seen in the kernel.

use serde_json::{Map, Value, json};

/// What Podman drops when all capabilities are dropped: those that it would give.
const DEFAULT_CAPABILITIES: &[&str] = &[
    "CHOWN",
    "DAC_OVERRIDE",
    "FOWNER",
    "FSETID",
    "KILL",
    "NET_BIND_SERVICE",
    "SETFCAP",
    "SETGID",
    "SETPCAP",
    "SETUID",
    "SYS_CHROOT",
];
/// Variables that Podman adds.
const OWN_VARIABLES: &[&str] = &["TERM", "container", "HOSTNAME", "HOME"];
/// Memory that Podman mounts by itself over a read-only root.
const OWN_TMPFS: &[&str] = &["/run", "/tmp", "/var/tmp", "/dev/shm"];

pub(super) fn translate_config(asked: &Map<String, Value>, observed: &mut Map<String, Value>) {
    // The whole name of an image that was asked for by its short one.
    let name = |map: &Map<String, Value>| map.get("Image").and_then(Value::as_str).map(short);
    if name(asked) == name(observed) {
        copy(asked, observed, "Image");
    }
    if let Some(Value::Array(variables)) = observed.get_mut("Env") {
        let wanted: Vec<&Value> =
            asked.get("Env").and_then(Value::as_array).into_iter().flatten().collect();
        variables.retain(|variable| {
            let name =
                variable.as_str().and_then(|text| text.split('=').next()).unwrap_or_default();
            wanted.contains(&variable) || !OWN_VARIABLES.contains(&name)
        });
    }
    // Times and retries of a check that is switched off.
    let is_off = observed.get("Healthcheck").is_some_and(|check| check["Test"] == json!(["NONE"]));
    if is_off {
        observed.insert("Healthcheck".to_owned(), json!({"Test": ["NONE"]}));
    }
}

pub(super) fn translate_host(asked: &Map<String, Value>, observed: &mut Map<String, Value>) {
    for (field, same) in [
        // Nothing is shared: `shareable` means that others could ask for it.
        ("IpcMode", "shareable"),
        ("PidMode", "private"),
        ("UTSMode", "private"),
        ("CgroupnsMode", ""),
    ] {
        if observed.get(field).and_then(Value::as_str) == Some(same) {
            copy(asked, observed, field);
        }
    }
    // A user namespace of its own; whose numbers it keeps is seen by who the first process is.
    let mode = |host: &Map<String, Value>| host.get("UsernsMode").cloned();
    if mode(asked) == Some(json!("keep-id")) && mode(observed) == Some(json!("private")) {
        copy(asked, observed, "UsernsMode");
    }
    // The kernel's figure follows from the other one.
    if observed.get("NanoCpus") == asked.get("NanoCpus") && asked.contains_key("NanoCpus") {
        observed.remove("CpuQuota");
        observed.remove("CpuPeriod");
    }
    if all_dropped(asked, observed) || capabilities(asked) == capabilities(observed) {
        copy(asked, observed, "CapDrop");
    }
    if same_tmpfs(asked, observed) {
        copy(asked, observed, "Tmpfs");
    }
    // Podman does not tell them: that `/proc/sys` is read-only is seen from inside.
    for (field, least) in [("MaskedPaths", super::MASKED), ("ReadonlyPaths", super::READ_ONLY)] {
        if observed.get(field).is_none_or(|list| list.is_null() || *list == json!([])) {
            observed.insert(field.to_owned(), json!(least));
        }
    }
    if let Some(Value::Array(limits)) = observed.get_mut("Ulimits") {
        for limit in limits {
            let name = limit["Name"].as_str().unwrap_or_default();
            limit["Name"] = name.trim_start_matches("RLIMIT_").to_ascii_lowercase().into();
        }
    }
}

fn copy(asked: &Map<String, Value>, observed: &mut Map<String, Value>, field: &str) {
    match asked.get(field) {
        Some(value) => observed.insert(field.to_owned(), value.clone()),
        None => observed.remove(field),
    };
}

fn short(name: &str) -> String {
    let name = name.strip_prefix("docker.io/").unwrap_or(name);
    let name = name.strip_prefix("library/").or(name.strip_prefix("localhost/")).unwrap_or(name);
    if name.contains(':') { name.to_owned() } else { format!("{name}:latest") }
}

fn capabilities(host: &Map<String, Value>) -> Vec<String> {
    let list = host.get("CapDrop").and_then(Value::as_array).into_iter().flatten();
    let names = list.filter_map(Value::as_str).map(str::to_ascii_uppercase);
    let mut names: Vec<String> =
        names.map(|name| name.strip_prefix("CAP_").unwrap_or(&name).to_owned()).collect();
    names.sort_unstable();
    names
}

fn all_dropped(asked: &Map<String, Value>, observed: &Map<String, Value>) -> bool {
    let dropped = capabilities(observed);
    capabilities(asked).iter().any(|name| name == "ALL")
        && DEFAULT_CAPABILITIES.iter().all(|name| dropped.iter().any(|known| known == name))
}

/// The same places with at least the options that were asked for, and at most Podman's own besides.
fn same_tmpfs(asked: &Map<String, Value>, observed: &Map<String, Value>) -> bool {
    let places = |host: &Map<String, Value>| -> Map<String, Value> {
        host.get("Tmpfs").and_then(Value::as_object).cloned().unwrap_or_default()
    };
    let (asked, observed) = (places(asked), places(observed));
    let has_options = |wanted: &Value, found: &Value| {
        let found: Vec<&str> = found.as_str().unwrap_or_default().split(',').collect();
        let mut wanted = wanted.as_str().unwrap_or_default().split(',');
        wanted.all(|option| option.is_empty() || found.contains(&option))
    };
    asked.iter().all(|(place, options)| {
        observed.get(place).is_some_and(|found| has_options(options, found))
    }) && observed
        .keys()
        .all(|place| asked.contains_key(place) || OWN_TMPFS.contains(&place.as_str()))
}
