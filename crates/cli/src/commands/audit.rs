//! `clawpen audit`: shows, follows, verifies and exports the record of calls.

mod time;

use std::fs::{File, OpenOptions};
use std::io::{BufWriter, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;
use std::time::Duration;

use clawpen_engine::audit::{Audit, Event, Filter, GivenHead, Head, Record, Retention, Verdict};
use clawpen_engine::clock::{Clock as _, SystemClock};
use clawpen_engine::config_store;
use clawpen_engine::database::Database;
use clawpen_rules::config::print::harmless_json;
use clawpen_rules::timestamp::Timestamp;
use clawpen_wire::audit as wire;

use super::CommandError;
use crate::args::{AuditArgs, Format};
use crate::exit::Outcome;
use crate::output::{Output, Reader, safe};

/// How many records a list shows unless told.
const LIMIT: u64 = 50;
/// How long a follower sleeps at most before it looks by itself.
const FOLLOW_WAIT: Duration = Duration::from_secs(30);

pub(crate) fn run(args: &AuditArgs, output: &Output) -> Result<Outcome, CommandError> {
    let action = &args.action;
    let locations = config_store::locations()?;
    let state = Path::new(&locations.state_dir);
    // A follower waits for the first record, so there must be something to watch.
    let database =
        if action.follow { Some(Database::open(state)?) } else { Database::open_existing(state)? };
    let Some(database) = database else { return nothing_yet(args, output) };
    let audit = database.audit();
    match &action.export {
        Some(file) => export(audit, file, args.format.format(), output),
        None if action.verify => verify(audit, args, output),
        None if action.retain => retain(audit, args.format.format(), output),
        None if action.follow => follow(audit, args, output),
        None => list(audit, args, output),
    }
}

/// Before the first call there is no database, and asking makes none.
fn nothing_yet(args: &AuditArgs, output: &Output) -> Result<Outcome, CommandError> {
    let head = Head::START.shape();
    match args.format.format() {
        Format::Json if args.action.verify => output.json(&wire::Verification {
            whole: args.head.is_none(),
            records: 0,
            base: head.clone(),
            head,
            breaks: Vec::new(),
            clock_went_back: 0,
            given_head: args.head.map(|_| "missing".to_owned()),
        })?,
        Format::Json => output.json(&wire::List { records: Vec::new(), head })?,
        Format::Text => output.note("nothing was recorded yet"),
    }
    if args.head.is_some() {
        output.note("the given head is not in the chain: there is none");
        return Ok(Outcome::Refused);
    }
    Ok(Outcome::Done)
}

fn list(audit: Audit<'_>, args: &AuditArgs, output: &Output) -> Result<Outcome, CommandError> {
    let records = audit.list(&filter(args, LIMIT)?)?;
    match args.format.format() {
        Format::Json => output.json(&wire::List {
            records: records.iter().map(Record::shape).collect(),
            head: audit.head()?.shape(),
        })?,
        Format::Text if records.is_empty() => output.note("no record fits"),
        Format::Text => {
            let lines: Vec<String> = records.iter().map(|record| line(record, output)).collect();
            output.lines(&lines)?;
        }
    }
    Ok(Outcome::Done)
}

fn follow(audit: Audit<'_>, args: &AuditArgs, output: &Output) -> Result<Outcome, CommandError> {
    let first = filter(args, 10)?;
    let head = audit.head()?;
    let mut records = audit.list(&first)?;
    records.retain(|record| record.seq <= head.seq);
    let mut follower = audit.follow(Filter { after: head.seq, ..first })?;
    loop {
        for record in &records {
            let text = match args.format.format() {
                Format::Json => json_line(&record.shape())?,
                Format::Text => line(record, output) + "\n",
            };
            if output.stream(&text)? == Reader::Gone {
                return Ok(Outcome::Done);
            }
        }
        records = follower.next(FOLLOW_WAIT)?;
    }
}

fn verify(audit: Audit<'_>, args: &AuditArgs, output: &Output) -> Result<Outcome, CommandError> {
    let verified = audit.verify(args.head)?;
    match args.format.format() {
        Format::Json => output.json(&verified.shape())?,
        Format::Text => {
            let word = if verified.is_whole() { "whole" } else { "NOT whole" };
            let mut lines = vec![
                output.bold(&format!("the chain is {word}: {} records", verified.records)),
                format!("  head: {}", verified.head),
            ];
            if verified.base.seq > 0 {
                lines.push(format!("  dropped by retention: up to {}", verified.base.seq));
            }
            let found = verified.breaks.iter();
            lines.extend(found.map(|found| format!("  {}: {}", found.seq, found.kind.text())));
            lines.extend(
                match verified.given {
                    GivenHead::None | GivenHead::Missing => None,
                    GivenHead::Proven => {
                        Some("  the given head is in it: all up to it is as it was")
                    }
                    GivenHead::Dropped => Some("  the given head was dropped by retention since"),
                }
                .map(str::to_owned),
            );
            if verified.clock_went_back > 0 {
                let times = verified.clock_went_back;
                lines.push(format!("  note: the clock went back {times} time(s)"));
            }
            output.lines(&lines)?;
            if args.head.is_none() {
                output.note(
                    "whoever has your uid can rewrite all of it: keep the head elsewhere, and give \
                     it with --head",
                );
            }
        }
    }
    Ok(if verified.is_whole() { Outcome::Done } else { Outcome::Refused })
}

fn retain(audit: Audit<'_>, format: Format, output: &Output) -> Result<Outcome, CommandError> {
    let store = config_store::open()?;
    let retention = Retention::of(&store.loaded.own.audit());
    let dropped = audit.retain(&retention, SystemClock.now().wall)?;
    match format {
        Format::Json => {
            let head = dropped.head.shape();
            output.json(&wire::Done { file: None, records: dropped.records, head })?;
        }
        Format::Text => output.lines(&[format!("dropped {} records", dropped.records)])?,
    }
    Ok(Outcome::Done)
}

fn export(
    audit: Audit<'_>,
    file: &Path,
    format: Format,
    output: &Output,
) -> Result<Outcome, CommandError> {
    let name = file.to_string_lossy().into_owned();
    if name == "-" {
        write_export(audit, |text| {
            output.stream(text)?;
            Ok(())
        })?;
        return Ok(Outcome::Done);
    }
    let failed = |cause| CommandError::Write { path: name.clone(), cause };
    // Never over something else, and for nobody else to read.
    let opened = OpenOptions::new().write(true).create_new(true).mode(0o600).open(file);
    let mut writer = BufWriter::new(opened.map_err(failed)?);
    let written = write_export(audit, |text| writer.write_all(text.as_bytes()).map_err(failed))
        .and_then(|done| {
            let file: File = writer.into_inner().map_err(|error| failed(error.into_error()))?;
            file.sync_all().map_err(failed)?;
            Ok(done)
        });
    let (records, head) = match written {
        Ok(done) => done,
        Err(error) => {
            // Half an export looks like one.
            let _ = std::fs::remove_file(file);
            return Err(error);
        }
    };
    match format {
        Format::Json => {
            output.json(&wire::Done { file: Some(name), records, head: head.shape() })?;
        }
        Format::Text => output.lines(&[
            format!("exported {records} records to {}", safe(&name)),
            format!("  head: {head}"),
        ])?,
    }
    Ok(Outcome::Done)
}

fn write_export(
    audit: Audit<'_>,
    mut write: impl FnMut(&str) -> Result<(), CommandError>,
) -> Result<(u64, Head), CommandError> {
    let format = wire::FORMAT.to_owned();
    write(&json_line(&wire::ExportStart { format: format.clone() })?)?;
    let mut records = 0;
    let (base, head) = audit.export(|record| {
        records += 1;
        write(&json_line(&record.shape())?)
    })?;
    let (base, end) = (base.shape(), head.shape());
    write(&json_line(&wire::ExportEnd { format, records, base, head: end })?)?;
    Ok((records, head))
}

fn json_line(value: &impl serde::Serialize) -> Result<String, CommandError> {
    let text = serde_json::to_string(value).map_err(std::io::Error::other)?;
    Ok(harmless_json(&text) + "\n")
}

fn filter(args: &AuditArgs, limit: u64) -> Result<Filter, CommandError> {
    let which = &args.which;
    let now = SystemClock.now().wall;
    let moment = |text: &Option<String>| -> Result<Option<Timestamp>, CommandError> {
        let Some(text) = text else { return Ok(None) };
        let found = time::parse(text, now);
        found.map(Some).ok_or_else(|| CommandError::Question {
            what: format!(
                "`{}` is no time; write 2026-11-15T08:00Z, or 90s, 15m, 2h, 7d for so long ago",
                safe(text)
            ),
        })
    };
    let limit = which.limit.unwrap_or(limit);
    Ok(Filter {
        session: which.session.clone(),
        agent: which.agent.clone(),
        tool: which.tool.clone(),
        verdict: which.verdict,
        since: moment(&which.since)?,
        until: moment(&which.until)?,
        after: 0,
        limit: (limit > 0).then_some(limit),
    })
}

/// One record for a person. Why, only where something did not go through.
fn line(record: &Record, output: &Output) -> String {
    let time = output.dim(&time::short(record.time));
    let call = match &record.event {
        Event::Call(call) => call,
        Event::Retention { reason, through } => {
            let reason = safe(reason.as_str());
            return format!("{time}  dropped   records up to {}: {reason}", through.seq);
        }
        Event::Rebuild { reason, .. } => {
            return format!("{time}  rebuilt   {}", safe(reason.as_str()));
        }
    };
    let whose = call.session.as_deref().or(call.agent.as_deref()).unwrap_or("-");
    let ending = call.ending.map_or_else(|| "-".to_owned(), |ending| ending.to_string());
    let mut text = format!(
        "{time}  {:8}  {:12}  {}  {ending}  {}  in {} out {}",
        call.verdict.as_str(),
        safe(&call.tool),
        safe(whose),
        time::length(call.duration),
        time::bytes(call.bytes_in),
        time::bytes(call.bytes_out),
    );
    if call.verdict != Verdict::Allowed {
        text.push_str("\n    ");
        text.push_str(&output.dim(&safe(call.reason.as_str())));
    }
    text
}
