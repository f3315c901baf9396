//! The chain, and the ways somebody could try to change it.

use std::time::{Duration, Instant};

use clawpen_rules::timestamp::Timestamp;
use proptest::prelude::*;
use rusqlite::Connection;
use rusqlite::types::Value;
use tempfile::TempDir;

use super::*;
use crate::database::path_in;

struct World {
    state: TempDir,
    database: Database,
}

impl World {
    fn new() -> Self {
        let state = tempfile::tempdir().unwrap();
        let database = Database::open(state.path()).unwrap();
        Self { state, database }
    }

    fn with_records(count: u64) -> Self {
        let world = Self::new();
        for number in 1..=count {
            world.audit().append(&call(number), at(number)).unwrap();
        }
        world
    }

    fn audit(&self) -> Audit<'_> {
        self.database.audit()
    }

    /// A second connection, as somebody with the same uid has.
    fn attacker(&self) -> Connection {
        Connection::open(path_in(self.state.path())).unwrap()
    }

    fn breaks(&self) -> Vec<(u64, BreakKind)> {
        let verified = self.audit().verify(None).unwrap();
        verified.breaks.iter().map(|found| (found.seq, found.kind)).collect()
    }
}

#[test]
fn a_record_comes_back_as_it_was_written_and_is_chained_to_the_one_before() {
    let world = World::with_records(2);
    let records = world.audit().list(&Filter::default()).unwrap();
    assert_eq!(records[0].event, Event::Call(call(1)));
    assert_eq!((records[0].seq, records[0].time), (1, at(1)));
    assert_eq!((records[0].previous, records[1].previous), (Hash::ZERO, records[0].hash));
    let head = world.audit().head().unwrap();
    assert_eq!(head, Head { seq: 2, hash: records[1].hash });
    assert_eq!(Head::parse(&head.to_string()), Some(head));
    let verified = world.audit().verify(Some(head)).unwrap();
    assert_eq!(
        verified,
        Verified {
            base: Head::START,
            head,
            records: 2,
            breaks: Vec::new(),
            clock_went_back: 0,
            given: GivenHead::Proven,
        }
    );
}

#[test]
fn the_bytes_that_are_hashed_never_change() {
    let world = World::with_records(1);
    world.audit().retain(&keep(0, 0), at(9)).unwrap();
    let hashes: Vec<String> =
        [world.audit().verify(None).unwrap().base, world.audit().head().unwrap()]
            .iter()
            .map(|head| head.hash.to_string())
            .collect();
    assert_eq!(
        hashes,
        [
            "93a2c226b2f943331e02878d131fa04025df19807c7c824a5421d5e2842df612",
            "40c5ca91dea84640771e628d78331215563a1a690411e707e78322ae6529c8ef",
        ]
    );
}

#[test]
fn a_record_has_no_place_for_secrets_and_a_reason_hides_what_it_is_told_to() {
    let text = "`curl -H token-123 /home/me/.ssh/id` is not on the list; a token is no a";
    let private = ["curl", "-H", "token-123", "/home/me/.ssh/id", "a", ""];
    let reason = Reason::hiding(text, private);
    assert_eq!(reason.as_str(), "`… … … …` is not on the list; … token is no …");
    assert_eq!(Reason::new("a\nb\x1b[2J").as_str(), "a b [2J");
    let long = Reason::new(&"x".repeat(5000));
    assert_eq!(long.as_str().chars().count(), 300);
    let world = World::new();
    let mut huge = call(1);
    huge.session = Some("s".repeat(100_000));
    huge.duration = Duration::MAX;
    huge.bytes_in = u64::MAX;
    world.audit().append(&huge, Timestamp::from_millis(u64::MAX)).unwrap();
    assert_eq!(world.breaks(), []);
    assert_eq!(world.audit().list(&Filter::default()).unwrap().len(), 1);
}

#[test]
fn whoever_chooses_the_words_of_a_command_does_not_choose_which_of_ours_disappear() {
    let private = ["ran: allow-once by", "user 0", "is not on the list", "plan", "a", "x`y"];
    let ours = "ran: allow-once by user 0 (plan 0123)";
    let check = |quoting: &str, private: &[&str], expected: &str| {
        let pieces = [Piece::Ours(ours), Piece::Quoting(quoting)];
        let reason = Reason::of(&pieces, private.iter().copied());
        assert_eq!(reason.as_str(), format!("{ours}{expected}"));
    };
    check("; `a plan` is not on the list", &private[..5], "; `…` is not on the list");
    // Nobody can tell where a quotation ends that has backticks itself, or has no end.
    check("; `x``y` and `plan` is not on the list", &private, "; `…` is not on the list");
    check("; `x`y` and `plan` is not on the list", &private, "; `…`");
    check("; `always`, then `cut", &private, "; `…`");
    check("; no quotation of user 0", &private, "; no quotation of user 0");
    // What a rule read is not what was sent; keys and values of the config stay, unless the command has them too.
    let sent = ["TO'KEN'=x"];
    check(
        "; `TOKEN=x` starts no program (`tools.exec.ask`)",
        &sent,
        "; `…` starts no program (`tools.exec.ask`)",
    );
    check(
        "; `always` by `agents.list[0].tools.exec.ask`, `;`",
        &sent,
        "; `always` by `agents.list[0].tools.exec.ask`, `;`",
    );
    check("; `tools.exec.ask` and `tools.exec/x`", &["tools.exec.ask"], "; `…` and `…`");
}

#[test]
fn filters_narrow_and_the_limit_keeps_the_newest() {
    let world = World::with_records(9);
    let all = Filter::default();
    let check = |filter: Filter, expected: &[u64]| {
        let found = world.audit().list(&filter).unwrap();
        let found: Vec<u64> = found.iter().map(|record| record.seq).collect();
        assert_eq!(found, expected, "{filter:?}");
    };
    check(Filter { limit: Some(2), ..all.clone() }, &[8, 9]);
    check(Filter { limit: Some(0), ..all.clone() }, &[]);
    check(Filter { after: 7, ..all.clone() }, &[8, 9]);
    check(Filter { session: Some("agent:main:s1".to_owned()), ..all.clone() }, &[1, 4, 7]);
    check(Filter { agent: Some("other".to_owned()), ..all.clone() }, &[]);
    check(Filter { tool: Some("read".to_owned()), ..all.clone() }, &[2, 4, 6, 8]);
    check(Filter { verdict: Some(Verdict::Refused), ..all.clone() }, &[3, 6, 9]);
    check(Filter { since: Some(at(8)), ..all.clone() }, &[8, 9]);
    check(Filter { until: Some(at(2)), ..all.clone() }, &[1, 2]);
    let both = Filter { tool: Some("read".to_owned()), verdict: Some(Verdict::Refused), ..all };
    check(both, &[6]);
}

#[test]
fn retention_drops_the_oldest_and_the_chain_vouches_for_it() {
    let world = World::with_records(10);
    let before = world.audit().head().unwrap();
    let early = world.audit().list(&Filter::default()).unwrap().remove(2);
    let early = Head { seq: early.seq, hash: early.hash };
    let kept = world.audit().retain(&Retention { keep: None, keep_at_least: 0 }, at(99)).unwrap();
    assert_eq!(kept, Dropped { records: 0, head: before });
    // Records 1 to 6 are more than 4 s old at 11 s.
    let dropped = world.audit().retain(&keep(4, 0), at(11)).unwrap();
    assert_eq!(dropped.records, 6);
    let verified = world.audit().verify(Some(before)).unwrap();
    assert_eq!((verified.base.seq, verified.head.seq, verified.records), (6, 11, 5));
    assert_eq!((verified.is_whole(), verified.given), (true, GivenHead::Proven));
    assert_eq!(world.audit().verify(Some(early)).unwrap().given, GivenHead::Dropped);
    let again = world.audit().retain(&keep(4, 0), at(11)).unwrap();
    assert_eq!(again, Dropped { records: 0, head: dropped.head });
    // And once more: the older promise goes, the newer one stands.
    assert_eq!(world.audit().retain(&keep(4, 0), at(99)).unwrap().records, 5);
    assert_eq!(world.breaks(), []);
    world.audit().append(&call(1), at(100)).unwrap();
    assert_eq!(world.breaks(), []);
}

#[test]
fn a_clock_that_was_set_drops_nothing_that_should_stay() {
    let world = World::with_records(10);
    // Years ahead: the newest stay all the same.
    assert_eq!(world.audit().retain(&keep(4, 8), at(1_000_000_000)).unwrap().records, 2);
    // Years back: nothing is old.
    assert_eq!(world.audit().retain(&keep(4, 0), at(0)).unwrap().records, 0);
    // A record from the future in the middle keeps what came after it.
    let world = World::with_records(3);
    world.audit().append(&call(4), at(1_000_000)).unwrap();
    world.audit().append(&call(5), at(5)).unwrap();
    assert_eq!(world.audit().retain(&keep(1, 0), at(50)).unwrap().records, 3);
    assert_eq!(world.audit().verify(None).unwrap().clock_went_back, 1);
    assert_eq!(world.breaks(), []);
}

#[test]
fn whoever_cuts_the_start_off_like_retention_is_found() {
    let world = World::with_records(10);
    let fourth = world.audit().list(&Filter::default()).unwrap()[3].hash;
    let attacker = world.attacker();
    attacker.execute("DELETE FROM audit WHERE seq <= 4", []).unwrap();
    attacker
        .execute("UPDATE audit_ends SET seq = 4, hash = ?1 WHERE place = 'base'", [fourth.0])
        .unwrap();
    assert_eq!(world.breaks(), [(5, BreakKind::Unvouched)]);
}

#[test]
fn a_chain_rewritten_as_a_whole_is_whole_and_only_an_exported_head_tells() {
    let world = World::with_records(5);
    let exported = world.audit().head().unwrap();
    let other = World::new();
    for number in 1..=7 {
        other.audit().append(&call(number + 100), at(number)).unwrap();
    }
    let verified = other.audit().verify(None).unwrap();
    assert!(verified.is_whole());
    let verified = other.audit().verify(Some(exported)).unwrap();
    let expected = Break { seq: 5, kind: BreakKind::NotTheGivenHead };
    assert_eq!((verified.breaks, verified.given), (vec![expected], GivenHead::Missing));
}

#[test]
fn an_altered_record_is_named_when_it_is_read() {
    let world = World::with_records(3);
    world.attacker().execute("UPDATE audit SET verdict = 'fine' WHERE seq = 2", []).unwrap();
    let told = world.audit().list(&Filter::default()).unwrap_err().to_string();
    assert!(told.contains("record 2") && told.contains("clawpen audit --verify"), "{told}");
    assert_eq!(world.breaks(), [(2, BreakKind::Altered)]);
}

#[test]
fn a_follower_gets_every_record_and_sleeps_in_between() {
    let world = World::with_records(3);
    let mut follower = world.audit().follow(Filter { after: 2, ..Filter::default() }).unwrap();
    let wait = Duration::from_secs(20);
    assert_eq!(seqs(&follower.next(wait).unwrap()), [3]);
    // Nothing comes: it waits as long as it may, and no longer.
    let start = Instant::now();
    assert_eq!(follower.next(Duration::from_millis(30)).unwrap(), []);
    assert!(start.elapsed() >= Duration::from_millis(30));
    let path = world.state.path();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let own = Database::open(path).unwrap();
            for number in 4..=300 {
                own.audit().append(&call(number), at(number)).unwrap();
            }
        });
        let mut seen = Vec::new();
        let mut calls = 0;
        while seen.len() < 297 {
            seen.extend(seqs(&follower.next(wait).unwrap()));
            calls += 1;
            assert!(calls < 2000, "asks again and again");
        }
        assert_eq!(seen, (4..=300).collect::<Vec<_>>());
    });
    assert!(start.elapsed() < wait, "it was woken, not timed out");
}

/// What somebody does to the file.
#[derive(Debug, Clone)]
enum Attack {
    /// Turns one bit of one column of one record.
    Flip {
        seq: u64,
        column: usize,
        bit: usize,
    },
    /// Turns one bit of the base or the head.
    FlipEnd {
        end: &'static str,
        column: usize,
        bit: usize,
    },
    Delete {
        seq: u64,
    },
    Swap {
        one: u64,
        other: u64,
    },
    Truncate {
        last: u64,
    },
    /// Copies a record to the end.
    Replay {
        seq: u64,
    },
    /// Writes into a column that was empty.
    Fill {
        seq: u64,
        column: usize,
    },
}

const RECORDS: u64 = 12;
const COLUMNS: [&str; 18] = [
    "seq",
    "time",
    "kind",
    "call",
    "session",
    "agent",
    "scope",
    "door",
    "tool",
    "verdict",
    "reason",
    "ending",
    "micros",
    "bytes_in",
    "bytes_out",
    "through_seq",
    "through_hash",
    "hash",
];

fn attack() -> impl Strategy<Value = Attack> {
    // Retention has dropped 1 to 4 and appended a thirteenth.
    let seq = 5..=RECORDS + 1;
    prop_oneof![
        4 => (seq.clone(), 0..COLUMNS.len(), 0..4096_usize)
            .prop_map(|(seq, column, bit)| Attack::Flip { seq, column, bit }),
        1 => (prop_oneof![Just("base"), Just("head")], 0..2_usize, 0..256_usize)
            .prop_map(|(end, column, bit)| Attack::FlipEnd { end, column, bit }),
        1 => seq.clone().prop_map(|seq| Attack::Delete { seq }),
        1 => (seq.clone(), seq.clone()).prop_map(|(one, other)| Attack::Swap { one, other }),
        1 => (4..=RECORDS).prop_map(|last| Attack::Truncate { last }),
        1 => seq.clone().prop_map(|seq| Attack::Replay { seq }),
        1 => (seq, 3..17_usize).prop_map(|(seq, column)| Attack::Fill { seq, column }),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]
    #[test]
    fn any_change_deletion_reordering_or_truncation_is_found(attack in attack()) {
        let world = attacked_world();
        prop_assert!(world.audit().verify(None).unwrap().is_whole());
        let changed = perform(&world.attacker(), &attack);
        let found = world.audit().verify(None).map(|verified| !verified.is_whole());
        // What is so odd that it cannot even be read is found too.
        prop_assert_eq!(found.unwrap_or(true), changed, "{:?}", attack);
    }
}

fn attacked_world() -> World {
    let world = World::with_records(RECORDS);
    assert_eq!(world.audit().retain(&keep(0, RECORDS - 4), at(99)).unwrap().records, 4);
    world
}

/// Does it; says whether anything is different now.
fn perform(file: &Connection, attack: &Attack) -> bool {
    let run = |sql: &str| file.execute(sql, []).unwrap() > 0;
    match attack {
        Attack::Flip { seq, column, bit } => {
            let column = COLUMNS[*column];
            flip(file, &format!("audit SET {column} = ?1 WHERE seq = {seq}"), column, *bit)
        }
        Attack::FlipEnd { end, column, bit } => {
            let column = ["seq", "hash"][*column];
            let place = format!("audit_ends SET {column} = ?1 WHERE place = '{end}'");
            flip(file, &place, column, *bit)
        }
        Attack::Delete { seq } => run(&format!("DELETE FROM audit WHERE seq = {seq}")),
        Attack::Swap { one, other } if one == other => false,
        Attack::Swap { one, other } => {
            run(&format!("UPDATE audit SET seq = -1 WHERE seq = {one}"))
                && run(&format!("UPDATE audit SET seq = {one} WHERE seq = {other}"))
                && run(&format!("UPDATE audit SET seq = {other} WHERE seq = -1"))
        }
        Attack::Truncate { last } => run(&format!("DELETE FROM audit WHERE seq > {last}")),
        Attack::Replay { seq } => {
            let columns = COLUMNS[1..].join(", ");
            run(&format!("INSERT INTO audit SELECT 14, {columns} FROM audit WHERE seq = {seq}"))
        }
        Attack::Fill { seq, column } => {
            let column = COLUMNS[*column];
            let value = match column {
                "micros" | "bytes_in" | "bytes_out" | "through_seq" => "1",
                "through_hash" => "zeroblob(32)",
                _ => "'x'",
            };
            run(&format!(
                "UPDATE audit SET {column} = {value} WHERE seq = {seq} AND {column} IS NULL"
            ))
        }
    }
}

/// Turns one bit of a value, whatever its type; an empty value has none.
fn flip(file: &Connection, place: &str, column: &str, bit: usize) -> bool {
    let (table, condition) = place.split_once(" SET ").unwrap();
    let condition = condition.split_once(" WHERE ").unwrap().1;
    let read = format!("SELECT {column} FROM {table} WHERE {condition}");
    let value: Value = file.query_row(&read, [], |row| row.get(0)).unwrap();
    let turn = |mut bytes: Vec<u8>| {
        let index = bit / 8 % bytes.len();
        bytes[index] ^= 1 << (bit % 8);
        bytes
    };
    let write = format!("UPDATE {place}");
    match value {
        Value::Null | Value::Real(_) => false,
        Value::Integer(number) => {
            // A sequence number that is taken cannot be given again; then nothing changes.
            file.execute(&write, [number ^ (1 << (bit % 63))]).is_ok_and(|rows| rows > 0)
        }
        Value::Text(text) if text.is_empty() => false,
        Value::Text(text) => {
            let write = write.replace("?1", "CAST(?1 AS TEXT)");
            file.execute(&write, [turn(text.into_bytes())]).unwrap() > 0
        }
        Value::Blob(bytes) => file.execute(&write, [turn(bytes)]).unwrap() > 0,
    }
}

fn seqs(records: &[Record]) -> Vec<u64> {
    records.iter().map(|record| record.seq).collect()
}

fn keep(seconds: u64, keep_at_least: u64) -> Retention {
    Retention { keep: Some(Duration::from_secs(seconds)), keep_at_least }
}

fn at(seconds: u64) -> Timestamp {
    Timestamp::from_millis(1_700_000_000_000 + seconds * 1000)
}

fn call(number: u64) -> Call {
    Call {
        call: format!("call-{number}"),
        session: Some(format!("agent:main:s{}", number % 3)),
        agent: Some("main".to_owned()),
        scope: number.is_multiple_of(2).then(|| "agent:main".to_owned()),
        door: Door::Mcp,
        tool: if number.is_multiple_of(2) { "read" } else { "exec" }.to_owned(),
        verdict: if number.is_multiple_of(3) { Verdict::Refused } else { Verdict::Allowed },
        reason: Reason::new("denied by `exec` in `tools.deny`"),
        ending: (!number.is_multiple_of(3)).then_some(Ending::Exit(7)),
        duration: Duration::from_micros(1500 + number),
        bytes_in: number,
        bytes_out: 4096,
    }
}
