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
    #[error(
        "the token file `{path}` is another user's (uid {owner}), who could change it; use one of your own"
    )]
    Foreign { path: PathBuf, owner: u32 },
    #[error("the token file `{path}` holds no token: one line of letters, digits and signs")]
    NoToken { path: PathBuf },
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
    // Whole or not at all: a file without a token would shut the door for good.
    let mut fresh = path.as_os_str().to_owned();
    fresh.push(format!(".new-{}", random::uuid()));
    let fresh = PathBuf::from(fresh);
    let mut file =
        OpenOptions::new().write(true).create_new(true).mode(0o600).open(&fresh).map_err(failed)?;
    let written = file
        .write_all(format!("{token}\n").as_bytes())
        .and_then(|()| file.sync_all())
        .and_then(|()| fs::hard_link(&fresh, path));
    let _gone = fs::remove_file(&fresh);
    match written {
        Ok(()) => Ok(token),
        // Somebody was faster: theirs counts.
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => read(path),
        Err(error) => Err(failed(error)),
    }
}

/// Reads a token that is there.
pub fn read(path: &Path) -> Result<String, TokenError> {
    let failed = |cause| TokenError::File { path: path.to_owned(), cause };
    let file = OpenOptions::new().read(true).custom_flags(O_NONBLOCK).open(path).map_err(failed)?;
    // Of what was opened, not of what has the name by now.
    let facts = file.metadata().map_err(failed)?;
    if !facts.is_file() || facts.mode() & 0o077 != 0 {
        return Err(TokenError::Open { path: path.to_owned() });
    }
    let own = rustix::process::geteuid().as_raw();
    if !is_trusted(facts.uid(), own) {
        return Err(TokenError::Foreign { path: path.to_owned(), owner: facts.uid() });
    }
    let mut bytes = Vec::new();
    file.take(MOST + 1).read_to_end(&mut bytes).map_err(failed)?;
    let token = parse(&bytes).ok_or_else(|| TokenError::NoToken { path: path.to_owned() })?;
    Ok(token.to_owned())
}

/// Who may have written the file: we ourselves, or root, who may write anything.
const fn is_trusted(owner: u32, own: u32) -> bool {
    owner == own || owner == 0
}

/// The token in a file's contents: one word of visible characters, and nothing else. `None` if that is not what there is.
pub fn parse(contents: &[u8]) -> Option<&str> {
    if contents.len() as u64 > MOST {
        return None;
    }
    let word = std::str::from_utf8(contents).ok()?.trim_ascii();
    (!word.is_empty() && word.bytes().all(|byte| byte.is_ascii_graphic())).then_some(word)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn a_token_is_made_once_and_only_its_owner_reads_it() {
        let home = tempfile::tempdir().unwrap();
        let state = home.path().join("state");
        let path = place(state.to_str().unwrap());
        let token = ensure(&path).unwrap();
        assert_eq!(token.len(), 32);
        assert_eq!(ensure(&path).unwrap(), token);
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o600);
        assert_eq!(fs::read_dir(&state).unwrap().count(), 1);
        for open in [0o640, 0o602, 0o601, 0o660] {
            fs::set_permissions(&path, fs::Permissions::from_mode(open)).unwrap();
            assert!(matches!(ensure(&path), Err(TokenError::Open { .. })), "{open:o}");
        }
    }

    #[test]
    fn many_that_start_at_once_have_one_token() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("token");
        let tokens: Vec<String> = std::thread::scope(|scope| {
            let started: Vec<_> = (0..8).map(|_| scope.spawn(|| ensure(&path).unwrap())).collect();
            started.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        assert!(tokens.iter().all(|token| *token == tokens[0]), "{tokens:?}");
    }

    #[test]
    fn a_file_of_somebody_else_is_not_believed() {
        assert!(is_trusted(1000, 1000) && is_trusted(0, 1000));
        assert!(!is_trusted(1001, 1000) && !is_trusted(1000, 0));
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("token");
        ensure(&path).unwrap();
        if rustix::process::geteuid().is_root() {
            std::os::unix::fs::chown(&path, Some(1234), None).unwrap();
            assert!(matches!(read(&path), Err(TokenError::Foreign { owner: 1234, .. })));
        }
        assert!(matches!(
            read(home.path()),
            Err(TokenError::Open { .. } | TokenError::File { .. })
        ));
    }

    #[test]
    fn only_one_visible_word_is_a_token() {
        let long = vec![b'x'; 4097];
        for (contents, expected) in [
            (b"abc\n".as_slice(), Some("abc")),
            (b"  a-b_c=\r\n", Some("a-b_c=")),
            (b"", None),
            (b"\n", None),
            (b"a b", None),
            (b"a\nb", None),
            (b"a\0", None),
            (b"\xff", None),
            ("\u{e4}".as_bytes(), None),
            (&long, None),
        ] {
            assert_eq!(parse(contents), expected, "{contents:?}");
        }
    }
}
