//! Which programs run something else because of a word they are given.
//!
//! An entry of the allowlist names a program; it says nothing about the code or the command in its
//! words. So `find -exec`, `git -c`, `xargs`, `awk '…'`, `python3 -c` and their like are never
//! admitted by a path alone, only by an entry that is bound to the exact words. The table knows the
//! well-known ones; it is no proof that a program it does not know runs nothing else.

mod always;
mod git;
mod sed_script;

use always::ALWAYS;
pub(super) use git::agent_settings;

use super::interpreters;
use super::program::Program;
use super::shell;

/// A command inside the words of another.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Carrier {
    /// The program, as the table knows it.
    pub program: String,
    /// The word that carries: an option, a verb, or the program itself if it always does.
    pub by: String,
}

/// What a program's words come to, without facts about files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Words {
    Plain,
    Carrier(Carrier),
    /// A shell's script: the number of its word.
    ShellScript(usize),
    /// An interpreter's script.
    Script(usize),
    /// The words of a command that a shell only passes on.
    Carried(Vec<String>),
}

/// How a program carries.
enum Rule {
    Always,
    /// One of these words stands anywhere.
    Words(&'static [&'static str]),
    /// One of these options: letters in a cluster, long options or beginnings of them.
    Options {
        letters: &'static str,
        long: &'static [&'static str],
    },
    Git,
    Tar,
    Sed,
}

fn rule(name: &str) -> Option<Rule> {
    let options = |letters, long| Rule::Options { letters, long };
    Some(match name {
        "find" => Rule::Words(&[
            "-exec", "-execdir", "-ok", "-okdir", "-delete", "-fls", "-fprint", "-fprint0",
            "-fprintf",
        ]),
        "fd" | "fdfind" => options("xX", &["--exec", "--exec-batch"]),
        "git" => Rule::Git,
        "tar" | "bsdtar" | "gtar" => Rule::Tar,
        "sed" | "gsed" => Rule::Sed,
        "rg" => options("", &["--pre", "--hostname-bin"]),
        "sort" => options("", &["--compress-program"]),
        "install" => options("s", &["--strip", "--strip-program"]),
        "cpio" => options("F", &["--rsh-command", "--file"]),
        "file" => options("zZ", &["--uncompress", "--uncompress-noreport"]),
        "wget" => options("e", &["--execute", "--use-askpass"]),
        "openssl" => Rule::Words(&["-engine", "-provider", "-provider-path", "engine"]),
        "docker" | "podman" | "nerdctl" => {
            Rule::Words(&["run", "exec", "create", "build", "buildx", "compose", "cp"])
        }
        "ip" => Rule::Words(&["exec", "-batch", "-b"]),
        "nc" | "ncat" | "netcat" => options("ec", &["--exec", "--sh-exec", "--lua-exec"]),
        "kubectl" => Rule::Words(&["exec", "run", "debug", "cp"]),
        "zip" => options("T", &["--unzip-command"]),
        "split" => options("", &["--filter"]),
        "tcpdump" => options("z", &[]),
        "pip" | "pip3" | "uv" | "gem" | "bundle" | "cpan" => Rule::Always,
        name if ALWAYS.binary_search(&name).is_ok() => Rule::Always,
        // The dynamic loader starts whatever it is given.
        name if ["ld-linux", "ld-musl", "ld.so"].iter().any(|start| name.starts_with(start)) => {
            Rule::Always
        }
        _ => return None,
    })
}

/// Looks at the words of a program, by each of the names it goes by.
pub(super) fn words_of(program: &Program, argv: &[String]) -> Words {
    let mut words = Words::Plain;
    for name in program.names() {
        let found = words_of_name(&name, argv);
        match found {
            Words::Carrier(_) => return found,
            Words::Plain => {}
            Words::ShellScript(_) | Words::Script(_) | Words::Carried(_) => {
                if words == Words::Plain {
                    words = found;
                }
            }
        }
    }
    words
}

/// Looks at the words of a program that is called `name`.
pub(super) fn words_of_name(name: &str, argv: &[String]) -> Words {
    let carrier = |by: String| Words::Carrier(Carrier { program: name.to_owned(), by });
    if shell::is_shell(name) {
        return match shell::form(name, argv) {
            shell::Form::Inline { flag } | shell::Form::Other { flag } => carrier(flag),
            shell::Form::Input => carrier(name.to_owned()),
            shell::Form::Script(index) => Words::ShellScript(index),
            shell::Form::Carried(argv) => Words::Carried(argv),
        };
    }
    if let Some(form) = interpreters::form(name, argv) {
        return match form {
            interpreters::Form::Code { flag } | interpreters::Form::Other { flag } => carrier(flag),
            interpreters::Form::Input => carrier(name.to_owned()),
            interpreters::Form::Script(index) => Words::Script(index),
            interpreters::Form::About => Words::Plain,
        };
    }
    let rule = rule(name).or_else(|| rule(bare_name(name)));
    rule.and_then(|rule| rule.carries(name, argv)).map_or(Words::Plain, carrier)
}

/// A name without what a version, a variant or a platform adds to it: `gcc-12`, `vim.basic`.
pub(super) fn bare_name(name: &str) -> &str {
    let end = name.find(|c: char| c.is_ascii_digit() || matches!(c, '.' | '-' | '_'));
    name.get(..end.unwrap_or(name.len())).unwrap_or(name)
}

impl Rule {
    /// The word that carries, if one does.
    fn carries(&self, name: &str, argv: &[String]) -> Option<String> {
        let words = argv.get(1..).unwrap_or_default();
        match self {
            Self::Always => Some(name.to_owned()),
            Self::Words(carrying) => {
                words.iter().find(|word| carrying.contains(&word.as_str())).cloned()
            }
            Self::Options { letters, long } => option(words, letters, long),
            Self::Git => git::carries(words),
            Self::Tar => tar(words),
            Self::Sed => sed_script::carries(words),
        }
    }
}

/// The first option among the words that carries. A long option may be abbreviated, so every
/// beginning of one counts; a letter counts anywhere in a cluster, even as the value of another.
fn option(words: &[String], letters: &str, long: &[&str]) -> Option<String> {
    let options = words.iter().take_while(|word| *word != "--");
    options.into_iter().find_map(|word| {
        if word.starts_with("--") {
            let flag = word.split('=').next().unwrap_or(word);
            return long
                .iter()
                .find(|known| known.starts_with(flag))
                .map(|known| (*known).to_owned());
        }
        let cluster = word.strip_prefix('-')?;
        let letter = cluster.chars().find(|letter| letters.contains(*letter))?;
        Some(format!("-{letter}"))
    })
}

/// `tar` takes its letters with or without a dash in the first word. It also starts whatever packs
/// and unpacks for it, by name.
fn tar(words: &[String]) -> Option<String> {
    const LETTERS: &str = "IFzjJZa";
    const LONG: &[&str] = &[
        "--auto-compress",
        "--bzip2",
        "--checkpoint-action",
        "--compress",
        "--gunzip",
        "--gzip",
        "--info-script",
        "--lzip",
        "--lzma",
        "--lzop",
        "--new-volume-script",
        "--rmt-command",
        "--rsh-command",
        "--to-command",
        "--uncompress",
        "--ungzip",
        "--use-compress-program",
        "--xz",
        "--zstd",
    ];
    let bundled = words.first().filter(|word| !word.starts_with('-'));
    let bundled = bundled.and_then(|word| word.chars().find(|letter| LETTERS.contains(*letter)));
    // An archive on another machine is reached through a remote shell.
    let is_remote = |word: &&String| word.split_once(':').is_some_and(|(h, _)| !h.contains('/'));
    let remote = || words.iter().find(is_remote).cloned();
    bundled
        .map(|letter| format!("-{letter}"))
        .or_else(|| option(words, LETTERS, LONG))
        .or_else(remote)
}
