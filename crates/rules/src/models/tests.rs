//! Which model is found in which config, and what is said when there is none.

use super::*;
use crate::config::json5;

fn config(text: &str) -> Config {
    Config::from_tree(json5::parse(text, crate::config::tree::FileId(0)).unwrap().root, Vec::new())
}

#[track_caller]
fn chosen(text: &str) -> Chosen {
    decide(&config(text), &AgentId::main(), None).unwrap()
}

#[test]
fn a_configured_provider_is_taken_as_it_is_written() {
    let found = chosen(
        r#"{ models: { providers: { mock: { baseUrl: "http://127.0.0.1:1/v1/", api: "openai-completions", apiKey: "sk-1",
             headers: { "X-Team": "TEAM_TOKEN" },
             models: [{ id: "mock-1", contextWindow: 1000, maxTokens: 100, input: ["text"], cost: { input: 2, output: 4 } }] } } },
             agents: { defaults: { model: { primary: "mock/mock-1", fallbacks: ["anthropic/claude", "mock/mock-1"] } } } }"#,
    );
    let expected = Model {
        name: ModelRef { provider: "mock".into(), id: "mock-1".into() },
        api: Api::OpenAiCompletions,
        base_url: "http://127.0.0.1:1/v1".into(),
        key: KeySource::Text("sk-1".into()),
        key_need: KeyNeed::Optional,
        headers: vec![("X-Team".into(), KeySource::Variable("TEAM_TOKEN".into()))],
        context_window: 1000,
        max_tokens: 100,
        images: Images::Unseen,
        cost: Cost { input: 2.0, output: 4.0, ..Cost::default() },
    };
    assert_eq!(found.model, expected);
    let others: Vec<String> = found.fallbacks.iter().map(|model| model.name.to_string()).collect();
    assert_eq!(others, ["anthropic/claude"]);
    assert!(!format!("{found:?}").contains("sk-1"));
}

#[test]
fn a_known_provider_needs_only_its_name() {
    let found = chosen(r#"{ agents: { defaults: { model: "google/gemini-x" } } }"#).model;
    assert_eq!(found.api, Api::GoogleGenerativeAi);
    assert_eq!(found.key, KeySource::Variable("GEMINI_API_KEY".into()));
    assert_eq!(found.key_need, KeyNeed::Required);
    let own = chosen(
        r#"{ models: { providers: { openai: { baseUrl: "http://gpu:8080/v1" } } }, agents: { defaults: { model: "openai/q" } } }"#,
    );
    assert_eq!(own.model.key_need, KeyNeed::Optional);
}

#[test]
fn the_agent_comes_before_the_defaults_and_the_session_before_both() {
    let text = r#"{ agents: { defaults: { model: "ollama/a", models: { "ollama/z": { alias: "Zed" } } },
                   list: [{ id: "main", model: "ollama/b" }, { id: "two" }] } }"#;
    let config = config(text);
    let of = |agent: &str, session: Option<&str>| {
        let session = session.map(|text| named(&config, "k", text).unwrap());
        let found = decide(&config, &AgentId::normalize(agent), session.as_ref()).unwrap();
        found.model.name.to_string()
    };
    assert_eq!(of("main", None), "ollama/b");
    assert_eq!(of("two", None), "ollama/a");
    assert_eq!(of("two", Some("zed")), "ollama/z");
}

#[test]
fn secrets_are_named_by_where_they_are() {
    let text = |key: &str| {
        format!(
            r#"{{ secrets: {{ providers: {{ vault: {{ source: "file", path: "/s/keys.json" }},
                 one: {{ source: "file", path: "/s/key", mode: "singleValue" }} }} }},
               models: {{ providers: {{ m: {{ baseUrl: "http://h", apiKey: {key} }} }} }}, agents: {{ defaults: {{ model: "m/x" }} }} }}"#
        )
    };
    let of = |key: &str| {
        decide(&config(&text(key)), &AgentId::main(), None).map(|found| found.model.key)
    };
    let file = |path: &str, pointer: Option<&str>| {
        Ok(KeySource::File { path: path.into(), pointer: pointer.map(str::to_owned) })
    };
    assert_eq!(of(r#"{ source: "env", id: "K" }"#), Ok(KeySource::Variable("K".into())));
    assert_eq!(
        of(r#"{ source: "file", provider: "vault", id: "/a/b" }"#),
        file("/s/keys.json", Some("/a/b"))
    );
    assert_eq!(of(r#"{ source: "file", provider: "one", id: "value" }"#), file("/s/key", None));
    assert!(matches!(of(r#"{ source: "exec", id: "x" }"#), Err(NoModel::SecretSource { .. })));
    assert!(matches!(of(r#"{ source: "file", id: "x" }"#), Err(NoModel::SecretProvider { .. })));
}

#[test]
fn what_is_missing_is_said_with_its_key() {
    let of = |text: &str| decide(&config(text), &AgentId::main(), None).unwrap_err().to_string();
    for (text, needle) in [
        ("{}", "agents.defaults.model.primary"),
        (
            r#"{ agents: { defaults: { model: "gpt" } } }"#,
            "`agents.defaults.model` names the model `gpt`",
        ),
        (r#"{ agents: { defaults: { model: "x/gpt" } } }"#, "models.providers"),
        (
            r#"{ models: { providers: { x: { baseUrl: "http://h", api: "bedrock-converse-stream" } } },
                 agents: { defaults: { model: "x/gpt" } } }"#,
            "models.providers.x.api",
        ),
        (
            r#"{ models: { providers: { x: { baseUrl: "file:///etc/passwd" } } }, agents: { defaults: { model: "x/gpt" } } }"#,
            "models.providers.x.baseUrl",
        ),
    ] {
        assert!(of(text).contains(needle), "{}", of(text));
    }
}

#[test]
fn an_agent_chooses_only_among_models_that_a_person_named() {
    let config = config(
        r#"{ models: { providers: { p: { baseUrl: "http://h", models: [{ id: "listed" }] } } },
             agents: { defaults: { model: { primary: "p/main", fallbacks: ["q/other"] }, models: { "openai/gpt": { alias: "g" } } } } }"#,
    );
    for (text, expected) in [
        ("p/listed", true),
        ("p/main", true),
        ("q/other", true),
        ("openai/gpt", true),
        ("p/unlisted", false),
        ("openrouter/anything", false),
    ] {
        let model = ModelRef::parse(text).unwrap();
        assert_eq!(decide_choice(&config, &AgentId::main(), &model).is_ok(), expected, "{text}");
    }
    for bad in ["p/../../admin", "p/m?alt=x", "p/a b", "p/a#b", "p/a%2e", "/m", "p/"] {
        assert_eq!(ModelRef::parse(bad), None, "{bad}");
    }
}
