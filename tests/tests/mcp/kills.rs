//! The door is killed while it changes files, at moments spread over the whole call: all old or all new.

use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::door::{Ground, Pipes};

/// Files that one patch changes.
const FILES: usize = 24;
/// Kills of each kind.
const ROUNDS: u32 = 24;
/// Lengths of time that the kills are spread over, until they fall on both sides.
const WINDOWS: usize = 6;

fn ground() -> Ground {
    let home = clawpen_tests::home::Home::new();
    let work = home.path("work");
    std::fs::create_dir(&work).unwrap();
    let config = format!(
        "{{agents: {{defaults: {{workspace: '{}', sandbox: {{mode: 'all', backend: 'native', workspaceAccess: 'rw'}}}}}}}}",
        work.display()
    );
    Ground(home.with_file(".openclaw/openclaw.json", &config))
}

/// Sends a call to a door and kills it after so long. Gives whether the answer came first.
fn kill_after(ground: &Ground, delay: Duration, call: &Value) {
    let mut pipes = Pipes::open(ground, &[]);
    // The sandbox is there and the connection warm, so that the delay falls into the call.
    pipes.call("exec", json!({ "command": "true" }));
    pipes.line(
        &json!({ "jsonrpc": "2.0", "id": "cut", "method": "tools/call", "params": call })
            .to_string(),
    );
    let begun = Instant::now();
    while begun.elapsed() < delay {
        std::hint::spin_loop();
    }
    pipes.child.kill().unwrap();
    pipes.child.wait().unwrap();
}

/// How long such a call takes when nobody kills it.
fn usual(ground: &Ground, call: &Value) -> Duration {
    let mut pipes = Pipes::open(ground, &[]);
    pipes.call("exec", json!({ "command": "true" }));
    let begun = Instant::now();
    let done = pipes.ask("tools/call", call);
    assert_eq!(done["result"]["isError"], false, "{done}");
    begun.elapsed()
}

fn patch(from: u32, to: u32) -> Value {
    let update = |number: usize| format!("*** Update File: f{number}\n@@\n-{from}\n+{to}\n same");
    let hunks: Vec<String> = (0..FILES).map(update).collect();
    let swap = format!("*** Delete File: only-{from}\n*** Add File: only-{to}\n+{to}");
    let input = format!("*** Begin Patch\n{}\n{swap}\n*** End Patch", hunks.join("\n"));
    json!({ "name": "apply_patch", "arguments": { "input": input } })
}

/// The version that every file has; two at once is what must not be.
fn version(work: &Path) -> u32 {
    let mut found: Vec<u32> = (0..FILES)
        .map(|number| {
            let text = std::fs::read_to_string(work.join(format!("f{number}"))).unwrap();
            text.strip_suffix("\nsame\n").unwrap().parse().unwrap()
        })
        .collect();
    let names = std::fs::read_dir(work)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap());
    found.extend(names.filter_map(|name| {
        name.strip_prefix("only-").map(|number| number.parse::<u32>().unwrap())
    }));
    assert_eq!(found.len(), FILES + 1, "{found:?}");
    found.dedup();
    assert_eq!(found.len(), 1, "old and new stand side by side: {found:?}");
    found[0]
}

#[test]
fn a_patch_that_is_cut_short_leaves_all_files_old_or_all_new() {
    let ground = ground();
    let work = ground.0.path("work");
    let mut pipes = Pipes::open(&ground, &[]);
    let script = format!(
        "i=0; while [ $i -lt {FILES} ]; do printf '0\\nsame\\n' > f$i; i=$((i+1)); done; echo 0 > only-0"
    );
    assert_eq!(
        pipes.call("exec", json!({ "command": script }))["structuredContent"]["exitCode"],
        0
    );
    drop(pipes);
    let mut window = usual(&ground, &patch(0, 1)) * 3 / 2;
    let mut now = 1;
    assert_eq!(version(&work), now);
    // A busy machine is slower than it was a moment ago: the window moves until kills fall on both sides.
    for _ in 0..WINDOWS {
        let mut done = 0;
        for round in 0..ROUNDS {
            kill_after(&ground, window * round / ROUNDS, &patch(now, now + 1));
            // What was handed over before the kill is still worked through.
            let found = settled(&work);
            assert!(found == now || found == now + 1, "{found} after {now}");
            done += u32::from(found > now);
            now = found;
        }
        match done {
            0 => window *= 3,
            ROUNDS => window /= 3,
            _ => return,
        }
    }
    panic!("the kills all fell on one side, in every window");
}

/// The version once nothing moves any more: another door's call is answered after what came before it.
fn settled(work: &Path) -> u32 {
    let begun = Instant::now();
    let mut last = modified(work);
    loop {
        std::thread::sleep(Duration::from_millis(20));
        let now = modified(work);
        if now == last {
            return version(work);
        }
        last = now;
        assert!(begun.elapsed() < Duration::from_secs(20), "it never comes to rest");
    }
}

fn modified(work: &Path) -> Vec<std::time::SystemTime> {
    let mut times: Vec<_> = std::fs::read_dir(work)
        .unwrap()
        .filter_map(|entry| entry.ok()?.metadata().ok()?.modified().ok())
        .collect();
    times.push(std::fs::metadata(work).unwrap().modified().unwrap());
    times
}

#[test]
fn an_edit_that_is_cut_short_leaves_the_old_file_or_the_new_one() {
    let ground = ground();
    let file = ground.0.path("work/big");
    let text = |word: &str| format!("{word}\n{}end {word}\n", "filler\n".repeat(100_000));
    let edits = |from: &str, to: &str| {
        let pair = |old: String, new: String| json!({ "oldText": old, "newText": new });
        let edits = [
            pair(format!("{from}\nfiller\nfiller"), format!("{to}\nfiller\nfiller")),
            pair(format!("end {from}"), format!("end {to}")),
        ];
        json!({ "name": "edit", "arguments": { "path": "big", "edits": edits } })
    };
    let mut pipes = Pipes::open(&ground, &[]);
    pipes.call("write", json!({ "path": "big", "content": text("a0") }));
    drop(pipes);
    let usual = usual(&ground, &edits("a0", "b0"));
    for round in 0..ROUNDS {
        // What was handed over before the last kill may have come after the last look.
        let now = whole(&file, &text);
        let next = format!("c{round}");
        kill_after(&ground, usual * 3 * round / (2 * ROUNDS), &edits(&now, &next));
        let found = whole(&file, &text);
        assert!(found == now || found == next, "{found} is neither {now} nor {next}");
    }
}

/// The word that a file begins and ends with; everything between must be there.
fn whole(file: &Path, text: &dyn Fn(&str) -> String) -> String {
    let found = std::fs::read_to_string(file).unwrap();
    let word = found.lines().next().unwrap().to_owned();
    assert!(found == text(&word), "neither old nor new: {} bytes", found.len());
    word
}
