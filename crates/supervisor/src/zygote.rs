//! The source of pen makers for a host that lives long: starts once, and forks a maker (`make.rs`) whenever one is
//! wanted. A fork of this small process costs a fraction of starting the program again.
//!
//! ```text
//! engine ── N + a socket ──► zygote ──fork──► maker, with that socket as its own
//! ```
//!
//! It has one thread, no environment of the engine's and nothing of any pen: a maker is forked before it hears its
//! order, and the zygote never hears one. It ends with the engine's end of its socket; makers that have their order
//! go on. Pens that come from one zygote share the places of code in memory, as process 1 and its shims do.

use std::os::fd::{AsFd as _, OwnedFd};

use clawpen_os::events::{self, Interest};
use clawpen_os::namespaces::Namespaces;
use clawpen_os::process::{self, Child, Forked};
use clawpen_os::sockets;

use crate::make;
use crate::report::{Failure, Report, Step as _};

pub(crate) fn run() -> Result<(), Failure> {
    let engine = process::inherited(3).step("take descriptor 3")?;
    make::close_strangers()?;
    match serve(engine)? {
        // Everything of the zygote is dropped by now, but for this process.
        Some(socket) => {
            // Nobody hears a failure here but the engine, which has the other end.
            process::new_session().step("start a session")?;
            make::make_for(&Report::new(socket))
        }
        None => Ok(()),
    }
}

/// Serves until the engine is gone. In a new maker it returns that maker's socket.
fn serve(engine: OwnedFd) -> Result<Option<OwnedFd>, Failure> {
    let mut makers: Vec<Child> = Vec::new();
    loop {
        let mut wanted = vec![(engine.as_fd(), Interest::Read)];
        wanted.extend(makers.iter().map(|maker| (maker.pidfd(), Interest::Read)));
        let happened = events::poll(&wanted, None).step("wait for the engine")?;
        let is_asked = happened.iter().any(|event| event.token == 0);
        makers.retain(|maker| matches!(maker.try_wait(), Ok(None)));
        if !is_asked {
            continue;
        }
        let mut kind = [0_u8; 1];
        let message = sockets::receive(engine.as_fd(), &mut kind, 1).step("wait for the engine")?;
        if message.bytes == 0 {
            return Ok(None);
        }
        let Some(socket) = message.descriptors.into_iter().next() else {
            return Err(Failure::new("the engine sent no socket for a maker"));
        };
        // At a limit there is no maker; the engine sees its socket close.
        match process::clone3(Namespaces::NONE, None) {
            Ok(Forked::Child) => return Ok(Some(socket)),
            Ok(Forked::Parent(maker)) => makers.push(maker),
            Err(_) => {}
        }
    }
}
