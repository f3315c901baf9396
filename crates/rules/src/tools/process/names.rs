//! Two words for a command in the background, easier to repeat than a number.

const FIRST: [&str; 32] = [
    "amber", "bold", "brisk", "calm", "clear", "cool", "dawn", "deep", "early", "fair", "fast",
    "fresh", "gentle", "glad", "keen", "kind", "late", "lucky", "mellow", "mild", "neat", "nimble",
    "plain", "proud", "quick", "quiet", "rapid", "sharp", "still", "swift", "warm", "young",
];
const SECOND: [&str; 32] = [
    "basil", "bay", "breeze", "brook", "cedar", "cloud", "cove", "creek", "crest", "dune", "field",
    "fjord", "forest", "glade", "grove", "harbor", "haven", "lagoon", "lake", "meadow", "otter",
    "pine", "reef", "ridge", "river", "sage", "shell", "shore", "slate", "summit", "trail",
    "valley",
];

/// A name that `is_taken` does not know, chosen by a random number: two words, then with a number, then with a third
/// word.
pub fn pick(random: u64, is_taken: impl Fn(&str) -> bool) -> String {
    let word = |list: &'static [&'static str; 32], shift: u32| {
        let index = usize::try_from(random >> shift & 31).unwrap_or(0);
        list.get(index).copied().unwrap_or("plain")
    };
    let name = format!("{}-{}", word(&FIRST, 0), word(&SECOND, 5));
    if !is_taken(&name) {
        return name;
    }
    let mut numbered = (2..=12).map(|number| format!("{name}-{number}"));
    if let Some(free) = numbered.find(|name| !is_taken(name)) {
        return free;
    }
    let name = format!("{name}-{}", word(&SECOND, 10));
    let mut number = random >> 15;
    loop {
        let candidate = format!("{name}-{number}");
        if !is_taken(&candidate) {
            return candidate;
        }
        number = number.wrapping_add(1);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn names_are_two_words_until_they_run_out() {
        assert_eq!(pick(0x19 | 0x0f << 5, |_| false), "quiet-harbor");
        assert_eq!(pick(0x19 | 0x0f << 5, |name| name == "quiet-harbor"), "quiet-harbor-2");
        let mut taken = BTreeSet::new();
        for _ in 0..40 {
            let name = pick(7, |name| taken.contains(name));
            assert!(taken.insert(name));
        }
    }
}
