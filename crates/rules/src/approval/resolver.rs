//! Decides who may answer for a person.
//!
//! Takes who speaks, as the door found out, where that speaker stands, and whose question it is;
//! returns a [`MayAnswer`] with its reason. Every door asks here, so there is no second list of who
//! counts as a person.
//!
//! A client that passes a person's word on is a program like any other, and mostly the one that asks: how far that word
//! goes is the user's to say ([`Elicitation`]), nothing it says is remembered, and it speaks of its own question only.
//!
//! What a caller says about itself opens nothing: a name is a label, and what counts is what the
//! kernel, a token or a connection proved. An agent never answers, whatever door it comes through.

use std::fmt;

use super::answer::Word;
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
    McpClient { client: String, word: McpWord, goes: Elicitation },
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

/// How far a word goes that a client passes on (`approvals.elicitation`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Elicitation {
    /// Nowhere.
    Off,
    /// It counts for commands that stay in the sandbox.
    Sandbox,
    /// It counts for commands on the host too.
    Host,
}

impl Elicitation {
    pub const ALL: [Self; 3] = [Self::Off, Self::Sandbox, Self::Host];

    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Off => "off",
            Self::Sandbox => "sandbox",
            Self::Host => "host",
        }
    }

    /// Exact spelling only.
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|known| known.as_str() == text)
    }

    /// Says whether it reaches a command that runs there.
    pub const fn covers(self, place: RunPlace) -> bool {
        match (self, place) {
            (Self::Off, _) | (Self::Sandbox, RunPlace::Host) => false,
            (Self::Sandbox, RunPlace::Sandbox) | (Self::Host, _) => true,
        }
    }
}

/// Where the command would run that is asked about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RunPlace {
    Sandbox,
    Host,
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
    pub place: RunPlace,
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
    #[error("the client asked this itself; another one must answer, or one with operator.admin")]
    OwnQuestion,
    #[error("another client asked this; only the one that asked can pass its person's word on")]
    OtherClient,
    #[error(
        "what a client passes on does not count here (`approvals.elicitation` in clawpen.json); answer with \
         `clawpen approvals watch`"
    )]
    Elicitation,
    #[error(
        "nothing that a client passes on is remembered; say allow-once, or use `clawpen approvals resolve`"
    )]
    NothingRemembered,
}

/// Decides whether a speaker's word counts as a person's.
#[must_use]
pub fn decide(resolver: &Resolver, asked: Asked<'_>, said: Word) -> MayAnswer {
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
        Speaker::McpClient { client, word: McpWord::Elicited, goes } => {
            passed_on(client, *goes, asked, said)
        }
        Speaker::GatewayClient { scope: GatewayScope::Other, .. } => Some(WhyNot::Scope),
        Speaker::GatewayClient { client, scope: GatewayScope::Approvals } => {
            (asked.client == Some(client)).then_some(WhyNot::OwnQuestion)
        }
        // He could as well write that nobody is to be asked.
        Speaker::GatewayClient { scope: GatewayScope::Admin, .. } => None,
    };
    refused.map_or_else(|| MayAnswer::Yes(By(speaker.to_string())), MayAnswer::No)
}

/// A no counts from whoever was asked: it opens nothing.
fn passed_on(client: &str, goes: Elicitation, asked: Asked<'_>, said: Word) -> Option<WhyNot> {
    if asked.client != Some(client) {
        return Some(WhyNot::OtherClient);
    }
    match said {
        Word::Deny => None,
        Word::AllowAlways => Some(WhyNot::NothingRemembered),
        Word::AllowOnce => (!goes.covers(asked.place)).then_some(WhyNot::Elicitation),
    }
}

/// The owner and the machine's administrator, who can do anything anyway.
fn other_user(uid: u32, owner: u32) -> Option<WhyNot> {
    (uid != owner && uid != 0).then_some(WhyNot::OtherUser { owner, uid })
}

/// Names come from outside: what cannot be seen in them is spelled out, and they are not long.
fn label(name: &str) -> String {
    // A backtick would end the name where the client wants it to.
    let shown = escape(name).replace('`', "'");
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
        Speaker::McpClient { client: "chat".to_owned(), word, goes: Elicitation::Host }
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
        let asked = Asked { owner: OWNER, client: Some("chat"), place: RunPlace::Host };
        let found = decide(&resolver, asked, Word::AllowOnce);
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
        check(person, Place::Connection, Ok("the person at `chat` (MCP)"));
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
    fn b23_a_gateway_client_does_not_answer_what_it_asked_itself_unless_it_may_change_everything() {
        let own = Asked { owner: OWNER, client: Some("studio"), place: RunPlace::Host };
        let decided = |scope| {
            let resolver = Resolver { speaker: gateway(scope), place: Place::Connection };
            decide(&resolver, own, Word::AllowOnce)
        };
        assert_eq!(decided(GatewayScope::Approvals), MayAnswer::No(WhyNot::OwnQuestion));
        assert_eq!(
            decided(GatewayScope::Admin),
            MayAnswer::Yes(By("`studio` (gateway)".to_owned()))
        );
    }

    #[test]
    fn b23_what_a_client_passes_on_goes_as_far_as_the_user_says_and_is_never_remembered() {
        use Elicitation::{Host, Off, Sandbox};
        let check = |goes, (client, place), said, expected: Option<WhyNot>| {
            let speaker =
                Speaker::McpClient { client: "chat".to_owned(), word: McpWord::Elicited, goes };
            let resolver = Resolver { speaker, place: Place::Connection };
            let found = match decide(&resolver, Asked { owner: OWNER, client, place }, said) {
                MayAnswer::Yes(_) => None,
                MayAnswer::No(why) => Some(why),
            };
            assert_eq!(found, expected, "{goes:?} {client:?} {place:?} {said:?}");
        };
        let (inside, outside) = ((Some("chat"), RunPlace::Sandbox), (Some("chat"), RunPlace::Host));
        for goes in Elicitation::ALL {
            check(goes, outside, Word::Deny, None);
            check(goes, inside, Word::AllowAlways, Some(WhyNot::NothingRemembered));
            for client in [None, Some("other")] {
                let other = (client, RunPlace::Sandbox);
                check(goes, other, Word::AllowOnce, Some(WhyNot::OtherClient));
            }
        }
        check(Off, inside, Word::AllowOnce, Some(WhyNot::Elicitation));
        check(Sandbox, inside, Word::AllowOnce, None);
        check(Sandbox, outside, Word::AllowOnce, Some(WhyNot::Elicitation));
        check(Host, inside, Word::AllowOnce, None);
        check(Host, outside, Word::AllowOnce, None);
    }

    #[test]
    fn b24_a_name_from_outside_hides_nothing_and_is_not_long() {
        let client = format!("a\u{202e}{}", "x".repeat(500));
        let goes = Elicitation::Host;
        let speaker = Speaker::McpClient { client, word: McpWord::Elicited, goes };
        let shown = speaker.to_string();
        assert!(shown.starts_with("the person at `a\\u{202E}xx") && shown.len() < 120, "{shown}");
    }
}
