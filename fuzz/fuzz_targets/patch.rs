//! Any text as a patch, over any file: what is applied changes only files that it names, a second look gives the
//! same, and a refusal names a line of the patch.
//!
//! The input up to the first NUL is the patch; the rest is what every file that it updates or deletes holds.
#![no_main]

use clawpen_rules::tools::edit::{self, Edit};
use clawpen_rules::tools::patch::{self, Snapshot};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    let split = input.iter().position(|byte| *byte == 0).unwrap_or(input.len());
    let Ok(text) = std::str::from_utf8(&input[..split]) else { return };
    let file = input.get(split + 1..).unwrap_or_default();
    let lines = text.split('\n').count();
    let patch = match patch::parse(text) {
        Ok(patch) => patch,
        Err(refused) => {
            assert!((1..=lines).contains(&refused.line), "{refused}");
            return;
        }
    };
    let paths = patch.paths();
    let snapshot = Snapshot {
        names: paths.iter().map(|path| ((*path).to_owned(), (*path).to_owned())).collect(),
        files: paths.iter().map(|path| ((*path).to_owned(), Some(file.to_vec()))).collect(),
    };
    match patch::decide(&patch, &snapshot) {
        Ok(plan) => {
            assert_eq!(patch::decide(&patch, &snapshot).as_ref(), Ok(&plan));
            for change in &plan.changes {
                assert!(paths.contains(change.file.as_str()));
                assert_ne!(Some(&change.after), snapshot.files.get(&change.file));
            }
        }
        Err(refused) => assert!((1..=lines).contains(&refused.line), "{refused}"),
    }
    // The same bytes as an edit: a file and a text to find in it.
    let edits = [Edit { old: text.chars().take(8).collect(), new: "x".to_owned() }];
    if let Ok(edited) = edit::decide(file, &edits) {
        assert_ne!(edited.contents, file);
    }
});
