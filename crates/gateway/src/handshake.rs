//! Lets a client in, or says why not.
//!
//! The facts are looked up here, in the order in which `rules::access::connect` wants them; what they
//! mean is decided there. An answer is always sent before the connection is closed.

mod unauthorized;

use std::time::Instant;

use clawpen_engine::approvals_file::now_ms;
use clawpen_engine::devices::{Asking, Issued, Repair};
use clawpen_rules::access::connect::{
    Asked, ClientKind, DeviceRule, Deviceless, Pairing, Peer, SecretVerdict, ShownDevice,
    WithoutDevice, decide_pairing, decide_without_device,
};
use clawpen_rules::access::origin::{OriginVerdict, decide_origin};
use clawpen_rules::access::trusted_user::{UserDenied, UserVerdict};
use clawpen_rules::access::{Role, Scopes};
use clawpen_wire::gateway::{
    ErrorCode, ErrorShape, NEWEST_PROTOCOL, OLDEST_PROTOCOL, Request, close, params, shape,
};
use serde_json::{Value, json};

use crate::auth::{Guard, Shown, is_same};
use crate::device_proof::{self, Proof, Signed};
use crate::hub::Slow;
use crate::shared::{Shared, unavailable};
use crate::throttle::{Guesser, What};

/// Somebody who was let in.
#[derive(Debug, Clone)]
pub(crate) struct Login {
    pub(crate) protocol: u64,
    pub(crate) client: Client,
    pub(crate) role: Role,
    pub(crate) scopes: Scopes,
    /// The granted scopes in the order they were asked for: presence shows them so.
    pub(crate) scope_words: Vec<String>,
    pub(crate) device: Option<String>,
    pub(crate) issued: Option<Issued>,
}

/// What a client says it is.
#[derive(Debug, Clone)]
pub(crate) struct Client {
    pub(crate) id: String,
    pub(crate) mode: String,
    pub(crate) version: String,
    pub(crate) platform: String,
    pub(crate) display_name: Option<String>,
    pub(crate) family: Option<String>,
    pub(crate) instance: Option<String>,
    /// It wants to hear of tool calls.
    pub(crate) hears_tools: bool,
}

impl Client {
    fn of(params: &Value) -> Self {
        let client = &params["client"];
        let caps = params["caps"].as_array();
        let text = |key: &str| client[key].as_str().map(str::to_owned);
        Self {
            id: text("id").unwrap_or_default(),
            mode: text("mode").unwrap_or_default(),
            version: text("version").unwrap_or_default(),
            platform: text("platform").unwrap_or_default(),
            display_name: text("displayName"),
            family: text("deviceFamily"),
            instance: text("instanceId"),
            hears_tools: caps.into_iter().flatten().any(|cap| cap == "tool-events"),
        }
    }

    fn kind(&self) -> ClientKind {
        ClientKind::of(&self.id, &self.mode)
    }
}

/// A login that failed: the answer, and how the connection ends.
#[derive(Debug)]
pub(crate) struct Refused {
    pub(crate) error: Box<ErrorShape>,
    pub(crate) code: u16,
}

impl From<ErrorShape> for Refused {
    fn from(error: ErrorShape) -> Self {
        Self { error: Box::new(error), code: close::POLICY }
    }
}

/// Somebody at the door: his connection, our nonce, and what he sent.
pub(crate) struct Knock<'a> {
    pub(crate) peer: &'a Peer,
    pub(crate) nonce: &'a str,
    pub(crate) request: &'a Request,
}

/// Decides a login.
pub(crate) fn login(shared: &Shared, knock: &Knock<'_>) -> Result<Login, Refused> {
    let params = &knock.request.params;
    if knock.request.method != "connect" {
        let what = "invalid handshake: first request must be connect";
        return Err(ErrorShape::invalid(what).into());
    }
    shape::check(params, &params::CONNECT)
        .map_err(|why| ErrorShape::invalid(format!("invalid connect params: {why}")))?;
    let protocol = protocol(params)?;
    let role = params["role"].as_str().unwrap_or("operator");
    let role = Role::parse(role).ok_or_else(|| ErrorShape::invalid("invalid role"))?;
    let client = Client::of(params);
    check_origin(shared, knock.peer, &client)?;
    let scope_words: Vec<String> = words(&params["scopes"]);
    let attempt = Attempt { shared, knock, client: &client, role, scope_words: &scope_words };
    let secret = attempt.secret();
    let (device, issued, granted) = if params["device"].is_object() && !attempt.needs_no_device() {
        let (device, issued) = attempt.with_device(secret)?;
        (Some(device), issued, Granted::AsAsked)
    } else {
        (None, None, attempt.without_device(secret)?)
    };
    let scope_words = match granted {
        Granted::AsAsked => scope_words,
        Granted::Nothing => Vec::new(),
    };
    let scopes = Scopes::of(scope_words.iter().map(String::as_str));
    Ok(Login { protocol, client, role, scopes, scope_words, device, issued })
}

fn protocol(params: &Value) -> Result<u64, Refused> {
    let number = |key: &str| params[key].as_u64().unwrap_or_default();
    let (least, most) = (number("minProtocol"), number("maxProtocol"));
    let chosen = most.min(NEWEST_PROTOCOL);
    if chosen >= OLDEST_PROTOCOL && chosen >= least {
        return Ok(chosen);
    }
    let details = json!({ "expectedProtocol": OLDEST_PROTOCOL });
    let error = ErrorShape::invalid("protocol mismatch").with_details(details);
    Err(Refused { error: Box::new(error), code: close::PROTOCOL })
}

fn check_origin(shared: &Shared, peer: &Peer, client: &Client) -> Result<(), ErrorShape> {
    let reason = match decide_origin(peer, &client.id, client.kind(), &shared.origins) {
        OriginVerdict::Fine => return Ok(()),
        OriginVerdict::Missing => "origin missing or invalid",
        OriginVerdict::NotAllowed => "origin not allowed",
    };
    let what = "origin not allowed (open the Control UI from the gateway host or allow it in \
                gateway.controlUi.allowedOrigins)";
    let details = json!({ "code": "CONTROL_UI_ORIGIN_NOT_ALLOWED", "reason": reason });
    Err(ErrorShape::invalid(what).with_details(details))
}

fn words(value: &Value) -> Vec<String> {
    let items = value.as_array().into_iter().flatten();
    items.filter_map(Value::as_str).map(str::to_owned).collect()
}

/// Which of the scopes that somebody asked for he has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Granted {
    AsAsked,
    Nothing,
}

/// A login whose shape is right.
struct Attempt<'a> {
    shared: &'a Shared,
    knock: &'a Knock<'a>,
    client: &'a Client,
    role: Role,
    scope_words: &'a [String],
}

impl Attempt<'_> {
    fn auth(&self, key: &str) -> Option<&str> {
        let shown = self.knock.request.params["auth"][key].as_str();
        shown.map(str::trim).filter(|text| !text.is_empty())
    }

    fn guesser(&self, what: What) -> Option<Guesser> {
        self.shared.throttle.guesser(self.knock.peer, what)
    }

    /// How the shared secret compares. A wrong one counts, whatever is answered in the end.
    fn secret(&self) -> SecretVerdict {
        let guesser = self.guesser(What::Secret);
        if self.shared.throttle.wait(guesser, Instant::now()).is_some() {
            return SecretVerdict::Throttled;
        }
        self.shared.guard.check(Shown {
            token: self.auth("token"),
            password: self.auth("password"),
            user: self.knock.peer.user.as_ref(),
        })
    }

    fn failed(&self, what: What) {
        self.shared.throttle.failed(self.guesser(what), Instant::now());
    }

    /// Says whether the config asks no control page for a device; one that is shown is not looked at.
    fn needs_no_device(&self) -> bool {
        self.shared.device_rule == DeviceRule::Never
            && self.client.kind() == ClientKind::ControlUi
            && self.role == Role::Operator
    }

    fn without_device(&self, secret: SecretVerdict) -> Result<Granted, Refused> {
        if secret == SecretVerdict::Wrong {
            self.failed(What::Secret);
        }
        // Without a secret to know, somebody must at least be somebody.
        let secret = match (&self.shared.guard, secret) {
            (Guard::None, SecretVerdict::Right) if !self.needs_no_device() => SecretVerdict::Absent,
            (_, secret) => secret,
        };
        let decided = decide_without_device(&Deviceless {
            peer: self.knock.peer,
            kind: self.client.kind(),
            role: self.role,
            secret,
            rule: self.shared.device_rule,
        });
        match decided {
            WithoutDevice::LetIn | WithoutDevice::LetInWithScopes => {
                self.shared.throttle.succeeded(self.guesser(What::Secret));
                let is_whole = decided == WithoutDevice::LetInWithScopes;
                Ok(if is_whole { Granted::AsAsked } else { Granted::Nothing })
            }
            WithoutDevice::ControlUiNeedsDevice => {
                let what =
                    "control ui requires device identity (use HTTPS or localhost secure context)";
                let details = json!({ "code": "CONTROL_UI_DEVICE_IDENTITY_REQUIRED" });
                Err(ErrorShape::invalid(what).with_details(details).into())
            }
            WithoutDevice::NeedsDevice => {
                let details = json!({ "code": "DEVICE_IDENTITY_REQUIRED" });
                let error = ErrorShape::invalid("device identity required").with_details(details);
                Err(ErrorShape { code: ErrorCode::NotPaired, ..error }.into())
            }
            WithoutDevice::Unauthorized => Err(self.unauthorized(secret).into()),
        }
    }

    fn with_device(&self, secret: SecretVerdict) -> Result<(String, Option<Issued>), Refused> {
        let device = &self.knock.request.params["device"];
        let text = |key: &str| device[key].as_str().unwrap_or_default();
        let proof = Proof {
            id: text("id"),
            public_key: text("publicKey"),
            signature: text("signature"),
            signed_at: device["signedAt"].as_f64().map_or(0, whole),
            nonce: text("nonce"),
        };
        // What was signed is what was sent, blanks and all.
        let auth = &self.knock.request.params["auth"];
        let token = ["token", "deviceToken", "bootstrapToken"]
            .iter()
            .find_map(|key| auth[key].as_str().filter(|text| !text.is_empty()));
        let signed = Signed {
            client_id: &self.client.id,
            client_mode: &self.client.mode,
            role: self.role.as_str(),
            scopes: self.scope_words,
            token: token.unwrap_or_default(),
            platform: &self.client.platform,
            family: self.client.family.as_deref().unwrap_or_default(),
        };
        device_proof::check(&proof, &signed, self.knock.nonce, now_ms()).map_err(|bad| {
            if secret == SecretVerdict::Wrong {
                self.failed(What::Secret);
            }
            let (what, code, reason) = bad.words();
            ErrorShape::invalid(what).with_details(json!({ "code": code, "reason": reason }))
        })?;
        let is_known_by_token = match secret {
            SecretVerdict::Right => false,
            SecretVerdict::Throttled => return Err(self.unauthorized(secret).into()),
            // Whom the proxy turns away does not come in by an old token, either.
            SecretVerdict::Denied if self.is_turned_away() => {
                return Err(self.unauthorized(secret).into());
            }
            SecretVerdict::Wrong | SecretVerdict::Absent | SecretVerdict::Denied => {
                self.has_device_token(proof.id)?
            }
        };
        if secret != SecretVerdict::Right && !is_known_by_token {
            if secret == SecretVerdict::Wrong {
                self.failed(What::Secret);
            }
            if self.auth("deviceToken").is_some() {
                self.failed(What::DeviceToken);
            }
            return Err(self.unauthorized(secret).into());
        }
        let what = if is_known_by_token { What::DeviceToken } else { What::Secret };
        self.shared.throttle.succeeded(self.guesser(what));
        self.pair(&proof)
    }

    /// Says whether a proxy that is believed spoke, and vouched for nobody who may come in.
    fn is_turned_away(&self) -> bool {
        match &self.knock.peer.user {
            None | Some(UserVerdict::Known(_) | UserVerdict::Denied(UserDenied::NotAProxy)) => {
                false
            }
            Some(UserVerdict::Denied(_)) => true,
        }
    }

    /// Says whether the client shows the token of its device, for no more than it was issued for.
    fn has_device_token(&self, device: &str) -> Result<bool, ErrorShape> {
        if self.shared.throttle.wait(self.guesser(What::DeviceToken), Instant::now()).is_some() {
            return Err(self.unauthorized(SecretVerdict::Throttled));
        }
        let stored = self.shared.devices.token(device, self.role).map_err(|e| unavailable(&e))?;
        let shown = self.auth("deviceToken").or_else(|| self.auth("token"));
        let (Some(stored), Some(shown)) = (stored, shown) else { return Ok(false) };
        let is_it = is_same(&stored.token, shown) && stored.scopes.covers_all(&self.scopes());
        if is_it {
            let used = self.shared.devices.used(device, self.role, now_ms());
            used.map_err(|error| unavailable(&error))?;
        }
        Ok(is_it)
    }

    fn scopes(&self) -> Scopes {
        Scopes::of(self.scope_words.iter().map(String::as_str))
    }

    fn pair(&self, proof: &Proof<'_>) -> Result<(String, Option<Issued>), Refused> {
        let devices = &self.shared.devices;
        let fail = |error: clawpen_engine::state_file::StateFileError| unavailable(&error);
        let key = device_proof::stored_key(proof.public_key).unwrap_or_default();
        let asking = Asking {
            device_id: proof.id.to_owned(),
            public_key: key,
            display_name: self.client.display_name.clone(),
            platform: self.client.platform.clone(),
            family: self.client.family.clone(),
            client_id: self.client.id.clone(),
            client_mode: self.client.mode.clone(),
            role: self.role,
            scopes: self.scope_words.to_vec(),
        };
        let known = devices.known(proof.id).map_err(fail)?;
        let shown = ShownDevice {
            role: self.role,
            scopes: self.scopes(),
            platform: Some(self.client.platform.clone()),
            family: self.client.family.clone(),
        };
        let asked = match self.shared.guard {
            Guard::None => Asked::Nothing,
            Guard::Token(_) | Guard::Password(_) | Guard::Proxy(_) => Asked::Something,
        };
        let client = (self.client.kind(), asked);
        match decide_pairing(self.knock.peer, client, known.as_ref(), &shown) {
            Pairing::NotKept => return Ok((proof.id.to_owned(), None)),
            Pairing::Paired => {}
            Pairing::Silent => {
                devices.pair(&asking, now_ms()).map_err(fail)?;
                self.announce_silent(proof.id);
            }
            Pairing::Ask(reason) => {
                let repair = if known.is_some() { Repair::Known } else { Repair::New };
                let request = devices.ask(&asking, repair, now_ms()).map_err(fail)?;
                let id = request["requestId"].clone();
                self.shared.hub.broadcast("device.pair.requested", &request, Slow::Drop);
                let details = json!({ "code": "PAIRING_REQUIRED", "requestId": id, "reason": reason.as_str() });
                let error = ErrorShape::invalid("pairing required").with_details(details);
                return Err(ErrorShape { code: ErrorCode::NotPaired, ..error }.into());
            }
        }
        let issued = match self.role {
            Role::Operator => {
                let who = (proof.id, self.role);
                devices.issue(who, &self.scopes(), now_ms()).map_err(fail)?
            }
            Role::Node => None,
        };
        Ok((proof.id.to_owned(), issued))
    }

    fn announce_silent(&self, device: &str) {
        let payload = json!({
            "requestId": clawpen_engine::random::uuid(),
            "deviceId": device,
            "decision": "approved",
            "ts": now_ms(),
        });
        self.shared.hub.broadcast("device.pair.resolved", &payload, Slow::Drop);
    }
}

/// A time from JSON; what is no time is long ago.
fn whole(number: f64) -> u64 {
    format!("{number:.0}").parse().unwrap_or_default()
}
