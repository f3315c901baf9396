//! The acceptance points of the specification (01, section 13), and where each is proven.
//!
//! | Point | Proven by |
//! |---|---|
//! | 1 slugs and the hash vector | `rules::scope`, `rules::config::fingerprint`; end to end below |
//! | 2 arguments of `docker create` | recorded rows (`cargo xtask replay`) |
//! | 3 refused binds | recorded rows, `rules::mounts` |
//! | 4 hot, cold, stopped | `clock.rs`; for containers `docker/lifecycle.rs` |
//! | 5 a failed setup | `complaints.rs`, `docker/lifecycle.rs` |
//! | 6 two first uses at once | `calls.rs`, `docker/lifecycle.rs` |
//! | 7 a registry that survives | `state.rs`, `cli/tests/kills.rs`; below |
//! | 8 prune | `clock.rs`, `rules::prune` |
//! | 9 files | `supervisor/tests/pen/files.rs`, the escape suite |
//! | 10 the browser's viewer and bridge | below, `rules::browser::bridge`; with a real browser `docker/browser.rs` |
//! | 11 list, recreate, explain | below, `calls.rs`, recorded rows |
//! | 12 session keys | `rules::session`, recorded rows; end to end below |

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, mpsc};
use std::time::Duration;

use clawpen_engine::browser::Viewer;
use clawpen_engine::browser::cdp::Cdp;
use clawpen_gateway::bridge::{About, Auth, Bridge, BridgeClock, BridgeError, Order, Settings};
use clawpen_rules::browser::ViewerPassword;
use clawpen_tests::home::{Home, Run};
use serde_json::json;

use crate::calls::rows;

const NATIVE: &str = "{agents: {defaults: {sandbox: {backend: 'native'}}, \
                      list: [{id: 'main'}, {id: 'work'}]}}";

#[test]
fn point_1_and_12_a_sandbox_has_the_references_name_whatever_the_key_is_written_like() {
    let home = Home::with_config(NATIVE);
    for session in ["main", "agent:main:main", "Agent:Main:Other"] {
        let run = home.run(&["exec", "--session", session, "--json", "--", "true"]);
        assert_eq!(run.code, Some(0), "{session}: {}", run.stderr);
        let name = run.json()["sandbox"]["name"].clone();
        assert_eq!(name, json!("openclaw-sbx-agent-main-f331f052"), "{session}");
    }
    let work = home.run(&["exec", "--agent", "work", "--session", "main", "--json", "--", "true"]);
    assert_ne!(work.json()["sandbox"]["name"], json!("openclaw-sbx-agent-main-f331f052"));
    let mut keys: Vec<_> = rows(&home).iter().map(|row| row["sessionKey"].clone()).collect();
    keys.sort_by_key(ToString::to_string);
    assert_eq!(keys, [json!("agent:main"), json!("agent:work")]);
}

#[test]
fn point_11_a_list_says_what_the_reference_says_and_makes_nothing() {
    let home = Home::new();
    let empty = home.run(&["sandbox", "list"]);
    assert_eq!((empty.code, empty.stdout.as_str()), (Some(0), "No sandboxes.\n"));
    let none = home.run(&["sandbox", "list", "--browser", "--json"]).json();
    assert_eq!((&none["containers"], &none["browsers"]), (&json!([]), &json!([])));
    assert!(!home.path(".openclaw/clawpen").exists());
    assert_eq!(home.run(&["exec", "--", "true"]).code, Some(0));
    let row = rows(&home).remove(0);
    let keys: Vec<&str> = row.as_object().unwrap().keys().map(String::as_str).collect();
    let expected = [
        "containerName",
        "backendId",
        "runtimeLabel",
        "sessionKey",
        "createdAtMs",
        "lastUsedAtMs",
        "image",
        "configLabelKind",
        "configHash",
        "running",
        "imageMatch",
        "clawpen",
    ];
    assert_eq!(keys, expected);
    let text = home.run(&["sandbox", "list"]).stdout;
    for part in
        ["Status:  🟢 running", "Backend: native", "Session: agent:main", "Total: 1 (1 running)"]
    {
        assert!(text.contains(part), "{part}\n{text}");
    }
    let invalid = Home::with_config("{agents: {defaults: {sandbox: {mode: 'bogus'}}}}");
    assert_eq!(invalid.run(&["sandbox", "list"]).code, Some(1));
}

#[test]
fn point_7_a_malformed_registry_of_the_reference_is_told_and_left_alone() {
    let home = Home::with_config(NATIVE).with_file(".openclaw/sandbox/containers.json", "{ torn");
    let listed = home.run(&["sandbox", "list", "--json"]);
    assert_eq!(listed.code, Some(0), "{}", listed.stderr);
    let problems = listed.json()["clawpen"]["problems"].to_string();
    assert!(problems.contains("containers.json"), "{problems}");
    assert_eq!(home.run(&["exec", "--", "true"]).code, Some(0));
    let file = home.path(".openclaw/sandbox/containers.json");
    assert_eq!(std::fs::read_to_string(file).unwrap(), "{ torn");
}

#[test]
fn point_11_an_engine_that_is_missing_is_told_and_nothing_runs_on_the_host() {
    let home = Home::with_config("{agents: {defaults: {sandbox: {mode: 'all'}}}}");
    let with = |args: &[&str]| {
        let mut command = home.command(args);
        Run::of(command.env("DOCKER_HOST", "unix:///nowhere/docker.sock"))
    };
    let run = with(&["exec", "--", "touch", "canary"]);
    assert_eq!(run.code, Some(125), "{}", run.stderr);
    assert!(run.stderr.contains("/nowhere/docker.sock"), "{}", run.stderr);
    assert!(!home.path("canary").exists());
    let listed = with(&["sandbox", "list", "--json"]);
    assert_eq!((listed.code, &listed.json()["containers"]), (Some(0), &json!([])));
    let removed = with(&["sandbox", "recreate", "--all", "--force"]);
    assert_eq!(removed.stdout, "No sandbox matches.\n");
}

const PASSWORD: &str = "aB3dE6gH";

/// The real bridge before a browser whose viewer is at port 6080, with a clock that tests set.
fn bridge_settings(auth: Auth, seconds: &Arc<AtomicU64>) -> Settings {
    let (orders, mut queue) = tokio::sync::mpsc::channel(4);
    std::thread::spawn(move || {
        while let Some(order) = queue.blocking_recv() {
            match order {
                Order::Start(answer) | Order::Stop(answer) => drop(answer.send(Ok(()))),
                Order::Viewer(answer) => {
                    let password = ViewerPassword::parse(PASSWORD).unwrap();
                    drop(answer.send(Some(Viewer { port: 6080, password })));
                }
            }
        }
    });
    let seconds = Arc::clone(seconds);
    Settings {
        auth,
        browser: About { cdp: Cdp::open_to_all(1), is_headless: false },
        clock: BridgeClock::of(move || Duration::from_secs(seconds.load(Ordering::SeqCst))),
        orders,
    }
}

fn ask(address: SocketAddr, line: &str, headers: &str) -> (u16, String) {
    let mut stream = TcpStream::connect(address).unwrap();
    let text = format!("{line} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n{headers}\r\n");
    stream.write_all(text.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let status = answer.split(' ').nth(1).unwrap().parse().unwrap();
    (status, answer)
}

#[test]
fn point_10_a_viewers_link_works_once_for_a_minute_and_the_bridge_lets_nobody_else_in() {
    let seconds = Arc::new(AtomicU64::new(0));
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let local: SocketAddr = "127.0.0.1:0".parse().unwrap();
    let auth = || Auth::default().with_token("the-bridges-own-token").with_password("pass");
    let refused = |address: &str, auth| {
        let opened = Bridge::open(address.parse().unwrap(), bridge_settings(auth, &seconds));
        runtime.block_on(opened).unwrap_err()
    };
    assert!(matches!(refused("0.0.0.0:0", auth()), BridgeError::NotLoopback { .. }));
    assert!(matches!(refused("127.0.0.1:0", Auth::default()), BridgeError::NoAuth));
    let bridge = runtime.block_on(Bridge::open(local, bridge_settings(auth(), &seconds))).unwrap();
    let address = bridge.address();
    let links: Vec<String> = (0..2).map(|_| bridge.observer_url().unwrap()).collect();
    let (end, ended) = tokio::sync::oneshot::channel::<()>();
    let (tell, told) = mpsc::channel();
    runtime.spawn(async move {
        let served = bridge.serve(async { drop(ended.await) }).await;
        tell.send(served.is_ok()).unwrap();
    });
    let target =
        |link: &str| format!("GET {}", link.strip_prefix(&format!("http://{address}")).unwrap());
    // Single use, and the secret only in the fragment.
    let token = links[0].rsplit_once("token=").unwrap().1;
    assert!(token.len() == 48 && token.bytes().all(|byte| byte.is_ascii_hexdigit()));
    let (status, page) = ask(address, &target(&links[0]), "");
    assert_eq!(status, 200, "{page}");
    let viewer = "http://127.0.0.1:6080/vnc.html#autoconnect=1&resize=remote&password=aB3dE6gH";
    assert!(page.contains(&format!("location.replace(\"{viewer}\")")), "{page}");
    assert_eq!(page.matches(PASSWORD).count(), 1);
    for header in
        ["cache-control: no-store, no-cache", "expires: 0", "referrer-policy: no-referrer"]
    {
        assert!(page.contains(header), "{header}: {page}");
    }
    let expect = |line: &str, headers: &str, status: u16, text: &str| {
        let (found, answer) = ask(address, line, headers);
        assert!(found == status && answer.ends_with(text), "{line} {headers}: {answer}");
    };
    expect(&target(&links[0]), "", 404, "Invalid or expired token");
    // 60 s.
    seconds.store(60, Ordering::SeqCst);
    expect(&target(&links[1]), "", 404, "Invalid or expired token");
    expect("GET /sandbox/novnc?token=00", "", 404, "Invalid or expired token");
    expect("GET /sandbox/novnc", "", 400, "Missing token");
    expect("GET /", "", 401, "Unauthorized");
    expect("GET /", "authorization: Bearer guess\r\n", 401, "Unauthorized");
    let own = "authorization: Bearer the-bridges-own-token\r\n";
    for page in [
        "origin: https://evil.example\r\n",
        "sec-fetch-site: cross-site\r\n",
        "referer: http://evil.example/\r\n",
    ] {
        for method in ["POST", "PUT", "PATCH", "DELETE"] {
            expect(&format!("{method} /stop"), &format!("{own}{page}"), 403, "Forbidden");
        }
    }
    for secret in [own, "x-openclaw-password: pass\r\n", "authorization: Basic YTpwYXNz\r\n"] {
        assert_eq!(ask(address, "GET /", secret).0, 200, "{secret}");
    }
    end.send(()).unwrap();
    assert!(told.recv_timeout(Duration::from_secs(20)).unwrap());
}
