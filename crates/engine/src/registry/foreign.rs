//! The reference's own registry: `sandbox/containers.json` and `sandbox/browsers.json`.
//!
//! Read, never written: those files are the reference's, and it may be running. What they name is
//! kept as foreign rows that follow the files, so that it can be listed; it is touched only after
//! [`Registry::adopt`]. A file that makes no sense is a problem to report, and what was read from it
//! earlier stays.

use std::fs::OpenOptions;
use std::io::{self, Read as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use clawpen_rules::timestamp::{Moment, Timestamp};
use serde::Deserialize;

use super::row::{Foreign, Generation, Kind, Survivor};
use super::store::{current, insert_ready, stored};
use super::{Registry, RegistryError};
use crate::database::{DatabaseError, Sql, word};

/// A larger file is no registry: this holds some ten thousand entries.
const MAX_BYTES: u64 = 8 * 1024 * 1024;
/// Do not wait for a writer if a pipe stands there.
const O_NONBLOCK: i32 = 0o4000;

/// What an import came to.
#[derive(Debug, Default)]
pub struct Imported {
    /// How many the files name.
    pub found: usize,
    pub problems: Vec<ImportProblem>,
}

/// A file that could not be used. What it said earlier is still listed.
#[derive(Debug, thiserror::Error)]
pub enum ImportProblem {
    #[error("cannot read the reference's registry `{}`", .path.display())]
    Unreadable {
        path: PathBuf,
        #[source]
        cause: io::Error,
    },
    #[error("the reference's registry `{}` makes no sense; it is left as it is", .path.display())]
    Malformed {
        path: PathBuf,
        #[source]
        cause: serde_json::Error,
    },
}

impl Registry<'_> {
    /// Brings the foreign rows up to what the reference's files say now.
    pub fn import(&self, state_dir: &Path) -> Result<Imported, RegistryError> {
        let mut imported = Imported::default();
        let mut sets = Vec::new();
        for (kind, name) in [(Kind::Sandbox, "containers.json"), (Kind::Browser, "browsers.json")] {
            match read(&state_dir.join("sandbox").join(name), kind) {
                Ok(found) => {
                    imported.found += found.len();
                    sets.push((kind, found));
                }
                Err(problem) => imported.problems.push(problem),
            }
        }
        // Usually there is nothing new, and a look needs no right to write.
        let fresh = self.database.read(|sql| {
            let mut known = all(sql)?;
            known.retain(|(row, _)| sets.iter().any(|(kind, _)| *kind == row.kind));
            let said = sets.iter().flat_map(|(_, rows)| rows);
            let is_same = known.len() == said.clone().count()
                && said.clone().all(|row| known.iter().any(|(known, _)| known == row));
            Ok::<_, RegistryError>(!is_same)
        })?;
        if fresh {
            self.database.write(|sql| {
                sets.iter().try_for_each(|(kind, rows)| replace(sql, *kind, rows))?;
                Ok::<_, RegistryError>(())
            })?;
        }
        Ok(imported)
    }

    /// The reference's sandboxes that are not adopted, oldest first.
    pub fn foreign(&self) -> Result<Vec<Foreign>, RegistryError> {
        self.database.read(|sql| {
            let rows = all(sql)?.into_iter();
            Ok(rows.filter(|(_, state)| *state == Adoption::No).map(|(row, _)| row).collect())
        })
    }

    /// Makes a sandbox of the reference ours: a ready row, with the identity that the caller found.
    /// From then on it is listed once, as ours.
    pub fn adopt(&self, foreign: &Foreign, ours: &Survivor) -> Result<Generation, RegistryError> {
        let Survivor { row, identity, protocol, created } = ours;
        self.database.write(|sql| {
            if let Some((_, state)) = current(sql, &row.name)? {
                return Err(RegistryError::Taken { name: row.name.clone(), state });
            }
            let marked = sql.run(
                "UPDATE reference_sandboxes SET adopted = 1 \
                 WHERE kind = ?1 AND name = ?2 AND adopted = 0",
                (foreign.kind.as_str(), &foreign.name),
            )?;
            if marked == 0 {
                return Err(RegistryError::Changed { name: foreign.name.clone() });
            }
            Ok(insert_ready(sql, row, (identity, *protocol), created)?)
        })
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Adoption {
    Yes,
    No,
}

/// The file as the reference writes it; members that we do not know are its own business.
#[derive(Deserialize)]
struct File {
    entries: Vec<Entry>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Entry {
    container_name: String,
    backend_id: Option<String>,
    runtime_label: Option<String>,
    session_key: String,
    created_at_ms: f64,
    last_used_at_ms: f64,
    image: String,
    config_label_kind: Option<String>,
    config_hash: Option<String>,
    cdp_port: Option<u16>,
    no_vnc_port: Option<u16>,
}

fn read(path: &Path, kind: Kind) -> Result<Vec<Foreign>, ImportProblem> {
    let Some(text) =
        text(path).map_err(|cause| ImportProblem::Unreadable { path: path.to_owned(), cause })?
    else {
        return Ok(Vec::new());
    };
    let file: File = serde_json::from_slice(&text)
        .map_err(|cause| ImportProblem::Malformed { path: path.to_owned(), cause })?;
    let mut found: Vec<Foreign> = Vec::with_capacity(file.entries.len());
    for entry in file.entries {
        let entry = entry.foreign(kind, path);
        // The reference keeps names unique; should one come twice, the later is the newer.
        found.retain(|known| known.name != entry.name);
        found.push(entry);
    }
    Ok(found)
}

impl Entry {
    fn foreign(self, kind: Kind, file: &Path) -> Foreign {
        let time = |millis: f64| {
            // JavaScript's numbers; what is no time is the beginning of time.
            #[expect(
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                reason = "the cast saturates, and nonsense becomes zero"
            )]
            let millis = millis as u64;
            Moment::wall(Timestamp::from_millis(millis.min(i64::MAX.unsigned_abs())))
        };
        let or = |text: Option<String>, other: &str| {
            text.filter(|text| !text.trim().is_empty()).unwrap_or_else(|| other.to_owned())
        };
        Foreign {
            kind,
            backend: or(self.backend_id, "docker"),
            label: or(self.runtime_label, &self.container_name),
            name: self.container_name,
            session_key: self.session_key,
            created: time(self.created_at_ms),
            last_used: time(self.last_used_at_ms),
            image: self.image,
            config_label_kind: or(self.config_label_kind, "Image"),
            config_hash: self.config_hash,
            cdp_port: self.cdp_port,
            no_vnc_port: self.no_vnc_port,
            file: file.to_string_lossy().into_owned(),
        }
    }
}

/// A file's bytes; `None` if there is none.
fn text(path: &Path) -> io::Result<Option<Vec<u8>>> {
    let file = match OpenOptions::new().read(true).custom_flags(O_NONBLOCK).open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    if !file.metadata()?.is_file() {
        return Err(io::Error::other("it is no regular file"));
    }
    let mut bytes = Vec::new();
    file.take(MAX_BYTES + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > MAX_BYTES {
        return Err(io::Error::other(format!("it is larger than {MAX_BYTES} bytes")));
    }
    Ok(Some(bytes))
}

fn all(sql: Sql<'_>) -> Result<Vec<(Foreign, Adoption)>, DatabaseError> {
    sql.all("SELECT * FROM reference_sandboxes ORDER BY created, name", [], |row| {
        let time =
            |column| row.get(column).map(|millis| Moment::wall(Timestamp::from_millis(millis)));
        let foreign = Foreign {
            name: row.get("name")?,
            kind: word(row, "kind", Kind::parse)?,
            backend: row.get("backend")?,
            label: row.get("label")?,
            session_key: row.get("session_key")?,
            created: time("created")?,
            last_used: time("used")?,
            image: row.get("image")?,
            config_label_kind: row.get("config_label_kind")?,
            config_hash: row.get("config_hash")?,
            cdp_port: row.get("cdp_port")?,
            no_vnc_port: row.get("no_vnc_port")?,
            file: row.get("file")?,
        };
        let adoption = if row.get("adopted")? { Adoption::Yes } else { Adoption::No };
        Ok((foreign, adoption))
    })
}

/// Puts what a file says in place of what it said. An adopted one stays adopted while it is named.
fn replace(sql: Sql<'_>, kind: Kind, rows: &[Foreign]) -> Result<(), DatabaseError> {
    let adopted: Vec<String> = all(sql)?
        .into_iter()
        .filter(|(row, state)| row.kind == kind && *state == Adoption::Yes)
        .map(|(row, _)| row.name)
        .collect();
    sql.run("DELETE FROM reference_sandboxes WHERE kind = ?1", [kind.as_str()])?;
    for row in rows {
        let Foreign { name, kind, backend, label, session_key, created, last_used, .. } = row;
        let Foreign { image, config_label_kind, config_hash, cdp_port, no_vnc_port, file, .. } =
            row;
        sql.run(
            "INSERT INTO reference_sandboxes VALUES \
             (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14)",
            (
                kind.as_str(),
                name,
                backend,
                label,
                session_key,
                stored(created.wall),
                stored(last_used.wall),
                image,
                config_label_kind,
                config_hash,
                cdp_port,
                no_vnc_port,
                file,
                adopted.contains(name),
            ),
        )?;
    }
    Ok(())
}
