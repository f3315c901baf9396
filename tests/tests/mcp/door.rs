//! A door of the real binary, and a way to speak to it that no client library would allow.

use std::fmt::Write as _;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::process::{Child, ChildStdin, ChildStdout, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use clawpen_tests::home::Home;
use serde_json::{Value, json};

/// A config under which commands of all sessions run in native pens.
pub(crate) const CONFIG: &str =
    "{agents: {defaults: {sandbox: {mode: 'all', backend: 'native', workspaceAccess: 'rw'}}}}";

/// A home; its sandboxes go with it.
#[derive(Debug)]
pub(crate) struct Ground(pub(crate) Home);

impl Ground {
    pub(crate) fn new(config: &str) -> Self {
        Self(Home::with_config(config))
    }
}

/// The door at standard input and output.
#[derive(Debug)]
pub(crate) struct Pipes {
    pub(crate) child: Child,
    pub(crate) to: ChildStdin,
    pub(crate) from: BufReader<ChildStdout>,
    next: u64,
}

impl Pipes {
    /// Starts the door and says hello.
    pub(crate) fn open(ground: &Ground, args: &[&str]) -> Self {
        let words: Vec<&str> = ["mcp"].iter().chain(args).copied().collect();
        Self::start(ground.0.command(&words))
    }

    /// The same with a command of the test's own.
    pub(crate) fn start(mut command: std::process::Command) -> Self {
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let (to, from) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
        let mut pipes = Self { child, to, from: BufReader::new(from), next: 0 };
        let hello = pipes.ask("initialize", &hello());
        assert_eq!(hello["result"]["serverInfo"]["name"], "clawpen", "{hello}");
        pipes.line(&json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }).to_string());
        pipes
    }

    pub(crate) fn line(&mut self, line: &str) {
        self.to.write_all(format!("{line}\n").as_bytes()).unwrap();
    }

    /// One request and its answer; notifications in between are passed over.
    pub(crate) fn ask(&mut self, method: &str, params: &Value) -> Value {
        self.next += 1;
        let id = self.next;
        self.line(
            &json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params }).to_string(),
        );
        loop {
            let mut line = String::new();
            assert!(self.from.read_line(&mut line).unwrap() > 0, "the door closed");
            let message: Value = serde_json::from_str(&line).unwrap();
            if message["id"] == id {
                return message;
            }
        }
    }

    /// One tool call, while the answer to `other` is still to come; gives that one instead if it comes first.
    pub(crate) fn race(&mut self, other: &str, tool: &str, arguments: &Value) -> Option<Value> {
        self.next += 1;
        let id = self.next;
        let params = json!({ "name": tool, "arguments": arguments });
        self.line(
            &json!({ "jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params })
                .to_string(),
        );
        loop {
            let mut line = String::new();
            assert!(self.from.read_line(&mut line).unwrap() > 0, "the door closed");
            let message: Value = serde_json::from_str(&line).unwrap();
            if message["id"] == id {
                return None;
            }
            if message["id"] == other {
                return Some(message);
            }
        }
    }

    /// One tool call.
    pub(crate) fn call(&mut self, tool: &str, arguments: Value) -> Value {
        self.ask("tools/call", &json!({ "name": tool, "arguments": arguments }))["result"].clone()
    }
}

impl Drop for Pipes {
    fn drop(&mut self) {
        let _gone = self.child.kill();
        let _reaped = self.child.wait();
    }
}

/// What a client says first.
pub(crate) fn hello() -> Value {
    json!({
        "protocolVersion": "2025-06-18",
        "capabilities": {},
        "clientInfo": { "name": "raw", "version": "1" },
    })
}

/// The door over HTTP.
#[derive(Debug)]
pub(crate) struct Http {
    child: Child,
    pub(crate) address: SocketAddr,
    pub(crate) url: String,
    pub(crate) token: String,
}

impl Http {
    pub(crate) fn open(ground: &Ground) -> Self {
        let mut child = ground
            .0
            .command(&["mcp", "--http", "127.0.0.1:0"])
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let from = BufReader::new(child.stdout.take().unwrap());
        let mut said = serde_json::Deserializer::from_reader(from).into_iter::<Value>();
        let said = said.next().unwrap().unwrap();
        let url = said["url"].as_str().unwrap().to_owned();
        let address = url.strip_prefix("http://").and_then(|rest| rest.strip_suffix("/mcp"));
        let address = address.unwrap().parse().unwrap();
        let token = std::fs::read_to_string(said["tokenFile"].as_str().unwrap()).unwrap();
        Self { child, address, url, token: token.trim().to_owned() }
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    pub(crate) fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(self.address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
        stream
    }

    /// Sends bytes as they are and gives the status of the answer; 0 if the door just closed.
    pub(crate) fn raw(&self, bytes: &[u8]) -> (u16, String) {
        let mut stream = self.connect();
        // The door may close before it has read everything.
        let _cut = stream.write_all(bytes);
        let mut answer = Vec::new();
        let _cut = stream.read_to_end(&mut answer);
        let answer = String::from_utf8_lossy(&answer).into_owned();
        let status = answer.split(' ').nth(1).and_then(|word| word.parse().ok()).unwrap_or(0);
        (status, answer)
    }

    /// One POST with these headers besides the usual ones.
    pub(crate) fn post(&self, headers: &[(&str, &str)], body: &str) -> (u16, String) {
        let mut text = String::from("POST /mcp HTTP/1.1\r\nconnection: close\r\n");
        text.push_str("content-type: application/json\r\n");
        text.push_str("accept: application/json, text/event-stream\r\n");
        for (name, value) in headers {
            write!(text, "{name}: {value}\r\n").unwrap();
        }
        write!(text, "content-length: {}\r\n\r\n{body}", body.len()).unwrap();
        self.raw(text.as_bytes())
    }

    /// The headers of whoever may come in.
    pub(crate) fn good(&self) -> [(String, String); 2] {
        [
            ("host".to_owned(), self.address.to_string()),
            ("authorization".to_owned(), format!("Bearer {}", self.token)),
        ]
    }

    /// Whether an ordinary client is still served.
    pub(crate) fn is_alive(&self) -> bool {
        let good = self.good();
        let good: Vec<(&str, &str)> =
            good.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        let hello = json!({ "jsonrpc": "2.0", "id": 1, "method": "initialize", "params": hello() });
        let (status, answer) = self.post(&good, &hello.to_string());
        status == 200 && answer.contains("clawpen")
    }
}

/// A session of the HTTP door.
#[derive(Debug)]
pub(crate) struct Session<'a> {
    door: &'a Http,
    id: String,
    next: AtomicU64,
}

impl Http {
    /// Begins a session as a client of this name.
    pub(crate) fn session(&self, client: &str) -> Session<'_> {
        let mut params = hello();
        params["clientInfo"]["name"] = json!(client);
        let first = json!({ "jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params });
        let mut session = Session { door: self, id: String::new(), next: AtomicU64::new(1) };
        let (status, answer) = self.raw(session.request(&first.to_string()).as_bytes());
        assert_eq!(status, 200, "{answer}");
        let id = answer.lines().find_map(|line| line.strip_prefix("mcp-session-id: "));
        id.unwrap().trim().clone_into(&mut session.id);
        let next = json!({ "jsonrpc": "2.0", "method": "notifications/initialized" });
        let (status, answer) = self.raw(session.request(&next.to_string()).as_bytes());
        assert_eq!(status, 202, "{answer}");
        session
    }

    /// Connections that the door has open.
    pub(crate) fn connections(&self) -> usize {
        let ours = format!(":{:04X}", self.address.port());
        let table = std::fs::read_to_string("/proc/net/tcp").unwrap();
        let rows = table.lines().skip(1).map(|row| row.split_whitespace().collect::<Vec<_>>());
        // Local address, remote address, state; 01 is established.
        rows.filter(|row| row[1].ends_with(&ours) && row[3] == "01").count()
    }

    /// Descriptors that the door has open.
    pub(crate) fn descriptors(&self) -> usize {
        std::fs::read_dir(format!("/proc/{}/fd", self.child.id())).unwrap().count()
    }

    /// The most memory the door had, in KiB.
    pub(crate) fn peak(&self) -> u64 {
        peak(self.child.id())
    }
}

/// The most memory that a process had, in KiB.
pub(crate) fn peak(process: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).unwrap();
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    peak.trim().trim_end_matches(" kB").parse().unwrap()
}

impl Session<'_> {
    /// A POST of this message.
    pub(crate) fn request(&self, body: &str) -> String {
        let mut text = String::from("POST /mcp HTTP/1.1\r\nconnection: close\r\n");
        text.push_str("content-type: application/json\r\n");
        text.push_str("accept: application/json, text/event-stream\r\n");
        for (name, value) in self.door.good() {
            write!(text, "{name}: {value}\r\n").unwrap();
        }
        if !self.id.is_empty() {
            write!(text, "mcp-session-id: {}\r\n", self.id).unwrap();
        }
        write!(text, "content-length: {}\r\n\r\n{body}", body.len()).unwrap();
        text
    }

    /// One tool call.
    pub(crate) fn call(&self, tool: &str, arguments: &Value) -> Value {
        let params = json!({ "name": tool, "arguments": arguments });
        let id = self.next.fetch_add(1, Ordering::Relaxed);
        let ask = json!({ "jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params });
        let (status, answer) = self.door.raw(self.request(&ask.to_string()).as_bytes());
        assert_eq!(status, 200, "{answer}");
        let messages = answer.lines().filter_map(|line| line.strip_prefix("data: "));
        let mut messages = messages.filter_map(|data| serde_json::from_str::<Value>(data).ok());
        messages.find(|message| message["id"] == id).unwrap()["result"].clone()
    }
}

impl Drop for Http {
    fn drop(&mut self) {
        let _gone = self.child.kill();
        let _reaped = self.child.wait();
    }
}
