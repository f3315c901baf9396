//! Answers the rows about what a sandbox is made of: its environment, its arguments, the docker
//! calls of a first use, its browser, and single commands in it.

mod create_args;
mod env;
mod exec;
mod flow;

use anyhow::{Result, bail};
use clawpen_rules::config::sandbox::Scope;
use clawpen_rules::config::tree::FileId;
use clawpen_rules::config::{Config, json5};
use clawpen_rules::scope::{ContainerName, ScopeKey};
use clawpen_rules::session::Session;
use serde_json::Value;

use crate::replay::world::World;
use crate::replay::{Answer, Row};

pub(super) fn answer(row: &Row, world: &World) -> Result<Answer> {
    match row.category() {
        "env" => Ok(env::answer(&row.input)),
        "exec" => Ok(exec::answer(&row.input, world)),
        "create-args" => create_args::answer(&row.input, world),
        "flow" | "browser" => flow::answer(&row.input, world),
        other => bail!("unknown category `{other}`"),
    }
}

/// The string members of an object, in order.
fn pairs(object: &Value) -> Vec<(&str, &str)> {
    let members = object.as_object().into_iter().flatten();
    members.filter_map(|(name, value)| Some((name.as_str(), value.as_str()?))).collect()
}

fn config(value: &Value) -> Result<Config> {
    let parsed = json5::parse(&value.to_string(), FileId(0))?;
    Ok(Config::from_tree(parsed.root, Vec::new()))
}

/// Swaps one argument for another.
fn replace(args: &mut [String], from: &str, to: &str) {
    for arg in args.iter_mut().filter(|arg| *arg == from) {
        to.clone_into(arg);
    }
}

/// Rows give names that no scope has; ours is swapped for theirs afterwards.
fn any_name() -> ContainerName {
    let session = Session::resolve(&Config::empty(), "");
    ScopeKey::new(Scope::Shared, &session).container_name(Scope::Shared, "any-")
}
