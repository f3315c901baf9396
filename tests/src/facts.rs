//! Compares a recorded sentence with ours by what it says, not by its words.
//!
//! From the recorded text the facts are taken in order: quoted values, key paths, file paths,
//! numbers, `name=value` pairs, variable names, commands. Ours must mention each of them, in that
//! order. The words between them are nobody's business.

/// The first fact of `recorded` that `ours` does not mention where it should; `None` if all are there.
pub fn missing(recorded: &str, ours: &str) -> Option<String> {
    let ours = ours.replace("clawpen ", "openclaw ");
    let mut rest = ours.as_str();
    for fact in facts(recorded) {
        match rest.find(&fact) {
            Some(position) => rest = &rest[position + fact.len()..],
            None => {
                return Some(format!(
                    "the fact `{fact}` is missing (or out of order)\n  recorded: {recorded}\n  ours:     {ours}"
                ));
            }
        }
    }
    None
}

/// The first line of a recorded screen that ours does not show, in order. Lines of data must be the
/// same; a hint is a sentence, so only its facts count. Ours may show more lines.
pub fn missing_line(recorded: &str, ours: &str) -> Option<String> {
    let mut lines = ours.lines();
    recorded.lines().filter(|line| !line.trim().is_empty()).find_map(|line| {
        let shows = |ours: &str| match line.strip_prefix("Hint:") {
            Some(hint) => ours.starts_with("Hint:") && missing(hint, ours).is_none(),
            None => ours.trim_end() == line.trim_end(),
        };
        let found = lines.by_ref().any(shows);
        (!found).then(|| format!("the line `{line}` is missing (or out of order)\n  ours:\n{ours}"))
    })
}

/// The facts of a text, in order.
pub fn facts(text: &str) -> Vec<String> {
    let text = without_examples(text);
    let mut found = Vec::new();
    let mut rest = text.as_str();
    while let Some(start) = rest.find('"') {
        words(&rest[..start], &mut found);
        let quoted = &rest[start + 1..];
        // A quote that is not closed on its line is no quotation.
        let end = quoted.find('"').filter(|&end| !quoted[..end].contains('\n'));
        let Some(end) = end else {
            rest = quoted;
            continue;
        };
        if !quoted[..end].trim().is_empty() {
            found.push(quoted[..end].trim().to_owned());
        }
        rest = &quoted[end + 1..];
    }
    words(rest, &mut found);
    found
}

/// Drops `(e.g. …)`: an example is advice, not a fact about this case.
fn without_examples(text: &str) -> String {
    let mut kept = String::new();
    let mut rest = text;
    while let Some(start) = rest.find("(e.g. ") {
        kept.push_str(&rest[..start]);
        rest = rest[start..].find(')').map_or("", |end| &rest[start + end + 1..]);
    }
    kept + rest
}

/// The facts among the unquoted words of a text.
fn words(text: &str, found: &mut Vec<String>) {
    let mut previous = "";
    let mut lists_values = false;
    let text = commands(text, found);
    for written in text.split_whitespace() {
        let word = written.trim_matches(|c: char| matches!(c, '(' | ')' | ',' | ';' | '\'' | '`'));
        let word = word.trim_end_matches([':', '.']).trim_end_matches(')');
        // "expected string, received number": the type names are the point of the sentence.
        let is_type = matches!(previous, "expected" | "received") && TYPES.contains(&word);
        if is_fact(word) || is_type || lists_values {
            found.push(word.to_owned());
        }
        lists_values = (lists_values && !written.ends_with(')')) || written == "(allowed:";
        previous = word;
    }
}

/// Takes the commands out of a text: `openclaw` and the rest of its line is one fact.
fn commands(text: &str, found: &mut Vec<String>) -> String {
    let Some(start) =
        text.find("openclaw ").filter(|&start| !text[..start].ends_with(['/', '.', '-']))
    else {
        return text.to_owned();
    };
    let line = text[start..].lines().next().unwrap_or_default();
    words(&text[..start], found);
    found.push(line.trim_end_matches(['.', ')', '`', ' ']).to_owned());
    text[start + line.len()..].to_owned()
}

const TYPES: [&str; 11] = [
    "string",
    "number",
    "object",
    "array",
    "record",
    "boolean",
    "int",
    "null",
    "undefined",
    "NaN",
    "Infinity",
];

fn is_fact(word: &str) -> bool {
    let has = |c: char| word.contains(c);
    let is_path = (word.starts_with('/') && word.len() > 1)
        || ["~/", "./", "../"].iter().any(|start| word.starts_with(start));
    let is_key = has('.') && word.split('.').all(|part| !part.is_empty()) && !is_abbreviation(word);
    let is_pair = has('=') && !word.starts_with('=');
    // The format's name is no fact about a file.
    let is_number = word.chars().any(|c| c.is_ascii_digit()) && word != "JSON5";
    let is_variable = word.len() > 3
        && has('_')
        && word.chars().all(|c| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_');
    let is_camel = word.chars().next().is_some_and(|c| c.is_ascii_lowercase())
        && word.chars().any(|c| c.is_ascii_uppercase())
        && word.chars().all(char::is_alphanumeric);
    let is_flag = word.starts_with("--") && word.len() > 2;
    let is_place = word == "<root>" || word.contains(":*");
    is_path || is_key || is_pair || is_number || is_variable || is_camel || is_flag || is_place
}

fn is_abbreviation(word: &str) -> bool {
    matches!(word, "e.g" | "i.e")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn facts_are_values_keys_paths_numbers_and_commands() {
        let text = "Sandbox security: bind mount \"/etc:/x\" targets blocked path \"/etc\" (e.g. /home/u). \
                    Set sandbox.docker.network=none at 1:39, run openclaw sandbox recreate --agent main";
        assert_eq!(
            facts(text),
            [
                "/etc:/x",
                "/etc",
                "sandbox.docker.network=none",
                "1:39",
                "openclaw sandbox recreate --agent main"
            ]
        );
    }

    #[test]
    fn types_and_listed_values_are_facts() {
        let text = "a.b: Invalid input: expected boolean, received string (allowed: true, false)";
        assert_eq!(facts(text), ["a.b", "boolean", "string", "true", "false"]);
        assert_eq!(
            facts("<root>: JSON5 parse failed: SyntaxError: JSON5: invalid at 1:8"),
            ["<root>", "1:8"]
        );
    }

    #[test]
    fn order_counts() {
        assert_eq!(missing("\"a\" then \"b\"", "first a and then b"), None);
        assert!(missing("\"a\" then \"b\"", "b before the other").is_some());
    }
}
