//! Variables that stay outside where the recorded release lets them in.

use serde_json::{Value, json};

use super::asked::{Asked, strings};
use crate::compat::Rule;

pub(super) const NAMES: Rule = Rule {
    name: "variable-names-that-hide-another",
    category: "env",
    applies: |input| has_odd_name(&input["env"]),
    transform: env_names,
};

pub(super) const COMMANDS: Rule = Rule {
    name: "credentials-stay-out-of-commands",
    category: "exec",
    applies: |_| true,
    transform: |input, expected| {
        let layers = [&input["sandboxEnv"], &input["tool"]["env"]];
        without_variables(expected, "-e", &layers)
    },
};

pub(super) const OPTIONS: Rule = Rule {
    name: "variable-names-that-hide-another",
    category: "create-args",
    applies: |input| has_odd_name(&input["cfg"]["env"]),
    transform: |input, mut expected| {
        if let Some(args) = expected["argv"].as_array_mut() {
            drop_env(args, "--env", &[&input["cfg"]["env"]]);
        }
        expected
    },
};

/// A variable whose name holds a `=` or a control character would arrive under another name.
fn env_names(input: &Value, mut expected: Value) -> Value {
    let recorded: Vec<String> = strings(&expected["blocked"]).map(str::to_owned).collect();
    let is_blocked =
        |name: &&str| recorded.iter().any(|other| other == name) || !is_plain_name(name);
    let blocked: Vec<&str> = keys(&input["env"]).map(str::trim).filter(is_blocked).collect();
    if let Some(allowed) = expected["allowed"].as_object_mut() {
        allowed.retain(|name, _| is_plain_name(name));
    }
    if let Some(warnings) = expected["warnings"].as_array_mut() {
        let hidden = |text: &str| blocked.iter().any(|name| text.starts_with(&format!("{name}: ")));
        warnings.retain(|warning| !warning.as_str().is_some_and(hidden));
    }
    expected["blocked"] = json!(blocked);
    expected
}

/// Filters the variables of every call; `layers` are the objects that set them.
fn without_variables(mut expected: Value, flag: &str, layers: &[&Value]) -> Value {
    for call in expected["calls"].as_array_mut().into_iter().flatten() {
        if let Some(args) = call.as_array_mut() {
            drop_env(args, flag, layers);
        }
    }
    expected
}

fn has_odd_name(env: &Value) -> bool {
    keys(env).any(|name| !is_plain_name(name))
}

/// The same for a first use: names that hide another; the recorded release filters the rest.
pub(super) const fn of_first_use(category: &'static str) -> Rule {
    Rule {
        name: "variable-names-that-hide-another",
        category,
        applies: |input| Asked::new(input).layers("docker", "env").into_iter().any(has_odd_name),
        transform: |input, expected| {
            let layers = Asked::new(input).layers("docker", "env");
            without_variables(expected, "--env", &layers)
        },
    }
}

/// Drops the variables that may not enter, and the blanks around names that may.
fn drop_env(args: &mut Vec<Value>, flag: &str, layers: &[&Value]) {
    let odd: Vec<String> = layers
        .iter()
        .flat_map(|layer| keys(layer))
        .filter(|name| !is_plain_name(name))
        .map(|name| format!("{name}="))
        .collect();
    let mut kept = Vec::with_capacity(args.len());
    let mut rest = std::mem::take(args).into_iter();
    while let Some(arg) = rest.next() {
        if arg != flag {
            kept.push(arg);
            continue;
        }
        let pair =
            rest.next().and_then(|pair| pair.as_str().map(str::to_owned)).unwrap_or_default();
        let (name, value) = pair.split_once('=').unwrap_or((&pair, ""));
        let name = name.trim();
        let hides = odd.iter().any(|odd| pair.trim_start().starts_with(odd.trim_start()));
        if !hides && !is_credential(name) && !value.contains('\0') && !name.is_empty() {
            kept.extend([arg, json!(format!("{name}={value}"))]);
        }
    }
    *args = kept;
}

fn is_plain_name(name: &str) -> bool {
    !name.trim().contains(|c: char| c == '=' || c.is_control())
}

fn is_credential(name: &str) -> bool {
    let name = name.to_ascii_uppercase();
    matches!(name.as_str(), "AWS_SECRET_ACCESS_KEY" | "AWS_SECRET_KEY")
        || ["API_KEY", "TOKEN", "PASSWORD", "PRIVATE_KEY", "SECRET"]
            .iter()
            .any(|ending| name.ends_with(ending))
}

fn keys(object: &Value) -> impl Iterator<Item = &str> {
    object.as_object().into_iter().flatten().map(|(name, _)| name.as_str())
}
