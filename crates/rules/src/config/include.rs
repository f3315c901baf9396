//! Resolves `$include`: several files become one tree.
//!
//! A value may be pulled in anywhere, but only from below the directory of the root config (or one
//! of the extra roots), judged by the text of the path and by where its links really lead. Depth,
//! size, hard links and circles are bounded: an include must not become a way to read the host.

use std::collections::HashMap;

use super::json5::{self, Parsed, Repeated};
use super::locate::expand_tilde;
use super::tree::{FileId, Member, Node, Object, Place, Value};
use crate::host_files::{Entry, EntryKind, FactError, HostFiles, real_path};
use crate::posix;

/// Deeper chains of includes are refused.
pub const MAX_DEPTH: usize = 10;
/// Larger included files are refused.
pub const MAX_BYTES: usize = 2 * 1024 * 1024;
/// More files than this are refused, however they are nested.
pub const MAX_FILES: usize = 256;
/// All files of a load together may not be larger than this.
pub const MAX_TOTAL_BYTES: usize = json5::MAX_BYTES;
/// Longer include paths are refused.
pub const MAX_PATH: usize = 4096;

const KEY: &str = "$include";

/// Reads the text of files, besides telling facts about them.
pub trait ConfigFiles: HostFiles {
    /// The content of a regular file; an error says in the system's words why not.
    fn read(&self, path: &str) -> Result<String, FactError>;
}

/// Why an include was refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum IncludeError {
    #[error("these includes go round in a circle: {}", .chain.join(" -> "))]
    Circle { chain: Vec<String> },
    #[error("includes nest deeper than the limit ({MAX_DEPTH}) at {path}")]
    TooDeep { path: String },
    #[error("more than {MAX_FILES} files are included")]
    TooManyFiles,
    #[error("the included files are larger than {MAX_TOTAL_BYTES} bytes together")]
    TooLarge,
    #[error("the include {path} leads out of the config directory (root: {root})")]
    Escapes { path: String, root: String },
    #[error(
        "the include {path} leads out of the config directory through a symlink (root: {root})"
    )]
    EscapesByLink { path: String, root: String },
    #[error("$include takes a string or a list of strings, found {found}")]
    BadValue { found: String },
    #[error("an $include list takes strings only, found {found}")]
    BadItem { found: String },
    #[error("keys beside $include need included content that is an object")]
    NeedsObject,
    #[error("cannot read the include {path} (resolved: {resolved}): {why}")]
    Unreadable { path: String, resolved: String, why: String },
    #[error("the include {path} (resolved: {resolved}) is refused: {why}")]
    Unsafe { path: String, resolved: String, why: &'static str },
    #[error("the include {path} (resolved: {resolved}) is not valid JSON5: {error}")]
    Broken { path: String, resolved: String, error: json5::ParseError },
    #[error(transparent)]
    Fact(#[from] FactError),
}

/// A refusal and where the `$include` stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IncludeIssue {
    pub place: Place,
    pub error: IncludeError,
    /// The files read so far, which `place` refers to.
    pub files: Vec<String>,
}

/// The merged tree.
#[derive(Debug, Clone)]
pub struct Included {
    pub root: Node,
    /// Every file read, the root config first.
    pub files: Vec<String>,
    pub repeated: Vec<Repeated>,
}

/// Resolves every `$include` below `root`, which was parsed from `file`. `extra_roots` are further
/// directories that includes may come from.
pub fn resolve(
    root: Parsed,
    file: &str,
    extra_roots: &[String],
    sources: &impl ConfigFiles,
) -> Result<Included, IncludeIssue> {
    let directory = posix::parent(file).to_owned();
    let mut resolver = Resolver {
        bytes: 0,
        values: root.values,
        sources,
        roots: std::iter::once(directory).chain(extra_roots.iter().cloned()).collect(),
        files: vec![file.to_owned()],
        chain: vec![file.to_owned()],
        repeated: Vec::new(),
    };
    resolver.repeated = root.repeated;
    match resolver.node(root.root) {
        Ok(root) => Ok(Included { root, files: resolver.files, repeated: resolver.repeated }),
        Err(Refused { place, error }) => Err(IncludeIssue { place, error, files: resolver.files }),
    }
}

/// A refusal and its place, while the files are still being read.
struct Refused {
    place: Place,
    error: IncludeError,
}

struct Resolver<'a, S> {
    sources: &'a S,
    /// Read so far, all files together.
    bytes: usize,
    values: usize,
    roots: Vec<String>,
    files: Vec<String>,
    /// The files being read right now, outermost first.
    chain: Vec<String>,
    repeated: Vec<Repeated>,
}

impl<S: ConfigFiles> Resolver<'_, S> {
    fn node(&mut self, node: Node) -> Result<Node, Refused> {
        let Node { value, place, span } = node;
        let value = match value {
            Value::Array(items) => Value::Array(
                items.into_iter().map(|item| self.node(item)).collect::<Result<_, _>>()?,
            ),
            Value::Object(object) => return self.object(object, place, span),
            scalar => scalar,
        };
        Ok(Node { value, place, span })
    }

    fn object(
        &mut self,
        mut object: Object,
        place: Place,
        span: super::tree::Span,
    ) -> Result<Node, Refused> {
        let include = object.remove(KEY);
        let mut members = Vec::with_capacity(object.len());
        for member in object.into_members() {
            members.push(Member { node: self.node(member.node)?, ..member });
        }
        let siblings = Object::from_members(members);
        let Some(include) = include else {
            return Ok(Node { value: Value::Object(siblings), place, span });
        };
        let at = include.node.place;
        let included = self.included(include.node)?;
        if siblings.is_empty() {
            return Ok(included);
        }
        if included.as_object().is_none() {
            return Err(Refused { place: at, error: IncludeError::NeedsObject });
        }
        Ok(merge(included, Node { value: Value::Object(siblings), place, span }))
    }

    /// The content that the value of an `$include` stands for.
    fn included(&mut self, value: Node) -> Result<Node, Refused> {
        let place = value.place;
        match value.value {
            Value::String(path) => self.file(&path, place),
            Value::Array(items) => {
                let mut merged = Node::synthetic(Value::Object(Object::default()));
                for item in items {
                    let Some(path) = item.as_str() else {
                        let found = item.value.kind().to_string();
                        return Err(Refused {
                            place: item.place,
                            error: IncludeError::BadItem { found },
                        });
                    };
                    merged = merge(merged, self.file(path, item.place)?);
                }
                Ok(merged)
            }
            other => {
                let found = other.kind().to_string();
                Err(Refused { place, error: IncludeError::BadValue { found } })
            }
        }
    }

    fn file(&mut self, path: &str, place: Place) -> Result<Node, Refused> {
        let fail = |error| Refused { place, error };
        let resolved = self.checked_path(path).map_err(fail)?;
        if self.chain.contains(&resolved) {
            let mut chain = self.chain.clone();
            chain.push(resolved);
            return Err(fail(IncludeError::Circle { chain }));
        }
        if self.chain.len() > MAX_DEPTH {
            return Err(fail(IncludeError::TooDeep { path: path.to_owned() }));
        }
        if self.files.len() >= MAX_FILES {
            return Err(fail(IncludeError::TooManyFiles));
        }
        let text = self.text(path, &resolved).map_err(fail)?;
        self.bytes += text.len();
        if self.bytes > MAX_TOTAL_BYTES {
            return Err(fail(IncludeError::TooLarge));
        }
        let id = FileId(u16::try_from(self.files.len()).unwrap_or(u16::MAX));
        self.files.push(resolved.clone());
        let left = json5::MAX_VALUES.saturating_sub(self.values);
        let parsed = json5::parse_within(&text, id, left).map_err(|error| {
            fail(IncludeError::Broken { path: path.to_owned(), resolved: resolved.clone(), error })
        })?;
        self.values += parsed.values;
        self.repeated.extend(parsed.repeated);
        self.chain.push(resolved);
        let node = self.node(parsed.root);
        self.chain.pop();
        node
    }

    /// The absolute path of an include, if both its text and its links stay below a root.
    fn checked_path(&self, path: &str) -> Result<String, IncludeError> {
        let root = self.roots.first().cloned().unwrap_or_default();
        let escapes = || IncludeError::Escapes { path: path.to_owned(), root: root.clone() };
        if path.len() > MAX_PATH || path.contains('\0') {
            return Err(escapes());
        }
        let including = self.chain.last().map_or("/", |file| posix::parent(file));
        let resolved = posix::resolve(including, path);
        if !self.roots.iter().any(|root| posix::is_inside(root, &resolved)) {
            return Err(escapes());
        }
        let real = real_path(self.sources, &resolved)?;
        for root in &self.roots {
            if posix::is_inside(&real_path(self.sources, root)?, &real) {
                return Ok(resolved);
            }
        }
        Err(IncludeError::EscapesByLink { path: path.to_owned(), root })
    }

    fn text(&self, path: &str, resolved: &str) -> Result<String, IncludeError> {
        let refuse = |why| IncludeError::Unsafe {
            path: path.to_owned(),
            resolved: resolved.to_owned(),
            why,
        };
        let unreadable = |why: String| IncludeError::Unreadable {
            path: path.to_owned(),
            resolved: resolved.to_owned(),
            why,
        };
        let real = real_path(self.sources, resolved)?;
        match self.sources.entry(&real)? {
            None => return Err(unreadable("it does not exist".to_owned())),
            Some(Entry { kind: EntryKind::File, links }) if links > 1 => {
                return Err(refuse("it has more than one name (hard link)"));
            }
            Some(Entry { kind: EntryKind::File, .. }) => {}
            Some(_) => return Err(refuse("it is no regular file")),
        }
        let text =
            self.sources.read(&real).map_err(|error| unreadable(error.problem.to_string()))?;
        if text.len() > MAX_BYTES { Err(refuse("it is larger than 2 MiB")) } else { Ok(text) }
    }
}

/// Lays `over` onto `under`: objects are merged key by key, lists are joined, anything else is
/// replaced. Keys that JavaScript objects trip over are dropped.
fn merge(under: Node, over: Node) -> Node {
    let place = over.place;
    let span = over.span;
    match (under.value, over.value) {
        (Value::Object(base), Value::Object(top)) => {
            let mut members = base.into_members();
            let mut positions: HashMap<String, usize> =
                members.iter().enumerate().map(|(at, member)| (member.key.clone(), at)).collect();
            for member in top.into_members() {
                if matches!(member.key.as_str(), "__proto__" | "constructor" | "prototype") {
                    continue;
                }
                // In place, so that a key keeps the position it had.
                let old = positions.get(&member.key).and_then(|&at| members.get_mut(at));
                if let Some(old) = old {
                    let under = std::mem::replace(&mut old.node, Node::synthetic(Value::Null));
                    old.node = merge(under, member.node);
                } else {
                    positions.insert(member.key.clone(), members.len());
                    members.push(member);
                }
            }
            Node { value: Value::Object(Object::from_members(members)), place, span }
        }
        (Value::Array(mut base), Value::Array(top)) => {
            base.extend(top);
            Node { value: Value::Array(base), place, span }
        }
        (_, value) => Node { value, place, span },
    }
}

/// The extra roots of `OPENCLAW_INCLUDE_ROOTS`: absolute directories separated by colons.
pub fn extra_roots(variable: Option<&str>, home: &str) -> Vec<String> {
    variable
        .unwrap_or_default()
        .split(':')
        .map(|root| expand_tilde(root.trim(), home))
        .filter(|root| root.starts_with('/') && root != "/")
        .map(|root| posix::normalize(&root))
        .collect()
}

#[cfg(test)]
mod tests;
