//! Searches over real trees.

use std::fs;
use std::os::unix::fs::symlink;

use super::*;

#[test]
fn grep_finds_lines_and_leaves_out_what_git_does() {
    let tree = tree();
    check(
        &tree,
        &["grep", "--limit=9", "--context=0", "--", "needle"],
        "m a.rs 2 a needle|m dir/b.txt 1 needle|e all",
    );
    check(&tree, &["grep", "--glob=*.rs", "--", "needle"], "m a.rs 2 a needle|e all");
    check(&tree, &["grep", "--limit=1", "--", "needle"], "m a.rs 2 a needle|e limit");
    check(
        &tree,
        &["grep", "--limit=2", "--", "needle"],
        "m a.rs 2 a needle|m dir/b.txt 1 needle|e all",
    );
    check(
        &tree,
        &["grep", "--context=1", "--", "a n"],
        "c a.rs 1 one|m a.rs 2 a needle|c a.rs 3 three|e all",
    );
    check(
        &tree,
        &["grep", "--ignore-case", "--literal", "--", "A NEEDLE"],
        "m a.rs 2 a needle|e all",
    );
    check(&tree, &["grep", "--literal", "--", "a.needle"], "e all");
}

#[test]
fn find_lists_files_and_directories_by_glob() {
    let tree = tree();
    check(&tree, &["find", "--", "*.rs"], "f a.rs|e all");
    check(&tree, &["find", "--", "d*"], "f dir/|e all");
    check(&tree, &["find", "--", "dir/*"], "f dir/b.txt|f dir/out|e all");
    check(&tree, &["find", "--limit=1", "--", "*"], "f .gitignore|e limit");
}

#[test]
fn hostile_trees_and_patterns_end_with_a_word() {
    let tree = tree();
    let failed = answer(&tree, &["grep", "--", "("]);
    assert!(failed.starts_with("x   the pattern cannot be used"), "{failed}");
    let failed = answer(&tree, &["grep", "--", "(a{1000}){1000}"]);
    assert!(failed.starts_with("x   the pattern cannot be used"), "{failed}");
    fs::write(tree.path().join("binary"), b"needle\0needle\n").unwrap();
    fs::write(tree.path().join("long"), [vec![b'x'; 1 << 20], b"\nneedle\n".to_vec()].concat())
        .unwrap();
    fs::write(tree.path().join("odd\nname"), b"caf\xe9 needle\n").unwrap();
    symlink("/", tree.path().join("everything")).unwrap();
    let found = answer(&tree, &["grep", "--", "needle"]);
    assert_eq!(
        found,
        "m a.rs 2 a needle|m dir/b.txt 1 needle|m long 2 needle|m odd\nname 1 caf\u{fffd} needle|e all"
    );
    let mut out = Vec::new();
    run(&["grep".into(), "--".into(), "x".into(), "/nowhere/at/all".into()], &mut out).unwrap();
    assert!(out.starts_with(b"x\0\0\0`/nowhere/at/all` cannot be searched"));
    for words in [&[][..], &["grep"], &["sed", "--", "a", "b"], &["grep", "--no", "--", "a", "b"]] {
        let words: Vec<OsString> = words.iter().map(OsString::from).collect();
        let mut out = Vec::new();
        run(&words, &mut out).unwrap();
        assert!(out.starts_with(b"x\0"), "{words:?}");
    }
}

fn tree() -> tempfile::TempDir {
    let tree = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| fs::write(tree.path().join(name), text).unwrap();
    for directory in ["dir", ".git", "target"] {
        fs::create_dir(tree.path().join(directory)).unwrap();
    }
    write("a.rs", "one\na needle\nthree\n");
    write("dir/b.txt", "needle");
    write(".gitignore", "/target\n");
    write(".git/config", "needle\n");
    write("target/built", "needle\n");
    symlink("../a.rs", tree.path().join("dir/out")).unwrap();
    tree
}

#[track_caller]
fn check(tree: &tempfile::TempDir, words: &[&str], expected: &str) {
    assert_eq!(answer(tree, words), expected);
}

/// The records, fields apart by blanks and records by bars.
fn answer(tree: &tempfile::TempDir, words: &[&str]) -> String {
    let mut words: Vec<OsString> = words.iter().map(OsString::from).collect();
    words.push(tree.path().into());
    let mut out = Vec::new();
    run(&words, &mut out).unwrap();
    let text = String::from_utf8_lossy(&out).into_owned();
    let fields: Vec<&str> = text.split('\0').collect();
    let records = fields.chunks_exact(4).map(|record| record.join(" ").trim_end().to_owned());
    records.collect::<Vec<_>>().join("|")
}
