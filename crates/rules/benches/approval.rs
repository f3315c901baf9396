//! One verdict on a command. The budgets: 50 µs for a usual list, 2 ms for ten thousand entries.

use std::collections::BTreeMap;

use clawpen_rules::approval::file::{AgentKey, ApprovalsFile};
use clawpen_rules::approval::{Decision, Findings, InlineRule, decide};
use clawpen_rules::command::{
    self, ContentHash, FileFacts, FileIdentity, ProgramFiles, Request, SafeBins, Trust, Writer,
};
use clawpen_rules::config::Config;
use clawpen_rules::elevated::level::Elevation;
use clawpen_rules::exec_host::{self, ExecDecision, HostExec, SessionSandbox, Situation, Wishes};
use clawpen_rules::ids::AgentId;
use divan::{Bencher, black_box};

/// Every program is there, at once: what is measured is the rules.
struct Machine;

impl ProgramFiles for Machine {
    fn find(&self, path: &str) -> Option<FileFacts> {
        path.starts_with("/usr/bin/").then(|| FileFacts {
            real_path: path.to_owned(),
            identity: FileIdentity { device: 1, inode: 1 },
            is_regular: true,
            is_executable: true,
            writer: Writer::Nobody,
        })
    }

    fn hash(&self, _real_path: &str) -> Option<ContentHash> {
        Some(ContentHash([0; 32]))
    }
}

fn main() {
    divan::main();
}

/// A file with this many entries, the one that matches last.
#[expect(clippy::expect_used, reason = "a bench whose file is broken measures nothing")]
fn file(entries: usize) -> ApprovalsFile {
    let others = (1..entries).map(|number| format!("\"/opt/*/tool-{number}\""));
    let list: Vec<String> = others.chain(["\"/usr/bin/ls\"".to_owned()]).collect();
    let text =
        format!("{{\"version\":1,\"agents\":{{\"main\":{{\"allowlist\":[{}]}}}}}}", list.join(","));
    ApprovalsFile::parse(&text, &mut || "id".to_owned()).expect("the bench's file parses")
}

#[expect(clippy::panic, reason = "a bench without a policy measures nothing")]
fn policy(file: &ApprovalsFile) -> HostExec {
    let none = Wishes::default();
    let decision = exec_host::decide(&Situation {
        config: &Config::empty(),
        agent: &AgentId::main(),
        sandbox: SessionSandbox::None,
        message: none,
        session: none,
        request: none,
        elevation: &Elevation::Off,
        approvals: Ok(&file.policy(&AgentKey::of(&AgentId::main()))),
    });
    match decision {
        ExecDecision::Gateway(policy) => policy,
        other => panic!("{other:?}"),
    }
}

#[divan::bench(args = [12, 10_000])]
fn one_verdict(bencher: Bencher<'_, '_>, entries: usize) {
    let file = file(entries);
    let policy = policy(&file);
    let key = AgentKey::of(&AgentId::main());
    let trusted: Vec<command::Entry> =
        file.allowlist(&key).filter_map(|entry| entry.to_trusted(Some("/home/u"))).collect();
    let safe_bins = SafeBins::default();
    let trust = Trust { entries: &trusted, safe_bins: &safe_bins, skills: &[] };
    let environment = BTreeMap::from([("PATH".to_owned(), "/usr/local/bin:/usr/bin".to_owned())]);
    let text = "ls -la 'some dir' | head -n 5 && ls";
    let request = Request { text, cwd: "/ws", home: Some("/home/u"), environment: &environment };
    bencher.bench(|| {
        let findings = Findings::of(black_box(&request), &trust, &Machine);
        let decision = decide(&policy, &findings, InlineRule::AsPolicySays);
        assert!(matches!(decision, Decision::Run(_)));
        decision
    });
}

/// Reading and preparing the file: once for each change of it.
#[divan::bench(args = [12, 10_000])]
fn prepare(bencher: Bencher<'_, '_>, entries: usize) {
    let text = file(entries).to_text();
    let key = AgentKey::of(&AgentId::main());
    bencher.bench(|| {
        let file = ApprovalsFile::parse(black_box(&text), &mut || "id".to_owned());
        file.map(|file| file.allowlist(&key).filter_map(|entry| entry.to_trusted(None)).count())
    });
}
