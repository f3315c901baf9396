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

/// The text of a call, whatever came of it.
fn said(client: &mut Client, tool: &str, arguments: &Value) -> Result<String> {
    let answer = client.ask("tools/call", &json!({ "name": tool, "arguments": arguments }))?;
    Ok(answer["result"]["content"][0]["text"].as_str().unwrap_or_default().to_owned())
}

#[test]
fn the_parameters_of_exec_and_process_work_in_a_container() -> Result<()> {
    let Some(yard) = Yard::new("")? else { return Ok(()) };
    let mut client = Client::open(&yard)?;
    client.sh("mkdir sub")?;
    for (arguments, expected) in [
        (
            json!({ "command": "pwd; echo $A; echo $OPENCLAW_SHELL", "workdir": "sub", "env": { "A": "b c" } }),
            "/workspace/sub\nb c\nexec",
        ),
        (
            json!({ "command": "pwd", "workdir": "nowhere" }),
            "Warning: workdir `/workspace/nowhere` is no directory; the command ran in `/workspace`\n\n/workspace",
        ),
        (json!({ "command": "tty; stty size", "pty": true }), "/dev/pts/0\r\n30 120"),
        (
            json!({ "command": "cat; echo over", "host": "sandbox", "security": "full", "ask": "off", "elevated": false }),
            "over",
        ),
        (json!({ "command": "exit 3" }), "(Command exited with code 3)"),
        (json!({ "command": "kill -9 $$" }), "Command aborted by signal SIGKILL"),
        (
            json!({ "command": "x", "ask": "often" }),
            "`ask` of `exec` must be one of off, on-miss, always",
        ),
    ] {
        assert_eq!(said(&mut client, "exec", &arguments)?, expected, "{arguments}");
    }
    for (arguments, part) in [
        (
            json!({ "command": "echo begun; sleep 600", "timeout": 1 }),
            "begun\n\nCommand timed out after 1 seconds",
        ),
        (json!({ "command": "true", "host": "gateway" }), "this session runs in a sandbox"),
        (json!({ "command": "true", "elevated": true }), "elevated is not available here"),
    ] {
        let text = said(&mut client, "exec", &arguments)?;
        assert!(text.contains(part), "{arguments}: {text}");
    }
    let started =
        client.call("exec", &json!({ "command": "echo a; sleep 600", "yieldMs": 200 }))?;
    let id = started["structuredContent"]["sessionId"].as_str().context("a name")?.to_owned();
    let on = |action: &str| json!({ "action": action, "sessionId": id });
    for (action, part) in [
        ("list", "running"),
        ("log", "a"),
        ("write", "has no input"),
        ("clear", "is still running"),
        ("kill", "Killed session"),
        // It is over, so its end is shown as often as somebody asks.
        ("poll", "a\n\nProcess exited with signal SIGTERM."),
        ("poll", "a\n\nProcess exited with signal SIGTERM."),
        ("clear", "Cleared session"),
        ("poll", "there is no command"),
    ] {
        let text = said(&mut client, "process", &on(action))?;
        assert!(text.contains(part), "{action}: {text}");
    }
    Ok(())
}

#[test]
fn keys_are_typed_into_a_terminal_in_a_container() -> Result<()> {
    let Some(yard) = Yard::new("")? else { return Ok(()) };
    let mut client = Client::open(&yard)?;
    let started =
        client.call("exec", &json!({ "command": "cat -v", "background": true, "pty": true }))?;
    let id = started["structuredContent"]["sessionId"].as_str().context("a name")?.to_owned();
    for more in [
        json!({ "action": "write", "data": "one\n" }),
        json!({ "action": "send-keys", "literal": "two", "hex": ["21"], "keys": ["Enter"] }),
        json!({ "action": "paste", "text": "three" }),
        json!({ "action": "submit" }),
    ] {
        let mut arguments = more.clone();
        arguments["sessionId"] = json!(id);
        client.call("process", &arguments)?;
    }
    let begun = Instant::now();
    let log = json!({ "action": "log", "sessionId": id, "offset": 0 });
    while !said(&mut client, "process", &log)?.contains("\n^[[200~three^[[201~") {
        ensure!(
            begun.elapsed() < Duration::from_secs(60),
            "{}",
            said(&mut client, "process", &log)?
        );
    }
    client.call("process", &json!({ "action": "remove", "sessionId": id }))?;
    let listed = said(&mut client, "process", &json!({ "action": "list" }))?;
    assert_eq!(listed, "No commands are running or were left in the background.");
    Ok(())
}

#[test]
fn files_are_read_as_the_schema_says_and_what_is_not_built_says_so() -> Result<()> {
    let Some(yard) = Yard::new("")? else { return Ok(()) };
    let mut client = Client::open(&yard)?;
    client.sh("seq 1 5000 > n; printf '\\211PNG\\r\\n\\032\\n----' > a.png; printf 'a\\r\\nb\\r\\n' > crlf; mkdir d; ln -s n d/link")?;
    let page = client.call("read", &json!({ "path": "n", "offset": 4999 }))?;
    assert_eq!(page["content"][0]["text"], "4999\n5000\n");
    assert_eq!(page["structuredContent"]["truncation"]["totalBytes"], 23_893);
    let page = said(&mut client, "read", &json!({ "path": "n", "limit": 1 }))?;
    assert_eq!(page, "1\n\n[4999 more lines. To go on, read with offset=2.]");
    let image = client.call("read", &json!({ "path": "a.png" }))?;
    assert_eq!(image["content"][1]["mimeType"], "image/png");
    client.call("edit", &json!({ "path": "crlf", "oldText": "b", "newText": "c" }))?;
    assert_eq!(client.sh("od -An -c crlf | tr -d ' '")?, "a\\r\\nc\\r\\n\n");
    assert_eq!(said(&mut client, "ls", &json!({ "path": "d" }))?, "link@");
    for tool in ["image", "browser", "canvas", "no_such_tool"] {
        let answer = client.ask("tools/call", &json!({ "name": tool, "arguments": {} }))?;
        assert_eq!(answer["result"]["structuredContent"]["code"], "no-tool", "{answer}");
    }
    let listed = client.ask("tools/list", &json!({}))?["result"]["tools"].clone();
    let names: Vec<&str> = listed
        .as_array()
        .context("a list")?
        .iter()
        .filter_map(|tool| tool["name"].as_str())
        .collect();
    assert_eq!(
        names,
        ["exec", "process", "read", "write", "edit", "apply_patch", "ls", "grep", "find"]
    );
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
