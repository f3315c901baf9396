//! The grammar, what becomes of files, and both against a model.

use std::collections::BTreeMap;

use super::*;
use crate::tools::text::NoText;
use proptest::prelude::*;

#[test]
fn every_kind_of_hunk_is_read() {
    let patch = parse(
        "\n*** Begin Patch\n*** Add File: a/b\n+one\n+\n*** Delete File: c\n*** Update File: d\n*** Move to: e\n\
         @@ fn x\n keep\n-old\n+new\n\n@@\n+end\n*** End of File\n*** End Patch\n",
    )
    .unwrap();
    let chunk = |line, context: Option<&str>, steps: &[Step], anchor| Chunk {
        line,
        context: context.map(str::to_owned),
        steps: steps.to_vec(),
        anchor,
    };
    let chunks = vec![
        chunk(
            9,
            Some("fn x"),
            &[keep("keep"), remove("old"), insert("new"), keep("")],
            Anchor::Anywhere,
        ),
        chunk(14, None, &[insert("end")], Anchor::EndOfFile),
    ];
    let expected = [
        Hunk {
            line: 3,
            path: "a/b".into(),
            action: Action::Add { lines: vec!["one".into(), String::new()] },
        },
        Hunk { line: 6, path: "c".into(), action: Action::Delete },
        Hunk {
            line: 7,
            path: "d".into(),
            action: Action::Update { move_to: Some("e".into()), chunks },
        },
    ];
    assert_eq!(patch.hunks(), expected);
    assert_eq!(patch.paths().into_iter().collect::<Vec<_>>(), ["a/b", "c", "d", "e"]);
}

#[test]
fn blanks_carriage_returns_and_a_here_document_are_tolerated() {
    let plain = parse("*** Begin Patch\n*** Update File: f\n x\n+y\n*** End Patch").unwrap();
    for text in [
        "*** Begin Patch\r\n*** Update File: f\r\n x\r\n+y\r\n*** End Patch\r\n",
        "  *** Begin Patch  \n *** Update File:   f \n x\n+y\n  *** End Patch \n\n",
    ] {
        assert_eq!(parse(text).unwrap(), plain, "{text:?}");
    }
    for open in ["<<EOF", "<<'EOF'", "<<\"EOF\""] {
        let text = format!("{open}\n*** Begin Patch\n*** Delete File: f\n*** End Patch\nEOF");
        assert_eq!(parse(&text).unwrap().hunks()[0].line, 3);
    }
}

#[test]
fn what_is_no_patch_says_which_line_and_why() {
    let none = |text: &str, line, reason| refuse(text, (line, None), reason);
    none("", 1, PatchReason::NoBegin);
    none("*** Begin Patch", 1, PatchReason::NoEnd);
    none("*** End Patch\nx", 1, PatchReason::NoBegin);
    none("*** Begin Patch\n*** Delete File: a", 2, PatchReason::NoEnd);
    none("*** Begin Patch\n*** End Patch", 1, PatchReason::NoHunks);
    none("<<EOF\n*** Begin Patch\n*** End Patch\nEOF", 2, PatchReason::NoHunks);
    let inner = |text: &str, line, hunk, reason| {
        refuse(&format!("*** Begin Patch\n{text}\n*** End Patch"), (line, Some(hunk)), reason);
    };
    inner("hello", 2, 1, PatchReason::UnknownHunk { found: "hello".into() });
    inner(
        "*** Delete File: a\n*** Rename: b",
        3,
        2,
        PatchReason::UnknownHunk { found: "*** Rename: b".into() },
    );
    inner("*** Delete File: a\n-x", 3, 2, PatchReason::UnknownHunk { found: "-x".into() });
    inner("*** Add File: ", 2, 1, PatchReason::NoPath);
    inner("*** Update File: a", 2, 1, PatchReason::EmptyUpdate);
    inner("*** Update File: a\n*** Move to: b", 2, 1, PatchReason::EmptyUpdate);
    inner("*** Update File: a\n*** Move to:", 3, 1, PatchReason::NoPath);
    inner("*** Update File: a\n@@", 3, 1, PatchReason::EmptyChunk);
    inner("*** Update File: a\n@@ x\n*** End of File", 4, 1, PatchReason::EmptyChunk);
    inner("*** Update File: a\nfoo", 3, 1, PatchReason::BadLine { found: "foo".into() });
    inner("*** Update File: a\n+x\nfoo", 4, 1, PatchReason::NoChunkMark { found: "foo".into() });
    inner("*** Update File: a\n@@\n@@\n+x", 3, 1, PatchReason::EmptyChunk);
    let many = (0..=MOST_FILES)
        .map(|file| format!("\n*** Delete File: {file}"))
        .collect::<Vec<_>>()
        .concat();
    none(&format!("*** Begin Patch{many}\n*** End Patch"), 1, PatchReason::TooManyFiles);
    none(&"x".repeat(LARGEST + 1), 1, PatchReason::TooLarge);
}

#[test]
fn hunks_add_update_move_and_delete() {
    check(
        "*** Add File: new\n+a\n+b\n*** Delete File: gone\n*** Update File: old\n*** Move to: moved\n-x\n+y",
        &[("gone", "1\n"), ("old", "w\nx\n")],
        Ok(&[("gone", None), ("moved", Some("w\ny\n")), ("new", Some("a\nb\n")), ("old", None)]),
    );
    check("*** Add File: empty", &[], Ok(&[("empty", Some(""))]));
    check("*** Add File: there\n+new", &[("there", "old")], Ok(&[("there", Some("new\n"))]));
}

#[test]
fn hunks_of_one_file_build_on_each_other() {
    check(
        "*** Add File: f\n+a\n+b\n*** Update File: f\n-a\n+x\n*** Update File: f\n-b\n+y",
        &[],
        Ok(&[("f", Some("x\ny\n"))]),
    );
    check(
        "*** Delete File: f\n*** Update File: f\n-a\n+x",
        &[("f", "a\n")],
        Err((3, 2, PatchReason::Missing)),
    );
    check("*** Delete File: f\n*** Add File: f\n+a", &[("f", "a\n")], Ok(&[]));
}

#[test]
fn one_bad_hunk_changes_nothing() {
    let lines = vec!["absent".to_owned()];
    check(
        "*** Add File: new\n+a\n*** Update File: f\n@@\n-absent\n+x",
        &[("f", "a\n")],
        Err((5, 2, PatchReason::LinesNotFound { lines })),
    );
    check("*** Delete File: f", &[], Err((2, 1, PatchReason::Missing)));
    check("*** Update File: f\n+x", &[], Err((2, 1, PatchReason::Missing)));
    let binary = PatchReason::NoText(NoText::Binary { bytes: 2 });
    check("*** Update File: f\n+x", &[("f", "a\0")], Err((2, 1, binary)));
}

#[test]
fn a_refusal_names_hunk_file_line_and_reason() {
    let patch = parse("*** Begin Patch\n*** Delete File: a\nb\n*** End Patch").unwrap_err();
    assert_eq!(
        patch.to_string(),
        "the patch was not applied, no file was changed: hunk 2, line 3: `b` starts no hunk; say `*** Add File: `, \
         `*** Delete File: ` or `*** Update File: `"
    );
    let patch = parse("*** Begin Patch\n*** Update File: f\n@@ ctx\n-x\n*** End Patch").unwrap();
    let refused = decide(&patch, &snapshot(&patch, &[("f", "a\n")])).unwrap_err();
    assert_eq!(
        refused.to_string(),
        "the patch was not applied, no file was changed: hunk 1, `f`, line 3: the file has no line `ctx` from there on"
    );
}

#[test]
fn lines_are_found_by_the_strictest_pass_that_finds_them() {
    update(" a\na\n", "@@\n-a\n+x", " a\nx\n");
    update("a  \nb\n", "@@\n-a\n+x", "x\nb\n");
    update("\ta\n", "@@\n-a\n+x", "x\n");
    update("say “x” – y\n", "@@\n-say \"x\" - y\n+z", "z\n");
    // What is kept stays as the file has it.
    update("\tif “x” {  \n\told\n", "@@\n if \"x\" {\n-old\n+\tnew", "\tif “x” {  \n\tnew\n");
}

#[test]
fn context_and_order_choose_between_equal_lines() {
    let file = "fn a\n  x\nfn b\n  x\n";
    update(file, "@@ fn b\n-  x\n+  y", "fn a\n  x\nfn b\n  y\n");
    update(file, "@@\n-  x\n+  1\n@@\n-  x\n+  2", "fn a\n  1\nfn b\n  2\n");
    update("x\na\nx\n", "@@\n-x\n+y\n*** End of File", "x\na\ny\n");
    refuse_update(
        file,
        "@@ fn b\n-fn a",
        PatchReason::LinesNotFound { lines: vec!["fn a".into()] },
    );
    refuse_update(file, "@@ fn c\n+x", PatchReason::ContextNotFound { context: "fn c".into() });
    refuse_update(
        "x\na\n",
        "@@\n-x\n*** End of File",
        PatchReason::LinesNotFound { lines: vec!["x".into()] },
    );
}

#[test]
fn a_chunk_without_old_lines_goes_to_the_end() {
    update("a\n", "@@\n+b", "a\nb\n");
    update("a", "@@\n+b", "a\nb\n");
    update("", "@@\n+b", "b\n");
    update("a\nz\n", "@@ a\n+b", "a\nz\nb\n");
    update("a\nz\n", "@@\n+end\n@@\n-a", "z\nend\n");
    // A blank line before the next chunk is no line of the file.
    update("a\nz\n", "@@\n-a\n+b\n\n@@\n-z", "b\n");
    update("a\n", "@@\n+b\n\n@@\n-a", "b\n");
    update("a\n", "@@\n a\n\n+b", "a\n\nb\n");
}

#[test]
fn line_ends_marks_and_blank_lines_at_the_end_are_kept() {
    update("\u{feff}a\r\nb\r\n", "@@\n-a\n+x\n+y", "\u{feff}x\r\ny\r\nb\r\n");
    update("a\r\nb\nc\n", "@@\n-c\n+d", "a\r\nb\nd\r\n");
    update("a\n\n\n", "@@\n-a\n+b", "b\n\n\n");
    update("a\nb", "@@\n-a\n+x", "x\nb\n");
    update("a\n", "@@\n-a", "");
}

#[test]
fn a_search_without_end_is_given_up() {
    let file = "a\n".repeat(1 << 20);
    let chunk = format!("@@\n{}-b", "-a\n".repeat(1 << 12));
    refuse_update(&file, &chunk, PatchReason::TooMuchWork);
}

proptest! {
    /// The model: lines, a range of them replaced. The patch is written from it with all lines around as context.
    #[test]
    fn a_patch_made_from_a_change_makes_that_change(
        lines in prop::collection::vec("[a-c]{0,2}", 1..12),
        new in prop::collection::vec("[a-d]{0,2}", 0..4),
        cut: (prop::sample::Index, prop::sample::Index),
    ) {
        let (a, b) = (cut.0.index(lines.len()), cut.1.index(lines.len() + 1));
        let (start, end) = (a.min(b), a.max(b));
        let signed = |sign: &str, lines: &[String]| {
            lines.iter().map(|line| format!("{sign}{line}\n")).collect::<Vec<_>>().concat()
        };
        let (before, old, after) = (&lines[..start], &lines[start..end], &lines[end..]);
        let text =
            ["@@\n", &signed(" ", before), &signed("-", old), &signed("+", &new), &signed(" ", after)].concat();
        let expected = [signed("", before), signed("", &new), signed("", after)].concat();
        let file = signed("", &lines);
        prop_assert_eq!(apply(&file, text.trim_end_matches('\n')), Ok(expected));
    }

    /// The model: files by name, each changed in one way or left alone, in any order of hunks. One hunk that does not
    /// fit, and there is no plan at all.
    #[test]
    fn a_patch_of_many_files_does_to_them_what_the_model_says(
        jobs in prop::collection::vec((0_usize..5, "[a-c]{1,3}", "[d-f]{1,3}"), 1..6),
        order in any::<u64>(),
        spoiled: prop::sample::Index,
    ) {
        let mut before: BTreeMap<String, String> = BTreeMap::new();
        let mut after: BTreeMap<String, String> = BTreeMap::new();
        let mut hunks = Vec::new();
        for (number, (kind, old, new)) in jobs.iter().enumerate() {
            let (name, other) = (format!("f{number}"), format!("dir/m{number}"));
            let (was, is) = (format!("{old}\nlast\n"), format!("{new}\nlast\n"));
            let update = format!("@@\n-{old}\n+{new}\n last");
            if *kind != 1 {
                before.insert(name.clone(), was.clone());
            }
            match kind {
                0 => drop(after.insert(name, was)),
                1 => {
                    hunks.push(format!("*** Add File: {name}\n+{new}\n+last"));
                    after.insert(name, is);
                }
                2 => hunks.push(format!("*** Delete File: {name}")),
                3 => {
                    hunks.push(format!("*** Update File: {name}\n{update}"));
                    after.insert(name, is);
                }
                _ => {
                    hunks.push(format!("*** Update File: {name}\n*** Move to: {other}\n{update}"));
                    after.insert(other, is);
                }
            }
        }
        if hunks.is_empty() {
            return Ok(());
        }
        let middle = usize::try_from(order % hunks.len() as u64).unwrap();
        hunks.rotate_left(middle);
        let files: Vec<(&str, &str)> = before.iter().map(|(name, text)| (name.as_str(), text.as_str())).collect();
        let plan = |hunks: &[String]| {
            let patch = parse(&format!("*** Begin Patch\n{}\n*** End Patch", hunks.join("\n"))).unwrap();
            decide(&patch, &snapshot(&patch, &files))
        };
        let mut found = before.clone();
        for change in plan(&hunks).unwrap().changes {
            match change.after {
                Some(contents) => drop(found.insert(change.file, String::from_utf8(contents).unwrap())),
                None => drop(found.remove(&change.file)),
            }
        }
        prop_assert_eq!(found, after);
        hunks.insert(spoiled.index(hunks.len() + 1), "*** Update File: nowhere\n@@\n-x\n+y".to_owned());
        prop_assert!(plan(&hunks).is_err());
    }

    #[test]
    fn any_text_is_read_or_refused(text in "(\\*\\*\\* (Begin Patch|End Patch|Add File: |Update File: |Move to: |Delete File: |End of File)?|@@ ?|[ +-]?a?\n|a){0,24}") {
        if let Ok(patch) = parse(&format!("*** Begin Patch\n{text}\n*** End Patch")) {
            let snapshot = snapshot(&patch, &[("a", "a\n\na\n")]);
            if let Ok(plan) = decide(&patch, &snapshot) {
                for change in &plan.changes {
                    prop_assert!(snapshot.files.contains_key(&change.file));
                }
            }
        }
    }
}

/// A file and what it holds in the end, if anything.
type After<'a> = (&'a str, Option<&'a str>);

#[track_caller]
fn check(
    hunks: &str,
    files: &[(&str, &str)],
    expected: Result<&[After<'_>], (usize, usize, PatchReason)>,
) {
    let patch = parse(&format!("*** Begin Patch\n{hunks}\n*** End Patch")).unwrap();
    let found = decide(&patch, &snapshot(&patch, files)).map(|plan| {
        let text = |after: Vec<u8>| String::from_utf8(after).unwrap();
        plan.changes
            .into_iter()
            .map(|change| (change.file, change.after.map(text)))
            .collect::<Vec<_>>()
    });
    let found = found.map_err(|refused| (refused.line, refused.hunk.unwrap(), refused.reason));
    let owned = |changes: &[After<'_>]| {
        changes
            .iter()
            .map(|(file, after)| ((*file).to_owned(), after.map(str::to_owned)))
            .collect::<Vec<_>>()
    };
    assert_eq!(found, expected.map(owned));
}

#[track_caller]
fn update(file: &str, chunks: &str, expected: &str) {
    assert_eq!(apply(file, chunks), Ok(expected.to_owned()));
}

#[track_caller]
fn refuse_update(file: &str, chunks: &str, expected: PatchReason) {
    assert_eq!(apply(file, chunks), Err(expected));
}

fn apply(file: &str, chunks: &str) -> Result<String, PatchReason> {
    let patch = parse(&format!("*** Begin Patch\n*** Update File: f\n{chunks}\n*** End Patch"));
    let patch = patch.map_err(|refused| refused.reason)?;
    let plan =
        decide(&patch, &snapshot(&patch, &[("f", file)])).map_err(|refused| refused.reason)?;
    let after = plan
        .changes
        .into_iter()
        .next()
        .map_or(Some(file.as_bytes().to_vec()), |change| change.after);
    Ok(String::from_utf8(after.unwrap()).unwrap())
}

fn snapshot(patch: &Patch, files: &[(&str, &str)]) -> Snapshot {
    let files: BTreeMap<&str, &str> = files.iter().copied().collect();
    let names = patch.paths().into_iter().map(|path| (path.to_owned(), path.to_owned()));
    let contents = patch.paths().into_iter().map(|path| {
        (path.to_owned(), files.get(path).map(|contents| contents.as_bytes().to_vec()))
    });
    Snapshot { names: names.collect(), files: contents.collect() }
}

#[track_caller]
fn refuse(text: &str, place: (usize, Option<usize>), reason: PatchReason) {
    let refused = parse(text).unwrap_err();
    assert_eq!(((refused.line, refused.hunk), refused.reason), (place, reason));
}

fn keep(text: &str) -> Step {
    Step::Keep(text.to_owned())
}

fn remove(text: &str) -> Step {
    Step::Remove(text.to_owned())
}

fn insert(text: &str) -> Step {
    Step::Insert(text.to_owned())
}
