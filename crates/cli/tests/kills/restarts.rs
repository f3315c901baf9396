//! A container that stood is started again, and whoever starts it dies before it was proven. It runs then,
//! and looks like one of ours: nothing may ever be called in it as it is.

use std::fs;

use super::docker::{Engine, ground};
use super::ground::Ground;

/// From the plan to the moment before the seal: a kill there leaves something unproven.
const UNPROVEN: [&str; 4] = ["docker.planned", "docker.started", "docker.met", "docker.proven"];

/// The container and its first process; 0 if it does not run.
fn container(engine: &Engine) -> (String, u32) {
    let id = engine.ask(&["ps", "--all", "--quiet", "--no-trunc"]);
    let pid = engine.ask(&["inspect", "--format", "{{.State.Pid}}", &id]);
    (id, pid.parse().unwrap())
}

/// A container that stood and whose next start was cut off at a moment.
fn cut_off(ground: &Ground, engine: &Engine, point: &str) -> (String, u32) {
    ground.works(point);
    let (id, _) = container(engine);
    engine.ask(&["kill", &id]);
    let killed = ground.run(&format!("kill:{point}"), &["exec", "--", "touch", "canary"]);
    assert_eq!(killed.status.code(), None, "{point} was not reached");
    let (same, pid) = container(engine);
    assert_eq!(same, id, "{point}");
    (id, pid)
}

fn canary(ground: &Ground) -> bool {
    let workspaces = fs::read_dir(ground.path("sandboxes")).unwrap().flatten();
    workspaces.into_iter().any(|one| one.path().join("canary").exists())
}

#[test]
fn a_container_that_was_started_and_never_proven_is_started_anew_before_it_is_used() {
    let Some(engine) = Engine::start() else { return };
    let ground = ground(&engine);
    for point in UNPROVEN {
        let (id, left) = cut_off(&ground, &engine, point);
        let state = ground.rows()[0]["clawpen"]["state"].clone();
        match point {
            "docker.started" => assert_eq!(state, "unproven"),
            // An open supervisor ends with the connection of whoever died, so it may stand already.
            _ => assert!(state == "unproven" || state == "stopped", "{point}: {state}"),
        }
        ground.works(point);
        let (same, pid) = container(&engine);
        assert_eq!(same, id, "{point}");
        assert!(pid > 0 && pid != left, "{point}: {left} was never proven and is used");
        ground.check(point);
    }
    // From the seal on there is nothing left to prove.
    let (_, left) = cut_off(&ground, &engine, "docker.sealed");
    assert_eq!(ground.rows()[0]["clawpen"]["state"], "running");
    ground.works("docker.sealed");
    assert_eq!(container(&engine).1, left);
    assert!(!canary(&ground));
    ground.clear("the end");
}

#[test]
fn a_container_that_was_loosened_while_nobody_had_proven_it_runs_nothing() {
    let Some(engine) = Engine::start() else { return };
    let ground = ground(&engine);
    for point in UNPROVEN {
        let (id, _) = cut_off(&ground, &engine, point);
        engine.ask(&["update", "--pids-limit", "5000", &id]);
        let refused = ground.run("", &["exec", "--", "touch", "canary"]);
        let said = String::from_utf8_lossy(&refused.stderr).into_owned();
        assert_eq!(refused.status.code(), Some(125), "{point}: {said}");
        assert!(said.contains("5000"), "{point}: {said}");
        assert!(!canary(&ground), "{point}");
        // It is gone, and what comes next is as it was asked for.
        assert_eq!(engine.ask(&["ps", "--all", "--quiet"]), "", "{point}");
        ground.works(point);
        ground.clear(point);
    }
}

#[test]
fn a_container_that_somebody_else_started_is_proven_before_it_is_used() {
    let Some(engine) = Engine::start() else { return };
    let ground = ground(&engine);
    ground.works("made");
    let (id, first) = container(&engine);
    // Its supervisor finds no plan and ends, or runs open: either way nobody has proven it.
    engine.ask(&["restart", "--time", "0", &id]);
    ground.works("after a restart by hand");
    let (same, pid) = container(&engine);
    assert_eq!(same, id);
    assert!(pid > 0 && pid != first);
    ground.clear("the end");
}
