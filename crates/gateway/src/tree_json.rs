//! The config's tree as JSON, and back. The only place where the two meet.

use clawpen_rules::config::patch::member;
use clawpen_rules::config::tree::{Node, Object, Value as Tree};
use serde_json::{Map, Number, Value};

/// A tree as JSON. Numbers without a fraction are whole, as JavaScript prints them.
pub(crate) fn to_json(node: &Node) -> Value {
    match &node.value {
        Tree::Null => Value::Null,
        Tree::Bool(value) => Value::Bool(*value),
        Tree::Number(number) => to_number(*number),
        Tree::String(text) => Value::String(text.clone()),
        Tree::Array(items) => Value::Array(items.iter().map(to_json).collect()),
        Tree::Object(object) => {
            let members = object.members().iter();
            Value::Object(members.map(|part| (part.key.clone(), to_json(&part.node))).collect())
        }
    }
}

fn to_number(number: f64) -> Value {
    let is_whole = number.fract() == 0.0 && number.abs() <= 9_007_199_254_740_991.0;
    let whole = is_whole.then(|| format!("{number:.0}").parse::<i64>().ok()).flatten();
    match whole {
        Some(whole) => Value::Number(whole.into()),
        // JSON has neither NaN nor Infinity.
        None => Number::from_f64(number).map_or(Value::Null, Value::Number),
    }
}

/// JSON as a tree that no file wrote.
pub(crate) fn to_tree(value: &Value) -> Node {
    Node::synthetic(match value {
        Value::Null => Tree::Null,
        Value::Bool(value) => Tree::Bool(*value),
        Value::Number(number) => Tree::Number(number.as_f64().unwrap_or(f64::NAN)),
        Value::String(text) => Tree::String(text.clone()),
        Value::Array(items) => Tree::Array(items.iter().map(to_tree).collect()),
        Value::Object(members) => Tree::Object(to_object(members)),
    })
}

fn to_object(members: &Map<String, Value>) -> Object {
    Object::from_members(members.iter().map(|(key, value)| member(key, to_tree(value))).collect())
}
