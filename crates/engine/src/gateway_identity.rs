//! The gateway's own key, by which devices recognise it: `identity/device.json` in the state directory,
//! in the reference's format.
//!
//! Made once and never replaced: a file that cannot be understood is an error. The private half leaves
//! this module only into that file.

use std::path::Path;

use serde_json::{Map, Value, json};

use crate::state_file::{self, StateFileError};

const MAX_BYTES: u64 = 64 * 1024;
/// What stands before the 32 bytes of an Ed25519 key in its usual envelopes.
const PUBLIC_PREFIX: [u8; 12] =
    [0x30, 0x2a, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x03, 0x21, 0x00];
const PRIVATE_PREFIX: [u8; 16] = [
    0x30, 0x2e, 0x02, 0x01, 0x00, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x04, 0x22, 0x04, 0x20,
];

/// A fresh pair of keys, as whoever has cryptography at hand makes it.
#[derive(Clone)]
pub struct FreshKey {
    pub seed: [u8; 32],
    pub public: [u8; 32],
    /// SHA-256 of the public key, in hex.
    pub device_id: String,
}

impl std::fmt::Debug for FreshKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("FreshKey").field("device_id", &self.device_id).finish_non_exhaustive()
    }
}

/// What others may know.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PublicIdentity {
    pub device_id: String,
    /// The 32 bytes.
    pub public: Vec<u8>,
}

/// The key of this state directory; `fresh` makes one if there is none.
pub fn ensure(
    state_dir: &str,
    now_ms: u64,
    fresh: impl FnOnce() -> Option<FreshKey>,
) -> Result<PublicIdentity, StateFileError> {
    let path = Path::new(state_dir).join("identity/device.json");
    let broken = |why: &str| StateFileError::Broken {
        path: path.to_string_lossy().into_owned(),
        why: why.to_owned(),
    };
    let _lock = state_file::lock(&path)?;
    let stored = state_file::read_object(&path, MAX_BYTES)?;
    if !stored.is_empty() {
        let text = |key: &str| stored.get(key).and_then(Value::as_str);
        let device_id = text("deviceId").ok_or_else(|| broken("it names no device"))?.to_owned();
        let pem = text("publicKeyPem").ok_or_else(|| broken("it holds no public key"))?;
        let der = from_pem(pem).ok_or_else(|| broken("its public key is no PEM"))?;
        let public = der.strip_prefix(&PUBLIC_PREFIX[..]).filter(|key| key.len() == 32);
        let public = public.ok_or_else(|| broken("its public key is no Ed25519 key"))?.to_vec();
        return Ok(PublicIdentity { device_id, public });
    }
    let key = fresh().ok_or_else(|| broken("no key could be made"))?;
    let file: Map<String, Value> = [
        ("version", json!(1)),
        ("deviceId", json!(key.device_id)),
        ("publicKeyPem", json!(pem("PUBLIC KEY", &[&PUBLIC_PREFIX[..], &key.public].concat()))),
        ("privateKeyPem", json!(pem("PRIVATE KEY", &[&PRIVATE_PREFIX[..], &key.seed].concat()))),
        ("createdAtMs", json!(now_ms)),
    ]
    .map(|(name, value)| (name.to_owned(), value))
    .into_iter()
    .collect();
    state_file::replace(&path, &state_file::object_text(&file))?;
    Ok(PublicIdentity { device_id: key.device_id, public: key.public.to_vec() })
}

const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

fn pem(kind: &str, der: &[u8]) -> String {
    let mut text = String::new();
    for group in der.chunks(3) {
        let bits = group.iter().fold(0_usize, |bits, byte| bits << 8 | usize::from(*byte));
        let bits = bits << (8 * (3 - group.len()));
        for (place, shift) in [18, 12, 6, 0].into_iter().enumerate() {
            let letter = LETTERS.get(bits >> shift & 63).copied().unwrap_or(b'A');
            text.push(if place <= group.len() { char::from(letter) } else { '=' });
        }
    }
    format!("-----BEGIN {kind}-----\n{text}\n-----END {kind}-----\n")
}

fn from_pem(text: &str) -> Option<Vec<u8>> {
    let inner = text.lines().filter(|line| !line.starts_with("-----")).collect::<String>();
    let mut bytes = Vec::new();
    let letters: Vec<usize> = inner
        .bytes()
        .filter(|byte| *byte != b'=')
        .map(|byte| LETTERS.iter().position(|letter| *letter == byte))
        .collect::<Option<_>>()?;
    for group in letters.chunks(4) {
        let bits =
            group.iter().fold(0, |bits, letter| bits << 6 | letter) << (6 * (4 - group.len()));
        let whole = [bits >> 16 & 255, bits >> 8 & 255, bits & 255];
        bytes
            .extend(whole.iter().take(group.len() - 1).filter_map(|byte| u8::try_from(*byte).ok()));
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_key_is_made_once_and_stays() {
        let home = tempfile::tempdir().unwrap();
        let state = home.path().to_str().unwrap();
        let key = |byte: u8| FreshKey {
            seed: [byte; 32],
            public: [byte + 1; 32],
            device_id: format!("d{byte}"),
        };
        let made = ensure(state, 5, || Some(key(7))).unwrap();
        assert_eq!(made, PublicIdentity { device_id: "d7".to_owned(), public: vec![8; 32] });
        assert_eq!(ensure(state, 6, || Some(key(9))).unwrap(), made);
        let path = home.path().join("identity/device.json");
        std::fs::write(&path, "{\"deviceId\":\"x\"}").unwrap();
        assert!(ensure(state, 7, || Some(key(9))).is_err());
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "{\"deviceId\":\"x\"}");
    }
}
