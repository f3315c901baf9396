//! What `clawpen audit --json` prints, and the lines of an export.
//!
//! An export is JSON lines: an [`ExportStart`], the records, an [`ExportEnd`]. Both carry the version
//! of the format, and a record carries all that its hash is taken of.

use serde::Serialize;

/// The version of the lines of an export.
pub const FORMAT: &str = "clawpen-audit-1";

/// Records, oldest first, and where the chain ends.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct List {
    pub records: Vec<Record>,
    pub head: Head,
}

/// One record.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Record {
    pub seq: u64,
    /// As RFC 3339 writes it, in UTC.
    pub time: String,
    pub time_ms: u64,
    /// `call`, `retention` or `rebuild`.
    pub kind: String,
    /// What a call's record has besides.
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    pub call: Option<Call>,
    pub reason: String,
    /// The last record that is no longer there, of a record that vouches for it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub through: Option<Head>,
    /// The hash of the record before.
    pub previous: String,
    pub hash: String,
}

/// A call.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Call {
    pub call: String,
    pub session: Option<String>,
    pub agent: Option<String>,
    pub scope: Option<String>,
    pub door: String,
    pub tool: String,
    /// `allowed`, `refused`, `approved`, `denied` or `failed`.
    pub verdict: String,
    /// `exit 0`, `signal 9`, `timed out` or `lost`; absent if nothing ran.
    pub ending: Option<String>,
    pub duration_us: u64,
    pub bytes_in: u64,
    pub bytes_out: u64,
}

/// An end of the chain.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Head {
    pub seq: u64,
    pub hash: String,
}

/// What `--verify` found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Verification {
    pub whole: bool,
    pub records: u64,
    /// The last record that retention dropped.
    pub base: Head,
    pub head: Head,
    pub breaks: Vec<Break>,
    /// How often the clock was behind the record before; no break.
    pub clock_went_back: u64,
    /// `proven`, `dropped` or `missing`; absent if no head was given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub given_head: Option<String>,
}

/// A place where the chain is not whole.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Break {
    pub seq: u64,
    pub kind: String,
    pub text: String,
}

/// What `--export` and `--retain` did.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Done {
    /// Where the export is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
    /// How many were exported, or dropped.
    pub records: u64,
    pub head: Head,
}

/// The first line of an export.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ExportStart {
    pub format: String,
}

/// The last line of an export: without it the export is not whole.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ExportEnd {
    pub format: String,
    pub records: u64,
    pub base: Head,
    pub head: Head,
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOLDEN: &str = include_str!("../golden/audit-v1.txt");

    #[test]
    fn the_shapes_are_those_of_version_1() {
        let head = || Head { seq: 2, hash: "ab".to_owned() };
        let call = Call {
            call: "c1".to_owned(),
            session: Some("agent:main:main".to_owned()),
            agent: Some("main".to_owned()),
            scope: None,
            door: "cli".to_owned(),
            tool: "exec".to_owned(),
            verdict: "allowed".to_owned(),
            ending: Some("exit 0".to_owned()),
            duration_us: 1500,
            bytes_in: 0,
            bytes_out: 12,
        };
        let record = Record {
            seq: 1,
            time: "2023-11-14T22:13:20.000Z".to_owned(),
            time_ms: 1_700_000_000_000,
            kind: "call".to_owned(),
            call: Some(call),
            reason: "because".to_owned(),
            through: None,
            previous: "00".to_owned(),
            hash: "ab".to_owned(),
        };
        let kind = "retention".to_owned();
        let retention = Record { call: None, kind, through: Some(head()), ..record.clone() };
        let verification = Verification {
            whole: false,
            records: 1,
            base: head(),
            head: head(),
            breaks: vec![Break { seq: 1, kind: "gap".to_owned(), text: "words".to_owned() }],
            clock_went_back: 0,
            given_head: Some("missing".to_owned()),
        };
        let format = FORMAT.to_owned();
        let start = ExportStart { format: format.clone() };
        let end = ExportEnd { format, records: 1, base: head(), head: head() };
        let done = Done { file: Some("f".to_owned()), records: 1, head: head() };
        let lines = [
            json(&List { records: vec![record, retention], head: head() }),
            json(&verification),
            json(&done),
            json(&start),
            json(&end),
        ];
        assert_eq!(lines.join("\n") + "\n", GOLDEN);
    }

    fn json(value: &impl Serialize) -> String {
        serde_json::to_string(value).unwrap()
    }
}
