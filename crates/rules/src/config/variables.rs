//! The variables that a config may refer to, and where each came from.
//!
//! `${NAME}` in a string takes the variable's value. A variable comes from the process, from the
//! state directory's `.env`, from the config's own `env` block or from the working directory's
//! `.env`, in this order of strength. The working directory is often the agent's own workspace, so
//! its `.env` may only give keys of model providers: it decides nothing, and it hides nothing that
//! the config itself sets.

use std::collections::BTreeMap;

use super::locate::Variables;
use super::tree::{Node, Place, Value, join_key};

/// Where a variable was set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Source {
    Process,
    StateFile,
    WorkingDirectory,
    Config,
}

/// The variables of a load. Printed by name only: any of them may be a secret.
#[derive(Clone, Default)]
pub struct Environment {
    variables: BTreeMap<String, (String, Source)>,
}

/// A variable that was not taken, or a reference that was not replaced.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum VariableWarning {
    /// `${name}` at `key` refers to nothing; the text was left as it is.
    Missing { name: String, key: String, place: Place },
    /// The variable is only in the working directory's `.env`, which has no say here.
    Untrusted { name: String, key: String, place: Place },
    /// A `.env` file sets a variable that could take over this process.
    Refused { name: String, file: String },
}

/// The sections whose references the working directory's `.env` may fill: keys of model providers.
/// Everything else decides, directly or not, what runs where.
const OPEN_TO_PROJECTS: [&str; 2] = ["models", "auth"];

impl std::fmt::Debug for Environment {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_set().entries(self.variables.keys()).finish()
    }
}

impl Variables for Environment {
    fn get(&self, name: &str) -> Option<&str> {
        self.variables.get(name).map(|(value, _)| value.as_str())
    }
}

impl Environment {
    /// The variables of the process.
    pub fn of_process(variables: impl IntoIterator<Item = (String, String)>) -> Self {
        let variables =
            variables.into_iter().map(|(name, value)| (name, (value, Source::Process))).collect();
        Self { variables }
    }

    /// Adds the lines of a `.env` file; what is already set stays.
    pub fn add_file(&mut self, text: &str, file: &str, source: Source) -> Vec<VariableWarning> {
        let mut warnings = Vec::new();
        for (name, value) in parse_dotenv(text) {
            let from_project = source == Source::WorkingDirectory;
            if takes_over_host(&name) || (from_project && steers_connections(&name)) {
                warnings.push(VariableWarning::Refused { name, file: file.to_owned() });
            } else {
                self.variables.entry(name).or_insert((value, source));
            }
        }
        warnings
    }

    /// Adds the config's `env` block: `env.vars.NAME` and `env.NAME`. Only variables that are blank
    /// so far are set; a value with a reference in it is left out.
    pub fn add_config(&mut self, root: &Node) {
        let Some(env) = root.get("env").and_then(Node::as_object) else { return };
        let vars = env.get("vars").and_then(Node::as_object);
        let direct = env
            .members()
            .iter()
            .filter(|member| !matches!(member.key.as_str(), "vars" | "shellEnv"));
        let members =
            vars.map(super::tree::Object::members).unwrap_or_default().iter().chain(direct);
        for member in members {
            let Some(value) = member.node.as_str() else { continue };
            // A project's `.env` must not keep the config's own value out.
            let is_blank = self.variables.get(&member.key).is_none_or(|(old, source)| {
                old.trim().is_empty() || *source == Source::WorkingDirectory
            });
            if is_blank && !has_reference(value) && !takes_over_host(&member.key) {
                self.variables.insert(member.key.clone(), (value.to_owned(), Source::Config));
            }
        }
    }

    /// Replaces references in every string of the tree.
    pub fn substitute(&self, root: &mut Node) -> Vec<VariableWarning> {
        let mut warnings = Vec::new();
        self.substitute_node(root, "", &mut warnings);
        warnings
    }

    fn substitute_node(&self, node: &mut Node, key: &str, warnings: &mut Vec<VariableWarning>) {
        let place = node.place;
        match &mut node.value {
            Value::String(text) => {
                if text.contains("${") {
                    *text = self.substitute_text(text, key, place, warnings);
                }
            }
            Value::Array(items) => {
                for (index, item) in items.iter_mut().enumerate() {
                    self.substitute_node(item, &join_key(key, &index.to_string()), warnings);
                }
            }
            Value::Object(object) => {
                for member in object.members_mut() {
                    let key = join_key(key, &member.key);
                    self.substitute_node(&mut member.node, &key, warnings);
                }
            }
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }

    fn substitute_text(
        &self,
        text: &str,
        key: &str,
        place: Place,
        warnings: &mut Vec<VariableWarning>,
    ) -> String {
        let mut result = String::with_capacity(text.len());
        let mut rest = text;
        while let Some(start) = rest.find('$') {
            result.push_str(&rest[..start]);
            rest = &rest[start..];
            if let Some(name) = rest.strip_prefix('$').and_then(reference) {
                // `$${NAME}` stands for the text `${NAME}`.
                result.push_str(&rest[1..name.len() + 4]);
                rest = &rest[name.len() + 4..];
                continue;
            }
            let Some(name) = reference(rest) else {
                result.push('$');
                rest = &rest[1..];
                continue;
            };
            let (name, place) = (name.to_owned(), place);
            match self.variables.get(&name) {
                Some((value, source)) if !value.is_empty() => {
                    if *source == Source::WorkingDirectory && is_guarded(key) {
                        result.push_str(&rest[..name.len() + 3]);
                        let key = key.to_owned();
                        warnings.push(VariableWarning::Untrusted {
                            name: name.clone(),
                            key,
                            place,
                        });
                    } else {
                        result.push_str(value);
                    }
                }
                _ => {
                    result.push_str(&rest[..name.len() + 3]);
                    let key = key.to_owned();
                    warnings.push(VariableWarning::Missing { name: name.clone(), key, place });
                }
            }
            rest = &rest[name.len() + 3..];
        }
        result + rest
    }
}

fn is_guarded(key: &str) -> bool {
    let section = key.split('.').next().unwrap_or_default();
    !OPEN_TO_PROJECTS.contains(&section)
}

/// The name in `${NAME}` at the start of a text: upper case, digits and `_` only.
fn reference(text: &str) -> Option<&str> {
    let inner = text.strip_prefix("${")?;
    let name = &inner[..inner.find('}')?];
    let is_name = name.starts_with(|c: char| c.is_ascii_uppercase() || c == '_')
        && name.bytes().all(|b| b.is_ascii_uppercase() || b.is_ascii_digit() || b == b'_');
    is_name.then_some(name)
}

fn has_reference(text: &str) -> bool {
    text.match_indices("${").any(|(start, _)| reference(&text[start..]).is_some())
}

/// The assignments of a `.env` file: `NAME=value`, optionally after `export`, with `#` comments and
/// quotes. Lines that are no assignment are passed over.
fn parse_dotenv(text: &str) -> Vec<(String, String)> {
    text.lines()
        .filter_map(|line| {
            let line = line.trim_start();
            let line = line.strip_prefix("export ").unwrap_or(line);
            let (name, value) = line.split_once('=')?;
            let name = name.trim();
            let is_name = name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
                && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_');
            is_name.then(|| (name.to_owned(), dotenv_value(value.trim())))
        })
        .collect()
}

fn dotenv_value(text: &str) -> String {
    for quote in ['"', '\'', '`'] {
        if let Some(inner) = text.strip_prefix(quote)
            && let Some(end) = inner.find(quote)
        {
            let inner = &inner[..end];
            return if quote == '"' { inner.replace("\\n", "\n") } else { inner.to_owned() };
        }
    }
    let end = text.find(" #").unwrap_or(text.len());
    if text.starts_with('#') { String::new() } else { text[..end].trim_end().to_owned() }
}

/// Variables by which a file could take over this process or any program it starts: loader, shell
/// and interpreter hooks.
fn takes_over_host(name: &str) -> bool {
    const NAMES: [&str; 34] = [
        "BASH_ENV",
        "ENV",
        "SHELLOPTS",
        "BASHOPTS",
        "PS4",
        "IFS",
        "PROMPT_COMMAND",
        "CDPATH",
        "GLOBIGNORE",
        "NODE_OPTIONS",
        "NODE_PATH",
        "PYTHONPATH",
        "PYTHONHOME",
        "PYTHONSTARTUP",
        "PERL5LIB",
        "PERL5OPT",
        "RUBYLIB",
        "RUBYOPT",
        "GCONV_PATH",
        "LOCPATH",
        "SSLKEYLOGFILE",
        "PATH",
        "HOME",
        "SHELL",
        "ZDOTDIR",
        "JAVA_TOOL_OPTIONS",
        "_JAVA_OPTIONS",
        "GIT_SSH",
        "GIT_SSH_COMMAND",
        "GIT_EXEC_PATH",
        "GIT_EXTERNAL_DIFF",
        "EDITOR",
        "VISUAL",
        "PAGER",
    ];
    const STARTS: [&str; 4] = ["LD_", "DYLD_", "BASH_FUNC_", "GIT_CONFIG"];
    let name = name.to_ascii_uppercase();
    NAMES.contains(&name.as_str()) || STARTS.iter().any(|start| name.starts_with(start))
}

/// Variables by which a project could redirect connections or move the state.
fn steers_connections(name: &str) -> bool {
    let name = name.to_ascii_uppercase();
    let is_proxy = matches!(name.as_str(), "HTTP_PROXY" | "HTTPS_PROXY" | "ALL_PROXY" | "NO_PROXY");
    is_proxy
        || name == "NODE_TLS_REJECT_UNAUTHORIZED"
        || name.starts_with("OPENCLAW_")
        || name.starts_with("CLAWPEN_")
        || name.ends_with("_BASE_URL")
}

#[cfg(test)]
mod tests;
