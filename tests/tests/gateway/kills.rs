//! A gateway that is killed in the middle of a run, as a process of its own.

use std::io::{BufRead as _, BufReader};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use clawpen_tests::model_server::{ModelServer, Reply};
use clawpen_tests::replay::explain::binary;
use clawpen_tests::replay::gateway_frames::client::{Client, Devices, Headers};
use serde_json::{Value, json};

use super::chat::{WIRE, end, said};
use super::{ALL, TOKEN, WAIT, call, connect};

/// A gateway in a process of its own, killed when it goes.
pub(super) struct Gateway {
    process: Child,
    address: SocketAddr,
}

impl Gateway {
    pub(super) fn start(home: &Path) -> Self {
        Self::start_with(home, &[])
    }

    /// With these variables as well.
    pub(super) fn start_with(home: &Path, variables: &[(&str, &str)]) -> Self {
        let mut process = program(home)
            .envs(variables.iter().copied())
            .args(["gateway", "--port", "0"])
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(process.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let address = line.trim().rsplit('/').next().unwrap().parse().unwrap();
        Self { process, address }
    }

    pub(super) async fn login(&self) -> Client {
        self.login_as(ALL).await
    }

    pub(super) async fn login_as(&self, scopes: &[&str]) -> Client {
        let mut client = Client::connect(self.address, &Headers::default()).await.unwrap();
        let challenge = client.challenge(WAIT).await.unwrap();
        let mut connect = connect(scopes, TOKEN);
        connect["params"]["caps"] = json!(["tool-events"]);
        connect["params"]["device"] = json!({ "id": "d", "signedAt": 0, "nonce": "<NONCE>" });
        Devices::default().sign(&mut connect, &challenge, None, None).unwrap();
        client.send(connect.to_string()).await;
        assert_eq!(client.response(&json!("c"), WAIT).await.unwrap()["ok"], true);
        client
    }
}

impl Drop for Gateway {
    fn drop(&mut self) {
        let _gone = self.process.kill();
        let _reaped = self.process.wait();
    }
}

pub(super) fn program(home: &Path) -> Command {
    let mut command = Command::new(binary().unwrap());
    command.env_clear().env("HOME", home).env("PATH", "/usr/bin:/bin");
    command
}

/// The lines of the main session's transcript; each must be whole.
fn transcript(home: &Path) -> Vec<Value> {
    let sessions = home.join(".openclaw/agents/main/sessions");
    let store = std::fs::read_to_string(sessions.join("sessions.json")).unwrap();
    let store: Value = serde_json::from_str(&store).unwrap();
    let id = store["agent:main:main"]["sessionId"].as_str().unwrap();
    let path: PathBuf = sessions.join(format!("{id}.jsonl"));
    let text = std::fs::read_to_string(path).unwrap();
    assert!(text.ends_with('\n'), "{text}");
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn script() -> ModelServer {
    ModelServer::start(|received| {
        let messages = received.body["messages"].as_array().unwrap();
        let last = messages.last().unwrap();
        let said = last["content"].as_str().unwrap_or_default();
        match (last["role"].as_str(), said) {
            (Some("user"), "work") => Reply::text("I begin.")
                .call("exec", json!({ "command": "echo kept > file; echo ready; sleep 600" }))
                .answer(WIRE),
            (Some("user"), "ask") => {
                Reply::default().call("exec", json!({ "command": "touch canary" })).answer(WIRE)
            }
            (Some("user"), "go on") => {
                Reply::default().call("exec", json!({ "command": "cat file" })).answer(WIRE)
            }
            _ => Reply::text(&format!("it said {}", said.trim())).answer(WIRE),
        }
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn a_killed_gateway_leaves_whole_transcripts_its_sandbox_and_its_approvals() {
    let server = script();
    let home = tempfile::tempdir().unwrap();
    let home = home.path();
    std::fs::create_dir_all(home.join(".openclaw")).unwrap();
    let config = format!(
        "{{gateway: {{mode: 'local', auth: {{token: '{TOKEN}'}}}},
          models: {{providers: {{mock: {{baseUrl: '{}', api: 'openai-completions', apiKey: 'k',
             models: [{{id: 'm', contextWindow: 100000, maxTokens: 1000}}]}}}}}},
          agents: {{defaults: {{model: {{primary: 'mock/m'}}, sandbox: {{mode: 'all', backend: 'native'}}}},
             list: [{{id: 'main'}}, {{id: 'bot', tools: {{exec: {{host: 'gateway'}}}}}}]}}}}",
        server.url()
    );
    std::fs::write(home.join(".openclaw/openclaw.json"), config).unwrap();

    let first = Gateway::start(home);
    let mut client = first.login().await;
    let ask = json!({ "sessionKey": "agent:bot:main", "message": "ask", "idempotencyKey": "ask" });
    assert_eq!(call(&mut client, "chat.send", ask).await["ok"], true);
    let asked = client.event("exec.approval.requested", WAIT).await.unwrap();
    let approval = asked["payload"]["id"].clone();
    end(&mut client, "ask").await;
    let work = json!({ "sessionKey": "main", "message": "work", "idempotencyKey": "work" });
    assert_eq!(call(&mut client, "chat.send", work).await["ok"], true);
    let is_update = |frame: &Value| frame["payload"]["data"]["phase"] == "update";
    client.take(WAIT, is_update).await.unwrap();
    let before = call(&mut client, "sandbox.list", json!({})).await["payload"].clone();
    // Kills it: the process gets no chance to tidy up.
    drop(first);
    let roles: Vec<Value> =
        transcript(home).iter().map(|line| line["message"]["role"].clone()).collect();
    assert_eq!(roles, [Value::Null, json!("user"), json!("assistant")]);

    let second = Gateway::start(home);
    let mut client = second.login().await;
    let waiting = call(&mut client, "exec.approval.list", json!({})).await;
    assert_eq!(waiting["payload"][0]["id"], approval, "{waiting}");
    let after = call(&mut client, "sandbox.list", json!({})).await["payload"].clone();
    assert_eq!(names(&after), names(&before), "{after}");
    let on = json!({ "sessionKey": "main", "message": "go on", "idempotencyKey": "on" });
    assert_eq!(call(&mut client, "chat.send", on).await["ok"], true);
    let ended = end(&mut client, "on").await;
    assert_eq!(said(&ended), "it said kept", "{ended}");
    // The call that was cut off has a result of its own: the model knows that nobody knows.
    let asked = server.received().last().unwrap().body.to_string();
    assert!(asked.contains("interrupted"), "{asked}");
    let deny = json!({ "id": approval, "decision": "deny" });
    assert_eq!(call(&mut client, "exec.approval.resolve", deny).await["ok"], true);
    drop(second);
    let removed = program(home).args(["sandbox", "remove", "--all", "--force"]).output().unwrap();
    assert!(removed.status.success(), "{removed:?}");
}

/// Which sandboxes there are; at least one.
fn names(list: &Value) -> Vec<Value> {
    let rows = list["sandboxes"].as_array().unwrap();
    assert!(!rows.is_empty(), "{list}");
    rows.iter().map(|row| row["name"].clone()).collect()
}
