//! The gateway over a real socket: clients that use it, and hostile ones that try and do not get there.
#![forbid(unsafe_code)]
#![expect(clippy::unwrap_used, reason = "a test without its set-up cannot go on")]

mod approvals;
mod beside;
mod chat;
mod checklist;
mod claw3d;
mod cron;
mod details;
mod heartbeats;
mod hooks;
mod hosts;
mod invoke;
mod kills;
mod looks;
mod many;
mod origins;
mod page;
mod permissions;
mod proxies;
mod reference;
mod responses;
mod sandboxes;
mod skills;
mod tls;
mod tricked;
mod wishes;

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use clawpen_engine::config_store::Surroundings;
use clawpen_gateway::{Farewell, Options, Running, StartError, start};
use clawpen_tests::replay::gateway_frames::client::{Client, Devices, Headers, http};
use serde_json::{Value, json};

const TOKEN: &str = "the-token-of-this-test";
const WAIT: Duration = Duration::from_secs(30);

struct Ground {
    home: tempfile::TempDir,
    running: Running,
}

impl Ground {
    async fn new() -> Self {
        Self::with("agents: {list: [{id: 'main'}, {id: 'bot', sandbox: {mode: 'all'}}]}").await
    }

    async fn with(more: &str) -> Self {
        Self::of(&format!("{{gateway: {{mode: 'local', auth: {{token: '{TOKEN}'}}}}, {more}}}"))
            .await
    }

    /// A gateway whose `gateway` part is `mode: "local"` and this.
    async fn gateway(rest: &str) -> Self {
        Self::of(&format!("{{gateway: {{mode: 'local', {rest}}}}}")).await
    }

    async fn of(config: &str) -> Self {
        Self::try_of(config).await.unwrap()
    }

    async fn try_of(config: &str) -> Result<Self, StartError> {
        let home = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(home.path().join(".openclaw")).unwrap();
        std::fs::write(home.path().join(".openclaw/openclaw.json"), config).unwrap();
        let around = Surroundings::of_home(home.path().to_str().unwrap());
        let options = Options {
            port: Some(0),
            handshake_timeout: Duration::from_secs(3),
            ..Options::new(around)
        };
        Ok(Self { home, running: start(options).await? })
    }

    fn address(&self) -> SocketAddr {
        self.running.addresses()[0]
    }

    fn config(&self) -> String {
        std::fs::read_to_string(self.home.path().join(".openclaw/openclaw.json")).unwrap()
    }

    /// A client with a device that asks for these scopes.
    async fn login(&self, scopes: &[&str]) -> Client {
        let mut client = Client::connect(self.address(), &Headers::default()).await.unwrap();
        let challenge = client.challenge(WAIT).await.unwrap();
        let mut connect = connect(scopes, TOKEN);
        connect["params"]["device"] = json!({ "id": "d", "signedAt": 0, "nonce": "<NONCE>" });
        Devices::default().sign(&mut connect, &challenge, None, None).unwrap();
        client.send(connect.to_string()).await;
        let hello = client.response(&json!("c"), WAIT).await.unwrap();
        assert_eq!(hello["ok"], true, "{hello}");
        client
    }
}

/// How one login ends: the answer to `connect`.
async fn knock(address: SocketAddr, headers: &Headers, mut connect: Value) -> (Client, Value) {
    let mut client = Client::connect(address, headers).await.unwrap();
    let challenge = client.challenge(WAIT).await.unwrap();
    Devices::default().sign(&mut connect, &challenge, None, None).unwrap();
    client.send(connect.to_string()).await;
    let answer = client.response(&json!("c"), WAIT).await.unwrap();
    (client, answer)
}

/// A login of a control page, with a device or without.
fn page(scopes: &[&str], auth: Value, device: Value) -> Value {
    let mut frame = connect(scopes, "");
    frame["params"]["client"]["id"] = json!("openclaw-control-ui");
    frame["params"]["client"]["mode"] = json!("webchat");
    frame["params"]["auth"] = auth;
    if !device.is_null() {
        frame["params"]["device"] = device;
    }
    frame
}

/// A device that signs well.
fn device() -> Value {
    json!({ "id": "d", "signedAt": 0, "nonce": "<NONCE>" })
}

fn connect(scopes: &[&str], token: &str) -> Value {
    json!({ "type": "req", "id": "c", "method": "connect", "params": {
        "minProtocol": 3, "maxProtocol": 4, "role": "operator", "scopes": scopes,
        "client": { "id": "gateway-client", "version": "1", "platform": "linux", "mode": "backend" },
        "auth": { "token": token } } })
}

async fn call(client: &mut Client, method: &str, params: Value) -> Value {
    let id = clawpen_engine::random::uuid();
    let frame = json!({ "type": "req", "id": id, "method": method, "params": params });
    client.send(frame.to_string()).await;
    client.response(&json!(id), WAIT).await.unwrap()
}

const ALL: &[&str] = &[
    "operator.admin",
    "operator.read",
    "operator.write",
    "operator.approvals",
    "operator.pairing",
];

#[tokio::test(flavor = "multi_thread")]
async fn scopes_that_a_client_gives_itself_are_worth_nothing() {
    let ground = Ground::new().await;
    let mut client = Client::connect(ground.address(), &Headers::default()).await.unwrap();
    client.challenge(WAIT).await.unwrap();
    client.send(connect(ALL, TOKEN).to_string()).await;
    assert_eq!(client.response(&json!("c"), WAIT).await.unwrap()["ok"], true);
    for method in ["config.get", "config.set", "agents.create", "exec.approvals.get"] {
        let answer = call(&mut client, method, json!({})).await;
        let said = answer["error"]["message"].as_str().unwrap_or_default();
        assert!(said.starts_with("missing scope: "), "{method}: {answer}");
    }
    let mut reader = ground.login(&["operator.read"]).await;
    let loosen =
        json!({ "raw": "{agents: {defaults: {sandbox: {mode: 'off'}}}}", "baseHash": "x" });
    for method in ["config.set", "config.patch", "config.apply"] {
        let answer = call(&mut reader, method, loosen.clone()).await;
        assert_eq!(answer["error"]["message"], "missing scope: operator.admin");
    }
    assert!(!ground.config().contains("off"));
}

#[tokio::test(flavor = "multi_thread")]
async fn frames_that_are_none_break_nothing() {
    let ground = Ground::new().await;
    let mut client = ground.login(ALL).await;
    let deep = format!(
        "{{\"type\":\"req\",\"id\":\"d\",\"method\":\"health\",\"params\":{}}}",
        "[".repeat(100_000)
    );
    for text in [
        String::new(),
        "\u{0}".to_owned(),
        "garbage".to_owned(),
        deep,
        "[".repeat(200_000),
        "{\"type\":\"req\"}".to_owned(),
        "{\"type\":\"res\",\"id\":\"x\",\"ok\":true}".to_owned(),
        "\"\\ud800\"".to_owned(),
        json!({ "type": "req", "id": "k", "method": "config.get", "params": { "x".repeat(100_000): 1 } }).to_string(),
    ] {
        client.send(text).await;
    }
    let answer = call(&mut client, "health", json!({})).await;
    assert_eq!(answer["ok"], true, "{answer}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stranger_sends_no_large_frames_and_does_not_stay() {
    let ground = Ground::new().await;
    let mut large = Client::connect(ground.address(), &Headers::default()).await.unwrap();
    large.send(format!("{{\"pad\":\"{}\"}}", "x".repeat(70_000))).await;
    assert_eq!(large.closing(WAIT).await.unwrap().0, 1009);
    // Far more than that is not even read.
    let mut huge = Client::connect(ground.address(), &Headers::default()).await.unwrap();
    huge.send("x".repeat(20_000_000)).await;
    assert_ne!(huge.closing(WAIT).await.unwrap().0, 1000);
    let mut silent = Client::connect(ground.address(), &Headers::default()).await.unwrap();
    let start = Instant::now();
    assert_eq!(silent.closing(WAIT).await.unwrap(), (1000, String::new()));
    assert!(start.elapsed() < Duration::from_secs(20));
}

#[tokio::test(flavor = "multi_thread")]
async fn strangers_of_one_address_are_few() {
    let ground = Ground::new().await;
    let mut held = Vec::new();
    for _ in 0..32 {
        held.push(Client::connect(ground.address(), &Headers::default()).await.unwrap());
    }
    let refused = Client::connect(ground.address(), &Headers::default()).await;
    let said = refused.err().map(|error| error.to_string()).unwrap_or_default();
    assert!(said.contains("503"), "{said}");
    // Probes still answer, and who logs in makes room.
    let probe = json!({ "method": "GET", "path": "/healthz", "headers": {} });
    assert_eq!(http(ground.address(), &probe).await.unwrap()["status"], 200);
    held.pop();
}

#[tokio::test(flavor = "multi_thread")]
async fn pages_of_other_sites_get_nowhere() {
    let ground = Ground::new().await;
    for origin in ["https://evil.example", "null", "http://localhost.evil.example"] {
        let headers = Headers { origin: Some(origin.to_owned()), ..Headers::default() };
        let mut client = Client::connect(ground.address(), &headers).await.unwrap();
        client.challenge(WAIT).await.unwrap();
        client.send(connect(ALL, TOKEN).to_string()).await;
        let answer = client.response(&json!("c"), WAIT).await.unwrap();
        assert_eq!(answer["error"]["details"]["code"], "CONTROL_UI_ORIGIN_NOT_ALLOWED", "{answer}");
        assert_eq!(client.closing(WAIT).await.unwrap().0, 1008);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_page_that_guesses_is_locked_out_even_with_the_right_token() {
    let ground = Ground::new().await;
    let origin = Some(format!("http://localhost:{}", ground.address().port()));
    let headers = Headers { origin, ..Headers::default() };
    let mut code = Value::Null;
    for attempt in 0..11 {
        let mut client = Client::connect(ground.address(), &headers).await.unwrap();
        client.challenge(WAIT).await.unwrap();
        let token = if attempt == 10 { TOKEN.to_owned() } else { format!("guess-{attempt}") };
        client.send(connect(&[], &token).to_string()).await;
        let answer = client.response(&json!("c"), WAIT).await.unwrap();
        code = answer["error"]["details"]["code"].clone();
    }
    assert_eq!(code, "AUTH_RATE_LIMITED");
}

#[tokio::test(flavor = "multi_thread")]
async fn secrets_do_not_leave_and_come_back_whole() {
    let ground = Ground::new().await;
    let mut client = ground.login(ALL).await;
    let answer = call(&mut client, "config.get", json!({})).await;
    assert!(!answer.to_string().contains(TOKEN), "{answer}");
    let mut config = answer["payload"]["config"].clone();
    config["gateway"]["reload"] = json!({ "mode": "hot" });
    let set = json!({ "raw": config.to_string(), "baseHash": answer["payload"]["hash"] });
    let answer = call(&mut client, "config.set", set.clone()).await;
    assert_eq!(answer["ok"], true, "{answer}");
    assert!(!answer.to_string().contains(TOKEN), "{answer}");
    assert!(ground.config().contains(&format!("token: '{TOKEN}'")), "{}", ground.config());
    // The same again is based on what is no more.
    let again = call(&mut client, "config.set", set).await;
    let said = again["error"]["message"].as_str().unwrap();
    assert!(said.contains("re-run config.get"), "{said}");
    let approvals = call(&mut client, "exec.approvals.get", json!({})).await;
    assert_eq!(approvals["payload"]["file"]["socket"].as_object().unwrap().len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_sandbox_cannot_be_left_through_a_session() {
    let ground = Ground::new().await;
    let mut client = ground.login(ALL).await;
    let patch = json!({ "key": "agent:bot:main", "execHost": "gateway", "execSecurity": "full" });
    let answer = call(&mut client, "sessions.patch", patch).await;
    assert_eq!(answer["payload"]["entry"]["execHost"], "sandbox", "{answer}");
    let direct = json!({ "key": "agent:main:main", "execHost": "gateway" });
    let answer = call(&mut client, "sessions.patch", direct).await;
    assert_eq!(answer["payload"]["entry"]["execHost"], "gateway", "{answer}");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_not_built_is_unknown_and_no_approval_can_be_smuggled_in() {
    let ground = Ground::new().await;
    let mut client = ground.login(ALL).await;
    for method in ["tools.invoke", "update.run"] {
        let answer = call(&mut client, method, json!({ "approved": true, "id": "x" })).await;
        assert_eq!(answer["error"]["message"], format!("unknown method: {method}"));
    }
    for (method, params) in [
        (
            "chat.send",
            json!({ "sessionKey": "main", "message": "x", "idempotencyKey": "k", "approved": true }),
        ),
        ("agent", json!({ "message": "x", "idempotencyKey": "k", "spawnedBy": "agent:main:main" })),
        ("exec.approval.request", json!({ "command": "id", "approved": true })),
        ("exec.approval.resolve", json!({ "id": "x", "decision": "deny", "approved": true })),
        ("sandbox.exec", json!({ "command": "id", "approved": true })),
        ("sandbox.exec", json!({ "command": "id", "host": "gateway" })),
    ] {
        let answer = call(&mut client, method, params).await;
        let said = answer["error"]["message"].as_str().unwrap_or_default();
        assert!(said.contains("unexpected property"), "{method}: {answer}");
    }
    let invoke = json!({ "method": "POST", "path": "/tools/invoke",
        "headers": { "Authorization": format!("Bearer {TOKEN}") },
        "body": "{\"tool\":\"exec\",\"args\":{\"command\":\"id\",\"approved\":true}}" });
    assert_eq!(http(ground.address(), &invoke).await.unwrap()["status"], 404);
}

#[tokio::test(flavor = "multi_thread")]
async fn changes_of_the_config_are_few() {
    let ground = Ground::new().await;
    let mut client = ground.login(ALL).await;
    for _ in 0..3 {
        let answer = call(&mut client, "config.patch", json!({ "raw": "{}" })).await;
        assert_eq!(answer["error"]["code"], "INVALID_REQUEST");
    }
    let answer = call(&mut client, "config.patch", json!({ "raw": "{}" })).await;
    assert_eq!(answer["error"]["details"]["limit"], "3 per 60s", "{answer}");
    assert_eq!(answer["error"]["retryable"], true);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_removed_device_is_gone_at_once() {
    let ground = Ground::new().await;
    let mut admin = ground.login(ALL).await;
    let mut other = ground.login(&["operator.read"]).await;
    let list = call(&mut admin, "device.pair.list", json!({})).await;
    assert!(!list.to_string().contains("\"token\""), "{list}");
    let paired = list["payload"]["paired"].as_array().unwrap().clone();
    let device = paired.iter().find(|device| device["scopes"] == json!(["operator.read"])).unwrap();
    let gone =
        call(&mut admin, "device.pair.remove", json!({ "deviceId": device["deviceId"] })).await;
    assert_eq!(gone["ok"], true);
    assert_eq!(other.closing(WAIT).await.unwrap(), (4001, "device removed".to_owned()));
}

#[tokio::test(flavor = "multi_thread")]
async fn who_stops_says_so() {
    let ground = Ground::new().await;
    let mut client = ground.login(&["operator.read"]).await;
    let address = ground.address();
    let stopping = tokio::spawn(ground.running.stop(Farewell::Stop));
    assert_eq!(client.closing(WAIT).await.unwrap(), (1012, "service restart".to_owned()));
    client.close().await;
    stopping.await.unwrap();
    assert!(Client::connect(address, &Headers::default()).await.is_err());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_whose_head_does_not_end_is_let_go() {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    let ground = Ground::new().await;
    let mut silent = tokio::net::TcpStream::connect(ground.address()).await.unwrap();
    let mut slow = tokio::net::TcpStream::connect(ground.address()).await.unwrap();
    slow.write_all(b"GET /healthz HTTP/1.1\r\nHost: x\r\nX-Slow: ").await.unwrap();
    for stream in [&mut silent, &mut slow] {
        let mut rest = Vec::new();
        let ended = tokio::time::timeout(WAIT, stream.read_to_end(&mut rest)).await;
        assert!(ended.is_ok(), "it stays open");
    }
    // Nobody else noticed.
    let probe = json!({ "method": "GET", "path": "/healthz", "headers": {} });
    assert_eq!(http(ground.address(), &probe).await.unwrap()["status"], 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_flood_after_the_login_costs_its_sender_and_nobody_else() {
    let ground = Ground::new().await;
    let mut flood = ground.login(&["operator.read"]).await;
    let mut other = ground.login(ALL).await;
    let frame = json!({ "type": "req", "id": "f", "method": "config.get", "params": {} });
    let flooding = tokio::spawn(async move {
        for _ in 0..20_000 {
            flood.send(frame.to_string()).await;
        }
    });
    for _ in 0..20 {
        let start = Instant::now();
        assert_eq!(call(&mut other, "health", json!({})).await["ok"], true);
        assert!(start.elapsed() < Duration::from_secs(5));
    }
    flooding.abort();
    let _ = flooding.await;
    assert_eq!(call(&mut other, "config.get", json!({})).await["ok"], true);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_frame_that_is_too_large_ends_its_connection_only() {
    let ground = Ground::new().await;
    let mut large = ground.login(ALL).await;
    let mut other = ground.login(ALL).await;
    large.send("x".repeat(27_000_000)).await;
    assert!(large.closing(WAIT).await.is_ok());
    assert_eq!(call(&mut other, "health", json!({})).await["ok"], true);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_restart_loses_no_approval_and_no_device() {
    let ground = Ground::new().await;
    let mut asker = ground.login(&["operator.approvals"]).await;
    let mut person = ground.login(ALL).await;
    let ask = json!({ "type": "req", "id": "a", "method": "exec.approval.request",
                      "params": { "command": "make", "twoPhase": true } });
    asker.send(ask.to_string()).await;
    let accepted = asker.response(&json!("a"), WAIT).await.unwrap();
    let id = accepted["payload"]["id"].clone();
    person.event("exec.approval.requested", WAIT).await.unwrap();
    let Ground { home, running } = ground;
    let stopping = tokio::spawn(running.stop(Farewell::Restart));
    let told = person.event("shutdown", WAIT).await.unwrap();
    assert_eq!(told["payload"]["restartExpectedMs"], 1500, "{told}");
    assert_eq!(person.closing(WAIT).await.unwrap().0, 1012);
    drop((person, asker));
    stopping.await.unwrap();
    let around = Surroundings::of_home(home.path().to_str().unwrap());
    let running = start(Options { port: Some(0), ..Options::new(around) }).await.unwrap();
    let ground = Ground { home, running };
    let mut person = ground.login(ALL).await;
    let listed = call(&mut person, "exec.approval.list", json!({})).await;
    assert_eq!(listed["payload"][0]["id"], id, "{listed}");
    let devices = call(&mut person, "device.pair.list", json!({})).await;
    assert_eq!(devices["payload"]["paired"].as_array().map(Vec::len), Some(3), "{devices}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_gateway_that_others_could_use_without_a_secret_does_not_start() {
    let home = tempfile::tempdir().unwrap();
    std::fs::create_dir_all(home.path().join(".openclaw")).unwrap();
    std::fs::write(
        home.path().join(".openclaw/openclaw.json"),
        "{gateway: {mode: 'local', bind: 'lan', auth: {mode: 'none'}}}",
    )
    .unwrap();
    let around = Surroundings::of_home(home.path().to_str().unwrap());
    let refused = start(Options { port: Some(0), ..Options::new(around) }).await;
    assert!(matches!(refused, Err(StartError::Refused(_))), "{refused:?}");
}
