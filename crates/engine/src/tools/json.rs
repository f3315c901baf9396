//! Between JSON and the rules: arguments in, JSON Schemas out.

use clawpen_rules::tools::BuiltTool;
use clawpen_rules::tools::arguments::Value as Argument;
use clawpen_rules::tools::schema::{self, Kind, Parameter};
use serde_json::{Map, Value, json};

/// Arguments as the rules take them. The depth is what the JSON reader let through.
pub(crate) fn arguments(value: &Value) -> Argument {
    match value {
        Value::Null => Argument::Null,
        Value::Bool(on) => Argument::Bool(*on),
        Value::Number(number) => number.as_f64().map_or(Argument::Null, Argument::Number),
        Value::String(text) => Argument::Text(text.clone()),
        Value::Array(items) => Argument::List(items.iter().map(arguments).collect()),
        Value::Object(members) => {
            let members = members.iter().map(|(name, value)| (name.clone(), arguments(value)));
            Argument::Map(members.collect())
        }
    }
}

/// A tool's JSON Schema, as it is offered to models. Every name of a parameter is in it.
pub fn schema(tool: BuiltTool) -> Value {
    schema_of(schema::of_built(tool))
}

/// The same for any tool that is described so.
pub fn schema_of(schema: &schema::Schema) -> Value {
    let mut properties = Map::new();
    for parameter in schema.parameters {
        properties.insert(parameter.name.to_owned(), property(parameter, parameter.description));
        for alias in parameter.aliases {
            let description = format!("The same as `{}`", parameter.name);
            properties.insert((*alias).to_owned(), property(parameter, &description));
        }
    }
    let required = schema.parameters.iter().filter(|one| one.is_required_by_name());
    let required: Vec<&str> = required.map(|one| one.name).collect();
    let mut shape = json!({ "type": "object", "properties": properties });
    if !required.is_empty() {
        shape["required"] = json!(required);
    }
    shape
}

fn property(parameter: &Parameter, description: &str) -> Value {
    match parameter.kind {
        Kind::Word | Kind::Text => json!({ "type": "string", "description": description }),
        Kind::Whole { least } => {
            json!({ "type": "integer", "minimum": least, "description": description })
        }
        Kind::Switch => json!({ "type": "boolean", "description": description }),
        Kind::Number => json!({ "type": "number", "description": description }),
        Kind::Choice(known) => {
            json!({ "type": "string", "enum": known, "description": description })
        }
        Kind::Words => json!({
            "type": "array",
            "items": { "type": "string" },
            "description": description,
        }),
        Kind::Variables => json!({
            "type": "object",
            "additionalProperties": { "type": "string" },
            "description": description,
        }),
        Kind::Edits => {
            let member = |parameter: &Parameter| property(parameter, parameter.description);
            json!({
                "type": "array",
                "minItems": 1,
                "description": description,
                "items": {
                    "type": "object",
                    "properties": { "oldText": member(&schema::OLD_TEXT), "newText": member(&schema::NEW_TEXT) },
                    "required": ["oldText", "newText"],
                },
            })
        }
    }
}

#[cfg(test)]
mod tests {
    use clawpen_rules::tools::FileTool;

    use super::*;

    #[test]
    fn a_schema_publishes_every_name_and_requires_only_single_ones() {
        let expected = json!({
            "type": "object",
            "properties": {
                "path": { "type": "string", "description": "Path of the file, relative to the workspace or absolute" },
                "file_path": { "type": "string", "description": "The same as `path`" },
                "filePath": { "type": "string", "description": "The same as `path`" },
                "file": { "type": "string", "description": "The same as `path`" },
                "content": { "type": "string", "description": "The whole contents" },
            },
            "required": ["content"],
        });
        let schema = |tool| schema(BuiltTool::File(tool));
        assert_eq!(schema(FileTool::Write), expected);
        assert_eq!(schema(FileTool::Read)["properties"]["limit"]["minimum"], 1);
        assert_eq!(
            schema(FileTool::Edit)["properties"]["edits"]["items"]["required"],
            json!(["oldText", "newText"])
        );
    }

    #[test]
    fn arguments_keep_their_shape() {
        let given = json!({ "a": [1, true, null], "b": "x" });
        let list =
            Argument::List(vec![Argument::Number(1.0), Argument::Bool(true), Argument::Null]);
        let expected =
            Argument::Map(vec![("a".into(), list), ("b".into(), Argument::Text("x".into()))]);
        assert_eq!(arguments(&given), expected);
    }
}
