//! HMAC-SHA256, and a comparison that takes as long whatever differs.

use sha2::{Digest as _, Sha256};

const BLOCK: usize = 64;

/// The code of a message under a key, as RFC 2104 has it.
pub fn hmac_sha256(key: &[u8], message: &[u8]) -> [u8; 32] {
    let mut block = [0; BLOCK];
    let digest: [u8; 32];
    let key = if key.len() > BLOCK {
        digest = Sha256::digest(key).into();
        &digest[..]
    } else {
        key
    };
    for (to, from) in block.iter_mut().zip(key) {
        *to = *from;
    }
    let inner = Sha256::new_with_prefix(block.map(|byte| byte ^ 0x36)).chain_update(message);
    let outer = Sha256::new_with_prefix(block.map(|byte| byte ^ 0x5c));
    outer.chain_update(inner.finalize()).finalize().into()
}

/// Says whether two texts are the same, without telling by its time where they differ.
pub(super) fn is_same(left: &[u8], right: &[u8]) -> bool {
    let differs = left.iter().zip(right).fold(0, |differs, (left, right)| differs | (left ^ right));
    left.len() == right.len() && std::hint::black_box(differs) == 0
}

pub(super) fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write as _;
    bytes.iter().fold(String::new(), |mut text, byte| {
        // Writing to a string cannot fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_codes_are_those_of_rfc_4231() {
        check(
            &[0x0b; 20],
            b"Hi There",
            "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7",
        );
        let question = b"what do ya want for nothing?";
        check(
            b"Jefe",
            question,
            "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843",
        );
        let long = b"Test Using Larger Than Block-Size Key - Hash Key First";
        check(
            &[0xaa; 131],
            long,
            "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54",
        );
    }

    #[track_caller]
    fn check(key: &[u8], message: &[u8], expected: &str) {
        assert_eq!(hex(&hmac_sha256(key, message)), expected);
    }

    #[test]
    fn only_equal_texts_are_the_same() {
        assert!(is_same(b"", b"") && is_same(b"abc", b"abc"));
        assert!(!is_same(b"abc", b"abd") && !is_same(b"abc", b"ab") && !is_same(b"", b"a"));
    }
}
