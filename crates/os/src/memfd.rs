//! Files in memory that nobody can change any more: the embedded supervisor, a pen's specification.

use std::fs::File;
use std::io::{self, Seek as _, Write as _};
use std::os::fd::OwnedFd;

use rustix::fs::{MemfdFlags, SealFlags};
use rustix::io::Errno;

/// What it is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Use {
    /// Only read.
    Read,
    /// Executed with [`crate::spawn::Image::File`] or [`crate::process::exec`].
    Execute,
}

/// Makes a file with `content`, sealed against writing, growing, shrinking and unsealing, positioned
/// at its start. `name` is only shown in `/proc`.
pub fn sealed(name: &str, content: &[u8], purpose: Use) -> io::Result<OwnedFd> {
    let mut file = open(name, purpose)?;
    file.write_all(content)?;
    seal(file)
}

/// Makes an empty file, to be filled and then [`seal`]ed.
pub fn open(name: &str, purpose: Use) -> io::Result<File> {
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    let kind = match purpose {
        Use::Read => MemfdFlags::NOEXEC_SEAL,
        Use::Execute => MemfdFlags::EXEC,
    };
    let made = match rustix::fs::memfd_create(name, flags | kind) {
        // Before Linux 6.3 all were executable, and the flags unknown.
        Err(Errno::INVAL) => rustix::fs::memfd_create(name, flags)?,
        other => other?,
    };
    Ok(File::from(made))
}

/// Leaves it as it is, for good, positioned at its start.
pub fn seal(mut file: File) -> io::Result<OwnedFd> {
    file.rewind()?;
    let seals = SealFlags::WRITE | SealFlags::GROW | SealFlags::SHRINK | SealFlags::SEAL;
    rustix::fs::fcntl_add_seals(&file, seals)?;
    Ok(file.into())
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;
    use std::os::fd::AsRawFd as _;

    use super::*;

    #[test]
    fn nobody_changes_a_sealed_file() {
        for purpose in [Use::Read, Use::Execute] {
            let mut file = File::from(sealed("spec", b"content", purpose).unwrap());
            let mut text = String::new();
            file.read_to_string(&mut text).unwrap();
            assert_eq!(text, "content");
            assert_eq!(file.write(b"x").unwrap_err().raw_os_error(), Some(libc::EPERM));
            assert_eq!(file.set_len(0).unwrap_err().raw_os_error(), Some(libc::EPERM));
            // Not through a second open either.
            let path = format!("/proc/self/fd/{}", file.as_raw_fd());
            let reopened = File::options().write(true).open(path);
            let refused = reopened.and_then(|mut file| file.write(b"x"));
            assert_eq!(refused.unwrap_err().raw_os_error(), Some(libc::EPERM));
        }
    }
}
