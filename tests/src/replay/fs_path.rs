//! Answers the rows of `fs-path.jsonl`.

mod bridge;

use anyhow::{Context as _, Result};
use clawpen_engine::host_files::RealFiles;
use clawpen_rules::config::sandbox::WorkspaceAccess;
use clawpen_rules::mounts::{BindSpec, MountTable, TablePlan};
use clawpen_rules::paths::{self, guard, media};
use serde_json::{Value, json};

use super::world::World;
use super::{Answer, Row};

/// The product's answer to one row.
pub fn answer(row: &Row, world: &World) -> Result<Answer> {
    let input = &row.input;
    Ok(Answer::Given(match row.category() {
        "bind-spec" => bind_spec(text(input, "spec")),
        "mounts" => mounts(&table(input)?),
        "resolve" | "binds" => resolve(&table(input)?, input, world),
        "lexical" => guarded(guard::decide_by_text(&guard_query(input, world))),
        "guard" => {
            let purpose = match input["allowFinalSymlinkForUnlink"].as_bool() {
                Some(true) => guard::Purpose::Remove,
                Some(false) | None => guard::Purpose::Open,
            };
            guarded(guard::decide(&guard_query(input, world), purpose, &RealFiles))
        }
        "media" => resolve_media(input, world),
        "bridge" => bridge::answer(input, world)?,
        _ => return Ok(Answer::NotYet),
    }))
}

fn text<'a>(value: &'a Value, key: &str) -> &'a str {
    value[key].as_str().unwrap_or_default()
}

fn bind_spec(spec: &str) -> Value {
    let parsed = BindSpec::parse(spec).map(
        |bind| json!({"host": bind.source, "container": bind.target, "options": bind.options}),
    );
    json!({ "parsed": parsed })
}

fn table(input: &Value) -> Result<MountTable> {
    let sandbox = &input["sandbox"];
    let access = WorkspaceAccess::parse(text(sandbox, "workspaceAccess")).context("access")?;
    let binds: Vec<&str> =
        sandbox["binds"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    Ok(MountTable::new(&TablePlan {
        workspace: text(sandbox, "workspaceDir"),
        agent_workspace: text(sandbox, "agentWorkspaceDir"),
        access,
        workdir: text(sandbox, "containerWorkdir"),
        binds: &binds,
        tmpfs: &[],
    }))
}

fn mounts(table: &MountTable) -> Value {
    let mounts: Vec<Value> = table
        .mounts()
        .iter()
        .map(|mount| {
            json!({
                "hostRoot": mount.host_root,
                "containerRoot": mount.container_root,
                "writable": mount.access.is_writable(),
                "source": mount.source.as_str(),
            })
        })
        .collect();
    json!({ "mounts": mounts })
}

fn resolve(table: &MountTable, input: &Value, world: &World) -> Value {
    let query = paths::Query {
        input: text(input, "filePath"),
        working_directory: input["cwd"].as_str(),
        home: world.get("HOME"),
    };
    match paths::decide(table, &query, &RealFiles) {
        Ok(found) => json!({
            "hostPath": found.host_path,
            "containerPath": found.container_path,
            "relativePath": found.relative_path,
            "writable": found.access.is_writable(),
        }),
        Err(escape) => json!({ "error": escape.to_string() }),
    }
}

fn guard_query<'a>(input: &'a Value, world: &'a World) -> guard::Query<'a> {
    guard::Query {
        input: text(input, "filePath"),
        working_directory: text(input, "cwd"),
        root: text(input, "root"),
        home: world.get("HOME"),
    }
}

fn guarded(answer: Result<guard::Guarded, guard::Refusal>) -> Value {
    match answer {
        Ok(guarded) => json!({"resolved": guarded.path, "relative": guarded.relative}),
        Err(refusal) => json!({ "error": refusal.to_string() }),
    }
}

fn resolve_media(input: &Value, world: &World) -> Value {
    let query = media::Query {
        media: text(input, "media"),
        root: text(input, "sandboxRoot"),
        workdir: "/workspace",
        // The reference's own directory for attachments in flight.
        media_roots: &["/tmp/openclaw"],
        home: world.get("HOME"),
    };
    match media::decide(&query, &RealFiles) {
        Ok(media::Media::Nothing) => json!({ "resolved": "" }),
        Ok(media::Media::Web(found) | media::Media::File(found)) => json!({ "resolved": found }),
        Err(refusal) => json!({ "error": refusal.to_string() }),
    }
}
