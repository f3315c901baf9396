//! Tells a session that a command which it left in the background has ended (`tools.exec.notifyOnExit`).
//!
//! ```text
//! exec answers "still running" ─► looked at now and then ─► it is over ─► the session has no run ─► a turn of its own
//!                                                              └ the session asked or ended it itself: nothing
//! ```
//!
//! The message comes from the command and not from a person: no directive is read in it, and nobody speaks in its turn.
//! Whoever watches is gone with this process; the command and its output stay in the sandbox.

use std::sync::{Arc, Weak};
use std::time::Duration;

use clawpen_rules::directives::Authority;
use clawpen_rules::tools::exec::{ExitNotice, decide_exit_notice};

use super::directives::Answers;
use super::session_tools::nobody;
use super::{Approvals, Inner, Origin, Request, Runner};
use crate::call::{Standing, Who};
use crate::random;

/// Between two looks: short at first, because most commands are.
const FIRST_PAUSE: Duration = Duration::from_millis(250);
const LONGEST_PAUSE: Duration = Duration::from_secs(5);

/// A command whose end is waited for.
#[derive(Debug, Clone)]
pub(super) struct Watched {
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
        let inner = Arc::downgrade(self);
        drop(self.handle.spawn(async move { wait(inner, Arc::new(watched)).await }));
    }

    /// Starts the turn that says so, unless there is nothing to say.
    fn tell(self: &Arc<Self>, watched: &Watched) -> Next {
        let Watched { who, session, id, approvals } = watched;
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
        let Some(message) = decide_exit_notice(notice, id, ended, &output) else {
            return Next::Done;
        };
        let request = Request {
            who: nobody(session, who),
            authority: Authority::Writer,
            answers: Answers::Nobody,
            message,
            attachments: Vec::new(),
            // A name is free again when its command is forgotten, and then stands for another one.
            run: Some(format!("exec-exit:{id}:{}", random::uuid())),
            timeout: None,
            origin: Origin::Session(format!("the command {id}")),
            approvals: *approvals,
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

async fn wait(inner: Weak<Inner>, watched: Arc<Watched>) {
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
