//! The supervisor for real: pens made by root and by an ordinary user, driven frame by frame.
//!
//! As root, every test that says `makers()` makes its pen twice: once as root, once as an ordinary user.

#[path = "pen/harness.rs"]
mod harness;

#[path = "pen/background.rs"]
mod background;
#[path = "pen/commands.rs"]
mod commands;
#[path = "pen/confinement.rs"]
mod confinement;
#[path = "pen/files.rs"]
mod files;
#[path = "pen/protocol.rs"]
mod protocol;
#[path = "pen/speed.rs"]
mod speed;
#[path = "pen/trees.rs"]
mod trees;

use harness::Maker;

fn makers() -> &'static [Maker] {
    if harness::is_root() { &[Maker::Root, Maker::Ordinary] } else { &[Maker::Ordinary] }
}

fn any_maker() -> Maker {
    makers()[0]
}
