//! The grammar of each safe bin's words.

use std::collections::BTreeSet;
use std::sync::LazyLock;

/// What a program's words may be.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Profile {
    min_positional: usize,
    /// `None`: any number.
    max_positional: Option<usize>,
    /// Options that take a value.
    values: BTreeSet<String>,
    /// Options without a value that change nothing but the output.
    flags: BTreeSet<String>,
    /// Options that are refused, and make a beginning of their name ambiguous.
    denied: BTreeSet<String>,
}

impl Profile {
    /// A grammar as a config writes it. Flags without a value cannot be written there.
    pub fn new(positional: (usize, Option<usize>), values: &[&str], denied: &[&str]) -> Self {
        let set = |words: &[&str]| words.iter().map(|word| word.trim().to_owned()).collect();
        Self {
            min_positional: positional.0,
            max_positional: positional.1,
            values: set(values),
            flags: BTreeSet::new(),
            denied: set(denied),
        }
    }

    /// Says whether the words (the program's name not among them) fit.
    pub(super) fn admits(&self, words: &[String]) -> bool {
        let mut positional = 0;
        let mut words = words.iter().map(String::as_str).peekable();
        while let Some(word) = words.next() {
            match word {
                "" | "-" => {}
                "--" => {
                    let rest: Vec<&str> =
                        words.by_ref().filter(|word| !matches!(*word, "" | "-")).collect();
                    if !rest.iter().all(|word| is_harmless(word)) {
                        return false;
                    }
                    positional += rest.len();
                }
                word if word.starts_with("--") => match self.long(word) {
                    Fit::Alone => {}
                    Fit::TakesNext if words.next().is_some_and(is_value) => {}
                    Fit::TakesNext | Fit::Refused => return false,
                },
                word if word.starts_with('-') => match self.cluster(word) {
                    Fit::Alone => {}
                    Fit::TakesNext if words.next().is_some_and(is_value) => {}
                    Fit::TakesNext | Fit::Refused => return false,
                },
                word if is_harmless(word) => positional += 1,
                _ => return false,
            }
        }
        positional >= self.min_positional
            && self.max_positional.is_none_or(|most| positional <= most)
    }

    /// A long option may be abbreviated, as far as only one known option begins so.
    fn long(&self, word: &str) -> Fit {
        let (flag, value) =
            word.split_once('=').map_or((word, None), |(flag, value)| (flag, Some(value)));
        let known = || [&self.values, &self.flags, &self.denied].into_iter().flatten();
        let mut beginnings =
            known().filter(|known| known.starts_with(flag) && known.starts_with("--"));
        let exact = known().find(|known| *known == flag);
        let abbreviated = beginnings.next().filter(|_| beginnings.next().is_none());
        let Some(name) = exact.or(abbreviated) else { return Fit::Refused };
        match value {
            _ if self.denied.contains(name) => Fit::Refused,
            Some(value) if self.values.contains(name) && is_harmless(value) => Fit::Alone,
            Some(_) => Fit::Refused,
            None if self.values.contains(name) => Fit::TakesNext,
            None => Fit::Alone,
        }
    }

    /// Every letter must be a flag; the last may take a value, glued to it or in the next word.
    fn cluster(&self, word: &str) -> Fit {
        let mut letters = word.strip_prefix('-').unwrap_or_default().chars();
        while let Some(letter) = letters.next() {
            let flag = format!("-{letter}");
            if self.denied.contains(&flag) {
                return Fit::Refused;
            }
            if self.values.contains(&flag) {
                return match letters.as_str() {
                    "" => Fit::TakesNext,
                    value if is_harmless(value) => Fit::Alone,
                    _ => Fit::Refused,
                };
            }
            if !self.flags.contains(&flag) {
                return Fit::Refused;
            }
        }
        Fit::Alone
    }
}

/// What an option comes to.
enum Fit {
    Alone,
    TakesNext,
    Refused,
}

/// Says whether a word names no file that a shell or a program could make of it.
fn is_harmless(word: &str) -> bool {
    let is_drive =
        matches!(word.as_bytes(), [letter, b':', b'/' | b'\\', ..] if letter.is_ascii_alphabetic());
    let word = word.trim();
    let is_path = ["/", "./", "../", "~"].iter().any(|start| word.starts_with(start));
    !word.contains(['*', '?', '[', ']']) && !is_path && !is_drive
}

fn is_value(word: &str) -> bool {
    !word.is_empty() && is_harmless(word)
}

/// The grammar of a program we know.
pub(super) fn built_in(name: &str) -> Option<&'static Profile> {
    static PROFILES: LazyLock<Vec<(&str, Profile)>> =
        LazyLock::new(|| TABLE.iter().map(|row| (row.name, row.profile())).collect());
    PROFILES.iter().find(|(known, _)| *known == name).map(|(_, profile)| profile)
}

/// A grammar as it stands in the table: options are words between blanks.
struct Row {
    name: &'static str,
    positional: (usize, usize),
    values: &'static str,
    flags: &'static str,
    denied: &'static str,
}

impl Row {
    fn profile(&self) -> Profile {
        let set = |words: &str| words.split_whitespace().map(str::to_owned).collect();
        Profile {
            min_positional: self.positional.0,
            max_positional: Some(self.positional.1),
            values: set(self.values),
            flags: set(self.flags),
            denied: set(self.denied),
        }
    }
}

/// What is in none of the columns is refused. `tail -f` never ends, and the other refused options
/// name files or programs.
const TABLE: &[Row] = &[
    Row {
        name: "cut",
        positional: (0, 0),
        values: "--bytes --characters --fields --delimiter --output-delimiter -b -c -f -d",
        flags: "--complement --only-delimited --zero-terminated -n -s -z",
        denied: "",
    },
    Row {
        name: "uniq",
        positional: (0, 0),
        values: "--skip-fields --skip-chars --check-chars --group -f -s -w",
        flags: "--count --repeated --unique --ignore-case --zero-terminated -c -d -u -i -z",
        denied: "",
    },
    Row {
        name: "head",
        positional: (0, 0),
        values: "--lines --bytes -n -c",
        flags: "--quiet --silent --verbose --zero-terminated -q -v -z",
        denied: "",
    },
    Row {
        name: "tail",
        positional: (0, 0),
        values: "--lines --bytes --sleep-interval --max-unchanged-stats --pid -n -c",
        flags: "--quiet --silent --verbose --zero-terminated -q -v -z",
        denied: "--follow --retry -f -F",
    },
    Row {
        name: "tr",
        positional: (1, 2),
        values: "",
        flags: "--complement --delete --squeeze-repeats --truncate-set1 -C -c -d -s -t",
        denied: "",
    },
    Row {
        name: "wc",
        positional: (0, 0),
        values: "",
        flags: "--bytes --chars --lines --max-line-length --words -L -c -l -m -w",
        denied: "--files0-from",
    },
    Row {
        name: "sort",
        positional: (0, 0),
        values: "--key --field-separator --buffer-size --parallel --batch-size -k -t -S",
        flags: "--numeric-sort --reverse --unique --ignore-case --zero-terminated --stable \
                -n -r -u -f -b -d -g -h -i -M -V -s -z",
        denied: "--compress-program --files0-from --output --random-source \
                 --temporary-directory -T -o",
    },
    Row {
        name: "grep",
        positional: (0, 0),
        values: "--regexp --max-count --after-context --before-context --context --devices \
                 --binary-files --exclude --include --label -e -m -A -B -C -D",
        flags: "--ignore-case --invert-match --word-regexp --line-regexp --count --quiet \
                --extended-regexp --fixed-strings --only-matching \
                -i -v -w -x -c -q -s -E -F -G -o -n -h -H -z",
        denied: "--file --exclude-from --dereference-recursive --directories --recursive \
                 -f -d -r -R",
    },
    Row {
        name: "jq",
        positional: (0, 1),
        values: "--arg --argjson --argstr",
        flags: "",
        denied: "--argfile --rawfile --slurpfile --from-file --library-path -L -f",
    },
];
