//! Includes that work, and every way out that is refused.

use super::*;
use crate::config::print::{Secrets, json};
use crate::host_files::FileTable;

/// A table of files with their texts.
struct Files {
    table: FileTable,
    texts: Vec<(&'static str, String)>,
}

impl HostFiles for Files {
    fn entry(&self, path: &str) -> Result<Option<Entry>, FactError> {
        self.table.entry(path)
    }
}

impl ConfigFiles for Files {
    fn read(&self, path: &str) -> Result<String, FactError> {
        let found = self.texts.iter().find(|(known, _)| *known == path);
        found.map(|(_, text)| text.clone()).ok_or_else(|| FactError {
            path: path.to_owned(),
            problem: crate::host_files::FactProblem::System("missing".to_owned()),
        })
    }
}

fn files(texts: &[(&'static str, &str)]) -> Files {
    let mut table = FileTable::new();
    for (path, _) in texts {
        table = table.with(path, EntryKind::File);
    }
    table = table
        .with_link("/c/link", "/secret")
        .with_link("/c/in", "sub")
        .with("/secret/s.json", EntryKind::File);
    Files { table, texts: texts.iter().map(|(path, text)| (*path, (*text).to_owned())).collect() }
}

fn run(root: &str, texts: &[(&'static str, &str)]) -> Result<String, IncludeError> {
    let root = json5::parse(root, FileId(0)).unwrap();
    let files = files(texts);
    resolve(root, "/c/openclaw.json", &[], &files)
        .map(|included| json(&included.root, Secrets::None).split_whitespace().collect())
        .map_err(|issue| issue.error)
}

#[track_caller]
fn check(root: &str, texts: &[(&'static str, &str)], expected: &str) {
    assert_eq!(run(root, texts).as_deref(), Ok(expected));
}

#[test]
fn siblings_go_over_the_included_content_and_lists_join() {
    let base = [("/c/base.json", "{a: {x: 1, l: [1]}, b: 1}")];
    check("{$include: './base.json'}", &base, "{\"a\":{\"x\":1,\"l\":[1]},\"b\":1}");
    check(
        "{$include: 'base.json', a: {l: [2]}, b: 2}",
        &base,
        "{\"a\":{\"x\":1,\"l\":[1,2]},\"b\":2}",
    );
    check(
        "{k: {$include: ['base.json', 'base.json']}}",
        &base,
        "{\"k\":{\"a\":{\"x\":1,\"l\":[1,1]},\"b\":1}}",
    );
}

#[test]
fn paths_are_relative_to_the_including_file() {
    let texts = [("/c/sub/a.json", "{$include: '../b.json'}"), ("/c/b.json", "{b: 1}")];
    check("{$include: 'sub/a.json'}", &texts, "{\"b\":1}");
    check("{$include: 'in/a.json'}", &texts, "{\"b\":1}");
}

#[test]
fn nothing_outside_the_config_directory_is_read() {
    let secret = [("/secret/s.json", "{secret: 1}")];
    let root = || "/c".to_owned();
    for path in ["../secret/s.json", "/secret/s.json", "sub/../../secret/s.json", "/etc/passwd"] {
        let expected = Err(IncludeError::Escapes { path: path.to_owned(), root: root() });
        assert_eq!(run(&format!("{{$include: '{path}'}}"), &secret), expected);
    }
    let path = "link/s.json".to_owned();
    let expected = Err(IncludeError::EscapesByLink { path, root: root() });
    assert_eq!(run("{$include: 'link/s.json'}", &secret), expected);
}

#[test]
fn circles_depth_and_wrong_values_are_refused() {
    let chain = vec!["/c/openclaw.json".to_owned(), "/c/l.json".to_owned(), "/c/l.json".to_owned()];
    let looping = [("/c/l.json", "{$include: './l.json'}")];
    assert_eq!(run("{$include: 'l.json'}", &looping), Err(IncludeError::Circle { chain }));
    assert_eq!(
        run("{$include: 5}", &[]),
        Err(IncludeError::BadValue { found: "number".to_owned() })
    );
    assert_eq!(
        run("{$include: [5]}", &[]),
        Err(IncludeError::BadItem { found: "number".to_owned() })
    );
    let list = [("/c/l.json", "[1]")];
    assert_eq!(run("{$include: 'l.json', a: 1}", &list), Err(IncludeError::NeedsObject));
    check("{k: {$include: 'l.json'}}", &list, "{\"k\":[1]}");
    let texts: Vec<(&'static str, String)> = (0..=MAX_DEPTH)
        .map(|n| (&*format!("/c/{n}.json").leak(), format!("{{$include: '{}.json'}}", n + 1)))
        .collect();
    let texts: Vec<(&'static str, &str)> =
        texts.iter().map(|(path, text)| (*path, text.as_str())).collect();
    let path = format!("{MAX_DEPTH}.json");
    assert_eq!(run("{$include: '0.json'}", &texts), Err(IncludeError::TooDeep { path }));
}

#[test]
fn a_file_with_a_second_name_is_refused() {
    let root = json5::parse("{$include: 'h.json'}", FileId(0)).unwrap();
    let mut files = files(&[("/c/h.json", "{a: 1}")]);
    files.table = files.table.with_links("/c/h.json", 2);
    let error = resolve(root, "/c/openclaw.json", &[], &files).unwrap_err().error;
    assert!(matches!(error, IncludeError::Unsafe { .. }), "{error}");
}

#[test]
fn keys_that_javascript_trips_over_are_dropped_in_a_merge() {
    let texts =
        [("/c/a.json", "{a: 1}"), ("/c/b.json", "{__proto__: {x: 1}, constructor: 1, b: 2}")];
    check("{$include: ['a.json', 'b.json']}", &texts, "{\"a\":1,\"b\":2}");
}

#[test]
fn many_includes_of_one_large_file_are_bounded() {
    let large = format!("[{}]", "0,".repeat(200_000));
    let root = "{a: {$include: 'l.json'}, b: {$include: 'l.json'}}";
    let error = run(root, &[("/c/l.json", &large)]).unwrap_err();
    assert!(matches!(error, IncludeError::Broken { .. }), "{error}");
    let padded = format!("{{}}{}", " ".repeat(MAX_BYTES - 2));
    let root = format!("[{}]", "{$include: 'p.json'},".repeat(5));
    assert_eq!(run(&root, &[("/c/p.json", &padded)]), Err(IncludeError::TooLarge));
}

#[test]
fn a_place_in_an_included_file_names_that_file() {
    let root = json5::parse("{$include: 'a.json'}", FileId(0)).unwrap();
    let files = files(&[("/c/a.json", "{$include: 5}")]);
    let issue = resolve(root, "/c/openclaw.json", &[], &files).unwrap_err();
    assert_eq!(
        issue.files.get(usize::from(issue.place.file.0)).map(String::as_str),
        Some("/c/a.json")
    );
}
