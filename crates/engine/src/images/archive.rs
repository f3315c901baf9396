//! A few small files as one archive (`ustar`): what an engine takes as the context of a build.

/// A file that goes into an archive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Entry<'a> {
    /// At most 100 bytes; ours are far shorter.
    pub(super) name: &'a str,
    pub(super) contents: &'a [u8],
    pub(super) mode: u32,
}

const BLOCK: usize = 512;

/// The archive. The same files give the same bytes: no times, no owners.
pub(super) fn write(entries: &[Entry<'_>]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for entry in entries {
        bytes.extend_from_slice(&header(entry));
        bytes.extend_from_slice(entry.contents);
        let padding = entry.contents.len().next_multiple_of(BLOCK) - entry.contents.len();
        bytes.resize(bytes.len() + padding, 0);
    }
    bytes.resize(bytes.len() + 2 * BLOCK, 0);
    bytes
}

fn header(entry: &Entry<'_>) -> [u8; BLOCK] {
    let mut header = [0_u8; BLOCK];
    let mut put = |at: usize, text: &str| {
        if let Some(field) = header.get_mut(at..at + text.len()) {
            field.copy_from_slice(text.as_bytes());
        }
    };
    put(0, entry.name);
    put(100, &format!("{:07o}\0", entry.mode));
    put(108, "0000000\0");
    put(116, "0000000\0");
    put(124, &format!("{:011o}\0", entry.contents.len()));
    put(136, "00000000000\0");
    // The sum counts its own place as blanks.
    put(148, "        ");
    put(156, "0");
    put(257, "ustar\x0000");
    let sum: u32 = header.iter().map(|byte| u32::from(*byte)).sum();
    let text = format!("{sum:06o}\0 ");
    if let Some(field) = header.get_mut(148..156) {
        field.copy_from_slice(text.as_bytes());
    }
    header
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;
    use std::process::{Command, Stdio};

    use super::*;

    #[test]
    fn tar_reads_what_is_written() {
        let directory = tempfile::tempdir().unwrap();
        let long = vec![b'x'; 1500];
        let bytes = write(&[
            Entry { name: "Dockerfile", contents: b"FROM x\n", mode: 0o644 },
            Entry { name: "empty", contents: b"", mode: 0o644 },
            Entry { name: "setup.sh", contents: &long, mode: 0o755 },
        ]);
        let mut tar = Command::new("tar")
            .args(["-x", "-C"])
            .arg(directory.path())
            .stdin(Stdio::piped())
            .spawn()
            .unwrap();
        tar.stdin.take().unwrap().write_all(&bytes).unwrap();
        assert!(tar.wait().unwrap().success());
        let read = |name: &str| std::fs::read(directory.path().join(name)).unwrap();
        assert_eq!(read("Dockerfile"), b"FROM x\n");
        assert_eq!(read("empty"), b"");
        assert_eq!(read("setup.sh"), long);
    }
}
