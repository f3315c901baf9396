//! The engine's API without anything of ours: what a container costs at least.

use std::io::{self, Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

use clawpen_engine::backend::docker::locate;
use serde_json::{Value, json};

use super::{BenchError, system};

/// Makes plain containers that wait, with the mounts and the shape of ours.
pub(super) struct BareApi {
    socket: PathBuf,
    body: String,
}

impl BareApi {
    /// The reason why not is for people.
    pub(super) fn new(image: &str, workspace: &Path) -> Result<Self, String> {
        let endpoint =
            locate(|name| std::env::var(name).ok()).map_err(|error| error.to_string())?;
        let socket = endpoint.socket().ok_or("the engine has no socket here")?.to_owned();
        let body = json!({
            "Image": image,
            "Entrypoint": ["sleep", "600"],
            "WorkingDir": "/workspace",
            "HostConfig": {
                "NetworkMode": "none",
                "ReadonlyRootfs": true,
                "CapDrop": ["ALL"],
                "SecurityOpt": ["no-new-privileges"],
                "Tmpfs": { "/tmp": "", "/var/tmp": "", "/run": "" },
                "Mounts": [{ "Type": "bind", "Source": workspace, "Target": "/workspace" }],
            },
        });
        Ok(Self { socket, body: body.to_string() })
    }

    /// Creates and starts one; gives its id.
    pub(super) fn start(&self) -> Result<String, BenchError> {
        let created = self.ask("POST", "/containers/create", &self.body)?;
        let id = created.get("Id").and_then(Value::as_str).unwrap_or_default().to_owned();
        self.ask("POST", &format!("/containers/{id}/start"), "")?;
        Ok(id)
    }

    pub(super) fn remove(&self, id: &str) -> Result<(), BenchError> {
        self.ask("DELETE", &format!("/containers/{id}?force=1"), "").map(drop)
    }

    /// One request, and a connection for it alone.
    fn ask(&self, method: &str, path: &str, body: &str) -> Result<Value, BenchError> {
        let failed = || system("ask the engine for a plain container");
        let mut stream = UnixStream::connect(&self.socket).map_err(failed())?;
        let length = body.len();
        let head = format!(
            "{method} {path} HTTP/1.0\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n\r\n"
        );
        stream.write_all(format!("{head}{body}").as_bytes()).map_err(failed())?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).map_err(failed())?;
        let (head, body) = answer.split_once("\r\n\r\n").unwrap_or((&answer, ""));
        let status = head.split(' ').nth(1).unwrap_or_default();
        if !status.starts_with('2') {
            return Err(failed()(io::Error::other(body.trim().to_owned())));
        }
        Ok(serde_json::from_str(body).unwrap_or_default())
    }
}
