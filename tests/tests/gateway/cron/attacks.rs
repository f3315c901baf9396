//! Clients that may not know, and stores that were written to do harm.

use std::time::Duration;

use super::*;

/// As much as a store may hold.
const MOST: usize = 16 * 1024 * 1024;

#[tokio::test(flavor = "multi_thread")]
async fn what_jobs_say_is_not_told_to_those_who_may_not_read() {
    let server = ModelServer::start(|_| Reply::text("the secret answer").answer(WIRE));
    let ground = super::super::chat::ground(&server, "").await;
    let mut client = ground.login(ALL).await;
    let mut blind = ground.login(&["operator.approvals", "operator.pairing"]).await;
    let job = turn("n", json!({ "kind": "at", "at": soon(0) }), "the secret question");
    let job = add(&mut client, job).await;
    told(&mut client, &job, "removed").await;
    for method in ["cron.list", "cron.runs", "cron.status"] {
        let refused = call(&mut blind, method, json!({})).await;
        assert_eq!(refused["ok"], false, "{refused}");
    }
    // What was told before has come by now.
    let told = blind.take(Duration::ZERO, |frame| frame["event"] == "cron").await;
    assert!(told.is_err(), "{told:?}");
    over(ground).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_that_cannot_begin_takes_no_other_with_it() {
    let server = ModelServer::start(|_| Reply::text("Done.").answer(WIRE));
    let due = |id: &str| {
        let schedule = json!({ "kind": "every", "everyMs": 3_600_000, "anchorMs": 1 });
        let mut job = turn(id, schedule, "x");
        job["id"] = json!(id);
        job["enabled"] = json!(true);
        job["state"] = json!({ "nextRunAtMs": 1 });
        job
    };
    let full = |padding: usize| json!({ "version": 1, "jobs": [due("one"), due("two")], "padding": "x".repeat(padding) });
    let size = |store: &Value| format!("{store:#}\n").len();
    // Room to write down that one of them runs, and not for the other.
    let padding = MOST - size(&full(0)) - 45;
    let home = home(&config(&server, ", cron: {maxConcurrentRuns: 2}"), &full(padding));
    let running = gateway(home.path()).await;
    let ground = Ground { home, running };
    let begun = std::time::Instant::now();
    while server.received().is_empty() {
        assert!(begun.elapsed() < WAIT, "the first one does not run");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    ground.running.stop(Farewell::Stop).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn thousands_of_jobs_that_are_never_due_hold_up_nobody() {
    let server = ModelServer::start(|_| Reply::text("Done.").answer(WIRE));
    let never = |n: usize| {
        let schedule = json!({ "kind": "cron", "expr": "59 59 23 30 2 *", "tz": "Europe/Berlin" });
        let mut job = turn("never", schedule, "x");
        job["id"] = json!(format!("never-{n}"));
        job["enabled"] = json!(true);
        job
    };
    let jobs: Vec<Value> = (0..2_000).map(never).collect();
    let home = home(&config(&server, ""), &json!({ "version": 1, "jobs": jobs }));
    let running = gateway(home.path()).await;
    let ground = Ground { home, running };
    let mut client = ground.login(ALL).await;
    // They are looked through little by little; what is asked for comes through meanwhile.
    let ran = call(&mut client, "cron.run", json!({ "id": "never-7" })).await;
    assert_eq!(ran["ok"], true, "{ran}");
    told(&mut client, &json!({ "id": "never-7" }), "finished").await;
    let removed = call(&mut client, "cron.remove", json!({ "id": "never-8" })).await;
    assert_eq!(removed["payload"]["removed"], true, "{removed}");
    over(ground).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_store_of_odd_numbers_and_depths_neither_ends_nor_empties_the_gateway() {
    let server = ModelServer::start(|_| Reply::text("Done.").answer(WIRE));
    let text = |schedule: &str, state: &str, n: usize| {
        format!(
            r#"{{"id":"odd-{n}","name":"odd","enabled":true,"sessionTarget":"isolated","payload":{{"kind":"agentTurn","message":"x"}},"schedule":{schedule},"state":{state}}}"#
        )
    };
    let schedules = [
        r#"{"kind":"every","everyMs":-1}"#,
        r#"{"kind":"every","everyMs":1e308}"#,
        r#"{"kind":"every","everyMs":18446744073709551615,"anchorMs":18446744073709551615}"#,
        r#"{"kind":"every","everyMs":1,"anchorMs":-5}"#,
        r#"{"kind":"at","at":"9999-12-31T23:59:59.999Z"}"#,
        r#"{"kind":"at","at":"-000001-01-01T00:00:00Z"}"#,
        r#"{"kind":"at","at":"253402300799999"}"#,
        r#"{"kind":"at","at":7}"#,
        r#"{"kind":"cron","expr":"* * * * * *","staggerMs":18446744073709551615}"#,
        r#"{"kind":"cron","expr":"30 2 29 2 +1","tz":"America/Sao_Paulo"}"#,
        r#"{"kind":"cron","expr":"*/5 * * * *","tz":"../../etc/passwd"}"#,
        r#"{"kind":["cron"],"expr":{"a":1}}"#,
        "null",
        "[[[[[[[[[[[[[[[[1]]]]]]]]]]]]]]]]",
    ];
    let states = [
        r#"{"nextRunAtMs":-1,"lastRunAtMs":18446744073709551615}"#,
        r#"{"nextRunAtMs":18446744073709551615,"consecutiveErrors":18446744073709551615}"#,
        r#"{"runningAtMs":18446744073709551615}"#,
        r#"{"runningAtMs":1,"nextRunAtMs":0,"consecutiveErrors":-1}"#,
        r#"{"nextRunAtMs":1e300}"#,
        "7",
    ];
    let mut jobs = Vec::new();
    for schedule in schedules {
        for state in states {
            jobs.push(text(schedule, state, jobs.len()));
        }
    }
    let home = home(&config(&server, ", cron: {maxConcurrentRuns: 16}"), &Value::Null);
    let path = home.path().join(".openclaw/cron/jobs.json");
    std::fs::write(&path, format!(r#"{{"version":1,"jobs":[{}]}}"#, jobs.join(","))).unwrap();
    let running = gateway(home.path()).await;
    let ground = Ground { home, running };
    let mut client = ground.login(ALL).await;
    let hourly = add(&mut client, turn("good", hourly(), "x")).await;
    assert_eq!(call(&mut client, "cron.run", json!({ "id": hourly["id"] })).await["ok"], true);
    let finished = told(&mut client, &hourly, "finished").await;
    assert_eq!(finished["status"], "ok", "{finished}");
    for method in ["cron.list", "cron.runs", "cron.status"] {
        let answer = call(&mut client, method, json!({})).await;
        assert_eq!(answer["ok"], true, "{answer}");
    }
    assert_eq!(store(ground.home.path())["jobs"].as_array().unwrap().len(), jobs.len() + 1);
    over(ground).await;
}
