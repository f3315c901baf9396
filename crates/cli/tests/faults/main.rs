//! For each protection: a build that leaves this one out does not start, and names it.
//!
//! The lists come from the code: every line that `explain --live` shows must have a switch, so a new fact
//! without one fails here. `cargo xtask test faults` builds and runs this.
#![expect(clippy::unwrap_used, reason = "a test without its set-up cannot go on")]

mod docker;
mod native;
mod starter;

use std::collections::BTreeSet;

use clawpen_rules::facts::FactKind;
use clawpen_rules::native::RlimitKind;
use serde_json::Value;

use starter::Starter;

/// One fact of a live sandbox, as `explain --live --json` writes it.
struct Shown {
    kind: FactKind,
    /// In words, such as "mount `/usr`".
    name: String,
    /// What stands in the back quotes, or nothing.
    which: String,
}

impl Shown {
    fn of(line: &Value) -> Self {
        let text = |key: &str| line[key].as_str().unwrap().to_owned();
        let kind = FactKind::ALL.into_iter().find(|kind| kind.as_str() == text("kind"));
        let name = text("fact");
        let which = name.split('`').nth(1).unwrap_or_default().to_owned();
        assert_eq!(line["holds"], true, "{name}");
        Self { kind: kind.unwrap_or_else(|| panic!("a kind without a place: {name}")), name, which }
    }
}

/// Everything that is proven of a sandbox of this starter.
fn facts(starter: &Starter) -> Vec<Shown> {
    let (code, json, said) = starter.run(&["sandbox", "explain", "--live", "--json"], "");
    assert_eq!(code, Some(0), "{said}");
    let json: Value = serde_json::from_str(&json).unwrap();
    let facts: Vec<Shown> = json["facts"].as_array().unwrap().iter().map(Shown::of).collect();
    assert!(facts.len() > 10, "{json}");
    facts
}

fn kinds(facts: &[Shown]) -> BTreeSet<FactKind> {
    facts.iter().map(|fact| fact.kind).collect()
}

/// Leaves each protection out; says what was not noticed, or not by its name.
fn unnoticed(starter: &Starter, faults: &[(String, String)]) -> Vec<String> {
    let mut wrong = Vec::new();
    for (fault, named) in faults {
        let (code, _, said) = starter.run(&["exec", "--fresh", "--", "true"], fault);
        if code != Some(125) || !said.contains(named.as_str()) {
            wrong.push(format!("{fault}: no word of {named}: {code:?} {said}"));
        }
    }
    wrong
}

/// The kernel's number of a limit.
fn limit_number(name: &str) -> u8 {
    RlimitKind::ALL.into_iter().find(|kind| kind.as_str() == name).unwrap().number()
}

fn not_as_asked(name: &str) -> String {
    format!("{name} is not as asked")
}
