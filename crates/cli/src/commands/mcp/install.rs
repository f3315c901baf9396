//! `clawpen mcp install`: one entry in a client's config file, the rest of it untouched.
//!
//! A file that the client itself could not read is left alone, and the entry is shown to be put in by hand. What was there
//! before is kept beside it.

mod entry;

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use serde_json::json;

use super::super::CommandError;
use crate::args::Format;
use crate::args::mcp::{Client, InstallArgs};
use crate::exit::Outcome;
use crate::file_change;
use crate::output::{Output, safe};
use entry::{Entry, FileOf, Found};

/// Of a file that is new.
const MODE: u32 = 0o600;

pub(super) fn run(args: &InstallArgs, output: &Output) -> Result<Outcome, CommandError> {
    let question = |what: &str| CommandError::Question { what: what.to_owned() };
    if args.name.is_empty()
        || !args.name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte))
    {
        return Err(question("--name takes letters, digits, - and _ only"));
    }
    let program = std::env::current_exe()?;
    let program = program.to_str().ok_or_else(|| question("our own path is no UTF-8"))?.to_owned();
    let home = std::env::home_dir().ok_or_else(|| question("there is no home directory"))?;
    let here = std::env::current_dir()?;
    let place = place(args, &home, &here);
    let file = match (args.client, args.user) {
        (Client::Codex, _) | (_, true) => FileOf::User,
        (Client::Claude | Client::Cursor | Client::Vscode, false) => FileOf::Project,
    };
    match file {
        FileOf::User => {}
        FileOf::Project => refuse_links(&place, &here)?,
    }
    let old = match fs::read_to_string(&place) {
        Ok(text) => Some(text),
        Err(error) if error.kind() == io::ErrorKind::NotFound => None,
        Err(cause) => {
            return Err(CommandError::Read { path: safe(&place.to_string_lossy()), cause });
        }
    };
    let entry = Entry { client: args.client, name: &args.name, program, words: words(args), file };
    let text = entry.merged_with(old.as_deref()).map_err(|problem| {
        output.note("Put this in by hand:");
        entry.shown().lines().for_each(|line| output.note(&safe(line)));
        let place = safe(&place.to_string_lossy());
        CommandError::Question { what: format!("{place} {problem}; it was left as it is") }
    })?;
    let is_new = old.as_deref() != Some(text.as_str());
    let backup = match (&old, args.dry_run || !is_new) {
        (_, true) => None,
        (old, false) => file_change::write(&place, old.as_deref(), (&text, MODE))?,
    };
    let shown = || Found { text: entry.shown(), kept: Vec::new() };
    let found = entry.found_in(&text).unwrap_or_else(shown);
    report(args, output, &Done { place: &place, found, backup, is_new })
}

/// A project's files may be anybody's: a link among them must not lead our writing elsewhere. What is the user's own may be
/// kept behind links.
fn refuse_links(place: &Path, here: &Path) -> Result<(), CommandError> {
    let Ok(rest) = place.strip_prefix(here) else { return Ok(()) };
    let mut path = here.to_owned();
    for name in rest.components() {
        path.push(name);
        if let Ok(target) = fs::read_link(&path) {
            let [path, target] = [&path, &target].map(|path| safe(&path.to_string_lossy()));
            let what = format!(
                "`{path}` is a link to `{target}`, and the project may not choose what is written; remove the link, or use --user"
            );
            return Err(CommandError::Question { what });
        }
    }
    Ok(())
}

struct Done<'a> {
    place: &'a Path,
    /// As it stands in the file.
    found: Found,
    backup: Option<PathBuf>,
    is_new: bool,
}

fn report(args: &InstallArgs, output: &Output, done: &Done<'_>) -> Result<Outcome, CommandError> {
    let file = done.place.to_string_lossy();
    let wrote = done.is_new && !args.dry_run;
    match args.format.format() {
        Format::Json => output.json(&json!({
            "file": file,
            "written": wrote,
            "backup": done.backup.as_ref().map(|path| path.to_string_lossy()),
            "entry": done.found.text,
            "kept": done.found.kept,
        }))?,
        Format::Text => {
            let verb = match (wrote, done.is_new) {
                (true, _) => "Written to",
                (false, true) => "Would be written to",
                (false, false) => "Already in",
            };
            let mut lines = vec![format!("{verb} {}:", safe(&file))];
            lines.extend(done.found.text.lines().map(safe));
            if !done.found.kept.is_empty() {
                let kept: Vec<String> = done.found.kept.iter().map(|name| safe(name)).collect();
                let kept = kept.join(", ");
                lines.push(format!(
                    "Kept as it was there before: {kept}. Look at it: it changes what is started."
                ));
            }
            if let Some(backup) = &done.backup {
                lines.push(format!("What was there: {}", safe(&backup.to_string_lossy())));
            }
            output.lines(&lines)?;
        }
    }
    Ok(Outcome::Done)
}

fn words(args: &InstallArgs) -> Vec<String> {
    let mut words = vec!["mcp".to_owned()];
    for (flag, value) in [("--session", &args.subject.session), ("--agent", &args.subject.agent)] {
        words.extend(value.iter().flat_map(|value| [flag.to_owned(), value.clone()]));
    }
    words
}

/// The client's config file.
fn place(args: &InstallArgs, home: &Path, here: &Path) -> PathBuf {
    match (args.client, args.user) {
        (Client::Claude, false) => here.join(".mcp.json"),
        (Client::Claude, true) => {
            variable("CLAUDE_CONFIG_DIR").unwrap_or_else(|| home.to_owned()).join(".claude.json")
        }
        // One of a project it reads only once the project is trusted; the user's own it always does.
        (Client::Codex, _) => {
            variable("CODEX_HOME").unwrap_or_else(|| home.join(".codex")).join("config.toml")
        }
        (Client::Cursor, false) => here.join(".cursor/mcp.json"),
        (Client::Cursor, true) => home.join(".cursor/mcp.json"),
        (Client::Vscode, false) => here.join(".vscode/mcp.json"),
        (Client::Vscode, true) => variable("XDG_CONFIG_HOME")
            .unwrap_or_else(|| home.join(".config"))
            .join("Code/User/mcp.json"),
    }
}

/// A directory that a variable names.
fn variable(name: &str) -> Option<PathBuf> {
    std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_project_does_not_choose_what_is_written() {
        let here = tempfile::tempdir().unwrap();
        let here = here.path();
        fs::create_dir(here.join(".cursor")).unwrap();
        assert!(refuse_links(&here.join(".cursor/mcp.json"), here).is_ok());
        std::os::unix::fs::symlink("/elsewhere", here.join(".vscode")).unwrap();
        std::os::unix::fs::symlink("../victim.json", here.join(".mcp.json")).unwrap();
        for name in [".vscode/mcp.json", ".mcp.json"] {
            let refused = refuse_links(&here.join(name), here).unwrap_err().to_string();
            assert!(refused.contains("is a link to"), "{refused}");
        }
    }
}
