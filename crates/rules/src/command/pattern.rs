//! Matches a program's path against the pattern of an allowlist entry.
//!
//! `*` stands for any characters but `/`, `**` for any, `?` for one that is not `/`; every other
//! character for itself, case counts, and the whole path must fit. A leading `~` is the home. A
//! pattern without `/`, `\` or `~` names no path and matches nothing, except the lone `*`, which
//! matches every program that was found. Matching takes time in proportion to path and pattern.

/// A compiled pattern.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pattern {
    written: String,
    kind: Kind,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Kind {
    /// The lone `*`.
    Everything,
    /// Names no path.
    Nothing,
    Literal(String),
    Glob {
        head: String,
        rest: Vec<Token>,
    },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Token {
    Literal(char),
    One,
    Some,
    Any,
}

impl Pattern {
    /// Compiles a pattern as it stands in an entry; blanks around it do not count.
    pub fn compile(text: &str, home: Option<&str>) -> Self {
        let trimmed = text.trim();
        let kind = match trimmed {
            "*" => Kind::Everything,
            _ if !trimmed.contains(['/', '\\', '~']) => Kind::Nothing,
            _ => Kind::glob(&expand_home(trimmed, home)),
        };
        Self { written: text.to_owned(), kind }
    }

    /// As it stands in the entry.
    pub fn as_str(&self) -> &str {
        &self.written
    }

    /// Says whether it is the lone `*`.
    pub fn is_everything(&self) -> bool {
        self.kind == Kind::Everything
    }

    /// Says whether a path fits.
    pub fn matches(&self, path: &str) -> bool {
        match &self.kind {
            Kind::Everything => true,
            Kind::Nothing => false,
            Kind::Literal(literal) => literal == path,
            Kind::Glob { head, rest } => {
                path.strip_prefix(head.as_str()).is_some_and(|path| glob_matches(rest, path))
            }
        }
    }

    /// Says whether a text fits a glob, whatever it names: the matcher alone.
    pub fn glob_fits(text: &str, home: Option<&str>, target: &str) -> bool {
        let trimmed = text.trim();
        let kind = if trimmed.is_empty() {
            Kind::Nothing
        } else {
            Kind::glob(&expand_home(trimmed, home))
        };
        Self { written: String::new(), kind }.matches(target)
    }
}

impl Kind {
    fn glob(text: &str) -> Self {
        let Some(start) = text.find(['*', '?']) else { return Self::Literal(text.to_owned()) };
        let (head, rest) = text.split_at(start);
        let mut tokens = Vec::new();
        let mut characters = rest.chars().peekable();
        while let Some(character) = characters.next() {
            tokens.push(match character {
                '*' if characters.next_if_eq(&'*').is_some() => Token::Any,
                '*' => Token::Some,
                '?' => Token::One,
                character => Token::Literal(character),
            });
        }
        Self::Glob { head: head.to_owned(), rest: tokens }
    }
}

fn expand_home(text: &str, home: Option<&str>) -> String {
    let rest =
        text.strip_prefix('~').filter(|rest| rest.is_empty() || rest.starts_with(['/', '\\']));
    match (rest, home) {
        (Some(rest), Some(home)) => format!("{home}{rest}"),
        (Some(_) | None, _) => text.to_owned(),
    }
}

/// Keeps the set of places in the pattern that the path read so far can have led to: no
/// backtracking, whatever stands in the pattern.
fn glob_matches(tokens: &[Token], path: &str) -> bool {
    let mut places = vec![false; tokens.len() + 1];
    if let Some(first) = places.first_mut() {
        *first = true;
    }
    skip_empty(tokens, &mut places);
    for character in path.chars() {
        let mut next = vec![false; places.len()];
        for (index, token) in tokens.iter().enumerate() {
            if !places.get(index).copied().unwrap_or(false) {
                continue;
            }
            let (stays, moves) = match token {
                Token::Literal(literal) => (false, *literal == character),
                Token::One => (false, character != '/'),
                Token::Some => (character != '/', false),
                Token::Any => (!is_line_end(character), false),
            };
            for (place, reached) in [(index, stays), (index + 1, moves)] {
                if let Some(place) = next.get_mut(place).filter(|_| reached) {
                    *place = true;
                }
            }
        }
        skip_empty(tokens, &mut next);
        places = next;
    }
    places.last().copied().unwrap_or(false)
}

/// A star may stand for nothing, so the place behind it is reached with it.
fn skip_empty(tokens: &[Token], places: &mut [bool]) {
    for (index, token) in tokens.iter().enumerate() {
        let is_here = places.get(index).copied().unwrap_or(false);
        if is_here
            && matches!(token, Token::Some | Token::Any)
            && let Some(next) = places.get_mut(index + 1)
        {
            *next = true;
        }
    }
}

const fn is_line_end(character: char) -> bool {
    matches!(character, '\n' | '\r' | '\u{2028}' | '\u{2029}')
}

#[cfg(test)]
mod tests;
