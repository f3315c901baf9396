//! Runs a frozen plan on this machine: its files, its words, its directory, no shell in between.
//!
//! ```text
//! plan ─► every file and the directory still what they were? ─► pipeline by pipeline: look again,
//!         └────────── a difference refuses, nothing starts ──┘   start by descriptor, wait, kill what is left
//! ```
//!
//! A program is started through the descriptor whose content was hashed, so what was checked is what
//! runs even if its name is given to another file meanwhile; the directory is entered the same way.
//! What a wrapper starts, and a script that an interpreter opens, go by their path and are looked at
//! again right before and right after: a change is reported. Decides nothing: whoever calls this has
//! asked `rules::approval`.

mod output;
mod pinned;

use std::ffi::CString;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use clawpen_os::events::{self, Interest};
use clawpen_os::process::{Child, ExitStatus, Signal, kill, kill_group, pidfd_open};
use clawpen_os::spawn::{Image, Plan as Start, Session, SpawnError};
use clawpen_os::tree::descendants_of;
use clawpen_rules::command::{ChainOperator, Joint, Plan, ProgramFiles, Step};

use output::{Collector, Feeder};
pub use pinned::Stale;
use pinned::{Opened, Program};

/// How long killed processes are waited for; one stuck in the kernel does not die.
const LAST_MOMENTS: Duration = Duration::from_secs(5);

/// How far a run may go.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Then everything is killed.
    pub time: Duration,
    /// As many bytes are kept of each of output and errors; the rest is read and dropped.
    pub output_bytes: usize,
}

/// A run that came to its end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finished {
    pub end: End,
    pub output: Vec<u8>,
    pub errors: Vec<u8>,
    /// More was written than was kept.
    pub is_cut: bool,
    /// How many steps were started; a chain may skip some.
    pub started: usize,
    /// Files of the plan that are no longer what they were, looked at after the end.
    pub changed: Vec<String>,
}

/// How a run ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// As the last step that ran did.
    Status(ExitStatus),
    /// The time was over; nothing of it is left.
    TimedOut,
}

/// A plan that was not run, or not to its end.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    #[error("the plan is not run: {0}; ask again")]
    Stale(#[source] Stale),
    #[error("`{word}` holds a NUL character, which no program can be given")]
    Nul { word: String },
    #[error("cannot start `{program}`")]
    Start {
        program: String,
        #[source]
        cause: SpawnError,
    },
    #[error("cannot {what}")]
    Io {
        what: &'static str,
        #[source]
        cause: io::Error,
    },
}

/// Runs a plan. `files` says which scripts an agent could rewrite.
///
/// # Errors
/// [`RunError::Stale`] before anything has started if a file or the directory is not what the plan
/// says, and between the pipelines of a chain if one before changed it.
pub fn run(plan: &Plan, files: &dyn ProgramFiles, limits: Limits) -> Result<Finished, RunError> {
    let directory = pinned::directory(plan).map_err(RunError::Stale)?;
    for file in plan.files() {
        pinned::open(file).map_err(RunError::Stale)?;
    }
    let environment = environment(plan)?;
    let mut run = Run {
        files,
        directory: &directory,
        environment: &environment,
        deadline: Instant::now() + limits.time,
        streams: Streams::new(limits.output_bytes)?,
        started: 0,
    };
    let mut end = End::Status(ExitStatus::Code(0));
    for (joined_by, pipeline) in pipelines(plan.steps()) {
        let is_next = match (joined_by, end) {
            (_, End::TimedOut) => false,
            (None | Some(ChainOperator::Then), End::Status(_)) => true,
            (Some(ChainOperator::And), End::Status(status)) => status == ExitStatus::Code(0),
            (Some(ChainOperator::Or), End::Status(status)) => status != ExitStatus::Code(0),
        };
        if is_next {
            end = run.pipeline(pipeline)?;
        }
    }
    let started = run.started;
    let (output, errors) = run.streams.finish();
    let changed = plan.files().filter(|file| pinned::open(file).is_err());
    Ok(Finished {
        end,
        is_cut: output.is_cut || errors.is_cut,
        output: output.bytes,
        errors: errors.bytes,
        started,
        changed: changed.map(|file| file.path.clone()).collect(),
    })
}

/// The steps between two chain operators, with the operator before them.
fn pipelines(steps: &[Step]) -> Vec<(Option<ChainOperator>, &[Step])> {
    let mut found = Vec::new();
    let mut rest = steps;
    while let Some((first, after)) = rest.split_first() {
        let joined_by = match first.joint {
            Joint::Chain(operator) => Some(operator),
            Joint::First | Joint::Pipe => None,
        };
        let more = after.iter().take_while(|step| step.joint == Joint::Pipe).count();
        let (pipeline, behind) = rest.split_at(more + 1);
        found.push((joined_by, pipeline));
        rest = behind;
    }
    found
}

fn environment(plan: &Plan) -> Result<Vec<CString>, RunError> {
    let variables = plan.environment().iter();
    variables.map(|(name, value)| c_string(&format!("{name}={value}"), name)).collect()
}

fn c_string(text: &str, word: &str) -> Result<CString, RunError> {
    CString::new(text).map_err(|_nul| RunError::Nul { word: word.to_owned() })
}

fn io_error(what: &'static str) -> impl FnOnce(io::Error) -> RunError {
    move |cause| RunError::Io { what, cause }
}

/// Where all steps write.
struct Streams {
    output: OwnedFd,
    errors: OwnedFd,
    collectors: [Collector; 2],
    is_over: Arc<AtomicBool>,
}

impl Streams {
    fn new(most: usize) -> Result<Self, RunError> {
        let pipe = || events::pipe().map_err(io_error("make a pipe"));
        let (output_end, output) = pipe()?;
        let (errors_end, errors) = pipe()?;
        let is_over = Arc::new(AtomicBool::new(false));
        let collect = |end| Collector::start(end, most, Arc::clone(&is_over));
        let collectors = [collect(output_end), collect(errors_end)];
        Ok(Self { output, errors, collectors, is_over })
    }

    /// Nobody writes any more, or what still does is not listened to.
    fn finish(self) -> (output::Captured, output::Captured) {
        drop((self.output, self.errors));
        self.is_over.store(true, Ordering::Release);
        let [output, errors] = self.collectors;
        (output.join(), errors.join())
    }
}

/// A run on its way.
struct Run<'a> {
    files: &'a dyn ProgramFiles,
    directory: &'a File,
    environment: &'a [CString],
    deadline: Instant,
    streams: Streams,
    started: usize,
}

impl Run<'_> {
    fn pipeline(&mut self, steps: &[Step]) -> Result<End, RunError> {
        // All of it is looked at again before any of it starts.
        let opened: Vec<Opened> = steps
            .iter()
            .map(|step| Opened::of(step, self.files))
            .collect::<Result<_, _>>()
            .map_err(RunError::Stale)?;
        let mut children = Children::default();
        let mut feeders = Vec::new();
        let mut from_before: Option<OwnedFd> = None;
        for (index, (step, opened)) in steps.iter().zip(&opened).enumerate() {
            let input = match (&step.input, from_before.take()) {
                (Some(text), _) => {
                    let (input, end) = events::pipe().map_err(io_error("make a pipe"))?;
                    feeders.push(Feeder::start(end, text.clone().into_bytes()));
                    input
                }
                (None, Some(pipe)) => pipe,
                (None, None) => events::open_null().map_err(io_error("open /dev/null"))?,
            };
            let is_last = index + 1 == steps.len();
            let output = if is_last {
                None
            } else {
                let (reader, writer) = events::pipe().map_err(io_error("make a pipe"))?;
                from_before = Some(reader);
                Some(writer)
            };
            let output = output.as_ref().unwrap_or(&self.streams.output);
            let child = self.start(step, opened, input.as_fd(), output.as_fd())?;
            children.0.push(child);
            self.started += 1;
        }
        drop(from_before);
        let end = children.wait(self.deadline);
        drop(children);
        feeders.into_iter().for_each(Feeder::join);
        end.map_err(io_error("wait for a program"))
    }

    fn start(
        &self,
        step: &Step,
        opened: &Opened,
        input: BorrowedFd<'_>,
        output: BorrowedFd<'_>,
    ) -> Result<Child, RunError> {
        let words = step.argv.iter().map(|word| c_string(word, word));
        let words = words.collect::<Result<Vec<_>, _>>()?;
        let image = match &opened.program {
            Program::Binary(file) => Image::File(file.as_fd()),
            Program::Script { path, .. } => Image::Paths(vec![c_string(path, path)?]),
        };
        let mut start = Start::new(image, words, self.environment.to_vec())
            .descriptor(0, input)
            .descriptor(1, output)
            .descriptor(2, self.streams.errors.as_fd())
            .directory(self.directory.as_fd())
            .session(Session::New);
        if let Program::Script { file: Some(file), .. } = &opened.program {
            start = start.descriptor(pinned::SCRIPT_DESCRIPTOR, file.as_fd());
        }
        let program = || step.file.path.clone();
        start.spawn().map_err(|cause| RunError::Start { program: program(), cause })
    }
}

/// The programs of a pipeline, each the leader of a session of its own. What is left of them when
/// this goes out of scope is killed.
#[derive(Default)]
struct Children(Vec<Child>);

impl Children {
    /// Waits until all have ended, or kills them at the deadline. Gives the end of the last.
    fn wait(&self, deadline: Instant) -> io::Result<End> {
        let mut last = End::Status(ExitStatus::Code(0));
        for child in &self.0 {
            loop {
                if let Some(ended) = child.try_wait()? {
                    last = End::Status(ended.status);
                    break;
                }
                let left = deadline.saturating_duration_since(Instant::now());
                if left.is_zero() {
                    return Ok(End::TimedOut);
                }
                events::poll(&[(child.pidfd(), Interest::Read)], Some(left))?;
            }
        }
        Ok(last)
    }
}

impl Drop for Children {
    fn drop(&mut self) {
        let mut left: Vec<OwnedFd> = Vec::new();
        for child in &self.0 {
            // Parents are stopped before their children are counted, so that none forks away.
            for signal in [Signal::STOP, Signal::KILL] {
                let tree = descendants_of(child.pid()).unwrap_or_default();
                left.extend(tree.iter().filter_map(|pid| pidfd_open(*pid).ok()));
                for pid in tree {
                    let _gone = kill(pid, signal);
                }
                // Descendants that lost their parent are still in the group of their leader.
                let _gone = kill_group(child.pid(), signal);
            }
            // Reaped already, if it ended by itself.
            let _reaped = child.wait();
        }
        // Killed is not yet gone: whoever is told that it is over must not find it at work.
        let end = Instant::now() + LAST_MOMENTS;
        for process in left {
            let rest = end.saturating_duration_since(Instant::now());
            let _ended = events::poll(&[(process.as_fd(), Interest::Read)], Some(rest));
        }
    }
}

#[cfg(test)]
mod tests;
