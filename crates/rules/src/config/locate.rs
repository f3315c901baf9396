//! Where state and config live, from the environment and from what exists.
//!
//! The reference's places are kept, so that one home serves both programs. `clawpen.json`, our own
//! settings, stands beside `openclaw.json`.

use super::Config;
use super::setting::{Layer, Origin, Setting};
use super::tree::At;
use crate::host_files::{FactError, HostFiles};
use crate::ids::AgentId;
use crate::posix;

/// The variables of the process, as far as they matter here.
pub trait Variables {
    /// The value of a variable; `None` if it is not set.
    fn get(&self, name: &str) -> Option<&str>;
}

/// The places everything else is derived from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Locations {
    pub home: String,
    pub state_dir: String,
    /// The file to read; it may not exist.
    pub config: String,
    /// Our own settings, beside `config`.
    pub own_config: String,
    /// `OPENCLAW_PROFILE`, unless it is the default one.
    pub profile: Option<String>,
}

/// The last resorts when no variable names a home.
#[derive(Debug, Clone, Copy)]
pub struct Fallbacks<'a> {
    /// The home directory of the operating system's user record.
    pub os_home: Option<&'a str>,
    /// The current directory, absolute.
    pub current_dir: &'a str,
}

impl Locations {
    /// The persistent workspace of an agent: its own key, else (for the default agent) the defaults',
    /// else a directory named after the profile or the agent.
    pub fn agent_workspace(&self, config: &Config, agent: &AgentId) -> Setting<String> {
        let written = |layer: Layer, at: Option<At<'_>>| {
            let at = at?;
            let text = at.node.as_str()?.trim();
            let path = posix::resolve(&self.home, &expand_tilde(text, &self.home));
            (!text.is_empty()).then(|| Setting::new(path, Origin::written(layer, &at)))
        };
        let entry = config.agent(agent);
        if let Some(own) = written(Layer::Agent, entry.and_then(|entry| entry.get("workspace"))) {
            return own;
        }
        if *agent != config.default_agent() {
            let path = posix::join(&self.state_dir, &format!("workspace-{agent}"));
            return Setting::new(path, Origin::built_in("agents.list[].workspace"));
        }
        let defaults = config.at(&["agents", "defaults", "workspace"]);
        written(Layer::Defaults, defaults).unwrap_or_else(|| {
            let name = match &self.profile {
                Some(profile) => format!("workspace-{profile}"),
                None => "workspace".to_owned(),
            };
            // From the home, not from the state directory: that is where the reference looks.
            let path = posix::join(&posix::join(&self.home, STATE_NAMES[0]), &name);
            Setting::new(path, Origin::built_in("agents.defaults.workspace"))
        })
    }

    /// Where an agent's sessions are recorded; `session.store` may hold `{agentId}`.
    pub fn session_store(&self, config: &Config, agent: &AgentId) -> String {
        let store =
            config.at(&["session", "store"]).and_then(|at| at.node.as_str().map(str::to_owned));
        match store.filter(|store| !store.trim().is_empty()) {
            Some(store) => {
                let store = store.trim().replace("{agentId}", agent.as_str());
                posix::resolve(&self.state_dir, &expand_tilde(&store, &self.home))
            }
            None => posix::join(&self.state_dir, &format!("agents/{agent}/sessions/sessions.json")),
        }
    }

    /// Where planned jobs are kept.
    pub fn cron_store(&self, config: &Config) -> String {
        let store =
            config.at(&["cron", "store"]).and_then(|at| at.node.as_str().map(str::to_owned));
        match store.filter(|store| !store.trim().is_empty()) {
            Some(store) => posix::resolve(&self.state_dir, &expand_tilde(store.trim(), &self.home)),
            None => posix::join(&self.state_dir, "cron/jobs.json"),
        }
    }
}

/// The places where the state of a home may lie.
pub fn state_dirs_in(home: &str) -> impl Iterator<Item = String> {
    STATE_NAMES.iter().map(move |name| posix::join(home, name))
}

const STATE_NAMES: [&str; 3] = [".openclaw", ".clawdbot", ".moldbot"];
const CONFIG_NAMES: [&str; 3] = ["openclaw.json", "clawdbot.json", "moldbot.json"];

/// Finds the places.
pub fn locate(
    variables: &impl Variables,
    files: &impl HostFiles,
    fallbacks: Fallbacks<'_>,
) -> Result<Locations, FactError> {
    let home = home(variables, fallbacks);
    let named_state = filled(variables, "OPENCLAW_STATE_DIR")
        .map(|text| posix::resolve(fallbacks.current_dir, &expand_tilde(text, &home)));
    let state_dir = match &named_state {
        Some(dir) => dir.clone(),
        None => default_state_dir(files, &home)?,
    };
    let config = match filled(variables, "OPENCLAW_CONFIG_PATH") {
        Some(path) => posix::resolve(fallbacks.current_dir, &expand_tilde(path, &home)),
        None => find_config(files, &home, named_state.as_deref(), &state_dir)?,
    };
    let own_config = posix::join(posix::parent(&config), "clawpen.json");
    let profile = filled(variables, "OPENCLAW_PROFILE")
        .filter(|profile| !profile.eq_ignore_ascii_case("default"))
        .map(str::to_owned);
    Ok(Locations { home, state_dir, config, own_config, profile })
}

fn home(variables: &impl Variables, fallbacks: Fallbacks<'_>) -> String {
    let os_home = || {
        // A relative home would make the working directory the place of the config.
        let absolute = |name| filled(variables, name).filter(|home| home.starts_with('/'));
        absolute("HOME")
            .or_else(|| absolute("USERPROFILE"))
            .or(fallbacks.os_home)
            .unwrap_or(fallbacks.current_dir)
    };
    let home = match filled(variables, "OPENCLAW_HOME") {
        Some(text) => expand_tilde(text, os_home()),
        None => os_home().to_owned(),
    };
    posix::resolve(fallbacks.current_dir, &home)
}

fn default_state_dir(files: &impl HostFiles, home: &str) -> Result<String, FactError> {
    for name in STATE_NAMES {
        let dir = posix::join(home, name);
        if files.entry(&dir)?.is_some() {
            return Ok(dir);
        }
    }
    Ok(posix::join(home, STATE_NAMES[0]))
}

fn find_config(
    files: &impl HostFiles,
    home: &str,
    named_state: Option<&str>,
    state_dir: &str,
) -> Result<String, FactError> {
    let defaults = STATE_NAMES.iter().map(|name| posix::join(home, name));
    let directories = named_state.map(str::to_owned).into_iter().chain(defaults);
    for directory in directories {
        for name in CONFIG_NAMES {
            let path = posix::join(&directory, name);
            if files.entry(&path)?.is_some() {
                return Ok(path);
            }
        }
    }
    Ok(posix::join(state_dir, CONFIG_NAMES[0]))
}

/// A variable's trimmed value; blank, `undefined` and `null` count as not set.
fn filled<'a>(variables: &'a impl Variables, name: &str) -> Option<&'a str> {
    let value = variables.get(name)?.trim();
    (!matches!(value, "" | "undefined" | "null")).then_some(value)
}

/// Replaces a leading `~`, alone or before a slash.
pub fn expand_tilde(text: &str, home: &str) -> String {
    match text.strip_prefix('~') {
        Some("") => home.to_owned(),
        Some(rest) if rest.starts_with('/') => format!("{}{rest}", home.trim_end_matches('/')),
        _ => text.to_owned(),
    }
}

/// Shows a path with the home directory as `~`.
pub fn shorten_home(path: &str, home: &str) -> String {
    match posix::relative(home, path) {
        Some("") if home != "/" => "~".to_owned(),
        Some(rest) if home != "/" => format!("~/{rest}"),
        _ => path.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host_files::{EntryKind, FileTable};

    struct Table(&'static [(&'static str, &'static str)]);

    impl Variables for Table {
        fn get(&self, name: &str) -> Option<&str> {
            self.0.iter().find(|(known, _)| *known == name).map(|(_, value)| *value)
        }
    }

    #[track_caller]
    fn check(
        variables: &'static [(&'static str, &'static str)],
        files: &[&str],
        expected: (&str, &str),
    ) {
        let mut table = FileTable::new();
        for file in files {
            table = table.with(file, EntryKind::File);
        }
        let fallbacks = Fallbacks { os_home: Some("/home/os"), current_dir: "/cwd" };
        let found = locate(&Table(variables), &table, fallbacks).unwrap();
        assert_eq!((found.state_dir.as_str(), found.config.as_str()), expected);
    }

    #[test]
    fn places_follow_the_environment_then_what_exists() {
        check(&[("HOME", "/h")], &[], ("/h/.openclaw", "/h/.openclaw/openclaw.json"));
        check(&[("HOME", "rel")], &[], ("/home/os/.openclaw", "/home/os/.openclaw/openclaw.json"));
        check(
            &[("HOME", "undefined")],
            &[],
            ("/home/os/.openclaw", "/home/os/.openclaw/openclaw.json"),
        );
        check(
            &[("HOME", "/h"), ("OPENCLAW_HOME", "~/oh")],
            &[],
            ("/h/oh/.openclaw", "/h/oh/.openclaw/openclaw.json"),
        );
        check(
            &[("HOME", "/h")],
            &["/h/.clawdbot/clawdbot.json"],
            ("/h/.clawdbot", "/h/.clawdbot/clawdbot.json"),
        );
        check(
            &[("HOME", "/h"), ("OPENCLAW_STATE_DIR", " ~/s ")],
            &["/h/.openclaw/openclaw.json"],
            ("/h/s", "/h/.openclaw/openclaw.json"),
        );
        check(
            &[("HOME", "/h"), ("OPENCLAW_STATE_DIR", "rel"), ("OPENCLAW_CONFIG_PATH", "~/c.json")],
            &[],
            ("/cwd/rel", "/h/c.json"),
        );
    }

    #[test]
    fn home_is_shown_as_a_tilde_by_components() {
        assert_eq!(shorten_home("/h/x", "/h"), "~/x");
        assert_eq!(shorten_home("/hx", "/h"), "/hx");
        assert_eq!(shorten_home("/a", "/"), "/a");
    }
}
