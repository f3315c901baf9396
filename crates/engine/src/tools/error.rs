//! Why a tool did nothing, or not all of it.

use clawpen_rules::tools::arguments::BadArguments;
use clawpen_rules::tools::edit::EditRefused;
use clawpen_rules::tools::image::ImageRefused;
use clawpen_rules::tools::patch::PatchRefused;
use clawpen_rules::tools::place::PathRefused;
use clawpen_rules::tools::read::ReadRefused;

use crate::channel::{CallError, Failure};
use crate::error_text::chain;

/// A tool's call failed.
#[derive(Debug, thiserror::Error)]
pub enum ToolError {
    #[error(transparent)]
    Arguments(#[from] BadArguments),
    #[error(transparent)]
    Path(#[from] PathRefused),
    #[error("cannot {what} `{path}`")]
    Call {
        what: &'static str,
        path: String,
        #[source]
        cause: CallError,
    },
    #[error("`{path}` cannot be shown")]
    Read {
        path: String,
        #[source]
        reason: ReadRefused,
    },
    #[error("`{path}` is shown to no model")]
    Image {
        path: String,
        #[source]
        reason: ImageRefused,
    },
    #[error("`{path}` was not edited")]
    Edit {
        path: String,
        #[source]
        reason: EditRefused,
    },
    #[error(
        "`{path}` was written to by something else meanwhile and was left alone; read it again"
    )]
    Changed { path: String },
    #[error(transparent)]
    Patch(#[from] PatchRefused),
    /// Nothing was changed.
    #[error("the patch was not applied, no file was changed: cannot write `{path}`")]
    Stage {
        path: String,
        #[source]
        cause: Failure,
    },
    /// A change failed when others were done; those were taken back.
    #[error("the patch was taken back, every file is as before: cannot change `{path}`")]
    TakenBack {
        path: String,
        #[source]
        cause: Failure,
    },
    /// A change failed and not all others could be taken back.
    #[error("the patch stopped at `{path}`; these files could not be put back as they were: {}", .left.join(", "))]
    HalfDone {
        path: String,
        left: Vec<String>,
        #[source]
        cause: Failure,
    },
    /// The supervisor went while files were put in place.
    #[error(
        "the connection was lost while the patch was being applied; each file is old or new, look at them again"
    )]
    Lost(#[source] CallError),
    #[error("cannot search `{path}`")]
    Search {
        path: String,
        #[source]
        cause: SearchError,
    },
}

/// The searching program did not run.
#[derive(Debug, thiserror::Error)]
pub enum SearchError {
    #[error(
        "the sandbox was made by an older release, which cannot search; recreate it (`clawpen sandbox recreate`), or use exec with grep or find"
    )]
    Older,
    /// In its own words.
    #[error("{0}")]
    Failed(String),
    #[error(transparent)]
    Call(#[from] CallError),
}

impl ToolError {
    pub(super) fn call(what: &'static str, path: &str, cause: CallError) -> Self {
        Self::Call { what, path: path.to_owned(), cause }
    }

    /// The whole chain in one text, as a model reads it.
    pub fn for_model(&self) -> String {
        chain(self)
    }
}
