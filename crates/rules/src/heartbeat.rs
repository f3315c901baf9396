//! Decides when an agent is asked by itself whether something needs attention, and what its answer to that means.
//!
//! ```text
//! config ──► Heartbeat ──decide_due──► due? ──decide──► beat, or skip and why ──► a run ──decide_answer──► ack or news
//! ```
//!
//! Takes the config, moments and what was found; gives decisions. Reads no file, no clock, and asks no model.

mod answer;
mod hours;
mod plan;

#[cfg(test)]
mod tests;

use std::time::Duration;

use crate::config::Config;
use crate::config::tree::Node;
use crate::ids::AgentId;
use crate::js_number;

pub use answer::{Meaning, decide_answer, is_empty_file};
pub(crate) use hours::check_hours;
pub use hours::{Hours, HoursZone};
pub use plan::{Due, Planned, decide_due};

/// The file of the workspace that says what to look after.
pub const FILE: &str = "HEARTBEAT.md";
/// What a model answers when nothing needs attention.
pub const ACK: &str = "HEARTBEAT_OK";
/// What is asked when the config does not say.
pub const PROMPT: &str = "This is a regular look at how things are. HEARTBEAT.md in the workspace, if there is one, says \
     what to look after: do that and nothing else, and do not take up tasks of earlier talks. If nothing needs \
     attention, answer HEARTBEAT_OK and nothing more.";

const EVERY: &str = "30m";
const ACK_CHARACTERS: usize = 300;
/// A shorter time would be a loop that asks a model all the time.
const SHORTEST: Duration = Duration::from_secs(1);
/// A longer one is none that anybody waits for.
const LONGEST: Duration = Duration::from_secs(366 * 24 * 60 * 60);

/// Keys that the reference knows and that mean nothing here: they say where an answer is delivered, and there are no
/// channels, or change what is not there.
const UNHEEDED: &[&str] = &[
    "to",
    "accountId",
    "directPolicy",
    "includeReasoning",
    "suppressToolErrorWarnings",
    "includeSystemPromptSection",
    "skipWhenBusy",
];

/// How often.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Every {
    /// Never by itself, and not when woken either.
    Off,
    Each {
        /// As it is written.
        words: String,
        time: Duration,
    },
}

/// Whether somebody has written a `heartbeat` that counts for the agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Written {
    Yes,
    No,
}

/// Which files of the workspace the model is shown at the start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Context {
    /// Those of any turn, and `HEARTBEAT.md`.
    Full,
    /// `HEARTBEAT.md` only.
    Light,
}

/// Which talk the beat is part of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Talk {
    /// That of its session.
    Shared,
    /// A new one every time, in a session beside it.
    Own,
}

/// The heartbeat of one agent, by built-in values, `agents.defaults.heartbeat` and its own `heartbeat`.
#[derive(Debug, Clone, PartialEq)]
pub struct Heartbeat {
    pub every: Every,
    pub written: Written,
    pub hours: Hours,
    pub prompt: String,
    pub ack_characters: usize,
    pub model: Option<String>,
    /// Which session; its main one if there is none.
    pub session: Option<String>,
    pub talk: Talk,
    pub context: Context,
    pub timeout: Option<Duration>,
    /// `none` or `last`: nothing is delivered either way.
    pub target: &'static str,
    /// Keys that are written and mean nothing here.
    pub unheeded: Vec<&'static str>,
}

impl Heartbeat {
    /// The heartbeat of an agent.
    pub fn of(config: &Config, agent: &AgentId) -> Self {
        let defaults = config.at(&["agents", "defaults", "heartbeat"]).map(|at| at.node);
        let entry = config.agent(agent);
        let own = entry.as_ref().and_then(|entry| entry.node.get("heartbeat"));
        let get = |key: &str| {
            own.and_then(|own| own.get(key)).or_else(|| defaults.and_then(|all| all.get(key)))
        };
        let text = |key: &str| {
            get(key).and_then(Node::as_str).map(str::trim).filter(|text| !text.is_empty())
        };
        let is_set = |key: &str| get(key).and_then(Node::as_bool) == Some(true);
        let session = text("session").filter(|name| !name.eq_ignore_ascii_case("main"));
        let (target, is_heeded) = match text("target") {
            None | Some("none") => ("none", true),
            Some("last") => ("last", true),
            Some(_) => ("none", false),
        };
        let mut unheeded: Vec<&'static str> =
            UNHEEDED.iter().copied().filter(|key| get(key).is_some()).collect();
        if !is_heeded {
            unheeded.insert(0, "target");
        }
        Self {
            every: if beats(config, agent) { every(text("every")) } else { Every::Off },
            written: if own.or(defaults).is_some() { Written::Yes } else { Written::No },
            hours: Hours::of(get("activeHours"), user_zone(config)),
            prompt: text("prompt").unwrap_or(PROMPT).to_owned(),
            ack_characters: count(get("ackMaxChars")).unwrap_or(ACK_CHARACTERS),
            model: text("model").map(str::to_owned),
            session: session.map(str::to_owned),
            talk: if is_set("isolatedSession") { Talk::Own } else { Talk::Shared },
            context: if is_set("lightContext") { Context::Light } else { Context::Full },
            timeout: count(get("timeoutSeconds"))
                .filter(|seconds| *seconds > 0)
                .and_then(|seconds| u64::try_from(seconds).ok())
                .map(Duration::from_secs),
            target,
            unheeded,
        }
    }
}

/// Which agents have one: those with a `heartbeat` of their own, or if there is none the one that
/// `agents.defaults.heartbeat.agentId` names, else the default agent.
fn beats(config: &Config, agent: &AgentId) -> bool {
    let agents = config.agents();
    let mut own =
        agents.iter().filter(|(_, entry)| entry.node.get("heartbeat").is_some()).peekable();
    if own.peek().is_some() {
        return own.any(|(id, _)| id == agent);
    }
    let named = config.at(&["agents", "defaults", "heartbeat", "agentId"]);
    let named = named.and_then(|at| at.node.as_str().map(AgentId::normalize));
    *agent == named.unwrap_or_else(|| config.default_agent())
}

fn user_zone(config: &Config) -> Option<&str> {
    config.at(&["agents", "defaults", "userTimezone"]).and_then(|at| at.node.as_str())
}

fn count(node: Option<&Node>) -> Option<usize> {
    let number = node?.as_number()?;
    (0.0..=1e9).contains(&number).then(|| js_number::whole(number)).flatten()
}

fn every(written: Option<&str>) -> Every {
    let words = written.unwrap_or(EVERY);
    match duration(words) {
        None | Some(Duration::ZERO) => Every::Off,
        Some(time) => Every::Each { words: words.to_owned(), time: time.clamp(SHORTEST, LONGEST) },
    }
}

/// A time like `30m`, `1h30m`, `1.5h`, `90s`; a number alone is minutes.
pub(crate) fn duration(text: &str) -> Option<Duration> {
    let text = text.trim().to_ascii_lowercase();
    let mut rest = text.as_str();
    let mut all = Duration::ZERO;
    let mut is_first = true;
    while is_first || !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len());
        let (number, tail) = rest.split_at_checked(digits)?;
        let letters = tail.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(tail.len());
        let (unit, tail) = tail.split_at_checked(letters)?;
        let seconds = match unit {
            "ms" => 0.001,
            "s" => 1.0,
            "m" => 60.0,
            "h" => 3600.0,
            "d" => 86_400.0,
            // Only one number without anything beside it.
            "" if is_first && tail.is_empty() => 60.0,
            _ => return None,
        };
        let number: f64 = number.parse().ok()?;
        all = all.checked_add(Duration::try_from_secs_f64(number * seconds).ok()?)?;
        rest = tail;
        is_first = false;
    }
    Some(all)
}

/// What led to a beat.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cause {
    /// Its time has come.
    Interval,
    /// Somebody asked for it.
    Wake,
}

impl Cause {
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Interval => "interval",
            Self::Wake => "wake",
        }
    }
}

/// Whether heartbeats are switched on at this gateway (`set-heartbeats`).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Switch {
    #[default]
    On,
    Off,
}

/// `HEARTBEAT.md` as it was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FoundFile<'a> {
    Missing,
    Text(&'a str),
    /// A link, no plain file, or too large: nothing of it was read.
    Unread,
}

/// What is known when a beat is about to begin.
#[derive(Debug, Clone, Copy)]
pub struct Moment<'a> {
    pub cause: Cause,
    pub switch: Switch,
    /// The minute of the day in the zone of its hours; see [`Hours::zone`].
    pub minute: Option<u16>,
    /// Runs of its session that have not ended.
    pub runs: usize,
    /// System lines that wait for its session.
    pub lines: usize,
    pub file: FoundFile<'a>,
}

/// Whether a beat begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    Beat,
    Skip(Skip),
}

/// Why it does not.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Skip {
    Disabled,
    QuietHours,
    RequestsInFlight,
    EmptyFile,
}

impl Skip {
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Disabled => "disabled",
            Self::QuietHours => "quiet-hours",
            Self::RequestsInFlight => "requests-in-flight",
            Self::EmptyFile => "empty-heartbeat-file",
        }
    }
}

/// Decides whether a beat begins now. One that somebody asked for waits for its session's turn instead of being left out,
/// and needs no file; so does one that has lines to bring.
#[must_use]
pub fn decide(heartbeat: &Heartbeat, moment: &Moment<'_>) -> Verdict {
    if heartbeat.every == Every::Off || moment.switch == Switch::Off {
        return Verdict::Skip(Skip::Disabled);
    }
    if !heartbeat.hours.is_open(moment.minute) {
        return Verdict::Skip(Skip::QuietHours);
    }
    if moment.cause == Cause::Wake {
        return Verdict::Beat;
    }
    if moment.runs > 0 {
        return Verdict::Skip(Skip::RequestsInFlight);
    }
    let has_task = match (moment.file, heartbeat.written) {
        (FoundFile::Text(text), _) => !is_empty_file(text),
        // What nobody asked for and nobody wrote down is not worth a model's time.
        (FoundFile::Missing, Written::No) => false,
        (FoundFile::Missing, Written::Yes) | (FoundFile::Unread, _) => true,
    };
    if has_task || moment.lines > 0 { Verdict::Beat } else { Verdict::Skip(Skip::EmptyFile) }
}
