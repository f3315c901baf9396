//! Which file of the host an attachment means: a path, a path in the sandbox, or a `file://` URL.
//!
//! Web addresses pass through untouched; everything else must stay in the workspace, or in one of
//! the directories where attachments are put.

use std::fmt;

use super::guard::{self, Purpose};
use crate::host_files::HostFiles;
use crate::posix;

/// An attachment and the places it may come from.
#[derive(Debug, Clone, Copy)]
pub struct Query<'a> {
    pub media: &'a str,
    /// The workspace on the host.
    pub root: &'a str,
    /// Where the sandbox sees the workspace.
    pub workdir: &'a str,
    /// Other host directories that attachments may come from.
    pub media_roots: &'a [&'a str],
    /// What `~` stands for.
    pub home: &'a str,
}

/// What an attachment means.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Media {
    /// Nothing was named.
    Nothing,
    /// An http(s) address.
    Web(String),
    /// A host path.
    File(String),
}

/// Why an attachment is refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Refusal {
    BadUrl { url: String },
    Path(guard::Refusal),
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::BadUrl { url } => write!(
                f,
                "`{}` names no file of this machine; write `file:///` and the path, percent-encoded",
                url.escape_debug()
            ),
            Self::Path(refusal) => refusal.fmt(f),
        }
    }
}

/// Finds the file that an attachment means.
pub fn decide(query: &Query<'_>, files: &impl HostFiles) -> Result<Media, Refusal> {
    let media = query.media.trim();
    if media.is_empty() {
        return Ok(Media::Nothing);
    }
    if has_scheme(media, "http://") || has_scheme(media, "https://") {
        return Ok(Media::Web(media.to_owned()));
    }
    let path = if is_file_url(media) {
        file_url_path(media, query.workdir)
            .ok_or_else(|| Refusal::BadUrl { url: media.to_owned() })?
    } else {
        media.to_owned()
    };
    let path = from_workdir(query, &path).unwrap_or(path);
    for root in query.media_roots {
        let inside =
            guard::Query { input: &path, working_directory: query.root, root, home: query.home };
        if guard::decide_by_text(&inside).is_ok() {
            let found = guard::decide(&inside, Purpose::Open, files).map_err(Refusal::Path)?;
            return Ok(Media::File(found.path));
        }
    }
    let inside = guard::Query {
        input: &path,
        working_directory: query.root,
        root: query.root,
        home: query.home,
    };
    let found = guard::decide(&inside, Purpose::Open, files).map_err(Refusal::Path)?;
    Ok(Media::File(found.path))
}

/// Says whether a text is a `file://` URL.
pub(crate) fn is_file_url(text: &str) -> bool {
    has_scheme(text, "file://")
}

fn has_scheme(text: &str, scheme: &str) -> bool {
    text.get(..scheme.len()).is_some_and(|start| start.eq_ignore_ascii_case(scheme))
}

/// The host path of a path below the workdir. Steps upwards are taken on the host side, where the
/// guard then sees them leave.
fn from_workdir(query: &Query<'_>, path: &str) -> Option<String> {
    let path = path.replace('\\', "/");
    let rest = posix::relative(&posix::normalize(query.workdir), &path)?;
    // `//etc` below a workdir of `/` is still below it.
    Some(posix::resolve(query.root, rest.trim_start_matches('/')))
}

/// The path of a `file://` URL, read as a browser reads it: steps upwards are taken before
/// percent-decoding, written plainly or encoded. `None` if the URL names another machine, hides a
/// slash outside the sandbox's own paths, or decodes to no text.
pub(crate) fn file_url_path(url: &str, workdir: &str) -> Option<String> {
    let rest = url.get("file://".len()..)?;
    let rest = rest.split(['?', '#']).next()?;
    if rest.contains(char::is_control) {
        return None;
    }
    let rest = rest.replace('\\', "/");
    let (host, path) = rest.split_at(rest.find('/')?);
    if !host.is_empty() && !host.eq_ignore_ascii_case("localhost") {
        return None;
    }
    let mut names: Vec<&str> = Vec::new();
    for name in path.split('/').filter(|name| !name.is_empty()) {
        match name.to_ascii_lowercase().replace("%2e", ".").as_str() {
            "." => {}
            ".." => {
                names.pop();
            }
            _ => names.push(name),
        }
    }
    let path = percent_decode(&format!("/{}", names.join("/")))?;
    // Below the workdir the guard sees through `..%2f`; elsewhere nobody needs an encoded slash.
    let hides_slash = names.iter().any(|name| name.to_ascii_lowercase().contains("%2f"));
    let in_workdir = posix::relative(&posix::normalize(workdir), &path).is_some();
    (in_workdir || !hides_slash).then_some(path)
}

fn percent_decode(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        if byte != b'%' {
            bytes.push(byte);
            continue;
        }
        let digit = |byte: Option<u8>| char::from(byte?).to_digit(16);
        let value = digit(rest.next())? * 16 + digit(rest.next())?;
        bytes.push(u8::try_from(value).ok()?);
    }
    String::from_utf8(bytes).ok()
}
