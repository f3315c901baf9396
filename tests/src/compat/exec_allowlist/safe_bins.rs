//! Which words of a safe bin are harmless, as test code sees it.

use serde_json::Value;

/// Flags without a value, and flags with one, by program.
const TABLE: &[(&str, &str, &str)] = &[
    ("cut", "nsz", "bcfd"),
    ("uniq", "cduiz", "fsw"),
    ("head", "qvz", "nc"),
    ("tail", "qvz", "nc"),
    ("tr", "Ccdst", ""),
    ("wc", "Lclmw", ""),
    ("sort", "nrufbdghiMVsz", "ktS"),
    ("grep", "ivwxcqsEFGonhHz", "emABCD"),
];

const LONG: &[(&str, &[&str])] = &[
    ("cut", &["--complement", "--only-delimited", "--zero-terminated"]),
    ("uniq", &["--count", "--repeated", "--unique", "--ignore-case", "--zero-terminated"]),
    ("head", &["--quiet", "--silent", "--verbose", "--zero-terminated"]),
    ("tail", &["--quiet", "--silent", "--verbose", "--zero-terminated"]),
    ("tr", &["--complement", "--delete", "--squeeze-repeats", "--truncate-set1"]),
    ("wc", &["--bytes", "--chars", "--lines", "--max-line-length", "--words"]),
    (
        "sort",
        &[
            "--numeric-sort",
            "--reverse",
            "--unique",
            "--ignore-case",
            "--zero-terminated",
            "--stable",
        ],
    ),
    (
        "grep",
        &[
            "--ignore-case",
            "--invert-match",
            "--word-regexp",
            "--line-regexp",
            "--count",
            "--quiet",
            "--extended-regexp",
            "--fixed-strings",
            "--only-matching",
        ],
    ),
];

/// Says whether a safe bin's words are flags of the table and short options with a harmless value.
pub(super) fn admits(input: &Value, name: &str, words: &[String]) -> bool {
    let is_named = input["safeBins"].as_array().into_iter().flatten();
    let is_named =
        is_named.filter_map(Value::as_str).any(|bin| bin.trim().eq_ignore_ascii_case(name));
    let Some((_, flags, values)) = TABLE.iter().find(|(known, _, _)| *known == name) else {
        return false;
    };
    if !is_named || input["safeBinProfiles"][name].is_object() {
        return false;
    }
    let long = LONG.iter().find(|(known, _)| *known == name).map_or(&[][..], |(_, long)| long);
    let mut positional = 0;
    let mut rest = words.iter();
    while let Some(word) = rest.next() {
        match word.as_str() {
            "" | "-" | "--" => {}
            word if word.starts_with("--") => {
                let mut beginnings = long.iter().filter(|known| known.starts_with(word));
                let is_one = beginnings.next().is_some() && beginnings.next().is_none();
                if !is_one && !long.contains(&word) {
                    return false;
                }
            }
            word if word.starts_with('-') => {
                let letters = &word[1..];
                let end = letters.find(|c: char| !flags.contains(c)).unwrap_or(letters.len());
                let fits = match letters[end..].chars().next() {
                    None => true,
                    Some(letter) if values.contains(letter) => match &letters[end + 1..] {
                        "" => {
                            rest.next().is_some_and(|value| !value.is_empty() && is_harmless(value))
                        }
                        value => is_harmless(value),
                    },
                    Some(_) => false,
                };
                if !fits {
                    return false;
                }
            }
            word if is_harmless(word) => positional += 1,
            _ => return false,
        }
    }
    if name == "tr" { (1..=2).contains(&positional) } else { positional == 0 }
}

fn is_harmless(word: &str) -> bool {
    !word.contains(['*', '?', '[', ']']) && !word.starts_with(['/', '~']) && !word.starts_with('.')
}
