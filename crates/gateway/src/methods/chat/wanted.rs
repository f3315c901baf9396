//! What else the parameters of `agent` ask for: a model or instructions for one run, where a message came from, and
//! what this build has not.
//!
//! Nothing that would change who speaks or where an answer goes is passed over in silence: it works, or it is refused
//! by its name.

use clawpen_engine::runner::{Origin, Wishes};
use clawpen_rules::models::ModelRef;
use clawpen_rules::session::entry::{decide_model, default_model};
use clawpen_wire::gateway::ErrorShape;
use serde_json::Value;

use crate::dispatch::Caller;
use crate::methods::{optional, sessions};
use crate::shared::Shared;

/// Characters of instructions that come with a message.
pub(crate) const MOST_INSTRUCTIONS: usize = 20_000;
/// Parameters of the reference that choose a policy or speak for others, and have no meaning here.
const NOT_BUILT: &[&str] = &["groupId", "groupChannel", "groupSpace", "internalEvents"];
/// Names of the one channel there is: back to whoever asks.
const HERE: &[&str] = &["", "last", "webchat"];

/// Reads what holds for this run only, and whose message it is.
pub(super) fn read(
    shared: &Shared,
    caller: &Caller,
    (key, params): (&str, &Value),
) -> Result<(Wishes, Origin), ErrorShape> {
    let refused = |what: String| ErrorShape::invalid(format!("invalid agent params: {what}"));
    for name in NOT_BUILT {
        if params.get(*name).is_some() {
            return Err(refused(format!("`{name}` is not part of this build")));
        }
    }
    for name in ["channel", "replyChannel"] {
        let channel = optional(params, name).unwrap_or_default().trim();
        if !HERE.contains(&channel) {
            return Err(refused(format!("`{name}`: no channel `{channel}` is part of this build")));
        }
    }
    if params["deliver"] == true && params["bestEffortDeliver"] != true {
        let what =
            "`deliver`: no channel is part of this build; the answer comes back to whoever asks";
        return Err(refused(what.to_owned()));
    }
    let model = model(shared, caller, (key, params))?;
    let instructions =
        optional(params, "extraSystemPrompt").map(instructions).transpose().map_err(refused)?;
    let label = optional(params, "label").map(str::trim).filter(|label| !label.is_empty());
    let wishes =
        Wishes { model, instructions: instructions.flatten(), label: label.map(str::to_owned) };
    Ok((wishes, origin(&params["inputProvenance"])))
}

/// Instructions for one run, if there are any and they are not too long.
pub(crate) fn instructions(text: &str) -> Result<Option<String>, String> {
    if text.chars().count() > MOST_INSTRUCTIONS {
        return Err(format!("`extraSystemPrompt` is longer than {MOST_INSTRUCTIONS} characters"));
    }
    if text.contains('\0') {
        return Err("`extraSystemPrompt` must not contain null bytes".to_owned());
    }
    let text = text.trim();
    Ok((!text.is_empty()).then(|| text.to_owned()))
}

/// Another model for this run: for those who may change everything, and of those that the config lists.
fn model(
    shared: &Shared,
    caller: &Caller,
    (key, params): (&str, &Value),
) -> Result<Option<ModelRef>, ErrorShape> {
    let filled = |name: &str| optional(params, name).map(str::trim).filter(|text| !text.is_empty());
    let text = match (filled("provider"), filled("model")) {
        (None, None) => return Ok(None),
        (Some(provider), Some(model)) if model.starts_with(&format!("{provider}/")) => {
            model.to_owned()
        }
        (Some(provider), Some(model)) => format!("{provider}/{model}"),
        (None, Some(model)) => model.to_owned(),
        (Some(_), None) => {
            return Err(ErrorShape::invalid("invalid agent params: `provider` without `model`"));
        }
    };
    if !caller.is_admin() {
        return Err(ErrorShape::invalid(
            "provider/model overrides need the scope operator.admin; leave `model` and `provider` out",
        ));
    }
    let sound = shared.sound()?;
    let found = sessions::meant(&sound, key)?;
    let config = &sound.store.loaded.config;
    let default = default_model(config, found.session.agent());
    let model = decide_model(config, default.as_ref(), &text)
        .map_err(|why| ErrorShape::invalid(why.to_string()))?;
    let named = ModelRef::parse(&format!("{}/{}", model.provider, model.model));
    let named = named.ok_or_else(|| ErrorShape::invalid(format!("invalid model: {text}")))?;
    Ok(Some(named))
}

/// A message that says it is no person's is taken for none: no directive is read in it.
fn origin(provenance: &Value) -> Origin {
    let Some(kind) = provenance["kind"].as_str() else { return Origin::Person };
    let part = |name: &str| provenance[name].as_str().filter(|text| !text.trim().is_empty());
    let from = part("sourceSessionKey").or_else(|| part("sourceChannel"));
    let from = from.or_else(|| part("sourceTool")).unwrap_or(kind);
    Origin::Session(from.chars().filter(|one| !one.is_control()).take(200).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn instructions_are_bounded_and_blank_ones_are_none() {
        assert_eq!(instructions(" be kind\n"), Ok(Some("be kind".to_owned())));
        assert_eq!(instructions(" \n"), Ok(None));
        assert!(instructions(&"ä".repeat(MOST_INSTRUCTIONS)).is_ok());
        let long = instructions(&"x".repeat(MOST_INSTRUCTIONS + 1)).unwrap_err();
        assert!(long.contains("20000"), "{long}");
        assert!(instructions("a\0b").is_err());
    }

    #[test]
    fn whoever_says_that_no_person_speaks_is_believed() {
        assert_eq!(origin(&Value::Null), Origin::Person);
        let said = |value: Value| origin(&value);
        assert_eq!(
            said(json!({ "kind": "external_user" })),
            Origin::Session("external_user".to_owned())
        );
        assert_eq!(
            said(json!({ "kind": "inter_session", "sourceSessionKey": "agent:a:\nmain" })),
            Origin::Session("agent:a:main".to_owned())
        );
    }
}
