//! What is made ahead for native pens: makers that wait for an order, and whole pens that wait for their first
//! command.
//!
//! ```text
//! nothing          each pen starts the supervisor program for itself: what a command line does
//! a zygote         makers are forked from one that has started (`keep_ready`)
//! pens in stock    made and proven for exactly what will be asked for, not sealed, not written down (`stock`)
//! ```
//!
//! A pen from the stock is given away only for a plan that is equal to its own in every byte, the ids, the limits,
//! the environment and what is written into `/etc` included, and only if what it has mounted of the host is still
//! what stands there. Nobody has run anything in it, so what was proven holds; sealing it and writing it down come
//! after, as for any other. It ends with this value, or with this process however that ends, because it is not
//! sealed.
//!
//! Nobody who makes a pen waits for whoever fills the stock: the lock is held to look and to put, never to make.

use std::collections::BTreeSet;
use std::io;
use std::os::fd::AsFd as _;
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use clawpen_os::beneath::{self, Open, Root};
use clawpen_os::events::{self, Interest};
use clawpen_wire::pen::{Lifetime, MountStep};

use super::plan::Blueprint;
use super::{Proven, Request, StartFailure, switches};
use crate::supervisor_image::{Maker, StartPenError, Zygote};

/// A pen that waits has nothing else to do than to answer; making another takes a few milliseconds.
const PATIENCE: Duration = Duration::from_secs(1);
/// Names that are remembered at most.
const MOST_NAMES: usize = 1024;

/// Made ahead, and shared by all who make pens here.
#[derive(Debug, Default)]
pub(crate) struct Ahead(Mutex<Store>);

#[derive(Debug, Default)]
struct Store {
    zygote: Option<Zygote>,
    makers: Vec<Maker>,
    /// The oldest first.
    pens: Vec<Stocked>,
    /// Whose pens were made or given out since somebody asked.
    given: BTreeSet<String>,
}

/// A pen that waits, and what it was made for.
#[derive(Debug)]
struct Stocked {
    blueprint: Blueprint,
    name: String,
    state_dir: String,
    proven: Proven,
}

impl Ahead {
    /// Sees to it that `count` makers wait, all from one zygote.
    pub(crate) fn keep_ready(&self, count: usize) {
        // A test's switches are read when the program starts: each maker has to be one of its own.
        if self.store().zygote.is_none() && switches::switches().is_empty() {
            let started = Zygote::start().ok();
            let mut store = self.store();
            // Another may have been quicker; then this one ends here.
            store.zygote = store.zygote.take().or(started);
        }
        let mut store = self.store();
        store.makers.retain(Maker::is_waiting);
        while store.makers.len() < count {
            let Ok(maker) = store.new_maker() else { return };
            store.makers.push(maker);
        }
    }

    /// Starts a maker if none waits, so that it gets going while the caller still decides.
    pub(crate) fn begin(&self) {
        let mut store = self.store();
        if store.makers.is_empty() && store.pens.is_empty() {
            // Whoever needs it tries again, and hears why.
            let maker = store.new_maker().ok();
            store.makers.extend(maker);
        }
    }

    /// A maker: one that waits, else a new one.
    pub(super) fn maker(&self) -> Result<Maker, StartPenError> {
        let mut store = self.store();
        // Somebody may have ended those that wait.
        while let Some(maker) = store.makers.pop() {
            if maker.is_waiting() {
                return Ok(maker);
            }
        }
        store.new_maker()
    }

    /// Remembers that a pen was given to its owner.
    pub(super) fn given(&self, name: &str) {
        let mut store = self.store();
        store.given.insert(name.to_owned());
        // Where nobody asks, nothing piles up: one that is forgotten only has no pen made ahead.
        if store.given.len() > MOST_NAMES {
            let forgotten = store.given.iter().find(|other| *other != name).cloned();
            forgotten.map(|other| store.given.remove(&other));
        }
    }

    /// Whether a pen of this name was given out since this was last asked.
    pub(crate) fn was_given(&self, name: &str) -> bool {
        self.store().given.remove(name)
    }

    /// Ends the oldest pens until no more than `most` wait.
    pub(crate) fn trim(&self, most: usize) {
        let ended: Vec<Stocked> = {
            let mut store = self.store();
            let surplus = store.pens.len().saturating_sub(most);
            store.pens.drain(..surplus).collect()
        };
        // Not while others wait for the lock.
        drop(ended);
    }

    /// Keeps a pen until one like it is asked for.
    pub(super) fn keep(&self, request: &Request<'_>, blueprint: Blueprint, proven: Proven) {
        let (name, state_dir) = (request.name.to_owned(), request.state_dir.to_owned());
        let kept = Stocked { blueprint, name, state_dir, proven };
        let ended: Vec<Stocked> = {
            let mut store = self.store();
            // Of a name, what was made for another config will not be asked for again.
            let is_old = |pen: &mut Stocked| {
                pen.name == kept.name
                    && pen.state_dir == kept.state_dir
                    && pen.lifetime() == request.lifetime
                    && pen.blueprint != kept.blueprint
            };
            let ended = store.pens.extract_if(.., is_old).collect();
            store.pens.push(kept);
            ended
        };
        drop(ended);
    }

    /// How many wait that are like it.
    pub(super) fn count(&self, request: &Request<'_>, blueprint: &Blueprint) -> usize {
        self.store().pens.iter().filter(|pen| pen.is_for(request, blueprint)).count()
    }

    pub(super) fn has_pens(&self) -> bool {
        !self.store().pens.is_empty()
    }

    /// A pen that was made for exactly this. One that does not answer, or whose mounts are no longer what stands there,
    /// is ended.
    pub(super) fn take(&self, request: &Request<'_>, blueprint: &Blueprint) -> Option<Proven> {
        loop {
            let mut found = {
                let mut store = self.store();
                let place = store.pens.iter().position(|pen| pen.is_for(request, blueprint))?;
                store.pens.remove(place)
            };
            if found.is_current().is_ok_and(|current| current)
                && found.proven.channel.answers_within(PATIENCE)
            {
                return Some(found.proven);
            }
            // Otherwise it ends here, with its value, and the next one is looked at.
        }
    }

    fn store(&self) -> MutexGuard<'_, Store> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Store {
    /// From the zygote if there is one that lives.
    fn new_maker(&mut self) -> Result<Maker, StartPenError> {
        if let Some(zygote) = &self.zygote {
            match zygote.maker() {
                Ok(maker) => return Ok(maker),
                // Somebody has ended it. What it would have forked is the same program.
                Err(_) => self.zygote = None,
            }
        }
        Maker::start()
    }
}

impl Stocked {
    const fn lifetime(&self) -> Lifetime {
        self.blueprint.spec.serve.lifetime
    }

    fn is_for(&self, request: &Request<'_>, blueprint: &Blueprint) -> bool {
        self.state_dir == request.state_dir && self.blueprint == *blueprint
    }

    /// Whether it lives, and what it has of the host is what a new one would get: a directory may have been moved
    /// away since, with another in its place.
    fn is_current(&self) -> Result<bool, StartFailure> {
        let look =
            |cause| StartFailure::System { what: "look at a pen that was made ahead", cause };
        let (pid, pidfd) = self.proven.process();
        let ended = events::poll(&[(pidfd, Interest::Read)], Some(Duration::ZERO)).map_err(look)?;
        if !ended.is_empty() {
            return Ok(false);
        }
        let root = beneath::open_root(Path::new(&format!("/proc/{pid}/root"))).map_err(look)?;
        let host = beneath::open_root(Path::new("/")).map_err(look)?;
        let identity = |root: Root<'_>, path: &Path| -> io::Result<(u64, u64)> {
            let opened = beneath::open(root, path, Open::Handle)?;
            let found = beneath::stat(opened.as_fd())?;
            Ok((found.device, found.inode))
        };
        for (source, target) in self.blueprint.binds() {
            let inside = identity(Root::with_absolute_links(root.as_fd()), target).map_err(look)?;
            let outside = identity(host.as_fd().into(), source).map_err(look)?;
            if inside != outside {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

impl Blueprint {
    /// What is mounted of the host: from where, to where.
    pub(super) fn binds(&self) -> impl Iterator<Item = (&Path, &Path)> {
        let steps = self.spec.make.iter().flat_map(|plan| &plan.root);
        steps.filter_map(|step| match step {
            MountStep::Bind { source, target, .. } => Some((source.as_path(), target.as_path())),
            MountStep::Device { .. }
            | MountStep::Directory { .. }
            | MountStep::Tmpfs { .. }
            | MountStep::Proc { .. }
            | MountStep::Devpts { .. }
            | MountStep::File { .. }
            | MountStep::Symlink { .. }
            | MountStep::Mask { .. }
            | MountStep::ReadOnly { .. }
            | MountStep::Mqueue { .. } => None,
        })
    }
}

#[cfg(test)]
mod tests;
