//! A page as text: headings, paragraphs, lists, links and code, without what only a browser needs.
//!
//! One pass over the bytes and no tree: a page that nests a million elements costs what its length costs. It is not a
//! browser's reading of the page, only one that never fails. Where the page says which part is its own (`main`, or its
//! only `article`), that part is taken. Images are named by their text and never by address: whoever renders the
//! answer would fetch them.

mod entities;
mod scan;
mod write;

use scan::{Piece, Scanner, Tag, TagKind};
use write::Writer;

use super::target::Target;

/// What the text is to look like.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Mode {
    Markdown,
    Text,
}

impl Mode {
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Markdown => "markdown",
            Self::Text => "text",
        }
    }

    pub fn parse(word: &str) -> Option<Self> {
        [Self::Markdown, Self::Text].into_iter().find(|mode| mode.as_str() == word)
    }
}

/// A page, read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Page {
    pub title: Option<String>,
    pub text: String,
}

/// A part shorter than this is not what the page is about.
const LEAST: usize = 200;
/// Links shown with their addresses; of the rest only the text.
const LINKS: usize = 1_000;
/// The longest address of a link.
const LONGEST_LINK: usize = 500;

/// Parts around what a page is about.
const AROUND: &[&str] = &[
    "nav", "footer", "aside", "dialog", "menu", "button", "select", "noscript", "template", "svg",
    "math", "canvas", "object",
];

/// Reads a page that was found at `base`.
pub fn render(html: &str, base: &Target, mode: Mode) -> Page {
    let page = Reader::new(base, (mode, Around::Left)).read(html);
    // A part around that never ends hides the rest of the page.
    if page.text.chars().count() < LEAST {
        let whole = Reader::new(base, (mode, Around::Kept)).read(html);
        if whole.text.len() > page.text.len() {
            return whole;
        }
    }
    page
}

/// What becomes of the parts around.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Around {
    Left,
    Kept,
}

struct Reader<'a> {
    base: &'a Target,
    around: Around,
    out: Writer,
    title: Option<String>,
    /// The element that is being left out, and how deep in it we are.
    left: Option<(&'static str, usize)>,
    main: Part,
    article: Part,
    /// Where the link leads that we are in.
    link: Option<String>,
    links: usize,
}

/// Where in the text a part of the page stands.
#[derive(Default)]
struct Part {
    start: Option<usize>,
    depth: usize,
    seen: usize,
    longest: Option<(usize, usize)>,
}

impl Part {
    fn open(&mut self, at: usize) {
        if self.depth == 0 {
            self.start = Some(at);
            self.seen += 1;
        }
        self.depth += 1;
    }

    fn close(&mut self, at: usize) {
        self.depth = self.depth.saturating_sub(1);
        if self.depth > 0 {
            return;
        }
        let Some(start) = self.start.take() else { return };
        let longest = self.longest.map_or(0, |(from, to)| to.saturating_sub(from));
        if at.saturating_sub(start) > longest {
            self.longest = Some((start, at));
        }
    }
}

impl<'a> Reader<'a> {
    fn new(base: &'a Target, (mode, around): (Mode, Around)) -> Self {
        Self {
            base,
            around,
            out: Writer::new(mode),
            title: None,
            left: None,
            main: Part::default(),
            article: Part::default(),
            link: None,
            links: 0,
        }
    }

    fn read(mut self, html: &str) -> Page {
        // Marks and addresses are longer than what they are made from; a page made of nothing else must end too.
        let most = html.len().saturating_mul(4).saturating_add(65_536);
        for piece in Scanner::new(html) {
            match piece {
                Piece::Text(text) if self.left.is_none() => self.out.text(&text),
                Piece::Text(_) => {}
                Piece::Title(text) => self.title = self.title.take().or(Some(text)),
                Piece::Tag(tag) => self.tag(&tag),
            }
            if self.out.len() > most {
                break;
            }
        }
        let end = self.out.len();
        self.main.close(end);
        self.article.close(end);
        let whole = self.out.finish();
        let only_article = self.article.longest.filter(|_| self.article.seen == 1);
        let part = self.main.longest.or(only_article);
        let part = part.and_then(|(from, to)| whole.get(from..to)).map(str::trim);
        let text = match part.filter(|part| part.chars().count() >= LEAST) {
            Some(part) => part.to_owned(),
            None => whole.trim().to_owned(),
        };
        Page { title: self.title, text }
    }

    fn tag(&mut self, tag: &Tag<'_>) {
        if let Some((name, depth)) = self.left {
            if tag.name == name {
                let depth = match tag.kind {
                    TagKind::Open => depth + 1,
                    TagKind::Close => depth - 1,
                    TagKind::Empty => depth,
                };
                self.left = (depth > 0).then_some((name, depth));
            }
            return;
        }
        if self.around == Around::Left
            && tag.kind == TagKind::Open
            && let Some(name) = AROUND.iter().find(|name| **name == tag.name)
        {
            self.left = Some((name, 1));
            return;
        }
        match (tag.name.as_str(), tag.kind) {
            ("main" | "article", TagKind::Open) => {
                let at = self.out.len();
                self.part(&tag.name).open(at);
                self.out.open(&tag.name);
            }
            ("main" | "article", TagKind::Close) => {
                let at = self.out.len();
                self.part(&tag.name).close(at);
                self.out.close(&tag.name);
            }
            ("a", TagKind::Open | TagKind::Empty) => {
                self.end_link();
                self.link = tag.attribute("href");
                if self.link.is_some() {
                    self.out.open_link();
                }
            }
            ("a", TagKind::Close) => self.end_link(),
            ("img", TagKind::Open | TagKind::Empty) => {
                let alt = tag.attribute("alt").filter(|alt| !alt.trim().is_empty());
                if let Some(alt) = alt {
                    self.out.text(&format!("[image: {}]", alt.trim()));
                }
            }
            (name, TagKind::Open | TagKind::Empty) => self.out.open(name),
            (name, TagKind::Close) => self.out.close(name),
        }
    }

    fn part(&mut self, name: &str) -> &mut Part {
        if name == "main" { &mut self.main } else { &mut self.article }
    }

    fn end_link(&mut self) {
        let Some(href) = self.link.take() else { return };
        if self.links >= LINKS || href.len() > LONGEST_LINK {
            return;
        }
        let Some(to) = self.base.link(&href).filter(|to| to.len() <= LONGEST_LINK) else { return };
        self.links += usize::from(self.out.close_link(&to));
    }
}

#[cfg(test)]
mod tests;
