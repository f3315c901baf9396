//! Every mechanism, on every ground.

use std::process::Command;

use anyhow::{Context as _, Result, ensure};
use clawpen_tests::built;

use crate::grounds::{self, Attempts, Went};
use crate::page::{self, Column, Mechanism};
use crate::stage::{Maker, Stage, assert_root, makers};
use crate::user::User;

/// How many mechanisms must be proven, each by a control that works.
const AT_LEAST: usize = 80;

/// All of them, as their program lists them.
pub(crate) fn mechanisms() -> Result<Vec<Mechanism>> {
    let list = Command::new(built("clawpen-attacks")?).arg("list").output()?;
    let parse = |line: &str| {
        let mut parts = line.splitn(3, '\t').map(str::to_owned);
        let [name, about, exempt] = std::array::from_fn(|_| parts.next().unwrap_or_default());
        let exempt = exempt.split(';').filter_map(|word| word.split_once('='));
        let exempt = exempt.map(|(ground, why)| (ground.to_owned(), why.to_owned())).collect();
        Mechanism { name, about, exempt }
    };
    Ok(String::from_utf8(list.stdout)?.lines().map(parse).collect())
}

#[test]
fn nothing_leaves_a_pen() -> Result<()> {
    assert_root()?;
    let mechanisms = mechanisms()?;
    let stage = Stage::new()?;
    let user = User::new("escape")?;
    let columns = columns(&stage, &user, &mechanisms)?;
    println!("{}", page::table(&mechanisms, &columns));
    let mut failures = Vec::new();
    let mut proven = 0;
    for mechanism in &mechanisms {
        failures.extend(problems(mechanism, &columns));
        proven += usize::from(went(&columns, "outside", &mechanism.name) == Some(Went::Open));
    }
    println!("{}", page::summary(&mechanisms, &columns));
    ensure!(failures.is_empty(), "{}", failures.join("\n"));
    ensure!(proven >= AT_LEAST, "only {proven} mechanisms are proven");
    let has = |name| columns.iter().any(|column| column.name == name);
    if has("docker run") && has("bwrap") {
        page::check(&mechanisms, &columns)?;
    }
    Ok(())
}

/// Each ground in a thread of its own: most of the time is spent waiting for processes to start.
fn columns(stage: &Stage, user: &User, mechanisms: &[Mechanism]) -> Result<Vec<Column>> {
    let names: Vec<String> = mechanisms.iter().map(|found| found.name.clone()).collect();
    let makers = makers(user)?;
    let has_engine = makers.iter().any(|(_, maker)| matches!(maker, Maker::Docker));
    std::thread::scope(|scope| {
        let names = &names;
        let mut running = vec![("outside", scope.spawn(move || grounds::outside(stage, names)))];
        for (name, maker) in makers {
            running.push((name, scope.spawn(move || grounds::pens(stage, maker))));
        }
        // Where the services were promised, a missing rival is a failure.
        if works("bwrap") || std::env::var_os("CLAWPEN_TEST_SERVICES").is_some() {
            running.push(("bwrap", scope.spawn(move || grounds::bwrap(stage, user, names))));
        }
        if has_engine {
            running.push(("docker run", scope.spawn(move || grounds::docker_run(stage, names))));
        }
        let join = |(name, thread): (&'static str, std::thread::ScopedJoinHandle<'_, _>)| {
            let attempts: Result<Attempts> =
                thread.join().map_err(|_panic| anyhow::anyhow!("{name} panicked"))?;
            Ok(Column { name, attempts: attempts.with_context(|| name)? })
        };
        running.into_iter().map(join).collect()
    })
}

fn works(program: &str) -> bool {
    Command::new(program).arg("--version").output().is_ok_and(|output| output.status.success())
}

fn went(columns: &[Column], ground: &str, name: &str) -> Option<Went> {
    let column = columns.iter().find(|column| column.name == ground)?;
    Some(column.attempts.get(name)?.went)
}

/// What is wrong with one mechanism: it works in a pen of ours, could not be tried there, or does not work
/// even without one.
fn problems(mechanism: &Mechanism, columns: &[Column]) -> Vec<String> {
    let mut problems = Vec::new();
    for column in columns {
        let Some(attempt) = column.attempts.get(&mechanism.name) else {
            problems.push(format!("{}: not tried on {}", mechanism.name, column.name));
            continue;
        };
        let is_exempt = mechanism.exempt.iter().any(|(ground, _)| ground == column.name);
        let wrong = match (column.name, attempt.went) {
            ("outside", Went::Stopped) => "the control was stopped",
            ("root" | "user" | "docker", Went::Open) if !is_exempt => "it works",
            ("root" | "user" | "docker", Went::CannotTry) => "it could not be tried",
            _ => continue,
        };
        let said = &attempt.said;
        problems.push(format!("{} on {}: {wrong}: {said}", mechanism.name, column.name));
    }
    problems
}

#[test]
fn the_page_names_every_mechanism() -> Result<()> {
    let listed: Vec<String> = mechanisms()?.into_iter().map(|found| found.name).collect();
    assert_eq!(page::names()?, listed, "run `CLAWPEN_BLESS=1 cargo xtask test escape`");
    Ok(())
}
