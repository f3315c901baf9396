//! What facts are called: in a sentence, and by kind for programs.

use std::fmt;

use super::Fact;

/// What a fact is about, without which one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum FactKind {
    Namespace,
    UidMap,
    GidMap,
    User,
    Groups,
    Capabilities,
    NoNewPrivs,
    Seccomp,
    Landlock,
    Mount,
    Interfaces,
    Rlimit,
    Cgroup,
    Descriptors,
    Memory,
}

impl FactKind {
    pub const ALL: [Self; 15] = [
        Self::Namespace,
        Self::UidMap,
        Self::GidMap,
        Self::User,
        Self::Groups,
        Self::Capabilities,
        Self::NoNewPrivs,
        Self::Seccomp,
        Self::Landlock,
        Self::Mount,
        Self::Interfaces,
        Self::Rlimit,
        Self::Cgroup,
        Self::Descriptors,
        Self::Memory,
    ];

    /// As JSON writes it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Namespace => "namespace",
            Self::UidMap => "uidMap",
            Self::GidMap => "gidMap",
            Self::User => "user",
            Self::Groups => "groups",
            Self::Capabilities => "capabilities",
            Self::NoNewPrivs => "noNewPrivs",
            Self::Seccomp => "seccomp",
            Self::Landlock => "landlock",
            Self::Mount => "mount",
            Self::Interfaces => "interfaces",
            Self::Rlimit => "rlimit",
            Self::Cgroup => "cgroup",
            Self::Descriptors => "descriptors",
            Self::Memory => "memory",
        }
    }
}

impl Fact {
    pub const fn kind(&self) -> FactKind {
        match self {
            Self::Namespace(_) => FactKind::Namespace,
            Self::UidMap => FactKind::UidMap,
            Self::GidMap => FactKind::GidMap,
            Self::User => FactKind::User,
            Self::Groups => FactKind::Groups,
            Self::Capabilities => FactKind::Capabilities,
            Self::NoNewPrivs => FactKind::NoNewPrivs,
            Self::Seccomp => FactKind::Seccomp,
            Self::Landlock => FactKind::Landlock,
            Self::Mount(_) => FactKind::Mount,
            Self::Interfaces => FactKind::Interfaces,
            Self::Rlimit(_) => FactKind::Rlimit,
            Self::Cgroup(_) => FactKind::Cgroup,
            Self::Descriptors => FactKind::Descriptors,
            Self::Memory => FactKind::Memory,
        }
    }
}

impl fmt::Display for Fact {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Namespace(kind) => write!(f, "namespace `{kind}`"),
            Self::UidMap => f.write_str("user id map"),
            Self::GidMap => f.write_str("group id map"),
            Self::User => f.write_str("user"),
            Self::Groups => f.write_str("groups"),
            Self::Capabilities => f.write_str("capabilities"),
            Self::NoNewPrivs => f.write_str("no-new-privs"),
            Self::Seccomp => f.write_str("seccomp"),
            Self::Landlock => f.write_str("landlock"),
            Self::Mount(target) => write!(f, "mount `{target}`"),
            Self::Interfaces => f.write_str("network interfaces"),
            Self::Rlimit(kind) => write!(f, "limit `{}`", kind.as_str()),
            Self::Cgroup(what) => write!(f, "cgroup limit `{what}`"),
            Self::Descriptors => f.write_str("open descriptors"),
            Self::Memory => f.write_str("process 1 closed to others"),
        }
    }
}
