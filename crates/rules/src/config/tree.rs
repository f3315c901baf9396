//! The config as one tree: every value remembers the file, line and column it was written at.
//!
//! Built by [`super::json5::parse`] from one file, and by [`super::include`] from several. Reading
//! goes through [`At`], a value together with its dotted key path, so that whatever is taken out
//! of the config can say where it came from.

use std::fmt;

/// Which file of a load a value comes from: an index into [`super::Config::files`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct FileId(pub u16);

/// Where a value stands: file, line and column, the latter two counted from 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Place {
    pub file: FileId,
    pub line: u32,
    pub column: u32,
}

/// The bytes of the source text that a value or key occupies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Span {
    pub start: u32,
    pub end: u32,
}

/// One value of the tree.
#[derive(Debug, Clone, PartialEq)]
pub struct Node {
    pub value: Value,
    pub place: Place,
    /// Meaningful in the text of `place.file` only.
    pub span: Span,
}

/// What JSON5 can say.
#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    Null,
    Bool(bool),
    Number(f64),
    String(String),
    Array(Vec<Node>),
    Object(Object),
}

/// The members of an object, in the order JavaScript lists them: integer-like keys first, in
/// ascending order, then the rest as first written. The order is visible in `docker create`.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Object {
    members: Vec<Member>,
}

/// One key with its value.
#[derive(Debug, Clone, PartialEq)]
pub struct Member {
    pub key: String,
    pub key_place: Place,
    pub key_span: Span,
    pub node: Node,
}

/// The kind of a value, by the names that the reference's messages use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Null,
    Boolean,
    Number,
    String,
    Array,
    Object,
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Null => "null",
            Self::Boolean => "boolean",
            Self::Number => "number",
            Self::String => "string",
            Self::Array => "array",
            Self::Object => "object",
        })
    }
}

impl Value {
    pub const fn kind(&self) -> Kind {
        match self {
            Self::Null => Kind::Null,
            Self::Bool(_) => Kind::Boolean,
            Self::Number(_) => Kind::Number,
            Self::String(_) => Kind::String,
            Self::Array(_) => Kind::Array,
            Self::Object(_) => Kind::Object,
        }
    }
}

impl Node {
    /// A value that no file wrote, such as the root of an absent config.
    pub fn synthetic(value: Value) -> Self {
        Self { value, place: Place::default(), span: Span::default() }
    }

    pub fn as_str(&self) -> Option<&str> {
        match &self.value {
            Value::String(text) => Some(text),
            Value::Null
            | Value::Bool(_)
            | Value::Number(_)
            | Value::Array(_)
            | Value::Object(_) => None,
        }
    }

    pub fn as_bool(&self) -> Option<bool> {
        if let Value::Bool(value) = self.value { Some(value) } else { None }
    }

    pub fn as_number(&self) -> Option<f64> {
        if let Value::Number(value) = self.value { Some(value) } else { None }
    }

    pub fn as_array(&self) -> Option<&[Node]> {
        if let Value::Array(items) = &self.value { Some(items) } else { None }
    }

    pub fn as_object(&self) -> Option<&Object> {
        if let Value::Object(object) = &self.value { Some(object) } else { None }
    }

    /// The member `key` of an object; `None` for anything else.
    pub fn get(&self, key: &str) -> Option<&Node> {
        self.as_object()?.get(key)
    }
}

impl Object {
    pub fn get(&self, key: &str) -> Option<&Node> {
        self.members.iter().find(|member| member.key == key).map(|member| &member.node)
    }

    pub fn get_mut(&mut self, key: &str) -> Option<&mut Node> {
        self.members.iter_mut().find(|member| member.key == key).map(|member| &mut member.node)
    }

    pub fn contains(&self, key: &str) -> bool {
        self.get(key).is_some()
    }

    pub fn is_empty(&self) -> bool {
        self.members.is_empty()
    }

    pub fn len(&self) -> usize {
        self.members.len()
    }

    pub fn members(&self) -> &[Member] {
        &self.members
    }

    pub fn members_mut(&mut self) -> &mut [Member] {
        &mut self.members
    }

    /// The members as a list that can be taken apart.
    pub fn into_members(self) -> Vec<Member> {
        self.members
    }

    /// Takes a member out.
    pub fn remove(&mut self, key: &str) -> Option<Member> {
        let index = self.members.iter().position(|member| member.key == key)?;
        Some(self.members.remove(index))
    }

    /// Sets a member. A key that is already there keeps its position and takes the new value, as
    /// in JavaScript.
    pub fn insert(&mut self, member: Member) {
        if let Some(old) = self.members.iter_mut().find(|old| old.key == member.key) {
            *old = member;
            return;
        }
        let Some(index) = array_index(&member.key) else {
            self.members.push(member);
            return;
        };
        let position = self
            .members
            .iter()
            .position(|other| array_index(&other.key).is_none_or(|other| other > index))
            .unwrap_or(self.members.len());
        self.members.insert(position, member);
    }

    /// Builds an object from members in written order. Same result as repeated [`Object::insert`],
    /// without its quadratic cost: a hostile file may hold a million keys.
    pub fn from_members(written: Vec<Member>) -> Self {
        let mut seen = std::collections::HashMap::with_capacity(written.len());
        let mut members: Vec<Member> = Vec::with_capacity(written.len());
        let mut has_indexes = false;
        for member in written {
            has_indexes |= array_index(&member.key).is_some();
            if let Some(&position) = seen.get(&member.key) {
                members[position] = member;
            } else {
                seen.insert(member.key.clone(), members.len());
                members.push(member);
            }
        }
        if has_indexes {
            members
                .sort_by_key(|member| array_index(&member.key).map_or((1, 0), |index| (0, index)));
        }
        Self { members }
    }
}

/// The number behind a key that JavaScript treats as an array index: no leading zero, below 2³²−1.
fn array_index(key: &str) -> Option<u32> {
    if key.is_empty() || key.len() > 10 || (key.len() > 1 && key.starts_with('0')) {
        return None;
    }
    if !key.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    key.parse::<u32>().ok().filter(|&index| index != u32::MAX)
}

/// A value and the dotted key path that leads to it.
#[derive(Debug, Clone)]
pub struct At<'a> {
    pub node: &'a Node,
    pub key: String,
}

impl<'a> At<'a> {
    /// The root: its key path is empty.
    pub fn root(node: &'a Node) -> Self {
        Self { node, key: String::new() }
    }

    /// The member `key`, if this is an object that has it.
    pub fn get(&self, key: &str) -> Option<At<'a>> {
        let node = self.node.get(key)?;
        Some(At { node, key: join_key(&self.key, key) })
    }

    /// Follows several keys.
    pub fn path(&self, keys: &[&str]) -> Option<At<'a>> {
        let mut at = self.clone();
        for key in keys {
            at = at.get(key)?;
        }
        Some(at)
    }

    /// The items of an array, each with its index as last key part.
    pub fn items(&self) -> Vec<At<'a>> {
        self.node
            .as_array()
            .unwrap_or_default()
            .iter()
            .enumerate()
            .map(|(index, node)| At { node, key: join_key(&self.key, &index.to_string()) })
            .collect()
    }

    /// The members of an object, each with its key path.
    pub fn members(&self) -> Vec<(&'a str, At<'a>)> {
        self.node
            .as_object()
            .map(Object::members)
            .unwrap_or_default()
            .iter()
            .map(|member| {
                let at = At { node: &member.node, key: join_key(&self.key, &member.key) };
                (member.key.as_str(), at)
            })
            .collect()
    }

    /// The strings of an array; `None` if this is no array. Other items are left out: validation
    /// has already reported them.
    pub fn strings(&self) -> Option<Vec<String>> {
        let items = self.node.as_array()?;
        Some(items.iter().filter_map(Node::as_str).map(str::to_owned).collect())
    }
}

/// `parent.key`, or `key` alone at the root.
pub fn join_key(parent: &str, key: &str) -> String {
    if parent.is_empty() { key.to_owned() } else { format!("{parent}.{key}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn member(key: &str) -> Member {
        Member {
            key: key.to_owned(),
            key_place: Place::default(),
            key_span: Span::default(),
            node: Node::synthetic(Value::Null),
        }
    }

    fn keys(object: &Object) -> Vec<&str> {
        object.members().iter().map(|member| member.key.as_str()).collect()
    }

    #[test]
    fn integer_keys_come_first_in_ascending_order() {
        let written = ["b", "10", "a", "2", "01", "4294967295"];
        let expected = ["2", "10", "b", "a", "01", "4294967295"];
        assert_eq!(
            keys(&Object::from_members(written.iter().map(|k| member(k)).collect())),
            expected
        );
        let mut one_by_one = Object::default();
        for key in written {
            one_by_one.insert(member(key));
        }
        assert_eq!(keys(&one_by_one), expected);
    }

    #[test]
    fn a_repeated_key_keeps_its_position() {
        let object = Object::from_members(["a", "b", "a"].iter().map(|k| member(k)).collect());
        assert_eq!(keys(&object), ["a", "b"]);
    }
}
