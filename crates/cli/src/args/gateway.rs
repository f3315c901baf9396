//! What can be said to `clawpen gateway`.

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
    /// Start although the config does not say `gateway.mode: "local"`
    #[arg(long)]
    pub allow_unconfigured: bool,
    /// `clawpen up` says it: have no terminal, so that none takes the gateway along when it closes
    #[arg(long, hide = true)]
    pub detached: bool,
    #[command(flatten)]
    pub format: FormatFlag,
}
