//! What each tool takes, as data: the arguments are read by it, and JSON Schemas are printed from it.

use super::{BuiltTool, FileTool};
use super::{listing, read, search};

mod commands;
mod image;
mod web;

pub use image::IMAGE;

/// One tool as it is offered to a model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Schema {
    pub name: &'static str,
    /// What it does, for the model that chooses.
    pub description: &'static str,
    pub parameters: &'static [Parameter],
}

/// One named argument.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Parameter {
    pub name: &'static str,
    /// Names that other agents' tools use for the same; models mix them up.
    pub aliases: &'static [&'static str],
    pub kind: Kind,
    pub need: Need,
    pub description: &'static str,
}

/// What an argument may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A text that says something: a path, a pattern.
    Word,
    /// Any text, also an empty one, also given as blocks of text.
    Text,
    /// A whole number.
    Whole {
        least: u32,
    },
    Switch,
    /// Any number, also one with a fraction.
    Number,
    /// One of these words.
    Choice(&'static [&'static str]),
    /// A list of texts.
    Words,
    /// Texts by name.
    Variables,
    /// A list of `{oldText, newText}`.
    Edits,
}

/// Whether a call works without it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Need {
    Required,
    Optional,
}

impl Parameter {
    pub(crate) const fn required(
        name: &'static str,
        kind: Kind,
        description: &'static str,
    ) -> Self {
        Self { name, aliases: &[], kind, need: Need::Required, description }
    }

    pub(crate) const fn optional(
        name: &'static str,
        kind: Kind,
        description: &'static str,
    ) -> Self {
        Self { name, aliases: &[], kind, need: Need::Optional, description }
    }

    const fn or(self, aliases: &'static [&'static str]) -> Self {
        Self { aliases, ..self }
    }

    /// Whether a JSON Schema may list it as required: with several names, none of them is.
    pub const fn is_required_by_name(&self) -> bool {
        match self.need {
            Need::Required => self.aliases.is_empty(),
            Need::Optional => false,
        }
    }
}

const PATH_NAMES: &[&str] = &["file_path", "filePath", "file"];
const PATH: Parameter = Parameter::required(
    "path",
    Kind::Word,
    "Path of the file, relative to the workspace or absolute",
)
.or(PATH_NAMES);
/// One pair of `edit`, also as a member of its `edits`.
pub const OLD_TEXT: Parameter = Parameter::required(
    "oldText",
    Kind::Text,
    "Text to replace; must occur exactly once in the file",
)
.or(&["old_string", "old_text", "oldString"]);
/// The other half.
pub const NEW_TEXT: Parameter =
    Parameter::required("newText", Kind::Text, "Text to put in its place").or(&[
        "new_string",
        "new_text",
        "newString",
    ]);
const DRY_RUN: Parameter =
    Parameter::optional("dryRun", Kind::Switch, "Show what would change and change nothing")
        .or(&["dry_run"]);

const READ: Schema = Schema {
    name: FileTool::Read.as_str(),
    description: "Reads a file. Text comes by whole lines, at most 2000 lines or 50 KiB a page, with a note on how to \
                  go on; images (jpg, png, gif, webp) come as images.",
    parameters: &[
        PATH,
        Parameter::optional(
            "offset",
            Kind::Whole { least: 0 },
            "First line to read, counted from 1",
        ),
        Parameter::optional("limit", Kind::Whole { least: 1 }, "Lines to read at most"),
    ],
};
const WRITE: Schema = Schema {
    name: FileTool::Write.as_str(),
    description: "Writes a file, in the place of an old one if there is one. Missing directories are made.",
    parameters: &[PATH, Parameter::required("content", Kind::Text, "The whole contents")],
};
const EDIT: Schema = Schema {
    name: FileTool::Edit.as_str(),
    description: "Replaces text in a file. The old text must occur exactly once; several edits are all matched against \
                  the file as it is and must not overlap.",
    parameters: &[
        PATH,
        OLD_TEXT,
        NEW_TEXT,
        Parameter::optional(
            "edits",
            Kind::Edits,
            "Several replacements at once, each {oldText, newText}",
        ),
        DRY_RUN,
    ],
};
const APPLY_PATCH: Schema = Schema {
    name: FileTool::ApplyPatch.as_str(),
    description: "Adds, updates, moves and deletes files by one patch. All of it is applied, or nothing. The patch is \
                  `*** Begin Patch`, then for each file one of `*** Add File: PATH` (each line after it begins with \
                  `+`), `*** Delete File: PATH` or `*** Update File: PATH` (perhaps followed by `*** Move to: PATH`), \
                  then `*** End Patch`. An update has chunks: a line `@@`, or `@@ TEXT` with a line of the file that \
                  stands before the place, then lines that begin with a blank (stays), `-` (goes) or `+` (comes).",
    parameters: &[Parameter::required("input", Kind::Word, "The patch"), DRY_RUN],
};
const LIST: Schema = Schema {
    name: FileTool::List.as_str(),
    description: "Lists a directory, by name; directories end in `/`.",
    parameters: &[
        Parameter::optional("path", Kind::Word, "The directory; the workspace, if left out")
            .or(PATH_NAMES),
        Parameter::optional("limit", Kind::Whole { least: 1 }, "Entries at most (500)"),
    ],
};
const GREP: Schema = Schema {
    name: FileTool::Grep.as_str(),
    description: "Searches file contents for a regular expression. Leaves out what .gitignore leaves out, and binary files.",
    parameters: &[
        Parameter::required(
            "pattern",
            Kind::Word,
            "Regular expression, or plain text with `literal`",
        ),
        Parameter::optional(
            "path",
            Kind::Word,
            "File or directory to search; the workspace, if left out",
        )
        .or(PATH_NAMES),
        Parameter::optional("glob", Kind::Word, "Only files that this matches, for example `*.rs`"),
        Parameter::optional("ignoreCase", Kind::Switch, "Take upper and lower case as the same"),
        Parameter::optional("literal", Kind::Switch, "Take the pattern as plain text"),
        Parameter::optional(
            "context",
            Kind::Whole { least: 0 },
            "Lines to show around each match (0)",
        ),
        Parameter::optional("limit", Kind::Whole { least: 1 }, "Matches at most (100)"),
    ],
};
const FIND: Schema = Schema {
    name: FileTool::Find.as_str(),
    description: "Finds files by a glob. Leaves out what .gitignore leaves out.",
    parameters: &[
        Parameter::required("pattern", Kind::Word, "Glob, for example `*.rs` or `src/**/test_*`"),
        Parameter::optional("path", Kind::Word, "Directory to search; the workspace, if left out")
            .or(PATH_NAMES),
        Parameter::optional("limit", Kind::Whole { least: 1 }, "Files at most (1000)"),
    ],
};

/// The schema of a tool.
pub const fn of(tool: FileTool) -> &'static Schema {
    match tool {
        FileTool::Read => &READ,
        FileTool::Write => &WRITE,
        FileTool::Edit => &EDIT,
        FileTool::ApplyPatch => &APPLY_PATCH,
        FileTool::List => &LIST,
        FileTool::Grep => &GREP,
        FileTool::Find => &FIND,
    }
}

/// The schema of any tool.
pub const fn of_built(tool: BuiltTool) -> &'static Schema {
    match tool {
        BuiltTool::File(tool) => of(tool),
        BuiltTool::Exec => &commands::EXEC,
        BuiltTool::Process => &commands::PROCESS,
        BuiltTool::WebFetch => &web::FETCH,
    }
}

// The numbers in the descriptions above are these.
const _: () = {
    assert!(read::PAGE_LINES == 2000 && read::PAGE_BYTES == 50 * 1024);
    assert!(listing::ENTRIES == 500 && search::MATCHES == 100 && search::FILES == 1000);
};

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn a_parameter_with_several_names_is_required_by_none() {
        for (tool, expected) in [
            (FileTool::Read, vec![]),
            (FileTool::Write, vec!["content"]),
            (FileTool::Edit, vec![]),
            (FileTool::ApplyPatch, vec!["input"]),
            (FileTool::List, vec![]),
            (FileTool::Grep, vec!["pattern"]),
            (FileTool::Find, vec!["pattern"]),
        ] {
            let schema = of(tool);
            let required = schema.parameters.iter().filter(|one| one.is_required_by_name());
            assert_eq!(required.map(|one| one.name).collect::<Vec<_>>(), expected);
            assert_eq!(schema.name, tool.as_str());
        }
    }

    #[test]
    fn no_name_means_two_things() {
        for tool in BuiltTool::all() {
            let parameters = of_built(tool).parameters;
            let names = parameters.iter().flat_map(|one| one.aliases.iter().chain([&one.name]));
            let mut seen = BTreeSet::new();
            assert!(names.into_iter().all(|name| seen.insert(*name)), "{}", tool.as_str());
        }
    }
}
