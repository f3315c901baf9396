//! What JSON from a client must look like, as data, and a check that says all that is wrong with it.
//!
//! The sentences are part of the protocol: clients show them and look for words in them.

use std::collections::BTreeSet;

use serde_json::Value;

/// What a value must look like.
#[derive(Debug)]
pub enum Shape {
    Any,
    Bool,
    /// A string with so many characters.
    Text {
        least: usize,
        most: usize,
    },
    /// A whole number in this range.
    Integer {
        least: i64,
        most: i64,
    },
    /// A string of this form.
    Formed(&'static Form),
    /// Exactly this text.
    Constant(&'static str),
    /// Exactly this number.
    Number(u64),
    /// Any number.
    Numeric,
    Null,
    /// One of these words.
    Words(&'static [&'static str]),
    List(&'static Shape),
    /// At least one of these.
    Items(&'static Shape),
    /// These keys and no others.
    Object(&'static [Field]),
    /// Nothing is checked: whatever is none of these keys, or is no such value, is as good as absent. So is the whole, if
    /// it is no object.
    Open(&'static [Field]),
    /// Any keys; all values alike.
    Map(&'static Shape),
    /// `null`, or this.
    Nullable(&'static Shape),
    /// One of these.
    AnyOf(&'static [Shape]),
}

/// The form of a string: how it is told to clients, and the check.
#[derive(Debug)]
pub struct Form {
    /// The fewest and the most characters.
    pub length: (usize, usize),
    pub pattern: &'static str,
    pub fits: fn(&str) -> bool,
}

/// A key of an object.
#[derive(Debug)]
pub struct Field {
    pub name: &'static str,
    pub shape: Shape,
    pub is_needed: bool,
}

/// A key that must be there.
pub const fn needed(name: &'static str, shape: Shape) -> Field {
    Field { name, shape, is_needed: true }
}

/// A key that may be absent.
pub const fn optional(name: &'static str, shape: Shape) -> Field {
    Field { name, shape, is_needed: false }
}

/// Any text.
pub const TEXT: Shape = Shape::Text { least: 0, most: usize::MAX };
/// Any text but the empty one.
pub const FILLED: Shape = Shape::Text { least: 1, most: usize::MAX };

/// More complaints than this help nobody.
const MAX_COMPLAINTS: usize = 20;

/// Checks a value; the error lists everything that is wrong.
pub fn check(value: &Value, shape: &Shape) -> Result<(), String> {
    let mut complaints = Vec::new();
    collect(value, shape, "", &mut complaints);
    if complaints.is_empty() {
        return Ok(());
    }
    let mut seen = BTreeSet::new();
    complaints.retain(|complaint| seen.insert(complaint.clone()));
    complaints.truncate(MAX_COMPLAINTS);
    Err(complaints.join("; "))
}

fn collect(value: &Value, shape: &Shape, at: &str, complaints: &mut Vec<String>) {
    if complaints.len() > MAX_COMPLAINTS {
        return;
    }
    let mut say = |what: &str| {
        complaints.push(if at.is_empty() { what.to_owned() } else { format!("at {at}: {what}") });
    };
    match (shape, value) {
        (Shape::Any | Shape::Open(_), _)
        | (Shape::Bool, Value::Bool(_))
        | (Shape::Numeric, Value::Number(_))
        | (Shape::Nullable(_) | Shape::Null, Value::Null) => {}
        (Shape::Bool, _) => say("must be boolean"),
        (Shape::Numeric, _) => say("must be number"),
        (Shape::Null, _) => say("must be null"),
        (Shape::Text { least, most }, Value::String(text)) => {
            if let Some(what) = wrong_length(text, (*least, *most)) {
                say(&what);
            }
        }
        (Shape::Formed(form), Value::String(text)) => {
            if let Some(what) = wrong_length(text, form.length) {
                say(&what);
            }
            if !(form.fits)(text) {
                say(&format!("must match pattern \"{}\"", form.pattern));
            }
        }
        (Shape::Text { .. } | Shape::Formed(_), _) => say("must be string"),
        (Shape::Integer { least, most }, value) => {
            for what in wrong_number(value, (*least, *most)) {
                say(&what);
            }
        }
        (Shape::Constant(text), value) => {
            for what in wrong_word(value, &[*text]) {
                say(what);
            }
        }
        (Shape::Number(number), value) => {
            if !value.is_number() {
                say("must be number");
            }
            if value.as_f64() != u32::try_from(*number).ok().map(f64::from) {
                say("must be equal to constant");
            }
        }
        (Shape::Words(words), value) => {
            let wrong = wrong_word(value, words);
            for what in &wrong {
                say(what);
            }
            if !wrong.is_empty() {
                say("must match a schema in anyOf");
            }
        }
        (Shape::Items(_), Value::Array(items)) if items.is_empty() => {
            say("must NOT have fewer than 1 items");
        }
        (Shape::List(item) | Shape::Items(item), Value::Array(items)) => {
            for (index, value) in items.iter().enumerate() {
                collect(value, item, &format!("{at}/{index}"), complaints);
            }
        }
        (Shape::List(_) | Shape::Items(_), _) => say("must be array"),
        (Shape::Map(item), Value::Object(members)) => {
            for (key, value) in members {
                collect(value, item, &format!("{at}/{}", pointer(key)), complaints);
            }
        }
        (Shape::Object(fields), Value::Object(members)) => {
            object((fields, members), at, complaints);
        }
        (Shape::Map(_) | Shape::Object(_), _) => say("must be object"),
        (Shape::Nullable(inner), value) => nullable(value, inner, at, complaints),
        (Shape::AnyOf(shapes), value) => any_of(value, shapes, at, complaints),
    }
}

fn wrong_length(text: &str, (least, most): (usize, usize)) -> Option<String> {
    let length = text.encode_utf16().count();
    if length < least {
        return Some(format!("must NOT have fewer than {least} characters"));
    }
    (length > most).then(|| format!("must NOT have more than {most} characters"))
}

/// A number with a fraction is measured too.
fn wrong_number(value: &Value, (least, most): (i64, i64)) -> Vec<String> {
    let mut wrong = Vec::new();
    let number = whole(value);
    if number.is_none() {
        wrong.push("must be integer".to_owned());
    }
    let floor = |value: &Value| format!("{:.0}", value.as_f64()?.floor()).parse::<i64>().ok();
    let ceiling = |value: &Value| format!("{:.0}", value.as_f64()?.ceil()).parse::<i64>().ok();
    if number.or_else(|| floor(value)).is_some_and(|number| number < least) {
        wrong.push(format!("must be >= {least}"));
    } else if number.or_else(|| ceiling(value)).is_some_and(|number| number > most) {
        wrong.push(format!("must be <= {most}"));
    }
    wrong
}

/// What is wrong with a value that must be one of a few words.
fn wrong_word(value: &Value, words: &[&str]) -> Vec<&'static str> {
    match value.as_str() {
        Some(text) if words.contains(&text) => Vec::new(),
        Some(_) => vec!["must be equal to constant"],
        None => vec!["must be string", "must be equal to constant"],
    }
}

/// What fits neither way is told both ways, and that there were two.
fn nullable(value: &Value, inner: &Shape, at: &str, complaints: &mut Vec<String>) {
    let before = complaints.len();
    collect(value, inner, at, complaints);
    if complaints.len() == before {
        return;
    }
    let place = if at.is_empty() { String::new() } else { format!("at {at}: ") };
    let either = format!("{place}must match a schema in anyOf");
    complaints.retain(|complaint| *complaint != either);
    complaints.push(format!("{place}must be null"));
    complaints.push(either);
}

/// What is wrong by each of the shapes, unless one of them fits.
fn any_of(value: &Value, shapes: &[Shape], at: &str, complaints: &mut Vec<String>) {
    let mut all = Vec::new();
    for shape in shapes {
        let before = all.len();
        collect(value, shape, at, &mut all);
        if all.len() == before {
            return;
        }
    }
    complaints.append(&mut all);
    let what = "must match a schema in anyOf";
    complaints.push(if at.is_empty() { what.to_owned() } else { format!("at {at}: {what}") });
}

/// Missing keys first, then keys too many, then what is wrong inside: the reference's order.
fn object(
    (fields, members): (&[Field], &serde_json::Map<String, Value>),
    at: &str,
    complaints: &mut Vec<String>,
) {
    for field in fields.iter().filter(|field| field.is_needed) {
        if !members.contains_key(field.name) {
            let what = format!("must have required property '{}'", field.name);
            complaints.push(if at.is_empty() { what } else { format!("at {at}: {what}") });
        }
    }
    for key in members.keys().filter(|key| !fields.iter().any(|field| field.name == **key)) {
        let at = if at.is_empty() { "root" } else { at };
        let key: String = key.chars().take(80).collect();
        complaints.push(format!("at {at}: unexpected property '{key}'"));
        if complaints.len() > MAX_COMPLAINTS {
            return;
        }
    }
    for field in fields {
        if let Some(value) = members.get(field.name) {
            collect(value, &field.shape, &format!("{at}/{}", field.name), complaints);
        }
    }
}

fn whole(value: &Value) -> Option<i64> {
    let number = value.as_f64()?;
    // Beyond this a double holds no exact whole numbers, so neither did the client.
    let is_exact = number.fract() == 0.0 && number.abs() <= 9_007_199_254_740_991.0;
    if !is_exact {
        return None;
    }
    value.as_i64().or_else(|| format!("{number:.0}").parse().ok())
}

fn pointer(key: &str) -> String {
    let key: String = key.chars().take(80).collect();
    key.replace('~', "~0").replace('/', "~1")
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    static INNER: Shape = Shape::Object(&[needed("id", Shape::Words(&["a", "b"]))]);
    static LIST: Shape = Shape::List(&FILLED);
    static OUTER: Shape = Shape::Object(&[
        needed("client", Shape::Nullable(&INNER)),
        optional("limit", Shape::Integer { least: 1, most: 9 }),
        optional("keys", Shape::Nullable(&LIST)),
        optional("version", Shape::Number(1)),
        optional("when", Shape::AnyOf(WHEN)),
        optional("word", Shape::Nullable(&WORD)),
        optional("some", Shape::Items(&FILLED)),
        optional("loose", Shape::Open(&[optional("limit", Shape::Bool)])),
        optional("form", Shape::Formed(&FORM)),
    ]);
    static FORM: Form = Form {
        length: (1, 9),
        pattern: "^x+$",
        fits: |text| !text.is_empty() && text.bytes().all(|byte| byte == b'x'),
    };
    static WHEN: &[Shape] = &[
        Shape::Object(&[needed("kind", Shape::Constant("at")), needed("at", FILLED)]),
        Shape::Object(&[needed("kind", Shape::Constant("every")), needed("ms", FILLED)]),
    ];
    static WORD: Shape = Shape::Words(&["a", "b"]);

    #[test]
    fn a_check_says_all_that_is_wrong_and_where() {
        for (value, expected) in [
            (json!({"client": null}), Ok(())),
            (json!({"client": {"id": "a"}, "limit": 9, "keys": ["x"], "version": 1}), Ok(())),
            (json!({"client": {"id": "a"}, "limit": 3.0, "keys": null}), Ok(())),
            (json!({}), Err("must have required property 'client'")),
            (
                json!({"client": {"id": "c"}}),
                Err("at /client/id: must be equal to constant; \
                     at /client/id: must match a schema in anyOf; at /client: must be null; \
                     at /client: must match a schema in anyOf"),
            ),
            (
                json!({"client": {}, "foo": 1}),
                Err("at root: unexpected property 'foo'; at /client: must have required property \
                     'id'; at /client: must be null; at /client: must match a schema in anyOf"),
            ),
            (
                json!({"client": null, "keys": 1}),
                Err("at /keys: must be array; at /keys: must be null; \
                     at /keys: must match a schema in anyOf"),
            ),
            (
                json!({"client": null, "word": "c"}),
                Err("at /word: must be equal to constant; at /word: must be null; \
                     at /word: must match a schema in anyOf"),
            ),
            (
                json!({"client": null, "some": []}),
                Err("at /some: must NOT have fewer than 1 items"),
            ),
            (json!({"client": null, "loose": {"any": 1, "limit": "x"}, "some": ["a"]}), Ok(())),
            (json!({"client": null, "loose": 1}), Ok(())),
            (json!({"client": null, "limit": 0}), Err("at /limit: must be >= 1")),
            (json!({"client": null, "limit": 1e300}), Err("at /limit: must be integer")),
            (
                json!({"client": null, "limit": 0.5}),
                Err("at /limit: must be integer; at /limit: must be >= 1"),
            ),
            (
                json!({"client": null, "limit": 9.5}),
                Err("at /limit: must be integer; at /limit: must be <= 9"),
            ),
            (json!({"client": null, "limit": 2.5}), Err("at /limit: must be integer")),
            (
                json!({"client": null, "word": 5}),
                Err("at /word: must be string; at /word: must be equal to constant; \
                     at /word: must be null; at /word: must match a schema in anyOf"),
            ),
            (
                json!({"client": null, "version": "1"}),
                Err("at /version: must be number; at /version: must be equal to constant"),
            ),
            (
                json!({"client": null, "form": ""}),
                Err(
                    "at /form: must NOT have fewer than 1 characters; at /form: must match pattern \"^x+$\"",
                ),
            ),
            (json!({"client": null, "limit": "3"}), Err("at /limit: must be integer")),
            (
                json!({"client": null, "keys": [""]}),
                Err("at /keys/0: must NOT have fewer than 1 characters; at /keys: must be null; \
                     at /keys: must match a schema in anyOf"),
            ),
            (json!({"client": null, "version": 2}), Err("at /version: must be equal to constant")),
            (json!("x"), Err("must be object")),
            (json!({"client": null, "when": {"kind": "every", "ms": "5"}}), Ok(())),
            (
                json!({"client": null, "when": {"kind": "at", "ms": "5"}}),
                Err(
                    "at /when: must have required property 'at'; at /when: unexpected property 'ms'; \
                     at /when/kind: must be equal to constant; at /when: must match a schema in anyOf",
                ),
            ),
        ] {
            assert_eq!(check(&value, &OUTER), expected.map_err(str::to_owned), "{value}");
        }
    }

    #[test]
    fn a_hostile_object_gets_a_short_answer() {
        let many: serde_json::Map<String, Value> =
            (0..100_000).map(|n| (format!("key{n}"), json!(1))).collect();
        let why = check(&Value::Object(many), &OUTER).unwrap_err();
        assert!(why.len() < 4096, "{}", why.len());
    }
}
