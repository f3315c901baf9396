//! Mappings: which calls they are for, and what becomes of one.

use super::HooksRefused;
use super::template::Template;
use crate::config::tree::{At, Node};
use crate::js_number;

/// More mappings than this are no config that somebody wrote.
const MOST: usize = 200;

/// What a call of a name becomes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mapping {
    pub id: String,
    path: Option<String>,
    source: Option<String>,
    pub action: Action,
    pub mode: Mode,
    pub content: Content,
    /// The text for the session.
    pub text: Template,
    pub name: Option<Template>,
    pub agent: Option<String>,
    pub session: Option<Template>,
    pub model: Option<Template>,
    pub timeout_seconds: Option<u64>,
}

/// What a call does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    /// Says something in the main session.
    Wake,
    /// Runs an agent in a session of its own.
    Agent,
}

/// When the main session hears of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    Now,
    NextHeartbeat,
}

impl Mode {
    /// As in the reference, a word that is not known means now.
    pub fn parse(word: Option<&str>) -> Self {
        match word {
            Some("next-heartbeat") => Self::NextHeartbeat,
            Some(_) | None => Self::Now,
        }
    }

    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Now => "now",
            Self::NextHeartbeat => "next-heartbeat",
        }
    }
}

/// How a model is shown what was sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Content {
    /// Marked as the words of strangers.
    Foreign,
    /// `allowUnsafeExternalContent`: as if a person had said it.
    AsItIs,
}

impl Mapping {
    pub(super) fn matches(&self, name: &str, source: Option<&str>) -> bool {
        self.path.as_deref().is_none_or(|path| path == name)
            && self.source.as_deref().is_none_or(|wanted| source == Some(wanted))
    }
}

/// Reads `hooks.mappings`, and what `hooks.presets` adds to them.
pub(super) fn read(hooks: &At<'_>) -> Result<Vec<Mapping>, HooksRefused> {
    let written = hooks.get("mappings").map(|at| at.items()).unwrap_or_default();
    if written.len() > MOST {
        let key = "hooks.mappings".to_owned();
        return Err(HooksRefused::Wrong { key, why: "more than 200 mappings" });
    }
    let mut mappings = Vec::new();
    for (index, at) in written.iter().enumerate() {
        mappings.push(one(at, index)?);
    }
    for preset in hooks.get("presets").map(|at| at.items()).unwrap_or_default() {
        if preset.node.as_str() != Some("gmail") {
            let why = "there is no preset of this name; there is gmail";
            return Err(HooksRefused::Wrong { key: preset.key, why });
        }
        mappings.push(gmail()?);
    }
    Ok(mappings)
}

fn one(at: &At<'_>, index: usize) -> Result<Mapping, HooksRefused> {
    if let Some(at) = at.get("transform") {
        return Err(HooksRefused::NotBuilt { key: at.key });
    }
    let here = |name: &str| format!("{}.{name}", at.key);
    let text = |name: &str| super::text(at, name);
    if text("channel").is_some_and(|channel| channel != "last") {
        return Err(HooksRefused::NotBuilt { key: here("channel") });
    }
    let action = match text("action").as_deref() {
        None | Some("agent") => Action::Agent,
        Some("wake") => Action::Wake,
        Some(_) => {
            return Err(HooksRefused::Wrong { key: here("action"), why: "write wake or agent" });
        }
    };
    let template = |name: &str| {
        let written = at.node.get(name).and_then(Node::as_str).filter(|text| !text.is_empty());
        written.map(|text| Template::parse(text).map_err(|_long| too_long(&here(name)))).transpose()
    };
    let named = match action {
        Action::Wake => "textTemplate",
        Action::Agent => "messageTemplate",
    };
    let body = template(named)?;
    let missing =
        || HooksRefused::Wrong { key: here(named), why: "is missing, so nothing is said" };
    let part = |name: &str| at.get("match").and_then(|at| super::text(&at, name));
    let is_trusted =
        at.node.get("allowUnsafeExternalContent").and_then(Node::as_bool) == Some(true);
    let seconds = at.node.get("timeoutSeconds").and_then(Node::as_number);
    let seconds = seconds.filter(|seconds| (1.0..=1e9).contains(seconds));
    Ok(Mapping {
        id: text("id").unwrap_or_else(|| format!("mapping-{}", index + 1)),
        path: part("path").map(|path| path.trim_matches('/').to_owned()).filter(|p| !p.is_empty()),
        source: part("source"),
        action,
        mode: Mode::parse(text("wakeMode").as_deref()),
        content: if is_trusted { Content::AsItIs } else { Content::Foreign },
        text: body.ok_or_else(missing)?,
        name: template("name")?,
        agent: text("agentId"),
        session: template("sessionKey")?,
        model: template("model")?,
        timeout_seconds: seconds.and_then(js_number::whole),
    })
}

fn too_long(key: &str) -> HooksRefused {
    HooksRefused::Wrong { key: key.to_owned(), why: "is longer than a template may be" }
}

/// Mails as Gmail's own webhook sends them.
fn gmail() -> Result<Mapping, HooksRefused> {
    let template = |text: &str| Template::parse(text).map_err(|_long| too_long("hooks.presets"));
    let text = "A mail has come.\nFrom: {{messages[0].from}}\nSubject: {{messages[0].subject}}\n\n\
                {{messages[0].snippet}}\n{{messages[0].body}}";
    Ok(Mapping {
        id: "gmail".to_owned(),
        path: Some("gmail".to_owned()),
        source: None,
        action: Action::Agent,
        mode: Mode::Now,
        content: Content::Foreign,
        text: template(text)?,
        name: Some(template("Gmail")?),
        agent: None,
        session: Some(template("hook:gmail:{{messages[0].id}}")?),
        model: None,
        timeout_seconds: None,
    })
}
