//! Whether a door that lives long makes a sandbox ahead for a session.
//!
//! Takes the settings in force, the backend and what the door has done so far; gives a verdict with its reason. A pen
//! that waits costs memory and is lost if nobody comes, so nothing is made for a door that is only looked at, and
//! nothing where somebody wrote that sandboxes are to be made late.

use crate::backend::Backend;
use crate::config::own::{OwnSettings, Start};
use crate::config::setting::{Layer, Origin};

/// What a door has done so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DoorUse {
    /// Nobody has called into a sandbox.
    None,
    Called,
}

/// What to do when a session begins, and after its sandbox was given out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ahead {
    /// Make its sandbox itself.
    Open,
    /// Keep one like it ready.
    Stock,
    Nothing(NothingReason),
}

/// Why nothing is made.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NothingReason {
    #[error("`{}` switches it off", .0.key)]
    SwitchedOff(Origin),
    #[error("`{}` says that a sandbox is made with the first call", .0.key)]
    Lazy(Origin),
    #[error("only native pens are made ahead, and this is {}", .0.as_str())]
    Backend(Backend),
    #[error("nobody has used a sandbox at this door yet")]
    Unused,
}

/// Decides what is made ahead.
#[must_use]
pub fn decide(own: &OwnSettings, backend: Backend, used: DoorUse) -> Ahead {
    let start = &own.start;
    match start.value {
        Start::Eager => return Ahead::Open,
        // The built-in value says when a sandbox is made, not that nobody may prepare for it.
        Start::Lazy if start.origin.layer != Layer::BuiltIn => {
            return Ahead::Nothing(NothingReason::Lazy(start.origin.clone()));
        }
        Start::Lazy => {}
    }
    if !own.ahead.value {
        return Ahead::Nothing(NothingReason::SwitchedOff(own.ahead.origin.clone()));
    }
    match (backend, used) {
        (Backend::Native, DoorUse::Called) => Ahead::Stock,
        (Backend::Native, DoorUse::None) => Ahead::Nothing(NothingReason::Unused),
        (Backend::Docker | Backend::Ssh | Backend::OpenShell | Backend::Kubernetes, _) => {
            Ahead::Nothing(NothingReason::Backend(backend))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::own::OwnConfig;
    use crate::config::setting::Setting;
    use crate::ids::AgentId;

    fn written(key: &str) -> Origin {
        Origin { layer: Layer::Defaults, ..Origin::built_in(key) }
    }

    #[track_caller]
    fn check(change: impl FnOnce(&mut OwnSettings), backend: Backend, used: DoorUse, is: &str) {
        let mut own = OwnConfig::default().resolve(&AgentId::main());
        change(&mut own);
        let shown = match decide(&own, backend, used) {
            Ahead::Open => "open".to_owned(),
            Ahead::Stock => "stock".to_owned(),
            Ahead::Nothing(why) => why.to_string(),
        };
        assert_eq!(shown, is);
    }

    #[test]
    fn a_native_pen_is_made_ahead_after_the_first_use_unless_somebody_says_no() {
        use Backend::{Docker, Native};
        use DoorUse::{Called, None};
        let start =
            |value| move |own: &mut OwnSettings| own.start = Setting::new(value, written("start"));
        let off = |own: &mut OwnSettings| own.ahead = Setting::new(false, written("ahead"));
        let late = "`start` says that a sandbox is made with the first call";
        check(|_| {}, Native, Called, "stock");
        check(|_| {}, Native, None, "nobody has used a sandbox at this door yet");
        check(|_| {}, Docker, Called, "only native pens are made ahead, and this is docker");
        check(off, Native, Called, "`ahead` switches it off");
        check(start(Start::Lazy), Native, Called, late);
        check(start(Start::Lazy), Docker, Called, late);
        check(start(Start::Eager), Native, None, "open");
        check(start(Start::Eager), Docker, None, "open");
    }
}
