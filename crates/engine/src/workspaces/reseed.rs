//! Renews what was seeded, and keeps what was there.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::io;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::path::Path;

use clawpen_os::beneath::{self, Existing, Place};
use clawpen_rules::timestamp::Timestamp;
use clawpen_rules::workspace::seeds::{self, Content, Digest, MAX_BYTES, Renewal};
use clawpen_rules::workspace::skills::DIRECTORY;

use super::ground::Ground;
use super::plain::{self, Attributes, NotPlain};
use super::record::{Locked, Record, SkillsRecord};
use super::skills::{self, Sources};
use super::trash::{About, TrashKind};
use super::{Compared, Extent, Reseeded, Wanted, WorkspaceError, Workspaces, record};
use crate::faults;

/// The name of the workspace that is being built.
const FRESH: &str = "workspace";

impl Workspaces {
    /// Compares the seeded files with their originals. Changes nothing.
    pub fn compare(&self, wanted: &Wanted) -> Result<Vec<Compared>, WorkspaceError> {
        let Some(directory) = wanted.layout.private() else { return Ok(Vec::new()) };
        let ground = Ground::look(Path::new(directory))?;
        let record = record::peek(&self.home, Path::new(directory))?;
        let seeded = record.map(|record| record.seeded).unwrap_or_default();
        let copies = ground.as_ref().map(Ground::directory);
        Ok(compare(wanted, copies, &seeded))
    }

    /// Renews seeds from the originals; what was there is in the trash afterwards.
    pub fn reseed(
        &self,
        wanted: &Wanted,
        extent: Extent,
        now: Timestamp,
    ) -> Result<Reseeded, WorkspaceError> {
        let Some(directory) = wanted.layout.private() else {
            return Err(WorkspaceError::NotPrivate { path: wanted.layout.agent().into() });
        };
        let record = Record::new(Path::new(directory), &wanted.scope_key, &wanted.agent);
        let mut locked = Locked::open(&self.home, record)?;
        let ground = Ground::ensure(Path::new(directory), wanted.owner)?;
        match extent {
            Extent::Files => self.renew_files(wanted, &ground, &mut locked, now),
            Extent::Whole => self.renew_whole(wanted, &ground, &mut locked, now),
        }
    }

    /// Each file changes places with its replacement, which waits in the trash: at any moment the old
    /// one is in the workspace or in the trash.
    fn renew_files(
        &self,
        wanted: &Wanted,
        ground: &Ground,
        locked: &mut Locked,
        now: Timestamp,
    ) -> Result<Reseeded, WorkspaceError> {
        let due: Vec<Compared> = compare(wanted, Some(ground.directory()), &locked.record.seeded)
            .into_iter()
            .filter(|file| file.standing.renewal() != Renewal::Leave && file.original.is_some())
            .collect();
        if due.is_empty() {
            return Ok(Reseeded { renewed: Vec::new(), trashed: None });
        }
        let failed = || WorkspaceError::io("renew the files of", &ground.path);
        let about = about(wanted, ground, (TrashKind::Files, "the seeded files were renewed"), now);
        let reserved = self.trash().reserve(ground.directory(), &about)?;
        let ours = Attributes { mode: 0o700, owner: ground.owner };
        let content = plain::make_directory(reserved.content(), ours).map_err(failed())?;
        let mut fresh = BTreeMap::new();
        let attributes = Attributes { mode: 0o644, owner: ground.owner };
        for Compared { name, original, .. } in &due {
            let bytes = original.as_deref().unwrap_or_default();
            let place = Place { directory: content.as_fd(), name: OsStr::new(name) };
            plain::put(place, bytes, attributes).map_err(failed())?;
            let inode = beneath::stat_name(content.as_fd(), place.name).map_err(failed())?.inode;
            fresh.insert((*name).to_owned(), inode);
            let digest = plain::digest(bytes);
            locked.record.seeded.insert((*name).to_owned(), digest.to_string());
        }
        reserved.write(fresh)?;
        faults::reached("reseed.built");
        let mut is_kept = false;
        for Compared { name, .. } in &due {
            let from = Place { directory: content.as_fd(), name: OsStr::new(name) };
            is_kept |= exchange(from, ground.at(OsStr::new(name))).map_err(failed())?;
            faults::reached("reseed.swapped");
        }
        locked.save()?;
        faults::reached("reseed.recorded");
        let renewed = due.iter().map(|file| file.name).collect();
        let id = reserved.id().clone();
        drop((reserved, content));
        if is_kept {
            return Ok(Reseeded { renewed, trashed: Some(id) });
        }
        // Nothing was there: the entry is empty.
        self.trash().tidy(&|_| 0, now)?;
        Ok(Reseeded { renewed, trashed: None })
    }

    /// A fresh copy takes the old one's place.
    fn renew_whole(
        &self,
        wanted: &Wanted,
        ground: &Ground,
        locked: &mut Locked,
        now: Timestamp,
    ) -> Result<Reseeded, WorkspaceError> {
        let failed = || WorkspaceError::io("renew", &ground.path);
        let workshop = ground.workshop().map_err(failed())?;
        let place = Place { directory: workshop.as_fd(), name: OsStr::new(FRESH) };
        let attributes = Attributes { mode: 0o700, owner: ground.owner };
        let fresh = plain::make_directory(place, attributes).map_err(failed())?;
        let mut record = Record::new(&ground.path, &wanted.scope_key, &wanted.agent);
        let mut renewed = Vec::new();
        for file in compare(wanted, None, &BTreeMap::new()) {
            let Some(bytes) = file.original else { continue };
            let place = Place { directory: fresh.as_fd(), name: OsStr::new(file.name) };
            let attributes = Attributes { mode: 0o644, owner: ground.owner };
            plain::put(place, &bytes, attributes).map_err(failed())?;
            record.seeded.insert(file.name.to_owned(), plain::digest(&bytes).to_string());
            renewed.push(file.name);
        }
        record.skills = fresh_skills(wanted, ground, &fresh).map_err(failed())?;
        drop(fresh);
        faults::reached("reseed.built");
        let about = about(wanted, ground, (TrashKind::Workspace, "the copy was renewed"), now);
        let about = About { skills: locked.record.skills.as_ref(), ..about };
        let id = self.trash().displace(ground.place(), place, &about)?;
        faults::reached("reseed.swapped");
        locked.record = record;
        locked.save()?;
        faults::reached("reseed.recorded");
        Ok(Reseeded { renewed, trashed: Some(id) })
    }
}

/// Builds the skills of a fresh workspace.
fn fresh_skills(
    wanted: &Wanted,
    ground: &Ground,
    fresh: &OwnedFd,
) -> io::Result<Option<SkillsRecord>> {
    let mut notes = Vec::new();
    let sources = Sources::open(&wanted.sources, &mut notes);
    let source = sources.stamp(wanted, &mut notes);
    let plan = sources.plan(wanted, &mut notes);
    if plan.copies.is_empty() {
        return Ok(None);
    }
    skills::build(fresh.as_fd(), &sources, &plan, (ground.owner, &mut notes))?;
    let target = skills::stamp_of(fresh.as_fd(), OsStr::new(DIRECTORY));
    Ok(source.map(|source| SkillsRecord { source, target, before: None }))
}

/// Puts `fresh` at `place`; says whether something was there, which is then where `fresh` was.
fn exchange(fresh: Place<'_>, place: Place<'_>) -> io::Result<bool> {
    match beneath::rename(fresh, place, Existing::Keep) {
        Ok(()) => return Ok(false),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
        Err(error) => return Err(error),
    }
    // A directory in a file's place may be closed to its owner.
    beneath::open_up(place.directory, place.name)?;
    beneath::rename(fresh, place, Existing::Exchange)?;
    Ok(true)
}

fn about<'a>(
    wanted: &'a Wanted,
    ground: &'a Ground,
    (kind, reason): (TrashKind, &'a str),
    now: Timestamp,
) -> About<'a> {
    About {
        kind,
        origin: &ground.path,
        root: ground.path.parent().unwrap_or(Path::new("/")),
        reason,
        scope_key: &wanted.scope_key,
        agent: &wanted.agent,
        skills: None,
        now,
    }
}

/// Looks at originals and copies.
pub(super) fn compare(
    wanted: &Wanted,
    copies: Option<BorrowedFd<'_>>,
    seeded: &BTreeMap<String, String>,
) -> Vec<Compared> {
    let originals = beneath::open_root(Path::new(wanted.layout.agent())).ok();
    let originals = originals.as_ref().map(|directory| directory.as_fd());
    let names = wanted.layout.seeds().iter();
    names
        .map(|name| {
            let (original_content, original) = content(originals, name);
            let (copy_content, copy) = content(copies, name);
            let seeded = seeded.get(*name).and_then(|text| Digest::parse(text));
            let standing = seeds::compare(original_content, copy_content, seeded);
            Compared { name, standing, original, copy }
        })
        .collect()
}

fn content(directory: Option<BorrowedFd<'_>>, name: &str) -> (Content, Option<Vec<u8>>) {
    let Some(directory) = directory else { return (Content::Missing, None) };
    match plain::read(directory, Path::new(name), MAX_BYTES) {
        Ok(bytes) => (Content::File(plain::digest(&bytes)), Some(bytes)),
        Err(NotPlain::Missing) => (Content::Missing, None),
        Err(NotPlain::Unusable(why)) => (Content::Unusable(why), None),
    }
}
