//! What is in force in a session's sandbox, looked at now: asked for and found, side by side.

use clawpen_rules::facts::{Holds, Line, Need, floor};
use clawpen_wire::pen::Lifetime;
use serde_json::{Value, json};

use super::desk::{Desk, Who};
use super::failure::ToolCallError;
use super::{About, Keeping, Open, OpenError, Prepared, prepare};
use crate::backend::{Plan, Sandbox};
use crate::error_text;
use crate::registry::Identity;
use crate::yard::Yard;

impl Desk {
    /// Starts the session's sandbox if it does not run, and looks at it from outside and inside.
    pub fn facts(&self, who: &Who) -> Result<Value, ToolCallError> {
        let store = self.store()?;
        let prepared = prepare(&store, &who.target())?;
        self.with_yard(&store, |yard| {
            let about = About { door: self.door(), tool: "facts", keeping: Keeping::Scope };
            let done = super::run(yard, &prepared, &about, |open, _| {
                let lines = look_again(open, &prepared, yard)?;
                Ok::<_, OpenError>((lines, open.sandbox().first_process()))
            })?;
            let backend = done.backend;
            let (lines, first_process) = done.value?;
            Ok(json!({
                "sandbox": prepared.name(),
                "backend": backend.as_str(),
                "firstProcess": first_process,
                "floor": floor(backend).holds,
                "notPromised": floor(backend).not,
                "facts": lines.iter().map(fact_json).collect::<Vec<_>>(),
            }))
        })
    }
}

/// What is in force now, in a sandbox that was just made or has been there for a week.
pub fn look_again(
    open: &mut Open<'_>,
    prepared: &Prepared,
    yard: &Yard,
) -> Result<Vec<Line>, OpenError> {
    let identity = open.identity().cloned();
    let refused =
        |error: &dyn std::error::Error| OpenError::Refused(vec![error_text::chain(error)]);
    match (open.sandbox(), &prepared.plan, identity) {
        (Sandbox::Native(pen), Plan::Native(plan), _) => {
            let request = plan.request(prepared.place(), Lifetime::Persistent);
            pen.look_again(&request).map_err(|error| refused(&error))
        }
        (Sandbox::Docker(pen), Plan::Docker(spec), Some(Identity::Docker(identity))) => {
            let engine = yard.engines.docker(&yard.state_dir).map_err(|error| refused(&error))?;
            let looked = pen.look_again(&engine, spec, &identity.container_id);
            looked.map_err(|error| refused(&error))
        }
        (sandbox, _, _) => Ok(sandbox.facts().to_vec()),
    }
}

/// A fact as every door shows it.
pub fn fact_json(line: &Line) -> Value {
    json!({
        "kind": line.fact.kind().as_str(),
        "fact": line.fact.to_string(),
        "asked": line.asked,
        "outside": line.outside,
        "inside": line.inside,
        "holds": line.holds == Holds::Yes,
        "floor": line.need == Need::Floor,
    })
}
