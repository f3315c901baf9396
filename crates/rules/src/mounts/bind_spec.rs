//! Reads one entry of `docker.binds` into its three parts. Reading is not permitting:
//! [`super::decide`] judges.

/// `source:target[:options]`, the parts exactly as written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BindSpec<'a> {
    pub source: &'a str,
    pub target: &'a str,
    /// Comma separated; empty if there are none.
    pub options: &'a str,
}

impl<'a> BindSpec<'a> {
    /// Splits at the first colon, and the rest once more; a leading drive letter (`C:\`, `C:/`)
    /// belongs to the source. `None` if no colon separates a target.
    pub fn parse(text: &'a str) -> Option<Self> {
        let skipped = if has_drive_letter(text) { 2 } else { 0 };
        let colon = skipped + text.get(skipped..)?.find(':')?;
        let (source, rest) = (text.get(..colon)?, text.get(colon + 1..)?);
        let (target, options) = rest.split_once(':').unwrap_or((rest, ""));
        Some(Self { source, target, options })
    }

    /// Says whether any option is `ro`, in any case: the careful reading, since what is wrongly
    /// taken for read-only fails loudly and what is wrongly taken for writable does not.
    pub fn is_read_only(&self) -> bool {
        self.options.split(',').any(|option| option.trim().eq_ignore_ascii_case("ro"))
    }
}

fn has_drive_letter(text: &str) -> bool {
    matches!(text.as_bytes(), [letter, b':', b'\\' | b'/', ..] if letter.is_ascii_alphabetic())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, expected: Option<(&str, &str, &str)>) {
        let parsed = BindSpec::parse(text).map(|bind| (bind.source, bind.target, bind.options));
        assert_eq!(parsed, expected, "{text}");
    }

    #[test]
    fn an_entry_splits_at_its_first_two_colons() {
        check("/a:/b", Some(("/a", "/b", "")));
        check("/a:/b:ro,z", Some(("/a", "/b", "ro,z")));
        check("/a:/b:ro:rw", Some(("/a", "/b", "ro:rw")));
        check("/a", None);
        check("", None);
        check(":", Some(("", "", "")));
        check("/a:", Some(("/a", "", "")));
        check("/a::ro", Some(("/a", "", "ro")));
        check("é:/b", Some(("é", "/b", "")));
    }

    #[test]
    fn a_drive_letter_is_part_of_the_source() {
        check("C:\\x:/y", Some(("C:\\x", "/y", "")));
        check("c:/x", None);
        check("C:x:/y", Some(("C", "x", "/y")));
        check("C:", Some(("C", "", "")));
    }

    #[test]
    fn ro_counts_in_any_case_and_only_as_a_whole_option() {
        let read_only = |text| BindSpec::parse(text).is_some_and(|bind| bind.is_read_only());
        assert!(read_only("/a:/b:z, RO "));
        assert!(!read_only("/a:/b:readonly"));
        assert!(!read_only("/a:/ro"));
    }
}
