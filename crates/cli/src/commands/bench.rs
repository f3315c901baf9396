//! `clawpen bench`.

use super::CommandError;
use crate::args::BenchArgs;
use crate::exit::Outcome;
use crate::output::Output;

pub(crate) fn run(_args: &BenchArgs, _output: &Output) -> Result<Outcome, CommandError> {
    Ok(Outcome::Done)
}
