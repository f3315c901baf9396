//! Decides which ids of the host a pen's ids are.
//!
//! Never the host's 0: a pen whose root is the host's root is no boundary, even without any
//! capability, because root owns files like `/proc/sys/kernel/core_pattern`.
//!
//! | who starts it          | the pen's user      | the pen's other ids            |
//! |------------------------|---------------------|--------------------------------|
//! | root                   | in the range        | 65 536 ids nobody else has     |
//! | a user with sub-ids    | that user           | that user's subordinate range  |
//! | a user without         | that user           | do not exist                   |

use sha2::{Digest as _, Sha256};

use super::PenUser;

/// How many ids a pen has if it can have many.
pub const COUNT: u32 = 65_536;
/// Ranges for pens of root start here when nothing is set aside for root: far above what
/// distributions give to people and containers.
const FIRST: u32 = 0x7000_0000;
/// How many such ranges there are.
const RANGES: u32 = 0x0fff;

const SUBUID: &str = "/etc/subuid";
const SUBGID: &str = "/etc/subgid";

/// Who starts the pen, and what the machine has set aside for him.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Starter<'a> {
    pub uid: u32,
    pub gid: u32,
    /// The login name, if known.
    pub name: Option<&'a str>,
    /// The text of `/etc/subuid`.
    pub subuid: &'a str,
    /// The text of `/etc/subgid`.
    pub subgid: &'a str,
    pub helpers: Helpers,
}

/// Whether `newuidmap` and `newgidmap` are installed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Helpers {
    Present,
    Missing,
}

/// A run of ids.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Range {
    pub inside: u32,
    pub outside: u32,
    pub count: u32,
}

/// Who can write the map.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Writer {
    Root,
    Helpers,
    /// One id, written by its owner.
    Single,
}

/// The maps of one pen. Made by [`decide`] only.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IdMaps {
    writer: Writer,
    uids: Vec<Range>,
    gids: Vec<Range>,
}

/// There is no map.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum IdsRefused {
    #[error("the pen's user {id} lies beyond the {COUNT} ids a pen has; choose a smaller number")]
    TooHigh { id: u32 },
    #[error(
        "the ids set aside for `{who}` in {file} start at {start}, which reaches the host's own users; \
         set aside ids above 65535"
    )]
    LowRange { who: String, file: &'static str, start: u32 },
    #[error(
        "the ids set aside for `{who}` in {file} start at {start} and hold {id}, which is that user's \
         own; set aside others"
    )]
    OwnId { who: String, file: &'static str, start: u32, id: u32 },
}

/// Decides the maps of the pen called `pen`, whose commands run as `user` inside.
pub fn decide(starter: &Starter<'_>, user: PenUser, pen: &str) -> Result<IdMaps, IdsRefused> {
    let sub = |file, text, own| subordinate(file, text, starter, own);
    if starter.uid == 0 {
        for id in [user.uid, user.gid] {
            if id >= COUNT {
                return Err(IdsRefused::TooHigh { id });
            }
        }
        let own = own_range(pen);
        let start = |found: Option<(u32, u32)>| found.map_or(own, |(start, _)| start);
        let uids = start(sub(SUBUID, starter.subuid, 0)?);
        let gids = start(sub(SUBGID, starter.subgid, 0)?);
        let whole = |outside| vec![Range { inside: 0, outside, count: COUNT }];
        return Ok(IdMaps { writer: Writer::Root, uids: whole(uids), gids: whole(gids) });
    }
    // The helpers serve nobody whose name the machine does not know, whatever is set aside for the
    // number.
    let ranges = match (starter.helpers, starter.name) {
        (Helpers::Present, Some(_)) => {
            let uids = sub(SUBUID, starter.subuid, starter.uid)?;
            uids.zip(sub(SUBGID, starter.subgid, starter.gid)?)
        }
        (Helpers::Present, None) | (Helpers::Missing, _) => None,
    };
    let single = |inside, outside| vec![Range { inside, outside, count: 1 }];
    let Some((uids, gids)) = ranges else {
        let (uids, gids) = (single(user.uid, starter.uid), single(user.gid, starter.gid));
        return Ok(IdMaps { writer: Writer::Single, uids, gids });
    };
    Ok(IdMaps {
        writer: Writer::Helpers,
        uids: around(user.uid, starter.uid, uids),
        gids: around(user.gid, starter.gid, gids),
    })
}

/// The subordinate range around one id that is the starter's own.
fn around(inside: u32, outside: u32, (start, count): (u32, u32)) -> Vec<Range> {
    let count = count.min(COUNT);
    let below = inside.min(count);
    let above = count.saturating_sub(inside.saturating_add(1));
    [
        Range { inside: 0, outside: start, count: below },
        Range { inside, outside, count: 1 },
        Range {
            inside: inside.saturating_add(1),
            outside: start.saturating_add(below),
            count: above,
        },
    ]
    .into_iter()
    .filter(|range| range.count > 0)
    .collect()
}

/// The range of a pen of root, always the same for the same pen.
fn own_range(pen: &str) -> u32 {
    let digest = Sha256::digest(pen.as_bytes());
    let number = digest.iter().take(4).fold(0_u32, |sum, byte| (sum << 8) | u32::from(*byte));
    FIRST + (number % RANGES) * COUNT
}

/// The first line `who:start:count` that is meant for this user and can be used. One that cannot is
/// refused only if there is no better: it would let the pen reach the host's users, or the user himself
/// under two numbers. Lines that make no sense are passed over, as the helpers do.
fn subordinate(
    file: &'static str,
    text: &str,
    starter: &Starter<'_>,
    own: u32,
) -> Result<Option<(u32, u32)>, IdsRefused> {
    let mut refused = None;
    for line in text.lines() {
        let Some((who, start, count)) = line_of(line) else { continue };
        let is_meant = Some(who) == starter.name || who.parse() == Ok(starter.uid);
        let enough = if starter.uid == 0 { count >= COUNT } else { count > 0 };
        if !is_meant || !enough || start.checked_add(count).is_none() {
            continue;
        }
        let who = || starter.name.unwrap_or(who).to_owned();
        let problem = if start < COUNT {
            IdsRefused::LowRange { who: who(), file, start }
        } else if own.checked_sub(start).is_some_and(|distance| distance < count) {
            IdsRefused::OwnId { who: who(), file, start, id: own }
        } else {
            return Ok(Some((start, count)));
        };
        refused.get_or_insert(problem);
    }
    refused.map_or(Ok(None), Err)
}

fn line_of(line: &str) -> Option<(&str, u32, u32)> {
    let mut parts = line.trim().split(':');
    let (who, start, count) = (parts.next()?, parts.next()?, parts.next()?);
    Some((who, start.parse().ok()?, count.parse().ok()?))
}

impl IdMaps {
    pub const fn writer(&self) -> Writer {
        self.writer
    }

    pub fn uids(&self) -> &[Range] {
        &self.uids
    }

    pub fn gids(&self) -> &[Range] {
        &self.gids
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const USER: PenUser = PenUser { uid: 1000, gid: 1000 };

    fn starter(uid: u32) -> Starter<'static> {
        Starter {
            uid,
            gid: uid,
            name: Some(if uid == 0 { "root" } else { "ann" }),
            subuid: "",
            subgid: "",
            helpers: Helpers::Present,
        }
    }

    fn range(inside: u32, outside: u32, count: u32) -> Range {
        Range { inside, outside, count }
    }

    #[track_caller]
    fn check(starter: &Starter<'_>, user: PenUser, writer: Writer, uids: &[Range]) {
        let maps = decide(starter, user, "pen").unwrap();
        assert_eq!((maps.writer, maps.uids.as_slice()), (writer, uids), "{starter:?}");
        let covers = |range: &Range, id: u32| range.inside <= id && id - range.inside < range.count;
        assert_eq!(maps.uids.iter().filter(|range| covers(range, user.uid)).count(), 1);
        assert!(maps.uids.iter().chain(&maps.gids).all(|range| range.outside > 0));
    }

    #[test]
    fn root_gets_ids_of_nobody() {
        let start = own_range("pen");
        assert!(start >= FIRST && start.checked_add(COUNT).is_some());
        assert_ne!(own_range("other"), start);
        check(&starter(0), USER, Writer::Root, &[range(0, start, COUNT)]);
        let set_aside = Starter { subuid: "x:1:2\nroot:200000:65536\n", ..starter(0) };
        check(&set_aside, USER, Writer::Root, &[range(0, 200_000, COUNT)]);
        let small = Starter { subuid: "root:200000:10", ..starter(0) };
        check(&small, USER, Writer::Root, &[range(0, start, COUNT)]);
    }

    #[test]
    fn root_never_maps_to_the_hosts_users() {
        let low = Starter { subuid: "root:0:65536", ..starter(0) };
        let expected = IdsRefused::LowRange { who: "root".into(), file: "/etc/subuid", start: 0 };
        assert_eq!(decide(&low, USER, "pen"), Err(expected));
        let high = PenUser { uid: COUNT, gid: 0 };
        assert_eq!(decide(&starter(0), high, "pen"), Err(IdsRefused::TooHigh { id: COUNT }));
    }

    #[test]
    fn an_ordinary_user_is_himself_inside() {
        check(&starter(1001), USER, Writer::Single, &[range(1000, 1001, 1)]);
        let rich = Starter {
            subuid: "bob:1:1\nann:100000:65536",
            subgid: "1001:100000:65536",
            ..starter(1001)
        };
        let expected =
            [range(0, 100_000, 1000), range(1000, 1001, 1), range(1001, 101_000, 64_535)];
        check(&rich, USER, Writer::Helpers, &expected);
        let root = PenUser { uid: 0, gid: 0 };
        check(&rich, root, Writer::Helpers, &[range(0, 1001, 1), range(1, 100_000, 65_535)]);
        let alone = Starter { helpers: Helpers::Missing, ..rich.clone() };
        check(&alone, USER, Writer::Single, &[range(1000, 1001, 1)]);
        // By his number, and `newuidmap` would not know him.
        let nameless = Starter { name: None, subuid: "1001:100000:65536", ..rich.clone() };
        check(&nameless, USER, Writer::Single, &[range(1000, 1001, 1)]);
        let half = Starter { subgid: "", ..rich };
        check(&half, USER, Writer::Single, &[range(1000, 1001, 1)]);
    }

    #[test]
    fn odd_lines_are_passed_over() {
        let odd = ["ann", "ann:x:1", "ann:1", "ann:4294967295:5", "ann:1:0", ":1:1", "annx:1:1"];
        for text in odd {
            let found = subordinate(SUBUID, text, &starter(1001), 1001);
            assert_eq!(found, Ok(None), "{text}");
        }
    }

    #[test]
    fn a_range_that_reaches_somebody_is_refused_unless_there_is_a_better_one() {
        let check = |text: &str, expected: Result<Option<(u32, u32)>, IdsRefused>| {
            let ann = starter(70_000);
            assert_eq!(subordinate(SUBUID, text, &ann, 70_000), expected, "{text}");
        };
        let low = |start| IdsRefused::LowRange { who: "ann".into(), file: SUBUID, start };
        let own = |start| IdsRefused::OwnId { who: "ann".into(), file: SUBUID, start, id: 70_000 };
        check("ann:0:65536", Err(low(0)));
        check("ann:1000:1", Err(low(1000)));
        check("ann:65535:1", Err(low(65_535)));
        check("ann:65536:65536", Err(own(65_536)));
        check("ann:70000:1", Err(own(70_000)));
        check("ann:70001:5", Ok(Some((70_001, 5))));
        check("ann:0:65536\nann:69999:3\n70000:100000:65536", Ok(Some((100_000, 65_536))));
    }
}
