//! Where `exec-allowlist` rows are answered differently on purpose.

mod carriers;
mod decision;
mod model;
mod places;
mod safe_bins;
mod text;

use serde_json::{Value, json};

use super::{ANY, Rule};
use carriers::{Role, role};
pub(super) use decision::RULES as DECISIONS;
use model::{ours, refused};
use text::{Double, bare};

/// First what is not analysed at all, then what is read differently, then what is admitted.
pub(super) const RULES: &[Rule] = &[
    refusal_rule("unseen-characters-are-refused", has_unseen_characters),
    refusal_rule("comments-hide-no-lines", has_hidden_lines),
    refusal_rule("words-that-a-shell-cuts-otherwise", has_foreign_words),
    refusal_rule("pipes-have-two-sides", has_open_pipe),
    refusal_rule("operators-start-no-line", has_operator_at_line_start),
    Rule {
        name: "line-continuations-have-no-reason",
        category: ANY,
        applies: |input| analysed(input).contains("\\\n"),
        transform: |_, mut expected| {
            let reasons = ["unable to parse shell segment", "unterminated shell quote/escape"];
            if reasons.iter().any(|reason| expected["reason"] == *reason) {
                expected["reason"] = Value::Null;
            }
            expected
        },
    },
    refusal_rule("here-documents-are-plain", has_odd_here_document),
    command_rule("here-documents-are-input", has_here_document),
    command_rule("empty-words-are-words", has_empty_word),
    command_rule("wrappers-run", has_wrapper),
    command_rule("shells-are-read-by-table", has_shell),
    command_rule("programs-are-files", has_unknown_program),
    command_rule("carriers-need-bound-words", has_carrier),
    command_rule("passed-on-commands-run-directly", passes_on),
    command_rule("harmless-flags-of-safe-bins", has_safe_bin),
    Rule {
        name: "backslashes-are-ordinary",
        category: "glob",
        applies: |input| ["pattern", "target"].iter().any(|key| of(input, key).contains("\\\\")),
        transform: |input, _| json!({"matches": input["pattern"] == input["target"]}),
    },
    Rule {
        name: "code-in-every-form",
        category: "inline-eval",
        applies: |input| matches!(role(&argv(input)), Role::Carrier(_)),
        transform: code_in_every_form,
    },
    Rule {
        name: "no-trusted-installers",
        category: "obfuscation",
        applies: |input| {
            let command = of(input, "command");
            let pipe = command.rfind('|').unwrap_or_default();
            ["curl ", "wget "].iter().any(|tool| command[..pipe].contains(tool))
        },
        transform: no_trusted_installers,
    },
];

const fn refusal_rule(name: &'static str, applies: fn(&Value) -> bool) -> Rule {
    // What the reference does not analyse either keeps its reason.
    let transform = |_: &Value, expected: Value| {
        if expected["analysisOk"] == true { refused() } else { expected }
    };
    Rule { name, category: ANY, applies, transform }
}

const fn command_rule(name: &'static str, applies: fn(&Value) -> bool) -> Rule {
    Rule { name, category: ANY, applies, transform: |input, expected| ours(input, expected) }
}

fn of<'a>(input: &'a Value, key: &str) -> &'a str {
    input[key].as_str().unwrap_or_default()
}

/// The command of a row that asks for an analysis; empty for the others.
fn analysed(input: &Value) -> &str {
    if input["allowlist"].is_array() { of(input, "command") } else { "" }
}

fn argv(input: &Value) -> Vec<String> {
    let words = input["argv"].as_array().into_iter().flatten();
    words.filter_map(Value::as_str).map(str::to_owned).collect()
}

fn has_unseen_characters(input: &Value) -> bool {
    let command = analysed(input);
    let is_unseen = |c: char| {
        let is_blank = c.is_whitespace() || c == '\u{feff}';
        !matches!(c, ' ' | '\t' | '\n' | '\r') && (is_blank || c.is_control())
    };
    let ends_unseen = |(raw, _): &(String, Vec<String>)| {
        let backslashes = raw.chars().rev().take_while(|c| *c == '\\').count();
        backslashes % 2 == 1 && command.contains("\\ ")
    };
    bare(command, Double::Hidden).contains(is_unseen)
        || command.contains('\0')
        || segments(input).iter().any(ends_unseen)
}

fn has_hidden_lines(input: &Value) -> bool {
    let bare = bare(analysed(input), Double::Hidden);
    let mut before = ' ';
    for (index, character) in bare.char_indices() {
        if character == '#' && before.is_whitespace() {
            return bare[index..].contains(['\n', '\r']);
        }
        before = character;
    }
    false
}

/// `$'`, `$"`, `$[`, more than a name in `${…}`, and `#` right after a pipe or an escaped blank.
fn has_foreign_words(input: &Value) -> bool {
    let command = analysed(input);
    let outside = bare(command, Double::Hidden);
    let shown = bare(command, Double::Shown);
    let mut braces = shown.split("${").skip(1);
    let is_name = |text: &str| {
        let end = text.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(text.len());
        text[end..].starts_with('}')
    };
    let is_place = |text: &str| text.starts_with("FIX}") || text.starts_with("WORKSPACE}");
    braces.any(|text| !is_name(text) && !is_place(text))
        || ["$'", "$\"", "|#"].iter().any(|sign| outside.contains(sign))
        || ["\\ #", "\\\t#"].iter().any(|sign| command.contains(sign))
        || shown.contains("$[")
}

fn has_open_pipe(input: &Value) -> bool {
    let bare = bare(analysed(input), Double::Hidden).replace("&&", ";").replace("||", ";");
    let is_open = |part: &str| {
        let mut sides = part.split('|').map(|side| side.trim().is_empty());
        part.contains('|') && sides.any(|is_empty| is_empty)
    };
    !bare.contains("<<") && bare.split(';').any(is_open)
}

fn has_operator_at_line_start(input: &Value) -> bool {
    let bare = bare(analysed(input), Double::Hidden);
    let mut lines = bare.split('\n').skip(1);
    lines.any(|line| line.trim_start().starts_with(['&', ';', '|']))
}

fn has_here_document(input: &Value) -> bool {
    bare(analysed(input), Double::Hidden).contains("<<")
}

/// A delimiter that is not one plain word, a carriage return, text behind the end.
fn has_odd_here_document(input: &Value) -> bool {
    if !has_here_document(input) {
        return false;
    }
    let command = analysed(input);
    let line = command.lines().next().unwrap_or_default();
    let is_odd = |text: &str| {
        let text = text.strip_prefix('-').unwrap_or(text).trim_start_matches([' ', '\t']);
        let word = text.split([' ', '\t', '|', '<']).next().unwrap_or_default();
        let bare = word.strip_prefix(['\'', '"']).and_then(|word| word.strip_suffix(['\'', '"']));
        let bare = bare.unwrap_or(word);
        bare.is_empty() || !bare.chars().all(|c| c.is_ascii_alphanumeric() || "_-.".contains(c))
    };
    let number = line.split("<<").next().unwrap_or_default();
    let ends_open = |delimiter: &str| {
        let last = command.trim_end_matches('\n').lines().last().unwrap_or_default();
        last.trim_start_matches('\t') != delimiter
    };
    let last = line.rsplit("<<").next().unwrap_or_default();
    let last = last.strip_prefix('-').unwrap_or(last).trim_start();
    let last = last.split([' ', '\t', '|']).next().unwrap_or_default().trim_matches(['\'', '"']);
    command.contains('\r')
        || line.split("<<").skip(1).any(is_odd)
        || number.ends_with(|c: char| c.is_ascii_digit())
        || ends_open(last)
}

/// The text and the words of each segment.
fn segments(input: &Value) -> Vec<(String, Vec<String>)> {
    let command = analysed(input);
    let bare = text::without_comment(&bare(command, Double::Hidden)).to_owned();
    let mut segments = Vec::new();
    let mut start = 0;
    // Blanking replaces characters one by one, so it is positions of characters that agree.
    let characters: Vec<char> = command.chars().collect();
    for (index, character) in bare.chars().chain([';']).enumerate() {
        if matches!(character, '|' | '&' | ';') {
            let raw: String = characters.get(start..index).unwrap_or_default().iter().collect();
            segments.push((raw.trim().to_owned(), text::words(raw.trim())));
            start = index + 1;
        }
    }
    segments.retain(|(_, words)| !words.is_empty());
    segments
}

fn words_of_segments(input: &Value) -> Vec<Vec<String>> {
    segments(input).into_iter().map(|(_, words)| words).collect()
}

fn has_empty_word(input: &Value) -> bool {
    words_of_segments(input).iter().flatten().any(String::is_empty)
}

fn has_wrapper(input: &Value) -> bool {
    const WRAPPERS: &[&str] =
        &["env", "nice", "nohup", "stdbuf", "time", "timeout", "busybox", "toybox"];
    let is_wrapper = |words: &Vec<String>| {
        words.first().is_some_and(|word| WRAPPERS.contains(&text::name(word).as_str()))
    };
    words_of_segments(input).iter().any(is_wrapper)
}

/// A shell's options end at its script, and `-` ends them too.
fn has_shell(input: &Value) -> bool {
    let names_shell = |words: &Vec<String>| words.iter().any(|word| carriers::is_shell(word));
    words_of_segments(input).iter().any(names_shell)
}

fn has_unknown_program(input: &Value) -> bool {
    words_of_segments(input).iter().any(|words| match role(words) {
        Role::ShellScript(script) | Role::Script(script) => {
            places::script(input, &script).is_none()
        }
        Role::Plain | Role::Carrier(_) | Role::PassesOn(_) => {
            words.first().is_some_and(|word| places::program(input, word).is_none())
        }
    })
}

fn has_carrier(input: &Value) -> bool {
    let carries = |words: &Vec<String>| {
        let file = words.first().and_then(|word| places::program(input, word));
        let mut linked = words.clone();
        if let (Some(first), Some(file)) = (linked.first_mut(), file) {
            *first = file.real;
        }
        let starts = 0..words.len();
        role(&linked) != role(words)
            || matches!(role(&linked), Role::Carrier(_))
            || starts.into_iter().any(|start| matches!(role(&words[start..]), Role::Carrier(_)))
    };
    words_of_segments(input).iter().any(carries)
}

fn passes_on(input: &Value) -> bool {
    let passes = |words: &Vec<String>| {
        (0..words.len()).any(|start| matches!(role(&words[start..]), Role::PassesOn(_)))
    };
    words_of_segments(input).iter().any(passes)
}

fn has_safe_bin(input: &Value) -> bool {
    let bins: Vec<&str> =
        input["safeBins"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    let is_safe = |word: &String| bins.contains(&text::name(word).as_str());
    words_of_segments(input).iter().any(|words| words.first().is_some_and(is_safe))
}

/// An exact flag was recorded; every other form is found too.
fn code_in_every_form(input: &Value, expected: Value) -> Value {
    let argv = argv(input);
    let (Role::Carrier(flag), Some(program)) = (role(&argv), argv.first()) else { return expected };
    let name = text::name(program);
    if expected["hit"].is_object() || (flag == name && argv.len() < 2) {
        return expected;
    }
    json!({"hit": {"executable": program, "normalizedExecutable": name, "flag": flag}})
}

/// What is piped from the network into a shell is found wherever it comes from.
fn no_trusted_installers(_: &Value, mut expected: Value) -> Value {
    const ID: &str = "curl-pipe-shell";
    let Some(found) = expected["matchedPatterns"].as_array_mut() else { return expected };
    let goes_to_shell = found.iter().any(|id| id == "pipe-to-shell");
    if goes_to_shell && !found.iter().any(|id| id == ID) {
        found.push(json!(ID));
        if let Some(reasons) = expected["reasons"].as_array_mut() {
            reasons.push(json!("from the network into a shell"));
        }
    }
    expected
}
