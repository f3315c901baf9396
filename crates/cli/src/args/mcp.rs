//! What `clawpen mcp` takes.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};

use super::{FormatFlag, Subject};

/// Without `--http`, MCP is spoken on standard input and output.
#[derive(Debug, Args)]
pub(crate) struct McpArgs {
    #[command(subcommand)]
    pub command: Option<McpCommand>,
    #[command(flatten)]
    pub subject: Subject,
    /// Use this backend instead of the configured one: native or docker
    #[arg(long, value_name = "NAME")]
    pub backend: Option<String>,
    /// Also offer `sandbox_status`, `sandbox_list`, `sandbox_explain` and `sandbox_recreate`
    #[arg(long)]
    pub admin_tools: bool,
    #[command(flatten)]
    pub http: HttpArgs,
}

#[derive(Debug, Args)]
pub(crate) struct HttpArgs {
    /// Listen here instead, such as 127.0.0.1:8931; clients need the token
    #[arg(long, value_name = "ADDRESS")]
    pub http: Option<SocketAddr>,
    /// Read the token from this file; without it, mcp-token in the state directory, made when missing
    #[arg(long, value_name = "FILE", requires = "http")]
    pub token_file: Option<PathBuf>,
    /// Also take requests to this host name
    #[arg(long, value_name = "HOST", requires = "http")]
    pub allow_host: Vec<String>,
    /// Also take requests from web pages of this origin, such as `https://app.example`
    #[arg(long, value_name = "ORIGIN", requires = "http")]
    pub allow_origin: Vec<String>,
    /// Listen at an address that other machines reach; put something that speaks TLS before it
    #[arg(long, requires = "http")]
    pub allow_remote: bool,
}

#[derive(Debug, Subcommand)]
pub(crate) enum McpCommand {
    /// Tell a client to start this server: adds it to the client's config file
    Install(InstallArgs),
}

#[derive(Debug, Args)]
pub(crate) struct InstallArgs {
    /// The client
    pub client: Client,
    /// The server's name there
    #[arg(long, default_value = "clawpen")]
    pub name: String,
    #[command(flatten)]
    pub subject: Subject,
    /// For all projects of this user; without it, for the current directory where the client has that
    #[arg(long)]
    pub user: bool,
    /// Only show what would be written
    #[arg(long)]
    pub dry_run: bool,
    #[command(flatten)]
    pub format: FormatFlag,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Client {
    /// Claude Code
    Claude,
    /// Codex CLI
    Codex,
    Cursor,
    /// Visual Studio Code
    Vscode,
}
