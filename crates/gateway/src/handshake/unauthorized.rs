//! What somebody who shows the wrong thing, or nothing, is told.

use clawpen_rules::access::connect::{ClientKind, SecretVerdict};
use clawpen_rules::access::trusted_user::{UserDenied, UserVerdict};
use clawpen_wire::gateway::ErrorShape;
use serde_json::json;

use super::Attempt;
use crate::auth::Guard;

impl Attempt<'_> {
    /// What somebody with a wrong secret, or none, is told.
    pub(super) fn unauthorized(&self, secret: SecretVerdict) -> ErrorShape {
        let is_device_token = self.auth("deviceToken").is_some() && self.auth("token").is_none();
        let is_bootstrap = self.auth("bootstrapToken").is_some() && self.auth("token").is_none();
        let has_device = self.knock.request.params["device"].is_object();
        let (word, upper) = match self.shared.guard {
            Guard::Password(_) => ("password", "PASSWORD"),
            Guard::Token(_) | Guard::Proxy(_) | Guard::None => ("token", "TOKEN"),
        };
        let hint = match self.client.kind() {
            ClientKind::ControlUi | ClientKind::Webchat => {
                "open the dashboard and enter it there".to_owned()
            }
            ClientKind::Other if self.client.id == "cli" => {
                format!("set gateway.remote.{word} to match gateway.auth.{word}")
            }
            ClientKind::Other => format!("provide gateway auth {word}"),
        };
        let (text, code, reason, next) = match secret {
            SecretVerdict::Throttled => (
                "unauthorized: too many failed authentication attempts (retry later)".to_owned(),
                "AUTH_RATE_LIMITED".to_owned(),
                "rate_limited".to_owned(),
                "wait_then_retry",
            ),
            SecretVerdict::Denied => {
                let denied = match &self.knock.peer.user {
                    Some(UserVerdict::Denied(denied)) => denied,
                    Some(UserVerdict::Known(_)) | None => &UserDenied::NotAProxy,
                };
                (
                    format!("unauthorized: {}", denied.words()),
                    "AUTH_UNAUTHORIZED".to_owned(),
                    denied.reason(),
                    "review_auth_configuration",
                )
            }
            SecretVerdict::Right | SecretVerdict::Absent | SecretVerdict::Wrong
                if is_device_token =>
            {
                (
                    "unauthorized: device token mismatch (rotate or reissue it)".to_owned(),
                    "AUTH_DEVICE_TOKEN_MISMATCH".to_owned(),
                    "device_token_mismatch".to_owned(),
                    "update_auth_credentials",
                )
            }
            // Nobody is given such a token here.
            SecretVerdict::Right | SecretVerdict::Absent | SecretVerdict::Wrong if is_bootstrap => {
                (
                    "unauthorized: bootstrap token invalid or expired (pair this device instead)"
                        .to_owned(),
                    "AUTH_BOOTSTRAP_TOKEN_INVALID".to_owned(),
                    "bootstrap_token_invalid".to_owned(),
                    "review_auth_configuration",
                )
            }
            SecretVerdict::Absent => (
                format!("unauthorized: gateway {word} missing ({hint})"),
                format!("AUTH_{upper}_MISSING"),
                format!("{word}_missing"),
                "update_auth_configuration",
            ),
            SecretVerdict::Right | SecretVerdict::Wrong => (
                format!("unauthorized: gateway {word} mismatch ({hint})"),
                format!("AUTH_{upper}_MISMATCH"),
                format!("{word}_mismatch"),
                "update_auth_credentials",
            ),
        };
        let can_retry = code == "AUTH_TOKEN_MISMATCH"
            && has_device
            && self.auth("token").is_some()
            && self.auth("password").is_none()
            && self.auth("deviceToken").is_none();
        ErrorShape::invalid(text).with_details(json!({
            "code": code,
            "authReason": reason,
            "canRetryWithDeviceToken": can_retry,
            "recommendedNextStep": if can_retry { "retry_with_device_token" } else { next },
        }))
    }
}
