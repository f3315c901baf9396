//! Decides what may be set on a session, and what is stored for it.
//!
//! A client may only narrow or name things; where a command runs is not his to choose once the session
//! is sandboxed.

use crate::config::Config;
use crate::config::tree::Node;
use crate::session::Placement;
use crate::session::key::SessionKey;

/// A setting of a session with the words it takes.
#[derive(Debug)]
pub struct Setting {
    pub key: &'static str,
    words: &'static [&'static str],
    hint: &'static str,
}

/// Every setting that is one of a few words.
pub const SETTINGS: &[Setting] = &[
    word(
        "thinkingLevel",
        &["off", "minimal", "low", "medium", "high", "adaptive"],
        "off|minimal|low|medium|high|adaptive",
    ),
    word("verboseLevel", &["off", "on", "full"], "\"on\"|\"off\""),
    word("reasoningLevel", &["on", "off", "stream"], "\"on\"|\"off\"|\"stream\""),
    word("responseUsage", &["off", "tokens", "full"], "\"off\"|\"tokens\"|\"full\""),
    word("elevatedLevel", &["on", "off", "ask", "full"], "\"on\"|\"off\"|\"ask\"|\"full\""),
    word("execHost", &["sandbox", "gateway", "node"], "\"sandbox\"|\"gateway\"|\"node\""),
    word("execSecurity", &["deny", "allowlist", "full"], "\"deny\"|\"allowlist\"|\"full\""),
    word("execAsk", &["off", "on-miss", "always"], "\"off\"|\"on-miss\"|\"always\""),
    word("sendPolicy", &["allow", "deny"], "\"allow\"|\"deny\""),
    word("groupActivation", &["mention", "always"], "\"mention\"|\"always\""),
];

/// Other spellings of a setting's words: the setting, the word that is stored, and what else people write for it.
const SPELLINGS: &[(&str, &str, &[&str])] = &[
    ("thinkingLevel", "adaptive", &["auto"]),
    ("thinkingLevel", "minimal", &["min", "think"]),
    ("thinkingLevel", "low", &["on", "enable", "enabled", "thinkhard", "think-hard", "think_hard"]),
    ("thinkingLevel", "medium", &["mid", "med", "thinkharder", "think-harder", "harder"]),
    ("thinkingLevel", "high", &["ultra", "ultrathink", "thinkhardest", "highest", "max"]),
    ("verboseLevel", "off", &["false", "no", "0"]),
    ("verboseLevel", "on", &["minimal", "true", "yes", "1"]),
    ("verboseLevel", "full", &["all", "everything"]),
    ("reasoningLevel", "off", &["false", "no", "0", "hide", "hidden", "disable", "disabled"]),
    ("reasoningLevel", "on", &["true", "yes", "1", "show", "visible", "enable", "enabled"]),
    ("reasoningLevel", "stream", &["streaming", "draft", "live"]),
    ("responseUsage", "tokens", &["on"]),
    ("elevatedLevel", "off", &["false", "no", "0"]),
    ("elevatedLevel", "full", &["auto", "auto-approve", "autoapprove"]),
    ("elevatedLevel", "ask", &["prompt", "approval", "approve"]),
    ("elevatedLevel", "on", &["true", "yes", "1"]),
];

const fn word(key: &'static str, words: &'static [&'static str], hint: &'static str) -> Setting {
    Setting { key, words, hint }
}

/// A value that a session does not take.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PatchRefusal {
    #[error("invalid {key} (use {hint})")]
    Word { key: &'static str, hint: &'static str },
    #[error("invalid execNode: empty")]
    EmptyNode,
    #[error("invalid model: empty")]
    EmptyModel,
    #[error("invalid model: {model}")]
    HalfModel { model: String },
    #[error("model not allowed: {model}")]
    Model { model: String },
    #[error("label already in use: {label}")]
    Label { label: String },
    #[error("invalid label: empty")]
    EmptyLabel,
    #[error("invalid {key}: empty")]
    EmptyLineage { key: &'static str },
    #[error(
        "thinkingLevel \"xhigh\" is only supported for provider models that advertise xhigh reasoning"
    )]
    Xhigh,
    #[error("{key} is only supported for subagent:* or acp:* sessions")]
    NotSpawned { key: &'static str },
    #[error("{key} cannot be changed once set")]
    Lineage { key: &'static str },
    #[error("{key} cannot be cleared once set")]
    LineageStays { key: &'static str },
}

/// What says where a session below another one came from.
pub const LINEAGE: [&str; 5] =
    ["spawnedBy", "spawnedWorkspaceDir", "spawnDepth", "subagentRole", "subagentControlScope"];

/// What is asked for one of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lineage {
    /// To be set, where nothing is or the same.
    New,
    /// To be set, where something else is.
    Other,
    /// To be cleared, where nothing is.
    ClearedAgain,
    /// To be cleared, where something is.
    Cleared,
}

/// Whether a session may say so about its origin: only one that was started by another, and only once. Whoever could
/// change it later would move a session into somebody else's sight.
pub fn decide_lineage(
    key: &'static str,
    session: &SessionKey,
    asked: Lineage,
) -> Result<(), PatchRefusal> {
    let is_spawned = session.is_subagent() || session.is_acp();
    match asked {
        Lineage::Cleared => Err(PatchRefusal::LineageStays { key }),
        Lineage::New | Lineage::Other if !is_spawned => Err(PatchRefusal::NotSpawned { key }),
        Lineage::ClearedAgain | Lineage::New => Ok(()),
        Lineage::Other => Err(PatchRefusal::Lineage { key }),
    }
}

impl Setting {
    /// The word as it is stored.
    pub fn accept(&self, text: &str) -> Result<&'static str, PatchRefusal> {
        let text = text.trim().to_lowercase();
        if self.key == "thinkingLevel" && text == "xhigh" {
            return Err(PatchRefusal::Xhigh);
        }
        let spelled = SPELLINGS
            .iter()
            .find(|(key, _, others)| *key == self.key && others.contains(&text.as_str()));
        let known = self.words.iter().find(|word| **word == text).copied();
        known
            .or(spelled.map(|(_, stored, _)| *stored))
            .ok_or(PatchRefusal::Word { key: self.key, hint: self.hint })
    }
}

/// Where a session's commands run, if a client asks for `wish`. A session that is sandboxed stays in
/// its sandbox, whichever layer of the config says so: pages that do not look at the defaults ask for
/// the host without meaning it.
#[must_use]
pub fn decide_host(wish: &'static str, placement: &Placement) -> &'static str {
    match placement {
        Placement::Sandboxed(_) => "sandbox",
        Placement::Direct(_) => wish,
    }
}

/// A model of a provider.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Model {
    pub provider: String,
    pub model: String,
}

impl Model {
    /// `provider/model`; a bare name belongs to `provider`.
    fn parse(text: &str, provider: &str) -> Option<Self> {
        let text = text.trim();
        let (provider, model) = text.split_once('/').unwrap_or((provider, text));
        let (provider, model) = (provider.trim().to_lowercase(), model.trim().to_owned());
        (!provider.is_empty() && !model.is_empty()).then_some(Self { provider, model })
    }

    pub fn id(&self) -> String {
        format!("{}/{}", self.provider, self.model)
    }
}

/// The model that an agent uses if its session says nothing.
pub fn default_model(config: &Config, agent: &crate::ids::AgentId) -> Option<Model> {
    let primary = |node: &Node| {
        node.as_str().or_else(|| node.get("primary").and_then(Node::as_str)).map(str::to_owned)
    };
    let own = config.agent(agent).and_then(|entry| primary(entry.node.get("model")?));
    own.and_then(|own| Model::parse(&own, "anthropic")).or_else(|| shared_model(config))
}

/// The model of every agent that has none of its own.
pub fn shared_model(config: &Config) -> Option<Model> {
    let shared = config.at(&["agents", "defaults", "model"])?.node;
    let primary = shared.as_str().or_else(|| shared.get("primary").and_then(Node::as_str))?;
    Model::parse(primary, "anthropic")
}

/// Decides which model a session may use: any, unless `agents.defaults.models` lists some.
pub fn decide_model(
    config: &Config,
    default: Option<&Model>,
    text: &str,
) -> Result<Model, PatchRefusal> {
    let text = text.trim();
    let listed = config.at(&["agents", "defaults", "models"]);
    let listed = listed.map(|at| at.members()).unwrap_or_default();
    let alias =
        listed.iter().find(|(_, at)| at.node.get("alias").and_then(Node::as_str) == Some(text));
    let text = alias.map_or(text, |(id, _)| id);
    let provider = default.map_or("anthropic", |model| model.provider.as_str());
    if text.is_empty() {
        return Err(PatchRefusal::EmptyModel);
    }
    let half = || PatchRefusal::HalfModel { model: text.to_owned() };
    let model = Model::parse(text, provider).ok_or_else(half)?;
    let is_listed = listed.iter().any(|(id, _)| id.eq_ignore_ascii_case(&model.id()));
    if listed.is_empty() || is_listed || default == Some(&model) {
        Ok(model)
    } else {
        Err(PatchRefusal::Model { model: model.id() })
    }
}

/// How many tokens a model's context holds; where the config does not say so, as many as most do.
pub fn context_tokens(config: &Config, model: &Model) -> u64 {
    const BUILT_IN: u64 = 200_000;
    known_context_tokens(config, model).unwrap_or(BUILT_IN)
}

/// How many tokens a model's context holds, if the config says so.
pub fn known_context_tokens(config: &Config, model: &Model) -> Option<u64> {
    let models = config.at(&["models", "providers", &model.provider, "models"]);
    let found = models.map(|at| at.items()).unwrap_or_default().into_iter().find_map(|at| {
        let is_it = at.node.get("id").and_then(Node::as_str) == Some(model.model.as_str());
        at.node.get("contextWindow").filter(|_| is_it).and_then(Node::as_number)
    });
    found.and_then(|number| format!("{number:.0}").parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::sandbox::SandboxMode;
    use crate::config::{json5, tree::FileId};
    use crate::ids::AgentId;
    use crate::session::{self, Session};

    fn config(text: &str) -> Config {
        Config::from_tree(json5::parse(text, FileId(0)).unwrap().root, Vec::new())
    }

    #[test]
    fn settings_take_their_words_in_any_case() {
        let accept = |key: &str, text: &str| {
            let setting = SETTINGS.iter().find(|setting| setting.key == key).unwrap();
            setting.accept(text).map_err(|refusal| refusal.to_string())
        };
        assert_eq!(accept("execHost", " Gateway "), Ok("gateway"));
        assert_eq!(
            accept("execHost", "mars"),
            Err("invalid execHost (use \"sandbox\"|\"gateway\"|\"node\")".to_owned())
        );
        for (key, text, stored) in [
            ("thinkingLevel", "on", "low"),
            ("thinkingLevel", "Max", "high"),
            ("thinkingLevel", "auto", "adaptive"),
            ("verboseLevel", "everything", "full"),
            ("verboseLevel", "0", "off"),
            ("reasoningLevel", "hidden", "off"),
            ("responseUsage", "on", "tokens"),
            ("elevatedLevel", "auto", "full"),
        ] {
            assert_eq!(accept(key, text), Ok(stored), "{key} {text}");
        }
        assert_eq!(
            accept("thinkingLevel", "galaxy"),
            Err("invalid thinkingLevel (use off|minimal|low|medium|high|adaptive)".to_owned())
        );
    }

    #[test]
    fn a_sandboxed_session_stays_in_its_sandbox() {
        let config = config("{}");
        let session = Session::resolve(&config, "agent:main:main");
        let placement = |mode| session::decide(mode, &session);
        assert_eq!(decide_host("gateway", &placement(SandboxMode::All)), "sandbox");
        assert_eq!(decide_host("gateway", &placement(SandboxMode::NonMain)), "gateway");
        assert_eq!(decide_host("node", &placement(SandboxMode::Off)), "node");
    }

    #[test]
    fn a_session_says_where_it_came_from_once_and_only_if_another_started_it() {
        let decide = |key: &str, asked| {
            let session = SessionKey::parse(key).unwrap();
            decide_lineage("spawnedBy", &session, asked).map_err(|refusal| refusal.to_string())
        };
        let refused = |text: &str| Err(format!("spawnedBy {text}"));
        let below = "agent:bot:subagent:1";
        for (key, asked, expected) in [
            (below, Lineage::New, Ok(())),
            (below, Lineage::Other, refused("cannot be changed once set")),
            (below, Lineage::Cleared, refused("cannot be cleared once set")),
            (below, Lineage::ClearedAgain, Ok(())),
            ("agent:bot:acp:1", Lineage::New, Ok(())),
            (
                "agent:bot:main",
                Lineage::New,
                refused("is only supported for subagent:* or acp:* sessions"),
            ),
            ("agent:bot:main", Lineage::ClearedAgain, Ok(())),
        ] {
            assert_eq!(decide(key, asked), expected, "{key} {asked:?}");
        }
    }

    #[test]
    fn models_are_found_by_id_alias_or_bare_name() {
        let open = config("{agents: {defaults: {model: {primary: 'mock/mock-1'}}}}");
        let default = default_model(&open, &AgentId::main());
        let ask = |config: &Config, text: &str| {
            decide_model(config, default.as_ref(), text).map(|model| model.id())
        };
        assert_eq!(ask(&open, "nope/nope"), Ok("nope/nope".to_owned()));
        assert_eq!(ask(&open, "mock-2"), Ok("mock/mock-2".to_owned()));
        assert_eq!(ask(&open, " "), Err(PatchRefusal::EmptyModel));
        for half in ["/", "/x", "x/"] {
            assert_eq!(ask(&open, half), Err(PatchRefusal::HalfModel { model: half.to_owned() }));
        }
        let closed = config("{agents: {defaults: {models: {'a/b': {alias: 'fast'}}}}}");
        assert_eq!(ask(&closed, "fast"), Ok("a/b".to_owned()));
        assert_eq!(ask(&closed, "x/y"), Err(PatchRefusal::Model { model: "x/y".to_owned() }));
        assert_eq!(ask(&closed, "mock/mock-1"), Ok("mock/mock-1".to_owned()));
    }
}
