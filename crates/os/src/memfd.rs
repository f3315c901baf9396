//! Files in memory that nobody can change any more: the embedded supervisor, a pen's specification.

use std::io;
use std::os::fd::OwnedFd;

/// Whether it may be executed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Use {
    /// Only read.
    Read,
    /// Executed with [`crate::spawn::Image::File`] or [`crate::process::exec`].
    Execute,
}

/// Makes a file with `content`, sealed against writing, growing, shrinking and unsealing; positioned at its start.
pub fn sealed(name: &str, content: &[u8], purpose: Use) -> io::Result<OwnedFd> { todo!() }
