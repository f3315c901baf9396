//! What must hold on each backend, whatever else does not.
//!
//! A fact on the floor that does not hold, or was not observed, destroys the sandbox. The others
//! are shown by `explain --live`.

use super::Fact;
use crate::backend::Backend;

/// How much a fact counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Need {
    Floor,
    Shown,
}

/// The floor of a backend in words, for people.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Floor {
    pub backend: Backend,
    pub holds: &'static [&'static str],
    /// What this backend cannot promise.
    pub not: &'static [&'static str],
}

/// The written floor of each backend.
pub const fn floor(backend: Backend) -> Floor {
    let (holds, not): (&[&str], &[&str]) = match backend {
        Backend::Native => (
            &[
                "own user, pid, mount, net, ipc, uts and cgroup namespaces",
                "ids mapped to unprivileged ids of the host, never to 0",
                "no capability in any of the five sets, no-new-privs, our seccomp filter",
                "exactly the mounts asked for, with their flags; nothing of the host besides",
                "loopback as the only interface",
                "every configured limit",
                "Landlock, where the kernel has it",
            ],
            &["Landlock on kernels without it"],
        ),
        Backend::Docker => (
            &[
                "own pid, mount, net, ipc and uts namespaces",
                "the configured user, no capability in commands, no-new-privs, our seccomp filter",
                "the mounts asked for, with their access, of the very files that were checked",
                "every configured limit, as the engine reports it",
            ],
            &["a user namespace, unless the engine has one", "what the engine's own daemon does"],
        ),
        Backend::Ssh | Backend::OpenShell | Backend::Kubernetes => {
            (&[], &["anything: this build does not start sandboxes there"])
        }
    };
    Floor { backend, holds, not }
}

/// How much `fact` counts on `backend`.
pub(super) const fn need(backend: Backend, fact: &Fact) -> Need {
    match backend {
        Backend::Native => match fact {
            Fact::Namespace(_)
            | Fact::UidMap
            | Fact::GidMap
            | Fact::User
            | Fact::Groups
            | Fact::Capabilities
            | Fact::NoNewPrivs
            | Fact::Seccomp
            | Fact::Landlock
            | Fact::Mount(_)
            | Fact::Interfaces
            | Fact::Rlimit(_)
            | Fact::Cgroup(_)
            | Fact::Descriptors
            | Fact::Memory => Need::Floor,
        },
        Backend::Docker | Backend::Ssh | Backend::OpenShell | Backend::Kubernetes => match fact {
            Fact::UidMap | Fact::GidMap => Need::Shown,
            Fact::Namespace(_)
            | Fact::User
            | Fact::Groups
            | Fact::Capabilities
            | Fact::NoNewPrivs
            | Fact::Seccomp
            | Fact::Landlock
            | Fact::Mount(_)
            | Fact::Interfaces
            | Fact::Rlimit(_)
            | Fact::Cgroup(_)
            | Fact::Descriptors
            | Fact::Memory => Need::Floor,
        },
    }
}
