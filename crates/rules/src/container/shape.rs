//! What the words of a container's spec may look like.
//!
//! Each of them becomes an argument of an engine that has a grammar of its own: a `-` in front
//! makes an option of a name, a `:` in a path moves the border between source and target, a `=` in
//! a network opens the engine's long form (`name=host`). So every word must have the plain shape of
//! what it claims to be; the engine still decides whether it exists.

use std::fmt;

use crate::posix;

/// Directories that belong to the kernel or the engine in every container.
const KERNEL_DIRECTORIES: &[&str] = &["/proc", "/sys", "/dev"];
/// The one place below them that is memory anyway.
const SHARED_MEMORY: &str = "/dev/shm";
/// The options a tmpfs may have. Missing on purpose: `suid`, `dev` (the engine's defaults shut these
/// doors) and all that would make it another kind of mount (`bind`, `remount`, `shared`).
const TMPFS_OPTIONS: &[&str] = &[
    "size",
    "mode",
    "uid",
    "gid",
    "nr_inodes",
    "nr_blocks",
    "rw",
    "ro",
    "nosuid",
    "nodev",
    "noexec",
    "exec",
    "noatime",
    "relatime",
];

/// What is wrong with a word.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ShapeProblem {
    Blank,
    /// A character that has no place there, or not at that position.
    Character(char),
    NotAbsolute,
    /// It would stand at, above or below a path that is taken.
    Covers(String),
    /// An option that is not allowed.
    Option(String),
}

/// An image reference: `[host/]name[:tag][@digest]`.
pub(super) fn image(text: &str) -> Result<(), ShapeProblem> {
    let inner = |c: char| matches!(c, '.' | '_' | '-' | '/' | ':' | '@' | '[' | ']');
    word(text, |c| c == '[', inner)
}

/// A container's or network's name.
pub(super) fn name(text: &str) -> Result<(), ShapeProblem> {
    word(text, |_| false, |c| matches!(c, '_' | '.' | '-'))
}

/// `user[:group]`, by name or number.
pub(super) fn user(text: &str) -> Result<(), ShapeProblem> {
    word(text, |c| c == '_', |c| matches!(c, '_' | '.' | '-' | ':' | '$'))
}

/// The name of a capability or limit.
pub(super) fn identifier(text: &str) -> Result<(), ShapeProblem> {
    word(text, |_| false, |c| c == '_')
}

/// Letters, digits and what the two tests allow: at the start, and after it.
fn word(
    text: &str,
    starts: impl Fn(char) -> bool,
    goes_on: impl Fn(char) -> bool,
) -> Result<(), ShapeProblem> {
    let mut chars = text.chars();
    let Some(first) = chars.next() else { return Err(ShapeProblem::Blank) };
    if !first.is_ascii_alphanumeric() && !starts(first) {
        return Err(ShapeProblem::Character(first));
    }
    match chars.find(|&c| !c.is_ascii_alphanumeric() && !goes_on(c)) {
        Some(odd) => Err(ShapeProblem::Character(odd)),
        None => Ok(()),
    }
}

/// One end of a mount: absolute, and without the `:` that separates the ends.
pub(super) fn mount_end(path: &str) -> Result<(), ShapeProblem> {
    if path.trim().is_empty() {
        return Err(ShapeProblem::Blank);
    }
    if !path.starts_with('/') {
        return Err(ShapeProblem::NotAbsolute);
    }
    match path.chars().find(|&c| c == ':' || c.is_control()) {
        Some(odd) => Err(ShapeProblem::Character(odd)),
        None => Ok(()),
    }
}

/// The place of the workspace in the sandbox. `taken` are the other places the layout mounts at.
pub(super) fn workdir(path: &str, taken: &[&str]) -> Result<(), ShapeProblem> {
    mount_end(path)?;
    let path = posix::normalize(path);
    if path == "/" {
        return Err(ShapeProblem::Covers(path));
    }
    let overlaps = |other: &&&str| posix::is_inside(other, &path) || posix::is_inside(&path, other);
    match KERNEL_DIRECTORIES.iter().chain(taken).find(overlaps) {
        Some(other) => Err(ShapeProblem::Covers((*other).to_owned())),
        None => Ok(()),
    }
}

/// A tmpfs entry, `path[:options]`. `taken` are the places where something is mounted: a tmpfs over
/// one of them would hide it while everyone believes it is there.
pub(super) fn tmpfs(entry: &str, taken: &[&str]) -> Result<(), ShapeProblem> {
    let (path, options) = entry.split_once(':').unwrap_or((entry, ""));
    mount_end(path)?;
    let path = posix::normalize(path);
    if path == "/" || taken.iter().any(|other| posix::normalize(other) == path) {
        return Err(ShapeProblem::Covers(path));
    }
    let is_kernel = |directory: &&&str| posix::is_inside(directory, &path);
    if let Some(directory) = KERNEL_DIRECTORIES.iter().find(is_kernel)
        && path != SHARED_MEMORY
    {
        return Err(ShapeProblem::Covers((*directory).to_owned()));
    }
    let is_known = |option: &str| {
        let name = option.split_once('=').map_or(option, |(name, _)| name);
        TMPFS_OPTIONS.contains(&name)
    };
    match options.split(',').find(|option| !option.is_empty() && !is_known(option)) {
        Some(option) => Err(ShapeProblem::Option(option.to_owned())),
        None => Ok(()),
    }
}

/// Says whether programs may be started from a tmpfs entry.
pub(super) fn tmpfs_runs_programs(entry: &str) -> bool {
    let options = entry.split_once(':').map_or("", |(_, options)| options);
    let last = options.split(',').rfind(|option| matches!(*option, "exec" | "noexec"));
    last == Some("exec")
}

impl fmt::Display for ShapeProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Blank => f.write_str("is blank"),
            Self::Character(odd) => {
                write!(f, "holds the character `{}` where it has no place", odd.escape_default())
            }
            Self::NotAbsolute => f.write_str("is not an absolute path"),
            Self::Covers(path) => write!(f, "would cover `{path}`"),
            Self::Option(option) => {
                write!(f, "has the option `{option}`; allowed are {}", TMPFS_OPTIONS.join(", "))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ShapeProblem::{Blank, Character, Covers, NotAbsolute};

    #[test]
    fn a_word_cannot_become_an_option_or_two_words() {
        for (text, expected) in [
            ("debian:bookworm-slim", Ok(())),
            ("ghcr.io:5000/a/b@sha256:00ff", Ok(())),
            ("[::1]:5000/x", Ok(())),
            ("", Err(Blank)),
            ("-v", Err(Character('-'))),
            ("--privileged", Err(Character('-'))),
            (" x", Err(Character(' '))),
            ("x --privileged", Err(Character(' '))),
            ("x\ny", Err(Character('\n'))),
            ("x\0", Err(Character('\0'))),
            ("$(id)", Err(Character('$'))),
        ] {
            assert_eq!(image(text), expected, "{text:?}");
        }
    }

    #[test]
    fn a_network_cannot_be_written_in_the_engines_long_form() {
        for (text, expected) in [
            ("my-net_1.x", Ok(())),
            ("name=host", Err(Character('='))),
            ("bridge,alias=x", Err(Character(','))),
            ("ns:/proc/1/ns/net", Err(Character(':'))),
            ("-host", Err(Character('-'))),
        ] {
            assert_eq!(name(text), expected, "{text:?}");
        }
    }

    #[test]
    fn users_and_capabilities_are_single_words() {
        assert_eq!((user("1000:1000"), user("_apt"), user("root")), (Ok(()), Ok(()), Ok(())));
        assert_eq!(user("0 --privileged"), Err(Character(' ')));
        assert_eq!(user("-1"), Err(Character('-')));
        assert_eq!((identifier("ALL"), identifier("CAP_NET_RAW")), (Ok(()), Ok(())));
        assert_eq!(identifier("ALL,NET_RAW"), Err(Character(',')));
        assert_eq!(identifier("-x"), Err(Character('-')));
    }

    #[test]
    fn a_workdir_stands_on_free_ground() {
        for (path, expected) in [
            ("/workspace", Ok(())),
            ("/srv//work/", Ok(())),
            ("relative", Err(NotAbsolute)),
            (" ", Err(Blank)),
            ("/", Err(Covers("/".into()))),
            ("/x/..", Err(Covers("/".into()))),
            ("/workspace:rw", Err(Character(':'))),
            ("/w\nx", Err(Character('\n'))),
            ("/proc/x", Err(Covers("/proc".into()))),
            ("/agent", Err(Covers("/agent".into()))),
            ("/agent/sub", Err(Covers("/agent".into()))),
        ] {
            assert_eq!(workdir(path, &["/agent"]), expected, "{path:?}");
        }
        assert_eq!(workdir("/agent", &[]), Ok(()));
    }

    #[test]
    fn a_tmpfs_hides_nothing_and_opens_nothing() {
        for (entry, expected) in [
            ("/tmp", Ok(())),
            ("/run", Ok(())),
            ("/tmp:size=64m,noexec", Ok(())),
            ("/tmp:exec", Ok(())),
            ("/dev/shm:size=1g", Ok(())),
            ("/workspace/node_modules", Ok(())),
            ("", Err(Blank)),
            ("tmp", Err(NotAbsolute)),
            ("/", Err(Covers("/".into()))),
            ("//", Err(Covers("/".into()))),
            ("/workspace", Err(Covers("/workspace".into()))),
            ("/workspace/", Err(Covers("/workspace".into()))),
            ("/x/../workspace:rw", Err(Covers("/workspace".into()))),
            ("/proc", Err(Covers("/proc".into()))),
            ("/sys/fs/cgroup", Err(Covers("/sys".into()))),
            ("/dev", Err(Covers("/dev".into()))),
            ("/tmp:suid", Err(ShapeProblem::Option("suid".into()))),
            ("/tmp:size=1m,dev", Err(ShapeProblem::Option("dev".into()))),
            ("/tmp:bind", Err(ShapeProblem::Option("bind".into()))),
            ("/tmp:rw:exec", Err(ShapeProblem::Option("rw:exec".into()))),
        ] {
            assert_eq!(tmpfs(entry, &["/workspace"]), expected, "{entry:?}");
        }
    }

    #[test]
    fn the_last_word_on_programs_counts() {
        assert!(tmpfs_runs_programs("/tmp:exec"));
        assert!(!tmpfs_runs_programs("/tmp:exec,noexec"));
        assert!(!tmpfs_runs_programs("/tmp"));
    }
}
