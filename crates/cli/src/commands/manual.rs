//! `clawpen completions` and `clawpen man`: made from the same definition as the help.

use std::path::Path;

use clap::CommandFactory as _;

use super::CommandError;
use crate::args::Cli;
use crate::exit::Outcome;
use crate::output::Output;

pub(crate) fn completions(
    shell: clap_complete::Shell,
    output: &Output,
) -> Result<Outcome, CommandError> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "clawpen", &mut script);
    output.text(&String::from_utf8_lossy(&script))?;
    Ok(Outcome::Done)
}

/// Prints the main page, or writes every page into `directory`.
pub(crate) fn pages(directory: Option<&Path>, output: &Output) -> Result<Outcome, CommandError> {
    let command = Cli::command();
    let Some(directory) = directory else {
        let mut page = Vec::new();
        clap_mangen::Man::new(command).render(&mut page)?;
        output.text(&String::from_utf8_lossy(&page))?;
        return Ok(Outcome::Done);
    };
    let failed = |cause| CommandError::Write { path: directory.display().to_string(), cause };
    std::fs::create_dir_all(directory).map_err(failed)?;
    clap_mangen::generate_to(command, directory).map_err(failed)?;
    output.note(&format!("manual pages written to {}", directory.display()));
    Ok(Outcome::Done)
}
