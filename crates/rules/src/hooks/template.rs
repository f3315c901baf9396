//! Templates: `{{messages[0].from}}` stands for what a call says there.
//!
//! A template is read once, when the config is; a call only fills it in. What is filled in is text and is not read
//! again, so a payload that holds braces adds nothing, and what comes out has a size that is known before.

/// Bytes of a template, and places in it.
const MOST_BYTES: usize = 64 * 1024;
const MOST_PLACES: usize = 200;
/// Steps of one place.
const MOST_STEPS: usize = 32;
/// Bytes that a template comes to.
pub const MOST_RENDERED: usize = 256 * 1024;

/// A template, read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Template {
    parts: Vec<Part>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Part {
    Text(String),
    Place(Place),
}

/// Where a value is found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    pub root: Root,
    pub steps: Vec<Step>,
}

/// What a place is in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Root {
    Payload,
    Headers,
    Query,
    /// The name after `hooks.path`; it has no parts.
    Path,
    /// The time; it has no parts.
    Now,
}

/// One step into a value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    Key(String),
    Index(usize),
}

/// It does not fit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the template, or what it comes to, is larger than {MOST_RENDERED} bytes")]
pub struct TooLong;

impl Template {
    /// Reads a template. Braces that open no place stand for themselves.
    pub fn parse(text: &str) -> Result<Self, TooLong> {
        if text.len() > MOST_BYTES {
            return Err(TooLong);
        }
        let mut parts = Vec::new();
        let mut literal = String::new();
        let mut places = 0;
        let mut rest = text;
        while let Some(at) = rest.find("{{") {
            let (before, from) = rest.split_at(at);
            literal.push_str(before);
            let inside = from.get(2..).unwrap_or_default();
            let Some((place, after)) = closed(inside) else {
                literal.push('{');
                rest = from.get(1..).unwrap_or_default();
                continue;
            };
            places += 1;
            if places > MOST_PLACES {
                return Err(TooLong);
            }
            parts.push(Part::Text(std::mem::take(&mut literal)));
            parts.push(Part::Place(read(place).ok_or(TooLong)?));
            rest = after;
        }
        literal.push_str(rest);
        parts.push(Part::Text(literal));
        parts.retain(|part| *part != Part::Text(String::new()));
        Ok(Self { parts })
    }

    /// Whether it says the same whatever is called.
    pub fn is_fixed(&self) -> bool {
        self.parts.iter().all(|part| matches!(part, Part::Text(_)))
    }

    /// Fills it in. What `look` does not find is blank.
    pub fn render(&self, look: impl Fn(&Place) -> Option<String>) -> Result<String, TooLong> {
        let mut text = String::new();
        for part in &self.parts {
            match part {
                Part::Text(literal) => text.push_str(literal),
                Part::Place(place) => text.push_str(&look(place).unwrap_or_default()),
            }
            if text.len() > MOST_RENDERED {
                return Err(TooLong);
            }
        }
        Ok(text)
    }
}

/// What stands before two closing braces, and what comes after them.
fn closed(inside: &str) -> Option<(&str, &str)> {
    let (place, after) = inside.split_once('}')?;
    let after = after.strip_prefix('}')?;
    (!place.is_empty()).then_some((place, after))
}

/// Reads a place; `None` if it has too many steps.
fn read(text: &str) -> Option<Place> {
    let text = text.trim();
    let (root, rest) = match text {
        "path" => (Root::Path, ""),
        "now" => (Root::Now, ""),
        _ => {
            let roots =
                [("headers.", Root::Headers), ("query.", Root::Query), ("payload.", Root::Payload)];
            let found =
                roots.iter().find_map(|(word, root)| Some((*root, text.strip_prefix(word)?)));
            found.unwrap_or((Root::Payload, text))
        }
    };
    let mut steps = Vec::new();
    for part in rest.split(['.', '[']).filter(|part| !part.is_empty()) {
        let index = part.strip_suffix(']').filter(|part| part.bytes().all(|b| b.is_ascii_digit()));
        let step = match index.and_then(|part| part.parse().ok()) {
            Some(index) => Step::Index(index),
            None => Step::Key(part.trim_end_matches(']').to_owned()),
        };
        if step != Step::Key(String::new()) {
            steps.push(step);
        }
        if steps.len() > MOST_STEPS {
            return None;
        }
    }
    Some(Place { root, steps })
}
