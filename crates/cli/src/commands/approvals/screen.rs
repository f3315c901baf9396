//! The screen of `clawpen approvals watch`: a list of what waits, the whole plan of one, and keys.
//!
//! ```text
//! ┌ how many wait ────────────┐
//! │ > one line each           │  a quarter of the rows
//! │ ───────────────           │
//! │ the plan, wrapped         │  scrolls; nothing is allowed before its end was seen
//! │ keys                      │
//! └ what was done last ───────┘
//! ```
//!
//! An answer is for the approval that is shown, by its id. When another one takes its place under the
//! cursor by itself, keys that answer are not heard for a moment: they were meant for the one before.

use std::collections::HashSet;
use std::io;
use std::os::fd::AsFd as _;
use std::time::{Duration, Instant};

use clawpen_engine::broker::{Approval, POLL, Which};
use clawpen_engine::database::Changes;
use clawpen_engine::terminal::{self, Happened, Keyboard};
use clawpen_rules::approval::answer::Word;
use clawpen_rules::command::escape;

use super::pending::{Desk, details, headline, told};
use crate::commands::CommandError;
use crate::exit::Outcome;
use crate::output::Output;

/// So long keys do not answer what has just appeared by itself.
const DEAF: Duration = Duration::from_millis(400);
/// The alternative screen, without a cursor; and back.
const OPEN: &str = "\x1b[?1049h\x1b[?25l";
const CLOSE: &str = "\x1b[?25h\x1b[?1049l";
const KEYS: &str = "a once  A always  d deny  j/k select  space/b scroll  q quit";

/// The terminal as it was, however this ends.
struct Restored<'a>(&'a Output);

impl Drop for Restored<'_> {
    fn drop(&mut self) {
        // If the terminal is gone there is nothing to put back.
        let _gone = self.0.text(CLOSE);
    }
}

pub(super) fn run(
    desk: &Desk,
    keyboard: &Keyboard<'_>,
    output: &Output,
) -> Result<Outcome, CommandError> {
    let watch = |cause| CommandError::Read { path: "the database".to_owned(), cause };
    let mut changes = Changes::watch(&desk.database).map_err(watch)?;
    let _restored = Restored(output);
    output.text(OPEN)?;
    let mut view = View::default();
    loop {
        view.take_in(desk.broker().list(Which::Pending)?);
        let size = terminal::size(io::stdout().as_fd());
        let drawn = view.draw(usize::from(size.columns), usize::from(size.rows));
        output.text(&drawn)?;
        let happened = keyboard.next(changes.as_fd(), changes.step(POLL))?;
        changes.woke().map_err(watch)?;
        match happened {
            Happened::Ended => return Ok(Outcome::Done),
            Happened::Resized | Happened::Nothing => {}
            Happened::Keys(bytes) => {
                for key in keys(&bytes) {
                    match key {
                        Key::Quit => return Ok(Outcome::Done),
                        Key::Answer(word) => view.answer(desk, word)?,
                        Key::Move(by) => view.move_by(by),
                        Key::Scroll(way) => view.scroll(way),
                    }
                }
            }
        }
    }
}

/// What a key means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Key {
    Quit,
    Answer(Word),
    Move(isize),
    Scroll(Way),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    Down,
    Up,
}

/// The keys in what the terminal sent. A sequence that we do not know is nothing, not its letters.
fn keys(bytes: &[u8]) -> Vec<Key> {
    let known: [(&[u8], Option<Key>); 13] = [
        (b"\x1b[A", Some(Key::Move(-1))),
        (b"\x1b[B", Some(Key::Move(1))),
        (b"\x1b[5~", Some(Key::Scroll(Way::Up))),
        (b"\x1b[6~", Some(Key::Scroll(Way::Down))),
        (b"k", Some(Key::Move(-1))),
        (b"j", Some(Key::Move(1))),
        (b"b", Some(Key::Scroll(Way::Up))),
        (b" ", Some(Key::Scroll(Way::Down))),
        (b"a", Some(Key::Answer(Word::AllowOnce))),
        (b"A", Some(Key::Answer(Word::AllowAlways))),
        (b"d", Some(Key::Answer(Word::Deny))),
        (b"q", Some(Key::Quit)),
        (b"\x03", Some(Key::Quit)),
    ];
    let mut found = Vec::new();
    let mut rest = bytes;
    while let Some(first) = rest.first() {
        if let Some((spelled, key)) = known.iter().find(|(spelled, _)| rest.starts_with(spelled)) {
            found.extend(*key);
            rest = rest.get(spelled.len()..).unwrap_or_default();
        } else if *first == b'\x1b' {
            // Whatever belongs to it is in the same read.
            return found;
        } else {
            rest = rest.get(1..).unwrap_or_default();
        }
    }
    found
}

/// What is on the screen.
#[derive(Default)]
struct View {
    pending: Vec<Approval>,
    /// The one whose plan is shown.
    chosen: Option<String>,
    /// When it took its place by itself.
    since: Option<Instant>,
    /// Lines of the plan that are scrolled away.
    top: usize,
    /// How many lines of the plan fit, and how many there are.
    page: usize,
    length: usize,
    /// Those of whose plan the end was on the screen.
    seen: HashSet<String>,
    said: String,
}

impl View {
    fn take_in(&mut self, pending: Vec<Approval>) {
        let place = self.place();
        self.pending = pending;
        let is_there = |id: &String| self.pending.iter().any(|found| found.id.as_str() == id);
        if !self.chosen.as_ref().is_some_and(is_there) {
            let next = self.pending.get(place).or(self.pending.last());
            self.chosen = next.map(|approval| approval.id.to_string());
            self.since = Some(Instant::now());
            self.top = 0;
        }
        self.seen.retain(|id| self.pending.iter().any(|found| found.id.as_str() == id));
    }

    /// Where in the list the chosen one is.
    fn place(&self) -> usize {
        let is_chosen = |found: &Approval| Some(found.id.as_str()) == self.chosen.as_deref();
        self.pending.iter().position(is_chosen).unwrap_or_default()
    }

    fn move_by(&mut self, by: isize) {
        let place = self.place().saturating_add_signed(by);
        if let Some(approval) = self.pending.get(place) {
            self.chosen = Some(approval.id.to_string());
            self.since = None;
            self.top = 0;
        }
    }

    fn scroll(&mut self, way: Way) {
        let step = self.page.saturating_sub(1).max(1);
        let last = self.length.saturating_sub(self.page);
        self.top = match way {
            Way::Down => self.top.saturating_add(step).min(last),
            Way::Up => self.top.saturating_sub(step),
        };
    }

    fn answer(&mut self, desk: &Desk, word: Word) -> Result<(), CommandError> {
        let Some(id) = self.chosen.clone() else { return Ok(()) };
        if self.since.is_some_and(|since| since.elapsed() < DEAF) {
            "this one has just appeared; look at it, then press again".clone_into(&mut self.said);
            return Ok(());
        }
        if word != Word::Deny && !self.seen.contains(&id) {
            "scroll to the end of the plan first (space)".clone_into(&mut self.said);
            return Ok(());
        }
        let broker = desk.broker();
        let resolved = broker.resolve(&id, word, &broker.person_here()?)?;
        let told = told(&resolved);
        self.said = told.iter().map(|line| line.trim()).collect::<Vec<_>>().join("; ");
        self.take_in(broker.list(Which::Pending)?);
        Ok(())
    }

    /// The whole screen, line by line.
    fn draw(&mut self, columns: usize, rows: usize) -> String {
        let (columns, rows) = (columns.max(20), rows.max(8));
        let waiting = match self.pending.len() {
            1 => "1 command waits for an answer".to_owned(),
            count => format!("{count} commands wait for an answer"),
        };
        let mut lines = vec![format!("\x1b[7m{}\x1b[0m", padded(&format!(" {waiting}"), columns))];
        let room = (rows / 4).max(2).min(self.pending.len());
        let first = (self.place() + 1).saturating_sub(room);
        for approval in self.pending.iter().skip(first).take(room) {
            let is_chosen = Some(approval.id.as_str()) == self.chosen.as_deref();
            let mark = if is_chosen { ">" } else { " " };
            lines.push(cut(&format!("{mark} {}", headline(approval)), columns));
        }
        lines.push("-".repeat(columns));
        self.page = rows.saturating_sub(lines.len() + 2).max(1);
        let chosen = self.pending.get(self.place());
        let plan: Vec<String> = match chosen {
            Some(approval) => {
                details(approval).iter().flat_map(|line| wrap(line, columns)).collect()
            }
            None => vec!["  nothing waits; new questions appear here by themselves".to_owned()],
        };
        self.length = plan.len();
        self.top = self.top.min(self.length.saturating_sub(self.page));
        if self.top + self.page >= self.length
            && let Some(approval) = chosen
        {
            self.seen.insert(approval.id.to_string());
        }
        let below = self.length.saturating_sub(self.top + self.page);
        lines.extend(plan.into_iter().skip(self.top).take(self.page));
        lines.resize(rows - 2, String::new());
        let more = if below > 0 { format!("  ({below} more lines)") } else { String::new() };
        lines.push(format!("\x1b[7m{}\x1b[0m", padded(&format!("{KEYS}{more}"), columns)));
        lines.push(cut(&escape(&self.said), columns));
        let drawn: Vec<String> = lines.iter().map(|line| format!("{line}\x1b[K")).collect();
        format!("\x1b[H{}\x1b[J", drawn.join("\r\n"))
    }
}

/// How many columns a character may take; rather too many than too few.
const fn width(character: char) -> usize {
    if (character as u32) < 0x300 { 1 } else { 2 }
}

/// The beginning of a line that fits, with a sign if something is left out.
fn cut(line: &str, columns: usize) -> String {
    let mut wrapped = wrap(line, columns.saturating_sub(1));
    if wrapped.len() < 2 {
        return wrapped.pop().unwrap_or_default();
    }
    wrapped.swap_remove(0) + "…"
}

fn padded(line: &str, columns: usize) -> String {
    let cut = cut(line, columns);
    let used: usize = cut.chars().map(width).sum();
    cut + &" ".repeat(columns.saturating_sub(used))
}

/// A line in pieces that fit. Nothing is left out: it is what a person agrees to.
fn wrap(line: &str, columns: usize) -> Vec<String> {
    const INDENT: &str = "        ";
    let mut pieces = vec![String::new()];
    let mut used = 0;
    for character in line.chars() {
        if used + width(character) > columns {
            pieces.push(INDENT.to_owned());
            used = INDENT.len();
        }
        used += width(character);
        if let Some(piece) = pieces.last_mut() {
            piece.push(character);
        }
    }
    pieces
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_read_one_by_one_and_unknown_sequences_answer_nothing() {
        let answer = |word| Key::Answer(word);
        for (bytes, expected) in [
            (&b"a"[..], vec![answer(Word::AllowOnce)]),
            (b"dA", vec![answer(Word::Deny), answer(Word::AllowAlways)]),
            (b"\x1b[Bj\x1b[A", vec![Key::Move(1), Key::Move(1), Key::Move(-1)]),
            (b"\x1b[6~\x1b[5~", vec![Key::Scroll(Way::Down), Key::Scroll(Way::Up)]),
            // A pasted or unknown sequence that ends with a letter of ours.
            (b"\x1b[1;5d", vec![]),
            (b"\x1bOa", vec![]),
            (b"\x1b[200~a", vec![]),
            (b"xyz", vec![]),
            (b"\x03", vec![Key::Quit]),
        ] {
            assert_eq!(keys(bytes), expected, "{bytes:?}");
        }
    }

    #[test]
    fn lines_are_wrapped_without_losing_a_character() {
        let line = "x".repeat(100);
        let pieces = wrap(&line, 40);
        assert!(pieces.iter().all(|piece| piece.chars().count() <= 40), "{pieces:?}");
        let joined: String = pieces.iter().map(|piece| piece.trim_start()).collect();
        assert_eq!(joined, line);
        assert_eq!(cut("short", 20), "short");
        assert!(cut(&line, 20).chars().count() <= 20 && cut(&line, 20).ends_with('…'));
        assert_eq!(padded("ab", 5), "ab   ");
    }

    #[test]
    fn an_empty_screen_fills_its_rows_and_says_so() {
        let drawn = View::default().draw(80, 24);
        assert_eq!(drawn.matches("\r\n").count(), 23);
        assert!(drawn.contains("0 commands wait") && drawn.contains("nothing waits"), "{drawn}");
    }
}
