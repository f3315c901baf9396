//! Says which model an agent talks to, where it is reached, and where its key is.
//!
//! Takes the config, the agent and what the session was set to; gives the model with its fallbacks, or why there is none
//! and what to write. A key is named, never read here. Nothing is chosen that nobody wrote: without a configured model
//! there is none, whatever keys lie about in the environment.

pub mod image;
pub mod providers;
pub mod proxy;
pub mod retry;

use std::fmt;

use crate::config::Config;
use crate::config::tree::{At, Node};
use crate::ids::AgentId;
use providers::{Known, known};

/// What a server speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Api {
    /// `chat/completions`, which llama.cpp, vLLM, Ollama and most hosts speak too.
    OpenAiCompletions,
    /// `responses`, `OpenAI`'s newer one.
    OpenAiResponses,
    AnthropicMessages,
    GoogleGenerativeAi,
    /// Ollama's own `api/chat`.
    Ollama,
}

impl Api {
    pub const ALL: [Self; 5] = [
        Self::OpenAiCompletions,
        Self::OpenAiResponses,
        Self::AnthropicMessages,
        Self::GoogleGenerativeAi,
        Self::Ollama,
    ];

    /// As the config writes it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::OpenAiCompletions => "openai-completions",
            Self::OpenAiResponses => "openai-responses",
            Self::AnthropicMessages => "anthropic-messages",
            Self::GoogleGenerativeAi => "google-generative-ai",
            Self::Ollama => "ollama",
        }
    }

    fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|api| api.as_str() == text)
    }
}

/// `provider/model`.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct ModelRef {
    pub provider: String,
    pub id: String,
}

impl ModelRef {
    /// The text before the first slash is the provider; ids may hold slashes of their own.
    pub fn parse(text: &str) -> Option<Self> {
        let (provider, id) = text.trim().split_once('/')?;
        let (provider, id) = (provider.trim().to_lowercase(), id.trim());
        // An id stands in addresses: it must not lead elsewhere there.
        let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_.:/@+".contains(c);
        let is_sound = id.chars().all(is_plain) && !id.split('/').any(|part| part == "..");
        let is_named = !provider.is_empty() && !id.is_empty();
        (is_named && is_sound).then(|| Self { provider, id: id.to_owned() })
    }
}

impl fmt::Display for ModelRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.provider, self.id)
    }
}

/// Where a key is. The text itself is never printed.
#[derive(Clone, PartialEq, Eq)]
pub enum KeySource {
    /// Written in the config.
    Text(String),
    Variable(String),
    /// A file that holds only the key, or JSON with the key at a pointer.
    File {
        path: String,
        pointer: Option<String>,
    },
}

impl fmt::Debug for KeySource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Text(_) => f.write_str("Text(***)"),
            Self::Variable(name) => f.debug_tuple("Variable").field(name).finish(),
            Self::File { path, pointer } => {
                f.debug_struct("File").field("path", path).field("pointer", pointer).finish()
            }
        }
    }
}

impl fmt::Display for KeySource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Text(_) => f.write_str("the config"),
            Self::Variable(name) => write!(f, "the variable `{name}`"),
            Self::File { path, .. } => write!(f, "the file `{path}`"),
        }
    }
}

/// Whether a server is talked to without a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyNeed {
    Required,
    /// A server of one's own.
    Optional,
}

/// A model that can be talked to.
#[derive(Debug, Clone, PartialEq)]
pub struct Model {
    pub name: ModelRef,
    pub api: Api,
    pub base_url: String,
    pub key: KeySource,
    pub key_need: KeyNeed,
    /// Headers that the config adds to each request.
    pub headers: Vec<(String, KeySource)>,
    /// Tokens that fit, question and answer together.
    pub context_window: u64,
    /// Tokens of one answer at most.
    pub max_tokens: u64,
    pub images: Images,
    pub cost: Cost,
}

/// Whether a model looks at images.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Images {
    Seen,
    Unseen,
}

/// Dollars for a million tokens.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Cost {
    pub input: f64,
    pub output: f64,
    pub cache_read: f64,
    pub cache_write: f64,
}

/// What is asked, and whom instead if that fails for good.
#[derive(Debug, Clone, PartialEq)]
pub struct Chosen {
    pub model: Model,
    pub fallbacks: Vec<Model>,
}

/// Why no model is talked to.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NoModel {
    #[error(
        "no model is configured for agent `{agent}`; write `agents.defaults.model.primary`, for example \
         \"anthropic/claude-sonnet-4-5\" or \"ollama/llama3.2\", and give its key as the guide on models says"
    )]
    NotConfigured { agent: AgentId },
    #[error("`{key}` names the model `{text}` without its provider; write provider/model")]
    NoProvider { key: String, text: String },
    #[error(
        "`{key}` names the provider `{provider}`, which is neither in `models.providers` nor built in ({known}); give it \
         a `baseUrl` and an `api` there"
    )]
    UnknownProvider { key: String, provider: String, known: String },
    #[error(
        "`{key}` asks for the api `{api}`, which is not part of this build; write one of {known}"
    )]
    UnknownApi { key: String, api: String, known: String },
    #[error(
        "the model `{model}` is not one that an agent may choose; list it in `agents.defaults.models` or in its provider's \
         `models`"
    )]
    NotListed { model: ModelRef },
    #[error("`{key}` is no http or https address")]
    BadAddress { key: String },
    #[error(
        "`{key}` takes its secret from `{kind}`, which is not part of this build; use env or file"
    )]
    SecretSource { key: String, kind: String },
    #[error(
        "`{key}` takes its secret from the provider `{provider}`; give `secrets.providers.{provider}.path`"
    )]
    SecretProvider { key: String, provider: String },
}

/// Decides which model an agent talks to. `session` is what the session was set to, if it was.
pub fn decide(
    config: &Config,
    agent: &AgentId,
    session: Option<&ModelRef>,
) -> Result<Chosen, NoModel> {
    let (first, others) = written(config, agent, "model");
    let model = match (session, first) {
        (Some(set), _) => resolve(config, set, "the session's model")?,
        (None, Some((key, text))) => resolve(config, &named(config, &key, &text)?, &key)?,
        (None, None) => return Err(NoModel::NotConfigured { agent: agent.clone() }),
    };
    let fallbacks =
        others.iter().map(|(key, text)| resolve(config, &named(config, key, text)?, key));
    let fallbacks = fallbacks.collect::<Result<Vec<_>, _>>()?;
    let fallbacks = fallbacks.into_iter().filter(|other| other.name != model.name).collect();
    Ok(Chosen { model, fallbacks })
}

/// Decides whether an agent may choose a model for another: only one that a person has named for this. A model that
/// was talked into something must not send the talk to another provider.
pub fn decide_choice(config: &Config, agent: &AgentId, model: &ModelRef) -> Result<(), NoModel> {
    let (first, others) = written(config, agent, "model");
    let configured = first.into_iter().chain(others);
    let mut configured = configured.filter_map(|(key, text)| named(config, &key, &text).ok());
    let allowed = config.at(&["agents", "defaults", "models"]).map(|at| at.members());
    let mut allowed = allowed.unwrap_or_default().into_iter();
    let provider = config.at(&["models", "providers"]).and_then(|at| at.get(&model.provider));
    let is_listed = provider.is_some_and(|at| listed(&at, &model.id).is_some())
        || configured.any(|name| name == *model)
        || allowed.any(|(name, _)| ModelRef::parse(name).as_ref() == Some(model));
    if is_listed { Ok(()) } else { Err(NoModel::NotListed { model: model.clone() }) }
}

type Written = (String, String);

/// The model that the agent's entry or the defaults name under `key`, with its fallbacks and the keys they stand at.
fn written(config: &Config, agent: &AgentId, key: &str) -> (Option<Written>, Vec<Written>) {
    let own = config.agent(agent).and_then(|entry| entry.get(key));
    let places = [own, config.at(&["agents", "defaults", key])];
    for at in places.into_iter().flatten() {
        if let Some(text) = filled(at.node) {
            return (Some((at.key, text)), Vec::new());
        }
        let primary = at.get("primary").and_then(|at| Some((at.key.clone(), filled(at.node)?)));
        if primary.is_some() {
            let fallbacks = at.get("fallbacks").map(|at| at.items()).unwrap_or_default();
            let fallbacks = fallbacks.into_iter().filter_map(|at| Some((at.key, filled(at.node)?)));
            return (primary, fallbacks.collect());
        }
    }
    (None, Vec::new())
}

fn filled(node: &Node) -> Option<String> {
    let text = node.as_str()?.trim();
    (!text.is_empty()).then(|| text.to_owned())
}

/// `provider/model`, an alias of `agents.defaults.models`, or the id of exactly one configured model.
pub fn named(config: &Config, key: &str, text: &str) -> Result<ModelRef, NoModel> {
    let aliased = config.at(&["agents", "defaults", "models"]).and_then(|models| {
        let wanted = text.to_lowercase();
        let is_wanted = |entry: &At<'_>| {
            let alias = entry.node.get("alias").and_then(Node::as_str);
            alias.is_some_and(|alias| alias.trim().to_lowercase() == wanted)
        };
        let members = models.members();
        members
            .into_iter()
            .find(|(_, entry)| is_wanted(entry))
            .and_then(|(name, _)| ModelRef::parse(name))
    });
    if let Some(found) = aliased.or_else(|| ModelRef::parse(text)) {
        return Ok(found);
    }
    let providers = config.at(&["models", "providers"]).map(|at| at.members()).unwrap_or_default();
    let having = providers.into_iter().filter(|(_, at)| listed(at, text).is_some());
    match having.map(|(name, _)| name.to_lowercase()).collect::<Vec<_>>().as_slice() {
        [provider] => Ok(ModelRef { provider: provider.clone(), id: text.to_owned() }),
        _ => Err(NoModel::NoProvider { key: key.to_owned(), text: text.to_owned() }),
    }
}

/// The entry of a model in its provider's list.
fn listed<'a>(provider: &At<'a>, id: &str) -> Option<At<'a>> {
    let models = provider.get("models")?.items();
    models.into_iter().find(|at| at.node.get("id").and_then(Node::as_str) == Some(id))
}

fn resolve(config: &Config, name: &ModelRef, key: &str) -> Result<Model, NoModel> {
    let providers = config.at(&["models", "providers"]).map(|at| at.members()).unwrap_or_default();
    let written = providers.into_iter().find(|(id, _)| id.trim().to_lowercase() == name.provider);
    let written = written.map(|(_, at)| at);
    let built_in = known(&name.provider);
    if written.is_none() && built_in.is_none() {
        return Err(NoModel::UnknownProvider {
            key: key.to_owned(),
            provider: name.provider.clone(),
            known: providers::names().join(", "),
        });
    }
    let entry = written.as_ref().and_then(|at| listed(at, &name.id));
    let base_url = base_url(name, written.as_ref(), built_in)?;
    let is_own = written.as_ref().is_some_and(|at| at.get("baseUrl").is_some());
    let number = |key: &str| entry.as_ref().and_then(|at| whole(at.node.get(key)?));
    Ok(Model {
        api: api(entry.as_ref(), written.as_ref(), built_in)?,
        key: key_source(config, written.as_ref(), name)?,
        // Whoever runs a server of his own says by a key that it wants one.
        key_need: match built_in {
            Some(known) if !is_own => known.key_need,
            Some(_) | None => KeyNeed::Optional,
        },
        headers: headers(config, written.as_ref())?,
        context_window: number("contextWindow").unwrap_or(DEFAULT_CONTEXT),
        max_tokens: number("maxTokens").unwrap_or(DEFAULT_ANSWER),
        images: images(entry.as_ref()),
        cost: entry.as_ref().and_then(|at| at.get("cost")).map(|at| cost(&at)).unwrap_or_default(),
        base_url,
        name: name.clone(),
    })
}

/// Of a model that no list describes: what small models have.
const DEFAULT_CONTEXT: u64 = 128_000;
const DEFAULT_ANSWER: u64 = 8_192;

fn whole(node: &Node) -> Option<u64> {
    let number = node.as_number()?;
    // Beyond this no model goes, and the cast is exact below it.
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "checked to fit")]
    (1.0..=1e12).contains(&number).then_some(number as u64)
}

fn base_url(
    name: &ModelRef,
    written: Option<&At<'_>>,
    built_in: Option<&Known>,
) -> Result<String, NoModel> {
    let at = written.and_then(|at| at.get("baseUrl"));
    let key = || format!("models.providers.{}.baseUrl", name.provider);
    let text = at.as_ref().and_then(|at| filled(at.node));
    let text = text.or_else(|| built_in.map(|known| known.base_url.to_owned()));
    let text = text.ok_or_else(|| NoModel::BadAddress { key: key() })?;
    if text.starts_with("http://") || text.starts_with("https://") {
        Ok(text.trim_end_matches('/').to_owned())
    } else {
        Err(NoModel::BadAddress { key: key() })
    }
}

fn api(
    entry: Option<&At<'_>>,
    provider: Option<&At<'_>>,
    built_in: Option<&Known>,
) -> Result<Api, NoModel> {
    let written = [entry, provider].into_iter().flatten().find_map(|at| at.get("api"));
    let Some(at) = written else {
        return Ok(built_in.map_or(Api::OpenAiCompletions, |known| known.api));
    };
    let text = at.node.as_str().unwrap_or_default().trim();
    Api::parse(text).ok_or_else(|| NoModel::UnknownApi {
        key: at.key,
        api: text.to_owned(),
        known: Api::ALL.map(Api::as_str).join(", "),
    })
}

fn key_source(
    config: &Config,
    provider: Option<&At<'_>>,
    name: &ModelRef,
) -> Result<KeySource, NoModel> {
    if let Some(at) = provider.and_then(|at| at.get("apiKey")) {
        return secret(config, &at);
    }
    let variable = known(&name.provider).map(|known| known.variable.to_owned());
    let made = || {
        let letter = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_uppercase() } else { '_' };
        name.provider.chars().map(letter).collect::<String>() + "_API_KEY"
    };
    Ok(KeySource::Variable(variable.unwrap_or_else(made)))
}

fn headers(
    config: &Config,
    provider: Option<&At<'_>>,
) -> Result<Vec<(String, KeySource)>, NoModel> {
    let members =
        provider.and_then(|at| at.get("headers")).map(|at| at.members()).unwrap_or_default();
    members.into_iter().map(|(name, at)| Ok((name.to_owned(), secret(config, &at)?))).collect()
}

/// A secret as the config gives it: the text, the name of a variable, or where it is kept.
fn secret(config: &Config, at: &At<'_>) -> Result<KeySource, NoModel> {
    if let Some(text) = at.node.as_str() {
        let text = text.trim();
        return Ok(if is_variable_name(text) {
            KeySource::Variable(text.to_owned())
        } else {
            KeySource::Text(text.to_owned())
        });
    }
    let part = |key: &str| at.node.get(key).and_then(Node::as_str).unwrap_or_default().to_owned();
    let (source, id) = (part("source"), part("id"));
    match source.as_str() {
        "env" => Ok(KeySource::Variable(id)),
        "file" => {
            let provider = Some(part("provider")).filter(|name| !name.is_empty());
            let provider = provider.unwrap_or_else(|| "default".to_owned());
            let place = config.at(&["secrets", "providers", &provider]);
            let text = |key: &str| place.as_ref().and_then(|at| filled(at.node.get(key)?));
            let Some(path) = text("path") else {
                return Err(NoModel::SecretProvider { key: at.key.clone(), provider });
            };
            let is_single = text("mode").as_deref() == Some("singleValue");
            Ok(KeySource::File { path, pointer: (!is_single).then_some(id) })
        }
        _ => Err(NoModel::SecretSource { key: at.key.clone(), kind: source }),
    }
}

/// `OPENAI_API_KEY`, written where a key is expected, means the variable.
fn is_variable_name(text: &str) -> bool {
    text.contains('_')
        && text.starts_with(|c: char| c.is_ascii_uppercase())
        && text.chars().all(|c| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_')
}

fn images(entry: Option<&At<'_>>) -> Images {
    match entry.and_then(|at| at.get("input")).and_then(|at| at.strings()) {
        Some(kinds) if !kinds.iter().any(|kind| kind == "image") => Images::Unseen,
        Some(_) | None => Images::Seen,
    }
}

fn cost(at: &At<'_>) -> Cost {
    let part = |key: &str| at.node.get(key).and_then(Node::as_number).unwrap_or_default();
    Cost {
        input: part("input"),
        output: part("output"),
        cache_read: part("cacheRead"),
        cache_write: part("cacheWrite"),
    }
}

#[cfg(test)]
mod tests;
