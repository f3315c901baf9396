//! What becomes of a private workspace when its sandbox is removed.
//!
//! `clawpen.json`, `workspaces`: `removed` is `keep` (it stays for good), `trash` (it is moved aside at
//! once) or `age` (it stays until nobody used it for `afterDays`, and is then moved aside). What lies in
//! the trash is deleted by `clawpen sandbox trash empty`, or after `trashDays` if that is not zero.
//!
//! Without settings: `age`, 30 days, and nothing is ever deleted by itself. A sandbox that is pruned
//! and comes back next week finds its files; one that never comes back is out of the way.

use std::time::Duration;

use crate::config::setting::{Origin, Setting};
use crate::timestamp::Timestamp;

const DAY_SECONDS: u64 = 86_400;

/// `workspaces.removed`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Removed {
    Keep,
    Trash,
    Age,
}

impl Removed {
    pub const ALL: [Self; 3] = [Self::Keep, Self::Trash, Self::Age];

    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Keep => "keep",
            Self::Trash => "trash",
            Self::Age => "age",
        }
    }

    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|known| known.as_str() == text)
    }
}

/// `workspaces` of one agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RemovalPolicy {
    pub removed: Setting<Removed>,
    pub after_days: Setting<u64>,
    /// Zero: the trash is only emptied by hand.
    pub trash_days: Setting<u64>,
}

impl RemovalPolicy {
    pub const AFTER_DAYS: u64 = 30;
    pub const TRASH_DAYS: u64 = 0;

    /// Without any setting.
    pub fn built_in() -> Self {
        let origin = |key: &str| Origin::built_in(format!("defaults.workspaces.{key}"));
        Self {
            removed: Setting::new(Removed::Age, origin("removed")),
            after_days: Setting::new(Self::AFTER_DAYS, origin("afterDays")),
            trash_days: Setting::new(Self::TRASH_DAYS, origin("trashDays")),
        }
    }
}

/// What becomes of a workspace without a sandbox.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fate {
    Keep(KeepReason),
    Trash(TrashReason),
}

/// Why it stays.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum KeepReason {
    #[error("`{}` keeps workspaces", .0.key)]
    Policy(Origin),
    #[error("it was in use within `{}` = {} days", .origin.key, .days)]
    Young { days: u64, origin: Origin },
    #[error("it is the agent's own workspace")]
    AgentsOwn,
    #[error("there is none")]
    Missing,
}

/// Why it is moved aside.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TrashReason {
    #[error("its sandbox was removed (`{}` is `trash`)", .0.key)]
    Removed(Origin),
    #[error("nobody used it for more than `{}` = {} days", .origin.key, .days)]
    Aged { days: u64, origin: Origin },
}

/// Decides about a workspace whose sandbox was removed at `released`.
#[must_use]
pub fn decide(policy: &RemovalPolicy, released: Timestamp, now: Timestamp) -> Fate {
    let origin = policy.removed.origin.clone();
    match policy.removed.value {
        Removed::Keep => Fate::Keep(KeepReason::Policy(origin)),
        Removed::Trash => Fate::Trash(TrashReason::Removed(origin)),
        Removed::Age => {
            let days = policy.after_days.value;
            let origin = policy.after_days.origin.clone();
            if now.since(released) > length(days) {
                Fate::Trash(TrashReason::Aged { days, origin })
            } else {
                Fate::Keep(KeepReason::Young { days, origin })
            }
        }
    }
}

/// Says whether what was moved aside at `since` is deleted by itself.
#[must_use]
pub fn decide_expiry(trash_days: u64, since: Timestamp, now: Timestamp) -> Expiry {
    if trash_days == 0 {
        Expiry::Never
    } else if now.since(since) > length(trash_days) {
        Expiry::Due
    } else {
        Expiry::NotYet
    }
}

/// Whether something in the trash is deleted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Expiry {
    /// Only by hand.
    Never,
    NotYet,
    Due,
}

fn length(days: u64) -> Duration {
    Duration::from_secs(days.saturating_mul(DAY_SECONDS))
}

#[cfg(test)]
mod tests {
    use super::*;

    const DAY: u64 = 86_400_000;

    fn policy(removed: Removed, after_days: u64) -> RemovalPolicy {
        let mut policy = RemovalPolicy::built_in();
        policy.removed.value = removed;
        policy.after_days.value = after_days;
        policy
    }

    #[track_caller]
    fn check(policy: &RemovalPolicy, idle: u64, expected: &str) {
        let now = Timestamp::from_millis(1_000 * DAY);
        let fate = decide(policy, Timestamp::from_millis(1_000 * DAY - idle), now);
        let shown = match fate {
            Fate::Keep(why) => format!("keep: {why}"),
            Fate::Trash(why) => format!("trash: {why}"),
        };
        assert_eq!(shown, expected);
    }

    #[test]
    fn a_workspace_stays_goes_or_ages_by_policy() {
        let keep = policy(Removed::Keep, 1);
        check(&keep, 900 * DAY, "keep: `defaults.workspaces.removed` keeps workspaces");
        let trash = policy(Removed::Trash, 1);
        check(
            &trash,
            0,
            "trash: its sandbox was removed (`defaults.workspaces.removed` is `trash`)",
        );
        let age = RemovalPolicy::built_in();
        let young = "keep: it was in use within `defaults.workspaces.afterDays` = 30 days";
        check(&age, 30 * DAY, young);
        let old = "trash: nobody used it for more than `defaults.workspaces.afterDays` = 30 days";
        check(&age, 30 * DAY + 1, old);
        check(
            &policy(Removed::Age, u64::MAX),
            999 * DAY,
            &young.replace("30", &u64::MAX.to_string()),
        );
    }

    #[test]
    fn the_trash_is_emptied_by_itself_only_when_asked() {
        let at = |days: u64| Timestamp::from_millis(days * DAY);
        assert_eq!(decide_expiry(0, at(1), at(900)), Expiry::Never);
        assert_eq!(decide_expiry(7, at(1), at(8)), Expiry::NotYet);
        assert_eq!(decide_expiry(7, at(1), at(9)), Expiry::Due);
        assert_eq!(decide_expiry(7, at(9), at(1)), Expiry::NotYet, "a clock that was set back");
    }
}
