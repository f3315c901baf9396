//! Values of every shape, for tests. The same seed gives the same value for ever: the golden bytes
//! are made from these.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt as _;
use std::path::PathBuf;

use super::codec::Cap;

/// Numbers that look random and are not.
#[derive(Debug)]
pub(crate) struct Source(u64);

impl Source {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// `SplitMix64`.
    pub(crate) fn number(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below `end`.
    pub(crate) fn below(&mut self, end: usize) -> usize {
        usize::try_from(self.number() % end.max(1) as u64).unwrap()
    }

    fn bytes(&mut self, cap: usize) -> Vec<u8> {
        let length = self.below(cap.min(12) + 1);
        (0..length).map(|_| self.number().to_le_bytes()[0]).collect()
    }
}

/// A value that tests can make.
pub(crate) trait Sample: Sized {
    fn sample(source: &mut Source, cap: Cap) -> Self;
}

/// An enum that tests can make, one variant at a time.
pub(crate) trait SampleChoice: Sized {
    /// Each tag and the name it stands for.
    const TAGS: &'static [(u8, &'static str)];

    fn sample_tag(tag: u8, source: &mut Source) -> Self;
}

/// Any variant.
pub(crate) fn any_choice<T: SampleChoice>(source: &mut Source) -> T {
    let (tag, _) = T::TAGS[source.below(T::TAGS.len())];
    T::sample_tag(tag, source)
}

macro_rules! integers {
    ($($type:ty),*) => {$(
        impl Sample for $type {
            fn sample(source: &mut Source, _: Cap) -> Self {
                Self::from_le_bytes(*source.number().to_le_bytes().first_chunk().unwrap())
            }
        }
    )*};
}

integers!(u16, u32, u64, i32, i64);

impl Sample for bool {
    fn sample(source: &mut Source, _: Cap) -> Self {
        source.below(2) == 1
    }
}

impl Sample for &[u8] {
    fn sample(source: &mut Source, cap: Cap) -> Self {
        const POOL: &[u8] = b"some bytes, \0 and \xff among them";
        let length = source.below(POOL.len().min(cap.bytes) + 1);
        &POOL[..length]
    }
}

impl Sample for Vec<u8> {
    fn sample(source: &mut Source, cap: Cap) -> Self {
        source.bytes(cap.bytes)
    }
}

impl<const N: usize> Sample for [u8; N] {
    fn sample(source: &mut Source, _: Cap) -> Self {
        std::array::from_fn(|_| source.number().to_le_bytes()[0])
    }
}

impl Sample for String {
    fn sample(source: &mut Source, cap: Cap) -> Self {
        source.bytes(cap.bytes).iter().map(|byte| char::from(byte % 95 + 32)).collect()
    }
}

impl Sample for OsString {
    fn sample(source: &mut Source, cap: Cap) -> Self {
        let mut bytes = source.bytes(cap.bytes);
        bytes.retain(|byte| *byte != 0);
        Self::from_vec(bytes)
    }
}

impl Sample for PathBuf {
    fn sample(source: &mut Source, cap: Cap) -> Self {
        OsString::sample(source, cap).into()
    }
}

impl<T: Sample> Sample for Option<T> {
    fn sample(source: &mut Source, cap: Cap) -> Self {
        bool::sample(source, cap).then(|| T::sample(source, cap))
    }
}

impl<T: Sample> Sample for Box<T> {
    fn sample(source: &mut Source, cap: Cap) -> Self {
        Self::new(T::sample(source, cap))
    }
}

impl<T: Sample> Sample for Vec<T> {
    fn sample(source: &mut Source, cap: Cap) -> Self {
        let count = source.below(cap.count.min(3) + 1);
        (0..count).map(|_| T::sample(source, cap)).collect()
    }
}

impl Sample for super::EnvVar {
    fn sample(source: &mut Source, _: Cap) -> Self {
        let cap = Cap::bytes(super::limits::WORD);
        Self { name: OsString::sample(source, cap), value: OsString::sample(source, cap) }
    }
}
