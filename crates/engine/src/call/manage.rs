//! What a door that may manage sandboxes can ask for: how the session's sandbox is, all of them, and a new one.

use serde_json::{Value, json};

use super::desk::{Desk, Who};
use super::failure::ToolCallError;
use super::{OpenError, prepare};
use crate::explain::{self, Question};
use crate::lifecycle::current::Currents;
use crate::lifecycle::{Condition, EnsureError, Listed, Origin};
use crate::registry::{InFlight, Kind};

impl Desk {
    /// How the sandbox of a session is.
    pub fn status(&self, who: &Who) -> Result<Value, ToolCallError> {
        let store = self.store()?;
        let prepared = prepare(&store, &who.target())?;
        let mine = prepared.name();
        let listed = self.listed()?.into_iter().find(|one| one["name"] == mine);
        Ok(json!({
            "name": mine,
            "backend": prepared.plan.backend().as_str(),
            "session": prepared.explanation.session.key().map(ToString::to_string),
            "agent": prepared.explanation.session.agent().as_str(),
            "scope": prepared.explanation.runtime.scope_key.as_str(),
            "workdir": prepared.workdir(),
            "placement": prepared.explanation.placement.to_string(),
            "sandbox": listed,
        }))
    }

    /// Every sandbox of the state directory.
    pub fn sandboxes(&self) -> Result<Value, ToolCallError> {
        Ok(json!({ "sandboxes": self.listed()? }))
    }

    fn listed(&self) -> Result<Vec<Value>, ToolCallError> {
        let store = self.store()?;
        self.with_yard(&store, |yard| {
            let listing = yard.lifecycle().list(Kind::Sandbox, &Currents::new(&store));
            let listing = listing.map_err(OpenError::Ensure)?;
            Ok(listing.sandboxes.iter().map(shown).collect())
        })
    }

    /// What is in force for a session, in the shape of `sandbox explain --json`.
    pub fn explain(&self, who: &Who) -> Result<Value, ToolCallError> {
        let store = self.store()?;
        let question = Question {
            agent: who.agent.as_deref(),
            session: who.session.as_deref(),
            channels: &[],
        };
        let explanation = explain::explain(&store, &question)?;
        let shape = explain::to_wire(&explanation, &store, Vec::new());
        Ok(serde_json::to_value(shape).unwrap_or(Value::Null))
    }

    /// Removes the session's sandbox; its next call gets a new one. One that is in use is left alone.
    pub fn recreate(&self, who: &Who) -> Result<Value, ToolCallError> {
        let store = self.store()?;
        let prepared = prepare(&store, &who.target())?;
        self.with_yard(&store, |yard| {
            let row = yard.database.registry().get(prepared.name());
            let row = row.map_err(|error| OpenError::Ensure(EnsureError::from(error)))?;
            let Some(row) = row else {
                return Ok(json!({ "name": prepared.name(), "removed": false }));
            };
            let removed = yard.lifecycle().remove(&row, InFlight::Respect);
            removed.map_err(OpenError::Ensure)?;
            Ok(json!({ "name": row.name, "removed": true }))
        })
    }
}

fn shown(listed: &Listed) -> Value {
    let (name, backend, ours) = match &listed.origin {
        Origin::Ours(row) => (row.name.as_str(), Some(row.backend.as_str()), true),
        Origin::Reference(foreign) => (foreign.name.as_str(), None, false),
    };
    let condition = match &listed.condition {
        Condition::Running => "running".to_owned(),
        Condition::Stopped => "stopped".to_owned(),
        Condition::Unproven => "unproven".to_owned(),
        Condition::Gone => "gone".to_owned(),
        Condition::Changing(_) => "changing".to_owned(),
        Condition::Unknown(problem) => format!("unknown: {problem}"),
    };
    json!({
        "name": name,
        "backend": backend,
        "ours": ours,
        "condition": condition,
        "memoryBytes": listed.memory,
        "calls": listed.calls,
        "ageSeconds": listed.age.as_secs(),
        "idleSeconds": listed.idle.as_secs(),
    })
}
