//! Commands that a person writes into the chat: what they are, and whether this person may give them.
//!
//! Only a message that is nothing but a directive is one; a message that mixes one with other text is a message. Who
//! speaks is what the door found out. A model never speaks here: its text does not come through this door.

use std::fmt;

use crate::elevated::level::Level;
use crate::exec_host::{Ask, HostWish, Security};

/// A message of a person, read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Input {
    Message,
    Directive(Directive),
    /// It looks like a directive and is none.
    Bad(String),
}

/// What a person wants of the session itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Directive {
    /// A new session under the same key, and perhaps the first message of it.
    New(Option<String>),
    Status,
    Stop,
    Compact,
    /// What can be written here.
    Help,
    /// Without any value: what is set.
    Exec(ExecChange),
    /// `None`: what is set.
    Elevated(Option<Level>),
    Approve {
        id: String,
        answer: Answer,
    },
}

/// What `/exec` sets.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ExecChange {
    pub host: Option<HostWish>,
    pub security: Option<Security>,
    pub ask: Option<Ask>,
}

impl ExecChange {
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// What `/approve` answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answer {
    AllowOnce,
    AllowAlways,
    Deny,
}

/// What the door knows of whoever writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Authority {
    /// The user of this machine, or a client with `operator.admin`.
    Owner,
    /// A client with `operator.approvals`.
    Approver,
    /// May send messages, no more.
    Writer,
}

/// Whether a directive is carried out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    Allowed,
    Refused(Refusal),
}

/// Why not.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refusal {
    NeedsOwner,
    NeedsApprover,
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NeedsOwner => {
                "this changes the session for everybody, which takes the user of this machine or a client with the scope \
                 operator.admin; nothing was changed"
            }
            Self::NeedsApprover => {
                "answering for a person takes the user of this machine or a client with the scope operator.approvals; \
                 nothing was answered"
            }
        })
    }
}

/// Decides whether `authority` may give a directive.
#[must_use]
pub fn decide(directive: &Directive, authority: Authority) -> Verdict {
    let changes = match directive {
        Directive::Exec(change) => !change.is_empty(),
        Directive::Elevated(level) => level.is_some(),
        // What is said so far is put aside, and what others run is ended: as `sessions.reset`.
        Directive::New(_) => true,
        Directive::Status | Directive::Stop | Directive::Compact | Directive::Help => false,
        Directive::Approve { .. } => {
            return match authority {
                Authority::Owner | Authority::Approver => Verdict::Allowed,
                Authority::Writer => Verdict::Refused(Refusal::NeedsApprover),
            };
        }
    };
    match (changes, authority) {
        (false, _) | (true, Authority::Owner) => Verdict::Allowed,
        (true, Authority::Approver | Authority::Writer) => Verdict::Refused(Refusal::NeedsOwner),
    }
}

/// What `/help` answers.
pub const HELP: &str = "\
/new [message]: a new session; what was said is kept
/status: how the session stands
/stop: ends what runs
/compact: sums up what was said
/exec host= security= ask=: where commands run and who is asked
/elevated on|ask|full|off: lets commands leave the sandbox, where the config allows it
/approve ID allow-once|allow-always|deny: answers what waits";

/// Whole messages that stop what runs.
const STOP_WORDS: &[&str] =
    &["stop", "abort", "esc", "wait", "exit", "interrupt", "halt", "please stop", "stop please"];

/// Reads a message.
#[must_use]
pub fn read(message: &str) -> Input {
    let text = message.trim();
    let plain = text.trim_end_matches(['.', '!', ' ']).to_lowercase();
    if plain == "/stop" || plain == "/abort" || STOP_WORDS.contains(&plain.as_str()) {
        return Input::Directive(Directive::Stop);
    }
    let Some(rest) = text.strip_prefix('/') else { return Input::Message };
    let (name, rest) = rest.split_once(char::is_whitespace).unwrap_or((rest, ""));
    let rest = rest.trim();
    let directive = match name.to_lowercase().trim_end_matches(':') {
        "new" | "reset" => Directive::New((!rest.is_empty()).then(|| rest.to_owned())),
        "status" if rest.is_empty() => Directive::Status,
        "help" | "commands" if rest.is_empty() => Directive::Help,
        "compact" => Directive::Compact,
        "exec" => return exec(rest),
        "elevated" | "elev" => return elevated(rest),
        "approve" => return approve(rest),
        // Paths begin with a slash too.
        _ => return Input::Message,
    };
    Input::Directive(directive)
}

fn exec(rest: &str) -> Input {
    let mut change = ExecChange::default();
    for word in rest.split_whitespace() {
        let Some((key, value)) = word.split_once(['=', ':']) else {
            return Input::Bad(format!(
                "`{word}` is no setting of /exec; write host=…, security=… or ask=…"
            ));
        };
        let value = value.to_lowercase();
        let is_known = match key.to_lowercase().as_str() {
            "host" => set(&mut change.host, HostWish::parse(&value)),
            "security" => set(&mut change.security, Security::parse(&value)),
            "ask" => set(&mut change.ask, Ask::parse(&value)),
            _ => false,
        };
        if !is_known {
            return Input::Bad(format!(
                "`{word}` is no setting of /exec; host is sandbox or gateway, security is deny, allowlist or full, ask is \
                 off, on-miss or always"
            ));
        }
    }
    Input::Directive(Directive::Exec(change))
}

fn set<T>(place: &mut Option<T>, value: Option<T>) -> bool {
    let is_known = value.is_some();
    *place = value;
    is_known
}

fn elevated(rest: &str) -> Input {
    if rest.is_empty() {
        return Input::Directive(Directive::Elevated(None));
    }
    match Level::parse(rest) {
        Some(level) => Input::Directive(Directive::Elevated(Some(level))),
        None => {
            Input::Bad(format!("`{rest}` is no level of /elevated; write on, ask, full or off"))
        }
    }
}

fn approve(rest: &str) -> Input {
    let word = |text: &str| match text.to_lowercase().as_str() {
        "allow" | "once" | "allow-once" => Some(Answer::AllowOnce),
        "always" | "allow-always" => Some(Answer::AllowAlways),
        "deny" | "reject" | "block" => Some(Answer::Deny),
        _ => None,
    };
    let words: Vec<&str> = rest.split_whitespace().collect();
    let found = match words.as_slice() {
        [first, second] => match (word(first), word(second)) {
            (Some(answer), None) => Some(((*second).to_owned(), answer)),
            (None, Some(answer)) => Some(((*first).to_owned(), answer)),
            (Some(_), Some(_)) | (None, None) => None,
        },
        _ => None,
    };
    match found {
        Some((id, answer)) => Input::Directive(Directive::Approve { id, answer }),
        None => Input::Bad("write /approve <id> allow-once, allow-always or deny".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_whole_message_is_a_directive() {
        let exec = |host, security, ask| Directive::Exec(ExecChange { host, security, ask });
        for (text, expected) in [
            ("hello", Input::Message),
            ("please run /exec host=gateway", Input::Message),
            ("/etc/passwd has what?", Input::Message),
            ("Stop!", Input::Directive(Directive::Stop)),
            ("stop the server", Input::Message),
            ("/new", Input::Directive(Directive::New(None))),
            ("/new  hi there", Input::Directive(Directive::New(Some("hi there".into())))),
            ("/status", Input::Directive(Directive::Status)),
            ("/help", Input::Directive(Directive::Help)),
            ("/help me with this", Input::Message),
            ("/exec", Input::Directive(exec(None, None, None))),
            (
                "/exec ask:always security=deny",
                Input::Directive(exec(
                    None,
                    Some(Security::Deny),
                    Some(crate::exec_host::Ask::Always),
                )),
            ),
            ("/elev auto", Input::Directive(Directive::Elevated(Some(Level::Full)))),
            ("/elevated", Input::Directive(Directive::Elevated(None))),
            (
                "/approve deny ab12",
                Input::Directive(Directive::Approve { id: "ab12".into(), answer: Answer::Deny }),
            ),
            (
                "/approve ab12 once",
                Input::Directive(Directive::Approve {
                    id: "ab12".into(),
                    answer: Answer::AllowOnce,
                }),
            ),
        ] {
            assert_eq!(read(text), expected, "{text}");
        }
        for text in [
            "/exec security=none",
            "/exec full",
            "/elevated max",
            "/approve",
            "/approve a b",
            "/approve deny deny",
        ] {
            assert!(matches!(read(text), Input::Bad(_)), "{text}");
        }
    }

    #[test]
    fn only_an_owner_changes_limits_and_only_an_approver_answers() {
        let change =
            Directive::Exec(ExecChange { security: Some(Security::Full), ..ExecChange::default() });
        let approve = Directive::Approve { id: "a".into(), answer: Answer::AllowOnce };
        let elevated = Directive::Elevated(Some(Level::Full));
        let owner = Verdict::Refused(Refusal::NeedsOwner);
        for (directive, approver, writer) in [
            (&change, owner.clone(), owner.clone()),
            (&elevated, owner.clone(), owner.clone()),
            (&approve, Verdict::Allowed, Verdict::Refused(Refusal::NeedsApprover)),
            (&Directive::Status, Verdict::Allowed, Verdict::Allowed),
            (&Directive::Exec(ExecChange::default()), Verdict::Allowed, Verdict::Allowed),
        ] {
            assert_eq!(decide(directive, Authority::Owner), Verdict::Allowed);
            assert_eq!(decide(directive, Authority::Approver), approver);
            assert_eq!(decide(directive, Authority::Writer), writer);
        }
    }
}
