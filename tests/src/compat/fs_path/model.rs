//! A row's input as test code sees it: which mounts it describes and which path it asks for.
//!
//! Deliberately small, by text only, and nothing of the product: the rules beside it use this to
//! work out the answers that we mean to give. Paths keep their placeholders; `${BASE}` is the one
//! that all others are spelt with.

use std::sync::OnceLock;

use serde_json::{Value, json};

const FIXTURE: &str = include_str!("../../../corpus/fs-path.fixture.json");

pub(super) fn fixture() -> &'static Value {
    static PARSED: OnceLock<Value> = OnceLock::new();
    PARSED.get_or_init(|| serde_json::from_str(FIXTURE).unwrap_or_default())
}

/// A path with every placeholder but `${BASE}` replaced, and normalised.
pub(super) fn tidy(path: &str) -> String {
    let mut path = path.to_owned();
    for (name, place) in fixture()["layout"].as_object().into_iter().flatten() {
        path = path.replace(name.as_str(), place.as_str().unwrap_or_default());
    }
    normal(&path)
}

/// Takes `.`, `..` and doubled slashes out of an absolute path.
pub(super) fn normal(path: &str) -> String {
    let mut names: Vec<&str> = Vec::new();
    for name in path.split('/').filter(|name| !matches!(*name, "" | ".")) {
        match name {
            ".." => drop(names.pop()),
            name => names.push(name),
        }
    }
    let slash = if path.starts_with("${BASE}") { "" } else { "/" };
    format!("{slash}{}", names.join("/"))
}

/// Placeholders stand for absolute paths.
pub(super) fn is_absolute(path: &str) -> bool {
    path.starts_with('/') || path.starts_with("${")
}

/// The rest of `path` below `root`.
pub(super) fn inside<'a>(root: &str, path: &'a str) -> Option<&'a str> {
    if root == "/" {
        // A path in the throw-away tree is an absolute one too.
        return Some(path.strip_prefix('/').unwrap_or(path));
    }
    match path.strip_prefix(root)? {
        "" => Some(""),
        // A placeholder brings its slash along.
        rest if rest.starts_with("${") => Some(rest),
        rest => rest.strip_prefix('/'),
    }
}

/// The target of a link of the fixture.
fn link(path: &str) -> Option<String> {
    let tree = fixture()["tree"].as_array()?;
    let entry = tree.iter().find(|entry| {
        entry["kind"] == "symlink" && tidy(entry["path"].as_str().unwrap_or_default()) == path
    })?;
    let target = entry["target"].as_str()?;
    let absolute = is_absolute(target);
    Some(if absolute { tidy(target) } else { normal(&format!("{path}/../{target}")) })
}

/// A path with the fixture's links followed, the last component too.
pub(super) fn follow(path: &str) -> String {
    let mut path = path.to_owned();
    for _ in 0..40 {
        let ends = path.match_indices('/').map(|(end, _)| end).chain([path.len()]);
        let hop = ends.filter(|end| *end > 0).find_map(|end| {
            link(&path[..end]).map(|target| normal(&format!("{target}{}", &path[end..])))
        });
        match hop {
            Some(next) if next != path => path = next,
            _ => return path,
        }
    }
    path
}

/// The same, but the last component stays as it is.
pub(super) fn follow_parent(path: &str) -> String {
    match path.rsplit_once('/') {
        Some((parent, name)) if !parent.is_empty() => format!("{}/{name}", follow(parent)),
        _ => path.to_owned(),
    }
}

/// One mount that a row describes.
#[derive(Debug, Clone)]
pub(super) struct Mount {
    pub(super) kind: &'static str,
    pub(super) host: String,
    pub(super) target: String,
    writable: bool,
}

impl Mount {
    pub(super) fn json(&self) -> Value {
        json!({
            "hostRoot": self.host,
            "containerRoot": self.target,
            "writable": self.writable,
            "source": self.kind,
        })
    }

    /// The answer to a path in the sandbox that lies in this mount.
    pub(super) fn answer(&self, input: &Value, path: &str) -> Value {
        let rest = inside(&self.target, path).unwrap_or_default();
        let workdir = normal(input["sandbox"]["containerWorkdir"].as_str().unwrap_or_default());
        json!({
            "hostPath": format!("{}/{rest}", self.host).trim_end_matches('/'),
            "containerPath": path,
            "relativePath": inside(&workdir, path).unwrap_or(path),
            "writable": self.writable,
        })
    }

    /// The same for a host path.
    pub(super) fn answer_for_host(&self, input: &Value, path: &str) -> Value {
        let rest = inside(&self.host, path).unwrap_or_default();
        self.answer(input, &normal(&format!("{}/{rest}", self.target)))
    }
}

/// Every bind with an absolute source and target.
pub(super) fn all_binds(input: &Value) -> Vec<Mount> {
    let binds = input["sandbox"]["binds"].as_array().into_iter().flatten();
    binds
        .filter_map(|bind| {
            let mut parts = bind.as_str()?.splitn(3, ':').map(str::trim);
            let (host, target) = (parts.next()?, parts.next()?);
            if !is_absolute(host) || !target.starts_with('/') {
                return None;
            }
            let options = parts.next().unwrap_or_default().to_lowercase();
            Some(Mount {
                kind: "bind",
                host: tidy(host),
                target: normal(target),
                writable: !options.split(',').any(|option| option.trim() == "ro"),
            })
        })
        .collect()
}

/// The binds that count: the last one of each target.
pub(super) fn binds(input: &Value) -> Vec<Mount> {
    let all = all_binds(input);
    let is_last = |index: usize, bind: &Mount| {
        !all.iter().skip(index + 1).any(|later| later.target == bind.target)
    };
    all.iter()
        .enumerate()
        .filter(|(index, bind)| is_last(*index, bind))
        .map(|(_, b)| b.clone())
        .collect()
}

/// Every mount of a row.
pub(super) fn mounts(input: &Value) -> Vec<Mount> {
    let sandbox = &input["sandbox"];
    let place = |key: &str| tidy(sandbox[key].as_str().unwrap_or_default());
    let access = sandbox["workspaceAccess"].as_str().unwrap_or_default();
    let workspace = Mount {
        kind: "workspace",
        host: place("workspaceDir"),
        target: normal(sandbox["containerWorkdir"].as_str().unwrap_or_default()),
        writable: access != "ro",
    };
    let mut all = vec![workspace.clone()];
    if access != "none" && place("agentWorkspaceDir") != workspace.host {
        let host = place("agentWorkspaceDir");
        all.push(Mount { kind: "agent", host, target: "/agent".to_owned(), ..workspace });
    }
    all.extend(binds(input));
    all
}

/// The mount that a path in the sandbox belongs to: the deepest, and of two the later one.
pub(super) fn owner<'a>(mounts: &'a [Mount], path: &str) -> Option<&'a Mount> {
    let path = normal(path);
    mounts
        .iter()
        .filter(|mount| inside(&mount.target, &path).is_some())
        .max_by_key(|mount| mount.target.len())
}

/// The path that a row asks for.
#[derive(Debug)]
pub(super) struct Asked {
    /// As given.
    pub(super) given: String,
    /// The directory that it should stay in, on the host.
    pub(super) root: String,
    /// The absolute path it means on the host, before links.
    pub(super) path: String,
    container_path: Option<String>,
}

impl Asked {
    pub(super) fn new(input: &Value) -> Self {
        let text = |value: &Value| value.as_str().map(str::to_owned);
        let given = text(&input["filePath"]).or_else(|| text(&input["media"])).unwrap_or_default();
        let sandbox = &input["sandbox"];
        let root = text(&input["root"])
            .or_else(|| text(&input["sandboxRoot"]))
            .or_else(|| text(&sandbox["workspaceDir"]))
            .unwrap_or_default();
        let root = tidy(&root);
        let trimmed = given.replace('\\', "/").trim().to_owned();
        let known = mounts(input);
        // What a placeholder stands for is in the sandbox only if its whole root is bound over.
        let is_bound = |mount: &Mount| {
            if trimmed.starts_with('/') {
                return inside(&mount.target, &normal(&trimmed)).is_some();
            }
            is_absolute(&trimmed) && mount.target == "/"
        };
        let is_container = !sandbox.is_null() && known.iter().any(is_bound);
        let container_path = is_container.then(|| normal(&trimmed));
        let expanded = Self::expand(&given);
        let from = text(&input["cwd"]).map_or_else(|| root.clone(), |cwd| tidy(&cwd));
        let path = if let Some(path) = &container_path {
            owner(&known, path).map_or_else(String::new, |mount| {
                normal(&format!(
                    "{}/{}",
                    mount.host,
                    inside(&mount.target, path).unwrap_or_default()
                ))
            })
        } else if is_absolute(&expanded) {
            tidy(&expanded)
        } else {
            tidy(&format!("{from}/{expanded}"))
        };
        Self { given, root, path, container_path }
    }

    pub(super) fn is_container_path(&self) -> bool {
        self.container_path.is_some()
    }

    /// Says whether the path stays in the root and its first name there starts with two dots.
    pub(super) fn names_dots(&self) -> bool {
        inside(&self.root, &self.path).is_some_and(|rest| rest.starts_with(".."))
    }

    /// Says whether a host path has `..` between backslashes.
    pub(super) fn steps_between_backslashes(&self) -> bool {
        let steps = |name: &str| name.contains('\\') && name.split('\\').any(|part| part == "..");
        let given = self.given.strip_prefix('@').unwrap_or(&self.given);
        !self.is_container_path() && given.split('/').any(steps)
    }

    /// Without one leading `@`, with plain blanks, and with the home for `~`.
    pub(super) fn expand(given: &str) -> String {
        let unusual = |c: char| {
            matches!(c, '\u{a0}' | '\u{2000}'..='\u{200a}' | '\u{202f}' | '\u{205f}' | '\u{3000}')
        };
        let given = given.strip_prefix('@').unwrap_or(given).replace(unusual, " ");
        if given == "~" || given.starts_with("~/") {
            return format!("${{HOME}}{}", &given[1..]);
        }
        given
    }
}
