//! One record for every call, whatever came of it. Never contents, arguments or variables.

use std::io;
use std::os::fd::BorrowedFd;
use std::time::Duration;

use clawpen_rules::session::Placement;
use clawpen_wire::supervisor::{Started, Stream};
use serde_json::Value;

use super::{Elapsed, Keeping, OpenError, Prepared, Target};
use crate::audit::{AuditError, Call, Door, Ending, Piece, Reason, Verdict};
use crate::backend::Plan;
use crate::channel::{ExecIo, Input, Order};
use crate::error_text::chain;
use crate::random;
use crate::yard::Yard;

/// A shorter value of a variable keeps no secret, and is part of ordinary words.
const SECRET: usize = 4;

/// What kind of call it is.
#[derive(Debug, Clone, Copy)]
pub struct About<'a> {
    pub door: Door,
    /// The tool's name, as the policy knows it.
    pub tool: &'a str,
    pub keeping: Keeping,
}

/// What a call moved and how it ended; filled in by whoever does it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Tally {
    /// `None`: what ran had no end of its own, such as a file call.
    pub ending: Option<Ending>,
    pub bytes_in: u64,
    pub bytes_out: u64,
}

/// Counts what goes through to a command and back.
#[derive(Debug)]
pub struct Counted<'a, T> {
    inner: &'a mut T,
    tally: &'a mut Tally,
}

impl Tally {
    /// Counts everything that goes through `inner`.
    pub fn count<'a, T: ExecIo>(&'a mut self, inner: &'a mut T) -> Counted<'a, T> {
        Counted { inner, tally: self }
    }
}

impl<T: ExecIo> ExecIo for Counted<'_, T> {
    fn output(&mut self, stream: Stream, bytes: &[u8]) -> io::Result<()> {
        self.tally.bytes_out += bytes.len() as u64;
        self.inner.output(stream, bytes)
    }

    fn started(&mut self, started: Started) -> io::Result<()> {
        self.inner.started(started)
    }

    fn input(&self) -> Input<'_> {
        self.inner.input()
    }

    fn read_input(&mut self, room: &mut [u8]) -> io::Result<usize> {
        let count = self.inner.read_input(room)?;
        self.tally.bytes_in += count as u64;
        Ok(count)
    }

    fn orders(&self) -> Option<BorrowedFd<'_>> {
        self.inner.orders()
    }

    fn next_order(&mut self) -> io::Result<Option<Order>> {
        self.inner.next_order()
    }
}

/// A call that ran.
pub(super) fn ran(
    prepared: &Prepared,
    about: &About<'_>,
    id: &str,
    (duration, tally): Elapsed,
) -> Call {
    let mut call = blank(prepared, about, id);
    call.ending = tally.ending;
    call.duration = duration;
    call.bytes_in = tally.bytes_in;
    call.bytes_out = tally.bytes_out;
    call
}

/// A call for which there was no sandbox.
pub(super) fn not_run(
    yard: &Yard,
    prepared: &Prepared,
    about: &About<'_>,
    id: &str,
    error: &OpenError,
) -> Result<(), AuditError> {
    let mut call = blank(prepared, about, id);
    call.verdict = match error {
        OpenError::Refused(_) => Verdict::Refused,
        _ => Verdict::Failed,
    };
    call.reason = reason(error, &prepared.plan);
    append(yard, &call)
}

/// Why there is no sandbox, with every cause. What a setup command said and the values of variables stay out of the
/// record, whichever cause quotes them.
fn reason(error: &OpenError, plan: &Plan) -> Reason {
    let environment = match plan {
        Plan::Native(plan) => plan.pen.env(),
        Plan::Docker(spec) => spec.env(),
    };
    let values = environment.iter().map(|(_, value)| value).filter(|value| value.len() >= SECRET);
    Reason::hiding(&chain(error), values.chain(error.quoted()))
}

/// A call that a rule or a person stopped, or that failed before anything ran.
pub(super) fn stopped(
    yard: &Yard,
    prepared: &Prepared,
    about: &About<'_>,
    (verdict, reason): (Verdict, Reason),
) -> Result<(), AuditError> {
    let mut call = blank(prepared, about, &random::uuid());
    call.verdict = verdict;
    call.reason = reason;
    append(yard, &call)
}

/// A reason that may quote the arguments of a call, without what it quotes.
pub(super) fn quoting(text: &str, arguments: &Value) -> Reason {
    let mut texts = Vec::new();
    collect(arguments, &mut texts);
    Reason::of(&[Piece::Quoting(text)], texts)
}

/// Every text of a JSON value, names of members too.
fn collect<'v>(value: &'v Value, texts: &mut Vec<&'v str>) {
    let mut rest = vec![value];
    while let Some(value) = rest.pop() {
        match value {
            Value::String(text) => texts.push(text),
            Value::Array(items) => rest.extend(items),
            Value::Object(members) => {
                texts.extend(members.keys().map(String::as_str));
                rest.extend(members.values());
            }
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }
}

/// A call that ran outside the sandbox, or in one that was there already.
pub(super) fn beside(
    yard: &Yard,
    prepared: &Prepared,
    about: &About<'_>,
    (reason, elapsed): (&str, Elapsed),
) -> Result<(), AuditError> {
    let mut call = blank(prepared, about, &random::uuid());
    let (duration, tally) = elapsed;
    call.reason = Reason::new(reason);
    call.ending = tally.ending;
    call.duration = duration;
    call.bytes_in = tally.bytes_in;
    call.bytes_out = tally.bytes_out;
    append(yard, &call)
}

/// A call that was refused before it was known whose sandbox it would be in.
pub fn refusal(
    yard: &Yard,
    target: &Target<'_>,
    about: &About<'_>,
    error: &OpenError,
) -> Result<(), OpenError> {
    let call = Call {
        call: random::uuid(),
        session: target.session.map(str::to_owned),
        agent: target.agent.map(str::to_owned),
        scope: None,
        door: about.door,
        tool: about.tool.to_owned(),
        verdict: match error {
            OpenError::Refused(_) => Verdict::Refused,
            _ => Verdict::Failed,
        },
        reason: Reason::hiding(&chain(error), error.quoted()),
        ending: None,
        duration: Duration::ZERO,
        bytes_in: 0,
        bytes_out: 0,
    };
    Ok(append(yard, &call)?)
}

pub(super) fn append(yard: &Yard, call: &Call) -> Result<(), AuditError> {
    yard.database.audit().append(call, yard.clock().now().wall).map(drop)
}

fn blank(prepared: &Prepared, about: &About<'_>, id: &str) -> Call {
    let explanation = &prepared.explanation;
    let reason = match &explanation.placement {
        Placement::Sandboxed(reason) => reason.to_string(),
        // `exec`, `shell`, `fs` and the MCP door act in a sandbox whatever the mode says.
        Placement::Direct(_) => "a sandbox was asked for by name".to_owned(),
    };
    Call {
        call: id.to_owned(),
        session: explanation.session.key().map(|key| key.as_str().to_owned()),
        agent: Some(explanation.session.agent().as_str().to_owned()),
        scope: Some(explanation.runtime.scope_key.as_str().to_owned()),
        door: about.door,
        tool: about.tool.to_owned(),
        verdict: Verdict::Allowed,
        reason: Reason::new(&reason),
        ending: None,
        duration: Duration::ZERO,
        bytes_in: 0,
        bytes_out: 0,
    }
}
