//! Answers what the rules ask about the files that commands would start.
//!
//! One question is more than a look-up: could an agent have put this file there, or change it?
//! [`Writers`] holds what is known about that. A directory that an agent may write makes everything
//! below it suspect, because a name in it can be given to another file.

use std::collections::BTreeSet;
use std::fs::{self, File, Metadata, OpenOptions};
use std::io::Read as _;
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::Path;

use clawpen_rules::command::{ContentHash, FileFacts, FileIdentity, ProgramFiles, Writer};
use sha2::{Digest as _, Sha256};

/// A larger file is not hashed, so nothing is pinned to it.
pub(crate) const MAX_BYTES: u64 = 512 * 1024 * 1024;
/// As many places as are looked at on the way to one file.
const MAX_STEPS: usize = 64;
/// Neither follow a link nor wait for a pipe.
pub(crate) const O_NOFOLLOW: i32 = 0o400_000;
pub(crate) const O_NONBLOCK: i32 = 0o4000;

/// Who could change files here, besides the system's administrator.
#[derive(Debug, Clone, Default)]
pub struct Writers {
    uid: u32,
    groups: Vec<u32>,
    /// Directories that agents write by design: workspaces and state.
    agent_directories: Vec<String>,
}

/// The programs of this machine.
#[derive(Debug, Clone, Default)]
pub struct RealPrograms {
    writers: Writers,
}

impl Writers {
    /// This process' user and groups, and the directories that agents write.
    pub fn of_process(agent_directories: Vec<String>) -> Self {
        // Without the facts we are nobody special, and the directories still count.
        let uid = fs::metadata("/proc/self").map(|facts| facts.uid()).unwrap_or_default();
        let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
        let groups = status
            .lines()
            .filter_map(|line| line.strip_prefix("Groups:").or_else(|| line.strip_prefix("Gid:")));
        let groups = groups.flat_map(str::split_whitespace).filter_map(|id| id.parse().ok());
        Self { uid, groups: groups.collect(), agent_directories }
    }

    /// Says whether a directory is one that agents write by design, or lies in one.
    pub fn is_agent_directory(&self, path: &str) -> bool {
        let real = fs::canonicalize(path).unwrap_or_else(|_missing| Path::new(path).to_owned());
        let inside = |directory: &String| {
            Path::new(path).starts_with(directory) || real.starts_with(directory)
        };
        self.agent_directories.iter().any(inside)
    }

    /// Says whether an agent that runs as this process' user could write here. Root owns nearly
    /// everything, so for root its own files say nothing; files of others do.
    fn may_write(&self, facts: &Metadata) -> bool {
        let mode = facts.mode();
        if mode & 0o002 != 0 {
            return true;
        }
        match self.uid {
            0 => facts.uid() != 0,
            own => {
                let by_group = mode & 0o020 != 0 && self.groups.contains(&facts.gid());
                facts.uid() == own || by_group
            }
        }
    }

    /// The file itself, every directory on the way to it, and the same for whatever links on that way
    /// lead to: one link in a writable directory is enough to put another file there.
    fn who_replaces(&self, path: &Path) -> Writer {
        let mut pending = vec![path.to_owned()];
        let mut seen = BTreeSet::new();
        let mut writer = Writer::Nobody;
        while let Some(path) = pending.pop() {
            if !seen.insert(path.clone()) {
                continue;
            }
            let inside = |directory: &String| path.starts_with(directory);
            if seen.len() > MAX_STEPS || self.agent_directories.iter().any(inside) {
                return Writer::Tools;
            }
            for step in path.ancestors() {
                match fs::symlink_metadata(step) {
                    // A link's mode says nothing; the directory it stands in is looked at next.
                    Ok(facts) if facts.is_symlink() => match fs::read_link(step) {
                        Ok(target) => {
                            pending.push(step.parent().unwrap_or(Path::new("/")).join(target));
                        }
                        Err(_) => writer = Writer::User,
                    },
                    Ok(facts) if self.may_write(&facts) => writer = Writer::User,
                    Ok(_) => {}
                    // What cannot be looked at cannot be trusted.
                    Err(_) => writer = Writer::User,
                }
            }
        }
        writer
    }
}

impl RealPrograms {
    pub fn new(writers: Writers) -> Self {
        Self { writers }
    }
}

impl ProgramFiles for RealPrograms {
    fn find(&self, path: &str) -> Option<FileFacts> {
        let real = fs::canonicalize(path).ok()?;
        let facts = fs::metadata(&real).ok()?;
        let (named, led_to) =
            (self.writers.who_replaces(Path::new(path)), self.writers.who_replaces(&real));
        let writer = named.max(led_to);
        Some(FileFacts {
            real_path: real.into_os_string().into_string().ok()?,
            identity: FileIdentity { device: facts.dev(), inode: facts.ino() },
            is_regular: facts.is_file(),
            is_executable: facts.mode() & 0o111 != 0,
            writer,
        })
    }

    fn hash(&self, real_path: &str) -> Option<ContentHash> {
        let flags = O_NOFOLLOW | O_NONBLOCK;
        let file = OpenOptions::new().read(true).custom_flags(flags).open(real_path).ok()?;
        let facts = file.metadata().ok()?;
        if !facts.is_file() || facts.len() > MAX_BYTES {
            return None;
        }
        digest(&file)
    }
}

/// The hash of an open file's content.
pub(crate) fn digest(file: &File) -> Option<ContentHash> {
    let mut hasher = Sha256::new();
    let mut reader = file.take(MAX_BYTES);
    let mut buffer = vec![0; 64 * 1024];
    loop {
        let count = reader.read(&mut buffer).ok()?;
        if count == 0 {
            return Some(ContentHash(hasher.finalize().into()));
        }
        hasher.update(buffer.get(..count)?);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt as _;

    #[track_caller]
    fn check_writable(path: &Path, writers: &Writers) {
        assert!(found(path, writers), "{}", path.display());
    }

    #[track_caller]
    fn check_safe(path: &Path, writers: &Writers) {
        assert!(!found(path, writers), "{}", path.display());
    }

    fn found(path: &Path, writers: &Writers) -> bool {
        let programs = RealPrograms::new(writers.clone());
        programs.find(path.to_str().unwrap()).unwrap().agent_may_write()
    }

    fn tree() -> (tempfile::TempDir, std::path::PathBuf) {
        let directory = tempfile::tempdir().unwrap();
        let tool = directory.path().join("bin/tool");
        fs::create_dir(directory.path().join("bin")).unwrap();
        fs::write(&tool, "x").unwrap();
        fs::set_permissions(&tool, fs::Permissions::from_mode(0o755)).unwrap();
        (directory, tool)
    }

    #[test]
    fn b36_a_program_in_a_directory_that_agents_write_is_suspect() {
        let (directory, tool) = tree();
        let workspace = directory.path().to_str().unwrap().to_owned();
        // A user that owns nothing here; the temporary directory itself is everybody's.
        let nobody = Writers { uid: 4_000_000, groups: Vec::new(), agent_directories: Vec::new() };
        check_safe(Path::new("/usr/bin/env"), &nobody);
        check_writable(&tool, &nobody);
        let writers = Writers { agent_directories: vec![workspace], ..nobody.clone() };
        check_writable(&tool, &writers);
        let bin = Writers { agent_directories: vec!["/usr".to_owned()], ..nobody };
        check_writable(Path::new("/usr/bin/env"), &bin);
    }

    #[test]
    fn b36_a_link_out_of_a_writable_directory_is_suspect() {
        let (directory, _) = tree();
        let link = directory.path().join("ls");
        std::os::unix::fs::symlink("/usr/bin/env", &link).unwrap();
        check_writable(&link, &Writers { uid: 4_000_000, ..Writers::default() });
    }

    #[test]
    fn b36_a_link_on_the_way_is_as_suspect_as_its_end() {
        let (directory, _) = tree();
        // Both ends are the system's; only the link between them is not.
        let between = directory.path().join("between");
        std::os::unix::fs::symlink("/usr/bin", &between).unwrap();
        let nobody = Writers { uid: 4_000_000, ..Writers::default() };
        check_writable(&between.join("env"), &nobody);
        assert!(nobody.who_replaces(Path::new("/usr/bin/env")) == Writer::Nobody);
        let loops = directory.path().join("loop");
        std::os::unix::fs::symlink("loop", &loops).unwrap();
        assert!(nobody.who_replaces(&loops) > Writer::Nobody);
    }

    #[test]
    fn b36_for_root_the_files_of_others_are_suspect() {
        let root = Writers::default();
        assert!(root.who_replaces(Path::new("/usr/bin/env")) == Writer::Nobody);
        let mine = Writers { uid: 0, ..Writers::default() };
        let facts = fs::metadata("/usr/bin/env").unwrap();
        assert_eq!(mine.may_write(&facts), facts.uid() != 0);
    }

    #[test]
    fn b36_the_hash_is_of_the_content_and_links_have_none() {
        let (directory, tool) = tree();
        let programs = RealPrograms::default();
        let hash = programs.hash(tool.to_str().unwrap()).unwrap();
        assert_eq!(
            hash.to_string(),
            "2d711642b726b04401627ca9fbac32f5c8530fb1903cc4db02258717921a4881"
        );
        let link = directory.path().join("link");
        std::os::unix::fs::symlink(&tool, &link).unwrap();
        assert_eq!(programs.hash(link.to_str().unwrap()), None);
        assert_eq!(programs.hash(directory.path().to_str().unwrap()), None);
    }
}
