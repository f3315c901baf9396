//! What a shell is told to run: text, a file, its input, or just another command.
//!
//! The text of `-c` is never analysed. One form is looked through: `sh -c '"$0" "$@"' ls -la` names
//! a program and passes words on; it is worked out here and runs without the shell. A file is named
//! by the first word that is no option; options are a table, and one that is not in it (a start-up
//! file, a login, an interactive shell) means we do not know what runs.

use super::carriers::bare_name;

/// Shells that read POSIX options and text.
const POSIX: &[&str] = &[
    "ash", "bash", "dash", "ksh", "lksh", "mksh", "pdksh", "posh", "rbash", "rksh", "rzsh", "sash",
    "sh", "yash", "zsh",
];
/// Shells with options of their own.
const OTHER: &[&str] = &[
    "fish",
    "cmd",
    "powershell",
    "pwsh",
    "csh",
    "tcsh",
    "elvish",
    "es",
    "ion",
    "nu",
    "osh",
    "rc",
    "xonsh",
    "ysh",
];
/// Options that change nothing about what is run.
const PLAIN_LETTERS: &str = "abefhkmnptuvxBCEHPT";
const PLAIN_WORDS: &[&str] =
    &["--posix", "--norc", "--noprofile", "--noediting", "--verbose", "--restricted", "--emacs"];

/// A shell's command line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Form {
    /// Text given to an option.
    Inline { flag: String },
    /// A payload that only passes words on: the words of the command it comes to.
    Carried(Vec<String>),
    /// A file to run: the number of its word.
    Script(usize),
    /// Whatever it reads from its input.
    Input,
    /// An option that is not known to be harmless.
    Other { flag: String },
}

/// Says whether a name is a shell's, with or without a version: `zsh-5.9`, `bash-static`.
pub(super) fn is_shell(name: &str) -> bool {
    let is_one = |name: &str| POSIX.contains(&name) || OTHER.contains(&name);
    is_one(name) || is_one(bare_name(name))
}

/// Reads a shell's words. `name` is the shell's.
pub(super) fn form(name: &str, argv: &[String]) -> Form {
    let name = if POSIX.contains(&name) || OTHER.contains(&name) { name } else { bare_name(name) };
    let takes_options = POSIX.contains(&name);
    let mut reads_input = false;
    let mut index = 1;
    while let Some(word) = argv.get(index) {
        let letters = word.strip_prefix(['-', '+']).unwrap_or_default();
        if word == "--" || word == "-" {
            index += 1;
            break;
        }
        if letters.is_empty() {
            break;
        }
        let is_cluster = !word.starts_with("--");
        if is_inline(name, word) {
            let carried = takes_options.then(|| carried(letters, argv.get(index + 1..))).flatten();
            return carried.map_or_else(|| Form::Inline { flag: word.clone() }, Form::Carried);
        }
        if !takes_options {
            return Form::Other { flag: word.clone() };
        }
        match letters {
            "o" | "O" => index += 1,
            "s" => reads_input = true,
            letters if is_cluster && letters.chars().all(|c| PLAIN_LETTERS.contains(c)) => {}
            _ if PLAIN_WORDS.contains(&word.as_str()) => {}
            _ => return Form::Other { flag: word.clone() },
        }
        index += 1;
    }
    match argv.get(index) {
        Some(word) if !reads_input && !word.is_empty() => match name {
            "fish" => Form::Script(index),
            name if OTHER.contains(&name) => Form::Inline { flag: word.clone() },
            _ => Form::Script(index),
        },
        Some(_) | None => Form::Input,
    }
}

fn is_inline(name: &str, word: &str) -> bool {
    if OTHER.contains(&name) && name != "fish" {
        return true;
    }
    let is_cluster = word.starts_with('-') && !word.starts_with("--");
    (is_cluster && word.contains('c')) || word.starts_with("--command") || word == "--init-command"
}

/// The command that a payload of parameters only comes to; `None` if it is anything else. `after` is
/// what follows the option.
fn carried(letters: &str, after: Option<&[String]>) -> Option<Vec<String>> {
    // Text glued to the letter, as in `-cls`, is another thing in every shell.
    letters.ends_with('c').then_some(())?;
    let (payload, parameters) = after?.split_first()?;
    let mut words = payload.split([' ', '\t']).filter(|word| !word.is_empty()).peekable();
    if words.next_if_eq(&"exec").is_some() {
        words.next_if_eq(&"--");
    }
    let mut argv = Vec::new();
    for (index, word) in words.enumerate() {
        let unquoted = word.strip_prefix('"').and_then(|word| word.strip_suffix('"'));
        let name = unquoted.unwrap_or(word).strip_prefix('$')?;
        let mut values = values(name, parameters)?;
        if (name == "0") != (index == 0) {
            return None;
        }
        match (unquoted, name) {
            (Some(_), "*") => argv.push(values.join(" ")),
            (Some(_), _) => {
                // A quoted parameter that is not there is an empty word; `"$@"` is none.
                if values.is_empty() && name != "@" {
                    values.push(String::new());
                }
                argv.extend(values);
            }
            (None, _) => {
                if !values.iter().all(|value| survives_splitting(value)) {
                    return None;
                }
                argv.extend(values);
            }
        }
    }
    argv.first().is_some_and(|program| !program.is_empty()).then_some(argv)
}

/// What a parameter stands for; `None` if it is not one of `$0` to `$9`, `$@` and `$*`.
fn values(name: &str, parameters: &[String]) -> Option<Vec<String>> {
    let after_first = parameters.get(1..).unwrap_or_default();
    match name {
        "@" | "*" => Some(after_first.to_vec()),
        digit if digit.len() == 1 => {
            let number: usize = digit.parse().ok()?;
            Some(parameters.get(number).cloned().into_iter().collect())
        }
        _ => None,
    }
}

/// Says whether a shell would pass a value on unchanged where the parameter is not quoted: it would
/// cut it at blanks, match it against files, and drop it if it is empty.
fn survives_splitting(value: &str) -> bool {
    let is_special = |c: char| c.is_whitespace() || matches!(c, '*' | '?' | '[' | ']' | '\\');
    !value.is_empty() && !value.contains(is_special)
}
