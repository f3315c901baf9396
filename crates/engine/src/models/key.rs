//! Finds the keys that a model's server asks for. They are wiped when they are dropped, and nothing prints them.

use std::fs::OpenOptions;
use std::io::Read as _;
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};

use clawpen_rules::config::locate::{Variables as _, expand_tilde};
use clawpen_rules::models::proxy::{self, BadProxy, Reason, Route};
use clawpen_rules::models::{KeyNeed, KeySource, Model};
use secrecy::zeroize::Zeroizing;
use secrecy::{ExposeSecret, SecretString};

use super::http as transport;
use crate::config_store::Store;

/// A larger file holds no key.
const MAX_BYTES: u64 = 256 * 1024;
/// Do not wait for a writer if a pipe stands there.
const O_NONBLOCK: i32 = 0o4000;

/// A key that cannot be had.
#[derive(Debug, thiserror::Error)]
pub enum KeyError {
    #[error(
        "the model `{model}` needs a key, and {source_text} has none; the guide on models says where keys are looked for"
    )]
    Missing { model: String, source_text: String },
    /// The config names a variable that nobody has set: what stands there is no key.
    #[error(
        "the config takes a key from the variable `{name}`, which is not set; export it, or write it into `.env` in the \
         state directory"
    )]
    Unset { name: String },
    #[error("cannot read the key file `{path}`")]
    Read {
        path: String,
        #[source]
        cause: std::io::Error,
    },
    #[error("the key file `{path}` may be read by others; run: chmod 600 {path}")]
    Open { path: String },
    #[error("the key file `{path}` {what}")]
    Shape { path: String, what: &'static str },
    #[error(transparent)]
    Proxy(#[from] BadProxy),
}

/// What a server is shown, and the way to it.
pub struct Keys {
    pub(super) key: Option<SecretString>,
    pub(super) headers: Vec<(String, SecretString)>,
    pub(super) route: Route,
}

impl Default for Keys {
    fn default() -> Self {
        Self { key: None, headers: Vec::new(), route: Route::Direct(Reason::NoneNamed) }
    }
}

impl std::fmt::Debug for Keys {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Keys(***)")
    }
}

impl Keys {
    /// Looks the keys of a model up.
    pub fn find(store: &Store, model: &Model) -> Result<Self, KeyError> {
        let key = find(store, &model.key)?;
        if key.is_none() && model.key_need == KeyNeed::Required {
            let model_name = model.name.to_string();
            return Err(KeyError::Missing {
                model: model_name,
                source_text: model.key.to_string(),
            });
        }
        let mut headers = Vec::new();
        for (name, source) in &model.headers {
            if let Some(value) = find(store, source)? {
                headers.push((name.clone(), value));
            }
        }
        let route = match transport::target(&model.base_url) {
            Some((scheme, host, port)) => {
                let target = proxy::Target { scheme, host: &host, port };
                proxy::decide(&store.environment, target)?
            }
            // Whoever sends the request will say what is wrong with the address.
            None => Route::Direct(Reason::NoneNamed),
        };
        Ok(Self { key, headers, route })
    }

    /// A text of the server's without any of the keys: some servers repeat what they were sent.
    pub(super) fn scrub(&self, text: &str) -> String {
        let secrets = self.key.iter().chain(self.headers.iter().map(|(_, value)| value));
        let login = match &self.route {
            Route::Proxy(proxy) => proxy.login.as_deref(),
            Route::Direct(_) => None,
        };
        let secrets = secrets.map(ExposeSecret::expose_secret).chain(login);
        secrets.fold(text.to_owned(), |text, secret| match secret {
            "" => text,
            secret => text.replace(secret, "***"),
        })
    }
}

fn find(store: &Store, source: &KeySource) -> Result<Option<SecretString>, KeyError> {
    let found = match source {
        KeySource::Text(text) => match unset(text) {
            Some(name) => return Err(KeyError::Unset { name: name.to_owned() }),
            None => Some(Zeroizing::new(text.clone())),
        },
        KeySource::Variable(name) => {
            store.environment.get(name).map(|value| Zeroizing::new(value.to_owned()))
        }
        KeySource::File { path, pointer } => {
            let path = expand_tilde(path, &store.locations.home);
            Some(from_file(&path, pointer.as_deref())?)
        }
    };
    let trimmed = found.map(|text| Zeroizing::new(text.trim().to_owned()));
    Ok(trimmed.filter(|text| !text.is_empty()).map(|text| SecretString::from(text.as_str())))
}

/// The variable whose value should have stood here: one that is not set is left as it is written.
fn unset(text: &str) -> Option<&str> {
    let name = text.trim().strip_prefix("${")?.strip_suffix('}')?;
    let is_name = !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    is_name.then_some(name)
}

fn from_file(path: &str, pointer: Option<&str>) -> Result<Zeroizing<String>, KeyError> {
    let read = |cause| KeyError::Read { path: path.to_owned(), cause };
    let shape = |what| KeyError::Shape { path: path.to_owned(), what };
    let file = OpenOptions::new().read(true).custom_flags(O_NONBLOCK).open(path).map_err(read)?;
    let facts = file.metadata().map_err(read)?;
    if !facts.is_file() || facts.len() > MAX_BYTES {
        return Err(shape("is no small regular file"));
    }
    if facts.mode() & 0o077 != 0 {
        return Err(KeyError::Open { path: path.to_owned() });
    }
    let mut text = Zeroizing::new(String::new());
    file.take(MAX_BYTES).read_to_string(&mut text).map_err(read)?;
    let Some(pointer) = pointer else { return Ok(text) };
    let parsed = serde_json::from_str::<serde_json::Value>(&text);
    let parsed = parsed.map_err(|_secret| shape("holds no JSON"))?;
    let found = parsed.pointer(pointer).and_then(serde_json::Value::as_str);
    found
        .map(|key| Zeroizing::new(key.to_owned()))
        .ok_or_else(|| shape("has no text at that place"))
}
