//! Checks a config tree against the keys we know and says all that is wrong with it.
//!
//! The keys are data ([`keys`]): one table drives validation, `config schema`, the nearest-name
//! hints and the reference page. Findings come in the order in which the reference reports them:
//! known keys in table order, then unknown ones, then rules that look at several keys at once. Such
//! a rule is silent while one of its keys has the wrong type: it could only guess.

pub mod json;
pub mod keys;
mod rules;

use std::fmt;

use super::tree::{At, Kind, Node, Place, Value, join_key};
use crate::spelling;

/// What a value must look like.
#[derive(Debug)]
pub enum Schema {
    /// Not ours to judge: kept as it is.
    Any,
    Bool,
    /// A string with at least this many characters.
    Text {
        least: usize,
    },
    Number(Range),
    /// One of these words, spelled exactly.
    Words(&'static [&'static str]),
    List(&'static Schema),
    /// Any keys, all with values of one kind.
    Map(&'static Schema),
    Object(&'static ObjectSchema),
    /// The first that fits.
    Either(&'static [Schema]),
}

/// The numbers a key takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Range {
    Any,
    Positive,
    NotNegative,
    /// A whole number above zero.
    PositiveInteger,
    /// A whole number, zero or more.
    NotNegativeInteger,
}

/// An object with known keys only.
#[derive(Debug)]
pub struct ObjectSchema {
    pub fields: &'static [Field],
    /// Looks at several keys together; runs only when each of them has the right type.
    pub rule: Option<fn(&At<'_>, &mut Vec<Issue>)>,
    /// What to do with other keys.
    pub others: Others,
}

/// What an object does with a key it does not know.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Others {
    Refuse,
    Keep,
}

/// One known key.
#[derive(Debug)]
pub struct Field {
    pub name: &'static str,
    pub schema: Schema,
    /// One line for people; empty for keys that are passed through unread.
    pub about: &'static str,
    pub presence: Presence,
}

/// Whether a key must be there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Presence {
    Optional,
    Required,
}

/// One thing that is wrong with a config.
#[derive(Debug, Clone, PartialEq)]
pub struct Issue {
    /// Dotted key path; empty for the root.
    pub key: String,
    pub place: Place,
    pub problem: Problem,
}

/// What is wrong at a key.
#[derive(Debug, Clone, PartialEq)]
pub enum Problem {
    WrongType {
        wanted: &'static str,
        found: Found,
    },
    /// None of the shapes that the key accepts.
    NoShapeFits,
    NotOneOf {
        allowed: &'static [&'static str],
        found: String,
    },
    UnknownKeys(Vec<UnknownKey>),
    NumberTooSmall {
        limit: &'static str,
    },
    NotInteger,
    IntegerTooBig,
    TextTooShort {
        least: usize,
    },
    /// Both a non-empty `allow` and a non-empty `alsoAllow`.
    AllowAndAlsoAllow {
        scope: &'static str,
    },
    /// A bind, network or profile that must never reach a container, or a time that is none; the words of the rule that
    /// says so.
    Unsafe(String),
    /// Two agents whose state would be kept in one directory.
    SharedAgentDirectory {
        directory: String,
        agents: Vec<String>,
    },
}

/// The kind of a value that has the wrong one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Found {
    Missing,
    NotANumber,
    Infinite,
    Kind(Kind),
}

/// A key that an object does not know, and the known one that looks most like it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnknownKey {
    pub name: String,
    pub place: Place,
    pub nearest: Option<&'static str>,
}

impl Problem {
    /// Says whether the value has the wrong type altogether, so that nothing can be built on it.
    const fn is_fatal(&self) -> bool {
        match self {
            Self::WrongType { .. }
            | Self::NoShapeFits
            | Self::NotOneOf { .. }
            | Self::NotInteger
            | Self::IntegerTooBig => true,
            Self::UnknownKeys(_)
            | Self::NumberTooSmall { .. }
            | Self::TextTooShort { .. }
            | Self::AllowAndAlsoAllow { .. }
            | Self::Unsafe(_)
            | Self::SharedAgentDirectory { .. } => false,
        }
    }
}

impl fmt::Display for Found {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Missing => f.write_str("undefined"),
            Self::NotANumber => f.write_str("NaN"),
            Self::Infinite => f.write_str("Infinity"),
            Self::Kind(kind) => kind.fmt(f),
        }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::WrongType { wanted: "boolean", found } => {
                write!(f, "needs a boolean, found {found}; write true or false")
            }
            Self::WrongType { wanted, found } => write!(f, "needs type {wanted}, found {found}"),
            Self::NoShapeFits => f.write_str("none of the accepted forms fits this value"),
            Self::NotOneOf { allowed, found } => {
                f.write_str("must be one of ")?;
                for (index, word) in allowed.iter().enumerate() {
                    write!(f, "{}\"{word}\"", if index == 0 { "" } else { ", " })?;
                }
                write!(f, "; found {found}")
            }
            Self::UnknownKeys(keys) => {
                f.write_str(if keys.len() == 1 { "unknown key " } else { "unknown keys " })?;
                for (index, key) in keys.iter().take(MAX_SHOWN).enumerate() {
                    let comma = if index == 0 { "" } else { ", " };
                    write!(f, "{comma}\"{}\"", key.name.escape_debug())?;
                }
                match keys.len().saturating_sub(MAX_SHOWN) {
                    0 => Ok(()),
                    more => write!(f, " and {more} more"),
                }
            }
            Self::NumberTooSmall { limit } => write!(f, "the number must be {limit}"),
            Self::NotInteger => {
                f.write_str("needs a whole number (int), found a number with a fraction")
            }
            Self::IntegerTooBig => f.write_str("the int must be <=9007199254740991"),
            Self::TextTooShort { least } => write!(f, "the string needs >={least} characters"),
            Self::AllowAndAlsoAllow { scope } => write!(
                f,
                "{scope} sets both allow and alsoAllow; move the alsoAllow entries into allow, or drop \
                 allow and combine a profile with alsoAllow"
            ),
            Self::Unsafe(why) => f.write_str(why),
            Self::SharedAgentDirectory { directory, agents } => {
                write!(f, "agents {} would share the directory {directory}", agents.join(", "))
            }
        }
    }
}

/// How many unknown keys of one object get a guess, and how many are shown.
const MAX_GUESSES: usize = 10;
const MAX_SHOWN: usize = 40;

/// Checks a whole config. An empty answer means it is valid.
pub fn check(root: &Node) -> Vec<Issue> {
    check_against(root, &keys::ROOT)
}

/// Checks a tree against any schema.
pub fn check_against(root: &Node, schema: &Schema) -> Vec<Issue> {
    let mut issues = Vec::new();
    check_value(&At::root(root), schema, &mut issues);
    issues
}

/// Checks one value; appends what is wrong.
fn check_value(at: &At<'_>, schema: &Schema, issues: &mut Vec<Issue>) {
    match (schema, &at.node.value) {
        (Schema::Any, _) | (Schema::Bool, Value::Bool(_)) => {}
        (Schema::Text { least }, Value::String(text)) => {
            if text.chars().count() < *least {
                push(at, Problem::TextTooShort { least: *least }, issues);
            }
        }
        (Schema::Number(range), Value::Number(number)) => {
            if let Some(problem) = check_number(*range, *number) {
                push(at, problem, issues);
            }
        }
        (Schema::Words(allowed), value) => {
            if !at.node.as_str().is_some_and(|text| allowed.contains(&text)) {
                push(at, Problem::NotOneOf { allowed, found: show(value) }, issues);
            }
        }
        (Schema::List(item), Value::Array(_)) => {
            for entry in at.items() {
                check_value(&entry, item, issues);
            }
        }
        (Schema::Map(item), Value::Object(_)) => {
            for (_, entry) in at.members() {
                check_value(&entry, item, issues);
            }
        }
        (Schema::Object(schema), Value::Object(_)) => check_object(at, schema, issues),
        (Schema::Either(shapes), _) => check_either(at, shapes, issues),
        (Schema::Bool, value) => push(at, wrong_type("boolean", value), issues),
        (Schema::Text { .. }, value) => push(at, wrong_type("string", value), issues),
        (Schema::Number(_), value) => push(at, wrong_type("number", value), issues),
        (Schema::List(_), value) => push(at, wrong_type("array", value), issues),
        (Schema::Map(_), value) => push(at, wrong_type("record", value), issues),
        (Schema::Object(_), value) => push(at, wrong_type("object", value), issues),
    }
}

fn check_object(at: &At<'_>, schema: &ObjectSchema, issues: &mut Vec<Issue>) {
    let before = issues.len();
    for field in schema.fields {
        match at.get(field.name) {
            Some(value) => check_value(&value, &field.schema, issues),
            None if field.presence == Presence::Required => issues.push(Issue {
                key: join_key(&at.key, field.name),
                place: at.node.place,
                problem: Problem::WrongType {
                    wanted: wanted(&field.schema),
                    found: Found::Missing,
                },
            }),
            None => {}
        }
    }
    if schema.others == Others::Refuse {
        let unknown: Vec<UnknownKey> = at
            .node
            .as_object()
            .map(super::tree::Object::members)
            .unwrap_or_default()
            .iter()
            .filter(|member| schema.fields.iter().all(|field| field.name != member.key))
            .enumerate()
            .map(|(index, member)| UnknownKey {
                name: member.key.clone(),
                place: member.key_place,
                // Guessing costs time; a file with hundreds of unknown keys is no slip of the finger.
                nearest: (index < MAX_GUESSES)
                    .then(|| nearest(&member.key, schema.fields.iter().map(|field| field.name)))
                    .flatten(),
            })
            .collect();
        if !unknown.is_empty() {
            push(at, Problem::UnknownKeys(unknown), issues);
        }
    }
    if let Some(rule) = schema.rule
        && !issues[before..].iter().any(|issue| issue.problem.is_fatal())
    {
        rule(at, issues);
    }
}

/// The type that a key needs, in a word.
fn wanted(schema: &Schema) -> &'static str {
    match schema {
        Schema::Bool => "boolean",
        Schema::Number(_) => "number",
        Schema::List(_) => "array",
        Schema::Map(_) => "record",
        Schema::Object(_) => "object",
        Schema::Any | Schema::Text { .. } | Schema::Words(_) | Schema::Either(_) => "string",
    }
}

/// A value that fits one shape, or fits one shape's type with a flaw inside, is judged by that
/// shape; otherwise there is nothing more precise to say than that no shape fits.
fn check_either(at: &At<'_>, shapes: &[Schema], issues: &mut Vec<Issue>) {
    let mut flawed: Vec<Vec<Issue>> = Vec::new();
    for shape in shapes {
        let mut found = Vec::new();
        check_value(at, shape, &mut found);
        if found.is_empty() {
            return;
        }
        if !found.iter().any(|issue| issue.problem.is_fatal()) {
            flawed.push(found);
        }
    }
    match flawed.pop() {
        Some(only) if flawed.is_empty() => issues.extend(only),
        _ => push(at, Problem::NoShapeFits, issues),
    }
}

fn check_number(range: Range, number: f64) -> Option<Problem> {
    const LARGEST_SAFE: f64 = 9_007_199_254_740_991.0;
    if !number.is_finite() {
        return Some(wrong_type("number", &Value::Number(number)));
    }
    let integer = matches!(range, Range::PositiveInteger | Range::NotNegativeInteger);
    if integer && number.fract() != 0.0 {
        return Some(Problem::NotInteger);
    }
    if integer && number.abs() > LARGEST_SAFE {
        return Some(Problem::IntegerTooBig);
    }
    match range {
        Range::Positive | Range::PositiveInteger if number <= 0.0 => {
            Some(Problem::NumberTooSmall { limit: ">0" })
        }
        Range::NotNegative | Range::NotNegativeInteger if number < 0.0 => {
            Some(Problem::NumberTooSmall { limit: ">=0" })
        }
        Range::Any
        | Range::Positive
        | Range::NotNegative
        | Range::PositiveInteger
        | Range::NotNegativeInteger => None,
    }
}

fn wrong_type(wanted: &'static str, value: &Value) -> Problem {
    let found = match value {
        Value::Number(number) if number.is_nan() => Found::NotANumber,
        Value::Number(number) if number.is_infinite() => Found::Infinite,
        other => Found::Kind(other.kind()),
    };
    Problem::WrongType { wanted, found }
}

fn push(at: &At<'_>, problem: Problem, issues: &mut Vec<Issue>) {
    issues.push(Issue { key: at.key.clone(), place: at.node.place, problem });
}

/// A value for a message: short, and never the inside of a list or object.
fn show(value: &Value) -> String {
    const LONGEST: usize = 60;
    match value {
        Value::String(text) if text.chars().count() > LONGEST => "a long text".to_owned(),
        Value::String(text) => format!("\"{}\"", text.escape_debug()),
        Value::Bool(value) => value.to_string(),
        Value::Number(value) => value.to_string(),
        Value::Null | Value::Array(_) | Value::Object(_) => format!("type {}", value.kind()),
    }
}

/// The known name that `written` most likely means: at most a third of it may differ.
pub fn nearest(written: &str, known: impl Iterator<Item = &'static str>) -> Option<&'static str> {
    if written.len() > 64 {
        return None;
    }
    let lower = written.to_lowercase();
    known
        .map(|name| (spelling::distance(&lower, &name.to_lowercase()), name))
        .filter(|(distance, name)| *distance <= (name.len() / 3).max(1))
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, name)| name)
}

#[cfg(test)]
mod tests;
