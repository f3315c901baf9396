//! What a door that may manage sandboxes can ask for: how the session's sandbox is, all of them, and a new one.
//!
//! These are tools like others: the session's policy may close them, and each call is recorded before anything is done.
//! That a door offers them at all is a switch of whoever opened it, so lists that are built in do not close them.

use std::time::Duration;

use clawpen_rules::explain::{Configs, Explanation};
use clawpen_rules::session::Placement;
use clawpen_rules::tool_policy::{self, Layers, Tool, Verdict as ToolVerdict};
use serde_json::{Value, json};

use super::desk::{Desk, Who};
use super::failure::ToolCallError;
use super::{OpenError, policy, prepare};
use crate::audit::{Call, Reason, Verdict};
use crate::config_store::Store;
use crate::explain::{self, Question};
use crate::lifecycle::current::Currents;
use crate::lifecycle::{Condition, EnsureError, Listed, Origin};
use crate::random;
use crate::registry::{InFlight, Kind};

/// What can be asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Job {
    Status,
    List,
    Explain,
    Recreate,
}

impl Job {
    pub const ALL: [Self; 4] = [Self::Status, Self::List, Self::Explain, Self::Recreate];

    /// The tool's name, as the policy knows it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Status => "sandbox_status",
            Self::List => "sandbox_list",
            Self::Explain => "sandbox_explain",
            Self::Recreate => "sandbox_recreate",
        }
    }

    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|job| job.name() == name)
    }
}

impl Desk {
    /// The jobs that the session's policy leaves open.
    pub fn open_jobs(&self, who: &Who) -> Result<Vec<Job>, ToolCallError> {
        let store = self.store()?;
        let (_, layers) = standing(&store, who)?;
        let is_open =
            |job: &Job| tool_policy::decide_switched(&layers, &Tool::core(job.name())).is_allowed();
        Ok(Job::ALL.into_iter().filter(is_open).collect())
    }

    /// Does a job for a session, if its policy lets it.
    pub fn manage(&self, who: &Who, job: Job) -> Result<Value, ToolCallError> {
        let store = self.store()?;
        let (explanation, layers) = standing(&store, who)?;
        let tool = Tool::core(job.name());
        let blocked = match tool_policy::decide_switched(&layers, &tool) {
            ToolVerdict::Allowed(_) => None,
            ToolVerdict::Blocked(block) => {
                Some(ToolCallError::Closed(policy::closed(&tool, &block, (&layers, &store))))
            }
        };
        let (verdict, reason) = match &blocked {
            None => {
                (Verdict::Allowed, "the door was opened with it, and no rule closes it".to_owned())
            }
            Some(error) => (Verdict::Refused, error.for_model()),
        };
        let call = Call {
            call: random::uuid(),
            session: explanation.session.key().map(ToString::to_string),
            agent: Some(explanation.session.agent().to_string()),
            scope: Some(explanation.runtime.scope_key.as_str().to_owned()),
            door: self.door(),
            tool: job.name().to_owned(),
            verdict,
            reason: Reason::new(&reason),
            ending: None,
            duration: Duration::ZERO,
            bytes_in: 0,
            bytes_out: 0,
        };
        self.with_yard(&store, |yard| {
            Ok(yard.database.audit().append(&call, yard.clock().now().wall).map(drop)?)
        })?;
        match (blocked, job) {
            (Some(error), _) => Err(error),
            (None, Job::Status) => self.status(who),
            (None, Job::List) => self.sandboxes(),
            (None, Job::Explain) => {
                let shape = explain::to_wire(&explanation, &store, Vec::new());
                Ok(serde_json::to_value(shape).unwrap_or(Value::Null))
            }
            (None, Job::Recreate) => self.recreate(who),
        }
    }

    /// How the sandbox of a session is.
    fn status(&self, who: &Who) -> Result<Value, ToolCallError> {
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
            "placement": placed(&prepared.explanation.placement),
            "sandbox": listed,
        }))
    }

    /// Every sandbox of the state directory.
    fn sandboxes(&self) -> Result<Value, ToolCallError> {
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

    /// Removes the session's sandbox; its next call gets a new one. One that is in use is left alone. For whoever runs
    /// this program himself: clients come by [`Desk::manage`].
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

/// What is decided about a session, also where it can have no sandbox, and the layers that its tools are under.
fn standing(store: &Store, who: &Who) -> Result<(Explanation, Layers), ToolCallError> {
    let question =
        Question { agent: who.agent.as_deref(), session: who.session.as_deref(), channels: &[] };
    let explanation = explain::explain(store, &question)?;
    let layers = match explanation.placement {
        Placement::Sandboxed(_) => explanation.layers.clone(),
        Placement::Direct(_) => {
            let configs = Configs { config: &store.loaded.config, own: &store.loaded.own };
            explanation.layers_inside(configs)
        }
    };
    Ok((explanation, layers))
}

/// Where the session's tools act at a door that has sandboxes only, and why.
fn placed(placement: &Placement) -> String {
    match placement {
        Placement::Sandboxed(_) => placement.to_string(),
        Placement::Direct(_) => {
            format!("in a sandbox: this door has no other place (otherwise {placement})")
        }
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
