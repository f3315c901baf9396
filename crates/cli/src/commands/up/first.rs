//! The first `up`: finds out which backend works here and writes the config down.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;

use clawpen_engine::call::{self, Target};
use clawpen_engine::config_store::Surroundings;
use clawpen_engine::state_file::{self, Created};
use clawpen_engine::{machine, random};
use clawpen_rules::access::listen::DEFAULT_PORT;
use clawpen_rules::backend::choose::{self, Choice, Offer};
use clawpen_rules::config::locate::Locations;
use clawpen_rules::config::starter::{self, Starter, Token};

use super::super::CommandError;
use super::{make_and_remove, refuse_taken_at};
use crate::args::up::UpArgs;

/// A config was written.
pub(super) struct First {
    pub(super) choice: Choice,
    /// How many facts held in the pen that was tried.
    pub(super) facts: usize,
}

/// Writes a config if there is none; one that stands there is left alone, whatever it is.
pub(super) fn ensure_config(
    args: &UpArgs,
    around: &Surroundings,
    locations: &Locations,
) -> Result<Option<First>, CommandError> {
    let path = Path::new(&locations.config);
    if std::fs::symlink_metadata(path).is_ok() {
        return Ok(None);
    }
    if !args.no_start {
        // A config that names a port which somebody else has would be of no use.
        let variable =
            around.variable("OPENCLAW_GATEWAY_PORT").and_then(|port| port.trim().parse().ok());
        let port = args.port.or(variable).unwrap_or(DEFAULT_PORT);
        refuse_taken_at(SocketAddr::new(Ipv4Addr::LOCALHOST.into(), port))?;
    }
    let (native, facts) = match native(around) {
        Ok(facts) => (Ok(()), facts),
        Err(problem) => (Err(problem), 0),
    };
    let choice = choose::decide(Offer { native, engine: engine(around) });
    let made = random::token()?;
    let has_variable =
        around.variable("OPENCLAW_GATEWAY_TOKEN").is_some_and(|token| !token.trim().is_empty());
    let token = if has_variable { Token::Variable } else { Token::Written(&made) };
    let port = args.port.filter(|port| *port != 0);
    let text = starter::text(&Starter { choice: &choice, token, port });
    if let Some(directory) = path.parent() {
        let made = std::fs::create_dir_all(directory);
        made.map_err(|cause| CommandError::Write { path: locations.config.clone(), cause })?;
    }
    Ok(match state_file::create(path, &text)? {
        Created::Yes => Some(First { choice, facts }),
        // Somebody else was faster, and not through us.
        Created::Exists => None,
    })
}

/// Makes a native pen and removes it; how many facts held, or why there is none.
fn native(around: &Surroundings) -> Result<usize, String> {
    let store = around.open().map_err(|error| CommandError::Config(error).report())?;
    let target = Target { backend: Some("native"), ..Target::default() };
    make_and_remove(call::prepare(&store, &target)).map(|used| used.facts)
}

/// Where a container engine listens.
fn engine(around: &Surroundings) -> Option<String> {
    let named = around.variable("DOCKER_HOST").filter(|host| !host.trim().is_empty());
    let found = machine::look().sockets.first().map(|socket| socket.display().to_string());
    named.map(str::to_owned).or(found)
}
