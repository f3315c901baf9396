//! Which words run something else, as test code sees it: enough for the programs of the fixture.

use super::text::name;

/// Programs that always do.
const ALWAYS: &[&str] =
    &["awk", "mawk", "xargs", "make", "ssh", "npm", "npx", "less", "vim", "rsync", "scp"];
const SHELLS: &[&str] =
    &["ash", "bash", "dash", "fish", "ksh", "sh", "zsh", "cmd", "powershell", "pwsh"];

/// What a program's words come to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Role {
    Plain,
    /// Runs code or a command; with the word that says so.
    Carrier(String),
    /// A shell or an interpreter with a file: the file.
    ShellScript(String),
    Script(String),
    /// A shell that passes on these words.
    PassesOn(Vec<String>),
}

pub(super) fn is_shell(word: &str) -> bool {
    SHELLS.contains(&name(word).as_str())
}

/// Looks at the words of a program.
pub(super) fn role(argv: &[String]) -> Role {
    let program = argv.first().map(|word| name(word)).unwrap_or_default();
    let words = argv.get(1..).unwrap_or_default();
    let has = |wanted: &[&str]| words.iter().find(|word| wanted.contains(&word.as_str())).cloned();
    let starts = |wanted: &[&str]| {
        let is_one = |word: &&String| wanted.iter().any(|start| word.starts_with(start));
        words.iter().find(is_one).map(|word| word.split('=').next().unwrap_or(word).to_owned())
    };
    // A beginning of a long option stands for the whole.
    let long = |wanted: &[&str]| beginning(words, wanted);
    let by = match program.as_str() {
        shell if SHELLS.contains(&shell) => return shell_role(shell, words),
        "find" => {
            has(&["-exec", "-execdir", "-ok", "-okdir", "-delete", "-fprint", "-fprintf", "-fls"])
        }
        "git" => git(words),
        "tar" => tar(words),
        "rg" => long(&["--pre", "--hostname-bin"]),
        "sort" => long(&["--compress-program"]),
        "docker" => has(&["run", "exec", "create", "build", "buildx", "compose", "cp"]),
        "kubectl" => has(&["exec", "run", "debug", "cp"]),
        "wget" => long(&["--execute", "--use-askpass"]).or_else(|| starts(&["-e"])),
        "openssl" => has(&["-engine", "-provider", "engine"]),
        "sed" => sed(words),
        program if ALWAYS.contains(&program) => Some(program.to_owned()),
        program => return interpreter(program, words),
    };
    by.map_or(Role::Plain, Role::Carrier)
}

fn git(words: &[String]) -> Option<String> {
    const LONG: &[&str] = &[
        "--config-env",
        "--exec",
        "--exec-path",
        "--ext-diff",
        "--extcmd",
        "--open-files-in-pager",
        "--receive-pack",
        "--textconv",
        "--tool",
        "--upload-pack",
    ];
    /// What git does without another program.
    const OWN: &str = " add annotate apply blame branch cat-file check-attr check-ignore checkout \
        cherry cherry-pick clean commit count-objects describe diff diff-files diff-index diff-tree \
        for-each-ref fsck grep hash-object init log ls-files ls-tree merge merge-base mv name-rev notes \
        range-diff rebase reflog reset restore rev-list rev-parse revert rm shortlog show show-branch \
        show-ref stash status switch symbolic-ref tag update-index update-ref version whatchanged \
        worktree write-tree ";
    if words.iter().any(|word| word == "--help") {
        return Some("--help".to_owned());
    }
    let long = beginning(words, LONG);
    let mut verb = None;
    let mut rest = words.iter();
    while let Some(word) = rest.next() {
        match word.as_str() {
            "-C" | "--git-dir" | "--work-tree" | "--namespace" => drop(rest.next()),
            word if word.starts_with("-c") => return Some("-c".to_owned()),
            word if word.starts_with('-') => {}
            word => {
                verb = Some(word.to_owned());
                break;
            }
        }
    }
    let runs = |letter: &str| rest.clone().any(|word| word.starts_with(letter));
    let short = match verb.as_deref() {
        Some("clone" | "ls-remote" | "fetch-pack") if runs("-u") => Some("-u".to_owned()),
        Some("clone") if runs("-c") => Some("-c".to_owned()),
        Some("rebase") if runs("-x") => Some("-x".to_owned()),
        Some("rebase") if runs("-i") => Some("-i".to_owned()),
        Some("grep") if runs("-O") => Some("-O".to_owned()),
        _ => None,
    };
    long.or(short).or(verb.filter(|verb| !OWN.contains(&format!(" {verb} "))))
}

/// The long option of which one of the words before `--` is a beginning.
fn beginning(words: &[String], wanted: &[&str]) -> Option<String> {
    let options = words.iter().take_while(|word| *word != "--");
    let mut flags =
        options.filter(|word| word.starts_with("--")).map(|word| word.split('=').next());
    flags
        .find_map(|flag| wanted.iter().find(|long| long.starts_with(flag.unwrap_or("?"))))
        .map(|long| (*long).to_owned())
}

fn tar(words: &[String]) -> Option<String> {
    const LONG: &[&str] = &[
        "--to-command",
        "--use-compress-program",
        "--checkpoint-action",
        "--info-script",
        "--new-volume-script",
        "--rsh-command",
        "--rmt-command",
        "--auto-compress",
        "--bzip2",
        "--compress",
        "--gunzip",
        "--gzip",
        "--lzip",
        "--lzma",
        "--lzop",
        "--uncompress",
        "--ungzip",
        "--xz",
        "--zstd",
    ];
    let is_remote = |word: &&String| {
        word.split(':').next().is_some_and(|h| h.len() < word.len() && !h.contains('/'))
    };
    let remote = words.iter().find(is_remote).cloned();
    let option = words.iter().enumerate().find_map(|(index, word)| {
        if word.starts_with("--") {
            let flag = word.split('=').next().unwrap_or(word);
            return LONG.iter().find(|long| long.starts_with(flag)).map(|long| (*long).to_owned());
        }
        let letters = if index == 0 { Some(word.as_str()) } else { word.strip_prefix('-') };
        letters?.chars().find(|c| "IFzjJZa".contains(*c)).map(|c| format!("-{c}"))
    });
    option.or(remote)
}

/// A substitution with harmless flags, or one letter after an address, edits text only.
fn sed(words: &[String]) -> Option<String> {
    let script = words.iter().find(|word| !word.starts_with('-'));
    if let Some(flag) = words.iter().find(|w| {
        w.starts_with('-') && !["-n", "-E", "-r", "-e", "--version", "--help"].contains(&w.as_str())
    }) {
        return Some(flag.clone());
    }
    let is_plain = script.is_none_or(|script| {
        let address = script.trim_end_matches(['p', 'd', 'q', '=']);
        let is_line = address.len() + 1 == script.len()
            && address.chars().all(|c| c.is_ascii_digit() || c == ',' || c == '$');
        let parts: Vec<&str> = script.split('/').collect();
        let is_substitution = matches!(parts.as_slice(), ["s", _, _, flags] if flags.chars().all(|c| "gpiI".contains(c)));
        is_line || (is_substitution && !script.contains(['[', '\\', '\n']))
    });
    (!is_plain).then(|| "sed".to_owned())
}

fn shell_role(shell: &str, words: &[String]) -> Role {
    let is_posix = !["fish", "cmd", "powershell", "pwsh"].contains(&shell);
    let mut rest = words.iter().enumerate();
    let mut reads_input = false;
    while let Some((index, word)) = rest.next() {
        let is_cluster = word.starts_with('-') && !word.starts_with("--");
        if !is_posix && shell != "fish" {
            return Role::Carrier(word.clone());
        }
        if (is_cluster && word.contains('c')) || word.starts_with("--command") {
            let after = words.get(index + 1..).unwrap_or_default();
            let passed = passes_on(after).filter(|_| is_posix && word.ends_with('c'));
            return passed.map_or(Role::Carrier(word.clone()), Role::PassesOn);
        }
        match word.as_str() {
            "--" => break,
            "-o" | "-O" | "+o" | "+O" if is_posix => drop(rest.next()),
            "-s" if is_posix => reads_input = true,
            "--posix" | "--norc" | "--noprofile" | "--verbose" if is_posix => {}
            word if is_posix && word.starts_with(['-', '+']) && !word.starts_with("--") => {
                if !word[1..].chars().all(|c| "abefhkmnptuvxBCEHPT".contains(c)) {
                    return Role::Carrier(word.to_owned());
                }
            }
            word if word.starts_with('-') => return Role::Carrier(word.to_owned()),
            word if reads_input || word.is_empty() => return Role::Carrier(shell.to_owned()),
            word => return Role::ShellScript(word.to_owned()),
        }
    }
    match rest.next() {
        Some((_, word)) if !reads_input => Role::ShellScript(word.clone()),
        _ => Role::Carrier(shell.to_owned()),
    }
}

/// `[exec [--]] $0 …` with parameters only.
fn passes_on(after: &[String]) -> Option<Vec<String>> {
    let (payload, parameters) = after.split_first()?;
    if payload.contains(['\n', '\r']) {
        return None;
    }
    let mut argv = Vec::new();
    let body = payload.trim().strip_prefix("exec ").unwrap_or(payload.trim()).trim_start();
    let body = body.strip_prefix("-- ").filter(|_| payload.contains("exec")).unwrap_or(body);
    for (index, word) in body.split_whitespace().enumerate() {
        let inner = word.strip_prefix('"').and_then(|word| word.strip_suffix('"'));
        let values: Vec<String> = match inner.unwrap_or(word) {
            "$0" if index == 0 => parameters.first().cloned().into_iter().collect(),
            "$@" | "$*" if index > 0 => parameters.get(1..).unwrap_or_default().to_vec(),
            other if index > 0 => {
                let number: usize =
                    other.strip_prefix('$').filter(|n| n.len() == 1)?.parse().ok()?;
                parameters.get(number).filter(|_| number > 0).cloned().into_iter().collect()
            }
            _ => return None,
        };
        let is_special = |c: char| c.is_whitespace() || "*?[]\\".contains(c);
        if inner.is_none() && values.iter().any(|v| v.is_empty() || v.contains(is_special)) {
            return None;
        }
        match inner {
            Some("$*") => argv.push(values.join(" ")),
            Some(quoted) if values.is_empty() && quoted != "$@" => argv.push(String::new()),
            _ => argv.extend(values),
        }
    }
    let first = argv.first().filter(|first| !first.is_empty())?;
    let is_more = is_shell(first)
        || role(&argv) != Role::Plain
        || [
            "env", "nice", "nohup", "stdbuf", "time", "timeout", "sudo", "doas", "setsid",
            "busybox", "toybox",
        ]
        .contains(&name(first).as_str());
    (!is_more).then_some(argv)
}

/// The options of interpreters that take code, and those that are harmless.
fn interpreter(program: &str, words: &[String]) -> Role {
    let bare = program.trim_end_matches(|c: char| c.is_ascii_digit() || c == '.');
    let (code, flags, about, long, verbs): (&str, &str, &str, &[&str], &[&str]) = match bare {
        "python" | "pypy" => ("cmW", "bBdEIOPqsSuvx", "Vh", &[], &[]),
        "node" | "nodejs" => {
            ("epr", "", "vh", &["--eval", "--print", "--require", "--import"], &["inspect"])
        }
        "bun" => (
            "epr",
            "b",
            "vh",
            &["--eval", "--print", "--preload"],
            &["x", "exec", "test", "install", "add"],
        ),
        "deno" => {
            ("ep", "q", "Vh", &["--eval", "--print"], &["eval", "repl", "task", "test", "install"])
        }
        "ruby" => ("er", "vwW", "h", &["--require"], &[]),
        "perl" => ("eEmMdD", "cstTuUwWX", "vVh", &[], &[]),
        "php" => ("rBREFd", "nq", "vhim", &["--run"], &[]),
        "lua" => ("el", "EW", "v", &[], &[]),
        "osascript" => ("e", "", "", &[], &[]),
        _ => return Role::Plain,
    };
    let mut tells = false;
    let mut runs = false;
    let mut rest = words.iter().peekable();
    while let Some(word) = rest.next() {
        match word.as_str() {
            "" | "-" => return Role::Carrier(program.to_owned()),
            "--" => {
                let script = rest.next().filter(|word| !word.is_empty() && *word != "-");
                return script
                    .map_or(Role::Carrier(program.to_owned()), |w| Role::Script(w.clone()));
            }
            "--version" | "--help" => tells = true,
            word if word.starts_with("--") => {
                let flag = word.split('=').next().unwrap_or(word);
                let known =
                    long.iter().find(|known| known.starts_with(flag)).map(|k| (*k).to_owned());
                return Role::Carrier(known.unwrap_or(flag.to_owned()));
            }
            word if word.starts_with('-') => {
                for letter in word.chars().skip(1) {
                    if code.contains(letter) {
                        return Role::Carrier(format!("-{letter}"));
                    }
                    if bare == "python" && letter == 'X' {
                        if word.ends_with(letter) {
                            rest.next();
                        }
                        break;
                    }
                    tells |= about.contains(letter);
                    if !flags.contains(letter) && !about.contains(letter) {
                        return Role::Carrier(word.to_owned());
                    }
                }
            }
            word if verbs.contains(&word) && !runs => return Role::Carrier(word.to_owned()),
            "run" if matches!(bare, "bun" | "deno") && !runs => runs = true,
            _ if tells => return Role::Plain,
            word => return Role::Script(word.to_owned()),
        }
    }
    if tells { Role::Plain } else { Role::Carrier(program.to_owned()) }
}
