//! The loop of process 1: one thread, one wait, everything in pieces.
//!
//! ```text
//! wait ► accept, read frames ► do (requests.rs) ► move output and input (commands.rs) ► reap ► send ► start commands
//! ```
//!
//! Nothing here blocks: streams and sockets return at once, files are opened so that a pipe in disguise
//! cannot hold us, and long file work is a job that is taken up again in every turn. Forks happen in
//! [`run`] alone, where the shim can drop the whole server and so holds none of its descriptors.

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::time::{Duration, Instant};

use clawpen_os::events::{self, Epoll, Event, Interest, Origin, SignalFd};
use clawpen_os::namespaces::Namespaces;
use clawpen_os::process::{self, Child, Forked, Pid, Signal};
use clawpen_os::sockets;
use clawpen_wire::pen::{Lifetime, ServePlan};
use clawpen_wire::supervisor::{CONTROL, ErrorCode, ProcessId};

use crate::confine::{Confinement, Executable, Prepared};
use crate::exec;
use crate::faults;
use crate::files::Files;
use crate::processes::{Command, Owner, Tree};
use crate::reap;
use crate::report::{Failure, Step as _};
use crate::shim::orders;
use crate::shim::{self, Task};

mod commands;
pub(crate) mod connection;
mod requests;
pub(crate) mod watch;

use connection::{Channel, Connection};
use watch::{ConnectionId, Token, Watched};

/// Hosts that may be connected at once.
const CONNECTIONS: usize = 64;
/// A pen that nobody comes to ends after this long: its maker has died, and nobody knows of it.
const FIRST_CONNECTION: Duration = Duration::from_secs(30);
/// How long jobs may work in one turn before the others have theirs.
const JOB_SLICE: Duration = Duration::from_millis(4);
/// How many bytes one read of a stream brings.
const PIECE: usize = 64 * 1024;

/// Everything that process 1 knows. Dropping it closes every descriptor that process 1 has.
#[derive(Debug)]
pub(crate) struct Server {
    plan: ServePlan,
    confinement: Confinement,
    files: Files,
    epoll: Epoll,
    signals: SignalFd,
    listener: OwnedFd,
    connections: BTreeMap<ConnectionId, Connection>,
    commands: BTreeMap<ProcessId, Command>,
    starts: VecDeque<(ProcessId, Prepared)>,
    /// A shim without a command yet.
    standby: Option<Standby>,
    /// Shims that have said their last word and are about to end.
    retiring: Vec<Child>,
    next_connection: ConnectionId,
    next_process: ProcessId,
    /// With this one an ephemeral pen ends, and any pen that is not sealed yet.
    first: Option<ConnectionId>,
    nobody_came: Option<Instant>,
    instance: u64,
    /// Whether ids are the host's own, as in a container without a user namespace. There user 0 may be who
    /// stops the container; in a pen nobody outside has that number, and it means that the kernel has lost
    /// the sender of a signal, which pens of one user can bring about together.
    has_host_ids: bool,
    sealed: bool,
    over: bool,
    buffer: Vec<u8>,
}

impl Server {
    pub(crate) fn new(
        plan: ServePlan,
        confinement: Confinement,
        listener: OwnedFd,
    ) -> Result<Self, Failure> {
        events::ignore_broken_pipes().step("ignore broken pipes")?;
        let signals = SignalFd::new(&[Signal::CHLD, Signal::TERM, Signal::INT, Signal::HUP])
            .step("take signals as a descriptor")?;
        let epoll = Epoll::new().step("make an epoll set")?;
        events::set_nonblocking(listener.as_fd()).step("make the listener non-blocking")?;
        // The socket may be inherited: whoever connects must see this process at the other end.
        sockets::listen_again(listener.as_fd()).step("listen")?;
        epoll
            .add(listener.as_fd(), Token::Listener.number(), Interest::Read)
            .and_then(|()| epoll.add(signals.as_fd(), Token::Signals.number(), Interest::Read))
            .step("wait on the listener and signals")?;
        let files = Files::open(&plan)?;
        let nobody_came = Some(Instant::now() + FIRST_CONNECTION);
        Ok(Self {
            plan,
            confinement,
            files,
            epoll,
            signals,
            listener,
            connections: BTreeMap::new(),
            commands: BTreeMap::new(),
            starts: VecDeque::new(),
            standby: None,
            retiring: Vec::new(),
            next_connection: 1,
            next_process: 1,
            first: None,
            nobody_came,
            instance: random(),
            has_host_ids: has_host_ids(),
            sealed: false,
            over: false,
            buffer: vec![0; PIECE],
        })
    }

    /// What a shim needs; everything else is dropped, and with it every descriptor of process 1.
    fn into_shim(self) -> Confinement {
        self.confinement
    }
}

/// A shim that waits for its command, and our end of the socket between us.
#[derive(Debug)]
struct Standby {
    shim: Child,
    status: OwnedFd,
}

/// Serves until the pen ends.
pub(crate) fn run(mut server: Server) -> Result<(), Failure> {
    let mut happened = Vec::new();
    loop {
        while let Some((id, prepared)) = server.starts.pop_front() {
            if matches!(prepared.program, Executable::Observer(_)) {
                if server.standby.is_none() {
                    server = stand_by(server);
                }
                server.observe_by_standby(id, &prepared);
                continue;
            }
            let Some(prepared) = server.give_to_standby(id, prepared) else { continue };
            let forked;
            (server, forked) = fork_shim(server, Task::Run(Box::new(prepared)));
            match forked {
                Ok(Standby { shim, status }) => server.is_starting(id, shim, status),
                Err(error) => server.cannot_start(id, &error),
            }
        }
        server.flush();
        if server.over {
            return Ok(());
        }
        if server.wants_standby() {
            server = stand_by(server);
        }
        server.epoll.wait(&mut happened, server.patience()).step("wait for something to do")?;
        for event in &happened {
            server.handle(*event);
        }
        server.do_what_is_due();
        server.work();
    }
}

/// Makes a shim ahead. At the limit of processes there is none; the next command is told so if that lasts.
fn stand_by(server: Server) -> Server {
    let (mut server, forked) = fork_shim(server, Task::StandBy);
    server.standby = forked.ok();
    server
}

/// The only fork of process 1. It takes the server and gives it back, because the shim must drop it.
fn fork_shim(server: Server, task: Task) -> (Server, io::Result<Standby>) {
    let (ours, theirs) = match sockets::pair(sockets::Kind::Messages) {
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
    /// Whether a shim should be made ahead. Not between the start of a command and the word that it runs:
    /// that moment belongs to the command.
    fn wants_standby(&self) -> bool {
        let is_starting = |command: &Command| command.shim.is_some() && command.pid == 0;
        self.standby.is_none() && !self.commands.values().any(is_starting)
    }

    /// Has the shim that stands by show what its commands are held by.
    fn observe_by_standby(&mut self, id: ProcessId, prepared: &Prepared) {
        let told = self.standby.as_ref().and_then(|standby| {
            let message = orders::write(prepared)?;
            let _ = standby.shim.signal(Signal::CONT);
            orders::give(standby.status.as_fd(), &message, prepared).ok()
        });
        match told {
            Some(()) => self.is_observing(id),
            None => self.cannot_start(id, &io::ErrorKind::WouldBlock.into()),
        }
    }

    /// Hands a command to the shim that stands by; gives it back if there is none, or none that lives.
    fn give_to_standby(&mut self, id: ProcessId, prepared: Prepared) -> Option<Prepared> {
        let Some(message) = orders::write(&prepared) else { return Some(prepared) };
        let Some(Standby { shim, status }) = self.standby.take() else { return Some(prepared) };
        // It has the user of the commands, and an earlier one may have stopped it. One that is killed
        // while it waits is noticed here.
        let _ = shim.signal(Signal::CONT);
        if orders::give(status.as_fd(), &message, &prepared).is_err() {
            let _ = shim.signal(Signal::KILL);
            return Some(prepared);
        }
        self.is_starting(id, shim, status);
        None
    }
}

impl Server {
    fn handle(&mut self, event: Event) {
        // What has no token or no owner any more was closed earlier in this turn.
        let Some(token) = Token::of(event.token) else { return };
        match token {
            Token::Listener => self.accept(),
            Token::Signals => self.take_signals(),
            Token::Connection(id) => {
                if event.readable || event.hung_up {
                    self.read_requests(id);
                }
                // Writing is tried for every connection at the end of the turn.
            }
            Token::Status(id) => self.hear(id),
            Token::Stdout(id) => self.pump(id, clawpen_wire::supervisor::Stream::Stdout),
            Token::Stderr(id) => self.pump(id, clawpen_wire::supervisor::Stream::Stderr),
            Token::Stdin(id) => self.push_input(id),
        }
    }

    fn accept(&mut self) {
        while let Ok(Some(socket)) = sockets::accept(self.listener.as_fd()) {
            // Only a process outside this pid namespace has no number here. Whoever has one is the
            // workload, which could otherwise ask us to do what it may not.
            let from_outside = sockets::peer(socket.as_fd()).is_ok_and(|peer| peer.pid == 0);
            let from_outside = from_outside || faults::is_off("pid-namespace");
            if !from_outside || self.connections.len() >= CONNECTIONS {
                continue;
            }
            if events::set_nonblocking(socket.as_fd()).is_err() {
                continue;
            }
            let id = self.next_connection;
            self.next_connection += 1;
            self.first.get_or_insert(id);
            self.nobody_came = None;
            let mut connection = Connection::new(Watched::new(socket, Token::Connection(id)));
            if connection.watch(&self.epoll).is_ok() {
                self.connections.insert(id, connection);
            }
        }
    }

    fn take_signals(&mut self) {
        while let Ok(Some(received)) = self.signals.read() {
            // Anyone inside may send a signal, and choose what it says of its sender; only the host is
            // heard. A made-up SIGCHLD makes us look for ended children and find none.
            match received.origin {
                _ if received.signal == Signal::CHLD => self.reap(),
                Origin::Outside { user } => self.over |= user != 0 || self.has_host_ids,
                Origin::Process(_) | Origin::Kernel | Origin::Claimed => {}
            }
        }
    }

    fn reap(&mut self) {
        let mut shims = Vec::new();
        reap::reap(|pid| shims.push(pid));
        for pid in shims {
            if self.standby.as_ref().is_some_and(|standby| standby.shim.pid() == pid) {
                self.standby = None;
            }
            self.retiring.retain(|shim| shim.pid() != pid);
            let id = self
                .commands
                .values()
                .find(|command| shim_is(command, pid))
                .map(|command| command.id);
            if let Some(id) = id {
                self.hear(id);
                if let Some(command) = self.commands.get_mut(&id) {
                    command.shim_ended();
                    if command.pid == 0 {
                        // Killed before it could say a word. The command may have run, so the host
                        // hears that it did; its number nobody knows.
                        self.tell_start(id);
                    }
                }
            }
        }
        let orphaned =
            |command: &Command| command.gone == Some(Tree::Orphans) && command.is_running();
        if self.commands.values().any(orphaned) {
            let mut shims: Vec<Pid> = self.retiring.iter().map(Child::pid).collect();
            shims.extend(self.standby.as_ref().map(|standby| standby.shim.pid()));
            let commands = &self.commands;
            let is_shim = |pid| {
                shims.contains(&pid) || commands.values().any(|command| shim_is(command, pid))
            };
            if reap::kill_orphans(is_shim) {
                for command in self.commands.values_mut().filter(|command| orphaned(command)) {
                    command.gone = Some(Tree::Gone);
                }
            }
        }
        let ended = |command: &&Command| command.shim.is_none() && command.gone == Some(Tree::Gone);
        let ended: Vec<_> =
            self.commands.values().filter(ended).map(|command| command.id).collect();
        for id in ended {
            self.drain(id);
        }
    }

    /// How long to wait if nothing happens.
    fn patience(&self) -> Option<Duration> {
        let has_work = |connection: &Connection| {
            connection.channels.values().any(|channel| matches!(channel, Channel::Job(_)))
        };
        if self.connections.values().any(has_work) {
            return Some(Duration::ZERO);
        }
        let due = self.commands.values().filter_map(|command| command.due).map(|(when, _)| when);
        let next = due.chain(self.nobody_came).min()?;
        Some(next.saturating_duration_since(Instant::now()))
    }

    fn do_what_is_due(&mut self) {
        if self.commands.values().all(|command| command.due.is_none()) && self.nobody_came.is_none()
        {
            return;
        }
        let now = Instant::now();
        if self.nobody_came.is_some_and(|when| when <= now) {
            self.over = true;
        }
        for command in self.commands.values_mut() {
            if let Some((_, due)) = command.due.filter(|(when, _)| *when <= now) {
                if matches!(command.owner, Owner::Observer { .. }) {
                    // A command may have stopped it. It goes with its shim, and its pipe with it.
                    self.standby.take().map(|standby| standby.shim.signal(Signal::KILL));
                }
                command.come_due(due);
            }
        }
    }

    /// Gives every job its share of a turn.
    fn work(&mut self) {
        for connection in self.connections.values_mut() {
            let jobs = connection
                .channels
                .iter()
                .filter(|(_, channel)| matches!(channel, Channel::Job(_)));
            let jobs: Vec<u32> = jobs.map(|(channel, _)| *channel).collect();
            for channel in jobs {
                let Some(Channel::Job(job)) = connection.channels.get_mut(&channel) else {
                    continue;
                };
                match job.work(Instant::now() + JOB_SLICE) {
                    Ok(None) => {}
                    Ok(Some(answer)) => {
                        connection.channels.remove(&channel);
                        connection.say(channel, &answer);
                    }
                    Err(failed) => connection.fail(channel, failed),
                }
            }
        }
    }

    /// Sends what waits, goes on with what waited for room, and closes what is over.
    fn flush(&mut self) {
        let ids: Vec<ConnectionId> = self.connections.keys().copied().collect();
        for id in ids {
            let Some(connection) = self.connections.get_mut(&id) else { continue };
            let was_full = connection.is_full();
            let sent = connection.flush();
            if sent.is_err() || connection.leaving && !connection.has_output() {
                self.close(id);
                continue;
            }
            if was_full && !connection.is_full() {
                self.resume(id);
            }
            if let Some(connection) = self.connections.get_mut(&id) {
                let _ = connection.watch(&self.epoll);
            }
        }
    }

    /// Forgets a connection. Its foreground commands are killed; background ones go on.
    pub(crate) fn close(&mut self, id: ConnectionId) {
        let Some(connection) = self.connections.remove(&id) else { return };
        for channel in connection.channels.into_values() {
            match channel {
                Channel::Write(writing) => writing.abort(),
                Channel::Command(process) => self.abandon(process),
                Channel::Job(job) => job.abandon(),
                Channel::Attach { .. } | Channel::Read(_) | Channel::Facts => {}
            }
        }
        connection.socket.close(&self.epoll);
        let ends_with_first = match self.plan.lifetime {
            Lifetime::UntilDisconnect => true,
            // The host writes a pen down before it seals it. One that was left unsealed was never
            // proven, and nobody would find it again.
            Lifetime::Persistent => !self.sealed,
        };
        if self.first == Some(id) && ends_with_first {
            self.over = true;
        }
    }

    /// The host broke the protocol: it is told so, and not listened to any more.
    fn break_off(&mut self, id: ConnectionId, what: &str) {
        if let Some(connection) = self.connections.get_mut(&id) {
            connection.fail(CONTROL, exec::failed(ErrorCode::Protocol, what));
        }
    }
}

/// Whether the map of users is the one that the host itself has: everybody is himself.
fn has_host_ids() -> bool {
    let map = std::fs::read_to_string("/proc/self/uid_map").unwrap_or_default();
    map.split_whitespace().eq(["0", "0", "4294967295"])
}

fn shim_is(command: &Command, pid: Pid) -> bool {
    command.shim.as_ref().map(Child::pid) == Some(pid)
}

/// A number that no other supervisor has. The standard library seeds its hash maps from the kernel.
fn random() -> u64 {
    use std::hash::{BuildHasher as _, Hasher as _};
    std::hash::RandomState::new().build_hasher().finish()
}

/// Whether the loop should come back later.
fn would_block(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::WouldBlock
}
