//! `apply_patch`: every file is read, the whole patch is worked out, then all files change together or none does.
//!
//! ```text
//! parse ─► read what it names ─► decide ─► stage all ─► put all in place ─► clear away what was deleted
//!                                   └ a refusal: nothing was touched   └ a failure: what was done is taken back
//! ```
//!
//! What holds if this process is killed: see `channel/batch.rs`. A deleted file is renamed to `.clawpen-deleted-…`
//! beside itself and removed at the end; a kill between the two leaves that name behind. Directories that were made
//! for a patch that then failed stay.

use std::collections::{BTreeMap, BTreeSet};

use clawpen_rules::tools::arguments::{PatchCall, Run};
use clawpen_rules::tools::patch::{self, Action, Change, Patch, PatchReason, Plan, Snapshot};
use clawpen_rules::tools::place::{self, PenPath};
use clawpen_wire::supervisor::{Depth, FileKind, Links, OnExisting};
use serde_json::json;

use super::{Answer, NEW_FILE, Stamp, ToolError, Tools, is_absent, new_file, wire};
use crate::channel::{BatchOutcome, Failure, FileWrite, Move};
use crate::random;

/// Contents of all files together that are held to work a patch out.
const LARGEST: u64 = 64 * 1024 * 1024;

pub(super) fn run(tools: &mut Tools<'_>, call: &PatchCall) -> Result<Answer, ToolError> {
    let patch = patch::parse(&call.input)?;
    let Seen { snapshot, places, mut modes } = look(tools, &patch)?;
    let plan = patch::decide(&patch, &snapshot)?;
    if call.run == Run::Real {
        moved_modes(&patch, &snapshot, &mut modes);
        Applying { tools, snapshot: &snapshot, places: &places, modes: &modes }
            .put(&plan.changes)?;
    }
    Ok(answer(&plan, call.run))
}

fn answer(plan: &Plan, run: Run) -> Answer {
    let summary = &plan.summary;
    let diffs: Vec<String> =
        summary.diffs.iter().map(|(path, diff)| format!("{path}\n{}", diff.text)).collect();
    let lines = summary.lines().join("\n");
    let text = match run {
        Run::Real => format!("The patch is applied to:\n{lines}"),
        Run::Dry => format!("The patch would change:\n{lines}\n\n{}", diffs.join("\n\n")),
    };
    let details = json!({
        "summary": { "added": summary.added, "modified": summary.modified, "deleted": summary.deleted },
        "diff": diffs.join("\n\n"),
        "dryRun": run == Run::Dry,
    });
    Answer::text(text.trim_end(), details)
}

/// What a patch names, as it was.
struct Seen {
    snapshot: Snapshot,
    places: BTreeMap<String, PenPath>,
    /// Permission bits of those that are there.
    modes: BTreeMap<String, u32>,
}

/// A file that is moved stays what it was, an executable one too.
fn moved_modes(patch: &Patch, snapshot: &Snapshot, modes: &mut BTreeMap<String, u32>) {
    for hunk in patch.hunks() {
        let target = match &hunk.action {
            Action::Update { move_to: Some(target), .. } => snapshot.names.get(target),
            Action::Update { move_to: None, .. } | Action::Add { .. } | Action::Delete => None,
        };
        let mode = snapshot.names.get(&hunk.path).and_then(|file| modes.get(file)).copied();
        if let (Some(target), Some(mode)) = (target, mode) {
            modes.insert(target.clone(), mode);
        }
    }
}

/// Finds and reads every file that a patch names.
fn look(tools: &mut Tools<'_>, patch: &Patch) -> Result<Seen, ToolError> {
    let around = tools.surroundings(tools.settings.patch_reach);
    let kept: BTreeSet<&str> = changed_paths(patch).collect();
    let mut snapshot = Snapshot::default();
    let (mut places, mut modes) = (BTreeMap::new(), BTreeMap::new());
    let mut known: BTreeMap<Stamp, (String, String)> = BTreeMap::new();
    let mut held = 0_u64;
    for given in patch.paths() {
        let target = place::decide(given, &around)
            .map_err(|refused| patch.refused(given, PatchReason::Path(refused)))?;
        let file = target.as_str().to_owned();
        snapshot.names.insert(given.to_owned(), file.clone());
        let contents = match tools.channel.stat(wire(&target), Links::Follow) {
            Err(error) if is_absent(&error) => None,
            Err(cause) => return Err(ToolError::call("look at", given, cause)),
            Ok(found) if found.metadata.kind != FileKind::File => {
                return Err(patch.refused(given, PatchReason::IsThere).into());
            }
            Ok(found) => {
                // Two names of one file would each be changed without the other.
                let stamp = Stamp::of(&found.metadata);
                if let Some((other, _)) = known.get(&stamp).filter(|(_, known)| *known != file) {
                    return Err(patch
                        .refused(given, PatchReason::SameFile { other: other.clone() })
                        .into());
                }
                known.insert(stamp, (given.to_owned(), file.clone()));
                modes.insert(file.clone(), found.metadata.permissions & 0o777);
                // What only goes need not be held: it is moved away, and back.
                let contents =
                    if kept.contains(given) { tools.contents(&target, given)? } else { Vec::new() };
                held = held.saturating_add(contents.len() as u64);
                Some(contents)
            }
        };
        if held > LARGEST {
            return Err(patch.refused(given, PatchReason::TooLarge).into());
        }
        snapshot.files.insert(file.clone(), contents);
        places.insert(file, target);
    }
    Ok(Seen { snapshot, places, modes })
}

/// The paths whose contents matter: all but those that are only deleted.
fn changed_paths(patch: &Patch) -> impl Iterator<Item = &str> {
    patch.hunks().iter().flat_map(|hunk| {
        let (changed, target) = match &hunk.action {
            Action::Delete => (None, None),
            Action::Add { .. } => (Some(hunk.path.as_str()), None),
            Action::Update { move_to, .. } => (Some(hunk.path.as_str()), move_to.as_deref()),
        };
        changed.into_iter().chain(target)
    })
}

/// A plan on its way into the sandbox.
struct Applying<'t, 'c> {
    tools: &'t mut Tools<'c>,
    snapshot: &'t Snapshot,
    places: &'t BTreeMap<String, PenPath>,
    /// Permission bits of files that are new at their place.
    modes: &'t BTreeMap<String, u32>,
}

/// A file that goes: moved beside itself, then removed.
struct Deleted {
    file: String,
    path: PenPath,
    aside: PenPath,
}

impl Applying<'_, '_> {
    fn put(&mut self, changes: &[Change]) -> Result<(), ToolError> {
        let mut files = Vec::new();
        let mut writes = Vec::new();
        let mut deleted = Vec::new();
        let token = random::uuid();
        for (index, change) in changes.iter().enumerate() {
            let Some(path) = self.places.get(&change.file) else { continue };
            let aside = path.beside(&format!(".clawpen-deleted-{index}-{token}"));
            if let Some(contents) = &change.after {
                files.push(change.file.as_str());
                let mut options = new_file();
                options.permissions = self.modes.get(&change.file).copied().unwrap_or(NEW_FILE);
                writes.push(FileWrite { place: wire(path), options, contents });
            } else if let Some(aside) = aside {
                deleted.push(Deleted { file: change.file.clone(), path: path.clone(), aside });
            }
        }
        let moves: Vec<Move> = deleted
            .iter()
            .map(|one| Move { from: wire(&one.path), to: wire(&one.aside) })
            .collect();
        let outcome =
            self.tools.channel.write_together(&writes, &moves).map_err(ToolError::Lost)?;
        match outcome {
            BatchOutcome::Refused { write, failure } => {
                let path = files.get(write).map_or_else(String::new, |file| (*file).to_owned());
                Err(ToolError::Stage { path, cause: failure })
            }
            BatchOutcome::Put { writes, moves } => {
                let written: Vec<_> = files
                    .iter()
                    .copied()
                    .zip(writes.into_iter().map(|one| one.map(drop)))
                    .collect();
                let aside: Vec<_> = deleted.iter().zip(moves).collect();
                self.settle(&written, &aside)
            }
        }
    }

    /// Clears deleted files away, or takes everything back if something was not done.
    fn settle(
        &mut self,
        written: &[(&str, Result<(), Failure>)],
        moved: &[(&Deleted, Result<(), Failure>)],
    ) -> Result<(), ToolError> {
        let failed_write =
            written.iter().find_map(|(file, done)| Some((*file, done.as_ref().err()?)));
        let failed_move =
            moved.iter().find_map(|(one, done)| Some((one.file.as_str(), done.as_ref().err()?)));
        let Some((path, cause)) = failed_write.or(failed_move) else {
            for (one, _) in moved {
                // It is gone from its place; a name that could not be cleared away is no failure of the patch.
                let _ = self.tools.channel.remove(wire(&one.aside), Depth::One);
            }
            return Ok(());
        };
        let (path, cause) = (path.to_owned(), cause.clone());
        let mut left = Vec::new();
        for (one, _) in moved.iter().filter(|(_, done)| done.is_ok()) {
            let back =
                self.tools.channel.rename(wire(&one.aside), wire(&one.path), OnExisting::Refuse);
            left.extend(back.is_err().then(|| one.file.clone()));
        }
        for (file, _) in written.iter().filter(|(_, done)| done.is_ok()) {
            if self.restore(file).is_err() {
                left.push((*file).to_owned());
            }
        }
        Err(if left.is_empty() {
            ToolError::TakenBack { path, cause }
        } else {
            ToolError::HalfDone { path, left, cause }
        })
    }

    fn restore(&mut self, file: &str) -> Result<(), ToolError> {
        let Some(path) = self.places.get(file) else { return Ok(()) };
        let restored = match self.snapshot.files.get(file).and_then(Option::as_deref) {
            Some(mut old) => self.tools.channel.write(wire(path), new_file(), &mut old).map(drop),
            None => self.tools.channel.remove(wire(path), Depth::One),
        };
        restored.map_err(|cause| ToolError::call("restore", file, cause))
    }
}
