//! Random ids and tokens, from the kernel.

use std::fs::File;
use std::hash::{BuildHasher as _, RandomState};
use std::io::{self, Read as _};

/// A version 4 UUID. It names things and guards nothing, so the standard library's seed is enough.
pub fn uuid() -> String {
    let halves = [0, 1].map(|half: u64| RandomState::new().hash_one(half));
    let [high, low] = halves;
    let high = high & 0xffff_ffff_ffff_0fff | 0x4000;
    let low = low & 0x3fff_ffff_ffff_ffff | 0x8000_0000_0000_0000;
    format!(
        "{:08x}-{:04x}-{:04x}-{:04x}-{:012x}",
        high >> 32,
        high >> 16 & 0xffff,
        high & 0xffff,
        low >> 48,
        low & 0xffff_ffff_ffff
    )
}

/// 16 hex digits. A name, like [`uuid`], where a short one is wanted.
pub(crate) fn short_id() -> String {
    format!("{:016x}", RandomState::new().hash_one(0_u64))
}

/// A number for choosing among names.
pub(crate) fn number() -> u64 {
    RandomState::new().hash_one(1_u64)
}

/// Bytes for a secret: from the kernel or not at all.
pub fn bytes<const COUNT: usize>() -> io::Result<[u8; COUNT]> {
    let mut bytes = [0; COUNT];
    File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    Ok(bytes)
}

/// 24 bytes as base64url, as the reference makes them. This one is a secret: it comes from the kernel
/// or not at all.
pub fn token() -> io::Result<String> {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    let mut token = String::with_capacity(32);
    let bytes: [u8; 24] = bytes()?;
    for group in bytes.chunks(3) {
        let bits = group.iter().fold(0_usize, |bits, byte| bits << 8 | usize::from(*byte));
        for shift in [18, 12, 6, 0] {
            token.push(char::from(LETTERS[bits >> shift & 63]));
        }
    }
    Ok(token)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_and_tokens_have_the_shape_of_the_reference() {
        let id = uuid();
        let parts: Vec<usize> = id.split('-').map(str::len).collect();
        assert_eq!(parts, [8, 4, 4, 4, 12], "{id}");
        assert_eq!(id.as_bytes()[14], b'4');
        assert_ne!(id, uuid());
        let token = token().unwrap();
        assert_eq!(token.len(), 32);
        assert!(token.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'_'));
    }
}
