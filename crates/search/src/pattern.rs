//! Globs as people write them: one without a slash names a file anywhere.

use std::path::Path;

use globset::{GlobBuilder, GlobMatcher};

/// A glob, ready to be matched.
#[derive(Debug)]
pub(crate) struct Glob {
    matcher: GlobMatcher,
    of: Of,
}

/// What a glob is held against.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Of {
    Name,
    /// The path below the root.
    Path,
}

impl Glob {
    pub(crate) fn new(text: &str) -> Result<Self, String> {
        let of = if text.contains('/') { Of::Path } else { Of::Name };
        // `src/*.rs` means such a file of any `src`; a slash at the start means this one's.
        let wanted = match (of, text.strip_prefix('/')) {
            (Of::Path, Some(anchored)) => anchored.to_owned(),
            (Of::Path, None) if !text.starts_with("**/") => {
                format!("**/{}", text.trim_start_matches("./"))
            }
            (Of::Path | Of::Name, _) => text.to_owned(),
        };
        let glob = GlobBuilder::new(&wanted).literal_separator(true).build();
        let glob = glob.map_err(|error| format!("`{text}` is no glob: {}", error.kind()))?;
        Ok(Self { matcher: glob.compile_matcher(), of })
    }

    pub(crate) fn matches(&self, below: &Path) -> bool {
        match self.of {
            Of::Path => self.matcher.is_match(below),
            Of::Name => below.file_name().is_some_and(|name| self.matcher.is_match(name)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_glob_with_a_slash_is_held_against_the_path() {
        for (glob, path, expected) in [
            ("*.rs", "a/b.rs", true),
            ("b", "a/b.rs", false),
            ("src/*.rs", "x/src/b.rs", true),
            ("src/*.rs", "src/a/b.rs", false),
            ("/src/*.rs", "x/src/b.rs", false),
            ("src/**/t_*", "src/a/b/t_1", true),
            ("./a/*", "a/b", true),
            ("{a,b}.txt", "c/b.txt", true),
        ] {
            assert_eq!(
                Glob::new(glob).unwrap().matches(Path::new(path)),
                expected,
                "{glob} {path}"
            );
        }
        assert!(Glob::new("[").unwrap_err().starts_with("`[` is no glob: "));
    }
}
