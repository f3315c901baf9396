//! Says which model the tool `image` asks, or why there is none.
//!
//! Takes the config, the session's own model and what the call asks for. Only a model that a person named is given a
//! picture, and only one that sees it: a picture of the workspace must not go to a server of a model's choice.

use super::{Chosen, Images, Model, ModelRef, NoModel, decide_choice, named, resolve, written};
use crate::config::Config;
use crate::ids::AgentId;

/// Why nobody looks at an image.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NoImageModel {
    #[error(transparent)]
    Model(#[from] NoModel),
    #[error(
        "the model `{model}` sees no images, its `input` lists none; name one that does in \
         `agents.defaults.imageModel`"
    )]
    Blind { model: ModelRef },
}

/// Decides who looks at images: whom the call asks for, else `imageModel`, else the session's own model.
pub fn decide(
    config: &Config,
    agent: &AgentId,
    own: &ModelRef,
    asked: Option<&str>,
) -> Result<Chosen, NoImageModel> {
    let (first, others) = written(config, agent, "imageModel");
    let configured = first.into_iter().chain(others).map(|(key, text)| {
        let name = named(config, &key, &text);
        (key, name)
    });
    let configured: Vec<_> = configured.collect();
    if let Some(text) = asked {
        let name = named(config, "model", text)?;
        if !configured.iter().any(|(_, known)| known.as_ref() == Ok(&name)) {
            decide_choice(config, agent, &name)?;
        }
        return seeing(resolve(config, &name, "model")?, Vec::new());
    }
    let models = configured.into_iter().map(|(key, name)| resolve(config, &name?, &key));
    let mut models = models.collect::<Result<Vec<_>, _>>()?.into_iter();
    if let Some(model) = models.next() {
        return seeing(model, models.collect());
    }
    let Chosen { model, fallbacks } = super::decide(config, agent, Some(own))?;
    match model.images {
        Images::Seen => seeing(model, fallbacks),
        Images::Unseen => Err(NoImageModel::Blind { model: model.name }),
    }
}

/// Those of them that see.
fn seeing(first: Model, others: Vec<Model>) -> Result<Chosen, NoImageModel> {
    let blind = first.name.clone();
    let all = std::iter::once(first).chain(others);
    let mut seeing = all.filter(|model| model.images == Images::Seen);
    let model = seeing.next().ok_or(NoImageModel::Blind { model: blind })?;
    Ok(Chosen { model, fallbacks: seeing.collect() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::json5;
    use crate::config::tree::FileId;

    const PROVIDERS: &str = r#"models: { providers: { p: { baseUrl: "http://127.0.0.1:1/v1", models: [
        { id: "eye" }, { id: "blind", input: ["text"] }, { id: "both", input: ["text", "image"] }] } } }"#;

    fn check(defaults: &str, own: &str, asked: Option<&str>, expected: Result<&[&str], &str>) {
        let text = format!("{{ {PROVIDERS}, agents: {{ defaults: {{ {defaults} }} }} }}");
        let config = Config::from_tree(json5::parse(&text, FileId(0)).unwrap().root, Vec::new());
        let own = ModelRef::parse(own).unwrap();
        let found = decide(&config, &AgentId::main(), &own, asked);
        let names = found.map(|chosen| {
            let all = std::iter::once(chosen.model).chain(chosen.fallbacks);
            all.map(|model| model.name.to_string()).collect::<Vec<_>>()
        });
        match (names, expected) {
            (Ok(names), Ok(expected)) => assert_eq!(names, expected, "{text} {asked:?}"),
            (Err(error), Err(part)) => assert!(error.to_string().contains(part), "{error}"),
            (found, expected) => panic!("{text} {asked:?}: {found:?}, not {expected:?}"),
        }
    }

    #[test]
    fn the_call_comes_before_the_setting_and_the_setting_before_the_sessions_model() {
        let both = r#"imageModel: { primary: "p/both", fallbacks: ["p/blind", "openai/gpt-4o"] }"#;
        for (defaults, own, asked, expected) in [
            ("", "p/eye", None, Ok(&["p/eye"][..])),
            ("", "p/blind", None, Err("`p/blind` sees no images")),
            (
                r#"model: { primary: "p/blind", fallbacks: ["p/eye"] }"#,
                "p/blind",
                None,
                Err("sees no"),
            ),
            (r#"imageModel: "p/eye""#, "p/blind", None, Ok(&["p/eye"])),
            (r#"imageModel: "p/blind""#, "p/eye", None, Err("`p/blind` sees no images")),
            (both, "p/blind", None, Ok(&["p/both", "openai/gpt-4o"])),
            (both, "p/blind", Some("p/eye"), Ok(&["p/eye"])),
            (both, "p/blind", Some("openai/gpt-4o"), Ok(&["openai/gpt-4o"])),
            (both, "p/eye", Some("p/blind"), Err("`p/blind` sees no images")),
            (both, "p/eye", Some("openai/o1"), Err("is not one that an agent may choose")),
            ("", "p/eye", Some("nowhere/x"), Err("is not one that an agent may choose")),
            (r#"imageModel: "nowhere/x""#, "p/eye", None, Err("`nowhere`")),
        ] {
            check(defaults, own, asked, expected);
        }
    }
}
