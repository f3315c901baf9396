//! `clawpen gateway`: serves WebSocket and HTTP until it is told to stop.

use clawpen_engine::config_store::Surroundings;
use clawpen_engine::gateway_process::{self, Claim, Place};
use clawpen_gateway::{Farewell, Options, StartError};
use clawpen_rules::access::listen::Unconfigured;
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
        Format::Json => output.json(&json!({ "listening": addresses }))?,
        Format::Text => {
            let lines: Vec<String> =
                addresses.iter().map(|address| format!("listening on ws://{address}")).collect();
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
        | StartError::Token(_)) => CommandError::Question { what: error.to_string() },
    }
}
