//! How texts are cut, and the reasons for which they are not.

use super::*;

/// The words of each segment, pipelines apart.
fn cut(text: &str) -> Result<Vec<Vec<Vec<String>>>, NotAnalysable> {
    let words = |part: Part| part.segments.into_iter().map(|words| words.argv).collect();
    split(text).map(|parts| parts.into_iter().map(words).collect())
}

#[track_caller]
fn check(text: &str, expected: &[&[&[&str]]]) {
    let owned = |words: &&[&str]| words.iter().map(|&word| word.to_owned()).collect::<Vec<_>>();
    let expected: Vec<Vec<Vec<String>>> =
        expected.iter().map(|part| part.iter().map(owned).collect()).collect();
    assert_eq!(cut(text), Ok(expected), "{text:?}");
}

#[track_caller]
fn check_refused(text: &str, expected: NotAnalysable) {
    assert_eq!(cut(text), Err(expected), "{text:?}");
}

#[test]
fn words_are_cut_at_spaces_and_tabs() {
    check("ls  -l\ta ", &[&[&["ls", "-l", "a"]]]);
    check("ls 'a b' \"c d\" e\\ f", &[&[&["ls", "a b", "c d", "e f"]]]);
    check("l's'\"\" '' \"\"", &[&[&["ls", "", ""]]]);
}

#[test]
fn operators_need_no_blanks() {
    check("a&&b||c;d|e", &[&[&["a"]], &[&["b"]], &[&["c"]], &[&["d"], &["e"]]]);
    check("a &&\nb", &[&[&["a"]], &[&["b"]]]);
    check("a; b\n", &[&[&["a"]], &[&["b"]]]);
}

#[test]
fn a_comment_ends_the_text_it_stands_in() {
    check("a b # c | d", &[&[&["a", "b"]]]);
    check("a b#c \\# '#'", &[&[&["a", "b#c", "#", "#"]]]);
    check("a && b # c; d", &[&[&["a"]], &[&["b"]]]);
    check_refused("a # b\nc", NotAnalysable::LineAfterComment);
    check_refused("a; b # c\nd", NotAnalysable::LineAfterComment);
    check_refused("# a", NotAnalysable::Empty);
    check_refused("a b\\ # c; d", NotAnalysable::Syntax(Syntax::Character('#')));
    check_refused("a |#b", NotAnalysable::Syntax(Syntax::Character('#')));
}

#[test]
fn the_reason_names_what_is_not_understood() {
    let character = |c| NotAnalysable::Syntax(Syntax::Character(c));
    check_refused("a;", character(';'));
    check_refused("a > b;", character('>'));
    check_refused("a &&", character('&'));
    check_refused("a ||", NotAnalysable::Syntax(Syntax::Or));
    check_refused("a |& b", NotAnalysable::Syntax(Syntax::PipeBoth));
    check_refused("a $(b)", NotAnalysable::Syntax(Syntax::Substitution));
    check_refused("a \"b\nc\"", NotAnalysable::Syntax(Syntax::NewlineInQuotes));
    check_refused("a |", NotAnalysable::EmptySegment);
    check_refused("a 'b", NotAnalysable::Unterminated);
    check_refused("'' a", NotAnalysable::NoProgram);
    check_refused("a\u{b}b", NotAnalysable::Character('\u{b}'));
    check_refused("a '\0'", NotAnalysable::Character('\0'));
    check_refused("a \\\nb", NotAnalysable::LineContinuation);
    check_refused(&"a".repeat(MAX_LENGTH + 1), NotAnalysable::TooLong);
}

#[test]
fn every_reason_is_a_sentence_that_names_no_control_character() {
    for text in
        ["a\nb", "a\rb", "a\u{1b}b", "a\u{a0}b", "a > b", "a \"\nb\"", "a ${x y}", "a <<''\n"]
    {
        let reason = split(text).expect_err(text).to_string();
        assert!(!reason.contains(char::is_control), "{text:?}: {reason}");
        assert!(
            !reason.ends_with('.') && reason.starts_with(|c: char| !c.is_uppercase() || c == 'U'),
            "{reason}"
        );
    }
}
