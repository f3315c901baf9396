//! The two profile layers, and the sections they share with the list layers.

use super::{Compat, Remedy, Session};
use crate::config::Config;
use crate::config::setting::{Layer, Origin};
use crate::config::tree::At;
use crate::tool_policy::catalogue::Profile;
use crate::tool_policy::list::Written;
use crate::tool_policy::name::fold;
use crate::tool_policy::section::{Section, union};
use crate::tool_policy::warning::{Problem, Warning};

/// One `tools` object, or one entry of a `byProvider` map.
#[derive(Default)]
pub(super) struct Scope<'a> {
    layer: Option<Layer>,
    at: Option<At<'a>>,
    section: Option<Section>,
}

/// Everything of the config that the list and profile layers read.
pub(super) struct Scopes<'a> {
    pub(super) global: Scope<'a>,
    pub(super) global_provider: Scope<'a>,
    pub(super) agent: Scope<'a>,
    pub(super) agent_provider: Scope<'a>,
}

/// The profile in force.
pub(super) struct Found {
    /// As written.
    pub(super) name: String,
    pub(super) allow: Vec<Written>,
    pub(super) deny: Vec<Written>,
    /// The part of `allow` that the author wrote.
    pub(super) also_allow: Vec<Written>,
    pub(super) remedy: Remedy,
    pub(super) warning: Option<Warning>,
}

impl<'a> Scope<'a> {
    fn new(layer: Layer, at: Option<At<'a>>) -> Self {
        let section = at.as_ref().map(|at| Section::read(layer, at));
        Self { layer: Some(layer), at, section }
    }

    pub(super) fn section(&self) -> Option<&Section> {
        self.section.as_ref()
    }

    fn profile(&self) -> Option<Written> {
        let at = self.at.as_ref()?.get("profile")?;
        let text = at.node.as_str()?.to_owned();
        Some(Written { text, origin: Origin::written(self.layer?, &at) })
    }

    fn also_allow(&self) -> Option<&[Written]> {
        self.section.as_ref()?.also_allow.as_deref()
    }

    /// Entries that the mere presence of `key` stands for.
    fn implied(&self, key: &str, names: &[&str]) -> Vec<Written> {
        let written = self.at.as_ref().and_then(|at| at.get(key)).zip(self.layer);
        let Some((at, layer)) = written.filter(|(at, _)| at.node.as_object().is_some()) else {
            return Vec::new();
        };
        let origin = Origin::written(layer, &at);
        let entry = |name: &&str| Written { text: (*name).to_owned(), origin: origin.clone() };
        names.iter().map(entry).collect()
    }
}

impl<'a> Scopes<'a> {
    pub(super) fn read(config: &'a Config, session: &Session) -> Self {
        let global = config.at(&["tools"]);
        let agent = config.agent(&session.agent).and_then(|entry| entry.get("tools"));
        let provider = |tools: &Option<At<'a>>| {
            let map = tools.as_ref()?.get("byProvider")?;
            by_provider(&map, session)
        };
        let (global_provider, agent_provider) = (provider(&global), provider(&agent));
        Self {
            global: Scope::new(Layer::Defaults, global),
            global_provider: Scope::new(Layer::Defaults, global_provider),
            agent: Scope::new(Layer::Agent, agent),
            agent_provider: Scope::new(Layer::Agent, agent_provider),
        }
    }

    /// The profile of the agent, else the global one, with what `alsoAllow` adds to it.
    pub(super) fn profile(&self, compat: Compat) -> Option<Found> {
        let mut implied = Vec::new();
        if compat.implicit_profile_widening {
            for scope in [&self.agent, &self.global] {
                implied.extend(scope.implied("exec", &["exec", "process"]));
                implied.extend(scope.implied("fs", &["read", "write", "edit"]));
            }
        }
        find(&self.agent, &self.global, &implied)
    }

    pub(super) fn provider_profile(&self) -> Option<Found> {
        find(&self.agent_provider, &self.global_provider, &[])
    }
}

fn find(agent: &Scope<'_>, global: &Scope<'_>, implied: &[Written]) -> Option<Found> {
    let written = agent.profile().or_else(|| global.profile())?;
    let origin = &written.origin;
    let entry = |text: &str| Written { text: text.to_owned(), origin: origin.clone() };
    let found = Found {
        name: written.text.clone(),
        allow: Vec::new(),
        deny: Vec::new(),
        also_allow: Vec::new(),
        remedy: Remedy::WiderProfile { key: origin.key.clone() },
        warning: None,
    };
    let Some(profile) = Profile::parse(&written.text) else {
        // The schema refuses it; if it gets here all the same, nothing is allowed by a profile
        // that does not exist.
        let problem = Problem::UnknownProfile;
        let origin = Origin { layer: Layer::Derived, ..origin.clone() };
        let deny = vec![Written { text: "*".to_owned(), origin }];
        let warning =
            Warning { origin: written.origin.clone(), entry: written.text.clone(), problem };
        return Some(Found { deny, warning: Some(warning), ..found });
    };
    let allow: Vec<Written> = profile.tools()?.into_iter().map(entry).collect();
    let extra = agent.also_allow().or(global.also_allow()).unwrap_or_default();
    // Where nothing hides anything: beside the `alsoAllow` in force, else beside the profile.
    let is_agents = agent.also_allow().is_some()
        || (global.also_allow().is_none() && agent.profile().is_some());
    let scope = if is_agents { agent } else { global };
    let remedy = match scope.section() {
        Some(section) if !section.has_allow_entries() => {
            Remedy::AddTool { key: format!("{}.alsoAllow", section.key) }
        }
        Some(_) | None => found.remedy,
    };
    let allow = union(&union(&allow, extra), implied);
    Some(Found { allow, also_allow: extra.to_vec(), remedy, ..found })
}

/// The entry of a `byProvider` map for the session's model: the one for the model if there is one,
/// else the one for the provider. The two are never merged.
fn by_provider<'a>(map: &At<'a>, session: &Session) -> Option<At<'a>> {
    let model = session.model.as_ref()?;
    let provider = fold(&model.provider);
    let full = model.names().pop();
    [full, Some(provider)]
        .into_iter()
        .flatten()
        .filter(|name| !name.is_empty())
        // Of two spellings of one key the later counts, as it does for repeated keys.
        .find_map(|name| map.members().into_iter().rfind(|(key, _)| fold(key) == name))
        .map(|(_, at)| at)
}
