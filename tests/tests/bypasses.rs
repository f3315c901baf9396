//! Every class of bypass that concerns decisions has tests with its number in their names.
#![forbid(unsafe_code)]
#![expect(clippy::expect_used, reason = "a test that cannot read the sources proves nothing")]

use std::collections::BTreeMap;
use std::path::Path;

/// Classes about doors that this build does not have; `docs/concepts/exec-and-approvals.md` says who
/// brings them.
const ELSEWHERE: [u32; 4] = [23, 29, 34, 35];
const LAST: u32 = 36;

#[test]
fn every_class_that_concerns_decisions_has_three_tests() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("it lies in the workspace");
    let mut counts = BTreeMap::new();
    for directory in ["crates", "tests"] {
        count(&root.join(directory), &mut counts);
    }
    let wanted = |class: &u32| !ELSEWHERE.contains(class);
    for class in (1..=LAST).filter(wanted) {
        let found = counts.get(&class).copied().unwrap_or(0);
        assert!(found >= 3, "B{class} has {found} tests");
    }
}

/// Counts functions called `bNN_…`.
fn count(path: &Path, counts: &mut BTreeMap<u32, u32>) {
    if path.is_dir() {
        for entry in std::fs::read_dir(path).expect("a directory can be listed") {
            count(&entry.expect("an entry can be read").path(), counts);
        }
    } else if path.extension().is_some_and(|extension| extension == "rs") {
        let text = std::fs::read_to_string(path).expect("a source can be read");
        let names = text.lines().filter_map(|line| line.trim_start().strip_prefix("fn b"));
        let classes = names.filter_map(|name| name.split_once('_')?.0.parse().ok());
        classes.for_each(|class: u32| *counts.entry(class).or_default() += 1);
    }
}
