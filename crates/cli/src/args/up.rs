//! The gateway in the background: `clawpen up`, `status`, `down` and `service`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::FormatFlag;

#[derive(Debug, Args)]
pub(crate) struct UpArgs {
    /// Open the gateway's page in a browser
    #[arg(long)]
    pub open: bool,
    /// The port; otherwise `OPENCLAW_GATEWAY_PORT`, `gateway.port`, 18789
    #[arg(long, value_name = "PORT")]
    pub port: Option<u16>,
    /// Only write the config if there is none, and check it; start nothing
    #[arg(long, conflicts_with = "open")]
    pub no_start: bool,
    /// Print the whole token, not only its beginning
    #[arg(long)]
    pub show_token: bool,
    #[command(flatten)]
    pub format: FormatFlag,
}

#[derive(Debug, Args)]
pub(crate) struct DownArgs {
    /// How long it may take to end by itself before it is killed
    #[arg(long, value_name = "SECONDS", default_value_t = 10)]
    pub timeout: u64,
    #[command(flatten)]
    pub format: FormatFlag,
}

#[derive(Debug, Subcommand)]
pub(crate) enum ServiceCommand {
    /// Write the unit file, and print what to tell systemctl
    Install(ServiceArgs),
    /// Take the unit file away; a changed one is kept beside it
    Uninstall(ServiceArgs),
}

#[derive(Debug, Args)]
pub(crate) struct ServiceArgs {
    /// A service of your own, which needs no root; what you get unless you are root
    #[arg(long, conflicts_with = "system")]
    pub user: bool,
    /// A service of the machine, under a user of its own
    #[arg(long)]
    pub system: bool,
    /// Only print what would be written
    #[arg(long)]
    pub dry_run: bool,
    #[command(flatten)]
    pub shape: UnitShape,
    #[command(flatten)]
    pub format: FormatFlag,
}

/// What goes into the unit.
#[derive(Debug, Args)]
pub(crate) struct UnitShape {
    /// The user of a system service
    #[arg(long, value_name = "NAME", default_value = "clawpen")]
    pub run_as: String,
    /// Keep a system service out of the group `docker`, whose members are as good as root
    #[arg(long)]
    pub no_docker: bool,
    /// Write below this directory instead of `/`, for packages and images
    #[arg(long, value_name = "DIR")]
    pub root: Option<PathBuf>,
}
