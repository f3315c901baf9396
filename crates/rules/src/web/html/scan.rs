//! Takes a page apart into texts and tags.

use super::entities;

/// Elements whose contents are no text and are not read for tags.
const OPAQUE: &[&str] = &["script", "style", "iframe", "noembed", "noframes", "xmp", "plaintext"];
/// The longest tag name that means something.
const LONGEST_NAME: usize = 12;
/// Bytes of a tag; a longer one is passed over.
const LONGEST_TAG: usize = 64 * 1024;

/// A part of a page.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Piece<'a> {
    /// With its entities put in.
    Text(String),
    Title(String),
    Tag(Tag<'a>),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Tag<'a> {
    /// In lower case; empty if it is none that means something.
    pub(super) name: String,
    pub(super) kind: TagKind,
    attributes: &'a str,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TagKind {
    Open,
    Close,
    /// `<x/>`
    Empty,
}

#[derive(Debug)]
pub(super) struct Scanner<'a> {
    rest: &'a str,
}

impl<'a> Scanner<'a> {
    pub(super) const fn new(html: &'a str) -> Self {
        Self { rest: html }
    }

    /// Moves past `length` bytes, which must end between characters.
    fn skip(&mut self, length: usize) -> &'a str {
        let (passed, rest) = self.rest.split_at_checked(length).unwrap_or((self.rest, ""));
        self.rest = rest;
        passed
    }

    /// Moves past the next `end`; past everything if there is none.
    fn skip_past(&mut self, end: &str) {
        let length = self.rest.find(end).map_or(self.rest.len(), |at| at + end.len());
        self.skip(length);
    }

    /// Everything up to the closing tag of `name`, which is passed too.
    fn raw(&mut self, name: &str) -> &'a str {
        let mut from = 0;
        loop {
            let Some(at) = self.rest.get(from..).and_then(|rest| rest.find("</")) else {
                return self.skip(self.rest.len());
            };
            let at = from + at;
            let after = self.rest.get(at + 2..).unwrap_or_default();
            let is_end =
                after.get(..name.len()).is_some_and(|found| found.eq_ignore_ascii_case(name));
            if is_end {
                let raw = self.skip(at);
                self.skip_past(">");
                return raw;
            }
            from = at + 2;
        }
    }

    /// What stands after a `<`.
    fn markup(&mut self) -> Option<Piece<'a>> {
        let after = self.rest.get(1..).unwrap_or_default();
        if after.starts_with("!--") {
            self.skip(4);
            self.skip_past("-->");
            return None;
        }
        let is_close = after.starts_with('/');
        let name_at = if is_close { 2 } else { 1 };
        let first = self.rest.as_bytes().get(name_at).copied().unwrap_or_default();
        if !first.is_ascii_alphabetic() {
            if matches!(first, b'!' | b'?') || is_close {
                self.skip_past(">");
                return None;
            }
            self.skip(1);
            return Some(Piece::Text("<".to_owned()));
        }
        let inside = self.tag_text(name_at);
        let end = inside
            .find(|one: char| one.is_ascii_whitespace() || one == '/')
            .unwrap_or(inside.len());
        let (name, attributes) = inside.split_at(end);
        let name =
            if name.len() <= LONGEST_NAME { name.to_ascii_lowercase() } else { String::new() };
        let kind = match (is_close, attributes.ends_with('/')) {
            (true, _) => TagKind::Close,
            (false, true) => TagKind::Empty,
            (false, false) => TagKind::Open,
        };
        if kind == TagKind::Open && OPAQUE.contains(&name.as_str()) {
            self.raw(&name);
            return None;
        }
        if kind == TagKind::Open && name == "title" {
            return Some(Piece::Title(entities::decode(self.raw("title"))));
        }
        if kind == TagKind::Open && name == "textarea" {
            return Some(Piece::Text(entities::decode(self.raw("textarea"))));
        }
        Some(Piece::Tag(Tag { name, kind, attributes }))
    }

    /// The inside of a tag: up to the `>` that stands in no quotes.
    fn tag_text(&mut self, name_at: usize) -> &'a str {
        let mut quote = None;
        let bytes = self.rest.as_bytes();
        let mut end = None;
        for (index, byte) in bytes.iter().copied().enumerate().skip(name_at).take(LONGEST_TAG) {
            match (quote, byte) {
                (None, b'>') => {
                    end = Some(index);
                    break;
                }
                (None, b'"' | b'\'') => {
                    // A quote begins a value only after `=`; elsewhere it is a slip of the pen.
                    let before = bytes.get(name_at..index).unwrap_or_default();
                    let is_value =
                        before.iter().rev().find(|one| !one.is_ascii_whitespace()) == Some(&b'=');
                    quote = is_value.then_some(byte);
                }
                (Some(open), byte) if byte == open => quote = None,
                _ => {}
            }
        }
        // Without an end in reach: the first `>` there is, or all that is left.
        let end = end.or_else(|| self.rest.find('>')).unwrap_or(self.rest.len());
        let inside = self.skip(end);
        self.skip(1);
        inside.get(name_at..).unwrap_or_default()
    }
}

impl<'a> Iterator for Scanner<'a> {
    type Item = Piece<'a>;

    fn next(&mut self) -> Option<Piece<'a>> {
        while !self.rest.is_empty() {
            if self.rest.starts_with('<') {
                match self.markup() {
                    Some(piece) => return Some(piece),
                    None => continue,
                }
            }
            let end = self.rest.find('<').unwrap_or(self.rest.len());
            return Some(Piece::Text(entities::decode(self.skip(end))));
        }
        None
    }
}

impl Tag<'_> {
    /// The value of an attribute, with its entities put in.
    pub(super) fn attribute(&self, name: &str) -> Option<String> {
        let mut rest = self.attributes;
        loop {
            rest = rest.trim_start_matches(|one: char| one.is_ascii_whitespace() || one == '/');
            if rest.is_empty() {
                return None;
            }
            let end = rest.find(|one: char| one == '=' || one == '/' || one.is_ascii_whitespace());
            let (found, after) = rest.split_at(end.unwrap_or(rest.len()));
            let after = after.trim_start();
            let Some(after) = after.strip_prefix('=') else {
                // A name without a value; a stray `=` in front of one is passed over.
                rest = if found.is_empty() { after.get(1..).unwrap_or_default() } else { after };
                continue;
            };
            let after = after.trim_start();
            let quote = after.chars().next().filter(|one| matches!(one, '"' | '\''));
            let (value, next) = match quote {
                Some(quote) => {
                    let inner = after.get(1..).unwrap_or_default();
                    inner.split_once(quote).unwrap_or((inner, ""))
                }
                None => after.split_at(
                    after.find(|one: char| one.is_ascii_whitespace()).unwrap_or(after.len()),
                ),
            };
            if found.eq_ignore_ascii_case(name) {
                return Some(entities::decode(value));
            }
            rest = next;
        }
    }
}
