//! A tool call of an agent, as a straight line.
//!
//! ```text
//! config ─► session ─► tool policy ─► exec: which host, who must agree ─► sandbox, leased ─► the tool in it ─► record
//!                          └ closed: rule, place and the smallest change; recorded, nothing runs
//! ```
//!
//! Takes a tool's name and its arguments as JSON; gives what the model sees, or a reason. A config that was changed
//! holds for the next call. Decides nothing itself.

use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use clawpen_rules::approval::answer::Word;
use clawpen_rules::approval::resolver::{McpWord, Place, Resolver, Speaker};
use clawpen_rules::config::Config;
use clawpen_rules::elevated::Sender;
use clawpen_rules::ids::AgentId;
use clawpen_rules::mounts::MountTable;
use clawpen_rules::session::key::SessionKey;
use clawpen_rules::tool_policy::Layers;
use clawpen_rules::tools::place::Reach;
use clawpen_rules::tools::{BuiltTool, FileTool};
use clawpen_wire::supervisor::{FileKind, Listing, Place as FilePlace};
use serde_json::Value;

use super::ask::{Pending, Waiters};
use super::failure::ToolCallError;
use super::ready::{Missing, Ready, Sessions};
use super::runs::Runs;
use super::stock::Stock;
use super::stop::Stop;
use super::{About, Keeping, Prepared, Tally, Target, exec, fetch, policy, process, record};
use crate::audit::{Door, Reason, Verdict};
use crate::broker::Resolved;
use crate::config_store::{self, Store, Surroundings};
use crate::tools::{Answer, Settings, ToolError, Tools};
use crate::web::Cache;
use crate::yard::Yard;

/// Yards kept open for the next calls.
const KEPT_YARDS: usize = 16;

/// Who calls, and in which session.
#[derive(Debug, Clone, Default)]
pub struct Who {
    pub session: Option<String>,
    pub agent: Option<String>,
    pub backend: Option<String>,
    /// The channel of `tools.elevated.allowFrom` that speaks of this door.
    pub provider: &'static str,
    /// What the door knows of the caller by itself: a user, a credential. What a caller says of itself is not in here.
    pub sender: Sender,
    /// What the client calls itself. A label for people, and proof of nothing.
    pub client: Option<String>,
    /// The process that the agent runs in, if the door knows it: whatever it starts is no person.
    pub agent_process: Option<u32>,
    pub record: RecordDoor,
    pub policy: PolicyOf,
}

/// Whose tool policy a call is under.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum PolicyOf {
    /// The agent's, who acts in the sandbox: its policy holds too, whatever the mode.
    #[default]
    Agent,
    /// The session's, as `explain` shows it: the caller is a program that shows the gateway's secret, and reaches no tool
    /// that acts in a sandbox.
    Session,
}

/// Where a person set what a session's record holds (`execHost`, `elevatedLevel`, …).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum RecordDoor {
    /// At another door: the record may hold a call back, and lets nothing out.
    #[default]
    Another,
    /// Here, where it takes the owner or `operator.admin` to set it: it counts as it says.
    This,
}

impl Who {
    pub(super) fn target(&self) -> Target<'_> {
        Target {
            session: self.session.as_deref(),
            agent: self.agent.as_deref(),
            backend: self.backend.as_deref(),
        }
    }
}

/// One call.
pub struct ToolRequest<'a> {
    pub tool: &'a str,
    pub arguments: &'a Value,
    /// Pulled when nobody waits for the answer any more.
    pub stop: &'a Stop,
    pub watch: &'a mut dyn Watch,
}

impl std::fmt::Debug for ToolRequest<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ToolRequest").field("tool", &self.tool).finish_non_exhaustive()
    }
}

/// Sees what a command writes while it runs.
pub trait Watch {
    /// The command wrote this. Must not block for long: the command then blocks too.
    fn output(&mut self, bytes: &[u8]);

    /// A command is about to begin in this directory.
    fn begun(&mut self, _cwd: &str) {}

    /// A person is asked first. Said once; the call waits meanwhile.
    fn asked(&mut self, _pending: &Pending) {}
}

/// Sees nothing.
#[derive(Debug, Clone, Copy, Default)]
pub struct Quiet;

impl Watch for Quiet {
    fn output(&mut self, _bytes: &[u8]) {}
}

/// Where a door takes its calls to. Many threads may call at once.
#[derive(Debug)]
pub struct Desk {
    config: ConfigPlace,
    door: Door,
    /// A database connection serves one thread at a time.
    yards: Mutex<Vec<Yard>>,
    sessions: Sessions,
    runs: Runs,
    pages: Cache,
    waiters: Waiters,
    /// After the yards, which share its pens.
    stock: Stock,
}

#[derive(Debug)]
enum ConfigPlace {
    /// Where this process' environment says.
    Process,
    StateDirectory(String),
    Around(Surroundings),
}

/// Everything that one call needs.
pub(super) struct Turn<'a> {
    pub(super) who: &'a Who,
    pub(super) store: &'a Store,
    pub(super) yard: &'a Yard,
    pub(super) prepared: &'a Prepared,
    pub(super) layers: &'a Layers,
    pub(super) runs: &'a Runs,
    pub(super) pages: &'a Cache,
    pub(super) waiters: &'a Waiters,
    /// The config as it is at the moment of asking.
    pub(super) reload: &'a dyn Fn() -> Result<Store, ToolCallError>,
    pub(super) door: Door,
}

impl<'a> Turn<'a> {
    pub(super) fn about(&self, tool: &'a str) -> About<'a> {
        About { door: self.door, tool, keeping: Keeping::Scope }
    }

    pub(super) fn config(&self) -> &Config {
        &self.store.loaded.config
    }

    pub(super) fn agent(&self) -> &AgentId {
        self.prepared.explanation.session.agent()
    }

    /// Whose background commands these are.
    pub(super) fn owner(&self) -> String {
        // Two agents may have sessions of the same name.
        format!("{} {}", self.agent(), self.session().unwrap_or_default())
    }

    pub(super) fn session(&self) -> Option<&str> {
        self.prepared.explanation.session.key().map(SessionKey::as_str)
    }

    /// Records a call that did not run for a reason that only names the tool and our settings.
    pub(super) fn stopped(&self, tool: &str, error: &ToolCallError) -> Result<(), ToolCallError> {
        self.record_stopped(tool, error, Reason::new(&error.for_model()))
    }

    /// The same for a reason that may quote what the call says.
    pub(super) fn stopped_quoting(
        &self,
        tool: &str,
        error: &ToolCallError,
        arguments: &Value,
    ) -> Result<(), ToolCallError> {
        let reason = match error {
            // Names of our own parameters.
            ToolCallError::Arguments(_) => Reason::new(&error.for_model()),
            _ => record::quoting(&error.for_model(), arguments),
        };
        self.record_stopped(tool, error, reason)
    }

    fn record_stopped(
        &self,
        tool: &str,
        error: &ToolCallError,
        reason: Reason,
    ) -> Result<(), ToolCallError> {
        let verdict = match error {
            ToolCallError::Closed(_)
            | ToolCallError::NoTool(_)
            | ToolCallError::Denied(_)
            | ToolCallError::Elevated(_)
            | ToolCallError::Exec(_)
            | ToolCallError::NoImageModel(_)
            | ToolCallError::Arguments(_) => Verdict::Refused,
            ToolCallError::NotApproved(_) => Verdict::Denied,
            _ => Verdict::Failed,
        };
        let about = About { door: self.door, tool, keeping: Keeping::Scope };
        record::stopped(self.yard, self.prepared, &about, (verdict, reason))?;
        Ok(())
    }
}

impl Desk {
    /// A desk under the config that this process' environment points to.
    pub fn new(door: Door) -> Self {
        Self::with(ConfigPlace::Process, door)
    }

    /// A desk of one state directory, whatever this process' environment says.
    pub fn of_state_dir(state_dir: &str, door: Door) -> Self {
        Self::with(ConfigPlace::StateDirectory(state_dir.to_owned()), door)
    }

    /// A desk in these surroundings.
    pub fn around(around: Surroundings, door: Door) -> Self {
        Self::with(ConfigPlace::Around(around), door)
    }

    fn with(config: ConfigPlace, door: Door) -> Self {
        Self {
            config,
            door,
            yards: Mutex::default(),
            sessions: Sessions::default(),
            runs: Runs::default(),
            pages: Cache::default(),
            waiters: Waiters::default(),
            stock: Stock::default(),
        }
    }

    /// The tools that a session is offered.
    pub fn offered(&self, who: &Who) -> Result<Vec<BuiltTool>, ToolCallError> {
        match self.sessions.get(who, || self.store()) {
            Ok(ready) => {
                // Whoever asks is about to call.
                self.stock.begins(&ready);
                Ok(policy::offered(&ready.layers, &ready.store))
            }
            Err(Missing::Config(error)) => Err(error),
            Err(Missing::Session(_, error)) => Err(error.into()),
        }
    }

    /// Carries out one call.
    pub fn call(&self, who: &Who, request: &mut ToolRequest<'_>) -> Result<Answer, ToolCallError> {
        self.at(who, |turn| turn.call(request))
    }

    /// The files at the top of the workspace, for those who may list it.
    pub fn files(&self, who: &Who, most: usize) -> Result<Vec<String>, ToolCallError> {
        self.at(who, |turn| {
            turn.admit(FileTool::List)?;
            let top = FilePlace::Below { root: 0, path: ".".into() };
            let done = super::run(turn.yard, turn.prepared, &turn.about("ls"), |open, _| {
                open.sandbox()
                    .channel()
                    .and_then(|channel| channel.list(&top, Listing::Names, most))
            })?;
            let listed = done.value.map_err(ToolCallError::sandbox("list the workspace"))?;
            let files = listed.entries.into_iter().filter(|entry| entry.kind == FileKind::File);
            let mut names: Vec<String> =
                files.filter_map(|entry| entry.name.into_string().ok()).collect();
            names.sort_unstable();
            Ok(names)
        })
    }

    /// A file of the workspace as it is, for those who may read it. `None` if it is larger than `most`.
    pub fn file(&self, who: &Who, path: &str, most: u64) -> Result<Option<Vec<u8>>, ToolCallError> {
        self.at(who, |turn| {
            turn.admit(FileTool::Read)?;
            let place = FilePlace::Below { root: 0, path: path.into() };
            let done = super::run(turn.yard, turn.prepared, &turn.about("read"), |open, tally| {
                let mut bytes = Vec::new();
                let channel = open.sandbox().channel()?;
                channel.read(place, 0, most.saturating_add(1), &mut bytes)?;
                tally.bytes_out = bytes.len() as u64;
                Ok(bytes)
            })?;
            let bytes = done.value.map_err(ToolCallError::sandbox("read the file"))?;
            Ok((bytes.len() as u64 <= most).then_some(bytes))
        })
    }

    /// An answer to a question of this client's own call, passed on by the client. Whether it counts is decided as for
    /// every other door.
    pub fn answer(&self, who: &Who, id: &str, word: Word) -> Result<Resolved, ToolCallError> {
        self.at(who, |turn| {
            let client = turn.who.client.clone().unwrap_or_default();
            let goes = turn.prepared.own.approvals.elicitation.value;
            let speaker = Speaker::McpClient { client, word: McpWord::Elicited, goes };
            let resolver = Resolver { speaker, place: Place::Connection };
            let approvals = turn.approvals();
            Ok(turn.broker(&approvals).resolve(id, word, &resolver)?)
        })
    }

    /// Removes what is due, if nobody has for a while. Gives what did not work.
    pub fn tidy(&self) -> Vec<String> {
        let Ok(store) = self.store() else { return Vec::new() };
        let notes = self.with_yard(&store, |yard| Ok(super::tidy_now_and_then(yard, &store)));
        notes.unwrap_or_else(|error| vec![error.for_model()])
    }

    /// Does something with a yard, and keeps it for the next call.
    pub(super) fn with_yard<T>(
        &self,
        store: &Store,
        job: impl FnOnce(&Yard) -> Result<T, ToolCallError>,
    ) -> Result<T, ToolCallError> {
        let yard = self.yard(store)?;
        let done = job(&yard);
        self.keep(yard);
        done
    }

    pub(super) const fn door(&self) -> Door {
        self.door
    }

    pub(super) fn store(&self) -> Result<Store, ToolCallError> {
        Ok(match &self.config {
            ConfigPlace::Process => config_store::open()?,
            ConfigPlace::StateDirectory(directory) => config_store::open_in(directory)?,
            ConfigPlace::Around(around) => around.open()?,
        })
    }

    fn yard(&self, store: &Store) -> Result<Yard, ToolCallError> {
        let kept = self.yards.lock().unwrap_or_else(PoisonError::into_inner).pop();
        match kept {
            Some(yard) if yard.state_dir == store.locations.state_dir => Ok(yard),
            Some(_) | None => {
                Ok(Yard::open_beside(&store.locations.state_dir, self.stock.engines())?)
            }
        }
    }

    fn keep(&self, yard: Yard) {
        let mut yards = self.yards.lock().unwrap_or_else(PoisonError::into_inner);
        if yards.len() < KEPT_YARDS {
            yards.push(yard);
        }
    }

    /// Does something in a session, with all that is decided about it at hand.
    pub(super) fn at<T>(
        &self,
        who: &Who,
        job: impl FnOnce(&Turn<'_>) -> Result<T, ToolCallError>,
    ) -> Result<T, ToolCallError> {
        let ready = match self.sessions.get(who, || self.store()) {
            Ok(ready) => ready,
            Err(Missing::Config(error)) => return Err(error),
            Err(Missing::Session(store, error)) => {
                let about = About { door: self.door, tool: "session", keeping: Keeping::Scope };
                return self.with_yard(&store, |yard| {
                    super::record_refusal(yard, &who.target(), &about, &error)?;
                    Err(error.into())
                });
            }
        };
        let Ready { store, prepared, layers, .. } = &*ready;
        let layers = match who.policy {
            PolicyOf::Agent => layers,
            PolicyOf::Session => &prepared.explanation.layers,
        };
        let (runs, pages, waiters, door) = (&self.runs, &self.pages, &self.waiters, self.door);
        let reload = &|| self.store();
        let done = self.with_yard(store, |yard| {
            job(&Turn { who, store, yard, prepared, layers, runs, pages, waiters, reload, door })
        });
        if done.is_ok() {
            self.stock.called(&ready);
        }
        done
    }
}

impl Turn<'_> {
    fn admit(&self, tool: FileTool) -> Result<(), ToolCallError> {
        match policy::admit(tool.as_str(), self.layers, (self.store, self.prepared)) {
            Ok(_) => Ok(()),
            Err(error) => {
                self.stopped(tool.as_str(), &error)?;
                Err(error)
            }
        }
    }

    fn call(&self, request: &mut ToolRequest<'_>) -> Result<Answer, ToolCallError> {
        let tool = match policy::admit(request.tool, self.layers, (self.store, self.prepared)) {
            Ok(tool) => tool,
            Err(error) => {
                self.stopped(request.tool, &error)?;
                return Err(error);
            }
        };
        // Under a policy that leaves the sandbox's out, nothing acts in it.
        if self.who.policy == PolicyOf::Session && tool != BuiltTool::WebFetch {
            let error = ToolCallError::NoTool(format!("`{}` is for agents", tool.as_str()));
            self.stopped(tool.as_str(), &error)?;
            return Err(error);
        }
        // Whoever left while others were served wants nothing done.
        if request.stop.is_pulled() {
            self.stopped(tool.as_str(), &ToolCallError::Cancelled)?;
            return Err(ToolCallError::Cancelled);
        }
        match tool {
            BuiltTool::File(tool) => self.file_tool(tool, request.arguments),
            BuiltTool::Exec => exec::run(self, request),
            BuiltTool::Process => process::run(self, request),
            BuiltTool::WebFetch => fetch::run(self, request),
        }
    }

    fn file_tool(&self, tool: FileTool, arguments: &Value) -> Result<Answer, ToolCallError> {
        let table = self.prepared.explanation.mount_table();
        let settings = self.settings(&table);
        let done =
            super::run(self.yard, self.prepared, &self.about(tool.as_str()), |open, tally| {
                let channel = open.sandbox().channel().map_err(|cause| ToolError::Call {
                    what: "reach",
                    path: String::new(),
                    cause,
                })?;
                let answer = Tools::new(channel, settings).run(tool, arguments);
                count(&answer, tally);
                answer
            })?;
        Ok(done.value?.noting(done.how.as_ref()))
    }

    /// How far the file tools of the session go, over what is mounted where.
    pub(super) fn settings<'t>(&'t self, table: &'t MountTable) -> Settings<'t> {
        let mut settings = Settings::new(self.prepared.workdir());
        settings.table = Some(table);
        settings.reach = self.reach(&["tools", "fs"], Reach::Sandbox);
        settings.patch_reach = match settings.reach {
            Reach::Workspace => Reach::Workspace,
            Reach::Sandbox => self.reach(&["tools", "exec", "applyPatch"], Reach::Workspace),
        };
        settings
    }

    /// `workspaceOnly` of a section: the agent's, else the global one, else what is built in.
    fn reach(&self, section: &[&str], built_in: Reach) -> Reach {
        let own = self.config().agent(self.agent()).and_then(|entry| entry.path(section));
        let blocks = [own, self.config().at(section)];
        let written = blocks.iter().flatten().find_map(|block| block.get("workspaceOnly"));
        match written.map(|at| at.node.as_bool()) {
            None => built_in,
            Some(Some(false)) => Reach::Sandbox,
            // What cannot be read is the stricter of the two.
            Some(Some(true) | None) => Reach::Workspace,
        }
    }
}

fn count(answer: &Result<Answer, ToolError>, tally: &mut Tally) {
    use crate::tools::Block;
    let Ok(answer) = answer else { return };
    let size = |block: &Block| match block {
        Block::Text(text) => text.len() as u64,
        Block::Image { bytes, .. } => bytes.len() as u64,
    };
    tally.bytes_out = answer.content.iter().map(size).sum();
}

/// The time that something took, for its record.
pub(super) fn since(start: Instant, tally: Tally) -> super::Elapsed {
    (start.elapsed(), tally)
}
