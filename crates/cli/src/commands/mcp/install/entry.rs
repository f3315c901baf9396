//! The entry in a client's config file: where it stands, and what of the file changes for it.
//!
//! Only the bytes of the entry change; comments, order and blanks of the rest stay. Of an entry that is there already,
//! only the program and its words change: variables and time limits are the user's. In a project's file that holds only
//! for an entry that starts our program: any other may have come with the project, with variables that change what our
//! program does, and is replaced as a whole.

use clawpen_rules::config::edit::{self, Keys};
use serde_json::{Value, json};
use toml_edit::{Array, DocumentMut, Item, Table, TableLike, value};

use crate::args::mcp::Client;

/// The table of servers in Codex' config.
const TOML_HOLDER: &str = "mcp_servers";

/// What is to be in the file.
#[derive(Debug)]
pub(super) struct Entry<'a> {
    pub(super) client: Client,
    pub(super) name: &'a str,
    pub(super) program: String,
    pub(super) words: Vec<String>,
    pub(super) file: FileOf,
}

/// Whose file it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FileOf {
    User,
    /// Anybody may have written it.
    Project,
}

/// The entry as it stands in a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Found {
    /// All of it, in the file's own form.
    pub(super) text: String,
    /// Members that are not ours and were kept.
    pub(super) kept: Vec<String>,
}

/// How a client writes its file.
enum Form {
    /// JSON as it stands in the book; the key that holds the servers.
    Json(&'static str),
    /// JSON with comments and commas at the end.
    JsonWithComments(&'static str),
    Toml,
}

impl Entry<'_> {
    const fn form(&self) -> Form {
        match self.client {
            Client::Claude => Form::Json("mcpServers"),
            Client::Cursor => Form::JsonWithComments("mcpServers"),
            Client::Vscode => Form::JsonWithComments("servers"),
            Client::Codex => Form::Toml,
        }
    }

    fn json(&self) -> Value {
        json!({ "type": "stdio", "command": self.program, "args": self.words })
    }

    /// The entry alone, for people.
    pub(super) fn shown(&self) -> String {
        match self.form() {
            Form::Toml => self.merged_toml("").unwrap_or_default(),
            Form::Json(holder) | Form::JsonWithComments(holder) => self.fresh(holder),
        }
    }

    /// A file with nothing else in it.
    fn fresh(&self, holder: &str) -> String {
        let shape = json!({ holder: { self.name: self.json() } });
        serde_json::to_string_pretty(&shape).unwrap_or_default()
    }

    /// The file with the entry in it, or why that cannot be.
    pub(super) fn merged_with(&self, old: Option<&str>) -> Result<String, String> {
        let old = old.unwrap_or_default();
        let (holder, plain) = match self.form() {
            Form::Toml => return self.merged_toml(old),
            Form::Json(holder) => (holder, old.to_owned()),
            Form::JsonWithComments(holder) => (holder, without_comments(old)),
        };
        if plain.trim().is_empty() && old.trim().is_empty() {
            return Ok(format!("{}\n", self.fresh(holder)));
        }
        let read: Value = serde_json::from_str(plain.trim_start_matches('\u{feff}'))
            .map_err(|error| format!("is not the JSON that its client reads ({error})"))?;
        if !read.is_object() {
            return Err("is no JSON object".to_owned());
        }
        match read.get(holder) {
            None | Some(Value::Object(_)) => {}
            Some(_) => return Err(format!("holds no object of servers in `{holder}`")),
        }
        let known = read.get(holder).and_then(|servers| servers.get(self.name));
        match known {
            Some(entry) if entry.is_object() && self.may_keep(entry) => {
                self.updated(old, holder, entry)
            }
            Some(_) | None => set(old, &[holder, self.name], &self.indented(old)),
        }
    }

    /// Whether what an entry holds besides is the user's.
    fn may_keep(&self, entry: &Value) -> bool {
        let is_ours = entry.get("command").and_then(Value::as_str) == Some(self.program.as_str());
        match self.file {
            FileOf::User => true,
            FileOf::Project => is_ours,
        }
    }

    /// What a file really says of us.
    pub(super) fn found_in(&self, text: &str) -> Option<Found> {
        let ours = |name: &str| ["type", "command", "args"].contains(&name);
        let holder = match self.form() {
            Form::Toml => {
                let file: DocumentMut = text.parse().ok()?;
                let entry = file.get(TOML_HOLDER)?.get(self.name)?;
                let names = entry.as_table_like()?.iter().map(|(name, _)| name.to_owned());
                let kept = names.filter(|name| !ours(name)).collect();
                let mut servers = Table::new();
                servers.set_implicit(true);
                servers.insert(self.name, entry.clone());
                let mut alone = DocumentMut::new();
                alone.insert(TOML_HOLDER, Item::Table(servers));
                return Some(Found { text: alone.to_string(), kept });
            }
            Form::Json(holder) | Form::JsonWithComments(holder) => holder,
        };
        let plain = match self.form() {
            Form::JsonWithComments(_) => without_comments(text),
            Form::Json(_) | Form::Toml => text.to_owned(),
        };
        let read: Value = serde_json::from_str(plain.trim_start_matches('\u{feff}')).ok()?;
        let entry = read.get(holder)?.get(self.name)?;
        let kept = entry.as_object()?.keys().filter(|name| !ours(name)).cloned().collect();
        let shape = json!({ holder: { self.name: entry } });
        Some(Found { text: serde_json::to_string_pretty(&shape).ok()?, kept })
    }

    /// The entry that is there, with our program and words.
    fn updated(&self, old: &str, holder: &str, entry: &Value) -> Result<String, String> {
        let mut text = old.to_owned();
        for (key, wanted) in [
            ("type", json!("stdio")),
            ("command", json!(self.program)),
            ("args", json!(self.words)),
        ] {
            if entry.get(key) != Some(&wanted) {
                text = set(&text, &[holder, self.name, key], &wanted.to_string())?;
            }
        }
        Ok(text)
    }

    /// The entry as it fits among the others: on lines of its own, if the file has lines.
    fn indented(&self, old: &str) -> String {
        if !old.trim().contains('\n') {
            return self.json().to_string();
        }
        let pretty = serde_json::to_string_pretty(&self.json()).unwrap_or_default();
        pretty.replace('\n', "\n    ")
    }

    fn merged_toml(&self, old: &str) -> Result<String, String> {
        let mut file: DocumentMut =
            old.parse().map_err(|error| format!("is no TOML ({})", one_line(&error)))?;
        let holder = file.entry(TOML_HOLDER).or_insert_with(|| {
            let mut table = Table::new();
            table.set_implicit(true);
            Item::Table(table)
        });
        let no_table = |what: &str| format!("holds no table in `{what}`");
        let servers = holder.as_table_like_mut().ok_or_else(|| no_table(TOML_HOLDER))?;
        if servers.get(self.name).is_none_or(Item::is_none) {
            servers.insert(self.name, Item::Table(Table::new()));
        }
        let entry = servers.get_mut(self.name).and_then(Item::as_table_like_mut);
        let entry = entry.ok_or_else(|| no_table(&format!("{TOML_HOLDER}.{}", self.name)))?;
        put(entry, "command", self.program.as_str().into());
        put(entry, "args", self.words.iter().map(String::as_str).collect::<Array>().into());
        let mut text = file.to_string();
        if !text.ends_with('\n') {
            text.push('\n');
        }
        Ok(text)
    }
}

/// Sets a value; what stands around it, and a value that is the same already, stays.
fn put(table: &mut dyn TableLike, key: &str, wanted: toml_edit::Value) {
    let plain = |value: &toml_edit::Value| {
        let mut value = value.clone();
        value.decor_mut().clear();
        value.to_string()
    };
    match table.get_mut(key) {
        Some(Item::Value(old)) if plain(old) == plain(&wanted) => {}
        Some(Item::Value(old)) => {
            let around = old.decor().clone();
            *old = wanted;
            *old.decor_mut() = around;
        }
        _ => {
            table.insert(key, value(wanted));
        }
    }
}

fn one_line(error: &toml_edit::TomlError) -> String {
    error.to_string().split_whitespace().collect::<Vec<_>>().join(" ")
}

fn set(text: &str, keys: &[&str], value: &str) -> Result<String, String> {
    edit::set_with(text, keys, value, Keys::Quoted)
        .map_err(|error| format!("cannot be changed: {error}"))
}

/// The text with blanks in the place of comments and of commas that nothing follows; as long as before.
fn without_comments(text: &str) -> String {
    let mut plain: Vec<u8> = text.as_bytes().to_vec();
    let mut at = 0;
    let mut comma = None;
    while let Some(byte) = plain.get(at).copied() {
        let length = match byte {
            b'"' => string_length(plain.get(at..).unwrap_or_default()),
            b'/' => {
                let length = comment_length(plain.get(at..).unwrap_or_default());
                if length > 1 {
                    blank(&mut plain, at, length);
                    at += length;
                    continue;
                }
                1
            }
            _ => 1,
        };
        match byte {
            b',' => comma = Some(at),
            b'}' | b']' => {
                if let Some(comma) = comma.take() {
                    blank(&mut plain, comma, 1);
                }
            }
            other if other.is_ascii_whitespace() => {}
            _ => comma = None,
        }
        at += length;
    }
    String::from_utf8_lossy(&plain).into_owned()
}

fn blank(bytes: &mut [u8], at: usize, length: usize) {
    for byte in bytes.iter_mut().skip(at).take(length).filter(|byte| **byte != b'\n') {
        *byte = b' ';
    }
}

fn string_length(bytes: &[u8]) -> usize {
    let mut is_escaped = false;
    for (index, byte) in bytes.iter().enumerate().skip(1) {
        match (is_escaped, byte) {
            (true, _) => is_escaped = false,
            (false, b'\\') => is_escaped = true,
            (false, b'"') => return index + 1,
            (false, _) => {}
        }
    }
    bytes.len()
}

fn comment_length(bytes: &[u8]) -> usize {
    if bytes.starts_with(b"//") {
        return bytes.iter().position(|byte| *byte == b'\n').unwrap_or(bytes.len());
    }
    if bytes.starts_with(b"/*") {
        let end = bytes.windows(2).skip(2).position(|pair| pair == b"*/");
        return end.map_or(bytes.len(), |end| end + 4);
    }
    1
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(client: Client) -> Entry<'static> {
        let words = vec!["mcp".to_owned()];
        let (program, file) = ("/bin/clawpen".to_owned(), FileOf::User);
        Entry { client, name: "clawpen", program, words, file }
    }

    #[test]
    fn an_entry_that_came_with_a_project_is_replaced_as_a_whole() {
        let planted = "{\"mcpServers\": {\"clawpen\": {\"command\": \"./clawpen\", \"env\": {\"LD_PRELOAD\": \
                       \"./a.so\", \"OPENCLAW_STATE_DIR\": \".\"}, \"url\": \"http://x\", \"headers\": {}}}}";
        for client in [Client::Claude, Client::Cursor] {
            let ours = Entry { file: FileOf::Project, ..entry(client) };
            let new = ours.merged_with(Some(planted)).unwrap();
            let read: Value = serde_json::from_str(&new).unwrap();
            assert_eq!(read, json!({ "mcpServers": { "clawpen": ours.json() } }));
            assert_eq!(ours.found_in(&new).unwrap().kept, Vec::<String>::new());
            assert_eq!(ours.merged_with(Some(&new)).unwrap(), new);
        }
    }

    #[test]
    fn what_is_shown_is_what_the_file_says_and_what_was_kept_is_named() {
        let kept = "{\"mcpServers\": {\"clawpen\": {\"command\": \"/bin/clawpen\", \"env\": {\"A\": \"1\"}}}}";
        let ours = Entry { file: FileOf::Project, ..entry(Client::Cursor) };
        let found = ours.found_in(&ours.merged_with(Some(kept)).unwrap()).unwrap();
        assert_eq!(found.kept, ["env"]);
        let read: Value = serde_json::from_str(&found.text).unwrap();
        assert_eq!(read["mcpServers"]["clawpen"]["env"], json!({ "A": "1" }));
        let ours = entry(Client::Codex);
        let old = "[mcp_servers.clawpen]\ncommand = \"old\"\n[mcp_servers.clawpen.env]\nA = \"1\"\n[z]\nb = 1\n";
        let found = ours.found_in(&ours.merged_with(Some(old)).unwrap()).unwrap();
        assert_eq!(found.kept, ["env"]);
        assert!(found.text.contains("A = \"1\"") && !found.text.contains("[z]"), "{}", found.text);
    }

    /// Merges, and merges again: the second time changes nothing.
    #[track_caller]
    fn check(client: Client, old: &str, expected: &str) {
        let new = entry(client).merged_with(Some(old)).unwrap();
        assert_eq!(new, expected);
        assert_eq!(entry(client).merged_with(Some(&new)).unwrap(), new);
    }

    #[test]
    fn a_server_is_added_and_every_other_byte_stays() {
        check(
            Client::Claude,
            "{\"theme\": \"dark\", \"mcpServers\": {\"other\": {\"command\": \"x\"}}}",
            "{\"theme\": \"dark\", \"mcpServers\": {\"other\": {\"command\": \"x\"}, \"clawpen\": \
             {\"type\":\"stdio\",\"command\":\"/bin/clawpen\",\"args\":[\"mcp\"]}}}",
        );
        check(
            Client::Vscode,
            "{\n  // mine\n  \"inputs\": [], /* none */\n  \"servers\": {\n    \"a\": {}, // first\n  },\n}\n",
            "{\n  // mine\n  \"inputs\": [], /* none */\n  \"servers\": {\n    \"a\": {},\n    \"clawpen\": {\n      \"type\": \
             \"stdio\",\n      \"command\": \"/bin/clawpen\",\n      \"args\": [\n        \"mcp\"\n      ]\n    }, // first\n  },\n}\n",
        );
        for client in [Client::Claude, Client::Cursor, Client::Vscode] {
            let fresh = entry(client).merged_with(None).unwrap();
            let holder = if client == Client::Vscode { "servers" } else { "mcpServers" };
            let read: Value = serde_json::from_str(&fresh).unwrap();
            assert_eq!(read, json!({ holder: { "clawpen": entry(client).json() } }));
            assert_eq!(entry(client).merged_with(Some(&fresh)).unwrap(), fresh);
        }
    }

    #[test]
    fn what_the_user_added_to_our_entry_stays() {
        check(
            Client::Cursor,
            "{\"mcpServers\": {\"clawpen\": {\"command\": \"old\", /* why */ \"env\": {\"A\": \"1\"}}}}",
            "{\"mcpServers\": {\"clawpen\": {\"command\": \"/bin/clawpen\", /* why */ \"env\": {\"A\": \"1\"}, \"type\": \
             \"stdio\", \"args\": [\"mcp\"]}}}",
        );
        check(
            Client::Codex,
            "[mcp_servers.clawpen]\ncommand = \"old\" # was here\ntool_timeout_sec = 9\n[mcp_servers.clawpen.env]\nA = \"1\"\n[z]\nb = 1\n",
            "[mcp_servers.clawpen]\ncommand = \"/bin/clawpen\" # was here\ntool_timeout_sec = 9\nargs = [\"mcp\"]\n[mcp_servers.clawpen.env]\nA = \"1\"\n[z]\nb = 1\n",
        );
    }

    #[test]
    fn a_file_that_its_client_could_not_read_is_left_alone() {
        for (client, old) in [
            (Client::Claude, "// a\n{}"),
            (Client::Claude, "{\"a\": 1,}"),
            (Client::Claude, "[]"),
            (Client::Claude, "{"),
            (Client::Cursor, "{\"mcpServers\": 1}"),
            (Client::Cursor, "{a: 1}"),
            (Client::Cursor, "{'a': 1}"),
            (Client::Vscode, "{\"a\": 1 /* never ends }"),
            (Client::Vscode, "{\"a\": \"never ends }"),
            (Client::Vscode, "// only a comment"),
            (Client::Codex, "[mcp_servers"),
            (Client::Codex, "mcp_servers = 1"),
            (Client::Codex, "[mcp_servers]\nclawpen = 1"),
            (Client::Codex, "a = 1\na = 2"),
        ] {
            assert!(entry(client).merged_with(Some(old)).is_err(), "{client:?} {old}");
        }
    }

    #[test]
    fn a_table_is_added_behind_the_others() {
        let table = "[mcp_servers.clawpen]\ncommand = \"/bin/clawpen\"\nargs = [\"mcp\"]\n";
        check(Client::Codex, "", table);
        let old = "model = \"x\" # mine\n\n[mcp_servers.a]\ncommand = \"a\"\n";
        check(Client::Codex, old, &format!("{old}\n{table}"));
        check(
            Client::Codex,
            "mcp_servers = { a = { command = \"a\" } }\n",
            "mcp_servers = { a = { command = \"a\" } , clawpen = { command = \"/bin/clawpen\", args = [\"mcp\"] } }\n",
        );
    }

    #[test]
    fn comments_become_blanks_and_strings_stay() {
        for (text, expected) in [
            (
                "{\"a\": \"// no /* */\", // yes\n\"b\": 1,}",
                "{\"a\": \"// no /* */\",       \n\"b\": 1 }",
            ),
            ("[1, /* , */ ]", "[1          ]"),
            ("\"\\\"//\" // x", "\"\\\"//\"     "),
            ("/", "/"),
        ] {
            assert_eq!(without_comments(text), expected);
        }
    }
}
