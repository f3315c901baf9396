//! The two grammars, in a process that may die of them.
//!
//! The parent starts its own test binary again with [`VARIABLE`] set, writes texts as JSON lines and
//! reads answers as JSON lines. If the child ends early, the text it was at has no opinion, and a new
//! child goes on after it.

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Command, Stdio};

use brush_parser::ast;
use nix::sys::resource::{Resource, setrlimit};
use serde_json::{Value, json};

/// Set for the child.
const VARIABLE: &str = "CLAWPEN_ORACLE_CHILD";
/// What starts a line of answer, among the lines of the test harness.
const MARK: &str = "oracle:";
const MEMORY: u64 = 1 << 30;
const SECONDS: u64 = 120;
const BATCH: usize = 5_000;

/// Pipelines of segments of words; before each pipeline the operator that joins it.
pub(super) type Cut = Vec<(String, Vec<Vec<String>>)>;

/// What a grammar says to a text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Opinion {
    Cut(Cut),
    /// It does not parse, or not in time, or not in memory.
    Refused,
}

/// What both grammars say to each text.
pub(super) fn ask(texts: &[String]) -> Vec<[Opinion; 2]> {
    let mut opinions = Vec::with_capacity(texts.len());
    while opinions.len() < texts.len() {
        let rest = &texts[opinions.len()..];
        let batch = &rest[..rest.len().min(BATCH)];
        let answered = run(batch);
        let died = answered.len() < batch.len();
        opinions.extend(answered);
        if died {
            opinions.push([Opinion::Refused, Opinion::Refused]);
        }
    }
    opinions
}

fn run(texts: &[String]) -> Vec<[Opinion; 2]> {
    let binary = std::env::current_exe().expect("a test knows its binary");
    let mut child = Command::new(binary)
        .args(["--exact", "child", "--nocapture", "--test-threads=1"])
        .env(VARIABLE, "1")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("the test binary starts");
    let mut input = child.stdin.take().expect("piped");
    let lines: Vec<String> = texts.iter().map(|text| json!(text).to_string() + "\n").collect();
    // A child that dies leaves its input unread: that is no error of ours.
    let writer = std::thread::spawn(move || drop(input.write_all(lines.concat().as_bytes())));
    let output = BufReader::new(child.stdout.take().expect("piped"));
    let answers = output.lines().map_while(Result::ok).filter_map(|line| {
        let (_, answer) = line.split_once(MARK)?;
        let answer: Value = serde_json::from_str(answer).ok()?;
        Some([opinion(&answer[0]), opinion(&answer[1])])
    });
    let answers = answers.collect();
    child.wait().expect("the child ends");
    writer.join().expect("the writer does not panic");
    answers
}

fn opinion(value: &Value) -> Opinion {
    serde_json::from_value(value.clone()).ok().flatten().map_or(Opinion::Refused, Opinion::Cut)
}

/// Answers the parent; returns at once in an ordinary run.
pub(super) fn serve() {
    if std::env::var_os(VARIABLE).is_none() {
        return;
    }
    setrlimit(Resource::RLIMIT_AS, MEMORY, MEMORY).expect("memory can be limited");
    setrlimit(Resource::RLIMIT_CPU, SECONDS, SECONDS).expect("time can be limited");
    for line in std::io::stdin().lines() {
        let line = line.expect("the parent writes text");
        let text: String = serde_json::from_str(&line).expect("the parent writes JSON");
        let answer = json!([brush(&text), tree_sitter(&text)]);
        writeln!(std::io::stdout(), "{MARK}{answer}").expect("the parent listens");
    }
}

/// Says whether brush's opinion on a text counts: it loses the name in `${x}` on a line that starts
/// a here-document.
pub(super) fn brush_knows(text: &str) -> bool {
    !(text.contains("<<") && text.contains("${"))
}

fn brush(text: &str) -> Option<Cut> {
    if !brush_knows(text) {
        return None;
    }
    let mut parser = brush_parser::Parser::builder().build(text.as_bytes());
    let program = parser.parse_program().ok()?;
    let mut cut = Cut::new();
    for list in program.complete_commands.iter().flat_map(|command| &command.0) {
        let ast::CompoundListItem(list, separator) = list;
        if let ast::SeparatorOperator::Async = separator {
            return None;
        }
        let sign = if cut.is_empty() { "" } else { ";" };
        cut.push((sign.to_owned(), pipeline(&list.first)?));
        for next in &list.additional {
            let (sign, next) = match next {
                ast::AndOr::And(next) => ("&&", next),
                ast::AndOr::Or(next) => ("||", next),
            };
            cut.push((sign.to_owned(), pipeline(next)?));
        }
    }
    Some(cut)
}

fn pipeline(pipeline: &ast::Pipeline) -> Option<Vec<Vec<String>>> {
    let mut segments = pipeline.seq.iter().map(simple).collect::<Option<Vec<_>>>()?;
    // `time` is a keyword to bash and a program to us.
    let timed = match &pipeline.timed {
        None => vec![],
        Some(ast::PipelineTimed::Timed(_)) => vec!["time".to_owned()],
        Some(ast::PipelineTimed::TimedWithPosixOutput(_)) => {
            vec!["time".to_owned(), "-p".to_owned()]
        }
    };
    match segments.first_mut() {
        Some(first) => drop(first.splice(0..0, timed)),
        None => segments.push(timed),
    }
    (!pipeline.bang).then_some(segments)
}

fn simple(command: &ast::Command) -> Option<Vec<String>> {
    let ast::Command::Simple(simple) = command else { return None };
    let prefix = simple.prefix.iter().flat_map(|prefix| &prefix.0);
    let suffix = simple.suffix.iter().flat_map(|suffix| &suffix.0);
    let name = simple.word_or_name.as_ref().map(|word| Ok(unquote(&word.value)));
    let words = prefix.filter_map(word).chain(name).chain(suffix.filter_map(word));
    words.collect::<Result<_, NoOpinion>>().ok()
}

/// A redirection or a substitution that we never call analysable.
struct NoOpinion;

/// A word of a command; nothing for a here-document.
fn word(item: &ast::CommandPrefixOrSuffixItem) -> Option<Result<String, NoOpinion>> {
    match item {
        ast::CommandPrefixOrSuffixItem::Word(word)
        | ast::CommandPrefixOrSuffixItem::AssignmentWord(_, word) => Some(Ok(unquote(&word.value))),
        ast::CommandPrefixOrSuffixItem::IoRedirect(ast::IoRedirect::HereDocument(None, _)) => None,
        ast::CommandPrefixOrSuffixItem::IoRedirect(_)
        | ast::CommandPrefixOrSuffixItem::ProcessSubstitution(..) => Some(Err(NoOpinion)),
    }
}

/// Says whether tree-sitter's opinion on a text counts. Its grammar skips a backslash and the blank
/// after it at the start of a word, where every shell has a word that starts with a blank; it loses
/// words that are a lone `$` or brace; and where a here-document stands in its tree is its own affair.
/// brush has an opinion on all of them.
pub(super) fn tree_sitter_knows(text: &str) -> bool {
    !["\\ ", "\\\t", "<<", "$ ", "$\t", " }", " {"].iter().any(|sign| text.contains(sign))
}

fn tree_sitter(text: &str) -> Option<Cut> {
    if !tree_sitter_knows(text) {
        return None;
    }
    let mut parser = tree_sitter::Parser::new();
    parser.set_language(&tree_sitter_bash::LANGUAGE.into()).ok()?;
    let tree = parser.parse(text, None)?;
    let root = tree.root_node();
    let mut walk = Walk { text, cut: Cut::new(), sign: String::new() };
    if root.has_error() {
        return None;
    }
    walk.statement(root)?;
    Some(walk.cut)
}

/// A walk over a syntax tree, from left to right.
struct Walk<'a> {
    text: &'a str,
    cut: Cut,
    /// The operator before the next pipeline.
    sign: String,
}

impl Walk<'_> {
    fn statement(&mut self, node: tree_sitter::Node<'_>) -> Option<()> {
        match node.kind() {
            "program" | "list" => {
                for index in 0..node.child_count() {
                    let child = node.child(index)?;
                    match child.kind() {
                        "&&" | "||" | ";" => child.kind().clone_into(&mut self.sign),
                        "comment" | "\n" | "heredoc_body" => {}
                        _ => self.statement(child)?,
                    }
                }
                Some(())
            }
            _ => {
                let segments = self.segments(node)?;
                self.cut.push((std::mem::take(&mut self.sign), segments));
                Some(())
            }
        }
    }

    fn segments(&self, node: tree_sitter::Node<'_>) -> Option<Vec<Vec<String>>> {
        match node.kind() {
            "command" => Some(vec![self.words(node)?]),
            "pipeline" => {
                let mut segments = Vec::new();
                for index in 0..node.named_child_count() {
                    segments.extend(self.segments(node.named_child(u32::try_from(index).ok()?)?)?);
                }
                Some(segments)
            }
            // Where a here-document stands in the tree is the grammar's own affair.
            _ => None,
        }
    }

    /// The words of a command. The grammar breaks some words up, and leaves a lone `$` unnamed; nodes
    /// that touch are one word.
    fn words(&self, node: tree_sitter::Node<'_>) -> Option<Vec<String>> {
        let mut ranges: Vec<std::ops::Range<usize>> = Vec::new();
        for index in 0..node.child_count() {
            let child = node.child(index)?;
            match (child.kind(), ranges.last_mut()) {
                ("comment", _) => {}
                ("file_redirect" | "heredoc_redirect" | "herestring_redirect", _) => return None,
                (_, Some(last)) if last.end == child.start_byte() => last.end = child.end_byte(),
                _ => ranges.push(child.byte_range()),
            }
        }
        ranges.into_iter().map(|range| self.text.get(range).map(unquote)).collect()
    }
}

/// A raw word without its quotes. Nothing of the product, so that it can be wrong in its own way.
fn unquote(raw: &str) -> String {
    let mut word = String::new();
    let mut characters = raw.chars().peekable();
    let mut quote = None;
    while let Some(character) = characters.next() {
        match (quote, character) {
            (None, '\\') => word.extend(characters.next()),
            (Some('"'), '\\') if characters.peek().is_some_and(|c| "\\\"$`".contains(*c)) => {
                word.extend(characters.next());
            }
            (None, '\'' | '"') => quote = Some(character),
            (Some(open), close) if open == close => quote = None,
            (_, other) => word.push(other),
        }
    }
    word
}
