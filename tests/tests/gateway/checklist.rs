//! The points of the protocol's checklist that have no test of their own elsewhere. Which test shows which point is
//! told in `docs/reference/gateway-checklist.md`.

use clawpen_tests::replay::gateway_frames::client::{Headers, http};
use serde_json::{Value, json};

use super::{ALL, Ground, TOKEN, WAIT, call, connect, device, knock};

async fn payload(client: &mut super::Client, method: &str, params: Value) -> Value {
    let answer = call(client, method, params).await;
    assert_eq!(answer["ok"], true, "{method}: {answer}");
    answer["payload"].clone()
}

async fn refused(client: &mut super::Client, method: &str, params: Value) -> String {
    let answer = call(client, method, params).await;
    assert_eq!(answer["ok"], false, "{method}: {answer}");
    answer["error"]["message"].as_str().unwrap().to_owned()
}

async fn hash(client: &mut super::Client) -> Value {
    payload(client, "config.get", json!({})).await["hash"].clone()
}

/// Point 1, beside the recordings: each version of the protocol, and what a signature is worth.
#[tokio::test(flavor = "multi_thread")]
async fn both_protocols_are_spoken_and_no_other() {
    let ground = Ground::new().await;
    for (least, most, expected) in
        [(3, 3, Some(3)), (3, 4, Some(4)), (4, 4, Some(4)), (1, 2, None), (5, 6, None)]
    {
        let mut frame = connect(&["operator.read"], TOKEN);
        frame["params"]["minProtocol"] = json!(least);
        frame["params"]["maxProtocol"] = json!(most);
        frame["params"]["device"] = device();
        let (mut client, answer) = knock(ground.address(), &Headers::default(), frame).await;
        let Some(expected) = expected else {
            assert_eq!(answer["error"]["message"], "protocol mismatch", "{answer}");
            let closing = client.closing(WAIT).await.unwrap();
            assert_eq!(closing, (1002, "protocol mismatch".to_owned()));
            continue;
        };
        let hello = &answer["payload"];
        assert_eq!(hello["protocol"], expected, "{answer}");
        // What only the newer protocol knows is not told the older.
        assert_eq!(hello["auth"].get("method").is_some(), expected == 4, "{answer}");
    }
}

/// Point 3: what is hidden comes back as it was, and so does what stands for a variable.
#[tokio::test(flavor = "multi_thread")]
async fn a_config_that_goes_round_keeps_secrets_and_variables() {
    let ground = Ground::with(
        "env: {vars: {SECRET_OF_TEST: 'from-a-variable'}}, \
         models: {providers: {p: {baseUrl: 'http://127.0.0.1:1/v1', apiKey: '${SECRET_OF_TEST}', \
         models: []}}}",
    )
    .await;
    let mut client = ground.login(ALL).await;
    let seen = payload(&mut client, "config.get", json!({})).await;
    assert!(!seen.to_string().contains(TOKEN), "{seen}");
    let mut config = seen["config"].clone();
    config["gateway"]["reload"] = json!({ "mode": "hot" });
    let stale = json!({ "raw": config.to_string(), "baseHash": "0" });
    assert_eq!(
        refused(&mut client, "config.set", stale).await,
        "config changed since last load; re-run config.get and retry"
    );
    let set = json!({ "raw": config.to_string(), "baseHash": seen["hash"] });
    payload(&mut client, "config.set", set).await;
    let text = ground.config();
    assert!(text.contains(TOKEN) && text.contains("${SECRET_OF_TEST}"), "{text}");
    assert!(!text.contains("__OPENCLAW_REDACTED__"), "{text}");
    assert_eq!(text.matches("from-a-variable").count(), 1, "only where it stood: {text}");
    let now = hash(&mut client).await;
    config["bogus"] = json!(1);
    let wrong = json!({ "raw": config.to_string(), "baseHash": now });
    let answer = call(&mut client, "config.set", wrong).await;
    assert_eq!(answer["error"]["details"]["issues"].as_array().map(Vec::len), Some(1), "{answer}");
}

/// Point 4: what a patch means, and that one that is wrong in itself counts, too.
#[tokio::test(flavor = "multi_thread")]
async fn a_patch_deletes_merges_by_id_and_replaces_words() {
    let ground = Ground::with(
        "agents: {list: [{id: 'main', name: 'M', tools: {alsoAllow: ['a', 'b'], deny: ['c']}}, \
         {id: 'bot'}]}",
    )
    .await;
    let mut client = ground.login(ALL).await;
    let base = hash(&mut client).await;
    let patch = json!({ "agents": { "list": [
        { "id": "main", "tools": { "alsoAllow": ["d"], "deny": null } }, { "id": "new" } ] } });
    let params = json!({ "raw": patch.to_string(), "baseHash": base });
    let done = payload(&mut client, "config.patch", params).await;
    let list = done["config"]["agents"]["list"].as_array().unwrap();
    let ids: Vec<&str> = list.iter().filter_map(|one| one["id"].as_str()).collect();
    assert_eq!(ids, ["main", "bot", "new"]);
    assert_eq!(list[0]["name"], "M");
    assert_eq!(list[0]["tools"], json!({ "alsoAllow": ["d"] }));
    for params in [json!({}), json!({ "raw": 1 })] {
        let said = refused(&mut client, "config.patch", params).await;
        assert!(said.starts_with("invalid config.patch params"), "{said}");
    }
    let said = refused(&mut client, "config.patch", json!({})).await;
    assert!(said.starts_with("rate limit exceeded for config.patch"), "{said}");
}

/// Points 5 and 6: an agent with all that belongs to it, and the approvals file.
#[tokio::test(flavor = "multi_thread")]
async fn an_agent_is_made_whole_and_the_approvals_file_keeps_its_token() {
    let ground = Ground::new().await;
    let mut client = ground.login(ALL).await;
    let workspace = ground.home.path().join("place");
    let new = json!({ "name": "Research Bot 7!", "workspace": workspace, "emoji": "x" });
    let made = payload(&mut client, "agents.create", new.clone()).await;
    assert_eq!(made["agentId"], "research-bot-7");
    let identity = std::fs::read_to_string(workspace.join("IDENTITY.md")).unwrap();
    assert!(identity.ends_with("- Name: Research Bot 7!\n- Emoji: x\n"), "{identity}");
    assert!(ground.config().contains("research-bot-7"));
    for (params, why) in [
        (new, "agent \"research-bot-7\" already exists"),
        (json!({ "name": "Main", "workspace": "/tmp/x" }), "\"main\" is reserved"),
        (
            json!({ "name": "x" }),
            "invalid agents.create params: must have required property 'workspace'",
        ),
    ] {
        assert_eq!(refused(&mut client, "agents.create", params).await, why);
    }
    let seen = payload(&mut client, "exec.approvals.get", json!({})).await;
    let file =
        json!({ "version": 1, "agents": { "bot": { "allowlist": [{ "pattern": "/bin/ls" }] } } });
    for (params, why) in [
        (json!({ "file": file }), "exec approvals base hash required"),
        (json!({ "file": file, "baseHash": "0" }), "exec approvals changed since last load"),
    ] {
        let said = refused(&mut client, "exec.approvals.set", params).await;
        assert!(said.starts_with(why), "{said}");
    }
    let params = json!({ "file": file, "baseHash": seen["hash"] });
    let set = payload(&mut client, "exec.approvals.set", params).await;
    let id = &set["file"]["agents"]["bot"]["allowlist"][0]["id"];
    assert_eq!(id.as_str().map(str::len), Some(36), "{set}");
    assert_eq!(set["file"]["socket"].get("token"), None, "{set}");
    let stored = ground.home.path().join(".openclaw/exec-approvals.json");
    let stored: Value = serde_json::from_str(&std::fs::read_to_string(stored).unwrap()).unwrap();
    assert!(stored["socket"]["token"].is_string(), "the token is kept");
}

/// Point 7: what may be set on a session, and the words for what may not.
#[tokio::test(flavor = "multi_thread")]
async fn a_session_takes_what_it_knows_and_says_where_it_came_from_once() {
    let ground = Ground::new().await;
    let mut client = ground.login(ALL).await;
    let key = "agent:main:main";
    let set =
        json!({ "key": key, "execHost": "gateway", "execSecurity": "full", "execAsk": "off" });
    let made = payload(&mut client, "sessions.patch", set).await;
    assert_eq!(made["entry"]["execSecurity"], "full");
    let clear = json!({ "key": key, "execHost": null, "execSecurity": null, "execAsk": null });
    let cleared = payload(&mut client, "sessions.patch", clear).await;
    assert_eq!(cleared["entry"].get("execHost"), None);
    for (change, why) in [
        (json!({ "execAsk": "maybe" }), "invalid execAsk (use \"off\"|\"on-miss\"|\"always\")"),
        (json!({ "label": " " }), "invalid label: empty"),
        (
            json!({ "sendPolicy": "x" }),
            "invalid sessions.patch params: at /sendPolicy: must be equal to constant; \
             at /sendPolicy: must be null; at /sendPolicy: must match a schema in anyOf",
        ),
        (
            json!({ "spawnedBy": "agent:bot:main" }),
            "spawnedBy is only supported for subagent:* or acp:* sessions",
        ),
    ] {
        let mut params = change;
        params["key"] = json!(key);
        assert_eq!(refused(&mut client, "sessions.patch", params).await, why);
    }
    let below = "agent:main:subagent:1";
    let born = json!({ "key": below, "spawnedBy": key, "spawnDepth": 1 });
    payload(&mut client, "sessions.patch", born.clone()).await;
    payload(&mut client, "sessions.patch", born).await;
    for (change, why) in [
        (json!({ "spawnedBy": "agent:bot:main" }), "spawnedBy cannot be changed once set"),
        (json!({ "spawnedBy": null }), "spawnedBy cannot be cleared once set"),
        (json!({ "spawnDepth": 2 }), "spawnDepth cannot be changed once set"),
    ] {
        let mut params = change;
        params["key"] = json!(below);
        assert_eq!(refused(&mut client, "sessions.patch", params).await, why);
    }
}

/// Point 10: what a device that may only read can do.
#[tokio::test(flavor = "multi_thread")]
async fn who_may_only_read_reads_and_is_told_what_is_missing() {
    let ground = Ground::new().await;
    let mut client = ground.login(&["operator.read"]).await;
    for method in ["config.get", "agents.list", "status"] {
        payload(&mut client, method, json!({})).await;
    }
    for (method, scope) in [
        ("config.set", "admin"),
        ("exec.approvals.get", "admin"),
        ("agents.create", "admin"),
        ("sessions.patch", "admin"),
        ("config.schema", "admin"),
        ("skills.install", "admin"),
        ("chat.send", "write"),
        ("send", "write"),
        ("exec.approval.resolve", "approvals"),
        ("device.pair.list", "pairing"),
        ("node.pair.list", "pairing"),
    ] {
        let said = refused(&mut client, method, json!({})).await;
        assert_eq!(said, format!("missing scope: operator.{scope}"), "{method}");
    }
    // Who may write does not speak for others.
    let mut writer = ground.login(&["operator.write"]).await;
    let mut message = json!({ "sessionKey": "main", "message": "x", "idempotencyKey": "k" });
    message["systemInputProvenance"] = json!({ "kind": "internal_system" });
    assert_eq!(
        refused(&mut writer, "chat.send", message.clone()).await,
        "system provenance fields require admin scope"
    );
    message.as_object_mut().unwrap().remove("systemInputProvenance");
    message["originatingChannel"] = json!("mail");
    assert_eq!(
        refused(&mut writer, "chat.send", message).await,
        "originating route fields require admin scope"
    );
}

/// What pages ask for without a login, and what an agent cannot have shown to them.
#[tokio::test(flavor = "multi_thread")]
async fn a_page_learns_who_is_served_and_no_file_of_the_host() {
    let ground = Ground::with(
        "agents: {list: [{id: 'main', identity: {name: 'Ada', avatar: 'face.png'}}, \
         {id: 'link', identity: {avatar: 'link.png'}}, {id: 'deep', identity: {avatar: 'd/x.png'}}, \
         {id: 'up', identity: {avatar: '../openclaw.json.png'}}, \
         {id: 'page', identity: {avatar: 'page.svg'}}]}",
    )
    .await;
    let state = ground.home.path().join(".openclaw");
    let workspace = state.join("workspace");
    std::fs::create_dir_all(&workspace).unwrap();
    std::fs::write(workspace.join("face.png"), "a picture").unwrap();
    std::fs::write(state.join("openclaw.json.png"), "secret").unwrap();
    for agent in ["link", "deep", "up", "page"] {
        let place = state.join(format!("workspace-{agent}"));
        std::fs::create_dir_all(&place).unwrap();
        std::os::unix::fs::symlink(state.join("openclaw.json"), place.join("link.png")).unwrap();
        std::os::unix::fs::symlink(&state, place.join("d")).unwrap();
        std::fs::write(place.join("page.svg"), "<svg/>").unwrap();
    }
    std::fs::write(state.join("x.png"), "secret").unwrap();
    let get = |path: &str| json!({ "method": "GET", "path": path, "headers": {} });
    let about = http(ground.address(), &get("/__openclaw/control-ui-config.json")).await.unwrap();
    assert_eq!(
        about["body"],
        json!({ "basePath": "", "assistantName": "Ada", "assistantAvatar": "/avatar/main",
                "assistantAgentId": "main", "serverVersion": "2026.3.28" })
    );
    let face = http(ground.address(), &get("/avatar/main")).await.unwrap();
    assert_eq!((&face["status"], &face["body"]), (&json!(200), &json!("a picture")), "{face}");
    assert_eq!(face["headers"]["content-type"], "image/png");
    let meta = http(ground.address(), &get("/avatar/main?meta=1")).await.unwrap();
    assert_eq!(meta["body"], json!({ "avatarUrl": "/avatar/main" }));
    for agent in ["link", "deep", "up", "page", "nobody", "..%2F..%2Fetc"] {
        let answer = http(ground.address(), &get(&format!("/avatar/{agent}"))).await.unwrap();
        assert_eq!(answer["status"], 404, "{agent}: {answer}");
        let path = format!("/avatar/{agent}?meta=1");
        let meta = http(ground.address(), &get(&path)).await.unwrap();
        assert_eq!(meta["body"], json!({ "avatarUrl": null }), "{agent}");
    }
    for path in ["/", "/some/page", "/api/x", "/v1/models"] {
        let answer = http(ground.address(), &get(path)).await.unwrap();
        let expected = (&json!(404), &json!("Not Found"));
        assert_eq!((&answer["status"], &answer["body"]), expected, "{path}");
    }
}

/// A session ends over HTTP what it started itself, and nothing else.
#[tokio::test(flavor = "multi_thread")]
async fn a_run_is_killed_over_http_by_this_machine_or_by_who_started_it() {
    use clawpen_tests::model_server::{ModelServer, Reply};
    let wait = Reply::text("wait").call("exec", json!({ "command": "echo ready; sleep 600" }));
    let server = ModelServer::scripted(vec![wait.answer(super::chat::WIRE)]);
    let ground = super::chat::ground(&server, "").await;
    let mut client = super::chat::login(&ground, ALL).await;
    let kill = |key: &str, more: Value| {
        let mut headers = json!({ "Authorization": format!("Bearer {TOKEN}") });
        for (name, value) in more.as_object().unwrap() {
            headers[name] = value.clone();
        }
        json!({ "method": "POST", "path": format!("/sessions/{key}/kill"), "headers": headers })
    };
    let none = http(ground.address(), &kill("nope", json!({}))).await.unwrap();
    assert_eq!(none["status"], 404, "{none}");
    assert_eq!(super::chat::say(&mut client, "run", "hello").await["payload"]["status"], "started");
    let is_update = |frame: &Value| frame["payload"]["data"]["phase"] == "update";
    client.take(WAIT, is_update).await.unwrap();
    let stranger = json!({ "x-openclaw-requester-session-key": "agent:bot:main" });
    let far = json!({ "X-Forwarded-For": "203.0.113.9" });
    for (more, status, killed) in
        [(stranger, 200, Some(false)), (far, 403, None), (json!({}), 200, Some(true))]
    {
        let answer =
            http(ground.address(), &kill("agent%3Amain%3Amain", more.clone())).await.unwrap();
        assert_eq!(answer["status"], status, "{more}: {answer}");
        assert_eq!(answer["body"]["killed"].as_bool(), killed, "{more}: {answer}");
    }
    assert_eq!(super::chat::end(&mut client, "run").await["state"], "aborted");
    super::chat::over(ground).await;
}

/// What a session is told to be offered is what a run of it gets.
#[tokio::test(flavor = "multi_thread")]
async fn the_tools_that_are_listed_are_those_that_a_model_is_offered() {
    use clawpen_tests::model_server::{ModelServer, Reply};
    let server = ModelServer::scripted(vec![Reply::text("fine").answer(super::chat::WIRE)]);
    let ground =
        super::chat::ground(&server, ", tools: {deny: ['web_fetch', 'sessions_send']}").await;
    let mut client = super::chat::login(&ground, ALL).await;
    super::chat::say(&mut client, "run", "hello").await;
    super::chat::end(&mut client, "run").await;
    let asked = server.received();
    let offered: Vec<Value> = asked[0].body["tools"]
        .as_array()
        .unwrap()
        .iter()
        .map(|tool| tool["function"]["name"].clone())
        .collect();
    let listed =
        payload(&mut client, "tools.effective", json!({ "sessionKey": "agent:main:main" })).await;
    let ids: Vec<Value> = listed["groups"][0]["tools"]
        .as_array()
        .unwrap()
        .iter()
        .map(|tool| tool["id"].clone())
        .collect();
    assert_eq!(ids, offered);
    assert!(
        ids.contains(&json!("sessions_list")) && !ids.contains(&json!("sessions_send")),
        "{ids:?}"
    );
    super::chat::over(ground).await;
}

/// Clients of the newer protocol are told the piece and the agent; the older ones get the frames they know.
#[tokio::test(flavor = "multi_thread")]
async fn only_the_newer_protocol_hears_of_pieces() {
    use clawpen_tests::model_server::{ModelServer, Reply};
    let server = ModelServer::scripted(vec![Reply::text("fine").answer(super::chat::WIRE)]);
    let ground = super::chat::ground(&server, "").await;
    let mut newer = super::chat::login(&ground, ALL).await;
    let mut frame = connect(ALL, TOKEN);
    frame["params"]["maxProtocol"] = json!(3);
    frame["params"]["device"] = device();
    let (mut older, hello) = knock(ground.address(), &Headers::default(), frame).await;
    assert_eq!(hello["payload"]["protocol"], 3);
    super::chat::say(&mut newer, "run", "hello").await;
    let is_delta = |frame: &Value| frame["event"] == "chat" && frame["payload"]["state"] == "delta";
    let told = newer.take(WAIT, is_delta).await.unwrap();
    let text = told["payload"]["message"]["content"][0]["text"].clone();
    assert_eq!(
        (&told["payload"]["deltaText"], &told["payload"]["agentId"]),
        (&text, &json!("main"))
    );
    let told = older.take(WAIT, is_delta).await.unwrap();
    let keys: Vec<&String> = told["payload"].as_object().unwrap().keys().collect();
    assert!(!keys.iter().any(|key| *key == "deltaText" || *key == "agentId"), "{told}");
    super::chat::end(&mut newer, "run").await;
    super::chat::over(ground).await;
}

/// Programs that speak `OpenAI`'s HTTP get an agent's answer, if the config lets them in and only so far.
#[tokio::test(flavor = "multi_thread")]
async fn a_completion_is_a_message_to_an_agent() {
    use clawpen_tests::model_server::{ModelServer, Reply};
    let answers = vec![Reply::text("Hello there.").answer(super::chat::WIRE); 2];
    let server = ModelServer::scripted(answers);
    let config = super::chat::config(&server, "");
    let door = "http: {endpoints: {chatCompletions: {enabled: true}}}";
    let ground = Ground::of(&format!(
        "{{gateway: {{mode: 'local', auth: {{token: '{TOKEN}'}}, {door}}}, {config}}}"
    ))
    .await;
    let ask = |method: &str, path: &str, scope: &str, body: Value| {
        let mut headers = json!({ "Authorization": format!("Bearer {TOKEN}") });
        if !scope.is_empty() {
            headers["x-openclaw-scopes"] = json!(scope);
        }
        json!({ "method": method, "path": path, "headers": headers, "body": body.to_string() })
    };
    let (address, chat) = (ground.address(), "/v1/chat/completions");
    let hi = json!({ "model": "openclaw", "messages": [{ "role": "user", "content": "hi" }] });
    for (scope, body, status, why) in [
        ("", hi.clone(), 403, "missing scope: operator.write"),
        ("operator.read", hi.clone(), 403, "missing scope: operator.write"),
        ("operator.write", json!({}), 400, "Missing user message in `messages`."),
        (
            "operator.write",
            json!({ "model": "gpt-4", "messages": hi["messages"] }),
            400,
            "Invalid `model`. Use `openclaw` or `openclaw/<agentId>`.",
        ),
    ] {
        let answer = http(address, &ask("POST", chat, scope, body)).await.unwrap();
        assert_eq!(answer["status"], status, "{answer}");
        assert_eq!(answer["body"]["error"]["message"], why, "{answer}");
    }
    let models =
        http(address, &ask("GET", "/v1/models", "operator.read", json!({}))).await.unwrap();
    assert_eq!(models["body"]["data"][2]["id"], "openclaw/main", "{models}");
    let whole = http(address, &ask("POST", chat, "operator.write", hi.clone())).await.unwrap();
    let choice = &whole["body"]["choices"][0];
    assert_eq!(choice["message"]["content"], "Hello there.", "{whole}");
    assert_eq!(choice["finish_reason"], "stop");
    let mut streamed = hi;
    streamed["stream"] = json!(true);
    let parts = http(address, &ask("POST", chat, "operator.write", streamed)).await.unwrap();
    let text = parts["body"].as_str().unwrap();
    let pieces = text.lines().filter_map(|line| {
        let part: Value = serde_json::from_str(line.strip_prefix("data: ")?).ok()?;
        part["choices"][0]["delta"]["content"].as_str().map(str::to_owned)
    });
    assert_eq!(pieces.collect::<String>(), "Hello there.", "{text}");
    assert!(text.contains("data: [DONE]"), "{text}");
    // Whoever may write does not leave the sandbox by a word.
    let mut order = json!({ "model": "openclaw", "user": "u" });
    order["messages"] = json!([{ "role": "user", "content": "/elevated full" }]);
    http(address, &ask("POST", chat, "operator.write", order)).await.unwrap();
    let mut client = super::chat::login(&ground, ALL).await;
    let list = payload(&mut client, "sessions.list", json!({ "search": "openai-user:u" })).await;
    assert_eq!(list["sessions"][0].get("elevatedLevel"), None, "{list}");
    super::chat::over(ground).await;
    let closed = Ground::new().await;
    let answer = http(closed.address(), &ask("POST", chat, "operator.write", json!({}))).await;
    assert_eq!(answer.unwrap()["status"], 404);
}
