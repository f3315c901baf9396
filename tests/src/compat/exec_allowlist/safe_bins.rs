//! Which words of a safe bin are harmless, as test code sees it.

use serde_json::Value;

/// By program: letters without a value, letters with one.
const TABLE: &[(&str, &str, &str)] = &[
    ("cut", "nsz", "bcfd"),
    ("uniq", "cduiz", "fsw"),
    ("head", "qvz", "nc"),
    ("tail", "qvz", "nc"),
    ("tr", "Ccdst", ""),
    ("wc", "Lclmw", ""),
    ("sort", "nrufbdghiMVsz", "ktS"),
    ("grep", "ivwxcqsEFGonhHz", "emABCD"),
    ("jq", "", ""),
];

/// By program: long options without a value, with one, and refused ones, which make a beginning
/// ambiguous.
const LONG: &[(&str, &str, &str, &str)] = &[
    (
        "cut",
        "--complement --only-delimited --zero-terminated",
        "--bytes --characters --fields --delimiter --output-delimiter",
        "",
    ),
    (
        "uniq",
        "--count --repeated --unique --ignore-case --zero-terminated",
        "--skip-fields --skip-chars --check-chars --group",
        "",
    ),
    ("head", "--quiet --silent --verbose --zero-terminated", "--lines --bytes", ""),
    (
        "tail",
        "--quiet --silent --verbose --zero-terminated",
        "--lines --bytes --sleep-interval --max-unchanged-stats --pid",
        "--follow --retry",
    ),
    ("tr", "--complement --delete --squeeze-repeats --truncate-set1", "", ""),
    ("wc", "--bytes --chars --lines --max-line-length --words", "", "--files0-from"),
    (
        "sort",
        "--numeric-sort --reverse --unique --ignore-case --zero-terminated --stable",
        "--key --field-separator --buffer-size --parallel --batch-size",
        "--compress-program --files0-from --output --random-source --temporary-directory",
    ),
    (
        "grep",
        "--ignore-case --invert-match --word-regexp --line-regexp --count --quiet \
         --extended-regexp --fixed-strings --only-matching",
        "--regexp --max-count --after-context --before-context --context --devices \
         --binary-files --exclude --include --label",
        "--file --exclude-from --dereference-recursive --directories --recursive",
    ),
    (
        "jq",
        "",
        "--arg --argjson --argstr",
        "--argfile --rawfile --slurpfile --from-file --library-path",
    ),
];

/// A program's grammar: its letters, its long options, how many words may be no option.
struct Grammar {
    flags: Vec<String>,
    values: Vec<String>,
    denied: Vec<String>,
    positional: (u64, u64),
}

impl Grammar {
    fn of(input: &Value, name: &str) -> Option<Self> {
        let texts = |value: &Value| -> Vec<String> {
            let items = value.as_array().into_iter().flatten().filter_map(Value::as_str);
            items.map(|text| text.trim().to_owned()).collect()
        };
        let profile = &input["safeBinProfiles"][name];
        if profile.is_object() {
            let least = profile["minPositional"].as_u64().unwrap_or(0);
            let most = profile["maxPositional"].as_u64().unwrap_or(u64::MAX);
            return Some(Self {
                flags: Vec::new(),
                values: texts(&profile["allowedValueFlags"]),
                denied: texts(&profile["deniedFlags"]),
                positional: (least, most),
            });
        }
        let (_, flags, values) = TABLE.iter().find(|(known, _, _)| *known == name)?;
        let (_, long_flags, long_values, denied) =
            LONG.iter().find(|(known, _, _, _)| *known == name)?;
        let join = |letters: &str, long: &str| -> Vec<String> {
            let letters = letters.chars().map(|letter| format!("-{letter}"));
            letters.chain(long.split_whitespace().map(str::to_owned)).collect()
        };
        let positional = match name {
            "tr" => (1, 2),
            "jq" => (0, 1),
            _ => (0, 0),
        };
        Some(Self {
            flags: join(flags, long_flags),
            values: join(values, long_values),
            denied: join("", denied),
            positional,
        })
    }

    /// The long option that a word is, or begins as the only one.
    fn long(&self, word: &str) -> Option<&String> {
        let known = || [&self.flags, &self.values, &self.denied].into_iter().flatten();
        let mut beginnings =
            known().filter(|known| known.starts_with("--") && known.starts_with(word));
        let only = beginnings.next().filter(|_| beginnings.next().is_none());
        known().find(|known| *known == word).or(only)
    }
}

/// Says whether a safe bin's words are harmless by its grammar.
pub(super) fn admits(input: &Value, name: &str, words: &[String]) -> bool {
    let is_named = input["safeBins"].as_array().into_iter().flatten();
    let is_named =
        is_named.filter_map(Value::as_str).any(|bin| bin.trim().eq_ignore_ascii_case(name));
    let Some(grammar) = Grammar::of(input, name).filter(|_| is_named) else { return false };
    let mut positional = 0;
    let mut only_words = false;
    let mut rest = words.iter().map(String::as_str);
    while let Some(word) = rest.next() {
        let mut takes_value = || rest.next().is_some_and(|v| !v.is_empty() && is_harmless(v));
        let fits = match word {
            "" | "-" => true,
            word if only_words || !word.starts_with('-') => {
                positional += 1;
                is_harmless(word)
            }
            "--" => {
                only_words = true;
                true
            }
            word if word.starts_with("--") => {
                let (flag, value) = match word.split_once('=') {
                    Some((flag, value)) => (flag, Some(value)),
                    None => (word, None),
                };
                match (grammar.long(flag), value) {
                    (Some(known), _) if grammar.denied.contains(known) => false,
                    (Some(known), Some(value)) => {
                        grammar.values.contains(known) && is_harmless(value)
                    }
                    (Some(known), None) => !grammar.values.contains(known) || takes_value(),
                    (None, _) => false,
                }
            }
            cluster => {
                let mut letters = cluster.chars().skip(1);
                let stop = letters.find(|letter| !grammar.flags.contains(&format!("-{letter}")));
                let value: String = letters.collect();
                match stop {
                    None => true,
                    Some(letter) if grammar.values.contains(&format!("-{letter}")) => {
                        if value.is_empty() { takes_value() } else { is_harmless(&value) }
                    }
                    Some(_) => false,
                }
            }
        };
        if !fits {
            return false;
        }
    }
    (grammar.positional.0..=grammar.positional.1).contains(&positional)
}

fn is_harmless(word: &str) -> bool {
    let is_drive =
        matches!(word.as_bytes(), [letter, b':', b'/' | b'\\', ..] if letter.is_ascii_alphabetic());
    let is_path = ["/", "./", "../", "~"].iter().any(|start| word.trim().starts_with(start));
    !is_drive && !is_path && !word.contains(['*', '?', '[', ']'])
}
