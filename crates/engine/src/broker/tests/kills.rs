//! kill -9 of whoever asks, answers or runs, at every step: the next process finds a row that it can
//! settle rightly, and nothing runs twice.
//!
//! The test starts itself again as a child that does one thing and is killed at one named moment.

use std::io::Read as _;
use std::os::unix::process::ExitStatusExt as _;
use std::path::Path;
use std::process::{Command, Stdio};

use super::*;

const JOB: &str = "CLAWPEN_TEST_JOB";
const BASE: &str = "CLAWPEN_TEST_BASE";
const TEXT: &str = "sh -c 'echo ran >> canary'";

/// What a child does; what it says is read by the test.
fn job(world: &World, name: &str) -> String {
    let broker = world.broker();
    let frozen = world.frozen(TEXT);
    let entries = world.entries("ls -l");
    let ask = Ask { plan: Some(&frozen), entries: &entries, ..world.ask(TEXT) };
    let first = || broker.list(Which::All).unwrap().remove(0).id;
    match name {
        "ask" => broker.request(&ask).unwrap().to_string(),
        "ask and run" => {
            let id = broker.request(&ask).unwrap();
            broker.resolve(id.as_str(), Word::AllowOnce, &person()).unwrap();
            format!("{:?}", world.run(&id, &frozen))
        }
        "always" => {
            let done = broker.resolve(first().as_str(), Word::AllowAlways, &person()).unwrap();
            format!("{:?}", done.what)
        }
        "once" => {
            let done = broker.resolve(first().as_str(), Word::AllowOnce, &person()).unwrap();
            match done.what {
                Taken::Counts { .. } => "SAID counts".to_owned(),
                Taken::Late { .. } => "SAID late".to_owned(),
                Taken::Refused(why) => why.to_string(),
            }
        }
        other => panic!("{other}"),
    }
}

/// Only when the tests below start it.
#[test]
fn child() {
    if let (Ok(name), Ok(base)) = (std::env::var(JOB), std::env::var(BASE)) {
        println!("{}", job(&World::at(Path::new(&base)).with_real_clock(), &name));
    }
}

fn start(world: &World, name: &str, fault: &str) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command
        .args(["broker::tests::kills::child", "--exact", "--test-threads=1", "--nocapture"])
        .env(JOB, name)
        .env(BASE, &world.base)
        .env("CLAWPEN_FAULT", fault)
        .stdout(Stdio::piped());
    command
}

#[track_caller]
fn killed(world: &World, name: &str, moment: &str) {
    let output = start(world, name, &format!("kill:{moment}")).output().unwrap();
    assert_eq!(output.status.signal(), Some(9), "{moment} was not reached");
}

fn world() -> World {
    World::new().with_real_clock()
}

#[track_caller]
fn only(world: &World) -> Approval {
    let mut found = world.broker().list(Which::All).unwrap();
    assert_eq!(found.len(), 1);
    found.remove(0)
}

#[test]
fn an_asker_that_dies_leaves_a_question_that_can_be_answered_and_taken_over() {
    let world = world();
    killed(&world, "ask", "broker.asked");
    let approval = only(&world);
    assert_eq!((approval.state, approval.shape().asker.as_str()), (State::Pending, "gone"));
    let resolved = world.broker().resolve(approval.id.as_str(), Word::AllowOnce, &person());
    let resolved = resolved.unwrap();
    assert!(resolved.note().unwrap().contains("whoever asked is gone"), "{resolved:?}");
    // Nobody else may run it as it stands.
    let frozen = world.frozen(TEXT);
    let not_ours = world.run(&approval.id, &frozen);
    assert!(matches!(not_ours, Ran::Refused(NotRun::NotTheAsker)), "{not_ours:?}");
    // A door that is started again takes it over, with the plan that was shown and no other.
    let other = world.frozen("true");
    let refused = world.broker().resume(&approval.id, &other).unwrap();
    assert!(matches!(refused, Err(NotRun::OtherPlan)), "{refused:?}");
    world.broker().resume(&approval.id, &frozen).unwrap().unwrap();
    assert!(matches!(world.run(&approval.id, &frozen), Ran::Finished(_)));
    assert_eq!(world.read("canary"), "ran\n");
}

#[test]
fn a_resolver_that_dies_before_the_file_is_written_is_finished_by_the_next_process() {
    for moment in ["broker.answered", "broker.remembered"] {
        let world = world();
        start(&world, "ask", "").output().unwrap();
        killed(&world, "always", moment);
        let approval = only(&world);
        assert_eq!((approval.state, approval.word), (State::Settled, Some(Word::AllowAlways)));
        assert_eq!(world.listed(), [world.entries("ls -l")[0].as_pattern()], "{moment}");
        // Once more changes nothing.
        only(&world);
        assert_eq!(world.listed().len(), 1, "{moment}");
    }
}

#[test]
fn a_runner_that_dies_leaves_a_lost_row_and_nothing_runs_twice() {
    for (moment, ran) in [("broker.claimed", false), ("broker.ran", true)] {
        let world = world();
        killed(&world, "ask and run", moment);
        let approval = only(&world);
        assert_eq!((approval.state, approval.ending), (State::Lost, Some(Ending::Lost)));
        assert_eq!(world.exists("canary"), ran, "{moment}");
        let frozen = world.frozen(TEXT);
        let again = world.broker().resume(&approval.id, &frozen).unwrap();
        assert!(matches!(again, Err(NotRun::Used(State::Lost))), "{again:?}");
        let again = world.run(&approval.id, &frozen);
        assert!(matches!(again, Ran::Refused(NotRun::Used(State::Lost))), "{again:?}");
        assert!(world.database.audit().verify(None).unwrap().is_whole());
    }
}

#[test]
fn of_many_processes_that_answer_at_once_exactly_one_counts() {
    for _ in 0..3 {
        let world = world();
        start(&world, "ask", "").output().unwrap();
        let children: Vec<_> = (0..6).map(|_| start(&world, "once", "").spawn().unwrap()).collect();
        let mut said = Vec::new();
        for mut child in children {
            let mut text = String::new();
            child.stdout.take().unwrap().read_to_string(&mut text).unwrap();
            assert!(child.wait().unwrap().success(), "{text}");
            said.push(text);
        }
        let count = |what: &str| said.iter().filter(|text| text.contains(what)).count();
        assert_eq!((count("SAID counts"), count("SAID late")), (1, 5), "{said:?}");
        let filter = Filter { verdict: Some(Verdict::Approved), ..Filter::default() };
        assert_eq!(world.database.audit().list(&filter).unwrap().len(), 1);
    }
}
