//! An error with its causes, on one line: for a model, a record or a list of problems.

use std::error::Error;

/// The whole chain. A layer whose text ends with its cause's does not have it said again.
pub(crate) fn chain(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(next) = cause {
        let said = next.to_string();
        if !text.ends_with(&said) {
            text.push_str(": ");
            text.push_str(&said);
        }
        cause = next.source();
    }
    text
}
