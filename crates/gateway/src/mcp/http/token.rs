//! The token of the HTTP door: in a file that only its owner can read.

use std::fs::{self, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use clawpen_engine::random;

/// The file in the state directory.
const NAME: &str = "mcp-token";
/// Longer is no token.
const MOST: u64 = 4096;
/// Do not wait for a writer if a pipe stands there.
const O_NONBLOCK: i32 = 0o4000;

/// There is no token.
#[derive(Debug, thiserror::Error)]
pub enum TokenError {
    #[error("cannot use the token file `{path}`")]
    File {
        path: PathBuf,
        #[source]
        cause: io::Error,
    },
    #[error(
        "others can read or change the token file `{path}`; run `chmod 600` on it, or delete it for a new one"
    )]
    Open { path: PathBuf },
}

/// Where the token of a state directory is kept.
pub fn place(state_dir: &str) -> PathBuf {
    Path::new(state_dir).join(NAME)
}

/// Reads a token, and makes one if there is none and it is ours to make.
pub fn ensure(path: &Path) -> Result<String, TokenError> {
    let failed = |cause| TokenError::File { path: path.to_owned(), cause };
    match read(path) {
        Err(TokenError::File { cause, .. }) if cause.kind() == io::ErrorKind::NotFound => {}
        other => return other,
    }
    if let Some(directory) = path.parent() {
        fs::create_dir_all(directory).map_err(failed)?;
    }
    let token = random::token().map_err(failed)?;
    let made = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path);
    match made {
        Ok(mut file) => {
            file.write_all(format!("{token}\n").as_bytes()).map_err(failed)?;
            Ok(token)
        }
        // Somebody was faster: theirs counts.
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => read(path),
        Err(error) => Err(failed(error)),
    }
}

/// Reads a token that is there.
pub fn read(path: &Path) -> Result<String, TokenError> {
    let failed = |cause| TokenError::File { path: path.to_owned(), cause };
    let file = OpenOptions::new().read(true).custom_flags(O_NONBLOCK).open(path).map_err(failed)?;
    let facts = file.metadata().map_err(failed)?;
    if !facts.is_file() || facts.mode() & 0o077 != 0 {
        return Err(TokenError::Open { path: path.to_owned() });
    }
    let mut text = String::new();
    file.take(MOST).read_to_string(&mut text).map_err(failed)?;
    Ok(text.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn a_token_is_made_once_and_only_its_owner_reads_it() {
        let home = tempfile::tempdir().unwrap();
        let path = place(home.path().join("state").to_str().unwrap());
        let token = ensure(&path).unwrap();
        assert_eq!(token.len(), 32);
        assert_eq!(ensure(&path).unwrap(), token);
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o600);
        fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
        assert!(matches!(ensure(&path), Err(TokenError::Open { .. })));
    }
}
