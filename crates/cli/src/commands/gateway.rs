//! `clawpen gateway`: serves WebSocket and HTTP until it is told to stop.

use clawpen_engine::config_store::Surroundings;
use clawpen_engine::gateway_process::{self, Claim, Place};
use clawpen_gateway::{Farewell, Options, StartError};
use clawpen_rules::access::listen::Unconfigured;
use secrecy::SecretString;
use serde_json::json;

use super::CommandError;
use crate::args::{Format, GatewayArgs};
use crate::config_report::chain;
use crate::exit::Outcome;
use crate::output::Output;

/// Runs the gateway until the process is interrupted or terminated.
pub(crate) fn run(args: &GatewayArgs, output: &Output) -> Result<Outcome, CommandError> {
    if args.detached {
        // Whoever leads a group of processes already has been taken off its terminal by somebody else.
        let _ = gateway_process::leave_terminal();
    }
    let runtime =
        tokio::runtime::Builder::new_multi_thread().enable_all().build().map_err(|cause| {
            CommandError::Question { what: format!("cannot start the gateway: {cause}") }
        })?;
    runtime.block_on(serve(args, output))
}

async fn serve(args: &GatewayArgs, output: &Output) -> Result<Outcome, CommandError> {
    let mut options = Options::new(Surroundings::of_process());
    options.port = args.port;
    options.bind.clone_from(&args.bind);
    options.auth.clone_from(&args.auth);
    options.token = args.token.clone().map(SecretString::from);
    options.password = password(args)?;
    if args.allow_unconfigured {
        options.unconfigured = Unconfigured::Start;
    }
    let place = place(&options.around)?;
    let ended = loop {
        match once(options.clone(), args, (&place, output)).await {
            Ok(Farewell::Restart) => {}
            Ok(Farewell::Stop) => break Ok(Outcome::Done),
            Err(error) => break Err(error),
        }
    };
    // A record that stays is found out by its start time.
    if let Err(error) = gateway_process::release(&place) {
        output.note(&format!("warning: {}", chain(&error)));
    }
    ended
}

/// Where this gateway writes down who it is. A state directory that others write is no place for one.
fn place(around: &Surroundings) -> Result<Place, CommandError> {
    let locations = around.locations()?;
    Ok(Place::ensure(std::path::Path::new(&locations.state_dir))?)
}

/// The password that was given, itself or as a file.
fn password(args: &GatewayArgs) -> Result<Option<SecretString>, CommandError> {
    let Some(path) = &args.password_file else {
        return Ok(args.password.clone().map(SecretString::from));
    };
    let shown = path.display();
    let text = std::fs::read_to_string(path).map_err(|cause| CommandError::Question {
        what: format!("cannot read the password in `{shown}`: {cause}"),
    })?;
    match text.lines().next().map(str::trim_end).filter(|line| !line.is_empty()) {
        Some(line) => Ok(Some(SecretString::from(line.to_owned()))),
        None => Err(CommandError::Question {
            what: format!("the first line of `{shown}` is empty; write the password there"),
        }),
    }
}

/// Serves until somebody says stop, or start anew.
async fn once(
    options: Options,
    args: &GatewayArgs,
    (place, output): (&Place, &Output),
) -> Result<Farewell, CommandError> {
    let running = clawpen_gateway::start(options).await.map_err(start_error)?;
    match gateway_process::claim(place, running.addresses(), env!("CARGO_PKG_VERSION"))? {
        Claim::Ours => {}
        Claim::Another { pid } => output.note(&format!(
            "note: another gateway of this state directory runs (process {pid}); `clawpen status` and `down` mean that one"
        )),
    }
    let addresses: Vec<String> = running.addresses().iter().map(ToString::to_string).collect();
    match args.format.format() {
        Format::Json => {
            let mut said = json!({ "listening": addresses });
            if let Some(fingerprint) = running.fingerprint() {
                said["certificate"] = json!({ "sha256": fingerprint });
            }
            output.json(&said)?;
        }
        Format::Text => {
            let scheme = if running.fingerprint().is_some() { "wss" } else { "ws" };
            let mut lines: Vec<String> = addresses
                .iter()
                .map(|address| format!("listening on {scheme}://{address}"))
                .collect();
            let shown = running.fingerprint();
            lines.extend(shown.map(|sha256| format!("certificate sha256 {sha256}")));
            output.lines(&lines)?;
        }
    }
    let farewell = asked_to_stop().await?;
    running.stop(farewell).await;
    Ok(farewell)
}

/// Waits for a signal: end, or (`SIGUSR1`, as in the reference) start anew with the config of then.
async fn asked_to_stop() -> Result<Farewell, CommandError> {
    use tokio::signal::unix::{SignalKind, signal};
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut restart = signal(SignalKind::user_defined1())?;
    Ok(tokio::select! {
        _ = terminate.recv() => Farewell::Stop,
        _ = interrupt.recv() => Farewell::Stop,
        _ = restart.recv() => Farewell::Restart,
    })
}

fn start_error(error: StartError) -> CommandError {
    match error {
        StartError::Config(error) => CommandError::Config(error),
        error @ (StartError::Refused(_)
        | StartError::Taken { .. }
        | StartError::Listen { .. }
        | StartError::Tls(_)
        | StartError::Hooks(_)
        | StartError::Origins(_)
        | StartError::Token(_)) => CommandError::Question { what: error.to_string() },
    }
}
