//! The base values: what message, session and config say before a call has its say.

use super::source::{Chosen, Source};
use super::values::{Ask, HostWish, Security};
use super::{Situation, Warning};
use crate::config::Config;
use crate::config::setting::{Layer, Origin};
use crate::config::tree::{At, Value};
use crate::ids::AgentId;

/// What one of message, session and request wishes for. Doors parse the words and refuse others.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Wishes {
    pub host: Option<HostWish>,
    pub security: Option<Security>,
    pub ask: Option<Ask>,
}

/// A value of the config that is none of its words. The schema reports it earlier; whoever skipped
/// the schema runs nothing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unreadable {
    pub key: String,
    pub text: String,
    pub known: &'static str,
}

/// The values that a call starts from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Base {
    pub(super) host: Chosen<HostWish>,
    pub(super) security: Chosen<Security>,
    pub(super) ask: Chosen<Ask>,
    pub(super) warnings: Vec<Warning>,
}

const HOST_KEY: &str = "tools.exec.host";
const SECURITY_KEY: &str = "tools.exec.security";
const ASK_KEY: &str = "tools.exec.ask";

impl Base {
    pub(super) fn read(situation: &Situation<'_>) -> Result<Self, Unreadable> {
        let config = Written::read(situation.config, situation.agent)?;
        let host = config.host.unwrap_or(Chosen::new(HostWish::Auto, Source::BuiltIn(HOST_KEY)));
        let security = config
            .security
            .unwrap_or(Chosen::new(Security::Allowlist, Source::BuiltIn(SECURITY_KEY)));
        let ask = config.ask.unwrap_or(Chosen::new(Ask::OnMiss, Source::BuiltIn(ASK_KEY)));
        let mut base = Self { host, security, ask, warnings: Vec::new() };
        base.replace(situation.session, &Source::Session);
        base.replace(situation.message, &Source::Message);
        Ok(base)
    }

    /// Session and message replace the config, in both directions; what gets laxer is said.
    fn replace(&mut self, wishes: Wishes, source: &Source) {
        let Wishes { host, security, ask } = wishes;
        if let Some(host) = host {
            self.host = Chosen::new(host, source.clone());
        }
        if let Some(security) = security {
            if security > self.security.value {
                self.loosened("security", self.security.value.as_str(), security.as_str(), source);
            }
            self.security = Chosen::new(security, source.clone());
        }
        if let Some(ask) = ask {
            if ask < self.ask.value {
                self.loosened("ask", self.ask.value.as_str(), ask.as_str(), source);
            }
            self.ask = Chosen::new(ask, source.clone());
        }
    }

    fn loosened(&mut self, what: &'static str, from: &str, to: &str, by: &Source) {
        let (from, to) = (from.to_owned(), to.to_owned());
        self.warnings.push(Warning::Loosened { what, from, to, by: by.clone() });
    }
}

/// `tools.exec` of the agent and of everybody, the agent's values first.
struct Written {
    host: Option<Chosen<HostWish>>,
    security: Option<Chosen<Security>>,
    ask: Option<Chosen<Ask>>,
}

impl Written {
    fn read(config: &Config, agent: &AgentId) -> Result<Self, Unreadable> {
        let own = config.agent(agent).and_then(|entry| entry.path(&["tools", "exec"]));
        let global = config.at(&["tools", "exec"]);
        let mut written = Self { host: None, security: None, ask: None };
        for (layer, block) in [(Layer::Agent, own), (Layer::Defaults, global)] {
            let Some(block) = block else { continue };
            let found = Self::layer(layer, &block)?;
            written.host = written.host.or(found.host);
            written.security = written.security.or(found.security);
            written.ask = written.ask.or(found.ask);
        }
        Ok(written)
    }

    fn layer(layer: Layer, block: &At<'_>) -> Result<Self, Unreadable> {
        let host = word(layer, block, "host", HostWish::parse, "auto, sandbox, gateway, node")?;
        let security = word(layer, block, "security", Security::parse, "deny, allowlist, full")?;
        let ask = word(layer, block, "ask", Ask::parse, "off, on-miss, always")?;
        let mode = word(layer, block, "mode", mode, "deny, allowlist, ask, auto, full")?;
        // The newer release's `mode` stands for the pair. Beside it, the stricter one counts.
        let (security, ask) = match mode {
            None => (security, ask),
            Some(Chosen { value: (mode_security, mode_ask), source }) => (
                Some(Chosen::new(mode_security, source.clone()).stricter_security(security)),
                Some(Chosen::new(mode_ask, source).stricter_ask(ask)),
            ),
        };
        Ok(Self { host, security, ask })
    }
}

/// The pair that a `mode` stands for. `auto` lets a model review commands there; here a person does.
fn mode(text: &str) -> Option<(Security, Ask)> {
    match text {
        "deny" => Some((Security::Deny, Ask::Off)),
        "allowlist" => Some((Security::Allowlist, Ask::Off)),
        "ask" | "auto" => Some((Security::Allowlist, Ask::OnMiss)),
        "full" => Some((Security::Full, Ask::Off)),
        _ => None,
    }
}

fn word<T>(
    layer: Layer,
    block: &At<'_>,
    key: &str,
    parse: impl Fn(&str) -> Option<T>,
    known: &'static str,
) -> Result<Option<Chosen<T>>, Unreadable> {
    let Some(at) = block.get(key) else { return Ok(None) };
    let unreadable = |text: String| Unreadable { key: at.key.clone(), text, known };
    match &at.node.value {
        Value::Null => Ok(None),
        Value::String(text) => {
            let value = parse(text).ok_or_else(|| unreadable(text.clone()))?;
            Ok(Some(Chosen::new(value, Source::Config(Origin::written(layer, &at)))))
        }
        Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_) => {
            Err(unreadable(at.node.value.kind().to_string()))
        }
    }
}
