//! Which programs run something else because of a word they are given.
//!
//! An entry of the allowlist names a program; it says nothing about the code or the command in its
//! words. So `find -exec`, `git -c`, `xargs`, `awk '…'`, `python3 -c` and their like are never
//! admitted by a path alone, only by an entry that is bound to the exact words. The table knows the
//! well-known ones; it is no proof that a program it does not know runs nothing else.

mod sed_script;

use super::Runs;
use super::interpreters;
use super::program::{Program, ProgramFiles};
use super::shell;
use crate::posix;

/// A command inside the words of another.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Carrier {
    /// The program, as the table knows it.
    pub program: String,
    /// The word that carries: an option, a verb, or the program itself if it always does.
    pub by: String,
}

/// Programs that run what the settings of a directory name: hooks, helpers, filters.
const READ_SETTINGS: &[&str] = &["git", "hg", "jj", "svn"];

/// The directory whose settings a program would follow although the agent can write them. Its words
/// say nothing about what would run then, not even the exact ones.
pub(super) fn agent_settings(runs: &Runs, cwd: &str, files: &dyn ProgramFiles) -> Option<String> {
    const PLACES: &[&str] =
        &["-C", "--git-dir", "--work-tree", "-R", "--repository", "--cwd", "--config-dir"];
    let program = runs.effective_program();
    if !program.names().any(|name| READ_SETTINGS.contains(&name.as_str())) {
        return None;
    }
    let mut places = vec![cwd.to_owned()];
    let mut words = runs.effective_argv().iter().skip(1);
    while let Some(word) = words.next() {
        let (flag, glued) =
            word.split_once('=').map_or((word.as_str(), None), |(flag, value)| (flag, Some(value)));
        if PLACES.contains(&flag) {
            let place = glued.or_else(|| words.next().map(String::as_str));
            places.extend(place.map(|place| posix::resolve(cwd, place)));
        }
    }
    places.into_iter().find_map(|mut path| {
        // What is not there yet can be put there by whoever may write its parent.
        while files.find(&path).is_none() && path != "/" {
            path = posix::parent(&path).to_owned();
        }
        files.find(&path).filter(|facts| facts.agent_may_write).map(|_| path)
    })
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

/// Programs that exist to run another one, or code.
const ALWAYS: &[&str] = &[
    "abduco",
    "ansible",
    "ant",
    "apk",
    "apt",
    "apt-get",
    "asdf",
    "at",
    "awk",
    "batch",
    "bazel",
    "bibtex",
    "bpftrace",
    "brew",
    "buildah",
    "bunx",
    "busctl",
    "bwrap",
    "c++",
    "capsh",
    "cargo",
    "cc",
    "cgexec",
    "choom",
    "chpst",
    "chronic",
    "chroot",
    "clang",
    "clang++",
    "cmake",
    "composer",
    "conda",
    "convert",
    "corepack",
    "cpp",
    "crontab",
    "crun",
    "ctest",
    "ctr",
    "daemonize",
    "dbus-launch",
    "dbus-run-session",
    "dc",
    "diff3",
    "direnv",
    "dnf",
    "dotnet",
    "dpkg",
    "dtach",
    "dumb-init",
    "ed",
    "elinks",
    "emacs",
    "emacsclient",
    "entr",
    "ex",
    "exiftool",
    "expect",
    "fakeroot",
    "firejail",
    "flatpak",
    "flock",
    "fnm",
    "forever",
    "fsck",
    "ftp",
    "fzf",
    "g++",
    "gawk",
    "gcc",
    "gdb",
    "gh",
    "ghostscript",
    "gmake",
    "gnuplot",
    "go",
    "gosu",
    "gpg",
    "gpg2",
    "gradle",
    "gs",
    "guix",
    "gvim",
    "helm",
    "hub",
    "i386",
    "identify",
    "info",
    "invoke-rc.d",
    "ipython",
    "irb",
    "java",
    "jest",
    "joe",
    "jupyter",
    "just",
    "konsole",
    "latex",
    "lazygit",
    "ld",
    "ldd",
    "less",
    "lftp",
    "links",
    "linux32",
    "linux64",
    "lldb",
    "login",
    "ltrace",
    "lualatex",
    "luatex",
    "lynx",
    "m4",
    "machinectl",
    "magick",
    "mail",
    "mailx",
    "make",
    "mamba",
    "man",
    "mariadb",
    "mawk",
    "mc",
    "meson",
    "mise",
    "mkfs",
    "modprobe",
    "mogrify",
    "mongo",
    "mongosh",
    "more",
    "mosh",
    "most",
    "mount",
    "mutt",
    "mvn",
    "mysql",
    "nano",
    "nawk",
    "newgrp",
    "ninja",
    "nix",
    "nix-shell",
    "nmap",
    "nnn",
    "nodemon",
    "nox",
    "npm",
    "npx",
    "nq",
    "nsenter",
    "numactl",
    "nvim",
    "nvm",
    "openvpn",
    "packer",
    "pacman",
    "pandoc",
    "parallel",
    "patch",
    "pdflatex",
    "pdftex",
    "perf",
    "pipenv",
    "pipx",
    "pkexec",
    "pm2",
    "pnpm",
    "pnpx",
    "poetry",
    "port",
    "prlimit",
    "proot",
    "proxychains",
    "proxychains4",
    "psql",
    "pulumi",
    "pyenv",
    "pytest",
    "rake",
    "ranger",
    "rbenv",
    "rlwrap",
    "rsh",
    "rsync",
    "run-parts",
    "runc",
    "runcon",
    "runuser",
    "rustc",
    "rustup",
    "rview",
    "rvim",
    "s-nail",
    "sbt",
    "scp",
    "screen",
    "sdiff",
    "sensible-editor",
    "service",
    "setarch",
    "setpriv",
    "setuidgid",
    "sftp",
    "sg",
    "snap",
    "socat",
    "softlimit",
    "sqlite3",
    "ssh",
    "ssh-agent",
    "start-stop-daemon",
    "strace",
    "su",
    "su-exec",
    "sudoedit",
    "systemctl",
    "systemd-inhibit",
    "systemd-nspawn",
    "systemd-run",
    "tclsh8",
    "telnet",
    "terraform",
    "tex",
    "tig",
    "tini",
    "tmux",
    "torsocks",
    "tox",
    "ts-node",
    "tsx",
    "umount",
    "unbuffer",
    "unshare",
    "uvx",
    "vagrant",
    "valgrind",
    "vi",
    "view",
    "vim",
    "vimdiff",
    "vipw",
    "visudo",
    "w3m",
    "watch",
    "watchexec",
    "watchman",
    "wish",
    "x86_64",
    "xargs",
    "xdg-open",
    "xelatex",
    "xterm",
    "xvfb-run",
    "yarn",
    "yum",
    "zypper",
];

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
            Self::Git => git(words),
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

/// Git runs what its settings name, and settings can be words.
fn git(words: &[String]) -> Option<String> {
    const ANYWHERE: &[&str] = &[
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
    /// Verbs that git does by itself; any other may be a program called `git-…`, or start one.
    const VERBS: &[&str] = &[
        "add",
        "annotate",
        "apply",
        "blame",
        "branch",
        "cat-file",
        "check-attr",
        "check-ignore",
        "checkout",
        "cherry",
        "cherry-pick",
        "clean",
        "clone",
        "commit",
        "count-objects",
        "describe",
        "diff",
        "diff-files",
        "diff-index",
        "diff-tree",
        "for-each-ref",
        "fsck",
        "grep",
        "hash-object",
        "init",
        "log",
        "ls-files",
        "ls-remote",
        "ls-tree",
        "merge",
        "merge-base",
        "mv",
        "name-rev",
        "notes",
        "range-diff",
        "rebase",
        "reflog",
        "reset",
        "restore",
        "rev-list",
        "rev-parse",
        "revert",
        "rm",
        "shortlog",
        "show",
        "show-branch",
        "show-ref",
        "stash",
        "status",
        "switch",
        "symbolic-ref",
        "tag",
        "update-index",
        "update-ref",
        "version",
        "whatchanged",
        "worktree",
        "write-tree",
    ];
    /// Those of them that start a transport.
    const REMOTE: &[&str] = &["clone", "ls-remote"];
    if words.iter().any(|word| word == "--help") {
        // Shows a manual, with a program for that.
        return Some("--help".to_owned());
    }
    let mut verb = 0;
    while let Some(word) = words.get(verb).filter(|word| word.starts_with('-')) {
        if word.starts_with("-c") {
            return Some("-c".to_owned());
        }
        let takes_value =
            matches!(word.as_str(), "-C" | "--git-dir" | "--work-tree" | "--namespace");
        verb += 1 + usize::from(takes_value);
    }
    option(words, "", ANYWHERE).or_else(|| {
        let (verb, after) = words.get(verb..)?.split_first()?;
        let letters = match verb.as_str() {
            "clone" => "uc",
            "fetch-pack" | "ls-remote" => "u",
            "rebase" => "xi",
            "grep" => "O",
            _ => "",
        };
        option(after, letters, &[]).or_else(|| {
            let is_own = VERBS.contains(&verb.as_str()) && !REMOTE.contains(&verb.as_str());
            (!is_own).then(|| verb.clone())
        })
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_can_be_searched() {
        assert!(ALWAYS.is_sorted());
    }
}
