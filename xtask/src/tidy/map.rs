//! Every path that `ARCHITECTURE.md` names in backticks exists: a map that lies is worse than none.
//!
//! Paths may be short: `rules/config/` means `crates/rules/src/config/`, and a bare `prune.rs` lies
//! beside the path named before it on the same line. `{a,b}` and `*` stand for several files.

use super::{File, Problem};

const MAP: &str = "ARCHITECTURE.md";
const EXTENSIONS: &[&str] = &[".rs", ".md", ".toml", ".json", ".jsonl"];

pub(super) fn check(files: &[File]) -> Vec<Problem> {
    let Some(map) = files.iter().find(|file| file.path == MAP) else {
        return vec![Problem::new(MAP, 0, "is missing")];
    };
    let mut problems = Vec::new();
    let mut in_fence = false;
    for (index, line) in map.text.lines().enumerate() {
        if line.trim_start().starts_with("```") {
            in_fence = !in_fence;
        }
        if in_fence {
            continue;
        }
        let mut beside = String::new();
        for span in line.split('`').skip(1).step_by(2).filter(|span| looks_like_path(span)) {
            for path in alternatives(span) {
                if let Some(directory) = find(&path, &beside, files) {
                    beside = directory;
                } else {
                    let what = format!("`{path}` does not exist");
                    problems.push(Problem::new(MAP, index + 1, what));
                }
            }
        }
    }
    problems
}

fn looks_like_path(span: &str) -> bool {
    let elsewhere = span.starts_with(['/', '~', '$', '<', '-', '.']) || span.contains("://");
    let is_word = !span.contains(char::is_whitespace);
    let has_extension = EXTENSIONS.iter().any(|extension| span.ends_with(extension));
    !elsewhere && is_word && (span.contains('/') || has_extension)
}

/// `a/{b,c}.rs` as `a/b.rs` and `a/c.rs`.
fn alternatives(span: &str) -> Vec<String> {
    let braces = span.split_once('{').and_then(|(before, rest)| {
        let (names, after) = rest.split_once('}')?;
        Some((before, names, after))
    });
    match braces {
        None => vec![span.to_owned()],
        Some((before, names, after)) => {
            names.split(',').map(|name| format!("{before}{}{after}", name.trim())).collect()
        }
    }
}

/// Looks for a path in the places that it may be short for; gives the directory it lies in.
fn find(path: &str, beside: &str, files: &[File]) -> Option<String> {
    let mut places = vec![path.to_owned(), format!("crates/{path}")];
    if let Some((name, rest)) = path.split_once('/') {
        places.push(format!("crates/{name}/src/{rest}"));
    }
    if !beside.is_empty() {
        places.insert(0, format!("{beside}{path}"));
    }
    places.into_iter().find(|place| exists(place, files)).map(|place| {
        let end = place.rfind('/').map_or(0, |slash| slash + 1);
        place[..end].to_owned()
    })
}

fn exists(place: &str, files: &[File]) -> bool {
    if let Some((before, after)) = place.split_once('*') {
        return files
            .iter()
            .any(|file| file.path.starts_with(before) && file.path.ends_with(after));
    }
    let directory = format!("{}/", place.trim_end_matches('/'));
    let is_file = |file: &File| !place.ends_with('/') && file.path == place;
    files.iter().any(|file| is_file(file) || file.path.starts_with(&directory))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_paths_are_found_and_false_ones_reported() {
        check_map("`rules/config/`, `json5.rs` and `crates/cli/src/main.rs`", &[]);
        check_map(
            "| `rules/config/` | `rules/scope.rs`, `prune.rs` | `cli/{main,output}.rs` |",
            &[],
        );
        check_map(
            "`rules/config/*.rs`, `tests/corpus/`, `rules`, `docker create`, `/proc/sys`",
            &[],
        );
        check_map("`rules/gone.rs`", &["`rules/gone.rs` does not exist"]);
        check_map("`cli/{main,gone}.rs`", &["`cli/gone.rs` does not exist"]);
        check_map("`rules/scope.rs/`", &["`rules/scope.rs/` does not exist"]);
        check_map("`prune.rs`", &["`prune.rs` does not exist"]);
        check_map("```text\n`rules/gone.rs`\n```", &[]);
    }

    #[test]
    fn the_map_must_be_there() {
        assert_eq!(check(&[]), [Problem::new(MAP, 0, "is missing")]);
    }

    #[track_caller]
    fn check_map(text: &str, expected: &[&str]) {
        let file = |path: &str| File { path: path.to_owned(), text: String::new() };
        let mut files: Vec<File> = [
            "crates/rules/src/config/json5.rs",
            "crates/rules/src/scope.rs",
            "crates/rules/src/prune.rs",
            "crates/cli/src/main.rs",
            "crates/cli/src/output.rs",
            "tests/corpus/explain.jsonl",
        ]
        .map(file)
        .into();
        files.push(File { path: MAP.to_owned(), text: text.to_owned() });
        let problems = check(&files);
        assert_eq!(
            problems.iter().map(|problem| problem.what.as_str()).collect::<Vec<_>>(),
            expected
        );
    }
}
