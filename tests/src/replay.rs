//! Runs recorded rows of the reference system through the product's own code.
//!
//! A row is `{id, input, expected, note}`. For each corpus one module below turns `input` into the
//! product's answer, in the shape of `expected`. Then named [`compat`](crate::compat) rules turn the
//! recorded answer into the one we mean to give, and the two are compared: structures exactly,
//! sentences by their facts.

pub mod config_hash;
pub mod docker_create;
pub mod exec_allowlist;
pub mod exec_approvals;
pub mod explain;
pub mod fs_path;
pub mod gateway_frames;
pub mod session_key;
pub mod tool_policy;
pub mod world;

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context as _, Result};
use serde_json::Value;

use crate::{compat, facts};
use world::World;

/// One recorded row.
#[derive(Debug, Clone)]
pub struct Row {
    pub id: String,
    pub input: Value,
    pub expected: Value,
    pub note: String,
}

impl Row {
    /// The middle part of the id.
    pub fn category(&self) -> &str {
        self.id.split('/').nth(1).unwrap_or_default()
    }
}

/// What the product says to a row.
#[derive(Debug)]
pub enum Answer {
    /// In the shape of `expected`.
    Given(Value),
    /// The row belongs to a part that is not built yet.
    NotYet,
}

/// How a row went.
#[derive(Debug)]
pub enum Outcome {
    Passed,
    Failed(String),
    NotYet,
}

/// The result of one corpus.
#[derive(Debug, Default)]
pub struct Tally {
    pub passed: usize,
    pub failed: usize,
    pub not_yet: usize,
    pub failures: Vec<(String, String)>,
    pub rules: BTreeMap<&'static str, usize>,
}

/// A module that answers the rows of one corpus.
type Answerer = fn(&Row, &World) -> Result<Answer>;

/// The corpora we know, by file name without `.jsonl`; `None`: not built yet.
const CORPORA: &[(&str, Option<Answerer>)] = &[
    ("config-hash", Some(config_hash::answer)),
    ("docker-create", Some(docker_create::answer)),
    ("exec-allowlist", Some(exec_allowlist::answer)),
    ("exec-approvals", Some(exec_approvals::answer)),
    ("explain", Some(explain::answer)),
    ("fs-path", Some(fs_path::answer)),
    ("session-key", Some(session_key::answer)),
    ("tool-policy", Some(tool_policy::answer)),
];

/// The recording that has a format of its own.
const GATEWAY: &str = "gateway-frames";

/// Reads every row of a corpus file. Lines that are no rows (the gateway recording has a format of
/// its own) come back with an empty id.
pub fn read_rows(file: &Path) -> Result<Vec<Row>> {
    let text = std::fs::read_to_string(file).with_context(|| format!("{}", file.display()))?;
    let mut rows = Vec::new();
    for (number, line) in text.lines().enumerate() {
        if line.trim().is_empty() {
            continue;
        }
        let mut value: Value = serde_json::from_str(line)
            .with_context(|| format!("{}:{}", file.display(), number + 1))?;
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        rows.push(Row {
            id: text(&value["id"]),
            note: text(&value["note"]),
            input: value["input"].take(),
            expected: value["expected"].take(),
        });
    }
    Ok(rows)
}

/// Runs one corpus file, or one category of it. `fixtures` are the directories searched for its
/// fixture, in order.
pub fn run_file(file: &Path, category: Option<&str>, fixtures: &[&Path]) -> Result<Tally> {
    let name = file.file_stem().and_then(|stem| stem.to_str()).context("file name")?.to_owned();
    if name == GATEWAY {
        // A recording of conversations: rows belong together.
        return gateway_frames::run(file, category);
    }
    let answerer = CORPORA.iter().find(|(known, _)| *known == name).and_then(|(_, answer)| *answer);
    let mut tally = Tally::default();
    for row in read_rows(file)? {
        if category.is_some_and(|category| category != row.category()) {
            continue;
        }
        let outcome = match answerer {
            None => Outcome::NotYet,
            Some(answer) => run_row(&row, &name, answer, fixtures, &mut tally.rules),
        };
        match outcome {
            Outcome::Passed => tally.passed += 1,
            Outcome::NotYet => tally.not_yet += 1,
            Outcome::Failed(why) => {
                tally.failed += 1;
                tally.failures.push((row.id.clone(), why));
            }
        }
    }
    Ok(tally)
}

fn run_row(
    row: &Row,
    corpus: &str,
    answer: Answerer,
    fixtures: &[&Path],
    rules: &mut BTreeMap<&'static str, usize>,
) -> Outcome {
    let answered = World::new(corpus, fixtures, &row.input).and_then(|world| {
        let row = Row { input: world.fill(&row.input), ..row.clone() };
        Ok((answer(&row, &world)?, world))
    });
    let (given, world) = match answered {
        Ok((Answer::Given(given), world)) => (given, world),
        Ok((Answer::NotYet, _)) => return Outcome::NotYet,
        Err(error) => return Outcome::Failed(format!("no answer: {error:#}")),
    };
    let (expected, used) = compat::apply(corpus, row);
    for rule in used {
        *rules.entry(rule).or_default() += 1;
    }
    let expected = world.fill(&expected);
    match difference(&expected, &given, "") {
        None => Outcome::Passed,
        Some(why) => {
            Outcome::Failed(format!("{why}\n  input: {}\n  note: {}", row.input, row.note))
        }
    }
}

/// Keys whose strings are human sentences (or lists of them): compared by their facts.
const SENTENCES: &[&str] = &[
    "error",
    "message",
    "stderr",
    "warnings",
    "text",
    // Why a command is not analysed, why it has no plan, and what hides it.
    "enforcedError",
    "reasons",
];

/// The first difference between the recorded and the given answer. `null` and absent are the same.
fn difference(expected: &Value, given: &Value, at: &str) -> Option<String> {
    let is_sentence = SENTENCES.iter().any(|key| at == *key || at.ends_with(&format!(".{key}")));
    // A reason is a code in some recordings and a sentence in others.
    let has_words = |text: &Value| text.as_str().is_some_and(|text| text.contains(' '));
    let is_sentence = is_sentence || (at == "reason" && has_words(expected));
    match (expected, given) {
        (Value::Object(wanted), Value::Object(found)) => {
            let mut keys: Vec<&String> = wanted.keys().chain(found.keys()).collect();
            keys.sort();
            keys.dedup();
            keys.into_iter().find_map(|key| {
                let path = if at.is_empty() { key.clone() } else { format!("{at}.{key}") };
                let wanted = wanted.get(key).unwrap_or(&Value::Null);
                difference(wanted, found.get(key).unwrap_or(&Value::Null), &path)
            })
        }
        (Value::String(wanted), Value::String(found)) if is_sentence => {
            facts::missing(wanted, found).map(|why| format!("{at}: {why}"))
        }
        (Value::String(wanted), Value::String(found)) if at == "stdout" => {
            facts::missing_line(wanted, found).map(|why| format!("{at}: {why}"))
        }
        (Value::Array(wanted), Value::Array(found)) if wanted.len() == found.len() => {
            wanted.iter().zip(found).enumerate().find_map(|(index, (wanted, found))| {
                let path = if is_sentence { at.to_owned() } else { format!("{at}.{index}") };
                difference(wanted, found, &path)
            })
        }
        (Value::Number(wanted), Value::Number(found)) if wanted.as_f64() == found.as_f64() => None,
        (wanted, found) if wanted == found => None,
        (wanted, found) => Some(format!("{at}:\n  expected {wanted}\n  given    {found}")),
    }
}
