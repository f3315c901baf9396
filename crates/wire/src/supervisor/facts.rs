//! What is in force, as the supervisor sees it from inside.
//!
//! The kernel's own texts travel unparsed: the engine reads the same files from outside and puts
//! both through the same reader, so no second parser can disagree, and process 1 stays small.

use std::path::PathBuf;

use super::codec::{Cap, record};
use super::limits;

record! {
    /// The inside report.
    pub struct FactsReport {
        /// Process 1.
        pub supervisor: ProcessFacts,
        /// A child that was confined exactly as a command is, looking at itself.
        pub workload: ProcessFacts,
        /// `/proc/self/mountinfo` of process 1.
        pub mountinfo: Vec<u8> [Cap::bytes(limits::MOUNT_TEXT)],
        /// `/proc/self/uid_map`.
        pub uid_map: Vec<u8> [Cap::bytes(limits::ID_MAP_TEXT)],
        /// `/proc/self/gid_map`.
        pub gid_map: Vec<u8> [Cap::bytes(limits::ID_MAP_TEXT)],
        /// Network interfaces, as asked for with netlink or `/sys`.
        pub interfaces: Vec<Interface> [Cap::count(limits::INTERFACES)],
        /// Landlock.
        pub landlock: LandlockFact,
        /// The host name.
        pub hostname: Vec<u8> [Cap::bytes(limits::HOSTNAME)],
        /// Whether `Seal` has been done.
        pub sealed: bool,
    }
}

record! {
    /// Asks which files stand at paths inside: what was mounted, not what it was called.
    pub struct Identify {
        /// Absolute paths inside. A link on the way is not followed.
        pub places: Vec<PathBuf> [Cap::each(limits::IDENTIFIED, limits::PATH)],
    }
}

record! {
    /// The answer to [`Identify`].
    pub struct Identified {
        /// One for each place; `None` where nothing can be found, or where a link stands on the way.
        pub files: Vec<Option<FileIdentity>> [Cap::count(limits::IDENTIFIED)],
    }
}

record! {
    /// Which file it is, whatever its name: the same numbers inside and outside.
    #[derive(Copy)]
    pub struct FileIdentity {
        /// The mount that it was reached through, as `mountinfo` numbers it; 0 if the kernel does not say.
        pub mount: u64,
        /// The device of its file system.
        pub device: u64,
        /// Its number there.
        pub inode: u64,
    }
}

record! {
    /// One process.
    pub struct ProcessFacts {
        /// `/proc/self/status`: ids, capabilities, seccomp, no-new-privs.
        pub status: Vec<u8> [Cap::bytes(limits::KERNEL_TEXT)],
        /// `/proc/self/limits`.
        pub limits: Vec<u8> [Cap::bytes(limits::KERNEL_TEXT)],
        /// `/proc/self/cgroup`.
        pub cgroup: Vec<u8> [Cap::bytes(limits::KERNEL_TEXT)],
        /// The links in `/proc/self/ns`.
        pub namespaces: Vec<NamespaceFact> [Cap::count(limits::NAMESPACES)],
        /// What `PR_GET_DUMPABLE` answers.
        pub dumpable: bool,
        /// What `PR_GET_SECUREBITS` answers.
        pub securebits: u32,
        /// Descriptors that are open, by number. A command has 0, 1 and 2.
        pub descriptors: Vec<u32> [Cap::count(limits::DESCRIPTORS)],
    }
}

record! {
    /// One namespace of a process.
    pub struct NamespaceFact {
        /// The name in `/proc/self/ns`: `user`, `pid`, `net`, …
        pub name: String [Cap::bytes(32)],
        /// Its number.
        pub inode: u64,
    }
}

record! {
    /// One network interface.
    pub struct Interface {
        /// Its name.
        pub name: String [Cap::bytes(32)],
        /// Whether it is up.
        pub up: bool,
        /// Whether it is the loopback.
        pub loopback: bool,
    }
}

record! {
    /// What Landlock does here.
    #[derive(Copy)]
    pub struct LandlockFact {
        /// The ABI that the kernel offers; 0 is none.
        pub abi: u32,
        /// Whether a confined child was refused an access that its plan does not open: tried,
        /// not believed.
        pub enforced: bool,
    }
}
