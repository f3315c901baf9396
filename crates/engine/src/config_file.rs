//! The user's config as clients see it and as it is changed.
//!
//! A change names what it was based on; if the file is another by now, nothing is written. What comes
//! out of a change is loaded like any config before it takes the file's place, and must mean exactly
//! what was asked for: an edit that would do less, more or something else is refused. Comments, order
//! and references stay; values that are only filled in for display are never written.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::SystemTime;

use clawpen_rules::approval::file::{FileHash, SetRefusal, check_base};
use clawpen_rules::config::edit::{self, EditError};
use clawpen_rules::config::load::{Finding, LoadError};
use clawpen_rules::config::patch::{self, Edit};
use clawpen_rules::config::print::{self, Secrets};
use clawpen_rules::config::tree::{FileId, Node, Object, Value};
use clawpen_rules::config::{json5, shown};
use clawpen_rules::timestamp::Timestamp;

use crate::config_store::{Store, StoreError, Surroundings};
use crate::file_stamps::Stamps;
use crate::state_file::{self, StateFileError};

/// The release whose files we write, as far as a reader of the file can tell.
const STAMP: &str = "2026.3.28";
/// How many older versions are kept beside the file.
const BACKUPS: usize = 5;

/// The config of this moment.
#[derive(Debug)]
pub struct View {
    pub path: String,
    /// The file's text; `None` if there is no file.
    pub text: Option<String>,
    pub hash: FileHash,
    pub state: Result<Arc<Sound>, Vec<Finding>>,
}

/// A config that loads.
#[derive(Debug)]
pub struct Sound {
    pub store: Store,
    /// As the file says it.
    pub written: Node,
    /// With includes and references.
    pub resolved: Node,
    /// With the values that are filled in.
    pub shown: Node,
}

/// A change that was not made. The file is as it was.
#[derive(Debug, thiserror::Error)]
pub enum WriteError<E> {
    #[error(transparent)]
    Stale(SetRefusal),
    #[error("the config that is there is not valid")]
    NowInvalid(Vec<Finding>),
    #[error("the config would not be valid")]
    Invalid(Vec<Finding>),
    #[error("`{key}` cannot be changed in `{path}`: part of it comes from another file")]
    Elsewhere { key: String, path: String },
    #[error(transparent)]
    Edit(EditError),
    #[error(transparent)]
    Store(StoreError),
    #[error(transparent)]
    File(#[from] StateFileError),
    /// Whoever asked thought otherwise.
    #[error(transparent)]
    Asker(E),
}

/// Looks at the config. What is loaded is the very text whose hash is given.
pub fn view(around: &Surroundings) -> Result<View, StoreError> {
    let locations = around.locations()?;
    let text = fs::read_to_string(&locations.config).ok();
    let opened = match &text {
        Some(text) => around.open_as_if(text),
        // Not there, or not readable: the loader says which.
        None => around.open(),
    };
    let state = match opened {
        Ok(store) => Ok(Arc::new(sound(store, text.as_deref()))),
        Err(StoreError::Load(failure)) => match failure.error {
            LoadError::Invalid(invalid) => Err(invalid.findings),
            LoadError::Unreadable { .. } => return Err(StoreError::Load(failure)),
        },
        Err(error) => return Err(error),
    };
    let hash = FileHash::of(text.as_deref().unwrap_or_default());
    Ok(View { path: locations.config, text, hash, state })
}

/// The last view, kept while none of its files has changed: for doors that are asked all the time.
#[derive(Debug, Default)]
pub struct Views(Mutex<Option<(Stamps, Arc<View>)>>);

impl Views {
    /// The config of this moment. Only one that is sound is kept.
    pub fn get(&self, around: &Surroundings) -> Result<Arc<View>, StoreError> {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, view)) = kept.as_ref().filter(|(stamps, _)| stamps.are_current()) {
            return Ok(view.clone());
        }
        let began = SystemTime::now();
        let view = Arc::new(view(around)?);
        let stamps = view.state.as_ref().ok().and_then(|sound| Stamps::of(&sound.store, began));
        *kept = stamps.map(|stamps| (stamps, view.clone()));
        Ok(view)
    }
}

fn sound(store: Store, text: Option<&str>) -> Sound {
    let empty = || Node::synthetic(Value::Object(Object::default()));
    let parsed = text.map(|text| json5::parse(text, FileId(0)));
    let written = parsed.and_then(Result::ok).map_or_else(empty, |parsed| parsed.root);
    let resolved = store.loaded.config.root().node.clone();
    let shown = shown::with_defaults(&resolved);
    Sound { store, written, resolved, shown }
}

/// How a change relates to what its maker saw.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Base<'a> {
    /// The hash that came with it, if any: without the right one nothing is written.
    Seen(Option<&'a str>),
    /// The change is made from what stands there now.
    Now,
}

/// Changes the config: `plan` gets what is shown now and says what it should be.
pub fn write<E>(
    around: &Surroundings,
    base: Base<'_>,
    now: Timestamp,
    plan: impl FnOnce(&Sound) -> Result<Node, E>,
) -> Result<Sound, WriteError<E>> {
    let locations = around.locations().map_err(WriteError::Store)?;
    let target = target(Path::new(&locations.config));
    let _lock = state_file::lock(&target)?;
    let view = view(around).map_err(WriteError::Store)?;
    if let Base::Seen(base) = base {
        let current = view.text.is_some().then_some(&view.hash);
        check_base(current, base).map_err(WriteError::Stale)?;
    }
    let old = view.state.map_err(WriteError::NowInvalid)?;
    let wanted = plan(&old).map_err(WriteError::Asker)?;
    let edits = patch::edits(&old.shown, &wanted, Some(&old.written));
    let text = view.text.clone().unwrap_or_else(|| "{}\n".to_owned());
    let text = apply(&text, &edits).map_err(WriteError::Edit)?;
    let text = stamp(&text, now).map_err(WriteError::Edit)?;
    let new = match around.open_as_if(&text) {
        Ok(store) => sound(store, Some(&text)),
        Err(StoreError::Load(failure)) => match failure.error {
            LoadError::Invalid(invalid) => return Err(WriteError::Invalid(invalid.findings)),
            LoadError::Unreadable { .. } => {
                return Err(WriteError::Store(StoreError::Load(failure)));
            }
        },
        Err(error) => return Err(WriteError::Store(error)),
    };
    means(&new.shown, &shown::with_defaults(&wanted))
        .map_err(|key| WriteError::Elsewhere { key, path: view.path.clone() })?;
    // The reference takes no lock; what it wrote meanwhile must not be lost.
    if fs::read_to_string(&locations.config).ok() != view.text {
        return Err(WriteError::Stale(SetRefusal::Changed));
    }
    keep_backup(&target, view.text.as_deref())?;
    state_file::replace(&target, &text)?;
    Ok(new)
}

/// Where to write: a link leads to the file that is meant.
fn target(path: &Path) -> PathBuf {
    fs::canonicalize(path).unwrap_or_else(|_| path.to_owned())
}

/// Makes the edits, one after the other.
fn apply(text: &str, edits: &[Edit]) -> Result<String, EditError> {
    let mut text = text.to_owned();
    for change in edits {
        let keys: Vec<&str> = change.path.iter().map(String::as_str).collect();
        text = match (&change.value, keys.is_empty()) {
            (Some(value), true) => print::json(value, Secrets::None) + "\n",
            (None, true) => "{}\n".to_owned(),
            (Some(value), false) => {
                let depth = change.path.len();
                edit::set(&text, &keys, &indented(&print::json(value, Secrets::None), depth))?
            }
            (None, false) => edit::remove(&text, &keys)?,
        };
    }
    Ok(text)
}

/// A value of several lines, moved to where it will stand.
fn indented(value: &str, depth: usize) -> String {
    value.replace('\n', &format!("\n{}", "  ".repeat(depth)))
}

/// Says who wrote last, and when.
fn stamp(text: &str, now: Timestamp) -> Result<String, EditError> {
    let text = edit::set(text, &["meta", "lastTouchedVersion"], &print::quoted(STAMP))?;
    edit::set(&text, &["meta", "lastTouchedAt"], &print::quoted(&now.to_string()))
}

/// Compares what a config means with what was asked for; gives the first key where they differ.
fn means(new: &Node, wanted: &Node) -> Result<(), String> {
    let differs = patch::edits(new, wanted, None);
    let about = |edit: &&Edit| {
        let first = edit.path.first().map(String::as_str);
        // The stamp is ours; a reference means its value.
        let is_reference = edit.value.as_ref().is_some_and(has_reference);
        first != Some("meta") && !is_reference
    };
    differs.iter().find(about).map_or(Ok(()), |edit| Err(edit.path.join(".")))
}

fn has_reference(node: &Node) -> bool {
    match &node.value {
        Value::String(text) => text.contains("${") || text.starts_with('~'),
        Value::Array(items) => items.iter().any(has_reference),
        Value::Object(object) => object.members().iter().any(|member| has_reference(&member.node)),
        Value::Null | Value::Bool(_) | Value::Number(_) => false,
    }
}

/// Keeps the old text as `.bak`, and older ones as `.bak.1` and so on.
fn keep_backup(target: &Path, old: Option<&str>) -> Result<(), StateFileError> {
    let Some(old) = old else { return Ok(()) };
    let name = |number: usize| {
        let mut name = target.file_name().unwrap_or_default().to_owned();
        name.push(if number == 0 { ".bak".to_owned() } else { format!(".bak.{number}") });
        target.with_file_name(name)
    };
    for number in (1..BACKUPS).rev() {
        match fs::rename(name(number - 1), name(number)) {
            Ok(()) => {}
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
            Err(error) => return Err(state_file::failed("keep", &name(number - 1))(error)),
        }
    }
    state_file::replace(&name(0), old)
}

#[cfg(test)]
mod tests;
