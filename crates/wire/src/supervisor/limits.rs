//! How much either side may send: every length and count of the protocol, in one place.
//!
//! Both sides check, the sender before it sends and the receiver before it makes room. A number
//! may rise in a later protocol version; it never falls, or a peer of the previous version would
//! be cut off in the middle of a call.

/// The longest request, header included. Room for the arguments and environment of one command.
pub const REQUEST_FRAME: usize = 1024 * 1024;
/// The longest event, header included. Room for one chunk and little else.
pub const EVENT_FRAME: usize = 320 * 1024;
/// The longest [`crate::pen::PenSpec`], magic included.
pub const PEN_SPEC: usize = 4 * 1024 * 1024;

/// Bulk bytes in one frame: output, input, file contents.
pub const CHUNK: usize = 256 * 1024;
/// Unread bulk bytes that one channel may have under way, in either direction.
pub const WINDOW: u32 = 4 * 1024 * 1024;
/// What the host may send on a fresh input or write channel before the first credit comes back.
pub const FIRST_INPUT_WINDOW: u32 = 256 * 1024;
/// Channels of one connection that may be open at once.
pub const OPEN_CHANNELS: usize = 256;

/// One path. The kernel takes 4096 with the closing NUL.
pub const PATH: usize = 4095;
/// One name in a directory.
pub const NAME: usize = 255;
/// One argument or one environment value. The kernel takes 131072 with the closing NUL.
pub const WORD: usize = 131_071;
/// Arguments of one command.
pub const ARGUMENTS: usize = 8192;
/// Environment variables of one command or one sandbox.
pub const VARIABLES: usize = 4096;
/// A sentence for people: the message of a failure, a build's name.
pub const TEXT: usize = 1024;
/// A host name, as `sethostname` takes it.
pub const HOSTNAME: usize = 64;

/// Commands that run at once, foreground and background together.
pub const PROCESSES: usize = 256;
/// Finished background commands whose output is still kept.
pub const FINISHED_PROCESSES: usize = 256;
/// Output that may be kept for one background command.
pub const BACKGROUND_BUFFER: u32 = 16 * 1024 * 1024;
/// The longest time-out, 30 days.
pub const TIMEOUT_MS: u64 = 30 * 24 * 60 * 60 * 1000;

/// A program that the host brings.
pub const PROGRAM: u64 = 32 * 1024 * 1024;

/// Directory entries in one page. The supervisor also ends a page that nears [`EVENT_FRAME`].
pub const ENTRIES: usize = 1024;
/// Directories that requests may name by number.
pub const FILE_ROOTS: usize = 256;

/// One text of the kernel in a facts report (`status`, `limits`, …).
pub const KERNEL_TEXT: usize = 8 * 1024;
/// The text of an id map: 340 lines.
pub const ID_MAP_TEXT: usize = 16 * 1024;
/// The text of `mountinfo`.
pub const MOUNT_TEXT: usize = 192 * 1024;
/// Open descriptors of one process.
pub const DESCRIPTORS: usize = 1024;
/// Namespaces of one process.
pub const NAMESPACES: usize = 16;
/// Places that one request identifies.
pub const IDENTIFIED: usize = 512;
/// Network interfaces.
pub const INTERFACES: usize = 64;

/// Steps that build a root file system.
pub const MOUNT_STEPS: usize = 1024;
/// The contents of one file that the maker writes into the root.
pub const SYNTHETIC_FILE: usize = 256 * 1024;
/// Ranges of one id map. The kernel takes 340.
pub const ID_RANGES: usize = 340;
/// Supplementary groups.
pub const GROUPS: usize = 64;
/// Resource limits.
pub const RESOURCE_LIMITS: usize = 32;
/// A seccomp program: 4096 instructions of 8 bytes, as the kernel takes.
pub const SECCOMP_PROGRAM: usize = 4096 * 8;
/// Paths that Landlock opens.
pub const LANDLOCK_RULES: usize = 1024;
/// Control groups to enter, one per v1 hierarchy.
pub const CGROUPS: usize = 16;
