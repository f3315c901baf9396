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
