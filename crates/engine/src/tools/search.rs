//! `grep` and `find`: a program of ours, put into the sandbox and run there as one more command.
//!
//! It gets in when it is first needed, as a file in the sandbox's private memory, and is run from there: confined as
//! every command is, killed when its time is over. A command of the sandbox could put something else in its place,
//! and would gain what it has already. So nothing of the answer is believed but that it is text to show.

use std::path::Path;
use std::sync::OnceLock;
use std::time::Duration;

use clawpen_rules::tools::arguments::{FindCall, GrepCall};
use clawpen_rules::tools::search;
use clawpen_wire::supervisor::{EnvironmentBase, ErrorCode, Links, Parents, Place, WriteMode};
use serde_json::json;
use sha2::{Digest as _, Sha256};

use super::{Answer, SearchError, ToolError, Tools, wire};
use crate::channel::{CallError, Captured, Channel, Command, WriteOptions};

/// The static binary, from the build script.
static PROGRAM: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/clawpen-search"));

/// Private memory that sandboxes have, the least noticed first. Where programs may not run, the next is tried.
const DIRECTORIES: &[&str] = &["/run", "/dev/shm", "/var/tmp", "/tmp"];
/// The program stops by itself after 20 seconds.
const PATIENCE: Duration = Duration::from_secs(30);

pub(super) fn grep(tools: &mut Tools<'_>, call: &GrepCall) -> Result<Answer, ToolError> {
    let (shown, root) = root(tools, call.path.as_deref())?;
    let answer = run(tools, &shown, &search::grep_arguments(call, &root))?;
    let found = search::render_grep(&search::parse(&answer), call.limit);
    Ok(Answer::text(found.text, json!({ "matches": found.results, "truncated": found.is_cut })))
}

pub(super) fn find(tools: &mut Tools<'_>, call: &FindCall) -> Result<Answer, ToolError> {
    let (shown, root) = root(tools, call.path.as_deref())?;
    let answer = run(tools, &shown, &search::find_arguments(call, &root))?;
    let found = search::render_find(&search::parse(&answer), call.limit);
    Ok(Answer::text(found.text, json!({ "files": found.results, "truncated": found.is_cut })))
}

/// Where to search, as the call names it and as the sandbox does. It must be there, beneath what may be used.
fn root(tools: &mut Tools<'_>, given: Option<&str>) -> Result<(String, String), ToolError> {
    let given = given.unwrap_or(".");
    let path = tools.path(given)?;
    tools
        .channel
        .stat(wire(&path), Links::Follow)
        .map_err(|cause| ToolError::call("search", given, cause))?;
    Ok((given.to_owned(), path.as_str().to_owned()))
}

fn run(tools: &mut Tools<'_>, path: &str, words: &[String]) -> Result<Vec<u8>, ToolError> {
    try_places(tools.channel, words)
        .map_err(|cause| ToolError::Search { path: path.to_owned(), cause })
}

fn try_places(channel: &mut Channel, words: &[String]) -> Result<Vec<u8>, SearchError> {
    for directory in DIRECTORIES {
        let program = Path::new(directory).join(name());
        if let Some(answer) = run_at(channel, &program, words)? {
            return Ok(answer);
        }
        if put(channel, &program)?.is_some()
            && let Some(answer) = run_at(channel, &program, words)?
        {
            return Ok(answer);
        }
    }
    Err(SearchError::NoPlace)
}

/// Runs the program; `None` if it is not there or cannot be run from there.
fn run_at(
    channel: &mut Channel,
    program: &Path,
    words: &[String],
) -> Result<Option<Vec<u8>>, SearchError> {
    let argv = std::iter::once(program.as_os_str().to_owned()).chain(words.iter().map(Into::into));
    let command = Command {
        base: EnvironmentBase::Empty,
        timeout: Some(PATIENCE),
        ..Command::new(argv.collect::<Vec<_>>())
    };
    let mut captured = Captured::new(search::ANSWER);
    match channel.exec(&command, &mut captured) {
        Ok(_) => Ok(Some(captured.stdout)),
        Err(CallError::Failed(failure))
            if matches!(failure.code, ErrorCode::CommandNotFound | ErrorCode::NotExecutable) =>
        {
            Ok(None)
        }
        Err(error) => Err(error.into()),
    }
}

/// Puts the program there; `None` if that cannot be.
fn put(channel: &mut Channel, program: &Path) -> Result<Option<()>, SearchError> {
    let options =
        WriteOptions { mode: WriteMode::Replace, parents: Parents::Required, permissions: 0o755 };
    match channel.write(Place::InPen(program.to_owned()), options, &mut &*PROGRAM) {
        Ok(_) => Ok(Some(())),
        Err(CallError::Failed(_)) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// Another build has another name.
fn name() -> &'static str {
    static NAME: OnceLock<String> = OnceLock::new();
    NAME.get_or_init(|| {
        let digest = Sha256::digest(PROGRAM);
        let start = digest.first_chunk::<8>().copied().unwrap_or_default();
        format!(".clawpen-search-{:016x}", u64::from_be_bytes(start))
    })
}
