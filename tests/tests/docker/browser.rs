//! A session's browser: the real binary, a real engine, a real Chromium.
//!
//! An engine that the tests started has a network of its own, so the bridge and whoever calls it are put there too:
//! what is published on the loopback address is published on that one.

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use clawpen_tests::docker::{BASE, BROWSER, Place};
use clawpen_tests::home::Run;
use nix::sched::{CloneFlags, setns};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::{Value, json};

use crate::container::docker;
use crate::yard::Yard;

const PATIENCE: Duration = Duration::from_secs(60);

/// A home with a browser in its config.
struct Stage {
    yard: Yard,
    network: String,
    /// Where the engine's loopback address is, if not here.
    engines_network: Option<PathBuf>,
}

impl Stage {
    fn new(browser: &str) -> Result<Option<Self>> {
        let Some(place) = Place::with_browser()? else { return Ok(None) };
        let pid = std::fs::read_to_string(place.socket.with_file_name("pid")).ok();
        let engines_network = pid.map(|pid| PathBuf::from(format!("/proc/{}/ns/net", pid.trim())));
        let yard = Yard::on(place, BASE, "")?;
        let (prefix, work) = (&yard.prefix, yard.home.path("work"));
        let network = format!("{prefix}net");
        let config = format!(
            "{{tools: {{sandbox: {{tools: {{allow: ['*'], deny: []}}}}}}, agents: {{defaults: {{workspace: '{}', \
             sandbox: {{mode: 'all', backend: 'docker', workspaceAccess: 'rw', \
             docker: {{image: '{BASE}', containerPrefix: '{prefix}', setupCommand: 'exit 3'}}, \
             browser: {{enabled: true, image: '{BROWSER}', containerPrefix: '{prefix}b-', network: '{network}', \
             autoStartTimeoutMs: 60000, {browser}}}}}}}}}}}",
            work.display()
        );
        std::fs::write(yard.home.path(".openclaw/openclaw.json"), config)?;
        Ok(Some(Self { yard, network, engines_network }))
    }

    fn command(&self, args: &[&str]) -> Command {
        let inner = self.yard.command(args);
        let Some(network) = &self.engines_network else { return inner };
        let mut command = Command::new("nsenter");
        command.arg(format!("--net={}", network.display())).arg(inner.get_program());
        command.args(inner.get_args()).env_clear().stdin(Stdio::null());
        let set = inner.get_envs().filter_map(|(name, value)| Some((name, value?)));
        command.envs(set).current_dir(self.yard.home.path(""));
        command
    }

    /// Opens a bridge and waits until it says where it is.
    fn open(&self) -> Result<Bridge<'_>> {
        let mut command = self.command(&["sandbox", "browser", "--json"]);
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
        let output = child.stdout.take().context("piped")?;
        let mut told = serde_json::Deserializer::from_reader(output).into_iter::<Value>();
        let Some(Ok(told)) = told.next() else {
            let mut said = String::new();
            child.stderr.take().context("piped")?.read_to_string(&mut said)?;
            child.wait()?;
            bail!("no bridge: {said}");
        };
        Ok(Bridge { child, told, stage: self })
    }

    fn refused(&self) -> String {
        let run = Run::of(&mut self.command(&["sandbox", "browser", "--json"]));
        assert_eq!((run.code, run.stdout.as_str()), (Some(1), ""));
        run.stderr
    }

    fn docker(&self, args: &[&str]) -> Result<String> {
        let output = docker(&self.yard.place, args).output()?;
        Ok(String::from_utf8(output.stdout)?.trim().to_owned())
    }

    /// A connection to a port of the engine's loopback address.
    fn connect(&self, port: u16) -> Result<TcpStream> {
        let network = self.engines_network.clone();
        let connect = move || -> Result<TcpStream> {
            if let Some(network) = network {
                // This thread alone, which ends here; the socket stays where it was made.
                setns(File::open(network)?, CloneFlags::CLONE_NEWNET)?;
            }
            Ok(TcpStream::connect(("127.0.0.1", port))?)
        };
        let stream = std::thread::spawn(connect).join();
        let stream = stream.map_err(|_panicked| anyhow::anyhow!("the thread broke"))??;
        stream.set_read_timeout(Some(PATIENCE))?;
        Ok(stream)
    }

    fn browsers(&self) -> Value {
        self.yard.run(&["sandbox", "list", "--browser", "--json"]).json()["browsers"].clone()
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        for id in self.yard.containers().unwrap_or_default() {
            drop(self.docker(&["rm", "--force", &id]));
        }
        drop(self.docker(&["network", "rm", &self.network]));
    }
}

/// What a request came to.
#[derive(Debug)]
struct Answer {
    status: u16,
    head: String,
    body: String,
}

/// A bridge that is open.
struct Bridge<'a> {
    child: Child,
    told: Value,
    stage: &'a Stage,
}

impl Bridge<'_> {
    fn text(&self, key: &str) -> &str {
        self.told[key].as_str().unwrap_or_default()
    }

    fn port(&self) -> Result<u16> {
        let (_, port) = self.text("bridge").rsplit_once(':').context("no port")?;
        Ok(port.parse()?)
    }

    /// A request with these headers only; a `Host` unless there is one.
    fn plain(&self, line: &str, headers: &[(&str, &str)], body: &str) -> Result<Answer> {
        request(self.stage.connect(self.port()?)?, line, headers, body)
    }

    fn ask(&self, line: &str, body: &Value) -> Result<Answer> {
        let bearer = format!("Bearer {}", self.text("token"));
        self.plain(line, &[("authorization", &bearer)], &body.to_string())
    }

    /// The same where all goes well.
    fn done(&self, line: &str, body: &Value) -> Result<Value> {
        let answer = self.ask(line, body)?;
        ensure!(answer.status == 200, "{line}: {} {}", answer.status, answer.body);
        serde_json::from_str(&answer.body).with_context(|| answer.body.clone())
    }

    fn close(mut self) -> Result<()> {
        kill(Pid::from_raw(i32::try_from(self.child.id())?), Signal::SIGINT)?;
        let status = self.child.wait()?;
        ensure!(status.code() == Some(0), "the bridge ended with {status}");
        Ok(())
    }
}

impl Drop for Bridge<'_> {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

fn request(
    mut stream: TcpStream,
    line: &str,
    headers: &[(&str, &str)],
    body: &str,
) -> Result<Answer> {
    let mut text =
        format!("{line} HTTP/1.1\r\nconnection: close\r\ncontent-length: {}\r\n", body.len());
    if !headers.iter().any(|(name, _)| *name == "host") {
        text.push_str("host: 127.0.0.1\r\n");
    }
    text.extend(headers.iter().flat_map(|(name, value)| [*name, ": ", *value, "\r\n"]));
    text.push_str("\r\n");
    stream.write_all(text.as_bytes())?;
    // One that is refused by its head closes before all of it is sent.
    drop(stream.write_all(body.as_bytes()));
    let mut answer = Vec::new();
    drop(stream.read_to_end(&mut answer));
    let answer = String::from_utf8_lossy(&answer).into_owned();
    let (head, body) = answer.split_once("\r\n\r\n").with_context(|| answer.clone())?;
    let status = head.split(' ').nth(1).context("no status")?.parse()?;
    Ok(Answer { status, head: head.to_ascii_lowercase(), body: body.to_owned() })
}

#[test]
fn a_browser_is_driven_watched_found_again_and_leaves_nothing() -> Result<()> {
    let Some(stage) = Stage::new("")? else { return Ok(()) };
    let bridge = stage.open()?;
    let status = bridge.done("GET /", &json!({}))?;
    assert_eq!((&status["running"], &status["attachOnly"]), (&json!(true), &json!(true)));
    assert!(
        status["chosenBrowser"].as_str().unwrap_or_default().starts_with("Chrome/"),
        "{status}"
    );
    drive(&bridge)?;
    let password = watch(&bridge)?;
    let id = bridge.text("container").to_owned();
    check_container(&stage, &id, &password)?;
    let row = stage.browsers()[0].clone();
    assert_eq!((&row["containerName"], &row["running"]), (&bridge.told["browser"], &json!(true)));
    assert_eq!(row["imageMatch"], json!(true), "{row}");
    // Recorded while it lasts: whoever is killed records no end.
    let record = stage.yard.run(&["audit", "--json"]);
    assert!(record.stdout.contains("a browser is used from here on"), "{}", record.stdout);
    bridge.close()?;
    // It outlives the bridge, and the next one finds it as it was.
    let again = stage.open()?;
    assert_eq!(again.text("container"), id);
    assert_ne!(again.text("token"), "");
    assert_eq!(again.done("GET /tabs", &json!({}))?["tabs"].as_array().map(Vec::len), Some(2));
    assert_eq!(again.done("POST /stop", &json!({}))?["stopped"], json!(true));
    assert_eq!(again.done("GET /", &json!({}))?["running"], json!(false));
    assert_eq!(again.done("GET /tabs", &json!({}))?["running"], json!(false));
    assert_eq!(again.done("POST /start", &json!({}))?["started"], json!(true));
    assert_ne!(watch_url(&again)?, None);
    // A bridge that is open keeps it.
    let kept = stage.yard.run(&["sandbox", "prune", "--json"]);
    assert_eq!(kept.code, Some(0), "{}", kept.stderr);
    assert_eq!(stage.yard.containers()?, [id]);
    again.close()?;
    let gone = stage.yard.run(&["sandbox", "recreate", "--browser", "--all", "--force"]);
    assert_eq!(gone.code, Some(0), "{}", gone.stderr);
    assert_eq!((stage.yard.containers()?, stage.browsers()), (Vec::new(), json!([])));
    let places = stage.yard.home.path(".openclaw/clawpen/docker/run");
    assert_eq!(std::fs::read_dir(places)?.count(), 0);
    Ok(())
}

fn drive(bridge: &Bridge<'_>) -> Result<()> {
    let page = "data:text/html,<title>Pen</title><h1>Hello from the pen</h1>";
    let tab = bridge.done("POST /tabs/open", &json!({ "url": page }))?;
    assert_eq!(tab["title"], json!("Pen"), "{tab}");
    let target = tab["targetId"].as_str().context("no id")?.to_owned();
    let seen = bridge.done(&format!("GET /snapshot?targetId={target}"), &json!({}))?;
    assert_eq!((&seen["title"], &seen["snapshot"]), (&json!("Pen"), &json!("Hello from the pen")));
    let picture = bridge.done("POST /screenshot", &json!({ "targetId": target }))?;
    let png = STANDARD.decode(picture["data"].as_str().unwrap_or_default())?;
    assert!(png.starts_with(b"\x89PNG\r\n\x1a\n") && png.len() > 1000, "{} bytes", png.len());
    // A server of the browser's own machine: the page of one of its relays.
    let to = json!({ "url": "http://127.0.0.1:6081/vnc.html", "targetId": target });
    let went = bridge.done("POST /navigate", &to)?;
    assert_eq!(went["url"], json!("http://127.0.0.1:6081/vnc.html"));
    assert_eq!(bridge.done("GET /snapshot", &json!({}))?["title"], json!("noVNC"));
    let other = bridge.done("POST /tabs/open", &json!({ "url": "about:blank" }))?;
    let other = other["targetId"].as_str().context("no id")?.to_owned();
    assert_eq!(
        bridge.done("POST /tabs/focus", &json!({ "targetId": target }))?,
        json!({ "ok": true })
    );
    assert_eq!(bridge.done(&format!("DELETE /tabs/{other}"), &json!({}))?, json!({ "ok": true }));
    let tabs = bridge.done("GET /tabs", &json!({}))?;
    let urls: Vec<&str> = tabs["tabs"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(|tab| tab["url"].as_str())
        .collect();
    assert!(urls.contains(&"http://127.0.0.1:6081/vnc.html") && urls.len() == 2, "{urls:?}");
    assert_eq!(bridge.ask(&format!("DELETE /tabs/{other}"), &json!({}))?.status, 404);
    assert_eq!(bridge.ask("POST /act", &json!({}))?.status, 501);
    assert_eq!(bridge.ask("GET /nowhere", &json!({}))?.status, 404);
    Ok(())
}

fn watch_url(bridge: &Bridge<'_>) -> Result<Option<String>> {
    let url = bridge.text("observerUrl");
    let (_, target) = url.split_once("/sandbox/").context("no link")?;
    let page = bridge.plain(&format!("GET /sandbox/{target}"), &[], "")?;
    let url =
        page.body.split_once("location.replace(\"").and_then(|(_, rest)| rest.split_once('"'));
    Ok(url.map(|(url, _)| url.to_owned()))
}

/// Uses the link up, and looks at what it leads to. Gives the password.
fn watch(bridge: &Bridge<'_>) -> Result<String> {
    let url = watch_url(bridge)?.context("no viewer")?;
    let (sent, kept) = url.split_once('#').context("no fragment")?;
    let (_, password) = kept.rsplit_once("password=").context("no password")?;
    assert!(!sent.contains(password));
    assert_eq!(watch_url(bridge)?, None, "the link worked twice");
    let (_, port) = sent.trim_end_matches("/vnc.html").rsplit_once(':').context("no port")?;
    let viewer = request(bridge.stage.connect(port.parse()?)?, "GET /vnc.html", &[], "")?;
    assert_eq!(viewer.status, 200);
    assert!(viewer.body.contains("noVNC"));
    Ok(password.to_owned())
}

/// What the engine and the kernel say of it.
fn check_container(stage: &Stage, id: &str, password: &str) -> Result<()> {
    let text = stage.docker(&["inspect", id])?;
    // The engine, and whoever may ask it, does not know the way to the screen, nor to the control port.
    assert!(!text.contains(password) && !text.contains("AUTH_TOKEN"));
    let seen: Value = serde_json::from_str(&text)?;
    let host = &seen[0]["HostConfig"];
    assert_eq!((&host["ReadonlyRootfs"], &host["CapDrop"]), (&json!(true), &json!(["ALL"])));
    assert_eq!((&host["Privileged"], &host["NetworkMode"]), (&json!(false), &json!(stage.network)));
    for (port, bindings) in seen[0]["NetworkSettings"]["Ports"].as_object().context("no ports")? {
        for binding in bindings.as_array().into_iter().flatten() {
            assert_eq!(binding["HostIp"], json!("127.0.0.1"), "{port}");
        }
    }
    let processes = stage.docker(&["top", id, "-eo", "pid,comm"])?;
    let browsers = processes.lines().filter(|line| line.contains("chrom"));
    let pids: Vec<&str> = browsers.filter_map(|line| line.split_whitespace().next()).collect();
    assert!(!pids.is_empty(), "{processes}");
    for pid in pids {
        let Ok(status) = std::fs::read_to_string(format!("/proc/{pid}/status")) else { continue };
        for fact in [
            "NoNewPrivs:\t1",
            "Seccomp:\t2",
            "CapEff:\t0000000000000000",
            "CapBnd:\t0000000000000000",
            "Uid:\t1000",
        ] {
            assert!(status.contains(fact), "{fact}: {status}");
        }
    }
    Ok(())
}

#[test]
fn nobody_else_drives_a_browser_and_it_goes_nowhere_it_should_not() -> Result<()> {
    let Some(stage) = Stage::new("")? else { return Ok(()) };
    // A network where containers reach each other, as somebody else may have made it.
    stage.docker(&["network", "create", "--driver", "bridge", &stage.network])?;
    let bridge = stage.open()?;
    let bearer = format!("Bearer {}", bridge.text("token"));
    let own = ("authorization", bearer.as_str());
    for (line, headers, status) in [
        // A page of another site, with all that it could ever send and more.
        ("POST /tabs/open", &[own, ("origin", "https://evil.example")][..], 403),
        ("POST /stop", &[own, ("sec-fetch-site", "cross-site")], 403),
        ("DELETE /tabs/x", &[own, ("referer", "https://evil.example/")], 403),
        ("POST /stop", &[own, ("origin", "null")], 403),
        // A name that was made to point here.
        ("GET /", &[own, ("host", "evil.example")], 403),
        ("GET /sandbox/novnc?token=x", &[("host", "rebound.example:80")], 403),
        // Guesses.
        ("GET /", &[], 401),
        ("GET /", &[("authorization", "Bearer 0000000000000000")], 401),
        ("GET /", &[("authorization", "Basic YTpi")], 401),
        ("GET /", &[("x-openclaw-password", "")], 401),
        ("GET /sandbox/novnc", &[], 400),
        ("GET /sandbox/novnc?token=00", &[], 404),
        ("POST /sandbox/novnc?token=00", &[], 401),
    ] {
        let answer = bridge.plain(line, headers, "")?;
        assert_eq!(answer.status, status, "{line} {headers:?}: {}", answer.body);
        assert!(answer.head.contains("no-store"), "{}", answer.head);
    }
    assert_eq!(bridge.plain("POST /navigate", &[own], &"x".repeat(1024 * 1024 + 1))?.status, 413);
    for url in
        ["file:///etc/passwd", "view-source:file:///etc/passwd", "chrome://version", "javascript:1"]
    {
        for line in ["POST /navigate", "POST /tabs/open"] {
            assert_eq!(bridge.ask(line, &json!({ "url": url }))?.status, 400, "{url}");
        }
    }
    // A page that wants to go where it was not sent stays where it is.
    let page = "data:text/html,<p>still here<script>location='file:///etc/passwd'</script>";
    bridge.done("POST /tabs/open", &json!({ "url": page }))?;
    assert_eq!(bridge.done("GET /snapshot", &json!({}))?["snapshot"], json!("still here"));
    // The bridge itself cannot be reached from inside, by whatever name this machine has there.
    let id = bridge.text("container").to_owned();
    let of = |what: &str| {
        stage.docker(&[
            "inspect",
            "-f",
            &format!("{{{{range .NetworkSettings.Networks}}}}{{{{.{what}}}}}{{{{end}}}}"),
            &id,
        ])
    };
    let (gateway, address, port) = (of("Gateway")?, of("IPAddress")?, bridge.port()?);
    for host in [gateway.as_str(), "127.0.0.1"] {
        let url = format!("http://{host}:{port}/sandbox/novnc?token=x");
        let answer = bridge.ask("POST /navigate", &json!({ "url": url }))?;
        assert!(answer.body.contains("ERR_CONNECTION_REFUSED"), "{}", answer.body);
    }
    // Nor does anybody of this machine get past the bridge, who does not have the control port's own token.
    let outside = stage.docker(&["port", &id, "9222/tcp"])?;
    let outside: u16 = outside.rsplit_once(':').context("no port")?.1.parse()?;
    let guess = format!("Basic {}", STANDARD.encode(format!("openclaw:{}", "0".repeat(48))));
    for headers in [&[][..], &[("authorization", guess.as_str())], &[own]] {
        let answer = request(stage.connect(outside)?, "GET /json/version", headers, "")?;
        assert_eq!((answer.status, answer.body.as_str()), (401, ""));
    }
    // Another container of the same network gets no word out of its ports.
    for inside in [9222, 6080, 9223, 6081, 5900] {
        let url = format!("http://{address}:{inside}/json/version");
        let args = ["run", "--rm", "--network", &stage.network, BASE, "curl", "-sm", "5", &url];
        let neighbour = docker(&stage.yard.place, &args).output()?;
        assert!(!neighbour.status.success() && neighbour.stdout.is_empty(), "{url}: {neighbour:?}");
    }
    assert_eq!(bridge.done("GET /", &json!({}))?["running"], json!(true));
    bridge.close()
}

#[test]
fn a_container_that_is_somebody_elses_is_not_touched() -> Result<()> {
    let Some(stage) = Stage::new("")? else { return Ok(()) };
    let name = format!("{}b-agent-main-f331f052", stage.yard.prefix);
    let theirs = stage.docker(&["create", "--name", &name, BASE, "true"])?;
    let said = stage.refused();
    assert!(said.contains(&name) && said.contains("left alone"), "{said}");
    assert_eq!(stage.yard.containers()?, [theirs]);
    assert_eq!(stage.browsers(), json!([]));
    Ok(())
}

#[test]
fn a_browser_that_does_not_come_is_told_with_what_to_change() -> Result<()> {
    let Some(stage) = Stage::new("autoStartTimeoutMs: 1")? else { return Ok(()) };
    let said = stage.refused();
    assert!(said.contains("agents.defaults.sandbox.browser.autoStartTimeoutMs"), "{said}");
    let Some(stage) = Stage::new(&format!("image: '{BASE}'"))? else { return Ok(()) };
    let said = stage.refused();
    assert!(said.contains(BASE) && said.contains("clawpen image build browser"), "{said}");
    // An image that lets everybody drive its browser is not used, whatever it was told.
    let open = format!("clawpen-test-open-browser:{}", std::process::id());
    let command =
        r#"CMD ["env", "-u", "OPENCLAW_BROWSER_CDP_AUTH_TOKEN", "openclaw-sandbox-browser"]"#;
    let made = stage.docker(&["create", BROWSER])?;
    stage.docker(&["commit", "--change", command, &made, &open])?;
    stage.docker(&["rm", &made])?;
    let Some(stage) = Stage::new(&format!("image: '{open}'"))? else { return Ok(()) };
    let said = stage.refused();
    assert!(said.contains("answers whoever asks"), "{said}");
    stage.yard.run(&["sandbox", "recreate", "--browser", "--all", "--force"]);
    stage.docker(&["image", "rm", &open])?;
    let Some(stage) = Stage::new("enabled: false")? else { return Ok(()) };
    let said = stage.refused();
    assert!(said.contains("agents.defaults.sandbox.browser.enabled"), "{said}");
    assert_eq!(stage.yard.containers()?, Vec::<String>::new());
    Ok(())
}

#[test]
fn a_browser_waits_for_a_word_if_the_config_says_so() -> Result<()> {
    let Some(stage) = Stage::new("autoStart: false, headless: true")? else { return Ok(()) };
    let bridge = stage.open()?;
    assert_eq!(bridge.told["observerUrl"], Value::Null);
    assert_eq!(bridge.done("GET /", &json!({}))?["running"], json!(false));
    assert_eq!(bridge.done("POST /start", &json!({}))?["started"], json!(true));
    let status = bridge.done("GET /", &json!({}))?;
    assert_eq!((&status["running"], &status["headless"]), (&json!(true), &json!(true)));
    bridge.close()
}
