//! `gateway.identity.get`: by which key devices know this gateway.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use clawpen_engine::approvals_file::now_ms;
use clawpen_engine::gateway_identity::{self, FreshKey};
use clawpen_wire::gateway::ErrorShape;
use ring::rand::{SecureRandom as _, SystemRandom};
use ring::signature::{Ed25519KeyPair, KeyPair as _};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use crate::client::hex;
use crate::shared::{Shared, unavailable};

pub(crate) fn get(shared: &Shared) -> Result<Value, ErrorShape> {
    let state_dir = &shared.locations.state_dir;
    let known = gateway_identity::ensure(state_dir, now_ms(), fresh);
    let known = known.map_err(|error| unavailable(&error))?;
    let key = URL_SAFE_NO_PAD.encode(&known.public);
    Ok(json!({ "deviceId": known.device_id, "publicKey": key }))
}

fn fresh() -> Option<FreshKey> {
    let mut seed = [0; 32];
    SystemRandom::new().fill(&mut seed).ok()?;
    let pair = Ed25519KeyPair::from_seed_unchecked(&seed).ok()?;
    let public: [u8; 32] = pair.public_key().as_ref().try_into().ok()?;
    let device_id = hex(&Sha256::digest(public));
    Some(FreshKey { seed, public, device_id })
}
