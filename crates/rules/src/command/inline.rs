//! Says whether words carry code or a command: what `tools.exec.strictInlineEval` asks about.
//!
//! Takes bare words, without facts about files. Wider than what the allowlist refuses: an option
//! that takes code counts wherever it stands before `--`, even behind a script's name.

use super::carriers::{Words, words_of_name};
use super::program::program_name;

/// Code in the words of a program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InlineCode {
    /// As typed.
    pub executable: String,
    /// As the tables know it.
    pub name: String,
    /// The option or verb that takes it; the program's name if it always does.
    pub flag: String,
}

/// Options that take code, as whole words.
const EXACT: &[(&[&str], &[&str])] = &[
    (&["python", "python2", "python3", "pypy", "pypy3"], &["-c"]),
    (&["node", "nodejs", "bun", "deno"], &["-e", "--eval", "-p", "--print"]),
    (&["ruby", "lua", "osascript"], &["-e"]),
    (&["perl"], &["-e", "-E"]),
    (&["php"], &["-r"]),
];

/// Looks for code in a program's words.
pub fn detect_inline_code(argv: &[String]) -> Option<InlineCode> {
    let executable = argv.first()?;
    let name = program_name(executable.trim());
    let hit = |flag: &str| InlineCode {
        executable: executable.trim().to_owned(),
        name: name.clone(),
        flag: flag.to_owned(),
    };
    let options = || argv.iter().skip(1).map(|word| word.trim()).take_while(|word| *word != "--");
    let flags = EXACT.iter().find(|(names, _)| names.contains(&name.as_str()));
    let exact = flags.and_then(|(_, flags)| options().find(|word| flags.contains(word)));
    if let Some(flag) = exact {
        return Some(hit(flag));
    }
    match words_of_name(&name, argv) {
        // An interpreter or a shell that reads its input carries nothing in its words.
        Words::Carrier(carrier) if carrier.by != name || argv.len() > 1 => Some(hit(&carrier.by)),
        Words::Carrier(_)
        | Words::Plain
        | Words::ShellScript(_)
        | Words::Script(_)
        | Words::Carried(_) => None,
    }
}
