//! Tries to leave the pen. `clawpen-attacks NAME` runs one mechanism and says how it went:
//!
//! - exit 0, `escaped: …`: it worked, with the evidence;
//! - exit 10, `blocked: …`: it did not, with what stopped it;
//! - exit 20, `cannot try: …`: this machine has not what the mechanism needs.
//!
//! The same program runs outside as the control: there each mechanism must work. Nothing here does
//! damage: what would be destructive is opened or created and left alone. `list` prints every name.
//!
//! Attackers call the kernel directly, so this crate is, besides `os`, the only one with unsafe code.
#![expect(clippy::print_stdout, reason = "a program of the tests that prints its result")]
#![expect(
    clippy::exit,
    reason = "a forked child of an attack must not go on with its parent's work"
)]
#![deny(unsafe_op_in_unsafe_fn)]

mod devices;
mod files;
mod kernel;
mod mounts;
mod namespaces;
mod privileges;
mod processes;
mod procfs;
mod sockets;
mod system;

use std::process::ExitCode;

/// How a mechanism went.
pub(crate) enum Outcome {
    Escaped(String),
    Blocked(String),
    CannotTry(String),
}

/// One mechanism.
pub(crate) struct Attack {
    pub(crate) name: &'static str,
    /// What a pen must do about it, in words, for the table.
    pub(crate) about: &'static str,
    pub(crate) run: fn() -> Outcome,
}

fn attacks() -> Vec<&'static Attack> {
    let families: [&[Attack]; 9] = [
        namespaces::ATTACKS,
        mounts::ATTACKS,
        procfs::ATTACKS,
        devices::ATTACKS,
        privileges::ATTACKS,
        processes::ATTACKS,
        sockets::ATTACKS,
        kernel::ATTACKS,
        files::ATTACKS,
    ];
    families.into_iter().flatten().collect()
}

fn main() -> ExitCode {
    let name = std::env::args().nth(1).unwrap_or_default();
    if name == "list" {
        for attack in attacks() {
            println!("{}\t{}", attack.name, attack.about);
        }
        return ExitCode::SUCCESS;
    }
    let Some(attack) = attacks().into_iter().find(|attack| attack.name == name) else {
        println!("no mechanism is called `{name}`");
        return ExitCode::from(30);
    };
    let (word, evidence, code) = match (attack.run)() {
        Outcome::Escaped(evidence) => ("escaped", evidence, 0),
        Outcome::Blocked(why) => ("blocked", why, 10),
        Outcome::CannotTry(why) => ("cannot try", why, 20),
    };
    println!("{word}: {evidence}");
    ExitCode::from(code)
}
