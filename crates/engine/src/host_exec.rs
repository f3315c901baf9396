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
//! again right before and right after: a change is reported. Every program has a keeper ([`keeper`]), so
//! that nothing of a run outlives its end, its caller's patience or this process. A program that attacks its keeper has
//! its run lost, and what it left is ended as far as it can be found ([`orphans`]). Decides nothing: whoever calls this
//! has asked `rules::approval`.

mod keeper;
mod orphans;
mod output;
mod pinned;

use std::ffi::CString;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use clawpen_os::events::{self, Interest};
use clawpen_os::process::{ExitStatus, Signal};
use clawpen_os::spawn::SpawnError;
use clawpen_rules::command::{ChainOperator, Joint, Plan, ProgramFiles, Step};

use keeper::{Keeper, Keepers, Kept, Wanted};
use orphans::Gathering;
use output::Captured;
pub use pinned::Stale;
use pinned::{Opened, Program};

/// How far a run may go.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Then everything is killed.
    pub time: Duration,
    /// As many bytes are kept of each of output and errors; the rest is read and dropped.
    pub output_bytes: usize,
    pub errors: Errors,
}

/// Where programs write their errors.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Errors {
    Apart,
    /// Where their output goes, so that everything comes in the order in which it was written.
    WithOutput,
}

/// Whoever sees a run while it goes on, and may end it.
pub trait Observer {
    /// The run wrote this. Must not block for long: the programs then block too.
    fn output(&mut self, _bytes: &[u8]) {}

    /// Becomes readable when the run is to end now.
    fn stop(&self) -> Option<BorrowedFd<'_>> {
        None
    }
}

/// Nobody looks.
#[derive(Debug, Clone, Copy, Default)]
pub struct Unseen;

impl Observer for Unseen {}

/// A run that came to its end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finished {
    pub end: End,
    pub output: Vec<u8>,
    pub errors: Vec<u8>,
    /// More was written than was kept.
    pub is_cut: bool,
    /// All that was written.
    pub written: u64,
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
    /// Whoever watched did not want it any more; nothing of it is left.
    Stopped,
    /// Somebody ended a keeper of it, most likely the program itself.
    Lost(Left),
}

/// What is left of a run whose keeper was ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Left {
    /// All that came to us was ended.
    Nothing,
    /// Not everything could be ended, or looked at.
    Unknown,
}

impl std::fmt::Display for Left {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("the process that kept it was killed, so how far it got is not known, ")?;
        f.write_str(match self {
            Self::Nothing => {
                "and although what was found of it was ended, something of it may still run"
            }
            Self::Unknown => "and something of it still runs or could not be looked at",
        })
    }
}

impl Finished {
    /// What is left, if the run was lost.
    pub const fn lost(&self) -> Option<Left> {
        match self.end {
            End::Lost(left) => Some(left),
            End::Status(_) | End::TimedOut | End::Stopped => None,
        }
    }
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
pub fn run(
    plan: &Plan,
    files: &dyn ProgramFiles,
    limits: Limits,
    observer: &mut dyn Observer,
) -> Result<Finished, RunError> {
    let directory = pinned::directory(plan).map_err(RunError::Stale)?;
    for file in plan.files() {
        pinned::open(file).map_err(RunError::Stale)?;
    }
    let environment = environment(plan)?;
    let _gathering = Gathering::begin().map_err(io_error("keep what programs leave behind"))?;
    let mut run = Run {
        files,
        directory: &directory,
        environment: &environment,
        deadline: Instant::now() + limits.time,
        streams: Streams::new(limits)?,
        observer,
        started: 0,
    };
    let mut end = End::Status(ExitStatus::Code(0));
    for (joined_by, pipeline) in pipelines(plan.steps()) {
        let is_next = match (joined_by, end) {
            (_, End::TimedOut | End::Stopped | End::Lost(_)) => false,
            (None | Some(ChainOperator::Then), End::Status(_)) => true,
            (Some(ChainOperator::And), End::Status(status)) => status == ExitStatus::Code(0),
            (Some(ChainOperator::Or), End::Status(status)) => status != ExitStatus::Code(0),
        };
        if is_next {
            end = run.pipeline(pipeline)?;
        }
    }
    let Run { started, streams, observer, .. } = run;
    let (output, errors) = streams.finish(observer);
    let changed = plan.files().filter(|file| pinned::open(file).is_err());
    Ok(Finished {
        end,
        is_cut: output.is_cut || errors.is_cut,
        written: output.written + errors.written,
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

/// Where all steps write, and what came of it.
struct Streams {
    output: OwnedFd,
    errors: OwnedFd,
    /// Our ends, with what was read from each.
    ends: Vec<(OwnedFd, Captured)>,
}

impl Streams {
    fn new(limits: Limits) -> Result<Self, RunError> {
        let pipe = || events::pipe().map_err(io_error("make a pipe"));
        let captured = || Captured::new(limits.output_bytes);
        let (end, output) = pipe()?;
        let mut ends = vec![(end, captured())];
        let errors = match limits.errors {
            Errors::Apart => {
                let (end, errors) = pipe()?;
                ends.push((end, captured()));
                errors
            }
            Errors::WithOutput => output.try_clone().map_err(io_error("share a pipe"))?,
        };
        for (end, _) in &ends {
            events::set_nonblocking(end.as_fd()).map_err(io_error("prepare a pipe"))?;
        }
        Ok(Self { output, errors, ends })
    }

    /// Takes whatever is there, once from each end.
    fn take(&mut self, observer: &mut dyn Observer) -> Taken {
        let mut taken = Taken::Nothing;
        for (end, captured) in &mut self.ends {
            if captured.read(end.as_fd(), observer) {
                taken = Taken::Something;
            }
        }
        taken
    }

    /// Nobody writes any more, or what still does is not listened to: as much as was there at the end is taken, and
    /// somebody who writes for ever does not keep us.
    fn finish(mut self, observer: &mut dyn Observer) -> (Captured, Captured) {
        for _ in 0..MOST_LEFT {
            if self.take(observer) == Taken::Nothing {
                break;
            }
        }
        let mut ends = self.ends.into_iter().map(|(_, captured)| captured);
        let output = ends.next().unwrap_or_default();
        (output, ends.next().unwrap_or_default())
    }
}

/// A pipe holds no more than so many reads.
const MOST_LEFT: usize = 64;

/// What a wait looks at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Source {
    Keeper(usize),
    Stop,
    Stream,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Taken {
    Something,
    Nothing,
}

/// A run on its way.
struct Run<'a> {
    files: &'a dyn ProgramFiles,
    directory: &'a File,
    environment: &'a [CString],
    deadline: Instant,
    streams: Streams,
    observer: &'a mut dyn Observer,
    started: usize,
}

impl Run<'_> {
    fn pipeline(&mut self, steps: &[Step]) -> Result<End, RunError> {
        // Whoever has left by now wants nothing started.
        if self.is_stopped().map_err(io_error("look whether to go on"))? {
            return Ok(End::Stopped);
        }
        // All of it is looked at again before any of it starts.
        let opened: Vec<Opened> = steps
            .iter()
            .map(|step| Opened::of(step, self.files))
            .collect::<Result<_, _>>()
            .map_err(RunError::Stale)?;
        let mut keepers = Keepers::default();
        let mut from_before: Option<OwnedFd> = None;
        for (index, (step, opened)) in steps.iter().zip(&opened).enumerate() {
            let input = match (&step.input, from_before.take()) {
                (Some(text), _) => {
                    let (input, end) = events::pipe().map_err(io_error("make a pipe"))?;
                    output::feed(end, text.clone().into_bytes());
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
            keepers.0.push(self.start(step, opened, input.as_fd(), output.as_fd())?);
            self.started += 1;
        }
        drop(from_before);
        let end = self.wait(&keepers);
        match keepers.finish() {
            Kept::All => end.map_err(io_error("wait for a program")),
            Kept::NotAll => Ok(End::Lost(orphans::end())),
        }
    }

    fn is_stopped(&self) -> io::Result<bool> {
        let Some(stop) = self.observer.stop() else { return Ok(false) };
        let happened = events::poll(&[(stop, Interest::Read)], Some(Duration::ZERO))?;
        Ok(!happened.is_empty())
    }

    fn start(
        &self,
        step: &Step,
        opened: &Opened,
        input: BorrowedFd<'_>,
        output: BorrowedFd<'_>,
    ) -> Result<Keeper, RunError> {
        let words = step.argv.iter().map(|word| c_string(word, word));
        let words = words.collect::<Result<Vec<_>, _>>()?;
        let (path, program, script) = match &opened.program {
            Program::Binary(file) => (None, Some(file.as_fd()), None),
            Program::Script { path, file } => {
                (Some(c_string(path, path)?), None, file.as_ref().map(File::as_fd))
            }
        };
        let wanted = Wanted {
            path,
            program,
            script,
            words,
            environment: self.environment,
            directory: self.directory.as_fd(),
            streams: [input, output, self.streams.errors.as_fd()],
        };
        keeper::start(&wanted)
            .map_err(|cause| RunError::Start { program: step.file.path.clone(), cause })
    }

    /// Waits until all have ended; the end of the last counts. Takes what they write meanwhile.
    fn wait(&mut self, keepers: &Keepers) -> io::Result<End> {
        let mut last = End::Status(ExitStatus::Code(0));
        let count = keepers.0.len();
        let mut ended = vec![false; count];
        while ended.iter().any(|ended| !ended) {
            let left = self.deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(End::TimedOut);
            }
            let mut sources: Vec<Source> = Vec::new();
            let mut watched: Vec<(BorrowedFd<'_>, Interest)> = Vec::new();
            let mut watch = |source, end| {
                sources.push(source);
                watched.push((end, Interest::Read));
            };
            // One that has ended is left out: its socket stays readable for good.
            let alive = keepers.0.iter().zip(&ended).enumerate().filter(|(_, (_, ended))| !**ended);
            alive.for_each(|(index, (keeper, _))| watch(Source::Keeper(index), keeper.said()));
            self.observer.stop().into_iter().for_each(|stop| watch(Source::Stop, stop));
            self.streams.ends.iter().for_each(|(end, _)| watch(Source::Stream, end.as_fd()));
            let happened = events::poll(&watched, Some(left))?;
            let happened: Vec<Source> = happened
                .iter()
                .filter_map(|event| sources.get(usize::try_from(event.token).ok()?).copied())
                .collect();
            if happened.contains(&Source::Stop) {
                return Ok(End::Stopped);
            }
            for source in happened {
                if let Source::Keeper(index) = source
                    && let (Some(keeper), Some(ended)) =
                        (keepers.0.get(index), ended.get_mut(index))
                {
                    *ended = true;
                    // One that ended without a word is seen when its remains are.
                    let status = keeper.hear()?.unwrap_or(ExitStatus::Signal(Signal::KILL));
                    if index + 1 == count {
                        last = End::Status(status);
                    }
                }
            }
            self.streams.take(self.observer);
        }
        Ok(last)
    }
}

#[cfg(test)]
mod tests;
