//! What holds for every text.

use proptest::prelude::*;

use super::*;

/// Texts made of the pieces that matter to a lexer.
fn texts() -> impl Strategy<Value = String> {
    let piece = prop::sample::select(vec![
        "ls", "echo", "rm", "wc", "head", "nice", "env", "sh", "-c", "-n", "5", "x", " ", " ", " ",
        "\t", "'", "\"", "\\", "|", "||", "&&", "&", ";", "#", "$", "$(", "${", "}", "`", "(", ")",
        "<", "<<", "<<E", "\nE", "\n", "\r", ">", "*", "?", "~", "=", "!", "{", "\u{a0}",
        "\u{200b}", "é", "'$0'", "--", "-",
    ]);
    prop::collection::vec(piece, 0..14).prop_map(|pieces| pieces.concat())
}

proptest! {
    #[test]
    fn any_text_gets_an_answer(text in any::<String>()) {
        let _ = Machine::new().allow("*").answer(&text);
    }

    #[test]
    fn an_allowed_text_has_a_plan_of_known_files(text in texts()) {
        let machine = Machine::new();
        if machine.answer(&text) == Answer::Allowed {
            for step in machine.plan(&text).steps() {
                prop_assert!(machine.files.contains_key(&step.file.path), "{:?}", step.file);
                prop_assert!(!step.argv.is_empty());
            }
        }
    }

    /// The plan's line means the same text again: quoting loses nothing.
    #[test]
    fn a_plan_read_again_is_the_same_plan(text in texts()) {
        let machine = Machine::new();
        if machine.answer(&text) == Answer::Allowed {
            let plan = machine.plan(&text);
            let again = machine.plan(&plan.command_line());
            let argv = |plan: &Plan| -> Vec<Vec<String>> {
                plan.steps().iter().map(|step| step.argv[1..].to_vec()).collect()
            };
            prop_assert_eq!(argv(&plan), argv(&again));
        }
    }

    /// Whatever is allowed stays allowed when more is trusted, unless it was never understood.
    #[test]
    fn a_longer_list_allows_no_less(text in texts()) {
        let machine = Machine::new();
        let longer = machine.clone().allow("/usr/bin/rm").allow("/usr/bin/sh");
        if machine.answer(&text) == Answer::Allowed {
            prop_assert_eq!(longer.answer(&text), Answer::Allowed);
        }
    }

    /// Quoting every word of a list of words gives the same words back.
    #[test]
    fn quoted_words_come_back(words in prop::collection::vec("[^\0]{0,8}", 1..6)) {
        let line: Vec<String> =
            words.iter().map(|word| format!("'{}'", word.replace('\'', r#"'"'"'"#))).collect();
        let line = format!("ls {}", line.join(" "));
        // A backslash before a line break is refused wherever it stands.
        let is_continued = line.contains("\\\n") || line.contains("\\\r");
        let parts = lexer::split(&line);
        if is_continued {
            prop_assert_eq!(parts, Err(NotAnalysable::LineContinuation));
        } else {
            let argv = parts.map(|parts| parts[0].segments[0].argv[1..].to_vec());
            prop_assert_eq!(argv, Ok(words));
        }
    }

    /// The one character that separates commands is never taken for text outside quotes.
    #[test]
    fn nothing_after_an_operator_is_lost(first in "[a-z]{1,5}", second in "[a-z]{1,5}", op in "(&&|\\|\\||;|\\|)") {
        let text = format!("{first} {op} {second}");
        let segments: Vec<Vec<String>> = lexer::split(&text)
            .map(|parts| parts.into_iter().flat_map(|part| part.segments).map(|words| words.argv).collect())
            .unwrap_or_default();
        prop_assert_eq!(segments, vec![vec![first], vec![second]]);
    }
}
