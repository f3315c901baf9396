//! `clawpen fs`: the files of a sandbox, through the same calls that tools use.

use std::io::{self, IsTerminal as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use clawpen_engine::call::Prepared;
use clawpen_engine::channel::{CallError, Channel, WriteOptions};
use clawpen_engine::transfer::{Progress, Transfer, Trees};
use clawpen_wire::supervisor::{
    Depth, Entry, FileKind, Links, Listing, Metadata, OnExisting, Place, StatResult, WriteMode,
};
use serde_json::{Value, json};

use super::CommandError;
use super::exec::{about, inside, prepare};
use crate::args::{Format, FsCommand, TargetArgs};
use crate::exit::{self, Outcome};
use crate::output::{Output, safe};

/// Marks a path of the sandbox for `cp`.
const PEN: &str = "pen:";
/// Entries shown of one directory.
const MOST_ENTRIES: usize = 1_000_000;
/// How often progress is redrawn.
const REDRAW: Duration = Duration::from_millis(100);

pub(crate) fn run(command: FsCommand, output: &Output) -> Result<Outcome, CommandError> {
    match command {
        FsCommand::Read { path, offset, length, target } => with("read", &target, output, |pen| {
            let place = pen.place(&path);
            let length = length.unwrap_or(u64::MAX);
            let mut stdout = io::stdout().lock();
            let read = pen.channel.read(place, offset, length, &mut stdout);
            io::Write::flush(&mut stdout)?;
            pen.bytes_out = read.as_ref().map_or(0, |count| *count);
            read.map(drop).or_else(reader_left).map_err(failed("read", &path))
        }),
        FsCommand::Write { path, append, new, parents, target } => {
            with("write", &target, output, |pen| {
                let mode = match (append, new) {
                    (true, _) => WriteMode::Append,
                    (false, true) => WriteMode::Create,
                    (false, false) => WriteMode::Replace,
                };
                let options =
                    WriteOptions { mode, parents: parents.wanted(), ..WriteOptions::default() };
                let place = pen.place(&path);
                let written = pen.channel.write(place, options, &mut io::stdin().lock());
                pen.bytes_in = written.as_ref().map_or(0, |written| written.bytes);
                written.map(drop).map_err(failed("write", &path))
            })
        }
        FsCommand::Ls { path, long, format, target } => with("read", &target, output, |pen| {
            let path = path.clone().unwrap_or_default();
            let wants_more = long || format.format() == Format::Json;
            let listing = if wants_more { Listing::Full } else { Listing::Names };
            let place = pen.place(&path);
            let listed = pen.channel.list(&place, listing, MOST_ENTRIES);
            let mut entries = listed.map_err(failed("list", &path))?.entries;
            entries.sort_by(|a, b| a.name.cmp(&b.name));
            match format.format() {
                Format::Json => output.json(&entries.iter().map(entry_json).collect::<Vec<_>>())?,
                Format::Text => {
                    let lines: Vec<String> = entries.iter().map(entry_text).collect();
                    if !lines.is_empty() {
                        output.lines(&lines)?;
                    }
                }
            }
            Ok(())
        }),
        FsCommand::Stat { path, format, target } => with("read", &target, output, |pen| {
            let found = pen.channel.stat(pen.place(&path), Links::Report);
            let found = found.map_err(failed("look at", &path))?;
            match format.format() {
                Format::Json => output.json(&stat_json(&found))?,
                Format::Text => output.lines(&stat_text(&path, &found))?,
            }
            Ok(())
        }),
        FsCommand::Rm { path, recursive, target } => with("write", &target, output, |pen| {
            let depth = if recursive { Depth::Tree } else { Depth::One };
            pen.channel.remove(pen.place(&path), depth).map_err(failed("remove", &path))
        }),
        FsCommand::Mv { from, to, force, target } => with("write", &target, output, |pen| {
            let existing = if force { OnExisting::Replace } else { OnExisting::Refuse };
            let moved = pen.channel.rename(pen.place(&from), pen.place(&to), existing);
            moved.map_err(failed("move", &from))
        }),
        FsCommand::Mkdir { path, parents, target } => with("write", &target, output, |pen| {
            let made = pen.channel.mkdir(pen.place(&path), 0o755, parents.wanted());
            made.map_err(failed("make", &path))
        }),
        FsCommand::Cp { from, to, recursive, target } => with("write", &target, output, |pen| {
            let trees = if recursive { Trees::Copy } else { Trees::Refuse };
            copy(pen, &from, &to, trees, output)
        }),
    }
}

/// An open sandbox and how its paths are meant.
struct Pen<'a> {
    prepared: &'a Prepared,
    channel: &'a mut Channel,
    /// For the record: what went in and what came out.
    bytes_in: u64,
    bytes_out: u64,
}

impl Pen<'_> {
    fn place(&self, path: &Path) -> Place {
        Place::InPen(inside(self.prepared, path))
    }
}

/// Does one thing in the session's sandbox. Without a sandbox the code is that of `exec`.
fn with(
    tool: &'static str,
    target: &TargetArgs,
    output: &Output,
    job: impl FnOnce(&mut Pen<'_>) -> Result<(), CommandError>,
) -> Result<Outcome, CommandError> {
    let ran = prepare(target, output).and_then(|opened| {
        opened.run(&about(target, tool), output, |open, tally| {
            let channel =
                open.sandbox().channel().map_err(failed("reach", Path::new("the sandbox")))?;
            let mut pen = Pen { prepared: &opened.prepared, channel, bytes_in: 0, bytes_out: 0 };
            let done = job(&mut pen);
            (tally.bytes_in, tally.bytes_out) = (pen.bytes_in, pen.bytes_out);
            done
        })
    });
    match ran {
        Ok(done) => done.value.map(|()| Outcome::Done),
        Err(error) => {
            output.note(&error.report());
            Ok(Outcome::Code(exit::NO_SANDBOX))
        }
    }
}

fn failed(what: &'static str, path: &Path) -> impl FnOnce(CallError) -> CommandError {
    let what = format!("{what} `{}`", safe(&path.to_string_lossy()));
    move |cause| CommandError::Call { what, cause }
}

/// A reader that went away (`| head`) is no error.
fn reader_left(error: CallError) -> Result<(), CallError> {
    match error {
        CallError::Local(cause) if cause.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        other => Err(other),
    }
}

fn copy(
    pen: &mut Pen<'_>,
    from: &str,
    to: &str,
    trees: Trees,
    output: &Output,
) -> Result<(), CommandError> {
    let of_pen = |text: &str| text.strip_prefix(PEN).map(PathBuf::from);
    let mut meter = Meter::new();
    let mut watch = |progress| meter.show(progress, output);
    let done = match (of_pen(from), of_pen(to)) {
        (Some(source), Some(target)) => {
            let depth = match trees {
                Trees::Copy => Depth::Tree,
                Trees::Refuse => Depth::One,
            };
            let (source_place, target_place) = (pen.place(&source), pen.place(&target));
            let copied = pen.channel.copy(source_place, target_place, depth, OnExisting::Replace);
            return copied.map_err(failed("copy", &source));
        }
        (None, Some(target)) => {
            let target = inside(pen.prepared, &target);
            Transfer::new(pen.channel, trees, &mut watch).into_pen(Path::new(from), &target)
        }
        (Some(source), None) => {
            let source = inside(pen.prepared, &source);
            Transfer::new(pen.channel, trees, &mut watch).out_of_pen(&source, Path::new(to))
        }
        (None, None) => {
            let what = "neither path is the sandbox's; mark one with `pen:`, such as pen:notes.txt";
            return Err(CommandError::Question { what: what.to_owned() });
        }
    };
    meter.end(output);
    let progress = done?;
    if progress.passed_over > 0 {
        output
            .note(&format!("note: {} links or special files were left out", progress.passed_over));
    }
    Ok(())
}

/// A line on a terminal that says how far a copy is.
struct Meter {
    is_shown: bool,
    last: Option<Instant>,
}

impl Meter {
    fn new() -> Self {
        Self { is_shown: io::stderr().is_terminal(), last: None }
    }

    fn show(&mut self, progress: Progress, output: &Output) {
        let is_due = self.last.is_none_or(|last| last.elapsed() >= REDRAW);
        if self.is_shown && is_due {
            self.last = Some(Instant::now());
            let Progress { files, bytes, .. } = progress;
            output.status(&format!("{files} files, {}", amount(bytes)));
        }
    }

    fn end(&self, output: &Output) {
        if self.last.is_some() {
            output.status("");
        }
    }
}

/// Bytes for people.
fn amount(bytes: u64) -> String {
    let units = ["B", "KiB", "MiB", "GiB", "TiB"];
    let mut step = 0;
    while step + 1 < units.len() && bytes >> (10 * (step + 1)) > 0 {
        step += 1;
    }
    let unit = units.get(step).copied().unwrap_or("B");
    let whole = bytes >> (10 * step);
    if step == 0 {
        return format!("{whole} {unit}");
    }
    let tenth = ((bytes >> (10 * (step - 1))) & 1023) * 10 / 1024;
    format!("{whole}.{tenth} {unit}")
}

const fn kind_word(kind: FileKind) -> &'static str {
    match kind {
        FileKind::File => "file",
        FileKind::Directory => "directory",
        FileKind::Link => "link",
        FileKind::Other => "other",
    }
}

const fn kind_letter(kind: FileKind) -> char {
    match kind {
        FileKind::File => '-',
        FileKind::Directory => 'd',
        FileKind::Link => 'l',
        FileKind::Other => '?',
    }
}

fn metadata_json(metadata: &Metadata) -> Value {
    json!({
        "kind": kind_word(metadata.kind),
        "mode": format!("{:04o}", metadata.permissions),
        "uid": metadata.uid,
        "gid": metadata.gid,
        "size": metadata.size,
        "modified": modified(metadata),
        "links": metadata.links,
        "inode": metadata.inode,
    })
}

fn entry_json(entry: &Entry) -> Value {
    let name = entry.name.to_string_lossy();
    match &entry.metadata {
        Some(metadata) => {
            let mut value = metadata_json(metadata);
            if let Some(fields) = value.as_object_mut() {
                fields.shift_insert(0, "name".to_owned(), json!(name));
            }
            value
        }
        None => json!({ "name": name, "kind": kind_word(entry.kind) }),
    }
}

fn entry_text(entry: &Entry) -> String {
    let name = safe(&entry.name.to_string_lossy());
    match &entry.metadata {
        Some(metadata) => format!(
            "{}{:04o} {:>5} {:>5} {:>10} {} {name}",
            kind_letter(metadata.kind),
            metadata.permissions,
            metadata.uid,
            metadata.gid,
            metadata.size,
            modified(metadata),
        ),
        None if entry.kind == FileKind::Directory => format!("{name}/"),
        None => name,
    }
}

fn stat_json(found: &StatResult) -> Value {
    let mut value = metadata_json(&found.metadata);
    if let (Some(fields), Some(link)) = (value.as_object_mut(), &found.link) {
        fields.insert("link".to_owned(), json!(link.to_string_lossy()));
    }
    value
}

fn stat_text(path: &Path, found: &StatResult) -> Vec<String> {
    let metadata = &found.metadata;
    let mut lines = vec![
        format!("path      {}", safe(&path.to_string_lossy())),
        format!("kind      {}", kind_word(metadata.kind)),
        format!("mode      {:04o}", metadata.permissions),
        format!("owner     {}:{}", metadata.uid, metadata.gid),
        format!("size      {}", metadata.size),
        format!("modified  {}", modified(metadata)),
    ];
    let link = found.link.as_ref();
    lines.extend(link.map(|to| format!("link      {}", safe(&to.to_string_lossy()))));
    lines
}

/// The time of the last change, in UTC. Days are counted from March, so that the leap day is a
/// year's last.
fn modified(metadata: &Metadata) -> String {
    let seconds = metadata.modified_ns.div_euclid(1_000_000_000);
    let (days, rest) = (seconds.div_euclid(86_400), seconds.rem_euclid(86_400));
    let shifted = days + 719_468;
    let era = shifted.div_euclid(146_097);
    let day_of_era = shifted.rem_euclid(146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    let (hour, minute, second) = (rest / 3600, rest / 60 % 60, rest % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_those_of_the_calendar() {
        for (seconds, expected) in [
            (0, "1970-01-01T00:00:00Z"),
            (951_782_400, "2000-02-29T00:00:00Z"),
            (951_868_800, "2000-03-01T00:00:00Z"),
            (4_107_542_399, "2100-02-28T23:59:59Z"),
            (-1, "1969-12-31T23:59:59Z"),
        ] {
            let metadata = Metadata {
                kind: FileKind::File,
                permissions: 0,
                uid: 0,
                gid: 0,
                size: 0,
                modified_ns: seconds * 1_000_000_000,
                links: 1,
                inode: 1,
            };
            assert_eq!(modified(&metadata), expected);
        }
    }

    #[test]
    fn amounts_are_short() {
        for (bytes, expected) in
            [(0, "0 B"), (1023, "1023 B"), (1536, "1.5 KiB"), (3 << 20, "3.0 MiB")]
        {
            assert_eq!(amount(bytes), expected);
        }
    }
}
