//! The fixture's files as test code sees them. Paths keep their placeholders.

use std::sync::OnceLock;

use serde_json::Value;

const FIXTURE: &str = include_str!("../../../corpus/exec-allowlist.fixture.json");

fn fixture() -> &'static Value {
    static PARSED: OnceLock<Value> = OnceLock::new();
    PARSED.get_or_init(|| serde_json::from_str(FIXTURE).unwrap_or_default())
}

/// A file: where it was looked for, and where links lead.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct File {
    pub path: String,
    pub real: String,
}

/// The file that a word in the place of a program starts.
pub(super) fn program(input: &Value, word: &str) -> Option<File> {
    let is_builtin =
        ["cd", "eval", "exec", "command", "source", ".", "type", "set"].contains(&word);
    if is_builtin || is_assignment(word) {
        return None;
    }
    if word.contains('/') {
        return executable(&absolute(input, word));
    }
    let path = input["path"].as_str().unwrap_or_default();
    let mut directories = path.split(':').filter(|directory| is_absolute(directory));
    directories.find_map(|directory| {
        let directory = directory.trim_end_matches('/');
        executable(&format!("{directory}/{word}"))
    })
}

/// The file that a word names as a script.
pub(super) fn script(input: &Value, word: &str) -> Option<File> {
    let path = absolute(input, word);
    let real = real(&path);
    file(&real).map(|_| File { path, real })
}

pub(super) fn is_absolute(path: &str) -> bool {
    path.starts_with('/') || path.starts_with("${")
}

fn is_assignment(word: &str) -> bool {
    let name = word.split_once('=').map_or("", |(name, _)| name);
    !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}

fn absolute(input: &Value, word: &str) -> String {
    let cwd = input["cwd"].as_str().unwrap_or_default();
    let joined = match word.strip_prefix("~/") {
        Some(rest) => format!("${{HOME}}/{rest}"),
        None if is_absolute(word) => word.to_owned(),
        None => format!("{cwd}/{word}"),
    };
    let mut parts: Vec<&str> = Vec::new();
    for part in joined.split('/').filter(|part| !part.is_empty() && *part != ".") {
        match (part, parts.as_slice()) {
            // The working directory of the rows is called `ws`.
            ("..", ["${WORKSPACE}"]) => parts = vec!["${WORKSPACE}/.."],
            ("ws", ["${WORKSPACE}/.."]) => parts = vec!["${WORKSPACE}"],
            ("..", _) => drop(parts.pop()),
            _ => parts.push(part),
        }
    }
    let joined = parts.join("/");
    if is_absolute(&joined) { joined } else { format!("/{joined}") }
}

fn executable(path: &str) -> Option<File> {
    let real = real(path);
    let mode = file(&real)?;
    (mode == "755").then(|| File { path: path.to_owned(), real })
}

fn file(real: &str) -> Option<&'static str> {
    let mut files = fixture()["files"].as_array().into_iter().flatten();
    files.find(|file| file["path"] == real).and_then(|file| file["mode"].as_str())
}

fn real(path: &str) -> String {
    let path = match path.strip_prefix("${FIX}/bin/") {
        Some(rest) => format!("${{FIX}}/usr/bin/{rest}"),
        None => path.to_owned(),
    };
    let mut links = fixture()["symlinks"].as_array().into_iter().flatten();
    let target =
        links.find(|link| link["path"] == path.as_str()).and_then(|l| l["target"].as_str());
    match target {
        None => path,
        Some(target) if is_absolute(target) => real(target),
        Some(target) => {
            let parent = path.rsplit_once('/').map_or("", |(parent, _)| parent);
            real(&format!("{parent}/{target}"))
        }
    }
}
