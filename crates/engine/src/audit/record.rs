//! One record of the chain, and the bytes its hash is taken of.
//!
//! The bytes are ours and never change for records that exist: a field more is a new tag. Each
//! field is written with its length, so no two records share their bytes.

use std::fmt;
use std::time::Duration;

use clawpen_rules::timestamp::Timestamp;
use sha2::{Digest as _, Sha256};

/// Longer text is cut: a name from outside must not fill the disk.
const MAX_CHARS: usize = 300;
/// Stands for what a record has no place for.
const HIDDEN: &str = "…";
/// Opens the bytes of every record; the number is the version of this layout.
const TAG: &[u8] = b"clawpen audit record 1\n";

/// A record in its place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record {
    /// Counts from 1, without gaps.
    pub seq: u64,
    /// What the wall clock said; the order is that of `seq`, whatever the clock did.
    pub time: Timestamp,
    pub event: Event,
    /// Of the record before, or of the base.
    pub previous: Hash,
    pub hash: Hash,
}

/// What happened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    Call(Call),
    /// Records up to `through` were dropped, and this vouches for them.
    Retention {
        through: Head,
        reason: Reason,
    },
    /// The database was made anew because the old one was corrupt. `through` is the old head, if it
    /// could still be read.
    Rebuild {
        through: Option<Head>,
        reason: Reason,
    },
}

/// One call. Has no place for contents, arguments, variables or paths.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Call {
    pub call: String,
    pub session: Option<String>,
    pub agent: Option<String>,
    pub scope: Option<String>,
    pub door: Door,
    pub tool: String,
    pub verdict: Verdict,
    pub reason: Reason,
    /// `None` if nothing ran.
    pub ending: Option<Ending>,
    pub duration: Duration,
    pub bytes_in: u64,
    pub bytes_out: u64,
}

/// Where a call came in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Door {
    Cli,
    Mcp,
    Websocket,
    Http,
    /// The unix socket of the approvals file.
    Socket,
}

/// What was decided.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Verdict {
    /// A rule let it through.
    Allowed,
    /// A rule refused it.
    Refused,
    /// A person is asked; what came of it is a record of its own.
    Asked,
    /// A person was asked and agreed.
    Approved,
    /// A person was asked and did not agree, or did not answer.
    Denied,
    /// It could not be decided or could not be done, so nothing ran.
    Failed,
}

/// How what ran came to its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Ending {
    Exit(i32),
    Signal(i32),
    TimedOut,
    /// The sandbox or the connection to it ended first.
    Lost,
}

/// The reason of a verdict, in the words that the rule gave: one line, and not long.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reason(String);

/// A SHA-256.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Hash(pub [u8; 32]);

/// The end of the chain at some moment. Kept elsewhere, it proves everything up to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Head {
    pub seq: u64,
    pub hash: Hash,
}

impl Door {
    pub const ALL: [Self; 5] = [Self::Cli, Self::Mcp, Self::Websocket, Self::Http, Self::Socket];

    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|door| door.as_str() == text)
    }

    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Cli => "cli",
            Self::Mcp => "mcp",
            Self::Websocket => "websocket",
            Self::Http => "http",
            Self::Socket => "socket",
        }
    }
}

impl Verdict {
    pub const ALL: [Self; 6] =
        [Self::Allowed, Self::Refused, Self::Asked, Self::Approved, Self::Denied, Self::Failed];

    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Allowed => "allowed",
            Self::Refused => "refused",
            Self::Asked => "asked",
            Self::Approved => "approved",
            Self::Denied => "denied",
            Self::Failed => "failed",
        }
    }

    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|verdict| verdict.as_str() == text)
    }
}

impl Ending {
    /// `exit 0`, `signal 9`, `timed out`, `lost`.
    pub fn parse(text: &str) -> Option<Self> {
        match text.split_once(' ') {
            Some(("exit", code)) => code.parse().ok().map(Self::Exit),
            Some(("signal", number)) => number.parse().ok().map(Self::Signal),
            _ if text == "timed out" => Some(Self::TimedOut),
            _ if text == "lost" => Some(Self::Lost),
            _ => None,
        }
    }
}

impl fmt::Display for Ending {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Exit(code) => write!(f, "exit {code}"),
            Self::Signal(number) => write!(f, "signal {number}"),
            Self::TimedOut => f.write_str("timed out"),
            Self::Lost => f.write_str("lost"),
        }
    }
}

impl Reason {
    /// A reason whose words are the rule's own and the config's.
    pub fn new(text: &str) -> Self {
        Self(short(text))
    }

    /// A reason that may quote what the caller sent. Every occurrence of a `private` text (an
    /// argument, a value, a path) becomes `…`; the longest go first, so no piece of one remains.
    pub fn hiding<'a>(text: &str, private: impl IntoIterator<Item = &'a str>) -> Self {
        let mut private: Vec<&str> = private.into_iter().filter(|text| !text.is_empty()).collect();
        private.sort_by_key(|text| std::cmp::Reverse(text.len()));
        let hidden = private.iter().fold(text.to_owned(), |text, word| hide(&text, word));
        Self(short(&hidden))
    }

    /// A reason made of pieces. In those that may quote the caller nothing stays between backticks but what is ours
    /// and none of the `private` texts; outside them everything stays: whoever chooses the words of a command must not
    /// choose which of ours disappear.
    pub fn of<'a>(pieces: &[Piece<'_>], private: impl IntoIterator<Item = &'a str>) -> Self {
        let private: Vec<&str> = private.into_iter().collect();
        let pieces = pieces.iter().map(|piece| match piece {
            Piece::Ours(text) => (*text).to_owned(),
            Piece::Quoting(text) => hide_quoted(text, &private),
        });
        Self(short(&pieces.collect::<String>()))
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// As it was stored.
    pub(super) const fn stored(text: String) -> Self {
        Self(text)
    }
}

/// A piece of a [`Reason`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Piece<'a> {
    /// Who, which word, which plan: it stays as it is.
    Ours(&'a str),
    /// A sentence that may quote the caller, between backticks.
    Quoting(&'a str),
}

/// What the record keeps of a sentence that may quote the caller: between backticks only what is a key or a value of our
/// settings, or a sign. A rule quotes words as it read them, without quotes and backslashes, so looking for them as
/// they were sent would miss them. If a private text has backticks itself, nobody can tell where a quotation ends, so all
/// between the first and the last of them goes, and all after the first if one has no partner: it may be cut.
fn hide_quoted(text: &str, private: &[&str]) -> String {
    let is_whole = text.matches('`').count().is_multiple_of(2);
    if !is_whole || private.iter().any(|word| word.contains('`')) {
        let Some((before, rest)) = text.split_once('`') else { return text.to_owned() };
        let after = rest.rsplit_once('`').filter(|_| is_whole).map_or("", |(_, after)| after);
        return format!("{before}`{HIDDEN}`{after}");
    }
    let is_kept = |quoted: &str| is_ours(quoted) && !private.contains(&quoted);
    let pieces = text.split('`').enumerate().map(|(index, piece)| match index % 2 {
        1 if !is_kept(piece) => HIDDEN,
        _ => piece,
    });
    pieces.collect::<Vec<_>>().join("`")
}

/// Says whether this is a key of a config, a value that such a key takes, or no word at all.
fn is_ours(quoted: &str) -> bool {
    const VALUES: &[&str] =
        &["allowlist", "always", "ask", "deny", "full", "off", "on-miss", "security", "workdir"];
    VALUES.contains(&quoted) || is_key(quoted) || !quoted.chars().any(char::is_alphanumeric)
}

/// Says whether every part is a word of our config, but for names of agents and providers, which stand within a key. What
/// only begins like a key may be anything: the name of a machine, a token.
fn is_key(quoted: &str) -> bool {
    const SECTIONS: &[&str] = &["agents", "approvals", "defaults", "session", "tools"];
    const BEFORE_NAMES: &[&str] = &["agents", "allowFrom", "byProvider", "entries"];
    let is_name_sign = |c: char| c.is_ascii_alphanumeric() || "_-*".contains(c);
    let parts: Vec<&str> = quoted.split('.').collect();
    let before = std::iter::once("").chain(parts.iter().copied());
    let is_sound = before.zip(&parts).enumerate().all(|(index, (before, part))| {
        let is_within = index > 0 && index + 1 < parts.len();
        let is_name = is_within && BEFORE_NAMES.contains(&before) && part.chars().all(is_name_sign);
        is_name || is_key_word(part)
    });
    is_sound && parts.len() > 1 && parts.first().is_some_and(|first| SECTIONS.contains(first))
}

/// A word of our config, with the number of an entry behind it where it is a list.
fn is_key_word(part: &str) -> bool {
    const WORDS: &str = "agents allow allowFrom alsoAllow applyPatch approvals ask askFallback askInSandbox \
        autoAllowSkills backend binds byProvider defaults deny docker elevated elevatedDefault elicitation enabled entries \
        env exec fetch fs host list main mode network pathPrepend profile safeBinTrustedDirs safeBins sandbox security \
        session strictInlineEval subagents timeoutSec tools web workspace workspaceAccess";
    let (word, index) = part.split_once('[').unwrap_or((part, "]"));
    let index = index.strip_suffix(']').filter(|index| index.len() < 6);
    let is_index = |index: &str| index == "*" || index.chars().all(|c| c.is_ascii_digit());
    index.is_some_and(is_index) && WORDS.split_whitespace().any(|known| known == word)
}

/// A word of one or two letters hides only where it stands alone: `a` is part of every sentence.
fn hide(text: &str, word: &str) -> String {
    if word.chars().count() > 2 {
        return text.replace(word, HIDDEN);
    }
    let is_edge = |c: Option<char>| c.is_none_or(|c| !c.is_alphanumeric());
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once(word) {
        let last = before.chars().next_back().or_else(|| out.chars().next_back());
        let stands_alone = is_edge(last) && is_edge(after.chars().next());
        out.push_str(before);
        out.push_str(if stands_alone { HIDDEN } else { word });
        rest = after;
    }
    out + rest
}

/// One line of at most [`MAX_CHARS`] characters.
pub(super) fn short(text: &str) -> String {
    let is_short = text.len() <= MAX_CHARS;
    if is_short && text.bytes().all(|byte| byte == b' ' || byte.is_ascii_graphic()) {
        return text.to_owned();
    }
    let plain = |c: char| if c.is_control() { ' ' } else { c };
    let mut out: String = text.chars().take(MAX_CHARS).map(plain).collect();
    if text.chars().nth(MAX_CHARS).is_some() {
        out.pop();
        out.push('…');
    }
    out
}

impl Hash {
    /// What the first record of all is chained to.
    pub const ZERO: Self = Self([0; 32]);

    /// 64 lower-case hex digits.
    pub fn parse(text: &str) -> Option<Self> {
        let digits = text.as_bytes();
        if digits.len() != 64 {
            return None;
        }
        let mut bytes = [0; 32];
        for (byte, pair) in bytes.iter_mut().zip(digits.chunks_exact(2)) {
            let [high, low] = pair else { return None };
            let digit = |c: u8| char::from(c).to_digit(16).and_then(|d| u8::try_from(d).ok());
            *byte = digit(*high)? << 4 | digit(*low)?;
        }
        Some(Self(bytes))
    }
}

impl fmt::Display for Hash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for Hash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl Head {
    /// Before the first record.
    pub const START: Self = Self { seq: 0, hash: Hash::ZERO };

    /// `<seq>:<hash>`, as it prints.
    pub fn parse(text: &str) -> Option<Self> {
        let (seq, hash) = text.trim().split_once(':')?;
        Some(Self { seq: seq.parse().ok()?, hash: Hash::parse(hash)? })
    }
}

impl fmt::Display for Head {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.seq, self.hash)
    }
}

/// The hash of a record that follows `previous`.
pub(super) fn hash(seq: u64, time: Timestamp, event: &Event, previous: Hash) -> Hash {
    let mut bytes = Bytes(Vec::with_capacity(512));
    bytes.0.extend_from_slice(TAG);
    bytes.0.extend_from_slice(&previous.0);
    bytes.number(seq);
    bytes.number(time.as_millis());
    match event {
        Event::Call(call) => bytes.call(call),
        Event::Retention { through, reason } => {
            bytes.text("retention");
            bytes.head(Some(*through));
            bytes.text(reason.as_str());
        }
        Event::Rebuild { through, reason } => {
            bytes.text("rebuild");
            bytes.head(*through);
            bytes.text(reason.as_str());
        }
    }
    Hash(Sha256::digest(&bytes.0).into())
}

/// Bytes in which every part says how long it is.
struct Bytes(Vec<u8>);

impl Bytes {
    fn number(&mut self, number: u64) {
        self.0.extend_from_slice(&number.to_be_bytes());
    }

    fn text(&mut self, text: &str) {
        self.number(text.len() as u64);
        self.0.extend_from_slice(text.as_bytes());
    }

    fn maybe(&mut self, text: Option<&str>) {
        self.0.push(u8::from(text.is_some()));
        self.text(text.unwrap_or_default());
    }

    fn head(&mut self, head: Option<Head>) {
        self.0.push(u8::from(head.is_some()));
        let head = head.unwrap_or(Head::START);
        self.number(head.seq);
        self.0.extend_from_slice(&head.hash.0);
    }

    fn call(&mut self, call: &Call) {
        let Call { call: id, session, agent, scope, door, tool, .. } = call;
        let Call { verdict, reason, ending, duration, bytes_in, bytes_out, .. } = call;
        self.text("call");
        self.text(id);
        self.maybe(session.as_deref());
        self.maybe(agent.as_deref());
        self.maybe(scope.as_deref());
        self.text(door.as_str());
        self.text(tool);
        self.text(verdict.as_str());
        self.text(reason.as_str());
        self.maybe(ending.map(|ending| ending.to_string()).as_deref());
        self.number(micros(*duration));
        self.number(*bytes_in);
        self.number(*bytes_out);
    }
}

/// A duration as it is stored; 292,000 years are enough.
pub(super) fn micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX).min(i64::MAX.unsigned_abs())
}

impl Call {
    /// As it is stored: names cut to a sane length, the duration in microseconds. What is hashed is
    /// what is stored.
    pub(super) fn stored(&self) -> Self {
        let cut = |text: &Option<String>| text.as_deref().map(short);
        Self {
            call: short(&self.call),
            session: cut(&self.session),
            agent: cut(&self.agent),
            scope: cut(&self.scope),
            door: self.door,
            tool: short(&self.tool),
            verdict: self.verdict,
            reason: self.reason.clone(),
            ending: self.ending,
            duration: Duration::from_micros(micros(self.duration)),
            bytes_in: self.bytes_in.min(i64::MAX.unsigned_abs()),
            bytes_out: self.bytes_out.min(i64::MAX.unsigned_abs()),
        }
    }
}
