//! What git and its like run: by their words, and by the settings of the directory they look at.

use super::option;
use crate::command::Runs;
use crate::command::program::{FileFacts, ProgramFiles};
use crate::posix;

/// Programs that run what the settings of a directory name: hooks, helpers, filters.
const READ_SETTINGS: &[&str] = &["git", "hg", "jj", "svn"];

/// The directory whose settings a program would follow although the agent can write them. Its words
/// say nothing about what would run then, not even the exact ones.
pub(in crate::command) fn agent_settings(
    runs: &Runs,
    cwd: &str,
    files: &dyn ProgramFiles,
) -> Option<String> {
    const PLACES: &[&str] =
        &["-C", "--git-dir", "--work-tree", "-R", "--repository", "--cwd", "--config-dir"];
    let program = runs.effective_program();
    if !program.names().any(|name| READ_SETTINGS.contains(&name.as_str())) {
        return None;
    }
    let mut places = vec![cwd.to_owned()];
    let mut words = runs.effective_argv().iter().skip(1);
    while let Some(word) = words.next() {
        let (flag, glued) =
            word.split_once('=').map_or((word.as_str(), None), |(flag, value)| (flag, Some(value)));
        if PLACES.contains(&flag) {
            let place = glued.or_else(|| words.next().map(String::as_str));
            places.extend(place.map(|place| posix::resolve(cwd, place)));
        }
    }
    places.into_iter().find_map(|mut path| {
        // What is not there yet can be put there by whoever may write its parent.
        while files.find(&path).is_none() && path.len() > 1 && path.starts_with('/') {
            path.truncate(posix::parent(&path).len());
        }
        files.find(&path).filter(FileFacts::agent_may_write).map(|_| path)
    })
}

/// Options that name a program, wherever they stand.
const ANYWHERE: &[&str] = &[
    "--config-env",
    "--exec",
    "--exec-path",
    "--ext-diff",
    "--extcmd",
    "--open-files-in-pager",
    "--receive-pack",
    "--textconv",
    "--tool",
    "--upload-pack",
];

/// Verbs that git does by itself; any other may be a program called `git-…`, or start one.
const VERBS: &[&str] = &[
    "add",
    "annotate",
    "apply",
    "blame",
    "branch",
    "cat-file",
    "check-attr",
    "check-ignore",
    "checkout",
    "cherry",
    "cherry-pick",
    "clean",
    "clone",
    "commit",
    "count-objects",
    "describe",
    "diff",
    "diff-files",
    "diff-index",
    "diff-tree",
    "for-each-ref",
    "fsck",
    "grep",
    "hash-object",
    "init",
    "log",
    "ls-files",
    "ls-remote",
    "ls-tree",
    "merge",
    "merge-base",
    "mv",
    "name-rev",
    "notes",
    "range-diff",
    "rebase",
    "reflog",
    "reset",
    "restore",
    "rev-list",
    "rev-parse",
    "revert",
    "rm",
    "shortlog",
    "show",
    "show-branch",
    "show-ref",
    "stash",
    "status",
    "switch",
    "symbolic-ref",
    "tag",
    "update-index",
    "update-ref",
    "version",
    "whatchanged",
    "worktree",
    "write-tree",
];

/// Those of them that start a transport.
const REMOTE: &[&str] = &["clone", "ls-remote"];

/// Git runs what its settings name, and settings can be words.
pub(super) fn carries(words: &[String]) -> Option<String> {
    if words.iter().any(|word| word == "--help") {
        // Shows a manual, with a program for that.
        return Some("--help".to_owned());
    }
    let mut verb = 0;
    while let Some(word) = words.get(verb).filter(|word| word.starts_with('-')) {
        if word.starts_with("-c") {
            return Some("-c".to_owned());
        }
        let takes_value =
            matches!(word.as_str(), "-C" | "--git-dir" | "--work-tree" | "--namespace");
        verb += 1 + usize::from(takes_value);
    }
    option(words, "", ANYWHERE).or_else(|| {
        let (verb, after) = words.get(verb..)?.split_first()?;
        let letters = match verb.as_str() {
            "clone" => "uc",
            "fetch-pack" | "ls-remote" => "u",
            "rebase" => "xi",
            "grep" => "O",
            _ => "",
        };
        option(after, letters, &[]).or_else(|| {
            let is_own = VERBS.contains(&verb.as_str()) && !REMOTE.contains(&verb.as_str());
            (!is_own).then(|| verb.clone())
        })
    })
}
