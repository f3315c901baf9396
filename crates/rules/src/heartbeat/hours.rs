//! The hours of a day in which heartbeats run.

use crate::config::tree::Node;
use crate::cron::Zone;

/// Minutes of a day.
const DAY: u16 = 24 * 60;

/// When an agent may be asked.
#[derive(Debug, Clone, PartialEq)]
pub enum Hours {
    Always,
    /// From one minute of the day to before another; over midnight if the end comes first. Never if they are the same.
    Between {
        start: u16,
        end: u16,
        zone: HoursZone,
    },
    /// They are written and cannot be read: nobody is woken at a time that nobody chose.
    Unreadable,
}

/// Whose clock counts.
#[derive(Debug, Clone, PartialEq)]
pub enum HoursZone {
    Named(Zone),
    /// That of this machine.
    Local,
}

impl Hours {
    pub(super) fn of(written: Option<&Node>, user_zone: Option<&str>) -> Self {
        let Some(written) = written else { return Self::Always };
        let text = |key: &str| written.get(key).and_then(Node::as_str).map(str::trim);
        let user = || user_zone.and_then(Zone::named).map_or(HoursZone::Local, HoursZone::Named);
        let zone = match text("timezone") {
            None | Some("" | "user") => Some(user()),
            Some("local") => Some(HoursZone::Local),
            Some(name) => Zone::named(name).map(HoursZone::Named),
        };
        // One end alone leaves the other open.
        let start = minute(text("start").unwrap_or("00:00"));
        let end = minute(text("end").unwrap_or("24:00"));
        match (start, end, zone) {
            (Some(start), Some(end), Some(zone)) if start < DAY => {
                Self::Between { start, end, zone }
            }
            (_, _, _) => Self::Unreadable,
        }
    }

    /// The zone in which [`Hours::is_open`] wants the minute of the day; `None` if it does not matter.
    pub const fn zone(&self) -> Option<&HoursZone> {
        match self {
            Self::Between { zone, .. } => Some(zone),
            Self::Always | Self::Unreadable => None,
        }
    }

    /// Says whether an agent may be asked at this minute of the day.
    pub fn is_open(&self, minute: Option<u16>) -> bool {
        match (self, minute) {
            (Self::Always, _) => true,
            (Self::Between { start, end, .. }, Some(minute)) if start <= end => {
                (*start..*end).contains(&minute)
            }
            (Self::Between { start, end, .. }, Some(minute)) => minute >= *start || minute < *end,
            (Self::Between { .. }, None) | (Self::Unreadable, _) => false,
        }
    }
}

/// `08:30` as minutes since midnight; `24:00` is the day's end.
fn minute(text: &str) -> Option<u16> {
    let (hour, minute) = text.split_once(':')?;
    let is_number = |part: &str| part.len() == 2 && part.bytes().all(|byte| byte.is_ascii_digit());
    if !is_number(hour) || !is_number(minute) {
        return None;
    }
    let (hour, minute): (u16, u16) = (hour.parse().ok()?, minute.parse().ok()?);
    let all = hour * 60 + minute;
    (minute < 60 && all <= DAY).then_some(all)
}

/// What is wrong with a part of `activeHours`, if anything is.
pub(crate) fn check_hours(key: &str, text: &str) -> Option<String> {
    let text = text.trim();
    if key == "timezone" {
        let is_known = matches!(text, "" | "user" | "local") || Zone::named(text).is_some();
        return (!is_known).then(|| {
            format!(
                "there is no time zone `{text}`; write `user`, `local` or one like `Europe/Berlin`"
            )
        });
    }
    let is_sound = match minute(text) {
        Some(DAY) => key == "end",
        Some(_) => true,
        None => false,
    };
    (!is_sound).then(|| format!("`{text}` is no time of day; write it like `08:30`"))
}
