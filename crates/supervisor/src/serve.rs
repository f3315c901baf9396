//! The loop of process 1: one thread, one wait, everything in pieces.
//!
//! ```text
//! wait ► accept, read frames ► do (requests.rs) ► move output and input (commands.rs) ► reap ► send ► start commands
//! ```
//!
//! Nothing here blocks: streams and sockets return at once, files are opened so that a pipe in disguise
//! cannot hold us, and long file work is a job that is taken up again in every turn. Forks happen in
//! `standby.rs` alone, called by [`run`], where the shim can drop the whole server and so holds none of its
//! descriptors.

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::time::{Duration, Instant};

use clawpen_os::events::{self, Epoll, Event, Interest, Origin, SignalFd};
use clawpen_os::process::{Child, Pid, Signal};
use clawpen_os::sockets;
use clawpen_wire::pen::{Lifetime, ServePlan};
use clawpen_wire::supervisor::{CONTROL, ErrorCode, ProcessId};

use crate::confine::{Confinement, Prepared};
use crate::exec;
use crate::faults;
use crate::files::Files;
use crate::processes::{Command, Owner, Tree};
use crate::reap;
use crate::report::{Failure, Step as _};

mod commands;
pub(crate) mod connection;
mod programs;
mod requests;
mod standby;
pub(crate) mod watch;

use connection::{Channel, Connection};
use programs::Program;
use standby::Ahead;
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
    /// `None` for a pen that was given its only connection.
    listener: Option<OwnedFd>,
    connections: BTreeMap<ConnectionId, Connection>,
    commands: BTreeMap<ProcessId, Command>,
    starts: VecDeque<(ProcessId, Prepared)>,
    /// What the host brought last.
    program: Option<Program>,
    /// The shim without a command yet.
    ahead: Ahead,
    /// Shims that have said their last word and are about to end.
    retiring: Vec<Child>,
    next_connection: ConnectionId,
    /// How often a host has said something.
    heard: u64,
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
        socket: OwnedFd,
    ) -> Result<Self, Failure> {
        // Here once, and not for every command: whoever started us may ignore signals.
        events::reset_signal_actions().step("reset signals")?;
        events::ignore_broken_pipes().step("ignore broken pipes")?;
        let signals = SignalFd::new(&[Signal::CHLD, Signal::TERM, Signal::INT, Signal::HUP])
            .step("take signals as a descriptor")?;
        let epoll = Epoll::new().step("make an epoll set")?;
        epoll
            .add(signals.as_fd(), Token::Signals.number(), Interest::Read)
            .step("wait on signals")?;
        let files = Files::open(&plan)?;
        let nobody_came = Some(Instant::now() + FIRST_CONNECTION);
        let lifetime = plan.lifetime;
        let mut server = Self {
            plan,
            confinement,
            files,
            epoll,
            signals,
            listener: None,
            connections: BTreeMap::new(),
            commands: BTreeMap::new(),
            starts: VecDeque::new(),
            program: None,
            ahead: Ahead::default(),
            retiring: Vec::new(),
            next_connection: 1,
            heard: 0,
            next_process: 1,
            first: None,
            nobody_came,
            instance: random(),
            has_host_ids: has_host_ids(),
            sealed: false,
            over: false,
            buffer: vec![0; PIECE],
        };
        match (sockets::is_listening(socket.as_fd()).step("ask what our socket is")?, lifetime) {
            (true, _) => server.listen(socket)?,
            (false, Lifetime::UntilDisconnect) => server.admit(socket),
            (false, Lifetime::Persistent) => {
                return Err(Failure::new("a pen that is to stay needs a socket that listens"));
            }
        }
        Ok(server)
    }

    fn listen(&mut self, listener: OwnedFd) -> Result<(), Failure> {
        events::set_nonblocking(listener.as_fd()).step("make the listener non-blocking")?;
        // The socket may be inherited: whoever connects must see this process at the other end.
        sockets::listen_again(listener.as_fd()).step("listen")?;
        self.epoll
            .add(listener.as_fd(), Token::Listener.number(), Interest::Read)
            .step("wait on the listener")?;
        self.listener = Some(listener);
        Ok(())
    }

    /// What a shim needs; everything else is dropped, and with it every descriptor of process 1.
    fn into_shim(self) -> Confinement {
        self.confinement
    }
}

/// Serves until the pen ends.
pub(crate) fn run(mut server: Server) -> Result<(), Failure> {
    let mut happened = Vec::new();
    loop {
        server = standby::start_what_waits(server);
        server.flush();
        if server.over {
            return Ok(());
        }
        if !server.starts.is_empty() {
            // Sending has made room, and with it requests were taken up that had waited.
            continue;
        }
        // The answers are out; nobody waits for this.
        server.look_at_standby();
        let is_paused = |until: Instant| until > Instant::now();
        if server.wants_standby() && !server.ahead.paused_until().is_some_and(is_paused) {
            server = standby::stand_by(server);
        }
        server.epoll.wait(&mut happened, server.patience()).step("wait for something to do")?;
        for event in &happened {
            server.handle(*event);
        }
        server.do_what_is_due();
        server.work();
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
        while let Some(listener) = &self.listener
            && let Ok(Some(socket)) = sockets::accept(listener.as_fd())
        {
            self.admit(socket);
        }
    }

    /// Takes a connection up, if it may be one.
    fn admit(&mut self, socket: OwnedFd) {
        // Only a process outside this pid namespace has no number here. Whoever has one is the
        // workload, which could otherwise ask us to do what it may not.
        let from_outside = sockets::peer(socket.as_fd()).is_ok_and(|peer| peer.pid == 0);
        let from_outside = from_outside || faults::is_off("pid-namespace");
        if !from_outside {
            return;
        }
        if self.connections.len() >= CONNECTIONS {
            self.make_room();
        }
        if self.connections.len() >= CONNECTIONS {
            return;
        }
        if events::set_nonblocking(socket.as_fd()).is_err() {
            return;
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

    /// Hosts keep connections for their next call. The one that has rested longest goes before somebody new is
    /// turned away; its host sees that before it uses it again.
    fn make_room(&mut self) {
        let stays = self.sealed && self.plan.lifetime == Lifetime::Persistent;
        let resting = self.connections.iter().filter(|(_, host)| host.is_at_rest());
        let longest = resting.min_by_key(|(_, host)| host.heard).map(|(id, _)| *id);
        if let Some(id) = longest.filter(|_| stays) {
            self.close(id);
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
        let mut ended = Vec::new();
        reap::reap(|pid| ended.push(pid));
        self.ahead.unseen |= !ended.is_empty();
        for &pid in &ended {
            self.ahead.has_ended(pid);
            let id = self
                .commands
                .values()
                .find(|command| shim_is(command, pid))
                .map(|command| command.id);
            if let Some(id) = id {
                self.hear(id);
                let is_its = |command: &&mut Command| shim_is(command, pid);
                if let Some(command) = self.commands.get_mut(&id).filter(is_its) {
                    command.shim_ended();
                    if command.pid == 0 {
                        // Killed before it could say a word. The command may have run, so the host
                        // hears that it did; its number nobody knows.
                        self.tell_start(id);
                    }
                }
            }
        }
        // After the last words were heard: they may have made shims retire that are reaped already, and whose
        // numbers others may have from now on.
        self.retiring.retain(|shim| !ended.contains(&shim.pid()));
        reap::wake(|pid| self.is_shim(pid));
        self.kill_orphans();
        let ended = |command: &&Command| command.shim.is_none() && command.gone == Some(Tree::Gone);
        let ended: Vec<_> =
            self.commands.values().filter(ended).map(|command| command.id).collect();
        for id in ended {
            self.drain(id);
        }
    }

    fn is_shim(&self, pid: Pid) -> bool {
        self.ahead.pid() == Some(pid)
            || self.retiring.iter().any(|shim| shim.pid() == pid)
            || self.commands.values().any(|command| shim_is(command, pid))
    }

    /// Kills what has lost its shim, if a shim was lost.
    fn kill_orphans(&mut self) {
        let orphaned =
            |command: &Command| command.gone == Some(Tree::Orphans) && command.is_running();
        if !self.ahead.strays && !self.commands.values().any(orphaned) {
            return;
        }
        if reap::kill_orphans(|pid| self.is_shim(pid)) {
            self.ahead.strays = false;
            for command in self.commands.values_mut().filter(|command| orphaned(command)) {
                command.gone = Some(Tree::Gone);
            }
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
        let standby = self.ahead.paused_until().filter(|_| self.wants_standby());
        let next = due.chain(self.nobody_came).chain(standby).min()?;
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
        let mut observers = Vec::new();
        for command in self.commands.values_mut() {
            if let Some((_, due)) = command.due.filter(|(when, _)| *when <= now) {
                command.come_due(due);
                if matches!(command.owner, Owner::Observer { .. }) {
                    observers.push(command.id);
                }
            }
        }
        if !observers.is_empty() {
            // Its shim waits for it, of no use to anyone.
            self.ahead.give_up();
            self.kill_orphans();
        }
        for id in observers {
            self.give_observer_up(id);
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
                Channel::Attach { .. }
                | Channel::Read(_)
                | Channel::Program(_)
                | Channel::Facts => {}
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
