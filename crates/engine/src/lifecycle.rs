//! Sandboxes that belong to scopes, not to processes: found again, made once, replaced when their
//! config changed, removed when nobody needs them.
//!
//! ```text
//! ensure:  row ready and as wanted? ── lease, connect ───────────────────────────────► Held
//!             └ no: lock the name ─► look ─► reuse::decide ─► keep, start, replace, make ─┘
//! make:    row `creating` ─► backend ─► identity into the row ─► proven, set up ─► row `ready`
//!                              └ any failure: nothing of it is left, the row goes ┘
//! remove:  row `removing` (no call in flight) ─► ended by identity ─► row gone
//! ```
//!
//! A row stands before anything exists and goes after everything is gone. Whoever dies on the way
//! leaves a row or a directory that nobody holds; the next call of that name, or [`janitor`], takes
//! it from there. Decides nothing: `rules::reuse` and `rules::prune` do. Time comes from the clock
//! that the caller brings.

mod about;
pub mod current;
mod janitor;
mod list;
mod lock;
mod look;
mod prune;
mod remove;
mod survivors;

use std::io;

use clawpen_rules::reuse::{self, RefuseReason, ReplaceReason, Reuse, Stale};
use clawpen_wire::pen::Lifetime;

use crate::audit::{AuditError, Call, append_call, owed};
use crate::backend::native::Found;
use crate::backend::{self, Engines, Place, Plan, ReachError, RemoveError, Sandbox};
use crate::clock::Clock;
use crate::database::{Database, DatabaseError};
use crate::faults;
use crate::registry::{
    self, AsWanted, Generation, Holder, Identity, NewRow, Registry, RegistryError, Row, State,
    Taken, Use,
};

pub use janitor::Recovered;
pub use list::{Condition, Listed, Listing, Origin};
pub use prune::{Pruned, Throttle};
pub use survivors::Survivors;

use about::About;
use lock::NameLock;

/// The protocol of a supervisor that speaks none of ours.
const NO_PROTOCOL: u32 = 0;
/// How often a sandbox that changes under our eyes is looked at again.
const ROUNDS: usize = 16;

/// Everything that is needed to keep the sandboxes of one state directory.
#[derive(Clone, Copy)]
pub struct Lifecycle<'a> {
    pub database: &'a Database,
    pub engines: &'a Engines,
    pub state_dir: &'a str,
    pub clock: &'a dyn Clock,
}

impl std::fmt::Debug for Lifecycle<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Lifecycle").field("state_dir", &self.state_dir).finish_non_exhaustive()
    }
}

/// The sandbox that is to be there.
#[derive(Debug)]
pub struct Wanted<'a> {
    pub row: NewRow,
    pub plan: &'a Plan,
    /// What the rules compare and say.
    pub rules: reuse::Wanted,
}

/// A call that is about to be made.
#[derive(Debug, Clone, Copy)]
pub struct Caller<'a> {
    /// The call's id, as the audit record carries it.
    pub call: &'a str,
    pub session: Option<&'a str>,
}

/// A sandbox that nobody removes as long as this lives.
#[derive(Debug)]
pub struct Held<'a> {
    pub sandbox: Sandbox,
    /// How it came to be.
    pub how: How,
    pub identity: Identity,
    lease: Leased<'a>,
}

/// A lease that ends with its value.
#[derive(Debug)]
struct Leased<'a> {
    lifecycle: Lifecycle<'a>,
    /// `None` once it is released.
    taken: Option<Taken>,
}

/// How a sandbox came to be there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum How {
    Kept,
    /// It runs with an old config, because it is in use. Tell the user.
    KeptStale(Stale),
    Started,
    Created,
    Replaced(ReplaceReason),
}

/// There is no sandbox to call into.
#[derive(Debug, thiserror::Error)]
pub enum EnsureError {
    #[error("{0}")]
    Refused(RefuseReason),
    #[error(transparent)]
    Registry(#[from] RegistryError),
    #[error(transparent)]
    Start(#[from] backend::StartError),
    #[error("{start}; what was made of it is still there and could not be removed")]
    Left {
        start: backend::StartError,
        #[source]
        cause: Box<RemoveError>,
    },
    #[error("the sandbox `{name}` cannot be reached")]
    Reach {
        name: String,
        #[source]
        cause: ReachError,
    },
    #[error("the sandbox `{name}` has to go and cannot be removed")]
    Remove {
        name: String,
        #[source]
        cause: RemoveError,
    },
    #[error("cannot lock the sandbox `{name}`")]
    Lock {
        name: String,
        #[source]
        cause: io::Error,
    },
    #[error("cannot tell who is calling")]
    Holder(#[source] io::Error),
    #[error("the sandbox `{name}` changes faster than it can be used; try again")]
    Restless { name: String },
}

impl<'a> Lifecycle<'a> {
    pub(crate) fn registry(&self) -> Registry<'a> {
        self.database.registry()
    }

    /// Gives the sandbox that is wanted, made if there is none, and keeps it from being removed.
    pub fn ensure(
        &self,
        wanted: &Wanted<'_>,
        caller: &Caller<'_>,
    ) -> Result<Held<'a>, EnsureError> {
        let name = &wanted.row.name;
        if let Some(held) = self.hold_as_is(wanted, caller)? {
            return Ok(held);
        }
        let lock = NameLock::wait(self.state_dir, name)
            .map_err(|cause| EnsureError::Lock { name: name.clone(), cause })?;
        faults::reached("ensure.locked");
        for _ in 0..ROUNDS {
            if let Some(held) = self.settle(wanted, caller)? {
                drop(lock);
                return Ok(held);
            }
        }
        Err(EnsureError::Restless { name: name.clone() })
    }

    /// Holds a sandbox that is ready and just as wanted. One look and the lease are one change.
    fn hold_as_is(
        &self,
        wanted: &Wanted<'_>,
        caller: &Caller<'_>,
    ) -> Result<Option<Held<'a>>, EnsureError> {
        let holder = Holder::this().map_err(EnsureError::Holder)?;
        let usage = Use { holder: &holder, call: caller.call, session: caller.session };
        let NewRow { name, backend, fingerprint, .. } = &wanted.row;
        let as_wanted = AsWanted { name, backend: *backend, fingerprint };
        let leased = self.registry().lease_as_is(&as_wanted, &usage, &self.clock.now())?;
        leased.map_or(Ok(None), |registry::Leased { generation, identity, lease }| {
            self.reach((name, generation), (identity, lease), How::Kept)
        })
    }

    /// Holds a sandbox if it is there and ready; makes and starts nothing.
    pub fn visit(&self, row: &Row, caller: &Caller<'_>) -> Result<Option<Held<'a>>, EnsureError> {
        match row.state {
            State::Ready => self.hold(row, caller, How::Kept),
            State::Creating | State::Removing => Ok(None),
        }
    }

    /// One look and what follows from it, with the name locked. `None`: look again.
    fn settle(
        &self,
        wanted: &Wanted<'_>,
        caller: &Caller<'_>,
    ) -> Result<Option<Held<'a>>, EnsureError> {
        let Some(row) = self.registry().get(&wanted.row.name)? else {
            return self.create(wanted, caller, How::Created).map(Some);
        };
        match row.state {
            // Whoever began has died: the name is locked by us.
            State::Creating | State::Removing => {
                self.take_down(&row)?;
                return Ok(None);
            }
            State::Ready => {}
        }
        let now = self.clock.now();
        let seen = self.look(&row, wanted, &now)?;
        match reuse::decide(&seen, &wanted.rules, now.wall) {
            Reuse::Create => {
                self.take_down(&row)?;
                self.create(wanted, caller, How::Created).map(Some)
            }
            Reuse::Keep => self.hold(&row, caller, How::Kept),
            Reuse::Start => self.start(&row, wanted, caller),
            Reuse::KeepStale(stale) => self.hold(&row, caller, How::KeptStale(stale)),
            Reuse::Replace(reason) => match self.clear(&row) {
                // A call came in between: what was decided no longer holds.
                Err(EnsureError::Registry(RegistryError::InUse { .. })) => Ok(None),
                cleared => {
                    cleared?;
                    self.create(wanted, caller, How::Replaced(reason)).map(Some)
                }
            },
            Reuse::Refuse(reason) => Err(EnsureError::Refused(reason)),
        }
    }

    /// Takes a lease on a ready sandbox and connects to it. `None`: it is gone, or changed meanwhile.
    fn hold(
        &self,
        row: &Row,
        caller: &Caller<'_>,
        how: How,
    ) -> Result<Option<Held<'a>>, EnsureError> {
        let Some(identity) = row.identity.clone() else { return Ok(None) };
        let Some(lease) = self.lease(row, caller)? else { return Ok(None) };
        self.reach((&row.name, row.generation), (identity, lease), how)
    }

    /// Connects to a sandbox that is leased.
    fn reach(
        &self,
        (name, generation): (&str, Generation),
        (identity, lease): (Identity, Taken),
        how: How,
    ) -> Result<Option<Held<'a>>, EnsureError> {
        faults::reached("call.leased");
        match self.engines.find(&identity, self.state_dir) {
            Ok(Found::There(sandbox)) => {
                faults::reached("ensure.connected");
                Ok(Some(self.held(sandbox, how, identity, lease)))
            }
            Ok(Found::Gone) => {
                self.release(&lease);
                Ok(None)
            }
            Err(cause) if cause.is_other_protocol() => {
                self.release(&lease);
                // It has said so itself, whatever the row says; the next look goes by that.
                match self.registry().restarted(name, generation, &identity, NO_PROTOCOL) {
                    Ok(())
                    | Err(RegistryError::Changed { .. } | RegistryError::WrongState { .. }) => {
                        Ok(None)
                    }
                    Err(error) => Err(error.into()),
                }
            }
            Err(cause) => {
                self.release(&lease);
                Err(EnsureError::Reach { name: name.to_owned(), cause })
            }
        }
    }

    fn held(&self, sandbox: Sandbox, how: How, identity: Identity, lease: Taken) -> Held<'a> {
        Held { sandbox, how, identity, lease: Leased { lifecycle: *self, taken: Some(lease) } }
    }

    fn lease(&self, row: &Row, caller: &Caller<'_>) -> Result<Option<Taken>, EnsureError> {
        let holder = Holder::this().map_err(EnsureError::Holder)?;
        let usage = Use { holder: &holder, call: caller.call, session: caller.session };
        match self.registry().lease(&row.name, row.generation, &usage, &self.clock.now()) {
            Ok(lease) => Ok(Some(lease)),
            Err(RegistryError::Changed { .. } | RegistryError::WrongState { .. }) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    fn release(&self, lease: &Taken) {
        // A lease that stays is recognised by its holder's death, which is soon.
        drop(self.registry().release(lease, &self.clock.now()));
    }

    /// Makes the sandbox, with the name locked and no row of it there.
    fn create(
        &self,
        wanted: &Wanted<'_>,
        caller: &Caller<'_>,
        how: How,
    ) -> Result<Held<'a>, EnsureError> {
        let name = &wanted.row.name;
        let registry = self.registry();
        let now = self.clock.now();
        self.clear_name(wanted)?;
        let generation = registry.begin(&wanted.row, &now)?;
        faults::reached("ensure.reserved");
        let about = About::new(&wanted.row, wanted.plan, &now).to_text();
        let place = Place { name, state_dir: self.state_dir, about: &about };
        let mut identity = None;
        let made = self.engines.start(wanted.plan, place, Lifetime::Persistent, &mut |found| {
            registry.identify(name, generation, found)?;
            identity = Some(found.clone());
            Ok(())
        });
        let mut sandbox = match made {
            Ok(sandbox) => sandbox,
            Err(start) => return Err(self.not_made(name, start)),
        };
        faults::reached("ensure.made");
        let version = sandbox.channel().map_or(0, |channel| channel.welcome().version);
        let identity = match (registry.ready(name, generation, version.into(), &now), identity) {
            (Ok(()), Some(identity)) => identity,
            (Ok(()), None) => return Err(EnsureError::Restless { name: name.clone() }),
            (Err(error), _) => {
                // Nobody would find it.
                if sandbox.remove().is_ok() {
                    drop(registry.forget(name, generation));
                }
                return Err(error.into());
            }
        };
        faults::reached("ensure.ready");
        let row = registry.get(name)?;
        let lease = match &row {
            Some(row) => self.lease(row, caller)?,
            None => None,
        };
        let lease = lease.ok_or_else(|| EnsureError::Restless { name: name.clone() })?;
        faults::reached("call.leased");
        Ok(self.held(sandbox, how, identity, lease))
    }

    /// After a failed start: takes the row away if nothing is left, and says so if something is.
    fn not_made(&self, name: &str, start: backend::StartError) -> EnsureError {
        let row = match self.registry().get(name) {
            Ok(Some(row)) => row,
            Ok(None) => return start.into(),
            Err(error) => return error.into(),
        };
        match self.take_down(&row) {
            Ok(()) => start.into(),
            Err(EnsureError::Remove { cause, .. }) => {
                EnsureError::Left { start, cause: Box::new(cause) }
            }
            Err(error) => error,
        }
    }

    /// Starts a container that stopped.
    fn start(
        &self,
        row: &Row,
        wanted: &Wanted<'_>,
        caller: &Caller<'_>,
    ) -> Result<Option<Held<'a>>, EnsureError> {
        let (Some(Identity::Docker(identity)), Plan::Docker(spec)) = (&row.identity, wanted.plan)
        else {
            // A native pen that does not run is gone.
            self.take_down(row)?;
            return Ok(None);
        };
        let failed = |cause| backend::docker::StartError { name: row.name.clone(), cause };
        let engine = self
            .engines
            .docker_of(identity, self.state_dir)
            .map_err(|cause| backend::StartError::from(failed(cause)))?;
        let started = backend::docker::Pen::restart(&engine, &identity.container_id, spec);
        let Some(mut pen) = started.map_err(backend::StartError::from)? else {
            self.clear(row)?;
            return Ok(None);
        };
        let version = pen.channel().map_or(0, |channel| channel.welcome().version);
        let identity = Identity::Docker(identity.clone());
        self.registry().restarted(&row.name, row.generation, &identity, version.into())?;
        let Some(lease) = self.lease(row, caller)? else { return Ok(None) };
        let sandbox = Sandbox::Docker(Box::new(pen));
        Ok(Some(self.held(sandbox, How::Started, identity, lease)))
    }
}

impl Held<'_> {
    /// Records the call and lets go of the sandbox, in one change. If the call cannot be recorded that is an error,
    /// and the sandbox is let go of all the same.
    pub(crate) fn close(self, call: &Call) -> Result<(), AuditError> {
        let Self { sandbox, identity, lease, .. } = self;
        let engines = lease.lifecycle.engines;
        lease.release_with(call)?;
        engines.give_back(&identity, sandbox);
        Ok(())
    }
}

impl Leased<'_> {
    fn release_with(mut self, call: &Call) -> Result<(), AuditError> {
        let Lifecycle { database, clock, .. } = self.lifecycle;
        let now = clock.now();
        let written = database.write(|sql| -> Result<(), DatabaseError> {
            append_call(sql, call, now.wall)?;
            self.taken.as_ref().map_or(Ok(()), |lease| registry::release(sql, lease, &now))
        });
        let lease = self.taken.take();
        if written.is_err() {
            owed::keep(database, call, now.wall, lease);
        }
        Ok(written?)
    }
}

impl Drop for Leased<'_> {
    fn drop(&mut self) {
        if let Some(lease) = &self.taken {
            self.lifecycle.release(lease);
        }
        faults::reached("call.released");
    }
}
