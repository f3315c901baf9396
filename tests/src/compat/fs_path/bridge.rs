//! What the file bridge answers to a row, worked out from the fixture alone, and where that differs
//! from the recording.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::super::Rule;
use super::model::{self, Asked, Mount, follow, follow_parent, inside, normal, owner};
use super::{Difference, escape, is_error};

/// System messages first: they are no answer of ours. Then each difference, by what the path is.
pub(in crate::compat) const RULES: &[Rule] = &[
    SYSTEM_MESSAGES.of("bridge"),
    NONE_IS_WRITABLE.of("bridge"),
    DIRECTORIES.of("bridge"),
    LINKS.of("bridge"),
    HARD_LINKS.of("bridge"),
    OTHER_MOUNTS.of("bridge"),
];

const CHANGES: &[&str] = &["writeFile", "mkdirp", "remove", "rename"];

const SYSTEM_MESSAGES: Difference = Difference {
    name: "messages-of-the-system",
    applies: |_| true,
    transform: |_, mut expected| {
        let error = expected["error"].as_str().unwrap_or_default();
        let is_systems = ["ENOENT", "ELOOP", "ENOTDIR", "EISDIR", "EEXIST", "ENOTEMPTY"]
            .iter()
            .any(|code| error.starts_with(code))
            || error.contains("[Errno ");
        if is_systems {
            expected["error"] = "it fails".into();
        }
        expected
    },
};

const NONE_IS_WRITABLE: Difference = Difference {
    name: "workspace-none-is-writable",
    applies: |input| {
        input["sandbox"]["workspaceAccess"] == "none"
            && CHANGES.iter().any(|change| input["op"] == *change)
    },
    transform: ours,
};

const DIRECTORIES: Difference = Difference {
    name: "directories-through-the-bridge",
    applies: |input| {
        let handled = ["stat", "remove", "rename"].iter().any(|op| input["op"] == *op);
        handled && matches!(Tree::new().entry(&named(input)), Some(Entry::Directory))
    },
    transform: ours,
};

const LINKS: Difference = Difference {
    name: "links-through-the-bridge",
    applies: |input| {
        let path = named(input);
        follow(&path) != path
    },
    transform: ours,
};

const HARD_LINKS: Difference = Difference {
    name: "hard-links-through-the-bridge",
    applies: |input| matches!(Tree::new().entry(&follow(&named(input))), Some(Entry::Shared(_))),
    transform: ours,
};

const OTHER_MOUNTS: Difference = Difference {
    name: "links-that-lead-into-another-mount",
    applies: |input| {
        let asked = asked(input, given(input));
        !asked.is_container_path() && follow_parent(&asked.path) != asked.path
    },
    transform: ours,
};

fn given(input: &Value) -> &str {
    let args = &input["args"];
    args["filePath"].as_str().or(args["from"].as_str()).unwrap_or_default()
}

fn asked(input: &Value, path: &str) -> Asked {
    Asked::new(&json!({"sandbox": input["sandbox"], "filePath": path}))
}

/// The host path that a row names first, before links.
fn named(input: &Value) -> String {
    asked(input, given(input)).path
}

/// Our answer, unless both refuse: then the recorded one says what has to be mentioned.
fn ours(input: &Value, expected: Value) -> Value {
    let answer = answer(input);
    if is_error(&answer) && is_error(&expected) { expected } else { answer }
}

/// What there is at a path.
#[derive(Debug, Clone, PartialEq)]
enum Entry {
    File(String),
    /// A file with a second name.
    Shared(String),
    Directory,
    Link(String),
}

impl Entry {
    fn json(&self) -> Value {
        match self {
            Self::File(contents) | Self::Shared(contents) => contents.as_str().into(),
            Self::Directory => "dir".into(),
            Self::Link(target) => format!("-> {target}").into(),
        }
    }
}

/// The fixture's files.
struct Tree(BTreeMap<String, Entry>);

impl Tree {
    fn new() -> Self {
        let mut tree = BTreeMap::new();
        let entries = || model::fixture()["tree"].as_array().into_iter().flatten();
        let text = |entry: &Value, key: &str| entry[key].as_str().unwrap_or_default().to_owned();
        let contents = |path: &str| {
            let found = entries().find(|entry| model::tidy(&text(entry, "path")) == path);
            found.map(|entry| text(entry, "content")).unwrap_or_default()
        };
        for entry in entries() {
            let path = model::tidy(&text(entry, "path"));
            let mut parent = path.as_str();
            while let Some((above, _)) = parent.rsplit_once('/') {
                parent = above;
                tree.entry(parent.to_owned()).or_insert(Entry::Directory);
            }
            let made = match entry["kind"].as_str() {
                Some("dir") => Entry::Directory,
                Some("symlink") => Entry::Link(text(entry, "target")),
                Some("hardlink") => {
                    let other = model::tidy(&text(entry, "target"));
                    let shared = Entry::Shared(contents(&other));
                    tree.insert(other, shared.clone());
                    shared
                }
                _ => Entry::File(text(entry, "content")),
            };
            tree.insert(path, made);
        }
        Self(tree)
    }

    fn entry(&self, path: &str) -> Option<&Entry> {
        self.0.get(path.trim_end_matches('/'))
    }

    /// Everything at and below a path.
    fn below(&self, path: &str) -> Vec<(String, Entry)> {
        let held = self.0.iter().filter(|(known, _)| inside(path, known).is_some());
        held.map(|(known, entry)| (known.clone(), entry.clone())).collect()
    }
}

/// A path in one mount, links not followed yet.
struct Place {
    mount: Mount,
    rest: String,
    container_path: String,
}

enum Last {
    Followed,
    Kept,
}

fn find(input: &Value, path: &str) -> Result<Place, Value> {
    let mounts = model::mounts(input);
    let asked = asked(input, path);
    let place = |mount: &Mount, rest: &str| Place {
        mount: mount.clone(),
        rest: rest.to_owned(),
        container_path: normal(&format!("{}/{rest}", mount.target)),
    };
    if asked.is_container_path() {
        let path = normal(&asked.given.replace('\\', "/"));
        let mount = owner(&mounts, &path).ok_or_else(|| escape(&asked))?;
        return Ok(place(mount, inside(&mount.target, &path).unwrap_or_default()));
    }
    let real = follow_parent(&asked.path);
    let holds = |mount: &&Mount| inside(&follow(&mount.host), &real).is_some();
    let mount = mounts.iter().filter(holds).max_by_key(|mount| mount.host.len());
    let mount = mount.ok_or_else(|| escape(&asked))?;
    let rest =
        inside(&mount.host, &asked.path).or_else(|| inside(&mount.host, &real)).unwrap_or_default();
    Ok(place(mount, rest))
}

impl Place {
    fn error(&self) -> Value {
        json!({ "error": self.container_path })
    }

    /// Where the kernel ends up, kept in the mount. An absolute link means a place in the sandbox: it stays in
    /// the mount or leads out.
    fn walk(&self, tree: &Tree, last: &Last) -> Result<String, Value> {
        let root = &self.mount.host;
        let mut names: Vec<String> = self.rest.split('/').rev().map(str::to_owned).collect();
        let mut path = root.clone();
        let mut hops = 0;
        while let Some(name) = names.pop() {
            let next = normal(&format!("{path}/{name}"));
            if inside(root, &next).is_none() {
                return Err(json!({ "error": format!("({root}): {path}") }));
            }
            let is_last = names.is_empty();
            match tree.entry(&next) {
                Some(Entry::Link(_)) if is_last && matches!(last, Last::Kept) => path = next,
                Some(Entry::Link(target)) => {
                    hops += 1;
                    if hops > 40 {
                        return Err(json!({ "error": "it fails" }));
                    }
                    let mut way = target.as_str();
                    if model::is_absolute(target) {
                        way = inside(&self.mount.target, target)
                            .ok_or_else(|| json!({ "error": format!("({root}): {next}") }))?;
                        path.clone_from(root);
                    }
                    names.extend(way.split('/').rev().map(str::to_owned));
                }
                _ => path = next,
            }
        }
        Ok(path)
    }
}

/// Our answer to a row.
fn answer(input: &Value) -> Value {
    let mut answer = done(input).unwrap_or_else(|error| error);
    if answer["hostChanges"].is_null() {
        answer["hostChanges"] = json!({});
    }
    answer
}

fn done(input: &Value) -> Result<Value, Value> {
    let tree = Tree::new();
    let place = find(input, given(input))?;
    let is_change = CHANGES.iter().any(|change| input["op"] == *change);
    if is_change && place.mount.json()["writable"] == false {
        return Err(place.error());
    }
    let args = &input["args"];
    match input["op"].as_str().unwrap_or_default() {
        "stat" => Ok(match tree.entry(&place.walk(&tree, &Last::Followed)?) {
            None => json!({ "missing": true }),
            Some(Entry::File(text) | Entry::Shared(text)) => {
                json!({ "type": "file", "size": text.len() })
            }
            Some(Entry::Directory) => json!({ "type": "directory" }),
            Some(Entry::Link(_)) => json!({ "type": "other" }),
        }),
        "readFile" => match tree.entry(&place.walk(&tree, &Last::Followed)?) {
            Some(Entry::File(text) | Entry::Shared(text)) => Ok(json!({ "content": text })),
            _ => Err(place.error()),
        },
        "writeFile" => {
            let path = place.walk(&tree, &Last::Followed)?;
            let above = if args["mkdir"] == false { Above::Required } else { Above::Made };
            let mut changes = parents(&tree, &path, above, &place)?;
            if matches!(tree.entry(&path), Some(Entry::Directory)) {
                return Err(place.error());
            }
            changes.insert(path, args["data"].clone());
            Ok(json!({ "ok": true, "hostChanges": changes }))
        }
        "mkdirp" => {
            let path = place.walk(&tree, &Last::Followed)?;
            if matches!(tree.entry(&path), Some(Entry::File(_) | Entry::Shared(_))) {
                return Err(place.error());
            }
            let changes = parents(&tree, &format!("{path}/x"), Above::Made, &place)?;
            Ok(json!({ "ok": true, "hostChanges": changes }))
        }
        "remove" => removed(&tree, &place, args),
        _ => renamed(&tree, &place, input),
    }
}

/// What to do about directories that are missing above a path.
#[derive(Clone, Copy)]
enum Above {
    Made,
    Required,
}

/// The directories above a path that have to be made.
fn parents(
    tree: &Tree,
    path: &str,
    above: Above,
    place: &Place,
) -> Result<Map<String, Value>, Value> {
    let mut made = Map::new();
    let mut left = path;
    while let Some((parent, _)) = left.rsplit_once('/') {
        left = parent;
        match (tree.entry(left), above) {
            (Some(Entry::Directory), _) => break,
            (None, Above::Made) => drop(made.insert(format!("{left}/"), "dir".into())),
            (None, Above::Required) | (Some(_), _) => return Err(place.error()),
        }
    }
    Ok(made)
}

fn shown(path: &str, entry: &Entry) -> String {
    if *entry == Entry::Directory { format!("{path}/") } else { path.to_owned() }
}

fn removed(tree: &Tree, place: &Place, args: &Value) -> Result<Value, Value> {
    if place.rest.is_empty() {
        return Err(place.error());
    }
    let path = place.walk(tree, &Last::Kept)?;
    let held = tree.below(&path);
    if held.is_empty() && args["force"] == false || held.len() > 1 && args["recursive"] != true {
        return Err(place.error());
    }
    let changes = held.iter().map(|(path, entry)| (shown(path, entry), Value::Null));
    Ok(json!({ "ok": true, "hostChanges": changes.collect::<Map<_, _>>() }))
}

fn renamed(tree: &Tree, place: &Place, input: &Value) -> Result<Value, Value> {
    let target = find(input, input["args"]["to"].as_str().unwrap_or_default())?;
    if target.mount.json()["writable"] == false {
        return Err(target.error());
    }
    let from = place.walk(tree, &Last::Kept)?;
    let held = tree.below(&from);
    if held.is_empty() || place.rest.is_empty() || target.rest.is_empty() {
        return Err(place.error());
    }
    let to = target.walk(tree, &Last::Kept)?;
    let mut changes = parents(tree, &to, Above::Made, &target)?;
    for (path, entry) in held {
        let rest = inside(&from, &path).unwrap_or_default();
        changes.insert(shown(&path, &entry), Value::Null);
        changes.insert(shown(&normal(&format!("{to}/{rest}")), &entry), entry.json());
    }
    Ok(json!({ "ok": true, "hostChanges": changes }))
}
