//! `clawpen approvals watch`: what is asked, as it comes. On a terminal a small screen on which it is
//! answered by key; otherwise one line, or one JSON object, for each question and each end.

use std::collections::BTreeMap;
use std::io::{self, IsTerminal as _};
use std::os::fd::AsFd as _;
use std::path::Path;

use clawpen_engine::approvals_file::ApprovalsStore;
use clawpen_engine::broker::socket::{Ender, Server};
use clawpen_engine::broker::{Approval, POLL, Which};
use clawpen_engine::config_store;
use clawpen_engine::database::{Changes, Database};
use clawpen_engine::terminal::Keyboard;
use clawpen_rules::config::print::harmless_json;
use clawpen_wire::approvals as wire;

use super::pending::{Desk, headline, standing};
use super::screen;
use crate::args::Format;
use crate::args::approvals::WatchArgs;
use crate::commands::CommandError;
use crate::exit::Outcome;
use crate::output::{Output, Reader};

pub(crate) fn run(args: &WatchArgs, output: &Output) -> Result<Outcome, CommandError> {
    let locations = config_store::locations()?;
    let state = Path::new(&locations.state_dir);
    // Whoever watches waits for the first question, so there must be something to watch.
    let desk = Desk {
        database: Database::open(state)?,
        approvals: ApprovalsStore::of_home(&locations.home),
    };
    let server = if args.socket { Some(Server::bind(state, &locations.home)?) } else { None };
    let is_screen = args.format.format() == Format::Text
        && io::stdin().is_terminal()
        && io::stdout().is_terminal();
    if is_screen {
        let stdin = io::stdin();
        // Before any thread exists: those started later must not get our signals.
        let keyboard = Keyboard::take(stdin.as_fd())?;
        serving(server, output, || screen::run(&desk, &keyboard, output))
    } else {
        serving(server, output, || lines(&desk, args.format.format(), output))
    }
}

/// Ends the server even if the job panics: its thread is waited for.
struct EndsIt(Ender);

impl Drop for EndsIt {
    fn drop(&mut self) {
        self.0.end();
    }
}

/// Serves the socket while something else is done.
fn serving(
    server: Option<Server>,
    output: &Output,
    job: impl FnOnce() -> Result<Outcome, CommandError>,
) -> Result<Outcome, CommandError> {
    let Some(server) = server else { return job() };
    output.note(&format!("serving {}", server.path().display()));
    std::thread::scope(|scope| {
        let ends = EndsIt(server.ender());
        let serving = scope.spawn(|| server.serve());
        let done = job();
        drop(ends);
        if let Ok(Err(cause)) = serving.join() {
            output.note(&format!("note: the socket ended: {cause}"));
        }
        done
    })
}

/// One line for each thing that happens.
fn lines(desk: &Desk, format: Format, output: &Output) -> Result<Outcome, CommandError> {
    let broker = desk.broker();
    let watch = |cause| CommandError::Read { path: "the database".to_owned(), cause };
    let mut changes = Changes::watch(&desk.database).map_err(watch)?;
    let mut known: BTreeMap<String, Approval> = BTreeMap::new();
    loop {
        let pending = broker.list(Which::Pending)?;
        let mut events = Vec::new();
        for approval in &pending {
            if !known.contains_key(approval.id.as_str()) {
                events.push(("exec.approval.requested", approval.clone()));
            }
        }
        let now: BTreeMap<String, Approval> =
            pending.into_iter().map(|found| (found.id.to_string(), found)).collect();
        for (id, _) in known.iter().filter(|(id, _)| !now.contains_key(*id)) {
            events.push(("exec.approval.resolved", broker.get(id)?));
        }
        known = now;
        for (event, approval) in &events {
            if output.stream(&line(event, approval, format)?)? == Reader::Gone {
                return Ok(Outcome::Done);
            }
        }
        changes.wait(POLL).map_err(watch)?;
    }
}

fn line(event: &str, approval: &Approval, format: Format) -> io::Result<String> {
    match format {
        Format::Json => {
            let shape = wire::Event { event: event.to_owned(), approval: approval.shape() };
            let text = serde_json::to_string(&shape).map_err(io::Error::other)?;
            Ok(harmless_json(&text) + "\n")
        }
        Format::Text if event == "exec.approval.requested" => {
            Ok(format!("asked     {}\n", headline(approval)))
        }
        Format::Text => Ok(format!("settled   {}  {}\n", approval.id.slug(), standing(approval))),
    }
}
