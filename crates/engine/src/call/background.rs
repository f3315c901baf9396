//! How a command that went to the background stands, for a runner that tells its session of the end.
//!
//! Looks only: no sandbox is made or started, and nothing is recorded as a call.

use clawpen_rules::tools::exec::{Ended, ExitNotice};

use super::desk::{Desk, Who};
use super::exec::ended;
use super::failure::ToolCallError;
use super::process::{entry, kept, reach};
use super::runs::EndSeen;
use clawpen_wire::supervisor::ProcessState;

/// A command in the background.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Standing {
    Running,
    /// It is over, and its session does not know yet.
    Ended {
        ended: Ended,
        output: String,
    },
    /// Its session knows of its end, or it is gone with its sandbox: there is nothing to tell.
    Known,
}

impl Desk {
    /// How the command of this name stands.
    pub(crate) fn standing(&self, who: &Who, id: &str) -> Result<Standing, ToolCallError> {
        self.at(who, |turn| {
            let run = turn.runs.find(&turn.owner(), id);
            let Some(run) = run.filter(|run| run.end == EndSeen::No) else {
                return Ok(Standing::Known);
            };
            let looked = reach(turn, &run, |channel| {
                let entry = entry(turn, channel, &run)?;
                let exited = match &entry.state {
                    ProcessState::Running => return Ok(Standing::Running),
                    ProcessState::Exited(exited) => exited,
                };
                let (output, _) = kept(channel, &run, &entry)?;
                Ok(Standing::Ended { ended: ended(exited, None), output })
            });
            match looked {
                Err(ToolCallError::NoProcess { .. } | ToolCallError::Process(_)) => {
                    Ok(Standing::Known)
                }
                looked => looked,
            }
        })
    }

    /// Whether this session is told of such ends.
    pub(crate) fn exit_notice(&self, who: &Who) -> Result<ExitNotice, ToolCallError> {
        self.at(who, |turn| Ok(ExitNotice::resolve(turn.config(), turn.agent())))
    }
}
