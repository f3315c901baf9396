//! Tables: whose heartbeat is how, when it is due, what an answer means.

use super::*;
use crate::config::{json5, tree::FileId};
use crate::cron::Zone;
use crate::timestamp::Timestamp;

fn config(text: &str) -> Config {
    Config::from_tree(json5::parse(text, FileId(0)).unwrap().root, Vec::new())
}

fn of(text: &str, agent: &str) -> Heartbeat {
    Heartbeat::of(&config(text), &AgentId::normalize(agent))
}

fn each(words: &str, seconds: u64) -> Every {
    Every::Each { words: words.to_owned(), time: Duration::from_secs(seconds) }
}

#[test]
fn the_default_agent_has_one_unless_others_have_their_own() {
    let check = |text: &str, expected: [Every; 2]| {
        assert_eq!([of(text, "main").every, of(text, "bot").every], expected, "{text}");
    };
    let off = || Every::Off;
    check("{agents: {list: [{id: 'main'}, {id: 'bot'}]}}", [each("30m", 1800), off()]);
    check("{agents: {list: [{id: 'bot', default: true}]}}", [off(), each("30m", 1800)]);
    check(
        "{agents: {defaults: {heartbeat: {every: '1h'}}, list: [{id: 'main'}, {id: 'bot', heartbeat: {}}]}}",
        [off(), each("1h", 3600)],
    );
    check(
        "{agents: {list: [{id: 'main', heartbeat: {every: '2h'}}, {id: 'bot', heartbeat: {every: '0m'}}]}}",
        [each("2h", 7200), off()],
    );
    check(
        "{agents: {defaults: {heartbeat: {agentId: 'bot'}}, entries: {main: {}, bot: {}}}}",
        [off(), each("30m", 1800)],
    );
    check("{agents: {defaults: {heartbeat: {every: 'soon'}}}}", [off(), off()]);
}

#[test]
fn a_time_is_read_as_it_is_meant() {
    let check = |text: &str, expected: Option<u64>| {
        assert_eq!(duration(text).map(|time| time.as_millis()), expected.map(u128::from), "{text}");
    };
    for (text, millis) in
        [("30m", 1_800_000), ("1h30m", 5_400_000), ("1.5h", 5_400_000), ("90s", 90_000)]
    {
        check(text, Some(millis));
    }
    check(" 250MS ", Some(250));
    check("2d", Some(172_800_000));
    check("5", Some(300_000));
    check("0", Some(0));
    check("0m", Some(0));
    for text in
        ["", "m", "soon", "-5m", "1h 30m", "1h30", "5 m", "1e9999h", "99999999999999999999d", "."]
    {
        check(text, None);
    }
    assert_eq!(every(Some("1ms")), each("1ms", 1));
}

#[test]
fn an_agents_own_keys_come_before_those_of_all() {
    let text = "{agents: {defaults: {heartbeat: {prompt: 'all', ackMaxChars: 5, target: 'telegram', to: '1', \
                lightContext: true}}, list: [{id: 'main', heartbeat: {prompt: ' own ', session: 'side', model: 'm/x', \
                isolatedSession: true, lightContext: false, timeoutSeconds: 9, includeReasoning: true}}]}}";
    let expected = Heartbeat {
        every: each("30m", 1800),
        written: Written::Yes,
        hours: Hours::Always,
        prompt: "own".to_owned(),
        ack_characters: 5,
        model: Some("m/x".to_owned()),
        session: Some("side".to_owned()),
        talk: Talk::Own,
        context: Context::Full,
        timeout: Some(Duration::from_secs(9)),
        target: "none",
        unheeded: vec!["target", "to", "includeReasoning"],
    };
    assert_eq!(of(text, "main"), expected);
    let plain = of("{}", "main");
    assert_eq!(
        (plain.prompt.as_str(), plain.ack_characters, plain.target, plain.written),
        (PROMPT, 300, "none", Written::No)
    );
    assert!(plain.unheeded.is_empty() && PROMPT.contains(ACK) && PROMPT.contains(FILE));
}

#[test]
fn hours_are_those_of_the_zone_that_counts() {
    // 23:30 in Berlin on a summer's day is 21:30 in UTC.
    let moment = Timestamp::parse("2026-07-01T21:30:00Z").unwrap();
    let check = |hours: &str, expected: bool| {
        let text = format!(
            "{{agents: {{defaults: {{userTimezone: 'Europe/Berlin', heartbeat: {{activeHours: {hours}}}}}}}}}"
        );
        let hours = of(&text, "main").hours;
        let zone = match hours.zone() {
            Some(HoursZone::Named(zone)) => zone.clone(),
            Some(HoursZone::Local) | None => Zone::utc(),
        };
        assert_eq!(hours.is_open(zone.minute_of_day(moment)), expected, "{text}");
    };
    check("{start: '08:00', end: '23:00'}", false);
    check("{start: '08:00', end: '24:00'}", true);
    check("{start: '08:00', end: '23:00', timezone: 'local'}", true);
    check("{start: '08:00', end: '23:00', timezone: 'UTC'}", true);
    check("{start: '08:00', end: '23:00', timezone: 'user'}", false);
    check("{start: '23:30', end: '23:31'}", true);
    check("{start: '23:00', end: '23:30'}", false);
    // Over midnight, and no time at all.
    check("{start: '22:00', end: '06:00'}", true);
    check("{start: '06:00', end: '22:00'}", false);
    check("{start: '00:00', end: '00:00'}", false);
    // What cannot be read wakes nobody.
    for bad in [
        "{start: '8', end: '24:00'}",
        "{start: '24:00', end: '24:00'}",
        "{timezone: 'Mars/Base'}",
        "{end: '25:00'}",
    ] {
        check(bad, false);
    }
    check("{}", true);
}

#[test]
fn a_beat_begins_unless_something_speaks_against_it() {
    let always = of("{agents: {defaults: {heartbeat: {every: '5m'}}}}", "main");
    let night = of(
        "{agents: {defaults: {heartbeat: {activeHours: {start: '08:00', end: '22:00'}}}}}",
        "main",
    );
    let off = of("{agents: {defaults: {heartbeat: {every: '0m'}}}}", "main");
    let built_in = of("{}", "main");
    let plain = Moment {
        cause: Cause::Interval,
        switch: Switch::On,
        minute: Some(60),
        runs: 0,
        lines: 0,
        file: FoundFile::Text("- look at the backups"),
    };
    let skip = Verdict::Skip;
    let empty = FoundFile::Text("# What to look after\n\n- [ ]\n");
    for (heartbeat, moment, expected) in [
        (&always, plain, Verdict::Beat),
        (&off, plain, skip(Skip::Disabled)),
        (&off, Moment { cause: Cause::Wake, ..plain }, skip(Skip::Disabled)),
        (&always, Moment { switch: Switch::Off, ..plain }, skip(Skip::Disabled)),
        (&night, plain, skip(Skip::QuietHours)),
        (&night, Moment { cause: Cause::Wake, ..plain }, skip(Skip::QuietHours)),
        (&night, Moment { minute: None, ..plain }, skip(Skip::QuietHours)),
        (&always, Moment { runs: 1, ..plain }, skip(Skip::RequestsInFlight)),
        (&always, Moment { runs: 1, cause: Cause::Wake, ..plain }, Verdict::Beat),
        (&always, Moment { file: empty, ..plain }, skip(Skip::EmptyFile)),
        (&always, Moment { file: empty, lines: 1, ..plain }, Verdict::Beat),
        (&always, Moment { file: empty, cause: Cause::Wake, ..plain }, Verdict::Beat),
        (&always, Moment { file: FoundFile::Missing, ..plain }, Verdict::Beat),
        (&always, Moment { file: FoundFile::Unread, ..plain }, Verdict::Beat),
        (&built_in, Moment { file: FoundFile::Missing, ..plain }, skip(Skip::EmptyFile)),
        (&built_in, plain, Verdict::Beat),
    ] {
        assert_eq!(decide(heartbeat, &moment), expected, "{heartbeat:?} {moment:?}");
    }
}

#[test]
fn an_answer_means_what_its_ends_say() {
    let check =
        |text: &str, expected: Meaning| assert_eq!(decide_answer(text, 10), expected, "{text}");
    let news = |text: &str| Meaning::News(text.to_owned());
    for text in ["", "  \n", "NO_REPLY"] {
        check(text, Meaning::Empty);
    }
    for text in [
        "HEARTBEAT_OK",
        " HEARTBEAT_OK.\n",
        "**HEARTBEAT_OK**",
        "`HEARTBEAT_OK`",
        "HEARTBEAT_OK all well",
        "All well. HEARTBEAT_OK",
        "HEARTBEAT_OK\nHEARTBEAT_OK",
        "HEARTBEAT_OK 1234567890",
    ] {
        check(text, Meaning::Ack);
    }
    check("HEARTBEAT_OK 12345678901", news("12345678901"));
    check("The disk is full! HEARTBEAT_OK", news("The disk is full!"));
    check("I answer HEARTBEAT_OK when all is well", news("I answer HEARTBEAT_OK when all is well"));
    check("HEARTBEAT_OKAY", news("HEARTBEAT_OKAY"));
    check("NOT_HEARTBEAT_OK", news("NOT_HEARTBEAT_OK"));
    check("heartbeat_ok", news("heartbeat_ok"));
}

#[test]
fn a_file_without_a_task_is_empty() {
    for text in [
        "",
        "\n \n",
        "# Title\n##\n",
        "- [ ]\n* \n+ [x]",
        "<!-- later -->",
        "\u{feff}# x",
        "```\n# x\n```",
    ] {
        assert!(is_empty_file(text), "{text:?}");
    }
    for text in ["look", "# Title\n- mail", "#hashtag", "- [ ] mail", "<!-- a --> b"] {
        assert!(!is_empty_file(text), "{text:?}");
    }
}

#[test]
fn the_next_beat_keeps_its_place_and_nothing_is_made_up_for() {
    let s = Duration::from_secs;
    let planned = |every: u64, at: u64| Planned { every: s(every), at: s(at) };
    for (before, every, now, expected) in [
        (None, 30, 5, Due::Later(planned(30, 35))),
        (Some(planned(30, 35)), 30, 34, Due::Later(planned(30, 35))),
        (Some(planned(30, 35)), 30, 35, Due::Now(planned(30, 65))),
        (Some(planned(30, 35)), 30, 36, Due::Now(planned(30, 65))),
        // The machine slept: one beat, and the next one in its place.
        (Some(planned(30, 35)), 30, 1000, Due::Now(planned(30, 1025))),
        // Another interval begins anew, and not with a beat.
        (Some(planned(30, 35)), 10, 100, Due::Later(planned(10, 110))),
    ] {
        assert_eq!(decide_due(before, s(every), s(now)), expected, "{before:?} {every} {now}");
    }
}
