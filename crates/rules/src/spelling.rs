//! How far apart two words are, for messages that name what was probably meant.
//!
//! Takes two texts, gives a number of typing mistakes. How many are too many is the caller's affair,
//! and so is a limit on the length: the time is in proportion to the product of both.

/// How many insertions, deletions, replacements and swaps of neighbours turn one text into the
/// other: `sanbdox` is one slip from `sandbox`.
pub(crate) fn distance(from: &str, to: &str) -> usize {
    let to: Vec<char> = to.chars().collect();
    let mut before_last: Vec<usize> = Vec::new();
    let mut last: Vec<usize> = (0..=to.len()).collect();
    let mut previous = None;
    for (row, from_char) in from.chars().enumerate() {
        let mut current = vec![row + 1];
        for (column, to_char) in to.iter().enumerate() {
            let at =
                |cells: &[usize], column: usize| cells.get(column).copied().unwrap_or(usize::MAX);
            let replaced = at(&last, column) + usize::from(from_char != *to_char);
            let dropped = at(&last, column + 1) + 1;
            let added = at(&current, column) + 1;
            let mut best = replaced.min(dropped).min(added);
            let before = column.checked_sub(1);
            if let Some(before) = before
                && previous == Some(*to_char)
                && to.get(before) == Some(&from_char)
            {
                best = best.min(at(&before_last, before).saturating_add(1));
            }
            current.push(best);
        }
        before_last = std::mem::replace(&mut last, current);
        previous = Some(from_char);
    }
    last.last().copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mistakes_are_counted_once_each() {
        for (from, to, expected) in [
            ("", "", 0),
            ("", "abc", 3),
            ("abc", "", 3),
            ("sandbox", "sandbox", 0),
            ("sanbdox", "sandbox", 1),
            ("sandbx", "sandbox", 1),
            ("sandboox", "sandbox", 1),
            ("sandbix", "sandbox", 1),
            ("ab", "ba", 1),
            ("abcd", "badc", 2),
            ("exec", "read", 4),
            ("é", "e", 1),
        ] {
            assert_eq!(distance(from, to), expected, "{from} {to}");
            assert_eq!(distance(to, from), expected, "{to} {from}");
        }
    }
}
