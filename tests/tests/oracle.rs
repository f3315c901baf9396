//! Whatever we call analysable, two shell grammars cut the same way.
//!
//! brush-parser and tree-sitter-bash run in a child process with limits on memory and time, because
//! a short text can make a grammar take all there is; a text that kills the child, or that a grammar
//! itself refuses, is counted and must be rare. The commands are the recorded ones and generated ones:
//! `CLAWPEN_ORACLE_COMMANDS` says how many (`cargo xtask soak` asks for 100,000).
#![forbid(unsafe_code)]
#![expect(clippy::expect_used, reason = "a test without its oracle cannot go on")]

#[path = "oracle/child.rs"]
mod child;
#[path = "oracle/generate.rs"]
mod generate;

use std::collections::BTreeMap;
use std::path::Path;

use child::{Cut, Opinion};
use clawpen_rules::command::{
    ChainOperator, ContentHash, FileFacts, ProgramFiles, Request, Segment, analyse,
};
use clawpen_tests::replay::read_rows;

/// Enough for a commit; a soak asks for more.
const DEFAULT_COMMANDS: usize = 2_000;

#[test]
fn recorded_commands_are_cut_as_by_two_shell_grammars() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus/exec-allowlist.jsonl");
    let rows = read_rows(&file).expect("the recording can be read");
    let commands = rows.iter().filter_map(|row| row.input["command"].as_str().map(str::to_owned));
    check(commands.filter(|command| ours(command).is_some()).collect());
}

#[test]
fn generated_commands_are_cut_as_by_two_shell_grammars() {
    let wanted = std::env::var("CLAWPEN_ORACLE_COMMANDS").ok();
    let wanted = wanted.map_or(DEFAULT_COMMANDS, |n| n.parse().expect("a number"));
    let commands = generate::commands().filter(|command| ours(command).is_some());
    check(commands.take(wanted).collect());
}

/// The child's part. Does nothing unless it is started by [`child::ask`].
#[test]
fn child() {
    child::serve();
}

#[track_caller]
fn check(commands: Vec<String>) {
    assert!(!commands.is_empty());
    let opinions = child::ask(&commands);
    let mut silent = Vec::new();
    let mut different = Vec::new();
    for (command, opinions) in commands.iter().zip(&opinions) {
        let ours = ours(command).expect("it was analysable a moment ago");
        for (grammar, opinion) in ["brush", "tree-sitter"].iter().zip(opinions) {
            match opinion {
                Opinion::Cut(theirs) if *theirs == ours => {}
                Opinion::Cut(theirs) => {
                    different.push((grammar, command, ours.clone(), theirs.clone()));
                }
                Opinion::Refused => silent.push((grammar, command)),
            }
        }
    }
    assert!(different.is_empty(), "{} are cut otherwise: {different:#?}", different.len());
    // tree-sitter takes many a strange name for an error; brush has an opinion on nearly everything.
    let [brush, tree_sitter]: [Vec<_>; 2] = ["brush", "tree-sitter"].map(|grammar| {
        silent
            .iter()
            .filter(|(silent, _)| **silent == grammar)
            .map(|(_, command)| command)
            .collect()
    });
    let count = commands.len();
    let unknown = brush.iter().filter(|command| child::brush_knows(command)).count();
    assert!(unknown <= 1 + count / 1_000, "brush is silent on {unknown} of {count}: {brush:#?}");
    let unknown = tree_sitter.iter().filter(|command| child::tree_sitter_knows(command)).count();
    assert!(unknown <= 1 + count / 5, "tree-sitter is silent on {unknown} of {count}");
}

/// What we make of a text; `None` if it is not analysable, or if a segment starts with a word that
/// only a shell gives a meaning to: those start no program in our plan, and are cut differently.
fn ours(text: &str) -> Option<Cut> {
    struct Nothing;
    impl ProgramFiles for Nothing {
        fn find(&self, _: &str) -> Option<FileFacts> {
            None
        }
        fn hash(&self, _: &str) -> Option<ContentHash> {
            None
        }
    }
    let environment = BTreeMap::new();
    let request = Request { text, cwd: "/", home: None, environment: &environment };
    let analysis = analyse(&request, &Nothing).ok()?;
    let is_shell_word = |segment: &Segment| segment.names_shell_word();
    if analysis.segments().any(is_shell_word) {
        return None;
    }
    let pipelines = analysis.pipelines().iter().map(|pipeline| {
        let sign = pipeline.joined_by.map_or("", ChainOperator::as_str);
        let segments = pipeline.segments.iter().map(|segment| segment.argv.clone()).collect();
        (sign.to_owned(), segments)
    });
    Some(pipelines.collect())
}
