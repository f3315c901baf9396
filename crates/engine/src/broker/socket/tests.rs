//! The socket under attack: wrong tokens, long and slow lines, replays, crowds.

use std::io::{BufRead as _, BufReader};
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::UnixListener;

use clawpen_rules::approval::answer::Word;
use serde_json::{Value, json};

use super::hmac::hex;
use super::*;
use crate::approvals_file::now_ms;
use crate::broker::{State, Which};

/// A server at work on a state directory of its own.
struct Ground {
    _directory: tempfile::TempDir,
    state: PathBuf,
    home: String,
    socket: PathBuf,
    token: String,
    ender: Ender,
    serving: Option<std::thread::JoinHandle<()>>,
}

impl Ground {
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let state = directory.path().join("state");
        let home = directory.path().to_str().unwrap().to_owned();
        let server = Server::bind(&state, &home).unwrap();
        let file = ApprovalsStore::of_home(&home).read().unwrap().file;
        let (socket, ender) = (server.path().to_owned(), server.ender());
        let token = file.token().unwrap().to_owned();
        let serving = std::thread::spawn(move || server.serve().unwrap());
        Self { _directory: directory, state, home, socket, token, ender, serving: Some(serving) }
    }

    fn say(&self, line: &str) -> Value {
        let stream = UnixStream::connect(&self.socket).unwrap();
        (&stream).write_all(line.as_bytes()).unwrap();
        (&stream).write_all(b"\n").unwrap();
        heard(&stream)
    }

    fn sealed(&self, kind: &str, nonce: &str, time: u64, body: &Value) -> Value {
        let body = body.to_string();
        let text = format!("{nonce}:{time}:{body}");
        let code = hex(&hmac_sha256(self.token.as_bytes(), text.as_bytes()));
        json!({"type": kind, "id": "m", "nonce": nonce, "ts": time, "hmac": code, "requestJson": body})
    }

    fn pending(&self) -> usize {
        let database = Database::open(&self.state).unwrap();
        let approvals = ApprovalsStore::of_home(&self.home);
        let broker = Broker { database: &database, approvals: &approvals, clock: &SystemClock };
        broker.list(Which::Pending).unwrap().len()
    }
}

impl Drop for Ground {
    fn drop(&mut self) {
        self.ender.end();
        self.serving.take().unwrap().join().unwrap();
        assert!(!self.socket.exists());
    }
}

fn heard(stream: &UnixStream) -> Value {
    let mut line = String::new();
    BufReader::new(stream).read_line(&mut line).unwrap();
    serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line:?}"))
}

fn nonce(number: u8) -> String {
    format!("{number:032x}")
}

#[track_caller]
fn refused(reply: &Value, reason: &str) {
    assert_eq!(
        (&reply["type"], &reply["error"]["reason"]),
        (&json!("error"), &json!(reason)),
        "{reply}"
    );
}

#[test]
fn b35_nobody_asks_without_the_token() {
    let ground = Ground::new();
    let request = json!({"command": "rm -rf /", "cwd": "/"});
    for token in [json!("wrong"), json!(""), json!(null), json!(format!("{}x", ground.token))] {
        let line = json!({"type": "request", "token": token, "id": "1", "request": request});
        refused(&ground.say(&line.to_string()), "unauthorized");
    }
    let mut forged = ground.sealed("list", &nonce(1), now_ms(), &json!({"type": "list"}));
    forged["requestJson"] = json!("{\"type\":\"list\",\"more\":1}");
    refused(&ground.say(&forged.to_string()), "unauthorized");
    assert_eq!(ground.pending(), 0);
}

#[test]
fn b35_an_envelope_counts_once_and_not_for_long() {
    let ground = Ground::new();
    let now = now_ms();
    let once = ground.sealed("list", &nonce(1), now, &json!({"type": "list"})).to_string();
    assert_eq!(ground.say(&once)["ok"], json!(true));
    refused(&ground.say(&once), "unauthorized");
    for time in [now - 60_000, now + 60_000, 0] {
        let old = ground.sealed("list", &nonce(2), time, &json!({"type": "list"}));
        refused(&ground.say(&old.to_string()), "unauthorized");
    }
    // An envelope of one kind is not good for another.
    let mut other = ground.sealed("list", &nonce(3), now, &json!({"type": "list"}));
    other["type"] = json!("resolve");
    refused(&ground.say(&other.to_string()), "malformed");
    for bad in ["x", "0123", &"g".repeat(32)] {
        let odd = ground.sealed("list", bad, now, &json!({"type": "list"}));
        refused(&ground.say(&odd.to_string()), "malformed");
    }
}

#[test]
fn b35_lines_that_are_long_or_make_no_sense_are_refused() {
    let ground = Ground::new();
    refused(&ground.say(&"x".repeat(MAX_LINE + 1)), "too-long");
    for line in ["", "{", "[]", "null", "{\"type\":\"request\"}", &"[".repeat(60_000)] {
        let reason = ground.say(line)["error"]["reason"].clone();
        assert!(reason == json!("malformed") || reason == json!("unauthorized"), "{reason}");
    }
}

#[test]
fn b35_a_slow_client_keeps_nobody_out() {
    let ground = Ground::new();
    let slow = UnixStream::connect(&ground.socket).unwrap();
    (&slow).write_all(b"{\"type\":").unwrap();
    let list = ground.sealed("list", &nonce(1), now_ms(), &json!({"type": "list"}));
    assert_eq!(ground.say(&list.to_string())["ok"], json!(true));
    refused(&heard(&slow), "too-slow");
}

#[test]
fn b35_a_crowd_is_sent_away_and_leaves_nothing_behind() {
    let ground = Ground::new();
    let crowd: Vec<UnixStream> =
        (0..MAX_CONNECTIONS + 20).map(|_| UnixStream::connect(&ground.socket).unwrap()).collect();
    let mut busy = 0;
    for stream in crowd.iter().skip(MAX_CONNECTIONS) {
        refused(&heard(stream), "busy");
        busy += 1;
    }
    assert_eq!(busy, 20);
    drop(crowd);
    // Those that left made room.
    let list = |number| ground.sealed("list", &nonce(number), now_ms(), &json!({"type": "list"}));
    let reply = (1..100)
        .map(|number| ground.say(&list(number).to_string()))
        .find(|reply| reply["error"]["reason"] != json!("busy"));
    assert_eq!(reply.unwrap()["ok"], json!(true));
}

#[test]
fn a_question_waits_for_a_person_and_gets_the_decision() {
    let ground = Ground::new();
    let stream = UnixStream::connect(&ground.socket).unwrap();
    let request = json!({"command": "deploy \u{202e}now", "cwd": "/srv", "agentId": "main",
        "approvalDecision": "allow-always"});
    let line = json!({"type": "request", "token": ground.token, "id": "q1", "request": request});
    (&stream).write_all(format!("{line}\n").as_bytes()).unwrap();
    let database = Database::open(&ground.state).unwrap();
    let approvals = ApprovalsStore::of_home(&ground.home);
    let broker = Broker { database: &database, approvals: &approvals, clock: &SystemClock };
    let approval = loop {
        if let Some(found) = broker.list(Which::Pending).unwrap().pop() {
            break found;
        }
        std::thread::yield_now();
    };
    assert_eq!(approval.shape().request.command, "deploy \\u{202E}now");
    // Whoever asks cannot answer, not even with the token.
    let body = json!({"type": "resolve", "id": approval.id.as_str(), "decision": "allow-once"});
    let own = ground.say(&ground.sealed("resolve", &nonce(1), now_ms(), &body).to_string());
    assert_eq!(own["ok"], json!(false), "{own}");
    let why = own["payload"]["reason"].as_str().unwrap();
    assert!(why.contains("asks or runs for an agent"), "{own}");
    let person = Resolver { speaker: Speaker::CliUser { uid: 0 }, place: Place::Host };
    broker.resolve(approval.id.as_str(), Word::AllowOnce, &person).unwrap();
    let expected = json!({"type": "decision", "id": "q1", "decision": "allow-once"});
    assert_eq!(heard(&stream), expected);
}

#[test]
fn a_client_that_leaves_takes_its_question_along() {
    let ground = Ground::new();
    let stream = UnixStream::connect(&ground.socket).unwrap();
    let request = json!({"command": "deploy"});
    let line = json!({"type": "request", "token": ground.token, "id": "q1", "request": request});
    (&stream).write_all(format!("{line}\n").as_bytes()).unwrap();
    while ground.pending() == 0 {
        std::thread::yield_now();
    }
    drop(stream);
    while ground.pending() > 0 {
        std::thread::yield_now();
    }
    let database = Database::open(&ground.state).unwrap();
    let approvals = ApprovalsStore::of_home(&ground.home);
    let broker = Broker { database: &database, approvals: &approvals, clock: &SystemClock };
    assert_eq!(broker.list(Which::All).unwrap()[0].state, State::Withdrawn);
}

#[test]
fn no_command_runs_through_the_socket() {
    let ground = Ground::new();
    let body = json!({"command": ["touch", "canary"], "approvalDecision": "allow-once"});
    let reply = ground.say(&ground.sealed("exec", &nonce(1), now_ms(), &body).to_string());
    let found = (&reply["type"], &reply["ok"], &reply["error"]["reason"]);
    assert_eq!(found, (&json!("exec-res"), &json!(false), &json!("unsupported")), "{reply}");
    assert!(!Path::new("canary").exists());
}

#[test]
fn the_socket_is_private_and_replaces_only_a_dead_one() {
    let ground = Ground::new();
    let facts = std::fs::metadata(&ground.socket).unwrap();
    assert_eq!(facts.mode() & 0o777, 0o600);
    let second = Server::bind(&ground.state, &ground.home).unwrap_err();
    assert!(matches!(second, SocketError::Served { .. }), "{second}");
    let directory = tempfile::tempdir().unwrap();
    let home = directory.path().to_str().unwrap();
    let place = directory.path().join(".openclaw");
    std::fs::create_dir(&place).unwrap();
    let state = directory.path().join("state");
    let path = place.join("exec-approvals.sock");
    // What is no socket stays.
    std::fs::write(&path, "precious").unwrap();
    assert!(matches!(Server::bind(&state, home), Err(SocketError::Place { .. })));
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "precious");
    std::fs::remove_file(&path).unwrap();
    drop(UnixListener::bind(&path).unwrap());
    drop(Server::bind(&state, home).unwrap());
    std::fs::set_permissions(&place, std::fs::Permissions::from_mode(0o770)).unwrap();
    assert!(matches!(Server::bind(&state, home), Err(SocketError::Place { .. })));
}
