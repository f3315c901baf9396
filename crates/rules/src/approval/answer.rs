//! Decides what a person's answer, or their silence, means for a command that was asked about.
//!
//! Takes the answer and what silence stands for; returns what happens. Silence on suspicious text is
//! a no, whatever the approvals file says about silence.

use std::fmt;

use super::Coverage;
use crate::exec_host::Security;

/// What came back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answer {
    AllowOnce,
    AllowAlways,
    Deny,
    /// Nobody answered in time, or there was nobody to ask.
    Silence,
}

/// What a person can say.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Word {
    AllowOnce,
    AllowAlways,
    Deny,
}

/// Whether the text looked as if it hid something.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Looks {
    Plain,
    Obfuscated,
}

/// What an answer comes to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Settled {
    /// A person said yes to this command.
    Run,
    /// A person said yes to this command, today and later.
    RunAndRemember,
    /// Nobody answered, and `askFallback` is `full`.
    RunUnanswered,
    /// Nobody answered, and `askFallback` is `allowlist`: only what the list covers.
    RunIfCovered,
    Refuse(Denied),
}

/// Why an answer refuses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Denied {
    ByPerson,
    Silence,
    SilenceOnObfuscation,
    /// Silence, and the list does not cover the command.
    SilenceOnMiss,
}

impl Answer {
    /// The word that crosses the wire.
    pub fn parse(text: &str) -> Option<Self> {
        Word::parse(text).map(Self::from)
    }
}

impl From<Word> for Answer {
    fn from(word: Word) -> Self {
        match word {
            Word::AllowOnce => Self::AllowOnce,
            Word::AllowAlways => Self::AllowAlways,
            Word::Deny => Self::Deny,
        }
    }
}

impl Word {
    pub const ALL: [Self; 3] = [Self::AllowOnce, Self::AllowAlways, Self::Deny];

    /// Exact spelling only.
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|word| word.as_str() == text)
    }

    /// As it crosses the wire.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::AllowOnce => "allow-once",
            Self::AllowAlways => "allow-always",
            Self::Deny => "deny",
        }
    }
}

impl Looks {
    /// What signs of hiding come to.
    pub const fn of(signs: &[crate::command::Obfuscation]) -> Self {
        if signs.is_empty() { Self::Plain } else { Self::Obfuscated }
    }
}

/// Decides what an answer means. `fallback` is what silence stands for.
#[must_use]
pub fn decide(answer: Answer, fallback: Security, looks: Looks) -> Settled {
    match (answer, looks, fallback) {
        (Answer::AllowOnce, _, _) => Settled::Run,
        (Answer::AllowAlways, _, _) => Settled::RunAndRemember,
        (Answer::Deny, _, _) => Settled::Refuse(Denied::ByPerson),
        (Answer::Silence, Looks::Obfuscated, _) => Settled::Refuse(Denied::SilenceOnObfuscation),
        (Answer::Silence, Looks::Plain, Security::Deny) => Settled::Refuse(Denied::Silence),
        (Answer::Silence, Looks::Plain, Security::Allowlist) => Settled::RunIfCovered,
        (Answer::Silence, Looks::Plain, Security::Full) => Settled::RunUnanswered,
    }
}

impl Settled {
    /// The last word, once it is known whether the list covers the command.
    #[must_use]
    pub const fn for_coverage(self, coverage: Coverage) -> Self {
        match (self, coverage) {
            (Self::RunIfCovered, Coverage::Covered) => Self::RunUnanswered,
            (Self::RunIfCovered, Coverage::Missed | Coverage::NotAnalysable) => {
                Self::Refuse(Denied::SilenceOnMiss)
            }
            (other, _) => other,
        }
    }
}

impl fmt::Display for Denied {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::ByPerson => "user-denied",
            Self::Silence => "approval-timeout",
            Self::SilenceOnObfuscation => "approval-timeout (obfuscation-detected)",
            Self::SilenceOnMiss => "approval-timeout (allowlist-miss)",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(answer: Answer, fallback: Security, looks: Looks, expected: Settled) {
        let found = decide(answer, fallback, looks);
        assert_eq!(found, expected, "{answer:?} {fallback} {looks:?}");
    }

    #[test]
    fn a_persons_word_counts_whatever_silence_would_mean() {
        for fallback in Security::ALL {
            for looks in [Looks::Plain, Looks::Obfuscated] {
                check(Answer::AllowOnce, fallback, looks, Settled::Run);
                check(Answer::AllowAlways, fallback, looks, Settled::RunAndRemember);
                check(Answer::Deny, fallback, looks, Settled::Refuse(Denied::ByPerson));
            }
        }
    }

    #[test]
    fn b25_silence_on_text_that_hides_something_is_a_no() {
        for fallback in Security::ALL {
            let no = Settled::Refuse(Denied::SilenceOnObfuscation);
            check(Answer::Silence, fallback, Looks::Obfuscated, no);
        }
        check(Answer::Silence, Security::Full, Looks::Plain, Settled::RunUnanswered);
        check(Answer::Silence, Security::Deny, Looks::Plain, Settled::Refuse(Denied::Silence));
    }

    #[test]
    fn silence_with_an_allowlist_runs_what_the_list_covers() {
        let settled = decide(Answer::Silence, Security::Allowlist, Looks::Plain);
        assert_eq!(settled.for_coverage(Coverage::Covered), Settled::RunUnanswered);
        for coverage in [Coverage::Missed, Coverage::NotAnalysable] {
            let no = Settled::Refuse(Denied::SilenceOnMiss);
            assert_eq!(settled.for_coverage(coverage), no);
        }
        assert_eq!(Settled::Run.for_coverage(Coverage::Missed), Settled::Run);
    }
}
