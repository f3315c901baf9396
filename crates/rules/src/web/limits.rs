//! How much a fetch may take (`tools.web.fetch`).

use std::time::Duration;

use crate::config::Config;

/// What holds for every fetch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits {
    /// Characters shown, if the call does not say.
    pub characters: usize,
    /// Characters shown at most, whatever the call says.
    pub most_characters: usize,
    /// Bytes taken of an answer, before and after it is unpacked.
    pub bytes: usize,
    pub redirects: usize,
    /// For all of it together.
    pub time: Duration,
    /// How long an answer is given again without asking; zero for never.
    pub kept: Duration,
    pub user_agent: String,
}

/// Fewer characters are no answer.
pub const LEAST_CHARACTERS: usize = 100;
/// Characters shown of a page that says it is none.
pub const ERROR_CHARACTERS: usize = 4_000;
const CHARACTERS: usize = 50_000;
const BYTES: (usize, usize, usize) = (32_000, 2_000_000, 10_000_000);
const REDIRECTS: (usize, usize) = (3, 10);
const SECONDS: (u64, u64) = (30, 120);
const MINUTES: (u64, u64) = (15, 24 * 60);
/// Says what it is; some sites answer nobody who does not look like a browser, hence the first word.
const USER_AGENT: &str =
    concat!("Mozilla/5.0 (compatible; clawpen/", env!("CARGO_PKG_VERSION"), ")");

impl Default for Limits {
    fn default() -> Self {
        Self {
            characters: CHARACTERS,
            most_characters: CHARACTERS,
            bytes: BYTES.1,
            redirects: REDIRECTS.0,
            time: Duration::from_secs(SECONDS.0),
            kept: Duration::from_secs(MINUTES.0 * 60),
            user_agent: USER_AGENT.to_owned(),
        }
    }
}

/// Whether the config lets anybody fetch at all; the tool policy still has its say.
pub fn is_enabled(config: &Config) -> bool {
    let written = config.at(&["tools", "web", "fetch", "enabled"]);
    // What is neither true nor false is no yes.
    written.is_none_or(|at| at.node.as_bool() == Some(true))
}

/// What a config says, within bounds.
pub fn resolve(config: &Config) -> Limits {
    let number = |key: &str| {
        let at = config.at(&["tools", "web", "fetch", key])?;
        at.node.as_number().filter(|number| number.is_finite() && *number >= 0.0).map(whole)
    };
    let count = |key: &str| number(key).map(|number| usize::try_from(number).unwrap_or(usize::MAX));
    let built_in = Limits::default();
    let most_characters = count("maxCharsCap").map_or(CHARACTERS, |cap| cap.max(LEAST_CHARACTERS));
    let agent = config.at(&["tools", "web", "fetch", "userAgent"]);
    let agent = agent.and_then(|at| at.node.as_str().map(str::to_owned));
    let is_header = |text: &String| {
        !text.is_empty()
            && text.len() <= 500
            && text.bytes().all(|byte| (b' '..=b'~').contains(&byte))
    };
    Limits {
        characters: count("maxChars")
            .unwrap_or(CHARACTERS)
            .clamp(LEAST_CHARACTERS, most_characters),
        most_characters,
        bytes: count("maxResponseBytes").unwrap_or(BYTES.1).clamp(BYTES.0, BYTES.2),
        redirects: count("maxRedirects").unwrap_or(REDIRECTS.0).min(REDIRECTS.1),
        time: Duration::from_secs(
            number("timeoutSeconds").unwrap_or(SECONDS.0).clamp(1, SECONDS.1),
        ),
        kept: Duration::from_secs(
            number("cacheTtlMinutes").unwrap_or(MINUTES.0).min(MINUTES.1) * 60,
        ),
        user_agent: agent.filter(is_header).unwrap_or(built_in.user_agent),
    }
}

impl Limits {
    /// Characters that one call shows.
    pub fn shown(&self, asked: Option<u64>) -> usize {
        let asked = asked.map(|asked| usize::try_from(asked).unwrap_or(usize::MAX));
        asked.unwrap_or(self.characters).clamp(LEAST_CHARACTERS, self.most_characters)
    }
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "filtered to be no less than 0; a cast saturates"
)]
fn whole(number: f64) -> u64 {
    number as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::json5;
    use crate::config::tree::FileId;

    fn config(fetch: &str) -> Config {
        let text = format!("{{tools: {{web: {{fetch: {{{fetch}}}}}}}}}");
        Config::from_tree(json5::parse(&text, FileId(0)).unwrap().root, Vec::new())
    }

    #[track_caller]
    fn check(fetch: &str, change: impl FnOnce(&mut Limits)) {
        let mut expected = Limits::default();
        change(&mut expected);
        assert_eq!(resolve(&config(fetch)), expected, "{fetch}");
    }

    #[test]
    fn what_a_config_says_holds_within_bounds() {
        check("", |_| {});
        check("maxChars: 1000", |limits| limits.characters = 1000);
        check("maxChars: 99999999", |_| {});
        check("maxChars: 1", |limits| limits.characters = 100);
        check("maxCharsCap: 500", |limits| {
            (limits.characters, limits.most_characters) = (500, 500);
        });
        check("maxResponseBytes: 1", |limits| limits.bytes = 32_000);
        check("maxResponseBytes: 1e12", |limits| limits.bytes = 10_000_000);
        check("maxRedirects: 0", |limits| limits.redirects = 0);
        check("maxRedirects: 1e9", |limits| limits.redirects = 10);
        check("timeoutSeconds: 0", |limits| limits.time = Duration::from_secs(1));
        check("timeoutSeconds: 1e9", |limits| limits.time = Duration::from_secs(120));
        check("cacheTtlMinutes: 0", |limits| limits.kept = Duration::ZERO);
        check("userAgent: 'mine/1'", |limits| limits.user_agent = "mine/1".to_owned());
        // What is no such value says nothing.
        for odd in [
            "maxChars: 'x'",
            "maxChars: -1",
            "timeoutSeconds: null",
            "userAgent: 'a\\r\\nb: c'",
            "userAgent: ''",
        ] {
            check(odd, |_| {});
        }
    }

    #[test]
    fn a_call_may_ask_for_less_or_more_but_not_beyond_the_cap() {
        let limits = resolve(&config("maxChars: 1000, maxCharsCap: 5000"));
        for (asked, shown) in [
            (None, 1000),
            (Some(200), 200),
            (Some(4000), 4000),
            (Some(u64::MAX), 5000),
            (Some(1), 100),
        ] {
            assert_eq!(limits.shown(asked), shown);
        }
    }

    #[test]
    fn only_true_leaves_it_on() {
        for (fetch, expected) in [
            ("", true),
            ("enabled: true", true),
            ("enabled: false", false),
            ("enabled: 'yes'", false),
            ("enabled: null", false),
        ] {
            assert_eq!(is_enabled(&config(fetch)), expected, "{fetch}");
        }
    }
}
