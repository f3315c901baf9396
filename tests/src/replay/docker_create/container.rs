//! Answers the rows about what a sandbox is made of: its environment, its arguments, the docker
//! calls of a first use, its browser, and single commands in it.

mod env;
mod exec;

use anyhow::Result;
use serde_json::Value;

use crate::replay::world::World;
use crate::replay::{Answer, Row};

pub(super) fn answer(row: &Row, world: &World) -> Result<Answer> {
    match row.category() {
        "env" => Ok(env::answer(&row.input)),
        "exec" => Ok(exec::answer(&row.input, world)),
        _ => Ok(Answer::NotYet),
    }
}

/// The string members of an object, in order.
fn pairs(object: &Value) -> Vec<(&str, &str)> {
    let members = object.as_object().into_iter().flatten();
    members.filter_map(|(name, value)| Some((name.as_str(), value.as_str()?))).collect()
}
