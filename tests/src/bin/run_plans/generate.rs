//! Makes up commands of real programs, with the options that matter.

/// Programs that are looked for on this machine; scripts are left out. None of them needs a network.
pub(super) const PROGRAMS: &[&str] = &[
    "ls",
    "echo",
    "cat",
    "head",
    "tail",
    "wc",
    "tr",
    "cut",
    "uniq",
    "sort",
    "grep",
    "sed",
    "find",
    "xargs",
    "awk",
    "mawk",
    "gawk",
    "env",
    "nice",
    "nohup",
    "stdbuf",
    "timeout",
    "time",
    "setsid",
    "sh",
    "bash",
    "dash",
    "python3",
    "perl",
    "tar",
    "git",
    "printf",
    "true",
    "false",
    "test",
    "date",
    "id",
    "seq",
    "split",
    "od",
    "basename",
    "dirname",
    "expr",
    "cmp",
    "diff",
    "comm",
    "paste",
    "join",
    "nl",
    "tac",
    "md5sum",
    "sha256sum",
    "readlink",
    "realpath",
    "stat",
    "du",
    "touch",
    "mkdir",
    "tee",
    "chroot",
    "unshare",
    "flock",
    "script",
    "make",
    "ssh",
    "less",
    "vim",
    "man",
    "gdb",
    "strace",
    "install",
    "csplit",
    "fold",
    "shuf",
    "busybox",
    "openssl",
    "rsync",
    "wget",
    "curl",
    "gcc",
    "zip",
];

/// Words that follow: harmless ones, options of wrappers, and everything known to run something.
const WORDS: &[&str] = &[
    "a",
    "b.txt",
    "-n",
    "5",
    "-n5",
    "-5",
    "-la",
    "-l",
    "-c",
    "-e",
    "-f",
    "-i",
    "-o",
    "-r",
    "-s",
    "-x",
    "-z",
    "--",
    "-",
    "''",
    "'a b'",
    "$HOME",
    "'*'",
    ".",
    "/",
    "/etc/passwd",
    "--help",
    "--version",
    "-exec",
    "touch",
    "canary",
    "';'",
    "{}",
    "+",
    "-execdir",
    "-ok",
    "-delete",
    "-name",
    "'*.txt'",
    "--compress-program=touch",
    "--comp=touch",
    "-S",
    "1b",
    "--files0-from=x",
    "--output=x",
    "--checkpoint=1",
    "--checkpoint-action=exec=touch",
    "-I",
    "-F",
    "xf",
    "czf",
    "cf",
    "x.tar",
    "-cf",
    "--to-command=touch",
    "--filter=touch",
    "s/a/b/e",
    "'s/a/b/'",
    "'1e touch canary'",
    "1p",
    "p",
    "'w canary'",
    "'BEGIN{system(\"touch canary\")}'",
    "'{print}'",
    "'import os'",
    "'print 1'",
    "'touch canary'",
    "'$0'",
    "'$0 \"$@\"'",
    "'\"$0\" \"$1\"'",
    "ls",
    "echo",
    "sh",
    "run.sh",
    "./run.sh",
    "-lc",
    "-xc",
    "-ic",
    "-V",
    "-W",
    "ignore",
    "-m",
    "this",
    "-Ic",
    "-E",
    "-M",
    "status",
    "log",
    "diff",
    "--no-index",
    "config",
    "help",
    "-c",
    "alias.x=!touch",
    "x",
    "--exec-path=.",
    "--upload-pack=touch",
    "grep",
    "-O",
    "-C",
    "-k",
    "1",
    "KILL",
    "--signal=KILL",
    "-oL",
    "L",
    "--preserve-status",
    "--foreground",
    "--adjustment=3",
    "-u",
    "A=1",
    "-a",
    "-t",
    "-p",
    "-v",
    "--pre=touch",
    "--rsh=touch",
    "<<E\nhi\nE",
    "--line-buffered",
    "--color=always",
];

const SIGNS: &[&str] = &[" | ", " | ", " && ", " || ", " ; ", ";", "|"];

/// An endless row of commands, the same for the same seed.
pub(super) struct Commands(u64);

impl Commands {
    pub(super) fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    /// Marsaglia's xorshift: enough to stir, and the same everywhere.
    fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 >> 33).unwrap_or(0) % bound
    }

    fn one_of(&mut self, words: &[&'static str]) -> &'static str {
        words[self.below(words.len())]
    }

    fn segment(&mut self) -> String {
        const WRAPPERS: &[&str] = &[
            "nice",
            "nice -n 5",
            "env",
            "env --",
            "timeout 5",
            "timeout -k 1 5",
            "nohup",
            "stdbuf -o L",
            "stdbuf --output=L",
            "time",
            "nice nice",
            "env timeout 5",
            "timeout -s KILL 5",
        ];
        let mut text = String::new();
        while self.below(4) == 0 {
            text.push_str(self.one_of(WRAPPERS));
            text.push(' ');
        }
        text.push_str(self.one_of(PROGRAMS));
        for _ in 0..self.below(5) {
            text.push(' ');
            text.push_str(self.one_of(WORDS));
        }
        text
    }
}

impl Iterator for Commands {
    type Item = String;

    fn next(&mut self) -> Option<String> {
        let mut text = self.segment();
        while self.below(3) == 0 {
            let sign = self.one_of(SIGNS);
            text = format!("{text}{sign}{}", self.segment());
        }
        Some(text)
    }
}
