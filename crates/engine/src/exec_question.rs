//! Answers `why command` and `approvals allowlist check`: what would happen to a command text.
//!
//! Looks up config, session record, approvals file and the programs of this machine, and asks the
//! rules, in the order in which a call would. Nothing is started, nobody is asked, nothing is written.

use std::collections::BTreeMap;
use std::path::Path;

use clawpen_rules::approval::always;
use clawpen_rules::approval::environment::EnvironmentRefused;
use clawpen_rules::approval::file::{
    AgentKey, ApprovalsFile, Entry, FilePolicy, FileRefused, NewEntry,
};
use clawpen_rules::approval::in_sandbox::{self, InSandbox};
use clawpen_rules::approval::run_form::{self, Frozen, NotFrozen};
use clawpen_rules::approval::settings::ExecSettings;
use clawpen_rules::approval::{self, Decision, Findings, change, environment};
use clawpen_rules::command::{
    self, Admission, ContentHash, ProgramFiles as _, Request, SegmentVerdict, Trust,
};
use clawpen_rules::config::locate::expand_tilde;
use clawpen_rules::config::sandbox::SandboxConfig;
use clawpen_rules::elevated::level::Elevation;
use clawpen_rules::exec_host::{
    self, ExecDecision, ExecRefusal, HostExec, HostWish, SandboxExec, SessionSandbox, Situation,
    Wishes,
};
use clawpen_rules::explain::Explanation;
use clawpen_rules::mounts::BindSpec;
use clawpen_rules::posix;
use clawpen_rules::tool_policy::{self, Tool, Verdict};

use crate::approvals_file::ApprovalsStore;
use crate::config_store::Store;
use crate::explain::{self, Question, QuestionError};
use crate::program_files::{RealPrograms, Writers};
use crate::session_store;

/// A command that somebody wants to know about.
#[derive(Debug, Clone, Copy)]
pub struct CommandQuestion<'a> {
    pub text: &'a str,
    /// From the agent's workspace on; without it that itself.
    pub cwd: Option<&'a str>,
    pub who: Question<'a>,
    pub call: CallFacts<'a>,
}

/// What a call itself says, beside its text. Somebody who only asks says nothing.
#[derive(Debug, Clone, Copy)]
pub struct CallFacts<'a> {
    /// Host, security and ask as the call wants them.
    pub wishes: Wishes,
    pub elevation: &'a Elevation,
    /// Variables that the call wants to set.
    pub overrides: &'a [(String, String)],
    pub door: DoorSandbox,
}

/// Whether a door has sandboxes only.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DoorSandbox {
    /// The session's mode counts.
    AsConfigured,
    /// Whoever comes in by it acts in the session's sandbox, whatever the mode says.
    Always,
    /// The same, unless the mode sandboxes nothing and a person has set the session's commands to run elsewhere.
    UnlessSet,
}

impl Default for CallFacts<'_> {
    fn default() -> Self {
        // Whoever asks here sent no message, so no list can name them.
        let elevation = &Elevation::Off;
        let door = DoorSandbox::AsConfigured;
        Self { wishes: Wishes::default(), elevation, overrides: &[], door }
    }
}

/// What would happen.
#[derive(Debug)]
pub struct CommandAnswer {
    pub explanation: Explanation,
    pub cwd: String,
    pub outcome: Outcome,
}

/// The answer itself.
#[derive(Debug)]
pub enum Outcome {
    /// The tool itself is closed.
    ToolClosed { reason: String, changes: Vec<String> },
    /// It goes to the session's sandbox, and this is whether somebody is asked first.
    Sandbox { exec: SandboxExec, asks: InSandbox },
    /// No host takes it.
    Refused { refusal: ExecRefusal, change: String },
    /// It would go to the gateway's machine.
    Host(Box<HostAnswer>),
}

/// What would happen on the gateway's machine.
#[derive(Debug)]
pub struct HostAnswer {
    pub policy: HostExec,
    pub findings: Findings,
    pub decision: Decision,
    /// What would run, if it runs.
    pub frozen: Result<Frozen, NotFrozen>,
    pub changes: Vec<String>,
    /// What "allow always" would remember, if a person is asked.
    pub remember: Vec<NewEntry>,
    /// For each segment in order, the pattern of the entry that covers it.
    pub covered_by: Vec<Option<String>>,
    pub warnings: Vec<String>,
}

/// Answers a question about a command.
pub fn ask(store: &Store, question: &CommandQuestion<'_>) -> Result<CommandAnswer, QuestionError> {
    let explanation = explain::explain(store, &question.who)?;
    ask_about(store, explanation, question)
}

/// The same about a session that was explained already.
pub(crate) fn ask_about(
    store: &Store,
    explanation: Explanation,
    question: &CommandQuestion<'_>,
) -> Result<CommandAnswer, QuestionError> {
    let config = &store.loaded.config;
    let agent = explanation.session.agent().clone();
    let workspace = store.locations.agent_workspace(config, &agent);
    let cwd = match question.cwd {
        Some(asked) => posix::resolve(&workspace.value, asked),
        None => workspace.value,
    };
    if let Some(closed) = tool_closed(&explanation) {
        return Ok(CommandAnswer { explanation, cwd, outcome: closed });
    }
    let key = AgentKey::of(&agent);
    let approvals = ApprovalsStore::of_home(&store.locations.home).read().map(|seen| seen.file);
    let policy = approvals.as_ref().map(|file| file.policy(&key));
    let approved = policy.as_ref().map_err(|refused| *refused);
    let outcome = match host(store, &explanation, approved, &question.call) {
        ExecDecision::Sandbox(exec) => {
            let asks = in_sandbox::decide(&exec, &store.loaded.own.resolve(&agent).ask_in_sandbox);
            Outcome::Sandbox { exec, asks }
        }
        ExecDecision::Refused(refusal) => {
            let change = change::of_refusal(&refusal);
            Outcome::Refused { refusal, change }
        }
        ExecDecision::Gateway(policy) => {
            // The decision was made from a file that could be read.
            let file = approvals.unwrap_or_else(|_| ApprovalsFile::empty());
            let subject = Subject { store, explanation: &explanation, file: &file, key: &key };
            let mut answer = on_host(&subject, question, &cwd, policy)?;
            if stays_inside(store, &explanation, &question.call) {
                answer.warnings.push(STAYS_INSIDE.to_owned());
            }
            Outcome::Host(Box::new(answer))
        }
    };
    Ok(CommandAnswer { explanation, cwd, outcome })
}

/// What holds at every door of ours where the mode sandboxes nothing and nobody has named a host.
const STAYS_INSIDE: &str = "agents that Clawpen itself serves (chat, gateway, MCP) run their commands in a sandbox all \
    the same; these reach this machine only where a person sends them, by `tools.exec.host` or `/exec host=gateway`";

/// Whether a session whose commands the mode would let out has them in a sandbox at our own doors.
fn stays_inside(store: &Store, explanation: &Explanation, call: &CallFacts<'_>) -> bool {
    let inside = CallFacts { door: DoorSandbox::UnlessSet, ..*call };
    // The approvals file has no say in where a command goes.
    let policy = ApprovalsFile::empty().policy(&AgentKey::of(explanation.session.agent()));
    call.door == DoorSandbox::AsConfigured
        && matches!(host(store, explanation, Ok(&policy), &inside), ExecDecision::Sandbox(_))
}

/// The hash that an entry for `pattern` must be pinned to: that of the file it names, if an agent
/// could change that file. A pattern for many files cannot be pinned.
pub fn pin(store: &Store, pattern: &str) -> Option<ContentHash> {
    let path = expand_tilde(pattern.trim(), &store.locations.home);
    if !path.starts_with('/') || path.contains(['*', '?']) {
        return None;
    }
    let programs = RealPrograms::new(writers(store, &[]));
    let facts = programs.find(&posix::normalize(&path))?;
    (facts.is_regular && facts.agent_may_write()).then(|| programs.hash(&facts.real_path))?
}

fn tool_closed(explanation: &Explanation) -> Option<Outcome> {
    let tool = Tool::core("exec");
    let verdict = tool_policy::decide(&explanation.layers, &tool);
    match &verdict {
        Verdict::Allowed(_) => None,
        Verdict::Blocked(_) => {
            let changes = tool_policy::smallest_change(&explanation.layers, &tool);
            Some(Outcome::ToolClosed {
                reason: explain::tool_verdict(&verdict).reason,
                changes: changes.iter().map(ToString::to_string).collect(),
            })
        }
    }
}

/// What a person should know about where this session's commands go, for `explain`. The approvals
/// file has no say in that.
pub(crate) fn placement_notes(store: &Store, explanation: &Explanation) -> Vec<String> {
    let policy = ApprovalsFile::empty().policy(&AgentKey::of(explanation.session.agent()));
    match host(store, explanation, Ok(&policy), &CallFacts::default()) {
        ExecDecision::Sandbox(exec) => {
            let own = store.loaded.own.resolve(explanation.session.agent());
            match in_sandbox::decide(&exec, &own.ask_in_sandbox) {
                asks @ InSandbox::Ask { .. } => vec![format!("exec: {asks}")],
                InSandbox::Run { .. } => Vec::new(),
            }
        }
        ExecDecision::Gateway(exec) => {
            let inside = stays_inside(store, explanation, &CallFacts::default());
            let inside = inside.then(|| format!("exec: {STAYS_INSIDE}"));
            exec.warnings().iter().map(ToString::to_string).chain(inside).collect()
        }
        ExecDecision::Refused(refusal) => vec![format!("exec is refused: {refusal}")],
    }
}

fn host(
    store: &Store,
    explanation: &Explanation,
    approvals: Result<&FilePolicy, &FileRefused>,
    call: &CallFacts<'_>,
) -> ExecDecision {
    let config = &store.loaded.config;
    let session = &explanation.session;
    let record = store.locations.session_store(config, session.agent());
    let stored = session.key().map(|key| session_store::exec_wishes(Path::new(&record), key));
    let stored = stored.unwrap_or_default();
    let is_sandboxed = explanation.is_sandboxed();
    let sandbox = match call.door {
        DoorSandbox::AsConfigured if !is_sandboxed => SessionSandbox::None,
        DoorSandbox::Always | DoorSandbox::UnlessSet | DoorSandbox::AsConfigured => {
            SessionSandbox::Required
        }
    };
    let (session_wishes, request) = match call.door {
        DoorSandbox::AsConfigured | DoorSandbox::UnlessSet if !is_sandboxed => {
            (stored, call.wishes)
        }
        // Pages that do not look at the defaults write the host into the record of a session that is sandboxed.
        DoorSandbox::AsConfigured => (Wishes { host: inside(stored), ..stored }, call.wishes),
        DoorSandbox::Always | DoorSandbox::UnlessSet => tightened(stored, call.wishes),
    };
    exec_host::decide(&Situation {
        config,
        agent: session.agent(),
        sandbox,
        message: Wishes::default(),
        session: session_wishes,
        request,
        elevation: call.elevation,
        approvals,
    })
}

/// The host that a record may name for a session that stays in its sandbox.
fn inside(stored: Wishes) -> Option<HostWish> {
    stored.host.filter(|host| *host == HostWish::Sandbox)
}

/// What a session's record wishes, at a door that is not the one where a person set it: it may hold a call back, and
/// lets nothing out. Gives what counts as the session's and as the call's.
fn tightened(stored: Wishes, call: Wishes) -> (Wishes, Wishes) {
    let session = Wishes { host: inside(stored), ..Wishes::default() };
    let security = match (stored.security, call.security) {
        (Some(stored), Some(call)) => Some(stored.min(call)),
        (stored, call) => stored.or(call),
    };
    let ask = match (stored.ask, call.ask) {
        (Some(stored), Some(call)) => Some(stored.max(call)),
        (stored, call) => stored.or(call),
    };
    (session, Wishes { security, ask, ..call })
}

/// Whom a host answer is about.
struct Subject<'a> {
    store: &'a Store,
    explanation: &'a Explanation,
    file: &'a ApprovalsFile,
    key: &'a AgentKey,
}

fn on_host(
    subject: &Subject<'_>,
    question: &CommandQuestion<'_>,
    cwd: &str,
    policy: HostExec,
) -> Result<HostAnswer, EnvironmentRefused> {
    let text = question.text;
    let Subject { store, explanation, file, key } = subject;
    let home = store.locations.home.as_str();
    let settings = ExecSettings::resolve(&store.loaded.config, explanation.session.agent());
    let writers = writers_of(store, explanation);
    let environment = host_environment(&settings, &writers, question.call.overrides)?;
    let programs = RealPrograms::new(writers);
    let listed: Vec<(&Entry, _)> = file
        .allowlist(key)
        .filter_map(|entry| Some((entry, entry.to_trusted(Some(home))?)))
        .collect();
    let (written, entries): (Vec<&Entry>, Vec<_>) = listed.into_iter().unzip();
    let trust = Trust { entries: &entries, safe_bins: &settings.safe_bins, skills: &[] };
    let request = Request { text, cwd, home: Some(home), environment: &environment };
    let findings = Findings::of(&request, &trust, &programs);
    let decision = approval::decide(&policy, &findings, settings.inline);
    let covered_by = findings.verdict.iter().flat_map(command::Verdict::segments);
    let covered_by = covered_by.map(|segment| match segment {
        SegmentVerdict::Admitted(Admission::Entry(index)) => {
            written.get(*index).map(|entry| entry.pattern.clone())
        }
        SegmentVerdict::Admitted(Admission::SafeBin | Admission::Skill)
        | SegmentVerdict::Missed(_) => None,
    });
    let mut warnings: Vec<String> = policy.warnings().iter().map(ToString::to_string).collect();
    warnings.extend(file.warnings().iter().map(ToString::to_string));
    let remember = match &decision {
        Decision::Ask(_) => always::entries(&policy, &findings, settings.inline, &programs),
        Decision::Run(_) | Decision::Refuse(_) => Vec::new(),
    };
    Ok(HostAnswer {
        remember,
        covered_by: covered_by.collect(),
        frozen: run_form::freeze(&policy, &findings, &request, &programs),
        changes: change::smallest(&decision, &findings, key),
        warnings,
        decision,
        findings,
        policy,
    })
}

/// The programs of this machine, as a session's agent could change them.
pub fn programs(store: &Store, explanation: &Explanation) -> RealPrograms {
    RealPrograms::new(writers_of(store, explanation))
}

fn writers_of(store: &Store, explanation: &Explanation) -> Writers {
    let workspace =
        store.locations.agent_workspace(&store.loaded.config, explanation.session.agent());
    let mut places = vec![explanation.sandbox.workspace_root.value.clone(), workspace.value];
    let table = explanation.mount_table();
    let writable = table.mounts().iter().filter(|mount| mount.access.is_writable());
    places.extend(writable.map(|mount| mount.host_root.clone()));
    writers(store, &places)
}

/// The host's side of everything that an agent's sandbox may write by a bind.
fn bound_writable(store: &Store) -> Vec<String> {
    let config = &store.loaded.config;
    let mut found = Vec::new();
    let agents = config.agents();
    for agent in agents.iter().map(|(agent, _)| Some(agent)).chain([None]) {
        let resolved = SandboxConfig::resolve(config, agent, &store.locations.state_dir);
        // A config that makes no sense makes no sandbox.
        let Ok(sandbox) = resolved else { continue };
        for binds in [&sandbox.docker.binds, &sandbox.browser.binds].into_iter().flatten() {
            let specs = binds.iter().filter_map(|bind| BindSpec::parse(&bind.value));
            let writable = specs.filter(|bind| !bind.is_read_only());
            found.extend(writable.map(|bind| posix::normalize(bind.source)));
        }
    }
    found.retain(|path| path.starts_with('/'));
    found
}

/// The environment that a command would get: this process' own stands for the gateway's. Directories
/// that agents write are no place to find programs in, for us or for what we start.
fn host_environment(
    settings: &ExecSettings,
    writers: &Writers,
    overrides: &[(String, String)],
) -> Result<BTreeMap<String, String>, EnvironmentRefused> {
    let own = std::env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)));
    let parts = environment::Parts {
        inherited: &own.collect(),
        overrides: &overrides.iter().cloned().collect(),
        operator_allows: &[],
        path_prepend: &settings.path_prepend,
    };
    let mut environment = environment::decide(&parts)?;
    if let Some(path) = environment.get_mut("PATH") {
        let kept = path.split(':').filter(|directory| {
            directory.starts_with('/') && !writers.is_agent_directory(directory)
        });
        *path = kept.collect::<Vec<_>>().join(":");
    }
    Ok(environment)
}

/// Who could change programs: this user, and agents in their own directories.
fn writers(store: &Store, places: &[String]) -> Writers {
    let locations = &store.locations;
    let config = &store.loaded.config;
    let mut directories =
        vec![locations.state_dir.clone(), format!("{}/.openclaw", locations.home)];
    directories.extend(places.iter().cloned());
    directories.extend(bound_writable(store));
    let agents = config.agents();
    directories
        .extend(agents.iter().map(|(agent, _)| locations.agent_workspace(config, agent).value));
    // The same places by their real paths: a link must not hide one.
    let real = directories.iter().filter_map(|path| std::fs::canonicalize(path).ok());
    let real: Vec<String> =
        real.filter_map(|path| path.into_os_string().into_string().ok()).collect();
    directories.extend(real);
    // `/` as a workspace would make everything suspect, which is what it means.
    Writers::of_process(directories)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_sandbox_may_write_by_a_bind_counts_like_a_workspace() {
        let place = tempfile::tempdir().unwrap();
        let base = place.path().canonicalize().unwrap();
        let base = base.to_str().unwrap();
        let state = format!("{base}/state");
        std::fs::create_dir_all(&state).unwrap();
        for name in ["rw", "plain", "ro", "browser", "agent"] {
            std::fs::create_dir(format!("{base}/{name}")).unwrap();
            std::fs::write(format!("{base}/{name}/tool"), name).unwrap();
        }
        std::os::unix::fs::symlink(format!("{base}/agent"), format!("{base}/link")).unwrap();
        let config = format!(
            "{{agents: {{defaults: {{sandbox: {{docker: {{binds: ['{base}/rw:/rw:rw', '{base}/plain:/p', \
             '{base}/ro:/ro:ro']}}, browser: {{binds: ['{base}/browser:/b']}}}}}}, \
             list: [{{id: 'other', sandbox: {{docker: {{binds: ['{base}/link:/l:rw']}}}}}}]}}}}"
        );
        std::fs::write(format!("{state}/openclaw.json"), config).unwrap();
        let store = crate::config_store::open_in(&state).unwrap();
        let writers = writers(&store, &[]);
        for (name, expected) in
            [("rw", true), ("plain", true), ("browser", true), ("agent", true), ("ro", false)]
        {
            let tool = format!("{base}/{name}/tool");
            assert_eq!(writers.is_agent_directory(&tool), expected, "{name}");
        }
    }
}
