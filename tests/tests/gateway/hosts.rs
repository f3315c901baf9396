//! Where an agent's commands run when a person sends its session to the host.

use std::path::PathBuf;

use clawpen_tests::model_server::{ModelServer, Reply};
use serde_json::{Value, json};

use super::chat::{WIRE, end, ground, login, over, said, say};
use super::{ALL, Ground, WAIT, call};

const COMMAND: &str = "readlink /proc/self/ns/pid > where; cat where";

/// A model that runs one command and repeats what it gave.
fn looks_around(command: &'static str) -> ModelServer {
    ModelServer::start(move |received| {
        let messages = received.body["messages"].as_array().unwrap();
        let last = messages.last().unwrap();
        let said = last["content"].as_str().unwrap_or_default();
        if last["role"] == "user" && !said.contains("Exec ") {
            return Reply::default().call("exec", json!({ "command": command })).answer(WIRE);
        }
        Reply::text(said).answer(WIRE)
    })
}

fn own() -> String {
    std::fs::read_link("/proc/self/ns/pid").unwrap().to_string_lossy().into_owned()
}

/// Says that the mode is off; the config is read anew with every call.
fn mode_off(ground: &Ground) {
    let path: PathBuf = ground.home.path().join(".openclaw/openclaw.json");
    std::fs::write(path, ground.config().replace("mode: 'all'", "mode: 'off'")).unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_record_that_names_the_host_leads_no_sandboxed_session_out() {
    let server = looks_around(COMMAND);
    let ground = ground(&server, "").await;
    let mut admin = login(&ground, ALL).await;
    // As the reference, or a mode that was off at the time, would have written it.
    let sessions = ground.home.path().join(".openclaw/agents/main/sessions");
    std::fs::create_dir_all(&sessions).unwrap();
    let record = json!({ "agent:main:main": { "sessionId": "11111111-1111-4111-8111-111111111111",
        "updatedAt": 1, "execHost": "gateway", "execSecurity": "full", "execAsk": "off" } });
    std::fs::write(sessions.join("sessions.json"), record.to_string()).unwrap();
    say(&mut admin, "stored", "look").await;
    let ended = end(&mut admin, "stored").await;
    assert!(said(&ended).contains("pid:[") && !said(&ended).contains(&own()), "{ended}");
    let patch = json!({ "key": "main", "execHost": "gateway" });
    let patched = call(&mut admin, "sessions.patch", patch).await;
    assert_eq!(patched["payload"]["entry"]["execHost"], "sandbox", "{patched}");
    say(&mut admin, "directive", "/exec host=gateway").await;
    assert!(said(&end(&mut admin, "directive").await).contains("host sandbox"));
    say(&mut admin, "after", "look").await;
    let ended = end(&mut admin, "after").await;
    assert!(said(&ended).contains("pid:[") && !said(&ended).contains(&own()), "{ended}");
    over(ground).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_mode_commands_stay_inside_until_a_person_sends_them_out() {
    let server = looks_around("touch canary");
    let ground = ground(&server, "").await;
    mode_off(&ground);
    let mut admin = login(&ground, ALL).await;
    let canary = ground.home.path().join(".openclaw/workspace/canary");
    say(&mut admin, "unset", "touch it").await;
    assert_eq!(said(&end(&mut admin, "unset").await), "(no output)");
    assert!(!canary.exists(), "nobody sent it to the host");
    let patch = json!({ "key": "main", "execHost": "gateway", "execSecurity": "allowlist",
                        "execAsk": "always" });
    let patched = call(&mut admin, "sessions.patch", patch).await;
    assert_eq!(patched["payload"]["entry"]["execHost"], "gateway", "{patched}");
    say(&mut admin, "sent", "touch it").await;
    end(&mut admin, "sent").await;
    let asked = admin.event("exec.approval.requested", WAIT).await.unwrap()["payload"].clone();
    assert_eq!(asked["request"]["turnSourceChannel"], "webchat", "{asked}");
    assert_eq!(asked["request"]["command"], "touch canary", "{asked}");
    assert!(!canary.exists());
    let allow = json!({ "id": asked["id"], "decision": "allow-once" });
    assert_eq!(call(&mut admin, "exec.approval.resolve", allow).await["ok"], true);
    let follow_up = format!("exec-approval-followup:{}", asked["id"].as_str().unwrap());
    let told = end(&mut admin, &follow_up).await;
    assert!(said(&told).contains("Exec finished") && said(&told).contains("code 0"), "{told}");
    assert_eq!(asked["request"]["cwd"], canary.parent().unwrap().to_str().unwrap());
    assert!(canary.exists(), "it was allowed and did not run");
    over(ground).await;
}

/// What people see of the mode that is in force.
#[tokio::test(flavor = "multi_thread")]
async fn a_model_is_told_where_its_commands_really_run() {
    let server = looks_around("true");
    let ground = ground(&server, "").await;
    let mut admin = login(&ground, ALL).await;
    say(&mut admin, "inside", "look").await;
    end(&mut admin, "inside").await;
    mode_off(&ground);
    let patch = json!({ "key": "main", "execHost": "gateway" });
    call(&mut admin, "sessions.patch", patch).await;
    say(&mut admin, "outside", "look").await;
    end(&mut admin, "outside").await;
    let system = |received: &Value| {
        let messages = received["messages"].as_array().unwrap();
        messages[0]["content"].to_string()
    };
    let asked = server.received();
    let (first, last) = (asked.first().unwrap(), asked.last().unwrap());
    assert!(!system(&first.body).contains("sent out of it"), "{}", first.body);
    assert!(system(&last.body).contains("sent out of it"), "{}", last.body);
    over(ground).await;
}
