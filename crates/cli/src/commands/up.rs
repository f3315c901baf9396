//! `clawpen up`: a config where there is none, a gateway in the background, and what to do next.
//!
//! What is there is never overwritten. Two at once make one gateway; a second one says that it runs.

mod first;
mod page;
mod report;

use std::ffi::OsString;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener};
use std::path::Path;
use std::time::Duration;

use clawpen_engine::backend::Plan;
use clawpen_engine::call::{self, Target};
use clawpen_engine::config_store::{Store, Surroundings};
use clawpen_engine::gateway_process::{self as process, Launch, Place, Private, Running};
use clawpen_engine::machine;
use clawpen_rules::access::listen::{self, Bind, Listen, Said, Secret, Unconfigured};
use clawpen_rules::backend::choose::Choice;
use serde_json::json;

use super::CommandError;
use super::doctor::make_and_remove;
use super::status::{Backend, url};
use crate::args::Format;
use crate::args::up::UpArgs;
use crate::config_report::{chain, warning_text};
use crate::exit::Outcome;
use crate::output::{Output, safe};
use report::Report;

const PROBE: Duration = Duration::from_secs(2);

pub(crate) fn run(args: &UpArgs, output: &Output) -> Result<Outcome, CommandError> {
    let around = Surroundings::of_process();
    let locations = around.locations()?;
    let place = Place::ensure(Path::new(&locations.state_dir))?;
    let lock = place.lock()?;
    let first = first::ensure_config(args, &around, &locations)?;
    if process::check_config(Path::new(&locations.config))? == Some(Private::No) {
        let path = safe(&locations.config);
        output.note(&format!(
            "warning: others can read `{path}`, and the token in it; run `chmod 600 {path}`"
        ));
    }
    let store = around.open()?;
    for warning in store.warnings() {
        let text = warning_text(warning, store.loaded.config.files(), &store.locations);
        output.note(&format!("warning: {text}"));
    }
    let wanted = decide(args, &around, &store)?;
    if args.no_start {
        return only_config(args, first.as_ref(), (&store, output));
    }
    let (running, is_new) = match process::find(&place)? {
        Some(running) => (answering(running)?, false),
        None => (start(args, &place, (&store, &wanted))?, true),
    };
    drop(lock);
    // The gateway makes a token where the config has none.
    let store = around.open()?;
    let listen = decide(args, &around, &store)?;
    let report = Report {
        running,
        is_new,
        trial: trial(&store, first.as_ref()),
        backend: Backend::of(&store)?,
        first,
        token: match listen.secret {
            Secret::Token(token) => token,
            Secret::Password(_) | Secret::Proxy(_) | Secret::None => None,
        },
        log: place.log(),
        store,
    };
    if !is_new {
        told_of_difference(args, &report.running, output);
    }
    match args.format.format() {
        Format::Json => output.json(&report.json(args))?,
        Format::Text => output.lines(&report.text(args, output))?,
    }
    if args.open {
        page::open(&url(&report.running.record), output);
    }
    Ok(Outcome::Done)
}

/// A gateway that is there, if it is of any use.
fn answering(running: Running) -> Result<Running, CommandError> {
    let record = &running.record;
    let problem = match record.addresses.first() {
        Some(address) => process::probe(*address, PROBE).err().map(|error| error.to_string()),
        None => Some("it listens nowhere".to_owned()),
    };
    match problem {
        None => Ok(running),
        Some(problem) => Err(CommandError::Question {
            what: format!(
                "the gateway (process {}) runs, but {problem}; `clawpen down` ends it, then `clawpen up` starts another",
                record.pid
            ),
        }),
    }
}

/// `--no-start`: there is a config, and a gateway could start with it.
fn only_config(
    args: &UpArgs,
    first: Option<&first::First>,
    (store, output): (&Store, &Output),
) -> Result<Outcome, CommandError> {
    let config = &store.locations.config;
    let backend = Backend::of(store)?;
    match args.format.format() {
        Format::Json => output.json(&json!({
            "running": false,
            "started": false,
            "config": config,
            "configWritten": first.is_some(),
            "backend": backend.name,
            "mode": backend.mode,
            "backendReason": first.map(|first| first.choice.reason()),
        }))?,
        Format::Text => {
            let verb = if first.is_some() { "Written" } else { "There already, and sound" };
            let mut lines = vec![format!("{verb}: {}", safe(config))];
            lines.push(format!("  sandbox   {}, mode {}", safe(&backend.name), backend.mode));
            lines
                .extend(first.map(|first| format!("            {}", safe(&first.choice.reason()))));
            output.lines(&lines)?;
        }
    }
    Ok(Outcome::Done)
}

/// Where it will listen, or why it must not start.
fn decide(args: &UpArgs, around: &Surroundings, store: &Store) -> Result<Listen, CommandError> {
    let said = Said {
        port: args.port,
        port_variable: around.variable("OPENCLAW_GATEWAY_PORT"),
        tailnet: machine::tailnet_address(),
        token_variable: around.variable("OPENCLAW_GATEWAY_TOKEN"),
        password_variable: around.variable("OPENCLAW_GATEWAY_PASSWORD"),
        unconfigured: unconfigured(store),
        ..Said::default()
    };
    listen::decide(&store.loaded.config, &said)
        .map_err(|refused| CommandError::Question { what: refused.to_string() })
}

/// Whoever says `up` wants a gateway here: a config that says nothing about it does not contradict, one that says `remote`
/// does.
fn unconfigured(store: &Store) -> Unconfigured {
    match store.loaded.config.at(&["gateway", "mode"]) {
        None => Unconfigured::Start,
        Some(_) => Unconfigured::Refuse,
    }
}

fn start(
    args: &UpArgs,
    place: &Place,
    (store, wanted): (&Store, &Listen),
) -> Result<Running, CommandError> {
    refuse_taken(wanted)?;
    let program = std::env::current_exe()?;
    let mut arguments: Vec<OsString> = vec!["gateway".into(), "--detached".into()];
    if let Some(port) = args.port {
        arguments.extend(["--port".into(), port.to_string().into()]);
    }
    if unconfigured(store) == Unconfigured::Start {
        arguments.push("--allow-unconfigured".into());
    }
    let locations = &store.locations;
    // It works elsewhere, so what is relative here must be whole there.
    let named =
        [("OPENCLAW_STATE_DIR", &locations.state_dir), ("OPENCLAW_CONFIG_PATH", &locations.config)];
    let variables: Vec<(&'static str, String)> = named
        .into_iter()
        .filter(|(name, _)| std::env::var_os(name).is_some_and(|value| !value.is_empty()))
        .map(|(name, value)| (name, value.clone()))
        .collect();
    Ok(process::start(
        place,
        &Launch {
            program: &program,
            arguments: &arguments,
            directory: Path::new(&locations.state_dir),
            variables: &variables,
        },
    )?)
}

/// Says who has the port, before a gateway tries in vain.
fn refuse_taken(wanted: &Listen) -> Result<(), CommandError> {
    let ip = match wanted.bind {
        Bind::Loopback => Ipv4Addr::LOCALHOST,
        Bind::Lan => Ipv4Addr::UNSPECIFIED,
        Bind::Custom(address) => address,
    };
    refuse_taken_at(SocketAddr::new(IpAddr::V4(ip), wanted.port))
}

fn refuse_taken_at(address: SocketAddr) -> Result<(), CommandError> {
    match TcpListener::bind(address) {
        Err(error) if error.kind() == std::io::ErrorKind::AddrInUse => {}
        // Whatever else is wrong the gateway itself will say.
        Ok(_) | Err(_) => return Ok(()),
    }
    let port = address.port();
    let who = match process::probe(address, PROBE) {
        Ok(()) => "a gateway that is not of this state directory",
        Err(_) => "another program",
    };
    let other = port.checked_add(1).unwrap_or(listen::DEFAULT_PORT);
    Err(CommandError::Question {
        what: format!(
            "port {port} is taken by {who}; stop it, or choose another: `clawpen up --port {other}`, or `gateway.port` in \
             the config"
        ),
    })
}

/// What a gateway that runs already does not do as this `up` would.
fn told_of_difference(args: &UpArgs, running: &Running, output: &Output) {
    let (theirs, ours) = (&running.record.program, env!("CARGO_PKG_VERSION"));
    if theirs != ours {
        let theirs = safe(theirs);
        output.note(&format!(
            "note: it is version {theirs}, this is {ours}; `clawpen down`, then `up`, renews it"
        ));
    }
    let listens = running.record.addresses.first().map(SocketAddr::port);
    if args.port.is_some_and(|port| port != 0 && Some(port) != listens) {
        output.note("note: it runs on another port already; `clawpen down` first to change that");
    }
}

/// A native pen is tried; anything larger is not made for a look.
fn trial(store: &Store, first: Option<&first::First>) -> Option<Result<usize, String>> {
    if let Some(first) = first {
        return match &first.choice {
            Choice::Native => Some(Ok(first.facts)),
            Choice::NothingYet { why_not_native } => Some(Err(why_not_native.clone())),
            Choice::Docker { .. } => None,
        };
    }
    let prepared = call::prepare(store, &Target::default());
    match &prepared {
        Ok(prepared) if matches!(prepared.plan, Plan::Native(_)) => {}
        Ok(_) => return None,
        Err(_) => {}
    }
    Some(make_and_remove(prepared).map(|used| used.facts))
}

/// Shown when something beside the point failed.
fn note(output: &Output, error: &dyn std::error::Error) {
    output.note(&format!("note: {}", chain(error).trim_start_matches("error: ")));
}
