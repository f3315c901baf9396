//! Decides which segments of a command may run without asking.
//!
//! Takes an [`Analysis`] and what is trusted; returns for each segment what admits it, or why
//! nothing does. A blocked wrapper, a program that was not found and a word that only a shell knows
//! are admitted by nothing, not even by `*`. A program that carries another command is admitted only
//! by an entry that is bound to its exact words. A file that the agent can change is admitted only
//! by an entry that is pinned to its content.

use super::carriers::{self, Carrier};
use super::pattern::Pattern;
use super::program::{ContentHash, Found, Program, ProgramFiles};
use super::remember::Binding;
use super::safe_bins::SafeBins;
use super::wrappers::Effect;
use super::{Analysis, Content, Invocation, Runs, Segment};

/// What may run without asking.
#[derive(Debug, Clone, Copy)]
pub struct Trust<'a> {
    /// In the order in which they are tried.
    pub entries: &'a [Entry],
    pub safe_bins: &'a SafeBins,
    /// Empty unless skills are allowed automatically.
    pub skills: &'a [SkillProgram],
}

/// An entry of the allowlist.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    pub pattern: Pattern,
    /// The exact words and directory it is for; `None` for any.
    pub binding: Option<Binding>,
    /// The content the matched file must have.
    pub pin: Option<ContentHash>,
}

/// A program that a skill brings.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SkillProgram {
    pub name: String,
    /// Absolute.
    pub path: String,
}

/// The verdict on a command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Verdict {
    /// In the shape of the analysis: pipelines of segments.
    pub pipelines: Vec<Vec<SegmentVerdict>>,
}

/// The verdict on one segment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SegmentVerdict {
    Admitted(Admission),
    Missed(Miss),
}

/// What admits a segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Admission {
    /// The number of the entry.
    Entry(usize),
    SafeBin,
    Skill,
}

/// Why nothing admits a segment.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Miss {
    #[error(
        "`{wrapper}` runs another program in a way that is not followed; run the program itself"
    )]
    Blocked { wrapper: String },
    #[error("`{word}` is a shell's word and starts no program")]
    ShellWord { word: String },
    #[error("no program `{word}` was found; install it or give its path")]
    NotFound { word: String },
    #[error(
        "`{path}` runs another program and does not lie in a trusted directory; add its directory to `tools.exec.safeBinTrustedDirs`"
    )]
    UntrustedWrapper { path: String },
    #[error("`{}` carries a command or code in `{}`; only an entry bound to these exact words admits it", .0.program, .0.by)]
    Carrier(Carrier),
    #[error("the agent can change `{path}`; only an entry pinned to its content admits it")]
    AgentWritable { path: String },
    #[error(
        "`{program}` runs what the settings in `{path}` name, and the agent can write those; a person \
         must look each time"
    )]
    AgentSettings { program: String, path: String },
    #[error("`{path}` is not what it was when it was allowed")]
    Changed { path: String },
    #[error("no entry of the allowlist matches `{path}`")]
    NotListed { path: String },
}

impl Verdict {
    /// Says whether every segment is admitted.
    pub fn is_satisfied(&self) -> bool {
        self.segments().all(|segment| matches!(segment, SegmentVerdict::Admitted(_)))
    }

    /// The verdicts in order.
    pub fn segments(&self) -> impl Iterator<Item = &SegmentVerdict> {
        self.pipelines.iter().flatten()
    }

    /// Why the first segment that is not admitted is not.
    pub fn first_miss(&self) -> Option<&Miss> {
        self.segments().find_map(|segment| match segment {
            SegmentVerdict::Admitted(_) => None,
            SegmentVerdict::Missed(miss) => Some(miss),
        })
    }
}

/// Decides for each segment whether it may run without asking.
#[must_use]
pub fn decide(analysis: &Analysis, trust: &Trust<'_>, files: &dyn ProgramFiles) -> Verdict {
    let judge = Judge { trust, files, cwd: &analysis.cwd };
    let of_segment = |segment: &Segment| {
        judge.segment(segment).map_or_else(SegmentVerdict::Missed, SegmentVerdict::Admitted)
    };
    let pipelines = analysis.pipelines.iter();
    let pipelines = pipelines.map(|pipeline| pipeline.segments.iter().map(of_segment).collect());
    Verdict { pipelines: pipelines.collect() }
}

struct Judge<'a> {
    trust: &'a Trust<'a>,
    files: &'a dyn ProgramFiles,
    cwd: &'a str,
}

impl Judge<'_> {
    fn segment(&self, segment: &Segment) -> Result<Admission, Miss> {
        let runs = match &segment.invocation {
            Invocation::Runs(runs) => runs,
            Invocation::Blocked(blocked) => {
                return Err(Miss::Blocked { wrapper: blocked.wrapper.to_owned() });
            }
        };
        self.wrappers(runs)?;
        let targets = Targets::of(runs)?;
        if let Some(path) = carriers::agent_settings(runs, self.cwd, self.files) {
            let program = runs.effective_program().word.clone();
            return Err(Miss::AgentSettings { program, path });
        }
        if let Some(admission) = self.bound(runs, &targets)? {
            return Ok(admission);
        }
        if let Content::Carrier(carrier) = &runs.content {
            return Err(Miss::Carrier(carrier.clone()));
        }
        if let Some((index, entry)) = self.listed(&targets) {
            self.unchanged(entry, &targets)?;
            return Ok(Admission::Entry(index));
        }
        let is_plain = runs.content == Content::Plain && !runs.is_multiplexed();
        if is_plain && self.trust.safe_bins.admits(targets.program, &runs.argv) {
            return Ok(Admission::SafeBin);
        }
        if is_plain && self.is_skill(runs, targets.program) {
            return Ok(Admission::Skill);
        }
        Err(Miss::NotListed { path: targets.program.path.clone() })
    }

    /// A wrapper that runs must be the system's own: its name is all that is known about it.
    fn wrappers(&self, runs: &Runs) -> Result<(), Miss> {
        for wrapper in runs.wrappers.iter().filter(|wrapper| wrapper.effect == Effect::Runs) {
            let found = found(&wrapper.program)?;
            if !self.trust.safe_bins.trusts(found) {
                return Err(Miss::UntrustedWrapper { path: found.path.clone() });
            }
        }
        Ok(())
    }

    /// An entry that is bound to these words. It says what it admits, so carriers pass too.
    fn bound(&self, runs: &Runs, targets: &Targets<'_>) -> Result<Option<Admission>, Miss> {
        let mut bound = self.trust.entries.iter().enumerate().filter(|(_, e)| e.binding.is_some());
        let mut expected = None;
        let found = bound.find(|(_, entry)| {
            let expected =
                expected.get_or_insert_with(|| Binding::of(runs.effective_argv(), self.cwd));
            entry.binding.as_ref() == Some(expected)
                && targets.candidates().any(|found| entry.pattern.matches(&found.path))
        });
        let Some((index, entry)) = found else { return Ok(None) };
        self.unchanged(entry, targets)?;
        Ok(Some(Admission::Entry(index)))
    }

    /// The entry that admits a path, whatever its words. The lone `*` comes first.
    fn listed(&self, targets: &Targets<'_>) -> Option<(usize, &Entry)> {
        let unbound = || self.trust.entries.iter().enumerate().filter(|(_, e)| e.binding.is_none());
        let everything = unbound().find(|(_, entry)| entry.pattern.is_everything());
        everything.or_else(|| {
            let mut candidates = targets.candidates();
            candidates
                .find_map(|found| unbound().find(|(_, entry)| entry.pattern.matches(&found.path)))
        })
    }

    /// Refuses a file that is not the one that was allowed, or that may not be at the next look.
    fn unchanged(&self, entry: &Entry, targets: &Targets<'_>) -> Result<(), Miss> {
        let pinned = targets.script.unwrap_or(targets.program);
        if let Some(pin) = entry.pin
            && self.files.hash(&pinned.facts.real_path) != Some(pin)
        {
            return Err(Miss::Changed { path: pinned.path.clone() });
        }
        // In the agent's own directories a pin is worth nothing: what a script loads, or what its first line
        // names, lies beside it.
        let is_pinned =
            |found: &Found| entry.pin.is_some() && found == pinned && !found.facts.is_agents();
        let open = [Some(targets.program), targets.script].into_iter().flatten();
        let mut open = open.filter(|found| found.facts.agent_may_write() && !is_pinned(found));
        open.next().map_or(Ok(()), |found| Err(Miss::AgentWritable { path: found.path.clone() }))
    }

    /// A skill's program is known by name and path: a name alone could be anyone's.
    fn is_skill(&self, runs: &Runs, found: &Found) -> bool {
        let is_bare = !runs.program.word.contains('/') && !found.facts.agent_may_write();
        is_bare
            && self.trust.skills.iter().any(|skill| {
                skill.name.trim().eq_ignore_ascii_case(&runs.program.word)
                    && crate::posix::normalize(skill.path.trim()) == found.path
            })
    }
}

/// The files that entries are matched against.
struct Targets<'a> {
    program: &'a Found,
    script: Option<&'a Found>,
    /// An entry for the script is as good as one for the program.
    script_admits: ScriptAdmits,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum ScriptAdmits {
    Yes,
    No,
}

impl<'a> Targets<'a> {
    fn of(runs: &'a Runs) -> Result<Self, Miss> {
        let program = found(runs.policy_program())?;
        let alone = Self { program, script: None, script_admits: ScriptAdmits::No };
        Ok(match &runs.content {
            Content::Plain | Content::Carrier(_) => alone,
            Content::ShellScript(script) => {
                Self { script: Some(found(script)?), script_admits: ScriptAdmits::Yes, ..alone }
            }
            Content::Script(script) => Self { script: Some(found(script)?), ..alone },
            Content::Carried { program, .. } => Self { program: found(program)?, ..alone },
        })
    }

    fn candidates(&self) -> impl Iterator<Item = &'a Found> {
        let script = self.script.filter(|_| self.script_admits == ScriptAdmits::Yes);
        std::iter::once(self.program).chain(script)
    }
}

fn found(program: &Program) -> Result<&Found, Miss> {
    let word = &program.word;
    if program.is_shell_word() {
        return Err(Miss::ShellWord { word: word.clone() });
    }
    program.found.as_ref().ok_or_else(|| Miss::NotFound { word: word.clone() })
}
