//! What a `jq` program may not mention: the environment, and modules, which are files.

/// Says whether none of the words is a program that reads more than its input.
pub(super) fn admits(words: &[String]) -> bool {
    !words.iter().any(|word| mentions(word))
}

fn mentions(program: &str) -> bool {
    program.contains("$ENV")
        || ["env", "import", "include"].iter().any(|name| has_name(program, name))
}

/// Says whether a name stands in a program by itself: not as part of a longer one, nor as a key
/// (`.env`) or a variable (`$env`).
fn has_name(program: &str, name: &str) -> bool {
    let is_part = |c: char| c.is_alphanumeric() || c == '_';
    program.match_indices(name).any(|(start, _)| {
        let before = program.get(..start).and_then(|before| before.chars().next_back());
        let after = program.get(start + name.len()..).and_then(|after| after.chars().next());
        before.is_none_or(|c| !is_part(c) && c != '.' && c != '$')
            && after.is_none_or(|c| !is_part(c))
    })
}
