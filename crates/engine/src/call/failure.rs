//! Why a tool call did nothing, as the model reads it.

use clawpen_rules::container::exec::ExecRefused;
use clawpen_rules::elevated::level::ElevationRefused;
use clawpen_rules::models::image::NoImageModel;
use clawpen_rules::tools::arguments::BadArguments;
use clawpen_rules::tools::process::keys::BadKey;

use super::OpenError;
use crate::audit::AuditError;
use crate::broker::BrokerError;
use crate::channel::CallError;
use crate::config_store::StoreError;
use crate::database::DatabaseError;
use crate::error_text::chain;
use crate::explain::QuestionError;
use crate::host_call::HostCallError;
use crate::models::{AskError, KeyError};
use crate::tools::ToolError;
use crate::web::FetchError;

/// A call of a tool failed or was refused.
#[derive(Debug, thiserror::Error)]
pub enum ToolCallError {
    #[error("the config cannot be used")]
    Config(#[from] StoreError),
    #[error(transparent)]
    Question(#[from] QuestionError),
    #[error("the state directory cannot be used")]
    Database(#[from] DatabaseError),
    #[error("the call cannot be recorded, so it is not done")]
    Audit(#[from] AuditError),
    #[error(transparent)]
    Open(#[from] OpenError),
    /// No tool of this name, or none in this build.
    #[error("{0}")]
    NoTool(String),
    /// Policy has closed it: rule, place and the smallest change.
    #[error("{0}")]
    Closed(String),
    #[error(transparent)]
    Arguments(#[from] BadArguments),
    #[error(transparent)]
    Tool(#[from] ToolError),
    #[error(transparent)]
    Fetch(#[from] FetchError),
    /// No model looks at the images.
    #[error(transparent)]
    NoImageModel(#[from] NoImageModel),
    #[error(transparent)]
    ModelKey(#[from] KeyError),
    #[error(transparent)]
    Model(#[from] AskError),
    #[error(transparent)]
    Exec(#[from] ExecRefused),
    #[error(transparent)]
    Elevated(#[from] ElevationRefused),
    /// No host takes the command: why, and what would change that.
    #[error("exec denied: {0}")]
    Denied(String),
    #[error(transparent)]
    NotApproved(Box<NotApproved>),
    #[error(transparent)]
    Host(#[from] HostCallError),
    #[error(transparent)]
    Broker(#[from] BrokerError),
    #[error("cannot {what}")]
    Sandbox {
        what: &'static str,
        #[source]
        cause: CallError,
    },
    #[error("there is no command `{id}` in the background; `list` shows those of this session")]
    NoProcess { id: String },
    #[error("{0}")]
    Process(String),
    #[error(transparent)]
    Key(#[from] BadKey),
    #[error("the call was cancelled; what it had started was killed")]
    Cancelled,
    #[error("cannot watch the call")]
    Watch(#[source] std::io::Error),
}

/// A command that a person was asked about, and that did not run.
#[derive(Debug, thiserror::Error)]
#[error("exec denied: {what} (approval {id}); {next}")]
pub struct NotApproved {
    /// The beginning of the approval's id, as the lists show it.
    pub id: String,
    /// What came of the question.
    pub what: String,
    /// What would help.
    pub next: String,
    pub code: &'static str,
}

impl ToolCallError {
    pub(super) const fn sandbox(what: &'static str) -> impl FnOnce(CallError) -> Self {
        move |cause| Self::Sandbox { what, cause }
    }

    /// The whole chain in one text, as a model reads it.
    pub fn for_model(&self) -> String {
        chain(self)
    }

    /// A word for programs.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Config(_) | Self::Question(_) => "config",
            Self::Database(_) | Self::Audit(_) | Self::Host(_) | Self::Broker(_) => "state",
            Self::Open(_) | Self::Sandbox { .. } => "sandbox",
            Self::NoTool(_) => "no-tool",
            Self::Closed(_) => "policy",
            Self::Arguments(_)
            | Self::Key(_)
            | Self::Exec(_)
            | Self::Tool(ToolError::Arguments(_)) => "arguments",
            Self::Tool(_)
            | Self::NoProcess { .. }
            | Self::Process(_)
            | Self::ModelKey(_)
            | Self::Model(_) => "tool",
            Self::Fetch(error) if error.is_refusal() => "denied",
            Self::Fetch(_) => "fetch",
            Self::Elevated(_) | Self::Denied(_) | Self::NoImageModel(_) => "denied",
            Self::NotApproved(why) => why.code,
            Self::Cancelled => "cancelled",
            Self::Watch(_) => "internal",
        }
    }
}
