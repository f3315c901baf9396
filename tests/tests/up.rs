//! `clawpen up`, `status`, `down`, `logs` and `service` through the real binary: what a person gets, and what a planted file,
//! a stale record, a kill or a second `up` does not achieve.
#![forbid(unsafe_code)]
#![expect(clippy::unwrap_used, reason = "a test without its set-up cannot go on")]

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpListener;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use clawpen_tests::home::{Home, Run};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::{Value, json};

const CONFIG: &str = ".openclaw/openclaw.json";
const RECORD: &str = ".openclaw/clawpen/gateway.json";
const LOG: &str = ".openclaw/clawpen/gateway.log";
const WAIT: Duration = Duration::from_secs(60);

/// A home whose gateway ends with the test.
struct Ground(Home);

impl Ground {
    fn new() -> Self {
        Self(Home::new())
    }

    fn with(config: &str) -> Self {
        Self(Home::with_config(config))
    }

    fn path(&self, path: &str) -> PathBuf {
        self.0.path(path)
    }

    fn run(&self, args: &[&str]) -> Run {
        self.0.run(args)
    }

    #[track_caller]
    fn up(&self) -> Value {
        let run = self.run(&["up", "--port", "0", "--json"]);
        assert_eq!(run.code, Some(0), "{}", run.stderr);
        run.json()
    }

    /// What `status` says, with its code.
    fn status(&self) -> (Option<i32>, Value) {
        let run = self.run(&["status", "--json"]);
        (run.code, run.json())
    }

    #[track_caller]
    fn refused(&self, args: &[&str], said: &[&str]) {
        let run = self.run(args);
        assert_eq!((run.code, run.stdout.as_str()), (Some(1), ""), "{args:?}: {}", run.stderr);
        for part in said {
            assert!(run.stderr.contains(part), "{part}: {}", run.stderr);
        }
    }

    fn token(&self) -> String {
        let config = fs::read_to_string(self.path(CONFIG)).unwrap();
        let (_, rest) = config.split_once(" token: \"").unwrap();
        rest.split('"').next().unwrap().to_owned()
    }
}

impl Drop for Ground {
    fn drop(&mut self) {
        // What a test planted may be in the way of a proper end.
        for planted in [RECORD, LOG] {
            if self.path(planted).is_symlink() {
                drop(fs::remove_file(self.path(planted)));
            }
        }
        drop(self.run(&["down", "--timeout", "5"]));
    }
}

fn pid_of(up: &Value) -> i32 {
    up["pid"].as_i64().unwrap().try_into().unwrap()
}

/// The parts of `/proc/PID/stat` after the name; `None` if there is no such process, or only its remains.
fn living(pid: i32) -> Option<Vec<String>> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let fields: Vec<String> = stat.rsplit_once(") ")?.1.split(' ').map(str::to_owned).collect();
    (!["Z", "X"].contains(&fields[0].as_str())).then_some(fields)
}

#[track_caller]
fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let start = Instant::now();
    while !holds() {
        assert!(start.elapsed() < WAIT, "{what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

struct Other(Child);

impl Other {
    fn new() -> Self {
        Self(Command::new("sleep").arg("1000").spawn().unwrap())
    }
}

impl Drop for Other {
    fn drop(&mut self) {
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

#[test]
fn the_first_up_writes_a_locked_down_config_and_starts_one_gateway() {
    let ground = Ground::new();
    let up = ground.up();
    let config = fs::read_to_string(ground.path(CONFIG)).unwrap();
    assert_eq!(fs::metadata(ground.path(CONFIG)).unwrap().mode() & 0o777, 0o600);
    for part in ["mode: \"all\"", "backend: \"native\"", "bind: \"loopback\"", "// Which sessions"]
    {
        assert!(config.contains(part), "{part}: {config}");
    }
    assert_eq!((&up["started"], &up["configWritten"]), (&json!(true), &json!(true)));
    assert_eq!((&up["backend"], &up["mode"]), (&json!("native"), &json!("all")));
    assert_eq!(up["trial"]["ok"], true, "{up}");
    assert_eq!(up["model"], Value::Null);
    assert!(up["modelProblem"].as_str().unwrap().contains("agents.defaults.model"), "{up}");
    assert!(up["mcp"].as_str().unwrap().ends_with(" mcp install claude"), "{up}");
    assert_eq!(ground.run(&["config", "validate"]).code, Some(0));
    let (code, status) = ground.status();
    assert_eq!(code, Some(0), "{status}");
    assert_eq!(status["gateway"]["answers"], true, "{status}");
    assert_eq!((&status["gateway"]["pid"], &status["gateway"]["url"]), (&up["pid"], &up["url"]));
    assert_eq!((&status["backend"], &status["approvalsWaiting"]), (&json!("native"), &json!(0)));
    let again = ground.up();
    assert_eq!((&again["started"], &again["pid"]), (&json!(false), &up["pid"]));
    assert_eq!(fs::read_to_string(ground.path(CONFIG)).unwrap(), config, "written once");
    let down = ground.run(&["down", "--json"]);
    assert_eq!(down.json(), json!({ "stopped": true, "pid": up["pid"], "killed": false }));
    assert_eq!(living(pid_of(&up)), None);
    assert!(!ground.path(RECORD).exists());
    assert_eq!(ground.status().0, Some(3));
    assert_eq!(ground.run(&["down"]).stdout, "No gateway runs.\n");
}

#[test]
fn the_token_is_shown_whole_only_when_asked_for() {
    let ground = Ground::new();
    let first = ground.run(&["up", "--port", "0"]);
    assert_eq!(first.code, Some(0), "{}", first.stderr);
    let token = ground.token();
    assert_eq!(token.len(), 32);
    let begin = &token[..4];
    assert!(first.stdout.contains(&format!("token     {begin}…")), "{}", first.stdout);
    for args in [&["up"][..], &["up", "--json"], &["status"], &["status", "--json"], &["logs"]] {
        let run = ground.run(args);
        assert!(!format!("{}{}", run.stdout, run.stderr).contains(&token), "{args:?}");
    }
    for file in [RECORD, LOG] {
        assert!(!fs::read_to_string(ground.path(file)).unwrap().contains(&token), "{file}");
        assert_eq!(fs::metadata(ground.path(file)).unwrap().mode() & 0o777, 0o600, "{file}");
    }
    assert!(!first.stdout.contains(&token) && !first.stderr.contains(&token));
    assert_eq!(ground.run(&["up", "--show-token", "--json"]).json()["token"], json!(token));
}

#[test]
fn a_config_that_is_there_is_never_overwritten() {
    let config = "{\n  // mine\n  gateway: {mode: 'local', auth: {token: 'a-token-of-mine'}},\n}\n";
    let ground = Ground::with(config);
    let up = ground.up();
    assert_eq!((&up["configWritten"], &up["mode"]), (&json!(false), &json!("off")));
    assert_eq!(fs::read_to_string(ground.path(CONFIG)).unwrap(), config);
    for broken in [
        "{\n  gateway: {mode: 'local'\n",
        "{\n  agents: {defaults: {sandbox: {moed: 'all'}}},\n}",
        "\u{0}",
    ] {
        let ground = Ground::with(broken);
        ground.refused(&["up", "--port", "0"], &["~/.openclaw/openclaw.json:"]);
        assert_eq!(fs::read_to_string(ground.path(CONFIG)).unwrap(), broken);
        assert!(!ground.path(RECORD).exists());
    }
    // What it lacks is a token: that is added, and nothing else changes.
    let ground = Ground::with("{\n  // mine\n  gateway: {mode: 'local'},\n}\n");
    ground.up();
    let now = fs::read_to_string(ground.path(CONFIG)).unwrap();
    assert!(now.contains("// mine") && now.contains("token"), "{now}");
    let before = fs::read_to_string(ground.path(".openclaw/openclaw.json.bak")).unwrap();
    assert_eq!(before, "{\n  // mine\n  gateway: {mode: 'local'},\n}\n");
    let ground = Ground::with("{gateway: {mode: 'remote'}}");
    ground.refused(&["up", "--port", "0"], &["`gateway.mode` is not `local`"]);
    let ground = Ground::new();
    let victim = ground.path("victim.json");
    symlink(&victim, ground.path(CONFIG)).unwrap();
    ground.refused(&["up", "--port", "0"], &["openclaw.json"]);
    assert!(!victim.exists(), "a link that leads nowhere is not written through");
}

#[test]
fn many_at_once_make_one_gateway() {
    let ground = Ground::new();
    let start = || {
        let mut command = ground.0.command(&["up", "--port", "0", "--json"]);
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    };
    let children: Vec<Child> = (0..4).map(|_| start()).collect();
    let mut ups = Vec::new();
    for child in children {
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        ups.push(serde_json::from_slice::<Value>(&output.stdout).unwrap());
    }
    let started = ups.iter().filter(|up| up["started"] == true).count();
    assert_eq!(started, 1, "{ups:?}");
    assert!(ups.iter().all(|up| up["pid"] == ups[0]["pid"]), "{ups:?}");
}

#[test]
fn after_a_kill_the_next_up_starts_another_and_sandboxes_are_still_there() {
    let ground = Ground::new();
    let first = ground.up();
    let ran = ground.run(&["exec", "--", "sh", "-c", "echo kept > kept; cat kept"]);
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(0), "kept\n"), "{}", ran.stderr);
    kill(Pid::from_raw(pid_of(&first)), Signal::SIGKILL).unwrap();
    until("it dies", || living(pid_of(&first)).is_none());
    assert!(ground.path(RECORD).exists(), "nobody was left to take it away");
    let (code, status) = ground.status();
    assert_eq!((code, &status["gateway"]["running"]), (Some(3), &json!(false)));
    let second = ground.up();
    assert_eq!(second["started"], true);
    assert_ne!(second["pid"], first["pid"]);
    assert_eq!(ground.status().1["sandboxes"], json!({ "all": 1, "running": 1 }));
    assert_eq!(ground.run(&["down"]).code, Some(0));
    assert_eq!(ground.status().1["sandboxes"], json!({ "all": 1, "running": 1 }));
    assert_eq!(ground.run(&["exec", "--", "cat", "kept"]).stdout, "kept\n");
}

#[test]
fn a_number_that_is_used_again_means_nobody() {
    let ground = Ground::new();
    let up = ground.up();
    let record = fs::read_to_string(ground.path(RECORD)).unwrap();
    assert_eq!(ground.run(&["down"]).code, Some(0));
    let other = Other::new();
    let reused =
        record.replace(&format!("\"pid\": {}", up["pid"]), &format!("\"pid\": {}", other.0.id()));
    assert_ne!(reused, record);
    let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap();
    for stale in
        [reused.clone(), record.replace(boot.trim(), "11111111-2222-3333-4444-555555555555")]
    {
        fs::write(ground.path(RECORD), stale).unwrap();
        assert_eq!(ground.status().0, Some(3));
        assert_eq!(ground.run(&["down"]).stdout, "No gateway runs.\n");
        assert!(
            living(other.0.id().try_into().unwrap()).is_some(),
            "an innocent process was ended"
        );
    }
    fs::write(ground.path(RECORD), reused).unwrap();
    assert_eq!(ground.up()["started"], true);
    assert!(living(other.0.id().try_into().unwrap()).is_some());
}

#[test]
fn planted_links_are_not_followed() {
    for planted in [RECORD, LOG] {
        let ground = Ground::new();
        let victim = ground.path("victim");
        fs::write(&victim, "mine").unwrap();
        fs::create_dir_all(ground.path(".openclaw/clawpen")).unwrap();
        fs::set_permissions(ground.path(".openclaw/clawpen"), fs::Permissions::from_mode(0o700))
            .unwrap();
        symlink(&victim, ground.path(planted)).unwrap();
        ground.refused(&["up", "--port", "0"], &["is a symbolic link", planted]);
        assert_eq!(fs::read_to_string(&victim).unwrap(), "mine");
        assert!(ground.path(planted).is_symlink());
        assert_eq!(ground.status().0, Some(3));
    }
}

#[test]
fn what_others_may_write_is_not_trusted() {
    let open = |ground: &Ground, path: &str, mode| {
        fs::set_permissions(ground.path(path), fs::Permissions::from_mode(mode)).unwrap();
    };
    let ground = Ground::with("{gateway: {mode: 'local'}}");
    open(&ground, CONFIG, 0o666);
    ground.refused(&["up", "--port", "0"], &["others may write", "openclaw.json", "chmod go-w"]);
    open(&ground, CONFIG, 0o600);
    open(&ground, ".openclaw", 0o777);
    ground.refused(&["up", "--port", "0"], &["others may write", ".openclaw", "chmod go-w"]);
    ground.refused(&["gateway", "--port", "0"], &["others may write"]);
    open(&ground, ".openclaw", 0o700);
    assert_eq!(ground.up()["started"], true);
    // Somebody else's: nothing is made in it.
    let ground = Ground::new();
    let foreign = if nix::unistd::geteuid().is_root() {
        std::os::unix::fs::chown(ground.path(".openclaw"), Some(65_534), Some(65_534)).unwrap();
        ground.path(".openclaw")
    } else {
        PathBuf::from("/usr")
    };
    let mut command = ground.0.command(&["up", "--port", "0"]);
    let run = Run::of(command.env("OPENCLAW_STATE_DIR", &foreign));
    assert_eq!(run.code, Some(1), "{}", run.stdout);
    assert!(run.stderr.contains("belongs to user"), "{}", run.stderr);
    assert!(!foreign.join("clawpen").exists() && !foreign.join("openclaw.json").exists());
}

#[test]
fn a_port_that_is_taken_is_said_at_once_and_nothing_is_left_behind() {
    let ground = Ground::new();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port().to_string();
    ground.refused(&["up", "--port", &port], &[&format!("port {port} is taken"), "--port"]);
    assert!(!ground.path(CONFIG).exists(), "a config with a port of somebody else's");
    assert!(!ground.path(RECORD).exists());
    drop(listener);
    let up = ground.run(&["up", "--port", &port, "--json"]);
    assert_eq!(up.json()["url"], json!(format!("http://127.0.0.1:{port}")), "{}", up.stderr);
    let other = Ground::new();
    other.refused(&["up", "--port", &port], &["is taken by a gateway"]);
}

/// Whoever has the port first may say that it is a gateway: it is not believed, and it learns nothing.
#[test]
fn an_impostor_on_the_port_is_neither_used_nor_told_the_token() {
    let ground = Ground::with("{gateway: {mode: 'local', auth: {token: 'canary-token-7f31'}}}");
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port().to_string();
    let impostor = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut heard = String::new();
        let mut room = [0; 4096];
        while !heard.ends_with("\r\n\r\n") {
            let count = stream.read(&mut room).unwrap();
            heard.push_str(&String::from_utf8_lossy(&room[..count]));
        }
        stream.write_all(b"HTTP/1.1 200 OK\r\n\r\n{\"ok\":true,\"status\":\"live\"}").unwrap();
        heard
    });
    ground.refused(&["up", "--port", &port], &["is taken by a gateway that is not of this"]);
    let heard = impostor.join().unwrap();
    assert!(heard.starts_with("GET /health ") && !heard.contains("canary-token"), "{heard}");
    assert!(!ground.path(RECORD).exists());
}

#[test]
fn what_a_gateway_says_that_does_not_start_is_passed_on() {
    // Listens nowhere that could be asked about beforehand.
    let ground = Ground::with(
        "{gateway: {mode: 'local', bind: 'custom', customBindHost: '192.0.2.1', auth: {token: 't'}}}",
    );
    ground.refused(&["up", "--port", "0"], &["ended at once", "192.0.2.1"]);
    assert_eq!(ground.status().0, Some(3));
}

#[test]
fn a_gateway_that_does_not_end_when_asked_is_killed() {
    let ground = Ground::new();
    let pid = pid_of(&ground.up());
    kill(Pid::from_raw(pid), Signal::SIGSTOP).unwrap();
    ground.refused(&["up"], &["does not answer", "clawpen down"]);
    let (code, status) = ground.status();
    assert_eq!((code, &status["gateway"]["answers"]), (Some(3), &json!(false)));
    let down = ground.run(&["down", "--timeout", "1", "--json"]);
    assert_eq!(down.json(), json!({ "stopped": true, "pid": pid, "killed": true }));
    assert_eq!(living(pid), None);
}

#[test]
fn it_has_a_session_of_its_own_and_no_terminal() {
    let ground = Ground::new();
    let pid = pid_of(&ground.up());
    let fields = living(pid).unwrap();
    assert_eq!((fields[3].as_str(), fields[4].as_str()), (pid.to_string().as_str(), "0"));
    let place = fs::read_link(format!("/proc/{pid}/cwd")).unwrap();
    assert_eq!(place, fs::canonicalize(ground.path(".openclaw")).unwrap());
    for number in 0..3 {
        let open = fs::read_link(format!("/proc/{pid}/fd/{number}")).unwrap();
        let expected = if number == 0 {
            PathBuf::from("/dev/null")
        } else {
            fs::canonicalize(ground.path(LOG)).unwrap()
        };
        assert_eq!(open, expected, "{number}");
    }
}

#[test]
fn a_gateway_in_the_foreground_is_found_too() {
    let ground = Ground::with("{gateway: {mode: 'local'}}");
    let mut command = ground.0.command(&["gateway", "--port", "0"]);
    let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    assert!(line.starts_with("listening on ws://"), "{line}");
    assert_eq!(ground.status().1["gateway"]["pid"], json!(child.id()));
    let up = ground.up();
    assert_eq!((&up["started"], &up["pid"]), (&json!(false), &json!(child.id())));
    assert_eq!(ground.run(&["down"]).code, Some(0));
    assert!(child.wait().unwrap().success());
}

#[test]
fn logs_show_the_journal_and_what_was_printed() {
    let ground = Ground::new();
    let none = ground.run(&["logs"]);
    assert_eq!((none.code, none.stdout.as_str()), (Some(0), ""));
    ground.up();
    let journal = ground.run(&["logs"]);
    assert!(journal.stdout.contains("info  the gateway listens  addresses="), "{}", journal.stdout);
    let raw = ground.run(&["logs", "--json", "-n", "1"]);
    assert_eq!(raw.stdout.lines().count(), 1);
    assert!(raw.json()["time"].is_string(), "{}", raw.stdout);
    assert!(ground.run(&["logs", "--output"]).stdout.contains("listening on ws://"));
    let mut follow = ground.0.command(&["logs", "--follow", "-n", "1"]);
    let mut follow = follow.stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(follow.stdout.take().unwrap()).lines();
    assert!(lines.next().unwrap().unwrap().contains("listens"));
    assert_eq!(ground.run(&["down"]).code, Some(0));
    assert!(lines.next().unwrap().unwrap().contains("the gateway stops"));
    follow.kill().unwrap();
    follow.wait().unwrap();
}

#[test]
fn open_starts_a_browser_without_any_secret() {
    let ground = Ground(Home::new().with_file(
        "bin/xdg-open",
        "#!/bin/sh\necho \"$@\" > \"$HOME/opened.new\"\nmv \"$HOME/opened.new\" \"$HOME/opened\"\n",
    ));
    fs::set_permissions(ground.path("bin/xdg-open"), fs::Permissions::from_mode(0o755)).unwrap();
    let mut command = ground.0.command(&["up", "--port", "0", "--open", "--json"]);
    let path = format!("{}:/usr/bin:/bin", ground.path("bin").display());
    let run = Run::of(command.env("PATH", path));
    assert_eq!(run.code, Some(0), "{}", run.stderr);
    until("the browser starts", || ground.path("opened").exists());
    let opened = fs::read_to_string(ground.path("opened")).unwrap();
    assert_eq!(opened.trim(), run.json()["url"].as_str().unwrap());
}

#[test]
fn no_start_writes_the_config_and_starts_nothing() {
    let ground = Ground::new();
    let run = ground.run(&["up", "--no-start", "--json"]);
    assert_eq!((run.code, &run.json()["configWritten"]), (Some(0), &json!(true)), "{}", run.stderr);
    assert_eq!(ground.status().0, Some(3));
    assert_eq!(ground.run(&["up", "--no-start", "--json"]).json()["configWritten"], false);
}

#[test]
fn a_service_is_written_with_a_backup_and_taken_away() {
    let ground = Ground::new();
    let root = ground.path("root");
    fs::create_dir_all(root.join("etc")).unwrap();
    fs::write(root.join("etc/group"), "root:x:0:\ndocker:x:999:\n").unwrap();
    fs::write(root.join("etc/passwd"), "root:x:0:0::/root:/bin/sh\n").unwrap();
    let root = root.to_str().unwrap().to_owned();
    let system = |verb, more: &[&str]| {
        let args = [&["service", verb, "--system", "--root", &root, "--json"][..], more].concat();
        let run = ground.run(&args);
        assert_eq!(run.code, Some(0), "{}", run.stderr);
        run.json()
    };
    let unit = Path::new(&root).join("etc/systemd/system/clawpen.service");
    let variables = Path::new(&root).join("etc/clawpen/gateway.env");
    let dry = system("install", &["--dry-run"]);
    assert!(!unit.exists() && !variables.exists());
    let text = dry["text"].as_str().unwrap();
    for line in [
        "User=clawpen",
        "SupplementaryGroups=docker",
        "EnvironmentFile=-/etc/clawpen/gateway.env",
        "KillMode=process",
    ] {
        assert!(text.lines().any(|found| found == line), "{line}: {text}");
    }
    assert_eq!(
        dry["run"],
        json!(["systemctl daemon-reload", "systemctl enable --now clawpen.service"])
    );
    assert!(dry["notes"].to_string().contains("useradd --system"), "{dry}");
    system("install", &[]);
    assert_eq!(fs::read_to_string(&unit).unwrap(), text);
    assert_eq!(fs::metadata(&unit).unwrap().mode() & 0o777, 0o644);
    assert_eq!(fs::metadata(&variables).unwrap().mode() & 0o777, 0o600);
    fs::write(&variables, "OPENAI_API_KEY=mine\n").unwrap();
    let again = system("install", &["--no-docker"]);
    assert!(!fs::read_to_string(&unit).unwrap().contains("SupplementaryGroups=docker"));
    assert_eq!(fs::read_to_string(again["backup"].as_str().unwrap()).unwrap(), text);
    assert_eq!(
        fs::read_to_string(&variables).unwrap(),
        "OPENAI_API_KEY=mine\n",
        "never overwritten"
    );
    let gone = system("uninstall", &["--no-docker"]);
    assert_eq!((&gone["removed"], &gone["backup"]), (&json!(true), &Value::Null));
    assert!(!unit.exists() && variables.exists());
    symlink("/dev/null", &unit).unwrap();
    ground
        .refused(&["service", "install", "--system", "--root", &root], &["is a link to", "unmask"]);
    fs::remove_file(&unit).unwrap();
    fs::write(&unit, "[Service]\nExecStart=/bin/other\n").unwrap();
    ground.refused(
        &["service", "uninstall", "--system", "--root", &root],
        &["was not written by clawpen"],
    );
    let run = ground.run(&["service", "install", "--user", "--json"]);
    let user = run.json();
    assert!(ground.path(".config/systemd/user/clawpen.service").exists(), "{}", run.stdout);
    assert!(user["run"].to_string().contains("systemctl --user enable --now"), "{user}");
    ground.refused(&["service", "install", "--system", "--run-as", "a\nUser=root"], &["--run-as"]);
}

#[test]
fn completions_and_manual_pages_know_the_new_verbs() {
    let home = Home::new();
    let script = home.run(&["completions", "bash"]).stdout;
    let pages = home.path("man");
    assert_eq!(home.run(&["man", "--out", pages.to_str().unwrap()]).code, Some(0));
    for verb in ["up", "status", "down", "logs", "service"] {
        assert!(
            script.contains(&format!("clawpen__{verb}"))
                || script.contains(&format!("clawpen__subcmd__{verb}")),
            "{verb}"
        );
        assert!(pages.join(format!("clawpen-{verb}.1")).exists(), "{verb}");
    }
    assert!(pages.join("clawpen-service-install.1").exists());
}
