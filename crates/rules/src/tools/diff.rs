//! What changed, for people and models: changed lines with a few around them.
//!
//! The changes are known when they are made, so nothing is searched for: each is a part of the old text and the part
//! of the new one that stands in its place.

use std::fmt::Write as _;
use std::ops::Range;

/// Lines shown around a change.
const AROUND: usize = 4;
/// Bytes of one diff; more is cut between lines.
const LARGEST: usize = 48 * 1024;
/// Bytes shown of one line.
const LONGEST_LINE: usize = 1024;

/// A part of the old text, and what stands in its place, as places in the two texts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    pub old: Range<usize>,
    pub new: Range<usize>,
}

/// A rendered difference.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Diff {
    /// Sign, line number, text; `...` where lines are left out.
    pub text: String,
    /// Counted from 1, in the new text.
    pub first_changed_line: u64,
}

/// Renders changes, which are in order and do not overlap.
pub fn render(old: &str, new: &str, changes: &[Change]) -> Diff {
    let (old, new) = (Lines::of(old), Lines::of(new));
    let blocks = blocks(&old, &new, changes);
    let first_changed_line = blocks.first().map_or(1, |block| block.new.start as u64 + 1);
    let width = old.count().max(new.count()).to_string().len();
    let mut writer = Writer { text: String::new(), width };
    let mut shown = 0;
    for (index, block) in blocks.iter().enumerate() {
        let before = block.old.start.saturating_sub(AROUND).max(shown);
        if before > shown {
            writer.gap();
        }
        writer.lines(' ', &old, before..block.old.start);
        writer.lines('-', &old, block.old.clone());
        writer.lines('+', &new, block.new.clone());
        let next = blocks.get(index + 1).map_or(old.count(), |next| next.old.start);
        shown = (block.old.end + AROUND).min(next);
        writer.lines(' ', &old, block.old.end..shown);
    }
    if shown < old.count() && !blocks.is_empty() {
        writer.gap();
    }
    Diff { text: writer.text, first_changed_line }
}

/// Whole lines that differ.
#[derive(Debug, PartialEq, Eq)]
struct Block {
    old: Range<usize>,
    new: Range<usize>,
}

fn blocks(old: &Lines<'_>, new: &Lines<'_>, changes: &[Change]) -> Vec<Block> {
    let mut blocks: Vec<Block> = Vec::new();
    for change in changes {
        let block = Block { old: old.holding(&change.old), new: new.holding(&change.new) };
        match blocks.last_mut() {
            // Two changes in one line are one difference.
            Some(last) if last.old.end > block.old.start || last.new.end > block.new.start => {
                last.old.end = last.old.end.max(block.old.end);
                last.new.end = last.new.end.max(block.new.end);
            }
            Some(_) | None => blocks.push(block),
        }
    }
    for block in &mut blocks {
        let same = |a: usize, b: usize| old.get(a) == new.get(b);
        while !block.old.is_empty()
            && !block.new.is_empty()
            && same(block.old.start, block.new.start)
        {
            block.old.start += 1;
            block.new.start += 1;
        }
        while !block.old.is_empty()
            && !block.new.is_empty()
            && same(block.old.end - 1, block.new.end - 1)
        {
            block.old.end -= 1;
            block.new.end -= 1;
        }
    }
    blocks.retain(|block| !block.old.is_empty() || !block.new.is_empty());
    blocks
}

/// A text by lines, each with its end.
struct Lines<'a> {
    lines: Vec<&'a str>,
    starts: Vec<usize>,
}

impl<'a> Lines<'a> {
    fn of(text: &'a str) -> Self {
        let lines: Vec<&str> = text.split_inclusive('\n').collect();
        let starts = lines.iter().scan(0, |at, line| {
            let start = *at;
            *at += line.len();
            Some(start)
        });
        Self { starts: starts.collect(), lines }
    }

    fn count(&self) -> usize {
        self.lines.len()
    }

    fn get(&self, index: usize) -> Option<&'a str> {
        self.lines.get(index).copied()
    }

    /// The lines that hold a part. An empty part between two lines is in neither.
    fn holding(&self, part: &Range<usize>) -> Range<usize> {
        let begins_line =
            |at: usize| self.starts.binary_search(&at).is_ok() || self.next_line() == Some(at);
        if part.is_empty() && begins_line(part.start) {
            let line = self.starts.partition_point(|start| *start < part.start);
            return line..line;
        }
        let first = self.starts.partition_point(|start| *start <= part.start).saturating_sub(1);
        let last = self.starts.partition_point(|start| *start < part.end.max(part.start + 1));
        first..last
    }

    /// Where a further line would start; `None` if the last one has no end.
    fn next_line(&self) -> Option<usize> {
        match (self.lines.last(), self.starts.last()) {
            (Some(line), Some(start)) => line.ends_with('\n').then_some(start + line.len()),
            (_, _) => Some(0),
        }
    }
}

struct Writer {
    text: String,
    width: usize,
}

impl Writer {
    fn lines(&mut self, sign: char, lines: &Lines<'_>, range: Range<usize>) {
        for index in range {
            let Some(line) = lines.get(index) else { return };
            let line = line.trim_end_matches(['\n', '\r']);
            self.line(sign, &(index + 1).to_string(), cut(line));
        }
    }

    fn gap(&mut self) {
        self.line(' ', "", "...");
    }

    fn line(&mut self, sign: char, number: &str, text: &str) {
        if self.text.len() + text.len() > LARGEST {
            if !self.text.ends_with("(cut)") {
                self.text.push_str("\n(cut)");
            }
            return;
        }
        let width = self.width;
        let newline = if self.text.is_empty() { "" } else { "\n" };
        // Writing to a string cannot fail.
        let _ = write!(self.text, "{newline}{sign}{number:>width$} {text}");
    }
}

/// The start of a long line, cut between characters.
fn cut(line: &str) -> &str {
    let end = (0..=LONGEST_LINE).rev().find(|at| line.is_char_boundary(*at));
    if line.len() <= LONGEST_LINE { line } else { line.get(..end.unwrap_or(0)).unwrap_or(line) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_is_shown_with_four_lines_around_it() {
        let old = (1..=20).map(|line| format!("l{line}\n")).collect::<Vec<_>>().concat();
        let at = old.find("l10").unwrap();
        let new = old.replace("l10", "ten");
        let diff = render(&old, &new, &[Change { old: at..at + 3, new: at..at + 3 }]);
        let expected = "    ...\n  6 l6\n  7 l7\n  8 l8\n  9 l9\n-10 l10\n+10 ten\n 11 l11\n 12 l12\n 13 l13\n 14 l14\n    ...";
        assert_eq!((diff.text.as_str(), diff.first_changed_line), (expected, 10));
    }

    #[test]
    fn changes_at_the_edges_have_nothing_to_leave_out() {
        check("a", "b", &[(0..1, 0..1)], "-1 a\n+1 b");
        check("", "a\n", &[(0..0, 0..2)], "+1 a");
        check("a\n", "", &[(0..2, 0..0)], "-1 a");
        check("a\nb\n", "a\nx\nb\n", &[(2..2, 2..4)], " 1 a\n+2 x\n 2 b");
        check("a\nb", "a\nb\nc", &[(3..3, 3..5)], " 1 a\n-2 b\n+2 b\n+3 c");
    }

    #[test]
    fn two_changes_in_one_line_are_one() {
        check("a b\n", "x y\n", &[(0..1, 0..1), (2..3, 2..3)], "-1 a b\n+1 x y");
    }

    #[test]
    fn lines_that_did_not_change_are_taken_out_of_a_change() {
        check("a\nb\nc\n", "a\nB\nc\n", &[(0..6, 0..6)], " 1 a\n-2 b\n+2 B\n 3 c");
    }

    #[test]
    fn huge_lines_and_huge_changes_are_cut() {
        let new = "ü".repeat(LONGEST_LINE);
        let diff = render("", &new, &[Change { old: 0..0, new: 0..new.len() }]);
        assert_eq!(diff.text, format!("+1 {}", "ü".repeat(LONGEST_LINE / 2)));
        let new = "some line\n".repeat(20_000);
        let diff = render("", &new, &[Change { old: 0..0, new: 0..new.len() }]);
        assert!(diff.text.len() < LARGEST + 1024 && diff.text.ends_with("\n(cut)"));
    }

    #[track_caller]
    fn check(old: &str, new: &str, changes: &[(Range<usize>, Range<usize>)], expected: &str) {
        let changes: Vec<Change> = changes
            .iter()
            .map(|(old, new)| Change { old: old.clone(), new: new.clone() })
            .collect();
        assert_eq!(render(old, new, &changes).text, expected);
    }
}
