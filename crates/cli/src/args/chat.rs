//! What `clawpen chat` takes.

use std::path::PathBuf;

use clap::Args;

use super::{FormatFlag, Subject};

/// Without `--message`, lines are read from standard input, one message each.
#[derive(Debug, Args)]
pub(crate) struct ChatArgs {
    #[command(flatten)]
    pub subject: Subject,
    /// Send this one message, print the answer and end
    #[arg(long, short, value_name = "TEXT")]
    pub message: Option<String>,
    /// Attach a file to the first message; it is copied into the sandbox's workspace
    #[arg(long, value_name = "FILE")]
    pub attach: Vec<PathBuf>,
    /// Show so many messages of what was said before
    #[arg(long, value_name = "COUNT", default_value_t = 0)]
    pub history: usize,
    /// Use this backend instead of the configured one: native or docker
    #[arg(long, value_name = "NAME")]
    pub backend: Option<String>,
    /// End the run after so many seconds
    #[arg(long, value_name = "SECONDS")]
    pub timeout: Option<u64>,
    #[command(flatten)]
    pub format: FormatFlag,
}
