//! An error with its causes, on one line: for a model, a record or a list of problems.

use std::borrow::Cow;
use std::error::Error;

/// The whole chain. A layer whose text ends with its cause's does not have it said again, and a thing that was just named
/// is not named again.
pub(crate) fn chain(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut last = text.clone();
    let mut cause = error.source();
    while let Some(next) = cause {
        let said = next.to_string();
        if !last.ends_with(&said) {
            let more = without_name(&text, &said);
            text = format!("{text}: {more}");
            last = said;
        }
        cause = next.source();
    }
    text
}

/// What a cause says, without the name that it begins with if the text before it ends with that.
fn without_name<'a>(before: &str, said: &'a str) -> Cow<'a, str> {
    let named = said.strip_prefix('`').and_then(|rest| rest.split_once('`'));
    match named {
        Some((name, rest)) if before.ends_with(&format!("`{name}`")) => {
            match rest.strip_prefix(": ") {
                Some(after) => after.into(),
                None if rest.starts_with(' ') => format!("it{rest}").into(),
                None => said.into(),
            }
        }
        Some(_) | None => said.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, thiserror::Error)]
    #[error("{text}")]
    struct Layer {
        text: &'static str,
        #[source]
        cause: Option<Box<Layer>>,
    }

    #[track_caller]
    fn check(texts: &[&'static str], expected: &str) {
        let layers =
            texts.iter().rev().fold(None, |cause, text| Some(Box::new(Layer { text, cause })));
        assert_eq!(chain(&*layers.unwrap()), expected);
    }

    #[test]
    fn nothing_is_said_or_named_twice_in_a_row() {
        check(&["cannot read `a`", "`a`: no such file"], "cannot read `a`: no such file");
        check(&["cannot read `a`", "`a` is a directory"], "cannot read `a`: it is a directory");
        check(&["cannot read `a/b`", "`a`: no directory"], "cannot read `a/b`: `a`: no directory");
        check(&["cannot read `a`", "no: `a`", "`a`"], "cannot read `a`: no: `a`");
        check(&["x: why", "why", "deep"], "x: why: deep");
        check(&["`a", "`"], "`a: `");
    }
}
