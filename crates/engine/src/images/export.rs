//! An image's files as a directory: what `native.rootfs` takes.
//!
//! The files come from the image, so from anyone. `tar` unpacks them: it follows no link that the
//! archive brought, and no name leads out of the directory. Device nodes stay out.

use std::fs;
use std::io::{self, Write};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::{Images, name_of};
use crate::backend::docker::DockerFailure;

/// The directory was not made.
#[derive(Debug, thiserror::Error)]
pub enum ExportError {
    #[error(transparent)]
    Engine(#[from] DockerFailure),
    #[error("cannot unpack to `{}`", .path.display())]
    Unpack {
        path: PathBuf,
        #[source]
        cause: io::Error,
    },
}

impl Images {
    /// Unpacks an image to a directory that does not exist yet. On failure there is none.
    pub fn export(&self, name: &str, directory: &Path) -> Result<(), ExportError> {
        let name = name_of(name);
        // Told before anything is made.
        self.engine.image(name)?;
        let mut refused = None;
        let unpacked = unpack(directory, |sink| {
            self.engine.export(name, sink).map_err(|failure| {
                refused = Some(failure);
                io::Error::other("the engine did not send the image")
            })
        });
        match (unpacked, refused) {
            (_, Some(failure)) => Err(failure.into()),
            (Err(cause), None) => Err(ExportError::Unpack { path: directory.to_owned(), cause }),
            (Ok(()), None) => Ok(()),
        }
    }
}

/// Unpacks what `send` writes; beside its place first, so that half of it is never taken for all.
pub(super) fn unpack(
    directory: &Path,
    send: impl FnOnce(&mut dyn Write) -> io::Result<()>,
) -> io::Result<()> {
    if fs::read_dir(directory).is_ok_and(|mut entries| entries.next().is_some()) {
        let said = "it exists and is not empty; name another one, or remove it";
        return Err(io::Error::new(io::ErrorKind::AlreadyExists, said));
    }
    let mut half = directory.as_os_str().to_owned();
    half.push(".in-the-making");
    let half = PathBuf::from(half);
    fs::create_dir(&half)?;
    let done = through_tar(&half, send).and_then(|()| {
        match fs::remove_dir(directory) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            Ok(()) | Err(_) => {}
        }
        fs::rename(&half, directory)
    });
    if done.is_err() {
        fs::remove_dir_all(&half)?;
    }
    done
}

fn through_tar(
    directory: &Path,
    send: impl FnOnce(&mut dyn Write) -> io::Result<()>,
) -> io::Result<()> {
    let mut tar = Command::new("tar");
    tar.args(["--extract", "--numeric-owner", "--exclude=dev/*", "--exclude=./dev/*"]);
    if !rustix::process::geteuid().is_root() {
        tar.arg("--no-same-owner");
    }
    tar.arg("--directory").arg(directory);
    let mut tar = tar.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped()).spawn()?;
    let result = match tar.stdin.take() {
        Some(mut stdin) => send(&mut stdin),
        None => Ok(()),
    };
    let output = tar.wait_with_output()?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr).trim().to_owned();
        return Err(io::Error::other(format!("tar said: {said}")));
    }
    result?;
    // An image's root is open to all; a directory that was just made may not be.
    fs::set_permissions(directory, fs::Permissions::from_mode(0o755))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::images::archive::{self, Entry};

    #[test]
    fn half_an_image_is_none() {
        let place = tempfile::tempdir().unwrap();
        let directory = place.path().join("root");
        let bytes = archive::write(&[
            Entry { name: "etc/os-release", contents: b"ID=x\n", mode: 0o644 },
            Entry { name: "dev/null", contents: b"no device", mode: 0o644 },
        ]);
        let failed = unpack(&directory, |sink| {
            sink.write_all(&bytes)?;
            Err(io::Error::other("gone"))
        });
        assert!(failed.is_err());
        assert_eq!(fs::read_dir(place.path()).unwrap().count(), 0);
        unpack(&directory, |sink| sink.write_all(&bytes)).unwrap();
        assert_eq!(fs::read(directory.join("etc/os-release")).unwrap(), b"ID=x\n");
        assert!(!directory.join("dev/null").exists());
        let taken = unpack(&directory, |sink| sink.write_all(&bytes)).unwrap_err();
        assert_eq!(taken.kind(), io::ErrorKind::AlreadyExists);
    }

    #[test]
    fn nothing_is_written_outside() {
        let place = tempfile::tempdir().unwrap();
        let directory = place.path().join("root");
        let bytes = archive::write(&[Entry { name: "../escaped", contents: b"x", mode: 0o644 }]);
        let unpacked = unpack(&directory, |sink| sink.write_all(&bytes));
        assert!(!place.path().join("escaped").exists(), "{unpacked:?}");
    }
}
