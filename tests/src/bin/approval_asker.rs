//! A door that asks: takes a command from its text to its end on the host, as an agent's tool would.
//!
//! `approval_asker CWD SECONDS TEXT`, in the home that the environment names. Prints `ASKED id` when a
//! person is asked, then how it ended: `FINISHED code output`, `NOTRUN why`, `REFUSED why` or `ELSEWHERE`.
#![forbid(unsafe_code)]

use std::io::Write as _;
use std::path::Path;
use std::time::Duration;

use anyhow::{Result, bail};
use clawpen_engine::approvals_file::ApprovalsStore;
use clawpen_engine::audit::Door;
use clawpen_engine::broker::Id;
use clawpen_engine::broker::{Asker, Broker};
use clawpen_engine::clock::SystemClock;
use clawpen_engine::config_store;
use clawpen_engine::config_store::Store;
use clawpen_engine::database::Database;
use clawpen_engine::exec_question::{self, CallFacts, CommandAnswer, CommandQuestion};
use clawpen_engine::explain::Question;
use clawpen_engine::host_call::{self, Attendant, Called, HostCall, Waiting};
use clawpen_engine::host_exec::{Errors, Limits, Observer};

fn main() -> Result<()> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [cwd, seconds, text] = args.as_slice() else { bail!("CWD SECONDS TEXT") };
    let store = config_store::open()?;
    let database = Database::open(Path::new(&store.locations.state_dir))?;
    let approvals = ApprovalsStore::of_home(&store.locations.home);
    let broker = Broker { database: &database, approvals: &approvals, clock: &SystemClock };
    let who = Question { agent: None, session: None, channels: &[] };
    let call = HostCall {
        question: CommandQuestion { text, cwd: Some(cwd), who, call: CallFacts::default() },
        asker: Asker { door: Door::Mcp, client: Some("test"), agent_process: None },
        timeout: Duration::from_secs_f64(seconds.parse()?),
        limits: Limits {
            time: Duration::from_secs(60),
            output_bytes: 1 << 16,
            errors: Errors::Apart,
        },
    };
    let mut waits = Waits { store: &store, question: call.question, said: false };
    let called = host_call::run(&store, &broker, &call, &mut waits)?;
    say(&match called {
        Called::Elsewhere(_) => "ELSEWHERE".to_owned(),
        Called::Refused { reasons, .. } => format!("REFUSED {}", reasons.join("; ")),
        Called::NotRun { why, .. } => format!("NOTRUN {why}"),
        Called::Finished { finished, .. } => {
            let output = String::from_utf8_lossy(&finished.output);
            let errors = String::from_utf8_lossy(&finished.errors);
            format!("FINISHED {:?} {output:?} {errors:?}", finished.end)
        }
    });
    Ok(())
}

/// Says once that it waits, and never gives up.
struct Waits<'a> {
    store: &'a Store,
    question: CommandQuestion<'a>,
    said: bool,
}

impl Observer for Waits<'_> {}

impl Attendant for Waits<'_> {
    fn waiting(&mut self, id: &Id) -> Waiting {
        if !std::mem::replace(&mut self.said, true) {
            say(&format!("ASKED {id}"));
        }
        Waiting::GoOn
    }

    fn ask_again(&mut self) -> Result<CommandAnswer, String> {
        exec_question::ask(self.store, &self.question).map_err(|error| error.to_string())
    }
}

fn say(line: &str) {
    // A test that does not listen any more has seen enough.
    let _gone = writeln!(std::io::stdout(), "{line}");
}
