//! A server on loopback that speaks to clients as model providers do, by script. Tests only.
//!
//! It gives what it is told to give, in the format of `OpenAI`, Anthropic, Gemini or Ollama, whole or in pieces, and can
//! break off or fall silent. Everything it was sent is kept, so that a test can look for what should not have been sent.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread;

use serde_json::{Value, json};

/// A provider's format.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wire {
    OpenAi,
    Responses,
    Anthropic,
    Gemini,
    Ollama,
}

impl Wire {
    pub const ALL: [Self; 5] =
        [Self::OpenAi, Self::Responses, Self::Anthropic, Self::Gemini, Self::Ollama];

    /// As the config names it.
    pub const fn api(self) -> &'static str {
        match self {
            Self::OpenAi => "openai-completions",
            Self::Responses => "openai-responses",
            Self::Anthropic => "anthropic-messages",
            Self::Gemini => "google-generative-ai",
            Self::Ollama => "ollama",
        }
    }
}

/// What was sent.
#[derive(Debug, Clone)]
pub struct Received {
    pub path: String,
    pub headers: Vec<(String, String)>,
    pub body: Value,
}

impl Received {
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    /// How many tool results the talk holds, in any format.
    pub fn results(&self) -> usize {
        let text = self.body.to_string();
        ["\"role\":\"tool\"", "\"function_call_output\"", "\"tool_result\"", "\"functionResponse\""]
            .iter()
            .map(|mark| text.matches(mark).count())
            .sum()
    }
}

/// What is answered.
#[derive(Debug, Clone)]
pub struct Answer {
    pub status: u16,
    pub headers: Vec<(String, String)>,
    pub pieces: Vec<Piece>,
}

/// A step of an answer.
#[derive(Debug, Clone)]
pub enum Piece {
    Send(Vec<u8>),
    /// Thinks for so long: the pace of a recording.
    Pause(std::time::Duration),
    /// Says nothing more until the client leaves.
    Hold,
    /// Closes the connection in the middle.
    Break,
}

/// What a model says in one turn.
#[derive(Debug, Clone, Default)]
pub struct Reply {
    pub text: Vec<String>,
    pub calls: Vec<(String, String, Value)>,
}

impl Reply {
    pub fn text(text: &str) -> Self {
        Self { text: vec![text.to_owned()], calls: Vec::new() }
    }

    /// A call of a tool; its id is made of its place.
    #[must_use]
    pub fn call(mut self, tool: &str, arguments: Value) -> Self {
        let id = format!("call_{}", self.calls.len() + 1);
        self.calls.push((id, tool.to_owned(), arguments));
        self
    }

    /// The whole answer in a provider's format, each event in two pieces and arguments split over several events.
    pub fn answer(&self, wire: Wire) -> Answer {
        let mut pieces = Vec::new();
        for event in self.events(wire) {
            let (first, second) = event.as_bytes().split_at(event.len() / 2);
            pieces.extend([Piece::Send(first.to_vec()), Piece::Send(second.to_vec())]);
        }
        Answer { status: 200, headers: Vec::new(), pieces }
    }

    /// The events of the stream, one text each.
    pub fn events(&self, wire: Wire) -> Vec<String> {
        match wire {
            Wire::OpenAi => self.openai(),
            Wire::Responses => self.responses(),
            Wire::Anthropic => self.anthropic(),
            Wire::Gemini => self.gemini(),
            Wire::Ollama => self.ollama(),
        }
    }

    fn openai(&self) -> Vec<String> {
        let event = |delta: Value, finish: Value| {
            let choice = json!({ "index": 0, "delta": delta, "finish_reason": finish });
            format!(
                "data: {}\n\n",
                json!({ "id": "chatcmpl-1", "object": "chat.completion.chunk", "choices": [choice] })
            )
        };
        let mut events = vec![event(json!({ "role": "assistant", "content": "" }), Value::Null)];
        events.extend(self.text.iter().map(|text| event(json!({ "content": text }), Value::Null)));
        for (index, (id, name, _)) in self.calls.iter().enumerate() {
            let call = json!({ "index": index, "id": id, "type": "function", "function": { "name": name, "arguments": "" } });
            events.push(event(json!({ "tool_calls": [call] }), Value::Null));
        }
        // Calls in parallel come interleaved.
        let parts: Vec<Vec<String>> =
            self.calls.iter().map(|(_, _, arguments)| thirds(&arguments.to_string())).collect();
        for round in 0..3 {
            for (index, part) in parts.iter().enumerate() {
                let call = json!({ "index": index, "function": { "arguments": part[round] } });
                events.push(event(json!({ "tool_calls": [call] }), Value::Null));
            }
        }
        let finish = if self.calls.is_empty() { "stop" } else { "tool_calls" };
        events.push(event(json!({}), json!(finish)));
        let usage = json!({ "prompt_tokens": 11, "completion_tokens": 7, "prompt_tokens_details": { "cached_tokens": 3 } });
        events.push(format!(
            "data: {}\n\n",
            json!({ "id": "chatcmpl-1", "choices": [], "usage": usage })
        ));
        events.push("data: [DONE]\n\n".to_owned());
        events
    }

    fn responses(&self) -> Vec<String> {
        let event = |data: Value| {
            let kind = data["type"].as_str().unwrap_or_default();
            format!("event: {kind}\ndata: {data}\n\n")
        };
        let mut events = vec![event(
            json!({ "type": "response.created", "response": { "id": "resp_1", "status": "in_progress", "error": null } }),
        )];
        let first = usize::from(!self.text.is_empty());
        if first == 1 {
            events.push(event(json!({ "type": "response.output_item.added", "output_index": 0, "item": { "type": "message", "id": "msg_1", "role": "assistant", "content": [] } })));
            for text in &self.text {
                events.push(event(json!({ "type": "response.output_text.delta", "item_id": "msg_1", "output_index": 0, "content_index": 0, "delta": text })));
            }
            let content = json!([{ "type": "output_text", "text": self.text.concat() }]);
            events.push(event(json!({ "type": "response.output_item.done", "output_index": 0, "item": { "type": "message", "id": "msg_1", "role": "assistant", "content": content } })));
        }
        let item = |at: usize, arguments: &str| {
            let (id, name, _) = &self.calls[at];
            json!({ "type": "function_call", "id": format!("fc_{at}"), "call_id": id, "name": name, "arguments": arguments })
        };
        for at in 0..self.calls.len() {
            events.push(event(json!({ "type": "response.output_item.added", "output_index": first + at, "item": item(at, "") })));
        }
        // Calls in parallel come interleaved.
        let parts: Vec<Vec<String>> =
            self.calls.iter().map(|(_, _, arguments)| thirds(&arguments.to_string())).collect();
        for round in 0..3 {
            for (at, part) in parts.iter().enumerate() {
                events.push(event(json!({ "type": "response.function_call_arguments.delta", "output_index": first + at, "delta": part[round] })));
            }
        }
        for (at, (_, _, arguments)) in self.calls.iter().enumerate() {
            let whole = item(at, &arguments.to_string());
            events.push(event(json!({ "type": "response.output_item.done", "output_index": first + at, "item": whole })));
        }
        let usage = json!({ "input_tokens": 11, "input_tokens_details": { "cached_tokens": 3 }, "output_tokens": 7 });
        events.push(event(json!({ "type": "response.completed", "response": { "id": "resp_1", "status": "completed", "error": null, "usage": usage } })));
        events
    }

    fn anthropic(&self) -> Vec<String> {
        let event = |data: Value| {
            let kind = data["type"].as_str().unwrap_or_default();
            format!("event: {kind}\ndata: {data}\n\n")
        };
        let usage = json!({ "input_tokens": 8, "output_tokens": 1, "cache_read_input_tokens": 3 });
        let mut events = vec![event(
            json!({ "type": "message_start", "message": { "id": "msg_1", "role": "assistant", "usage": usage } }),
        )];
        events.push(event(json!({ "type": "ping" })));
        let mut index = 0;
        if !self.text.is_empty() {
            events.push(event(json!({ "type": "content_block_start", "index": 0, "content_block": { "type": "text", "text": "" } })));
            for text in &self.text {
                events.push(event(json!({ "type": "content_block_delta", "index": 0, "delta": { "type": "text_delta", "text": text } })));
            }
            events.push(event(json!({ "type": "content_block_stop", "index": 0 })));
            index = 1;
        }
        for (id, name, arguments) in &self.calls {
            events.push(event(json!({ "type": "content_block_start", "index": index, "content_block": { "type": "tool_use", "id": id, "name": name, "input": {} } })));
            for part in thirds(&arguments.to_string()) {
                events.push(event(json!({ "type": "content_block_delta", "index": index, "delta": { "type": "input_json_delta", "partial_json": part } })));
            }
            events.push(event(json!({ "type": "content_block_stop", "index": index })));
            index += 1;
        }
        let stop = if self.calls.is_empty() { "end_turn" } else { "tool_use" };
        events.push(event(json!({ "type": "message_delta", "delta": { "stop_reason": stop }, "usage": { "output_tokens": 7 } })));
        events.push(event(json!({ "type": "message_stop" })));
        events
    }

    fn gemini(&self) -> Vec<String> {
        let event = |parts: Value, finish: Option<&str>| {
            let mut candidate =
                json!({ "content": { "role": "model", "parts": parts }, "index": 0 });
            if let Some(finish) = finish {
                candidate["finishReason"] = json!(finish);
            }
            let usage = json!({ "promptTokenCount": 11, "candidatesTokenCount": 5, "thoughtsTokenCount": 2, "cachedContentTokenCount": 3 });
            format!(
                "data: {}\r\n\r\n",
                json!({ "candidates": [candidate], "usageMetadata": usage, "responseId": "g1" })
            )
        };
        let mut events: Vec<String> =
            self.text.iter().map(|text| event(json!([{ "text": text }]), None)).collect();
        let calls: Vec<Value> = self
            .calls
            .iter()
            .map(|(id, name, arguments)| json!({ "functionCall": { "id": id, "name": name, "args": arguments }, "thoughtSignature": "c2ln" }))
            .collect();
        events.push(event(json!(calls), Some("STOP")));
        events
    }

    fn ollama(&self) -> Vec<String> {
        let line = |message: Value| {
            format!("{}\n", json!({ "model": "m", "message": message, "done": false }))
        };
        let mut events: Vec<String> = self
            .text
            .iter()
            .map(|text| line(json!({ "role": "assistant", "content": text })))
            .collect();
        if !self.calls.is_empty() {
            let calls: Vec<Value> = self
                .calls
                .iter()
                .map(|(_, name, arguments)| json!({ "function": { "name": name, "arguments": arguments } }))
                .collect();
            events.push(line(json!({ "role": "assistant", "content": "", "tool_calls": calls })));
        }
        let end = json!({ "message": { "role": "assistant", "content": "" }, "done": true, "done_reason": "stop", "prompt_eval_count": 11, "eval_count": 7 });
        events.push(format!("{end}\n"));
        events
    }
}

/// A text in three parts, cut at whole characters.
fn thirds(text: &str) -> Vec<String> {
    let letters: Vec<char> = text.chars().collect();
    let (first, second) = (letters.len() / 3, letters.len() * 2 / 3);
    [&letters[..first], &letters[first..second], &letters[second..]]
        .map(|part| part.iter().collect())
        .to_vec()
}

impl Answer {
    /// An error as providers write it.
    pub fn error(status: u16, message: &str) -> Self {
        let body = json!({ "error": { "type": "error", "message": message } }).to_string();
        Self { status, headers: Vec::new(), pieces: vec![Piece::Send(body.into_bytes())] }
    }

    #[must_use]
    pub fn with_header(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    /// The same, but after `count` pieces something else happens.
    #[must_use]
    pub fn cut(mut self, count: usize, then: Piece) -> Self {
        self.pieces.truncate(count);
        self.pieces.push(then);
        self
    }
}

type Script = dyn Fn(&Received) -> Answer + Send + Sync;

/// The server. Its threads end with their connections.
pub struct ModelServer {
    address: SocketAddr,
    seen: Arc<Seen>,
}

#[derive(Default)]
struct Seen {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    received: Vec<Received>,
    left: usize,
}

impl std::fmt::Debug for ModelServer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ModelServer").field("address", &self.address).finish_non_exhaustive()
    }
}

impl ModelServer {
    /// Answers each request as `script` says.
    ///
    /// # Panics
    /// If there is no free port.
    #[expect(clippy::expect_used, reason = "a test without its server cannot go on")]
    pub fn start(script: impl Fn(&Received) -> Answer + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let address = listener.local_addr().expect("its address");
        let seen: Arc<Seen> = Arc::default();
        let (script, shared): (Arc<Script>, _) = (Arc::new(script), Arc::clone(&seen));
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let (script, seen) = (Arc::clone(&script), Arc::clone(&shared));
                thread::spawn(move || serve(stream, &*script, &seen));
            }
        });
        Self { address, seen }
    }

    /// Answers with these one after the other; the last one again and again.
    pub fn scripted(answers: Vec<Answer>) -> Self {
        let next = Mutex::new(answers.into_iter().collect::<std::collections::VecDeque<_>>());
        Self::start(move |_| {
            let mut next = next.lock().unwrap_or_else(PoisonError::into_inner);
            let last = next.len() == 1;
            let answer = if last { next.front().cloned() } else { next.pop_front() };
            answer.unwrap_or_else(|| Answer::error(500, "the script is empty"))
        })
    }

    pub const fn port(&self) -> u16 {
        self.address.port()
    }

    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    pub fn received(&self) -> Vec<Received> {
        self.seen.state.lock().unwrap_or_else(PoisonError::into_inner).received.clone()
    }

    /// Waits until so many requests came.
    pub fn wait_for(&self, count: usize) {
        let state = self.seen.state.lock().unwrap_or_else(PoisonError::into_inner);
        drop(self.seen.changed.wait_while(state, |state| state.received.len() < count));
    }

    /// Waits until so many clients left while nothing was said.
    pub fn wait_until_left(&self, count: usize) {
        let state = self.seen.state.lock().unwrap_or_else(PoisonError::into_inner);
        drop(self.seen.changed.wait_while(state, |state| state.left < count));
    }

    /// A config with this server as the only provider.
    pub fn config(&self, wire: Wire, more: &str) -> String {
        let api = wire.api();
        let url = self.url();
        format!(
            "{{ models: {{ providers: {{ mock: {{ baseUrl: \"{url}\", api: \"{api}\", apiKey: \"{KEY}\",
                 models: [{{ id: \"m\", contextWindow: 100000, maxTokens: 1000 }}] }} }} }},
               agents: {{ defaults: {{ model: {{ primary: \"mock/m\" }}, sandbox: {{ mode: \"all\", backend: \"native\" }} }} }}{more} }}"
        )
    }
}

/// The key of the config above.
pub const KEY: &str = "sk-canary-5f1c9e";

fn serve(stream: TcpStream, script: &Script, seen: &Seen) {
    let Ok(reading) = stream.try_clone() else { return };
    let mut reader = BufReader::new(reading);
    let Some(received) = read_request(&mut reader) else { return };
    let answer = script(&received);
    {
        let mut state = seen.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.received.push(received);
        seen.changed.notify_all();
    }
    // A client that left does not want the rest.
    let _left = write_answer(stream, reader, &answer, seen);
}

fn read_request(reader: &mut BufReader<TcpStream>) -> Option<Received> {
    let mut line = String::new();
    reader.read_line(&mut line).ok()?;
    let path = line.split(' ').nth(1)?.to_owned();
    let mut headers = Vec::new();
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).ok()?;
        let Some((name, value)) = line.trim_end().split_once(':') else { break };
        headers.push((name.to_lowercase(), value.trim().to_owned()));
    }
    let length = headers.iter().find(|(name, _)| name == "content-length")?.1.parse().ok()?;
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    Some(Received { path, headers, body: serde_json::from_slice(&body).ok()? })
}

fn write_answer(
    mut stream: TcpStream,
    mut reader: BufReader<TcpStream>,
    answer: &Answer,
    seen: &Seen,
) -> std::io::Result<()> {
    stream.set_nodelay(true)?;
    let headers: Vec<String> = answer
        .headers
        .iter()
        .map(|(name, value)| {
            format!(
                "{name}: {value}
"
            )
        })
        .collect();
    let headers = headers.concat();
    let head =
        format!("HTTP/1.1 {} X\r\ntransfer-encoding: chunked\r\n{headers}\r\n", answer.status);
    stream.write_all(head.as_bytes())?;
    for piece in &answer.pieces {
        match piece {
            Piece::Send(bytes) if bytes.is_empty() => {}
            Piece::Send(bytes) => {
                let mut chunk = format!("{:x}\r\n", bytes.len()).into_bytes();
                chunk.extend_from_slice(bytes);
                chunk.extend_from_slice(b"\r\n");
                stream.write_all(&chunk)?;
            }
            Piece::Pause(time) => thread::sleep(*time),
            Piece::Hold => {
                // Reads until the other end closes.
                let _end = reader.read(&mut [0; 1]);
                let mut state = seen.state.lock().unwrap_or_else(PoisonError::into_inner);
                state.left += 1;
                seen.changed.notify_all();
                return Ok(());
            }
            Piece::Break => return Ok(()),
        }
    }
    stream.write_all(b"0\r\n\r\n")
}
