//! A process that writes state until it is done, killed or out of space.
//!
//! `state_writer append DIR COUNT`, `state_writer churn DIR`, `state_writer fill DIR`. What it has been
//! promised it prints, one line each, so that a test can hold the database to it.
#![forbid(unsafe_code)]

use std::io::Write as _;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use clawpen_engine::audit::{Call, Door, Ending, Reason, Verdict};
use clawpen_engine::clock::{Clock as _, SystemClock};
use clawpen_engine::database::Database;
use clawpen_engine::registry::{
    Holder, Identity, InFlight, Kind, NativeIdentity, NewRow, Registry, State, Use,
};
use clawpen_rules::backend::Backend;
use clawpen_rules::scope::ScopeKey;

fn main() -> Result<()> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    match args[..] {
        ["append", state, count] => append(&open(state)?, count.parse()?),
        ["churn", state] => churn(&open(state)?),
        ["fill", state] => fill(&open(state)?),
        _ => bail!("append DIR COUNT | churn DIR | fill DIR"),
    }
}

fn open(state: &str) -> Result<Database> {
    Ok(Database::open(Path::new(state))?)
}

fn append(database: &Database, count: u64) -> Result<()> {
    for number in 0..count {
        database.audit().append(&call(number), SystemClock.now().wall)?;
    }
    Ok(())
}

/// Makes, uses and removes a sandbox, again and again.
fn churn(database: &Database) -> Result<()> {
    let registry = database.registry();
    let holder = Holder::this()?;
    let name = "pen";
    // What the last one left when it was killed.
    registry.sweep(Holder::liveness)?;
    if let Some(row) = registry.get(name)? {
        registry.begin_removal(name, row.generation, InFlight::Respect, Holder::liveness)?;
        registry.forget(name, row.generation)?;
    }
    for number in 0.. {
        let now = SystemClock.now();
        let generation = registry.begin(&new_row(name)?, &now)?;
        registry.identify(name, generation, &identity())?;
        registry.ready(name, generation, 1, &now)?;
        said(registry, name, State::Ready)?;
        let usage = Use { holder: &holder, call: "c", session: Some("agent:main:main") };
        let lease = registry.lease(name, generation, &usage, &now)?;
        let head = database.audit().append(&call(number), now.wall)?;
        tell(&head.to_string())?;
        registry.release(&lease, &SystemClock.now())?;
        registry.begin_removal(name, generation, InFlight::Respect, Holder::liveness)?;
        said(registry, name, State::Removing)?;
        registry.forget(name, generation)?;
    }
    Ok(())
}

/// Appends until there is no space, then says what it was told and whether the chain is whole.
fn fill(database: &Database) -> Result<()> {
    for number in 0.. {
        if let Err(error) = database.audit().append(&call(number), SystemClock.now().wall) {
            let cause = std::error::Error::source(&error).context("an error with a cause")?;
            tell(&format!("{cause}"))?;
            break;
        }
    }
    let verified = database.audit().verify(None)?;
    tell(&format!("whole: {}, records: {}", verified.is_whole(), verified.records > 100))
}

fn said(registry: Registry<'_>, name: &str, state: State) -> Result<()> {
    let row = registry.get(name)?.context("the row that was just written")?;
    if row.state != state {
        bail!("{:?} instead of {state:?}", row.state);
    }
    Ok(())
}

fn tell(line: &str) -> Result<()> {
    let mut stdout = std::io::stdout().lock();
    writeln!(stdout, "{line}")?;
    Ok(stdout.flush()?)
}

fn new_row(name: &str) -> Result<NewRow> {
    Ok(NewRow {
        name: name.to_owned(),
        kind: Kind::Sandbox,
        backend: Backend::Native,
        scope: ScopeKey::stored("agent:main").context("a scope key")?,
        session: None,
        agent: None,
        image: String::new(),
        fingerprint: "f".to_owned(),
        workspace_dir: "/w".to_owned(),
    })
}

fn identity() -> Identity {
    Identity::Native(NativeIdentity {
        boot_id: "b".to_owned(),
        pid: 1,
        start_time: 2,
        socket: "/s".to_owned(),
    })
}

fn call(number: u64) -> Call {
    Call {
        call: format!("{}-{number}", std::process::id()),
        session: Some("agent:main:main".to_owned()),
        agent: Some("main".to_owned()),
        scope: Some("agent:main".to_owned()),
        door: Door::Cli,
        tool: "exec".to_owned(),
        verdict: Verdict::Allowed,
        reason: Reason::new("allowed by `exec`"),
        ending: Some(Ending::Exit(0)),
        duration: Duration::from_millis(1),
        bytes_in: 0,
        bytes_out: number,
    }
}
