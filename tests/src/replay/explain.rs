//! Answers the rows of `explain.jsonl` through the real binary.
//!
//! Each row gets a home of its own; the binary sees nothing of this process' environment. Our
//! standard error may say more than the reference's, so it is part of the answer only where the
//! recording has one.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result};
use serde_json::{Map, Value};

use super::world::World;
use super::{Answer, Row};

/// The product's answer to one row.
pub fn answer(row: &Row, world: &World) -> Result<Answer> {
    let input = &row.input;
    if let Some(config) = input["config"].as_str() {
        write(&Path::new(world.get("STATE_DIR")).join("openclaw.json"), config)?;
    }
    for (path, content) in input["files"].as_object().into_iter().flatten() {
        write(Path::new(path), content.as_str().unwrap_or_default())?;
    }
    let mut command = Command::new(binary()?);
    command.args(["sandbox", "explain"]);
    command.args(input["args"].as_array().into_iter().flatten().filter_map(Value::as_str));
    if let Some(plugins) = input["channelPlugins"].as_array() {
        let names: Vec<&str> = plugins.iter().filter_map(Value::as_str).collect();
        command.arg(format!("--channels={}", names.join(",")));
    }
    command.env_clear().env("HOME", world.get("HOME")).env("PATH", "/usr/bin:/bin");
    for (name, value) in input["env"].as_object().into_iter().flatten() {
        command.env(name, value.as_str().unwrap_or_default());
    }
    command.current_dir(world.directory());
    let run = command.output().context("cannot run the clawpen binary")?;
    let mut given = Map::new();
    given.insert("exitCode".into(), run.status.code().into());
    let stdout = String::from_utf8(run.stdout)?;
    match serde_json::from_str::<Value>(&stdout) {
        Ok(Value::Object(mut json)) => {
            // Our own findings; everything else must equal the reference's shape.
            json.remove("clawpen").context("the answer lacks the key `clawpen`")?;
            given.insert("json".into(), Value::Object(json));
        }
        _ if !stdout.is_empty() => {
            given.insert("stdout".into(), stdout.into());
        }
        _ => {}
    }
    if row.expected.get("stderr").is_some() || run.status.code() != Some(0) {
        given.insert("stderr".into(), String::from_utf8(run.stderr)?.into());
    }
    Ok(Answer::Given(Value::Object(given)))
}

fn write(path: &Path, content: &str) -> Result<()> {
    if let Some(parent) = path.parent() {
        std::fs::create_dir_all(parent)?;
    }
    std::fs::write(path, content).with_context(|| format!("{}", path.display()))
}

/// The binary under test: `CLAWPEN_BIN`, else the one cargo built beside this program.
pub fn binary() -> Result<PathBuf> {
    if let Some(path) = std::env::var_os("CLAWPEN_BIN") {
        return Ok(PathBuf::from(path));
    }
    crate::built("clawpen")
}
