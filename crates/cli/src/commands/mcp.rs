//! `clawpen mcp`: opens the MCP door, or tells a client about it.
//!
//! On standard input and output only the protocol is spoken; whatever else is to be said goes to standard error.

mod install;

use std::os::unix::fs::MetadataExt as _;

use clawpen_engine::config_store;
use clawpen_gateway::mcp::http::{Guard, token};
use clawpen_gateway::mcp::{Admin, Settings, run as door};
use serde_json::json;

use super::CommandError;
use crate::args::mcp::{HttpArgs, McpArgs, McpCommand};
use crate::exit::Outcome;
use crate::output::{Output, safe};

pub(crate) fn run(args: &McpArgs, output: &Output) -> Result<Outcome, CommandError> {
    if let Some(McpCommand::Install(install)) = &args.command {
        return install::run(install, output);
    }
    // A config that cannot be used is said now, where a person sees it, and again by every call.
    match config_store::open() {
        Ok(store) => {
            for warning in store.warnings() {
                let files = store.loaded.config.files();
                let text = crate::config_report::warning_text(warning, files, &store.locations);
                output.note(&format!("warning: {text}"));
            }
        }
        Err(error) => output.note(&crate::config_report::failure(&error)),
    }
    match args.http.http {
        None => {
            let settings = settings(args, &format!("uid:{}", own_user()));
            door::over_stdio(Settings { agent_process: client_process(), ..settings })?;
        }
        Some(address) => over_http(args, address, output)?,
    }
    Ok(Outcome::Done)
}

fn settings(args: &McpArgs, caller: &str) -> Settings {
    Settings {
        session: args.subject.session.clone(),
        agent: args.subject.agent.clone(),
        backend: args.backend.clone(),
        admin: if args.admin_tools { Admin::Open } else { Admin::Closed },
        caller: caller.to_owned(),
        agent_process: None,
    }
}

/// The program that started us to speak to us. One that has left already has handed us to the first process, which
/// everybody is below.
fn client_process() -> Option<u32> {
    Some(std::os::unix::process::parent_id()).filter(|parent| *parent > 1)
}

/// Who started us: whoever speaks at our standard input is the same.
pub(super) fn own_user() -> u32 {
    std::fs::metadata("/proc/self").map_or(u32::MAX, |facts| facts.uid())
}

fn over_http(
    args: &McpArgs,
    address: std::net::SocketAddr,
    output: &Output,
) -> Result<(), CommandError> {
    let HttpArgs { token_file, allow_host, allow_origin, allow_remote, .. } = &args.http;
    if !address.ip().is_loopback() && !allow_remote {
        return Err(CommandError::Question {
            what: format!(
                "{address} is reached by other machines, and the token would travel in the clear; use 127.0.0.1, or say \
                 --allow-remote and put something that speaks TLS before it"
            ),
        });
    }
    let (token, path) = if let Some(path) = token_file {
        (token::read(path)?, path.clone())
    } else {
        let path = token::place(&config_store::locations()?.state_dir);
        (token::ensure(&path)?, path)
    };
    let guard = Guard::new(&token, allow_host.clone(), allow_origin.clone())
        .map_err(|weak| CommandError::Question { what: weak.to_string() })?;
    let path = safe(&path.to_string_lossy());
    door::over_http(settings(args, "http"), (address, guard), |address| {
        let url = format!("http://{address}/mcp");
        let shown = output.json(&json!({ "url": url, "tokenFile": path }));
        if shown.is_err() {
            output.note(&format!("listening at {url}"));
        }
    })?;
    Ok(())
}
