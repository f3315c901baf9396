//! Approvals and plans in the shape that leaves us. Every field is taken apart by name, so that a new
//! one is not forgotten here.

use clawpen_rules::approval::answer::Word;
use clawpen_rules::approval::resolver::RunPlace;
use clawpen_rules::approval::run_form::{Form, Frozen};
use clawpen_rules::command::{PinnedFile, Step, escape};
use clawpen_wire::approvals as wire;

use super::{Approval, Resolved, Taken};
use super::{Remembered, State};
use crate::registry::Liveness;

/// A plan with the names of its variables.
pub(super) fn plan(frozen: &Frozen) -> wire::Plan {
    let Frozen { form, plan } = frozen;
    wire::Plan {
        hash: plan.hash().to_string(),
        form: match form {
            Form::Words => "words",
            Form::Shell => "shell",
        }
        .to_owned(),
        cwd: plan.cwd().to_owned(),
        environment: plan.environment().keys().cloned().collect(),
        steps: plan.steps().iter().map(step).collect(),
    }
}

fn step(step: &Step) -> wire::Step {
    let Step { joint, file: program, argv, others, input } = step;
    wire::Step {
        joint: joint.as_str().to_owned(),
        file: file(program),
        argv: argv.clone(),
        others: others.iter().map(file).collect(),
        input: input.clone(),
    }
}

fn file(file: &PinnedFile) -> wire::File {
    let PinnedFile { path, real_path, identity, hash } = file;
    wire::File {
        path: path.clone(),
        real_path: real_path.clone(),
        device: identity.device,
        inode: identity.inode,
        sha256: hash.to_string(),
    }
}

impl Approval {
    pub fn shape(&self) -> wire::Approval {
        let Self { id, state, session, agent, door, client, command, cwd, .. } = self;
        let Self { security, ask, fallback, reasons, plan, variables, entries, .. } = self;
        let Self { asked, timeout, word, resolver, ending, holder, .. } = self;
        let created = asked.wall.as_millis();
        let timeout = u64::try_from(timeout.as_millis()).unwrap_or(u64::MAX);
        let first = plan.as_ref().and_then(|plan| plan.steps.first());
        let is_one = plan.as_ref().is_some_and(|plan| plan.steps.len() == 1);
        wire::Approval {
            id: id.to_string(),
            state: state.as_str().to_owned(),
            created_at_ms: created,
            expires_at_ms: created.saturating_add(timeout),
            request: wire::Request {
                command: escape(command),
                command_argv: first.filter(|_| is_one).map(|step| step.argv.clone()),
                env_keys: plan
                    .as_ref()
                    .map_or_else(|| variables.clone(), |plan| plan.environment.clone()),
                cwd: cwd.clone(),
                host: match self.place() {
                    RunPlace::Host => "gateway",
                    RunPlace::Sandbox => "sandbox",
                }
                .to_owned(),
                security: security.as_str().to_owned(),
                ask: ask.as_str().to_owned(),
                agent_id: agent.to_string(),
                resolved_path: first.map(|step| step.file.real_path.clone()),
                session_key: session.clone(),
            },
            reasons: reasons.clone(),
            ask_fallback: fallback.as_str().to_owned(),
            door: door.as_str().to_owned(),
            client: client.clone(),
            asker: match holder.liveness() {
                Liveness::Alive => "running",
                Liveness::Dead => "gone",
                Liveness::Unknown => "unknown",
            }
            .to_owned(),
            plan: plan.clone(),
            can_remember: !entries.is_empty(),
            decision: word.map(|word| word.as_str().to_owned()),
            resolved_by: resolver.clone(),
            ending: ending.map(|ending| ending.to_string()),
        }
    }
}

impl Resolved {
    pub fn shape(&self) -> wire::Resolved {
        let Self { id, word, what } = self;
        let (ok, by, remembered) = match what {
            Taken::Counts { by, remembered, asker: _ } => {
                let patterns = match remembered {
                    Remembered::Entries(patterns) => patterns.clone(),
                    Remembered::NotAsked | Remembered::Nothing | Remembered::Failed(_) => {
                        Vec::new()
                    }
                };
                (true, Some(by.clone()), patterns)
            }
            Taken::Late { by, .. } => (false, by.clone(), Vec::new()),
            Taken::Refused(_) => (false, None, Vec::new()),
        };
        wire::Resolved {
            ok,
            id: id.to_string(),
            decision: word.as_str().to_owned(),
            resolved_by: by,
            remembered,
            reason: self.note(),
        }
    }

    /// What whoever answered should know besides; `None` if it just counts.
    pub fn note(&self) -> Option<String> {
        match &self.what {
            Taken::Refused(why) => Some(why.to_string()),
            Taken::Late { state, word: Some(word), by } => Some(format!(
                "it was answered before: {} by {} (now {})",
                word.as_str(),
                by.as_deref().unwrap_or("somebody"),
                state.as_str()
            )),
            Taken::Late { state: State::Withdrawn, .. } => {
                Some("whoever asked does not wait any more".to_owned())
            }
            Taken::Late { word: None, .. } => {
                Some("the time was over; what silence means was applied".to_owned())
            }
            Taken::Counts { remembered, asker, .. } => {
                let memory = match remembered {
                    Remembered::NotAsked | Remembered::Entries(_) => None,
                    Remembered::Nothing => Some(
                        "nothing of this command may be remembered, so it is allowed this once"
                            .to_owned(),
                    ),
                    Remembered::Failed(why) => Some(format!(
                        "allowed this once, because it could not be remembered: {why}"
                    )),
                };
                let is_gone = *asker == Liveness::Dead && self.word != Word::Deny;
                let gone = is_gone.then(|| {
                    "whoever asked is gone; nothing runs unless it comes back for it".to_owned()
                });
                let notes: Vec<String> = memory.into_iter().chain(gone).collect();
                (!notes.is_empty()).then(|| notes.join("; "))
            }
        }
    }
}
