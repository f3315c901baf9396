//! Edits by example, and against a model.

use super::*;
use proptest::prelude::*;

#[test]
fn an_exact_match_is_replaced_and_nothing_else() {
    check("a\nb\nc\n", &[("b", "x\ny")], Ok("a\nx\ny\nc\n"));
    check("ab", &[("a", "")], Ok("b"));
    check("“a”\nb  \n", &[("b", "c")], Ok("“a”\nc  \n"));
}

#[test]
fn line_ends_and_the_mark_stay_as_they_are() {
    check("\u{feff}a\r\nb\r\nc", &[("a\nb", "x\ny")], Ok("\u{feff}x\r\ny\r\nc"));
    check("\u{feff}a", &[("\u{feff}a", "b")], Ok("\u{feff}b"));
    // Mixed ends: only what is replaced takes the first line's end.
    check("a\r\nb\nc\rd\r\n", &[("b", "x\ny")], Ok("a\r\nx\r\ny\nc\rd\r\n"));
    check("a\r\nb\r\n", &[("a\r\nb\r\n", "c\r\n")], Ok("c\r\n"));
    check("a\nb\n", &[("a\r\nb", "c\r\nd")], Ok("c\nd\n"));
}

#[test]
fn look_alikes_match_and_the_rest_of_the_file_keeps_its_own() {
    check("say “hi” – now  \nb “c”\n", &[("say \"hi\" - now\n", "bye\n")], Ok("bye\nb “c”\n"));
    check("a  \nb\n", &[("a\nb", "c")], Ok("c\n"));
    check("x\u{a0}y\n", &[("x y", "z")], Ok("z\n"));
    check("cafe\u{301}!", &[("caf\u{e9}", "tea")], Ok("tea!"));
    // Within one character there is nothing to replace.
    check("ﬁn", &[("in", "x")], Err("not found: ﬁn"));
}

#[test]
fn a_text_that_is_there_twice_is_not_guessed_at() {
    check("a\nb\na\n", &[("a", "x")], Err("ambiguous 1 3"));
    check("aaa", &[("aa", "x")], Err("ambiguous 1 1"));
    check("“a”\n\"a\"\n", &[("\"a\"", "x")], Err("ambiguous 1 2"));
}

#[test]
fn several_edits_see_the_file_as_it_is() {
    check("a b c", &[("c", "a"), ("a", "c")], Ok("c b a"));
    check("abcd", &[("abc", "x"), ("cd", "y")], Err("overlap 0"));
    check("abcd", &[("ab", "x"), ("cd", "y")], Ok("xy"));
    check("abcd", &[("ab", "x"), ("zz", "y")], Err("not found: abcd"));
}

#[test]
fn an_edit_that_cannot_be_meant_is_refused() {
    check("a", &[("", "x")], Err("empty"));
    check("a", &[("a", "a")], Err("no change"));
    check("a b", &[("a", "a"), ("b", "b")], Err("no change"));
    check(
        "a\u{0}",
        &[("a", "b")],
        Err("it is binary (2 B); use a command to look at it or change it"),
    );
    assert_eq!(
        decide(b"a\xff", &[edit("a", "b")]).unwrap_err().to_string(),
        "it is not UTF-8 at byte 1, and changing it as text would damage it; use a command"
    );
}

#[test]
fn a_text_that_is_not_there_shows_the_file_around_its_first_known_line() {
    let file = format!("{}fn known() {{\n    body\n}}\n", "filler line\n".repeat(200));
    let refused = decide(file.as_bytes(), &[edit("fn known() {\n    other\n}", "x")]).unwrap_err();
    let expected = "`oldText` is not in the file; read it again and copy the text exactly. The file has:\nfn known() {\n    body\n}\n";
    assert_eq!(refused.to_string(), expected);
    let EditReason::NotFound { excerpt } =
        decide(file.as_bytes(), &[edit("nothing", "x")]).unwrap_err().reason
    else {
        panic!()
    };
    assert_eq!(excerpt, file[..SHOWN]);
}

#[test]
fn the_answer_shows_what_changed() {
    let edited = decide(b"1\n2\n3\n", &[edit("2\n", "two\nzwei\n")]).unwrap();
    assert_eq!(edited.diff.text, " 1 1\n-2 2\n+2 two\n+3 zwei\n 3 3");
    assert_eq!((edited.diff.first_changed_line, edited.replaced), (2, 1));
}

#[test]
fn a_huge_line_is_searched_in_no_time() {
    let file = "a".repeat(4 << 20);
    check(&file, &[("b", "x")], Err(&format!("not found: {}", "a".repeat(SHOWN))));
    check(&format!("{file}b"), &[("b", "")], Ok(&file));
}

proptest! {
    /// The model: cut the file anywhere, and what is cut out once is what an edit finds.
    #[test]
    fn an_edit_is_what_replacing_the_only_occurrence_is(
        before in "[abc\n ]{0,12}", old in "[abc\n]{1,6}", after in "[abc\n ]{0,12}", new in "[abcd\n]{0,6}",
    ) {
        let file = format!("{before}{old}{after}");
        let at: Vec<usize> = (0..file.len()).filter(|at| file[*at..].starts_with(&old)).collect();
        match decide(file.as_bytes(), &[edit(&old, &new)]) {
            Ok(edited) => {
                prop_assert_eq!(at.len(), 1);
                let expected = format!("{before}{new}{after}");
                prop_assert_eq!(String::from_utf8(edited.contents).unwrap(), expected);
            }
            Err(refused) => {
                // Blanks at line ends count as nothing, so a second match may be one in the folded file only.
                let folded = Folded::new(&file).text;
                let alike = Folded::new(&old).text;
                let twice = (0..folded.len()).filter(|at| folded[*at..].starts_with(&alike)).count() > 1;
                prop_assert!(at.len() > 1 || old == new || twice, "{refused}");
            }
        }
    }

    #[test]
    fn an_edit_of_a_crlf_file_is_the_edit_of_its_plain_form(
        file in "[ab\n]{0,16}", old in "[ab\n]{1,4}", new in "[ab\n]{0,4}",
    ) {
        // Without a line end there is nothing to tell the two apart.
        let file = format!("\n{file}");
        let crlf = file.replace('\n', "\r\n");
        let plain = decide(file.as_bytes(), &[edit(&old, &new)]).map(|edited| edited.contents);
        let ours = decide(crlf.as_bytes(), &[edit(&old, &new)]).map(|edited| edited.contents);
        let plain = plain.map(|contents| String::from_utf8(contents).unwrap().replace('\n', "\r\n"));
        prop_assert_eq!(ours.map(|contents| String::from_utf8(contents).unwrap()).ok(), plain.ok());
    }

    /// The model: a file of numbered lines, some of them replaced. Given in any order, all edits are done or none.
    #[test]
    fn several_edits_are_all_done_or_none_is(
        chosen in prop::collection::btree_map(0_usize..20, "[x-z ]{0,4}", 1..8),
        turn: prop::sample::Index,
        absent: bool,
    ) {
        let line = |number: usize| format!("line <{number}>");
        let file: String = (0..20).map(|number| line(number) + "\n").collect();
        let expected: String =
            (0..20).map(|number| chosen.get(&number).cloned().unwrap_or_else(|| line(number)) + "\n").collect();
        let mut edits: Vec<Edit> = chosen.iter().map(|(number, new)| edit(&line(*number), new)).collect();
        if absent {
            edits.push(edit("line <20>", "never"));
        }
        let middle = turn.index(edits.len());
        edits.rotate_left(middle);
        let found = decide(file.as_bytes(), &edits).map(|edited| String::from_utf8(edited.contents).unwrap());
        prop_assert_eq!(found.ok(), (!absent).then_some(expected));
    }

    #[test]
    fn any_file_and_any_edits_end_without_a_panic(file: Vec<u8>, pairs: Vec<(String, String)>) {
        let edits: Vec<Edit> = pairs.iter().map(|(old, new)| edit(old, new)).collect();
        let _ = decide(&file, &edits);
    }
}

#[track_caller]
fn check(file: &str, edits: &[(&str, &str)], expected: Result<&str, &str>) {
    let edits: Vec<Edit> = edits.iter().map(|(old, new)| edit(old, new)).collect();
    let found = decide(file.as_bytes(), &edits);
    let found = found.map(|edited| String::from_utf8(edited.contents).unwrap());
    let found = found.map_err(|refused| match refused.reason {
        EditReason::NoText(problem) => problem.to_string(),
        EditReason::EmptyOldText => "empty".to_owned(),
        EditReason::NotFound { excerpt } => format!("not found: {excerpt}"),
        EditReason::Ambiguous { lines: [first, second] } => format!("ambiguous {first} {second}"),
        EditReason::Overlap { other } => format!("overlap {other}"),
        EditReason::NoChange => "no change".to_owned(),
    });
    assert_eq!(found, expected.map(str::to_owned).map_err(str::to_owned));
}

fn edit(old: &str, new: &str) -> Edit {
    Edit { old: old.to_owned(), new: new.to_owned() }
}
