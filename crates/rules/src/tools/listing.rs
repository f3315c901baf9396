//! A directory as the model sees it: names in order, directories marked, within limits.

use super::size;

/// Entries shown if a call does not say.
pub const ENTRIES: usize = 500;
/// Entries of a directory that are looked at, so that they can be sorted.
pub const MOST: usize = 100_000;
/// Bytes of the whole answer.
pub const BYTES: usize = 50 * 1024;

/// One name, and what it is called after.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Name {
    pub name: String,
    pub kind: Kind,
}

/// What a name stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Directory,
    Link,
    /// A file, or something that is neither.
    Other,
}

/// The text, and how much of the directory it shows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listing {
    pub text: String,
    pub shown: usize,
    pub cut: Option<Cut>,
}

/// Why not all is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cut {
    Entries,
    Bytes,
    /// The directory has more than is looked at; what is shown is a part in no order of its own.
    TooMany,
}

/// How much of a directory was looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Coverage {
    Whole,
    Part,
}

/// Renders names in the order of the alphabet, upper and lower case alike.
pub fn render(mut names: Vec<Name>, limit: Option<u64>, coverage: Coverage) -> Listing {
    names.sort_by_cached_key(|entry| (entry.name.to_lowercase(), entry.name.clone()));
    let limit = limit.map_or(ENTRIES, |limit| usize::try_from(limit).unwrap_or(usize::MAX));
    let mut listing = Listing { text: String::new(), shown: 0, cut: None };
    for Name { name, kind } in &names {
        let mark = match kind {
            Kind::Directory => "/",
            Kind::Link => "@",
            Kind::Other => "",
        };
        let line = format!("{}{mark}\n", one_line(name));
        if listing.shown >= limit {
            listing.cut = Some(Cut::Entries);
            break;
        }
        if listing.text.len() + line.len() > BYTES {
            listing.cut = Some(Cut::Bytes);
            break;
        }
        listing.text.push_str(&line);
        listing.shown += 1;
    }
    if names.is_empty() {
        listing.text.push_str("(empty directory)\n");
    }
    if coverage == Coverage::Part {
        listing.cut = Some(Cut::TooMany);
    }
    let total = names.len();
    let note = listing.cut.map(|cut| match cut {
        Cut::Entries => {
            let more = limit.saturating_mul(2);
            format!("[{limit} of {total} entries. For more, list with limit={more}.]")
        }
        Cut::Bytes => {
            format!(
                "[{} of {total} entries: an answer has {}. Use find with a pattern.]",
                listing.shown,
                size(BYTES as u64)
            )
        }
        Cut::TooMany => {
            format!("[{} of more than {MOST} entries. Use find with a pattern.]", listing.shown)
        }
    });
    if let Some(note) = note {
        listing.text.push('\n');
        listing.text.push_str(&note);
        listing.text.push('\n');
    }
    listing.text.truncate(listing.text.trim_end_matches('\n').len());
    listing
}

/// A name that is one line of an answer, whatever is in it: a file may be called `x\nsecret:`.
pub fn one_line(name: &str) -> String {
    if !name.contains(|c: char| c.is_control() || c == '\u{fffd}') {
        return name.to_owned();
    }
    name.chars()
        .map(|c| if c.is_control() { c.escape_default().to_string() } else { c.to_string() })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_sorted_and_marked() {
        let names =
            [("b", Kind::Other), ("A", Kind::Directory), ("a", Kind::Link), (".x", Kind::Other)];
        check(&names, None, Coverage::Whole, ".x\nA/\na@\nb");
        check(&[], None, Coverage::Whole, "(empty directory)");
        check(&[("x\n[y]\u{1b}", Kind::Other)], None, Coverage::Whole, "x\\n[y]\\u{1b}");
    }

    #[test]
    fn what_is_cut_says_so_and_how_to_see_more() {
        let names: Vec<String> = (0..600).map(|name| format!("{name:03}")).collect();
        let names: Vec<(&str, Kind)> =
            names.iter().map(|name| (name.as_str(), Kind::Other)).collect();
        check(
            &names[..3],
            Some(2),
            Coverage::Whole,
            "000\n001\n\n[2 of 3 entries. For more, list with limit=4.]",
        );
        let listing = render(owned(&names), None, Coverage::Whole);
        assert_eq!((listing.shown, listing.cut), (ENTRIES, Some(Cut::Entries)));
        check(
            &names[..1],
            None,
            Coverage::Part,
            "000\n\n[1 of more than 100000 entries. Use find with a pattern.]",
        );
        let long = "x".repeat(255);
        let many = vec![(long.as_str(), Kind::Other); 400];
        let listing = render(owned(&many), None, Coverage::Whole);
        assert_eq!((listing.shown, listing.cut), (200, Some(Cut::Bytes)));
        assert!(
            listing
                .text
                .ends_with("[200 of 400 entries: an answer has 50 KiB. Use find with a pattern.]")
        );
    }

    #[track_caller]
    fn check(names: &[(&str, Kind)], limit: Option<u64>, coverage: Coverage, expected: &str) {
        assert_eq!(render(owned(names), limit, coverage).text, expected);
    }

    fn owned(names: &[(&str, Kind)]) -> Vec<Name> {
        names.iter().map(|(name, kind)| Name { name: (*name).to_owned(), kind: *kind }).collect()
    }
}
