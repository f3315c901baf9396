//! Tells a session that a command which it left in the background has ended (`tools.exec.notifyOnExit`).
//!
//! ```text
//! exec answers "still running" ─► looked at now and then ─► it is over ─► the session has no run ─► a turn of its own
//!                                                              └ the session asked or ended it itself: nothing
//! ```
//!
//! A session that was ended, begun anew or deleted meanwhile is told nothing. A command's words may have the model start
//! it again and again, so only so many ends in a row are told, until somebody else speaks.
//!
//! The message comes from the command and not from a person: no directive is read in it, and nobody speaks in its turn.
//! Whoever watches is gone with this process; the command and its output stay in the sandbox.

use std::sync::{Arc, PoisonError, Weak};
use std::time::Duration;

use clawpen_rules::directives::Authority;
use clawpen_rules::tools::exec::{ExitNotice, decide_exit_notice};

use super::directives::Answers;
use super::entry::session_id;
use super::session_tools::nobody;
use super::{Active, Approvals, Inner, Origin, Request, Runner, Wishes};
use crate::call::{Standing, Who};
use crate::random;

/// Between two looks: short at first, because most commands are.
const FIRST_PAUSE: Duration = Duration::from_millis(250);
const LONGEST_PAUSE: Duration = Duration::from_secs(5);

/// So many ends in a row, with no other message in between, are told to one session.
const MOST_IN_A_ROW: u32 = 20;
/// How the names of such turns begin.
pub(super) const NAME: &str = "exec-exit:";

/// A command whose end is waited for.
pub(super) struct Watched {
    /// The run that left it.
    pub(super) left_by: Arc<Active>,
    pub(super) who: Who,
    /// The session's key in its store.
    pub(super) session: String,
    /// The command's name.
    pub(super) id: String,
    pub(super) approvals: Approvals,
}

impl Inner {
    /// Tells the session of the command's end when it comes. May block for a moment.
    pub(super) fn tell_of_end(self: &Arc<Self>, watched: Watched) {
        match self.desk.exit_notice(&watched.who) {
            Ok(ExitNotice::UnlessSilent | ExitNotice::Always) => {}
            Ok(ExitNotice::Never) | Err(_) => return,
        }
        // What the session's key stands for may be another one later.
        let Some(talk) = self.talk_of(&watched.who) else { return };
        let inner = Arc::downgrade(self);
        let watched = Arc::new((watched, talk));
        drop(self.handle.spawn(async move { wait(inner, watched).await }));
    }

    /// The id of the session that is meant, if there is one.
    fn talk_of(self: &Arc<Self>, who: &Who) -> Option<String> {
        let place = Runner(Arc::clone(self)).place(who).ok()?;
        session_id(&place.entry().ok()?).map(str::to_owned)
    }

    /// Counts a turn about to be told; `None` if there were too many.
    fn one_more(&self, session: &str) -> Option<u32> {
        let mut told = self.told_in_a_row.lock().unwrap_or_else(PoisonError::into_inner);
        let count = told.entry(session.to_owned()).or_default();
        *count += 1;
        Some(*count).filter(|count| *count <= MOST_IN_A_ROW)
    }

    /// Starts the turn that says so, unless there is nothing to say.
    fn tell(self: &Arc<Self>, (watched, talk): &(Watched, String)) -> Next {
        let Watched { left_by, who, session, id, approvals } = watched;
        if left_by.is_unheard() || self.talk_of(who).as_ref() != Some(talk) {
            return Next::Done;
        }
        let (ended, output) = match self.desk.standing(who, id) {
            Ok(Standing::Running) => return Next::Later,
            Ok(Standing::Ended { ended, output }) => (ended, output),
            Ok(Standing::Known) | Err(_) => return Next::Done,
        };
        // A run that goes on may be about to ask for itself.
        let runner = Runner(Arc::clone(self));
        if !runner.active(session).is_empty() {
            return Next::Soon;
        }
        // The config as it is now.
        let notice = self.desk.exit_notice(who).unwrap_or(ExitNotice::Never);
        let Some(mut message) = decide_exit_notice(notice, id, ended, &output) else {
            return Next::Done;
        };
        match self.one_more(session) {
            None => return Next::Done,
            Some(MOST_IN_A_ROW) => message.push_str(
                "\n[No further end is told before somebody speaks here; `process` shows how commands stand.]",
            ),
            Some(_) => {}
        }
        let request = Request {
            who: nobody(session, who),
            authority: Authority::Writer,
            answers: Answers::Nobody,
            message,
            attachments: Vec::new(),
            // A name is free again when its command is forgotten, and then stands for another one.
            run: Some(format!("{NAME}{id}:{}", random::uuid())),
            timeout: None,
            origin: Origin::Session(format!("the command {id}")),
            approvals: *approvals,
            wishes: Wishes::default(),
        };
        // A session that cannot be found any more is told nothing.
        let _gone = runner.start(request);
        Next::Done
    }
}

/// What is to be done about a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Next {
    Later,
    /// It is over, and its session is busy.
    Soon,
    Done,
}

async fn wait(inner: Weak<Inner>, watched: Arc<(Watched, String)>) {
    let mut pause = FIRST_PAUSE;
    loop {
        tokio::time::sleep(pause).await;
        let Some(inner) = inner.upgrade() else { return };
        let watched = Arc::clone(&watched);
        let told = tokio::task::spawn_blocking(move || inner.tell(&watched)).await;
        pause = match told {
            Ok(Next::Later) => (pause * 2).min(LONGEST_PAUSE),
            Ok(Next::Soon) => FIRST_PAUSE,
            Ok(Next::Done) | Err(_) => return,
        };
    }
}
