//! Which words of a config an engine could read as something else. By text, from the row alone.

use serde_json::Value;

use super::asked::{Asked, strings};

/// The first word of the shell container that we refuse and the recorded release does not.
pub(super) fn of_shell(asked: &Asked<'_>) -> Option<String> {
    let workdir = asked.workdir();
    if is_bad_workdir(workdir, asked.access()) {
        return Some(workdir.to_owned());
    }
    let agent_mount = (asked.access() == "ro").then_some("/agent");
    let taken: Vec<String> =
        [Some(workdir), agent_mount].into_iter().flatten().map(normal).collect();
    if let Some(entry) =
        strings(asked.of("docker", "tmpfs")).find(|entry| is_bad_tmpfs(entry, &taken))
    {
        return Some(entry.to_owned());
    }
    of_both(asked).or_else(|| {
        let image = asked.text("docker", "image").filter(|image| !is_image(image));
        let prefix = asked.text("docker", "containerPrefix").filter(|prefix| !is_prefix(prefix));
        let network = asked.text("docker", "network").filter(|network| !is_network(network));
        prefix.or(image).or(network).map(str::to_owned)
    })
}

/// The first word of the browser's container that only we refuse.
pub(super) fn of_browser(asked: &Asked<'_>) -> Option<String> {
    for key in ["cdpPort", "vncPort", "noVncPort"] {
        let port = asked.of("browser", key);
        let is_port = port.as_u64().is_some_and(|port| (1..=65_535).contains(&port));
        if !port.is_null() && !is_port {
            return Some(port.to_string());
        }
    }
    let range = asked.text("browser", "cdpSourceRange").map(str::trim);
    let is_range = |range: &str| range.chars().all(|c| c.is_ascii_hexdigit() || ".:/".contains(c));
    let range = range.filter(|range| !is_range(range));
    let image = asked.text("browser", "image").filter(|image| !is_image(image));
    let prefix = asked.text("browser", "containerPrefix").filter(|prefix| !is_prefix(prefix));
    range.or(prefix).or(image).map(str::to_owned)
}

/// Words that both containers share, as far as `docker` options of a `create-args` row.
pub(super) fn of_options(docker: &Value) -> Option<String> {
    let text = |key: &str| docker[key].as_str();
    let taken = ["/workspace".to_owned()];
    let tmpfs = strings(&docker["tmpfs"]).find(|entry| is_bad_tmpfs(entry, &taken));
    let network = text("network").filter(|network| !is_network(network));
    let image = text("image").filter(|image| !is_image(image));
    let user = text("user").filter(|user| !is_user(user));
    let capability = strings(&docker["capDrop"]).find(|name| !is_identifier(name));
    let found = tmpfs.or(image).or(user).or(capability).or(network).map(str::to_owned);
    found.or_else(|| bad_ulimit(&docker["ulimits"]))
}

fn of_both(asked: &Asked<'_>) -> Option<String> {
    let user = asked.text("docker", "user").filter(|user| !is_user(user));
    let capability = strings(asked.of("docker", "capDrop")).find(|name| !is_identifier(name));
    user.or(capability).map(str::to_owned).or_else(|| bad_ulimit(asked.of("docker", "ulimits")))
}

fn bad_ulimit(ulimits: &Value) -> Option<String> {
    let names = ulimits.as_object()?.iter().map(|(name, _)| name.trim());
    names.filter(|name| !name.is_empty()).find(|name| !is_identifier(name)).map(str::to_owned)
}

fn is_bad_workdir(path: &str, access: &str) -> bool {
    let plain = path.starts_with('/') && !path.contains(|c: char| c == ':' || c.is_control());
    let place = normal(path);
    let below = |root: &str| place == root || place.starts_with(&format!("{root}/"));
    let kernel = ["/proc", "/sys", "/dev"].into_iter().any(below);
    !plain || place == "/" || kernel || (access == "ro" && below("/agent"))
}

fn is_bad_tmpfs(entry: &str, taken: &[String]) -> bool {
    let (path, options) = entry.split_once(':').unwrap_or((entry, ""));
    let place = normal(path);
    let below = |root: &str| place == root || place.starts_with(&format!("{root}/"));
    let kernel = ["/proc", "/sys", "/dev"].into_iter().any(below) && place != "/dev/shm";
    let known =
        "size mode uid gid nr_inodes nr_blocks rw ro nosuid nodev noexec exec noatime relatime";
    let is_known = |option: &str| {
        let name = option.split('=').next().unwrap_or_default();
        option.is_empty() || known.split(' ').any(|known| known == name)
    };
    !path.starts_with('/')
        || path.contains(char::is_control)
        || place == "/"
        || kernel
        || taken.contains(&place)
        || !options.split(',').all(is_known)
}

fn is_image(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_alphanumeric() || c == '[')
        && text.chars().all(|c| c.is_ascii_alphanumeric() || "._-/:@[]".contains(c))
}

fn is_prefix(text: &str) -> bool {
    text.is_empty() || is_name(text)
}

fn is_name(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_alphanumeric())
        && text.chars().all(|c| c.is_ascii_alphanumeric() || "_.-".contains(c))
}

/// Joining another container is judged by its flag, not by its shape.
fn is_network(text: &str) -> bool {
    let lower = text.to_lowercase();
    let name = if lower.starts_with("container:") { &text["container:".len()..] } else { text };
    text.trim().is_empty() || is_name(name)
}

fn is_user(text: &str) -> bool {
    let text = text.trim();
    text.is_empty()
        || (text.starts_with(|c: char| c.is_ascii_alphanumeric() || c == '_')
            && text.chars().all(|c| c.is_ascii_alphanumeric() || "_.-:$".contains(c)))
}

fn is_identifier(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_alphanumeric())
        && text.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}

fn normal(path: &str) -> String {
    let mut names: Vec<&str> = Vec::new();
    for name in path.split('/').filter(|name| !matches!(*name, "" | ".")) {
        match name {
            ".." => drop(names.pop()),
            name => names.push(name),
        }
    }
    format!("/{}", names.join("/"))
}
