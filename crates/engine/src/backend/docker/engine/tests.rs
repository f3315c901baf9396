//! Engines that are silent, frozen, another's or no engine at all.

use std::io::{Read as _, Write as _};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;

use serde_json::{Value, json};

use super::*;
use crate::backend::docker::endpoint::TlsFiles;

/// As long as a test may take at most; what hangs would take longer.
const PROMPT: Duration = Duration::from_secs(20);

fn connect(endpoint: &Endpoint) -> Result<Engine, DockerFailure> {
    Engine::connect(endpoint, Patience::Brief)
}

/// Answers each request as told by its first line; `None` is silence, on a connection that stays.
fn fake(socket: &Path, answer: fn(&str) -> Option<Vec<u8>>) -> Endpoint {
    let listener = UnixListener::bind(socket).unwrap();
    std::thread::spawn(move || {
        let mut silent: Vec<UnixStream> = Vec::new();
        for mut client in listener.incoming().flatten() {
            let mut request = [0; 4096];
            // A connection that only looks who is there ends without a word.
            let Ok(length @ 1..) = client.read(&mut request) else { continue };
            let text = String::from_utf8_lossy(&request[..length]).into_owned();
            if let Some(answer) = answer(text.lines().next().unwrap_or_default()) {
                drop(client.write_all(&answer));
            }
            silent.push(client);
        }
    });
    Endpoint::Unix(socket.to_owned())
}

fn ok(body: &Value) -> Vec<u8> {
    let body = body.to_string();
    let head = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length:";
    format!("{head} {}\r\n\r\n{body}", body.len()).into_bytes()
}

fn version(request: &str) -> Option<Vec<u8>> {
    request.contains("/version").then(|| ok(&json!({"ApiVersion": "1.41"})))
}

#[track_caller]
fn check_frozen<T: std::fmt::Debug>(answer: Result<T, DockerFailure>, since: Instant) {
    assert!(matches!(answer, Err(DockerFailure::Frozen { .. })), "{answer:?}");
    assert!(since.elapsed() < PROMPT, "{:?}", since.elapsed());
}

#[test]
fn an_engine_that_takes_a_request_and_says_nothing_is_given_up() {
    let directory = tempfile::tempdir().unwrap();
    let endpoint = fake(&directory.path().join("s"), |_| None);
    let start = Instant::now();
    check_frozen(connect(&endpoint), start);
}

#[test]
fn an_engine_that_begins_an_answer_and_falls_silent_is_given_up_and_left_alone() {
    let directory = tempfile::tempdir().unwrap();
    let endpoint = fake(&directory.path().join("s"), |request| {
        let begun = || b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n[".to_vec();
        version(request).or_else(|| Some(begun()))
    });
    let engine = connect(&endpoint).unwrap();
    let start = Instant::now();
    check_frozen(engine.labelled("x"), start);
    // Of many further questions none waits.
    for _ in 0..100 {
        check_frozen(engine.inspect("x"), start);
    }
}

#[test]
fn an_engine_whose_queue_is_full_is_given_up() {
    let directory = tempfile::tempdir().unwrap();
    let socket = directory.path().join("s");
    let listener = rustix::net::socket(
        rustix::net::AddressFamily::UNIX,
        rustix::net::SocketType::STREAM,
        None,
    )
    .unwrap();
    let address = rustix::net::SocketAddrUnix::new(&socket).unwrap();
    rustix::net::bind(&listener, &address).unwrap();
    rustix::net::listen(&listener, 0).unwrap();
    let _first = UnixStream::connect(&socket).unwrap();
    check_frozen(connect(&Endpoint::Unix(socket)), Instant::now());
}

#[test]
fn an_engine_is_known_by_its_own_name_or_by_where_it_stands() {
    let directory = tempfile::tempdir().unwrap();
    let named = fake(&directory.path().join("named"), |request| {
        version(request).or_else(|| Some(ok(&json!({"ID": "ABCD"}))))
    });
    let nameless = fake(&directory.path().join("nameless"), |request| {
        version(request).or_else(|| Some(ok(&json!({}))))
    });
    assert_eq!(connect(&named).unwrap().key("unix:///s").unwrap(), "docker ABCD");
    assert_eq!(connect(&nameless).unwrap().key("unix:///s").unwrap(), "at unix:///s");
}

#[test]
fn an_engine_that_is_not_there_is_told_from_one_that_is_down() {
    let directory = tempfile::tempdir().unwrap();
    let socket = directory.path().join("s");
    let endpoint = Endpoint::Unix(socket.clone());
    assert!(matches!(connect(&endpoint), Err(DockerFailure::NoEngine { .. })));
    drop(std::os::unix::net::UnixListener::bind(&socket).unwrap());
    assert!(matches!(connect(&endpoint), Err(DockerFailure::EngineDown { .. })));
}

#[test]
fn certificates_that_are_missing_are_named() {
    let directory = tempfile::tempdir().unwrap();
    let file = |name| directory.path().join(name);
    let files = TlsFiles { ca: file("ca"), certificate: file("c"), key: file("k") };
    let endpoint = Endpoint::Tls { address: "127.0.0.1:1".to_owned(), files };
    let failure = connect(&endpoint).unwrap_err();
    assert!(failure.to_string().contains(&file("ca").display().to_string()), "{failure}");
}

#[track_caller]
fn check(version: Value, expected: Result<Make, &str>) {
    let version: SystemVersion = serde_json::from_value(version).unwrap();
    let endpoint = Endpoint::Unix("/s".into());
    let found = check_version(&version, &endpoint).map(|()| make(&version));
    let found = found.map_err(|failure| failure.to_string());
    match (&found, expected) {
        (Ok(found), Ok(expected)) => assert_eq!(*found, expected),
        (Err(said), Err(part)) => assert!(said.contains(part), "{said}"),
        other => panic!("{other:?}"),
    }
}

#[test]
fn an_engine_of_another_kind_or_age_is_refused() {
    let ours = crate::backend::docker::architecture();
    let engine = json!([{"Name": "Engine", "Version": "20.10.24"}]);
    check(
        json!({"ApiVersion": "1.41", "Os": "linux", "Arch": ours, "Components": engine}),
        Ok(Make::Docker),
    );
    let podman = json!([{"Name": "Podman Engine", "Version": "4.3.1"}]);
    check(json!({"ApiVersion": "1.41", "Components": podman}), Ok(Make::Podman));
    check(json!({"ApiVersion": "1.40", "Version": "19.03.1"}), Err("19.03.1"));
    check(json!({"ApiVersion": "1.54", "Os": "linux", "Arch": "s390x"}), Err("linux/s390x"));
    check(json!({"ApiVersion": "1.54", "Os": "windows", "Arch": ours}), Err("windows/"));
}
