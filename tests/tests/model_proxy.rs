//! Models behind a proxy: what the proxy hears, what it never hears, and what stops a request.
#![forbid(unsafe_code)]
#![expect(clippy::unwrap_used, reason = "a test without its set-up cannot go on")]

use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::thread::JoinHandle;

use clawpen_engine::config_store;
use clawpen_engine::models::talk::{Part, Said, Talk, Turn};
use clawpen_engine::models::{AskError, AskFailure, Client, HttpError, KeyError, Keys};
use clawpen_rules::ids::AgentId;
use clawpen_rules::models;
use clawpen_tests::home::Home;
use clawpen_tests::model_server::{KEY, ModelServer, Reply, Wire};

/// A home whose model is at an address that no machine has.
fn home(scheme: &str, variables: &str) -> Home {
    let config = format!(
        "{{ models: {{ providers: {{ far: {{ baseUrl: \"{scheme}://model.invalid/v1\", api: \"openai-completions\", apiKey: \"{KEY}\" }} }} }},
           agents: {{ defaults: {{ model: \"far/m\", sandbox: {{ mode: \"all\", backend: \"native\" }} }} }} }}"
    );
    Home::with_config(&config).with_file(".openclaw/.env", variables)
}

fn ask(home: &Home) -> Result<Turn, AskError> {
    let state = home.path(".openclaw");
    let store = config_store::open_in(state.to_str().unwrap()).unwrap();
    let model = models::decide(&store.loaded.config, &AgentId::main(), None).unwrap().model;
    let keys = Keys::find(&store, &model).unwrap();
    let talk = Talk {
        system: String::new(),
        messages: vec![Said::User(vec![Part::Text("canary-question".to_owned())])],
        tools: Vec::new(),
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(Client::default().ask(&model, &keys, &talk, &mut |_| {}))
}

/// What a caller asked for, and the first bytes after the answer.
type Heard = (String, Vec<u8>);

/// A proxy that gives each caller the next of these answers; what each caller said, before and after.
fn proxy(answers: &'static [&'static str]) -> (u16, JoinHandle<Vec<Heard>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let thread = std::thread::spawn(move || {
        let mut all = Vec::new();
        for answer in answers {
            let (mut stream, _) = listener.accept().unwrap();
            let mut asked = Vec::new();
            while !asked.ends_with(b"\r\n\r\n") {
                let mut byte = [0];
                stream.read_exact(&mut byte).unwrap();
                asked.push(byte[0]);
            }
            stream.write_all(answer.as_bytes()).unwrap();
            let mut after = vec![0; 4096];
            let count = stream.read(&mut after).unwrap_or(0);
            after.truncate(count);
            all.push((String::from_utf8(asked).unwrap(), after));
        }
        all
    });
    (port, thread)
}

#[test]
fn a_plain_server_is_asked_through_the_proxy_with_its_whole_address() {
    let server = ModelServer::scripted(vec![Reply::text("from afar").answer(Wire::OpenAi)]);
    let at = server.url().replace("http://", "http://me:p%40ss@");
    let turn = ask(&home("http", &format!("HTTP_PROXY={at}\n"))).unwrap();
    assert_eq!(turn.text(), "from afar");
    let sent = &server.received()[0];
    assert_eq!(sent.path, "http://model.invalid/v1/chat/completions");
    assert_eq!(sent.header("host"), Some("model.invalid"));
    assert_eq!(sent.header("proxy-authorization"), Some("Basic bWU6cEBzcw=="));
}

#[test]
fn through_a_tunnel_the_proxy_hears_neither_talk_nor_key() {
    let (port, heard) = proxy(&["HTTP/1.1 200 Connection established\r\nX: y\r\n\r\n"; 4]);
    let home = home("https", &format!("HTTPS_PROXY=http://me:secret-pw@127.0.0.1:{port}\n"));
    // No server is behind it, so there is no answer.
    let error = ask(&home).unwrap_err();
    assert!(matches!(error.cause, AskFailure::Http(HttpError::Connect { .. })), "{error:?}");
    for (asked, after) in heard.join().unwrap() {
        assert_eq!(
            asked,
            "CONNECT model.invalid:443 HTTP/1.1\r\nHost: model.invalid:443\r\n\
             Proxy-Authorization: Basic bWU6c2VjcmV0LXB3\r\n\r\n"
        );
        // The beginning of a TLS talk.
        assert_eq!(after[..2], [0x16, 0x03]);
        let after = String::from_utf8_lossy(&after).into_owned();
        assert!(!after.contains(KEY) && !after.contains("canary-question"), "{after}");
    }
}

#[test]
fn a_proxy_that_refuses_is_said_once_and_without_its_password() {
    let (port, heard) =
        proxy(&["HTTP/1.1 407 Proxy Authentication Required\r\nContent-Length: 0\r\n\r\n"]);
    let home = home("https", &format!("HTTPS_PROXY=http://me:secret-pw@127.0.0.1:{port}\n"));
    let error = ask(&home).unwrap_err();
    let said = format!("{error:?} {}", error.cause);
    assert!(said.contains("status 407") && said.contains("HTTPS_PROXY"), "{said}");
    assert!(!said.contains("secret-pw") && !said.contains(KEY), "{said}");
    let heard = heard.join().unwrap();
    assert_eq!((heard.len(), heard[0].1.len()), (1, 0), "asked again, or told more");
}

#[test]
fn a_proxy_that_cannot_be_used_stops_the_request_and_a_project_names_none() {
    let home = home("https", "HTTPS_PROXY=socks5://127.0.0.1:1\n");
    let state = home.path(".openclaw");
    let store = config_store::open_in(state.to_str().unwrap()).unwrap();
    let model = models::decide(&store.loaded.config, &AgentId::main(), None).unwrap().model;
    let error = Keys::find(&store, &model).unwrap_err();
    assert!(matches!(error, KeyError::Proxy(_)), "{error}");
    assert!(error.to_string().contains("HTTPS_PROXY"), "{error}");
    // Of the directory where the program is called.
    let server = ModelServer::scripted(vec![Reply::text("stolen").answer(Wire::OpenAi)]);
    let home = self::home("http", "")
        .with_file("project/.env", &format!("HTTP_PROXY={0}\nhttp_proxy={0}\n", server.url()));
    let mut command = home.command(&["chat", "--message", "hello"]);
    let run = clawpen_tests::home::Run::of(command.current_dir(home.path("project")));
    assert_eq!(run.code, Some(1), "{}", run.stdout);
    assert!(server.received().is_empty());
    assert!(run.stderr.contains("model.invalid"), "{}", run.stderr);
}
