//! Cuts a stream of bytes into events: server-sent events, or a JSON text a line.
//!
//! Chunks end anywhere, also within a character. A line has a cap, and so has all of a stream.

use super::dialect::StreamError;

/// The longest line.
const LINE: usize = 4 << 20;
/// The most bytes of one answer.
const ANSWER: u64 = 64 << 20;

/// How events are told apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Framing {
    /// `event:` and `data:` lines, a blank line after each event.
    Events,
    /// One event a line.
    Lines,
}

/// One event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Event {
    pub(super) data: String,
}

/// Takes bytes, gives events.
#[derive(Debug)]
pub(super) struct Cutter {
    framing: Framing,
    line: Vec<u8>,
    data: Vec<u8>,
    has_data: bool,
    seen: u64,
    ends_with_return: bool,
}

impl Cutter {
    pub(super) const fn new(framing: Framing) -> Self {
        Self {
            framing,
            line: Vec::new(),
            data: Vec::new(),
            has_data: false,
            seen: 0,
            ends_with_return: false,
        }
    }

    /// Takes a chunk; adds the events that it completes.
    pub(super) fn feed(
        &mut self,
        chunk: &[u8],
        events: &mut Vec<Event>,
    ) -> Result<(), StreamError> {
        self.seen += chunk.len() as u64;
        if self.seen > ANSWER {
            return Err(StreamError::TooLarge { what: "answer" });
        }
        for byte in chunk {
            match byte {
                // The second half of a line end whose first half ended the line.
                b'\n' if self.ends_with_return => self.ends_with_return = false,
                b'\n' | b'\r' => {
                    self.ends_with_return = *byte == b'\r';
                    self.end_line(events)?;
                }
                other => {
                    self.ends_with_return = false;
                    if self.line.len() + self.data.len() >= LINE {
                        return Err(StreamError::TooLarge { what: "line" });
                    }
                    self.line.push(*other);
                }
            }
        }
        Ok(())
    }

    /// The stream is over: what stands without a line end counts as well.
    pub(super) fn finish(mut self, events: &mut Vec<Event>) -> Result<(), StreamError> {
        if !self.line.is_empty() {
            self.end_line(events)?;
        }
        match self.framing {
            Framing::Events => self.end_event(events),
            Framing::Lines => Ok(()),
        }
    }

    fn end_line(&mut self, events: &mut Vec<Event>) -> Result<(), StreamError> {
        let line = std::mem::take(&mut self.line);
        match self.framing {
            Framing::Lines if line.iter().all(u8::is_ascii_whitespace) => Ok(()),
            Framing::Lines => {
                events.push(Event { data: text(line)? });
                Ok(())
            }
            Framing::Events if line.is_empty() => self.end_event(events),
            Framing::Events => {
                // The kind of an event stands in its data as well; ids and comments say nothing to us.
                if let Some(data) = line.strip_prefix(b"data:") {
                    if self.has_data {
                        self.data.push(b'\n');
                    }
                    self.has_data = true;
                    self.data.extend_from_slice(data.strip_prefix(b" ").unwrap_or(data));
                }
                Ok(())
            }
        }
    }

    fn end_event(&mut self, events: &mut Vec<Event>) -> Result<(), StreamError> {
        if std::mem::take(&mut self.has_data) {
            events.push(Event { data: text(std::mem::take(&mut self.data))? });
        }
        Ok(())
    }
}

fn text(bytes: Vec<u8>) -> Result<String, StreamError> {
    String::from_utf8(bytes)
        .map_err(|_bytes| StreamError::Malformed { what: "text that is no UTF-8" })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cut(framing: Framing, chunks: &[&[u8]]) -> Result<Vec<String>, StreamError> {
        let mut cutter = Cutter::new(framing);
        let mut events = Vec::new();
        for chunk in chunks {
            cutter.feed(chunk, &mut events)?;
        }
        cutter.finish(&mut events)?;
        Ok(events.into_iter().map(|event| event.data).collect())
    }

    #[test]
    fn events_are_the_same_however_the_bytes_are_cut() {
        let stream =
            "event: a\r\ndata: {\"x\":\"ä\"}\r\n\r\n: ping\ndata:b\ndata: c\n\nid: 1\n\ndata: end"
                .as_bytes();
        let expected = ["{\"x\":\"ä\"}", "b\nc", "end"];
        assert_eq!(cut(Framing::Events, &[stream]).unwrap(), expected);
        let bytes: Vec<&[u8]> = stream.chunks(1).collect();
        assert_eq!(cut(Framing::Events, &bytes).unwrap(), expected);
        for at in 0..stream.len() {
            assert_eq!(cut(Framing::Events, &[&stream[..at], &stream[at..]]).unwrap(), expected);
        }
        assert_eq!(cut(Framing::Lines, &[b"{}\n\n[", b"1]\r\n2"]).unwrap(), ["{}", "[1]", "2"]);
    }

    #[test]
    fn a_line_without_end_and_bytes_that_are_no_text_are_errors() {
        let long = vec![b'a'; LINE + 1];
        assert!(matches!(cut(Framing::Lines, &[&long]), Err(StreamError::TooLarge { .. })));
        let kept = [b"data: ".as_slice(), &vec![b'a'; LINE - 100], b"\ndata: ", &[b'b'; 200]];
        assert!(matches!(cut(Framing::Events, &kept), Err(StreamError::TooLarge { .. })));
        assert!(matches!(cut(Framing::Lines, &[b"\xff\n"]), Err(StreamError::Malformed { .. })));
    }
}
