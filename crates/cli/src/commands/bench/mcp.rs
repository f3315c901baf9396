//! One tool call over MCP, in turns with the same call at the engine: what the door costs.

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Instant;

use clawpen_engine::audit::Door;
use clawpen_engine::call::{Desk, Quiet, Stop, ToolRequest, Who};
use serde_json::{Value, json};

use super::jobs::{Bench, at_most, within};
use super::numbers::Times;
use super::{BenchError, Measured, Row, Verdict, system};

/// The session that both use.
const SESSION: &str = "bench";
/// `exec true` over the door may cost so many milliseconds more.
const DOOR_BUDGET: f64 = 2.0;
/// `read` of 4 KiB, in milliseconds.
const READ_BUDGET: f64 = 1.0;
/// Clients at once, and the calls of each.
const CROWD: (usize, usize) = (10, 5);
/// Bytes that one command writes.
const MUCH: u64 = 1_000_000_000;
/// KiB that the door may grow by while they pass.
const GROWTH_BUDGET: u64 = 32 * 1024;

impl Bench {
    pub(super) fn mcp(&self) -> Result<Vec<Row>, BenchError> {
        let desk = Desk::new(Door::Mcp);
        let who = Who { session: Some(SESSION.to_owned()), ..Who::default() };
        let mut client = Client::open()?;
        let page = json!({ "path": "page", "content": "x".repeat(4096) });
        at_engine(&desk, &who, "write", &page)?;
        client.call("write", &page)?;
        let (exec, read) = (json!({ "command": "true" }), json!({ "path": "page" }));
        let [mut ours, mut engine, mut reads] = <[Times; 3]>::default();
        for _ in 0..self.rounds {
            engine.measure(|| at_engine(&desk, &who, "exec", &exec))?;
            ours.measure(|| client.call("exec", &exec))?;
            reads.measure(|| client.call("read", &read))?;
        }
        let crowd = crowd()?;
        let much = much(&mut client)?;
        drop(client);
        // The state directory goes with this run, and the pen must not outlive it.
        desk.recreate(&who).map_err(|error| BenchError::Tool(error.for_model()))?;
        let (Some(ours), Some(engine)) = (ours.summary(), engine.summary()) else {
            return Ok(Vec::new());
        };
        Ok(vec![
            Row {
                job: "mcp: exec true over stdio",
                verdict: within(ours.p50, engine.p50 + DOOR_BUDGET),
                ours: Measured::Times(ours),
                rival: Some(("engine call", engine)),
                budget: format!("<= engine + {DOOR_BUDGET} ms"),
            },
            at_most("mcp: read 4 KiB over stdio", reads.summary(), READ_BUDGET),
            crowd,
            much,
        ])
    }
}

fn at_engine(desk: &Desk, who: &Who, tool: &str, arguments: &Value) -> Result<(), BenchError> {
    let stop = Stop::new().map_err(system("make a stop"))?;
    let mut request = ToolRequest { tool, arguments, stop: &stop, watch: &mut Quiet };
    let done = desk.call(who, &mut request);
    done.map(drop).map_err(|error| BenchError::Tool(error.for_model()))
}

/// Many clients, each a door of its own, with several calls under way at once: none may be lost.
fn crowd() -> Result<Row, BenchError> {
    let (clients, calls) = CROWD;
    let mut open = Vec::new();
    for _ in 0..clients {
        open.push(Client::open()?);
    }
    let begun = Instant::now();
    let answered = std::thread::scope(|scope| {
        let crowd: Vec<_> =
            open.iter_mut().map(|client| scope.spawn(move || client.together(calls))).collect();
        let mut answered = 0;
        for one in crowd {
            answered += one.join().map_err(|_panic| BenchError::Thread)??;
        }
        Ok::<_, BenchError>(answered)
    })?;
    let took = begun.elapsed().as_secs_f64() * 1000.0;
    let wanted = clients * calls;
    Ok(Row {
        job: "mcp: 50 calls of 10 clients",
        ours: Measured::Figure(format!("{answered} of {wanted} in {took:.0} ms")),
        rival: None,
        budget: "none lost".to_owned(),
        verdict: if answered == wanted { Verdict::Met } else { Verdict::Missed },
    })
}

/// One command that writes a lot: memory must stay.
fn much(client: &mut Client) -> Result<Row, BenchError> {
    let before = client.peak()?;
    let begun = Instant::now();
    let command = format!("yes 'a line of output, as programs write them' | head -c {MUCH}");
    client.call("exec", &json!({ "command": command, "yieldMs": 120_000 }))?;
    let took = begun.elapsed().as_secs_f64();
    let grown = client.peak()?.saturating_sub(before);
    Ok(Row {
        job: "mcp: 1 GB of output",
        ours: Measured::Figure(format!("+{grown} KiB, {took:.1} s")),
        rival: None,
        budget: format!("<= +{GROWTH_BUDGET} KiB"),
        verdict: if grown <= GROWTH_BUDGET { Verdict::Met } else { Verdict::Missed },
    })
}

/// The smallest client there can be.
struct Client {
    child: Child,
    to: ChildStdin,
    from: BufReader<ChildStdout>,
    next: u64,
}

impl Client {
    fn open() -> Result<Self, BenchError> {
        let us = std::env::current_exe().map_err(system("find this program"))?;
        let mut child = Command::new(us)
            .args(["mcp", "--session", SESSION])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .map_err(system("start the server"))?;
        let (Some(to), Some(from)) = (child.stdin.take(), child.stdout.take()) else {
            return Err(BenchError::Tool("the server has no streams".to_owned()));
        };
        let mut client = Self { child, to, from: BufReader::new(from), next: 0 };
        client.ask(
            "initialize",
            &json!({
                "protocolVersion": "2025-06-18",
                "capabilities": {},
                "clientInfo": { "name": "bench", "version": "1" },
            }),
        )?;
        client.send(&json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }))?;
        Ok(client)
    }

    fn send(&mut self, message: &Value) -> Result<(), BenchError> {
        let line = format!("{message}\n");
        self.to.write_all(line.as_bytes()).map_err(system("write to the server"))
    }

    fn ask(&mut self, method: &str, params: &Value) -> Result<Value, BenchError> {
        self.next += 1;
        let id = self.next;
        self.send(&json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params }))?;
        loop {
            let mut line = String::new();
            let count = self.from.read_line(&mut line).map_err(system("read from the server"))?;
            let message: Value = serde_json::from_str(&line).unwrap_or_default();
            if message["id"] == id {
                return Ok(message);
            }
            if count == 0 {
                return Err(BenchError::Tool("the server ended".to_owned()));
            }
        }
    }

    /// Sends so many calls before it takes an answer; gives how many came back right.
    fn together(&mut self, calls: usize) -> Result<usize, BenchError> {
        let mut waiting = std::collections::BTreeMap::new();
        for call in 0..calls {
            self.next += 1;
            let word = format!("{}-{call}", std::process::id());
            let params =
                json!({ "name": "exec", "arguments": { "command": format!("echo {word}") } });
            self.send(&json!({ "jsonrpc": "2.0", "id": self.next, "method": "tools/call", "params": params }))?;
            waiting.insert(self.next, format!("{word}\n"));
        }
        let mut right = 0;
        while !waiting.is_empty() {
            let mut line = String::new();
            let count = self.from.read_line(&mut line).map_err(system("read from the server"))?;
            if count == 0 {
                return Ok(right);
            }
            let message: Value = serde_json::from_str(&line).unwrap_or_default();
            let Some(said) = message["id"].as_u64().and_then(|id| waiting.remove(&id)) else {
                continue;
            };
            right += usize::from(message["result"]["structuredContent"]["aggregated"] == said);
        }
        Ok(right)
    }

    /// The most memory the server had, in KiB.
    fn peak(&self) -> Result<u64, BenchError> {
        let path = format!("/proc/{}/status", self.child.id());
        let status = std::fs::read_to_string(path).map_err(system("look at the server"))?;
        let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        let peak = peak.and_then(|text| text.trim().trim_end_matches(" kB").parse().ok());
        peak.ok_or_else(|| {
            BenchError::Tool("the server does not say how much memory it has".to_owned())
        })
    }

    fn call(&mut self, tool: &str, arguments: &Value) -> Result<(), BenchError> {
        let answer = self.ask("tools/call", &json!({ "name": tool, "arguments": arguments }))?;
        match answer["result"]["isError"].as_bool() {
            Some(false) => Ok(()),
            _ => Err(BenchError::Tool(answer.to_string())),
        }
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        // It ends with its input anyway.
        let _gone = self.child.kill();
        let _reaped = self.child.wait();
    }
}
