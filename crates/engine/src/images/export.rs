//! An image's files as a directory: what `native.rootfs` takes.
//!
//! The files come from the image, so from anyone. `tar` unpacks them: it follows no link that the
//! archive brought, and no name leads out of the directory. Until all is there and made harmless, only
//! we can enter: files belong to us, no program has rights of its own, and what is neither file,
//! directory nor link stays out. A pen would give none of that anyway; the host would.

use std::fs::{self, DirBuilder, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::build::{BuildError, lock};
use super::{Images, name_of};
use crate::backend::docker::DockerFailure;

/// The directory was not made.
#[derive(Debug, thiserror::Error)]
pub enum ExportError {
    #[error(transparent)]
    Engine(#[from] DockerFailure),
    #[error(transparent)]
    Lock(#[from] BuildError),
    #[error("cannot unpack to `{}`", .path.display())]
    Unpack {
        path: PathBuf,
        #[source]
        cause: io::Error,
    },
}

impl Images {
    /// Unpacks an image to a directory that does not exist yet. On failure there is none.
    pub fn export(
        &self,
        name: &str,
        directory: &Path,
        tell: &mut dyn FnMut(&str),
    ) -> Result<(), ExportError> {
        let name = name_of(name);
        let _lock = lock(&self.home, tell)?;
        self.clear_up()?;
        // Told before anything is made.
        self.engine.image(name)?;
        let mut refused = None;
        let unpacked = unpack(directory, |sink| {
            self.engine.export(name, &self.export_mark(), sink).map_err(|failure| {
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

    /// Says whose an export is. The lock keeps apart those who share a home.
    pub(super) fn export_mark(&self) -> String {
        self.home.display().to_string()
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
    DirBuilder::new().mode(0o700).create(&half)?;
    let done = through_tar(&half, send).and_then(|()| make_harmless(&half)).and_then(|()| {
        match fs::remove_dir(directory) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            Ok(()) | Err(_) => {}
        }
        fs::rename(&half, directory)?;
        // An image's root is open to all.
        fs::set_permissions(directory, Permissions::from_mode(0o755))
    });
    if done.is_err() && half.exists() {
        fs::remove_dir_all(&half)?;
    }
    done
}

fn through_tar(
    directory: &Path,
    send: impl FnOnce(&mut dyn Write) -> io::Result<()>,
) -> io::Result<()> {
    let mut tar = Command::new("tar");
    tar.args(["--extract", "--no-same-owner", "--anchored"]);
    tar.args(["--exclude=dev/*", "--exclude=./dev/*"]);
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
    // The archive may have brought another mode for it.
    fs::set_permissions(directory, Permissions::from_mode(0o700))
}

/// Takes away what would mean something on the host. Nobody else is in the directory yet.
fn make_harmless(root: &Path) -> io::Result<()> {
    let mut open = vec![root.to_owned()];
    while let Some(directory) = open.pop() {
        for entry in fs::read_dir(&directory)? {
            let path = entry?.path();
            let found = fs::symlink_metadata(&path)?;
            let kind = found.file_type();
            let mode = found.mode();
            if kind.is_dir() {
                // Ours to enter and to remove, whatever the image says.
                fs::set_permissions(&path, Permissions::from_mode(mode & 0o1777 | 0o700))?;
                open.push(path);
            } else if kind.is_file() {
                if mode & 0o7000 != 0 {
                    fs::set_permissions(&path, Permissions::from_mode(mode & 0o777))?;
                }
            } else if !kind.is_symlink() {
                fs::remove_file(&path)?;
            }
        }
    }
    Ok(())
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
    fn what_means_something_on_the_host_is_taken_away() {
        let place = tempfile::tempdir().unwrap();
        let (source, directory) = (place.path().join("source"), place.path().join("root"));
        // Made by tar itself: the archive of a hostile image, owners and all.
        let script = "mkdir -p $0/opt/app/dev $0/shut && echo x > $0/opt/app/dev/main.py
            echo y > $0/shut/y && chmod 500 $0/shut && chmod 2777 $0/opt
            echo z > $0/pwn && chmod 6755 $0/pwn && mkfifo $0/pipe
            if [ \"$(id -u)\" = 0 ]; then
                mknod $0/disk b 7 0; mknod $0/opt/null c 1 3; chown 1234:1234 $0/pwn; chmod 6755 $0/pwn
            fi
            tar --create --directory $0 . ";
        let made = Command::new("sh").arg("-c").arg(script).arg(&source).output().unwrap();
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
        unpack(&directory, |sink| sink.write_all(&made.stdout)).unwrap();
        let look = |name: &str| fs::symlink_metadata(directory.join(name)).ok();
        let seen = |name| look(name).map(|found| (found.mode() & 0o7777, found.uid()));
        let me = rustix::process::geteuid().as_raw();
        assert_eq!(seen("."), Some((0o755, me)));
        assert_eq!(seen("pwn"), Some((0o755, me)));
        assert_eq!(seen("opt"), Some((0o777, me)));
        assert_eq!(seen("shut"), Some((0o700, me)));
        assert_eq!(fs::read(directory.join("opt/app/dev/main.py")).unwrap(), b"x\n");
        for name in ["pipe", "disk", "opt/null"] {
            assert_eq!(seen(name), None, "{name}");
        }
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
