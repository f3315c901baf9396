//! Pens that a door makes ahead: taken by the session they were made for, and gone with the door however it ends.
//!
//! Needs root, like every look at whose process a pen is.

use std::fs;
use std::process::Command;
use std::time::{Duration, Instant};

use clawpen_tests::home::Home;
use clawpen_tests::traces::Traces;
use serde_json::{Value, json};

use crate::door::{Ground, Http, Pipes, hello};

const CONFIG: &str =
    "{agents: {defaults: {sandbox: {mode: 'all', backend: 'native', scope: 'session'}}}}";
/// How long something that happens in the background may take on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// A process of ours, as `/proc` shows it.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Process {
    pid: u32,
    parent: u32,
    words: Vec<String>,
    is_first: bool,
    mounts: String,
}

fn look(pid: u32) -> Option<Process> {
    let read = |file: &str| fs::read_to_string(format!("/proc/{pid}/{file}"));
    let status = read("status").ok()?;
    let field = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name))?;
        line.split_whitespace().next_back().map(str::to_owned)
    };
    if matches!(field("State:").as_deref(), Some("(zombie)" | "(dead)")) {
        return None;
    }
    let words = read("cmdline").ok()?;
    Some(Process {
        pid,
        parent: field("PPid:")?.parse().ok()?,
        words: words.split('\0').map(str::to_owned).collect(),
        is_first: field("NSpid:").as_deref() == Some("1"),
        mounts: read("mountinfo").unwrap_or_default(),
    })
}

fn supervisors() -> Vec<Process> {
    let entries = fs::read_dir("/proc").unwrap().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let is_ours =
        |one: &Process| one.words.first().is_some_and(|word| word == "clawpen-supervisor");
    pids.filter_map(look).filter(is_ours).collect()
}

/// First processes of the pens that have something of this home.
fn pens(home: &Home) -> Vec<Process> {
    let mark = home.path("").to_string_lossy().trim_end_matches('/').to_owned();
    let is_here = |one: &Process| one.is_first && one.mounts.contains(&mark);
    supervisors().into_iter().filter(is_here).collect()
}

/// The pens of one session.
fn pens_of(home: &Home, session: &str) -> Vec<u32> {
    let mark = format!("/agent-main-{session}-");
    pens(home).iter().filter(|pen| pen.mounts.contains(&mark)).map(|pen| pen.pid).collect()
}

/// What waits at a door: its zygote, and the makers below it.
fn waiting(door: u32) -> (Option<u32>, Vec<u32>) {
    let all = supervisors();
    let zygote = all
        .iter()
        .find(|one| one.parent == door && one.words.get(1).is_some_and(|word| word == "zygote"));
    let zygote = zygote.map(|one| one.pid);
    let is_maker = |one: &&Process| Some(one.parent) == zygote && !one.is_first;
    (zygote, all.iter().filter(is_maker).map(|one| one.pid).collect())
}

#[track_caller]
fn eventually<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + PATIENCE;
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(Instant::now() < deadline, "{what} did not come");
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn signal(name: &str, pid: u32) {
    let sent = Command::new("sh").args(["-c", &format!("kill -{name} {pid}")]).status().unwrap();
    assert!(sent.success());
}

/// A client of an HTTP door, in a session that it names.
struct Client<'a> {
    door: &'a Http,
    session: &'static str,
    id: String,
}

impl<'a> Client<'a> {
    fn new(door: &'a Http, session: &'static str) -> Self {
        let mut client = Self { door, session, id: String::new() };
        let (_, answer) = client.post("initialize", &hello());
        let id = answer.lines().find_map(|line| line.strip_prefix("mcp-session-id: "));
        id.unwrap_or_default().trim().clone_into(&mut client.id);
        client.post("notifications/initialized", &Value::Null);
        client
    }

    fn post(&self, method: &str, params: &Value) -> (u16, String) {
        let mut message = json!({ "jsonrpc": "2.0", "method": method });
        if !params.is_null() {
            message["id"] = json!(1);
            message["params"] = params.clone();
        }
        let good = self.door.good();
        let mut headers: Vec<(&str, &str)> =
            good.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        headers.push(("clawpen-session", self.session));
        if !self.id.is_empty() {
            headers.push(("mcp-session-id", &self.id));
        }
        self.door.post(&headers, &message.to_string())
    }

    fn list(&self) {
        let (status, answer) = self.post("tools/list", &json!({}));
        assert_eq!(status, 200, "{answer}");
    }

    #[track_caller]
    fn exec(&self, command: &str) -> String {
        let arguments = json!({ "command": command });
        let (status, answer) =
            self.post("tools/call", &json!({ "name": "exec", "arguments": arguments }));
        assert_eq!(status, 200, "{answer}");
        answer
    }
}

#[test]
fn a_second_session_takes_the_pen_that_was_made_for_it_and_a_door_that_nobody_uses_makes_none() {
    let ground = Ground::new(CONFIG);
    let door = Http::open(&ground);
    let first = Client::new(&door, "one");
    first.list();
    first.list();
    // Looked at, never used.
    assert_eq!((pens(&ground.0), waiting(door.pid())), (vec![], (None, vec![])));
    assert!(first.exec("echo a-$((40+2))").contains("a-42"));
    let own = eventually("a pen ahead", || {
        let pens = pens_of(&ground.0, "mcp-one");
        (pens.len() == 2).then_some(pens)
    });
    let second = Client::new(&door, "two");
    second.list();
    let ahead = eventually("a pen for the second session", || {
        pens_of(&ground.0, "mcp-two").first().copied()
    });
    assert!(second.exec("echo b-$((40+2))").contains("b-42"));
    // It is the scope's own now: it outlives the door, and the others do not.
    signal("TERM", door.pid());
    let left = eventually("the end of what nobody took", || {
        let (one, two) = (pens_of(&ground.0, "mcp-one"), pens_of(&ground.0, "mcp-two"));
        (one.len() == 1 && two.len() == 1).then_some((one, two))
    });
    assert_eq!(left.1, [ahead]);
    assert!(own.contains(&left.0[0]));
    let rows = ground.0.run(&["sandbox", "list", "--json"]).json();
    assert_eq!(rows["containers"].as_array().map(Vec::len), Some(2), "{rows}");
}

#[test]
fn a_door_that_is_told_to_end_or_killed_leaves_no_pen_that_nobody_knows() {
    for end in ["TERM", "KILL"] {
        let ground = Ground::new(CONFIG);
        let mut door = Pipes::open(&ground, &["--session", "one"]);
        let said = door.call("exec", json!({ "command": "echo here" }));
        assert!(said.to_string().contains("here"), "{said}");
        let id = door.child.id();
        eventually("a pen ahead", || (pens(&ground.0).len() == 2).then_some(()));
        let (zygote, makers) = eventually("a zygote and a maker", || {
            let (zygote, makers) = waiting(id);
            zygote.filter(|_| !makers.is_empty()).map(|zygote| (zygote, makers))
        });
        let mut traces = Traces::of(&ground.0.path(".openclaw"));
        for pid in pens(&ground.0).iter().map(|pen| pen.pid).chain(makers.clone()).chain([zygote]) {
            traces.note(pid);
        }
        signal(end, id);
        door.child.wait().unwrap();
        eventually("the end of what waited", || {
            let ended = |pid: &u32| look(*pid).is_none();
            (ended(&zygote) && makers.iter().all(ended) && pens(&ground.0).len() == 1).then_some(())
        });
        // Directories and control groups of a killed door are taken by whoever comes next.
        let rows = ground.0.run(&["sandbox", "list", "--json"]).json();
        assert_eq!(rows["containers"].as_array().map(Vec::len), Some(1), "{end}: {rows}");
        let runs = fs::read_dir(ground.0.path(".openclaw/clawpen/run")).unwrap().count();
        assert_eq!(runs, 1, "{end}");
        let removed = ground.0.run(&["sandbox", "remove", "--all", "--force"]);
        assert_eq!(removed.code, Some(0), "{end}: {}", removed.stderr);
        assert_eq!(traces.left(), Vec::<String>::new(), "{end}");
    }
}

#[test]
fn a_zygote_and_a_maker_that_are_killed_while_they_wait_cost_no_call() {
    let ground = Ground::new(CONFIG);
    let door = Http::open(&ground);
    let first = Client::new(&door, "one");
    assert!(first.exec("echo here").contains("here"));
    for (session, kills) in [("two", "maker"), ("three", "zygote"), ("four", "both")] {
        let (zygote, makers) = eventually("a zygote and a maker", || {
            let (zygote, makers) = waiting(door.pid());
            zygote.filter(|_| !makers.is_empty()).map(|zygote| (zygote, makers))
        });
        // The maker first: without its zygote it would go by itself.
        if kills != "zygote" {
            for pid in makers {
                signal("KILL", pid);
            }
        }
        if kills != "maker" {
            signal("KILL", zygote);
        }
        // No list, so nothing is made ahead for it: its pen is made now.
        let client = Client::new(&door, session);
        assert!(client.exec("echo still").contains("still"), "{kills}");
        eventually("a pen ahead", || {
            let pens = pens_of(&ground.0, &format!("mcp-{session}"));
            (pens.len() == 2).then_some(())
        });
    }
    signal("TERM", door.pid());
    eventually("four pens that are written down", || (pens(&ground.0).len() == 4).then_some(()));
    let rows = ground.0.run(&["sandbox", "list", "--json"]).json();
    assert_eq!(rows["containers"].as_array().map(Vec::len), Some(4), "{rows}");
}

#[test]
fn nothing_waits_where_the_settings_say_so_and_eager_makes_the_sandbox_itself() {
    for own in ["{defaults: {ahead: false}}", "{defaults: {start: 'lazy'}}"] {
        let ground = Ground(Home::with_config(CONFIG).with_file(".openclaw/clawpen.json", own));
        let door = Http::open(&ground);
        let client = Client::new(&door, "one");
        for _ in 0..3 {
            client.list();
            assert!(client.exec("echo here").contains("here"));
        }
        assert_eq!((pens(&ground.0).len(), waiting(door.pid())), (1, (None, vec![])), "{own}");
    }
    let eager = "{defaults: {start: 'eager'}}";
    let ground = Ground(Home::with_config(CONFIG).with_file(".openclaw/clawpen.json", eager));
    let door = Http::open(&ground);
    let client = Client::new(&door, "one");
    client.list();
    let made = eventually("the sandbox", || pens_of(&ground.0, "mcp-one").first().copied());
    assert!(client.exec("echo here").contains("here"));
    assert_eq!(pens_of(&ground.0, "mcp-one"), [made]);
}

#[test]
fn a_client_that_only_names_sessions_gets_a_bounded_number_of_pens() {
    let ground = Ground::new(CONFIG);
    let door = Http::open(&ground);
    assert!(Client::new(&door, "one").exec("echo here").contains("here"));
    let names = ["a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l"];
    for name in names {
        Client::new(&door, name).list();
    }
    // One call more, so that what was ordered before it has been looked at.
    assert!(Client::new(&door, "one").exec("echo here").contains("here"));
    assert!(pens(&ground.0).len() <= 1 + 4 + 1, "{}", pens(&ground.0).len());
    let made = fs::read_dir(ground.0.path(".openclaw/sandboxes")).unwrap().count();
    assert!(made <= 1 + 8 + 1, "{made} workspaces");
}

#[test]
fn what_runs_in_a_pen_neither_sees_nor_ends_the_one_that_waits_and_that_one_serves_next() {
    let ground = Ground::new(CONFIG);
    let mut door = Pipes::open(&ground, &["--session", "one"]);
    let mut exec = |command: &str| {
        let said = door.call("exec", json!({ "command": command }));
        said["content"][0]["text"].as_str().unwrap_or_default().to_owned()
    };
    assert!(exec("echo here").contains("here"));
    let both = eventually("a pen ahead", || {
        let pens: Vec<u32> = pens(&ground.0).iter().map(|pen| pen.pid).collect();
        (pens.len() == 2).then_some(pens)
    });
    // The same ids on the host, and yet: no process of the other is in sight, none can be signalled, no socket found.
    let seen = exec("for one in /proc/[0-9]*; do cat $one/comm; done 2>/dev/null | sort -u");
    assert!(!seen.contains("mcp") && !seen.contains("zygote"), "{seen}");
    exec("kill -9 -1; true");
    exec("for pid in $(seq 1 4000); do kill -9 $pid 2>/dev/null; done; true");
    let sockets = exec(
        "find / -xdev -type s 2>/dev/null; find /workspace -type s; grep -c . /proc/net/unix; true",
    );
    assert!(!sockets.contains("clawpen"), "{sockets}");
    exec("echo mine > /workspace/left; ln -s / /workspace/root; mkfifo /workspace/pipe; true");
    assert!(both.iter().all(|pid| look(*pid).is_some()));
    let removed = ground.0.run(&["sandbox", "remove", "--all", "--force"]);
    assert_eq!(removed.code, Some(0), "{}", removed.stderr);
    let waited = eventually("the one that waits", || {
        let pens: Vec<u32> = pens(&ground.0).iter().map(|pen| pen.pid).collect();
        (pens.len() == 1).then(|| pens[0])
    });
    assert!(both.contains(&waited));
    assert!(exec("cat /workspace/left").contains("mine"));
    let left = door.child.id();
    signal("TERM", left);
    eventually("the end of the next one that waits", || {
        let pens: Vec<u32> = pens(&ground.0).iter().map(|pen| pen.pid).collect();
        (pens == [waited]).then_some(())
    });
}
