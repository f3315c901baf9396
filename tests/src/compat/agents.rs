//! Agents and session keys as test code sees them, for the rules of several corpora.

use serde_json::Value;

/// The id of the agent that is meant when none is named.
pub(super) fn default_agent(config: &Value) -> String {
    let agents = config["agents"]["list"].as_array().map_or(&[][..], Vec::as_slice);
    let marked = agents.iter().find(|agent| agent["default"] == true).or(agents.first());
    normalized(marked.and_then(|agent| agent["id"].as_str()).unwrap_or("main"))
}

/// Says whether a session's key names its agent.
pub(super) fn is_agent_key(key: &str) -> bool {
    let key = key.to_lowercase();
    let parts: Vec<&str> = key.split(':').filter(|part| !part.is_empty()).collect();
    parts.len() >= 3 && parts.first() == Some(&"agent")
}

/// An agent id in normal form, as the reference's documents describe it.
pub(super) fn normalized(id: &str) -> String {
    let mut normal = String::new();
    for c in id.trim().to_lowercase().chars() {
        if c.is_ascii_alphanumeric() || c == '_' || c == '-' {
            normal.push(c);
        } else if !normal.ends_with('\0') {
            normal.push('\0');
        }
    }
    let normal: String = normal.replace('\0', "-").trim_matches('-').chars().take(64).collect();
    if normal.is_empty() { "main".to_owned() } else { normal }
}
