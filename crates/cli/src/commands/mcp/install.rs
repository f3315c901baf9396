//! `clawpen mcp install`: one entry in a client's config file, the rest of it untouched.
//!
//! A file that cannot be read as what it should be is left alone, and the entry is shown to be put in by hand. What was
//! there before is kept beside it.

use std::fs;
use std::io::{self, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use serde_json::{Map, Value, json};

use super::super::CommandError;
use crate::args::Format;
use crate::args::mcp::{Client, InstallArgs};
use crate::exit::Outcome;
use crate::output::{Output, safe};

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
    match (args.client, args.user) {
        (Client::Codex, _) | (_, true) => {}
        (Client::Claude | Client::Cursor | Client::Vscode, false) => refuse_links(&place, &here)?,
    }
    let old = match fs::read_to_string(&place) {
        Ok(text) => Some(text),
        Err(error) if error.kind() == io::ErrorKind::NotFound => None,
        Err(cause) => {
            return Err(CommandError::Read { path: safe(&place.to_string_lossy()), cause });
        }
    };
    let entry = Entry { client: args.client, name: &args.name, program, words: words(args) };
    let text = entry.merged_with(old.as_deref()).map_err(|problem| CommandError::Question {
        what: format!(
            "{} {problem}; it was left as it is. Put this in by hand:\n{}",
            safe(&place.to_string_lossy()),
            entry.shown()
        ),
    })?;
    let is_new = old.as_deref() != Some(text.as_str());
    let backup = match (&old, args.dry_run || !is_new) {
        (_, true) => None,
        (old, false) => write(&place, old.as_deref(), &text)?,
    };
    report(args, output, &Done { place: &place, entry: &entry, backup, is_new })
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
    entry: &'a Entry<'a>,
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
            "entry": done.entry.shown(),
        }))?,
        Format::Text => {
            let verb = match (wrote, done.is_new) {
                (true, _) => "Written to",
                (false, true) => "Would be written to",
                (false, false) => "Already in",
            };
            let mut lines = vec![format!("{verb} {}:", safe(&file)), done.entry.shown()];
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
        (Client::Claude, true) => home.join(".claude.json"),
        // It has one for the user only.
        (Client::Codex, _) => std::env::var_os("CODEX_HOME")
            .map_or_else(|| home.join(".codex"), PathBuf::from)
            .join("config.toml"),
        (Client::Cursor, false) => here.join(".cursor/mcp.json"),
        (Client::Cursor, true) => home.join(".cursor/mcp.json"),
        (Client::Vscode, false) => here.join(".vscode/mcp.json"),
        (Client::Vscode, true) => home.join(".config/Code/User/mcp.json"),
    }
}

/// What is to be in the file.
struct Entry<'a> {
    client: Client,
    name: &'a str,
    program: String,
    words: Vec<String>,
}

impl Entry<'_> {
    /// The key that holds the servers, for clients that speak JSON.
    const fn holder(&self) -> Option<&'static str> {
        match self.client {
            Client::Claude | Client::Cursor => Some("mcpServers"),
            Client::Vscode => Some("servers"),
            Client::Codex => None,
        }
    }

    fn json(&self) -> Value {
        json!({ "type": "stdio", "command": self.program, "args": self.words })
    }

    fn toml(&self) -> String {
        let quoted = |text: &String| Value::String(text.clone()).to_string();
        let words: Vec<String> = self.words.iter().map(quoted).collect();
        format!(
            "[mcp_servers.{}]\ncommand = {}\nargs = [{}]\n",
            self.name,
            quoted(&self.program),
            words.join(", ")
        )
    }

    /// The entry alone, for people.
    fn shown(&self) -> String {
        match self.holder() {
            None => self.toml(),
            Some(holder) => {
                let shape = json!({ holder: { self.name: self.json() } });
                serde_json::to_string_pretty(&shape).unwrap_or_default()
            }
        }
    }

    /// The file with the entry in it, or why that cannot be.
    fn merged_with(&self, old: Option<&str>) -> Result<String, &'static str> {
        let old = old.unwrap_or_default();
        let Some(holder) = self.holder() else { return Ok(self.merged_toml(old)) };
        let mut root = if old.trim().is_empty() {
            Map::new()
        } else {
            match serde_json::from_str(old) {
                Ok(Value::Object(root)) => root,
                Ok(_) => return Err("is no JSON object"),
                Err(_) => return Err("is not plain JSON (comments?)"),
            }
        };
        let servers = root.entry(holder).or_insert_with(|| json!({}));
        let Value::Object(servers) = servers else { return Err("holds no object of servers") };
        servers.insert(self.name.to_owned(), self.json());
        let text = serde_json::to_string_pretty(&Value::Object(root)).unwrap_or_default();
        Ok(format!("{text}\n"))
    }

    /// The table at its old place, or at the end. Everything else stays byte for byte.
    fn merged_toml(&self, old: &str) -> String {
        let header = format!("[mcp_servers.{}]", self.name);
        let below = format!("[mcp_servers.{}.", self.name);
        let mut kept = String::new();
        let mut is_ours = false;
        let mut is_placed = false;
        for line in old.split_inclusive('\n') {
            let start = line.trim_start();
            if start.starts_with('[') {
                is_ours = start.starts_with(&header) || start.starts_with(&below);
                if is_ours && !is_placed {
                    is_placed = true;
                    kept.push_str(&self.toml());
                    kept.push('\n');
                }
            }
            if !is_ours {
                kept.push_str(line);
            }
        }
        if !is_placed {
            if !kept.is_empty() && !kept.ends_with('\n') {
                kept.push('\n');
            }
            if !kept.is_empty() && !kept.ends_with("\n\n") {
                kept.push('\n');
            }
            kept.push_str(&self.toml());
        }
        kept.truncate(kept.trim_end().len());
        kept.push('\n');
        kept
    }
}

/// Writes the file in one step, with what was there kept beside it.
fn write(place: &Path, old: Option<&str>, text: &str) -> Result<Option<PathBuf>, CommandError> {
    let failed = |path: &Path| {
        let path = safe(&path.to_string_lossy());
        move |cause| CommandError::Write { path, cause }
    };
    if let Some(directory) = place.parent() {
        fs::create_dir_all(directory).map_err(failed(directory))?;
    }
    // Whoever keeps such files elsewhere has links here: the link stays, its file changes.
    let place = fs::canonicalize(place).unwrap_or_else(|_missing| place.to_owned());
    let backup = match old {
        None => None,
        Some(old) => {
            let backup = free_name(&place);
            let mode = fs::metadata(&place).map_err(failed(&place))?.permissions();
            put(&backup, old, mode.clone()).map_err(failed(&backup))?;
            Some((backup, mode))
        }
    };
    let mode = backup.as_ref().map_or(fs::Permissions::from_mode(0o600), |(_, mode)| mode.clone());
    let mut fresh = place.clone().into_os_string();
    fresh.push(format!(".new-{}", std::process::id()));
    let fresh = PathBuf::from(fresh);
    put(&fresh, text, mode).map_err(failed(&fresh))?;
    fs::rename(&fresh, &place).map_err(failed(&place))?;
    Ok(backup.map(|(path, _)| path))
}

fn free_name(place: &Path) -> PathBuf {
    let name = |number: u16| {
        let mut name = place.as_os_str().to_owned();
        name.push(format!(".bak{number}"));
        PathBuf::from(name)
    };
    (1..=u16::MAX).map(name).find(|path| !path.exists()).unwrap_or_else(|| name(0))
}

fn put(path: &Path, text: &str, mode: fs::Permissions) -> io::Result<()> {
    let mut file = fs::OpenOptions::new().write(true).create_new(true).open(path)?;
    file.set_permissions(mode)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(client: Client) -> Entry<'static> {
        let words = vec!["mcp".to_owned()];
        Entry { client, name: "clawpen", program: "/bin/clawpen".to_owned(), words }
    }

    #[test]
    fn a_server_is_added_and_everything_else_stays() {
        let old = "{\"theme\": \"dark\", \"mcpServers\": {\"other\": {\"command\": \"x\"}}}";
        let new = entry(Client::Claude).merged_with(Some(old)).unwrap();
        let read: Value = serde_json::from_str(&new).unwrap();
        assert_eq!(read["theme"], "dark");
        assert_eq!(read["mcpServers"]["other"]["command"], "x");
        assert_eq!(read["mcpServers"]["clawpen"]["args"], json!(["mcp"]));
        assert_eq!(entry(Client::Claude).merged_with(Some(&new)).unwrap(), new);
        let fresh: Value =
            serde_json::from_str(&entry(Client::Vscode).merged_with(None).unwrap()).unwrap();
        assert_eq!(fresh["servers"]["clawpen"]["type"], "stdio");
    }

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

    #[test]
    fn a_file_that_is_no_plain_json_is_left_alone() {
        for old in ["// a\n{}", "[]", "{\"mcpServers\": 1}", "{"] {
            assert!(entry(Client::Cursor).merged_with(Some(old)).is_err(), "{old}");
        }
    }

    #[test]
    fn a_table_is_added_or_replaced_in_its_place() {
        let table = "[mcp_servers.clawpen]\ncommand = \"/bin/clawpen\"\nargs = [\"mcp\"]\n";
        let codex = entry(Client::Codex);
        assert_eq!(codex.merged_with(None).unwrap(), table);
        let old = "model = \"x\" # mine\n\n[mcp_servers.a]\ncommand = \"a\"";
        let new = codex.merged_with(Some(old)).unwrap();
        assert_eq!(new, format!("{old}\n\n{table}"));
        assert_eq!(codex.merged_with(Some(&new)).unwrap(), new);
        let stale = "[mcp_servers.clawpen]\ncommand = \"old\"\n[mcp_servers.clawpen.env]\nA = \"1\"\n[z]\nb = 1\n";
        assert_eq!(codex.merged_with(Some(stale)).unwrap(), format!("{table}\n[z]\nb = 1\n"));
    }
}
