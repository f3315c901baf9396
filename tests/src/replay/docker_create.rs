//! Answers the rows of `docker-create.jsonl`; one module per group of categories.

mod container;
mod lifecycle;
mod validate;

use anyhow::Result;

use super::world::World;
use super::{Answer, Row};

/// The product's answer to one row.
pub fn answer(row: &Row, world: &World) -> Result<Answer> {
    match row.category() {
        "validate" => Ok(validate::answer(row, world)),
        "resolve" | "lifecycle" | "prune" => lifecycle::answer(row, world),
        _ => container::answer(row, world),
    }
}
