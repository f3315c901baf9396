//! One client's server: its session, its tools, its files.

use std::fmt::Write as _;
use std::pin::Pin;
use std::sync::Arc;

use clawpen_engine::call::{
    Job, PolicyOf, RecordDoor, Stop, ToolCallError, ToolRequest, Watch, Who,
};
use clawpen_rules::elevated::Sender;
use clawpen_rules::tools::image::Image;
use rmcp::ServerHandler;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ErrorData, Implementation,
    ListResourceTemplatesResult, ListResourcesResult, ListToolsResult, PaginatedRequestParams,
    ProgressNotificationParam, ProgressToken, ReadResourceRequestParams, ReadResourceResponse,
    ReadResourceResult, Resource, ResourceContents, ResourceTemplate, ServerCapabilities,
    ServerConfig,
};
use rmcp::service::{Peer, RequestContext, RoleServer};
use serde_json::{Value, json};
use tokio::sync::mpsc;

use super::progress::{self, Piece, Progress};
use super::{Admin, Backroom, Settings, admin, answer, elicit};

/// The channel of `tools.elevated.allowFrom` for this door.
const PROVIDER: &str = "mcp";
/// Over HTTP, the header that names a session.
const SESSION_HEADER: &str = "clawpen-session";
/// Where the workspace's files are found as resources.
const FILES: &str = "pen://workspace/";
/// Files listed.
const LISTED: usize = 500;
/// The largest file that is handed out.
const LARGEST: u64 = 4 << 20;
/// The longest session name made of a client's name.
const NAME: usize = 40;

/// Characters that are kept of a client's name.
const LABEL: usize = 100;

/// Serves one client, or all clients of one HTTP session.
#[derive(Debug, Clone)]
pub struct Server {
    backroom: Backroom,
    settings: Arc<Settings>,
}

impl Server {
    pub fn new(backroom: Backroom, settings: Settings) -> Self {
        Self { backroom, settings: Arc::new(settings) }
    }

    /// Whose session a client is. Its name is what it says of itself: enough for a session of its own, never an id.
    fn who(&self, context: &RequestContext<RoleServer>) -> Who {
        let client = context.client_info().map(|info| info.name);
        // What the door was opened with comes first. A client only ever names a session of this door's own: a person's
        // session may have been let out of the sandbox, and another agent may have a looser one.
        let agent = self.settings.agent.clone();
        let named = || header(context, SESSION_HEADER).or_else(|| client.clone());
        let session = self.settings.session.clone();
        let session = session.or_else(|| Some(session_of(&named().unwrap_or_default())));
        Who {
            session,
            agent,
            backend: self.settings.backend.clone(),
            provider: PROVIDER,
            // The door's own word: the user at the other end of the pipe, or whoever has the token. The client's name
            // is the client's word, and opens nothing.
            sender: Sender { id: Some(self.settings.caller.clone()), ..Sender::default() },
            client: Some(label(client.as_deref().unwrap_or_default())),
            agent_process: self.settings.agent_process,
            record: RecordDoor::Another,
            policy: PolicyOf::Agent,
        }
    }

    /// Does something that blocks, off the threads that serve clients.
    async fn in_back<T: Send + 'static>(
        &self,
        job: impl FnOnce(&clawpen_engine::call::Desk) -> T + Send + 'static,
    ) -> Result<T, ErrorData> {
        let gone = |what: &str| ErrorData::internal_error(what.to_owned(), None);
        let permit = Arc::clone(&self.backroom.room).acquire_owned().await;
        let permit = permit.map_err(|_closed| gone("the server is closing"))?;
        let desk = Arc::clone(&self.backroom.desk);
        let done = tokio::task::spawn_blocking(move || {
            let value = job(&desk);
            drop(permit);
            value
        });
        done.await.map_err(|_panic| gone("the call ended unexpectedly"))
    }

    async fn run(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResult, ErrorData> {
        let who = self.who(&context);
        // Each call that waits holds descriptors and its arguments.
        let Ok(_waits) = Arc::clone(&self.backroom.queue).try_acquire_owned() else {
            let busy = "too many calls at once; try again when some have ended";
            return Err(ErrorData::internal_error(busy, None));
        };
        let stop =
            Stop::new().map_err(|error| ErrorData::internal_error(error.to_string(), None))?;
        // Whoever drops this future has left: the command must not stay.
        let leaving = Leaving(stop.clone());
        let token = context.meta.get_progress_token();
        let (to, mut from) = mpsc::channel(progress::ROOM);
        let (ask, mut asked) = mpsc::channel(1);
        let arguments = Value::Object(request.arguments.unwrap_or_default());
        let watched = token.is_some();
        let caller = who.clone();
        let call = self.in_back(move |desk| {
            let progress = Progress::new(to, ask);
            let mut progress = if watched { progress } else { progress.unwatched() };
            let tool = request.name.as_ref();
            let watch: &mut dyn Watch = &mut progress;
            let mut request = ToolRequest { tool, arguments: &arguments, stop: &stop, watch };
            desk.call(&caller, &mut request)
        });
        tokio::pin!(call);
        let mut is_open = true;
        // At most one notification is on its way, and nothing waits for it: a client that takes none still gets its
        // result, and can still cancel.
        let mut note = Note::None;
        // Ends with the call: a question that was answered elsewhere is not waited for.
        let mut elicited = elicit::Elicited::default();
        let done = loop {
            tokio::select! {
                done = &mut call => break done?,
                () = context.ct.cancelled(), if is_open => {
                    is_open = false;
                    leaving.0.pull();
                }
                () = note.sent() => note = Note::None,
                Some(pending) = asked.recv() => {
                    if let Some(token) = token.as_ref().filter(|_| note.is_none()) {
                        let piece = Piece { written: 0, text: elicit::note(&pending) };
                        note = Note::new(context.peer.clone(), token.clone(), piece);
                    }
                    elicited.put(&self.backroom.desk, (&context.peer, &who), pending);
                }
                Some(piece) = from.recv(), if note.is_none() => {
                    if let Some(token) = &token {
                        note = Note::new(context.peer.clone(), token.clone(), piece);
                    }
                }
            }
        };
        drop(elicited);
        Ok(answer::result(done))
    }
}

/// A notification on its way to a client.
enum Note {
    None,
    Sending(Pin<Box<dyn Future<Output = ()> + Send>>),
}

impl Note {
    fn new(peer: Peer<RoleServer>, token: ProgressToken, piece: Piece) -> Self {
        let Piece { written, text } = piece;
        let mut note = ProgressNotificationParam::new(token, as_float(written));
        note.message = Some(text);
        Self::Sending(Box::pin(async move {
            // A client that does not listen still gets its result.
            let _sent = peer.notify_progress(note).await;
        }))
    }

    const fn is_none(&self) -> bool {
        matches!(self, Self::None)
    }

    /// Comes to its end when the notification was taken; never if there is none.
    async fn sent(&mut self) {
        match self {
            Self::None => std::future::pending().await,
            Self::Sending(sending) => sending.await,
        }
    }
}

/// A client's name, as people see it.
fn label(name: &str) -> String {
    let name: String = name.trim().chars().take(LABEL).collect();
    if name.is_empty() { "a client without a name".to_owned() } else { name }
}

/// A header of the HTTP request, if there is one and it says something.
fn header(context: &RequestContext<RoleServer>, name: &str) -> Option<String> {
    let head = context.extensions.get::<http::request::Parts>()?;
    let value = head.headers.get(name)?.to_str().ok()?.trim();
    (!value.is_empty()).then(|| value.to_owned())
}

/// Ends a call when its client is gone.
struct Leaving(Stop);

impl Drop for Leaving {
    fn drop(&mut self) {
        self.0.pull();
    }
}

/// Exact up to 2^53 bytes.
#[expect(clippy::cast_precision_loss, reason = "progress is for people")]
const fn as_float(count: u64) -> f64 {
    count as f64
}

/// The session of a client that names itself.
fn session_of(client: &str) -> String {
    let mut name = String::new();
    for character in client.trim().chars() {
        let next =
            if character.is_ascii_alphanumeric() { character.to_ascii_lowercase() } else { '-' };
        if next != '-' || !name.ends_with('-') && !name.is_empty() {
            name.push(next);
        }
        if name.len() >= NAME {
            break;
        }
    }
    let name = name.trim_end_matches('-');
    if name.is_empty() { "mcp".to_owned() } else { format!("mcp-{name}") }
}

/// The path of a resource below the workspace.
fn path_of(uri: &str) -> Option<String> {
    let path = uri.strip_prefix(FILES)?;
    let mut bytes = Vec::new();
    let mut rest = path.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        rest = after;
        if *first != b'%' {
            bytes.push(*first);
            continue;
        }
        let digits = std::str::from_utf8(rest.get(..2)?).ok()?;
        bytes.push(u8::from_str_radix(digits, 16).ok()?);
        rest = rest.get(2..)?;
    }
    let path = String::from_utf8(bytes).ok()?;
    // Where it leads is the supervisor's business; a NUL is no path at all.
    (!path.is_empty() && !path.contains('\0')).then_some(path)
}

/// The address of a file below the workspace.
fn uri_of(path: &str) -> String {
    let mut uri = FILES.to_owned();
    for byte in path.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' | b'/' => {
                uri.push(char::from(byte));
            }
            // Writing to a text cannot fail.
            other => drop(write!(uri, "%{other:02X}")),
        }
    }
    uri
}

fn refused(error: &ToolCallError) -> ErrorData {
    ErrorData::invalid_request(error.for_model(), Some(json!({ "code": error.code() })))
}

impl ServerHandler for Server {
    fn get_info(&self) -> ServerConfig {
        let capabilities = ServerCapabilities::builder().enable_tools().enable_resources().build();
        ServerConfig::new(capabilities)
            .with_server_info(Implementation::new("clawpen", env!("CARGO_PKG_VERSION")))
            .with_instructions(
                "These tools act in a sandbox: commands run there, and paths are those of its workspace. What a tool \
                 refuses, it refuses with the rule and the change that would allow it.",
            )
    }

    async fn list_tools(
        &self,
        _request: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        let who = self.who(&context);
        let offered = self.in_back(move |desk| desk.offered(&who)).await?;
        let offered = offered.map_err(|error| refused(&error))?;
        let mut tools: Vec<_> = offered.into_iter().map(answer::tool).collect();
        if self.settings.admin == Admin::Open {
            let who = self.who(&context);
            let jobs = self.in_back(move |desk| desk.open_jobs(&who)).await?;
            tools.extend(admin::tools(jobs.map_err(|error| refused(&error))?));
        }
        Ok(ListToolsResult::with_all_items(tools))
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        if self.settings.admin == Admin::Open
            && let Some(job) = Job::parse(&request.name)
        {
            let who = self.who(&context);
            let done = self.in_back(move |desk| desk.manage(&who, job)).await?;
            return Ok(admin::result(done).into());
        }
        Ok(self.run(request, context).await?.into())
    }

    async fn list_resources(
        &self,
        _request: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListResourcesResult, ErrorData> {
        let who = self.who(&context);
        let files = self.in_back(move |desk| desk.files(&who, LISTED)).await?;
        let files = files.map_err(|error| refused(&error))?;
        let resources = files.into_iter().map(|name| Resource::new(uri_of(&name), name));
        Ok(ListResourcesResult::with_all_items(resources.collect()))
    }

    async fn list_resource_templates(
        &self,
        _request: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListResourceTemplatesResult, ErrorData> {
        let template = ResourceTemplate::new(format!("{FILES}{{+path}}"), "workspace file");
        Ok(ListResourceTemplatesResult::with_all_items(vec![template]))
    }

    async fn read_resource(
        &self,
        request: ReadResourceRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<ReadResourceResponse, ErrorData> {
        let uri = request.uri;
        let unknown = || {
            let what = format!("`{uri}` is no file of the workspace; write {FILES}path");
            ErrorData::resource_not_found(what, None)
        };
        let path = path_of(&uri).ok_or_else(unknown)?;
        let who = self.who(&context);
        let read = self.in_back(move |desk| desk.file(&who, &path, LARGEST)).await?;
        let bytes = read.map_err(|error| match error {
            ToolCallError::Sandbox { .. } => ErrorData::resource_not_found(error.for_model(), None),
            error => refused(&error),
        })?;
        let Some(bytes) = bytes else {
            let what = format!("`{uri}` is larger than {LARGEST} bytes; use the tool `read`");
            return Err(ErrorData::invalid_request(what, None));
        };
        let contents = match String::from_utf8(bytes) {
            Ok(text) => ResourceContents::text(text, uri),
            Err(binary) => ResourceContents::BlobResourceContents {
                uri,
                mime_type: Image::sniff(binary.as_bytes()).map(|kind| kind.mime_type().to_owned()),
                blob: answer::blob(binary.as_bytes()),
                meta: None,
            },
        };
        Ok(ReadResourceResult::new(vec![contents]).into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_gets_a_session_of_its_own() {
        for (client, expected) in [
            ("claude-code", "mcp-claude-code"),
            ("Visual Studio Code", "mcp-visual-studio-code"),
            ("", "mcp"),
            ("../../x:y", "mcp-x-y"),
            // Nobody gets a session that is a person's by naming it.
            ("main", "mcp-main"),
            ("agent:main:main", "mcp-agent-main-main"),
            ("\u{202e}", "mcp"),
        ] {
            assert_eq!(session_of(client), expected);
        }
        assert!(session_of(&"a".repeat(500)).len() < 50);
    }

    #[test]
    fn addresses_and_paths_are_each_others_inverse() {
        for path in ["a.txt", "dir/ä b.md", "100%", "a#b?c"] {
            assert_eq!(path_of(&uri_of(path)).as_deref(), Some(path));
        }
        for bad in [
            "file:///etc/passwd",
            FILES,
            "pen://workspace/%",
            "pen://workspace/%00",
            "pen://workspace/%zz",
        ] {
            assert_eq!(path_of(bad), None, "{bad}");
        }
    }
}
