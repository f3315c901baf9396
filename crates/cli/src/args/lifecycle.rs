//! Sandboxes that stay: listing, renewing, removing them, and what runs in their background.

use clap::{Args, Subcommand};

use super::{FormatFlag, Subject, TargetArgs};

/// Which kind of sandbox is meant.
#[derive(Debug, Clone, Copy, Args)]
pub(crate) struct KindFlag {
    /// Browsers instead of shells
    #[arg(long)]
    pub browser: bool,
}

#[derive(Debug, Args)]
pub(crate) struct ListArgs {
    #[command(flatten)]
    pub kind: KindFlag,
    #[command(flatten)]
    pub format: FormatFlag,
}

#[derive(Debug, Args)]
pub(crate) struct BrowserArgs {
    #[command(flatten)]
    pub subject: Subject,
    #[command(flatten)]
    pub format: FormatFlag,
}

/// Which sandboxes, and whether to ask.
#[derive(Debug, Args)]
pub(crate) struct Selection {
    /// Every sandbox of this state directory
    #[arg(long)]
    pub all: bool,
    #[command(flatten)]
    pub subject: Subject,
    #[command(flatten)]
    pub kind: KindFlag,
    #[command(flatten)]
    pub filter: Filter,
    /// Do not ask, and cut off calls that are in flight
    #[arg(long)]
    pub force: bool,
}

/// Fewer or more of those that are meant.
#[derive(Debug, Clone, Copy, Args)]
pub(crate) struct Filter {
    /// Only those whose config has changed since they were made
    #[arg(long)]
    pub stale: bool,
    /// Also containers that the reference made
    #[arg(long)]
    pub adopt: bool,
}

/// Whether a command is waited for.
#[derive(Debug, Clone, Copy, Args)]
pub(crate) struct BackgroundFlag {
    /// Leave the command running and print its number; see `clawpen ps`, `logs`, `attach`, `kill`
    #[arg(short = 'd', long, conflicts_with_all = ["tty", "interactive", "fresh"])]
    pub background: bool,
}

#[derive(Debug, Args)]
pub(crate) struct RecreateArgs {
    #[command(flatten)]
    pub selection: Selection,
    /// Renew the private workspace too; the old one is moved to the trash
    #[arg(long)]
    pub reseed: bool,
}

#[derive(Debug, Args)]
pub(crate) struct RemoveArgs {
    #[command(flatten)]
    pub selection: Selection,
    /// The names of the sandboxes, as `sandbox list` shows them
    #[arg(conflicts_with_all = ["all", "session", "agent"])]
    pub names: Vec<String>,
}

#[derive(Debug, Args)]
pub(crate) struct PsArgs {
    #[command(flatten)]
    pub target: TargetArgs,
    /// In every sandbox of this state directory
    #[arg(short, long)]
    pub all: bool,
    #[command(flatten)]
    pub format: FormatFlag,
}

#[derive(Debug, Args)]
pub(crate) struct ProcessArgs {
    /// The number that `exec --background` printed, or `ps` shows
    pub process: u64,
    #[command(flatten)]
    pub target: TargetArgs,
}

#[derive(Debug, Args)]
pub(crate) struct AttachArgs {
    #[command(flatten)]
    pub process: ProcessArgs,
    /// Pass our input to the command
    #[arg(short, long)]
    pub interactive: bool,
}

#[derive(Debug, Args)]
pub(crate) struct KillArgs {
    #[command(flatten)]
    pub process: ProcessArgs,
    /// The signal, by number
    #[arg(short, long, value_name = "N", default_value_t = 15)]
    pub signal: i32,
    /// Only the command's first process, not all it started
    #[arg(long)]
    pub one: bool,
}

#[derive(Debug, Args)]
pub(crate) struct LogsArgs {
    /// The number of a background command; without it, the gateway's journal
    pub process: Option<u64>,
    #[command(flatten)]
    pub target: TargetArgs,
    /// Go on until the command ends; with the gateway's journal, until Ctrl-C
    #[arg(short, long)]
    pub follow: bool,
    #[command(flatten)]
    pub journal: JournalArgs,
}

/// How the gateway's journal is shown.
#[derive(Debug, Args)]
pub(crate) struct JournalArgs {
    /// How many lines of the gateway's journal
    #[arg(short = 'n', long, value_name = "N", default_value_t = 50)]
    pub lines: usize,
    /// What the gateway's process printed, instead of its journal
    #[arg(long, conflicts_with_all = ["process", "json"])]
    pub output: bool,
    /// The journal as it is: one JSON object a line
    #[arg(long, conflicts_with = "process")]
    pub json: bool,
}

/// What runs in the background of a sandbox.
#[derive(Debug, Subcommand)]
pub(crate) enum ProcessCommand {
    /// List commands that run in a sandbox, or whose output is kept
    Ps(PsArgs),
    /// Follow a background command; Ctrl-C leaves it running
    Attach(AttachArgs),
    /// Signal a background command and all it started
    Kill(KillArgs),
    /// Print the gateway's journal, or what is kept of a background command's output
    Logs(LogsArgs),
}
