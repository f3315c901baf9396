//! Process 1 of every pen: makes the pen, runs commands in it, moves files, reports what is in force.
//!
//! ```text
//! make      descriptor 3: orders come from there, reports go there
//!             clones into new namespaces, waits for the pen spec, hands over what only the host can open, ends
//!             └► the clone becomes process 1: builds the root, gives its power up, serves
//! zygote    descriptor 3: a socket comes from there for each maker that is wanted; forks one for it
//! serve     SPEC DIRECTORY: process 1 of a container that someone else made; binds DIRECTORY/s, serves
//! keep      no pen at all: one program on the host and all that it leaves behind (`keep.rs`)
//! ```
//!
//! One thread, one loop (`serve.rs`), no async. Nothing is decided here: the spec says what to do, and what
//! cannot be done ends the process with a sentence that says what and why.
#![forbid(unsafe_code)]

mod confine;
mod exec;
mod facts;
mod faults;
mod files;
mod init;
mod keep;
mod make;
mod processes;
mod reap;
mod report;
mod serve;
mod sha256;
mod shim;
mod zygote;

use std::io::Write as _;
use std::path::Path;
use std::process::ExitCode;

use report::Failure;

fn main() -> ExitCode {
    let arguments: Vec<_> = std::env::args_os().skip(1).collect();
    let words: Vec<&Path> = arguments.iter().map(Path::new).collect();
    let outcome = match words.as_slice() {
        [mode] if mode.as_os_str() == "make" => make::run(),
        [mode] if mode.as_os_str() == "zygote" => zygote::run(),
        [mode, spec, directory] if mode.as_os_str() == "serve" => {
            init::serve_container(spec, directory).inspect_err(|failure| {
                // A container that goes with its first process takes its log along.
                let _ = std::fs::write(directory.join("failure"), failure.to_string());
            })
        }
        [mode, words @ ..] if mode.as_os_str() == "keep" => keep::run(words),
        _ => Err(Failure::new(
            "cannot tell what to do: say make, zygote, keep PROGRAM or serve SPEC DIRECTORY",
        )),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            // The last word, for `docker logs` and for a maker started by hand; nobody is left to tell
            // if this fails too.
            let _ = writeln!(std::io::stderr(), "clawpen-supervisor: {failure}");
            ExitCode::FAILURE
        }
    }
}
