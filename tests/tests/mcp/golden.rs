//! The recorded allowlist rows through the real `exec`, on the host: what a row refuses is not run, and what it allows
//! runs exactly those words.
//!
//! Every program of the fixture is really there and writes down that it was started, so each is a canary for all rows
//! that do not mean it. One door serves all rows of one `PATH`.

use std::collections::BTreeMap;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};

use clawpen_tests::compat;
use clawpen_tests::home::Home;
use clawpen_tests::replay::{Row, read_rows};
use serde_json::{Value, json};

use crate::door::Ground;
use crate::talk::Talk;

/// A directory that only root writes to, for who is root: in `/tmp` anybody could swap a program, and the product
/// knows it.
const SAFE: &str = "/var/lib";
const CORPUS: &str = "exec-allowlist";

/// The fixture's programs on this machine, and a home.
pub(crate) struct Yard {
    pub(crate) ground: Ground,
    pub(crate) base: PathBuf,
}

impl Yard {
    pub(crate) fn new() -> Self {
        let home = Home::below(Path::new(SAFE));
        let base = home.path("yard");
        let yard = Self { ground: Ground(home), base };
        let fixture = corpus().join(format!("{CORPUS}.fixture.json"));
        let fixture: Value =
            serde_json::from_str(&std::fs::read_to_string(fixture).unwrap()).unwrap();
        let fixture = yard.fill(&fixture);
        let path = |value: &Value| PathBuf::from(value.as_str().unwrap());
        for file in fixture["files"].as_array().unwrap() {
            yard.program(&path(&file["path"]), file["mode"].as_str().unwrap());
        }
        for link in fixture["symlinks"].as_array().into_iter().flatten() {
            let at = path(&link["path"]);
            std::fs::create_dir_all(at.parent().unwrap()).unwrap();
            symlink(path(&link["target"]), at).unwrap();
        }
        std::fs::create_dir_all(yard.log()).unwrap();
        std::fs::create_dir_all(yard.ground.0.path(".openclaw")).unwrap();
        let own = "{defaults: {approvals: {timeoutSec: 30}}}";
        std::fs::write(yard.ground.0.path(".openclaw/clawpen.json"), own).unwrap();
        yard
    }

    fn log(&self) -> PathBuf {
        self.base.join("log")
    }

    /// A program that writes down its file and its words.
    pub(crate) fn program(&self, path: &Path, mode: &str) {
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        let (own, log) = (path.display(), self.log());
        let text = format!("#!/bin/sh\nprintf '%s\\0' '{own}' \"$@\" > '{}'/$$\n", log.display());
        std::fs::write(path, text).unwrap();
        let mode = u32::from_str_radix(mode, 8).unwrap();
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
    }

    pub(crate) fn fill(&self, value: &Value) -> Value {
        let base = self.base.to_str().unwrap();
        let home = self.ground.0.path("");
        let text = value.to_string();
        let text = text.replace("${FIX}", &format!("{base}/fix"));
        let text = text.replace("${WORKSPACE}", &format!("{base}/ws"));
        let text = text.replace("${HOME}", home.to_str().unwrap().trim_end_matches('/'));
        serde_json::from_str(&text).unwrap()
    }

    /// What was started since the last look: files with their words.
    pub(crate) fn started(&self) -> Vec<Vec<String>> {
        let mut found = Vec::new();
        for entry in std::fs::read_dir(self.log()).unwrap() {
            let path = entry.unwrap().path();
            let bytes = std::fs::read(&path).unwrap();
            let words = bytes.strip_suffix(b"\0").unwrap_or(&bytes).split(|byte| *byte == 0);
            found.push(words.map(|word| String::from_utf8_lossy(word).into_owned()).collect());
            std::fs::remove_file(path).unwrap();
        }
        found.sort();
        found
    }

    /// Writes config and approvals file as a row has them.
    pub(crate) fn set(&self, input: &Value) {
        let mut exec = json!({
            "host": "gateway",
            "security": input.get("security").cloned().unwrap_or(json!("allowlist")),
            "ask": input.get("ask").cloned().unwrap_or(json!("off")),
            "safeBinTrustedDirs": input["trustedSafeBinDirs"],
        });
        for key in ["safeBins", "safeBinProfiles", "strictInlineEval"] {
            if !input[key].is_null() {
                exec[key] = input[key].clone();
            }
        }
        let sandbox = json!({ "mode": "all", "backend": "native" });
        let config =
            json!({ "tools": { "exec": exec }, "agents": { "defaults": { "sandbox": sandbox } } });
        std::fs::write(self.ground.0.path(".openclaw/openclaw.json"), config.to_string()).unwrap();
        let approvals = match &input["approvals"] {
            Value::Null => {
                json!({ "version": 1, "agents": { "main": { "allowlist": input["allowlist"] } } })
            }
            written => written.clone(),
        };
        let path = self.ground.0.path(".openclaw/exec-approvals.json");
        std::fs::write(&path, approvals.to_string()).unwrap();
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600)).unwrap();
    }
}

fn corpus() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus")
}

/// What a row says of a command.
#[derive(Debug, PartialEq)]
enum Meant {
    /// It runs, as these files with these words.
    Runs(Vec<Vec<String>>),
    /// A shell reads the text as it is.
    RunsByShell(String),
    IsNotRun,
}

/// A row's answer, with our deliberate differences.
fn meant(yard: &Yard, row: &Row) -> Meant {
    let (expected, _) = compat::apply(CORPUS, row);
    let expected = yard.fill(&expected);
    // A person is asked about every here document, and nothing runs in a directory that is not there.
    let is_here_document = row.category() == "heredoc" && expected["allowlistSatisfied"] == true;
    let is_somewhere = Path::new(yard.fill(&row.input)["cwd"].as_str().unwrap()).is_dir();
    if is_here_document || !is_somewhere {
        return Meant::IsNotRun;
    }
    let is_allowed = if let Some(decision) = expected["decision"].as_str() {
        decision == "run"
    } else {
        // Skills are nothing that this door knows of: what only they allow is refused.
        let by_skill = expected["segmentSatisfiedBy"].to_string().contains("skills");
        let asks = expected["requiresApproval"]["off/allowlist"] == true;
        expected["allowlistSatisfied"] == true && !by_skill && !asks
    };
    let command = expected["enforcedCommand"].as_str().or(expected["execCommand"].as_str());
    // Where everything may run, the text is a shell's.
    let text = row.input["command"].as_str().unwrap();
    match command {
        Some(command) if is_allowed && command.starts_with('\'') => Meant::Runs(programs(command)),
        None if is_allowed && expected["decision"] == "run" => Meant::RunsByShell(text.to_owned()),
        Some(_) | None => Meant::IsNotRun,
    }
}

/// The programs of a command line in which every word is quoted.
fn programs(command: &str) -> Vec<Vec<String>> {
    let mut programs = vec![Vec::new()];
    let mut rest = command.trim_start();
    while !rest.is_empty() {
        if rest.starts_with('\'') {
            let mut word = String::new();
            // A quote in a word ends the quoting, stands by itself, and begins it anew.
            while let Some(inner) = rest.strip_prefix('\'') {
                let (text, after) = inner.split_once('\'').unwrap();
                word.push_str(text);
                rest = after;
                for quote in ["\"'\"", "\\'"] {
                    if let Some(after) = rest.strip_prefix(quote) {
                        word.push('\'');
                        rest = after;
                    }
                }
            }
            programs.last_mut().unwrap().push(word);
        } else {
            let end = rest.find([' ', '\'']).unwrap_or(rest.len());
            let (operator, after) = rest.split_at(end);
            if ["|", "&&", "||", ";"].contains(&operator) {
                programs.push(Vec::new());
            } else {
                // Not a word of the plan: a here document and the like. The first word is enough then.
                programs.last_mut().unwrap().push(operator.to_owned());
            }
            rest = after;
        }
        rest = rest.trim_start();
    }
    programs
}

#[test]
fn what_a_row_refuses_is_not_run_and_what_it_allows_runs_exactly_its_words() {
    let yard = Yard::new();
    let rows = read_rows(&corpus().join(format!("{CORPUS}.jsonl"))).unwrap();
    let is_command = |row: &&Row| row.input["cwd"].is_string();
    let mut by_path: BTreeMap<String, Vec<&Row>> = BTreeMap::new();
    for row in rows.iter().filter(is_command) {
        by_path.entry(row.input["path"].to_string()).or_default().push(row);
    }
    let (mut ran, mut refused, mut wrong) = (0, 0, Vec::new());
    for rows in by_path.values_mut() {
        // Rows under the same settings follow each other.
        let settings = |row: &Row| {
            let mut input = row.input.clone();
            input["command"] = Value::Null;
            input.to_string()
        };
        rows.sort_by_key(|row| settings(row));
        let first = yard.fill(&rows[0].input);
        let mut last = String::new();
        let path = first["path"].as_str().unwrap();
        yard.set(&first);
        let mut talk = Talk::with(&yard.ground, &["--session", "agent:main:main"], json!({}), path);
        for row in rows.iter() {
            let input = yard.fill(&row.input);
            if std::mem::replace(&mut last, settings(row)) != last {
                yard.set(&input);
            }
            let call = json!({ "command": input["command"], "workdir": input["cwd"] });
            let answer = talk.call_or_ask("exec", call);
            let started = yard.started();
            let is_fine = match meant(&yard, row) {
                Meant::IsNotRun => {
                    refused += 1;
                    started.is_empty()
                        && answer.as_ref().is_none_or(|answer| answer["isError"] == true)
                }
                Meant::RunsByShell(text) => {
                    ran += 1;
                    let name = |one: &Vec<String>| one[0].rsplit('/').next().unwrap().to_owned();
                    !started.is_empty() && started.iter().all(|one| text.contains(&name(one)))
                }
                Meant::Runs(programs) => {
                    ran += usize::from(!started.is_empty());
                    let is_listed = started.iter().all(|one| programs.contains(one));
                    let has_first = programs.first().is_some_and(|first| started.contains(first));
                    is_listed && has_first
                }
            };
            if !is_fine {
                let answer = answer.map(|answer| answer["content"][0]["text"].clone());
                wrong.push(format!("{} {:?}: {started:?}, {answer:?}", row.id, input["command"]));
            }
        }
    }
    assert!(wrong.is_empty(), "{} rows:\n{}", wrong.len(), wrong.join("\n"));
    assert!(ran >= 150 && refused >= 150, "{ran} ran, {refused} were refused");
}
