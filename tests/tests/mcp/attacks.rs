//! Attacks on the door: each is carried out, and then an ordinary client must still be served.

use std::io::{Read as _, Write as _};
use std::time::{Duration, Instant};

use serde_json::json;

use crate::door::{CONFIG, Ground, Http, Pipes, hello};

fn first() -> String {
    json!({ "jsonrpc": "2.0", "id": 1, "method": "initialize", "params": hello() }).to_string()
}

#[test]
fn a_wrong_token_a_foreign_page_and_a_rebound_name_stay_outside() {
    let ground = Ground::new(CONFIG);
    let door = Http::open(&ground);
    let host = door.address.to_string();
    let token = format!("Bearer {}", door.token);
    let wrong = format!("Bearer {}", "x".repeat(door.token.len()));
    for (headers, expected) in [
        (vec![("host", host.as_str())], 401),
        (vec![("host", &host), ("authorization", &wrong)], 401),
        (vec![("host", &host), ("authorization", &token), ("authorization", &wrong)], 401),
        (vec![("host", "evil.example"), ("authorization", &token)], 403),
        (vec![("host", &host), ("authorization", &token), ("origin", "https://evil.example")], 403),
        (vec![("host", &host), ("authorization", &token), ("origin", "null")], 403),
        (vec![("host", &host), ("authorization", &token)], 200),
    ] {
        let (status, answer) = door.post(&headers, &first());
        assert_eq!(status, expected, "{headers:?}: {answer}");
    }
    assert!(door.is_alive());
}

#[test]
fn bodies_that_are_too_large_or_no_json_rpc_are_refused() {
    let ground = Ground::new(CONFIG);
    let door = Http::open(&ground);
    let good = door.good();
    let good: Vec<(&str, &str)> = good.iter().map(|(a, b)| (a.as_str(), b.as_str())).collect();
    let huge = format!("\"{}\"", "x".repeat(17 << 20));
    assert_eq!(door.post(&good, &huge).0, 413);
    let deep = "[".repeat(200_000);
    for bad in ["", "{", "null", "[]", "{\"jsonrpc\":\"1.0\"}", "\u{0}", deep.as_str()] {
        let (status, _) = door.post(&good, bad);
        assert!((400..500).contains(&status), "{status}");
    }
    let (status, _) = door.raw(&vec![b'x'; 200_000]);
    assert!(status == 400 || status == 431 || status == 0, "{status}");
    assert!(door.is_alive());
}

#[test]
fn slow_clients_and_a_thousand_connections_are_bounded() {
    let ground = Ground::new(CONFIG);
    let door = Http::open(&ground);
    // One that never finishes its headers.
    let mut slow = door.connect();
    slow.write_all(b"POST /mcp HTTP/1.1\r\nhost: ").unwrap();
    let begun = Instant::now();
    let idle: Vec<_> = (0..1000).map(|_| door.connect()).collect();
    let mut rest = Vec::new();
    let _cut = slow.read_to_end(&mut rest);
    assert!(begun.elapsed() < Duration::from_secs(25), "{:?}", begun.elapsed());
    drop(idle);
    let left = Instant::now();
    while !door.is_alive() {
        assert!(left.elapsed() < Duration::from_secs(60), "nobody is served any more");
    }
}

#[test]
fn a_door_that_others_could_reach_is_not_opened_by_accident() {
    let ground = Ground::new(CONFIG);
    let refused = ground.0.run(&["mcp", "--http", "0.0.0.0:0"]);
    assert_eq!(refused.code, Some(1), "{refused:?}");
    assert!(refused.stderr.contains("--allow-remote"), "{}", refused.stderr);
}

#[test]
fn lines_that_are_no_messages_do_not_end_the_door_at_standard_input() {
    let ground = Ground::new(CONFIG);
    let mut pipes = Pipes::open(&ground, &[]);
    for bad in ["{", "", "null", "[[[[", "{\"jsonrpc\":\"2.0\",\"id\":77}", "\u{7}"] {
        pipes.line(bad);
    }
    pipes.line(&"[".repeat(1 << 20));
    pipes.line(&format!("\"{}\"", "x".repeat(17 << 20)));
    let done = pipes.call("exec", json!({ "command": "echo still here" }));
    assert_eq!(done["structuredContent"]["aggregated"], "still here\n", "{done}");
}
