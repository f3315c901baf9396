//! Kill -9 at every change of state and at random moments: whatever is left is found and put right.
//!
//! `cargo test -p clawpen --features fault-switches --test kills`; `CLAWPEN_KILL_ROUNDS` says how many
//! random rounds (20; the soak takes 200). Needs root: only root can see whose process a pen is.
//! With `CLAWPEN_TEST_ROOTFS` the same for containers, on an engine of its own that is killed too.
#![expect(clippy::unwrap_used, reason = "the ground of a test that cannot be laid ends the test")]
#![expect(clippy::print_stderr, reason = "the house's way to say that a test did not run")]

#[path = "kills/docker.rs"]
mod docker;
#[path = "kills/ground.rs"]
mod ground;
#[path = "kills/protocols.rs"]
mod protocols;
#[path = "kills/restarts.rs"]
mod restarts;

use std::process::Stdio;

use clawpen_engine::faults;
use ground::{Chance, Ground};

/// Moments on the way of a native call.
const MAKING: [&str; 2] = ["native.", "ensure."];

fn points(prefixes: &[&str]) -> Vec<&'static str> {
    let of = |point: &&&str| prefixes.iter().any(|prefix| point.starts_with(prefix));
    faults::ALL.iter().filter(of).copied().collect()
}

fn rounds() -> usize {
    let rounds = std::env::var("CLAWPEN_KILL_ROUNDS").ok().and_then(|text| text.parse().ok());
    rounds.unwrap_or(20)
}

#[test]
fn a_kill_at_every_moment_of_making_leaves_nothing_half_made() {
    let ground = Ground::new("docker: {memory: '200m', setupCommand: 'echo set up'}");
    for point in points(&MAKING) {
        if point == "ensure.connected" {
            continue;
        }
        let killed = ground.run(&format!("kill:{point}"), &["exec", "--", "true"]);
        assert_eq!(killed.status.code(), None, "{point} was not reached");
        ground.check(point);
        ground.works(point);
        ground.clear(point);
    }
}

#[test]
fn a_kill_at_every_moment_of_a_call_leaves_no_lease() {
    let ground = Ground::new("");
    for point in ["ensure.connected", "call.leased", "call.ran", "call.released"] {
        ground.works(point);
        let killed = ground.run(&format!("kill:{point}"), &["exec", "--", "true"]);
        assert_eq!(killed.status.code(), None, "{point} was not reached");
        ground.check(point);
        assert_eq!(ground.rows().len(), 1, "{point}");
        ground.works(point);
    }
    ground.clear("the end");
}

#[test]
fn a_kill_at_every_moment_of_a_removal_is_finished_by_the_next_command() {
    let ground = Ground::new("");
    for point in points(&["remove."]) {
        ground.works(point);
        let args = ["sandbox", "remove", "--all", "--force"];
        let killed = ground.run(&format!("kill:{point}"), &args);
        assert_eq!(killed.status.code(), None, "{point} was not reached");
        ground.check(point);
        assert_eq!(ground.rows().len(), 0, "{point}");
        ground.works(point);
    }
    ground.clear("the end");
}

#[test]
fn a_pen_that_is_killed_while_it_is_made_is_an_error_and_leaves_nothing() {
    let ground = Ground::new("docker: {setupCommand: 'true'}");
    for point in
        ["native.made", "native.proven", "native.written", "native.sealed", "native.set-up"]
    {
        let stopped = ground.stop_at(point, &["exec", "--", "true"]);
        ground.kill_pens();
        let ended = stopped.go_on();
        assert_ne!(ended.status.code(), Some(0), "{point}");
        ground.check(point);
        ground.works(point);
        ground.clear(point);
    }
}

#[test]
fn a_pen_that_is_killed_under_a_call_ends_the_call_and_the_next_gets_another() {
    let ground = Ground::new("");
    ground.works("before");
    let mut command = ground.command("", &["exec", "--", "sh", "-c", "echo go; exec sleep 1000"]);
    let mut call = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    ground::wait_for_line(call.stdout.take().unwrap(), "go");
    ground.kill_pens();
    let ended = call.wait_with_output().unwrap();
    assert_eq!(ended.status.code(), Some(125), "{}", String::from_utf8_lossy(&ended.stderr));
    ground.check("killed under a call");
    ground.works("after");
    // Killed while nobody looked: found out by the next call.
    ground.kill_pens();
    ground.works("killed while idle");
    ground.clear("the end");
}

#[test]
fn kills_at_random_moments_leave_nothing_torn_or_lying() {
    let ground = Ground::new("docker: {memory: '200m', setupCommand: 'echo set up'}");
    let mut chance = Chance::new();
    let all = points(&["native.", "ensure.", "call.", "remove."]);
    for round in 0..rounds() {
        let what = match chance.below(4) {
            0 => {
                let point = all[chance.below(all.len())];
                let args: &[&str] = if point.starts_with("remove.") {
                    &["sandbox", "remove", "--all", "--force"]
                } else {
                    &["exec", "--", "true"]
                };
                ground.run(&format!("kill:{point}"), args);
                format!("killed at {point}")
            }
            1 => {
                let micros = chance.below(40_000);
                ground.kill_after(micros, &["exec", "--", "sh", "-c", "echo x; sleep 0.01"]);
                format!("a call killed after {micros} us")
            }
            2 => {
                let micros = chance.below(30_000);
                ground.works("before a removal");
                ground.kill_after(micros, &["sandbox", "remove", "--all", "--force"]);
                format!("a removal killed after {micros} us")
            }
            _ => {
                ground.works("before a pen is killed");
                ground.kill_pens();
                "a pen killed".to_owned()
            }
        };
        let what = format!("round {round}, seed {}: {what}", chance.seed);
        ground.check(&what);
        if chance.below(3) == 0 {
            ground.works(&what);
        }
    }
    ground.clear("the end");
}
