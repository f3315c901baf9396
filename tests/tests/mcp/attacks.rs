//! Attacks on the door: each is carried out, and then an ordinary client must still be served.

use std::io::{Read as _, Write as _};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
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
fn a_thousand_silent_connections_keep_nobody_out_and_are_sent_away() {
    let ground = Ground::new(CONFIG);
    let door = Http::open(&ground);
    let before = door.descriptors();
    let silent: Vec<_> = (0..1000).map(|_| door.connect()).collect();
    let begun = Instant::now();
    assert!(door.is_alive());
    assert!(begun.elapsed() < Duration::from_secs(2), "{:?}", begun.elapsed());
    // Sixty-four strangers, and some that are just being closed.
    assert!(door.descriptors() < before + 160, "{}", door.descriptors());
    for mut one in silent {
        let mut rest = Vec::new();
        let _cut = one.read_to_end(&mut rest);
    }
    assert!(begun.elapsed() < Duration::from_secs(10), "{:?}", begun.elapsed());
}

#[test]
fn a_crowd_that_keeps_coming_does_not_shut_the_door() {
    let ground = Ground::new(CONFIG);
    let door = Http::open(&ground);
    let ended = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                let mut kept = std::collections::VecDeque::new();
                while !ended.load(std::sync::atomic::Ordering::Relaxed) {
                    let mut one = door.connect();
                    let _cut = one.write_all(b"POST /mcp HTTP/1.1\r\nhost: ");
                    kept.push_back(one);
                    if kept.len() > 200 {
                        kept.pop_front();
                    }
                }
            });
        }
        let served = (0..20).filter(|_| door.is_alive()).count();
        ended.store(true, std::sync::atomic::Ordering::Relaxed);
        // Whoever has the token is let in on the first or, at worst, on the next try.
        assert!(served >= 15, "{served} of 20");
    });
    assert!(door.is_alive());
}

#[test]
fn a_stranger_has_two_seconds_and_no_body_of_its_is_read() {
    let ground = Ground::new(CONFIG);
    let door = Http::open(&ground);
    let host = door.address;
    for start in ["", "P", "POST /mcp HTTP/1.1\r\nhost: "] {
        let mut slow = door.connect();
        slow.write_all(start.as_bytes()).unwrap();
        let begun = Instant::now();
        let mut rest = Vec::new();
        let _cut = slow.read_to_end(&mut rest);
        let took = begun.elapsed();
        assert!(
            took > Duration::from_secs(1) && took < Duration::from_secs(6),
            "{start:?}: {took:?}"
        );
    }
    // A byte now and then buys no time.
    let mut slow = door.connect();
    let begun = Instant::now();
    while slow.write_all(b"x").is_ok() {
        assert!(begun.elapsed() < Duration::from_secs(10), "still there");
        std::thread::sleep(Duration::from_millis(100));
    }
    let (status, _) = door.raw(
        format!("POST /mcp HTTP/1.1\r\nhost: {host}\r\ncontent-length: 1000000000\r\n\r\nx")
            .as_bytes(),
    );
    assert_eq!(status, 401);
    assert!(door.is_alive());
}

#[test]
fn requests_that_are_made_to_confuse_are_refused() {
    let ground = Ground::new(CONFIG);
    let door = Http::open(&ground);
    let head = format!("host: {}\r\nauthorization: Bearer {}\r\n", door.address, door.token);
    let kind = "content-type: application/json\r\naccept: application/json, text/event-stream\r\n";
    let many = "x-y: z\r\n".repeat(200);
    for (name, request) in [
        (
            "two lengths",
            format!(
                "POST /mcp HTTP/1.1\r\n{head}{kind}content-length: 2\r\ncontent-length: 20\r\n\r\n{{}}"
            ),
        ),
        ("no length", format!("POST /mcp HTTP/1.1\r\n{head}{kind}content-length: x\r\n\r\n")),
        (
            "a chunk too long",
            format!(
                "POST /mcp HTTP/1.1\r\n{head}{kind}transfer-encoding: chunked\r\n\r\nfffffffffffffffff\r\n"
            ),
        ),
        (
            "many headers",
            format!("POST /mcp HTTP/1.1\r\n{head}{kind}{many}content-length: 0\r\n\r\n"),
        ),
        (
            "a huge header",
            format!("POST /mcp HTTP/1.1\r\n{head}x: {}\r\n\r\n", "y".repeat(100_000)),
        ),
        (
            "an unknown session",
            format!(
                "POST /mcp HTTP/1.1\r\n{head}{kind}mcp-session-id: nobody\r\nconnection: close\r\ncontent-length: 2\r\n\r\n{{}}"
            ),
        ),
        (
            "another kind of body",
            format!(
                "POST /mcp HTTP/1.1\r\n{head}content-type: text/plain\r\nconnection: close\r\ncontent-length: 2\r\n\r\n{{}}"
            ),
        ),
        (
            "another method",
            format!("PATCH /mcp HTTP/1.1\r\n{head}connection: close\r\ncontent-length: 0\r\n\r\n"),
        ),
        ("no HTTP", "\x16\x03\x01\x02\x00\x01\x00\x01\u{0}".to_owned()),
    ] {
        let (status, answer) = door.raw(request.as_bytes());
        assert!(status == 0 || (400..500).contains(&status), "{name}: {answer}");
    }
    assert!(door.is_alive());
}

#[test]
fn a_client_that_reads_a_byte_a_second_holds_nobody_up_and_is_dropped() {
    let ground = Ground::new(CONFIG);
    let door = Http::open(&ground);
    let session = door.session("slow");
    let made =
        session.call("exec", &json!({ "command": "head -c 4000000 /dev/zero | tr '\\0' x > big" }));
    assert_eq!(made["structuredContent"]["exitCode"], 0, "{made}");
    let peak = door.peak();
    let ask = json!({ "jsonrpc": "2.0", "id": 9, "method": "resources/read", "params": { "uri": "pen://workspace/big" } });
    let mut slow: Vec<_> = (0..8)
        .map(|_| {
            let mut stream = door.connect();
            stream.write_all(session.request(&ask.to_string()).as_bytes()).unwrap();
            stream
        })
        .collect();
    let begun = Instant::now();
    assert!(door.connections() >= slow.len());
    loop {
        for stream in &mut slow {
            let _byte = stream.read(&mut [0]);
        }
        let asked = Instant::now();
        assert!(door.is_alive());
        assert!(asked.elapsed() < Duration::from_secs(5), "{:?}", asked.elapsed());
        // One answer each, in a few forms on its way out.
        assert!(door.peak() < peak + 250_000, "{} KiB", door.peak());
        if door.connections() == 0 {
            break;
        }
        assert!(begun.elapsed() < Duration::from_secs(60), "they are still there");
        std::thread::sleep(Duration::from_secs(1));
    }
}

#[test]
fn a_client_that_takes_no_progress_does_not_hold_its_command() {
    let ground = Ground::new(CONFIG);
    let door = Http::open(&ground);
    let session = door.session("deaf");
    session.call("exec", &json!({ "command": "true" }));
    let params = json!({
        "name": "exec",
        "arguments": { "command": "i=0; while [ $i -lt 30 ]; do head -c 200000 /dev/zero | tr '\\0' y; sleep 0.1; i=$((i+1)); done; touch done" },
        "_meta": { "progressToken": 1 },
    });
    let ask = json!({ "jsonrpc": "2.0", "id": 9, "method": "tools/call", "params": params });
    let mut deaf = door.connect();
    deaf.write_all(session.request(&ask.to_string()).as_bytes()).unwrap();
    let begun = Instant::now();
    let other = door.session("other");
    while other.call("exec", &json!({ "command": "test -e done" }))["structuredContent"]["exitCode"]
        != 0
    {
        assert!(begun.elapsed() < Duration::from_secs(40), "the command is held");
    }
}

#[test]
fn a_token_that_others_could_have_written_opens_no_door() {
    let ground = Ground::new(CONFIG);
    let file = ground.0.path("token");
    let path = file.to_str().unwrap();
    let refused = |expected: &str| {
        let run = ground.0.run(&["mcp", "--http", "127.0.0.1:0", "--token-file", path]);
        assert_eq!(run.code, Some(1), "{run:?}");
        assert!(run.stderr.contains(expected), "{}", run.stderr);
    };
    std::fs::write(&file, "0123456789abcdef0123").unwrap();
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o644)).unwrap();
    refused("chmod 600");
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o600)).unwrap();
    std::fs::write(&file, "two words are no token").unwrap();
    refused("holds no token");
    std::fs::write(&file, "short").unwrap();
    refused("too short");
    std::fs::write(&file, "0123456789abcdef0123").unwrap();
    if std::fs::metadata("/proc/self").unwrap().uid() == 0 {
        std::os::unix::fs::chown(&file, Some(1234), None).unwrap();
        refused("another user's");
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
