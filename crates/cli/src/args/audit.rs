//! What can be said to `clawpen audit`.

use std::path::PathBuf;

use clap::Args;
use clawpen_engine::audit::{Head, Verdict};

use super::FormatFlag;

#[derive(Debug, Args)]
#[command(args_override_self = true)]
pub(crate) struct AuditArgs {
    #[command(flatten)]
    pub action: Action,
    #[command(flatten)]
    pub which: Which,
    /// With --verify: a head that was kept elsewhere, as seq:hash; proves all up to it
    #[arg(long, value_name = "HEAD", requires = "verify", value_parser = head)]
    pub head: Option<Head>,
    #[command(flatten)]
    pub format: FormatFlag,
}

/// What to do; without any, list.
#[derive(Debug, Args)]
#[group(multiple = false)]
pub(crate) struct Action {
    /// Look at every record; ends with 3 if the chain is not whole
    #[arg(long, conflicts_with = "Which")]
    pub verify: bool,
    /// Go on printing new records until stopped
    #[arg(short, long)]
    pub follow: bool,
    /// Write all records and the head as JSON lines to a new file; - for standard output
    #[arg(long, value_name = "FILE", conflicts_with = "Which")]
    pub export: Option<PathBuf>,
    /// Drop the records that are older than audit.keepDays in clawpen.json allows
    #[arg(long, conflicts_with = "Which")]
    pub retain: bool,
}

/// Which records.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct Which {
    /// Only of this session, by its full key
    #[arg(long, value_name = "KEY")]
    pub session: Option<String>,
    /// Only of this agent
    #[arg(long, value_name = "ID")]
    pub agent: Option<String>,
    /// Only of this tool
    #[arg(long, value_name = "NAME")]
    pub tool: Option<String>,
    /// Only with this verdict: allowed, refused, approved, denied or failed
    #[arg(long, value_name = "WORD", value_parser = verdict)]
    pub verdict: Option<Verdict>,
    /// Not before: a time such as 2026-11-15T08:00Z, or so long ago: 90s, 15m, 2h, 7d
    #[arg(long, value_name = "TIME")]
    pub since: Option<String>,
    /// Not after
    #[arg(long, value_name = "TIME")]
    pub until: Option<String>,
    /// So many of the newest; 0 for all; otherwise 50
    #[arg(long, value_name = "N")]
    pub limit: Option<u64>,
}

fn head(text: &str) -> Result<Head, String> {
    Head::parse(text).ok_or_else(|| {
        "a head is a number, a colon and 64 hex digits, as `audit --verify` prints it".to_owned()
    })
}

fn verdict(text: &str) -> Result<Verdict, String> {
    Verdict::parse(text).ok_or_else(|| {
        let known = Verdict::ALL.map(Verdict::as_str).join(", ");
        format!("no verdict is called `{text}`; there are {known}")
    })
}
