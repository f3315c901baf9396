//! The schema as JSON Schema (draft 7), for editors: `clawpen config schema`.

use super::{Field, Others, Presence, Range, Schema};
use crate::config::tree::{Member, Node, Object, Place, Span, Value};

/// The schema of a whole file as a tree that [`crate::config::print`] can write.
pub fn document(schema: &Schema, title: &str) -> Node {
    let mut members =
        vec![("$schema", text("http://json-schema.org/draft-07/schema#")), ("title", text(title))];
    members.extend(describe(schema));
    object(members)
}

fn describe(schema: &Schema) -> Vec<(&'static str, Node)> {
    match schema {
        Schema::Any => Vec::new(),
        Schema::Bool => vec![("type", text("boolean"))],
        Schema::Text { least: 0 } => vec![("type", text("string"))],
        Schema::Text { least } => {
            vec![
                ("type", text("string")),
                ("minLength", number(u32::try_from(*least).unwrap_or(u32::MAX))),
            ]
        }
        Schema::Number(range) => describe_range(*range),
        Schema::Words(words) => {
            vec![
                ("type", text("string")),
                ("enum", list(words.iter().map(|word| text(word)).collect())),
            ]
        }
        Schema::List(item) => vec![("type", text("array")), ("items", object(describe(item)))],
        Schema::Map(item) => {
            vec![("type", text("object")), ("additionalProperties", object(describe(item)))]
        }
        Schema::Object(schema) => {
            let fields = schema.fields.iter().map(|field| (field.name, describe_field(field)));
            let mut members =
                vec![("type", text("object")), ("properties", object(fields.collect()))];
            let required: Vec<Node> = schema
                .fields
                .iter()
                .filter(|field| field.presence == Presence::Required)
                .map(|field| text(field.name))
                .collect();
            if !required.is_empty() {
                members.push(("required", list(required)));
            }
            if schema.others == Others::Refuse {
                members.push(("additionalProperties", Node::synthetic(Value::Bool(false))));
            }
            members
        }
        Schema::Either(shapes) => {
            vec![("anyOf", list(shapes.iter().map(|shape| object(describe(shape))).collect()))]
        }
    }
}

fn describe_field(field: &Field) -> Node {
    let mut members = describe(&field.schema);
    if !field.about.is_empty() {
        members.push(("description", text(field.about)));
    }
    object(members)
}

fn describe_range(range: Range) -> Vec<(&'static str, Node)> {
    match range {
        Range::Any => vec![("type", text("number"))],
        Range::Positive => vec![("type", text("number")), ("exclusiveMinimum", number(0))],
        Range::NotNegative => vec![("type", text("number")), ("minimum", number(0))],
        Range::PositiveInteger => vec![("type", text("integer")), ("exclusiveMinimum", number(0))],
        Range::NotNegativeInteger => vec![("type", text("integer")), ("minimum", number(0))],
    }
}

fn text(value: &str) -> Node {
    Node::synthetic(Value::String(value.to_owned()))
}

fn number(value: u32) -> Node {
    Node::synthetic(Value::Number(f64::from(value)))
}

fn list(items: Vec<Node>) -> Node {
    Node::synthetic(Value::Array(items))
}

fn object(members: Vec<(&'static str, Node)>) -> Node {
    let members = members.into_iter().map(|(key, node)| Member {
        key: key.to_owned(),
        key_place: Place::default(),
        key_span: Span::default(),
        node,
    });
    Node::synthetic(Value::Object(Object::from_members(members.collect())))
}
