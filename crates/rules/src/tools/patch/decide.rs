//! From hunks and the files as they are to the files as they will be.
//!
//! Lines are found in four passes, each more tolerant: as they are, without blanks at the end, without blanks at
//! either end, with look-alike characters taken for the same. Lines that are kept stay as the file has them, however
//! the patch writes them, and so do line ends.

use std::borrow::Cow;
use std::collections::BTreeMap;

use super::super::diff;
use super::super::text::{Document, Newline, plain_punctuation};
use super::{Action, Anchor, Chunk, Hunk, Patch, PatchReason, PatchRefused, Step};

/// Comparisons of lines for one patch. A patch and a file of equal lines would need as many as the product of both.
const WORK: u64 = 10_000_000;

/// The files that a patch names, as they are.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Snapshot {
    /// Which file each path of the patch means.
    pub names: BTreeMap<String, String>,
    /// Their contents; `None` where there is no file.
    pub files: BTreeMap<String, Option<Vec<u8>>>,
}

/// What is to be done, all of it or nothing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plan {
    /// One for each file that changes; none if all are already what they would become.
    pub changes: Vec<Change>,
    pub summary: Summary,
}

/// What becomes of one file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    /// A key of [`Snapshot::files`].
    pub file: String,
    /// `None` if it goes.
    pub after: Option<Vec<u8>>,
}

/// What a patch did, by the paths it used.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Summary {
    pub added: Vec<String>,
    pub modified: Vec<String>,
    pub deleted: Vec<String>,
    /// Per updated file, what changed in it.
    pub diffs: Vec<(String, diff::Diff)>,
}

impl Summary {
    /// One line for each file: `A`, `M` or `D`, and its path.
    pub fn lines(&self) -> Vec<String> {
        [('A', &self.added), ('M', &self.modified), ('D', &self.deleted)]
            .into_iter()
            .flat_map(|(sign, paths)| paths.iter().map(move |path| format!("{sign} {path}")))
            .collect()
    }
}

/// Works out what a patch does.
pub fn decide(patch: &Patch, snapshot: &Snapshot) -> Result<Plan, PatchRefused> {
    let mut state = State { snapshot, files: BTreeMap::new(), work: WORK };
    let mut summary = Summary::default();
    for (index, hunk) in patch.hunks().iter().enumerate() {
        state.apply(hunk, &mut summary).map_err(|(line, reason)| PatchRefused {
            line,
            hunk: Some(index + 1),
            path: Some(hunk.path.clone()),
            reason,
        })?;
    }
    let is_changed =
        |file: &String, after: &Option<Vec<u8>>| snapshot.files.get(file) != Some(after);
    let changes = state
        .files
        .into_iter()
        .filter(|(file, after)| is_changed(file, after))
        .map(|(file, after)| Change { file, after })
        .collect();
    Ok(Plan { changes, summary })
}

type Problem = (usize, PatchReason);

/// The files as far as hunks have been applied.
struct State<'a> {
    snapshot: &'a Snapshot,
    /// Only those that a hunk has touched.
    files: BTreeMap<String, Option<Vec<u8>>>,
    work: u64,
}

impl State<'_> {
    fn apply(&mut self, hunk: &Hunk, summary: &mut Summary) -> Result<(), Problem> {
        let here = |reason| (hunk.line, reason);
        let file = self.file(&hunk.path).ok_or_else(|| here(PatchReason::Missing))?;
        match &hunk.action {
            Action::Add { lines } => {
                let mut contents = lines.join("\n");
                if !lines.is_empty() {
                    contents.push('\n');
                }
                self.files.insert(file, Some(contents.into_bytes()));
                note(&mut summary.added, &hunk.path);
            }
            Action::Delete => {
                self.contents(&file).ok_or_else(|| here(PatchReason::Missing))?;
                self.files.insert(file, None);
                note(&mut summary.deleted, &hunk.path);
            }
            Action::Update { move_to, chunks } => {
                let old = self.contents(&file).ok_or_else(|| here(PatchReason::Missing))?.to_vec();
                let (new, diff) = update(&old, chunks, &mut self.work)
                    .map_err(|(line, reason)| (line.unwrap_or(hunk.line), reason))?;
                let shown = move_to.as_ref().unwrap_or(&hunk.path);
                if let Some(target) = move_to {
                    let target = self.file(target).ok_or_else(|| here(PatchReason::Missing))?;
                    self.files.insert(file, None);
                    self.files.insert(target, Some(new));
                } else {
                    self.files.insert(file, Some(new));
                }
                note(&mut summary.modified, shown);
                summary.diffs.push((shown.clone(), diff));
            }
        }
        Ok(())
    }

    fn file(&self, path: &str) -> Option<String> {
        self.snapshot.names.get(path).cloned()
    }

    fn contents(&self, file: &str) -> Option<&[u8]> {
        self.files.get(file).or_else(|| self.snapshot.files.get(file))?.as_deref()
    }
}

fn note(paths: &mut Vec<String>, path: &str) {
    if !paths.iter().any(|known| known == path) {
        paths.push(path.to_owned());
    }
}

/// A line of a file, and how it ends there.
#[derive(Debug, Clone, Copy)]
struct Line<'a> {
    text: &'a str,
    end: &'a str,
}

/// A chunk that has found its place.
struct Placed<'c> {
    /// The first line that it matches, or before which it inserts.
    at: usize,
    steps: Cow<'c, [Step]>,
}

type ChunkProblem = (Option<usize>, PatchReason);

fn update(
    old: &[u8],
    chunks: &[Chunk],
    work: &mut u64,
) -> Result<(Vec<u8>, diff::Diff), ChunkProblem> {
    let document = Document::parse(old).map_err(|problem| (None, PatchReason::NoText(problem)))?;
    let lines: Vec<Line<'_>> = document.text.split_inclusive('\n').map(line).collect();
    let mut placed = Vec::with_capacity(chunks.len());
    let mut cursor = 0;
    for chunk in chunks {
        let (found, next) =
            place(&lines, chunk, cursor, work).map_err(|reason| (Some(chunk.line), reason))?;
        placed.push(found);
        cursor = next;
    }
    // What is added at the end may stand before a chunk that matched further up.
    placed.sort_by_key(|placed| placed.at);
    let (text, changes) = write(&lines, &placed, document.newline());
    let diff = diff::render(document.text, &text, &changes);
    Ok((document.with_text(&text), diff))
}

fn line(text: &str) -> Line<'_> {
    let body = text.strip_suffix('\n').map_or(text, |body| body.strip_suffix('\r').unwrap_or(body));
    Line { text: body, end: text.get(body.len()..).unwrap_or_default() }
}

/// Finds the place of a chunk, from line `cursor` on; gives it and where the next one is looked for.
fn place<'c>(
    lines: &[Line<'_>],
    chunk: &'c Chunk,
    cursor: usize,
    work: &mut u64,
) -> Result<(Placed<'c>, usize), PatchReason> {
    let mut cursor = cursor;
    if let Some(context) = &chunk.context {
        let found = seek(lines, &[context], cursor, work)?;
        let missing = || PatchReason::ContextNotFound { context: context.clone() };
        cursor = found.ok_or_else(missing)? + 1;
    }
    let whole = || Cow::Borrowed(chunk.steps.as_slice());
    let old: Vec<&str> = chunk.steps.iter().filter_map(Step::old).collect();
    if old.is_empty() {
        return Ok((Placed { at: lines.len(), steps: whole() }, cursor));
    }
    if let Some(at) = seek_anchored(lines, &old, cursor, chunk.anchor, work)? {
        return Ok((Placed { at, steps: whole() }, at + old.len()));
    }
    // A blank line before the next chunk reads as one of the file.
    if let Some((&"", shorter)) = old.split_last() {
        let steps = Cow::Owned(without_last_old(&chunk.steps));
        if shorter.is_empty() {
            return Ok((Placed { at: lines.len(), steps }, cursor));
        }
        if let Some(at) = seek_anchored(lines, shorter, cursor, chunk.anchor, work)? {
            return Ok((Placed { at, steps }, at + shorter.len()));
        }
    }
    Err(PatchReason::LinesNotFound { lines: old.iter().map(ToString::to_string).collect() })
}

/// The steps without the last line that the file was to have. If it was to be kept and something comes after it,
/// it comes new.
fn without_last_old(steps: &[Step]) -> Vec<Step> {
    let mut shorter = steps.to_vec();
    if let Some(at) = steps.iter().rposition(|step| step.old().is_some()) {
        let removed = shorter.remove(at);
        if matches!(removed, Step::Keep(_)) && at < shorter.len() {
            shorter.insert(at, Step::Insert(String::new()));
        }
    }
    shorter
}

fn seek_anchored(
    lines: &[Line<'_>],
    wanted: &[&str],
    cursor: usize,
    anchor: Anchor,
    work: &mut u64,
) -> Result<Option<usize>, PatchReason> {
    let from = match anchor {
        Anchor::Anywhere => Some(cursor),
        Anchor::EndOfFile => lines.len().checked_sub(wanted.len()).filter(|last| *last >= cursor),
    };
    from.map_or(Ok(None), |from| seek(lines, wanted, from, work))
}

/// The first place from `from` on where `wanted` is, by the strictest pass that finds one.
fn seek<T: AsRef<str>>(
    lines: &[Line<'_>],
    wanted: &[T],
    from: usize,
    work: &mut u64,
) -> Result<Option<usize>, PatchReason> {
    const PASSES: [fn(&str, &str) -> bool; 4] = [
        |a, b| a == b,
        |a, b| a.trim_end() == b.trim_end(),
        |a, b| a.trim() == b.trim(),
        |a, b| {
            let folded =
                |text: &str| text.trim().chars().map(plain_punctuation).collect::<String>();
            folded(a) == folded(b)
        },
    ];
    for is_same in PASSES {
        let rest = lines.get(from..).unwrap_or_default();
        for (index, window) in rest.windows(wanted.len()).enumerate() {
            let mut all = true;
            for (line, wanted) in window.iter().zip(wanted) {
                let wanted = wanted.as_ref();
                // Long lines cost more to compare.
                let cost = 1 + (line.text.len() + wanted.len()) as u64 / 64;
                *work = work.checked_sub(cost).ok_or(PatchReason::TooMuchWork)?;
                if !is_same(line.text, wanted) {
                    all = false;
                    break;
                }
            }
            if all {
                return Ok(Some(from + index));
            }
        }
    }
    Ok(None)
}

/// The text with every chunk applied; it ends with a line end, as the reference's does.
fn write(
    lines: &[Line<'_>],
    placed: &[Placed<'_>],
    newline: Newline,
) -> (String, Vec<diff::Change>) {
    let mut writer = Writer { text: String::new(), newline: newline.as_str() };
    let mut changes = Vec::with_capacity(placed.len());
    let starts: Vec<usize> = lines
        .iter()
        .scan(0, |at, line| {
            *at += line.text.len() + line.end.len();
            Some(*at)
        })
        .collect();
    let end_of = |count: usize| {
        count.checked_sub(1).map_or(0, |last| starts.get(last).copied().unwrap_or(0))
    };
    let mut at = 0;
    for Placed { at: start, steps } in placed {
        writer.keep(lines.get(at..*start).unwrap_or_default());
        let new_start = writer.text.len();
        at = *start;
        for step in steps.iter() {
            match step {
                Step::Keep(_) => {
                    writer.keep(lines.get(at..=at).unwrap_or_default());
                    at += 1;
                }
                Step::Remove(_) => at += 1,
                Step::Insert(text) => writer.add(text),
            }
        }
        changes.push(diff::Change {
            old: end_of(*start)..end_of(at),
            new: new_start..writer.text.len(),
        });
    }
    writer.keep(lines.get(at..).unwrap_or_default());
    writer.end_line();
    (writer.text, changes)
}

struct Writer<'a> {
    text: String,
    newline: &'a str,
}

impl Writer<'_> {
    /// Lines of the file. The last one may have no end; whatever follows gives it one.
    fn keep(&mut self, lines: &[Line<'_>]) {
        for line in lines {
            self.end_line();
            self.text.push_str(line.text);
            self.text.push_str(line.end);
        }
    }

    fn add(&mut self, text: &str) {
        self.end_line();
        self.text.push_str(text);
        self.text.push_str(self.newline);
    }

    fn end_line(&mut self) {
        if !self.text.is_empty() && !self.text.ends_with('\n') {
            self.text.push_str(self.newline);
        }
    }
}
