//! What a command text would run, and whether the allowlist admits it.
//!
//! [`analyse`] takes the text, the working directory, the environment and facts about files, and
//! gives an [`Analysis`]: pipelines of segments, each with its words, its wrappers and the file that
//! would start. What the small lexer does not understand is [`NotAnalysable`]. [`decide`] says for
//! each segment whether an entry, a safe bin or a skill admits it, and why not otherwise.
//! [`Analysis::freeze`] gives the [`Plan`]: what was analysed, shown and approved is what runs.
//!
//! Nothing here runs the text, expands a variable or a glob, or asks a shell: `$HOME` in a plan is
//! five characters. Whether a human must agree is decided by `approval`, from the verdict.

mod carriers;
mod display;
mod inline;
mod interpreters;
mod lexer;
mod obfuscation;
mod pattern;
mod plan;
mod program;
mod remember;
mod safe_bins;
mod shell;
mod verdict;
mod wrappers;

use std::collections::BTreeMap;

pub use carriers::Carrier;
pub(crate) use display::is_format;
pub use display::{escape, fenced};
pub use inline::{InlineCode, detect_inline_code};
pub use lexer::{ChainOperator, NotAnalysable, Syntax};
pub use obfuscation::{Obfuscation, detect_obfuscation};
pub use pattern::Pattern;
pub(crate) use plan::agents_files;
pub use plan::{Joint, PinnedDirectory, Plan, PlanHash, Step, Unplannable};
pub use program::{
    ContentHash, FileFacts, FileIdentity, Found, PinnedFile, Program, ProgramFiles, Writer,
};
pub use remember::{Binding, Remembered};
pub use safe_bins::{DEFAULT_DIRECTORIES, DEFAULT_NAMES, Profile, SafeBins};
pub use verdict::{Admission, Entry, Miss, SegmentVerdict, SkillProgram, Trust, Verdict, decide};
pub use wrappers::{Blocked, Effect, Wrapper};

use program::Place;

/// What is to be analysed. The environment is the complete one the command would get.
#[derive(Debug, Clone, Copy)]
pub struct Request<'a> {
    pub text: &'a str,
    /// Absolute.
    pub cwd: &'a str,
    /// What `~` stands for.
    pub home: Option<&'a str>,
    pub environment: &'a BTreeMap<String, String>,
}

/// A command that was understood completely. Made by [`analyse`] only.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Analysis {
    pipelines: Vec<Pipeline>,
    cwd: String,
    environment: BTreeMap<String, String>,
}

/// Segments joined by `|`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pipeline {
    /// What joins it to the pipeline before; `None` for the first.
    pub joined_by: Option<ChainOperator>,
    pub segments: Vec<Segment>,
}

/// One program with its words.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Segment {
    /// As typed, without blanks at the ends and without the bodies of here-documents.
    pub raw: String,
    /// The words, quotes removed, nothing expanded; never empty.
    pub argv: Vec<String>,
    /// What the program reads, if a here-document was given.
    pub here_document: Option<String>,
    pub invocation: Invocation,
}

/// What a segment's words come to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Invocation {
    /// A program, perhaps behind wrappers.
    Runs(Box<Runs>),
    /// A wrapper that is refused, whatever the allowlist says.
    Blocked(Blocked),
}

/// A program behind its wrappers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Runs {
    /// Outermost first.
    pub wrappers: Vec<Wrapper>,
    /// The words of the program.
    pub argv: Vec<String>,
    pub program: Program,
    pub content: Content,
}

/// What a program's words come to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Content {
    /// Arguments.
    Plain,
    /// Code or another command: see [`Carrier`].
    Carrier(Carrier),
    /// A file that a shell runs.
    ShellScript(Program),
    /// A file that an interpreter runs.
    Script(Program),
    /// A command that a shell only passes on; it runs without the shell.
    Carried { argv: Vec<String>, program: Program },
}

/// Finds out what a text would run.
pub fn analyse(request: &Request<'_>, files: &dyn ProgramFiles) -> Result<Analysis, NotAnalysable> {
    let path = request.environment.get("PATH").map_or("", String::as_str);
    let place = Place { cwd: request.cwd, home: request.home, path };
    let parts = lexer::split(request.text)?.into_iter();
    let pipelines = parts.map(|part| Pipeline {
        joined_by: part.joined_by,
        segments: part.segments.into_iter().map(|words| segment(words, place, files)).collect(),
    });
    Ok(Analysis {
        pipelines: pipelines.collect(),
        cwd: request.cwd.to_owned(),
        environment: request.environment.clone(),
    })
}

impl Analysis {
    pub fn pipelines(&self) -> &[Pipeline] {
        &self.pipelines
    }

    /// The directory it was analysed for.
    pub fn cwd(&self) -> &str {
        &self.cwd
    }

    /// All segments in order.
    pub fn segments(&self) -> impl Iterator<Item = &Segment> {
        self.pipelines.iter().flat_map(|pipeline| &pipeline.segments)
    }

    /// Says whether a program reads a here-document: admitted or not, a human must see it.
    pub fn has_here_document(&self) -> bool {
        self.segments().any(|segment| segment.here_document.is_some())
    }

    /// The first segment with code or a command in its words.
    pub fn inline_code(&self) -> Option<InlineCode> {
        self.segments().find_map(|segment| match &segment.invocation {
            Invocation::Runs(runs) => detect_inline_code(&runs.argv),
            Invocation::Blocked(blocked) => detect_inline_code(&blocked.argv),
        })
    }
}

impl Segment {
    /// Says whether it starts with a word that only a shell gives a meaning to: a keyword, a builtin,
    /// an assignment. No file is looked for then.
    pub fn names_shell_word(&self) -> bool {
        self.argv.first().is_some_and(|word| program::is_shell_word(word))
    }
}

impl Runs {
    /// Says whether the file that runs is a multiplexer, told by a word to be this program.
    pub fn is_multiplexed(&self) -> bool {
        self.wrappers.last().is_some_and(Wrapper::is_multiplexer)
    }

    /// The program that entries are matched against: the multiplexer, where there is one.
    pub fn policy_program(&self) -> &Program {
        let multiplexer = self.wrappers.last().filter(|_| self.is_multiplexed());
        multiplexer.map_or(&self.program, |wrapper| &wrapper.program)
    }
}

fn segment(words: lexer::Words, place: Place<'_>, files: &dyn ProgramFiles) -> Segment {
    let lexer::Words { raw, argv, here_document } = words;
    let invocation = match wrappers::unwrap(&argv, place, files) {
        Err(blocked) => Invocation::Blocked(*blocked),
        Ok(unwrapped) => {
            let argv = unwrapped.argv.to_vec();
            let word = argv.first().map_or("", String::as_str);
            let program = Program::look_up(word, place, files);
            let mut content = content(&program, &argv, place, files);
            let is_multiplexed = unwrapped.wrappers.last().is_some_and(Wrapper::is_multiplexer);
            if is_multiplexed && let Content::Carried { argv, .. } = &content {
                // A multiplexer has a program of its own for the name that its shell passes on.
                let by = argv.first().cloned().unwrap_or_default();
                content = Content::Carrier(Carrier { program: program::program_name(word), by });
            }
            Invocation::Runs(Box::new(Runs {
                wrappers: unwrapped.wrappers,
                argv,
                program,
                content,
            }))
        }
    };
    Segment { raw, argv, here_document, invocation }
}

/// Looks at a program's words, and at the file or the command they name.
fn content(
    program: &Program,
    argv: &[String],
    place: Place<'_>,
    files: &dyn ProgramFiles,
) -> Content {
    let operand = |index: usize| {
        let word = argv.get(index).map_or("", String::as_str);
        Program::operand(word, place, files)
    };
    match carriers::words_of(program, argv) {
        carriers::Words::Plain => Content::Plain,
        carriers::Words::Carrier(carrier) => Content::Carrier(carrier),
        carriers::Words::ShellScript(index) => Content::ShellScript(operand(index)),
        carriers::Words::Script(index) => Content::Script(operand(index)),
        carriers::Words::Carried(carried) => {
            let word = carried.first().map_or("", String::as_str);
            let inner = Program::look_up(word, place, files);
            // Nothing is looked through twice.
            let is_plain = carriers::words_of(&inner, &carried) == carriers::Words::Plain
                && !inner.names().any(|name| wrappers::is_wrapper(&name));
            if is_plain {
                Content::Carried { argv: carried, program: inner }
            } else {
                let name = program::program_name(&program.word);
                Content::Carrier(Carrier { program: name, by: word.to_owned() })
            }
        }
    }
}

#[cfg(test)]
mod tests;
