//! `clawpen up`: a config where there is none, a gateway in the background, and what to do next.
//!
//! What is there is never overwritten. Two at once make one gateway; a second one says that it runs.

mod first;
mod page;

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
use clawpen_rules::config::locate::shorten_home;
use serde_json::json;

use super::CommandError;
use super::doctor::make_and_remove;
use super::status::{Backend, url};
use super::why_command::shown_word;
use crate::args::Format;
use crate::args::up::UpArgs;
use crate::config_report::{chain, warning_text};
use crate::exit::Outcome;
use crate::output::{Output, safe};

/// How many characters of a token tell it from another, and how many more must stay unseen for that.
const SHOWN: usize = 4;
const UNSEEN: usize = 12;
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
            Secret::Password(_) | Secret::None => None,
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
        bind: None,
        tailnet: machine::tailnet_address(),
        token_variable: around.variable("OPENCLAW_GATEWAY_TOKEN"),
        password_variable: around.variable("OPENCLAW_GATEWAY_PASSWORD"),
        unconfigured: unconfigured(store),
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

/// What there is now.
struct Report {
    running: Running,
    is_new: bool,
    first: Option<first::First>,
    /// Facts that hold in a pen, or why there is none; `None` if it was not tried.
    trial: Option<Result<usize, String>>,
    backend: Backend,
    token: Option<String>,
    log: std::path::PathBuf,
    store: Store,
}

impl Report {
    fn json(&self, args: &UpArgs) -> serde_json::Value {
        let record = &self.running.record;
        let url = url(record);
        let program = program();
        let mut shown = json!({
            "running": true,
            "started": self.is_new,
            "url": url,
            "ws": url.replacen("http", "ws", 1),
            "pid": record.pid,
            "log": self.log.to_string_lossy(),
            "config": self.store.locations.config,
            "configWritten": self.first.is_some(),
            "backend": self.backend.name,
            "mode": self.backend.mode,
            "backendReason": self.first.as_ref().map(|first| first.choice.reason()),
            "trial": self.trial.as_ref().map(|trial| match trial {
                Ok(facts) => json!({ "ok": true, "facts": facts }),
                Err(problem) => json!({ "ok": false, "problem": problem }),
            }),
            "mcp": format!("{program} mcp install claude"),
            "next": next(&program).map(|(command, what)| json!({ "command": command, "what": what })),
        });
        if let (true, Some(token)) = (args.show_token, &self.token) {
            shown["token"] = json!(token);
        }
        shown
    }

    fn text(&self, args: &UpArgs, output: &Output) -> Vec<String> {
        let Self { running, store, backend, .. } = self;
        let short = |path: &str| safe(&shorten_home(path, &store.locations.home));
        let url = url(&running.record);
        let verb = if self.is_new { "Started" } else { "Runs already" };
        let mut lines = vec![
            output.bold(&format!("{verb}: {url}")),
            format!(
                "  clients   {} (process {})",
                url.replacen("http", "ws", 1),
                running.record.pid
            ),
        ];
        let config = short(&store.locations.config);
        let written =
            if self.first.is_some() { "  (written now; it is yours to change)" } else { "" };
        if let Some(token) = &self.token {
            let shown = if args.show_token {
                safe(token)
            } else {
                format!("{}…  (all of it: `clawpen up --show-token`)", safe(begin_of(token)))
            };
            lines.push(format!("  token     {shown}"));
        }
        lines.push(format!("  config    {config}{written}"));
        lines.push(format!("  log       {}  (`clawpen logs`)", short(&self.log.to_string_lossy())));
        lines.push(format!("  sandbox   {}, mode {}", safe(&backend.name), backend.mode));
        if let Some(first) = &self.first {
            lines.push(format!("            {}", safe(&first.choice.reason())));
        }
        match &self.trial {
            Some(Ok(facts)) => {
                lines.push(format!("            tried: a pen was made, {facts} facts hold in it"));
            }
            Some(Err(problem)) => {
                let problem = problem.strip_prefix("error: ").unwrap_or(problem);
                lines.push(format!(
                    "            WARNING, no sandbox can be had: {}",
                    safe(problem.lines().next().unwrap_or_default())
                ));
                lines.push(
                    "            see `clawpen doctor`; until then every call is refused".to_owned(),
                );
            }
            None => {}
        }
        if backend.mode == "off" {
            lines.push("            WARNING: nothing is sandboxed; set agents.defaults.sandbox.mode to \"all\"".to_owned());
        }
        lines.push(String::new());
        lines.push("Next:".to_owned());
        let program = program();
        let width =
            next(&program).iter().map(|(command, _)| command.chars().count()).max().unwrap_or(0);
        lines.extend(
            next(&program).iter().map(|(command, what)| format!("  {command:width$}  {what}")),
        );
        lines
    }
}

/// As much of a token as may be seen: nothing of one that somebody chose and that is short.
fn begin_of(token: &str) -> &str {
    let mut signs = token.char_indices();
    let begin = signs.nth(SHOWN).and_then(|(end, _)| token.get(..end));
    begin.filter(|_| signs.count() + 1 >= UNSEEN).unwrap_or_default()
}

/// What to do next.
fn next(program: &str) -> [(String, &'static str); 5] {
    [
        (format!("{program} exec -- sh -c 'id; ls /'"), "run something in a sandbox"),
        (
            format!("{program} mcp install claude"),
            "let Claude Code use it (or codex, cursor, vscode)",
        ),
        (
            format!("{program} chat"),
            "talk to an agent in a sandbox; name a model in the config first",
        ),
        (format!("{program} status"), "what is there; `logs --follow` shows what happens"),
        (format!("{program} down"), "end the gateway; sandboxes stay"),
    ]
}

/// How we are called: by name if that finds this very program, else by path.
fn program() -> String {
    let own = std::env::current_exe().and_then(std::fs::canonicalize);
    let Ok(own) = own else { return "clawpen".to_owned() };
    let path = std::env::var_os("PATH").unwrap_or_default();
    let first = std::env::split_paths(&path)
        .map(|directory| directory.join("clawpen"))
        .find(|path| path.is_file());
    let is_own =
        first.and_then(|path| std::fs::canonicalize(path).ok()).is_some_and(|path| path == own);
    if is_own { "clawpen".to_owned() } else { shown_word(&own.to_string_lossy()) }
}

/// Shown when something beside the point failed.
fn note(output: &Output, error: &dyn std::error::Error) {
    output.note(&format!("note: {}", chain(error).trim_start_matches("error: ")));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_short_token_is_not_shown_by_its_beginning() {
        for token in ["", "abcd", "hunter2", "é".repeat(15).as_str()] {
            assert_eq!(begin_of(token), "", "{token}");
        }
        assert_eq!(begin_of("0123456789abcdef"), "0123");
        assert_eq!(begin_of(&"é".repeat(16)), "éééé");
    }
}
