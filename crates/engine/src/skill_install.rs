//! Installs what a skill needs, on this machine, for whoever holds `operator.admin`.
//!
//! ```text
//! SKILL.md ─► who could have written it? ─► rules::workspace::install ─► frozen plan ─► record ─► host_exec ─► record
//! ```
//!
//! The plan is made and run as every command on the host is: programs are found outside of what agents may write, pinned
//! by content, run under a keeper without a shell, and killed with all they started when their time is over. What cannot
//! be recorded does not start. Decides nothing.

use std::collections::BTreeMap;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use clawpen_rules::approval::environment::EnvironmentRefused;
use clawpen_rules::approval::settings::ExecSettings;
use clawpen_rules::command::{self, NotAnalysable, Plan, Request, Unplannable};
use clawpen_rules::config::sandbox::SandboxConfig;
use clawpen_rules::environment::Filter;
use clawpen_rules::workspace::install::{Author, Install, InstallRefusal};

use crate::audit::{AuditError, Call, Door, Reason, Verdict};
use crate::broker::{self, Broker};
use crate::config_store::Store;
use crate::exec_question;
use crate::host_exec::{self, End, Errors, Finished, Limits, RunError, Unseen};
use crate::program_files::RealPrograms;
use crate::random;

/// How an audit record names it.
const TOOL: &str = "skills.install";
/// As much of output and errors is kept.
const OUTPUT: usize = 64 * 1024;

/// What came of an installation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Installed {
    /// `None` if it was ended.
    pub code: Option<u8>,
    pub output: String,
    pub errors: String,
    /// Why it has no code.
    pub ended: Option<&'static str>,
}

/// Why nothing was installed.
#[derive(Debug, thiserror::Error)]
pub enum InstallError {
    #[error("cannot look at `{path}`")]
    Look {
        path: String,
        #[source]
        cause: io::Error,
    },
    #[error(transparent)]
    Environment(#[from] EnvironmentRefused),
    #[error("`{program}` cannot be run: {cause}")]
    NotAnalysable { program: String, cause: NotAnalysable },
    #[error("`{program}` is not installed here, or lies where an agent may write: {cause}")]
    Unplannable { program: String, cause: Unplannable },
    #[error("it cannot be recorded, so it is not done")]
    Audit(#[from] AuditError),
    #[error(transparent)]
    Run(#[from] RunError),
}

/// Who could have written a skill's file.
pub fn author(store: &Store, file: &Path) -> Result<Author, InstallError> {
    let look = |cause| InstallError::Look { path: file.to_string_lossy().into_owned(), cause };
    let real = std::fs::canonicalize(file).map_err(look)?;
    for place in agents_places(store) {
        let real_place = std::fs::canonicalize(&place).unwrap_or_else(|_| place.clone());
        if real.starts_with(&real_place) || file.starts_with(&place) {
            let place = place.to_string_lossy().into_owned();
            return Ok(Author::Agent { place });
        }
    }
    // The file and every directory above it: who may rename one of them chooses what is read.
    let own = std::fs::metadata("/proc/self").map_err(look)?.uid();
    for path in real.ancestors() {
        let facts = std::fs::symlink_metadata(path).map_err(look)?;
        let is_ours = facts.uid() == own || facts.uid() == 0;
        // In a directory such as /tmp only owners rename what is theirs.
        let is_sticky = facts.is_dir() && facts.mode() & 0o1000 != 0;
        if !is_ours || (facts.mode() & 0o022 != 0 && !is_sticky) {
            return Ok(Author::Others);
        }
    }
    Ok(Author::Owner)
}

/// Where agents may write.
fn agents_places(store: &Store) -> Vec<PathBuf> {
    let (config, locations) = (&store.loaded.config, &store.locations);
    let mut places = exec_question::bound_writable(store);
    let agents = config.agents();
    let default = config.default_agent();
    for agent in agents.iter().map(|(agent, _)| agent).chain([&default]) {
        places.push(locations.agent_workspace(config, agent).value);
        if let Ok(sandbox) = SandboxConfig::resolve(config, Some(agent), &locations.state_dir) {
            places.push(sandbox.workspace_root.value);
        }
    }
    places.into_iter().map(PathBuf::from).collect()
}

/// Notes that nothing is installed, and why.
pub fn refuse(broker: &Broker<'_>, refusal: &InstallRefusal) -> Result<(), InstallError> {
    let call = blank(Verdict::Refused, &refusal.to_string());
    broker.database.audit().append(&call, broker.clock.now().wall)?;
    Ok(())
}

/// Installs, and waits for the end.
pub fn run(
    store: &Store,
    broker: &Broker<'_>,
    install: &Install,
    time: Duration,
) -> Result<Installed, InstallError> {
    let (plan, programs) = plan(store, install)?;
    let hash = plan.hash().to_string();
    let hash = hash.get(..12).unwrap_or(&hash).to_owned();
    let program = install.program();
    let mut record = blank(
        Verdict::Allowed,
        &format!("starts `{program}` on the host for an admin (plan {hash})"),
    );
    broker.database.audit().append(&record, broker.clock.now().wall)?;
    let limits = Limits { time, output_bytes: OUTPUT, errors: Errors::Apart };
    let start = Instant::now();
    let ran = host_exec::run(&plan, &programs, limits, &mut Unseen);
    record.duration = start.elapsed();
    if let Ok(finished) = &ran {
        record.ending = Some(broker::ending(finished));
        record.bytes_out = finished.written;
        let said = format!("ran `{program}` on the host for an admin (plan {hash})");
        record.reason = Reason::new(&said);
    } else {
        record.verdict = Verdict::Failed;
        record.reason = Reason::new(&format!("`{program}` was not run (plan {hash})"));
    }
    broker.database.audit().append(&record, broker.clock.now().wall)?;
    Ok(installed(&ran?))
}

fn plan(store: &Store, install: &Install) -> Result<(Plan, RealPrograms), InstallError> {
    let config = &store.loaded.config;
    let settings = ExecSettings::resolve(config, &config.default_agent());
    let writers = exec_question::writers(store, &[]);
    let environment = exec_question::host_environment(&settings, &writers, &[])?;
    // An installer runs what others wrote: no credential of ours is in its environment.
    let environment = environment.iter().map(|(name, value)| (name.as_str(), value.as_str()));
    let kept = Filter::except_credentials().apply(environment).kept;
    let environment: BTreeMap<String, String> =
        kept.iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
    let programs = RealPrograms::new(writers);
    let home = store.locations.home.as_str();
    let line = install.line();
    let request = Request { text: &line, cwd: home, home: Some(home), environment: &environment };
    let program = || install.program().to_owned();
    let analysis = command::analyse(&request, &programs)
        .map_err(|cause| InstallError::NotAnalysable { program: program(), cause })?;
    let plan = analysis
        .freeze(&programs)
        .map_err(|cause| InstallError::Unplannable { program: program(), cause })?;
    Ok((plan, programs))
}

fn installed(finished: &Finished) -> Installed {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let (code, ended) = match finished.end {
        End::Status(clawpen_os::process::ExitStatus::Code(code)) => (Some(code), None),
        End::Status(clawpen_os::process::ExitStatus::Signal(_)) => (None, Some("it was killed")),
        End::TimedOut => (None, Some("its time was over")),
        End::Stopped => (None, Some("it was stopped")),
        End::Lost(_) => (None, Some("its keeper was killed, so how far it got is not known")),
    };
    Installed { code, output: text(&finished.output), errors: text(&finished.errors), ended }
}

fn blank(verdict: Verdict, reason: &str) -> Call {
    Call {
        call: random::uuid(),
        session: None,
        agent: None,
        scope: None,
        door: Door::Websocket,
        tool: TOOL.to_owned(),
        verdict,
        reason: Reason::new(reason),
        ending: None,
        duration: Duration::ZERO,
        bytes_in: 0,
        bytes_out: 0,
    }
}
