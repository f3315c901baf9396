//! What a sandbox is to be: the plan that the engine hands to the supervisor binary.
//!
//! The native maker reads it from descriptor 3; in a container the supervisor reads it from a
//! file that only it is given. Everything in it was decided before: the supervisor does it or
//! ends, and never chooses. Paths on the host are already resolved, so the maker opens them
//! without following a link.
//!
//! Not secret-free: `env` may hold what the agent was given. It is never logged or written down.

#![warn(missing_docs)]

use std::path::PathBuf;

use crate::supervisor::codec::{
    self, Cap, DecodeError, EncodeError, Reader, Wire as _, choice, record,
};
use crate::supervisor::{EnvVar, limits};

record! {
    /// The whole plan.
    pub struct PenSpec {
        /// How to make the sandbox; `None` where a container engine has made it.
        pub make: Option<Box<MakePlan>>,
        /// How to serve in it.
        pub serve: ServePlan,
    }
}

record! {
    /// What the maker and process 1 build before anything is served.
    pub struct MakePlan {
        /// The host name inside.
        pub hostname: String [Cap::bytes(limits::HOSTNAME)],
        /// Namespaces of the sandbox's own.
        pub namespaces: Namespaces,
        /// Which ids inside are which outside.
        pub ids: IdPlan,
        /// The root file system, step by step, on an empty tmpfs.
        pub root: Vec<MountStep> [Cap::count(limits::MOUNT_STEPS)],
        /// The network inside.
        pub network: Network,
        /// Control groups that the host has prepared, limits included. The maker puts process 1
        /// into each before anything runs there.
        pub cgroups: Vec<CgroupEntry> [Cap::count(limits::CGROUPS)],
    }
}

record! {
    /// A set of namespaces, as `CLONE_NEW*` bits. The user, mount and pid namespaces are always in it.
    #[derive(Copy)]
    pub struct Namespaces {
        /// The bits.
        pub bits: u64,
    }
}

impl Namespaces {
    /// Mounts.
    pub const MOUNT: u64 = 0x0002_0000;
    /// Control groups.
    pub const CGROUP: u64 = 0x0200_0000;
    /// Host name.
    pub const UTS: u64 = 0x0400_0000;
    /// System V IPC and message queues.
    pub const IPC: u64 = 0x0800_0000;
    /// Ids and capabilities.
    pub const USER: u64 = 0x1000_0000;
    /// Process numbers.
    pub const PID: u64 = 0x2000_0000;
    /// Network.
    pub const NET: u64 = 0x4000_0000;

    /// Every namespace there is, time apart.
    pub const ALL: Self = Self {
        bits: Self::MOUNT
            | Self::CGROUP
            | Self::UTS
            | Self::IPC
            | Self::USER
            | Self::PID
            | Self::NET,
    };

    /// Whether all of `bits` are in the set.
    pub const fn has(self, bits: u64) -> bool {
        self.bits & bits == bits
    }
}

record! {
    /// The id maps of the user namespace.
    pub struct IdPlan {
        /// Who can write them.
        pub writer: IdWriter,
        /// User ids. No range reaches the host's 0.
        pub uids: Vec<IdRange> [Cap::count(limits::ID_RANGES)],
        /// Group ids. No range reaches the host's 0.
        pub gids: Vec<IdRange> [Cap::count(limits::ID_RANGES)],
    }
}

choice! {
    /// Who writes an id map.
    #[derive(Copy)]
    pub enum IdWriter {
        /// The maker itself: it is root.
        Direct = 1,
        /// `newuidmap` and `newgidmap`, for an ordinary user with subordinate ids.
        Helpers = 2,
        /// The maker, one id only, with `setgroups` denied first: an ordinary user without.
        Single = 3,
    }
}

record! {
    /// A run of ids.
    #[derive(Copy)]
    pub struct IdRange {
        /// The first id inside.
        pub inside: u32,
        /// The first id outside.
        pub outside: u32,
        /// How many.
        pub count: u32,
    }
}

choice! {
    /// One step of building the root. Targets are absolute paths inside; missing parents and mount
    /// points are made, mode 0755. Every mount is nosuid; all but [`MountStep::Device`] and
    /// [`MountStep::Devpts`] are nodev.
    pub enum MountStep {
        /// A directory.
        Directory {
            /// Where.
            target: PathBuf [Cap::bytes(limits::PATH)],
            /// Permission bits.
            permissions: u32,
        } = 1,
        /// An empty file system in memory, owned by the user inside.
        Tmpfs {
            /// Where.
            target: PathBuf [Cap::bytes(limits::PATH)],
            /// Bytes it may hold.
            size: u64,
            /// Files it may hold; 0 is the kernel's default.
            inodes: u64,
            /// Permission bits of its root.
            permissions: u32,
            /// How it may be used.
            flags: MountFlags,
        } = 2,
        /// A file or directory of the host.
        Bind {
            /// On the host: absolute, resolved, opened without following links.
            source: PathBuf [Cap::bytes(limits::PATH)],
            /// Where.
            target: PathBuf [Cap::bytes(limits::PATH)],
            /// How it may be used.
            flags: MountFlags,
            /// Whether what is mounted below the source comes too.
            submounts: Submounts,
            /// Whose its files are inside.
            owner: BindOwner,
        } = 3,
        /// `/proc` of the sandbox's own processes.
        Proc {
            /// Where.
            target: PathBuf [Cap::bytes(limits::PATH)],
        } = 4,
        /// Terminals of the sandbox's own, with `ptmx` open to all.
        Devpts {
            /// Where.
            target: PathBuf [Cap::bytes(limits::PATH)],
        } = 5,
        /// One device of the host, such as `/dev/null`.
        Device {
            /// On the host.
            source: PathBuf [Cap::bytes(limits::PATH)],
            /// Where.
            target: PathBuf [Cap::bytes(limits::PATH)],
        } = 6,
        /// A file with these contents.
        File {
            /// Where.
            target: PathBuf [Cap::bytes(limits::PATH)],
            /// What is in it.
            contents: Vec<u8> [Cap::bytes(limits::SYNTHETIC_FILE)],
            /// Permission bits.
            permissions: u32,
        } = 7,
        /// A symbolic link.
        Symlink {
            /// Where.
            target: PathBuf [Cap::bytes(limits::PATH)],
            /// What it says.
            to: PathBuf [Cap::bytes(limits::PATH)],
        } = 8,
        /// Hides a path: an empty read-only directory over a directory, `/dev/null` over a file.
        /// A path that does not exist needs no mask.
        Mask {
            /// Where.
            target: PathBuf [Cap::bytes(limits::PATH)],
        } = 9,
        /// Makes a path read-only where it is, by a mount over itself.
        ReadOnly {
            /// Where. `/` is the root itself; give it last.
            target: PathBuf [Cap::bytes(limits::PATH)],
        } = 10,
        /// POSIX message queues of the sandbox's own.
        Mqueue {
            /// Where.
            target: PathBuf [Cap::bytes(limits::PATH)],
        } = 11,
    }
}

record! {
    /// How a mount may be used, as bits. No bit is the widest use there is: write and execute.
    #[derive(Copy, Default)]
    pub struct MountFlags {
        /// The bits.
        pub bits: u32,
    }
}

impl MountFlags {
    /// Nothing can be written.
    pub const READ_ONLY: u32 = 1;
    /// Nothing can be executed.
    pub const NO_EXEC: u32 = 2;
    /// No bit.
    pub const NONE: Self = Self { bits: 0 };

    /// Whether all of `bits` are set.
    pub const fn has(self, bits: u32) -> bool {
        self.bits & bits == bits
    }
}

choice! {
    /// Mounts below a bind's source.
    #[derive(Copy)]
    pub enum Submounts {
        /// Stay outside.
        Leave = 1,
        /// Come in, with the same flags.
        Bring = 2,
    }
}

choice! {
    /// Whose the files of a bind are.
    pub enum BindOwner {
        /// Ids go through the sandbox's own map: host files of unmapped ids show as nobody.
        AsIs = 1,
        /// An idmapped mount with the sandbox's own user namespace: an id on disk is the same
        /// number inside.
        SameIds = 2,
        /// An idmapped mount with a user namespace made for it: these ids on disk are those ids
        /// inside. Others show as nobody and cannot be made.
        Mapped {
            /// User ids: `inside` the sandbox, `outside` on disk.
            uids: Vec<IdRange> [Cap::count(limits::ID_RANGES)],
            /// Group ids: `inside` the sandbox, `outside` on disk.
            gids: Vec<IdRange> [Cap::count(limits::ID_RANGES)],
        } = 3,
    }
}

choice! {
    /// The network inside. The host's own is no choice.
    #[derive(Copy)]
    pub enum Network {
        /// A namespace with nothing but the loopback, which is brought up.
        None = 1,
        /// What the container engine has given.
        Given = 2,
    }
}

record! {
    /// A prepared control group.
    pub struct CgroupEntry {
        /// Its directory on the host.
        pub directory: PathBuf [Cap::bytes(limits::PATH)],
        /// How it is entered.
        pub version: CgroupVersion,
    }
}

choice! {
    /// The kind of a control group.
    #[derive(Copy)]
    pub enum CgroupVersion {
        /// Written into after the start; moving costs up to a millisecond.
        One = 1,
        /// Entered at birth, with `CLONE_INTO_CGROUP`.
        Two = 2,
    }
}

record! {
    /// What process 1 keeps to while it serves.
    pub struct ServePlan {
        /// When it ends.
        pub lifetime: Lifetime,
        /// Who it and every command are, inside. It is so already where no `make` is given.
        pub user: Credentials,
        /// Where a command starts if it does not say.
        pub workdir: PathBuf [Cap::bytes(limits::PATH)],
        /// The variables that every command starts from.
        pub env: Vec<EnvVar> [Cap::count(limits::VARIABLES)],
        /// Limits of every command.
        pub rlimits: Vec<ResourceLimit> [Cap::count(limits::RESOURCE_LIMITS)],
        /// Mask of permission bits that new files do not get.
        pub umask: u32,
        /// The seccomp filter of every command: `struct sock_filter`s as the kernel takes them.
        /// Never empty.
        pub seccomp: Vec<u8> [Cap::bytes(limits::SECCOMP_PROGRAM)],
        /// Landlock rules of every command.
        pub landlock: LandlockPlan,
        /// Directories that file calls may name by number, opened once at the start.
        pub roots: Vec<FileRoot> [Cap::count(limits::FILE_ROOTS)],
        /// How much is kept and run.
        pub caps: ServeCaps,
    }
}

choice! {
    /// When process 1 ends, and all of the sandbox with it.
    #[derive(Copy)]
    pub enum Lifetime {
        /// When the first control connection closes.
        UntilDisconnect = 1,
        /// When it is told to or killed.
        Persistent = 2,
    }
}

record! {
    /// Ids inside.
    pub struct Credentials {
        /// User.
        pub uid: u32,
        /// Group.
        pub gid: u32,
        /// Supplementary groups; must be empty with [`IdWriter::Single`].
        pub groups: Vec<u32> [Cap::count(limits::GROUPS)],
    }
}

record! {
    /// One `setrlimit`. `u64::MAX` is no limit.
    #[derive(Copy)]
    pub struct ResourceLimit {
        /// `RLIMIT_*`, as the kernel numbers them.
        pub resource: u32,
        /// What is in force.
        pub soft: u64,
        /// How far it can be raised.
        pub hard: u64,
    }
}

record! {
    /// What Landlock opens; everything else that it knows is closed.
    pub struct LandlockPlan {
        /// The lowest ABI to start with; 0 starts without Landlock too, and reports so.
        pub lowest_abi: u32,
        /// Paths inside. One that is missing is an error unless it says otherwise.
        pub rules: Vec<LandlockRule> [Cap::count(limits::LANDLOCK_RULES)],
        /// Whether TCP connect and bind stay open (from ABI 4 on).
        pub tcp: bool,
    }
}

record! {
    /// A path that Landlock opens, with all below it.
    pub struct LandlockRule {
        /// The path inside.
        pub path: PathBuf [Cap::bytes(limits::PATH)],
        /// What may be done there.
        pub access: LandlockAccess,
        /// Whether the path may be missing.
        pub optional: bool,
    }
}

choice! {
    /// What may be done below a path. The supervisor turns it into the bits of the kernel's ABI.
    #[derive(Copy)]
    pub enum LandlockAccess {
        /// Read and list.
        Read = 1,
        /// Read, list and execute.
        ReadExecute = 2,
        /// Read and write existing files; nothing made or removed (devices).
        ReadWriteFiles = 3,
        /// All but execute.
        ReadWrite = 4,
        /// All.
        Full = 5,
    }
}

record! {
    /// A directory that file calls may name.
    pub struct FileRoot {
        /// The path inside.
        pub path: PathBuf [Cap::bytes(limits::PATH)],
        /// Whether calls may change what is below it.
        pub access: RootAccess,
    }
}

choice! {
    /// What file calls may do below a root, whatever the mount would allow.
    #[derive(Copy)]
    pub enum RootAccess {
        /// Look.
        Read = 1,
        /// Look and change.
        Write = 2,
    }
}

record! {
    /// How much the supervisor keeps and runs, within [`limits`].
    #[derive(Copy)]
    pub struct ServeCaps {
        /// Commands at once; at most [`limits::PROCESSES`].
        pub processes: u32,
        /// Bytes kept of one background command; at most [`limits::BACKGROUND_BUFFER`].
        pub background_buffer: u32,
        /// Bytes kept of all of them.
        pub background_total: u64,
    }
}

impl Default for ServeCaps {
    fn default() -> Self {
        Self { processes: 128, background_buffer: 1024 * 1024, background_total: 32 * 1024 * 1024 }
    }
}

/// The shape of the spec. It goes up when the spec changes, whatever the protocol does.
pub const SPEC_VERSION: u16 = 1;

/// Opens every encoded spec.
const MAGIC: [u8; 8] = *b"clawpen\0";

impl PenSpec {
    /// The bytes for descriptor 3 or the container's file.
    pub fn to_bytes(&self) -> Result<Vec<u8>, EncodeError> {
        let mut out = Vec::with_capacity(16 * 1024);
        out.extend_from_slice(&MAGIC);
        out.extend_from_slice(&SPEC_VERSION.to_le_bytes());
        self.put(&mut out, Cap::NONE)?;
        if out.len() > limits::PEN_SPEC {
            return Err(EncodeError::TooLong { length: out.len(), cap: limits::PEN_SPEC });
        }
        Ok(out)
    }

    /// Reads what [`PenSpec::to_bytes`] wrote. The engine embeds its supervisor, so the versions
    /// are equal or something is wrong.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, DecodeError> {
        if bytes.len() > limits::PEN_SPEC {
            return Err(DecodeError::TooLong { length: bytes.len(), cap: limits::PEN_SPEC });
        }
        let mut input = Reader::new(bytes);
        let opening = input.array::<8>()?;
        let version = u16::from_le_bytes(input.array()?);
        if opening != MAGIC || version != SPEC_VERSION {
            return Err(DecodeError::WrongSpec { expected: SPEC_VERSION });
        }
        codec::decode(input.rest())
    }
}
