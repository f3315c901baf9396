//! The MCP door with containers behind it: every kind of call, and a cancelled one that leaves nothing.

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, ChildStdin, ChildStdout, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use serde_json::{Value, json};

use crate::yard::Yard;

/// A client at the standard input of a door.
struct Client {
    door: Child,
    to: ChildStdin,
    from: BufReader<ChildStdout>,
    next: u64,
}

impl Client {
    fn open(yard: &Yard) -> Result<Self> {
        let mut door = yard.command(&["mcp"]);
        door.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut door = door.spawn()?;
        let to = door.stdin.take().context("input")?;
        let from = BufReader::new(door.stdout.take().context("output")?);
        let mut client = Self { door, to, from, next: 0 };
        let hello = json!({
            "protocolVersion": "2025-06-18",
            "capabilities": {},
            "clientInfo": { "name": "docker-suite", "version": "1" },
        });
        client.ask("initialize", &hello)?;
        client.send(&json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }))?;
        Ok(client)
    }

    fn send(&mut self, message: &Value) -> Result<()> {
        Ok(self.to.write_all(format!("{message}\n").as_bytes())?)
    }

    fn ask(&mut self, method: &str, params: &Value) -> Result<Value> {
        self.next += 1;
        let id = self.next;
        self.send(&json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params }))?;
        loop {
            let mut line = String::new();
            ensure!(self.from.read_line(&mut line)? > 0, "the door closed");
            let message: Value = serde_json::from_str(&line)?;
            if message["id"] == id {
                return Ok(message);
            }
        }
    }

    /// A tool call that works; gives its details.
    fn call(&mut self, tool: &str, arguments: &Value) -> Result<Value> {
        let answer = self.ask("tools/call", &json!({ "name": tool, "arguments": arguments }))?;
        let result = &answer["result"];
        ensure!(result["isError"] == false, "{tool}: {answer}");
        Ok(result.clone())
    }

    fn sh(&mut self, command: &str) -> Result<String> {
        let done = self.call("exec", &json!({ "command": command }))?;
        let said = &done["structuredContent"]["aggregated"];
        Ok(said.as_str().unwrap_or_default().to_owned())
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        let _gone = self.door.kill();
        let _reaped = self.door.wait();
    }
}

#[test]
fn every_kind_of_call_works_in_a_container() -> Result<()> {
    let Some(yard) = Yard::new("")? else { return Ok(()) };
    let mut client = Client::open(&yard)?;
    assert_eq!(client.sh("id -u; pwd")?, "1000\n/workspace\n");
    client.call("write", &json!({ "path": "a/b.txt", "content": "one\ntwo\n" }))?;
    client.call("edit", &json!({ "path": "a/b.txt", "oldText": "two", "newText": "2" }))?;
    let patch = "*** Begin Patch\n*** Add File: c.txt\n+three\n*** Update File: a/b.txt\n-one\n+1\n*** End Patch";
    client.call("apply_patch", &json!({ "input": patch }))?;
    let read = client.call("read", &json!({ "path": "a/b.txt" }))?;
    assert_eq!(read["content"][0]["text"], "1\n2\n");
    // Nothing of a container takes new programs, and none is needed for these.
    let found = client.call("grep", &json!({ "pattern": "thre+" }))?;
    assert_eq!(found["content"][0]["text"], "c.txt:1: three");
    let found = client.call("find", &json!({ "pattern": "*.txt" }))?;
    assert_eq!(found["content"][0]["text"], "a/b.txt\nc.txt");
    assert_eq!(client.sh("cat a/b.txt c.txt")?, "1\n2\nthree\n");

    let started = client.call("exec", &json!({ "command": "echo begun; read line; echo got $line", "background": true, "pty": true }))?;
    let id = started["structuredContent"]["sessionId"].as_str().context("a name")?.to_owned();
    client.call("process", &json!({ "action": "write", "sessionId": id, "data": "word\n" }))?;
    let polled =
        client.call("process", &json!({ "action": "poll", "sessionId": id, "timeout": 20_000 }))?;
    let log = client.call("process", &json!({ "action": "log", "sessionId": id }))?;
    assert!(format!("{polled}{log}").contains("got word"), "{polled} {log}");

    assert_eq!(yard.containers()?.len(), 1);
    Ok(())
}

#[test]
fn a_cancelled_call_takes_its_whole_tree_along() -> Result<()> {
    let Some(yard) = Yard::new("")? else { return Ok(()) };
    let mut client = Client::open(&yard)?;
    client.sh("true")?;
    let call = json!({ "name": "exec", "arguments": { "command": "touch begun; (setsid sleep 4242 &) ; sleep 4242", "yieldMs": 100_000 } });
    client
        .send(&json!({ "jsonrpc": "2.0", "id": "long", "method": "tools/call", "params": call }))?;
    let begun = Instant::now();
    while !yard.home.path("work/begun").exists() {
        ensure!(begun.elapsed() < Duration::from_secs(60), "it never began");
    }
    let cancel = json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": { "requestId": "long" } });
    client.send(&cancel)?;
    // Not written out, so that the question does not find itself.
    let count =
        "cat /proc/[0-9]*/cmdline 2>/dev/null | tr '\\0' ' ' | grep -o 'sleep 424[2]' | wc -l";
    while client.sh(count)?.trim() != "0" {
        ensure!(begun.elapsed() < Duration::from_secs(60), "the command is still there");
    }
    Ok(())
}
