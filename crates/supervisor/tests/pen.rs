//! The supervisor for real: pens made by root and by an ordinary user, driven frame by frame.
//!
//! As root, every test that says `makers()` makes its pen twice: once as root, once as an ordinary user.

#[cfg(test)]
#[path = "pen/harness.rs"]
mod harness;

#[cfg(test)]
#[path = "pen/background.rs"]
mod background;
#[cfg(test)]
#[path = "pen/commands.rs"]
mod commands;
#[cfg(test)]
#[path = "pen/confinement.rs"]
mod confinement;
#[cfg(test)]
#[path = "pen/container.rs"]
mod container;
#[cfg(test)]
#[path = "pen/files.rs"]
mod files;
#[cfg(test)]
#[path = "pen/programs.rs"]
mod programs;
#[cfg(test)]
#[path = "pen/protocol.rs"]
mod protocol;
#[cfg(test)]
#[path = "pen/standby.rs"]
mod standby;
#[cfg(test)]
#[path = "pen/trees.rs"]
mod trees;

use harness::Maker;

fn makers() -> &'static [Maker] {
    if harness::is_root() { &[Maker::Root, Maker::Ordinary] } else { &[Maker::Ordinary] }
}

fn any_maker() -> Maker {
    makers()[0]
}
