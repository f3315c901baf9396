//! Decides whether a person is asked about a command that stays in the sandbox.
//!
//! By default nobody is: the sandbox is what protects the machine. `askInSandbox` in `clawpen.json`
//! asks about every command of an agent there too. Nothing is looked at then: which files the words
//! lead to is known only inside, so no list can speak for them. Silence is a no. What a person types
//! at `clawpen exec` or `clawpen shell` is their own word and needs no second one.

use std::fmt;

use super::answer::{Answer, Denied};
use crate::config::setting::{Origin, Setting};
use crate::exec_host::SandboxExec;

/// The verdict on a command that stays in the sandbox.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum InSandbox {
    /// It just runs.
    Run { by: Origin },
    /// A person must agree.
    Ask { by: Origin },
}

/// Decides whether a person is asked. That the command stays inside is what `exec` proves.
#[must_use]
pub fn decide(_exec: &SandboxExec, ask: &Setting<bool>) -> InSandbox {
    let by = ask.origin.clone();
    if ask.value { InSandbox::Ask { by } } else { InSandbox::Run { by } }
}

/// Decides what the answer means: nothing is remembered, and silence is a no.
pub fn decide_answer(answer: Answer) -> Result<(), Denied> {
    match answer {
        Answer::AllowOnce | Answer::AllowAlways => Ok(()),
        Answer::Deny => Err(Denied::ByPerson),
        Answer::Silence => Err(Denied::Silence),
    }
}

impl fmt::Display for InSandbox {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Run { by } => write!(
                f,
                "nobody is asked about what stays in the sandbox (`{}` would change that)",
                by.key
            ),
            Self::Ask { by } => {
                write!(f, "everything is asked about in the sandbox too (`{}`)", by.key)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::approval::file::{AgentKey, ApprovalsFile};
    use crate::config::tree::FileId;
    use crate::config::{Config, json5};
    use crate::elevated::level::Elevation;
    use crate::exec_host::{self, ExecDecision, SessionSandbox, Situation, Wishes};
    use crate::ids::AgentId;

    fn inside() -> SandboxExec {
        let config = Config::from_tree(json5::parse("{}", FileId(0)).unwrap().root, Vec::new());
        let none = Wishes::default();
        let decision = exec_host::decide(&Situation {
            config: &config,
            agent: &AgentId::main(),
            sandbox: SessionSandbox::Required,
            message: none,
            session: none,
            request: none,
            elevation: &Elevation::Off,
            approvals: Ok(&ApprovalsFile::empty().policy(&AgentKey::parse("main"))),
        });
        match decision {
            ExecDecision::Sandbox(exec) => exec,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn nobody_is_asked_in_a_sandbox_unless_the_key_says_so() {
        let built_in = Origin::built_in("defaults.askInSandbox");
        let quiet = decide(&inside(), &Setting::new(false, built_in.clone()));
        assert_eq!(quiet, InSandbox::Run { by: built_in.clone() });
        assert!(quiet.to_string().contains("defaults.askInSandbox"));
        let asks = decide(&inside(), &Setting::new(true, built_in.clone()));
        assert_eq!(asks, InSandbox::Ask { by: built_in });
    }

    #[test]
    fn silence_is_a_no_and_nothing_is_remembered() {
        assert_eq!(decide_answer(Answer::AllowOnce), Ok(()));
        assert_eq!(decide_answer(Answer::AllowAlways), Ok(()));
        assert_eq!(decide_answer(Answer::Deny), Err(Denied::ByPerson));
        assert_eq!(decide_answer(Answer::Silence), Err(Denied::Silence));
    }
}
