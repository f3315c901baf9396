//! The file's hash, and the check that nobody overwrites what he has not seen.

use std::fmt;

use sha2::{Digest as _, Sha256};

use crate::command::ContentHash;

/// Identity of a file's exact text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileHash(String);

impl FileHash {
    /// Of a text; an absent file counts as an empty one.
    pub fn of(text: &str) -> Self {
        Self(ContentHash(Sha256::digest(text.as_bytes()).into()).to_string())
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for FileHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Why a file may not be replaced.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SetRefusal {
    #[error(
        "the file exists, so `baseHash` must say which version was edited; get the file again and retry"
    )]
    BaseMissing,
    #[error("the file changed since it was read; get it again and retry")]
    Changed,
}

/// Decides whether a file may be replaced by someone who last saw `base`. `current` is what stands
/// there now; `None` if nothing does.
pub fn check_base(current: Option<&FileHash>, base: Option<&str>) -> Result<(), SetRefusal> {
    match (current, base.map(str::trim).filter(|base| !base.is_empty())) {
        (None, _) => Ok(()),
        (Some(_), None) => Err(SetRefusal::BaseMissing),
        (Some(current), Some(base)) if current.as_str() == base => Ok(()),
        (Some(_), Some(_)) => Err(SetRefusal::Changed),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_replaced_only_by_someone_who_saw_it() {
        let hash = FileHash::of("x");
        assert_eq!(
            FileHash::of("").as_str(),
            "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
        );
        assert_eq!(check_base(None, None), Ok(()));
        assert_eq!(check_base(Some(&hash), Some(hash.as_str())), Ok(()));
        assert_eq!(check_base(Some(&hash), None), Err(SetRefusal::BaseMissing));
        assert_eq!(check_base(Some(&hash), Some(" ")), Err(SetRefusal::BaseMissing));
        assert_eq!(check_base(Some(&hash), Some("0")), Err(SetRefusal::Changed));
    }
}
