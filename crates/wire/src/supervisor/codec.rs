//! Bytes to values and back, with a cap on every length and count.
//!
//! Integers are little endian and of fixed width, lengths and counts are `u32`, an enum is a tag
//! byte and its fields. Decoding makes room only for bytes that have arrived; what is longer than
//! its cap, unknown, or left over is an error. Encoding refuses what the peer would refuse.
//!
//! A message never changes its shape: a changed one gets a new tag, and the protocol version says
//! which tags may be used. So nothing here needs to know a version.

mod shapes;

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Path, PathBuf};

pub(crate) use shapes::{bind, cap, choice, record};

/// The most that one field may hold. A field without a cap holds nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cap {
    pub(crate) count: usize,
    pub(crate) bytes: usize,
}

impl Cap {
    /// For fields of fixed size, and for records, whose fields carry their own caps.
    pub const NONE: Self = Self { count: 0, bytes: 0 };

    /// At most `bytes` bytes.
    pub const fn bytes(bytes: usize) -> Self {
        Self { count: 0, bytes }
    }

    /// At most `count` elements.
    pub const fn count(count: usize) -> Self {
        Self { count, bytes: 0 }
    }

    /// At most `count` elements of at most `bytes` bytes each.
    pub const fn each(count: usize, bytes: usize) -> Self {
        Self { count, bytes }
    }
}

/// A value that we were about to send and the peer would refuse.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum EncodeError {
    /// Over a cap.
    #[error("{length} bytes or elements where at most {cap} may be sent")]
    TooLong {
        /// Bytes or elements there are.
        length: usize,
        /// Bytes or elements there may be.
        cap: usize,
    },
    /// The kernel would read only what stands before it.
    #[error("a name or path that holds a zero byte")]
    ZeroByte,
}

/// Bytes that are no message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum DecodeError {
    /// Less than the message needs.
    #[error("the message ends early")]
    Truncated,
    /// Over a cap.
    #[error("{length} bytes or elements where at most {cap} are taken")]
    TooLong {
        /// Bytes or elements announced.
        length: usize,
        /// Bytes or elements there may be.
        cap: usize,
    },
    /// More than the message needs.
    #[error("{0} bytes follow the end of the message")]
    LeftOver(usize),
    /// A message or variant of another version, or none.
    #[error("unknown tag {0}")]
    UnknownTag(u8),
    /// Neither 0 nor 1.
    #[error("a yes or no that is {0}")]
    NoBool(u8),
    /// Not UTF-8.
    #[error("a text that is no UTF-8")]
    NoText,
    /// The kernel would read only what stands before it.
    #[error("a name or path that holds a zero byte")]
    ZeroByte,
    /// Not the opening of a spec that this build made.
    #[error("no pen spec of protocol version {expected}")]
    WrongSpec {
        /// The version this build speaks.
        expected: u16,
    },
}

/// A value with a binary form.
pub trait Wire<'w>: Sized {
    /// The fewest bytes that a value takes; bounds the room made for a list.
    const MIN_BYTES: usize;

    /// Appends the value to `out`.
    fn put(&self, out: &mut Vec<u8>, cap: Cap) -> Result<(), EncodeError>;

    /// Takes one value off the front of `input`.
    fn take(input: &mut Reader<'w>, cap: Cap) -> Result<Self, DecodeError>;
}

/// The bytes that are still to be read.
#[derive(Debug, Clone, Copy)]
pub struct Reader<'w> {
    rest: &'w [u8],
}

impl<'w> Reader<'w> {
    /// Starts at the front of `bytes`.
    pub const fn new(bytes: &'w [u8]) -> Self {
        Self { rest: bytes }
    }

    /// Takes `length` bytes.
    pub fn bytes(&mut self, length: usize) -> Result<&'w [u8], DecodeError> {
        let (taken, rest) = self.rest.split_at_checked(length).ok_or(DecodeError::Truncated)?;
        self.rest = rest;
        Ok(taken)
    }

    /// Takes exactly `N` bytes.
    pub fn array<const N: usize>(&mut self) -> Result<[u8; N], DecodeError> {
        let (taken, rest) = self.rest.split_first_chunk::<N>().ok_or(DecodeError::Truncated)?;
        self.rest = rest;
        Ok(*taken)
    }

    /// Takes the tag byte of an enum.
    pub fn tag(&mut self) -> Result<u8, DecodeError> {
        let [tag] = self.array::<1>()?;
        Ok(tag)
    }

    /// Takes a length or count and checks it against `cap`.
    pub fn length(&mut self, cap: usize) -> Result<usize, DecodeError> {
        let length = usize::try_from(u32::from_le_bytes(self.array()?)).unwrap_or(usize::MAX);
        if length > cap {
            return Err(DecodeError::TooLong { length, cap });
        }
        Ok(length)
    }

    /// What is still to be read.
    pub const fn rest(&self) -> &'w [u8] {
        self.rest
    }

    /// Says that everything has been read.
    pub const fn finish(self) -> Result<(), DecodeError> {
        if self.rest.is_empty() { Ok(()) } else { Err(DecodeError::LeftOver(self.rest.len())) }
    }
}

/// Decodes a value that fills `bytes` to the end.
pub fn decode<'w, T: Wire<'w>>(bytes: &'w [u8]) -> Result<T, DecodeError> {
    let mut input = Reader::new(bytes);
    let value = T::take(&mut input, Cap::NONE)?;
    input.finish()?;
    Ok(value)
}

fn put_length(out: &mut Vec<u8>, length: usize, cap: usize) -> Result<(), EncodeError> {
    let too_long = EncodeError::TooLong { length, cap };
    if length > cap {
        return Err(too_long);
    }
    let Ok(length) = u32::try_from(length) else { return Err(too_long) };
    out.extend_from_slice(&length.to_le_bytes());
    Ok(())
}

macro_rules! integers {
    ($($type:ty),*) => {$(
        impl Wire<'_> for $type {
            const MIN_BYTES: usize = size_of::<$type>();

            fn put(&self, out: &mut Vec<u8>, _: Cap) -> Result<(), EncodeError> {
                out.extend_from_slice(&self.to_le_bytes());
                Ok(())
            }

            fn take(input: &mut Reader<'_>, _: Cap) -> Result<Self, DecodeError> {
                Ok(Self::from_le_bytes(input.array()?))
            }
        }
    )*};
}

// `u8` is left out, so that `Vec<u8>` can have a form of its own.
integers!(u16, u32, u64, i32, i64);

impl Wire<'_> for bool {
    const MIN_BYTES: usize = 1;

    fn put(&self, out: &mut Vec<u8>, _: Cap) -> Result<(), EncodeError> {
        out.push(u8::from(*self));
        Ok(())
    }

    fn take(input: &mut Reader<'_>, _: Cap) -> Result<Self, DecodeError> {
        match input.tag()? {
            0 => Ok(false),
            1 => Ok(true),
            other => Err(DecodeError::NoBool(other)),
        }
    }
}

impl<'w: 'a, 'a> Wire<'w> for &'a [u8] {
    const MIN_BYTES: usize = 4;

    fn put(&self, out: &mut Vec<u8>, cap: Cap) -> Result<(), EncodeError> {
        put_length(out, self.len(), cap.bytes)?;
        out.extend_from_slice(self);
        Ok(())
    }

    fn take(input: &mut Reader<'w>, cap: Cap) -> Result<Self, DecodeError> {
        let length = input.length(cap.bytes)?;
        input.bytes(length)
    }
}

impl Wire<'_> for Vec<u8> {
    const MIN_BYTES: usize = 4;

    fn put(&self, out: &mut Vec<u8>, cap: Cap) -> Result<(), EncodeError> {
        self.as_slice().put(out, cap)
    }

    fn take(input: &mut Reader<'_>, cap: Cap) -> Result<Self, DecodeError> {
        <&[u8]>::take(input, cap).map(<[u8]>::to_vec)
    }
}

impl<const N: usize> Wire<'_> for [u8; N] {
    const MIN_BYTES: usize = N;

    fn put(&self, out: &mut Vec<u8>, _: Cap) -> Result<(), EncodeError> {
        out.extend_from_slice(self);
        Ok(())
    }

    fn take(input: &mut Reader<'_>, _: Cap) -> Result<Self, DecodeError> {
        input.array()
    }
}

impl Wire<'_> for String {
    const MIN_BYTES: usize = 4;

    fn put(&self, out: &mut Vec<u8>, cap: Cap) -> Result<(), EncodeError> {
        self.as_bytes().put(out, cap)
    }

    fn take(input: &mut Reader<'_>, cap: Cap) -> Result<Self, DecodeError> {
        match str::from_utf8(<&[u8]>::take(input, cap)?) {
            Ok(text) => Ok(text.to_owned()),
            Err(_) => Err(DecodeError::NoText),
        }
    }
}

impl Wire<'_> for OsString {
    const MIN_BYTES: usize = 4;

    fn put(&self, out: &mut Vec<u8>, cap: Cap) -> Result<(), EncodeError> {
        put_name(self, out, cap)
    }

    fn take(input: &mut Reader<'_>, cap: Cap) -> Result<Self, DecodeError> {
        take_name(input, cap).map(|bytes| Self::from_vec(bytes.to_vec()))
    }
}

impl Wire<'_> for PathBuf {
    const MIN_BYTES: usize = 4;

    fn put(&self, out: &mut Vec<u8>, cap: Cap) -> Result<(), EncodeError> {
        put_name(self.as_os_str(), out, cap)
    }

    fn take(input: &mut Reader<'_>, cap: Cap) -> Result<Self, DecodeError> {
        take_name(input, cap).map(|bytes| Path::new(OsStr::from_bytes(bytes)).to_owned())
    }
}

/// The kernel would read only the part before a zero byte, so what was checked and what is used
/// could differ. No name with one travels.
fn put_name(name: &OsStr, out: &mut Vec<u8>, cap: Cap) -> Result<(), EncodeError> {
    if name.as_bytes().contains(&0) {
        return Err(EncodeError::ZeroByte);
    }
    name.as_bytes().put(out, cap)
}

fn take_name<'w>(input: &mut Reader<'w>, cap: Cap) -> Result<&'w [u8], DecodeError> {
    let bytes = <&[u8]>::take(input, cap)?;
    if bytes.contains(&0) { Err(DecodeError::ZeroByte) } else { Ok(bytes) }
}

impl<'w, T: Wire<'w>> Wire<'w> for Option<T> {
    const MIN_BYTES: usize = 1;

    fn put(&self, out: &mut Vec<u8>, cap: Cap) -> Result<(), EncodeError> {
        self.is_some().put(out, Cap::NONE)?;
        self.as_ref().map_or(Ok(()), |value| value.put(out, cap))
    }

    fn take(input: &mut Reader<'w>, cap: Cap) -> Result<Self, DecodeError> {
        bool::take(input, Cap::NONE)?.then(|| T::take(input, cap)).transpose()
    }
}

impl<'w, T: Wire<'w>> Wire<'w> for Box<T> {
    const MIN_BYTES: usize = T::MIN_BYTES;

    fn put(&self, out: &mut Vec<u8>, cap: Cap) -> Result<(), EncodeError> {
        T::put(self, out, cap)
    }

    fn take(input: &mut Reader<'w>, cap: Cap) -> Result<Self, DecodeError> {
        T::take(input, cap).map(Self::new)
    }
}

impl<'w, T: Wire<'w>> Wire<'w> for Vec<T> {
    const MIN_BYTES: usize = 4;

    fn put(&self, out: &mut Vec<u8>, cap: Cap) -> Result<(), EncodeError> {
        put_length(out, self.len(), cap.count)?;
        self.iter().try_for_each(|value| value.put(out, cap))
    }

    fn take(input: &mut Reader<'w>, cap: Cap) -> Result<Self, DecodeError> {
        let count = input.length(cap.count)?;
        // A count costs its sender four bytes and us the room for the elements: it is believed
        // only as far as the bytes for them are there.
        if count.saturating_mul(T::MIN_BYTES) > input.rest.len() {
            return Err(DecodeError::Truncated);
        }
        let mut values = Self::with_capacity(count);
        for _ in 0..count {
            values.push(T::take(input, cap)?);
        }
        Ok(values)
    }
}
