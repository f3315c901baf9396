//! Leases: one row per call in flight. Taking one and releasing it are the two uses that a call
//! writes down, to the second, so a sandbox is never idle while it works.

use std::time::Duration;

use clawpen_rules::timestamp::Moment;

use super::row::{Generation, Holder, Lease, LeaseId, Liveness, Row, State};
use super::store::{moment, one, stored, touch};
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

impl Registry<'_> {
    /// Keeps a sandbox from being removed until the lease is released or its holder is dead.
    pub fn lease(
        &self,
        name: &str,
        generation: Generation,
        usage: &Use<'_>,
        now: &Moment,
    ) -> Result<LeaseId, RegistryError> {
        self.change(name, generation, |sql, state| {
            if state != State::Ready {
                return Err(RegistryError::WrongState { name: name.to_owned(), state });
            }
            touch(sql, name, usage.session, now)?;
            Ok(take(sql, name, usage, now)?)
        })
    }

    /// The same for a sandbox that is ready and that `is_wanted`, looked at and leased in one change. `None`: it is
    /// not.
    pub fn lease_if(
        &self,
        name: &str,
        usage: &Use<'_>,
        now: &Moment,
        is_wanted: impl FnOnce(&Row) -> bool,
    ) -> Result<Option<(Row, LeaseId)>, RegistryError> {
        self.database.write(|sql| {
            let found = one(sql, name)?.filter(|row| row.state == State::Ready && is_wanted(row));
            let Some(row) = found else { return Ok(None) };
            let is_same =
                usage.session.is_none_or(|session| row.session.as_deref() == Some(session));
            if !(is_same && is_close(&row.last_used, now)) {
                touch(sql, name, usage.session, now)?;
            }
            let lease = take(sql, name, usage, now)?;
            Ok(Some((row, lease)))
        })
    }

    /// The call is over. `Ok` also if the lease is gone: the sandbox was removed under it by force.
    pub fn release(&self, lease: LeaseId, now: &Moment) -> Result<(), RegistryError> {
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

fn take(sql: Sql<'_>, name: &str, usage: &Use<'_>, now: &Moment) -> Result<LeaseId, DatabaseError> {
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
    Ok(id)
}

/// Releases a lease within a change that it belongs to.
pub(crate) fn release(sql: Sql<'_>, lease: LeaseId, now: &Moment) -> Result<(), DatabaseError> {
    let returned =
        "DELETE FROM leases WHERE id = ?1 RETURNING name, since, since_boot, since_uptime";
    let ended = sql.first(returned, [lease.0], |row| {
        Ok((row.get::<_, String>(0)?, moment(row, ["since", "since_boot", "since_uptime"])?))
    })?;
    match ended {
        // Taking it was noted just now.
        Some((_, since)) if is_close(&since, now) => Ok(()),
        Some((name, _)) => touch(sql, &name, None, now),
        None => Ok(()),
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

pub(super) fn delete(sql: Sql<'_>, id: LeaseId) -> Result<(), DatabaseError> {
    sql.run("DELETE FROM leases WHERE id = ?1", [id.0])?;
    Ok(())
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
