//! One module per command: each asks, then renders.

pub(crate) mod approvals;
pub(crate) mod audit;
pub(crate) mod bench;
pub(crate) mod browser;
pub(crate) mod chat;
pub(crate) mod config;
pub(crate) mod doctor;
pub(crate) mod down;
pub(crate) mod exec;
pub(crate) mod explain;
pub(crate) mod fs;
pub(crate) mod gateway;
pub(crate) mod gateway_logs;
pub(crate) mod image;
pub(crate) mod live;
pub(crate) mod manual;
pub(crate) mod mcp;
pub(crate) mod processes;
pub(crate) mod repair;
pub(crate) mod reseed;
pub(crate) mod sandboxes;
pub(crate) mod service;
pub(crate) mod status;
pub(crate) mod trash;
pub(crate) mod up;
pub(crate) mod why;
pub(crate) mod why_command;

use clawpen_engine::approvals_file::ChangeError;
use clawpen_engine::audit::AuditError;
use clawpen_engine::audit::signature::SignatureError;
use clawpen_engine::backend::docker::DockerFailure;
use clawpen_engine::broker::BrokerError;
use clawpen_engine::broker::socket::SocketError;
use clawpen_engine::call::OpenError;
use clawpen_engine::channel::CallError;
use clawpen_engine::config_store::StoreError;
use clawpen_engine::database::DatabaseError;
use clawpen_engine::explain::QuestionError;
use clawpen_engine::gateway_process::{LaunchError, PlaceError, RecordError, StopError};
use clawpen_engine::images::{BuildError, ExportError, RecipeError};
use clawpen_engine::lifecycle::EnsureError;
use clawpen_engine::registry::RegistryError;
use clawpen_engine::state_file::StateFileError;
use clawpen_engine::transfer::TransferError;
use clawpen_engine::workspaces::WorkspaceError;
use clawpen_engine::workspaces::trash::TrashError;

use clawpen_rules::approval::file::FileRefused;

use crate::config_report;
use crate::output::safe_lines;

/// Why a command could not do its work.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CommandError {
    #[error(transparent)]
    Config(#[from] StoreError),
    /// The config is not valid and that was already shown as the result.
    #[error("the config is not valid")]
    AlreadyShown,
    #[error(transparent)]
    Explain(#[from] QuestionError),
    /// There is no sandbox.
    #[error(transparent)]
    Open(#[from] OpenError),
    #[error(transparent)]
    Ensure(#[from] EnsureError),
    #[error(transparent)]
    Registry(#[from] RegistryError),
    /// The sandbox could not do it.
    #[error("cannot {what}")]
    Call {
        what: String,
        #[source]
        cause: CallError,
    },
    #[error(transparent)]
    Engine(#[from] DockerFailure),
    #[error("cannot make the image `{image}`")]
    Image {
        image: String,
        #[source]
        cause: BuildError,
    },
    #[error(transparent)]
    Recipe(#[from] RecipeError),
    #[error(transparent)]
    Export(#[from] ExportError),
    #[error(transparent)]
    Transfer(#[from] TransferError),
    #[error(transparent)]
    Workspace(#[from] WorkspaceError),
    #[error(transparent)]
    Trash(#[from] TrashError),
    #[error("the approvals file cannot be used")]
    Approvals(#[from] FileRefused),
    #[error(transparent)]
    Change(#[from] ChangeError),
    #[error(transparent)]
    Database(#[from] DatabaseError),
    #[error(transparent)]
    Audit(#[from] AuditError),
    #[error(transparent)]
    Broker(#[from] BrokerError),
    #[error(transparent)]
    Socket(#[from] SocketError),
    #[error(transparent)]
    Signature(#[from] SignatureError),
    #[error(transparent)]
    Door(#[from] clawpen_gateway::mcp::run::DoorError),
    #[error(transparent)]
    Token(#[from] clawpen_gateway::mcp::http::token::TokenError),
    #[error(transparent)]
    Browser(#[from] clawpen_engine::browser::BrowserError),
    #[error(transparent)]
    Bridge(#[from] clawpen_gateway::bridge::BridgeError),
    #[error(transparent)]
    Place(#[from] PlaceError),
    #[error(transparent)]
    Record(#[from] RecordError),
    #[error(transparent)]
    Stop(#[from] StopError),
    #[error(transparent)]
    Launch(#[from] LaunchError),
    #[error(transparent)]
    StateFile(#[from] StateFileError),
    #[error("cannot print the result")]
    Print(#[from] std::io::Error),
    #[error("{what}")]
    Question { what: String },
    #[error("cannot read `{path}`")]
    Read {
        path: String,
        #[source]
        cause: std::io::Error,
    },
    #[error("cannot write `{path}`")]
    Write {
        path: String,
        #[source]
        cause: std::io::Error,
    },
}

impl CommandError {
    /// What to print about it.
    pub(crate) fn report(&self) -> String {
        match self {
            Self::Config(error) => config_report::failure(error),
            // What the gateway said has several lines, and is made harmless line by line.
            Self::Launch(error @ LaunchError::Ended { .. }) => {
                format!("error: {}", safe_lines(&error.to_string()))
            }
            other => config_report::chain(other),
        }
    }
}
