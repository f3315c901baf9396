//! What a run of an agent needs of its session besides its tools: what is decided about it, its sandbox before any model
//! is asked, its files, and a record for what is done beside the sandbox.

use std::fs::{DirBuilder, OpenOptions};
use std::io::Write as _;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::Path;
use std::time::Instant;

use clawpen_rules::explain::Explanation;
use clawpen_rules::tools::BuiltTool;
use clawpen_rules::tools::sessions::SessionTool;
use clawpen_rules::workspace::media::{MAX_BYTES, safe_name};
use clawpen_wire::supervisor::Place;

use super::desk::{Desk, Turn, Who, since};
use super::failure::ToolCallError;
use super::{Tally, policy, record};
use crate::approvals_file::ApprovalsStore;
use crate::broker::Broker;
use crate::config_store::Store;
use crate::random;
use crate::workspaces::Workspaces;

/// A session, decided; nothing of it is started.
#[derive(Debug)]
pub struct SessionView<'a> {
    pub store: &'a Store,
    pub explanation: &'a Explanation,
    /// The tools that it is offered.
    pub tools: Vec<BuiltTool>,
    pub session_tools: Vec<SessionTool>,
    /// Whether policy opens `image`; whether there is a model for it is another question.
    pub opens_image: bool,
}

/// A file that comes with a message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Attachment {
    pub name: String,
    pub mime_type: String,
    pub bytes: Vec<u8>,
}

/// Where an attachment is, or why it is nowhere.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Placed {
    pub name: String,
    /// From the workspace's top.
    pub path: Result<String, String>,
}

impl Desk {
    /// Looks at a session as the config is now.
    pub fn look<T>(
        &self,
        who: &Who,
        job: impl FnOnce(&SessionView<'_>) -> T,
    ) -> Result<T, ToolCallError> {
        self.at(who, |turn| {
            let is_open = |tool: &SessionTool| turn.ask_for(*tool).is_ok();
            Ok(job(&SessionView {
                store: turn.store,
                explanation: &turn.prepared.explanation,
                tools: policy::offered(turn.layers, turn.store),
                session_tools: SessionTool::ALL.into_iter().filter(is_open).collect(),
                opens_image: turn.opens_image(),
            }))
        })
    }

    /// Sees to it that the session's sandbox runs, and reads those of these files of its workspace that are there and
    /// are text. A longer one is cut.
    pub fn enter(
        &self,
        who: &Who,
        names: &[&str],
        most: u64,
    ) -> Result<Vec<(String, String)>, ToolCallError> {
        self.at(who, |turn| {
            let done =
                super::run(turn.yard, turn.prepared, &turn.about("session"), |open, tally| {
                    let channel = open
                        .sandbox()
                        .channel()
                        .map_err(ToolCallError::sandbox("reach the sandbox"))?;
                    let mut files = Vec::new();
                    for name in names {
                        let place = Place::Below { root: 0, path: (*name).into() };
                        let mut bytes = Vec::new();
                        // Most are not there, and what cannot be read tells the model nothing.
                        if channel.read(place, 0, most, &mut bytes).is_ok() {
                            tally.bytes_out += bytes.len() as u64;
                            let text = String::from_utf8_lossy(&bytes).into_owned();
                            if !text.trim().is_empty() {
                                files.push(((*name).to_owned(), text));
                            }
                        }
                    }
                    Ok(files)
                })?;
            done.value
        })
    }

    /// Does something about sessions, if policy opens the tool. It is recorded either way.
    pub fn beside<T>(
        &self,
        who: &Who,
        tool: SessionTool,
        job: impl FnOnce() -> T,
    ) -> Result<T, ToolCallError> {
        // The record is made after the job, which may take long and call again: no yard is held meanwhile.
        self.at(who, |turn| {
            turn.ask_for(tool).or_else(|error| {
                turn.stopped(tool.as_str(), &error)?;
                Err(error)
            })
        })?;
        let start = Instant::now();
        let done = job();
        self.at(who, |turn| {
            let about = turn.about(tool.as_str());
            let elapsed = since(start, Tally::default());
            record::beside(turn.yard, turn.prepared, &about, ("about sessions", elapsed))?;
            Ok(())
        })?;
        Ok(done)
    }

    /// The config as it is now.
    pub fn config(&self) -> Result<Store, ToolCallError> {
        self.store()
    }

    /// Does something with the approvals of this state directory.
    pub fn with_broker<T>(&self, job: impl FnOnce(&Broker<'_>) -> T) -> Result<T, ToolCallError> {
        let store = self.store()?;
        self.with_yard(&store, |yard| {
            let approvals = ApprovalsStore::of_home(&store.locations.home);
            let broker =
                Broker { database: &yard.database, approvals: &approvals, clock: yard.clock() };
            Ok(job(&broker))
        })
    }

    /// Keeps a message's files in the media store and copies them into the session's workspace.
    pub fn place(&self, who: &Who, files: &[Attachment]) -> Result<Vec<Placed>, ToolCallError> {
        self.at(who, |turn| turn.place(files))
    }
}

impl Turn<'_> {
    fn ask_for(&self, tool: SessionTool) -> Result<(), ToolCallError> {
        policy::ask(tool.as_str(), self.layers, (self.store, self.prepared))
    }

    fn place(&self, files: &[Attachment]) -> Result<Vec<Placed>, ToolCallError> {
        let media = format!("{}/media", self.store.locations.state_dir);
        let mut kept = Vec::new();
        for file in files {
            kept.push(keep(&media, file));
        }
        self.prepared.ready_workspace(self.yard.clock()).map_err(super::OpenError::from)?;
        let workspaces = Workspaces::new(&self.yard.state_dir);
        let paths: Vec<&str> = kept.iter().flatten().map(String::as_str).collect();
        let staged = workspaces.stage_media(&self.prepared.workspace, &media, &paths);
        let mut staged = staged.map_err(super::OpenError::from)?.into_iter();
        let placed = files.iter().zip(kept).map(|(file, kept)| {
            let path = match kept {
                Err(why) => Err(why),
                Ok(_) => staged.next().map_or_else(
                    || Err("it was not copied".to_owned()),
                    |staged| staged.outcome.map_err(|why| why.to_string()),
                ),
            };
            Placed { name: file.name.clone(), path }
        });
        Ok(placed.collect())
    }
}

/// Writes a file to the media store, in a directory of its own so that it keeps its name.
fn keep(media: &str, file: &Attachment) -> Result<String, String> {
    if file.bytes.len() as u64 > MAX_BYTES {
        return Err(format!("it is larger than {MAX_BYTES} bytes"));
    }
    let directory = Path::new(media).join("inbound").join(random::short_id());
    let path = directory.join(safe_name(&file.name));
    let write = || {
        DirBuilder::new().recursive(true).mode(0o700).create(&directory)?;
        let mut open = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path)?;
        open.write_all(&file.bytes)
    };
    write().map_err(|error: std::io::Error| format!("it cannot be kept: {error}"))?;
    Ok(path.to_string_lossy().into_owned())
}
