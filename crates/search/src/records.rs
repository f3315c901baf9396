//! The answer: four fields a record, each ended by a NUL.

use std::io::{self, Write};
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

/// Bytes given of one line; the engine shows fewer characters.
const LINE: usize = 2048;

/// How a search ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum End {
    All,
    /// There is more than was asked for.
    Limit,
    Time,
    Failed(String),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Role {
    Match,
    Around,
}

#[derive(Debug)]
pub(crate) struct Records<W> {
    out: W,
}

impl<W: Write> Records<W> {
    pub(crate) const fn new(out: W) -> Self {
        Self { out }
    }

    pub(crate) fn line(
        &mut self,
        role: Role,
        path: &Path,
        number: u64,
        text: &[u8],
    ) -> io::Result<()> {
        let kind = match role {
            Role::Match => "m",
            Role::Around => "c",
        };
        let text = text.get(..LINE).unwrap_or(text);
        self.record(kind, path.as_os_str().as_bytes(), &number.to_string(), text)
    }

    pub(crate) fn file(&mut self, path: &Path, mark: &str) -> io::Result<()> {
        let path = [path.as_os_str().as_bytes(), mark.as_bytes()].concat();
        self.record("f", &path, "", b"")
    }

    pub(crate) fn finish(mut self, end: &End) -> io::Result<()> {
        match end {
            End::All => self.record("e", b"all", "", b"")?,
            End::Limit => self.record("e", b"limit", "", b"")?,
            End::Time => self.record("e", b"time", "", b"")?,
            End::Failed(why) => self.record("x", b"", "", why.as_bytes())?,
        }
        self.out.flush()
    }

    fn record(&mut self, kind: &str, path: &[u8], number: &str, text: &[u8]) -> io::Result<()> {
        for field in [kind.as_bytes(), path, number.as_bytes(), text] {
            // A NUL would end the field; no path has one, and a text with one is binary.
            for part in field.split_inclusive(|byte| *byte == 0) {
                self.out.write_all(part.strip_suffix(&[0]).unwrap_or(part))?;
            }
            self.out.write_all(&[0])?;
        }
        Ok(())
    }
}
