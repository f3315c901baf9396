//! Where a mechanism does not apply, and why. Everything else applies everywhere.

/// One mechanism on one ground.
pub(crate) struct Exemption {
    pub(crate) name: &'static str,
    /// `root`, `user` or `docker`: a native pen of root's, of an ordinary user's, a container.
    pub(crate) ground: &'static str,
    pub(crate) why: &'static str,
}

pub(crate) const EXEMPT: &[Exemption] = &[
    Exemption {
        name: "memory-bomb",
        ground: "user",
        why: "an ordinary user may make no control group here, so `memory` refuses the start",
    },
    Exemption { name: "shared-memory-bomb", ground: "user", why: "as memory-bomb" },
    Exemption {
        name: "interrupts",
        ground: "docker",
        why: "what is masked in a container is the engine's choice; newer engines mask it too",
    },
    Exemption {
        name: "tmpfs-files",
        ground: "docker",
        why: "the engine gives a tmpfs a size and no number of files; `memory` bounds them",
    },
];
