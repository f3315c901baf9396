//! A throw-away home with the places that rows name, and the placeholders for them.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use serde_json::Value;

/// Directories of one row. Removed when dropped.
#[derive(Debug)]
pub struct World {
    directory: tempfile::TempDir,
    /// Placeholder name to value; longest names first does not matter, the braces delimit.
    places: Vec<(String, String)>,
    /// What the fixture's file holds.
    fixture: Value,
}

/// The fixed "now" of a replay, in milliseconds.
pub const NOW_MS: u64 = 1_700_000_000_000;

impl World {
    /// Makes the tree that the corpus' fixture describes (or just a home, if it has none). A row that
    /// moves the state directory by its environment means the moved one by `${STATE_DIR}`.
    pub fn new(corpus: &str, fixtures: &[&Path], input: &Value) -> Result<Self> {
        let directory = tempfile::Builder::new().prefix("pen").tempdir()?;
        let base = directory.path().canonicalize()?.join("b");
        let base = base.to_str().context("temporary directory is not UTF-8")?.to_owned();
        let mut world =
            Self { directory, places: vec![("BASE".into(), base.clone())], fixture: Value::Null };
        let fixture = fixtures
            .iter()
            .map(|dir| dir.join(format!("{corpus}.fixture.json")))
            .find(|file| file.exists());
        let fixture: Value = match fixture {
            Some(file) => serde_json::from_str(&std::fs::read_to_string(file)?)?,
            None => Value::Null,
        };
        for (name, place) in fixture["layout"].as_object().into_iter().flatten() {
            let name = name.trim_start_matches("${").trim_end_matches('}');
            let place = world.fill_text(place.as_str().unwrap_or_default());
            world.places.push((name.to_owned(), place));
        }
        world.default_place("HOME", &format!("{base}/home"));
        let moved = input["env"]["OPENCLAW_STATE_DIR"].as_str().map(str::trim).unwrap_or_default();
        let moved = world.fill_text(moved).replacen(
            '~',
            world.get("HOME"),
            usize::from(moved.starts_with('~')),
        );
        let state = format!("{}/.openclaw", world.get("HOME"));
        world.default_place("STATE_DIR", if moved.starts_with('/') { &moved } else { &state });
        world.default_place("AGENT_WORKSPACE", &format!("{base}/agentws"));
        world.default_place("NOW_MS", &NOW_MS.to_string());
        world.default_place("HOST_PATH", "/usr/local/bin:/usr/bin:/bin");
        std::fs::create_dir_all(world.get("STATE_DIR"))?;
        for entry in fixture["tree"].as_array().into_iter().flatten() {
            world.make(entry)?;
        }
        // A table of files that nobody opens: facts are answered from it, nothing is made.
        if fixture["files"].is_array() {
            world.default_place("FIX", &format!("{base}/fix"));
            world.default_place("WORKSPACE", &format!("{base}/ws"));
        }
        world.fixture = world.fill(&fixture);
        Ok(world)
    }

    fn default_place(&mut self, name: &str, value: &str) {
        if !self.places.iter().any(|(known, _)| known == name) {
            self.places.push((name.to_owned(), value.to_owned()));
        }
    }

    fn make(&self, entry: &Value) -> Result<()> {
        let text = |key: &str| self.fill_text(entry[key].as_str().unwrap_or_default());
        let path = PathBuf::from(text("path"));
        if let Some(parent) = path.parent() {
            std::fs::create_dir_all(parent)?;
        }
        let context = || format!("fixture entry {entry}");
        match entry["kind"].as_str() {
            Some("dir") => std::fs::create_dir_all(&path).with_context(context),
            Some("file") => std::fs::write(&path, text("content")).with_context(context),
            Some("symlink") => {
                std::os::unix::fs::symlink(text("target"), &path).with_context(context)
            }
            Some("hardlink") => std::fs::hard_link(text("target"), &path).with_context(context),
            _ => anyhow::bail!("fixture entry of unknown kind: {entry}"),
        }
    }

    /// The value of a placeholder.
    pub fn get(&self, name: &str) -> &str {
        self.places.iter().find(|(known, _)| known == name).map_or("", |(_, value)| value)
    }

    /// The fixture, places filled in; null if the corpus has none.
    pub fn fixture(&self) -> &Value {
        &self.fixture
    }

    /// Where the tree lies.
    pub fn directory(&self) -> &Path {
        self.directory.path()
    }

    /// Replaces placeholders in a text; others stay as they are.
    pub fn fill_text(&self, text: &str) -> String {
        let mut text = text.to_owned();
        for (name, value) in &self.places {
            text = text.replace(&format!("${{{name}}}"), value);
        }
        text
    }

    /// Replaces placeholders in every string and key of a value.
    pub fn fill(&self, value: &Value) -> Value {
        match value {
            Value::String(text) => Value::String(self.fill_text(text)),
            Value::Array(items) => Value::Array(items.iter().map(|item| self.fill(item)).collect()),
            Value::Object(members) => Value::Object(
                members.iter().map(|(key, item)| (self.fill_text(key), self.fill(item))).collect(),
            ),
            other => other.clone(),
        }
    }
}
