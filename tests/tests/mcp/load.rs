//! Many calls and much output: none is lost, none waits for another, memory stays.

use std::time::{Duration, Instant};

use serde_json::json;

use crate::door::{CONFIG, Ground, Http, Pipes, peak};

/// What one command writes.
const MUCH: u64 = 1_000_000_000;

#[test]
fn fifty_parallel_calls_from_ten_clients_all_come_back() {
    let ground = Ground::new(CONFIG);
    let door = Http::open(&ground);
    let sessions: Vec<_> =
        (0..10).map(|number| door.session(&format!("client-{number}"))).collect();
    let answers: Vec<(String, String)> = std::thread::scope(|scope| {
        let mut calls = Vec::new();
        for (client, session) in sessions.iter().enumerate() {
            for call in 0..5 {
                calls.push(scope.spawn(move || {
                    let word = format!("answer-{client}-{call}");
                    let done = session.call("exec", &json!({ "command": format!("echo {word}") }));
                    let said = done["structuredContent"]["aggregated"]
                        .as_str()
                        .unwrap_or_default()
                        .to_owned();
                    (format!("{word}\n"), said)
                }));
            }
        }
        calls.into_iter().map(|call| call.join().unwrap()).collect()
    });
    assert_eq!(answers.len(), 50);
    for (expected, said) in answers {
        assert_eq!(said, expected);
    }
}

#[test]
fn a_gigabyte_of_output_neither_grows_the_door_nor_holds_others_up() {
    let ground = Ground::new(CONFIG);
    let mut pipes = Pipes::open(&ground, &[]);
    pipes.call("exec", json!({ "command": "true" }));
    let before = peak(pipes.child.id());
    let command = format!("yes 'a line of output, as programs write them' | head -c {MUCH}");
    let call = json!({ "name": "exec", "arguments": { "command": command, "yieldMs": 120_000 }, "_meta": { "progressToken": 5 } });
    pipes.line(
        &json!({ "jsonrpc": "2.0", "id": "much", "method": "tools/call", "params": call })
            .to_string(),
    );
    let begun = Instant::now();
    let mut asked = 0_u32;
    let mut slowest = Duration::ZERO;
    let much = loop {
        let sent = Instant::now();
        let first = pipes.race("much", "exec", &json!({ "command": "true" }));
        if let Some(much) = first {
            break much;
        }
        asked += 1;
        slowest = slowest.max(sent.elapsed());
        assert!(begun.elapsed() < Duration::from_secs(250), "it takes too long");
    };
    let details = &much["result"]["structuredContent"];
    assert_eq!(details["exitCode"], 0, "{details}");
    assert_eq!(details["aggregated"].as_str().unwrap().chars().count(), 200_000);
    assert!(asked > 3, "only {asked} calls came through beside it");
    assert!(slowest < Duration::from_secs(20), "a call beside it took {slowest:?}");
    let grown = peak(pipes.child.id()) - before;
    assert!(grown < 32_000, "the door grew by {grown} KiB");
}
