//! Checks that a device is the one it says: its key, its signature, its moment.
//!
//! The order of the checks is the reference's. A signature covers our own nonce, so it is good for one
//! connection only.

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use ring::signature::{ED25519, UnparsedPublicKey};
use sha2::{Digest as _, Sha256};

/// How far a device's clock may be off.
const MAX_SKEW_MS: u64 = 120_000;

/// What a device shows.
#[derive(Debug, Clone)]
pub(crate) struct Proof<'a> {
    pub(crate) id: &'a str,
    pub(crate) public_key: &'a str,
    pub(crate) signature: &'a str,
    pub(crate) signed_at: u64,
    pub(crate) nonce: &'a str,
}

/// What it must have signed, beside its own part.
pub(crate) struct Signed<'a> {
    pub(crate) client_id: &'a str,
    pub(crate) client_mode: &'a str,
    pub(crate) role: &'a str,
    pub(crate) scopes: &'a [String],
    pub(crate) token: &'a str,
    pub(crate) platform: &'a str,
    pub(crate) family: &'a str,
}

/// What is wrong with a device's proof.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum BadProof {
    IdMismatch,
    Expired,
    NonceMissing,
    NonceMismatch,
    Signature,
}

impl BadProof {
    /// The message, the code and the reason that clients know.
    pub(crate) const fn words(self) -> (&'static str, &'static str, &'static str) {
        match self {
            Self::IdMismatch => {
                ("device identity mismatch", "DEVICE_AUTH_DEVICE_ID_MISMATCH", "device-id-mismatch")
            }
            Self::Expired => (
                "device signature expired",
                "DEVICE_AUTH_SIGNATURE_EXPIRED",
                "device-signature-stale",
            ),
            Self::NonceMissing => {
                ("device nonce required", "DEVICE_AUTH_NONCE_REQUIRED", "device-nonce-missing")
            }
            Self::NonceMismatch => {
                ("device nonce mismatch", "DEVICE_AUTH_NONCE_MISMATCH", "device-nonce-mismatch")
            }
            Self::Signature => {
                ("device signature invalid", "DEVICE_AUTH_SIGNATURE_INVALID", "device-signature")
            }
        }
    }
}

/// Checks a proof against the nonce that we gave and the time it is.
pub(crate) fn check(
    proof: &Proof<'_>,
    signed: &Signed<'_>,
    nonce: &str,
    now_ms: u64,
) -> Result<(), BadProof> {
    let key = raw_key(proof.public_key).ok_or(BadProof::IdMismatch)?;
    if hex(&Sha256::digest(key)) != proof.id {
        return Err(BadProof::IdMismatch);
    }
    if proof.signed_at.abs_diff(now_ms) > MAX_SKEW_MS {
        return Err(BadProof::Expired);
    }
    if proof.nonce.trim().is_empty() {
        return Err(BadProof::NonceMissing);
    }
    if proof.nonce != nonce {
        return Err(BadProof::NonceMismatch);
    }
    let signature = decode(proof.signature).ok_or(BadProof::Signature)?;
    let key = UnparsedPublicKey::new(&ED25519, key);
    let is_valid = |text: String| key.verify(text.as_bytes(), &signature).is_ok();
    if is_valid(payload("v3", proof, signed)) || is_valid(payload("v2", proof, signed)) {
        Ok(())
    } else {
        Err(BadProof::Signature)
    }
}

/// The text that is signed.
fn payload(version: &str, proof: &Proof<'_>, signed: &Signed<'_>) -> String {
    let scopes = signed.scopes.join(",");
    let signed_at = proof.signed_at.to_string();
    let mut parts = vec![
        version,
        proof.id,
        signed.client_id,
        signed.client_mode,
        signed.role,
        &scopes,
        &signed_at,
        signed.token,
        proof.nonce,
    ];
    let platform = signed.platform.trim().to_ascii_lowercase();
    let family = signed.family.trim().to_ascii_lowercase();
    if version == "v3" {
        parts.extend([platform.as_str(), family.as_str()]);
    }
    parts.join("|")
}

/// The 32 bytes of a key: as base64url, or at the end of a PEM block.
fn raw_key(text: &str) -> Option<[u8; 32]> {
    const HEADER: usize = 12;
    if let Some(body) = text.trim().strip_prefix("-----BEGIN PUBLIC KEY-----") {
        let body = body.strip_suffix("-----END PUBLIC KEY-----")?;
        let body: String = body.split_whitespace().collect();
        let der = STANDARD.decode(body).ok()?;
        return der.get(HEADER..)?.try_into().ok();
    }
    decode(text)?.try_into().ok()
}

fn decode(text: &str) -> Option<Vec<u8>> {
    URL_SAFE_NO_PAD.decode(text.trim().trim_end_matches('=')).ok()
}

fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write as _;
    bytes.iter().fold(String::new(), |mut text, byte| {
        // Writing to a String cannot fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// A key as it is stored: base64url of its bytes, whatever form it came in.
pub(crate) fn stored_key(text: &str) -> Option<String> {
    raw_key(text).map(|key| URL_SAFE_NO_PAD.encode(key))
}

#[cfg(test)]
mod tests {
    use super::*;
    use ring::rand::SystemRandom;
    use ring::signature::{Ed25519KeyPair, KeyPair as _};

    #[test]
    fn a_proof_is_good_for_its_own_words_only() {
        let seed = Ed25519KeyPair::generate_pkcs8(&SystemRandom::new()).unwrap();
        let pair = Ed25519KeyPair::from_pkcs8(seed.as_ref()).unwrap();
        let key = URL_SAFE_NO_PAD.encode(pair.public_key().as_ref());
        let id = hex(&Sha256::digest(pair.public_key().as_ref()));
        let scopes = ["operator.read".to_owned()];
        let signed = |token: &'static str| Signed {
            client_id: "cli",
            client_mode: "cli",
            role: "operator",
            scopes: &scopes,
            token,
            platform: " Linux ",
            family: "",
        };
        for version in ["v2", "v3"] {
            let mut proof =
                Proof { id: &id, public_key: &key, signature: "", signed_at: 1000, nonce: "n" };
            let text = payload(version, &proof, &signed("t"));
            let signature = URL_SAFE_NO_PAD.encode(pair.sign(text.as_bytes()));
            proof.signature = &signature;
            let ask = |proof: &Proof<'_>, token, nonce: &str, now| {
                check(proof, &signed(token), nonce, now)
            };
            assert_eq!(ask(&proof, "t", "n", 1000), Ok(()));
            assert_eq!(ask(&proof, "other", "n", 1000), Err(BadProof::Signature));
            assert_eq!(ask(&proof, "t", "m", 1000), Err(BadProof::NonceMismatch));
            assert_eq!(ask(&proof, "t", "n", 1000 + MAX_SKEW_MS + 1), Err(BadProof::Expired));
            let other = Proof { id: "00", ..proof.clone() };
            assert_eq!(ask(&other, "t", "n", 1000), Err(BadProof::IdMismatch));
            let garbled = Proof { signature: "AAAA", ..proof.clone() };
            assert_eq!(ask(&garbled, "t", "n", 1000), Err(BadProof::Signature));
            let blank = Proof { nonce: " ", ..proof.clone() };
            assert_eq!(ask(&blank, "t", " ", 1000), Err(BadProof::NonceMissing));
        }
    }
}
