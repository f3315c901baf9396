//! Every deliberate difference from the recordings has its section in `docs/compat.md`, and no
//! section speaks of a difference that is gone.
//!
//! A section's heading (`## name` or `### name`) is the rule's name. Headings of several words, and
//! those that name a recording, only arrange the page.

use std::collections::{BTreeMap, BTreeSet};

use super::{File, Problem};

const PAGE: &str = "docs/compat.md";
const RULES: &str = "tests/src/compat";

pub(super) fn check(files: &[File]) -> Vec<Problem> {
    let mut rules: BTreeMap<&str, (&str, usize)> = BTreeMap::new();
    for file in files.iter().filter(|file| file.path.starts_with(RULES)) {
        let mut before = "";
        for (index, line) in file.text.lines().enumerate() {
            if let Some(name) = rule_name(before, line) {
                rules.entry(name).or_insert((&file.path, index + 1));
            }
            before = line;
        }
    }
    let page = files.iter().find(|file| file.path == PAGE).map_or("", |file| file.text.as_str());
    let headings: BTreeMap<&str, usize> = page
        .lines()
        .enumerate()
        .filter_map(|(index, line)| Some((heading(line)?, index + 1)))
        .collect();
    let recordings: BTreeSet<&str> = files
        .iter()
        .filter_map(|file| file.path.strip_prefix("tests/corpus/")?.split('.').next())
        .collect();
    let unexplained = rules.iter().filter(|(name, _)| !headings.contains_key(*name));
    let unexplained = unexplained.map(|(name, (path, line))| {
        Problem::new(path, *line, format!("rule `{name}` has no section in `{PAGE}`"))
    });
    let gone = headings
        .iter()
        .filter(|(name, _)| !rules.contains_key(*name) && !recordings.contains(*name));
    let gone = gone.map(|(name, line)| {
        Problem::new(PAGE, *line, format!("no rule is called `{name}` in `{RULES}`"))
    });
    unexplained.chain(gone).collect()
}

/// The name in a line `name: "…",` of a rule, or in a call `rule("…", …)` that makes one, where the
/// name may stand on a line of its own.
fn rule_name<'a>(before: &str, line: &'a str) -> Option<&'a str> {
    let line = line.trim();
    let start = ["name: \"", "rule(\""].iter().find_map(|start| Some(line.split_once(start)?.1));
    let alone = || line.strip_prefix('"').filter(|_| before.trim() == "rule(");
    let (name, _) = start.or_else(alone)?.split_once('"')?;
    is_name(name).then_some(name)
}

fn is_name(text: &str) -> bool {
    text.contains('-')
        && text.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-')
}

/// The one word of a second or third level heading.
fn heading(line: &str) -> Option<&str> {
    let text = line.strip_prefix("## ").or_else(|| line.strip_prefix("### "))?;
    let text = text.trim().trim_matches('`');
    is_name(text).then_some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_and_sections_go_together() {
        let rule = "    Rule { name: \"long-name\", category: \"prefix\",";
        check_page(rule, "# Compat\n## Why we differ\n## session-key\n### long-name\n", &[]);
        check_page(rule, "## `long-name`\n", &[]);
        check_page("    rule(\"long-name\", applies, transform),", "## long-name\n", &[]);
        check_page("    rule(\n        \"long-name\",", "## long-name\n", &[]);
        check_page(rule, "", &["tests/src/compat/x.rs:1"]);
        check_page(rule, "## long-name\n\n## old-rule\n", &["docs/compat.md:3"]);
    }

    #[track_caller]
    fn check_page(rules: &str, page: &str, expected: &[&str]) {
        let file = |path: &str, text: &str| File { path: path.to_owned(), text: text.to_owned() };
        let files = [
            file("tests/src/compat/x.rs", rules),
            file(PAGE, page),
            file("tests/corpus/session-key.jsonl", ""),
        ];
        let problems = check(&files);
        let places: Vec<String> =
            problems.iter().map(|problem| format!("{}:{}", problem.path, problem.line)).collect();
        assert_eq!(places, expected);
    }
}
