//! Files: read, write, look, list, move, remove.
//!
//! The kernel resolves every path beneath a directory that the supervisor holds open. Links
//! inside that directory work; nothing leads out of it.

use std::ffi::OsString;
use std::path::PathBuf;

use super::codec::{Cap, choice, record};
use super::limits;

choice! {
    /// Where a file is.
    pub enum Place {
        /// Below one of the roots of the pen spec.
        Below {
            /// The root's position in [`crate::pen::ServePlan::roots`].
            root: u16,
            /// A relative path; empty is the root itself.
            path: PathBuf [Cap::bytes(limits::PATH)],
        } = 1,
        /// An absolute path in the sandbox. The supervisor takes the innermost root that holds
        /// it; what lies in no root is resolved beneath `/` and can only be read.
        InPen(PathBuf [Cap::bytes(limits::PATH)]) = 2,
    }
}

record! {
    /// Reads a range of a file: `Data`…, `Done`.
    pub struct Read {
        /// Which file.
        pub place: Place,
        /// The first byte.
        pub offset: u64,
        /// How many bytes at most; the end of the file ends it sooner.
        pub length: u64,
        /// Bytes that may be sent before the first `Credit`; at most [`limits::WINDOW`].
        pub window: u32,
    }
}

record! {
    /// Opens a file for writing. `WriteChunk`s and a `WriteCommit` or `WriteAbort` follow on the
    /// same channel, without waiting for an answer. Nothing shows before the commit.
    pub struct WriteOpen {
        /// Which file.
        pub place: Place,
        /// How the contents come in.
        pub mode: WriteMode,
        /// Whether missing parent directories are made.
        pub parents: Parents,
        /// Permission bits of a new file (no set-id bits); an old one keeps its own.
        pub permissions: u32,
    }
}

choice! {
    /// How new contents take their place.
    #[derive(Copy)]
    pub enum WriteMode {
        /// A file beside the target is filled and renamed over it. Mode and owner are kept.
        Replace = 1,
        /// As `Replace`, and the target must not exist.
        Create = 2,
        /// Each chunk is added at the end as it comes; there is nothing to take back.
        Append = 3,
    }
}

choice! {
    /// Missing parent directories.
    #[derive(Copy)]
    pub enum Parents {
        /// Must be there.
        Required = 1,
        /// Are made.
        Make = 2,
    }
}

record! {
    /// The answer to `WriteCommit`.
    #[derive(Copy)]
    pub struct Written {
        /// Bytes taken from the chunks.
        pub bytes: u64,
        /// Whether there was no file before.
        pub created: bool,
    }
}

record! {
    /// Asks what a path is; answered by [`StatResult`].
    pub struct Stat {
        /// Which path.
        pub place: Place,
        /// What to do with a link at its end.
        pub links: Links,
    }
}

choice! {
    /// A link at the end of a path.
    #[derive(Copy)]
    pub enum Links {
        /// Is followed.
        Follow = 1,
        /// Is itself the answer.
        Report = 2,
    }
}

record! {
    /// What a path is.
    pub struct StatResult {
        /// Its attributes.
        pub metadata: Metadata,
        /// Where a reported link points to.
        pub link: Option<PathBuf> [Cap::bytes(limits::PATH)],
    }
}

record! {
    /// Attributes, with ids as the sandbox sees them.
    #[derive(Copy)]
    pub struct Metadata {
        /// What it is.
        pub kind: FileKind,
        /// Permission bits, 0 to 0o7777.
        pub permissions: u32,
        /// Owner.
        pub uid: u32,
        /// Group.
        pub gid: u32,
        /// Bytes.
        pub size: u64,
        /// Last change of the contents, in nanoseconds since 1970.
        pub modified_ns: i64,
        /// Number of names.
        pub links: u32,
        /// The file's number in its file system.
        pub inode: u64,
    }
}

choice! {
    /// What a path can be.
    #[derive(Copy, Hash)]
    pub enum FileKind {
        /// A file.
        File = 1,
        /// A directory.
        Directory = 2,
        /// A symbolic link.
        Link = 3,
        /// A device, pipe or socket.
        Other = 4,
    }
}

record! {
    /// Lists a directory, one page; answered by [`Entries`].
    pub struct List {
        /// Which directory.
        pub place: Place,
        /// 0, or [`Entries::next`] of the page before.
        pub cursor: u64,
        /// Entries wanted at most; at most [`limits::ENTRIES`].
        pub limit: u32,
        /// How much of each entry.
        pub listing: Listing,
    }
}

choice! {
    /// How much of an entry is wanted.
    #[derive(Copy)]
    pub enum Listing {
        /// Name and kind, which cost nothing.
        Names = 1,
        /// Attributes too, which cost a look at each.
        Full = 2,
    }
}

record! {
    /// One page of a directory, without `.` and `..`, in the file system's order.
    pub struct Entries {
        /// The entries.
        pub entries: Vec<Entry> [Cap::count(limits::ENTRIES)],
        /// Where the next page starts; `None` after the last.
        pub next: Option<u64>,
    }
}

record! {
    /// One entry of a directory.
    pub struct Entry {
        /// Its name.
        pub name: OsString [Cap::bytes(limits::NAME)],
        /// What it is; a link is never followed.
        pub kind: FileKind,
        /// With [`Listing::Full`], unless it vanished meanwhile.
        pub metadata: Option<Metadata>,
    }
}

record! {
    /// Makes a directory; answered by `Done`.
    pub struct Mkdir {
        /// Which path.
        pub place: Place,
        /// Permission bits, no set-id bits.
        pub permissions: u32,
        /// With `Make`, a directory that is there already is no failure either.
        pub parents: Parents,
    }
}

record! {
    /// Removes a path, never what a link points to; answered by `Done`.
    pub struct Remove {
        /// Which path.
        pub place: Place,
        /// Whether a directory goes with all that is in it.
        pub depth: Depth,
    }
}

choice! {
    /// How far down a call goes.
    #[derive(Copy)]
    pub enum Depth {
        /// The path alone.
        One = 1,
        /// All below it too.
        Tree = 2,
    }
}

record! {
    /// Moves a path; answered by `Done`.
    pub struct Rename {
        /// From here.
        pub from: Place,
        /// To there.
        pub to: Place,
        /// What if something is there.
        pub existing: OnExisting,
    }
}

choice! {
    /// Something at the target.
    #[derive(Copy)]
    pub enum OnExisting {
        /// Is a failure.
        Refuse = 1,
        /// Is replaced.
        Replace = 2,
    }
}

record! {
    /// Copies a file, or a tree of files; answered by `Done`.
    pub struct Copy {
        /// From here.
        pub from: Place,
        /// To there.
        pub to: Place,
        /// Whether a directory is copied with all that is in it. Links are copied as links.
        pub depth: Depth,
        /// What if something is there.
        pub existing: OnExisting,
    }
}

record! {
    /// Asks for the SHA-256 of a file; answered by [`Digest`].
    pub struct Hash {
        /// Which file.
        pub place: Place,
    }
}

record! {
    /// The SHA-256 of a file.
    #[derive(Copy)]
    pub struct Digest {
        /// The hash.
        pub sha256: [u8; 32],
        /// How many bytes went into it.
        pub size: u64,
    }
}
