//! Many containers at once. A few in every run; a hundred with `CLAWPEN_MANY_CONTAINERS=100`, as the soak
//! does.

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use clawpen_engine::call::{self, Keeping, Target};
use clawpen_engine::channel::{Captured, Command};
use clawpen_engine::config_store;
use clawpen_engine::lifecycle::Condition;
use clawpen_engine::lifecycle::current::Currents;
use clawpen_engine::registry::{Identity, InFlight, Kind};
use clawpen_engine::yard::Yard;
use clawpen_tests::docker::{BASE, Place};
use clawpen_tests::traces::Traces;
use clawpen_wire::supervisor::End;

const FEW: usize = 3;

#[test]
fn all_live_containers_answer_are_listed_and_leave_nothing() -> Result<()> {
    let Some(place) = Place::new()? else { return Ok(()) };
    let count = std::env::var("CLAWPEN_MANY_CONTAINERS").ok().and_then(|text| text.parse().ok());
    let count: usize = count.unwrap_or(FEW);
    let state = place.path("state");
    std::fs::create_dir(&state)?;
    let name = place.path("").display().to_string();
    let unique: String = name.chars().filter(char::is_ascii_alphanumeric).collect();
    let config = format!(
        "{{agents: {{defaults: {{sandbox: {{backend: 'docker', scope: 'session', docker: {{image: \
         '{BASE}', containerPrefix: 'clawpen-many-{unique}-'}}}}}}}}}}"
    );
    std::fs::write(state.join("openclaw.json"), config)?;
    let state_dir = state.to_str().context("a path of a test is text")?;
    let store = config_store::open_in(state_dir)?;
    let yard = Yard::open(state_dir)?;
    let mut traces = Traces::of(&state);
    let mut call = |number: usize| -> Result<Duration> {
        let session = format!("agent:main:s{number}");
        let target = Target { session: Some(&session), agent: None, backend: None };
        let mut open = call::prepare(&store, &target)?.open(&yard, Keeping::Scope, "many")?;
        traces.note(open.sandbox().first_process());
        let start = Instant::now();
        let mut output = Captured::new(100);
        let exited = open.sandbox().channel()?.exec(&Command::new(["true"]), &mut output)?;
        assert_eq!(exited.end, End::Code(0));
        Ok(start.elapsed())
    };
    let start = Instant::now();
    for number in 0..count {
        call(number)?;
    }
    println!("{count} containers made in {:?}", start.elapsed());
    let mut times = (0..count).map(&mut call).collect::<Result<Vec<_>>>()?;
    times.sort_unstable();
    println!("`true` in each of them: {:?} in the middle", times[count / 2]);
    let lifecycle = yard.lifecycle();
    let start = Instant::now();
    let listing = lifecycle.list(Kind::Sandbox, &Currents::new(&store))?;
    println!("listed in {:?}", start.elapsed());
    assert_eq!((listing.sandboxes.len(), listing.problems), (count, Vec::new()));
    assert!(listing.sandboxes.iter().all(|one| one.condition == Condition::Running));
    let rows = yard.database.registry().list()?;
    for row in &rows {
        if let Some(Identity::Docker(identity)) = &row.identity {
            traces.mark(&identity.container_id);
        }
    }
    assert!(traces.processes() >= count);
    let start = Instant::now();
    for row in &rows {
        lifecycle.remove(row, InFlight::Respect)?;
    }
    println!("removed in {:?}", start.elapsed());
    assert_eq!(traces.left(), Vec::<String>::new());
    assert_eq!(yard.database.registry().list()?.len(), 0);
    Ok(())
}
