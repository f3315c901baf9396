//! Which of the seven files are copied into a private workspace, and how copy and original stand.
//!
//! A file is seeded once, when it is missing; after that the copy is the sandbox's own. So an admin's
//! later change to the original does not arrive, and nobody is told: [`compare`] tells. It takes what
//! the original, the copy and the last seeding were, and gives a [`Standing`]. It reads no file.

use std::fmt;

/// Larger originals are no bootstrap files.
pub const MAX_BYTES: u64 = 2 * 1024 * 1024;

/// The content of a file: its SHA-256.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Digest([u8; 32]);

impl Digest {
    pub const fn new(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    /// Reads what [`fmt::Display`] wrote.
    pub fn parse(text: &str) -> Option<Self> {
        let digits: Option<Vec<u32>> = text.chars().map(|c| c.to_digit(16)).collect();
        let (pairs, rest) = digits.as_deref()?.as_chunks::<2>();
        let bytes = pairs.iter().map(|[high, low]| u8::try_from(high << 4 | low).ok());
        let bytes: Option<Vec<u8>> = bytes.collect();
        rest.is_empty().then_some(())?;
        Some(Self(bytes?.try_into().ok()?))
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// Why a file of the host is not copied. Links would let an agent that can write the original's
/// directory hand any file of the host to another sandbox.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Unusable {
    #[error("it is a link, or stands behind one; put the file itself there")]
    Link,
    #[error("it has a second name (hard link); copy it to a file of its own")]
    HardLinked,
    #[error("it is no regular file")]
    NotAFile,
    #[error("it is larger than {} bytes", .limit)]
    TooLarge { limit: u64 },
    #[error("it lies on another mount")]
    OtherMount,
    #[error("it cannot be read")]
    Unreadable,
}

/// What stands at a file's place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Content {
    Missing,
    File(Digest),
    Unusable(Unusable),
}

/// How a copy stands to its original.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Standing {
    /// Neither exists.
    Absent,
    /// The next start copies it.
    ToSeed,
    /// The same content.
    InStep,
    /// The original was changed since; the copy is as it was seeded.
    Behind,
    /// The agent changed its copy; the original is as it was.
    Evolved,
    /// Both were changed, or nobody knows what was seeded.
    Diverged,
    /// There is no original.
    OnlyCopy,
    /// The original exists and may not be copied.
    OriginalUnusable(Unusable),
    /// Something that is no plain file stands in the copy's place, and stays there.
    CopyOccupied(Unusable),
}

/// What re-seeding does with one file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Renewal {
    /// Nothing.
    Leave,
    /// Writes it; nothing is there.
    Write,
    /// Moves what is there to the trash and puts the original in its place.
    Replace,
}

/// Compares; `seeded` is what was last copied, if that is known.
#[must_use]
pub fn compare(original: Content, copy: Content, seeded: Option<Digest>) -> Standing {
    let (original, copy) = match (original, copy) {
        (Content::Missing, Content::Missing) => return Standing::Absent,
        (Content::File(_), Content::Missing) => return Standing::ToSeed,
        (Content::Missing, Content::File(_) | Content::Unusable(_)) => return Standing::OnlyCopy,
        (Content::Unusable(why), _) => return Standing::OriginalUnusable(why),
        (Content::File(_), Content::Unusable(why)) => return Standing::CopyOccupied(why),
        (Content::File(original), Content::File(copy)) => (original, copy),
    };
    if original == copy {
        return Standing::InStep;
    }
    match seeded {
        Some(seeded) if seeded == copy => Standing::Behind,
        Some(seeded) if seeded == original => Standing::Evolved,
        Some(_) | None => Standing::Diverged,
    }
}

impl Standing {
    /// What re-seeding does.
    pub const fn renewal(self) -> Renewal {
        match self {
            Self::Absent | Self::InStep | Self::OnlyCopy | Self::OriginalUnusable(_) => {
                Renewal::Leave
            }
            Self::ToSeed => Renewal::Write,
            Self::Behind | Self::Evolved | Self::Diverged | Self::CopyOccupied(_) => {
                Renewal::Replace
            }
        }
    }

    /// One word for tables and JSON.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Absent => "absent",
            Self::ToSeed => "to-seed",
            Self::InStep => "in-step",
            Self::Behind => "behind",
            Self::Evolved => "evolved",
            Self::Diverged => "diverged",
            Self::OnlyCopy => "only-copy",
            Self::OriginalUnusable(_) => "original-unusable",
            Self::CopyOccupied(_) => "copy-occupied",
        }
    }
}

/// What it means for whoever changes the original.
impl fmt::Display for Standing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Absent => f.write_str("there is neither original nor copy"),
            Self::ToSeed => f.write_str("not copied yet; the next start copies it"),
            Self::InStep => f.write_str("the copy equals the original; a later change to the original will not arrive by itself"),
            Self::Behind => f.write_str("the original was changed after it was copied; the sandbox still has the old text"),
            Self::Evolved => f.write_str("the agent changed its copy; the original does not have that change"),
            Self::Diverged => f.write_str("original and copy went different ways"),
            Self::OnlyCopy => f.write_str("only the sandbox has it"),
            Self::OriginalUnusable(why) => write!(f, "the original is not copied: {why}"),
            Self::CopyOccupied(why) => write!(f, "something else stands in the copy's place: {why}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use Content::{File, Missing};

    const A: Digest = Digest::new([1; 32]);
    const B: Digest = Digest::new([2; 32]);
    const C: Digest = Digest::new([3; 32]);
    const LINK: Content = Content::Unusable(Unusable::Link);

    #[track_caller]
    fn check(sides: (Content, Content), seeded: Option<Digest>, expected: (Standing, Renewal)) {
        let standing = compare(sides.0, sides.1, seeded);
        assert_eq!((standing, standing.renewal()), expected);
    }

    #[test]
    fn a_copy_is_judged_by_three_contents() {
        use Standing::{
            Absent, Behind, CopyOccupied, Diverged, Evolved, InStep, OnlyCopy, OriginalUnusable,
            ToSeed,
        };
        check((Missing, Missing), Some(A), (Absent, Renewal::Leave));
        check((File(A), Missing), None, (ToSeed, Renewal::Write));
        check((File(A), File(A)), None, (InStep, Renewal::Leave));
        check((File(A), File(A)), Some(B), (InStep, Renewal::Leave));
        check((File(B), File(A)), Some(A), (Behind, Renewal::Replace));
        check((File(A), File(B)), Some(A), (Evolved, Renewal::Replace));
        check((File(B), File(C)), Some(A), (Diverged, Renewal::Replace));
        check((File(A), File(B)), None, (Diverged, Renewal::Replace));
        check((Missing, File(A)), Some(A), (OnlyCopy, Renewal::Leave));
        check((LINK, File(A)), Some(A), (OriginalUnusable(Unusable::Link), Renewal::Leave));
        check((LINK, Missing), None, (OriginalUnusable(Unusable::Link), Renewal::Leave));
        check((File(A), LINK), Some(A), (CopyOccupied(Unusable::Link), Renewal::Replace));
        check((Missing, LINK), None, (OnlyCopy, Renewal::Leave));
    }

    #[test]
    fn a_digest_is_read_back_as_written() {
        let text = A.to_string();
        assert_eq!((text.len(), Digest::parse(&text)), (64, Some(A)));
        for wrong in ["", "01", &text[1..], &format!("{text}0"), &text.replace('0', "g")] {
            assert_eq!(Digest::parse(wrong), None, "{wrong}");
        }
    }
}
