//! `grep` and `find`: what the searching program is asked, and what the model sees of its answer.
//!
//! The program runs in the sandbox, over a tree that may be hostile and change under it. So its answer is only text:
//! records with caps, which can lie about the sandbox's own files and do no more.
//!
//! ```text
//! record := kind "\0" path "\0" line "\0" text "\0"
//! kind   := "m" match | "c" line around a match | "f" file | "e" end: path is why ("all", "limit", "time")
//!         | "x" failed: text says why
//! ```

use super::arguments::{Case, FindCall, GrepCall, Syntax};
use super::listing::one_line;
use super::size;

/// Matches shown if a call does not say.
pub const MATCHES: u64 = 100;
/// Files shown if a call does not say.
pub const FILES: u64 = 1000;
/// Results that a call may ask for.
const MOST: u64 = 100_000;
/// Lines around a match that a call may ask for.
const MOST_CONTEXT: u64 = 100;
/// Characters shown of one line.
pub const LINE: usize = 500;
/// Bytes of the whole answer.
pub const BYTES: usize = 50 * 1024;
/// Bytes that are taken from the program: more than an answer needs, with paths that are written out each time.
pub const ANSWER: usize = 4 * 1024 * 1024;

/// The arguments of the program, without its name. `root` is an absolute path in the sandbox.
pub fn grep_arguments(call: &GrepCall, root: &str) -> Vec<String> {
    let limit = call.limit.unwrap_or(MATCHES).min(MOST);
    let mut words = vec!["grep".to_owned(), format!("--limit={limit}")];
    words.push(format!("--context={}", call.context.min(MOST_CONTEXT)));
    if call.case == Case::Ignored {
        words.push("--ignore-case".to_owned());
    }
    if call.syntax == Syntax::Literal {
        words.push("--literal".to_owned());
    }
    words.extend(call.glob.iter().map(|glob| format!("--glob={glob}")));
    words.extend(["--".to_owned(), call.pattern.clone(), root.to_owned()]);
    words
}

/// The same for `find`.
pub fn find_arguments(call: &FindCall, root: &str) -> Vec<String> {
    let limit = call.limit.unwrap_or(FILES).min(MOST);
    [
        "find".to_owned(),
        format!("--limit={limit}"),
        "--".to_owned(),
        call.pattern.clone(),
        root.to_owned(),
    ]
    .into()
}

/// What the program said.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Found {
    pub lines: Vec<Line>,
    pub files: Vec<String>,
    pub end: End,
}

/// A line of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Line {
    pub path: String,
    pub number: u64,
    pub text: String,
    pub role: Role,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    Match,
    Around,
}

/// How the search ended.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum End {
    All,
    Limit,
    Time,
    Failed(String),
    /// The program ended without saying so: killed, or cut off.
    #[default]
    Unknown,
}

/// Reads the program's answer. What is no record ends it.
pub fn parse(answer: &[u8]) -> Found {
    let mut found = Found::default();
    let mut fields = answer.split(|byte| *byte == 0);
    // The last field is what follows the last NUL: nothing, or a record that was cut off.
    while let (Some(kind), Some(path), Some(number), Some(text)) =
        (fields.next(), fields.next(), fields.next(), fields.next())
    {
        let path = String::from_utf8_lossy(path).into_owned();
        let text = String::from_utf8_lossy(text).into_owned();
        let role = match kind {
            b"m" => Role::Match,
            b"c" => Role::Around,
            b"f" => {
                found.files.push(path);
                continue;
            }
            b"e" => {
                found.end = match path.as_str() {
                    "all" => End::All,
                    "limit" => End::Limit,
                    "time" => End::Time,
                    _ => End::Unknown,
                };
                break;
            }
            b"x" => {
                found.end = End::Failed(one_line(&text.chars().take(LINE).collect::<String>()));
                break;
            }
            _ => break,
        };
        let Some(number) = std::str::from_utf8(number).ok().and_then(|number| number.parse().ok())
        else {
            break;
        };
        found.lines.push(Line { path, number, text, role });
    }
    found
}

/// What was searched, as the call names it: paths are shown so that other tools take them as they stand.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Base {
    /// The directory that relative paths start in.
    Here,
    Directory(String),
    /// The one file that was searched.
    File(String),
}

impl Base {
    /// A directory, by the name it was given.
    pub fn directory(given: &str) -> Self {
        let given = given.trim();
        let name = given.strip_prefix("./").unwrap_or(given).trim_end_matches('/');
        match name {
            "" if given.starts_with('/') => Self::Directory(String::new()),
            "" | "." => Self::Here,
            name => Self::Directory(name.to_owned()),
        }
    }

    fn show(&self, path: &str) -> String {
        match self {
            Self::Here => one_line(path),
            Self::Directory(name) => one_line(&format!("{name}/{path}")),
            Self::File(name) => one_line(name),
        }
    }
}

/// Text for the model, and how much it shows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shown {
    pub text: String,
    /// Matches or files in it.
    pub results: usize,
    pub is_cut: bool,
}

/// `path:line: text`, lines around a match as `path-line- text`.
pub fn render_grep(found: &Found, base: &Base, limit: Option<u64>) -> Shown {
    let mut writer = Writer::default();
    let mut last: Option<&Line> = None;
    let has_context = found.lines.iter().any(|line| line.role == Role::Around);
    for line in &found.lines {
        // Between two groups that are not next to each other.
        let is_apart =
            last.is_some_and(|last| last.path != line.path || last.number + 1 < line.number);
        let gap = if is_apart && has_context { "--\n" } else { "" };
        let sign = match line.role {
            Role::Match => ':',
            Role::Around => '-',
        };
        let path = base.show(&line.path);
        let is_match = usize::from(line.role == Role::Match);
        if !writer.push(
            &format!("{gap}{path}{sign}{}{sign} {}\n", line.number, cut(&line.text)),
            is_match,
        ) {
            break;
        }
        last = Some(line);
    }
    writer.finish(&found.end, limit.unwrap_or(MATCHES), "no line matches")
}

/// One path a line.
pub fn render_find(found: &Found, base: &Base, limit: Option<u64>) -> Shown {
    let mut writer = Writer::default();
    for path in &found.files {
        if !writer.push(&format!("{}\n", base.show(path)), 1) {
            break;
        }
    }
    writer.finish(&found.end, limit.unwrap_or(FILES), "no file matches")
}

/// A line as it is shown: its start, nothing that moves a cursor or starts a new line.
fn cut(text: &str) -> String {
    let text = text.trim_end_matches(['\n', '\r']);
    let mut shown: String =
        text.chars().take(LINE).filter(|c| !c.is_control() || *c == '\t').collect();
    if text.chars().nth(LINE).is_some() {
        shown.push_str("… (cut)");
    }
    shown
}

#[derive(Default)]
struct Writer {
    text: String,
    results: usize,
    is_full: bool,
}

impl Writer {
    fn push(&mut self, line: &str, results: usize) -> bool {
        if self.text.len() + line.len() > BYTES {
            self.is_full = true;
            return false;
        }
        self.text.push_str(line);
        self.results += results;
        true
    }

    fn finish(mut self, end: &End, limit: u64, nothing: &str) -> Shown {
        let mut notes = Vec::new();
        if self.is_full {
            notes.push(format!("an answer has {}; narrow the search", size(BYTES as u64)));
        }
        match end {
            End::All => {}
            End::Limit => notes.push(format!(
                "{limit} results were asked for, there are more; narrow the search or use limit={}",
                limit.saturating_mul(2)
            )),
            End::Time => {
                notes.push("the search took too long and was stopped; narrow it".to_owned());
            }
            End::Failed(why) => notes.push(format!("the search stopped: {why}")),
            End::Unknown => notes.push("the search was cut off, there may be more".to_owned()),
        }
        let is_cut = !notes.is_empty();
        if self.text.is_empty() {
            self.text = format!("({nothing})\n");
        }
        let text = self.text.trim_end_matches('\n');
        let text =
            if is_cut { format!("{text}\n\n[{}]", notes.join(". ")) } else { text.to_owned() };
        Shown { text, results: self.results, is_cut }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_call_becomes_words_that_no_pattern_can_be_mistaken_for() {
        let call = GrepCall {
            pattern: "--limit=9".into(),
            path: None,
            glob: Some("*.rs".into()),
            case: Case::Ignored,
            syntax: Syntax::Literal,
            context: 2,
            limit: None,
        };
        let expected = [
            "grep",
            "--limit=100",
            "--context=2",
            "--ignore-case",
            "--literal",
            "--glob=*.rs",
            "--",
            "--limit=9",
            "/w",
        ];
        assert_eq!(grep_arguments(&call, "/w"), expected);
        let call = FindCall { pattern: "-x".into(), path: None, limit: Some(u64::MAX) };
        assert_eq!(find_arguments(&call, "/w"), ["find", "--limit=100000", "--", "-x", "/w"]);
    }

    #[test]
    fn matches_are_shown_by_path_and_line() {
        let plain = b"m\0a.rs\x003\0let x;\n\0m\0b\nc\x001\0y\x1b[2J\0e\0all\0\0\0";
        grep(plain, None, "a.rs:3: let x;\nb\\nc:1: y[2J");
        let around = b"c\0a\x001\0p\0m\0a\x002\0q\0m\0a\x009\0r\0e\0limit\0\0\0";
        let note = "[2 results were asked for, there are more; narrow the search or use limit=4]";
        grep(around, Some(2), &format!("a-1- p\na:2: q\n--\na:9: r\n\n{note}"));
        grep(b"e\0all\0\0\0", None, "(no line matches)");
    }

    #[test]
    fn paths_are_shown_as_other_tools_take_them() {
        let found = parse(b"m\0a/b.rs\x001\0x\0f\0a/\0\0\0e\0all\0\0\0");
        for (base, line, file) in [
            (Base::directory("."), "a/b.rs:1: x", "a/"),
            (Base::directory("./"), "a/b.rs:1: x", "a/"),
            (Base::directory("./src/"), "src/a/b.rs:1: x", "src/a/"),
            (Base::directory("/etc"), "/etc/a/b.rs:1: x", "/etc/a/"),
            (Base::directory("/"), "/a/b.rs:1: x", "/a/"),
            (Base::File("src/a/b.rs".to_owned()), "src/a/b.rs:1: x", "src/a/b.rs"),
        ] {
            assert_eq!(render_grep(&found, &base, None).text, line);
            assert_eq!(render_find(&found, &base, None).text, file);
        }
    }

    #[test]
    fn an_answer_that_breaks_off_or_lies_costs_nothing() {
        let cut = "\n\n[the search was cut off, there may be more]";
        grep(b"m\0a\x001\0x\0m\0b", None, &format!("a:1: x{cut}"));
        grep(b"m\0a\0one\0x\0", None, &format!("(no line matches){cut}"));
        grep(b"?\0a\x001\0x\0", None, &format!("(no line matches){cut}"));
        grep(
            b"x\0\0\0bad pattern\n\0",
            None,
            "(no line matches)\n\n[the search stopped: bad pattern\\n]",
        );
        let long = [b"m\0a\x001\0".as_slice(), &vec![b'x'; 600], b"\0e\0all\0\0\0"].concat();
        grep(&long, None, &format!("a:1: {}… (cut)", "x".repeat(LINE)));
        let many = [b"f\0some/long/path\0\0\0".repeat(10_000), b"e\0all\0\0\0".to_vec()].concat();
        let shown = render_find(&parse(&many), &Base::Here, None);
        assert!(shown.text.len() < BYTES + 100 && shown.is_cut && shown.results < 10_000);
        assert!(shown.text.ends_with("[an answer has 50 KiB; narrow the search]"));
    }

    proptest! {
        #[test]
        fn any_answer_is_shown_within_its_limits(answer: Vec<u8>) {
            let found = parse(&answer);
            for shown in [render_grep(&found, &Base::Here, None), render_find(&found, &Base::Here, None)] {
                prop_assert!(!shown.text.is_empty() && shown.text.len() < BYTES + 1024);
                prop_assert!(!shown.text.contains(|c: char| c.is_control() && c != '\n' && c != '\t'));
            }
        }
    }

    #[track_caller]
    fn grep(answer: &[u8], limit: Option<u64>, expected: &str) {
        assert_eq!(render_grep(&parse(answer), &Base::Here, limit).text, expected);
    }
}
