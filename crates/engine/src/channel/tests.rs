//! The channel against a peer that follows a script, honest or not.

mod batch;
mod exec;
mod files;
mod hostile;
mod script;
mod socket;

use clawpen_wire::supervisor::{
    End, ErrorCode, Event, Exited, FactsReport, Failed, Hello, LandlockFact, Output, ProcessFacts,
    Request, Started, Stream, Usage, Welcome,
};

use super::*;
use script::{Script, channel, script};

#[test]
fn the_greeting_comes_first_and_settles_the_version() {
    let welcome = Welcome { version: 1, build: "test".into(), sealed: true, instance: 7 };
    let script = Script::new()
        .hears(0, Request::Hello(Hello { oldest: OLDEST_VERSION, newest: VERSION }))
        .says(0, Event::Welcome(welcome.clone()));
    let channel = Channel::over(Box::new(script), Patience::default()).unwrap();
    assert_eq!(channel.welcome(), &welcome);
}

#[test]
fn a_greeting_that_fails_leaves_no_connection() {
    check_greeting(Script::new().closes(), "Hello(Closed)");
    check_greeting(Script::new().says(0, Event::Done), "Hello(Violation(Unexpected { kind: 3 }))");
    let wrong = "Hello(Violation(WrongChannel { expected: 0, found: 1 }))";
    check_greeting(Script::new().says(1, Event::Done), wrong);
    check_greeting(Script::new().falls_silent(), "Hello(NoAnswer)");
    let theirs = VERSION + 1;
    let welcome = Welcome { version: theirs, build: String::new(), sealed: false, instance: 0 };
    let newer = Script::new().says(0, Event::Welcome(welcome));
    check_greeting(newer, &format!("Version {{ theirs: {theirs}, oldest: 1 }}"));
    let refused = Script::new().says(0, failed(ErrorCode::Version));
    let expected = "Hello(Failed(Failure { code: Version, errno: 0, message: \"no\" }))";
    check_greeting(refused, expected);
}

#[track_caller]
fn check_greeting(script: Script, expected: &str) {
    let error = Channel::over(Box::new(script.unheard()), script::QUICK).unwrap_err();
    assert_eq!(format!("{error:?}"), expected);
}

#[test]
fn each_call_has_a_number_of_its_own() {
    let script = script()
        .hears(1, Request::Ping)
        .says(1, Event::Done)
        .hears(2, Request::Seal)
        .says(2, failed(ErrorCode::Busy))
        .hears(3, Request::Facts)
        .says(3, Event::FactsReport(Box::new(facts())))
        .hears(4, Request::Shutdown)
        .says(4, Event::Done);
    let mut channel = channel(script);
    channel.ping().unwrap();
    let refused = channel.seal().unwrap_err();
    assert_eq!(refused.failure().unwrap().code, ErrorCode::Busy);
    assert_eq!(channel.facts().unwrap(), facts());
    channel.shutdown().unwrap();
}

#[test]
fn what_a_supervisor_says_cannot_move_a_cursor_or_forge_a_line() {
    let message = "gone\n\u{1b}[2Jall is well\r\u{85}".to_owned();
    let failure = Failed { code: ErrorCode::Io, errno: 5, message };
    let mut channel = channel(script().says(1, Event::Failed(failure)).unheard());
    let error = channel.ping().unwrap_err();
    assert_eq!(error.to_string(), "gone\u{fffd}\u{fffd}[2Jall is well\u{fffd}\u{fffd}");
}

fn facts() -> FactsReport {
    let process = ProcessFacts {
        status: b"NoNewPrivs:\t1\n".to_vec(),
        limits: Vec::new(),
        cgroup: b"0::/\n".to_vec(),
        namespaces: Vec::new(),
        dumpable: true,
        securebits: 0,
        descriptors: vec![0, 1, 2],
    };
    FactsReport {
        supervisor: process.clone(),
        workload: process,
        mountinfo: Vec::new(),
        uid_map: Vec::new(),
        gid_map: Vec::new(),
        interfaces: Vec::new(),
        landlock: LandlockFact { abi: 7, enforced: true },
        hostname: b"pen".to_vec(),
        sealed: false,
    }
}

fn failed(code: ErrorCode) -> Event<'static> {
    Event::Failed(Failed { code, errno: 0, message: "no".into() })
}

fn started() -> Event<'static> {
    Event::Started(Started { process: 1, pid: 2 })
}

fn output(offset: u64, bytes: &[u8]) -> Event<'_> {
    Event::Output(Output { stream: Stream::Stdout, offset, bytes })
}

fn exited(end: End) -> Event<'static> {
    Event::Exited(exit(end))
}

fn exit(end: End) -> Exited {
    Exited { end, timed_out: false, usage: Usage::default() }
}

/// Only a connection that is at rest goes on to the next caller.
#[test]
fn a_connection_is_at_rest_only_when_both_sides_agree_that_nothing_is_going_on() {
    let answered = || script().hears(1, Request::Ping).says(1, Event::Done);
    assert!(rests_after_a_call(answered().falls_silent()));
    let refused = script().hears(1, Request::Ping).says(1, failed(ErrorCode::Busy));
    assert!(rests_after_a_call(refused.falls_silent()));
    let senseless = script().hears(1, Request::Ping).says(1, Event::FactsReport(Box::new(facts())));
    for script in [
        // It has gone, or says what nobody asked for.
        answered().closes(),
        answered().says(1, Event::Done),
        answered().says(0, failed(ErrorCode::Busy)),
        // A broken one stays broken.
        senseless.falls_silent(),
    ] {
        let shown = format!("{script:?}");
        assert!(!rests_after_a_call(script), "{shown}");
    }
}

#[track_caller]
fn rests_after_a_call(script: Script) -> bool {
    let mut channel = channel(script);
    drop(channel.ping());
    channel.is_at_rest()
}

/// The rest of an event that has begun may come at any time.
#[test]
fn a_connection_with_half_an_event_is_not_at_rest() {
    let mut bytes = Vec::new();
    clawpen_wire::supervisor::frame::append(&mut bytes, 1, &Event::Done).unwrap();
    bytes.extend_from_slice(&[9, 0]);
    let mut channel = channel(script().hears(1, Request::Ping).says_bytes(&bytes).falls_silent());
    channel.ping().unwrap();
    assert!(!channel.is_at_rest());
}
