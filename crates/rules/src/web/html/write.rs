//! Text in lines: blanks run together, blocks apart, marks of Markdown where they are wanted.

use super::Mode;

/// Lists and quotes nested deeper look the same.
const DEEPEST: usize = 6;
/// Bytes of marks that wait for a word.
const MOST_MARKS: usize = 32;

/// How far apart two blocks are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Gap {
    None,
    Line,
    Paragraph,
}

#[derive(Debug)]
pub(super) struct Writer {
    mode: Mode,
    out: String,
    /// What must stand between what there is and what comes.
    gap: Gap,
    space: bool,
    /// Deep in `pre`, where blanks are kept.
    preformatted: usize,
    lists: Vec<List>,
    quotes: usize,
    /// What the next line begins with.
    prefix: String,
    /// Marks that stand before the next word.
    marks: String,
    link: Link,
    /// Cells of the row so far.
    cells: usize,
}

#[derive(Debug, Clone, Copy)]
enum List {
    Plain,
    Numbered(u32),
}

impl Writer {
    pub(super) const fn new(mode: Mode) -> Self {
        Self {
            mode,
            out: String::new(),
            gap: Gap::None,
            space: false,
            preformatted: 0,
            lists: Vec::new(),
            quotes: 0,
            prefix: String::new(),
            marks: String::new(),
            link: Link::None,
            cells: 0,
        }
    }

    pub(super) fn len(&self) -> usize {
        self.out.len()
    }

    pub(super) fn finish(self) -> String {
        self.out
    }

    pub(super) fn text(&mut self, text: &str) {
        if self.preformatted > 0 {
            if !text.is_empty() {
                self.begin();
                self.out.push_str(text);
            }
            return;
        }
        for (index, word) in text.split(|one: char| one.is_whitespace()).enumerate() {
            self.space |= index > 0;
            if !word.is_empty() {
                self.begin();
                self.out.push_str(word);
            }
        }
    }

    /// Puts what must stand before a text.
    fn begin(&mut self) {
        if !self.out.is_empty() {
            match self.gap {
                Gap::None if self.space && !self.out.ends_with(['\n', ' ']) => self.out.push(' '),
                Gap::None => {}
                Gap::Line => self.out.push('\n'),
                Gap::Paragraph => self.out.push_str("\n\n"),
            }
        }
        if self.gap != Gap::None || self.out.is_empty() {
            if self.mode == Mode::Markdown {
                self.out.push_str(&"> ".repeat(self.quotes.min(DEEPEST)));
            }
            self.out.push_str(&std::mem::take(&mut self.prefix));
        }
        let marks = std::mem::take(&mut self.marks);
        if let Link::Waits { marks: before } = self.link {
            let (outer, inner) = marks.split_at_checked(before).unwrap_or((&marks, ""));
            self.out.push_str(outer);
            self.link = Link::From(self.out.len());
            self.out.push_str(inner);
        } else {
            self.out.push_str(&marks);
        }
        self.gap = Gap::None;
        self.space = false;
    }

    fn apart(&mut self, gap: Gap) {
        self.gap = self.gap.max(gap);
        self.space = false;
    }

    /// A mark of Markdown around words.
    fn mark(&mut self, mark: &str, side: TagSide) {
        if self.mode == Mode::Text || self.preformatted > 0 {
            return;
        }
        match side {
            TagSide::Open => {
                if self.marks.len() < MOST_MARKS {
                    self.marks.push_str(mark);
                }
            }
            // There was no word between the two.
            TagSide::Close if self.marks.ends_with(mark) => {
                self.marks.truncate(self.marks.len() - mark.len());
            }
            TagSide::Close => self.out.push_str(mark),
        }
    }

    pub(super) fn open(&mut self, name: &str) {
        match name {
            "h1" | "h2" | "h3" | "h4" | "h5" | "h6" => {
                self.apart(Gap::Paragraph);
                let level = name
                    .as_bytes()
                    .get(1)
                    .map_or(1, |digit| usize::from(digit.saturating_sub(b'0')));
                if self.mode == Mode::Markdown {
                    self.prefix = format!("{} ", "#".repeat(level));
                }
            }
            "p" | "table" | "dl" | "figure" | "blockquote" | "article" | "section" | "main"
            | "header" | "form" | "details" => {
                self.apart(Gap::Paragraph);
                self.quotes += usize::from(name == "blockquote");
            }
            "div" | "dt" | "dd" | "summary" | "figcaption" | "address" | "fieldset" | "option"
            | "br" => self.apart(Gap::Line),
            "hr" => {
                self.apart(Gap::Paragraph);
                self.text("---");
                self.apart(Gap::Paragraph);
            }
            "ul" | "ol" => {
                self.apart(if self.lists.is_empty() { Gap::Paragraph } else { Gap::Line });
                let list = if name == "ol" { List::Numbered(0) } else { List::Plain };
                if self.lists.len() < 64 {
                    self.lists.push(list);
                }
            }
            "li" => self.item(),
            "pre" => {
                self.apart(Gap::Paragraph);
                if self.preformatted == 0 && self.mode == Mode::Markdown {
                    self.begin();
                    self.out.push_str("```\n");
                }
                self.preformatted += 1;
            }
            "tr" => {
                self.apart(Gap::Line);
                self.cells = 0;
            }
            "td" | "th" => {
                if self.cells > 0 {
                    self.space = false;
                    self.begin();
                    self.out.push_str(" | ");
                }
                self.cells += 1;
            }
            "strong" | "b" => self.mark("**", TagSide::Open),
            "em" | "i" => self.mark("*", TagSide::Open),
            "code" | "kbd" | "samp" | "tt" => self.mark("`", TagSide::Open),
            _ => {}
        }
    }

    pub(super) fn close(&mut self, name: &str) {
        match name {
            "h1" | "h2" | "h3" | "h4" | "h5" | "h6" => {
                self.prefix.clear();
                self.apart(Gap::Paragraph);
            }
            "p" | "table" | "dl" | "figure" | "article" | "section" | "main" | "header"
            | "form" | "details" => self.apart(Gap::Paragraph),
            "blockquote" => {
                self.quotes = self.quotes.saturating_sub(1);
                self.apart(Gap::Paragraph);
            }
            "div" | "dt" | "dd" | "summary" | "figcaption" | "address" | "fieldset" | "option"
            | "li" | "tr" => self.apart(Gap::Line),
            "ul" | "ol" => {
                self.lists.pop();
                self.apart(if self.lists.is_empty() { Gap::Paragraph } else { Gap::Line });
            }
            "pre" => {
                let was = self.preformatted;
                self.preformatted = was.saturating_sub(1);
                if was == 1 && self.mode == Mode::Markdown {
                    if !self.out.ends_with('\n') {
                        self.out.push('\n');
                    }
                    self.out.push_str("```");
                }
                self.apart(Gap::Paragraph);
            }
            "strong" | "b" => self.mark("**", TagSide::Close),
            "em" | "i" => self.mark("*", TagSide::Close),
            "code" | "kbd" | "samp" | "tt" => self.mark("`", TagSide::Close),
            _ => {}
        }
    }

    fn item(&mut self) {
        self.apart(Gap::Line);
        let indent = "  ".repeat(self.lists.len().saturating_sub(1).min(DEEPEST));
        let mark = match self.lists.last_mut() {
            Some(List::Numbered(number)) => {
                *number = number.saturating_add(1);
                format!("{number}. ")
            }
            Some(List::Plain) | None => "- ".to_owned(),
        };
        self.prefix = format!("{indent}{mark}");
    }

    /// A link begins with the next word.
    pub(super) fn open_link(&mut self) {
        self.link = Link::Waits { marks: self.marks.len() };
    }

    /// Makes what was written since a link, if it is words on one line. Gives whether it did.
    pub(super) fn close_link(&mut self, to: &str) -> bool {
        let Link::From(from) = std::mem::replace(&mut self.link, Link::None) else { return false };
        if self.mode == Mode::Text {
            return false;
        }
        let Some(words) = self.out.get(from..) else { return false };
        if words.contains('\n') || words.contains("](") || to.contains([')', '(', ' ']) {
            return false;
        }
        self.out.insert(from, '[');
        self.out.push_str("](");
        self.out.push_str(to);
        self.out.push(')');
        true
    }
}

/// Where a link is.
#[derive(Debug, Clone, Copy)]
enum Link {
    None,
    /// It has no word yet; so many bytes of the marks that wait were before it.
    Waits {
        marks: usize,
    },
    From(usize),
}

/// Which of two tags.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum TagSide {
    Open,
    Close,
}
