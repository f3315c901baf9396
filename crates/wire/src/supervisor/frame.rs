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
//! [`Inbox`] collects bytes of any size and gives whole frames back, without copying them; it
//! never holds more than one longest frame and what one read brought with it.

use super::codec::{self, Cap, DecodeError, EncodeError, Wire};
use super::limits;
use super::message::{Event, Request};

/// Length, channel and kind.
pub const HEADER: usize = 9;
/// What `length` counts of the header.
const COUNTED: usize = 5;

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

    /// Decodes the message.
    pub fn decode<M: Message<'w>>(&self) -> Result<M, DecodeError> {
        codec::decode(self.message)
    }
}

/// Bytes that have arrived and were not yet taken.
#[derive(Debug)]
pub struct Inbox {
    buffer: Vec<u8>,
    /// Where the next frame starts.
    start: usize,
    /// The longest frame taken, header included.
    longest: usize,
}

impl Inbox {
    /// For the supervisor.
    pub const fn of_requests() -> Self {
        Self { buffer: Vec::new(), start: 0, longest: limits::REQUEST_FRAME }
    }

    /// For the host.
    pub const fn of_events() -> Self {
        Self { buffer: Vec::new(), start: 0, longest: limits::EVENT_FRAME }
    }

    /// Adds bytes as they came. Take all whole frames before adding more, or they pile up.
    pub fn push(&mut self, bytes: &[u8]) {
        self.make_room();
        self.buffer.extend_from_slice(bytes);
    }

    /// Takes the next whole frame; `None` if more bytes are needed. After an error there is no
    /// telling where the next frame starts: close the connection.
    pub fn next(&mut self) -> Result<Option<Frame<'_>>, DecodeError> {
        let Some(length) = self.whole_frame()? else { return Ok(None) };
        let frame = self.buffer.get(self.start..self.start + length).unwrap_or_default();
        self.start += length;
        let channel = frame.get(4..).and_then(|rest| rest.first_chunk::<4>());
        let channel = channel.copied().map(u32::from_le_bytes).ok_or(DecodeError::Truncated)?;
        let message = frame.get(HEADER - 1..).ok_or(DecodeError::Truncated)?;
        Ok(Some(Frame { channel, message }))
    }

    /// Whether part of a frame has arrived: a peer that leaves now has broken off.
    pub fn is_empty(&self) -> bool {
        self.start >= self.buffer.len()
    }

    /// The length of the next frame, header included, if all of it is here.
    fn whole_frame(&self) -> Result<Option<usize>, DecodeError> {
        let rest = self.buffer.get(self.start..).unwrap_or_default();
        let Some(counted) = rest.first_chunk::<4>() else { return Ok(None) };
        let counted = usize::try_from(u32::from_le_bytes(*counted)).unwrap_or(usize::MAX);
        let length = counted.saturating_add(4);
        if length > self.longest {
            return Err(DecodeError::TooLong { length, cap: self.longest });
        }
        if counted < COUNTED {
            return Err(DecodeError::Truncated);
        }
        Ok((rest.len() >= length).then_some(length))
    }

    /// Moves what is left to the front, and gives memory back after a long frame.
    fn make_room(&mut self) {
        if self.start == 0 {
            return;
        }
        self.buffer.drain(..self.start);
        self.start = 0;
        if self.buffer.len() < KEPT && self.buffer.capacity() > KEPT {
            self.buffer.shrink_to(KEPT);
        }
    }
}

/// Memory that an idle connection keeps.
const KEPT: usize = 64 * 1024;
