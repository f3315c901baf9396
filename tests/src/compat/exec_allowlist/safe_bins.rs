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

/// Long options that take a value: a beginning of one is not a flag.
const LONG_VALUES: &[&str] = &[
    "--bytes",
    "--characters",
    "--fields",
    "--delimiter",
    "--output-delimiter",
    "--skip-fields",
    "--skip-chars",
    "--check-chars",
    "--group",
    "--key",
    "--regexp",
    "--context",
    "--include",
    "--exclude",
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
                let takes_value = LONG_VALUES.iter().any(|value| value.starts_with(word));
                let mut beginnings = long.iter().filter(|known| known.starts_with(word));
                let is_one =
                    !takes_value && beginnings.next().is_some() && beginnings.next().is_none();
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

/// Says whether a cluster has a letter that is neither a flag nor takes a value.
pub(super) fn has_unknown_letter(input: &Value, name: &str, words: &[String]) -> bool {
    let profile = &input["safeBinProfiles"][name];
    let known = TABLE.iter().find(|(known, _, _)| *known == name);
    let (flags, values) = match (profile.as_object(), known) {
        (Some(_), _) => {
            let values = profile["allowedValueFlags"].as_array().into_iter().flatten();
            let values = values.filter_map(Value::as_str).filter(|flag| !flag.starts_with("--"));
            ("", values.map(|flag| flag.trim_start_matches('-')).collect::<String>())
        }
        (None, Some((_, flags, values))) => (*flags, (*values).to_owned()),
        (None, None) => return false,
    };
    let mut words = words.iter().take_while(|word| *word != "--");
    while let Some(word) = words.next() {
        let is_cluster = word.starts_with('-') && !word.starts_with("--") && word.len() > 1;
        if !is_cluster {
            continue;
        }
        let letters = &word[1..];
        let end = letters.find(|c: char| !flags.contains(c)).unwrap_or(letters.len());
        match letters[end..].chars().next() {
            None => {}
            Some(letter) if values.contains(letter) && letters.len() == end + 1 => {
                words.next();
            }
            Some(letter) if values.contains(letter) => {}
            Some(_) => return true,
        }
    }
    false
}

fn is_harmless(word: &str) -> bool {
    let is_drive =
        word.len() > 2 && word[1..].starts_with([':']) && word[2..].starts_with(['/', '\\']);
    !is_drive
        && !word.contains(['*', '?', '[', ']'])
        && !word.starts_with(['/', '~'])
        && !word.starts_with('.')
}
