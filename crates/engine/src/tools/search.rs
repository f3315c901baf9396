//! `grep` and `find`: a program of ours, run in the sandbox as one more command.
//!
//! The supervisor is sent it when it is first needed and keeps it in memory, out of reach of every command: nothing in
//! the sandbox has to be writable or executable for it, and none of its files can stand in for it. It is confined as
//! every command is and killed when its time is over. What it reads was written by others, so nothing of the answer
//! is believed but that it is text to show.

use std::sync::OnceLock;
use std::time::Duration;

use clawpen_rules::tools::arguments::{FindCall, GrepCall};
use clawpen_rules::tools::search::{self, Base, End, Found};
use clawpen_wire::supervisor::{EnvironmentBase, FileKind, Links};
use serde_json::json;
use sha2::{Digest as _, Sha256};

use super::{Answer, SearchError, ToolError, Tools, wire};
use crate::channel::{Captured, Channel, Command, Program};

/// The static binary, from the build script.
static PROGRAM: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/clawpen-search"));

/// The program stops by itself after 20 seconds.
const PATIENCE: Duration = Duration::from_secs(30);

pub(super) fn grep(tools: &mut Tools<'_>, call: &GrepCall) -> Result<Answer, ToolError> {
    let searched = Searched::find(tools, call.path.as_deref())?;
    let found = searched.run(tools, &search::grep_arguments(call, &searched.root))?;
    let found = search::render_grep(&found, &searched.base, call.limit);
    Ok(Answer::text(found.text, json!({ "matches": found.results, "truncated": found.is_cut })))
}

pub(super) fn find(tools: &mut Tools<'_>, call: &FindCall) -> Result<Answer, ToolError> {
    let searched = Searched::find(tools, call.path.as_deref())?;
    let found = searched.run(tools, &search::find_arguments(call, &searched.root))?;
    let found = search::render_find(&found, &searched.base, call.limit);
    Ok(Answer::text(found.text, json!({ "files": found.results, "truncated": found.is_cut })))
}

/// What is searched: as the call names it, as the sandbox does, and as results are shown.
struct Searched {
    given: String,
    root: String,
    base: Base,
}

impl Searched {
    /// It must be there, beneath what may be used.
    fn find(tools: &mut Tools<'_>, given: Option<&str>) -> Result<Self, ToolError> {
        let given = given.unwrap_or(".");
        let path = tools.path(given)?;
        let found = tools
            .channel
            .stat(wire(&path), Links::Follow)
            .map_err(|cause| ToolError::call("search", given, cause))?;
        let base = match found.metadata.kind {
            FileKind::Directory => Base::directory(given),
            FileKind::File | FileKind::Link | FileKind::Other => Base::File(given.to_owned()),
        };
        Ok(Self { given: given.to_owned(), root: path.as_str().to_owned(), base })
    }

    /// What the program found. A search that never began, such as one for a broken pattern, is a failure: nobody should
    /// take it for one that found nothing.
    fn run(&self, tools: &mut Tools<'_>, words: &[String]) -> Result<Found, ToolError> {
        let failed = |cause| ToolError::Search { path: self.given.clone(), cause };
        let found = search::parse(&answer(tools.channel, words).map_err(failed)?);
        match &found.end {
            End::Failed(why) if found.lines.is_empty() && found.files.is_empty() => {
                Err(failed(SearchError::Failed(why.clone())))
            }
            End::Failed(_) | End::All | End::Limit | End::Time | End::Unknown => Ok(found),
        }
    }
}

fn answer(channel: &mut Channel, words: &[String]) -> Result<Vec<u8>, SearchError> {
    if !channel.takes_programs() {
        return Err(SearchError::Older);
    }
    let argv = std::iter::once("clawpen-search".to_owned()).chain(words.iter().cloned());
    let command =
        Command { base: EnvironmentBase::Empty, timeout: Some(PATIENCE), ..Command::new(argv) };
    let mut captured = Captured::new(search::ANSWER);
    channel.exec_program(&Program { name: name(), bytes: PROGRAM }, &command, &mut captured)?;
    Ok(captured.stdout)
}

/// Another build has another name.
fn name() -> u64 {
    static NAME: OnceLock<u64> = OnceLock::new();
    *NAME.get_or_init(|| {
        let digest = Sha256::digest(PROGRAM);
        u64::from_be_bytes(digest.first_chunk().copied().unwrap_or_default())
    })
}
