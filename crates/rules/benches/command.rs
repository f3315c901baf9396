//! One verdict on a command, text to plan. The budget is 50 µs, and 2 ms with 10,000 entries.

use std::collections::BTreeMap;

use clawpen_rules::command::{
    Analysis, ContentHash, Entry, FileFacts, FileIdentity, Pattern, ProgramFiles, Request,
    SafeBins, Trust, Writer, analyse, decide, detect_obfuscation,
};
use divan::{Bencher, black_box};

fn main() {
    divan::main();
}

/// Every program is there: looking files up is not ours to measure.
struct Everything;

impl ProgramFiles for Everything {
    fn find(&self, path: &str) -> Option<FileFacts> {
        path.starts_with("/usr/bin/").then(|| FileFacts {
            real_path: path.to_owned(),
            identity: FileIdentity { device: 1, inode: 1 },
            is_regular: true,
            is_executable: true,
            writer: Writer::Nobody,
        })
    }

    fn hash(&self, _: &str) -> Option<ContentHash> {
        Some(ContentHash([1; 32]))
    }
}

const COMMANDS: &[&str] = &[
    "ls -la",
    "git log --oneline -n 5 | head -n 3",
    "timeout 60 git -C repo status && ls src | wc -l; echo 'done with it'",
    "sh -c 'rm -rf \"$0\"' /tmp/x",
    "cat <<'EOF'\none\ntwo\nEOF",
];

fn entries(count: usize) -> Vec<Entry> {
    let patterns = (0..count).map(|n| match n % 4 {
        0 => format!("/usr/bin/tool{n}"),
        1 => format!("/opt/*/bin/tool{n}"),
        2 => format!("~/projects/**/tool{n}"),
        _ => format!("/usr/bin/t?ol{n}*"),
    });
    let last = ["/usr/bin/ls", "/usr/bin/git", "/usr/bin/echo"].map(str::to_owned);
    let entry = |pattern: String| Entry {
        pattern: Pattern::compile(&pattern, Some("/home/u")),
        binding: None,
        pin: None,
    };
    patterns.chain(last).map(entry).collect()
}

fn environment() -> BTreeMap<String, String> {
    let mut environment: BTreeMap<String, String> =
        (0..40).map(|n| (format!("VARIABLE_{n}"), "a value of some length".to_owned())).collect();
    environment
        .insert("PATH".to_owned(), "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin".to_owned());
    environment
}

fn analysed(text: &str, environment: &BTreeMap<String, String>) -> Option<Analysis> {
    let request = Request { text, cwd: "/home/u/work", home: Some("/home/u"), environment };
    analyse(&request, &Everything).ok()
}

/// Text to verdict and plan, with a list of ordinary length.
#[divan::bench(args = COMMANDS)]
fn one_verdict(bencher: Bencher, text: &str) {
    let (entries, safe_bins, environment) = (entries(20), SafeBins::default(), environment());
    let trust = Trust { entries: &entries, safe_bins: &safe_bins, skills: &[] };
    bencher.bench_local(|| {
        let analysis = analysed(black_box(text), &environment)?;
        let verdict = decide(&analysis, &trust, &Everything);
        Some((verdict.is_satisfied(), analysis.freeze(&Everything).is_ok()))
    });
}

/// The entry that matches is the last of 10,000.
#[divan::bench(args = ["ls -la", "git status | ls"])]
fn ten_thousand_entries(bencher: Bencher, text: &str) {
    let (entries, safe_bins, environment) = (entries(10_000), SafeBins::default(), environment());
    let trust = Trust { entries: &entries, safe_bins: &safe_bins, skills: &[] };
    bencher.bench_local(|| {
        let analysis = analysed(black_box(text), &environment)?;
        Some(decide(&analysis, &trust, &Everything).is_satisfied())
    });
}

/// The shapes that hide something, on a text that has none.
#[divan::bench(args = COMMANDS)]
fn obfuscation(bencher: Bencher, text: &str) {
    bencher.bench_local(|| detect_obfuscation(black_box(text)).len());
}
