//! Matches a name against a pattern in which `*` stands for any run of characters.
//!
//! No other character is special. The pattern is cut at its stars once; matching then finds each
//! piece as far left as possible, which is right for `*` and takes time linear in the name however
//! many stars a config writes.

/// A compiled pattern with at least one `*`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Glob {
    /// What the name starts with.
    head: String,
    /// What it holds in between, in order; never empty pieces.
    middle: Vec<String>,
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
            middle: pieces.map(str::to_owned).collect(),
            tail: tail.to_owned(),
        })
    }

    /// Says whether the whole name fits.
    pub(super) fn matches(&self, name: &str) -> bool {
        let Some(rest) = name.strip_prefix(self.head.as_str()) else { return false };
        // The tail goes first: what the pieces in between may use ends where it begins.
        let Some(mut rest) = rest.strip_suffix(self.tail.as_str()) else { return false };
        for piece in &self.middle {
            let Some((_, after)) = rest.split_once(piece.as_str()) else { return false };
            rest = after;
        }
        true
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
    }

    #[test]
    fn many_stars_on_a_long_name_cost_no_backtracking() {
        let pattern = "a*".repeat(2_000) + "b";
        check(&pattern, &"a".repeat(20_000), false);
    }

    proptest! {
        #[test]
        fn equals_the_obvious_recursive_matcher(pattern in "[ab*]{0,7}", name in "[ab]{0,9}") {
            prop_assume!(pattern.contains('*'));
            let glob = Glob::compile(&pattern).expect("it has a star");
            prop_assert_eq!(glob.matches(&name), naive(pattern.as_bytes(), name.as_bytes()));
        }
    }

    fn naive(pattern: &[u8], name: &[u8]) -> bool {
        match (pattern.split_first(), name.split_first()) {
            (None, None) => true,
            (None, Some(_)) => false,
            (Some((b'*', rest)), _) => (0..=name.len()).any(|skip| naive(rest, &name[skip..])),
            (Some((wanted, pattern)), Some((found, name))) => {
                wanted == found && naive(pattern, name)
            }
            (Some(_), None) => false,
        }
    }

    #[track_caller]
    fn check(pattern: &str, name: &str, expected: bool) {
        let glob = Glob::compile(pattern).expect("a pattern with a star");
        assert_eq!(glob.matches(name), expected, "`{pattern}` on `{name}`");
    }
}
