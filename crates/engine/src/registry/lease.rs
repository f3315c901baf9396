//! Leases: one row per call in flight. Taking one and releasing it are the two uses that a call
//! writes down, to the second, so a sandbox is never idle while it works.

use std::time::Duration;

use clawpen_rules::backend::Backend;
use clawpen_rules::timestamp::Moment;

use super::row::{Generation, Holder, Identity, Lease, LeaseId, Liveness, State};
use super::store::{identity, moment, stored, touch};
use super::{Registry, RegistryError};
use crate::database::{DatabaseError, Sql};
use crate::random;

/// Who takes a lease, and for what.
#[derive(Debug, Clone, Copy)]
pub struct Use<'a> {
    pub holder: &'a Holder,
    pub call: &'a str,
    /// Becomes the session that asked last.
    pub session: Option<&'a str>,
}

/// What a sandbox must be to be leased at once.
#[derive(Debug, Clone, Copy)]
pub struct AsWanted<'a> {
    pub name: &'a str,
    pub backend: Backend,
    pub fingerprint: &'a str,
}

/// A lease, as whoever took it keeps it: what is needed to give it back without looking it up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Taken {
    pub(super) id: LeaseId,
    name: String,
    since: Moment,
}

/// A sandbox that was leased at once: all that is needed to reach it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Leased {
    pub generation: Generation,
    pub identity: Identity,
    pub lease: Taken,
}

/// By number, and no more columns than a call needs: every call asks this.
const READY: &str = "
    SELECT session, generation, used, used_boot, used_uptime, \
     identity, boot_id, pid, start_time, place, container_id, state_label \
     FROM sandboxes WHERE name = ?1 AND state = 'ready' AND backend = ?2 AND fingerprint = ?3";

impl Registry<'_> {
    /// Keeps a sandbox from being removed until the lease is released or its holder is dead.
    pub fn lease(
        &self,
        name: &str,
        generation: Generation,
        usage: &Use<'_>,
        now: &Moment,
    ) -> Result<Taken, RegistryError> {
        self.change(name, generation, |sql, state| {
            if state != State::Ready {
                return Err(RegistryError::WrongState { name: name.to_owned(), state });
            }
            touch(sql, name, usage.session, now)?;
            Ok(take(sql, name, usage, now)?)
        })
    }

    /// The same for a sandbox that is ready and as wanted, looked at and leased in one change. `None`: it is not.
    pub fn lease_as_is(
        &self,
        wanted: &AsWanted<'_>,
        usage: &Use<'_>,
        now: &Moment,
    ) -> Result<Option<Leased>, RegistryError> {
        let AsWanted { name, backend, fingerprint } = *wanted;
        self.database.write(|sql| {
            let found = sql.first(READY, (name, backend.as_str(), fingerprint), |row| {
                let session: Option<String> = row.get(0)?;
                let is_same = usage.session.is_none_or(|asking| session.as_deref() == Some(asking));
                let is_noted = is_same && is_close(&moment(row, [2, 3, 4])?, now);
                Ok((Generation(row.get(1)?), is_noted, identity(row, 5)?))
            })?;
            let Some((generation, is_noted, Some(identity))) = found else { return Ok(None) };
            if !is_noted {
                touch(sql, name, usage.session, now)?;
            }
            let lease = take(sql, name, usage, now)?;
            Ok(Some(Leased { generation, identity, lease }))
        })
    }

    /// The call is over. `Ok` also if the lease is gone: the sandbox was removed under it by force.
    pub fn release(&self, lease: &Taken, now: &Moment) -> Result<(), RegistryError> {
        self.database.write(|sql| Ok(release(sql, lease, now)?))
    }

    /// The calls in flight in one sandbox.
    pub fn leases(&self, name: &str) -> Result<Vec<Lease>, RegistryError> {
        self.database.read(|sql| Ok(of(sql, name)?))
    }

    /// All calls in flight.
    pub fn all_leases(&self) -> Result<Vec<Lease>, RegistryError> {
        self.database
            .read(|sql| Ok(sql.all("SELECT * FROM leases ORDER BY since, id", [], lease)?))
    }

    /// Deletes the leases of dead holders; gives their number.
    pub fn sweep(&self, liveness: impl Fn(&Holder) -> Liveness) -> Result<usize, RegistryError> {
        let seen = self.all_leases()?;
        let dead: Vec<LeaseId> = seen
            .iter()
            .filter(|lease| liveness(&lease.holder) == Liveness::Dead)
            .map(|lease| lease.id)
            .collect();
        if dead.is_empty() {
            return Ok(0);
        }
        // The dead stay dead, and an id is never given twice.
        self.database.write(|sql| {
            for id in &dead {
                delete(sql, *id)?;
            }
            Ok(dead.len())
        })
    }
}

fn take(sql: Sql<'_>, name: &str, usage: &Use<'_>, now: &Moment) -> Result<Taken, DatabaseError> {
    let Holder { pid, start_time, boot_id, pid_namespace } = usage.holder;
    // As large as SQLite counts.
    let id = LeaseId(random::number() >> 1);
    sql.run(
        "INSERT INTO leases (id, name, call, pid, start_time, boot_id, pid_namespace, since, \
         since_boot, since_uptime) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)",
        (
            id.0,
            name,
            usage.call,
            pid,
            start_time,
            boot_id,
            pid_namespace,
            stored(now.wall),
            now.boot.as_ref().map(|boot| &boot.id),
            now.boot.as_ref().map(|boot| boot.millis),
        ),
    )?;
    Ok(Taken { id, name: name.to_owned(), since: now.clone() })
}

/// Releases a lease within a change that it belongs to.
pub(crate) fn release(sql: Sql<'_>, lease: &Taken, now: &Moment) -> Result<(), DatabaseError> {
    let is_there = delete(sql, lease.id)?;
    // Taking it was noted just now.
    if is_there && !is_close(&lease.since, now) {
        touch(sql, &lease.name, None, now)
    } else {
        Ok(())
    }
}

/// Whether a use was written down so shortly before that another line would tell nothing: idle time is counted in
/// minutes, and every line is a page of the log.
fn is_close(then: &Moment, now: &Moment) -> bool {
    const GRAIN: Duration = Duration::from_secs(1);
    let is_ahead = then.wall.as_millis() > now.wall.as_millis();
    !is_ahead && now.wall.since(then.wall) < GRAIN && now.since(then) < GRAIN
}

pub(super) fn of(sql: Sql<'_>, name: &str) -> Result<Vec<Lease>, DatabaseError> {
    sql.all("SELECT * FROM leases WHERE name = ?1 ORDER BY since, id", [name], lease)
}

/// Says whether it was there.
pub(super) fn delete(sql: Sql<'_>, id: LeaseId) -> Result<bool, DatabaseError> {
    Ok(sql.run("DELETE FROM leases WHERE id = ?1", [id.0])? > 0)
}

fn lease(row: &rusqlite::Row<'_>) -> rusqlite::Result<Lease> {
    Ok(Lease {
        id: LeaseId(row.get("id")?),
        name: row.get("name")?,
        holder: Holder {
            pid: row.get("pid")?,
            start_time: row.get("start_time")?,
            boot_id: row.get("boot_id")?,
            pid_namespace: row.get("pid_namespace")?,
        },
        call: row.get("call")?,
        since: moment(row, ["since", "since_boot", "since_uptime"])?,
    })
}
