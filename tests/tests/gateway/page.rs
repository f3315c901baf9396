//! `docs/reference/gateway-methods.md`: every method with its scope and parameters, made from the tables
//! that check requests. `CLAWPEN_BLESS=1` writes it anew.

use std::fmt::Write as _;
use std::path::PathBuf;

use clawpen_rules::access::{self, Need};
use clawpen_wire::gateway::params;
use clawpen_wire::gateway::shape::{Field, Shape};

fn scope(method: &str) -> String {
    match access::need(method) {
        Need::Nothing => "–".to_owned(),
        Need::Scope(scope) => format!("`{scope}`"),
        Need::NodeRole => "role `node`".to_owned(),
    }
}

fn kind(shape: &Shape) -> String {
    match shape {
        Shape::Any => "any".to_owned(),
        Shape::Bool => "bool".to_owned(),
        Shape::Text { least: 0, .. } => "text".to_owned(),
        Shape::Text { .. } => "text, not empty".to_owned(),
        Shape::Integer { least, most: i64::MAX } => format!("whole number from {least}"),
        Shape::Integer { least, most } => format!("whole number, {least} to {most}"),
        Shape::Constant(text) => format!("`{text}`"),
        Shape::Number(number) => format!("`{number}`"),
        Shape::Numeric => "number".to_owned(),
        Shape::Null => "`null`".to_owned(),
        Shape::Formed(form) => format!("text like `{}`", form.pattern),
        Shape::Words(words) => {
            words.iter().map(|word| format!("`{word}`")).collect::<Vec<_>>().join(", ")
        }
        Shape::List(item) => format!("list of {}", kind(item)),
        Shape::Items(item) => format!("list of {}, not empty", kind(item)),
        Shape::Object(fields) | Shape::Open(fields) => format!("{{{}}}", names(fields)),
        Shape::Map(item) => format!("map of {}", kind(item)),
        Shape::Nullable(inner) => format!("{} or `null`", kind(inner)),
        Shape::AnyOf(shapes) => shapes.iter().map(kind).collect::<Vec<_>>().join(" or "),
    }
}

fn names(fields: &[Field]) -> String {
    let name = |field: &Field| {
        let mark = if field.is_needed { "" } else { "?" };
        format!("{}{mark}", field.name)
    };
    fields.iter().map(name).collect::<Vec<_>>().join(", ")
}

fn section(page: &mut String, method: &str, shape: &Shape) {
    let _ = writeln!(page, "\n### `{method}`\n\nScope: {}.", scope(method));
    let (fields, is_open) = match shape {
        Shape::Object(fields) => (fields, false),
        Shape::Open(fields) => (fields, true),
        _ => return,
    };
    if is_open {
        let _ = writeln!(page, "Other keys are taken and mean nothing.");
    }
    if fields.is_empty() {
        let _ = writeln!(page, "No parameters.");
        return;
    }
    let _ = writeln!(page, "\n| Parameter | Needed | What |\n|---|---|---|");
    for field in *fields {
        let needed = if field.is_needed { "yes" } else { "no" };
        let _ = writeln!(page, "| `{}` | {needed} | {} |", field.name, kind(&field.shape));
    }
}

fn page() -> String {
    let mut page = String::from(
        "# Methods of the gateway\n\nMade from the tables that check requests \
         (`CLAWPEN_BLESS=1 cargo xtask test gateway page` writes it anew). A key that is not listed refuses the \
         request. `operator.admin` opens every method.\n\n## Methods\n",
    );
    for (method, shape) in params::METHODS {
        section(&mut page, method, shape);
    }
    page.push_str(
        "\n## Answered, not listed\n\nThere is nothing to tell, and clients ask all the same.\n",
    );
    for (method, shape) in params::EMPTY {
        section(&mut page, method, shape);
    }
    page.push_str("\n## Events\n\n");
    for event in params::EVENTS {
        let _ = writeln!(page, "- `{event}`");
    }
    page
}

#[test]
fn the_page_of_methods_says_what_is_checked() {
    let path =
        PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../docs/reference/gateway-methods.md");
    let now = page();
    if std::env::var_os("CLAWPEN_BLESS").is_some() {
        std::fs::write(&path, &now).unwrap();
    }
    let known = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(known == now, "not current: run `CLAWPEN_BLESS=1 cargo xtask test gateway page`");
}
