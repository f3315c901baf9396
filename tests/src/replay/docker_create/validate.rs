//! Not written yet.

use anyhow::Result;

use crate::replay::world::World;
use crate::replay::{Answer, Row};

pub(super) fn answer(_row: &Row, _world: &World) -> Result<Answer> {
    Ok(Answer::NotYet)
}
