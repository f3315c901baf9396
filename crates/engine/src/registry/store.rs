//! Rows: written before anything is made, deleted after everything is gone.

use clawpen_rules::backend::Backend;
use clawpen_rules::ids::AgentId;
use clawpen_rules::scope::ScopeKey;
use clawpen_rules::timestamp::{Moment, SinceBoot, Timestamp};
use rusqlite::{RowIndex, named_params};

use super::row::{
    DockerIdentity, Generation, Identity, Kind, Liveness, NativeIdentity, NewRow, Row, State,
    Survivor,
};
use super::{InFlight, Registry, RegistryError, lease};
use crate::database::{DatabaseError, Sql, word};

const INSERT: &str = "
    INSERT INTO sandboxes (
        name, kind, backend, scope, session, agent, image, fingerprint, workspace_dir,
        state, generation, protocol,
        created, created_boot, created_uptime, used, used_boot, used_uptime
    ) VALUES (
        :name, :kind, :backend, :scope, :session, :agent, :image, :fingerprint, :workspace_dir,
        :state, :generation, 0,
        :wall, :boot, :uptime, :wall, :boot, :uptime
    )";

const IDENTIFY: &str = "
    UPDATE sandboxes SET
        identity = :identity, boot_id = :boot_id, pid = :pid, start_time = :start_time,
        place = :place, container_id = :container_id, state_label = :state_label
    WHERE name = :name";

impl Registry<'_> {
    /// Writes down that a sandbox is about to be made.
    pub fn begin(&self, new: &NewRow, now: &Moment) -> Result<Generation, RegistryError> {
        self.database.write(|sql| {
            if let Some((_, state)) = current(sql, &new.name)? {
                return Err(RegistryError::Taken { name: new.name.clone(), state });
            }
            Ok(insert(sql, new, State::Creating, now)?)
        })
    }

    /// Writes down what exists of a sandbox that is being made, as soon as anything does: after a
    /// crash it is found by this.
    pub fn identify(
        &self,
        name: &str,
        generation: Generation,
        identity: &Identity,
    ) -> Result<(), RegistryError> {
        self.change(name, generation, |sql, state| match state {
            State::Creating | State::Ready => Ok(identify(sql, name, identity)?),
            State::Removing => Err(RegistryError::WrongState { name: name.to_owned(), state }),
        })
    }

    /// The sandbox is made, proven and set up; its supervisor speaks `protocol`.
    pub fn ready(
        &self,
        name: &str,
        generation: Generation,
        protocol: u32,
        now: &Moment,
    ) -> Result<(), RegistryError> {
        self.change(name, generation, |sql, state| {
            if state != State::Creating {
                return Err(RegistryError::WrongState { name: name.to_owned(), state });
            }
            sql.run(
                "UPDATE sandboxes SET state = 'ready', protocol = ?2 WHERE name = ?1",
                (name, protocol),
            )?;
            Ok(touch(sql, name, None, now)?)
        })
    }

    /// A stopped sandbox runs again: same row, other process.
    pub fn restarted(
        &self,
        name: &str,
        generation: Generation,
        identity: &Identity,
        protocol: u32,
    ) -> Result<(), RegistryError> {
        self.change(name, generation, |sql, state| {
            if state != State::Ready {
                return Err(RegistryError::WrongState { name: name.to_owned(), state });
            }
            identify(sql, name, identity)?;
            sql.run("UPDATE sandboxes SET protocol = ?2 WHERE name = ?1", (name, protocol))?;
            Ok(())
        })
    }

    /// Writes down that a sandbox is about to be removed. From here on nobody gets a lease on it.
    ///
    /// Leases of dead processes never count. A sandbox that is being removed already is fine: whoever
    /// began may have died.
    pub fn begin_removal(
        &self,
        name: &str,
        generation: Generation,
        in_flight: InFlight,
        liveness: impl Fn(&super::Holder) -> Liveness,
    ) -> Result<(), RegistryError> {
        self.change(name, generation, |sql, _| {
            let leases = lease::of(sql, name)?;
            let (dead, held): (Vec<_>, Vec<_>) =
                leases.into_iter().partition(|lease| liveness(&lease.holder) == Liveness::Dead);
            for lease in &dead {
                lease::delete(sql, lease.id)?;
            }
            if in_flight == InFlight::Respect && !held.is_empty() {
                return Err(RegistryError::InUse { name: name.to_owned(), leases: held });
            }
            sql.run("UPDATE sandboxes SET state = 'removing' WHERE name = ?1", [name])?;
            Ok(())
        })
    }

    /// Deletes the row and its leases: nothing of the sandbox is left. `Ok` if that was so already.
    pub fn forget(&self, name: &str, generation: Generation) -> Result<(), RegistryError> {
        self.database.write(|sql| {
            let gone = sql.run(
                "DELETE FROM sandboxes WHERE name = ?1 AND generation = ?2",
                (name, generation.0),
            )?;
            if gone > 0 {
                sql.run("DELETE FROM leases WHERE name = ?1", [name])?;
            }
            Ok(())
        })
    }

    /// One sandbox.
    pub fn get(&self, name: &str) -> Result<Option<Row>, RegistryError> {
        self.database.read(|sql| Ok(one(sql, name)?))
    }

    /// Every sandbox, oldest first.
    pub fn list(&self) -> Result<Vec<Row>, RegistryError> {
        self.database.read(|sql| Ok(sql.all(SELECT_ALL, [], row)?))
    }

    /// Writes down the use of a sandbox outside of a lease, and by whom.
    pub fn touch(
        &self,
        name: &str,
        generation: Generation,
        session: Option<&str>,
        now: &Moment,
    ) -> Result<(), RegistryError> {
        self.change(name, generation, |sql, _| Ok(touch(sql, name, session, now)?))
    }

    /// Writes down sandboxes that run and are not known, in one go; gives their names.
    pub fn take_in(&self, survivors: &[Survivor]) -> Result<Vec<String>, RegistryError> {
        self.database.write(|sql| {
            let mut taken = Vec::new();
            for survivor in survivors {
                if current(sql, &survivor.row.name)?.is_none() {
                    let Survivor { row, identity, protocol, created } = survivor;
                    insert_ready(sql, row, (identity, *protocol), created)?;
                    taken.push(row.name.clone());
                }
            }
            Ok(taken)
        })
    }

    /// Changes a row if it is still the one that the caller saw.
    pub(super) fn change<T>(
        self,
        name: &str,
        generation: Generation,
        work: impl FnOnce(Sql<'_>, State) -> Result<T, RegistryError>,
    ) -> Result<T, RegistryError> {
        self.database.write(|sql| match current(sql, name)? {
            Some((found, state)) if found == generation => work(sql, state),
            _ => Err(RegistryError::Changed { name: name.to_owned() }),
        })
    }
}

pub(super) fn one(sql: Sql<'_>, name: &str) -> Result<Option<Row>, DatabaseError> {
    sql.first(SELECT_ONE, [name], row)
}

pub(super) fn current(
    sql: Sql<'_>,
    name: &str,
) -> Result<Option<(Generation, State)>, DatabaseError> {
    sql.first("SELECT generation, state FROM sandboxes WHERE name = ?1", [name], |row| {
        Ok((Generation(row.get("generation")?), word(row, "state", State::parse)?))
    })
}

fn insert(
    sql: Sql<'_>,
    new: &NewRow,
    state: State,
    now: &Moment,
) -> Result<Generation, DatabaseError> {
    let NewRow { name, kind, backend, scope, session, agent, .. } = new;
    let NewRow { image, fingerprint, workspace_dir, .. } = new;
    sql.run("UPDATE counters SET value = value + 1 WHERE name = 'generation'", [])?;
    let number = sql
        .first("SELECT value FROM counters WHERE name = 'generation'", [], |row| row.get(0))?
        .unwrap_or_default();
    sql.run(
        INSERT,
        named_params! {
            ":name": name,
            ":kind": kind.as_str(),
            ":backend": backend.as_str(),
            ":scope": scope.as_str(),
            ":session": session,
            ":agent": agent.as_ref().map(AgentId::as_str),
            ":image": image,
            ":fingerprint": fingerprint,
            ":workspace_dir": workspace_dir,
            ":state": state.as_str(),
            ":generation": number,
            ":wall": stored(now.wall),
            ":boot": now.boot.as_ref().map(|boot| &boot.id),
            ":uptime": now.boot.as_ref().map(|boot| boot.millis),
        },
    )?;
    Ok(Generation(number))
}

/// A row of something that is there already.
pub(super) fn insert_ready(
    sql: Sql<'_>,
    new: &NewRow,
    (identity, protocol): (&Identity, u32),
    created: &Moment,
) -> Result<Generation, DatabaseError> {
    let generation = insert(sql, new, State::Ready, created)?;
    identify(sql, &new.name, identity)?;
    sql.run("UPDATE sandboxes SET protocol = ?2 WHERE name = ?1", (&new.name, protocol))?;
    Ok(generation)
}

fn identify(sql: Sql<'_>, name: &str, identity: &Identity) -> Result<(), DatabaseError> {
    let (native, docker) = match identity {
        Identity::Native(native) => (Some(native), None),
        Identity::Docker(docker) => (None, Some(docker)),
    };
    let place = native.map(|id| &id.socket).or(docker.map(|id| &id.endpoint));
    sql.run(
        IDENTIFY,
        named_params! {
            ":name": name,
            ":identity": if native.is_some() { "native" } else { "docker" },
            ":boot_id": native.map(|id| &id.boot_id),
            ":pid": native.map(|id| id.pid),
            ":start_time": native.map(|id| id.start_time),
            ":place": place,
            ":container_id": docker.map(|id| &id.container_id),
            ":state_label": docker.map(|id| &id.state_label),
        },
    )?;
    Ok(())
}

/// The last use wins, whatever the clock says: it is the order of writing that counts, and `Moment`
/// knows how to compare.
pub(super) fn touch(
    sql: Sql<'_>,
    name: &str,
    session: Option<&str>,
    now: &Moment,
) -> Result<(), DatabaseError> {
    sql.run(
        "UPDATE sandboxes SET used = ?2, used_boot = ?3, used_uptime = ?4, \
         session = coalesce(?5, session) WHERE name = ?1",
        (
            name,
            stored(now.wall),
            now.boot.as_ref().map(|boot| &boot.id),
            now.boot.as_ref().map(|boot| boot.millis),
            session,
        ),
    )?;
    Ok(())
}

/// `SQLite` counts to 2^63.
pub(super) fn stored(time: Timestamp) -> u64 {
    time.as_millis().min(i64::MAX.unsigned_abs())
}

pub(super) fn moment<I: RowIndex>(
    row: &rusqlite::Row<'_>,
    [wall, boot, uptime]: [I; 3],
) -> rusqlite::Result<Moment> {
    let id: Option<String> = row.get(boot)?;
    let millis: Option<u64> = row.get(uptime)?;
    let boot = id.zip(millis).map(|(id, millis)| SinceBoot { id, millis });
    Ok(Moment { wall: Timestamp::from_millis(row.get(wall)?), boot })
}

/// The columns in the order in which [`row`] reads them: by number, because finding 25 columns by
/// their names costs more than reading them.
macro_rules! select {
    ($rest:literal) => {
        concat!(
            "SELECT name, kind, backend, scope, session, agent, image, fingerprint, workspace_dir, \
             state, generation, protocol, created, created_boot, created_uptime, \
             used, used_boot, used_uptime, \
             identity, boot_id, pid, start_time, place, container_id, state_label \
             FROM sandboxes ",
            $rest
        )
    };
}

const SELECT_ONE: &str = select!("WHERE name = ?1");
const SELECT_ALL: &str = select!("ORDER BY generation");

fn row(row: &rusqlite::Row<'_>) -> rusqlite::Result<Row> {
    let agent: Option<String> = row.get(5)?;
    Ok(Row {
        name: row.get(0)?,
        kind: word(row, 1, Kind::parse)?,
        backend: word(row, 2, Backend::parse)?,
        scope: word(row, 3, ScopeKey::stored)?,
        session: row.get(4)?,
        agent: agent.as_deref().map(AgentId::normalize),
        image: row.get(6)?,
        fingerprint: row.get(7)?,
        workspace_dir: row.get(8)?,
        state: word(row, 9, State::parse)?,
        generation: Generation(row.get(10)?),
        protocol: row.get(11)?,
        created: moment(row, [12, 13, 14])?,
        last_used: moment(row, [15, 16, 17])?,
        identity: identity(row, 18)?,
    })
}

/// The seven columns of an identity, from the column `first` on.
pub(super) fn identity(
    row: &rusqlite::Row<'_>,
    first: usize,
) -> rusqlite::Result<Option<Identity>> {
    let kind: Option<String> = row.get(first)?;
    match kind.as_deref() {
        None => Ok(None),
        Some("native") => Ok(Some(Identity::Native(NativeIdentity {
            boot_id: row.get(first + 1)?,
            pid: row.get(first + 2)?,
            start_time: row.get(first + 3)?,
            socket: row.get(first + 4)?,
        }))),
        Some(_) => Ok(Some(Identity::Docker(DockerIdentity {
            container_id: row.get(first + 5)?,
            endpoint: row.get(first + 4)?,
            state_label: row.get(first + 6)?,
        }))),
    }
}
