//! The devices that may log in: who is paired, who waits, and the tokens they have.
//!
//! The reference's files and keys: `devices/paired.json` by device id, `devices/pending.json` by
//! request id, for their owner only. A device keeps its token as long as its scopes stay the same, so
//! that several programs of one device can use it. Requests that wait are few, and expire.

use std::path::{Path, PathBuf};

use clawpen_rules::access::connect::KnownDevice;
use clawpen_rules::access::{Role, Scopes};
use serde_json::{Map, Value, json};

use crate::random;
use crate::state_file::{self, StateFileError};

const MAX_BYTES: u64 = 16 * 1024 * 1024;
/// How long a request waits for somebody.
const PENDING_MS: u64 = 300_000;
/// How many requests wait at once; more would let a stranger fill the disk.
const MAX_PENDING: usize = 64;

/// The devices of one state directory.
#[derive(Debug, Clone)]
pub struct Devices {
    directory: PathBuf,
}

/// What a device says about itself when it asks to be let in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Asking {
    pub device_id: String,
    pub public_key: String,
    pub display_name: Option<String>,
    pub platform: String,
    pub family: Option<String>,
    pub client_id: String,
    pub client_mode: String,
    pub role: Role,
    /// In the order in which they were asked for.
    pub scopes: Vec<String>,
}

/// A device's token.
#[derive(Clone)]
pub struct Issued {
    pub token: String,
    pub scopes: Scopes,
    pub issued_at_ms: u64,
}

impl std::fmt::Debug for Issued {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Issued").field("scopes", &self.scopes).finish_non_exhaustive()
    }
}

impl Devices {
    pub fn in_state(state_dir: &str) -> Self {
        Self { directory: Path::new(state_dir).join("devices") }
    }

    fn paired(&self) -> PathBuf {
        self.directory.join("paired.json")
    }

    fn pending(&self) -> PathBuf {
        self.directory.join("pending.json")
    }

    /// What is known of a device.
    pub fn known(&self, device_id: &str) -> Result<Option<KnownDevice>, StateFileError> {
        let paired = state_file::read_object(&self.paired(), MAX_BYTES)?;
        Ok(paired.get(device_id).and_then(known))
    }

    /// The request for a device, made if none waits already.
    pub fn ask(
        &self,
        asking: &Asking,
        is_repair: Repair,
        now_ms: u64,
    ) -> Result<Value, StateFileError> {
        let _lock = state_file::lock(&self.pending())?;
        let mut pending = state_file::read_object(&self.pending(), MAX_BYTES)?;
        pending.retain(|_, request| !is_expired(request, now_ms));
        // One device has one request: the newest says what it wants now.
        pending.retain(|_, request| request["deviceId"] != json!(asking.device_id));
        while pending.len() >= MAX_PENDING {
            let oldest = pending.iter().min_by_key(|(_, request)| request["ts"].as_u64());
            let Some(oldest) = oldest.map(|(id, _)| id.clone()) else { break };
            pending.remove(&oldest);
        }
        let id = random::uuid();
        let mut request = Map::new();
        request.insert("requestId".into(), json!(id));
        request.extend(asking.to_json());
        request.insert("silent".into(), json!(false));
        request.insert("isRepair".into(), json!(is_repair == Repair::Known));
        request.insert("ts".into(), json!(now_ms));
        let request = Value::Object(request);
        pending.insert(id, request.clone());
        state_file::replace(&self.pending(), &state_file::object_text(&pending))?;
        Ok(request)
    }

    /// Takes a device in, as it asks.
    pub fn pair(&self, asking: &Asking, now_ms: u64) -> Result<(), StateFileError> {
        let mut device = asking.to_json();
        device.insert("createdAtMs".into(), json!(now_ms));
        device.insert("approvedAtMs".into(), json!(now_ms));
        self.change_paired(|paired| {
            paired.insert(asking.device_id.clone(), Value::Object(device));
        })
    }

    /// A request that waits.
    pub fn request(&self, request_id: &str, now_ms: u64) -> Result<Option<Value>, StateFileError> {
        let pending = state_file::read_object(&self.pending(), MAX_BYTES)?;
        Ok(pending.get(request_id).filter(|request| !is_expired(request, now_ms)).cloned())
    }

    /// Takes a request off the list.
    fn settle(&self, request_id: &str, now_ms: u64) -> Result<Option<Value>, StateFileError> {
        let _lock = state_file::lock(&self.pending())?;
        let mut pending = state_file::read_object(&self.pending(), MAX_BYTES)?;
        let request = pending.remove(request_id).filter(|request| !is_expired(request, now_ms));
        state_file::replace(&self.pending(), &state_file::object_text(&pending))?;
        Ok(request)
    }

    /// Agrees to a request; gives the device as others may see it, `None` if nobody asked.
    pub fn approve(&self, request_id: &str, now_ms: u64) -> Result<Option<Value>, StateFileError> {
        let Some(request) = self.settle(request_id, now_ms)? else { return Ok(None) };
        let Some(asking) = Asking::of(&request) else { return Ok(None) };
        self.pair(&asking, now_ms)?;
        // Its token waits for it: it is told when it logs in.
        let asked = Scopes::of(asking.scopes.iter().map(String::as_str));
        self.issue((&asking.device_id, asking.role), &asked, now_ms)?;
        let paired = state_file::read_object(&self.paired(), MAX_BYTES)?;
        Ok(paired.get(&asking.device_id).map(visible))
    }

    /// Refuses a request; gives the device that asked.
    pub fn reject(&self, request_id: &str, now_ms: u64) -> Result<Option<String>, StateFileError> {
        let request = self.settle(request_id, now_ms)?;
        Ok(request.and_then(|request| request["deviceId"].as_str().map(str::to_owned)))
    }

    /// Forgets a device; says whether there was one.
    pub fn remove(&self, device_id: &str) -> Result<bool, StateFileError> {
        let mut is_removed = false;
        self.change_paired(|paired| is_removed = paired.remove(device_id).is_some())?;
        Ok(is_removed)
    }

    /// Takes back a device's token for a role; says whether it ever had one. That it was taken back is remembered.
    pub fn revoke(&self, device_id: &str, role: Role, now_ms: u64) -> Result<bool, StateFileError> {
        let mut is_revoked = false;
        self.change_paired(|paired| {
            let stored = paired
                .get_mut(device_id)
                .and_then(|device| device.get_mut("tokens")?.get_mut(role.as_str()));
            if let Some(Value::Object(stored)) = stored {
                stored.remove("token");
                stored.insert("revokedAtMs".into(), json!(now_ms));
                is_revoked = true;
            }
        })?;
        Ok(is_revoked)
    }

    /// The token of a paired device, made if there is none that serves for `asked`. A new one is for all that the device
    /// was paired with; one that was made for less stays, as long as no more is asked for.
    pub fn issue(
        &self,
        (device_id, role): (&str, Role),
        asked: &Scopes,
        now_ms: u64,
    ) -> Result<Option<Issued>, StateFileError> {
        let token = new_token()?;
        let mut issued = None;
        self.change_paired(|paired| {
            let Some(device) = paired.get_mut(device_id) else { return };
            let approved = scopes_of(device).expanded();
            let serves =
                |old: &Issued| approved.covers_all(&old.scopes) && old.scopes.covers_all(asked);
            issued = match issued_in(device, role).filter(serves) {
                Some(old) => Some(old),
                // A token for nothing opens nothing.
                None if approved.words().is_empty() => None,
                None => Some(store(
                    device,
                    role,
                    Issued { token, scopes: approved, issued_at_ms: now_ms },
                )),
            };
        })?;
        Ok(issued)
    }

    /// Gives a device another token, for `scopes` or for what the old one was for. `None` if it is not paired in that
    /// role, or not for so much.
    pub fn rotate(
        &self,
        (device_id, role): (&str, Role),
        scopes: Option<Scopes>,
        now_ms: u64,
    ) -> Result<Option<Issued>, StateFileError> {
        let token = new_token()?;
        let mut issued = None;
        self.change_paired(|paired| {
            let device = paired.get_mut(device_id);
            let Some(device) = device.filter(|device| device["role"] == *role.as_str()) else {
                return;
            };
            let approved = scopes_of(device).expanded();
            let before = || device["tokens"][role.as_str()].get("scopes").map(words);
            let scopes = scopes.or_else(before).unwrap_or_else(|| approved.clone()).expanded();
            if !approved.covers_all(&scopes) {
                return;
            }
            let new = store(device, role, Issued { token, scopes, issued_at_ms: now_ms });
            issued = Some(new);
        })?;
        Ok(issued)
    }

    /// Remembers that a device came in with its token.
    pub fn used(&self, device_id: &str, role: Role, now_ms: u64) -> Result<(), StateFileError> {
        self.change_paired(|paired| {
            let stored = paired
                .get_mut(device_id)
                .and_then(|device| device.get_mut("tokens")?.get_mut(role.as_str()));
            if let Some(Value::Object(stored)) = stored {
                stored.insert("lastUsedAtMs".into(), json!(now_ms));
            }
        })
    }

    /// A device's token for a role, if it has one.
    pub fn token(&self, device_id: &str, role: Role) -> Result<Option<Issued>, StateFileError> {
        let paired = state_file::read_object(&self.paired(), MAX_BYTES)?;
        Ok(paired.get(device_id).and_then(|device| issued_in(device, role)))
    }

    /// Everybody who waits and everybody who is paired, newest first and without secrets.
    pub fn list(&self, now_ms: u64) -> Result<(Vec<Value>, Vec<Value>), StateFileError> {
        let pending = state_file::read_object(&self.pending(), MAX_BYTES)?;
        let paired = state_file::read_object(&self.paired(), MAX_BYTES)?;
        let mut pending: Vec<Value> =
            pending.into_values().filter(|request| !is_expired(request, now_ms)).collect();
        let mut paired: Vec<Value> = paired.values().map(visible).collect();
        pending.sort_by_key(|request| std::cmp::Reverse(request["ts"].as_u64()));
        paired.sort_by_key(|device| std::cmp::Reverse(device["approvedAtMs"].as_u64()));
        Ok((pending, paired))
    }

    fn change_paired(
        &self,
        change: impl FnOnce(&mut Map<String, Value>),
    ) -> Result<(), StateFileError> {
        let _lock = state_file::lock(&self.paired())?;
        let mut paired = state_file::read_object(&self.paired(), MAX_BYTES)?;
        let before = paired.clone();
        change(&mut paired);
        if paired == before {
            return Ok(());
        }
        state_file::replace(&self.paired(), &state_file::object_text(&paired))
    }
}

/// Whether a device that asks is known already.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Repair {
    New,
    Known,
}

impl Asking {
    fn to_json(&self) -> Map<String, Value> {
        let mut device = Map::new();
        device.insert("deviceId".into(), json!(self.device_id));
        device.insert("publicKey".into(), json!(self.public_key));
        if let Some(name) = &self.display_name {
            device.insert("displayName".into(), json!(name));
        }
        device.insert("platform".into(), json!(self.platform));
        if let Some(family) = &self.family {
            device.insert("deviceFamily".into(), json!(family));
        }
        device.insert("clientId".into(), json!(self.client_id));
        device.insert("clientMode".into(), json!(self.client_mode));
        device.insert("role".into(), json!(self.role.as_str()));
        device.insert("roles".into(), json!([self.role.as_str()]));
        device.insert("scopes".into(), json!(self.scopes));
        device
    }

    fn of(request: &Value) -> Option<Self> {
        let text = |key: &str| request[key].as_str().map(str::to_owned);
        Some(Self {
            device_id: text("deviceId")?,
            public_key: text("publicKey")?,
            display_name: text("displayName"),
            platform: text("platform")?,
            family: text("deviceFamily"),
            client_id: text("clientId")?,
            client_mode: text("clientMode")?,
            role: Role::parse(request["role"].as_str()?)?,
            scopes: list(&request["scopes"]),
        })
    }
}

fn list(value: &Value) -> Vec<String> {
    let items = value.as_array().into_iter().flatten();
    items.filter_map(Value::as_str).map(str::to_owned).collect()
}

fn words(value: &Value) -> Scopes {
    Scopes::of(value.as_array().into_iter().flatten().filter_map(Value::as_str))
}

fn scopes_of(device: &Value) -> Scopes {
    words(&device["scopes"])
}

fn new_token() -> Result<String, StateFileError> {
    random::token().map_err(state_file::failed("read", Path::new("/dev/urandom")))
}

/// Writes a token down; when the first one of its role was made stays.
fn store(device: &mut Value, role: Role, issued: Issued) -> Issued {
    if !device["tokens"].is_object() {
        device["tokens"] = json!({});
    }
    let since = device["tokens"][role.as_str()]["createdAtMs"].as_u64();
    device["tokens"][role.as_str()] = json!({
        "token": issued.token,
        "role": role.as_str(),
        "scopes": issued.scopes.words(),
        "createdAtMs": since.unwrap_or(issued.issued_at_ms),
    });
    if since.is_some() {
        device["tokens"][role.as_str()]["rotatedAtMs"] = json!(issued.issued_at_ms);
    }
    issued
}

/// A token that is worth something. One that the reference took back may still stand there.
fn issued_in(device: &Value, role: Role) -> Option<Issued> {
    let stored = device.get("tokens")?.get(role.as_str())?;
    if stored.get("revokedAtMs").is_some_and(Value::is_number) {
        return None;
    }
    let made = || stored["createdAtMs"].as_u64();
    Some(Issued {
        token: stored["token"].as_str().filter(|token| !token.is_empty())?.to_owned(),
        scopes: words(&stored["scopes"]),
        issued_at_ms: stored["rotatedAtMs"].as_u64().or_else(made).unwrap_or_default(),
    })
}

fn known(device: &Value) -> Option<KnownDevice> {
    let text = |key: &str| device[key].as_str().map(str::to_owned);
    Some(KnownDevice {
        role: Role::parse(device["role"].as_str()?)?,
        scopes: scopes_of(device),
        platform: text("platform"),
        family: text("deviceFamily"),
    })
}

/// A device as others may see it: its tokens are for whom, never what.
fn visible(device: &Value) -> Value {
    let mut device = device.clone();
    let tokens = device["tokens"].as_object().into_iter().flatten();
    let tokens: Vec<Value> = tokens
        .map(|(_, token)| {
            let mut shown = json!({
                "role": token["role"],
                "scopes": token["scopes"],
                "createdAtMs": token["createdAtMs"],
            });
            for key in ["rotatedAtMs", "revokedAtMs", "lastUsedAtMs"] {
                if let Some(when) = token.get(key) {
                    shown[key] = when.clone();
                }
            }
            shown
        })
        .collect();
    device["tokens"] = json!(tokens);
    device
}

fn is_expired(request: &Value, now_ms: u64) -> bool {
    let since = request["ts"].as_u64().unwrap_or_default();
    now_ms.saturating_sub(since) > PENDING_MS
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asking(id: &str, scopes: &[&str]) -> Asking {
        Asking {
            device_id: id.to_owned(),
            public_key: "key".to_owned(),
            display_name: None,
            platform: "linux".to_owned(),
            family: None,
            client_id: "cli".to_owned(),
            client_mode: "cli".to_owned(),
            role: Role::Operator,
            scopes: scopes.iter().map(|scope| (*scope).to_owned()).collect(),
        }
    }

    #[test]
    fn a_device_is_let_in_by_agreement_and_keeps_its_token() {
        let home = tempfile::tempdir().unwrap();
        let devices = Devices::in_state(home.path().to_str().unwrap());
        let request = devices.ask(&asking("d", &["operator.read"]), Repair::New, 5).unwrap();
        let id = request["requestId"].as_str().unwrap();
        assert_eq!(devices.known("d").unwrap(), None);
        let device = devices.approve(id, 6).unwrap().unwrap();
        assert_eq!(device["tokens"][0]["scopes"], json!(["operator.read"]));
        let read = Scopes::of(["operator.read"]);
        let issued = devices.issue(("d", Role::Operator), &read, 7).unwrap().unwrap();
        assert_eq!(issued.issued_at_ms, 6);
        assert!(!format!("{issued:?} {device}").contains(&issued.token));
        let stored = devices.token("d", Role::Operator).unwrap().unwrap();
        assert_eq!(stored.token, issued.token);
        assert_eq!(stored.scopes.words(), ["operator.read"]);
        assert_eq!(devices.approve(id, 6).unwrap(), None, "a request is answered once");
        assert!(devices.revoke("d", Role::Operator, 9).unwrap());
        assert!(devices.token("d", Role::Operator).unwrap().is_none());
        let (_, paired) = devices.list(9).unwrap();
        assert_eq!(paired[0]["tokens"][0]["revokedAtMs"], json!(9));
        assert!(devices.remove("d").unwrap());
        assert!(!devices.remove("d").unwrap());
    }

    #[test]
    fn a_token_may_be_for_less_than_its_device_and_never_for_more() {
        let home = tempfile::tempdir().unwrap();
        let devices = Devices::in_state(home.path().to_str().unwrap());
        let (read, write) = (Scopes::of(["operator.read"]), Scopes::of(["operator.write"]));
        let who = ("d", Role::Operator);
        devices.pair(&asking("d", &["operator.write"]), 1).unwrap();
        let whole = devices.issue(who, &write, 2).unwrap().unwrap();
        assert_eq!(whole.scopes.words(), ["operator.read", "operator.write"]);
        let small = devices.rotate(who, Some(read.clone()), 3).unwrap().unwrap();
        assert_eq!((small.scopes.words(), small.issued_at_ms), (vec!["operator.read"], 3));
        // Whoever comes with it gets no larger one for it.
        assert_eq!(devices.issue(who, &read, 4).unwrap().unwrap().token, small.token);
        assert_ne!(devices.issue(who, &write, 5).unwrap().unwrap().token, small.token);
        let admin = Scopes::of(["operator.admin"]);
        assert!(devices.rotate(who, Some(admin), 6).unwrap().is_none());
        assert!(devices.rotate(("d", Role::Node), None, 6).unwrap().is_none());
        assert!(devices.rotate(("e", Role::Operator), None, 6).unwrap().is_none());
        // One that was taken back can be given anew.
        assert!(devices.revoke("d", Role::Operator, 7).unwrap());
        assert!(devices.rotate(who, Some(read), 8).unwrap().is_some());
        devices.used("d", Role::Operator, 9).unwrap();
        let (_, paired) = devices.list(9).unwrap();
        assert_eq!(
            paired[0]["tokens"],
            json!([{ "role": "operator", "scopes": ["operator.read"], "createdAtMs": 2,
                     "rotatedAtMs": 8, "lastUsedAtMs": 9 }])
        );
    }

    #[test]
    fn who_may_do_nothing_gets_no_token() {
        let home = tempfile::tempdir().unwrap();
        let devices = Devices::in_state(home.path().to_str().unwrap());
        devices.pair(&asking("d", &[]), 1).unwrap();
        let issued = devices.issue(("d", Role::Operator), &Scopes::of([]), 2).unwrap();
        assert!(issued.is_none());
    }

    #[test]
    fn requests_expire_and_are_few() {
        let home = tempfile::tempdir().unwrap();
        let devices = Devices::in_state(home.path().to_str().unwrap());
        let request = devices.ask(&asking("d", &[]), Repair::New, 0).unwrap();
        let id = request["requestId"].as_str().unwrap();
        assert_eq!(devices.approve(id, PENDING_MS + 1).unwrap(), None);
        for number in 0..MAX_PENDING + 5 {
            devices.ask(&asking(&number.to_string(), &[]), Repair::New, 1).unwrap();
        }
        assert_eq!(devices.list(1).unwrap().0.len(), MAX_PENDING);
    }
}
