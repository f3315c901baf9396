//! Finds, reads and checks the config of this machine.
//!
//! All rules about it are in `rules::config`; this only looks up the facts they ask for: the
//! environment, the working directory, files. A file is read whole or not at all, never waited for
//! (a pipe in place of a config is refused), and never written here.

use std::io::Read as _;

use clawpen_rules::config::include::ConfigFiles;
use clawpen_rules::config::load::{self, LoadError, Loaded, Warning};
use clawpen_rules::config::locate::{self, Fallbacks, Locations};
use clawpen_rules::config::tree::FileId;
use clawpen_rules::config::variables::Environment;
use clawpen_rules::config::{json5, own};
use clawpen_rules::host_files::{Entry, EntryKind, FactError, FactProblem, HostFiles};

use crate::host_files::RealFiles;

/// The config as loaded, with the places it was looked for.
#[derive(Debug)]
pub struct Store {
    pub locations: Locations,
    pub loaded: Loaded,
    /// The variables that the config was read with. Keys of models are looked for here.
    pub environment: Environment,
}

/// The config could not be found or loaded; `locations` is known if the failure came later.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    #[error("cannot tell the current directory")]
    CurrentDir(#[source] std::io::Error),
    #[error("the current directory is not valid UTF-8")]
    CurrentDirNotText,
    #[error("cannot tell where the config lives")]
    Locate(#[source] FactError),
    #[error(transparent)]
    Load(Box<LoadFailure>),
}

/// A load that failed, and where the config was found.
#[derive(Debug, thiserror::Error)]
#[error("{error}")]
pub struct LoadFailure {
    pub locations: Locations,
    #[source]
    pub error: LoadError,
}

/// The environment in which a config is looked for: this process' own, or one that is given.
#[derive(Debug, Clone)]
pub struct Surroundings(Environment);

impl Surroundings {
    pub fn of_process() -> Self {
        Self(process_environment())
    }

    /// Somebody's home, whatever this process' environment says. For whoever embeds the engine.
    pub fn of_home(home: &str) -> Self {
        Self(Environment::of_process([("HOME".to_owned(), home.to_owned())]))
    }

    /// The value of a variable; `None` if it is not set.
    pub fn variable(&self, name: &str) -> Option<&str> {
        use locate::Variables as _;
        self.0.get(name)
    }

    /// Where config and state are.
    pub fn locations(&self) -> Result<Locations, StoreError> {
        find(self.0.clone()).map(|(locations, _, _)| locations)
    }

    /// Loads the config.
    pub fn open(&self) -> Result<Store, StoreError> {
        load_from(find(self.0.clone())?, &Files { real: RealFiles, instead: None })
    }

    /// Loads the config as if `text` stood in its file already.
    pub fn open_as_if(&self, text: &str) -> Result<Store, StoreError> {
        let found = find(self.0.clone())?;
        let instead = Some((found.0.config.clone(), text.to_owned()));
        load_from(found, &Files { real: RealFiles, instead })
    }
}

/// Only the places, without reading any config.
pub fn locations() -> Result<Locations, StoreError> {
    find(process_environment()).map(|(locations, _, _)| locations)
}

/// Loads the config that this process' environment points to.
pub fn open() -> Result<Store, StoreError> {
    Surroundings::of_process().open()
}

/// Loads the config of one state directory, whatever this process' environment says. For whoever
/// embeds the engine.
pub fn open_in(state_dir: &str) -> Result<Store, StoreError> {
    let variables = [("HOME", state_dir), ("OPENCLAW_STATE_DIR", state_dir)];
    let variables = variables.map(|(name, value)| (name.to_owned(), value.to_owned()));
    Surroundings(Environment::of_process(variables)).open()
}

fn load_from(
    (locations, mut environment, current_dir): (Locations, Environment, String),
    files: &Files,
) -> Result<Store, StoreError> {
    let mut warnings = load::read_variables(&mut environment, &locations, &current_dir, files);
    match load::load(&locations, &mut environment, files) {
        Ok(mut loaded) => {
            warnings.append(&mut loaded.warnings);
            loaded.warnings = warnings;
            Ok(Store { locations, loaded, environment })
        }
        Err(mut error) => {
            if let LoadError::Invalid(invalid) = &mut error {
                warnings.append(&mut invalid.warnings);
                invalid.warnings = warnings;
            }
            Err(StoreError::Load(Box::new(LoadFailure { locations, error })))
        }
    }
}

impl Store {
    /// The path of a file that a value comes from.
    pub fn file(&self, id: FileId) -> Option<&str> {
        if id == own::FILE {
            return self.loaded.own.file();
        }
        self.loaded.config.files().get(usize::from(id.0)).map(String::as_str)
    }

    /// What is worth saying about the config.
    pub fn warnings(&self) -> &[Warning] {
        &self.loaded.warnings
    }
}

fn process_environment() -> Environment {
    // Variables that are no UTF-8 cannot be meant by a config that is.
    let variables = std::env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)));
    Environment::of_process(variables)
}

fn find(environment: Environment) -> Result<(Locations, Environment, String), StoreError> {
    let current_dir = std::env::current_dir().map_err(StoreError::CurrentDir)?;
    let current_dir = current_dir.into_os_string().into_string();
    // The path cannot be shown in words, which is all there is to say about it.
    let current_dir = current_dir.map_err(|_path| StoreError::CurrentDirNotText)?;
    let os_home = os_home();
    let fallbacks = Fallbacks { os_home: os_home.as_deref(), current_dir: &current_dir };
    let locations =
        locate::locate(&environment, &RealFiles, fallbacks).map_err(StoreError::Locate)?;
    Ok((locations, environment, current_dir))
}

/// The home of this process' user in the user database: what counts if `HOME` says nothing.
fn os_home() -> Option<String> {
    use std::os::unix::fs::MetadataExt as _;
    let uid = std::fs::metadata("/proc/self").ok()?.uid().to_string();
    let users = std::fs::read_to_string("/etc/passwd").ok()?;
    let fields = users.lines().map(|line| line.split(':').collect::<Vec<_>>());
    let own = fields.into_iter().find(|fields| fields.get(2) == Some(&uid.as_str()))?;
    own.get(5).filter(|home| home.starts_with('/')).map(|home| (*home).to_owned())
}

/// Config files on the real file system, one of them perhaps with another text.
struct Files {
    real: RealFiles,
    instead: Option<(String, String)>,
}

impl HostFiles for Files {
    fn entry(&self, path: &str) -> Result<Option<Entry>, FactError> {
        let found = self.real.entry(path)?;
        // A file that is only about to be written counts as there.
        let is_new = found.is_none() && self.instead.as_ref().is_some_and(|(new, _)| new == path);
        Ok(if is_new { Some(Entry { kind: EntryKind::File, links: 1 }) } else { found })
    }
}

impl ConfigFiles for Files {
    fn read(&self, path: &str) -> Result<String, FactError> {
        let fail = |problem| FactError { path: path.to_owned(), problem };
        let system = |error: std::io::Error| fail(FactProblem::System(error.to_string()));
        if let Some((_, text)) = self.instead.as_ref().filter(|(instead, _)| instead == path) {
            return Ok(text.clone());
        }
        match self.real.entry(path)? {
            Some(Entry { kind: EntryKind::File, .. }) => {}
            Some(_) => return Err(fail(FactProblem::System("it is no regular file".to_owned()))),
            None => return Err(fail(FactProblem::System("it does not exist".to_owned()))),
        }
        let file = std::fs::File::open(path).map_err(system)?;
        let limit = u64::try_from(json5::MAX_BYTES).unwrap_or(u64::MAX).saturating_add(1);
        let mut bytes = Vec::new();
        file.take(limit).read_to_end(&mut bytes).map_err(system)?;
        String::from_utf8(bytes).map_err(|error| {
            let offset = error.utf8_error().valid_up_to();
            fail(FactProblem::System(format!("its text is not valid UTF-8 (byte {offset})")))
        })
    }
}
