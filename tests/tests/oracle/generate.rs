//! Makes up commands: pieces that matter to a lexer, put together at random but always the same.

/// What texts are made of. Blanks and plain words are many, so that some texts mean something.
const PIECES: &[&str] = &[
    " ",
    " ",
    " ",
    " ",
    " ",
    " ",
    "\t",
    "ls",
    "cat",
    "echo",
    "wc",
    "git",
    "-l",
    "-n",
    "--x=y",
    "a",
    "b.txt",
    "/usr/bin/ls",
    "./x",
    "5",
    "'a b'",
    "'",
    "\"a b\"",
    "\"",
    "\"$x\"",
    "''",
    "\"\"",
    "\\ ",
    "\\|",
    "\\;",
    "\\'",
    "\\\"",
    "\\$",
    "\\\\",
    "\\",
    "|",
    " | ",
    "||",
    " && ",
    ";",
    "; ",
    "&",
    "#",
    " # c",
    "a#b",
    "$",
    "$x",
    "${x}",
    "${x:-y}",
    "$(",
    "`",
    "$'",
    "$[",
    "(",
    ")",
    "{",
    "}",
    "{a,b}",
    "<",
    ">",
    "<<E",
    "<<'E'",
    " <<-E",
    "\nhi\nE",
    "\nit's\nE",
    "\n",
    "*",
    "?",
    "[a]",
    "~",
    "=",
    "a=b",
    "!",
    "^",
    "%",
    "@",
    ",",
    ":",
    "+",
    "é",
    "time",
    "nice",
    "env",
    "-",
    "--",
    "'$0'",
    "\u{a0}",
    "\u{200b}",
];

/// An endless row of texts.
pub(super) fn commands() -> impl Iterator<Item = String> {
    let mut random = Random(0x9e37_79b9_7f4a_7c15);
    std::iter::repeat_with(move || {
        let length = 1 + random.below(12);
        let first = ["ls", "echo", "cat", "git"][random.below(4)].to_owned();
        (0..length).fold(first, |text, _| text + PIECES[random.below(PIECES.len())])
    })
}

/// Marsaglia's xorshift: enough to stir, and the same everywhere.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 >> 33).unwrap_or(0) % bound
    }
}
