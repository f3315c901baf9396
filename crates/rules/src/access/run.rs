//! Decides who may end a run of an agent.
//!
//! Takes who sent the message and who wants it ended, both as the gateway has proven them. A session is for several
//! people; what one of them asked for is not another's to end, unless he may change everything anyway.

/// Somebody at the gateway, told apart by what was proven.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Voice {
    pub connection: String,
    pub device: Option<String>,
}

/// What whoever wants to end a run may do here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Power {
    /// `operator.admin`.
    Admin,
    /// Less.
    Plain,
}

/// Whether a run is ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MayEnd {
    Yes,
    No(WhyNot),
}

/// Why not.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WhyNot {
    /// Somebody else asked for it.
    Others,
    /// Nobody at the gateway asked for it: another session did, or an approval.
    Nobodys,
}

/// Decides whether `voice` may end a run that `owner` asked for.
#[must_use]
pub fn decide(owner: Option<&Voice>, voice: &Voice, power: Power) -> MayEnd {
    if power == Power::Admin {
        return MayEnd::Yes;
    }
    let Some(owner) = owner else { return MayEnd::No(WhyNot::Nobodys) };
    let is_same_device = owner.device.is_some() && owner.device == voice.device;
    if owner.connection == voice.connection || is_same_device {
        MayEnd::Yes
    } else {
        MayEnd::No(WhyNot::Others)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_is_ended_by_who_asked_for_it_or_by_an_admin() {
        let own = voice("1", None);
        check(Some(&own), &voice("1", None), Power::Plain, MayEnd::Yes);
        check(Some(&own), &voice("2", None), Power::Plain, MayEnd::No(WhyNot::Others));
        check(Some(&own), &voice("2", None), Power::Admin, MayEnd::Yes);
        check(None, &voice("2", None), Power::Plain, MayEnd::No(WhyNot::Nobodys));
        check(None, &voice("2", None), Power::Admin, MayEnd::Yes);
    }

    #[test]
    fn a_device_that_came_back_is_who_it_was() {
        let owner = voice("1", Some("d"));
        check(Some(&owner), &voice("2", Some("d")), Power::Plain, MayEnd::Yes);
        check(Some(&owner), &voice("2", Some("e")), Power::Plain, MayEnd::No(WhyNot::Others));
    }

    fn voice(connection: &str, device: Option<&str>) -> Voice {
        Voice { connection: connection.to_owned(), device: device.map(str::to_owned) }
    }

    #[track_caller]
    fn check(owner: Option<&Voice>, caller: &Voice, power: Power, expected: MayEnd) {
        assert_eq!(decide(owner, caller, power), expected);
    }
}
