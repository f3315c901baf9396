//! What a row's config asks for, read from the row alone: one agent's values over the defaults.

use serde_json::Value;

use crate::compat::agents;

/// The settings of the agent that a `flow` or `browser` row is about.
pub(super) struct Asked<'a> {
    defaults: &'a Value,
    agent: &'a Value,
}

impl<'a> Asked<'a> {
    pub(super) fn new(input: &'a Value) -> Self {
        let agents = &input["config"]["agents"];
        let list = agents["list"].as_array().map_or(&[][..], Vec::as_slice);
        let id = agent_of(input["sessionKey"].as_str().unwrap_or_default())
            .unwrap_or_else(|| Self::default_agent(input));
        let is_meant = |agent: &&Value| {
            agent["id"].as_str().is_some_and(|own| own.trim().to_lowercase() == id)
        };
        let agent = list.iter().find(is_meant).map_or(&Value::Null, |agent| &agent["sandbox"]);
        Self { defaults: &agents["defaults"]["sandbox"], agent }
    }

    /// A key of `sandbox` itself.
    pub(super) fn own(&self, key: &str) -> &'a Value {
        if self.agent[key].is_null() { &self.defaults[key] } else { &self.agent[key] }
    }

    /// A key of a block such as `docker`. A shared sandbox does not look at the agent's.
    pub(super) fn of(&self, block: &str, key: &str) -> &'a Value {
        let own = &self.agent[block][key];
        if own.is_null() || self.is_shared() { &self.defaults[block][key] } else { own }
    }

    /// A key of a block as both layers write it, the defaults first.
    pub(super) fn layers(&self, block: &str, key: &str) -> [&'a Value; 2] {
        [&self.defaults[block][key], &self.agent[block][key]]
    }

    /// Both layers' items of a list that is joined.
    pub(super) fn joined(&self, block: &str, key: &str) -> Vec<&'a str> {
        let agent = if self.is_shared() { &Value::Null } else { &self.agent[block][key] };
        strings(&self.defaults[block][key]).chain(strings(agent)).collect()
    }

    pub(super) fn text(&self, block: &str, key: &str) -> Option<&'a str> {
        self.of(block, key).as_str()
    }

    pub(super) fn access(&self) -> &'a str {
        self.own("workspaceAccess").as_str().unwrap_or("none")
    }

    pub(super) fn workdir(&self) -> &'a str {
        self.text("docker", "workdir").unwrap_or("/workspace")
    }

    pub(super) fn scope(&self) -> &'a str {
        match (self.own("scope").as_str(), self.own("perSession").as_bool()) {
            (Some(scope), _) => scope,
            (None, Some(true)) => "session",
            (None, Some(false)) => "shared",
            (None, None) => "agent",
        }
    }

    /// The agent that sessions belong to if their key names none.
    pub(super) fn default_agent(input: &Value) -> String {
        agents::default_agent(&input["config"])
    }

    fn is_shared(&self) -> bool {
        self.scope() == "shared"
    }
}

/// The strings of a list.
pub(super) fn strings(list: &Value) -> impl Iterator<Item = &str> {
    list.as_array().into_iter().flatten().filter_map(Value::as_str)
}

/// The agent that a session's key names.
pub(super) fn agent_of(key: &str) -> Option<String> {
    let key = key.trim().to_lowercase();
    let parts: Vec<&str> = key.split(':').filter(|part| !part.is_empty()).collect();
    match parts.as_slice() {
        ["agent", id, _, ..] => Some((*id).to_owned()),
        _ => None,
    }
}
