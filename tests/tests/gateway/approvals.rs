//! Approvals: asked by one, seen by those who may answer, answered by another, once.

use clawpen_engine::approvals_file::ApprovalsStore;
use clawpen_engine::audit::Door;
use clawpen_engine::broker::{Ask, Asker, Broker};
use clawpen_engine::clock::SystemClock;
use clawpen_engine::database::Database;
use clawpen_rules::approval::Coverage;
use clawpen_rules::approval::answer::{Looks, Word};
use clawpen_rules::approval::resolver::{Place, Resolver, Speaker};
use clawpen_rules::exec_host::{self, Security};
use clawpen_rules::ids::AgentId;
use clawpen_tests::replay::gateway_frames::client::Client;
use serde_json::{Value, json};
use std::os::unix::fs::MetadataExt as _;
use std::time::Duration;

use super::{ALL, Ground, WAIT, call};

const ASKER: &[&str] = &["operator.approvals"];

/// Sends a request without waiting for its answer; gives its id.
async fn send(client: &mut Client, method: &str, params: Value) -> Value {
    let id = clawpen_engine::random::uuid();
    let frame = json!({ "type": "req", "id": id, "method": method, "params": params });
    client.send(frame.to_string()).await;
    json!(id)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_question_is_seen_by_those_who_may_answer_and_answered_once() {
    let ground = Ground::new().await;
    let mut asker = ground.login(ASKER).await;
    let mut person = ground.login(ALL).await;
    let mut reader = ground.login(&["operator.read", "operator.write"]).await;
    let ask = json!({ "command": "rm -rf /x", "twoPhase": true, "agentId": "bot" });
    let id = send(&mut asker, "exec.approval.request", ask).await;
    let accepted = asker.response(&id, WAIT).await.unwrap();
    assert_eq!(accepted["payload"]["status"], "accepted", "{accepted}");
    let seen = person.event("exec.approval.requested", WAIT).await.unwrap();
    let approval = seen["payload"]["id"].as_str().unwrap().to_owned();
    assert_eq!(accepted["payload"]["id"], json!(approval));
    assert_eq!(seen["payload"]["request"]["command"], "rm -rf /x");
    let listed = call(&mut person, "exec.approval.list", json!({})).await;
    assert_eq!(listed["payload"][0]["id"], json!(approval), "{listed}");

    let yes = json!({ "id": approval, "decision": "allow-once" });
    let own = call(&mut asker, "exec.approval.resolve", yes.clone()).await;
    assert_eq!(own["ok"], false, "whoever asks does not answer: {own}");
    let refused = call(&mut reader, "exec.approval.resolve", yes.clone()).await;
    assert_eq!(refused["error"]["message"], "missing scope: operator.approvals");
    for guess in ["00000000", "zzz", &approval[1..], "%"] {
        let params = json!({ "id": guess, "decision": "allow-once" });
        let answer = call(&mut person, "exec.approval.resolve", params).await;
        assert_eq!(answer["error"]["details"]["reason"], "APPROVAL_NOT_FOUND", "{guess}: {answer}");
    }
    let prefix = json!({ "id": approval[..8].to_uppercase(), "decision": "deny" });
    assert_eq!(call(&mut person, "exec.approval.resolve", prefix).await["ok"], true);
    let told = asker.event("exec.approval.resolved", WAIT).await.unwrap();
    assert_eq!(told["payload"]["decision"], "deny");
    let done = asker.response(&id, WAIT).await.unwrap();
    assert_eq!(done["payload"]["decision"], "deny", "{done}");
    let late = call(&mut person, "exec.approval.resolve", yes).await;
    assert_eq!(late["error"]["details"]["reason"], "APPROVAL_NOT_FOUND", "{late}");
    let again = call(&mut asker, "exec.approval.waitDecision", json!({ "id": approval })).await;
    assert_eq!(again["payload"]["decision"], "deny", "{again}");
    assert!(reader.event("exec.approval.requested", Duration::from_millis(50)).await.is_err());
}

/// A page that may change everything may also answer for itself, as long as another one could.
#[tokio::test(flavor = "multi_thread")]
async fn an_admin_answers_what_it_asked_itself() {
    let ground = Ground::new().await;
    let mut admin = ground.login(ALL).await;
    let mut other = ground.login(ALL).await;
    let id = send(&mut admin, "exec.approval.request", json!({ "command": "id" })).await;
    let seen = admin.event("exec.approval.requested", WAIT).await.unwrap();
    let yes = json!({ "id": seen["payload"]["id"], "decision": "allow-once" });
    assert_eq!(call(&mut admin, "exec.approval.resolve", yes).await["ok"], true);
    let done = admin.response(&id, WAIT).await.unwrap();
    assert_eq!(done["payload"]["decision"], "allow-once", "{done}");
    let told = other.event("exec.approval.resolved", WAIT).await.unwrap();
    assert_eq!(told["payload"]["id"], seen["payload"]["id"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn nobody_is_waited_for_who_is_not_there_and_silence_is_no_answer() {
    let ground = Ground::new().await;
    let mut asker = ground.login(ALL).await;
    let alone = call(&mut asker, "exec.approval.request", json!({ "command": "id" })).await;
    assert_eq!(alone["payload"]["decision"], Value::Null, "{alone}");
    let mut person = ground.login(ALL).await;
    let short = json!({ "command": "id", "timeoutMs": 300, "id": "my-own" });
    let id = send(&mut asker, "exec.approval.request", short.clone()).await;
    let seen = person.event("exec.approval.requested", WAIT).await.unwrap();
    assert_eq!(seen["payload"]["id"], "my-own");
    let twice = call(&mut asker, "exec.approval.request", short).await;
    assert_eq!(twice["error"]["message"], "approval id already pending");
    // The connection is not held up by what waits on it.
    assert_eq!(call(&mut asker, "health", json!({})).await["ok"], true);
    let silent = asker.response(&id, WAIT).await.unwrap();
    assert_eq!(silent["payload"]["decision"], Value::Null, "{silent}");
    let late = json!({ "id": "my-own", "decision": "allow-once" });
    assert_eq!(call(&mut person, "exec.approval.resolve", late).await["ok"], false);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_other_processes_ask_and_answer_is_told_too() {
    let ground = Ground::new().await;
    let mut person = ground.login(ALL).await;
    let home = ground.home.path().to_str().unwrap().to_owned();
    let asked = tokio::task::spawn_blocking({
        let home = home.clone();
        move || with_broker(&home, |broker| broker.request(&ask()).unwrap().to_string())
    });
    let id = asked.await.unwrap();
    let seen = person.event("exec.approval.requested", WAIT).await.unwrap();
    assert_eq!(seen["payload"]["id"], json!(id));
    assert_eq!(seen["payload"]["request"]["cwd"], "/srv");
    tokio::task::spawn_blocking(move || {
        with_broker(&home, |broker| {
            let uid = std::fs::metadata(broker.database.path()).unwrap().uid();
            let speaker = Speaker::CliUser { uid };
            let resolver = Resolver { speaker, place: Place::Host };
            broker.resolve(&id, Word::AllowOnce, &resolver).unwrap();
        });
    })
    .await
    .unwrap();
    let told = person.event("exec.approval.resolved", WAIT).await.unwrap();
    assert_eq!(told["payload"]["decision"], "allow-once", "{told}");
}

fn with_broker<T>(home: &str, job: impl FnOnce(&Broker<'_>) -> T) -> T {
    let database = Database::open(&std::path::Path::new(home).join(".openclaw")).unwrap();
    let approvals = ApprovalsStore::of_home(home);
    job(&Broker { database: &database, approvals: &approvals, clock: &SystemClock })
}

fn ask() -> Ask<'static> {
    Ask {
        command: "make install",
        cwd: "/srv",
        session: Some("agent:bot:main"),
        agent: Box::leak(Box::new(AgentId::main())),
        plan: None,
        variables: &[],
        reasons: vec!["it is not on the list".to_owned()],
        security: Security::Allowlist,
        ask: exec_host::Ask::Always,
        fallback: Security::Deny,
        looks: Looks::Plain,
        coverage: Coverage::Missed,
        entries: &[],
        asker: Asker { door: Door::Mcp, client: None, agent_process: None },
        timeout: Duration::from_secs(60),
    }
}
