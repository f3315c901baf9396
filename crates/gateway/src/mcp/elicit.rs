//! Puts a question to the person behind a client, where the client can ask (MCP elicitation).
//!
//! One more door for an answer: the first valid answer wins, whichever door it comes by. A yes is asked for only where
//! it would count (`approvals.elicitation` in `clawpen.json`), and the engine decides again whether it does. Declined
//! is a no; a dialogue that was just closed is no answer, and the call waits on for somebody else's. Nothing that a
//! client passes on is remembered: it offers allow-once and deny.

use std::sync::Arc;

use clawpen_engine::call::{Desk, PassingOn, Pending, Who};
use clawpen_rules::approval::answer::Word;
use rmcp::model::{
    ClientResult, ElicitRequest, ElicitRequestParams, ElicitResult, ElicitationAction,
    ElicitationSchema, ServerRequest,
};
use rmcp::service::{ElicitationMode, Peer, PeerRequestOptions, RoleServer, ServiceError};
use serde_json::json;
use tokio::sync::oneshot;

use super::answer::object;

/// Where the answer stands in what a client sends back.
const FIELD: &str = "decision";

/// The question of one call at its client. Dropping it takes the question back: the call is over, or somebody else has
/// answered.
#[derive(Debug, Default)]
pub(super) struct Elicited(Option<oneshot::Sender<()>>);

impl Elicited {
    /// Asks, if the client can and the answer would count.
    pub(super) fn put(
        &mut self,
        desk: &Arc<Desk>,
        (peer, who): (&Peer<RoleServer>, &Who),
        pending: Pending,
    ) {
        let can_ask = peer.supported_elicitation_modes().contains(&ElicitationMode::Form);
        match pending.passing_on {
            PassingOn::Counts if can_ask => {}
            PassingOn::Counts | PassingOn::IsNotHeard => return,
        }
        let (desk, peer, who) = (Arc::clone(desk), peer.clone(), who.clone());
        let (stays, over) = oneshot::channel();
        self.0 = Some(stays);
        tokio::spawn(async move {
            // A client that cannot, will not or does not answer has said nothing.
            let Ok(Some(said)) = ask(&peer, &pending, over).await else { return };
            let Some(word) = word(&said) else { return };
            // Not one of the calls: those that wait may fill all the room there is.
            let answer = move || desk.answer(&who, &pending.id, word);
            // Late, refused or counted: the record says which, and the call goes on by itself.
            let _heard = tokio::task::spawn_blocking(answer).await;
        });
    }
}

/// Asks and waits; `None` if it was taken back.
async fn ask(
    peer: &Peer<RoleServer>,
    pending: &Pending,
    over: oneshot::Receiver<()>,
) -> Result<Option<ElicitResult>, ServiceError> {
    let Some(question) = question(pending) else { return Ok(None) };
    let request = ServerRequest::ElicitRequest(ElicitRequest::new(question));
    let options = PeerRequestOptions::no_options();
    let mut handle = peer.send_cancellable_request(request, options).await?;
    tokio::select! {
        said = &mut handle.rx => match said {
            Ok(Ok(ClientResult::ElicitResult(said))) => Ok(Some(said)),
            Ok(Err(error)) => Err(error),
            Ok(Ok(_)) => Err(ServiceError::UnexpectedResponse),
            Err(_closed) => Err(ServiceError::TransportClosed),
        },
        _over = over => {
            handle.cancel(Some("the question is settled".to_owned())).await?;
            Ok(None)
        }
    }
}

/// What whoever watches the call is told.
pub(super) fn note(pending: &Pending) -> String {
    format!("waiting up to {} s for a person\n{}", pending.timeout.as_secs(), pending.prompt)
}

fn question(pending: &Pending) -> Option<ElicitRequestParams> {
    let schema = json!({
        "type": "object",
        "properties": {
            FIELD: {
                "type": "string",
                "title": "Decision",
                "description": "allow-once runs exactly this, once",
                "enum": [Word::AllowOnce.as_str(), Word::Deny.as_str()],
            },
        },
        "required": [FIELD],
    });
    let requested_schema = ElicitationSchema::from_json_schema(object(schema)).ok()?;
    let message = pending.prompt.clone();
    Some(ElicitRequestParams::FormElicitationParams { meta: None, message, requested_schema })
}

/// What the client says that its person said; `None` is no answer.
fn word(said: &ElicitResult) -> Option<Word> {
    match said.action {
        ElicitationAction::Decline => Some(Word::Deny),
        ElicitationAction::Accept => {
            let text = said.content.as_ref()?.get(FIELD)?.as_str()?;
            match Word::parse(text)? {
                word @ (Word::AllowOnce | Word::Deny) => Some(word),
                // It was not offered.
                Word::AllowAlways => None,
            }
        }
        // Closed without a choice, or something that we do not know yet.
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_plain_yes_or_no_is_an_answer() {
        let accepted = |content| {
            let mut said = ElicitResult::new(ElicitationAction::Accept);
            said.content = content;
            said
        };
        for (said, expected) in [
            (ElicitResult::new(ElicitationAction::Decline), Some(Word::Deny)),
            (ElicitResult::new(ElicitationAction::Cancel), None),
            (accepted(None), None),
            (accepted(Some(json!({}))), None),
            (accepted(Some(json!({ FIELD: true }))), None),
            (accepted(Some(json!({ FIELD: "allow-always" }))), None),
            (accepted(Some(json!({ FIELD: "ALLOW-ONCE" }))), None),
            (accepted(Some(json!({ FIELD: "allow-once" }))), Some(Word::AllowOnce)),
            (accepted(Some(json!({ FIELD: "deny" }))), Some(Word::Deny)),
        ] {
            assert_eq!(word(&said), expected, "{said:?}");
        }
    }

    #[test]
    fn the_question_can_be_asked() {
        let pending = Pending {
            id: "1".to_owned(),
            prompt: "really?".to_owned(),
            passing_on: PassingOn::Counts,
            timeout: std::time::Duration::from_secs(1),
        };
        assert!(question(&pending).is_some());
    }
}
