//! Lists of tools, read in the most obvious way: nothing here calls the product.

use serde_json::Value;

const GROUPS: &[(&str, &[&str])] = &[
    ("group:fs", &["read", "write", "edit", "apply_patch"]),
    ("group:runtime", &["exec", "process", "code_execution"]),
    ("group:web", &["web_search", "web_fetch", "x_search"]),
    ("group:memory", &["memory_search", "memory_get"]),
    (
        "group:sessions",
        &[
            "sessions_list",
            "sessions_history",
            "sessions_send",
            "sessions_spawn",
            "sessions_yield",
            "subagents",
            "session_status",
        ],
    ),
    ("group:ui", &["browser", "canvas"]),
    ("group:messaging", &["message"]),
    ("group:automation", &["cron", "gateway"]),
    ("group:nodes", &["nodes"]),
    ("group:agents", &["agents_list"]),
    ("group:media", &["image", "image_generate", "tts"]),
];

/// In `group:openclaw` is all of the above but these.
const NOT_OPENCLAW: &[&str] = &["read", "write", "edit", "apply_patch", "exec", "process"];

pub(super) fn fold(text: &str) -> String {
    text.trim().to_lowercase()
}

pub(super) fn strings(list: &Value) -> Vec<String> {
    list.as_array().into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect()
}

/// Normal names of a list, groups replaced by their tools, blanks dropped.
pub(super) fn expand(list: &[String]) -> Vec<String> {
    let mut names = Vec::new();
    for entry in list {
        let name = match fold(entry).as_str() {
            "" => continue,
            "bash" => "exec".to_owned(),
            "apply-patch" => "apply_patch".to_owned(),
            name => name.to_owned(),
        };
        let all = GROUPS.iter().flat_map(|(_, tools)| tools.iter());
        match GROUPS.iter().find(|(group, _)| *group == name) {
            Some((_, tools)) => names.extend(tools.iter().map(|&tool| tool.to_owned())),
            None if name == "group:openclaw" => {
                let held = all.filter(|tool| !NOT_OPENCLAW.contains(tool));
                names.extend(held.map(|&tool| tool.to_owned()));
            }
            None => names.push(name),
        }
    }
    names
}

/// Says whether an entry of an expanded list means this tool.
pub(super) fn matches_any(list: &[String], name: &str, plugin: Option<&str>) -> bool {
    list.iter().any(|entry| {
        glob(entry.as_bytes(), name.as_bytes())
            || plugin.is_some_and(|plugin| entry == plugin || entry == "group:plugins")
    })
}

fn glob(pattern: &[u8], name: &[u8]) -> bool {
    match (pattern.split_first(), name.split_first()) {
        (None, None) => true,
        (Some((b'*', rest)), _) => (0..=name.len()).any(|skip| glob(rest, &name[skip..])),
        (Some((wanted, pattern)), Some((found, name))) => wanted == found && glob(pattern, name),
        _ => false,
    }
}
