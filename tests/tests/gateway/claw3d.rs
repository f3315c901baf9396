//! What the page of `Claw3D` does from its first connection to the end of an agent, in the order in which it does it.

use clawpen_tests::model_server::{ModelServer, Reply};
use clawpen_tests::replay::gateway_frames::client::{Client, Devices, Headers};
use serde_json::{Value, json};

use super::chat::{WIRE, end, ground, over, said};
use super::{ALL, Ground, TOKEN, WAIT, call, device, knock, page};

const AGENT: &str = "bot-two";
const SESSION: &str = "agent:bot-two:main";

/// The page behind its own server: a browser's origin, a key of the browser, no wish to hear of tools.
struct Page {
    client: Client,
}

impl Page {
    async fn open(ground: &Ground) -> Self {
        let origin = Some(format!("http://localhost:{}", ground.address().port()));
        let headers = Headers { origin, ..Headers::default() };
        let mut client = Client::connect(ground.address(), &headers).await.unwrap();
        let challenge = client.challenge(WAIT).await.unwrap();
        let scopes = ["operator.read", "operator.admin", "operator.approvals", "operator.pairing"];
        let mut connect = json!({ "type": "req", "id": "c", "method": "connect", "params": {
            "minProtocol": 3, "maxProtocol": 3, "role": "operator", "scopes": scopes, "caps": [],
            "client": { "id": "openclaw-control-ui", "version": "1", "platform": "web", "mode": "webchat" },
            "device": { "id": "page", "signedAt": 0, "nonce": "<NONCE>" },
            "auth": { "token": TOKEN } } });
        Devices::default().sign(&mut connect, &challenge, None, None).unwrap();
        client.send(connect.to_string()).await;
        let hello = client.response(&json!("c"), WAIT).await.unwrap();
        assert_eq!(
            (&hello["ok"], &hello["payload"]["type"]),
            (&json!(true), &json!("hello-ok")),
            "{hello}"
        );
        Self { client }
    }

    async fn get(&mut self, method: &str, params: Value) -> Value {
        let answer = call(&mut self.client, method, params).await;
        assert_eq!(answer["ok"], true, "{method}: {answer}");
        answer["payload"].clone()
    }

    /// Writes the whole config back with something changed.
    async fn set_config(&mut self, change: impl FnOnce(&mut Value)) {
        let seen = self.get("config.get", json!({})).await;
        let mut config = seen["config"].clone();
        change(&mut config);
        let set = json!({ "raw": config.to_string(), "baseHash": seen["hash"] });
        self.get("config.set", set).await;
    }

    /// Everything that the page looks at to draw its agents; their names.
    async fn hydrate(&mut self) -> Vec<(String, String)> {
        self.get("config.get", json!({})).await;
        self.get("models.list", json!({})).await;
        self.get("exec.approvals.get", json!({})).await;
        let listed = self.get("agents.list", json!({})).await;
        let main_key = listed["mainKey"].as_str().unwrap().to_owned();
        let mut names = Vec::new();
        let mut keys = Vec::new();
        for agent in listed["agents"].as_array().unwrap() {
            let id = agent["id"].as_str().unwrap();
            if agent["identity"]["name"].is_null() {
                self.get("agents.files.get", json!({ "agentId": id, "name": "IDENTITY.md" })).await;
            }
            let key = format!("agent:{id}:{main_key}");
            let listed = self
                .get(
                    "sessions.list",
                    json!({ "agentId": id, "includeGlobal": false, "includeUnknown": false, "search": key, "limit": 4 }),
                )
                .await;
            if !listed["sessions"].as_array().unwrap().is_empty() {
                keys.push(key);
            }
            names.push((id.to_owned(), agent["name"].as_str().unwrap_or(id).to_owned()));
        }
        if !keys.is_empty() {
            self.get("status", json!({})).await;
            self.get("sessions.preview", json!({ "keys": keys, "limit": 8, "maxChars": 240 }))
                .await;
        }
        for key in keys {
            self.get("chat.history", json!({ "sessionKey": key, "limit": 200 })).await;
        }
        names
    }

    /// Changes what an agent may do: the approvals, the tools, the session. `sandbox` is its entry's own.
    async fn capabilities(
        &mut self,
        (security, ask): (&str, &str),
        sandbox: Option<Value>,
    ) -> Value {
        self.get("exec.approvals.get", json!({})).await;
        let seen = self.get("exec.approvals.get", json!({})).await;
        let mut file = seen["file"].clone();
        file["agents"][AGENT] = json!({ "security": security, "ask": ask });
        self.get("exec.approvals.set", json!({ "file": file, "baseHash": seen["hash"] })).await;
        self.get("config.get", json!({})).await;
        self.set_config(|config| {
            let agents = config["agents"]["list"].as_array_mut().unwrap();
            let agent = agents.iter_mut().find(|agent| agent["id"] == AGENT).unwrap();
            agent["tools"] = json!({ "alsoAllow": ["group:runtime", "group:web", "group:fs"] });
            if let Some(sandbox) = sandbox {
                agent["sandbox"] = sandbox;
            }
        })
        .await;
        let patch = json!({ "key": SESSION, "execHost": "gateway", "execSecurity": security, "execAsk": ask });
        let patched = self.get("sessions.patch", patch).await;
        self.hydrate().await;
        patched["entry"]["execHost"].clone()
    }

    async fn say(&mut self, run: &str, message: &str) {
        let params = json!({ "sessionKey": SESSION, "message": message, "deliver": false, "idempotencyKey": run });
        let started = self.get("chat.send", params).await;
        assert_eq!(started, json!({ "runId": run, "status": "started" }));
    }
}

fn model() -> ModelServer {
    ModelServer::start(|received| {
        let last = received.body["messages"].as_array().unwrap().last().unwrap().clone();
        let text = last["content"].as_str().unwrap_or_default();
        let exec = |command: &str| Reply::default().call("exec", json!({ "command": command }));
        match (last["role"].as_str().unwrap(), text) {
            ("tool", text) => Reply::text(&format!("I saw: {text}")),
            (_, text) if text.contains("Exec finished") => Reply::text("It ran."),
            (_, text) if text.contains("[[claw3d:auto-resume") => Reply::text("I go on."),
            (_, text) if text.contains("touch") => exec("touch approved-canary"),
            _ => exec("echo penned; readlink /proc/self/ns/pid"),
        }
        .answer(WIRE)
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn the_page_loads_makes_an_agent_talks_approves_renames_and_deletes() {
    let server = model();
    let ground = ground(&server, "").await;
    let mut page = Page::open(&ground).await;
    let seen = page.get("config.get", json!({})).await;
    if !["hot", "off"]
        .contains(&seen["config"]["gateway"]["reload"]["mode"].as_str().unwrap_or_default())
    {
        page.set_config(|config| config["gateway"]["reload"] = json!({ "mode": "hot" })).await;
    }
    assert_eq!(page.hydrate().await.len(), 1);

    let path = seen["path"].as_str().unwrap();
    let (directory, _) = path.rsplit_once('/').unwrap();
    let workspace = format!("{directory}/workspace-{AGENT}");
    let made =
        page.get("agents.create", json!({ "name": "Bot Two", "workspace": workspace })).await;
    assert_eq!(made["agentId"], AGENT);
    assert!(page.hydrate().await.iter().any(|(id, _)| id == AGENT));
    // The page asks for the host, because it does not look at the defaults; the sandbox is not left for that.
    assert_eq!(page.capabilities(("full", "off"), None).await, "sandbox");

    page.say("talk", "look around").await;
    let ended = end(&mut page.client, "talk").await;
    let own = std::fs::read_link("/proc/self/ns/pid").unwrap();
    let text = said(&ended).to_owned();
    assert_eq!(ended["state"], "final");
    assert!(text.contains("penned") && !text.contains(own.to_str().unwrap()), "{text}");
    let history = page.get("chat.history", json!({ "sessionKey": SESSION, "limit": 200 })).await;
    let messages = history["messages"].as_array().unwrap();
    assert!(messages.iter().any(|one| one["content"][0]["type"] == "toolCall"), "{history}");
    let result = messages.iter().find(|one| one["role"] == "toolResult").unwrap();
    assert_eq!((&result["toolName"], &result["isError"]), (&json!("exec"), &json!(false)));

    // On the host, and only after a person's click.
    let outside = Some(json!({ "mode": "off" }));
    assert_eq!(page.capabilities(("allowlist", "always"), outside).await, "gateway");
    page.say("ask", "touch it").await;
    let asked =
        page.client.event("exec.approval.requested", WAIT).await.unwrap()["payload"].clone();
    assert_eq!(asked["request"]["command"], "touch approved-canary", "{asked}");
    assert!(asked["createdAtMs"].is_u64() && asked["expiresAtMs"].is_u64(), "{asked}");
    let canary = std::path::Path::new(&workspace).join("approved-canary");
    assert!(!canary.exists());
    // The page pauses the run; the question stays.
    page.get("chat.abort", json!({ "sessionKey": SESSION })).await;
    let allow = json!({ "id": asked["id"], "decision": "allow-once" });
    assert_eq!(page.get("exec.approval.resolve", allow).await["ok"], true);
    let resolved = page.client.event("exec.approval.resolved", WAIT).await.unwrap();
    assert_eq!(resolved["payload"]["id"], asked["id"]);
    page.get("agent.wait", json!({ "runId": "ask", "timeoutMs": 15_000 })).await;
    page.get("chat.history", json!({ "sessionKey": SESSION, "limit": 200 })).await;
    let follow_up = format!("exec-approval-followup:{}", asked["id"].as_str().unwrap());
    assert_eq!(said(&end(&mut page.client, &follow_up).await), "It ran.");
    assert!(canary.exists(), "allowed, and not run");
    page.say("resume", "[[claw3d:auto-resume-exec-approval]] go on").await;
    assert_eq!(said(&end(&mut page.client, "resume").await), "I go on.");

    page.get("sessions.reset", json!({ "key": SESSION })).await;
    let history = page.get("chat.history", json!({ "sessionKey": SESSION, "limit": 200 })).await;
    assert_eq!(history["messages"], json!([]), "{history}");
    page.get("agents.update", json!({ "agentId": AGENT, "name": "Renamed" })).await;
    assert!(page.hydrate().await.contains(&(AGENT.to_owned(), "Renamed".to_owned())));
    page.get("agents.delete", json!({ "agentId": AGENT })).await;
    assert_eq!(page.hydrate().await.len(), 1);
    let again = call(&mut page.client, "agents.delete", json!({ "agentId": AGENT })).await;
    assert!(again["error"]["message"].as_str().unwrap().contains("not found"), "{again}");
    over(ground).await;
}

/// Its server reads the token out of this file, and knows JSON only.
#[tokio::test(flavor = "multi_thread")]
async fn a_config_that_is_json_stays_json_whatever_the_page_writes() {
    let config = json!({
        "gateway": { "mode": "local", "port": 18789, "auth": { "mode": "token", "token": TOKEN } },
        "agents": { "list": [{ "id": "main", "skills": ["weather"] }] },
    });
    let ground = Ground::of(&format!("{config:#}\n")).await;
    let is_json = |what: &str| {
        let text = ground.config();
        let read: Value = serde_json::from_str(&text).unwrap_or_else(|_| panic!("{what}: {text}"));
        assert_eq!(read["gateway"]["auth"]["token"], TOKEN, "{what}: {text}");
        assert_eq!(read["gateway"]["port"], 18789, "{what}: {text}");
    };
    let mut page = Page::open(&ground).await;
    page.set_config(|config| config["gateway"]["reload"] = json!({ "mode": "hot" })).await;
    is_json("the mode of reloading");
    let workspace = ground.home.path().join("two").to_string_lossy().into_owned();
    page.get("agents.create", json!({ "name": "Bot Two", "workspace": workspace })).await;
    is_json("an agent more");
    page.capabilities(("allowlist", "always"), Some(json!({ "mode": "off" }))).await;
    is_json("what it may do");
    let skills = |config: &mut Value| {
        config["agents"]["list"][0].as_object_mut().unwrap().remove("skills").is_some()
    };
    page.set_config(|config| assert!(skills(config))).await;
    is_json("the last key of an agent gone");
    page.get("skills.update", json!({ "skillKey": "weather", "enabled": false })).await;
    is_json("a skill");
    page.get("agents.update", json!({ "agentId": AGENT, "name": "Renamed" })).await;
    is_json("another name");
    page.get("agents.delete", json!({ "agentId": AGENT })).await;
    is_json("an agent less");
}

/// Its server ends both sides when we end ours: whoever ends first names the reason that people read.
#[tokio::test(flavor = "multi_thread")]
async fn a_page_that_is_refused_has_the_last_word() {
    let ground = Ground::new().await;
    let origin = Some(format!("http://localhost:{}", ground.address().port()));
    let headers = Headers { origin, ..Headers::default() };
    let wrong = || page(ALL, json!({ "token": "wrong" }), device());
    let why = "connect failed: INVALID_REQUEST unauthorized: gateway token mismatch";
    let (mut client, answer) = knock(ground.address(), &headers, wrong()).await;
    assert_eq!(answer["error"]["details"]["code"], "AUTH_TOKEN_MISMATCH", "{answer}");
    client.hang_up(4008, why).await;
    assert_eq!(client.closing(WAIT).await.unwrap(), (4008, why.to_owned()));

    // One that says nothing is sent away all the same.
    let (mut client, answer) = knock(ground.address(), &headers, wrong()).await;
    let (code, reason) = client.closing(WAIT).await.unwrap();
    assert_eq!(code, 1008);
    assert_eq!(answer["error"]["message"], json!(reason));
}
