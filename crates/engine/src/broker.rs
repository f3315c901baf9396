//! Waits for people: an approval from the question to the run, whoever asks and whoever answers.
//!
//! ```text
//!            answer, or the time is over                claim                     end
//! pending ───────────────────────────────► settled ───────────────► running ────────────► ended
//!    │                                        │                        │  └ files changed ► refused
//!    └ whoever asked takes it back            └ nobody came to run it  └ the runner died ► lost
//!      ► withdrawn                              ► withdrawn
//! ```
//!
//! A row holds the frozen plan as it was shown (variables by name only) and lives in the database, so
//! that any process can list and answer it and none can lose it. Every change is one transaction that
//! names the state it starts from: exactly one answer wins, and a time-out is an answer like any
//! other. The record in the audit chain is part of the same transaction. What cannot be known after a
//! kill is never run again: a row that was claimed by a process that died is `lost`.
//!
//! Decides nothing: who may answer is `rules::approval::resolver`, what an answer means is
//! `rules::approval::answer`, and the plan is looked at again by [`crate::host_exec`].

mod asking;
pub mod place;
mod row;
mod run;
mod settle;
mod shape;
pub mod socket;
mod wait;

use std::fmt;
use std::io;
use std::os::unix::fs::MetadataExt as _;

use clawpen_rules::approval::answer::{Settled, Word};
use clawpen_rules::approval::file::{AgentKey, Change};
use clawpen_rules::approval::resolver::{self, Asked, MayAnswer, Resolver, RunPlace, WhyNot};
use clawpen_rules::command::escape;
use rusqlite::named_params;

pub use asking::{Ask, Asker, Bound, DEFAULT_TIMEOUT, MAX_PENDING, MAX_PENDING_PER_SESSION};
pub use row::{Approval, Id, Outcome, State};
pub(crate) use run::ending;
pub use run::{Means, NotRun, Ran};
pub use wait::POLL;

use crate::approvals_file::ApprovalsStore;
use crate::audit::{self, Call, Door, Piece, Reason, Verdict};
use crate::clock::Clock;
use crate::database::{Database, DatabaseError, Sql};
use crate::registry::Liveness;
use crate::{faults, random};

/// The approvals of one state directory. Cheap to make; one per thread, like the database.
#[derive(Clone, Copy)]
pub struct Broker<'a> {
    pub database: &'a Database,
    /// Where "allow always" is remembered.
    pub approvals: &'a ApprovalsStore,
    pub clock: &'a dyn Clock,
}

impl fmt::Debug for Broker<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Broker").field("database", &self.database.path()).finish_non_exhaustive()
    }
}

/// What could not be done or found out.
#[derive(Debug, thiserror::Error)]
pub enum BrokerError {
    #[error(transparent)]
    Database(#[from] DatabaseError),
    #[error("no approval is called `{id}`; see `clawpen approvals list`")]
    NotFound { id: String },
    #[error("`{id}` begins several approvals ({}); write more of it", .found.join(", "))]
    Ambiguous { id: String, found: Vec<String> },
    #[error(
        "{count} approvals of this session wait already, and more than {most} are not kept; answer \
         them with `clawpen approvals watch`"
    )]
    TooManyOfSession { count: u64, most: u64 },
    #[error(
        "{count} approvals wait already, and more than {most} are not kept; answer them with \
         `clawpen approvals watch`"
    )]
    TooMany { count: u64, most: u64 },
    #[error("the {what} is {bytes} bytes long; nobody can judge more than {most}")]
    TooLong { what: &'static str, bytes: usize, most: usize },
    #[error("cannot {what}")]
    Io {
        what: &'static str,
        #[source]
        cause: io::Error,
    },
}

/// What came of an answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Resolved {
    pub id: Id,
    pub word: Word,
    pub what: Taken,
}

/// Whether an answer counts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Taken {
    /// It is the one that counts.
    Counts { by: String, remembered: Remembered, asker: Liveness },
    /// Too late: the time was over, somebody else was first, or it was taken back. Nothing changed.
    Late { state: State, word: Option<Word>, by: Option<String> },
    /// Whoever spoke may not answer. Nothing changed.
    Refused(WhyNot),
}

/// What "allow always" came to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Remembered {
    /// The answer was another.
    NotAsked,
    /// There is nothing in this command that may be remembered; it runs this once.
    Nothing,
    /// The patterns of the entries.
    Entries(Vec<String>),
    /// The file could not be changed; the command runs this once.
    Failed(String),
}

/// Which approvals to list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Which {
    Pending,
    /// Those that came to their end too, the newest of them.
    All,
}

impl Broker<'_> {
    /// Gives an answer to a pending approval. `id` is its id, or the beginning of it that no other
    /// pending one has.
    ///
    /// # Errors
    /// If there is no such approval. An answer that does not count is a value: [`Taken`].
    pub fn resolve(
        &self,
        id: &str,
        word: Word,
        resolver: &Resolver,
    ) -> Result<Resolved, BrokerError> {
        self.finish_remembering()?;
        let now = self.clock.now();
        let owner = self.owner()?;
        let (approval, by) = self.database.write(|sql| {
            settle::sweep(sql, &now)?;
            let approval = row::find(sql, id)?;
            let client = approval.client.as_deref();
            let asked = Asked { owner, client, place: approval.place() };
            let by = match resolver::decide(resolver, asked, word) {
                MayAnswer::Yes(by) => by,
                MayAnswer::No(why) => {
                    let reason = format!("{} is not heard: {why}", resolver.speaker);
                    let reason = [Piece::Ours(&reason)];
                    let call = approval.record(door(resolver), Verdict::Refused, &reason);
                    audit::append_call(sql, &call, now.wall)?;
                    return Ok::<_, BrokerError>((approval, Err(Taken::Refused(why))));
                }
            };
            if approval.state != State::Pending {
                let late = Taken::Late {
                    state: approval.state,
                    word: approval.word,
                    by: approval.resolver.clone(),
                };
                return Ok((approval, Err(late)));
            }
            answer(sql, &approval, (word, by.as_str()), &now)?;
            let verdict = match word {
                Word::AllowOnce | Word::AllowAlways => Verdict::Approved,
                Word::Deny => Verdict::Denied,
            };
            let reason = format!("{} by {}", word.as_str(), by.as_str());
            let call = approval.record(door(resolver), verdict, &[Piece::Ours(&reason)]);
            audit::append_call(sql, &call, now.wall)?;
            Ok((approval, Ok(by)))
        })?;
        let what = match by {
            Err(not_counted) => not_counted,
            Ok(by) => {
                faults::reached("broker.answered");
                let remembered = match word {
                    Word::AllowAlways => self.remember(&approval)?,
                    Word::AllowOnce | Word::Deny => Remembered::NotAsked,
                };
                let asker = approval.holder.liveness();
                Taken::Counts { by: by.as_str().to_owned(), remembered, asker }
            }
        };
        Ok(Resolved { id: approval.id, word, what })
    }

    /// The approvals, oldest first. What is due is settled first, so that no row lies.
    pub fn list(&self, which: Which) -> Result<Vec<Approval>, BrokerError> {
        self.finish_remembering()?;
        let now = self.clock.now();
        let is_due = self.database.read(|sql| settle::is_due(sql, &now))?;
        if is_due {
            self.database.write(|sql| settle::sweep(sql, &now))?;
        }
        Ok(self.database.read(|sql| row::list(sql, which))?)
    }

    /// One approval, by its id or the beginning of it.
    pub fn get(&self, id: &str) -> Result<Approval, BrokerError> {
        self.database.read(|sql| row::find(sql, id))
    }

    /// Takes a question back: whoever asked does not wait any longer. One that is settled already
    /// stays as it is, but nothing runs for it any more.
    pub fn withdraw(&self, id: &Id) -> Result<(), BrokerError> {
        let now = self.clock.now();
        self.database.write(|sql| {
            let approval = row::by_id(sql, id)?;
            if !matches!(approval.state, State::Pending | State::Settled) {
                return Ok(());
            }
            settle::withdraw(sql, &approval, "whoever asked took it back", &now)?;
            Ok(())
        })
    }

    /// Stores what "always" means for a command. The answer counts already; if we die in between, the
    /// next process does this again, and adding the same entry twice changes nothing.
    fn remember(&self, approval: &Approval) -> Result<Remembered, BrokerError> {
        if approval.entries.is_empty() {
            return Ok(Remembered::Nothing);
        }
        let entries: Vec<_> = approval.entries.iter().map(|kept| kept.clone().entry()).collect();
        let key = AgentKey::of(&approval.agent);
        let now = self.clock.now().wall.as_millis();
        let edited = self.approvals.edit(|file| {
            let changes = entries
                .iter()
                .map(|entry| file.add(&key, entry.clone(), now, &mut random::uuid))
                .collect::<Vec<_>>();
            if changes.contains(&Change::Changed) { Change::Changed } else { Change::Unchanged }
        });
        faults::reached("broker.remembered");
        let (mark, remembered) = match edited {
            Ok(_) => {
                let patterns = entries.iter().map(|entry| entry.as_pattern().to_owned());
                ("done", Remembered::Entries(patterns.collect()))
            }
            Err(error) => {
                let cause = std::error::Error::source(&error).map(|cause| format!(": {cause}"));
                let text = format!("{error}{}", cause.unwrap_or_default());
                ("failed", Remembered::Failed(text))
            }
        };
        self.database.write(|sql| {
            let sql_text = "UPDATE approvals SET remember = ?2 WHERE id = ?1 AND remember = 'due'";
            sql.run(sql_text, (approval.id.as_str(), mark)).map(drop)
        })?;
        Ok(remembered)
    }

    /// Does what a process that died between an answer and the approvals file left to do.
    fn finish_remembering(&self) -> Result<(), BrokerError> {
        for approval in self.database.read(row::to_remember)? {
            self.remember(&approval)?;
        }
        Ok(())
    }

    /// The user whose state this is.
    fn owner(&self) -> Result<u32, BrokerError> {
        let facts = std::fs::metadata(self.database.path());
        let facts =
            facts.map_err(|cause| BrokerError::Io { what: "look at the database", cause })?;
        Ok(facts.uid())
    }
}

/// Writes the answer down.
fn answer(
    sql: Sql<'_>,
    approval: &Approval,
    (word, by): (Word, &str),
    now: &clawpen_rules::timestamp::Moment,
) -> Result<(), DatabaseError> {
    let is_due = word == Word::AllowAlways && !approval.entries.is_empty();
    sql.run(
        "UPDATE approvals SET state = 'settled', answer = :answer, resolver = :by,
            remember = :remember, answered = :wall, answered_boot = :boot,
            answered_uptime = :uptime
         WHERE id = :id AND state = 'pending'",
        named_params! {
            ":id": approval.id.as_str(),
            ":answer": word.as_str(),
            ":by": by,
            ":remember": if is_due { "due" } else { "none" },
            ":wall": now.wall.as_millis(),
            ":boot": now.boot.as_ref().map(|boot| boot.id.as_str()),
            ":uptime": now.boot.as_ref().map(|boot| boot.millis),
        },
    )
    .map(drop)
}

/// The door that an answer came through.
fn door(resolver: &Resolver) -> Door {
    use clawpen_rules::approval::resolver::Speaker;
    match &resolver.speaker {
        Speaker::CliUser { .. } => Door::Cli,
        Speaker::McpClient { .. } | Speaker::Agent { .. } => Door::Mcp,
        Speaker::GatewayClient { .. } => Door::Websocket,
        Speaker::SocketClient { .. } => Door::Socket,
    }
}

impl Approval {
    /// A record about this approval. Words, paths and the text itself are hidden where its reason quotes them.
    fn record(&self, door: Door, verdict: Verdict, reason: &[Piece<'_>]) -> Call {
        let steps = self.plan.iter().flat_map(|plan| &plan.steps);
        let mut private: Vec<&str> = vec![&self.command, &self.cwd];
        let escaped = escape(&self.command);
        private.push(&escaped);
        for step in steps {
            private.extend(step.argv.iter().map(String::as_str));
            for file in std::iter::once(&step.file).chain(&step.others) {
                private.extend([file.path.as_str(), file.real_path.as_str()]);
            }
        }
        Call {
            call: self.id.to_string(),
            session: self.session.clone(),
            agent: Some(self.agent.to_string()),
            scope: None,
            door,
            tool: "exec".to_owned(),
            verdict,
            reason: Reason::of(reason, private),
            ending: None,
            duration: std::time::Duration::ZERO,
            bytes_in: 0,
            bytes_out: 0,
        }
    }

    /// Where it would run. Without a plan it stays in the sandbox, unless somebody else runs it.
    pub fn place(&self) -> RunPlace {
        match (&self.plan, self.door) {
            (Some(_), _) | (None, Door::Socket) => RunPlace::Host,
            (None, Door::Cli | Door::Mcp | Door::Websocket | Door::Http) => RunPlace::Sandbox,
        }
    }

    /// What it comes to, once it is settled.
    pub fn outcome(&self) -> Option<Outcome> {
        match self.state {
            State::Pending => None,
            State::Withdrawn => Some(Outcome::Withdrawn),
            State::Settled | State::Running | State::Ended | State::Refused | State::Lost => {
                Some(Outcome::Settled(self.settled()))
            }
        }
    }

    /// What the answer, or silence if there is none, means.
    fn settled(&self) -> Settled {
        use clawpen_rules::approval::answer::{Answer, decide};
        let answer = self.word.map_or(Answer::Silence, Answer::from);
        decide(answer, self.fallback, self.looks).for_coverage(self.coverage)
    }
}

#[cfg(test)]
mod tests;
