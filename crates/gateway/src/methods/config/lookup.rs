//! `config.schema.lookup`: one key of the schema and what stands below it.
//!
//! Takes a path as people write it (`agents.list[0].tools`, `models.providers.*`), gives what the table of keys says.

use clawpen_rules::config::schema::{Others, Presence, Range, Schema, keys};
use clawpen_wire::gateway::ErrorShape;
use serde_json::{Value, json};

use crate::methods::text;

/// A longer path leads nowhere.
const MOST_PARTS: usize = 32;
/// The largest whole number that every client holds exactly.
const LARGEST: u64 = 9_007_199_254_740_991;

pub(crate) fn lookup(params: &Value) -> Result<Value, ErrorShape> {
    let parts = parts(text(params, "path"));
    let not_found = || ErrorShape::invalid("config schema path not found");
    if parts.is_empty() || parts.len() > MOST_PARTS {
        return Err(not_found());
    }
    let found = parts.iter().try_fold(&keys::ROOT, |schema, key| step(schema, key));
    let found = found.ok_or_else(not_found)?;
    let path = parts.join(".");
    Ok(json!({ "path": path, "schema": described(found), "children": children(&path, found) }))
}

/// The keys of a path. An item of a list is written in brackets or as a key; other brackets are part of a name.
fn parts(path: &str) -> Vec<String> {
    let mut plain = String::new();
    let mut rest = path.trim();
    while let Some((before, after)) = rest.split_once('[') {
        plain.push_str(before);
        let inner = after.split_once(']');
        let is_item = |inner: &str| inner == "*" || inner.bytes().all(|byte| byte.is_ascii_digit());
        if let Some((inner, behind)) = inner.filter(|(inner, _)| is_item(inner)) {
            plain.push('.');
            plain.push_str(if inner.is_empty() { "*" } else { inner });
            rest = behind;
        } else {
            plain.push('[');
            rest = after;
        }
    }
    plain.push_str(rest);
    plain.split('.').filter(|part| !part.is_empty()).map(str::to_owned).collect()
}

/// What a key leads to: a member, any key of a map, or an item of a list.
fn step(schema: &'static Schema, key: &str) -> Option<&'static Schema> {
    match schema {
        Schema::Object(object) => {
            object.fields.iter().find(|field| field.name == key).map(|field| &field.schema)
        }
        Schema::Map(item) => Some(item),
        Schema::List(item) if key == "*" || key.parse::<usize>().is_ok() => Some(item),
        // Which of several forms is meant cannot be told.
        Schema::Either(_)
        | Schema::Any
        | Schema::Bool
        | Schema::Text { .. }
        | Schema::Number(_)
        | Schema::Words(_)
        | Schema::List(_) => None,
    }
}

/// The key itself: its type and its limits.
fn described(schema: &Schema) -> Value {
    let mut shown = json!({});
    if let Some(kind) = kind(schema) {
        shown["type"] = json!(kind);
    }
    match schema {
        Schema::Text { least } if *least > 0 => shown["minLength"] = json!(least),
        Schema::Number(range) => {
            match range {
                Range::Any => {}
                Range::Positive | Range::PositiveInteger => shown["exclusiveMinimum"] = json!(0),
                Range::NotNegative | Range::NotNegativeInteger => shown["minimum"] = json!(0),
            }
            if matches!(range, Range::PositiveInteger | Range::NotNegativeInteger) {
                shown["maximum"] = json!(LARGEST);
            }
        }
        Schema::Object(object) if object.others == Others::Refuse => {
            shown["additionalProperties"] = json!(false);
        }
        Schema::Any
        | Schema::Bool
        | Schema::Text { .. }
        | Schema::Words(_)
        | Schema::List(_)
        | Schema::Map(_)
        | Schema::Object(_)
        | Schema::Either(_) => {}
    }
    shown
}

/// What stands below: the members, or what every key or item is.
fn children(path: &str, schema: &'static Schema) -> Vec<Value> {
    match schema {
        Schema::Object(object) => object
            .fields
            .iter()
            .map(|field| child(path, (field.name, field.presence), &field.schema))
            .collect(),
        Schema::Map(item) | Schema::List(item) => {
            vec![child(path, ("*", Presence::Optional), item)]
        }
        Schema::Any
        | Schema::Bool
        | Schema::Text { .. }
        | Schema::Number(_)
        | Schema::Words(_)
        | Schema::Either(_) => Vec::new(),
    }
}

fn child(path: &str, (key, presence): (&str, Presence), schema: &Schema) -> Value {
    let mut child = json!({ "key": key, "path": format!("{path}.{key}") });
    if let Some(kind) = kind(schema) {
        child["type"] = json!(kind);
    }
    child["required"] = json!(presence == Presence::Required);
    child["hasChildren"] = json!(has_children(schema));
    child
}

fn has_children(schema: &Schema) -> bool {
    match schema {
        Schema::Object(object) => !object.fields.is_empty(),
        Schema::Map(_) | Schema::List(_) => true,
        Schema::Either(shapes) => shapes.iter().any(has_children),
        Schema::Any | Schema::Bool | Schema::Text { .. } | Schema::Number(_) | Schema::Words(_) => {
            false
        }
    }
}

/// The type of a value; words and alternatives have none of their own.
fn kind(schema: &Schema) -> Option<&'static str> {
    match schema {
        Schema::Bool => Some("boolean"),
        Schema::Text { .. } => Some("string"),
        Schema::Number(Range::PositiveInteger | Range::NotNegativeInteger) => Some("integer"),
        Schema::Number(Range::Any | Range::Positive | Range::NotNegative) => Some("number"),
        Schema::List(_) => Some("array"),
        Schema::Map(_) | Schema::Object(_) => Some("object"),
        Schema::Any | Schema::Words(_) | Schema::Either(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ask(path: &str) -> Result<Value, String> {
        lookup(&json!({ "path": path })).map_err(|error| error.message)
    }

    #[test]
    fn a_path_is_read_as_people_write_it() {
        for path in ["agents.list[0].sandbox", "agents.list.*.sandbox", ".agents..list[].sandbox."]
        {
            let found = ask(path).unwrap();
            assert_eq!(found["schema"]["type"], "object", "{path}");
        }
        for path in [
            "nope.nope",
            "agents.list.x",
            "agents.list[",
            "agents.list[x]",
            "gateway.port.x",
            "...",
            "__proto__",
        ] {
            assert_eq!(ask(path), Err("config schema path not found".to_owned()), "{path}");
        }
    }

    #[test]
    fn a_key_is_told_with_its_limits_and_what_is_below() {
        assert_eq!(
            ask("gateway.port").unwrap(),
            json!({ "path": "gateway.port", "children": [], "schema": {
                "type": "integer", "exclusiveMinimum": 0, "maximum": LARGEST } })
        );
        assert_eq!(
            ask("env.vars").unwrap()["children"],
            json!([{ "key": "*", "path": "env.vars.*", "type": "string", "required": false,
                     "hasChildren": false }])
        );
        let list = &ask("agents.list").unwrap()["children"];
        assert_eq!(
            (&list[0]["path"], &list[0]["hasChildren"]),
            (&json!("agents.list.*"), &json!(true))
        );
    }
}
