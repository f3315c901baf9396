//! Planned jobs over the gateway: who may plan, what runs and where, what is left after a kill.

mod attacks;

use std::path::Path;

use clawpen_engine::approvals_file::now_ms;
use clawpen_engine::config_store::Surroundings;
use clawpen_gateway::{Options, start};
use clawpen_rules::timestamp::Timestamp;
use clawpen_tests::model_server::{Answer, ModelServer, Piece, Reply};
use clawpen_tests::replay::gateway_frames::client::{Client, Devices, Headers};
use serde_json::{Value, json};

use super::chat::{WIRE, WRITER, config, login, over};
use super::kills::{Gateway, program};
use super::{ALL, Farewell, Ground, TOKEN, WAIT, call, connect};

/// Agents whose main session is not sandboxed and whose others are.
fn non_main(server: &ModelServer, more: &str) -> String {
    config(server, more)
        .replace("mode: 'all'", "mode: 'non-main'")
        .replace("[{id: 'main'}]", "[{id: 'main'}, {id: 'bot'}]")
}

/// A home with these jobs in it.
fn home(config: &str, jobs: &Value) -> tempfile::TempDir {
    let home = tempfile::tempdir().unwrap();
    let state = home.path().join(".openclaw");
    std::fs::create_dir_all(state.join("cron")).unwrap();
    let config = format!("{{gateway: {{mode: 'local', auth: {{token: '{TOKEN}'}}}}, {config}}}");
    std::fs::write(state.join("openclaw.json"), config).unwrap();
    if !jobs.is_null() {
        std::fs::write(state.join("cron/jobs.json"), jobs.to_string()).unwrap();
    }
    home
}

async fn gateway(home: &Path) -> clawpen_gateway::Running {
    let around = Surroundings::of_home(home.to_str().unwrap());
    start(Options { port: Some(0), ..Options::new(around) }).await.unwrap()
}

async fn ground(config: &str, jobs: &Value) -> Ground {
    let home = home(config, jobs);
    let running = gateway(home.path()).await;
    Ground { home, running }
}

fn store(home: &Path) -> Value {
    let text = std::fs::read_to_string(home.join(".openclaw/cron/jobs.json")).unwrap();
    serde_json::from_str(&text).unwrap()
}

/// A moment so long from now.
fn soon(millis: u64) -> String {
    Timestamp::from_millis(now_ms() + millis).to_string()
}

fn turn(name: &str, schedule: Value, message: &str) -> Value {
    json!({ "name": name, "schedule": schedule, "sessionTarget": "isolated", "wakeMode": "now",
            "payload": { "kind": "agentTurn", "message": message } })
}

fn hourly() -> Value {
    json!({ "kind": "every", "everyMs": 3_600_000 })
}

async fn add(client: &mut Client, job: Value) -> Value {
    let answer = call(client, "cron.add", job).await;
    assert_eq!(answer["ok"], true, "{answer}");
    answer["payload"].clone()
}

/// The next event of a job that says this.
async fn told(client: &mut Client, job: &Value, action: &str) -> Value {
    let is_it = |frame: &Value| {
        let payload = &frame["payload"];
        frame["event"] == "cron" && payload["jobId"] == job["id"] && payload["action"] == *action
    };
    client.take(WAIT, is_it).await.unwrap()["payload"].clone()
}

async fn jobs(client: &mut Client, params: Value) -> Vec<Value> {
    let answer = call(client, "cron.list", params).await;
    answer["payload"]["jobs"].as_array().unwrap().clone()
}

fn names(jobs: &[Value]) -> Vec<&str> {
    jobs.iter().filter_map(|job| job["name"].as_str()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_planned_job_runs_in_a_sandbox_of_its_own_session_and_tells_what_came_of_it() {
    let canary = tempfile::NamedTempFile::new().unwrap();
    let path = canary.path().to_str().unwrap().to_owned();
    let command = format!("echo reached > {path}; readlink /proc/self/ns/pid");
    let server = ModelServer::scripted(vec![
        Reply::default().call("exec", json!({ "command": command })).answer(WIRE),
        Reply::text("All is well.").answer(WIRE),
    ]);
    let ground = ground(&non_main(&server, ""), &Value::Null).await;
    let mut client = ground.login(ALL).await;
    let at = soon(400);
    let job = add(
        &mut client,
        turn("check", json!({ "kind": "at", "at": at }), "  /elevated full\nlook around "),
    )
    .await;
    let id = job["id"].as_str().unwrap().to_owned();
    let due = Timestamp::parse(&at).unwrap().as_millis();
    assert_eq!(
        job,
        json!({ "id": id, "name": "check", "enabled": true, "deleteAfterRun": true,
                "createdAtMs": job["createdAtMs"], "updatedAtMs": job["createdAtMs"],
                "schedule": { "kind": "at", "at": at }, "sessionTarget": "isolated",
                "wakeMode": "now",
                "payload": { "kind": "agentTurn", "message": "/elevated full\nlook around" },
                "delivery": { "mode": "announce" }, "state": { "nextRunAtMs": due } })
    );
    let added = told(&mut client, &job, "added").await;
    assert_eq!(added, json!({ "jobId": id, "action": "added", "nextRunAtMs": due }));
    let started = told(&mut client, &job, "started").await;
    assert!(started["runAtMs"].as_u64().unwrap() >= due, "{started}");
    let finished = told(&mut client, &job, "finished").await;
    let session = finished["sessionId"].as_str().unwrap();
    let key = format!("agent:main:cron:{id}:run:{session}");
    assert_eq!(
        finished,
        json!({ "jobId": id, "action": "finished", "status": "ok", "summary": "All is well.",
                "delivered": false, "deliveryStatus": "not-delivered", "sessionId": session,
                "sessionKey": key, "runAtMs": started["runAtMs"],
                "durationMs": finished["durationMs"], "model": "m", "provider": "mock",
                "usage": finished["usage"] })
    );
    told(&mut client, &job, "removed").await;

    // The main session is on the host here; what is planned is not the main session.
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "", "the job got out");
    let asked = server.received();
    let (first, last) = (asked[0].body.to_string(), asked[1].body.to_string());
    let own = std::fs::read_link("/proc/self/ns/pid").unwrap();
    assert!(last.contains("pid:[") && !last.contains(own.to_str().unwrap()), "{last}");
    // What it says is no person's word and no directive, and it cannot plan more of its kind.
    assert!(first.contains("from the planned job \\\"check\\\", not from a person"), "{first}");
    assert!(first.contains("/elevated full"), "{first}");
    assert!(!first.contains("\"name\":\"cron\""), "{first}");

    let runs = call(&mut client, "cron.runs", json!({ "id": id })).await["payload"].clone();
    let mut line = finished.clone();
    line["ts"] = runs["entries"][0]["ts"].clone();
    assert_eq!(runs["entries"], json!([line]));
    assert_eq!(
        (&runs["total"], &runs["limit"], &runs["nextOffset"]),
        (&json!(1), &json!(50), &Value::Null)
    );
    let all = call(&mut client, "cron.list", json!({ "includeDisabled": true })).await;
    assert_eq!(all["payload"]["total"], 0, "{all}");
    // The job's own session shows its last run; the run's is hidden.
    let listed = call(&mut client, "sessions.list", json!({})).await["payload"]["sessions"].clone();
    let keys: Vec<&Value> = listed.as_array().unwrap().iter().map(|row| &row["key"]).collect();
    assert_eq!(keys, [&json!(format!("agent:main:cron:{id}"))], "{listed}");
    assert_eq!(listed[0]["label"], "Cron: check");
    let history = call(&mut client, "chat.history", json!({ "sessionKey": key })).await;
    assert_eq!(history["payload"]["messages"].as_array().unwrap().len(), 4, "{history}");
    over(ground).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_for_the_main_session_says_its_text_there() {
    let server = ModelServer::start(|_| Reply::text("I will.").answer(WIRE));
    let ground = super::chat::ground(&server, "").await;
    let mut client = login(&ground, ALL).await;
    let at = json!({ "kind": "at", "at": soon(300) });
    let job = add(
        &mut client,
        json!({ "schedule": at, "deleteAfterRun": false, "payload": { "kind": "systemEvent", "text": "water the plants" } }),
    )
    .await;
    assert_eq!((&job["name"], &job["sessionTarget"]), (&json!("water the plants"), &json!("main")));
    assert_eq!(job.get("delivery"), None);
    let finished = told(&mut client, &job, "finished").await;
    assert_eq!(
        (&finished["status"], &finished["summary"], &finished["deliveryStatus"]),
        (&json!("ok"), &json!("water the plants"), &json!("not-requested"))
    );
    assert_eq!(finished.get("sessionKey"), None);
    let history = call(&mut client, "chat.history", json!({ "sessionKey": "main" })).await;
    assert!(
        history["payload"]["messages"][0].to_string().contains("water the plants"),
        "{history}"
    );
    // It has run, stays, and does not run again by itself.
    let all = jobs(&mut client, json!({ "enabled": "all" })).await;
    let state = &all[0]["state"];
    assert_eq!((&all[0]["enabled"], &state["lastStatus"]), (&json!(false), &json!("ok")));
    assert_eq!(state.get("nextRunAtMs"), None);
    over(ground).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn jobs_are_changed_listed_run_by_hand_and_removed() {
    let server = ModelServer::start(|_| Reply::text("Done.").answer(WIRE));
    let ground = super::chat::ground(&server, "").await;
    let mut client = ground.login(ALL).await;
    let one = add(&mut client, turn("one", hourly(), "x")).await;
    let mut two = turn("two", json!({ "kind": "cron", "expr": "0 * * * *", "tz": "UTC" }), "y");
    two["description"] = json!("The SECOND");
    let two = add(&mut client, two).await;
    assert_eq!(two["schedule"]["staggerMs"], 300_000);
    let status = call(&mut client, "cron.status", json!({})).await["payload"].clone();
    let place = ground.home.path().join(".openclaw/cron/jobs.json");
    let next = one["state"]["nextRunAtMs"].as_u64().min(two["state"]["nextRunAtMs"].as_u64());
    assert_eq!(
        status,
        json!({ "enabled": true, "storePath": place.to_str().unwrap(), "jobs": 2, "nextWakeAtMs": next })
    );

    // Switched off, it has no next moment and is not listed.
    let off = json!({ "id": one["id"], "patch": { "enabled": false, "name": "uno" } });
    let off = call(&mut client, "cron.update", off).await["payload"].clone();
    assert_eq!((&off["name"], &off["state"]), (&json!("uno"), &json!({})));
    let updated = told(&mut client, &one, "updated").await;
    assert_eq!(updated, json!({ "jobId": one["id"], "action": "updated" }));
    assert_eq!(names(&jobs(&mut client, json!({})).await), ["two"]);
    for (params, expected) in [
        (json!({ "includeDisabled": true }), vec!["two", "uno"]),
        (json!({ "enabled": "disabled" }), vec!["uno"]),
        (json!({ "enabled": "all", "sortBy": "name", "sortDir": "desc" }), vec!["uno", "two"]),
        (json!({ "enabled": "all", "sortBy": "updatedAtMs" }), vec!["two", "uno"]),
        (json!({ "enabled": "all", "query": " second " }), vec!["two"]),
        (json!({ "enabled": "all", "sortBy": "name", "limit": 1, "offset": 1 }), vec!["uno"]),
    ] {
        assert_eq!(names(&jobs(&mut client, params.clone()).await), expected, "{params}");
    }
    let first = call(&mut client, "cron.list", json!({ "enabled": "all", "limit": 1 })).await;
    let first = &first["payload"];
    assert_eq!(
        (&first["total"], &first["limit"], &first["hasMore"], &first["nextOffset"]),
        (&json!(2), &json!(1), &json!(true), &json!(1))
    );

    // Of one kind a change changes what it names.
    let patch = json!({ "payload": { "kind": "agentTurn", "timeoutSeconds": 5 }, "enabled": true,
                        "schedule": { "kind": "every", "everyMs": 60_000 } });
    let changed = json!({ "id": one["id"], "patch": patch });
    let changed = call(&mut client, "cron.update", changed).await["payload"].clone();
    let payload = json!({ "kind": "agentTurn", "message": "x", "timeoutSeconds": 5 });
    assert_eq!(changed["payload"], payload, "{changed}");
    assert!(changed["state"]["nextRunAtMs"].as_u64().unwrap() > now_ms(), "{changed}");

    let remove = json!({ "id": two["id"] });
    let removed = call(&mut client, "cron.remove", remove.clone()).await["payload"].clone();
    assert_eq!(removed, json!({ "ok": true, "removed": true }));
    told(&mut client, &two, "removed").await;
    let again = call(&mut client, "cron.remove", remove).await["payload"].clone();
    assert_eq!(again, json!({ "ok": true, "removed": false }));
    for method in ["cron.run", "cron.update"] {
        let params = json!({ "id": "nope", "patch": {} });
        let params = if method == "cron.run" { json!({ "id": "nope" }) } else { params };
        let answer = call(&mut client, method, params).await;
        let known = (&json!("UNAVAILABLE"), &json!("unknown cron job id: nope"));
        assert_eq!((&answer["error"]["code"], &answer["error"]["message"]), known);
    }
    over(ground).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_runs_by_hand_and_its_plan_stays_as_it_was() {
    let server = ModelServer::start(|_| Reply::text("Done.").answer(WIRE));
    let ground = super::chat::ground(&server, "").await;
    let mut client = ground.login(ALL).await;
    let one = add(&mut client, turn("one", hourly(), "x")).await;
    let off = json!({ "id": one["id"], "patch": { "enabled": false, "name": "uno" } });
    assert_eq!(call(&mut client, "cron.update", off).await["ok"], true);
    let two = add(&mut client, turn("two", hourly(), "y")).await;
    // By hand it runs all the same; one that is not due does not if that was asked.
    let due = json!({ "id": two["id"], "mode": "due" });
    let due = call(&mut client, "cron.run", due).await["payload"].clone();
    assert_eq!(due, json!({ "ok": true, "ran": false, "reason": "not-due" }));
    for job in [&one, &two] {
        let run = json!({ "jobId": job["id"], "mode": "force" });
        let run = call(&mut client, "cron.run", run).await["payload"].clone();
        assert_eq!((&run["ok"], &run["enqueued"]), (&json!(true), &json!(true)), "{run}");
        assert!(run["runId"].as_str().unwrap().starts_with("manual:"), "{run}");
        let finished = told(&mut client, job, "finished").await;
        assert_eq!(finished["status"], "ok", "{finished}");
    }
    let after = jobs(&mut client, json!({ "enabled": "all", "sortBy": "name" })).await;
    // The plan of the one stays as it was; the other stays off.
    assert_eq!(after[0]["state"]["nextRunAtMs"], two["state"]["nextRunAtMs"]);
    assert_eq!((&after[1]["enabled"], after[1]["state"].get("nextRunAtMs")), (&json!(false), None));
    assert_eq!(after[1]["state"].get("runningAtMs"), None);

    let runs = call(&mut client, "cron.runs", json!({})).await["payload"].clone();
    let of: Vec<&Value> =
        runs["entries"].as_array().unwrap().iter().map(|run| &run["jobName"]).collect();
    assert_eq!(of, ["two", "uno"]);
    for (params, expected) in [
        (json!({ "status": "error" }), 0),
        (json!({ "statuses": ["ok"], "sortDir": "asc" }), 2),
        (json!({ "query": "DONE", "limit": 1 }), 2),
        (json!({ "deliveryStatus": "delivered" }), 0),
        (json!({ "id": "nobody" }), 0),
    ] {
        let runs = call(&mut client, "cron.runs", params.clone()).await;
        assert_eq!(runs["payload"]["total"], expected, "{params}");
    }
    over(ground).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_may_not_be_planned_is_refused_with_a_reason_and_nothing_is_kept() {
    let server = ModelServer::scripted(Vec::new());
    let ground = ground(&non_main(&server, ""), &Value::Null).await;
    let mut client = ground.login(ALL).await;
    let with = |key: &str, value: Value| {
        let mut job = turn("n", hourly(), "m");
        job[key] = value;
        job
    };
    let cron =
        |expr: &str, tz: &str| with("schedule", json!({ "kind": "cron", "expr": expr, "tz": tz }));
    let at = |at: &str| with("schedule", json!({ "kind": "at", "at": at }));
    let event = json!({ "kind": "systemEvent", "text": "m" });
    let mut others_main = with("payload", event.clone());
    others_main["sessionTarget"] = json!("main");
    others_main["agentId"] = json!("bot");
    let mut main_turn = turn("n", hourly(), "m");
    main_turn["sessionTarget"] = json!("main");
    for (job, said) in [
        (json!({}), "must have required property 'schedule'"),
        (with("bogus", json!(1)), "unexpected property 'bogus'"),
        (with("id", json!("../../x")), "unexpected property 'id'"),
        (with("agentId", json!("ghost")), "unknown agent id \"ghost\""),
        // A session of somebody's choice could be one that is not sandboxed.
        (with("sessionTarget", json!("session:agent:main:main")), "/sessionTarget"),
        (with("sessionKey", json!("agent:main:main")), "leave sessionKey out"),
        (others_main, "default agent"),
        (main_turn, "needs payload.kind \"systemEvent\""),
        (with("payload", event), "needs payload.kind \"agentTurn\""),
        (with("payload", json!({ "kind": "agentTurn", "message": " " })), "must say something"),
        (with("payload", json!({ "kind": "agentTurn", "message": "a\0b" })), "null bytes"),
        (turn("n", hourly(), &"x".repeat(70_000)), "must NOT have more than 65536"),
        (turn(&"n".repeat(600), hourly(), "m"), "must NOT have more than 512"),
        (
            with("delivery", json!({ "mode": "webhook", "to": "http://127.0.0.1:1/" })),
            "/delivery/mode",
        ),
        (with("schedule", json!({ "kind": "every", "everyMs": 0 })), "must be >= 1"),
        (cron("nonsense", "UTC"), "`nonsense` is no crontab expression"),
        (cron("0 0 30 2 *", "UTC"), "never comes true"),
        (cron("0 9 * * *", "Mars/Base"), "there is no time zone `Mars/Base`"),
        (at("2020-01-01"), "is in the past"),
        (at("2099-01-01"), "too far in the future"),
        (at("tomorrow"), "`tomorrow` is no moment"),
    ] {
        let answer = call(&mut client, "cron.add", job.clone()).await;
        let message = answer["error"]["message"].as_str().unwrap_or_default();
        assert!(message.contains(said), "{job}\n{answer}");
    }
    for (method, params) in [
        ("cron.runs", json!({ "id": "../../secret" })),
        ("cron.runs", json!({ "scope": "job" })),
        ("cron.run", json!({})),
        ("cron.remove", json!({ "id": "" })),
        ("cron.update", json!({ "id": "x", "patch": { "state": {} } })),
        ("cron.list", json!({ "limit": 201 })),
    ] {
        let answer = call(&mut client, method, params.clone()).await;
        assert_eq!(answer["error"]["code"], "INVALID_REQUEST", "{method} {params}: {answer}");
    }
    assert!(!ground.home.path().join(".openclaw/cron/jobs.json").exists());
}

#[tokio::test(flavor = "multi_thread")]
async fn who_may_not_change_everything_plans_nothing_and_may_look() {
    let ground = Ground::new().await;
    let mut writer = ground.login(WRITER).await;
    let job = turn("n", hourly(), "m");
    for (method, params) in [
        ("cron.add", job.clone()),
        ("cron.update", json!({ "id": "x", "patch": {} })),
        ("cron.run", json!({ "id": "x" })),
        ("cron.remove", json!({ "id": "x" })),
    ] {
        let answer = call(&mut writer, method, params).await;
        assert_eq!(answer["error"]["message"], "missing scope: operator.admin", "{method}");
    }
    assert_eq!(call(&mut writer, "cron.list", json!({})).await["payload"]["total"], 0);
    // A page that only chats is not helped by a strong credential.
    let origin = Some(format!("http://localhost:{}", ground.address().port()));
    let headers = Headers { origin, ..Headers::default() };
    let mut page = Client::connect(ground.address(), &headers).await.unwrap();
    let challenge = page.challenge(WAIT).await.unwrap();
    let mut hello = connect(ALL, TOKEN);
    hello["params"]["client"]["id"] = json!("webchat");
    hello["params"]["client"]["mode"] = json!("webchat");
    hello["params"]["device"] = super::device();
    Devices::default().sign(&mut hello, &challenge, None, None).unwrap();
    page.send(hello.to_string()).await;
    let hello = page.response(&json!("c"), WAIT).await.unwrap();
    assert_eq!(hello["ok"], true, "{hello}");
    let answer = call(&mut page, "cron.add", job).await;
    assert_eq!(answer["error"]["message"], "webchat clients cannot change planned jobs");
    assert!(!ground.home.path().join(".openclaw/cron/jobs.json").exists());
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_missed_runs_once_and_what_was_cut_off_is_not_shown_as_running() {
    let server = ModelServer::start(|_| Reply::text("Done.").answer(WIRE));
    let past = now_ms() - 1_000_000;
    let job = |id: &str, schedule: Value, state: Value| {
        json!({ "id": id, "name": id, "enabled": true, "createdAtMs": 1, "updatedAtMs": 1,
                "schedule": schedule, "sessionTarget": "isolated", "wakeMode": "now",
                "payload": { "kind": "agentTurn", "message": id }, "state": state, "odd": [id] })
    };
    let every = json!({ "kind": "every", "everyMs": 60_000, "anchorMs": 5 });
    let once = json!({ "kind": "at", "at": Timestamp::from_millis(past).to_string() });
    let file = json!({ "version": 1, "jobs": [
        job("missed-once", once.clone(), json!({ "nextRunAtMs": past })),
        job("missed-often", every.clone(), json!({ "nextRunAtMs": past })),
        job("cut-off", every.clone(), json!({ "nextRunAtMs": past, "runningAtMs": past })),
        job("cut-off-once", once, json!({ "nextRunAtMs": past, "runningAtMs": past })),
        job("unplanned", every, json!({})),
        job("../out", json!({ "kind": "every", "everyMs": 1 }), json!({ "nextRunAtMs": past })),
        job("no-schedule", json!({ "kind": "sometimes" }), json!({ "nextRunAtMs": past })),
    ] });
    let ground = ground(&config(&server, ""), &file).await;
    let mut client = ground.login(ALL).await;
    // Those that began before we were there are told by the store.
    let ran =
        |jobs: &[Value]| jobs.iter().filter(|job| job["state"]["lastStatus"] == "ok").count() == 2;
    let mut all = jobs(&mut client, json!({ "enabled": "all", "sortBy": "name" })).await;
    while !ran(&all) {
        client.event("cron", WAIT).await.unwrap();
        all = jobs(&mut client, json!({ "enabled": "all", "sortBy": "name" })).await;
    }
    assert_eq!(server.received().len(), 2);
    let of = |name: &str| all.iter().find(|job| job["id"] == *name).unwrap();
    for name in ["missed-often", "cut-off", "unplanned"] {
        assert!(of(name)["state"]["nextRunAtMs"].as_u64().unwrap() > now_ms(), "{}", of(name));
    }
    assert_eq!(of("missed-once")["enabled"], false);
    for name in ["cut-off", "cut-off-once"] {
        let state = &of(name)["state"];
        assert_eq!((&state["lastStatus"], state.get("runningAtMs")), (&json!("error"), None));
        assert!(state["lastError"].as_str().unwrap().contains("in the middle"), "{state}");
    }
    // What it did is not done twice.
    assert_eq!(of("cut-off-once")["enabled"], false);
    let run = call(&mut client, "cron.run", json!({ "id": "../out" })).await;
    assert_eq!(run["ok"], false, "{run}");
    assert_eq!(store(ground.home.path())["jobs"][0]["odd"], json!(["missed-once"]));
    let kept: Vec<String> = std::fs::read_dir(ground.home.path().join(".openclaw/cron/runs"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    assert_eq!(kept.len(), 4, "{kept:?}");
    over(ground).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_that_fails_waits_longer_and_one_that_hangs_is_ended() {
    let server = ModelServer::start(|received| {
        let text = received.body.to_string();
        if text.contains("say nothing more") {
            return Reply::text("I think").answer(WIRE).cut(1, Piece::Hold);
        }
        Answer::error(400, "no such thing")
    });
    let ground = super::chat::ground(&server, "").await;
    let mut client = ground.login(ALL).await;
    let often = json!({ "kind": "every", "everyMs": 1 });
    let fails = add(&mut client, turn("fails", often.clone(), "fail")).await;
    let finished = told(&mut client, &fails, "finished").await;
    assert_eq!(
        (&finished["status"], &finished["deliveryStatus"]),
        (&json!("error"), &json!("unknown"))
    );
    let end = finished["runAtMs"].as_u64().unwrap() + finished["durationMs"].as_u64().unwrap();
    assert_eq!(finished["nextRunAtMs"], json!(end + 30_000), "{finished}");
    let failed = jobs(&mut client, json!({})).await.remove(0);
    let state = &failed["state"];
    assert_eq!((&state["lastStatus"], &state["consecutiveErrors"]), (&json!("error"), &json!(1)));
    assert_eq!(state["lastError"], finished["error"]);

    let mut hangs = turn("hangs", hourly(), "say nothing more");
    hangs["payload"]["timeoutSeconds"] = json!(1);
    let hangs = add(&mut client, hangs).await;
    assert_eq!(call(&mut client, "cron.run", json!({ "id": hangs["id"] })).await["ok"], true);
    let finished = told(&mut client, &hangs, "finished").await;
    assert!(finished["error"].as_str().unwrap().contains("too long"), "{finished}");
    over(ground).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_of_every_millisecond_leaves_room_for_others() {
    let server = ModelServer::start(|_| Reply::text("Done.").answer(WIRE));
    let ground = super::chat::ground(&server, "").await;
    let mut client = ground.login(ALL).await;
    let often = json!({ "kind": "every", "everyMs": 1 });
    let job = add(&mut client, turn("often", often, "x")).await;
    let finished = told(&mut client, &job, "finished").await;
    let end = finished["runAtMs"].as_u64().unwrap() + finished["durationMs"].as_u64().unwrap();
    assert!(finished["nextRunAtMs"].as_u64().unwrap() >= end + 2000, "{finished}");
    let started = told(&mut client, &job, "started").await;
    let started = told(&mut client, &job, "started").await["runAtMs"]
        .as_u64()
        .max(started["runAtMs"].as_u64());
    assert!(started.unwrap() >= end + 2000);
    // Removed while it runs or not: it does not come back.
    assert_eq!(call(&mut client, "cron.remove", json!({ "id": job["id"] })).await["ok"], true);
    told(&mut client, &job, "removed").await;
    assert_eq!(jobs(&mut client, json!({ "enabled": "all" })).await, Vec::<Value>::new());
    over(ground).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_store_that_is_broken_newer_or_full_is_left_alone() {
    let server = ModelServer::scripted(Vec::new());
    for (text, said) in [
        ("{broken".to_owned(), "is not valid"),
        (json!({ "version": 2, "jobs": [] }).to_string(), "version 2"),
        (
            json!({ "version": 1, "jobs": (0..1000).map(|n| json!({ "id": format!("j{n}"), "enabled": false })).collect::<Vec<_>>() }).to_string(),
            "1000 jobs are planned already",
        ),
    ] {
        let home = home(&config(&server, ""), &Value::Null);
        let path = home.path().join(".openclaw/cron/jobs.json");
        std::fs::write(&path, &text).unwrap();
        let running = gateway(home.path()).await;
        let ground = Ground { home, running };
        let mut client = ground.login(ALL).await;
        let answer = call(&mut client, "cron.add", turn("n", hourly(), "m")).await;
        let message = answer["error"]["message"].as_str().unwrap_or_default();
        assert!(message.contains(said), "{answer}");
        assert_eq!(std::fs::read_to_string(&path).unwrap(), text);
        ground.running.stop(Farewell::Stop).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_scheduler_that_is_switched_off_runs_only_what_is_asked_for_by_hand() {
    let server = ModelServer::start(|_| Reply::text("Done.").answer(WIRE));
    let off = ", cron: {enabled: false, store: '~/elsewhere/plans.json'}";
    let ground = super::chat::ground(&server, off).await;
    let mut client = ground.login(ALL).await;
    let job = add(&mut client, turn("due", json!({ "kind": "at", "at": soon(0) }), "x")).await;
    let status = call(&mut client, "cron.status", json!({})).await["payload"].clone();
    assert_eq!((&status["enabled"], &status["nextWakeAtMs"]), (&json!(false), &Value::Null));
    let elsewhere = ground.home.path().join("elsewhere/plans.json");
    assert_eq!(status["storePath"], elsewhere.to_str().unwrap());
    let hand = add(&mut client, turn("by hand", hourly(), "y")).await;
    assert_eq!(call(&mut client, "cron.run", json!({ "id": hand["id"] })).await["ok"], true);
    told(&mut client, &hand, "finished").await;
    let started = |frame: &Value| {
        frame["payload"]["jobId"] == job["id"] && frame["payload"]["action"] == "started"
    };
    // The look that began the other one would have begun this one first.
    assert!(client.take(std::time::Duration::from_millis(50), started).await.is_err());
    over(ground).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn of_two_gateways_of_one_state_directory_one_runs_the_jobs() {
    let server = ModelServer::start(|_| Reply::text("Done.").answer(WIRE));
    let first = super::chat::ground(&server, "").await;
    let mut owner = first.login(ALL).await;
    // It has looked at least once: this one is its.
    let seen = add(&mut owner, turn("seen", json!({ "kind": "at", "at": soon(100) }), "x")).await;
    told(&mut owner, &seen, "finished").await;
    let second = gateway(first.home.path()).await;
    let other = Ground { home: tempfile::tempdir().unwrap(), running: second };
    let mut guest = other.login(ALL).await;
    let job = add(&mut guest, turn("once", json!({ "kind": "at", "at": soon(100) }), "x")).await;
    let hand = add(&mut guest, turn("hand", hourly(), "x")).await;
    let run = call(&mut guest, "cron.run", json!({ "id": hand["id"] })).await;
    assert!(run["error"]["message"].as_str().unwrap().contains("another gateway"), "{run}");
    // Planned at the one, run by the other, once.
    told(&mut owner, &job, "finished").await;
    assert_eq!(server.received().len(), 2);
    // When the one goes, the other takes over.
    first.running.stop(Farewell::Stop).await;
    let late = add(&mut guest, turn("late", json!({ "kind": "at", "at": soon(100) }), "x")).await;
    assert_eq!(told(&mut guest, &late, "finished").await["status"], "ok");
    assert_eq!(server.received().len(), 3);
    super::chat::run(
        &Ground { home: first.home, running: other.running },
        &["sandbox", "remove", "--all", "--force"],
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_gateway_that_is_killed_in_the_middle_of_a_job_leaves_a_whole_store() {
    let server = ModelServer::start(|received| {
        if received.results() > 0 {
            return Reply::text("Done.").answer(WIRE);
        }
        let exec = json!({ "command": "echo ready; sleep 600" });
        Reply::default().call("exec", exec).answer(WIRE)
    });
    let home = home(&config(&server, ""), &Value::Null);
    let home = home.path();
    let first = Gateway::start(home);
    let mut client = first.login().await;
    assert_eq!(call(&mut client, "sessions.subscribe", json!({})).await["ok"], true);
    let job = add(&mut client, turn("work", hourly(), "work")).await;
    assert_eq!(call(&mut client, "cron.run", json!({ "id": job["id"] })).await["ok"], true);
    let is_update = |frame: &Value| frame["payload"]["data"]["phase"] == "update";
    client.take(WAIT, is_update).await.unwrap();
    let running = jobs(&mut client, json!({})).await;
    assert!(running[0]["state"]["runningAtMs"].is_u64(), "{running:?}");
    // Kills it: the process gets no chance to tidy up.
    drop(first);
    assert!(store(home)["jobs"][0]["state"]["runningAtMs"].is_u64());

    let second = Gateway::start(home);
    let mut client = second.login().await;
    let run = call(&mut client, "cron.run", json!({ "id": job["id"] })).await;
    assert_eq!(run["ok"], true, "{run}");
    told(&mut client, &job, "started").await;
    let runs = call(&mut client, "cron.runs", json!({ "id": job["id"] })).await["payload"].clone();
    let error = runs["entries"][0]["error"].as_str().unwrap_or_default();
    assert!(error.contains("in the middle of the run"), "{runs}");
    let state = &store(home)["jobs"][0]["state"];
    assert_eq!(state["lastStatus"], "error", "{state}");
    drop(second);
    let removed = program(home).args(["sandbox", "remove", "--all", "--force"]).output().unwrap();
    assert!(removed.status.success(), "{removed:?}");
}
