//! What is done to a container behind our back, and to the engine itself: no file is lost, nothing is left
//! over, and the next call works.

use std::fs;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use clawpen_tests::home::Run;
use serde_json::json;

use crate::engine::{Data, OwnEngine, SMALL};
use crate::relay::{Moment, Relay};
use crate::yard::Yard;

/// For a loaded machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// An engine and a home on it.
fn yard(data: Data, docker: &str) -> Result<Option<(Yard, OwnEngine)>> {
    let Some(engine) = OwnEngine::start(data)? else { return Ok(None) };
    let yard = Yard::on(engine.place()?, SMALL, docker)?;
    Ok(Some((yard, engine)))
}

/// One container, one row, both right, and the agent's file as it was.
#[track_caller]
fn assert_whole(yard: &Yard, engine: &OwnEngine) -> Result<()> {
    assert_eq!(yard.sh("cat kept"), "a day's work\n");
    let rows = yard.rows();
    let states: Vec<_> = rows.iter().map(|row| row["clawpen"]["state"].clone()).collect();
    assert_eq!(states, [json!("running")], "{rows:?}");
    assert_eq!(engine.containers()?.len(), 1);
    // The end of one that was killed may take its time.
    let deadline = Instant::now() + PATIENCE;
    while engine.running() != 1 && Instant::now() < deadline {
        std::thread::sleep(Duration::from_millis(50));
    }
    assert_eq!(engine.running(), 1, "running");
    let places = fs::read_dir(yard.home.path(".openclaw/clawpen/docker/run"))?.count();
    assert_eq!(places, 1, "meeting places");
    Ok(())
}

/// A command that waits in the container until it is told to go on.
fn waiting(yard: &Yard) -> Result<Child> {
    let script = "echo begun > begun; while [ ! -e go ]; do sleep 0.1; done; echo out";
    let mut command = yard.command(&["exec", "--", "sh", "-c", script]);
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
    yard.await_file("begun")?;
    Ok(child)
}

fn end(child: Child) -> Result<Run> {
    let output = child.wait_with_output()?;
    let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
    let (stdout, stderr) = (text(output.stdout), text(output.stderr));
    Ok(Run { code: output.status.code(), stdout, stderr })
}

#[test]
fn a_container_that_was_stopped_killed_removed_or_renamed_comes_back() -> Result<()> {
    let Some((yard, engine)) = yard(Data::Disk, "")? else { return Ok(()) };
    yard.sh("echo \"a day's work\" > kept");
    for harm in [
        ["stop", "--time", "0"].as_slice(),
        &["kill"],
        &["kill", "--signal", "TERM"],
        &["rename"],
        &["restart", "--time", "0"],
        &["rm", "--force"],
    ] {
        let id = engine.containers()?.pop().context("a container")?;
        let mut words = harm.to_vec();
        words.push(&id);
        if harm == ["rename"] {
            words.push("clawpen-test-elsewhere");
        }
        let done = engine.docker(&words);
        // Nobody but us can start one: what it was started with is gone.
        assert_eq!(done.is_err(), harm.first() == Some(&"restart"), "{harm:?}: {done:?}");
        assert_whole(&yard, &engine).with_context(|| format!("{harm:?}"))?;
    }
    let removed = yard.run(&["sandbox", "remove", "--all", "--force"]);
    assert_eq!(removed.code, Some(0), "{}", removed.stderr);
    assert_eq!(engine.containers()?, Vec::<String>::new());
    Ok(())
}

#[test]
fn an_engine_that_is_stopped_and_started_finds_its_containers_and_so_do_we() -> Result<()> {
    let Some((yard, mut engine)) = yard(Data::Disk, "")? else { return Ok(()) };
    yard.sh("echo \"a day's work\" > kept");
    let call = waiting(&yard)?;
    engine.stop()?;
    let cut = end(call)?;
    assert!(cut.code != Some(0) && !cut.stderr.is_empty(), "{cut:?}");
    let down = yard.run(&["exec", "--", "true"]);
    assert_eq!(down.code, Some(125), "{}", down.stderr);
    assert!(down.stderr.contains(&engine.socket().display().to_string()), "{}", down.stderr);
    let rows = yard.rows();
    assert_eq!(rows[0]["clawpen"]["state"], json!("unknown"), "{rows:?}");
    engine.begin()?;
    assert_eq!(yard.rows()[0]["clawpen"]["state"], json!("stopped"));
    assert_whole(&yard, &engine)
}

/// Calls go to the supervisor, so that a dead engine costs them nothing.
#[test]
fn a_command_outlives_an_engine_that_is_killed() -> Result<()> {
    let Some((yard, mut engine)) = yard(Data::Disk, "")? else { return Ok(()) };
    yard.sh("echo \"a day's work\" > kept");
    let call = waiting(&yard)?;
    engine.kill()?;
    // Another one, while there is no engine at all.
    assert_eq!(yard.sh("cat kept"), "a day's work\n");
    fs::write(yard.work("go"), "")?;
    let done = end(call)?;
    assert_eq!((done.code, done.stdout.as_str()), (Some(0), "out\n"), "{}", done.stderr);
    engine.begin()?;
    assert_whole(&yard, &engine)
}

#[test]
fn a_setup_command_outlives_an_engine_that_is_killed() -> Result<()> {
    let script = "echo x >> setups; while [ ! -e go ]; do sleep 0.1; done";
    let keys = format!("setupCommand: '{script}'");
    let Some((yard, mut engine)) = yard(Data::Disk, &keys)? else { return Ok(()) };
    fs::write(yard.work("kept"), "a day's work\n")?;
    let mut command = yard.command(&["exec", "--", "cat", "kept"]);
    let call = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
    yard.await_file("setups")?;
    engine.kill()?;
    fs::write(yard.work("go"), "")?;
    let done = end(call)?;
    assert_eq!((done.code, done.stdout.as_str()), (Some(0), "a day's work\n"), "{}", done.stderr);
    engine.begin()?;
    assert_whole(&yard, &engine)?;
    assert_eq!(fs::read_to_string(yard.work("setups"))?, "x\n");
    Ok(())
}

#[test]
fn an_engine_that_is_killed_at_any_request_leaves_nothing_that_is_not_put_right() -> Result<()> {
    let Some(mut engine) = OwnEngine::start(Data::Disk)? else { return Ok(()) };
    let relay = Relay::start(&engine.socket())?;
    let yard = Yard::on(clawpen_tests::docker::Place::at(relay.socket())?, SMALL, "")?;
    fs::write(yard.work("kept"), "a day's work\n")?;
    for request in ["/containers/create?", "/start HTTP", "DELETE "] {
        for moment in [Moment::Before, Moment::During, Moment::After] {
            let call = if request == "DELETE " {
                yard.sh("true");
                &["sandbox", "remove", "--all", "--force"][..]
            } else {
                let removed = yard.run(&["sandbox", "remove", "--all", "--force"]);
                assert_eq!(removed.code, Some(0), "{}", removed.stderr);
                &["exec", "--", "true"]
            };
            relay.arm(request, moment, engine.pid()?);
            let run = yard.run(call);
            assert!(relay.has_killed(), "{request} {moment:?}: {run:?}");
            assert!(run.code != Some(0), "{request} {moment:?}: {run:?}");
            engine.begin_again()?;
            assert_whole(&yard, &engine).with_context(|| format!("{request} {moment:?}"))?;
        }
    }
    let removed = yard.run(&["sandbox", "remove", "--all", "--force"]);
    assert_eq!(removed.code, Some(0), "{}", removed.stderr);
    assert_eq!((yard.rows().len(), engine.containers()?.len()), (0, 0));
    Ok(())
}

#[test]
fn an_engine_without_space_says_so_and_leaves_nothing() -> Result<()> {
    let Some((yard, engine)) = yard(Data::Memory(64), "")? else { return Ok(()) };
    let full = engine.data("full")?;
    fill(&full)?;
    let run = yard.run(&["exec", "--", "true"]);
    assert_eq!(run.code, Some(125), "{}", run.stderr);
    assert!(run.stderr.contains("no space left"), "{}", run.stderr);
    assert_eq!((yard.rows().len(), engine.containers()?.len()), (0, 0));
    fs::remove_file(&full)?;
    yard.sh("echo \"a day's work\" > kept");
    fill(&full)?;
    // The workspace is not the engine's, so work goes on; only another container cannot be made.
    assert_eq!(yard.sh("echo more >> kept; cat kept"), "a day's work\nmore\n");
    let other = yard.run(&["exec", "--fresh", "--", "true"]);
    assert_eq!(other.code, Some(125), "{}", other.stdout);
    assert!(other.stderr.contains("no space left"), "{}", other.stderr);
    assert_eq!((yard.rows().len(), engine.containers()?.len()), (1, 1));
    fs::remove_file(&full)?;
    assert_eq!(yard.sh("cat kept"), "a day's work\nmore\n");
    Ok(())
}

/// Until nothing more fits.
fn fill(path: &std::path::Path) -> Result<()> {
    use std::io::Write as _;
    let mut file = fs::File::create(path)?;
    let block = vec![1; 4096];
    while file.write_all(&block).is_ok() {}
    Ok(())
}

#[test]
fn an_image_that_was_built_anew_or_deleted_is_shown_and_taken_when_asked() -> Result<()> {
    let Some((yard, engine)) = yard(Data::Disk, "")? else { return Ok(()) };
    yard.sh("echo \"a day's work\" > kept");
    let image = |yard: &Yard| {
        let row = yard.rows().remove(0);
        (row["clawpen"]["image"].clone(), row["imageMatch"].clone())
    };
    assert_eq!(image(&yard), (json!("current"), json!(true)));
    engine.import(SMALL)?;
    assert_eq!(image(&yard), (json!("rebuilt"), json!(false)));
    let live = yard.run(&["sandbox", "explain", "--live", "--json"]);
    assert_eq!(live.json()["image"], json!("rebuilt"), "{}", live.stderr);
    assert!(yard.run(&["sandbox", "list"]).stdout.contains("built anew since"));
    let before = engine.containers()?;
    let recreated = yard.run(&["sandbox", "recreate", "--all", "--stale", "--force"]);
    assert_eq!(recreated.code, Some(0), "{}", recreated.stderr);
    assert_whole(&yard, &engine)?;
    assert_ne!(engine.containers()?, before);
    assert_eq!(image(&yard), (json!("current"), json!(true)));
    // Only its name goes while it is in use; it runs on.
    drop(engine.docker(&["rmi", "--force", SMALL]));
    assert_eq!(image(&yard), (json!("deleted"), json!(false)));
    assert_whole(&yard, &engine)?;
    // Stopped, with nothing left that it could be started from: nothing is removed, and it is said.
    let made = engine.containers()?;
    engine.docker(&["stop", "--time", "0", &made[0]])?;
    for id in engine.docker(&["images", "--all", "--quiet", "--no-trunc"])?.lines() {
        engine.docker(&["rmi", "--force", id])?;
    }
    let run = yard.run(&["exec", "--", "true"]);
    assert_eq!(run.code, Some(125), "{}", run.stderr);
    assert!(run.stderr.contains(&format!("docker pull {SMALL}")), "{}", run.stderr);
    assert_eq!(engine.containers()?, made);
    engine.import(SMALL)?;
    assert_whole(&yard, &engine)?;
    assert_ne!(engine.containers()?, made);
    Ok(())
}
