//! State under many processes, sudden death and bad disks, and the commands that show it.
#![forbid(unsafe_code)]
#![expect(clippy::unwrap_used, reason = "a test whose state cannot be read has failed")]

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead as _, BufReader};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use clawpen_engine::audit::{Call, Door, Ending, Event, Filter, GivenHead, Head, Reason, Verdict};
use clawpen_engine::database::Database;
use clawpen_engine::database::repair::{Health, examine};
use clawpen_engine::registry::{Holder, Liveness, State};
use clawpen_rules::timestamp::Timestamp;
use clawpen_tests::home::{Home, Run};
use serde_json::{Value, json};

const WRITER: &str = env!("CARGO_BIN_EXE_state_writer");
const CLAWPEN_STATE: &str = ".openclaw";

#[test]
fn eight_processes_of_a_thousand_records_each_make_one_whole_chain() {
    let state = tempfile::tempdir().unwrap();
    let writers: Vec<_> = (0..8)
        .map(|_| {
            Command::new(WRITER)
                .args(["append".as_ref(), state.path().as_os_str(), "1000".as_ref()])
                .spawn()
                .unwrap()
        })
        .collect();
    let pids: Vec<u32> = writers.iter().map(std::process::Child::id).collect();
    for mut writer in writers {
        assert!(writer.wait().unwrap().success());
    }
    let database = Database::open(state.path()).unwrap();
    let verified = database.audit().verify(None).unwrap();
    assert!(verified.is_whole(), "{:?}", verified.breaks);
    assert_eq!(verified.head.seq, 8000);
    // Every writer's records are there, in its own order.
    let mut by_writer: BTreeMap<String, Vec<u64>> = BTreeMap::new();
    for record in database.audit().list(&Filter::default()).unwrap() {
        let Event::Call(call) = record.event else { panic!("{record:?}") };
        let (pid, number) = call.call.split_once('-').unwrap();
        by_writer.entry(pid.to_owned()).or_default().push(number.parse().unwrap());
    }
    let expected = pids.iter().map(|pid| (pid.to_string(), (0..1000).collect())).collect();
    assert_eq!(by_writer, expected);
}

#[test]
fn a_writer_killed_at_random_fifty_times_leaves_no_torn_row_and_loses_nothing_it_was_promised() {
    let state = tempfile::tempdir().unwrap();
    let mut seed = u64::from(std::process::id()) | 1;
    let mut promised: Option<Head> = None;
    for round in 0..50 {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let lines = seed >> 33 & 31;
        let mut child = Command::new(WRITER)
            .args(["churn".as_ref(), state.path().as_os_str()])
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut heads = BufReader::new(child.stdout.take().unwrap()).lines();
        for _ in 0..=lines {
            let head = heads.next().unwrap_or_else(|| panic!("round {round}: it died")).unwrap();
            promised = Some(Head::parse(&head).unwrap());
        }
        let pid = child.id();
        child.kill().unwrap();
        child.wait().unwrap();
        // What was on its way when it died counts too.
        for head in heads.map_while(Result::ok) {
            promised = Head::parse(&head).or(promised);
        }
        check_after_kill(state.path(), pid, promised);
    }
}

#[track_caller]
fn check_after_kill(state: &Path, pid: u32, promised: Option<Head>) {
    assert_eq!(examine(state).unwrap(), Health::Sound);
    let database = Database::open(state).unwrap();
    let verified = database.audit().verify(promised).unwrap();
    assert_eq!((verified.breaks, verified.given), (Vec::new(), GivenHead::Proven));
    let registry = database.registry();
    let rows = registry.list().unwrap();
    assert!(rows.len() <= 1, "{rows:?}");
    for row in &rows {
        assert!(row.identity.is_some() || row.state == State::Creating, "{row:?}");
    }
    let leases = registry.all_leases().unwrap();
    assert!(leases.len() <= 1, "{leases:?}");
    for lease in &leases {
        assert!(
            rows.iter().any(|row| row.name == lease.name),
            "a lease without its row: {lease:?}"
        );
        assert_eq!((lease.holder.pid, lease.holder.liveness()), (pid, Liveness::Dead));
    }
    assert_eq!(registry.sweep(Holder::liveness).unwrap(), leases.len());
}

#[test]
fn a_full_disk_is_told_as_such_and_leaves_the_chain_whole() {
    let state = tempfile::tempdir().unwrap();
    let script = "mount -t tmpfs -o size=4m,mode=700 none \"$1\" && exec \"$2\" fill \"$1\"";
    let run = in_namespace(script, state.path(), WRITER);
    assert_eq!(
        run.stdout,
        "there is no space left for it; make room on its file system and try again\n\
         whole: true, records: true\n",
        "{}",
        run.stderr
    );
}

#[test]
fn a_read_only_state_directory_is_told_as_such() {
    let home = with_calls(1);
    let state = home.path(CLAWPEN_STATE);
    let script = "mount --bind \"$1\" \"$1\" && mount -o remount,bind,ro \"$1\" && \
                  exec env OPENCLAW_STATE_DIR=\"$1\" \"$2\" audit";
    let binary = clawpen_tests::built("clawpen").unwrap();
    let run = in_namespace(script, &state, binary.to_str().unwrap());
    assert_eq!(run.code, Some(1));
    assert!(run.stderr.contains("its directory cannot be written"), "{}", run.stderr);
    assert!(run.stderr.contains("OPENCLAW_STATE_DIR"), "{}", run.stderr);
}

fn in_namespace(script: &str, directory: &Path, program: &str) -> Run {
    let mut command = Command::new("unshare");
    command.args(["-rm", "sh", "-c", script, "sh"]).arg(directory).arg(program);
    Run::of(&mut command)
}

#[test]
fn the_list_is_short_for_people_and_whole_for_programs() {
    let home = with_calls(3);
    let run = home.run(&["audit"]);
    assert_eq!(
        (run.code, run.stdout.as_str()),
        (
            Some(0),
            "2023-11-14 22:13:21  allowed   exec          agent:main:main  exit 0  1 ms  in 0 B out 1 B\n\
             2023-11-14 22:13:22  allowed   exec          agent:main:main  exit 0  1 ms  in 0 B out 2 B\n\
             2023-11-14 22:13:23  refused   browser       agent:main:main  -  1 ms  in 0 B out 3 B\n    \
             denied by `browser` in `tools.deny`\n"
        ),
        "{}",
        run.stderr
    );
    let shown = home.run(&["audit", "--json", "--tool", "browser"]).json();
    let database = Database::open(&home.path(CLAWPEN_STATE)).unwrap();
    let records = database.audit().list(&Filter::default()).unwrap();
    let head = database.audit().head().unwrap();
    assert_eq!(
        shown,
        json!({
            "records": [{
                "seq": 3,
                "time": "2023-11-14T22:13:23.000Z",
                "timeMs": 1_700_000_003_000_u64,
                "kind": "call",
                "call": "c3",
                "session": "agent:main:main",
                "agent": "main",
                "scope": "agent:main",
                "door": "cli",
                "tool": "browser",
                "verdict": "refused",
                "ending": null,
                "durationUs": 1000,
                "bytesIn": 0,
                "bytesOut": 3,
                "reason": "denied by `browser` in `tools.deny`",
                "previous": records[1].hash.to_string(),
                "hash": records[2].hash.to_string(),
            }],
            "head": {"seq": 3, "hash": head.hash.to_string()},
        })
    );
}

#[test]
fn filters_of_the_command_line_reach_the_list() {
    let home = with_calls(3);
    for (args, expected) in [
        (&["--limit", "1"][..], &[3][..]),
        (&["--limit", "0"], &[1, 2, 3]),
        (&["--verdict", "refused"], &[3]),
        (&["--session", "agent:main:main", "--tool", "exec"], &[1, 2]),
        (&["--agent", "nobody"], &[]),
        (&["--since", "2023-11-14T22:13:22Z"], &[2, 3]),
        (&["--until", "2023-11-14T22:13:22Z"], &[1, 2]),
        (&["--since", "1h"], &[]),
    ] {
        let run = home.run(&[&["audit", "--json"], args].concat());
        let seqs: Vec<u64> = run.json()["records"]
            .as_array()
            .unwrap()
            .iter()
            .map(|record| record["seq"].as_u64().unwrap())
            .collect();
        assert_eq!(seqs, expected, "{args:?}");
    }
    for args in [
        &["audit", "--verdict", "fine"][..],
        &["audit", "--since", "soon"],
        &["audit", "--verify", "--head", "7"],
        &["audit", "--verify", "--follow"],
        &["audit", "--verify", "--tool", "exec"],
    ] {
        let run = home.run(args);
        assert_eq!(run.code, Some(1), "{args:?}: {}", run.stdout);
        assert!(!run.stderr.is_empty());
    }
}

#[test]
fn asking_before_anything_happened_makes_nothing() {
    let home = Home::new();
    assert_eq!(home.run(&["audit"]).code, Some(0));
    let run = home.run(&["audit", "--verify", "--json"]);
    assert_eq!((run.code, run.json()["whole"].clone()), (Some(0), json!(true)));
    // A head from elsewhere says that something did happen.
    let head = format!("3:{}", "0".repeat(64));
    assert_eq!(home.run(&["audit", "--verify", "--head", &head]).code, Some(3));
    assert_eq!(home.run(&["doctor", "--repair"]).code, Some(0));
    assert_eq!(fs::read_dir(home.path(CLAWPEN_STATE)).unwrap().count(), 0);
}

#[test]
fn a_head_that_was_exported_proves_the_chain_and_finds_a_rewritten_one() {
    let home = with_calls(3);
    let file = home.path("chain.jsonl");
    let export = home.run(&["audit", "--export", file.to_str().unwrap(), "--json"]);
    assert_eq!(export.code, Some(0), "{}", export.stderr);
    assert_eq!(fs::metadata(&file).unwrap().mode() & 0o777, 0o600);
    let text = fs::read_to_string(&file).unwrap();
    let lines: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(lines[0], json!({"format": "clawpen-audit-1"}));
    assert_eq!(lines.len(), 5);
    assert_eq!(lines[4]["head"], export.json()["head"]);
    assert_eq!(lines[4]["records"], json!(3));
    assert_eq!(home.run(&["audit", "--export", "-"]).stdout, text);
    // Never over a file that is there.
    assert_eq!(home.run(&["audit", "--export", file.to_str().unwrap()]).code, Some(1));
    assert_eq!(fs::read_to_string(&file).unwrap(), text);

    let head = format!("3:{}", export.json()["head"]["hash"].as_str().unwrap());
    append(&home, 4);
    let run = home.run(&["audit", "--verify", "--head", &head]);
    assert_eq!(run.code, Some(0), "{}", run.stdout);
    assert!(run.stdout.contains("all up to it is as it was"), "{}", run.stdout);
    fs::remove_dir_all(home.path(".openclaw/clawpen")).unwrap();
    (1..=5).for_each(|number| append(&home, number + 10));
    assert_eq!(home.run(&["audit", "--verify"]).code, Some(0));
    let run = home.run(&["audit", "--verify", "--head", &head, "--json"]);
    assert_eq!((run.code, run.json()["givenHead"].clone()), (Some(3), json!("missing")));
}

#[test]
fn a_signed_export_proves_the_chain_only_with_the_key_that_signed_it() {
    let home = with_calls(3);
    for key in ["mine", "other"] {
        let made = Command::new("ssh-keygen")
            .args(["-q", "-t", "ed25519", "-N", "", "-f"])
            .arg(home.path(key))
            .status();
        assert!(made.unwrap().success());
    }
    let text = |path: &str| home.path(path).to_str().unwrap().to_owned();
    let (file, mine, other) = (text("chain"), text("mine.pub"), text("other.pub"));
    let export = home.run(&["audit", "--export", &file, "--sign", &text("mine"), "--json"]);
    assert_eq!(export.code, Some(0), "{}", export.stderr);
    assert_eq!(export.json()["signature"], json!(text("chain.sig")));
    append(&home, 4);
    let verify = |key: &str| {
        home.run(&["audit", "--verify", "--against", &file, "--signed-by", key, "--json"])
    };
    let held = verify(&mine);
    assert_eq!(held.code, Some(0), "{}{}", held.stdout, held.stderr);
    let found = held.json();
    assert_eq!((&found["givenHead"], &found["signedBy"]), (&json!("proven"), &json!(mine)));
    let theirs = verify(&other);
    assert_eq!((theirs.code, theirs.stdout.as_str()), (Some(3), ""), "{}", theirs.stderr);
    // Not with a key that is none.
    assert_eq!(verify(&file).code, Some(1));

    // One letter of the export, its head above all, and the signature no longer holds.
    let bytes = fs::read(&file).unwrap();
    for change in [bytes.len() - 10, bytes.len() / 2] {
        let mut changed = bytes.clone();
        changed[change] ^= 1;
        fs::write(&file, &changed).unwrap();
        assert_eq!(verify(&mine).code, Some(3));
    }
    fs::write(&file, &bytes).unwrap();

    // A chain rewritten by whoever has the uid is whole, and is found out.
    fs::remove_dir_all(home.path(".openclaw/clawpen")).unwrap();
    assert_eq!(verify(&mine).code, Some(3));
    (1..=5).for_each(|number| append(&home, number + 10));
    assert_eq!(home.run(&["audit", "--verify"]).code, Some(0));
    let found = verify(&mine);
    assert_eq!((found.code, &found.json()["givenHead"]), (Some(3), &json!("missing")));
}

#[test]
fn an_export_that_cannot_be_signed_is_none() {
    let home = with_calls(1);
    let file = home.path("chain");
    let (name, key) = (file.to_str().unwrap(), home.path("none"));
    let run = home.run(&["audit", "--export", name, "--sign", key.to_str().unwrap()]);
    assert_eq!(run.code, Some(1));
    assert!(run.stderr.contains("cannot sign with"), "{}", run.stderr);
    assert!(!file.exists() && !home.path("chain.sig").exists());
    assert_eq!(home.run(&["audit", "--export", "-", "--sign", "k"]).code, Some(1));
}

#[test]
fn retention_follows_the_config_and_the_chain_stays_whole() {
    let home = with_calls(9);
    assert_eq!(home.run(&["audit", "--retain", "--json"]).json()["records"], json!(0));
    let home = home.with_file(".openclaw/clawpen.json", "{audit: {keepDays: 30, keepAtLeast: 4}}");
    assert_eq!(home.run(&["audit", "--retain", "--json"]).json()["records"], json!(5));
    let run = home.run(&["audit", "--verify", "--json"]);
    assert_eq!(run.code, Some(0), "{}", run.stdout);
    assert_eq!(
        (run.json()["records"].clone(), run.json()["base"]["seq"].clone()),
        (json!(5), json!(5))
    );
    let home = home.with_file(".openclaw/clawpen.json", "{audit: {keepDays: -1}}");
    assert_eq!(home.run(&["audit", "--retain"]).code, Some(1));
}

#[test]
fn a_follower_prints_what_comes_and_ends_when_nobody_reads() {
    let home = with_calls(1);
    let mut follower =
        home.command(&["audit", "--follow", "--json"]).stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(follower.stdout.take().unwrap()).lines();
    let mut seq = || {
        let line: Value = serde_json::from_str(&lines.next().unwrap().unwrap()).unwrap();
        line["seq"].as_u64().unwrap()
    };
    assert_eq!(seq(), 1);
    append(&home, 2);
    assert_eq!(seq(), 2);
    append(&home, 3);
    assert_eq!(seq(), 3);
    drop(lines);
    append(&home, 4);
    assert!(follower.wait().unwrap().success());
}

#[test]
fn a_corrupt_database_is_repaired_only_when_somebody_agrees() {
    let home = with_calls(3);
    let (file, bytes) = corrupt(&home);
    let run = home.run(&["audit"]);
    assert_eq!(run.code, Some(1));
    assert!(run.stderr.contains("clawpen doctor --repair"), "{}", run.stderr);
    let mut alone = home.command(&["doctor", "--repair", "--json"]);
    let run = Run::of(alone.stdin(Stdio::null()));
    assert_eq!((run.code, run.json()["state"].clone()), (Some(1), json!("corrupt")));
    assert!(run.stderr.contains("--yes"), "{}", run.stderr);
    assert_eq!(fs::read(&file).unwrap(), bytes);
    let run = home.run(&["doctor", "--repair", "--yes", "--json"]);
    assert_eq!(run.code, Some(0), "{}", run.stderr);
    let kept = run.json()["rebuilt"]["kept"].as_str().unwrap().to_owned();
    assert_eq!(fs::read(kept).unwrap(), bytes);
    let run = home.run(&["audit", "--json"]);
    assert_eq!(run.json()["records"][0]["kind"], json!("rebuild"));
    let run = home.run(&["doctor", "--repair"]);
    assert_eq!(run.code, Some(0));
    assert!(run.stdout.contains("is sound; nothing to repair"), "{}", run.stdout);
}

#[test]
fn a_repair_writes_down_what_lives_and_says_which() {
    let home =
        Home::with_config("{agents: {defaults: {sandbox: {scope: 'session', backend: 'native'}}}}");
    let pen = |session: &str| {
        let run = home.run(&[
            "exec",
            "--session",
            session,
            "--json",
            "--",
            "readlink",
            "/proc/self/ns/pid",
        ]);
        assert_eq!(run.code, Some(0), "{}", run.stderr);
        let name = run.json()["sandbox"]["name"].as_str().unwrap().to_owned();
        (name, run.json()["stdout"].clone())
    };
    let before = [pen("agent:main:a"), pen("agent:main:b")];
    let mut names: Vec<&str> = before.iter().map(|(name, _)| name.as_str()).collect();
    names.sort_unstable();
    let sorted = |value: &Value| {
        let names = value.as_array().unwrap().iter().map(|name| name.as_str().unwrap().to_owned());
        let mut names: Vec<String> = names.collect();
        names.sort_unstable();
        names
    };
    let repair = || home.run(&["doctor", "--repair", "--yes", "--json"]).json();

    corrupt(&home);
    assert_eq!(sorted(&repair()["rebuilt"]["names"]), names);
    assert_eq!([pen("agent:main:a"), pen("agent:main:b")], before);

    // A database that is lost altogether.
    for name in ["clawpen.db", "clawpen.db-wal", "clawpen.db-shm"] {
        drop(fs::remove_file(home.path(".openclaw/clawpen").join(name)));
    }
    let repaired = repair();
    assert_eq!(
        (&repaired["state"], sorted(&repaired["putRight"]["survivors"])),
        (&json!("absent"), names.iter().map(|name| (*name).to_owned()).collect())
    );
    assert_eq!([pen("agent:main:a"), pen("agent:main:b")], before);

    // Nothing to do is said as such.
    let again = repair();
    let nothing = json!({"survivors": [], "rows": [], "leftovers": 0, "problems": []});
    assert_eq!((&again["state"], &again["putRight"]), (&json!("sound"), &nothing));
}

/// A database whose beginning is overwritten and whose log is lost, which would cover that.
fn corrupt(home: &Home) -> (PathBuf, Vec<u8>) {
    let [file, log, index] =
        ["", "-wal", "-shm"].map(|end| home.path(&format!(".openclaw/clawpen/clawpen.db{end}")));
    for lost in [log, index] {
        fs::remove_file(lost).unwrap();
    }
    let mut bytes = fs::read(&file).unwrap();
    bytes[..64].fill(b'x');
    fs::write(&file, &bytes).unwrap();
    (file, bytes)
}

fn with_calls(count: u64) -> Home {
    let home = Home::new();
    (1..=count).for_each(|number| append(&home, number));
    home
}

fn append(home: &Home, number: u64) {
    let is_third = number.is_multiple_of(3);
    let tool = if is_third { "browser" } else { "exec" };
    let rule = if is_third { "denied by `browser` in `tools.deny`" } else { "allowed by `exec`" };
    let call = Call {
        call: format!("c{number}"),
        session: Some("agent:main:main".to_owned()),
        agent: Some("main".to_owned()),
        scope: Some("agent:main".to_owned()),
        door: Door::Cli,
        tool: tool.to_owned(),
        verdict: if is_third { Verdict::Refused } else { Verdict::Allowed },
        reason: Reason::new(rule),
        ending: (!is_third).then_some(Ending::Exit(0)),
        duration: Duration::from_millis(1),
        bytes_in: 0,
        bytes_out: number,
    };
    let time = Timestamp::from_millis(1_700_000_000_000 + number * 1000);
    let database = Database::open(&home.path(CLAWPEN_STATE)).unwrap();
    database.audit().append(&call, time).unwrap();
}
