//! `skills.status`, `skills.update` and `skills.install`: the skills that an agent could use, what they lack here, and
//! bringing it.

mod install;

use std::path::{Path, PathBuf};

use clawpen_engine::config_file::{self, Base, Sound};
use clawpen_engine::state_file;
use clawpen_rules::config::tree::{FileId, Node};
use clawpen_rules::config::{json5, patch, redact};
use clawpen_rules::ids::AgentId;
use clawpen_rules::workspace::skills::{
    self as rule, MAX_PER_SOURCE, MAX_SKILL_FILE, SKILL_FILE, SkillSource, SourceKind,
};
use clawpen_wire::gateway::ErrorShape;
use serde_json::{Value, json};

use super::config::{Plan, write_error};
use super::{optional, text};
use crate::methods::tools;
use crate::shared::Shared;
use crate::tree_json::{to_json, to_tree};

pub(crate) use install::install;

const WANTS: [&str; 5] = ["bins", "anyBins", "env", "config", "os"];

pub(crate) fn status(shared: &Shared, params: &Value) -> Result<Value, ErrorShape> {
    let sound = shared.sound()?;
    let agent = tools::agent(&sound, optional(params, "agentId"))?;
    let locations = &sound.store.locations;
    let workspace = locations.agent_workspace(&sound.store.loaded.config, &agent).value;
    let mut found: Vec<Value> =
        skills(&sound, &agent).iter().map(|skill| shown(shared, (&sound, &agent), skill)).collect();
    found.sort_by_key(|skill| skill["name"].as_str().unwrap_or_default().to_owned());
    Ok(json!({
        "workspaceDir": workspace,
        "managedSkillsDir": format!("{}/skills", locations.state_dir),
        "skills": found,
    }))
}

/// A skill as it was read.
struct Skill {
    kind: SourceKind,
    base: PathBuf,
    name: String,
    text: String,
}

/// The skills of an agent. Of two of one name the one from the nearer place counts.
fn skills(sound: &Sound, agent: &AgentId) -> Vec<Skill> {
    let config = &sound.store.loaded.config;
    let locations = &sound.store.locations;
    let workspace = locations.agent_workspace(config, agent).value;
    let mut found: Vec<Skill> = Vec::new();
    for source in rule::sources(config, locations, &workspace) {
        for skill in of_source(&source) {
            found.retain(|other| other.name != skill.name);
            found.push(skill);
        }
    }
    found
}

fn of_source(source: &SkillSource) -> Vec<Skill> {
    let place = Path::new(&source.root).join(&source.below);
    let Ok(listed) = std::fs::read_dir(&place) else { return Vec::new() };
    let mut paths: Vec<PathBuf> = listed.flatten().map(|entry| entry.path()).collect();
    paths.sort();
    let named = paths.into_iter().filter(|path| {
        let name = path.file_name().map(|name| name.to_string_lossy().into_owned());
        name.is_some_and(|name| rule::is_looked_at(&name))
    });
    let read = |base: PathBuf| {
        let text = state_file::read(&base.join(SKILL_FILE), MAX_SKILL_FILE).ok()??;
        let directory = base.file_name()?.to_string_lossy().into_owned();
        let name = rule::name_in(&text, &directory);
        Some(Skill { kind: source.kind, base, name, text })
    };
    named.filter_map(read).take(MAX_PER_SOURCE).collect()
}

/// One skill.
fn shown(shared: &Shared, (sound, agent): (&Sound, &AgentId), skill: &Skill) -> Value {
    let Skill { kind, base, name, text } = skill;
    let front = front_matter(text);
    let about = metadata(&front);
    let key = about["skillKey"].as_str().unwrap_or(name).to_owned();
    let config = &sound.store.loaded.config;
    let is_off = config
        .at(&["skills", "entries", &key, "enabled"])
        .is_some_and(|at| at.node.as_bool() == Some(false));
    let only = config.agent(agent).and_then(|at| at.get("skills")?.strings());
    let only = only.or_else(|| config.at(&["agents", "defaults", "skills"])?.strings());
    let is_blocked = only.is_some_and(|only| !only.contains(name));
    let wants = requirements(&about);
    let missing = missing(shared, sound, (&key, &wants));
    let is_always = about["always"] == json!(true);
    let lacks =
        WANTS.iter().any(|want| missing[*want].as_array().is_some_and(|one| !one.is_empty()));
    let mut skill = json!({
        "name": name,
        "description": line(&front, "description").unwrap_or_default(),
        "source": source_word(*kind),
        "bundled": false,
        "filePath": base.join(SKILL_FILE).to_string_lossy(),
        "baseDir": base.to_string_lossy(),
        "skillKey": key,
    });
    for word in ["emoji", "homepage"] {
        if let Some(value) = about[word].as_str().map(str::to_owned).or_else(|| line(&front, word))
        {
            skill[word] = json!(value);
        }
    }
    skill["always"] = json!(is_always);
    skill["disabled"] = json!(is_off);
    skill["blockedByAllowlist"] = json!(is_blocked);
    skill["eligible"] = json!(!is_off && !is_blocked && (is_always || !lacks));
    skill["requirements"] = wants;
    skill["missing"] = missing;
    skill["configChecks"] = json!([]);
    skill["install"] = install::ways(shared, sound, &about);
    skill
}

const fn source_word(kind: SourceKind) -> &'static str {
    match kind {
        SourceKind::Extra => "openclaw-extra",
        SourceKind::Managed => "openclaw-managed",
        SourceKind::Personal => "agents-skills-personal",
        SourceKind::AgentPersonal => "agents-skills-project",
        SourceKind::Workspace => "openclaw-workspace",
    }
}

/// The lines between the two `---` at the start.
fn front_matter(text: &str) -> Vec<&str> {
    let mut lines = text.lines();
    match lines.next().map(str::trim_end) {
        Some("---") => lines.take_while(|line| line.trim_end() != "---").take(200).collect(),
        _ => Vec::new(),
    }
}

fn line(front: &[&str], key: &str) -> Option<String> {
    let found = front.iter().find_map(|line| line.strip_prefix(key)?.strip_prefix(':'));
    let value = found?.trim().trim_matches(['"', '\'']).trim();
    (!value.is_empty()).then(|| value.to_owned())
}

/// What stands in `metadata:` about this product: JSON on the line, or on the lines below.
fn metadata(front: &[&str]) -> Value {
    let Some(start) = front.iter().position(|line| line.starts_with("metadata:")) else {
        return Value::Null;
    };
    let first =
        front.get(start).and_then(|line| line.strip_prefix("metadata:")).unwrap_or_default();
    let below = front.iter().skip(start + 1).take_while(|line| line.starts_with([' ', '\t', '}']));
    let text = std::iter::once(first).chain(below.copied()).collect::<Vec<_>>().join("\n");
    match json5::parse(text.trim(), FileId(0)) {
        Ok(parsed) => to_json(&parsed.root)["openclaw"].clone(),
        Err(_) => Value::Null,
    }
}

fn requirements(about: &Value) -> Value {
    let list = |value: &Value| {
        let words = value.as_array().into_iter().flatten().filter_map(Value::as_str);
        json!(words.collect::<Vec<_>>())
    };
    let wants = &about["requires"];
    json!({
        "bins": list(&wants["bins"]),
        "anyBins": list(&wants["anyBins"]),
        "env": list(&wants["env"]),
        "config": list(&wants["config"]),
        "os": list(&about["os"]),
    })
}

/// What of it this machine, this environment and this config do not have.
fn missing(shared: &Shared, sound: &Sound, (key, wants): (&str, &Value)) -> Value {
    let config = &sound.store.loaded.config;
    let words = |want: &str| -> Vec<String> {
        let list = wants[want].as_array().into_iter().flatten();
        list.filter_map(Value::as_str).map(str::to_owned).collect()
    };
    let is_there = |program: &String| has_program(shared, program);
    let has_variable = |name: &String| {
        let of_entry = config.at(&["skills", "entries", key, "env", name]).is_some()
            || config.at(&["skills", "entries", key, "apiKey"]).is_some();
        of_entry || shared.around.variable(name).is_some()
    };
    let has_key = |name: &String| {
        let keys: Vec<&str> = name.split('.').collect();
        let found = config.at(&keys).map(|at| at.node.as_bool() != Some(false));
        found.unwrap_or(false)
    };
    let without = |list: Vec<String>, has: &dyn Fn(&String) -> bool| -> Vec<String> {
        list.into_iter().filter(|word| !has(word)).collect()
    };
    let any = words("anyBins");
    let any = if any.iter().any(is_there) { Vec::new() } else { any };
    let systems = words("os");
    let is_ours = systems.is_empty() || systems.iter().any(|system| system == "linux");
    json!({
        "bins": without(words("bins"), &is_there),
        "anyBins": any,
        "env": without(words("env"), &has_variable),
        "config": without(words("config"), &has_key),
        "os": if is_ours { Vec::new() } else { systems },
    })
}

/// Says whether a program of this name is in the path.
fn has_program(shared: &Shared, program: &str) -> bool {
    let path = shared.around.variable("PATH").map(str::to_owned);
    let path = path.or_else(|| std::env::var("PATH").ok()).unwrap_or_default();
    !program.contains('/') && path.split(':').any(|place| Path::new(place).join(program).is_file())
}

/// Switches a skill on or off, or gives it its key and variables, in `skills.entries`.
pub(crate) fn update(shared: &Shared, params: &Value) -> Result<Value, ErrorShape> {
    let key = text(params, "skillKey").trim().to_owned();
    if key.is_empty() || key.contains(['.', '/']) {
        return Err(ErrorShape::invalid("skillKey is no name of a skill"));
    }
    let mut entry = json!({});
    if let Some(enabled) = params.get("enabled") {
        entry["enabled"] = enabled.clone();
    }
    let blank_clears = |value: &Value| match value.as_str().map(str::trim) {
        Some("") => Value::Null,
        _ => value.clone(),
    };
    if let Some(secret) = params.get("apiKey") {
        entry["apiKey"] = blank_clears(secret);
    }
    for (name, value) in params["env"].as_object().into_iter().flatten() {
        entry["env"][name] = blank_clears(value);
    }
    let change = to_tree(&json!({ "skills": { "entries": { &key: entry } } }));
    let written = config_file::write(&shared.around, Base::Now, Shared::now(), |old| {
        let mut new: Node = old.shown.clone();
        patch::merge(&mut new, &change);
        Ok::<_, Plan>(new)
    });
    let sound = written.map_err(write_error)?;
    let shown = to_json(&redact::redact(&sound.shown));
    Ok(json!({ "ok": true, "skillKey": key, "config": shown["skills"]["entries"][&key] }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metadata_is_read_from_one_line_or_several() {
        let one = "---\nname: a\nmetadata: {\"openclaw\": {\"emoji\": \"x\", \"requires\": {\"bins\": [\"op\"]}}}\n---\n";
        let several = "---\nname: a\nmetadata:\n  {\n    \"openclaw\": { \"emoji\": \"x\", \"requires\": { \"bins\": [\"op\"] }, },\n  }\n---\n";
        for text in [one, several] {
            let about = metadata(&front_matter(text));
            assert_eq!(about["emoji"], "x", "{text}");
            assert_eq!(requirements(&about)["bins"], json!(["op"]), "{text}");
        }
        assert_eq!(metadata(&front_matter("---\nmetadata: {broken\n---\n")), Value::Null);
        assert_eq!(
            line(&front_matter("---\ndescription: 'Does it'\n---"), "description").as_deref(),
            Some("Does it")
        );
    }
}
