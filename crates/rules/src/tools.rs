//! The tools that work on files, as a model calls them: `read`, `write`, `edit`, `apply_patch`, `ls`, `grep`, `find`.
//!
//! ```text
//! arguments ─► Call ─► place: which path in the sandbox ─► what the file holds (looked up by the engine)
//!                                                             ├► read: the text the model sees
//!                                                             ├► edit, patch: new contents, or why not
//!                                                             └► listing, search: lines that fit
//! ```
//!
//! Everything comes in as values: arguments as [`arguments::Value`], contents as bytes. What comes out is text for
//! the model or contents to be written. Nothing is opened, written or searched here, and nothing costs more than
//! the caps that stand beside each rule, however hostile the file.

pub mod arguments;
pub mod diff;
pub mod edit;
pub mod exec;
pub mod image;
pub mod invoke;
pub mod label;
pub mod listing;
pub mod output;
pub mod patch;
pub mod place;
pub mod process;
pub mod read;
pub mod schema;
pub mod search;
pub mod sessions;
pub mod text;

/// A tool of this part of the catalogue.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum FileTool {
    Read,
    Write,
    Edit,
    ApplyPatch,
    List,
    Grep,
    Find,
}

impl FileTool {
    pub const ALL: [Self; 7] =
        [Self::Read, Self::Write, Self::Edit, Self::ApplyPatch, Self::List, Self::Grep, Self::Find];

    /// The name that policies and models use.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Write => "write",
            Self::Edit => "edit",
            Self::ApplyPatch => "apply_patch",
            Self::List => "ls",
            Self::Grep => "grep",
            Self::Find => "find",
        }
    }

    /// The tool of this name; `None` if it is none of these.
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|tool| tool.as_str() == name)
    }

    /// Whether it can change a file: such a tool is not offered where the workspace is read-only.
    pub const fn is_writing(self) -> bool {
        match self {
            Self::Write | Self::Edit | Self::ApplyPatch => true,
            Self::Read | Self::List | Self::Grep | Self::Find => false,
        }
    }
}

/// A tool that this build has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum BuiltTool {
    File(FileTool),
    Exec,
    Process,
    WebFetch,
}

impl BuiltTool {
    /// Every one, in the order in which they are offered.
    pub fn all() -> impl Iterator<Item = Self> {
        let commands = [Self::Exec, Self::Process].into_iter();
        commands.chain(FileTool::ALL.map(Self::File)).chain([Self::WebFetch])
    }

    pub const fn as_str(self) -> &'static str {
        match self {
            Self::File(tool) => tool.as_str(),
            Self::Exec => "exec",
            Self::Process => "process",
            Self::WebFetch => "web_fetch",
        }
    }

    /// The tool of this name, in normal form; `None` if this build has none.
    pub fn parse(name: &str) -> Option<Self> {
        Self::all().find(|tool| tool.as_str() == name)
    }

    /// Whether it changes nothing.
    pub const fn is_read_only(self) -> bool {
        match self {
            Self::File(tool) => !tool.is_writing(),
            Self::WebFetch => true,
            Self::Exec | Self::Process => false,
        }
    }
}

/// A size as people write it: `512 B`, `50 KiB`, `1.2 MiB`.
pub fn size(bytes: u64) -> String {
    const UNITS: [&str; 4] = ["KiB", "MiB", "GiB", "TiB"];
    let mut whole = bytes;
    let mut rest = 0;
    let mut unit = "B";
    for next in UNITS {
        if whole < 1024 {
            break;
        }
        rest = whole % 1024;
        whole /= 1024;
        unit = next;
    }
    match rest * 10 / 1024 {
        0 => format!("{whole} {unit}"),
        tenth => format!("{whole}.{tenth} {unit}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_tool_is_found_by_its_name() {
        for tool in FileTool::ALL {
            assert_eq!(FileTool::parse(tool.as_str()), Some(tool));
        }
        assert_eq!(FileTool::parse("exec"), None);
    }

    #[test]
    fn sizes_are_short() {
        for (bytes, expected) in [
            (0, "0 B"),
            (1023, "1023 B"),
            (1024, "1 KiB"),
            (51_200, "50 KiB"),
            (51_713, "50.5 KiB"),
            (5 << 30, "5 GiB"),
            (u64::MAX, "16777215.9 TiB"),
        ] {
            assert_eq!(size(bytes), expected);
        }
    }
}
