//! How long `exec` waits, what it says at the end, and what a command in the background is called.
//!
//! Takes the call, the settings of `tools.exec` and how the command ended; gives times and texts. Nothing is started
//! or waited for here.

use std::time::Duration;

use super::arguments::{ExecCall, Startup};
use super::output::{self, AGGREGATED, Extent, TAIL};
use crate::config::Config;
use crate::config::tree::At;
use crate::ids::AgentId;

/// A command goes to the background after so long, unless something else is said.
const YIELD_MS: u64 = 10_000;
const YIELD_LEAST_MS: u64 = 10;
const YIELD_MOST_MS: u64 = 120_000;
const TIMEOUT: Duration = Duration::from_secs(1800);
/// Finished commands are forgotten after so long.
const CLEANUP_MS: u64 = 1_800_000;
const CLEANUP_LEAST_MS: u64 = 60_000;
const CLEANUP_MOST_MS: u64 = 10_800_000;
/// The supervisor's clock goes no further.
const TIMEOUT_MOST: Duration = Duration::from_secs(30 * 24 * 3600);

/// Characters of a command's output that a notice of its end is made of, and so many are shown.
const NOTICE_READ: usize = 400;
const NOTICE_SHOWN: usize = 180;

/// `tools.exec`, as far as it is about time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Times {
    /// Before a command goes to the background.
    pub yield_after: Duration,
    /// `None`: never.
    pub timeout: Option<Duration>,
    /// Before a finished command is forgotten.
    pub cleanup: Duration,
}

/// Whether commands may go on in the background: only where `process` can follow them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Background {
    Possible,
    /// `process` is closed to the session.
    Closed,
}

/// When a session is told that a command of its own has ended in the background (`tools.exec.notifyOnExit`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExitNotice {
    Never,
    /// Unless all went well and nothing was written.
    UnlessSilent,
    Always,
}

/// How long a call takes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Timing {
    /// The answer comes after so long at the latest; `None`: at the end only.
    pub wait: Option<Duration>,
    /// The command is killed after so long; `None`: never.
    pub timeout: Option<Duration>,
    /// What the caller should know.
    pub warning: Option<&'static str>,
}

/// How a command ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ended {
    Code(i32),
    Signal(i32),
    /// Killed after this many seconds.
    TimedOut(Option<Duration>),
}

/// An ended command for the model and for programs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Report {
    pub text: String,
    /// `completed` or `failed`.
    pub status: &'static str,
    pub exit_code: Option<i32>,
}

impl Times {
    /// The settings of one agent: its own, else the global ones, else the built-in ones.
    pub fn resolve(config: &Config, agent: &AgentId) -> Self {
        let own = config.agent(agent).and_then(|entry| entry.path(&["tools", "exec"]));
        let blocks = [own, config.at(&["tools", "exec"])];
        let number = |key: &str| number(&blocks, key);
        let millis = |key: &str, built_in: u64, least: u64, most: u64| {
            let written = number(key).map_or(built_in, whole);
            Duration::from_millis(written.clamp(least, most))
        };
        let timeout = match number("timeoutSec") {
            None => Some(TIMEOUT),
            Some(seconds) => seconds_of(seconds),
        };
        Self {
            yield_after: millis("backgroundMs", YIELD_MS, YIELD_LEAST_MS, YIELD_MOST_MS),
            timeout,
            cleanup: millis("cleanupMs", CLEANUP_MS, CLEANUP_LEAST_MS, CLEANUP_MOST_MS),
        }
    }
}

impl ExitNotice {
    /// The setting of one agent: its own, else the global one, else the built-in one.
    pub fn resolve(config: &Config, agent: &AgentId) -> Self {
        let own = config.agent(agent).and_then(|entry| entry.path(&["tools", "exec"]));
        let blocks = [own, config.at(&["tools", "exec"])];
        let word =
            |key: &str| blocks.iter().flatten().find_map(|block| block.get(key)?.node.as_bool());
        match (word("notifyOnExit"), word("notifyOnExitEmptySuccess")) {
            (Some(false), _) => Self::Never,
            (Some(true) | None, Some(true)) => Self::Always,
            (Some(true) | None, Some(false) | None) => Self::UnlessSilent,
        }
    }
}

/// Decides what a session is told of a command that has ended in the background; `None`: nothing.
#[must_use]
pub fn decide_exit_notice(
    notice: ExitNotice,
    id: &str,
    ended: Ended,
    output: &str,
) -> Option<String> {
    let words: Vec<&str> = output::last(output, NOTICE_READ).split_whitespace().collect();
    let snippet = words.join(" ");
    let is_told = match (notice, ended) {
        (ExitNotice::Never, _) => false,
        (ExitNotice::UnlessSilent, Ended::Code(0)) => !snippet.is_empty(),
        (ExitNotice::UnlessSilent, Ended::Code(_) | Ended::Signal(_) | Ended::TimedOut(_))
        | (ExitNotice::Always, _) => true,
    };
    let (word, how) = match ended {
        Ended::Code(code @ (126 | 127)) => ("failed", format!("code {code}")),
        Ended::Code(code) => ("completed", format!("code {code}")),
        Ended::Signal(signal) => ("failed", format!("signal {}", signal_name(signal))),
        Ended::TimedOut(_) => ("failed", "timeout".to_owned()),
    };
    let mut text = format!("Exec {word} ({id}, {how})");
    if !snippet.is_empty() {
        text.push_str(" :: ");
        text.extend(snippet.chars().take(NOTICE_SHOWN));
        if snippet.chars().nth(NOTICE_SHOWN).is_some() {
            text.push('…');
        }
    }
    is_told.then_some(text)
}

fn number(blocks: &[Option<At<'_>>], key: &str) -> Option<f64> {
    blocks.iter().flatten().find_map(|block| block.get(key)?.node.as_number())
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a float cast stops at the ends of the range, and both ends are clamped by the caller"
)]
const fn whole(number: f64) -> u64 {
    number as u64
}

/// Seconds as written; not more than 0 means never.
fn seconds_of(seconds: f64) -> Option<Duration> {
    if seconds <= 0.0 {
        return None;
    }
    Some(Duration::try_from_secs_f64(seconds).map_or(TIMEOUT_MOST, |time| time.min(TIMEOUT_MOST)))
}

/// Decides how long a call waits and when its command is killed.
#[must_use]
pub fn decide_timing(call: &ExecCall, times: &Times, background: Background) -> Timing {
    let wait = match call.startup {
        Startup::Usual => times.yield_after,
        Startup::Yield(ms) => Duration::from_millis(ms.clamp(YIELD_LEAST_MS, YIELD_MOST_MS)),
        Startup::Background => Duration::ZERO,
    };
    let is_usual = match call.startup {
        Startup::Usual => true,
        Startup::Yield(_) | Startup::Background => false,
    };
    let timeout = match call.timeout {
        Some(seconds) => seconds_of(seconds),
        None if is_usual || background == Background::Closed => times.timeout,
        // Whoever sends a command away means it to go on.
        None => None,
    };
    match background {
        Background::Possible => Timing { wait: Some(wait), timeout, warning: None },
        Background::Closed => Timing {
            wait: None,
            timeout,
            warning: (!is_usual).then_some(
                "Warning: nothing goes to the background here, because the tool `process` is closed; the command ran to \
                 its end.",
            ),
        },
    }
}

/// What is said of a command that is over.
pub fn report(ended: Ended, output: &str, extent: Extent) -> Report {
    let shown = output.trim_end_matches(['\n', '\r']);
    let noted;
    let shown = match extent {
        Extent::Whole => shown,
        // Whoever reads the middle of a text should not take it for its beginning.
        Extent::End => {
            noted = format!(
                "[Only the last {AGGREGATED} characters of the output are kept; to see all of it, write it to a \
                 file and read that.]\n\n{shown}"
            );
            &noted
        }
    };
    let with = |last: &str| {
        if shown.is_empty() { last.to_owned() } else { format!("{shown}\n\n{last}") }
    };
    let failed = |text: String, exit_code| Report { text, status: "failed", exit_code };
    match ended {
        Ended::Code(0) => {
            let text = if shown.is_empty() { "(no output)".to_owned() } else { shown.to_owned() };
            Report { text, status: "completed", exit_code: Some(0) }
        }
        Ended::Code(127) => failed(with("Command not found"), Some(127)),
        Ended::Code(126) => failed(with("Command not executable (permission denied)"), Some(126)),
        Ended::Code(code) => Report {
            text: with(&format!("(Command exited with code {code})")),
            status: "completed",
            exit_code: Some(code),
        },
        Ended::Signal(signal) => {
            failed(with(&format!("Command aborted by signal {}", signal_name(signal))), None)
        }
        Ended::TimedOut(after) => {
            let seconds = after.unwrap_or_default().as_secs_f64();
            failed(
                with(&format!(
                    "Command timed out after {seconds} seconds and was killed with all it had started. If it needs \
                     longer, call again with a higher `timeout` (in seconds), or with `background`."
                )),
                None,
            )
        }
    }
}

/// What is said of a command that goes on.
pub fn still_running(id: &str, pid: u32, tail: &str) -> String {
    let next = format!(
        "Command still running (session {id}, pid {pid}). Use `process` with `action` poll, log, write, send-keys or \
         kill and this `sessionId`."
    );
    let tail = output::last(tail, TAIL).trim_end();
    if tail.is_empty() { next } else { format!("{next}\n\n{tail}") }
}

/// A signal as people write it.
pub fn signal_name(signal: i32) -> String {
    const NAMES: [&str; 31] = [
        "HUP", "INT", "QUIT", "ILL", "TRAP", "ABRT", "BUS", "FPE", "KILL", "USR1", "SEGV", "USR2",
        "PIPE", "ALRM", "TERM", "STKFLT", "CHLD", "CONT", "STOP", "TSTP", "TTIN", "TTOU", "URG",
        "XCPU", "XFSZ", "VTALRM", "PROF", "WINCH", "IO", "PWR", "SYS",
    ];
    let index = usize::try_from(signal).ok().and_then(|signal| signal.checked_sub(1));
    match index.and_then(|index| NAMES.get(index)) {
        Some(name) => format!("SIG{name}"),
        None => format!("{signal}"),
    }
}

#[cfg(test)]
mod tests {
    use super::super::arguments::{Aim, Terminal};
    use super::*;
    use crate::config::json5;
    use crate::config::tree::FileId;
    use crate::elevated::level::CallWish;
    use crate::exec_host::Wishes;

    fn call(startup: Startup, timeout: Option<f64>) -> ExecCall {
        ExecCall {
            command: "x".to_owned(),
            workdir: None,
            env: Vec::new(),
            startup,
            timeout,
            terminal: Terminal::None,
            aim: Aim { wishes: Wishes::default(), elevated: CallWish::Unsaid, node: None },
        }
    }

    fn times(text: &str) -> Times {
        let config = Config::from_tree(json5::parse(text, FileId(0)).unwrap().root, Vec::new());
        Times::resolve(&config, &AgentId::main())
    }

    #[test]
    fn times_come_from_the_agent_then_from_all_and_stay_in_bounds() {
        let built_in = times("{}");
        assert_eq!(built_in.yield_after, Duration::from_secs(10));
        assert_eq!(built_in.timeout, Some(Duration::from_secs(1800)));
        assert_eq!(built_in.cleanup, Duration::from_secs(1800));
        let own = times(
            "{tools: {exec: {backgroundMs: 1, timeoutSec: 5, cleanupMs: 1e12}}, \
             agents: {list: [{id: 'main', tools: {exec: {timeoutSec: 0}}}]}}",
        );
        let expected = Times {
            yield_after: Duration::from_millis(10),
            timeout: None,
            cleanup: Duration::from_hours(3),
        };
        assert_eq!(own, expected);
    }

    #[test]
    fn a_command_that_is_sent_away_has_no_timeout_unless_it_says_so() {
        let times = times("{}");
        let seconds = |seconds| Some(Duration::from_secs(seconds));
        for (startup, timeout, wait, kill) in [
            (Startup::Usual, None, seconds(10), seconds(1800)),
            (Startup::Usual, Some(0.0), seconds(10), None),
            (Startup::Usual, Some(-1.0), seconds(10), None),
            (Startup::Background, None, seconds(0), None),
            (Startup::Background, Some(3.0), seconds(0), seconds(3)),
            (Startup::Yield(999_999), None, seconds(120), None),
            (Startup::Usual, Some(1e300), seconds(10), Some(TIMEOUT_MOST)),
        ] {
            let timing = decide_timing(&call(startup, timeout), &times, Background::Possible);
            assert_eq!(timing, Timing { wait, timeout: kill, warning: None }, "{startup:?}");
        }
    }

    #[test]
    fn nothing_goes_to_the_background_where_nobody_can_follow_it() {
        let timing =
            decide_timing(&call(Startup::Background, None), &times("{}"), Background::Closed);
        assert_eq!(timing.wait, None);
        assert_eq!(timing.timeout, Some(Duration::from_secs(1800)));
        assert!(timing.warning.is_some());
        let usual = decide_timing(&call(Startup::Usual, None), &times("{}"), Background::Closed);
        assert_eq!(usual.warning, None);
    }

    #[test]
    fn a_session_is_told_of_an_end_in_the_background_as_its_config_says() {
        let notice = |text: &str| {
            let config = Config::from_tree(json5::parse(text, FileId(0)).unwrap().root, Vec::new());
            ExitNotice::resolve(&config, &AgentId::main())
        };
        assert_eq!(notice("{}"), ExitNotice::UnlessSilent);
        assert_eq!(notice("{tools: {exec: {notifyOnExit: false}}}"), ExitNotice::Never);
        assert_eq!(notice("{tools: {exec: {notifyOnExitEmptySuccess: true}}}"), ExitNotice::Always);
        let own = "{tools: {exec: {notifyOnExit: false}}, \
                   agents: {list: [{id: 'main', tools: {exec: {notifyOnExit: true}}}]}}";
        assert_eq!(notice(own), ExitNotice::UnlessSilent);
        let tell = |notice, ended, output| decide_exit_notice(notice, "calm-sea", ended, output);
        for (notice, ended, output, expected) in [
            (ExitNotice::Never, Ended::Code(1), "x", None),
            (ExitNotice::UnlessSilent, Ended::Code(0), " \n", None),
            (ExitNotice::Always, Ended::Code(0), "", Some("Exec completed (calm-sea, code 0)")),
            (
                ExitNotice::UnlessSilent,
                Ended::Code(3),
                "",
                Some("Exec completed (calm-sea, code 3)"),
            ),
            (
                ExitNotice::UnlessSilent,
                Ended::Code(0),
                "a\n\t b\n",
                Some("Exec completed (calm-sea, code 0) :: a b"),
            ),
            (
                ExitNotice::UnlessSilent,
                Ended::Signal(9),
                "",
                Some("Exec failed (calm-sea, signal SIGKILL)"),
            ),
            (
                ExitNotice::UnlessSilent,
                Ended::TimedOut(None),
                "",
                Some("Exec failed (calm-sea, timeout)"),
            ),
        ] {
            assert_eq!(tell(notice, ended, output).as_deref(), expected);
        }
        let long = tell(ExitNotice::UnlessSilent, Ended::Code(0), &"x".repeat(500)).unwrap();
        assert!(long.ends_with(&format!(":: {}…", "x".repeat(NOTICE_SHOWN))), "{long}");
    }

    #[test]
    fn the_end_of_a_command_is_told() {
        for (ended, output, text, status, code) in [
            (Ended::Code(0), "", "(no output)", "completed", Some(0)),
            (Ended::Code(0), "hi\n", "hi", "completed", Some(0)),
            (Ended::Code(3), "hi\n", "hi\n\n(Command exited with code 3)", "completed", Some(3)),
            (Ended::Code(127), "", "Command not found", "failed", Some(127)),
            (Ended::Signal(9), "", "Command aborted by signal SIGKILL", "failed", None),
            (Ended::Signal(40), "x", "x\n\nCommand aborted by signal 40", "failed", None),
        ] {
            let expected = Report { text: text.to_owned(), status, exit_code: code };
            assert_eq!(report(ended, output, Extent::Whole), expected);
        }
        let timed_out = Ended::TimedOut(Some(Duration::from_millis(1500)));
        let late = report(timed_out, "so far", Extent::Whole);
        assert!(late.text.starts_with("so far\n\nCommand timed out after 1.5 seconds"));
        let long = report(Ended::Code(0), "the end\n", Extent::End).text;
        assert!(
            long.starts_with("[Only the last 200000 characters") && long.ends_with("]\n\nthe end")
        );
    }
}
