//! Approvals that wait for a person: listing, answering and watching them.

use clap::Args;
use clawpen_rules::approval::answer::Word;

use super::FormatFlag;

#[derive(Debug, Args)]
pub(crate) struct ListArgs {
    /// Also those that came to their end
    #[arg(long)]
    pub all: bool,
    #[command(flatten)]
    pub format: FormatFlag,
}

#[derive(Debug, Args)]
pub(crate) struct ResolveArgs {
    /// Its id, or the beginning of it
    pub id: String,
    /// allow-once, allow-always or deny
    #[arg(value_parser = word)]
    pub decision: Word,
    #[command(flatten)]
    pub format: FormatFlag,
}

#[derive(Debug, Args)]
pub(crate) struct WatchArgs {
    /// Also serve the unix socket of the approvals file, so that other programs can ask and answer
    #[arg(long)]
    pub socket: bool,
    #[command(flatten)]
    pub format: FormatFlag,
}

fn word(text: &str) -> Result<Word, String> {
    Word::parse(text).ok_or_else(|| {
        let known = Word::ALL.map(Word::as_str).join(", ");
        format!("a decision is one of {known}")
    })
}
