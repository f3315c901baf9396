//! Matches a name against a pattern in which `*` stands for any run of characters.
//!
//! No other character is special. The pattern is cut at its stars once; matching then finds each
//! piece as far left as possible, which is right for `*` and takes time linear in the name however
//! many stars a config writes. Pieces are prepared for the search when the list is compiled: the
//! standard library's search prepares them at every call, which costs more than it finds.

/// A text to be found in another, with the table of Knuth, Morris and Pratt: for each length of a
/// partial match, how much of it is still one after the next byte has failed.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Piece {
    text: Vec<u8>,
    fallback: Vec<usize>,
}

/// A compiled pattern with at least one `*`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Glob {
    /// What the name starts with.
    head: String,
    /// What it holds in between, in order; never empty pieces.
    middle: Vec<Piece>,
    /// What it ends with.
    tail: String,
}

impl Glob {
    /// Compiles a pattern; `None` if it has no `*` and is a plain name.
    pub(super) fn compile(pattern: &str) -> Option<Self> {
        let (head, rest) = pattern.split_once('*')?;
        let (middle, tail) = rest.rsplit_once('*').unwrap_or(("", rest));
        let pieces = middle.split('*').filter(|piece| !piece.is_empty());
        Some(Self {
            head: head.to_owned(),
            middle: pieces.map(Piece::compile).collect(),
            tail: tail.to_owned(),
        })
    }

    /// Says whether the whole name fits.
    pub(super) fn matches(&self, name: &str) -> bool {
        let (head, tail) = (self.head.as_bytes(), self.tail.as_bytes());
        // The tail goes first: what the pieces in between may use ends where it begins.
        let rest = name.as_bytes().get(head.len()..);
        let rest = rest.and_then(|rest| rest.get(..rest.len().checked_sub(tail.len())?));
        let Some(rest) = rest else { return false };
        // An empty end is the usual case, and comparing nothing is far from free: the vectorised
        // `memcmp` of the C library takes 100 ns for it where the pointer is a dangling one.
        let fits = (head.is_empty() || name.as_bytes().starts_with(head))
            && (tail.is_empty() || name.as_bytes().ends_with(tail));
        let mut bytes = rest.iter().copied();
        fits && self.middle.iter().all(|piece| piece.find(&mut bytes))
    }
}

impl Piece {
    fn compile(text: &str) -> Self {
        let text = text.as_bytes().to_vec();
        let mut piece = Self { fallback: vec![0; text.len()], text };
        let mut matched = 0;
        for position in 1..piece.text.len() {
            matched = piece.advance(matched, piece.text[position]);
            piece.fallback[position] = matched;
        }
        piece
    }

    /// Reads up to the end of the first occurrence; says whether there is one.
    fn find(&self, bytes: &mut impl Iterator<Item = u8>) -> bool {
        let mut matched = 0;
        bytes.any(|byte| {
            matched = self.advance(matched, byte);
            matched == self.text.len()
        })
    }

    /// How much is matched after one more byte, if `matched` bytes were before it.
    fn advance(&self, mut matched: usize, byte: u8) -> usize {
        while matched > 0 && self.text.get(matched) != Some(&byte) {
            matched = self.fallback[matched - 1];
        }
        matched + usize::from(self.text.get(matched) == Some(&byte))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn only_the_star_is_special_and_the_ends_are_anchored() {
        check("*", "", true);
        check("**", "exec", true);
        check("ex*c", "exec", true);
        check("ex*c", "exc", true);
        check("ex*c", "exec2", false);
        check("*e*", "canvas", false);
        check("a*a", "a", false);
        check("sessions_*", "session_status", false);
        check("e?*", "exec", false);
        check("*ab*ab", "xab", false);
        check("*aab*", "aaab", true);
    }

    #[test]
    fn many_stars_on_a_long_name_cost_no_backtracking() {
        let pattern = "a*".repeat(2_000) + "b";
        check(&pattern, &"a".repeat(20_000), false);
    }

    proptest! {
        #[test]
        fn equals_the_obvious_recursive_matcher(pattern in "[aé*]{0,4}[*][aé*]{0,5}", name in "[aé]{0,12}") {
            let glob = Glob::compile(&pattern).expect("it has a star");
            prop_assert_eq!(glob.matches(&name), naive(pattern.as_bytes(), name.as_bytes()));
        }
    }

    fn naive(pattern: &[u8], name: &[u8]) -> bool {
        match (pattern.split_first(), name.split_first()) {
            (None, None) => true,
            (Some((b'*', rest)), _) => (0..=name.len()).any(|skip| naive(rest, &name[skip..])),
            (Some((wanted, pattern)), Some((found, name))) => {
                wanted == found && naive(pattern, name)
            }
            (None, Some(_)) | (Some(_), None) => false,
        }
    }

    #[track_caller]
    fn check(pattern: &str, name: &str, expected: bool) {
        let glob = Glob::compile(pattern).expect("a pattern with a star");
        assert_eq!(glob.matches(name), expected, "`{pattern}` on `{name}`");
    }
}
