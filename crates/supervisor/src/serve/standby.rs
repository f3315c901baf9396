//! Starts commands, through the shim that is made ahead where that is safe; holds the only fork of process 1.
//!
//! ```text
//! made ahead ─► stands by ─► has a command ─► nothing is left of it ─► stands by
//!                   ▲                       └► otherwise it ends
//!                   └ looked at whenever somebody has ended, before it is used
//! ```
//!
//! The shim that stands by has the user of the commands. One of them may stop it, kill it, lower its limits or
//! take its turn away, and be over when the next command comes, which would inherit all that. So it is looked
//! at as soon as a command is over, while nobody waits for us, and in any case before it is used: one that is gone,
//! busy or not as it was made is given up, and the command gets a shim of its own. One that was killed and has not
//! noticed yet leaves its order unread; the command is started again. What is done to it after that look is done by
//! somebody who still runs, and who could do the same to the command itself; when he ends, it is looked at again.
//!
//! While a command runs another is made ahead for those beside it, but not at once: most are over before it would
//! be ready, and their shims come back.

use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::time::{Duration, Instant};

use clawpen_os::events;
use clawpen_os::namespaces::Namespaces;
use clawpen_os::process::{self, Child, Forked, Pid, Signal};
use clawpen_os::rlimits::Resource;
use clawpen_os::sockets;
use clawpen_os::standing::Standing;
use clawpen_wire::supervisor::ProcessId;

use super::Server;
use super::watch::Watched;
use crate::confine::{Executable, Prepared};
use crate::processes::{Command, Owner};
use crate::shim::{self, Task, orders};

/// How long a command has its shim's place before another is made ahead.
const PAUSE: Duration = Duration::from_millis(5);

/// A shim that waits for its command, and our end of the socket between us, which never blocks.
#[derive(Debug)]
pub(super) struct Standby {
    shim: Child,
    status: OwnedFd,
}

/// The shim that stands by, and what is known of it.
#[derive(Debug, Default)]
pub(super) struct Ahead {
    standby: Option<Standby>,
    /// The last one was killed while it waited. None is made before the next command needs one: whoever kills
    /// it would otherwise keep us busy making more.
    lost: bool,
    /// Something may be left of one that had no command.
    pub(super) strays: bool,
    /// What we hand down to it, as it was when we last looked.
    standing: Option<Standing>,
    /// Somebody has ended since we last looked at it.
    pub(super) unseen: bool,
    /// Not before this another is made.
    not_before: Option<Instant>,
}

impl Ahead {
    pub(super) fn pid(&self) -> Option<Pid> {
        self.standby.as_ref().map(|standby| standby.shim.pid())
    }

    /// The child of that number was reaped.
    pub(super) fn has_ended(&mut self, pid: Pid) {
        if self.pid() == Some(pid) {
            self.standby = None;
            self.lost = true;
            self.strays = true;
        }
    }

    /// Its place was given to a command.
    pub(super) fn pause(&mut self) {
        self.not_before = Some(Instant::now() + PAUSE);
    }

    /// When another may be made, if that is not now.
    pub(super) fn paused_until(&self) -> Option<Instant> {
        self.not_before
    }

    /// Forgets it: it and all that is below it are strays.
    pub(super) fn give_up(&mut self) {
        if let Some(standby) = self.standby.take() {
            let _ = standby.shim.signal(Signal::KILL);
        }
        self.strays = true;
    }
}

/// Starts every command and observer that is prepared.
pub(super) fn start_what_waits(mut server: Server) -> Server {
    while let Some((_, next)) = server.starts.front() {
        let is_observer = matches!(next.program, Executable::Observer(_));
        server.look_at_standby();
        if is_observer && server.ahead.standby.is_none() {
            // While what it is to do still belongs to the server, and is dropped with it: the shim would
            // keep a copy of the observer's pipe, which would never end.
            server = stand_by(server);
        }
        let Some((id, prepared)) = server.starts.pop_front() else { break };
        if server.commands.get(&id).is_none_or(Command::is_called_off) {
            drop(prepared);
            server.was_called_off(id);
            continue;
        }
        if is_observer {
            server.observe_by_standby(id, &prepared);
            continue;
        }
        server.ahead.lost = false;
        let Some(prepared) = server.give_to_standby(id, prepared) else { continue };
        let forked;
        (server, forked) = fork_shim(server, Task::Run(Box::new(prepared)));
        match forked {
            Ok(Standby { shim, status }) => server.is_starting(id, shim, status),
            Err(error) => server.cannot_start(id, &error),
        }
    }
    server
}

/// Makes a shim ahead. At the limit of processes there is none; the next command is told so if that lasts.
pub(super) fn stand_by(server: Server) -> Server {
    let (mut server, forked) = fork_shim(server, Task::StandBy);
    // If there is none it is tried again when something has happened, and no timer wakes us for it.
    server.ahead.not_before = None;
    server.ahead.standby = forked.ok();
    server
}

/// The only fork of process 1. It takes the server and gives it back, because the shim must drop it.
fn fork_shim(server: Server, task: Task) -> (Server, io::Result<Standby>) {
    let pair = sockets::pair(sockets::Kind::Messages)
        .and_then(|pair| events::set_nonblocking(pair.0.as_fd()).map(|()| pair));
    let (ours, theirs) = match pair {
        Ok(pair) => pair,
        Err(error) => return (server, Err(error)),
    };
    match process::clone3(Namespaces::NONE, None) {
        Ok(Forked::Child) => {
            let confinement = server.into_shim();
            drop(ours);
            shim::run(task, &confinement, theirs)
        }
        Ok(Forked::Parent(shim)) => (server, Ok(Standby { shim, status: ours })),
        Err(error) => (server, Err(error)),
    }
}

impl Server {
    /// Whether a shim should be made ahead, now or soon. Not between the start of a command and the word that
    /// it runs: that moment belongs to the command.
    pub(super) fn wants_standby(&self) -> bool {
        let is_starting = |command: &Command| command.shim.is_some() && command.pid == 0;
        self.ahead.standby.is_none() && !self.ahead.lost && !self.commands.values().any(is_starting)
    }

    /// A shim whose command is over, with nothing left of it, stands by if none does.
    pub(super) fn comes_back(&mut self, shim: Child, status: Watched) {
        self.ahead.unseen = true;
        let status = status.release(&self.epoll);
        if self.ahead.standby.is_none() {
            self.ahead.standby = Some(Standby { shim, status });
        } else {
            // It has nothing left to do, and whoever stops it now must not keep it.
            let _ = shim.signal(Signal::KILL);
            self.retiring.push(shim);
        }
    }

    /// Gives the shim that stands by up if somebody has changed what it hands down. Those who could have are over;
    /// if none is since the last look, nothing has changed that could not be changed again.
    pub(super) fn look_at_standby(&mut self) {
        let Some(standby) = &self.ahead.standby else { return };
        if !std::mem::take(&mut self.ahead.unseen) {
            return;
        }
        let found = Standing::of(standby.shim.pid()).ok();
        if !self.is_as_made(found.as_ref()) {
            // Ours may have been changed as well, by the host.
            self.ahead.standing = Standing::of(Pid::this()).ok();
            if !self.is_as_made(found.as_ref()) {
                self.ahead.give_up();
            }
        }
    }

    /// Whether it stands as we do, or as one that has put its limit of processes on.
    fn is_as_made(&self, found: Option<&Standing>) -> bool {
        let (Some(found), Some(own)) = (found, &self.ahead.standing) else { return false };
        let with_limit = |limit| own.clone().with(Resource::Processes, limit) == *found;
        found == own || self.confinement.process_limit().is_some_and(with_limit)
    }

    /// Has the shim that stands by show what its commands are held by.
    fn observe_by_standby(&mut self, id: ProcessId, prepared: &Prepared) {
        let told = self.ahead.standby.as_ref().and_then(|standby| {
            let message = orders::write(prepared)?;
            let _ = standby.shim.signal(Signal::CONT);
            orders::give(standby.status.as_fd(), &message, prepared).ok()
        });
        match told {
            Some(()) => self.is_observing(id),
            None => self.cannot_start(id, &io::ErrorKind::WouldBlock.into()),
        }
    }

    /// Hands a command to the shim that stands by; gives it back if there is none, or none that is free.
    fn give_to_standby(&mut self, id: ProcessId, prepared: Prepared) -> Option<Prepared> {
        let Some(message) = orders::write(&prepared) else { return Some(prepared) };
        let observing =
            |command: &Command| matches!(&command.owner, Owner::Observer { view: Some(_), .. });
        if self.commands.values().any(observing) {
            // It waits for the observer, and whoever stops that one would hold this command too.
            return Some(prepared);
        }
        let Some(Standby { shim, status }) = self.ahead.standby.take() else {
            return Some(prepared);
        };
        // An earlier command may have stopped it. One that is killed while it waits is noticed here.
        let _ = shim.signal(Signal::CONT);
        if orders::give(status.as_fd(), &message, &prepared).is_err() {
            let _ = shim.signal(Signal::KILL);
            self.retiring.push(shim);
            return Some(prepared);
        }
        self.is_starting(id, shim, status);
        if let Some(command) = self.commands.get_mut(&id) {
            command.order = Some(prepared);
        }
        None
    }
}
