//! A command's text as test code sees it: what stands outside quotes, and the words.

/// A text with its quotations blanked: escaped and quoted characters are `q`, the quotes stay. What
/// double quotes do not protect stays too, if asked for. Of a text with a here-document only the
/// first line: the rest is no syntax.
pub(super) fn bare(command: &str, double: Double) -> String {
    let mut shown = String::new();
    let mut quote = None;
    let mut characters = command.chars().peekable();
    while let Some(character) = characters.next() {
        match (quote, character) {
            (None | Some('"'), '\\') => {
                let is_seen = |c: &char| !c.is_control() && (!c.is_whitespace() || c.is_ascii());
                shown.push('q');
                let escaped = characters.next();
                shown.extend(escaped.map(|c| if is_seen(&c) { 'q' } else { c }));
            }
            (None, '\'' | '"') => {
                quote = Some(character);
                shown.push(character);
            }
            (Some(open), close) if open == close => {
                quote = None;
                shown.push(close);
            }
            (Some('"'), other) if double == Double::Shown => shown.push(other),
            (Some(_), _) => shown.push('q'),
            (None, other) => shown.push(other),
        }
    }
    match shown.find("<<").and_then(|start| shown[start..].find('\n').map(|end| start + end)) {
        Some(end) => shown[..end].to_owned(),
        None => shown,
    }
}

/// Whether what stands in double quotes is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Double {
    Shown,
    Hidden,
}

/// The words of a segment, empty ones among them.
pub(super) fn words(raw: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut quote = None;
    let mut characters = raw.chars().peekable();
    while let Some(character) = characters.next() {
        match (quote, character) {
            (None, ' ' | '\t') => words.extend(word.take()),
            (None, '\\') => word.get_or_insert_default().extend(characters.next()),
            (Some('"'), '\\') if characters.peek().is_some_and(|c| "\\\"$`".contains(*c)) => {
                word.get_or_insert_default().extend(characters.next());
            }
            (None, '\'' | '"') => {
                quote = Some(character);
                word.get_or_insert_default();
            }
            (Some(open), close) if open == close => quote = None,
            (_, other) => word.get_or_insert_default().push(other),
        }
    }
    words.extend(word);
    words
}

/// What stands before a comment in a text whose quotations are blanked.
pub(super) fn without_comment(bare: &str) -> &str {
    let mut before = ' ';
    for (index, character) in bare.char_indices() {
        if character == '#' && before.is_whitespace() {
            return &bare[..index];
        }
        before = character;
    }
    bare
}

/// How many segments each pipeline of a chain has.
pub(super) fn pipelines(command: &str) -> Vec<usize> {
    let shown = bare(command, Double::Hidden);
    let shown = without_comment(&shown).replace("||", ";").replace("&&", ";");
    shown.split(';').map(|part| part.split('|').count()).collect()
}

/// In single quotes.
pub(super) fn quote(word: &str) -> String {
    format!("'{}'", word.replace('\'', "'\"'\"'"))
}

/// The last component, lower case, without a Windows ending.
pub(super) fn name(word: &str) -> String {
    let name = word.rsplit('/').next().unwrap_or(word).to_lowercase();
    name.strip_suffix(".exe").map_or(name.clone(), str::to_owned)
}
