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

#[test]
fn rules_of_directories_above_and_below_are_heard() {
    let tree = tree();
    let root = tree.path();
    fs::create_dir_all(root.join("dir/sub/build")).unwrap();
    fs::write(root.join("dir/.gitignore"), "\u{feff}*.log\nbuild/\n").unwrap();
    fs::write(root.join("dir/sub/.gitignore"), "!keep.log\n").unwrap();
    fs::write(root.join("dir/sub/.ignore"), "notes\n").unwrap();
    for name in ["dir/x.log", "dir/sub/keep.log", "dir/sub/notes", "dir/sub/build/y", "dir/sub/z"] {
        fs::write(root.join(name), "needle").unwrap();
    }
    check(
        &tree,
        &["grep", "--", "needle"],
        "m a.rs 2 a needle|m dir/b.txt 1 needle|m dir/sub/keep.log 1 needle|m dir/sub/z 1 needle|e all",
    );
    let words =
        ["grep".into(), "--".into(), "needle".into(), root.join("dir/sub").into_os_string()];
    let mut out = Vec::new();
    run(&words, &mut out).unwrap();
    assert_eq!(out, b"m\0keep.log\x001\0needle\0m\0z\x001\0needle\0e\0all\0\0\0");
}

#[test]
fn what_would_hold_a_reader_up_is_not_opened() {
    let tree = tree();
    let root = tree.path();
    fs::remove_file(root.join(".gitignore")).unwrap();
    fs::create_dir_all(root.join("odd/.git/info")).unwrap();
    for pipe in [".gitignore", ".ignore", "pipe", "odd/.git/info/exclude"] {
        rustix::fs::mkfifoat(rustix::fs::CWD, root.join(pipe), rustix::fs::Mode::RWXU).unwrap();
    }
    symlink("/dev/zero", root.join("odd/.gitignore")).unwrap();
    symlink("/dev/zero", root.join("odd/zero")).unwrap();
    let found = "m a.rs 2 a needle|m dir/b.txt 1 needle|m target/built 1 needle|e all";
    check(&tree, &["grep", "--", "needle"], found);
    for odd in ["pipe", "odd/zero"] {
        let words = ["grep".into(), "--".into(), "x".into(), root.join(odd).into_os_string()];
        let mut out = Vec::new();
        run(&words, &mut out).unwrap();
        let said = String::from_utf8(out).unwrap();
        assert!(said.ends_with("it is neither a file nor a directory\0"), "{said:?}");
    }
    // A link to a file is that file, if it is what was asked for.
    let words =
        ["grep".into(), "--".into(), "needle".into(), root.join("dir/out").into_os_string()];
    let mut out = Vec::new();
    run(&words, &mut out).unwrap();
    assert_eq!(out, b"m\0out\x002\0a needle\0e\0all\0\0\0");
}

#[test]
fn a_search_whose_time_is_over_says_so() {
    let tree = tree();
    let words: Vec<OsString> = ["grep", "--", "needle"].iter().map(OsString::from).collect();
    let options = Options::parse(&[words, vec![tree.path().into()]].concat()).unwrap();
    let long_ago = Instant::now().checked_sub(std::time::Duration::from_secs(60)).unwrap();
    let mut records = Records::new(Vec::new());
    assert_eq!(tree::grep(&options, long_ago, &mut records), Ok(End::Time));
    assert_eq!(tree::find(&options, long_ago, &mut records), Ok(End::Time));
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
