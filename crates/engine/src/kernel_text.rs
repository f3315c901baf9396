//! Reads files that the kernel writes while they are read (`/proc`, `/sys`).
//!
//! They say that they are empty, so the standard library begins with reads of 32 bytes and doubles; the kernel
//! makes a table of mounts anew for each of them.

use std::fs::File;
use std::io::{self, Read as _};
use std::path::Path;

/// Room that nearly every one of them fits in.
const ROOM: usize = 16 * 1024;

/// The whole text.
pub(crate) fn read(path: impl AsRef<Path>) -> io::Result<String> {
    let mut text = String::with_capacity(ROOM);
    File::open(path)?.read_to_string(&mut text)?;
    Ok(text)
}
