//! Records in the shape that leaves us. Every field is taken apart by name, so that a new one is
//! not forgotten here.

use clawpen_wire::audit as wire;

use super::chain::{Break, GivenHead, Verified};
use super::record::{Call, Event, Head, Record, micros};

impl Record {
    pub fn shape(&self) -> wire::Record {
        let Self { seq, time, event, previous, hash } = self;
        let (kind, call, reason, through) = match event {
            Event::Call(call) => ("call", Some(call), &call.reason, None),
            Event::Retention { through, reason } => ("retention", None, reason, Some(*through)),
            Event::Rebuild { through, reason } => ("rebuild", None, reason, *through),
        };
        wire::Record {
            seq: *seq,
            time: time.to_string(),
            time_ms: time.as_millis(),
            kind: kind.to_owned(),
            call: call.map(Call::shape),
            reason: reason.as_str().to_owned(),
            through: through.map(Head::shape),
            previous: previous.to_string(),
            hash: hash.to_string(),
        }
    }
}

impl Call {
    fn shape(&self) -> wire::Call {
        let Self { call, session, agent, scope, door, tool, verdict, .. } = self;
        let Self { reason: _, ending, duration, bytes_in, bytes_out, .. } = self;
        wire::Call {
            call: call.clone(),
            session: session.clone(),
            agent: agent.clone(),
            scope: scope.clone(),
            door: door.as_str().to_owned(),
            tool: tool.clone(),
            verdict: verdict.as_str().to_owned(),
            ending: ending.map(|ending| ending.to_string()),
            duration_us: micros(*duration),
            bytes_in: *bytes_in,
            bytes_out: *bytes_out,
        }
    }
}

impl Head {
    pub fn shape(self) -> wire::Head {
        wire::Head { seq: self.seq, hash: self.hash.to_string() }
    }
}

impl Verified {
    pub fn shape(&self) -> wire::Verification {
        let Self { base, head, records, breaks, clock_went_back, given } = self;
        let given_head = match given {
            GivenHead::None => None,
            GivenHead::Proven => Some("proven".to_owned()),
            GivenHead::Dropped => Some("dropped".to_owned()),
            GivenHead::Missing => Some("missing".to_owned()),
        };
        let shape = |Break { seq, kind }: &Break| wire::Break {
            seq: *seq,
            kind: kind.as_str().to_owned(),
            text: kind.text().to_owned(),
        };
        wire::Verification {
            whole: self.is_whole(),
            records: *records,
            base: base.shape(),
            head: head.shape(),
            breaks: breaks.iter().map(shape).collect(),
            clock_went_back: *clock_went_back,
            given_head,
        }
    }
}
