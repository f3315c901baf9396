//! The frozen plan: which files are started, with which words, where, in which environment.
//!
//! Made from an [`Analysis`] and never changed: display, approval, audit and execution consume the
//! same value, and its hash names it. Each file is pinned by inode and content; whoever runs the
//! plan looks again and refuses a difference. A step is started by its file with its own words, no
//! shell in between; the name a program was called by stays its first word.

use std::collections::BTreeMap;
use std::fmt;

use sha2::{Digest as _, Sha256};

use super::lexer::ChainOperator;
use super::program::{ContentHash, FileIdentity, Found, PinnedFile, Program, ProgramFiles};
use super::wrappers::Effect;
use super::{Analysis, Content, Invocation, Runs, Segment};
use crate::posix;

/// What will run. Made by [`Analysis::freeze`] only.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plan {
    steps: Vec<Step>,
    cwd: String,
    directory: Option<PinnedDirectory>,
    environment: BTreeMap<String, String>,
}

/// The working directory as it was when the plan was made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PinnedDirectory {
    pub real_path: String,
    pub identity: FileIdentity,
}

/// One program to start.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Step {
    pub joint: Joint,
    /// The file to start.
    pub file: PinnedFile,
    /// Its words; the first is the name it was called by.
    pub argv: Vec<String>,
    /// Files that it starts or runs in turn: what its wrappers wrap, a script.
    pub others: Vec<PinnedFile>,
    /// What it reads from its input; `None`: what the step before writes, or nothing.
    pub input: Option<String>,
}

/// How a step is joined to the one before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Joint {
    First,
    Pipe,
    Chain(ChainOperator),
}

impl Joint {
    /// The sign between the steps; nothing before the first.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::First => "",
            Self::Pipe => "|",
            Self::Chain(operator) => operator.as_str(),
        }
    }
}

/// Why there is no plan.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Unplannable {
    #[error("`{wrapper}` is not followed, so what it would run is not known")]
    Blocked { wrapper: String },
    #[error("no file was found for `{word}`, so nothing can be pinned")]
    NotFound { word: String },
    #[error("`{path}` cannot be read, so it cannot be pinned")]
    Unreadable { path: String },
}

/// The name of a plan: SHA-256 of everything in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct PlanHash(ContentHash);

impl fmt::Display for PlanHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl Analysis {
    /// Pins every file and gives the plan, or says what cannot be pinned.
    pub fn freeze(&self, files: &dyn ProgramFiles) -> Result<Plan, Unplannable> {
        let mut steps = Vec::new();
        for pipeline in &self.pipelines {
            let mut joint = pipeline.joined_by.map_or(Joint::First, Joint::Chain);
            for segment in &pipeline.segments {
                steps.push(step(joint, segment, files)?);
                joint = Joint::Pipe;
            }
        }
        let directory = files
            .find(&posix::normalize(&self.cwd))
            .map(|facts| PinnedDirectory { real_path: facts.real_path, identity: facts.identity });
        let environment = self.environment.clone();
        Ok(Plan { steps, cwd: self.cwd.clone(), directory, environment })
    }
}

impl Plan {
    pub fn steps(&self) -> &[Step] {
        &self.steps
    }

    pub fn cwd(&self) -> &str {
        &self.cwd
    }

    /// Which directory that was; `None` if there was none, and then nothing can run there.
    pub fn directory(&self) -> Option<&PinnedDirectory> {
        self.directory.as_ref()
    }

    pub fn environment(&self) -> &BTreeMap<String, String> {
        &self.environment
    }

    /// Every file that must be what it was when the plan was made.
    pub fn files(&self) -> impl Iterator<Item = &PinnedFile> {
        self.steps.iter().flat_map(|step| std::iter::once(&step.file).chain(&step.others))
    }

    /// The same, held also to these files.
    #[must_use]
    pub(crate) fn with_files(mut self, files: Vec<PinnedFile>) -> Self {
        if let Some(step) = self.steps.first_mut() {
            step.others.extend(files);
        }
        self
    }

    /// The plan as one line, every word quoted. To be read: it shows what runs, and is not what runs.
    pub fn command_line(&self) -> String {
        let mut line = String::new();
        for step in &self.steps {
            if !line.is_empty() {
                line.push(' ');
                line.push_str(step.joint.as_str());
                line.push(' ');
            }
            line.push_str(&step.command_line());
        }
        line
    }

    /// The name of this plan. Two plans that differ in anything have different names.
    pub fn hash(&self) -> PlanHash {
        let mut hash = PlanHasher::new();
        hash.text(&self.cwd);
        hash.number(usize::from(self.directory.is_some()));
        if let Some(directory) = &self.directory {
            hash.text(&directory.real_path);
            hash.identity(directory.identity);
        }
        hash.number(self.environment.len());
        for (name, value) in &self.environment {
            hash.text(name);
            hash.text(value);
        }
        hash.number(self.steps.len());
        for step in &self.steps {
            hash.step(step);
        }
        PlanHash(ContentHash(hash.0.finalize().into()))
    }
}

impl Step {
    /// The real file and the words after the name, each in single quotes.
    pub fn command_line(&self) -> String {
        let mut line = quote(&self.file.real_path);
        for word in self.argv.iter().skip(1) {
            line.push(' ');
            line.push_str(&quote(word));
        }
        line
    }
}

fn quote(word: &str) -> String {
    format!("'{}'", word.replace('\'', r#"'"'"'"#))
}

fn step(joint: Joint, segment: &Segment, files: &dyn ProgramFiles) -> Result<Step, Unplannable> {
    let runs = match &segment.invocation {
        Invocation::Runs(runs) => runs,
        Invocation::Blocked(blocked) => {
            return Err(Unplannable::Blocked { wrapper: blocked.wrapper.to_owned() });
        }
    };
    let mut pinned = Vec::new();
    let mut argv: Vec<String> = Vec::new();
    for wrapper in runs.wrappers.iter().filter(|wrapper| wrapper.effect != Effect::None) {
        push(&mut argv, &mut pinned, &wrapper.words, pin(&wrapper.program, files)?);
    }
    let words = runs.effective_argv();
    if runs.is_multiplexed() {
        argv.extend_from_slice(words);
    } else {
        push(&mut argv, &mut pinned, words, pin(runs.effective_program(), files)?);
    }
    match &runs.content {
        Content::ShellScript(script) | Content::Script(script) => pinned.push(pin(script, files)?),
        Content::Plain | Content::Carrier(_) | Content::Carried { .. } => {}
    }
    let mut pinned = pinned.into_iter();
    let file = pinned.next().ok_or_else(|| missing(&runs.program))?;
    Ok(Step { joint, file, argv, others: pinned.collect(), input: segment.here_document.clone() })
}

/// Adds a program's words. The first program is started by its file and keeps its name; those that
/// a wrapper starts are named by their real path, so that no `PATH` decides again.
fn push(argv: &mut Vec<String>, pinned: &mut Vec<PinnedFile>, words: &[String], file: PinnedFile) {
    let mut words = words.iter();
    if let Some(name) = words.next() {
        argv.push(if pinned.is_empty() { name.clone() } else { file.real_path.clone() });
    }
    argv.extend(words.cloned());
    pinned.push(file);
}

/// The files in an agent's directories that a text for a shell names, as far as its words can be told without
/// that shell: as they stand, and as they stand between quotes.
pub(crate) fn agents_files(text: &str, cwd: &str, files: &dyn ProgramFiles) -> Vec<PinnedFile> {
    let words = text.split(|c: char| c.is_whitespace() || ";|&<>()'\"`$={},".contains(c));
    let quoted = text.split(['\'', '"']);
    let mut names: Vec<&str> = words.chain(quoted).filter(|name| !name.is_empty()).collect();
    names.sort_unstable();
    names.dedup();
    let pin = |name: &str| {
        let path = posix::resolve(cwd, name);
        let facts = files.find(&path).filter(|facts| facts.is_regular && facts.is_agents())?;
        Found { path, facts }.pin(files)
    };
    names.into_iter().filter_map(pin).collect()
}

fn pin(program: &Program, files: &dyn ProgramFiles) -> Result<PinnedFile, Unplannable> {
    let found = program.found.as_ref().ok_or_else(|| missing(program))?;
    found.pin(files).ok_or_else(|| Unplannable::Unreadable { path: found.path.clone() })
}

fn missing(program: &Program) -> Unplannable {
    Unplannable::NotFound { word: program.word.clone() }
}

/// Feeds a hash with lengths before texts, so that nothing can be moved across a border.
struct PlanHasher(Sha256);

impl PlanHasher {
    fn new() -> Self {
        Self(Sha256::new_with_prefix(b"clawpen plan 1\0"))
    }

    fn number(&mut self, number: usize) {
        self.0.update((number as u64).to_le_bytes());
    }

    fn text(&mut self, text: &str) {
        self.number(text.len());
        self.0.update(text.as_bytes());
    }

    fn file(&mut self, file: &PinnedFile) {
        self.text(&file.path);
        self.text(&file.real_path);
        self.identity(file.identity);
        self.0.update(file.hash.0);
    }

    fn identity(&mut self, identity: FileIdentity) {
        self.0.update(identity.device.to_le_bytes());
        self.0.update(identity.inode.to_le_bytes());
    }

    fn step(&mut self, step: &Step) {
        self.text(step.joint.as_str());
        self.file(&step.file);
        self.number(step.argv.len());
        step.argv.iter().for_each(|word| self.text(word));
        self.number(step.others.len());
        step.others.iter().for_each(|file| self.file(file));
        self.number(usize::from(step.input.is_some()));
        self.text(step.input.as_deref().unwrap_or_default());
    }
}

impl Runs {
    /// The words that run, behind the wrappers that are dropped or looked through.
    pub fn effective_argv(&self) -> &[String] {
        match &self.content {
            Content::Carried { argv, .. } => argv,
            Content::Plain | Content::Carrier(_) | Content::ShellScript(_) | Content::Script(_) => {
                &self.argv
            }
        }
    }

    /// The program they start.
    pub fn effective_program(&self) -> &Program {
        match &self.content {
            Content::Carried { program, .. } => program,
            Content::Plain | Content::Carrier(_) | Content::ShellScript(_) | Content::Script(_) => {
                &self.program
            }
        }
    }
}
