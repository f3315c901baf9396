//! Runs the tools that work on files, in a sandbox.
//!
//! Takes a tool, its arguments as JSON and a connection to the sandbox's supervisor; gives what the model sees, or a
//! reason. What a call means and what becomes of a file is decided in `rules/tools.rs`; the supervisor reads, writes
//! and resolves every path beneath an open directory. By the time a call arrives here, policy has allowed it.

mod apply;
mod error;
pub(crate) mod json;
mod search;

use std::io;

use clawpen_rules::mounts::MountTable;
use clawpen_rules::tools::FileTool;
use clawpen_rules::tools::arguments::{self, Call, EditCall, ListCall, ReadCall, Run, WriteCall};
use clawpen_rules::tools::image::{self, Image};
use clawpen_rules::tools::listing::{self, Coverage, Kind, Name};
use clawpen_rules::tools::place::{self, PenPath, Reach, Surroundings};
use clawpen_rules::tools::read::{Appetite, Budget, Ended, Page, Scan, Seen, Total};
use clawpen_rules::tools::{edit, read, text};
use clawpen_wire::supervisor::{
    ErrorCode, FileKind, Links, Listing, Metadata, Parents, Place, WriteMode,
};
use serde_json::{Value, json};

use crate::channel::{CallError, Channel, WriteOptions};
use crate::lifecycle::How;

pub use error::{SearchError, ToolError};
pub use json::{schema, schema_of};

/// The workspace's position among the roots that the supervisor holds open.
const WORKSPACE_ROOT: u16 = 0;
/// Permission bits of a new file, before the sandbox's mask.
const NEW_FILE: u32 = 0o644;

/// What holds for every call of a session.
#[derive(Debug, Clone, Copy)]
pub struct Settings<'a> {
    /// Where relative paths start, as the sandbox sees it: its workspace.
    pub workdir: &'a str,
    /// What `~` stands for in the sandbox.
    pub home: &'a str,
    /// What of the host is mounted where.
    pub table: Option<&'a MountTable>,
    /// How far paths go (`tools.fs.workspaceOnly`).
    pub reach: Reach,
    /// The same for `apply_patch` (`tools.exec.applyPatch.workspaceOnly`).
    pub patch_reach: Reach,
    /// How much one `read` may show.
    pub budget: Budget,
}

impl<'a> Settings<'a> {
    /// What the reference has by default: patches stay in the workspace, the rest sees the sandbox.
    pub fn new(workdir: &'a str) -> Self {
        Self {
            workdir,
            home: workdir,
            table: None,
            reach: Reach::Sandbox,
            patch_reach: Reach::Workspace,
            budget: Budget::default(),
        }
    }
}

/// What a tool gives back.
#[derive(Debug, Clone, PartialEq)]
pub struct Answer {
    /// For the model.
    pub content: Vec<Block>,
    /// For programs, with the reference's names.
    pub details: Value,
}

/// A part of an answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Block {
    Text(String),
    Image { mime_type: &'static str, bytes: Vec<u8> },
}

impl Answer {
    pub(crate) fn text(text: impl Into<String>, details: Value) -> Self {
        Self { content: vec![Block::Text(text.into())], details }
    }

    /// The same, with a word before it if its sandbox is not what the config says now.
    pub(crate) fn noting(mut self, how: Option<&How>) -> Self {
        if let Some(How::KeptStale(stale)) = how {
            let warning = format!("Warning: {stale}");
            if let Value::Object(details) = &mut self.details {
                details.insert("warning".to_owned(), Value::String(warning.clone()));
            }
            self.content.insert(0, Block::Text(warning));
        }
        self
    }
}

/// The tools of one sandbox.
#[derive(Debug)]
pub struct Tools<'a> {
    channel: &'a mut Channel,
    settings: Settings<'a>,
}

impl<'a> Tools<'a> {
    pub const fn new(channel: &'a mut Channel, settings: Settings<'a>) -> Self {
        Self { channel, settings }
    }

    /// Carries out one call.
    pub fn run(&mut self, tool: FileTool, arguments: &Value) -> Result<Answer, ToolError> {
        match arguments::parse(tool, &json::arguments(arguments))? {
            Call::Read(call) => self.read(&call),
            Call::Write(call) => self.write(&call),
            Call::Edit(call) => self.edit(&call),
            Call::ApplyPatch(call) => apply::run(self, &call),
            Call::List(call) => self.list(&call),
            Call::Grep(call) => search::grep(self, &call),
            Call::Find(call) => search::find(self, &call),
        }
    }

    fn path(&self, given: &str) -> Result<PenPath, ToolError> {
        Ok(place::decide(given, &self.surroundings(self.settings.reach))?)
    }

    fn surroundings(&self, reach: Reach) -> Surroundings<'a> {
        let Settings { workdir, home, table, .. } = self.settings;
        Surroundings { workdir, home, table, reach }
    }

    fn read(&mut self, call: &ReadCall) -> Result<Answer, ToolError> {
        let path = self.path(&call.path)?;
        let mut sink = ReadSink { scan: Scan::new(call, self.settings.budget), enough: false };
        let ended = match self.channel.read(wire(&path), 0, u64::MAX, &mut sink) {
            Ok(_) => Ended::Yes,
            Err(CallError::Local(_)) if sink.enough => Ended::No,
            Err(cause) => return Err(ToolError::call("read", &call.path, cause)),
        };
        let seen = sink.scan.finish(ended);
        match seen.map_err(|reason| ToolError::Read { path: call.path.clone(), reason })? {
            Seen::Text(page) => Ok(Answer::text(page.render(&call.path), read_details(&page))),
            Seen::Image { kind, bytes } => {
                let mime_type = kind.mime_type();
                let text = format!(
                    "Image file [{mime_type}], {}",
                    clawpen_rules::tools::size(bytes.len() as u64)
                );
                let details = json!({ "mimeType": mime_type, "bytes": bytes.len() });
                let content = vec![Block::Text(text), Block::Image { mime_type, bytes }];
                Ok(Answer { content, details })
            }
        }
    }

    /// Images for a model that looks at them: all of them, or why not.
    pub fn images(
        &mut self,
        paths: &[String],
        most: u64,
    ) -> Result<Vec<(Image, Vec<u8>)>, ToolError> {
        let mut images = Vec::new();
        let mut before = 0_u64;
        for given in paths {
            let path = self.path(given)?;
            let mut bytes = Vec::new();
            // One more, so that a larger one can be told from one that fits.
            self.channel
                .read(wire(&path), 0, most.saturating_add(1), &mut bytes)
                .map_err(|cause| ToolError::call("read", given, cause))?;
            let kind = image::decide(&bytes, most, before)
                .map_err(|reason| ToolError::Image { path: given.clone(), reason })?;
            before = before.saturating_add(bytes.len() as u64);
            images.push((kind, bytes));
        }
        Ok(images)
    }

    fn write(&mut self, call: &WriteCall) -> Result<Answer, ToolError> {
        let path = self.path(&call.path)?;
        let written = self
            .channel
            .write(wire(&path), new_file(), &mut call.content.as_bytes())
            .map_err(|cause| ToolError::call("write", &call.path, cause))?;
        let text = format!("Wrote {} bytes to {}", written.bytes, call.path);
        Ok(Answer::text(text, json!({ "bytes": written.bytes, "created": written.created })))
    }

    fn edit(&mut self, call: &EditCall) -> Result<Answer, ToolError> {
        let path = self.path(&call.path)?;
        let before = self.stamp(&path, &call.path)?;
        let contents = self.contents(&path, &call.path)?;
        let edited = edit::decide(&contents, &call.edits)
            .map_err(|reason| ToolError::Edit { path: call.path.clone(), reason })?;
        if call.run == Run::Real {
            // A command of the sandbox may have written to it since. What is left is the moment between this look
            // and the rename.
            if self.stamp(&path, &call.path)? != before {
                return Err(ToolError::Changed { path: call.path.clone() });
            }
            self.channel
                .write(wire(&path), WriteOptions::default(), &mut edited.contents.as_slice())
                .map_err(|cause| ToolError::call("write", &call.path, cause))?;
        }
        let count = edited.replaced;
        let what = if count == 1 { "text".to_owned() } else { format!("{count} blocks of text") };
        let text = match call.run {
            Run::Real => format!("Replaced {what} in {}", call.path),
            Run::Dry => format!("Would replace {what} in {}\n{}", call.path, edited.diff.text),
        };
        let details = json!({
            "diff": edited.diff.text,
            "firstChangedLine": edited.diff.first_changed_line,
            "dryRun": call.run == Run::Dry,
        });
        Ok(Answer::text(text, details))
    }

    fn list(&mut self, call: &ListCall) -> Result<Answer, ToolError> {
        let shown = call.path.as_deref().unwrap_or(".");
        let path = self.path(shown)?;
        let listed = self
            .channel
            .list(&wire(&path), Listing::Names, listing::MOST)
            .map_err(|cause| ToolError::call("list", shown, cause))?;
        let names = listed.entries.iter().map(|entry| Name {
            name: entry.name.to_string_lossy().into_owned(),
            kind: match entry.kind {
                FileKind::Directory => Kind::Directory,
                FileKind::Link => Kind::Link,
                FileKind::File | FileKind::Other => Kind::Other,
            },
        });
        let coverage = if listed.more { Coverage::Part } else { Coverage::Whole };
        let rendered = listing::render(names.collect(), call.limit, coverage);
        let details = json!({
            "entries": rendered.shown,
            "total": listed.entries.len(),
            "truncated": rendered.cut.is_some(),
        });
        Ok(Answer::text(rendered.text, details))
    }

    /// All of a file, as far as text is changed; the first byte beyond that too, so that it can be refused.
    fn contents(&mut self, path: &PenPath, shown: &str) -> Result<Vec<u8>, ToolError> {
        let mut contents = Vec::new();
        self.channel
            .read(wire(path), 0, text::LARGEST + 1, &mut contents)
            .map_err(|cause| ToolError::call("read", shown, cause))?;
        Ok(contents)
    }

    /// What tells one version of a file from the next.
    fn stamp(&mut self, path: &PenPath, shown: &str) -> Result<Stamp, ToolError> {
        let found = self.channel.stat(wire(path), Links::Follow);
        let found = found.map_err(|cause| ToolError::call("read", shown, cause))?;
        Ok(Stamp::of(&found.metadata))
    }
}

/// A file at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Stamp {
    inode: u64,
    size: u64,
    modified_ns: i64,
}

impl Stamp {
    const fn of(metadata: &Metadata) -> Self {
        Self { inode: metadata.inode, size: metadata.size, modified_ns: metadata.modified_ns }
    }
}

/// Hands a file to the scan until that has enough.
struct ReadSink {
    scan: Scan,
    enough: bool,
}

impl io::Write for ReadSink {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.scan.feed(bytes) == Appetite::Enough {
            self.enough = true;
            return Err(io::Error::other("enough"));
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn read_details(page: &Page) -> Value {
    let (lines, is_exact) = match page.total_lines {
        Total::Exactly(lines) => (lines, true),
        Total::AtLeast(lines) => (lines, false),
    };
    let truncated_by = page.stop.truncated_by();
    let is_long = matches!(page.stop, read::Stop::LongLine { .. });
    json!({
        "truncation": {
            "truncated": truncated_by.is_some(),
            "truncatedBy": truncated_by,
            "totalLines": lines,
            "totalLinesExact": is_exact,
            "totalBytes": is_exact.then_some(page.bytes),
            "outputLines": page.lines,
            "outputBytes": page.text.len(),
            "maxLines": read::PAGE_LINES,
            "maxBytes": read::PAGE_BYTES,
            "firstLineExceedsLimit": is_long,
        },
        "firstLine": page.first_line,
        "replacedInvalidUtf8": page.is_lossy,
    })
}

/// A path as the supervisor takes it.
fn wire(path: &PenPath) -> Place {
    match path.below_workspace() {
        Some(below) => Place::Below { root: WORKSPACE_ROOT, path: below.into() },
        None => Place::InPen(path.as_str().into()),
    }
}

/// Whatever is there is replaced, whatever is missing on the way is made.
const fn new_file() -> WriteOptions {
    WriteOptions { mode: WriteMode::Replace, parents: Parents::Make, permissions: NEW_FILE }
}

/// Whether the supervisor said that there is nothing of that name.
fn is_absent(error: &CallError) -> bool {
    let code = error.failure().map(|failure| failure.code);
    matches!(code, Some(ErrorCode::NotFound | ErrorCode::NotDirectory))
}

#[cfg(test)]
mod tests;
