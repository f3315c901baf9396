//! Looks up the places of this machine that no sandbox may see, beyond those that are the same
//! everywhere: homes, our state and config, the engine's socket.
//!
//! What cannot be read adds nothing here; the rules block the usual places by name all the same.

use clawpen_rules::config::locate;
use clawpen_rules::ids::AgentId;
use clawpen_rules::mounts::KnownPlaces;

use crate::config_store::Store;

/// Homes that are looked up one by one; a machine with more of them has a directory service, and the
/// rules take every directory beside the homes for one.
const MAX_HOMES: usize = 4096;

/// Variables that name a container engine's socket.
const ENGINE_VARIABLES: [&str; 2] = ["DOCKER_HOST", "CONTAINER_HOST"];

/// The places that `store` and this machine add.
pub(crate) fn look_up(store: &Store) -> KnownPlaces {
    let mut known = KnownPlaces::default();
    homes(store, &mut known);
    ours(store, &mut known);
    for variable in ENGINE_VARIABLES {
        let host = std::env::var(variable).ok();
        known.guarded.extend(host.as_deref().and_then(socket_path).map(str::to_owned));
    }
    known
}

fn homes(store: &Store, known: &mut KnownPlaces) {
    known.homes.push(store.locations.home.clone());
    let os_home = std::env::home_dir().and_then(|home| home.into_os_string().into_string().ok());
    known.homes.extend(os_home);
    let users = std::fs::read_to_string("/etc/passwd").unwrap_or_default();
    for line in users.lines().take(MAX_HOMES) {
        let mut fields = line.split(':').skip(2);
        if let (Some(Ok(uid)), Some(home)) = (fields.next().map(str::parse), fields.nth(2)) {
            known.add_account(uid, home);
        }
    }
    for directory in ["/home", "/Users"] {
        let entries = std::fs::read_dir(directory).into_iter().flatten().take(MAX_HOMES).flatten();
        known.homes.extend(entries.filter_map(|entry| entry.path().to_str().map(str::to_owned)));
    }
    for list in [&mut known.homes, &mut known.service_homes] {
        list.sort();
        list.dedup();
    }
}

/// Our own files, and every agent's.
fn ours(store: &Store, known: &mut KnownPlaces) {
    let (locations, config) = (&store.locations, &store.loaded.config);
    let state = &locations.state_dir;
    known.guarded.extend([
        locations.config.clone(),
        locations.own_config.clone(),
        format!("{}/.openclaw/exec-approvals.json", locations.home),
        format!("{state}/.env"),
        format!("{state}/credentials"),
    ]);
    known.guarded.extend(config.files().iter().cloned());
    let mut agents: Vec<AgentId> = config.agents().into_iter().map(|(id, _)| id).collect();
    agents.push(config.default_agent());
    for agent in agents {
        known.guarded.push(locations.session_store(config, &agent));
        for directory in ["agent", "sessions"] {
            known.guarded.push(format!("{state}/agents/{agent}/{directory}"));
        }
    }
    known.private.extend([state.clone(), format!("{state}/agents")]);
    let states = known.homes.iter().flat_map(|home| locate::state_dirs_in(home));
    let others: Vec<String> = states.filter(|state| std::path::Path::new(state).exists()).collect();
    known.private.extend(others);
}

/// The path in `unix://PATH`; schemes are the same in any case.
fn socket_path(host: &str) -> Option<&str> {
    const SCHEME: &str = "unix://";
    let host = host.trim();
    let scheme = host.get(..SCHEME.len())?;
    scheme.eq_ignore_ascii_case(SCHEME).then(|| host.get(SCHEME.len()..)).flatten()
}

#[cfg(test)]
mod tests {
    use super::socket_path;

    #[test]
    fn a_socket_is_found_behind_its_scheme_in_any_case() {
        for (host, path) in [
            ("unix:///srv/d.sock", Some("/srv/d.sock")),
            (" UNIX:///srv/d.sock", Some("/srv/d.sock")),
            ("tcp://127.0.0.1:2375", None),
            ("é", None),
            ("", None),
        ] {
            assert_eq!(socket_path(host), path, "{host}");
        }
    }
}
