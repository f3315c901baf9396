//! Decides who may answer for a person.
//!
//! Takes who speaks, as the door found out, where that speaker stands, and whose question it is;
//! returns a [`MayAnswer`] with its reason. Every door asks here, so there is no second list of who
//! counts as a person.
//!
//! What a caller says about itself opens nothing: a name is a label, and what counts is what the
//! kernel, a token or a connection proved. An agent never answers, whatever door it comes through.

use std::fmt;

use crate::command::escape;

/// Whoever answers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Resolver {
    pub speaker: Speaker,
    pub place: Place,
}

/// Through which door, and what that door knows of them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Speaker {
    /// A user of this machine, at `clawpen approvals`.
    CliUser { uid: u32 },
    /// The program that a person uses an agent with.
    McpClient { client: String, word: McpWord },
    /// A client of the gateway, with the scope that its connection was given.
    GatewayClient { client: String, scope: GatewayScope },
    /// A process at the unix socket; the user is the kernel's word.
    SocketClient { uid: u32, proof: Proof },
    /// A tool call, or anything else that a model has a hand in.
    Agent { session: String },
}

/// How an answer came over MCP.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum McpWord {
    /// The client put our question to its person (elicitation).
    Elicited,
    /// The client called a tool: that is the model speaking.
    Called,
}

/// What a gateway client may do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GatewayScope {
    /// `operator.approvals`
    Approvals,
    /// `operator.admin`
    Admin,
    Other,
}

/// Whether a socket client knows the token of the approvals file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Proof {
    Token,
    None,
}

/// Where the speaker's process stands, as the kernel tells.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// On this machine, under nobody who asks.
    Host,
    /// In other namespaces than whoever asked, and not in the machine's own.
    Sandbox,
    /// Below a process that asks for approvals, or whose agent does.
    UnderAsker { pid: u32 },
    /// On a connection that the door has authenticated; there is no process to look at.
    Connection,
    /// It could not be found out.
    Unknown,
}

/// Whose question it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Asked<'a> {
    /// The user whose state directory this is.
    pub owner: u32,
    /// The client that asked, if it came through a door that has clients.
    pub client: Option<&'a str>,
}

/// The verdict on a speaker.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MayAnswer {
    /// As whom the answer is recorded.
    Yes(By),
    No(WhyNot),
}

/// Whose answer it is. Made by [`decide`] only.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct By(String);

impl By {
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// Why a speaker may not answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum WhyNot {
    #[error(
        "an agent may not answer for a person; a person answers with `clawpen approvals watch`"
    )]
    Agent,
    #[error("whoever answers stands in a sandbox; answer from outside with `clawpen approvals`")]
    Sandbox,
    #[error(
        "whoever answers was started by the process {pid}, which asks or runs for an agent; answer \
         from a terminal of your own"
    )]
    UnderAsker { pid: u32 },
    #[error("it could not be found out where whoever answers stands")]
    PlaceUnknown,
    #[error("the state belongs to the user {owner}, and the user {uid} answers")]
    OtherUser { owner: u32, uid: u32 },
    #[error("the token of the approvals file was not shown")]
    NoToken,
    #[error("the client has neither the scope operator.approvals nor operator.admin")]
    Scope,
    #[error("the client asked this itself; another one must answer")]
    OwnQuestion,
}

/// Decides whether a speaker's word counts as a person's.
#[must_use]
pub fn decide(resolver: &Resolver, asked: Asked<'_>) -> MayAnswer {
    let Resolver { speaker, place } = resolver;
    if let Speaker::Agent { .. } = speaker {
        return MayAnswer::No(WhyNot::Agent);
    }
    match place {
        Place::Host | Place::Connection => {}
        Place::Sandbox => return MayAnswer::No(WhyNot::Sandbox),
        Place::UnderAsker { pid } => return MayAnswer::No(WhyNot::UnderAsker { pid: *pid }),
        Place::Unknown => return MayAnswer::No(WhyNot::PlaceUnknown),
    }
    let refused = match speaker {
        Speaker::Agent { .. } | Speaker::McpClient { word: McpWord::Called, .. } => {
            Some(WhyNot::Agent)
        }
        Speaker::SocketClient { proof: Proof::None, .. } => Some(WhyNot::NoToken),
        Speaker::CliUser { uid } | Speaker::SocketClient { uid, proof: Proof::Token } => {
            other_user(*uid, asked.owner)
        }
        Speaker::McpClient { word: McpWord::Elicited, .. } => None,
        Speaker::GatewayClient { scope: GatewayScope::Other, .. } => Some(WhyNot::Scope),
        Speaker::GatewayClient { client, scope: GatewayScope::Approvals | GatewayScope::Admin } => {
            (asked.client == Some(client)).then_some(WhyNot::OwnQuestion)
        }
    };
    refused.map_or_else(|| MayAnswer::Yes(By(speaker.to_string())), MayAnswer::No)
}

/// The owner and the machine's administrator, who can do anything anyway.
fn other_user(uid: u32, owner: u32) -> Option<WhyNot> {
    (uid != owner && uid != 0).then_some(WhyNot::OtherUser { owner, uid })
}

/// Names come from outside: what cannot be seen in them is spelled out, and they are not long.
fn label(name: &str) -> String {
    let shown = escape(name);
    shown.chars().take(80).collect()
}

impl fmt::Display for Speaker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::CliUser { uid } => write!(f, "user {uid} at the command line"),
            Self::McpClient { client, .. } => write!(f, "the person at `{}` (MCP)", label(client)),
            Self::GatewayClient { client, .. } => write!(f, "`{}` (gateway)", label(client)),
            Self::SocketClient { uid, .. } => write!(f, "user {uid} at the socket"),
            Self::Agent { session } => write!(f, "the agent of `{}`", label(session)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OWNER: u32 = 1000;

    fn cli(uid: u32) -> Speaker {
        Speaker::CliUser { uid }
    }

    fn mcp(word: McpWord) -> Speaker {
        Speaker::McpClient { client: "editor".to_owned(), word }
    }

    fn gateway(scope: GatewayScope) -> Speaker {
        Speaker::GatewayClient { client: "studio".to_owned(), scope }
    }

    fn socket(uid: u32, proof: Proof) -> Speaker {
        Speaker::SocketClient { uid, proof }
    }

    #[track_caller]
    fn check(speaker: Speaker, place: Place, expected: Result<&str, WhyNot>) {
        let resolver = Resolver { speaker, place };
        let found = decide(&resolver, Asked { owner: OWNER, client: Some("chat") });
        let expected = match expected {
            Ok(by) => MayAnswer::Yes(By(by.to_owned())),
            Err(why) => MayAnswer::No(why),
        };
        assert_eq!(found, expected, "{resolver:?}");
    }

    #[test]
    fn b23_a_persons_doors_are_open_to_the_owner_alone() {
        check(cli(OWNER), Place::Host, Ok("user 1000 at the command line"));
        check(cli(0), Place::Host, Ok("user 0 at the command line"));
        check(cli(7), Place::Host, Err(WhyNot::OtherUser { owner: OWNER, uid: 7 }));
        check(socket(OWNER, Proof::Token), Place::Host, Ok("user 1000 at the socket"));
        check(socket(OWNER, Proof::None), Place::Host, Err(WhyNot::NoToken));
        let other = WhyNot::OtherUser { owner: OWNER, uid: 7 };
        check(socket(7, Proof::Token), Place::Host, Err(other));
        let person = mcp(McpWord::Elicited);
        check(person, Place::Connection, Ok("the person at `editor` (MCP)"));
        for scope in [GatewayScope::Approvals, GatewayScope::Admin] {
            check(gateway(scope), Place::Connection, Ok("`studio` (gateway)"));
        }
        check(gateway(GatewayScope::Other), Place::Connection, Err(WhyNot::Scope));
    }

    #[test]
    fn b23_an_agent_never_answers_whatever_door_it_comes_through() {
        let agent = || Speaker::Agent { session: "agent:main:main".to_owned() };
        for place in [Place::Host, Place::Sandbox, Place::Connection, Place::Unknown] {
            check(agent(), place, Err(WhyNot::Agent));
        }
        check(mcp(McpWord::Called), Place::Connection, Err(WhyNot::Agent));
    }

    #[test]
    fn b23_whoever_stands_in_a_sandbox_or_below_an_asker_is_no_person() {
        let speakers = || [cli(OWNER), cli(0), socket(OWNER, Proof::Token), mcp(McpWord::Elicited)];
        for speaker in speakers() {
            check(speaker.clone(), Place::Sandbox, Err(WhyNot::Sandbox));
            check(speaker.clone(), Place::Unknown, Err(WhyNot::PlaceUnknown));
            let under = Place::UnderAsker { pid: 9 };
            check(speaker, under, Err(WhyNot::UnderAsker { pid: 9 }));
        }
    }

    #[test]
    fn b23_a_gateway_client_does_not_answer_what_it_asked_itself() {
        let speaker = gateway(GatewayScope::Admin);
        let resolver = Resolver { speaker, place: Place::Connection };
        let own = Asked { owner: OWNER, client: Some("studio") };
        assert_eq!(decide(&resolver, own), MayAnswer::No(WhyNot::OwnQuestion));
    }

    #[test]
    fn b24_a_name_from_outside_hides_nothing_and_is_not_long() {
        let client = format!("a\u{202e}{}", "x".repeat(500));
        let speaker = Speaker::McpClient { client, word: McpWord::Elicited };
        let shown = speaker.to_string();
        assert!(shown.starts_with("the person at `a\\u{202E}xx") && shown.len() < 120, "{shown}");
    }
}
