//! `clawpen status`: is there a gateway, on what, with how many sandboxes, and what waits for a person.
//!
//! Looks only; makes nothing. What cannot be found out is said, and the rest is still shown.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::Path;
use std::time::Duration;

use clawpen_engine::approvals_file::{ApprovalsStore, now_ms};
use clawpen_engine::broker::{Broker, Which};
use clawpen_engine::clock::SystemClock;
use clawpen_engine::config_store::{self, Store};
use clawpen_engine::database::Database;
use clawpen_engine::explain::{self, Question};
use clawpen_engine::gateway_process::{self as process, Place, Record};
use clawpen_engine::machine;
use clawpen_engine::registry::Kind;
use clawpen_rules::config::locate::{Locations, shorten_home};
use clawpen_rules::models;
use clawpen_wire::gateway::COMPATIBLE_RELEASE;
use serde_json::{Value, json};

use super::CommandError;
use super::sandboxes::{duration, look};
use crate::args::Format;
use crate::exit::Outcome;
use crate::output::{Output, safe};

const PROBE: Duration = Duration::from_secs(2);
const VERSION: &str = env!("CARGO_PKG_VERSION");

/// What the default agent's main session would get.
#[derive(Debug)]
pub(super) struct Backend {
    pub(super) name: String,
    pub(super) mode: &'static str,
    /// The model that it talks to, or why there is none.
    pub(super) model: Result<String, String>,
}

impl Backend {
    pub(super) fn of(store: &Store) -> Result<Self, CommandError> {
        let question = Question { agent: None, session: None, channels: &[] };
        let explained = explain::explain(store, &question)?;
        let chosen = models::decide(&store.loaded.config, explained.session.agent(), None);
        let model = chosen.map(|chosen| chosen.model.name.to_string());
        let model = model.map_err(|none| none.to_string());
        let sandbox = explained.sandbox;
        Ok(Self { name: sandbox.backend.value, mode: sandbox.mode.value.as_str(), model })
    }
}

/// Where a browser of this machine finds a gateway.
pub(super) fn url(record: &Record) -> String {
    let Some(address) = record.addresses.first() else { return "http://127.0.0.1".to_owned() };
    let ip = match address.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => IpAddr::V4(Ipv4Addr::LOCALHOST),
        IpAddr::V6(ip) if ip.is_unspecified() => IpAddr::V6(Ipv6Addr::LOCALHOST),
        ip => ip,
    };
    let scheme = if process::speaks_tls(*address, PROBE) { "https" } else { "http" };
    format!("{scheme}://{}", SocketAddr::new(ip, address.port()))
}

/// Everything that was found out.
struct Found {
    gateway: Option<Gateway>,
    backend: Option<Backend>,
    /// All, and those that run.
    sandboxes: Option<(usize, usize)>,
    approvals: Option<usize>,
    problems: Vec<String>,
}

struct Gateway {
    record: Record,
    /// Why it does not answer.
    silent: Option<String>,
}

/// Ends with 3 unless a gateway runs and answers.
pub(crate) fn run(format: Format, output: &Output) -> Result<Outcome, CommandError> {
    let locations = config_store::locations()?;
    let found = find(&locations);
    match format {
        Format::Json => output.json(&as_json(&found, &locations))?,
        Format::Text => output.lines(&as_text(&found, &locations, output))?,
    }
    for problem in &found.problems {
        output.note(&format!("warning: {problem}"));
    }
    let answers = found.gateway.as_ref().is_some_and(|gateway| gateway.silent.is_none());
    Ok(if answers { Outcome::Done } else { Outcome::Refused })
}

fn find(locations: &Locations) -> Found {
    let mut problems = Vec::new();
    let state_dir = Path::new(&locations.state_dir);
    let mut kept = |error: CommandError| {
        problems.push(error.report().trim_start_matches("error: ").to_owned());
    };
    let gateway = gateway(state_dir).map_err(&mut kept).ok().flatten();
    let store = config_store::open().map_err(|error| kept(error.into())).ok();
    let backend = store.as_ref().and_then(|store| Backend::of(store).map_err(&mut kept).ok());
    let sandboxes = store.as_ref().and_then(|store| match look(store, Kind::Sandbox) {
        Ok(None) => Some((0, 0)),
        Ok(Some((_, listing))) => {
            let running = listing.sandboxes.iter().filter(|one| one.is_running()).count();
            Some((listing.sandboxes.len(), running))
        }
        Err(error) => {
            kept(error);
            None
        }
    });
    let approvals = approvals(locations).map_err(&mut kept).ok();
    Found { gateway, backend, sandboxes, approvals, problems }
}

fn gateway(state_dir: &Path) -> Result<Option<Gateway>, CommandError> {
    let Some(place) = Place::find(state_dir)? else { return Ok(None) };
    let Some(running) = process::find(&place)? else { return Ok(None) };
    let record = running.record;
    let silent = match record.addresses.first() {
        Some(address) => process::probe(*address, PROBE).err().map(|error| error.to_string()),
        None => Some("it listens nowhere".to_owned()),
    };
    Ok(Some(Gateway { record, silent }))
}

fn approvals(locations: &Locations) -> Result<usize, CommandError> {
    let Some(database) = Database::open_existing(Path::new(&locations.state_dir))? else {
        return Ok(0);
    };
    let approvals = ApprovalsStore::of_home(&locations.home);
    let broker = Broker { database: &database, approvals: &approvals, clock: &SystemClock };
    Ok(broker.list(Which::Pending)?.len())
}

fn as_json(found: &Found, locations: &Locations) -> Value {
    let gateway = match &found.gateway {
        Some(Gateway { record, silent }) => json!({
            "running": true,
            "answers": silent.is_none(),
            "problem": silent,
            "pid": record.pid,
            "url": url(record),
            "addresses": record.addresses.iter().map(ToString::to_string).collect::<Vec<_>>(),
            "version": record.program,
            "startedAtMs": record.started_ms,
        }),
        None => json!({ "running": false }),
    };
    json!({
        "gateway": gateway,
        "config": locations.config,
        "configExists": Path::new(&locations.config).exists(),
        "stateDir": locations.state_dir,
        "backend": found.backend.as_ref().map(|backend| &backend.name),
        "mode": found.backend.as_ref().map(|backend| backend.mode),
        "model": found.backend.as_ref().and_then(|backend| backend.model.as_ref().ok()),
        "sandboxes": found.sandboxes.map(|(all, running)| json!({ "all": all, "running": running })),
        "approvalsWaiting": found.approvals,
        "versions": {
            "clawpen": VERSION,
            "compatibleWith": COMPATIBLE_RELEASE,
            "kernel": machine::look().kernel,
        },
        "problems": found.problems,
    })
}

fn as_text(found: &Found, locations: &Locations, output: &Output) -> Vec<String> {
    let unknown = || "unknown".to_owned();
    let mut lines = Vec::new();
    match &found.gateway {
        Some(Gateway { record, silent }) => {
            let up = Duration::from_millis(now_ms().saturating_sub(record.started_ms));
            lines.push(output.bold(&format!("Gateway:    runs at {}", url(record))));
            let answer = match silent {
                None => "answers".to_owned(),
                Some(why) => format!("PROBLEM: {}", safe(why)),
            };
            lines.push(format!(
                "            process {}, up {}, {answer}",
                record.pid,
                duration(up)
            ));
            if record.program != VERSION {
                let version = safe(&record.program);
                lines.push(format!(
                    "            it is version {version}: `clawpen down`, then `up`, to renew it"
                ));
            }
        }
        None => lines.push(output.bold("Gateway:    does not run; `clawpen up` starts it")),
    }
    let config = safe(&shorten_home(&locations.config, &locations.home));
    let is_there = Path::new(&locations.config).exists();
    let mark = if is_there { "" } else { "  (not there: built-in values)" };
    lines.push(format!("Config:     {config}{mark}"));
    let backend = found.backend.as_ref();
    let model = backend.map(|backend| match &backend.model {
        Ok(name) => safe(name),
        Err(_) => "none; `clawpen chat` says what to write".to_owned(),
    });
    let backend = backend.map(|backend| format!("{}, mode {}", safe(&backend.name), backend.mode));
    lines.push(format!("Backend:    {}", backend.unwrap_or_else(unknown)));
    lines.push(format!("Model:      {}", model.unwrap_or_else(unknown)));
    let sandboxes = found.sandboxes.map(|(all, running)| format!("{all} ({running} running)"));
    lines.push(format!("Sandboxes:  {}", sandboxes.unwrap_or_else(unknown)));
    let waiting = found.approvals.map(|count| match count {
        0 => "nothing waits".to_owned(),
        count => format!("{count} waiting; see `clawpen approvals list`"),
    });
    lines.push(format!("Approvals:  {}", waiting.unwrap_or_else(unknown)));
    let kernel = safe(&machine::look().kernel);
    lines.push(format!(
        "Versions:   clawpen {VERSION}, speaks as {COMPATIBLE_RELEASE}, Linux {kernel}"
    ));
    lines
}
