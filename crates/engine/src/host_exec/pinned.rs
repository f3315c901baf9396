//! Looks whether the files and the directory of a plan are still what they were.

use std::fs::{self, File, OpenOptions};
use std::io::{Read as _, Seek as _};
use std::os::unix::fs::{FileExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::Path;

use clawpen_os::memfd;
use clawpen_rules::command::{FileFacts, FileIdentity, PinnedFile, Plan, ProgramFiles, Step};

use crate::program_files::{MAX_BYTES, O_NOFOLLOW, O_NONBLOCK, digest};

const O_DIRECTORY: i32 = 0o200_000;
/// Under this number a script that an agent could rewrite reaches its interpreter.
pub(super) const SCRIPT_DESCRIPTOR: i32 = 3;

/// What is not what it was when the plan was made.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Stale {
    #[error("`{path}` cannot be opened any more")]
    Gone { path: String },
    #[error("`{path}` leads to another file now")]
    Elsewhere { path: String },
    #[error("the content of `{path}` is not what it was")]
    Content { path: String },
    #[error("the directory `{path}` is not the one it was")]
    Directory { path: String },
}

/// The program of a step, opened and checked.
pub(super) struct Opened {
    pub(super) program: Program,
}

/// How a program is started.
pub(super) enum Program {
    Binary(File),
    /// A file with an interpreter: by its path, or by the descriptor whose content was checked if an
    /// agent could put another script at that path.
    Script {
        path: String,
        file: Option<File>,
    },
}

impl Opened {
    /// Opens a step's program, and looks at the others it will start.
    pub(super) fn of(step: &Step, files: &dyn ProgramFiles) -> Result<Self, Stale> {
        for other in &step.others {
            open(other)?;
        }
        let facts = files.find(&step.file.path);
        let is_agents = facts.as_ref().is_none_or(FileFacts::is_agents);
        let file = open(&step.file)?;
        let file = if is_agents { copy(&step.file, &file)? } else { file };
        if !is_script(&file) {
            return Ok(Self { program: Program::Binary(file) });
        }
        let is_safe = facts.is_some_and(|facts| !facts.agent_may_write());
        let program = if is_safe {
            Program::Script { path: step.file.real_path.clone(), file: None }
        } else {
            let path = format!("/proc/self/fd/{SCRIPT_DESCRIPTOR}");
            Program::Script { path, file: Some(file) }
        };
        Ok(Self { program })
    }
}

/// Opens a file if it is, by name, inode and content, the one that was pinned.
pub(super) fn open(pinned: &PinnedFile) -> Result<File, Stale> {
    let path = || pinned.path.clone();
    let real = fs::canonicalize(&pinned.path).map_err(|_gone| Stale::Gone { path: path() })?;
    if real != Path::new(&pinned.real_path) {
        return Err(Stale::Elsewhere { path: path() });
    }
    let flags = O_NOFOLLOW | O_NONBLOCK;
    let file = OpenOptions::new().read(true).custom_flags(flags).open(&real);
    let file = file.map_err(|_gone| Stale::Gone { path: path() })?;
    if !file.metadata().is_ok_and(|facts| facts.is_file()) || !is_same(&file, pinned.identity) {
        return Err(Stale::Elsewhere { path: path() });
    }
    if digest(&file) != Some(pinned.hash) {
        return Err(Stale::Content { path: path() });
    }
    Ok(file)
}

/// A copy that nobody can write, if it is what was pinned: the agent writes into its own file while a shell still
/// reads it.
fn copy(pinned: &PinnedFile, file: &File) -> Result<File, Stale> {
    let stale = || Stale::Content { path: pinned.path.clone() };
    let mut content = Vec::new();
    let mut from = file;
    from.rewind()
        .and_then(|()| from.take(MAX_BYTES + 1).read_to_end(&mut content))
        .map_err(|_unreadable| stale())?;
    let copy = memfd::sealed("clawpen-program", &content, memfd::Use::Execute);
    let mut copy = File::from(copy.map_err(|_no_room| stale())?);
    copy.rewind().map_err(|_unreadable| stale())?;
    if digest(&copy) == Some(pinned.hash) { Ok(copy) } else { Err(stale()) }
}

/// Opens the working directory of a plan if it is still the one it was.
pub(super) fn directory(plan: &Plan) -> Result<File, Stale> {
    let stale = || Stale::Directory { path: plan.cwd().to_owned() };
    let pinned = plan.directory().ok_or_else(stale)?;
    let real = fs::canonicalize(plan.cwd()).map_err(|_gone| stale())?;
    let flags = O_NOFOLLOW | O_DIRECTORY;
    let file = OpenOptions::new().read(true).custom_flags(flags).open(&real);
    let file = file.map_err(|_gone| stale())?;
    let is_there = real == Path::new(&pinned.real_path) && is_same(&file, pinned.identity);
    if is_there { Ok(file) } else { Err(stale()) }
}

fn is_same(file: &File, identity: FileIdentity) -> bool {
    let found = file.metadata();
    found.is_ok_and(|f| FileIdentity { device: f.dev(), inode: f.ino() } == identity)
}

fn is_script(file: &File) -> bool {
    let mut start = [0; 2];
    file.read_exact_at(&mut start, 0).is_ok() && start == *b"#!"
}
