//! Stand-ins for an engine on a socket: what they answer, and what they are told.

use std::io::{Read as _, Write as _};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::Result;

/// What becomes of a request, by its first line.
pub(crate) enum Answer {
    Json(&'static str),
    /// These bytes and no more, on a connection that stays.
    Begun(&'static str),
}

/// Listens for as long as the test runs.
pub(crate) struct Fake {
    directory: tempfile::TempDir,
    heard: Arc<Mutex<Vec<String>>>,
}

impl Fake {
    pub(crate) fn start(answer: fn(&str) -> Answer) -> Result<Self> {
        let directory = tempfile::Builder::new().prefix("fake").tempdir()?;
        let listener = UnixListener::bind(directory.path().join("s"))?;
        let heard = Arc::new(Mutex::new(Vec::new()));
        let noted = Arc::clone(&heard);
        std::thread::spawn(move || {
            let mut open = Vec::new();
            for client in listener.incoming().flatten() {
                open.extend(serve(client, answer, &noted));
            }
        });
        Ok(Self { directory, heard })
    }

    pub(crate) fn socket(&self) -> PathBuf {
        self.directory.path().join("s")
    }

    /// The first line of every request so far.
    pub(crate) fn heard(&self) -> Vec<String> {
        self.heard.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// One request; the connection, if it is to stay open.
fn serve(
    mut client: UnixStream,
    answer: fn(&str) -> Answer,
    heard: &Mutex<Vec<String>>,
) -> Option<UnixStream> {
    let mut buffer = vec![0; 64 * 1024];
    // A connection that only looks who is there ends without a word.
    let length = client.read(&mut buffer).ok().filter(|length| *length > 0)?;
    let text = String::from_utf8_lossy(buffer.get(..length)?).into_owned();
    let line = text.lines().next().unwrap_or_default().to_owned();
    heard.lock().unwrap_or_else(PoisonError::into_inner).push(line.clone());
    match answer(&line) {
        Answer::Json(body) => {
            let lines = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nConnection: close";
            let whole = format!("{lines}\r\nContent-Length: {}\r\n\r\n{body}", body.len());
            drop(client.write_all(whole.as_bytes()));
            None
        }
        Answer::Begun(bytes) => {
            drop(client.write_all(bytes.as_bytes()));
            Some(client)
        }
    }
}

/// An engine that works and has nothing.
pub(crate) fn empty(request: &str) -> Answer {
    if request.contains("/version") {
        return Answer::Json(r#"{"ApiVersion": "1.41", "Version": "20.10.24"}"#);
    }
    if request.contains("/info") {
        return Answer::Json(r#"{"ID": "ANOTHER"}"#);
    }
    Answer::Json("[]")
}

/// The address of a socket, as `DOCKER_HOST` has it.
pub(crate) fn address(socket: &Path) -> String {
    format!("unix://{}", socket.display())
}
