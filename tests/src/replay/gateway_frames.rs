//! Plays recorded conversations with the reference's gateway against ours, over a real socket.
//!
//! Each recording runs against a gateway of its own, in this process, with a home of its own. What the
//! recording takes for granted (config, approvals, sessions) is put in place from its own first answers,
//! as far as nothing had changed it by then. What a recording does not hold (headers, signatures, wrong
//! guesses before it began) is made up so that the recorded situation exists: a client that was refused
//! as a stranger comes through a proxy, one whose signature was bad signs badly.
//!
//! The model that the recordings asked is stood in for by a server on loopback, at the recorded pace. How often the
//! text so far is told depends on the clock, so those events are checked by what they say, not by their number.
//!
//! Rows of methods and events that this build does not have are not yet due.

pub mod client;
mod compare;
mod model;
mod seed;

use std::collections::{BTreeMap, HashMap};
use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, Result};
use clawpen_engine::registry::InFlight;
use clawpen_engine::yard::Yard;
use clawpen_gateway::{Farewell, Options, Running, start};
use clawpen_wire::gateway::params;
use serde_json::{Value, json};

use super::{Outcome, Row, Tally};
use crate::compat;
use client::{Client, Devices, Headers};
use compare::Known;

/// How long an answer may take on a machine that does other things too.
const PATIENCE: Duration = Duration::from_secs(20);
/// The release whose state and words are ours. Of the newer one only what both know is compared.
const BASELINE: &str = "2026.3.28";
const HANDSHAKE: Duration = Duration::from_secs(6);

/// Runs the recordings of one file; `only` names one of them.
pub fn run(file: &Path, only: Option<&str>) -> Result<Tally> {
    let text = std::fs::read_to_string(file).with_context(|| format!("{}", file.display()))?;
    let mut tally = Tally::default();
    let mut scenarios: Vec<(String, Vec<Value>)> = Vec::new();
    for line in text.lines().filter(|line| !line.trim().is_empty()) {
        let row: Value = serde_json::from_str(line)?;
        // The first line is about the file.
        let Some(name) = row["scenario"].as_str() else { continue };
        let name = format!("{}/{name}", row["ver"].as_str().unwrap_or_default());
        match scenarios.iter_mut().find(|(known, _)| *known == name) {
            Some((_, rows)) => rows.push(row),
            None => scenarios.push((name, vec![row])),
        }
    }
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    for (name, rows) in scenarios {
        if only.is_some_and(|only| !name.ends_with(&format!("/{only}"))) {
            continue;
        }
        let played = runtime.block_on(play(&rows, &mut tally.rules));
        // A gateway that does not start fails every row, and no other recording.
        let outcomes = played.unwrap_or_else(|error| {
            rows.iter().map(|_| Outcome::Failed(format!("not played: {error:#}"))).collect()
        });
        for (row, outcome) in rows.iter().zip(outcomes) {
            match outcome {
                Outcome::Passed => tally.passed += 1,
                Outcome::NotYet => tally.not_yet += 1,
                Outcome::Failed(why) => {
                    tally.failed += 1;
                    tally.failures.push((format!("{name}/{}", row["n"]), why));
                }
            }
        }
    }
    Ok(tally)
}

/// A recording that is being played.
struct Play<'a> {
    rows: &'a [Value],
    rules: &'a mut BTreeMap<&'static str, usize>,
    outcomes: Vec<Option<Outcome>>,
    clients: HashMap<String, Client>,
    devices: Devices,
    known: Known,
    address: std::net::SocketAddr,
    /// Something was changed that `config.get` shows.
    wrote: bool,
    /// A person has answered a question.
    answered: bool,
}

async fn play(rows: &[Value], rules: &mut BTreeMap<&'static str, usize>) -> Result<Vec<Outcome>> {
    let home = tempfile::tempdir()?;
    let home_path = home.path().to_str().context("a home in words")?.to_owned();
    let model = model::start();
    let rows: Vec<Value> =
        rows.iter().map(|row| seed::fill(row, &home_path, model.port())).collect();
    seed::put_in_place(&rows, &home_path, model.port())?;
    let around = clawpen_engine::config_store::Surroundings::of_home(&home_path);
    let options = Options {
        port: Some(0),
        handshake_timeout: HANDSHAKE,
        tick: Duration::from_millis(400),
        ..Options::new(around)
    };
    let running: Running = start(options).await?;
    let address = *running.addresses().first().context("an address")?;
    let mut play = Play {
        outcomes: rows.iter().map(|_| None).collect(),
        rows: &rows,
        rules,
        clients: HashMap::new(),
        devices: Devices::default(),
        known: Known::default(),
        address,
        wrote: false,
        answered: false,
    };
    for index in 0..rows.len() {
        if let Err(error) = play.row(index).await {
            play.outcomes[index] = Some(Outcome::Failed(format!("{error:#}")));
        }
    }
    let outcomes = play.outcomes.into_iter().map(|o| o.unwrap_or(Outcome::Passed)).collect();
    play.clients.clear();
    running.stop(Farewell::Stop).await;
    tokio::task::spawn_blocking(move || end_sandboxes(&home_path)).await??;
    Ok(outcomes)
}

/// Sandboxes outlive whoever made them; those of a recording go with it.
fn end_sandboxes(home: &str) -> Result<()> {
    let yard = Yard::open(&format!("{home}/.openclaw"))?;
    for row in yard.database.registry().list()? {
        yard.lifecycle().remove(&row, InFlight::CutOff)?;
    }
    Ok(())
}

const WRITES: &[&str] = &[
    "config.set",
    "config.patch",
    "config.apply",
    "agents.create",
    "agents.update",
    "agents.delete",
];

impl Play<'_> {
    async fn row(&mut self, index: usize) -> Result<()> {
        let row = &self.rows[index];
        if row["request"].is_object() {
            self.outcomes[index] = Some(self.http(row).await?);
            return Ok(());
        }
        let conn = row["conn"].as_str().unwrap_or_default().to_owned();
        match row["dir"].as_str().unwrap_or_default() {
            "c2s" => self.send(index, &conn).await,
            "c2s-raw" => {
                self.open(index, &conn).await?;
                let text = compare::untruncated(row["frame"].as_str().unwrap_or_default());
                self.client(&conn)?.send(text).await;
                Ok(())
            }
            "c2s-close" => {
                self.client(&conn)?.close().await;
                Ok(())
            }
            "s2c" if row["frame"]["type"] == "res" => self.response(index, &conn).await,
            "s2c" => self.event(index, &conn).await,
            "s2c-close" => self.closed(index, &conn).await,
            other => anyhow::bail!("a row goes `{other}`"),
        }
    }

    fn client(&mut self, conn: &str) -> Result<&mut Client> {
        self.clients.get_mut(conn).with_context(|| format!("no connection `{conn}`"))
    }

    /// Opens a connection when its first row comes; one that ended is opened anew.
    async fn open(&mut self, index: usize, conn: &str) -> Result<()> {
        if self.clients.get(conn).is_some_and(|client| !client.is_over()) {
            return Ok(());
        }
        let headers = Headers::of(&self.rows[index..], conn, self.address);
        if headers.guess_first {
            for _ in 0..10 {
                client::guess(self.address).await?;
            }
        }
        let client = Client::connect(self.address, &headers).await?;
        self.clients.insert(conn.to_owned(), client);
        let logs_in = |row: &Value| row["conn"] == *conn && row["frame"]["method"] == "connect";
        if self.rows[index]["ver"] != BASELINE && !self.rows.iter().any(logs_in) {
            self.log_in(conn).await?;
        }
        Ok(())
    }

    /// A client whose login was left out of the recording.
    async fn log_in(&mut self, conn: &str) -> Result<()> {
        let mut frame = json!({ "type": "req", "id": "log-in", "method": "connect", "params": {
            "minProtocol": 3, "maxProtocol": 4, "role": "operator", "scopes": ["operator.admin",
                "operator.read", "operator.write", "operator.approvals", "operator.pairing"],
            "client": { "id": "gateway-client", "version": "dev", "platform": "linux",
                "mode": "backend" },
            "auth": { "token": seed::TOKEN },
            "device": { "id": "d", "signedAt": 0, "nonce": "<NONCE>" } } });
        let challenge = self.client(conn)?.challenge(PATIENCE).await?;
        self.devices.sign(&mut frame, &challenge, None, None)?;
        let client = self.client(conn)?;
        client.send(frame.to_string()).await;
        let answer = client.response(&frame["id"], PATIENCE).await?;
        anyhow::ensure!(answer["ok"] == json!(true), "no login: {answer}");
        client.is_logged_in = true;
        Ok(())
    }

    /// The answer to a request, if it was recorded.
    fn answer_to(&self, index: usize, id: &Value) -> Option<usize> {
        let is_answer = |row: &Value| row["frame"]["type"] == "res" && row["frame"]["id"] == *id;
        (index + 1..self.rows.len()).find(|later| is_answer(&self.rows[*later]))
    }

    async fn send(&mut self, index: usize, conn: &str) -> Result<()> {
        let frame = self.rows[index]["frame"].clone();
        let method = frame["method"].as_str().unwrap_or_default();
        let answer = self.answer_to(index, &frame["id"]);
        if !self.is_due(&frame, answer) {
            self.outcomes[index] = Some(Outcome::NotYet);
            // A method may answer twice.
            let id = &frame["id"];
            for later in index + 1..self.rows.len() {
                if self.rows[later]["frame"]["id"] == *id {
                    self.outcomes[later] = Some(Outcome::NotYet);
                }
            }
            return Ok(());
        }
        self.open(index, conn).await?;
        let mut frame = self.known.translate(&frame);
        if frame["params"]["idempotencyKey"] == "…" {
            // Left out of the recording; the answer names it.
            let run = answer.map(|answer| &self.rows[answer]["frame"]["payload"]["runId"]);
            frame["params"]["idempotencyKey"] = run.cloned().unwrap_or_default();
        }
        if method != "connect" {
            frame = self.devices.fill(&frame);
        } else if !self.client(conn)?.is_logged_in {
            let challenge = self.client(conn)?.challenge(PATIENCE).await?;
            let expected = answer.map(|answer| &self.rows[answer]["frame"]);
            let recorded = self.rows[..index]
                .iter()
                .rev()
                .find(|row| row["conn"] == *conn && row["frame"]["event"] == "connect.challenge");
            let recorded_ts = recorded.and_then(|row| row["frame"]["payload"]["ts"].as_i64());
            self.devices.sign(&mut frame, &challenge, expected, recorded_ts)?;
        }
        if method == "chat.abort" {
            // Whoever ended the run had heard so much of it.
            let until = answer.unwrap_or(index);
            let is_delta = |row: &&Value| row["frame"]["payload"]["state"] == "delta";
            let heard = self.rows[index..until].iter().rfind(is_delta);
            if let Some(heard) = heard.map(|row| row["frame"].clone()) {
                self.delta(conn, &heard).await;
            }
        }
        self.client(conn)?.send(frame.to_string()).await;
        Ok(())
    }

    /// Says whether this build can be asked.
    fn is_due(&self, asked: &Value, answer: Option<usize>) -> bool {
        let method = asked["method"].as_str().unwrap_or_default();
        let expected = answer.map(|answer| &self.rows[answer]["frame"]);
        let message = expected.and_then(|frame| frame["error"]["message"].as_str());
        let is_refusal = message.is_some_and(|message| {
            ["missing scope", "unauthorized role", "unknown method"]
                .iter()
                .any(|start| message.starts_with(start))
        });
        is_refusal || method == "connect" || params::of(method).is_some()
    }

    /// The recorded frame as we mean to answer it.
    fn meant(&mut self, index: usize, kind: &str, request: &Value) -> Value {
        let row = &self.rows[index];
        let frame = &row["frame"];
        let method = match kind {
            "event" => &frame["event"],
            "close" => &json!("close"),
            _ => &request["method"],
        };
        let is_in = self
            .clients
            .get(row["conn"].as_str().unwrap_or_default())
            .is_some_and(|c| c.is_logged_in);
        let row = Row {
            id: format!("gateway-frames/{}/0", method.as_str().unwrap_or_default()),
            input: json!({
                "ver": row["ver"], "kind": kind, "method": method,
                "params": request["params"], "wrote": self.wrote,
                "devices": self.devices.names(), "answered": self.answered, "isIn": is_in,
            }),
            expected: frame.clone(),
            note: String::new(),
        };
        let (expected, used) = compat::apply("gateway-frames", &row);
        for rule in used {
            *self.rules.entry(rule).or_default() += 1;
        }
        self.devices.fill(&expected)
    }

    async fn response(&mut self, index: usize, conn: &str) -> Result<()> {
        if self.outcomes[index].is_some() {
            return Ok(());
        }
        let id = self.rows[index]["frame"]["id"].clone();
        let request = (0..index).rev().find(|earlier| {
            let frame = &self.rows[*earlier]["frame"];
            frame["type"] == "req" && frame["id"] == id
        });
        let asked = request.map_or(Value::Null, |request| self.rows[request]["frame"].clone());
        let expected = self.meant(index, "res", &asked);
        let given = self.client(conn)?.response(&id, PATIENCE).await;
        let outcome = match given {
            Err(why) => Outcome::Failed(format!("no answer: {why:#}\n  request: {asked}")),
            Ok(given) => {
                if asked["method"] == "connect" && given["ok"] == json!(true) {
                    self.client(conn)?.is_logged_in = true;
                    self.devices.remember(&asked, &given);
                }
                let found = self.known.difference(&expected, &given);
                match found {
                    None => Outcome::Passed,
                    Some(why) => Outcome::Failed(format!("{why}\n  request: {asked}")),
                }
            }
        };
        let method = asked["method"].as_str().unwrap_or_default();
        let is_done = self.rows[index]["frame"]["ok"] == json!(true);
        self.answered |= method == "exec.approval.resolve" && is_done;
        self.wrote |= WRITES.contains(&method) && self.rows[index]["frame"]["ok"] == json!(true);
        self.outcomes[index] = Some(outcome);
        Ok(())
    }

    async fn event(&mut self, index: usize, conn: &str) -> Result<()> {
        let frame = &self.rows[index]["frame"];
        let name = frame["event"].as_str().unwrap_or_default().to_owned();
        if name == "connect.challenge" {
            self.open(index, conn).await?;
            let expected = self.meant(index, "event", &Value::Null);
            let given = self.client(conn)?.challenge(PATIENCE).await?;
            let found = self.known.difference(&expected, &given);
            self.outcomes[index] = Some(found.map_or(Outcome::Passed, Outcome::Failed));
            return Ok(());
        }
        let run = &frame["payload"]["runId"];
        let is_asked = |row: &Value| row["frame"]["params"]["idempotencyKey"] == *run;
        if self.rows[index]["ver"] != BASELINE && run.is_string() && !self.rows.iter().any(is_asked)
        {
            // What another client asked for, which was not recorded.
            self.outcomes[index] = Some(Outcome::NotYet);
            return Ok(());
        }
        let expected = self.meant(index, "event", &Value::Null);
        if expected["type"].is_null() {
            // We mean to send none.
            let sent = self.client(conn)?.has(|frame| frame["event"] == *name);
            let is_meant = params::EVENTS.contains(&name.as_str()) && name != "shutdown";
            self.outcomes[index] = Some(if sent && !is_meant {
                Outcome::Failed(format!("`{name}` was sent"))
            } else {
                Outcome::Passed
            });
            return Ok(());
        }
        if !params::EVENTS.contains(&name.as_str()) {
            self.outcomes[index] = Some(Outcome::NotYet);
            return Ok(());
        }
        if expected["payload"]["state"] == "delta" {
            self.outcomes[index] = Some(self.delta(conn, &expected).await);
            return Ok(());
        }
        let run = self.known.translate(&expected["payload"]["runId"]);
        let session = expected["payload"]["sessionKey"].clone();
        let is_named = self.rows.iter().any(|row| row["frame"]["params"]["idempotencyKey"] == run);
        let is_it = |frame: &Value| {
            let payload = &frame["payload"];
            frame["event"] == *name
                && !(name == "chat" && payload["state"] == "delta")
                && (!is_named || payload["runId"] == run)
                && (session.is_null() || payload["sessionKey"] == session)
                && (payload["stream"] == "tool") == (expected["payload"]["stream"] == "tool")
                && payload["messageId"].is_string() == expected["payload"]["messageId"].is_string()
        };
        let given = match self.clients.get_mut(conn) {
            Some(client) => client.take(PATIENCE, is_it).await,
            None => Err(anyhow::anyhow!("the connection is gone")),
        };
        let outcome = match given {
            Err(why) => Outcome::Failed(format!("no `{name}`: {why:#}")),
            Ok(mut given) => {
                if expected["payload"]["state"] == "aborted" {
                    // How far the run had come by then is a matter of time.
                    given["payload"]["seq"] = expected["payload"]["seq"].clone();
                }
                self.known.difference(&expected, &given).map_or(Outcome::Passed, Outcome::Failed)
            }
        };
        self.outcomes[index] = Some(outcome);
        Ok(())
    }

    /// The text of a run so far. One of ours stands for as many recorded ones as say less.
    async fn delta(&mut self, conn: &str, expected: &Value) -> Outcome {
        let text = |frame: &Value| {
            let text = &frame["payload"]["message"]["content"][0]["text"];
            text.as_str().unwrap_or_default().to_owned()
        };
        let run = self.known.translate(&expected["payload"]["runId"]);
        let wanted = text(expected);
        let is_it = |frame: &Value| {
            let payload = &frame["payload"];
            let is_said = payload["message"].is_object() && text(frame).starts_with(&wanted);
            frame["event"] == "chat" && payload["runId"] == run && is_said
        };
        let Some(client) = self.clients.get_mut(conn) else {
            return Outcome::Failed("the connection is gone".to_owned());
        };
        match client.see(PATIENCE, is_it).await {
            Err(why) => Outcome::Failed(format!("nobody said `{wanted}`: {why:#}")),
            Ok(mut given) => {
                let number = |frame: &Value| frame["payload"]["seq"].as_u64().unwrap_or_default();
                // A later one, which says more; or the same when it was told with the end, which has the next number,
                // because the pause was not over: the reference does either.
                let is_later =
                    text(&given) != wanted || number(&given).abs_diff(number(expected)) == 1;
                if is_later {
                    given["payload"]["seq"] = expected["payload"]["seq"].clone();
                }
                let content = &expected["payload"]["message"]["content"];
                given["payload"]["message"]["content"] = content.clone();
                if given["payload"]["state"] != "delta" {
                    // The end came before the pause was over.
                    return Outcome::Passed;
                }
                self.known.difference(expected, &given).map_or(Outcome::Passed, Outcome::Failed)
            }
        }
    }

    async fn closed(&mut self, index: usize, conn: &str) -> Result<()> {
        let frame = &self.rows[index]["frame"];
        let code = frame["code"].as_u64().unwrap_or_default();
        // 1005: the client went.
        if code == 1005 {
            if let Some(mut client) = self.clients.remove(conn) {
                client.close().await;
            }
            self.outcomes[index] = Some(Outcome::Passed);
            return Ok(());
        }
        let expected = self.meant(index, "close", &Value::Null);
        if expected["code"].is_null() {
            self.outcomes[index] = Some(self.stays(conn).await);
            // The recorded client comes anew after that.
            if let Some(mut client) = self.clients.remove(conn).filter(|_| code == 1002) {
                client.close().await;
            }
            return Ok(());
        }
        let expected = json!({ "code": code, "message": frame["reason"] });
        let given = self.client(conn)?.closing(PATIENCE).await;
        let outcome = match given {
            Err(why) => Outcome::Failed(format!("not closed: {why:#}")),
            Ok((code, reason)) => {
                let given = json!({ "code": code, "message": reason });
                self.known.difference(&expected, &given).map_or(Outcome::Passed, Outcome::Failed)
            }
        };
        self.outcomes[index] = Some(outcome);
        Ok(())
    }

    /// The recorded gateway closed here, and we mean not to: who is connected stays so.
    async fn stays(&mut self, conn: &str) -> Outcome {
        // Whoever tried to come back while the recorded gateway was away has no connection here.
        let Some(client) = self.clients.get_mut(conn) else { return Outcome::Passed };
        if client.is_over() {
            return Outcome::Failed("the connection was closed".to_owned());
        }
        let frame = json!({ "type": "req", "id": "still-here", "method": "health" });
        client.send(frame.to_string()).await;
        match client.response(&frame["id"], PATIENCE).await {
            Ok(_) => Outcome::Passed,
            Err(why) => Outcome::Failed(format!("nobody answers any more: {why:#}")),
        }
    }

    /// One exchange over HTTP. Pages are not built.
    async fn http(&mut self, row: &Value) -> Result<Outcome> {
        let (request, response) = (&row["request"], &row["response"]);
        let path = request["path"].as_str().unwrap_or_default();
        let given = client::http(self.address, request).await?;
        let row = Row {
            id: "gateway-frames/http/0".to_owned(),
            input: json!({ "kind": "http", "path": path, "isPage": response["body"] == "<HTML>" }),
            expected: response.clone(),
            note: String::new(),
        };
        let (response, used) = compat::apply("gateway-frames", &row);
        for rule in used {
            *self.rules.entry(rule).or_default() += 1;
        }
        let found = self.known.difference(&response, &given);
        Ok(found.map_or(Outcome::Passed, |why| Outcome::Failed(format!("{why}\n  {request}"))))
    }
}
