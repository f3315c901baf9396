//! Where one message ends and the next begins.
//!
//! ```text
//! 0        4          8      9
//! | length | channel  | kind | body …
//! ```
//!
//! `length` counts what follows it, so at least 5. Kind is the tag of the message. All of this is
//! the same in every protocol version.
//!
//! [`Inbox`] collects what reads bring and gives whole frames back, without copying them; it never
//! holds more than one longest frame.

use super::codec::{self, Cap, DecodeError, EncodeError, Reader, Wire};
use super::limits;
use super::message::{Event, Request};

/// Length, channel and kind.
pub const HEADER: usize = 9;

/// What can stand in a frame.
pub trait Message<'w>: Wire<'w> {
    /// The longest frame of this kind of message, header included.
    const LONGEST: usize;
}

impl<'w: 'a, 'a> Message<'w> for Request<'a> {
    const LONGEST: usize = limits::REQUEST_FRAME;
}

impl<'w: 'a, 'a> Message<'w> for Event<'a> {
    const LONGEST: usize = limits::EVENT_FRAME;
}

/// Appends `message` to `out` as one frame. On an error `out` is as it was.
pub fn append<'w, M: Message<'w>>(
    out: &mut Vec<u8>,
    channel: u32,
    message: &M,
) -> Result<(), EncodeError> {
    let start = out.len();
    out.extend_from_slice(&[0; 4]);
    out.extend_from_slice(&channel.to_le_bytes());
    let put = message.put(out, Cap::NONE).and_then(|()| {
        let length = out.len() - start;
        let too_long = EncodeError::TooLong { length, cap: M::LONGEST };
        if length > M::LONGEST { Err(too_long) } else { Ok(length - 4) }
    });
    let counted = match put {
        Ok(counted) => u32::try_from(counted).unwrap_or(u32::MAX),
        Err(error) => {
            out.truncate(start);
            return Err(error);
        }
    };
    if let Some(place) = out.get_mut(start..start + 4) {
        place.copy_from_slice(&counted.to_le_bytes());
    }
    Ok(())
}

/// One whole frame, not yet decoded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Frame<'w> {
    /// The call it belongs to.
    pub channel: u32,
    /// Kind and body.
    message: &'w [u8],
}

impl<'w> Frame<'w> {
    /// The tag of the message.
    pub fn kind(&self) -> u8 {
        self.message.first().copied().unwrap_or_default()
    }

    /// Kind and body, as they came.
    pub const fn message(&self) -> &'w [u8] {
        self.message
    }

    /// Decodes the message.
    pub fn decode<M: Message<'w>>(&self) -> Result<M, DecodeError> {
        codec::decode(self.message)
    }
}

/// Bytes that have arrived and were not yet taken.
#[derive(Debug)]
pub struct Inbox {
    /// All of it is room; `start..end` is filled.
    buffer: Vec<u8>,
    start: usize,
    end: usize,
    /// The longest frame taken, header included.
    longest: usize,
}

impl Inbox {
    /// For the supervisor.
    pub const fn of_requests() -> Self {
        Self { buffer: Vec::new(), start: 0, end: 0, longest: limits::REQUEST_FRAME }
    }

    /// For the host.
    pub const fn of_events() -> Self {
        Self { buffer: Vec::new(), start: 0, end: 0, longest: limits::EVENT_FRAME }
    }

    /// Where the next bytes go; never empty. Take all whole frames first. Say with
    /// [`Inbox::filled`] how many came.
    pub fn room(&mut self) -> &mut [u8] {
        if self.start > 0 {
            self.buffer.copy_within(self.start..self.end, 0);
            self.end -= self.start;
            self.start = 0;
        }
        // A frame that has begun says how long it is; only then does the buffer grow to it.
        let begun = self.buffer.first_chunk::<4>().filter(|_| self.end >= 4);
        let begun = begun.map_or(0, |counted| frame_length(*counted).min(self.longest));
        let wanted = begun.max(KEPT).max(self.end + 1);
        if wanted > self.buffer.len() {
            self.buffer.resize(wanted, 0);
        }
        self.buffer.get_mut(self.end..).unwrap_or_default()
    }

    /// Says that the first `count` bytes of [`Inbox::room`] were filled.
    pub fn filled(&mut self, count: usize) {
        self.end = self.end.saturating_add(count).min(self.buffer.len());
    }

    /// Whether a whole frame is here, so that [`Inbox::next_frame`] gives it.
    pub fn has_frame(&self) -> Result<bool, DecodeError> {
        self.begun_frame().map(|begun| begun.is_some_and(|frame| frame.whole))
    }

    /// Takes the next whole frame; `None` if more bytes are needed. After an error there is no
    /// telling where the next frame starts: close the connection.
    pub fn next_frame(&mut self) -> Result<Option<Frame<'_>>, DecodeError> {
        let Some(begun) = self.begun_frame()?.filter(|begun| begun.whole) else {
            return Ok(None);
        };
        let end = self.start.saturating_add(begun.length);
        let mut frame = Reader::new(self.buffer.get(self.start..end).unwrap_or_default());
        self.start = end;
        let _counted = frame.array::<4>()?;
        let channel = u32::from_le_bytes(frame.array()?);
        Ok(Some(Frame { channel, message: frame.rest() }))
    }

    /// What the start of the next frame says, once its length is here.
    fn begun_frame(&self) -> Result<Option<Begun>, DecodeError> {
        let rest = self.buffer.get(self.start..self.end).unwrap_or_default();
        let Some(counted) = rest.first_chunk::<4>() else { return Ok(None) };
        let length = frame_length(*counted);
        if length > self.longest {
            return Err(DecodeError::TooLong { length, cap: self.longest });
        }
        if length < HEADER {
            return Err(DecodeError::Truncated);
        }
        Ok(Some(Begun { length, whole: rest.len() >= length }))
    }

    /// Whether nothing is left. A peer that goes while something is has broken off in a frame.
    pub const fn is_empty(&self) -> bool {
        self.start >= self.end
    }

    /// Gives the memory of long frames back; for moments when nothing is expected.
    pub fn settle(&mut self) {
        if self.is_empty() && self.buffer.len() > KEPT {
            *self = Self { buffer: Vec::new(), start: 0, end: 0, longest: self.longest };
        }
    }
}

struct Begun {
    /// Header included.
    length: usize,
    /// Whether all of it is here.
    whole: bool,
}

/// The whole length of a frame, header included, from its first four bytes.
fn frame_length(counted: [u8; 4]) -> usize {
    usize::try_from(u32::from_le_bytes(counted)).unwrap_or(usize::MAX).saturating_add(4)
}

/// What a buffer starts with and an idle connection keeps.
const KEPT: usize = 16 * 1024;
