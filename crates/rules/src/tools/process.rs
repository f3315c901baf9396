//! What `process` says of commands in the background, and what they are called.
//!
//! Takes what the supervisor keeps of a command; gives lines, windows of a log and key strokes as bytes.

pub mod keys;
pub mod names;

use std::time::Duration;

/// The longest wait of one `poll`.
pub const POLL_MOST_MS: u64 = 120_000;
/// Lines that `log` shows if nothing is said.
pub const LOG_LINES: u64 = 200;

/// The lines that `log` shows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogPage {
    pub text: String,
    pub total_lines: u64,
    pub is_cut: bool,
}

/// When to ask again, after so many polls in a row that brought nothing.
pub const fn retry_in_ms(empty_polls: u32) -> u64 {
    match empty_polls {
        0 | 1 => 5_000,
        2 => 10_000,
        3 => 30_000,
        _ => 60_000,
    }
}

/// Picks the lines that were asked for: the last ones, or those from `offset` on.
pub fn log_page(output: &str, offset: Option<u64>, limit: Option<u64>) -> LogPage {
    let lines: Vec<&str> = output.lines().collect();
    let total = lines.len();
    let size = |count: u64| usize::try_from(count).unwrap_or(usize::MAX);
    let (from, count) = match (offset, limit) {
        (None, limit) => {
            let count = size(limit.unwrap_or(LOG_LINES)).min(total);
            (total - count, count)
        }
        (Some(offset), limit) => {
            let from = size(offset).min(total);
            (from, limit.map_or(total - from, |limit| size(limit).min(total - from)))
        }
    };
    let shown = lines.into_iter().skip(from).take(count).collect::<Vec<_>>().join("\n");
    let is_cut = count < total;
    let text = match (offset, limit) {
        (None, None) if is_cut => format!(
            "{shown}\n\n[The last {count} of {total} lines; for others call again with offset and limit]"
        ),
        _ => shown,
    };
    LogPage { text, total_lines: total as u64, is_cut }
}

/// One line of `list`.
pub fn list_line(id: &str, status: &str, ran: Duration, name: &str) -> String {
    format!("{id} {status:<9} {} :: {name}", short(ran))
}

fn short(time: Duration) -> String {
    let seconds = time.as_secs();
    match (seconds / 3600, seconds / 60 % 60, seconds % 60) {
        (0, 0, seconds) => format!("{seconds}s"),
        (0, minutes, seconds) => format!("{minutes}m{seconds:02}s"),
        (hours, minutes, _) => format!("{hours}h{minutes:02}m"),
    }
}

/// A command as one short line.
pub fn name_of(command: &str) -> String {
    const MOST: usize = 80;
    let line = command.split_whitespace().collect::<Vec<_>>().join(" ");
    match line.char_indices().nth(MOST) {
        None => line,
        Some((end, _)) => format!("{}…", line.get(..end).unwrap_or_default()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_log_shows_its_end_or_what_was_asked_for() {
        let output = "1\n2\n3\n4\n";
        let page = |offset, limit| log_page(output, offset, limit);
        let whole = LogPage { text: "1\n2\n3\n4".to_owned(), total_lines: 4, is_cut: false };
        assert_eq!(page(None, None), whole);
        assert_eq!(page(None, Some(2)).text, "3\n4");
        assert_eq!(page(Some(1), None).text, "2\n3\n4");
        assert_eq!(page(Some(1), Some(2)).text, "2\n3");
        assert_eq!(page(Some(9), Some(2)).text, "");
        let long = "x\n".repeat(300);
        let page = log_page(&long, None, None);
        assert!(page.is_cut && page.text.contains("The last 200 of 300 lines"));
    }

    #[test]
    fn whoever_asks_in_vain_waits_longer() {
        let waits = [1, 2, 3, 4, 5].map(retry_in_ms);
        assert_eq!(waits, [5_000, 10_000, 30_000, 60_000, 60_000]);
    }

    #[test]
    fn a_line_of_the_list_is_short() {
        let line = list_line("quiet-harbor", "running", Duration::from_secs(65), "make");
        assert_eq!(line, "quiet-harbor running   1m05s :: make");
        assert_eq!(name_of("a \n  b"), "a b");
        assert_eq!(name_of(&"ä".repeat(90)).chars().count(), 81);
    }
}
