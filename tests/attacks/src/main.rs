//! Tries to leave the pen. `clawpen-attacks NAME` runs one mechanism and says how it went:
//!
//! - exit 0, `escaped: …`: it worked, with the evidence;
//! - exit 10, `blocked: …`: it did not, with what stopped it;
//! - exit 20, `cannot try: …`: this machine has not what the mechanism needs.
//!
//! The same program runs outside as the control: there each mechanism must work. Nothing here does
//! damage: what would be destructive is opened or created and left alone. `list` prints every name.
//! Other words play the parts that some mechanisms need: a `victim`, a `neighbour`, the `host`, a `stand-in`.
//!
//! Attackers call the kernel directly, so this crate is, besides `os`, the only one with unsafe code.
#![expect(clippy::print_stdout, reason = "a program of the tests that prints its result")]
#![expect(
    clippy::exit,
    reason = "a forked child of an attack must not go on with its parent's work"
)]
#![deny(unsafe_op_in_unsafe_fn)]

mod bombs;
mod company;
mod devices;
mod files;
mod kernel;
mod mounts;
mod namespaces;
mod netlink;
mod privileges;
mod processes;
mod procfs;
mod programs;
mod reach;
mod resources;
mod signals;
mod sockets;
mod system;
mod young;

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
    let families: [&[Attack]; 15] = [
        namespaces::ATTACKS,
        mounts::ATTACKS,
        procfs::ATTACKS,
        devices::ATTACKS,
        privileges::ATTACKS,
        processes::ATTACKS,
        sockets::ATTACKS,
        kernel::ATTACKS,
        files::ATTACKS,
        programs::ATTACKS,
        signals::ATTACKS,
        netlink::ATTACKS,
        young::ATTACKS,
        company::ATTACKS,
        resources::ATTACKS,
    ];
    families.into_iter().flatten().collect()
}

fn main() -> ExitCode {
    let mut args = std::env::args().skip(1);
    let word = args.next().unwrap_or_default();
    let done = match word.as_str() {
        "list" => {
            list();
            Ok(())
        }
        "victim" => company::victim(),
        "bystander" => company::bystander(),
        "neighbour" => company::neighbour(),
        "stand-in" => signals::stand_in(),
        "rights" => {
            programs::rights();
            Ok(())
        }
        "host" => company::host(&args.next().unwrap_or_default()),
        "bomb" => bombs::bomb(&args.next().unwrap_or_default()),
        "count" => {
            println!("{}", bombs::count());
            Ok(())
        }
        "race" => {
            let [root, outside] = [args.next(), args.next()].map(Option::unwrap_or_default);
            bombs::race(&root, &outside)
        }
        "outside" => {
            bombs::outside(&args.next().unwrap_or_default()).map(|found| println!("{found}"))
        }
        "each" => company::each(&args.next().unwrap_or_default()),
        "endow" => programs::endow(&args.next().unwrap_or_default()),
        "company" => {
            let name = args.next().unwrap_or_default();
            return company::company(&name).map_or(ExitCode::FAILURE, ExitCode::from);
        }
        name => return attack(name),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            println!("{word}: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Every mechanism: name, what it tries, and where it does not apply with the reason.
fn list() {
    for attack in attacks() {
        let exempt: Vec<String> = reach::EXEMPT
            .iter()
            .filter(|exemption| exemption.name == attack.name)
            .map(|exemption| format!("{}={}", exemption.ground, exemption.why))
            .collect();
        println!("{}\t{}\t{}", attack.name, attack.about, exempt.join(";"));
    }
}

fn attack(name: &str) -> ExitCode {
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
