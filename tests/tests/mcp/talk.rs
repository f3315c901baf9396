//! A client that does more than ask and wait: it leaves, answers questions, and is no parent of ours.
//!
//! The door is started by a shell between, so that the client's process is that shell: what a test runs beside it stands
//! where a person's terminal would.

use std::collections::VecDeque;
use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use clawpen_tests::home::Run;
use serde_json::{Value, json};

use crate::door::Ground;

/// Nothing here takes so long; a test that waits for ever tells nothing.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// A door with its client.
#[derive(Debug)]
pub(crate) struct Talk {
    shell: Child,
    to: Option<ChildStdin>,
    from: BufReader<ChildStdout>,
    next: u64,
    heard: VecDeque<Value>,
}

impl Talk {
    /// A client that cannot put questions to its person.
    pub(crate) fn open(ground: &Ground, args: &[&str]) -> Self {
        Self::with(ground, args, json!({}), "/usr/bin:/bin")
    }

    /// One that can.
    pub(crate) fn asking(ground: &Ground, args: &[&str]) -> Self {
        Self::with(ground, args, json!({ "elicitation": {} }), "/usr/bin:/bin")
    }

    pub(crate) fn with(ground: &Ground, args: &[&str], can: Value, path: &str) -> Self {
        let words: Vec<&str> = ["mcp"].iter().chain(args).copied().collect();
        let door = ground.0.command(&words);
        let mut shell = Command::new("/bin/sh");
        shell.args(["-c", "\"$@\"; exit $?", "sh"]).arg(door.get_program()).args(door.get_args());
        shell.env_clear().env("HOME", ground.0.path("")).env("PATH", path);
        shell.current_dir(ground.0.path(""));
        let mut shell = shell
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let (to, from) = (shell.stdin.take(), BufReader::new(shell.stdout.take().unwrap()));
        let mut talk = Self { shell, to, from, next: 0, heard: VecDeque::new() };
        let hello = talk.send(
            "initialize",
            &json!({
                "protocolVersion": "2025-06-18",
                "capabilities": can,
                "clientInfo": { "name": "raw", "version": "1" },
            }),
        );
        assert_eq!(talk.answer(hello)["result"]["serverInfo"]["name"], "clawpen");
        talk.say(&json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }));
        talk
    }

    fn say(&mut self, message: &Value) {
        let to = self.to.as_mut().unwrap();
        to.write_all(format!("{message}\n").as_bytes()).unwrap();
    }

    pub(crate) fn send(&mut self, method: &str, params: &Value) -> u64 {
        self.next += 1;
        let id = self.next;
        self.say(&json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params }));
        id
    }

    /// Begins a tool call.
    pub(crate) fn begin(&mut self, tool: &str, arguments: Value) -> u64 {
        self.send("tools/call", &json!({ "name": tool, "arguments": arguments }))
    }

    /// A whole tool call, or `None` if it waits for a person: it is taken back then.
    pub(crate) fn call_or_ask(&mut self, tool: &str, arguments: Value) -> Option<Value> {
        let token = self.next + 1;
        let meta = json!({ "progressToken": token });
        let params = json!({ "name": tool, "arguments": arguments, "_meta": meta });
        let id = self.send("tools/call", &params);
        let heard = self.wait_for(|message| {
            message["id"] == id
                || message["params"]["message"]
                    .as_str()
                    .is_some_and(|text| text.starts_with("waiting up to"))
        });
        if heard["id"] == id {
            return Some(heard["result"].clone());
        }
        self.cancel(id);
        None
    }

    /// A whole tool call.
    pub(crate) fn call(&mut self, tool: &str, arguments: Value) -> Value {
        let id = self.begin(tool, arguments);
        self.result(id)
    }

    /// The result of a tool call.
    pub(crate) fn result(&mut self, id: u64) -> Value {
        self.answer(id)["result"].clone()
    }

    pub(crate) fn answer(&mut self, id: u64) -> Value {
        self.wait_for(|message| message["id"] == id && message.get("method").is_none())
    }

    /// The next question that the door has for the person.
    pub(crate) fn question(&mut self) -> Value {
        self.wait_for(|message| message["method"] == "elicitation/create")
    }

    /// What the person says to a question.
    pub(crate) fn reply(&mut self, question: &Value, result: Value) {
        self.say(&json!({ "jsonrpc": "2.0", "id": question["id"], "result": result }));
    }

    pub(crate) fn cancel(&mut self, id: u64) {
        let params = json!({ "requestId": id, "reason": "enough" });
        self.say(
            &json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": params }),
        );
    }

    /// Everything that was heard and not asked for.
    pub(crate) fn unasked(&self) -> Vec<&Value> {
        self.heard.iter().collect()
    }

    fn wait_for(&mut self, wanted: impl Fn(&Value) -> bool) -> Value {
        if let Some(found) = self.heard.iter().position(&wanted) {
            return self.heard.remove(found).unwrap();
        }
        loop {
            let mut line = String::new();
            assert!(self.from.read_line(&mut line).unwrap() > 0, "the door closed");
            let message: Value = serde_json::from_str(&line).unwrap();
            if wanted(&message) {
                return message;
            }
            self.heard.push_back(message);
        }
    }

    /// The door's process.
    pub(crate) fn door(&self) -> u32 {
        let shell = self.shell.id();
        let children = format!("/proc/{shell}/task/{shell}/children");
        std::fs::read_to_string(children).unwrap().trim().parse().unwrap()
    }

    /// Ends the door as the kernel would.
    pub(crate) fn kill_door(&mut self) {
        let door = self.door();
        assert!(Command::new("kill").args(["-9", &door.to_string()]).status().unwrap().success());
        let _ended = self.shell.wait();
    }
}

impl Drop for Talk {
    fn drop(&mut self) {
        // The door ends when nobody speaks to it any more.
        drop(self.to.take());
        let _ended = self.shell.wait();
    }
}

/// The one question that waits, once it does.
#[track_caller]
pub(crate) fn pending(ground: &Ground) -> Value {
    let end = Instant::now() + PATIENCE;
    while Instant::now() < end {
        let listed = ground.0.run(&["approvals", "list", "--json"]);
        let listed = listed.json()["approvals"].as_array().unwrap().clone();
        if let [one] = listed.as_slice() {
            return one.clone();
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    panic!("nobody asked");
}

/// How many wait now.
pub(crate) fn waiting(ground: &Ground) -> usize {
    let listed = ground.0.run(&["approvals", "list", "--json"]);
    listed.json()["approvals"].as_array().unwrap().len()
}

/// A person's answer, from a terminal of their own.
pub(crate) fn resolve(ground: &Ground, approval: &Value, word: &str) -> Run {
    let id = approval["id"].as_str().unwrap();
    ground.0.run(&["approvals", "resolve", id, word, "--json"])
}

/// Waits until something holds.
#[track_caller]
pub(crate) fn eventually(what: &str, holds: impl Fn() -> bool) {
    let end = Instant::now() + PATIENCE;
    while !holds() {
        assert!(Instant::now() < end, "{what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Says whether a process lives; one that nobody has reaped does not.
pub(crate) fn lives(pid: &str) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", pid.trim())).unwrap_or_default();
    stat.rsplit(')').next().is_some_and(|rest| !rest.is_empty() && !rest.starts_with(" Z"))
}
