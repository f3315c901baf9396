//! Which file a word would start.
//!
//! Takes the word, the working directory, the home and `PATH`; asks [`ProgramFiles`] for facts. A
//! word with a slash is a path; any other is looked up in the absolute directories of `PATH`, first
//! executable regular file wins. Directories of `PATH` that are relative or empty are never searched:
//! they would make the meaning of a name depend on a directory the agent can write.

use std::fmt;

use crate::posix;

/// Facts about files that programs are started from. Nothing here changes anything.
pub trait ProgramFiles {
    /// What stands at an absolute, normalised path, links followed; `None` if nothing does or it
    /// cannot be looked at.
    fn find(&self, path: &str) -> Option<FileFacts>;

    /// The hash of a regular file's content, by its real path; `None` if it cannot be read.
    fn hash(&self, real_path: &str) -> Option<ContentHash>;
}

/// What is known about a file without reading it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileFacts {
    /// The path with every link followed.
    pub real_path: String,
    pub identity: FileIdentity,
    pub is_regular: bool,
    pub is_executable: bool,
    /// Who could change the file, or put another one in its place.
    pub writer: Writer,
}

impl FileFacts {
    /// Whether the agent could change it, in one way or another.
    pub fn agent_may_write(&self) -> bool {
        self.writer > Writer::Nobody
    }

    /// Whether it lies where the agent's own tools write. All that lies beside it is the agent's too.
    pub fn is_agents(&self) -> bool {
        self.writer == Writer::Tools
    }
}

/// Who could put another file in the place of one; the worst of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Writer {
    /// Nobody but the system's administrator.
    Nobody,
    /// Whatever runs as this process' user.
    User,
    /// The agent's tools, from inside their sandbox: it is in a workspace, or a directory bound for writing.
    Tools,
}

/// Which inode a file is; re-checked before it runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FileIdentity {
    pub device: u64,
    pub inode: u64,
}

/// SHA-256 of a file's content.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ContentHash(pub [u8; 32]);

impl ContentHash {
    /// Reads 64 hexadecimal digits.
    pub fn parse(text: &str) -> Option<Self> {
        let digits = text.as_bytes();
        if digits.len() != 64 {
            return None;
        }
        let mut bytes = [0; 32];
        for (byte, pair) in bytes.iter_mut().zip(digits.chunks_exact(2)) {
            let digit = |at: usize| pair.get(at).and_then(|d| char::from(*d).to_digit(16));
            *byte = u8::try_from(digit(0)? * 16 + digit(1)?).ok()?;
        }
        Some(Self(bytes))
    }
}

impl fmt::Display for ContentHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// A word in the place of a program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Program {
    /// As typed.
    pub word: String,
    /// The file it starts; `None` if there is none, and then nothing admits it.
    pub found: Option<Found>,
}

/// A file that a word leads to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found {
    /// Absolute and normalised, links not followed: what allowlist patterns are matched against.
    pub path: String,
    pub facts: FileFacts,
}

/// A file as it was when the plan was made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PinnedFile {
    /// Links not followed: what was matched and is shown.
    pub path: String,
    pub real_path: String,
    pub identity: FileIdentity,
    pub hash: ContentHash,
}

/// Where words are looked up.
#[derive(Debug, Clone, Copy)]
pub(super) struct Place<'a> {
    pub cwd: &'a str,
    pub home: Option<&'a str>,
    pub path: &'a str,
}

impl Program {
    /// Looks a word up as a program.
    pub(super) fn look_up(word: &str, place: Place<'_>, files: &dyn ProgramFiles) -> Self {
        let found = if is_shell_word(word) {
            None
        } else if word.contains('/') {
            as_path(word, place).and_then(|path| executable(path, files))
        } else if word.is_empty() {
            None
        } else {
            let directories = place.path.split(':').filter(|directory| directory.starts_with('/'));
            let mut paths = directories.map(|directory| posix::resolve(directory, word));
            paths.find_map(|path| executable(path, files))
        };
        Self { word: word.to_owned(), found }
    }

    /// Looks a word up as a file that another program reads: no `PATH`, no need to be executable.
    pub(super) fn operand(word: &str, place: Place<'_>, files: &dyn ProgramFiles) -> Self {
        let found = as_path(word, place).and_then(|path| {
            let facts = files.find(&path).filter(|facts| facts.is_regular)?;
            Some(Found { path, facts })
        });
        Self { word: word.to_owned(), found }
    }

    /// Says whether it is a word that a shell gives a meaning to, so that no file can be meant.
    pub fn is_shell_word(&self) -> bool {
        is_shell_word(&self.word)
    }

    /// The names it goes by: as typed, as found, and where links lead. A rule about a program must
    /// hold for all of them, or a link would be a way around it.
    pub(super) fn names(&self) -> impl Iterator<Item = String> + '_ {
        let found = self.found.iter();
        let paths = found.flat_map(|found| [found.path.as_str(), found.facts.real_path.as_str()]);
        let mut names: Vec<String> = Vec::with_capacity(3);
        for path in std::iter::once(self.word.as_str()).chain(paths) {
            let name = program_name(path);
            if !names.contains(&name) {
                names.push(name);
            }
        }
        names.into_iter()
    }
}

impl Found {
    /// The last component of the path.
    pub fn name(&self) -> &str {
        posix::basename(&self.path)
    }

    /// Adds the content's hash; `None` if the file cannot be read.
    pub(super) fn pin(&self, files: &dyn ProgramFiles) -> Option<PinnedFile> {
        Some(PinnedFile {
            path: self.path.clone(),
            real_path: self.facts.real_path.clone(),
            identity: self.facts.identity,
            hash: files.hash(&self.facts.real_path)?,
        })
    }
}

/// The name a table knows a program by: the last component, lower case, without the endings that
/// Windows gives to programs.
pub(super) fn program_name(word: &str) -> String {
    let name = word.rsplit(['/', '\\']).next().unwrap_or(word).to_lowercase();
    let bare = [".exe", ".cmd", ".bat", ".com"].iter().find_map(|end| name.strip_suffix(end));
    bare.filter(|bare| !bare.is_empty()).map_or_else(|| name.clone(), str::to_owned)
}

/// Keywords, and builtins for which a file of that name would do something else.
const SHELL_WORDS: &[&str] = &[
    "!",
    ".",
    ":",
    "[[",
    "]]",
    "alias",
    "bg",
    "bind",
    "break",
    "builtin",
    "caller",
    "case",
    "cd",
    "command",
    "compgen",
    "complete",
    "compopt",
    "continue",
    "coproc",
    "declare",
    "dirs",
    "disown",
    "do",
    "done",
    "elif",
    "else",
    "enable",
    "esac",
    "eval",
    "exec",
    "exit",
    "export",
    "fc",
    "fg",
    "fi",
    "for",
    "function",
    "getopts",
    "hash",
    "history",
    "if",
    "in",
    "jobs",
    "let",
    "local",
    "logout",
    "mapfile",
    "popd",
    "pushd",
    "read",
    "readarray",
    "readonly",
    "return",
    "select",
    "set",
    "shift",
    "shopt",
    "source",
    "suspend",
    "then",
    "times",
    "trap",
    "type",
    "typeset",
    "ulimit",
    "umask",
    "unalias",
    "unset",
    "until",
    "wait",
    "while",
    "{",
    "}",
];

pub(super) fn is_shell_word(word: &str) -> bool {
    let name = word.split_once('=').map(|(name, _)| name.strip_suffix('+').unwrap_or(name));
    let name = name.map(|name| name.split_once('[').map_or(name, |(name, _)| name));
    let is_name = |name: &str| {
        name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
            && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
    };
    SHELL_WORDS.binary_search(&word).is_ok() || name.is_some_and(is_name)
}

fn as_path(word: &str, place: Place<'_>) -> Option<String> {
    let home_relative =
        word.strip_prefix('~').filter(|rest| rest.is_empty() || rest.starts_with('/'));
    match home_relative {
        Some(rest) => Some(posix::normalize(&format!("{}{rest}", place.home?))),
        None => Some(posix::resolve(place.cwd, word)),
    }
}

fn executable(path: String, files: &dyn ProgramFiles) -> Option<Found> {
    let facts = files.find(&path).filter(|facts| facts.is_regular && facts.is_executable)?;
    Some(Found { path, facts })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_words_of_a_shell_can_be_searched() {
        assert!(SHELL_WORDS.is_sorted());
    }

    #[test]
    fn assignments_and_keywords_are_words_of_a_shell() {
        for word in ["A=1", "A=", "_a1+=x", "a[0]=x", "if", "{", "!", ".", "cd", "exec"] {
            assert!(is_shell_word(word), "{word}");
        }
        for word in ["ls", "1a=x", "=x", "a-b=x", "./A=1", "time", "test", "[", "echo", "-x=1"] {
            assert!(!is_shell_word(word), "{word}");
        }
    }

    #[test]
    fn names_lose_directories_case_and_the_endings_of_windows() {
        for (word, name) in
            [("/usr/bin/Sudo", "sudo"), ("a\\cmd.EXE", "cmd"), (".exe", ".exe"), ("x", "x")]
        {
            assert_eq!(program_name(word), name);
        }
    }

    #[test]
    fn hashes_are_read_as_they_are_printed() {
        let hash = ContentHash([0xab; 32]);
        assert_eq!(ContentHash::parse(&hash.to_string()), Some(hash));
        assert_eq!(ContentHash::parse("ab"), None);
        assert_eq!(ContentHash::parse(&"g".repeat(64)), None);
    }
}
