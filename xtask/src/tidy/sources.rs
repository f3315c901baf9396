//! What every source file must look like: a header, a name that says something, no unfinished
//! work, a size that can be read; verdicts in `rules` only, unsafe code in `os` only.

use std::path::Path;

use super::{File, Problem};

const MAX_LINES: usize = 800;
/// Names that collect whatever has no home.
const BANNED_NAMES: &[&str] = &["utils", "util", "helpers", "helper", "common", "misc", "manager"];

// Spelled in halves, so that this file does not find itself.
const UNFINISHED: &[&str] =
    &[concat!("to", "do!("), concat!("unimple", "mented!("), concat!("#[ign", "ore")];
/// Hosts that serve packages. A line that names one ties the build to a machine's set-up.
const REGISTRIES: &[&str] = &[
    concat!("index.crates", ".io"),
    concat!("static.crates", ".io"),
    concat!("://crates", ".io"),
    concat!("registry.npm", "js.org"),
    concat!("pypi", ".org"),
    concat!("files.python", "hosted.org"),
    concat!("proxy.go", "lang.org"),
];
/// The only place that a locked dependency may come from.
const LOCKED_SOURCE: &str = "source = \"registry+https://github.com/rust-lang/crates.io-index\"";

pub(super) fn check(files: &[File]) -> Vec<Problem> {
    files.iter().flat_map(check_file).collect()
}

fn check_file(file: &File) -> Vec<Problem> {
    let mut problems = registries(file);
    if is_ours(&file.path) {
        problems.extend(name(file));
        problems.extend(header(file));
        problems.extend(size(file));
        problems.extend(unfinished(file));
        problems.extend(forbids_unsafe(file));
        problems.extend(verdicts(file));
    }
    problems
}

fn is_ours(path: &str) -> bool {
    let ours = ["crates/", "tests/", "xtask/", "fuzz/"];
    let is_rust = Path::new(path).extension().is_some_and(|extension| extension == "rs");
    is_rust && ours.iter().any(|directory| path.starts_with(directory))
}

fn name(file: &File) -> Option<Problem> {
    let name = file.path.rsplit('/').next().unwrap_or_default().trim_end_matches(".rs");
    if name == "mod" {
        let what = "use `name.rs` beside `name/`, so that every tab has its own name";
        return Some(Problem::new(&file.path, 0, what));
    }
    let what = format!("`{name}` says nothing; name the file after the question it answers");
    BANNED_NAMES.contains(&name).then(|| Problem::new(&file.path, 0, what))
}

fn header(file: &File) -> Option<Problem> {
    let has_header = file.text.starts_with("//! ");
    let what = "open with a `//!` header that says what the module answers";
    (!has_header).then(|| Problem::new(&file.path, 1, what))
}

fn size(file: &File) -> Option<Problem> {
    let lines = file.text.lines().count();
    let what = format!("{lines} lines; split a file before it reaches {MAX_LINES}");
    (lines > MAX_LINES).then(|| Problem::new(&file.path, 0, what))
}

fn unfinished(file: &File) -> Vec<Problem> {
    let found = |line: &str| UNFINISHED.iter().find(|mark| line.contains(**mark));
    lines(file, |line| found(line).map(|mark| format!("`{mark}` is unfinished work")))
}

fn registries(file: &File) -> Vec<Problem> {
    if file.path.ends_with("Cargo.lock") {
        return lines(file, |line| {
            let foreign = line.starts_with("source = ") && line != LOCKED_SOURCE;
            foreign.then(|| "a dependency from elsewhere than the public index".to_owned())
        });
    }
    // Recordings are data: what they name is not what we use.
    if file.path.starts_with("tests/corpus/") {
        return Vec::new();
    }
    let found = |line: &str| REGISTRIES.iter().find(|host| line.contains(**host));
    lines(file, |line| found(line).map(|host| format!("`{host}` is a package registry's host")))
}

/// Crate roots forbid unsafe code; the one crate whose business it is does not.
fn forbids_unsafe(file: &File) -> Option<Problem> {
    let path = &file.path;
    let is_root = path.ends_with("/src/lib.rs")
        || path.ends_with("/src/main.rs")
        || path.split_once("/src/bin/").is_some_and(|(_, name)| !name.contains('/'));
    // The attacks call the kernel as an attacker would.
    let exempt = path.starts_with("crates/os/") || path.starts_with("tests/attacks/");
    let forbids = file.text.lines().any(|line| line.trim() == "#![forbid(unsafe_code)]");
    let what = "a crate root needs `#![forbid(unsafe_code)]`";
    (is_root && !exempt && !forbids).then(|| Problem::new(path, 0, what))
}

/// Every verdict function is called `decide` and lives in `rules`.
fn verdicts(file: &File) -> Vec<Problem> {
    if file.path.starts_with("crates/rules/") || !file.path.starts_with("crates/") {
        return Vec::new();
    }
    lines(file, |line| {
        let line = line.trim_start();
        let public = line.starts_with("pub fn ") || line.starts_with("pub(");
        let name = line.split_once("fn ").map_or("", |(_, name)| name);
        let is_verdict =
            ["decide(", "decide<", "decide_"].iter().any(|start| name.starts_with(start));
        (public && is_verdict).then(|| "verdicts are decided in `crates/rules` only".to_owned())
    })
}

fn lines(file: &File, judge: impl Fn(&str) -> Option<String>) -> Vec<Problem> {
    let judged = file.text.lines().enumerate().map(|(index, line)| (index + 1, judge(line)));
    judged.filter_map(|(line, what)| Some(Problem::new(&file.path, line, what?))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_source_file_has_a_header_and_a_name_that_says_something() {
        check("crates/rules/src/paths.rs", "//! Paths.\n", &[]);
        check("crates/rules/src/paths.rs", "use x;\n", &["open with"]);
        check("crates/rules/src/utils.rs", "//! Paths.\n", &["says nothing"]);
        check("crates/rules/src/paths/mod.rs", "//! Paths.\n", &["beside"]);
        check("docs/utils.rs", "", &[]);
    }

    #[test]
    fn unfinished_work_and_huge_files_are_found() {
        check("tests/src/x.rs", concat!("//! X.\nto", "do!()\n"), &["unfinished"]);
        check("tests/src/x.rs", concat!("//! X.\n#[ign", "ore = \"why\"]\n"), &["unfinished"]);
        check("tests/src/x.rs", &"//! X.\n".repeat(801), &["801 lines"]);
    }

    #[test]
    fn unsafe_code_is_forbidden_outside_its_crate() {
        check("crates/wire/src/lib.rs", "//! X.\n", &["forbid"]);
        check("tests/src/bin/replay.rs", "//! X.\n", &["forbid"]);
        check("crates/wire/src/lib.rs", "//! X.\n#![forbid(unsafe_code)]\n", &[]);
        check("crates/os/src/lib.rs", "//! X.\n", &[]);
        check("crates/wire/src/gateway.rs", "//! X.\n", &[]);
    }

    #[test]
    fn verdicts_live_in_rules() {
        let text = "//! X.\npub fn decide(x: X) -> Y {\n";
        check("crates/rules/src/x.rs", text, &[]);
        check("crates/engine/src/x.rs", text, &["verdicts"]);
        check("crates/cli/src/x.rs", "//! X.\npub(crate) fn decide<T>(\n", &["verdicts"]);
        check("crates/cli/src/x.rs", "//! X.\npub fn decide_network(\n", &["verdicts"]);
        check("crates/engine/src/x.rs", "//! X.\nlet y = x::decide(1);\n", &[]);
    }

    #[test]
    fn no_line_names_a_registry() {
        check("README.md", concat!("see https://crates", ".io/x"), &["registry"]);
        check("Cargo.lock", LOCKED_SOURCE, &[]);
        check("Cargo.lock", "source = \"registry+https://mirror\"", &["elsewhere"]);
        check("tests/corpus/x.jsonl", concat!("registry.npm", "js.org"), &[]);
    }

    #[track_caller]
    fn check(path: &str, text: &str, expected: &[&str]) {
        let problems = check_file(&File { path: path.to_owned(), text: text.to_owned() });
        assert_eq!(problems.len(), expected.len(), "{problems:?}");
        for (problem, part) in problems.iter().zip(expected) {
            assert!(problem.what.contains(part), "{problem}");
        }
    }
}
