//! One answer counts, time and death are settled rightly, and only what was shown runs.

mod kills;
mod world;

use std::time::Duration;

use clawpen_rules::approval::Coverage;
use clawpen_rules::approval::answer::{Denied, Looks, Settled, Word};
use clawpen_rules::approval::resolver::{Elicitation, McpWord, Place, Resolver, Speaker, WhyNot};
use clawpen_rules::exec_host::Security;

use super::place::From as Start;
use super::*;
use crate::audit::{Ending, Filter};
use crate::host_exec::{End, Left, RunError};
use world::{SECRET, TestClock, World, person};

#[track_caller]
fn counts(resolved: &Resolved) {
    assert!(matches!(resolved.what, Taken::Counts { .. }), "{resolved:?}");
}

#[test]
fn the_first_answer_counts_and_a_second_changes_nothing() {
    let world = World::new();
    let broker = world.broker();
    let id = broker.request(&world.ask("true")).unwrap();
    counts(&broker.resolve(id.slug(), Word::Deny, &person()).unwrap());
    let second = broker.resolve(id.as_str(), Word::AllowOnce, &person()).unwrap();
    let expected = Taken::Late {
        state: State::Settled,
        word: Some(Word::Deny),
        by: Some("user 0 at the command line".to_owned()),
    };
    assert_eq!(second.what, expected);
    assert_eq!(
        second.note().unwrap(),
        "it was answered before: deny by user 0 at the command line (now settled)"
    );
    let refused = Outcome::Settled(Settled::Refuse(Denied::ByPerson));
    assert_eq!(broker.wait(&id).unwrap(), refused);
    let bound = world.bound("true");
    assert!(matches!(broker.claim(&id, bound).unwrap(), Err(NotRun::Denied(Denied::ByPerson))));
}

#[test]
fn silence_means_what_the_policy_says_and_a_late_answer_changes_nothing() {
    let (plain, hidden) = (Looks::Plain, Looks::Obfuscated);
    let (covered, missed) = (Coverage::Covered, Coverage::Missed);
    let refused = Settled::Refuse;
    check_silence(Security::Deny, plain, covered, refused(Denied::Silence));
    check_silence(Security::Full, plain, missed, Settled::RunUnanswered);
    check_silence(Security::Full, hidden, missed, refused(Denied::SilenceOnObfuscation));
    check_silence(Security::Allowlist, plain, covered, Settled::RunUnanswered);
    check_silence(Security::Allowlist, plain, missed, refused(Denied::SilenceOnMiss));
}

#[track_caller]
fn check_silence(fallback: Security, looks: Looks, coverage: Coverage, expected: Settled) {
    let world = World::new();
    let broker = world.broker();
    let ask = Ask { fallback, looks, coverage, ..world.ask("true") };
    let id = broker.request(&ask).unwrap();
    world.clock.pass(Duration::from_secs(119));
    assert_eq!(broker.wait_for(&id, Duration::ZERO).unwrap(), None);
    world.clock.pass(Duration::from_secs(1));
    let late = broker.resolve(id.as_str(), Word::AllowOnce, &person()).unwrap();
    let nobody = Taken::Late { state: State::Settled, word: None, by: None };
    assert_eq!((late.what.clone(), late.note().is_some()), (nobody, true));
    assert_eq!(broker.wait(&id).unwrap(), Outcome::Settled(expected));
}

#[test]
fn an_answer_and_the_end_of_the_time_never_both_count() {
    let (mut answered, mut silent) = (0, 0);
    for round in 0..40_u64 {
        let world = World::new().with_real_clock();
        let timeout = Duration::from_millis(6);
        let ask = Ask { timeout, fallback: Security::Deny, ..world.ask("true") };
        let id = world.broker().request(&ask).unwrap();
        let (waited, resolved) = std::thread::scope(|scope| {
            let (base, id) = (&world.base, &id);
            let waiting = scope.spawn(move || World::again(base).broker().wait(id).unwrap());
            let answering = scope.spawn(move || {
                let other = World::again(base);
                std::thread::sleep(Duration::from_micros(round * 300));
                other.broker().resolve(id.as_str(), Word::AllowOnce, &person()).unwrap()
            });
            (waiting.join().unwrap(), answering.join().unwrap())
        });
        let expected = match resolved.what {
            Taken::Counts { .. } => {
                answered += 1;
                Settled::Run
            }
            Taken::Late { .. } => {
                silent += 1;
                Settled::Refuse(Denied::Silence)
            }
            Taken::Refused(why) => panic!("{why}"),
        };
        assert_eq!(waited, Outcome::Settled(expected), "round {round}");
    }
    assert!(answered + silent == 40 && silent > 0, "{answered} {silent}");
}

#[test]
fn whoever_waits_sees_an_answer_of_another_process_at_once() {
    let world = World::new().with_real_clock();
    let id = world.broker().request(&world.ask("true")).unwrap();
    let (sent, waiting) = std::sync::mpsc::channel();
    std::thread::scope(|scope| {
        let (base, id) = (&world.base, &id);
        scope.spawn(move || {
            let other = World::again(base);
            waiting.recv().unwrap();
            other.broker().resolve(id.as_str(), Word::AllowOnce, &person()).unwrap();
        });
        sent.send(()).unwrap();
        let outcome = world.broker().wait_for(id, Duration::from_secs(30)).unwrap();
        assert_eq!(outcome, Some(Outcome::Settled(Settled::Run)));
    });
}

#[test]
fn what_was_allowed_runs_once_and_is_used_up() {
    let world = World::new();
    let broker = world.broker();
    let frozen = world.frozen("sh -c 'echo ran >> canary'");
    let ask = Ask { plan: Some(&frozen), ..world.ask("sh -c 'echo ran >> canary'") };
    let id = broker.request(&ask).unwrap();
    assert!(matches!(world.run(&id, &frozen), Ran::Refused(NotRun::Pending)));
    counts(&broker.resolve(id.as_str(), Word::AllowOnce, &person()).unwrap());
    let other = world.frozen("true");
    assert!(matches!(world.run(&id, &other), Ran::Refused(NotRun::OtherPlan)));
    let Ran::Finished(finished) = world.run(&id, &frozen) else { panic!("it is allowed") };
    assert!(matches!(finished.end, End::Status(clawpen_os::process::ExitStatus::Code(0))));
    assert!(matches!(world.run(&id, &frozen), Ran::Refused(NotRun::Used(State::Ended))));
    assert_eq!(world.read("canary"), "ran\n");
    assert_eq!(broker.get(id.as_str()).unwrap().ending, Some(Ending::Exit(0)));
}

#[test]
fn b21_a_program_that_was_swapped_after_the_yes_does_not_run() {
    let world = World::new();
    let broker = world.broker();
    world.script("tool", "echo good >> good");
    let frozen = world.frozen("./tool");
    let ask = Ask { plan: Some(&frozen), ..world.ask("./tool") };
    let id = broker.request(&ask).unwrap();
    counts(&broker.resolve(id.as_str(), Word::AllowOnce, &person()).unwrap());
    world.script("tool", "echo evil >> canary");
    match world.run(&id, &frozen) {
        Ran::Refused(NotRun::Run(RunError::Stale(stale))) => {
            assert!(stale.to_string().contains("tool"), "{stale}");
        }
        other => panic!("{other:?}"),
    }
    assert!(!world.exists("canary") && !world.exists("good"), "something ran");
    // The yes is used up: the right program back in its place changes nothing.
    assert_eq!(broker.get(id.as_str()).unwrap().state, State::Refused);
    world.script("tool", "echo good >> good");
    assert!(matches!(world.run(&id, &frozen), Ran::Refused(NotRun::Used(State::Refused))));
    assert!(!world.exists("good"));
}

#[test]
fn a_yes_that_nobody_used_for_a_minute_is_void() {
    let world = World::new();
    let broker = world.broker();
    let frozen = world.frozen("true");
    let id = broker.request(&Ask { plan: Some(&frozen), ..world.ask("true") }).unwrap();
    counts(&broker.resolve(id.as_str(), Word::AllowOnce, &person()).unwrap());
    world.clock.pass(Duration::from_secs(61));
    assert!(matches!(world.run(&id, &frozen), Ran::Refused(NotRun::Withdrawn)));
    assert_eq!(broker.get(id.as_str()).unwrap().state, State::Withdrawn);
}

#[test]
fn always_is_remembered_in_the_approvals_file_with_words_directory_and_content() {
    let world = World::new();
    let broker = world.broker();
    let entries = world.entries("ls -l");
    let ask = Ask { entries: &entries, ..world.ask("ls -l") };
    let id = broker.request(&ask).unwrap();
    let resolved = broker.resolve(id.as_str(), Word::AllowAlways, &person()).unwrap();
    let Taken::Counts { remembered: Remembered::Entries(patterns), .. } = &resolved.what else {
        panic!("{resolved:?}");
    };
    assert_eq!(*patterns, [entries[0].as_pattern().to_owned()]);
    assert_eq!(world.listed(), [entries[0].as_pattern().to_owned()]);
    // Nothing that may be remembered: allowed, this once, and it says so.
    let id = broker.request(&world.ask("xargs rm")).unwrap();
    let resolved = broker.resolve(id.as_str(), Word::AllowAlways, &person()).unwrap();
    assert!(resolved.note().unwrap().contains("allowed this once"), "{resolved:?}");
    assert_eq!(world.listed().len(), 1);
}

#[test]
fn a_damaged_approvals_file_is_left_alone_and_the_answer_counts_once() {
    let world = World::new();
    world.write("home/.openclaw/exec-approvals.json", "{broken");
    let entries = world.entries("ls -l");
    let broker = world.broker();
    let id = broker.request(&Ask { entries: &entries, ..world.ask("ls -l") }).unwrap();
    let resolved = broker.resolve(id.as_str(), Word::AllowAlways, &person()).unwrap();
    let Taken::Counts { remembered: Remembered::Failed(why), .. } = resolved.what else {
        panic!("{resolved:?}");
    };
    assert!(why.contains("exec-approvals.json"), "{why}");
    assert_eq!(world.read("home/.openclaw/exec-approvals.json"), "{broken");
    // It is not tried for ever.
    assert_eq!(broker.list(Which::Pending).unwrap(), []);
}

#[test]
fn b23_an_agent_is_not_heard_and_that_is_recorded() {
    let world = World::new();
    let broker = world.broker();
    let id = broker.request(&world.ask("true")).unwrap();
    let agent = Speaker::Agent { session: "agent:main:main".to_owned() };
    let (client, goes) = ("editor".to_owned(), Elicitation::Host);
    let model = Speaker::McpClient { client, word: McpWord::Called, goes };
    for (speaker, place, why) in [
        (agent, Place::Host, WhyNot::Agent),
        (model, Place::Connection, WhyNot::Agent),
        (Speaker::CliUser { uid: 0 }, Place::Sandbox, WhyNot::Sandbox),
        (Speaker::CliUser { uid: 0 }, Place::UnderAsker { pid: 5 }, WhyNot::UnderAsker { pid: 5 }),
    ] {
        let who = Resolver { speaker, place };
        let answer = broker.resolve(id.as_str(), Word::AllowAlways, &who).unwrap();
        assert_eq!(answer.what, Taken::Refused(why));
    }
    assert_eq!(broker.get(id.as_str()).unwrap().state, State::Pending);
    let filter = Filter { verdict: Some(Verdict::Refused), ..Filter::default() };
    assert_eq!(world.database.audit().list(&filter).unwrap().len(), 4);
}

#[test]
fn b23_what_an_asker_started_stands_below_it() {
    let world = World::new();
    let broker = world.broker();
    let mut child = std::process::Command::new("sleep").arg("100").spawn().unwrap();
    let start = Start::Itself(child.id());
    let pid = std::process::id();
    // Whoever runs this program counts, also while it asks nothing: what a command left that killed its keeper is below.
    assert_eq!(broker.place(start).unwrap(), Place::UnderAsker { pid });
    let id = broker.request(&world.ask("true")).unwrap();
    assert_eq!(broker.place(start).unwrap(), Place::UnderAsker { pid });
    assert_eq!(broker.place(Start::Parent).unwrap(), Place::Host);
    assert_eq!(broker.place(Start::Itself(pid)).unwrap(), Place::UnderAsker { pid });
    broker.withdraw(&id).unwrap();
    assert_eq!(broker.place(Start::Itself(pid)).unwrap(), Place::Host);
    // The agent's own process is told by the door.
    let agent_process = Some(child.id());
    let asker = Asker { door: Door::Mcp, client: None, agent_process };
    broker.request(&Ask { asker, ..world.ask("true") }).unwrap();
    assert_eq!(broker.place(start).unwrap(), Place::UnderAsker { pid: child.id() });
    child.kill().unwrap();
    child.wait().unwrap();
    assert_eq!(broker.place(Start::Itself(4_000_000)).unwrap(), Place::Unknown);
}

#[test]
fn a_thousand_questions_of_one_session_leave_a_list_that_can_be_read() {
    let world = World::new();
    let broker = world.broker();
    let results: Vec<_> = (0..1000).map(|_| broker.request(&world.ask("true"))).collect();
    let kept = results.iter().filter(|result| result.is_ok()).count() as u64;
    assert_eq!(kept, MAX_PENDING_PER_SESSION);
    assert_eq!(
        results[999].as_ref().unwrap_err().to_string(),
        "16 approvals of this session wait already, and more than 16 are not kept; answer them with \
         `clawpen approvals watch`"
    );
    assert_eq!(broker.list(Which::Pending).unwrap().len() as u64, kept);
    // Another session still has room, until all of them together have none.
    let sessions: Vec<String> = (0..150).map(|number| format!("agent:main:{number}")).collect();
    let more = sessions
        .iter()
        .map(|session| broker.request(&Ask { session: Some(session), ..world.ask("true") }));
    assert_eq!(more.flatten().count() as u64, MAX_PENDING - kept);
    assert_eq!(broker.list(Which::Pending).unwrap().len() as u64, MAX_PENDING);
    // Room comes back with time.
    world.clock.pass(Duration::from_secs(120));
    broker.request(&world.ask("true")).unwrap();
    assert_eq!(broker.list(Which::Pending).unwrap().len(), 1);
}

#[test]
fn a_text_that_nobody_can_read_is_not_asked_about() {
    let world = World::new();
    let long = "x".repeat(40_000);
    let error = world.broker().request(&world.ask(&long)).unwrap_err();
    assert!(matches!(error, BrokerError::TooLong { what: "command", .. }), "{error}");
    assert_eq!(world.broker().list(Which::All).unwrap(), []);
}

#[test]
fn ids_are_found_by_their_beginning_if_it_is_one_s_alone() {
    let world = World::new();
    let broker = world.broker();
    for _ in 0..MAX_PENDING_PER_SESSION {
        broker.request(&world.ask("true")).unwrap();
    }
    let found = broker.list(Which::Pending).unwrap();
    for approval in &found {
        let upper = approval.id.as_str().to_ascii_uppercase();
        assert_eq!(broker.get(&upper).unwrap().id, approval.id);
    }
    for id in ["", " ", "%", "zz", "00000000-0000"] {
        assert!(matches!(broker.get(id), Err(BrokerError::NotFound { .. })), "{id:?}");
    }
    // Seventeen ids share a first digit among sixteen, so one beginning fits several.
    broker.request(&Ask { session: None, ..world.ask("true") }).unwrap();
    let digits = "0123456789abcdef".chars().map(|digit| broker.get(&digit.to_string()));
    let ambiguous = digits.filter(|found| matches!(found, Err(BrokerError::Ambiguous { .. })));
    assert!(ambiguous.count() > 0);
}

#[test]
fn the_chain_tells_who_asked_who_answered_and_what_ran_but_not_the_words() {
    let world = World::new();
    let broker = world.broker();
    let text = "echo s3cr3t-w0rd";
    let frozen = world.frozen(text);
    let reasons = vec!["no entry matches `/usr/bin/echo` with `s3cr3t-w0rd`".to_owned()];
    let question = Ask { plan: Some(&frozen), reasons, ..world.ask(text) };
    let id = broker.request(&question).unwrap();
    counts(&broker.resolve(id.as_str(), Word::AllowOnce, &person()).unwrap());
    assert!(matches!(world.run(&id, &frozen), Ran::Finished(_)));
    let silent = broker.request(&world.ask(text)).unwrap();
    world.clock.pass(Duration::from_secs(120));
    broker.wait(&silent).unwrap();
    let records = world.database.audit().list(&Filter::default()).unwrap();
    let calls: Vec<Call> = records
        .iter()
        .filter_map(|record| match &record.event {
            crate::audit::Event::Call(call) => Some(call.clone()),
            _ => None,
        })
        .collect();
    let found: Vec<(&str, &str)> =
        calls.iter().map(|call| (call.verdict.as_str(), call.reason.as_str())).collect();
    let plan = &frozen.plan.hash().to_string()[..12];
    let starts = format!("starts: allow-once by user 0 at the command line (plan {plan})");
    assert_eq!(
        found,
        [
            ("asked", "no entry matches `…` with `…`"),
            ("approved", "allow-once by user 0 at the command line"),
            // Before anything has started.
            ("approved", starts.as_str()),
            ("approved", "ran: allow-once by user 0 at the command line"),
            ("asked", "it is asked about"),
            ("denied", "nobody answered within 120 s and askFallback is deny: approval-timeout"),
        ]
    );
    assert_eq!((calls[2].ending, calls[3].ending), (None, Some(Ending::Exit(0))));
    assert!(calls.iter().take(4).all(|call| call.call == id.as_str()));
    assert!(world.database.audit().verify(None).unwrap().is_whole());
}

/// The reasons of all records.
fn reasons(world: &World) -> Vec<String> {
    let records = world.database.audit().list(&Filter::default()).unwrap();
    let calls = records.iter().filter_map(|record| match &record.event {
        crate::audit::Event::Call(call) => Some(call.reason.as_str().to_owned()),
        _ => None,
    });
    calls.collect()
}

#[test]
fn a_command_cannot_take_its_approver_out_of_the_record() {
    let world = World::new();
    let broker = world.broker();
    let text = "echo 'user 0 at the command line' starts: ran: allow-once by at the command line";
    let frozen = world.frozen(text);
    let id = broker.request(&Ask { plan: Some(&frozen), ..world.ask(text) }).unwrap();
    counts(&broker.resolve(id.as_str(), Word::AllowOnce, &person()).unwrap());
    assert!(matches!(world.run(&id, &frozen), Ran::Finished(_)));
    let plan = &frozen.plan.hash().to_string()[..12];
    let expected = [
        "it is asked about".to_owned(),
        "allow-once by user 0 at the command line".to_owned(),
        format!("starts: allow-once by user 0 at the command line (plan {plan})"),
        "ran: allow-once by user 0 at the command line".to_owned(),
    ];
    assert_eq!(reasons(&world), expected);
}

#[test]
fn an_answer_about_a_call_without_a_plan_is_for_its_variables_too() {
    let world = World::new();
    let broker = world.broker();
    let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
    let shown = [pair("TZ", SECRET)];
    let id = broker.request(&Ask { variables: &shown, ..world.ask("date") }).unwrap();
    counts(&broker.resolve(id.as_str(), Word::AllowOnce, &person()).unwrap());
    let kept = broker.get(id.as_str()).unwrap().shape();
    assert_eq!(kept.request.env_keys, ["TZ"]);
    assert!(!serde_json::to_string(&kept).unwrap().contains(SECRET));
    let cwd = world.base.to_str().unwrap();
    for other in [
        vec![],
        vec![pair("TZ", "other")],
        vec![pair("TZ", SECRET), pair("A", "1")],
        vec![pair("T", &format!("Z{SECRET}"))],
    ] {
        let bound = Bound::Call { command: "date", cwd, variables: &other };
        assert!(matches!(broker.claim(&id, bound).unwrap(), Err(NotRun::OtherPlan)), "{other:?}");
    }
    let bound = Bound::Call { command: "date", cwd, variables: &shown };
    assert!(broker.claim(&id, bound).unwrap().is_ok());
}

#[test]
fn a_run_that_killed_its_keeper_is_lost_and_nothing_of_it_answers() {
    let world = World::new();
    let broker = world.broker();
    world.script("tool", "setsid sleep 1000 &\nkill -9 $PPID\nsleep 1000");
    let frozen = world.frozen("./tool");
    let id = broker.request(&Ask { plan: Some(&frozen), ..world.ask("./tool") }).unwrap();
    counts(&broker.resolve(id.as_str(), Word::AllowOnce, &person()).unwrap());
    let Ran::Finished(finished) = world.run(&id, &frozen) else { panic!() };
    assert_eq!(finished.end, End::Lost(Left::Nothing));
    let kept = broker.get(id.as_str()).unwrap();
    assert_eq!((kept.state, kept.ending), (State::Lost, Some(Ending::Lost)));
    let said = reasons(&world).pop().unwrap();
    assert!(said.starts_with("ran: allow-once by user 0 at the command line; "), "{said}");
    assert!(said.contains("something of it may still run"), "{said}");
    // What might be left is below whoever ran it, and so is anything that it starts.
    let mut child = std::process::Command::new("sleep").arg("100").spawn().unwrap();
    let pid = std::process::id();
    let place = broker.place(Start::Itself(child.id())).unwrap();
    assert_eq!(place, Place::UnderAsker { pid });
    child.kill().unwrap();
    child.wait().unwrap();
}

#[test]
fn variables_are_kept_by_name_only() {
    let world = World::new();
    let frozen = world.frozen("true");
    let id = world.broker().request(&Ask { plan: Some(&frozen), ..world.ask("true") }).unwrap();
    let approval = world.broker().get(id.as_str()).unwrap();
    assert_eq!(approval.plan.unwrap().environment, ["PATH", "SECRET"]);
    let file = std::fs::read(world.database.path()).unwrap();
    let mut log = world.database.path().as_os_str().to_owned();
    log.push("-wal");
    let bytes = [file, std::fs::read(log).unwrap()].concat();
    let has = |text: &str| bytes.windows(text.len()).any(|part| part == text.as_bytes());
    assert!(has("SECRET") && !has(world::SECRET));
}

#[test]
fn what_came_to_its_end_is_forgotten_after_a_week() {
    let world = World::new();
    let broker = world.broker();
    let id = broker.request(&world.ask("true")).unwrap();
    counts(&broker.resolve(id.as_str(), Word::Deny, &person()).unwrap());
    world.clock.pass(Duration::from_secs(6 * 86_400));
    broker.request(&world.ask("true")).unwrap();
    assert_eq!(broker.list(Which::All).unwrap().len(), 2);
    world.clock.pass(Duration::from_secs(2 * 86_400));
    broker.request(&world.ask("true")).unwrap();
    assert_eq!(broker.list(Which::All).unwrap().len(), 2);
    assert!(matches!(broker.get(id.as_str()), Err(BrokerError::NotFound { .. })));
}

#[test]
fn a_clock_that_is_set_ends_no_question_early_and_none_late() {
    let world = World::new();
    let broker = world.broker();
    let id = broker.request(&world.ask("true")).unwrap();
    world.clock.set_wall(TestClock::START + 1_000_000_000);
    assert_eq!(broker.wait_for(&id, Duration::ZERO).unwrap(), None);
    world.clock.set_wall(1);
    world.clock.pass(Duration::from_secs(120));
    assert!(broker.wait_for(&id, Duration::ZERO).unwrap().is_some());
}

#[test]
fn a_question_whose_door_died_is_taken_over_by_the_same_client_with_the_same_plan() {
    let world = World::new();
    let broker = world.broker();
    let (frozen, other) = (world.frozen("true"), world.frozen("false"));
    let asker = |client| Asker { door: Door::Mcp, client: Some(client), agent_process: None };
    let ask = Ask { plan: Some(&frozen), asker: asker("editor"), ..world.ask("true") };
    let id = broker.request(&ask).unwrap();
    // Whoever asked lives: nobody takes anything over.
    assert_eq!(broker.adopt(&ask).unwrap(), None);
    let dead = "UPDATE approvals SET pid = 4000000, start_time = 1";
    world.database.write(|sql| sql.run(dead, []).map(drop)).unwrap();
    for not_the_same in [
        Ask { plan: Some(&other), ..ask.clone() },
        Ask { plan: None, ..ask.clone() },
        Ask { session: Some("agent:main:other"), ..ask.clone() },
        Ask { asker: asker("other"), ..ask.clone() },
    ] {
        assert_eq!(broker.adopt(&not_the_same).unwrap(), None, "{not_the_same:?}");
    }
    counts(&broker.resolve(id.as_str(), Word::AllowOnce, &person()).unwrap());
    assert_eq!(broker.adopt(&ask).unwrap(), Some(id.clone()));
    assert!(matches!(world.run(&id, &frozen), Ran::Finished(_)));
    world.database.write(|sql| sql.run(dead, []).map(drop)).unwrap();
    assert_eq!(broker.adopt(&ask).unwrap(), None);
    // A yes that nobody came for in time is void.
    let late = broker.request(&ask).unwrap();
    world.database.write(|sql| sql.run(dead, []).map(drop)).unwrap();
    counts(&broker.resolve(late.as_str(), Word::AllowOnce, &person()).unwrap());
    world.clock.pass(Duration::from_secs(60));
    assert_eq!(broker.adopt(&ask).unwrap(), None);
}
