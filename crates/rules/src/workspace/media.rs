//! Which inbound media files are copied to a session's workspace, and what they are called there.
//!
//! A message names files of the host. Only those below the media store are copied, to
//! `media/inbound/<name>` with a name that nothing can misread. Whether such a path really leads to a
//! plain file below the store is for the kernel to say, when it is opened beneath it.

use std::collections::BTreeSet;

use super::seeds::Unusable;
use crate::posix;

/// Where they land, from the workspace's top.
pub const INBOUND: &str = "media/inbound";

/// Larger files stay outside.
pub const MAX_BYTES: u64 = 5 * 1024 * 1024;

/// More files than this in one message are left alone.
pub const MAX_FILES: usize = 64;

/// Names are kept well below the 255 bytes of a file system, with room for `-12` and `.ext`.
const MAX_NAME: usize = 160;

/// What to do with one path of a message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MediaDecision {
    Stage(StagedName),
    Skip(SkipReason),
}

/// A file to copy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StagedName {
    /// Below the media store, to be opened beneath it.
    pub source: String,
    /// Below [`INBOUND`]: one component.
    pub name: String,
}

impl StagedName {
    /// What the message says instead of the host's path.
    pub fn rewritten(&self) -> String {
        format!("{INBOUND}/{}", self.name)
    }
}

/// Why a path is left as it is.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SkipReason {
    #[error("it is not an absolute path of this host")]
    NotAbsolute,
    #[error("it does not lie in the media store `{0}`")]
    Elsewhere(String),
    #[error("the message names more than {MAX_FILES} files")]
    TooMany,
    #[error(transparent)]
    File(#[from] Unusable),
    #[error("it is not there")]
    Missing,
}

/// The names given out for one message so far.
#[derive(Debug, Clone, Default)]
pub struct Names {
    taken: BTreeSet<String>,
    asked: usize,
}

/// Decides about one path. Two files of one name become `name.ext` and `name-1.ext`.
#[must_use]
pub fn decide(given: &str, store: &str, names: &mut Names) -> MediaDecision {
    names.asked += 1;
    if names.asked > MAX_FILES {
        return MediaDecision::Skip(SkipReason::TooMany);
    }
    let path = given.trim();
    let path = path.strip_prefix("file://").unwrap_or(path);
    if !path.starts_with('/') || path.contains('\0') {
        return MediaDecision::Skip(SkipReason::NotAbsolute);
    }
    let (path, store) = (posix::normalize(path), posix::normalize(store));
    match posix::relative(&store, &path) {
        Some(below) if !below.is_empty() => {
            let name = names.give(&safe_name(posix::basename(below)));
            MediaDecision::Stage(StagedName { source: below.to_owned(), name })
        }
        Some(_) | None => MediaDecision::Skip(SkipReason::Elsewhere(store)),
    }
}

impl Names {
    /// Another name for a file whose first one is taken in the workspace.
    pub fn another(&mut self, wanted: &str) -> String {
        self.taken.insert(wanted.to_owned());
        self.give(wanted)
    }

    fn give(&mut self, wanted: &str) -> String {
        let (stem, extension) = split_extension(wanted);
        let numbered = |number: usize| format!("{stem}-{number}{extension}");
        let candidates = std::iter::once(wanted.to_owned()).chain((1..).map(numbered));
        let mut free = candidates.filter(|name| !self.taken.contains(name));
        let name = free.next().unwrap_or_else(|| wanted.to_owned());
        self.taken.insert(name.clone());
        name
    }
}

/// A name that is one plain component: no separators, no control or direction characters, not hidden,
/// not an option, not too long.
#[must_use]
pub fn safe_name(name: &str) -> String {
    let plain =
        |c: char| c.is_alphanumeric() || matches!(c, '.' | '_' | '-' | ' ' | '(' | ')' | '+');
    let cleaned: String = name.chars().map(|c| if plain(c) { c } else { '_' }).collect();
    let cleaned = cleaned.trim_start_matches(['.', '-', ' ']).trim_end_matches([' ', '.']);
    if cleaned.is_empty() {
        return "file".to_owned();
    }
    let (stem, extension) = split_extension(cleaned);
    let extension = if extension.len() > 16 { "" } else { extension };
    let stem = if extension.is_empty() { cleaned } else { stem };
    let mut end = stem.len().min(MAX_NAME);
    while !stem.is_char_boundary(end) {
        end -= 1;
    }
    format!("{}{extension}", stem.get(..end).unwrap_or_default())
}

/// The stem, and the extension with its dot. A leading dot begins no extension.
fn split_extension(name: &str) -> (&str, &str) {
    match name.rfind('.') {
        Some(at) if at > 0 => name.split_at(at),
        Some(_) | None => (name, ""),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[track_caller]
    fn check(given: &[&str], expected: &[Result<(&str, &str), SkipReason>]) {
        let mut names = Names::default();
        let decided = given.iter().map(|path| match decide(path, "/state/media", &mut names) {
            MediaDecision::Stage(staged) => Ok((staged.source, staged.name)),
            MediaDecision::Skip(why) => Err(why),
        });
        let expected = expected.iter().map(|result| {
            result.clone().map(|(source, name)| (source.to_owned(), name.to_owned()))
        });
        assert_eq!(decided.collect::<Vec<_>>(), expected.collect::<Vec<_>>());
    }

    #[test]
    fn only_files_of_the_media_store_are_staged() {
        let elsewhere = || Err(SkipReason::Elsewhere("/state/media".to_owned()));
        check(&["/state/media/in/a.png"], &[Ok(("in/a.png", "a.png"))]);
        check(&["file:///state/media/a.png"], &[Ok(("a.png", "a.png"))]);
        check(&["/state/media/x/../a.png"], &[Ok(("a.png", "a.png"))]);
        check(&["a.png", "", "https://x/a.png"], &[const { Err(SkipReason::NotAbsolute) }; 3]);
        check(&["/state/media/../secret"], &[elsewhere()]);
        check(
            &["/state/media", "/state/media2/a", "/etc/passwd"],
            &[elsewhere(), elsewhere(), elsewhere()],
        );
    }

    #[test]
    fn two_files_of_one_name_are_numbered() {
        check(
            &["/state/media/a/x.png", "/state/media/b/x.png", "/state/media/x-1.png"],
            &[Ok(("a/x.png", "x.png")), Ok(("b/x.png", "x-1.png")), Ok(("x-1.png", "x-1-1.png"))],
        );
    }

    #[test]
    fn names_are_made_plain() {
        for (name, expected) in [
            ("Holiday photo (1).jpg", "Holiday photo (1).jpg"),
            ("-rf", "rf"),
            (".bashrc", "bashrc"),
            ("..", "file"),
            ("a\u{202e}gnp.exe", "a_gnp.exe"),
            ("a\nb;$(x).txt", "a_b__(x).txt"),
            ("übung.md", "übung.md"),
        ] {
            assert_eq!(safe_name(name), expected, "{name:?}");
        }
    }

    #[test]
    fn a_message_cannot_name_files_without_end() {
        let mut names = Names::default();
        let skipped = (0..MAX_FILES + 3).filter(|_| {
            decide("/m/a", "/m", &mut names) == MediaDecision::Skip(SkipReason::TooMany)
        });
        assert_eq!(skipped.count(), 3);
    }

    proptest! {
        #[test]
        fn every_name_is_one_component_that_a_file_system_takes(given in "\\PC{0,400}") {
            let name = safe_name(&given);
            prop_assert!(!name.is_empty() && name.len() <= 200);
            prop_assert!(!name.contains('/') && !name.contains('\0'));
            prop_assert!(!name.starts_with('.') && !name.starts_with('-'));
        }

        #[test]
        fn a_staged_source_never_climbs(given in "(/|\\.\\.|\\.|a|b|state|media){0,12}") {
            let given = format!("/state/media/{given}");
            if let MediaDecision::Stage(staged) = decide(&given, "/state/media", &mut Names::default()) {
                prop_assert!(staged.source.split('/').all(|part| !part.is_empty() && part != ".."));
            }
        }
    }
}
