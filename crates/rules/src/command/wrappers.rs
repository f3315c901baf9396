//! Takes dispatch wrappers off a command: programs that run another program.
//!
//! By table: `env` without options means nothing and is dropped; `nice`, `nohup`, `stdbuf`, `time`
//! and `timeout` stay in the plan and run, around the program they name; `busybox` and `toybox` are
//! looked through only at a shell; everything else that gives a program more power is blocked. An
//! option that is not in the table blocks too, because its value might be the next word. At most
//! four are taken off; what is still a wrapper then is blocked.

use super::program::{Place, Program, ProgramFiles, program_name};
use super::shell;

/// As many wrappers as are taken off.
const MAX_DEPTH: usize = 4;

/// A wrapper around the rest of a segment's words.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wrapper {
    /// As the table knows it.
    pub name: &'static str,
    /// Its own words, its name first.
    pub words: Vec<String>,
    pub program: Program,
    pub effect: Effect,
}

impl Wrapper {
    pub(super) fn is_multiplexer(&self) -> bool {
        self.effect == Effect::Multiplexes
    }
}

/// What a wrapper does in the plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Effect {
    /// Nothing: the program is started directly.
    None,
    /// It runs, and starts the program by its real path.
    Runs,
    /// It is the program: the next word only tells it what to be.
    Multiplexes,
}

/// A wrapper that is refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Blocked {
    /// As the table knows it.
    pub wrapper: &'static str,
    /// The words from the wrapper on.
    pub argv: Vec<String>,
    pub program: Program,
}

/// The words behind the wrappers.
pub(super) struct Unwrapped<'a> {
    pub wrappers: Vec<Wrapper>,
    pub argv: &'a [String],
}

/// How one wrapper is treated.
enum Rule {
    Blocked,
    Multiplexer,
    Options { effect: Effect, options: Options, operands: usize },
}

/// The options a wrapper may have.
#[derive(Clone, Copy)]
struct Options {
    /// Without a value.
    flags: &'static [&'static str],
    /// With one: the next word, or after `=`.
    values: &'static [&'static str],
    /// `-5`, and a value glued to `-n`.
    numbers: Numbers,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Numbers {
    Accepted,
    Refused,
}

const NONE: Options = Options { flags: &[], values: &[], numbers: Numbers::Refused };

/// The table. `time -o` and `-a` write a file, so they are not in it.
fn rule(name: &str) -> Option<(&'static str, Rule)> {
    let runs = |options, operands| Rule::Options { effect: Effect::Runs, options, operands };
    Some(match name {
        "env" => ("env", Rule::Options { effect: Effect::None, options: NONE, operands: 0 }),
        "nice" => {
            let values = &["-n", "--adjustment", "--priority"];
            ("nice", runs(Options { flags: &[], values, numbers: Numbers::Accepted }, 0))
        }
        "nohup" => ("nohup", runs(Options { flags: &["--help", "--version"], ..NONE }, 0)),
        "stdbuf" => {
            let values = &["-i", "-o", "-e", "--input", "--output", "--error"];
            ("stdbuf", runs(Options { values, ..NONE }, 0))
        }
        "time" => {
            let flags = &[
                "-h",
                "--help",
                "-l",
                "-p",
                "-q",
                "--quiet",
                "-V",
                "-v",
                "--verbose",
                "--version",
            ];
            ("time", runs(Options { flags, values: &["-f", "--format"], ..NONE }, 0))
        }
        "timeout" => {
            let flags = &["--foreground", "--preserve-status", "-v", "--verbose"];
            let values = &["-k", "--kill-after", "-s", "--signal"];
            ("timeout", runs(Options { flags, values, ..NONE }, 1))
        }
        "busybox" => ("busybox", Rule::Multiplexer),
        "toybox" => ("toybox", Rule::Multiplexer),
        "chrt" => ("chrt", Rule::Blocked),
        "doas" => ("doas", Rule::Blocked),
        "ionice" => ("ionice", Rule::Blocked),
        "script" => ("script", Rule::Blocked),
        "setsid" => ("setsid", Rule::Blocked),
        "sudo" => ("sudo", Rule::Blocked),
        "taskset" => ("taskset", Rule::Blocked),
        _ => return None,
    })
}

/// Says whether a table entry is about this name.
pub(super) fn is_wrapper(name: &str) -> bool {
    rule(name).is_some()
}

/// Takes the wrappers off.
pub(super) fn unwrap<'a>(
    argv: &'a [String],
    place: Place<'_>,
    files: &dyn ProgramFiles,
) -> Result<Unwrapped<'a>, Box<Blocked>> {
    let mut wrappers = Vec::new();
    let mut argv = argv;
    loop {
        let Some(word) = argv.first() else { return Ok(Unwrapped { wrappers, argv }) };
        let program = Program::look_up(word, place, files);
        let Some((name, rule)) = rule_of(&program) else { return Ok(Unwrapped { wrappers, argv }) };
        let command = if wrappers.len() < MAX_DEPTH { command_start(&rule, argv) } else { None };
        let Some((start, effect)) = command else {
            return Err(Box::new(Blocked { wrapper: name, argv: argv.to_vec(), program }));
        };
        let (words, rest) = argv.split_at(start);
        let is_multiplexer = effect == Effect::Multiplexes;
        wrappers.push(Wrapper { name, words: words.to_vec(), program, effect });
        argv = rest;
        // What a multiplexer was told to be is its own affair: no second look at the word.
        if is_multiplexer {
            return Ok(Unwrapped { wrappers, argv });
        }
    }
}

/// The rule for a program, by the name it was called by or the file it leads to. Of a multiplexer's
/// links (`/bin/ls` on a small system) only the name counts: it decides what the file does.
fn rule_of(program: &Program) -> Option<(&'static str, Rule)> {
    let typed = program_name(&program.word);
    rule(&typed).or_else(|| {
        let found = program.names().filter_map(|name| rule(&name));
        let mut found = found.filter(|(_, rule)| !matches!(rule, Rule::Multiplexer));
        found.next()
    })
}

/// Where the words of the wrapped command start; `None` if the wrapper must be refused.
fn command_start(rule: &Rule, argv: &[String]) -> Option<(usize, Effect)> {
    match rule {
        Rule::Blocked => None,
        Rule::Multiplexer => {
            let start = 1 + usize::from(argv.get(1).is_some_and(|word| word == "--"));
            let applet = argv.get(start)?;
            shell::is_shell(&program_name(applet)).then_some((start, Effect::Multiplexes))
        }
        Rule::Options { effect, options, operands } => {
            let start = options.end(argv)? + operands;
            // An empty word is no program, so there is nothing to wrap.
            let command = argv.get(start).filter(|word| !word.is_empty())?;
            // To `env`, an assignment and a lone dash change the environment.
            let is_refused =
                *effect == Effect::None && (command.contains('=') || command.starts_with('-'));
            (!is_refused).then_some((start, *effect))
        }
    }
}

impl Options {
    /// The number of the first word that is no option; `None` if one is not known.
    fn end(self, argv: &[String]) -> Option<usize> {
        let mut index = 1;
        while let Some(word) = argv.get(index) {
            if word == "--" {
                return Some(index + 1);
            }
            if !word.starts_with('-') || word == "-" {
                break;
            }
            let (flag, value) =
                word.split_once('=').map_or((word.as_str(), None), |(f, v)| (f, Some(v)));
            if self.values.contains(&flag) {
                index += usize::from(value.is_none());
            } else if !(self.flags.contains(&word.as_str()) || self.is_number(word)) {
                return None;
            }
            index += 1;
        }
        Some(index)
    }

    /// `-5`, or `-n` with a number glued to it, whose sign may be written.
    fn is_number(self, word: &str) -> bool {
        let digits = match word.strip_prefix("-n") {
            Some(number) => number.strip_prefix(['+', '-']).unwrap_or(number),
            None => word.strip_prefix('-').unwrap_or_default(),
        };
        let is_number = !digits.is_empty() && digits.chars().all(|c| c.is_ascii_digit());
        self.numbers == Numbers::Accepted && is_number
    }
}
