//! Decides whether a call leaves the sandbox, once the gates have spoken.
//!
//! Takes the verdict of the gates ([`super::decide`]), the level in force and what the call itself
//! says; returns an [`Elevation`] or why not. The level comes from the message, else the session,
//! else `agents.defaults.elevatedDefault`, else it is `off`: being on a list lets nobody out by
//! itself. A call can ask for less than the level, and for elevated only where the level allows it.

use std::fmt;

use super::{ElevatedVerdict, GateFailure};
use crate::config::Config;
use crate::config::setting::{Layer, Origin};

/// How far a session may go.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Level {
    Off,
    /// On the host, with the approvals of the host. `on` is another word for it.
    Ask,
    /// The same, and nothing more is asked where config and approvals file are open by themselves.
    Full,
}

/// Who set the level.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LevelSource {
    Message,
    Session,
    Config(Origin),
    BuiltIn,
}

/// The level in force.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChosenLevel {
    pub level: Level,
    pub source: LevelSource,
}

/// What the call's own `elevated` parameter says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CallWish {
    Unsaid,
    Elevated,
    NotElevated,
}

/// What is in force for one call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Elevation {
    Off,
    Ask { by: LevelSource },
    Full { by: LevelSource },
}

/// Why a call that asked for elevated does not get it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ElevationRefused {
    #[error("elevated is not available here; shut: {}", gates(.0))]
    Gates(Vec<GateFailure>),
    #[error(
        "elevated is off ({0}); a person switches it on with `/elevated ask`, or the config with \
         `agents.defaults.elevatedDefault`"
    )]
    LevelIsOff(LevelSource),
}

impl Level {
    /// A level by any of its names.
    pub fn parse(text: &str) -> Option<Self> {
        match text.trim().to_ascii_lowercase().as_str() {
            "off" | "false" | "no" | "0" => Some(Self::Off),
            "on" | "true" | "yes" | "1" | "ask" | "prompt" | "approval" | "approve" => {
                Some(Self::Ask)
            }
            "full" | "auto" | "auto-approve" | "autoapprove" => Some(Self::Full),
            _ => None,
        }
    }

    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Off => "off",
            Self::Ask => "ask",
            Self::Full => "full",
        }
    }
}

impl ChosenLevel {
    /// The level in force: message, else session, else config, else off. What the config writes and
    /// nobody can read is off.
    pub fn resolve(config: &Config, session: Option<Level>, message: Option<Level>) -> Self {
        if let Some(level) = message {
            return Self { level, source: LevelSource::Message };
        }
        if let Some(level) = session {
            return Self { level, source: LevelSource::Session };
        }
        match config.at(&["agents", "defaults", "elevatedDefault"]) {
            Some(at) => Self {
                level: at.node.as_str().and_then(Level::parse).unwrap_or(Level::Off),
                source: LevelSource::Config(Origin::written(Layer::Defaults, &at)),
            },
            None => Self { level: Level::Off, source: LevelSource::BuiltIn },
        }
    }
}

/// Decides what is in force for one call.
pub fn decide(
    gates: &ElevatedVerdict,
    chosen: &ChosenLevel,
    wish: CallWish,
) -> Result<Elevation, ElevationRefused> {
    let by = chosen.source.clone();
    match (wish, gates, chosen.level) {
        (CallWish::NotElevated, _, _)
        | (CallWish::Unsaid, ElevatedVerdict::Refused(_), _)
        | (CallWish::Unsaid, ElevatedVerdict::Allowed(_), Level::Off) => Ok(Elevation::Off),
        (CallWish::Elevated, ElevatedVerdict::Refused(failures), _) => {
            Err(ElevationRefused::Gates(failures.clone()))
        }
        (CallWish::Elevated, ElevatedVerdict::Allowed(_), Level::Off) => {
            Err(ElevationRefused::LevelIsOff(by))
        }
        (CallWish::Unsaid | CallWish::Elevated, ElevatedVerdict::Allowed(_), Level::Ask) => {
            Ok(Elevation::Ask { by })
        }
        (CallWish::Unsaid | CallWish::Elevated, ElevatedVerdict::Allowed(_), Level::Full) => {
            Ok(Elevation::Full { by })
        }
    }
}

fn gates(failures: &[GateFailure]) -> String {
    let shown = failures.iter().map(|failure| format!("{} (`{}`)", failure.gate(), failure.key()));
    shown.collect::<Vec<_>>().join(", ")
}

impl fmt::Display for LevelSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Message => f.write_str("set by the message"),
            Self::Session => f.write_str("set in the session"),
            Self::Config(origin) => write!(f, "set by `{}`", origin.key),
            Self::BuiltIn => f.write_str("as built in"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::json5;
    use crate::config::tree::FileId;
    use crate::elevated::{self, GateScope, Sender};
    use crate::ids::AgentId;

    const OPEN: &str = "{tools: {elevated: {allowFrom: {telegram: ['42']}}}}";

    fn config(text: &str) -> Config {
        Config::from_tree(json5::parse(text, FileId(0)).unwrap().root, Vec::new())
    }

    fn gates_of(text: &str, id: &str) -> ElevatedVerdict {
        let sender = Sender { id: Some(id.to_owned()), ..Sender::default() };
        elevated::decide(&config(text), &AgentId::main(), "telegram", &sender)
    }

    #[track_caller]
    fn check(text: &str, session: Option<Level>, wish: CallWish, expected: &str) {
        let chosen = ChosenLevel::resolve(&config(text), session, None);
        let found = match decide(&gates_of(text, "42"), &chosen, wish) {
            Ok(Elevation::Off) => "off".to_owned(),
            Ok(Elevation::Ask { .. }) => "ask".to_owned(),
            Ok(Elevation::Full { .. }) => "full".to_owned(),
            Err(refused) => format!("refused: {refused}"),
        };
        assert!(found.starts_with(expected), "{text} {session:?} {wish:?}: {found}");
    }

    #[test]
    fn b27_being_on_the_list_does_not_lead_out_by_itself() {
        check(OPEN, None, CallWish::Unsaid, "off");
        check(OPEN, None, CallWish::Elevated, "refused: elevated is off (as built in)");
        check(OPEN, Some(Level::Off), CallWish::Elevated, "refused: elevated is off (set in");
    }

    #[test]
    fn b27_a_level_counts_only_for_those_on_the_list() {
        check("{}", Some(Level::Full), CallWish::Unsaid, "off");
        check("{}", Some(Level::Full), CallWish::Elevated, "refused: elevated is not available");
        let failures = vec![GateFailure::AllowFrom(GateScope::Global, "telegram".to_owned())];
        assert_eq!(gates_of(OPEN, "43"), ElevatedVerdict::Refused(failures));
    }

    #[test]
    fn b27_a_name_that_anyone_can_take_matches_no_plain_entry() {
        let config = config("{tools: {elevated: {allowFrom: {telegram: ['ada']}}}}");
        let sender = Sender {
            id: Some("7".to_owned()),
            name: Some("ada".to_owned()),
            username: Some("ada".to_owned()),
            ..Sender::default()
        };
        let verdict = elevated::decide(&config, &AgentId::main(), "telegram", &sender);
        assert!(matches!(verdict, ElevatedVerdict::Refused(_)));
    }

    #[test]
    fn the_call_gets_the_level_in_force_or_less() {
        check(OPEN, Some(Level::Ask), CallWish::Unsaid, "ask");
        check(OPEN, Some(Level::Ask), CallWish::Elevated, "ask");
        check(OPEN, Some(Level::Full), CallWish::Elevated, "full");
        check(OPEN, Some(Level::Full), CallWish::NotElevated, "off");
        let with_default = "{agents: {defaults: {elevatedDefault: 'full'}}, \
                            tools: {elevated: {allowFrom: {telegram: ['42']}}}}";
        check(with_default, None, CallWish::Unsaid, "full");
        check(with_default, Some(Level::Off), CallWish::Unsaid, "off");
        let odd = with_default.replace("'full'", "'loud'");
        check(&odd, None, CallWish::Unsaid, "off");
    }

    #[test]
    fn levels_have_synonyms() {
        for (text, expected) in [
            ("on", Some(Level::Ask)),
            (" Approve ", Some(Level::Ask)),
            ("autoapprove", Some(Level::Full)),
            ("0", Some(Level::Off)),
            ("maybe", None),
        ] {
            assert_eq!(Level::parse(text), expected, "{text}");
        }
    }
}
