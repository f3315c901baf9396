//! Times, lengths and sizes as a person writes and reads them.

use std::time::Duration;

use clawpen_rules::timestamp::Timestamp;

/// A moment, or how long ago: `90s`, `15m`, `2h`, `7d`.
pub(super) fn parse(text: &str, now: Timestamp) -> Option<Timestamp> {
    let text = text.trim();
    let ago = || {
        let split = text.len().checked_sub(1).filter(|at| text.is_char_boundary(*at))?;
        let (number, unit) = text.split_at(split);
        let unit: u64 = match unit {
            "s" => 1,
            "m" => 60,
            "h" => 3600,
            "d" => 86_400,
            _ => return None,
        };
        let number: u64 = number.parse().ok()?;
        Some(now.before(Duration::from_secs(number.checked_mul(unit)?)))
    };
    ago().or_else(|| Timestamp::parse(text))
}

/// `2026-11-15 23:30:24`, in UTC.
pub(super) fn short(time: Timestamp) -> String {
    let text = time.to_string();
    text.split('.').next().unwrap_or_default().replace('T', " ")
}

pub(super) fn length(length: Duration) -> String {
    match length.as_millis() {
        0 => format!("{} µs", length.as_micros()),
        millis @ 1..10_000 => format!("{millis} ms"),
        _ => format!("{} s", length.as_secs()),
    }
}

pub(super) fn bytes(bytes: u64) -> String {
    match bytes {
        0..10_000 => format!("{bytes} B"),
        10_000..10_000_000 => format!("{} kB", bytes / 1000),
        _ => format!("{} MB", bytes / 1_000_000),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_moments_or_so_long_ago() {
        let now = Timestamp::from_millis(1_700_000_000_000);
        let read = |text| parse(text, now).map(|time| time.to_string());
        assert_eq!(read("90s").as_deref(), Some("2023-11-14T22:11:50.000Z"));
        assert_eq!(read("2d").as_deref(), Some("2023-11-12T22:13:20.000Z"));
        assert_eq!(read("2023-11-14").as_deref(), Some("2023-11-14T00:00:00.000Z"));
        assert_eq!(read("99999999999d").as_deref(), Some("1970-01-01T00:00:00.000Z"));
        for text in ["", "d", "1w", "-1h", "é", "18446744073709551615d"] {
            assert_eq!(read(text), None, "{text}");
        }
        assert_eq!(short(now), "2023-11-14 22:13:20");
    }

    #[test]
    fn lengths_and_sizes_are_short() {
        let told = |micros| length(Duration::from_micros(micros));
        assert_eq!([told(7), told(1_500), told(61_000_000)], ["7 µs", "1 ms", "61 s"]);
        assert_eq!([bytes(12), bytes(12_000), bytes(12_000_000)], ["12 B", "12 kB", "12 MB"]);
    }
}
