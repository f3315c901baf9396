//! What can be said to `clawpen gateway`.

use std::path::PathBuf;

use clap::Args;

use super::FormatFlag;

#[derive(Debug, Args)]
pub(crate) struct GatewayArgs {
    /// The port; otherwise `OPENCLAW_GATEWAY_PORT`, `gateway.port`, 18789
    #[arg(long, value_name = "PORT")]
    pub port: Option<u16>,
    /// Who can reach it: `loopback`, `lan`, `tailnet`, `auto` or `custom`; otherwise `gateway.bind`
    #[arg(long, value_name = "MODE")]
    pub bind: Option<String>,
    /// What clients must show: `token`, `password`, `none` or `trusted-proxy`; otherwise `gateway.auth.mode`
    #[arg(long, value_name = "MODE")]
    pub auth: Option<String>,
    /// The token, for this run; other users of this machine can see it in the list of processes
    #[arg(long, value_name = "TOKEN")]
    pub token: Option<String>,
    /// The password, for this run; other users of this machine can see it in the list of processes
    #[arg(long, value_name = "PASSWORD", conflicts_with = "password_file")]
    pub password: Option<String>,
    /// A file whose first line is the password
    #[arg(long, value_name = "FILE")]
    pub password_file: Option<PathBuf>,
    /// Start although the config does not say `gateway.mode: "local"`
    #[arg(long)]
    pub allow_unconfigured: bool,
    /// `clawpen up` says it: have no terminal, so that none takes the gateway along when it closes
    #[arg(long, hide = true)]
    pub detached: bool,
    #[command(flatten)]
    pub format: FormatFlag,
}
