//! Becomes process 1: builds the root, moves in, gives its power up, and serves.
//!
//! The order matters, and the reason stands beside each step of [`become_process_1`]. Everything before
//! `pivot_root` can still see the host and runs code of ours only; everything after `drop_power` runs with
//! no capability, the pen's user and a root that shows nothing of the host but what the spec brought in.

use std::collections::VecDeque;
use std::fs::{self, File, Permissions};
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use clawpen_os::beneath;
use clawpen_os::capabilities;
use clawpen_os::mounts::{self, Extent, Propagation};
use clawpen_os::namespaces;
use clawpen_os::net;
use clawpen_os::process::{self, Dumpable};
use clawpen_os::sockets;
use clawpen_wire::pen::{Credentials, IdWriter, MakePlan, Network, PenSpec, ServePlan};

use crate::confine::Confinement;
use crate::faults;
use crate::make::{self, MakerSide, Trees};
use crate::report::{Failure, Report, Step as _};
use crate::serve;

mod root;

/// Process 1 of a native pen. Returns when the pen ends.
pub(crate) fn become_process_1(
    plan: MakePlan,
    serve: ServePlan,
    socket: OwnedFd,
    maker: MakerSide,
    report: &Report,
) -> Result<(), Failure> {
    // First of all: our own ids are not mapped in here, and whoever has no id can make no file. The
    // pen's root if there is one, so that the user inside does not own the root's own files.
    let builder = builder_ids(&plan, &serve.user);
    switch_ids(&builder, plan.ids.writer).step("take an id of the pen")?;
    process::set_umask(0);

    // Before the first mount: nothing that happens here may travel back to the host.
    let host = beneath::open_root(Path::new("/")).step("open the host's root")?;
    if !faults::is_off("mount-namespace") {
        mounts::set_propagation_at(host.as_fd(), Path::new(""), Propagation::Private, Extent::Tree)
            .step("make all mounts private")?;
    }

    // The ordinary user's mounts are opened here, where we have power over a copy of the host's mounts;
    // root's come from the maker.
    let trees = if plan.ids.writer == IdWriter::Direct {
        Trees::from_maker(maker)
    } else {
        drop(maker);
        let mut opened = VecDeque::new();
        make::host_trees(&plan, None, &mut |tree| {
            opened.push_back(tree);
            Ok(())
        })?;
        Trees::Opened(opened)
    };
    let root = if faults::is_off("mount-namespace") {
        None
    } else {
        Some(root::build(&plan, &serve.user, host, trees)?)
    };

    // Needs the capabilities that are about to go.
    if !faults::is_off("uts-namespace") {
        namespaces::set_host_name(&plan.hostname).step("set the host name")?;
    }
    match plan.network {
        // The host's own loopback is on already, and not ours to switch.
        Network::None if faults::is_off("net-namespace") => {}
        Network::None => net::bring_loopback_up().step("switch the loopback on")?,
        Network::Given => {}
    }
    faults::add_interface()?;

    // The old root is gone after this: no path, no working directory and no descriptor leads there.
    if let Some(root) = root {
        faults::pivot_root(root.as_fd()).step("move into the new root")?;
    }

    drop_power(&serve.user, plan.ids.writer)?;
    // Changing ids has closed us to observers. The host has not looked yet, and nothing that could
    // misuse an open process 1 runs before it has: `Seal` closes it again.
    process::set_dumpable(Dumpable::Yes).step("stay observable")?;
    serve_in_place(serve, socket, Some(report))
}

/// Process 1 of a container that someone else made, started as its user.
pub(crate) fn serve_container(spec: &Path, directory: &Path) -> Result<(), Failure> {
    make::close_strangers()?;
    let file = File::open(spec).step_with(|| format!("open the pen spec `{}`", spec.display()))?;
    let mut spec = make::read_spec(file)?;
    faults::spoil(&mut spec);
    let PenSpec { make, serve } = spec;
    if make.is_some() {
        return Err(Failure::new(
            "the pen spec says how to make a pen, but this one is made already",
        ));
    }
    let now = process::identity().step("ask who we are")?;
    if (now.uid, now.gid) != (serve.user.uid, serve.user.gid) && !faults::is_off("user") {
        return Err(Failure::new(format!(
            "started as {}:{}, and the pen spec says {}:{}",
            now.uid, now.gid, serve.user.uid, serve.user.gid
        )));
    }
    let place = beneath::open_root(directory)
        .step_with(|| format!("open the socket's directory `{}`", directory.display()))?;
    let listener =
        sockets::listen(place.as_fd(), ".s".as_ref()).step("listen in the socket's directory")?;
    // The host may be another user than ours. The directory around it is the host's alone, and whoever
    // comes from inside is refused by his process number.
    fs::set_permissions(directory.join(".s"), Permissions::from_mode(0o666))
        .step("open the socket to the host")?;
    // Whoever waits for the name connects at once, so it appears when everything is in place.
    fs::rename(directory.join(".s"), directory.join("s")).step("show the socket")?;
    drop(place);
    // Whatever the engine left us. An ordinary user cannot empty the bounding set; it is useless without
    // the others and no-new-privs, and the host judges the facts.
    if faults::drop_capabilities().is_err() {
        capabilities::drop_all_but_bounding().step("give our capabilities up")?;
    }
    if !faults::is_off("no-new-privs") {
        process::set_no_new_privs().step("set no-new-privs")?;
    }
    serve_in_place(serve, listener, None)
}

/// The common rest: nothing here needs any power.
fn serve_in_place(
    plan: ServePlan,
    socket: OwnedFd,
    report: Option<&Report>,
) -> Result<(), Failure> {
    process::set_umask(plan.umask & 0o777);
    let confinement = Confinement::prepare(&plan)?;
    let server = serve::Server::new(plan, confinement, socket)?;
    if let Some(report) = report {
        report.ready()?;
    }
    serve::run(server)
}

/// Who builds: the pen's root if the map knows one, else the pen's user.
fn builder_ids(plan: &MakePlan, user: &Credentials) -> Credentials {
    let has_zero = |map: &[clawpen_wire::pen::IdRange]| map.iter().any(|range| range.inside == 0);
    if has_zero(&plan.ids.uids) && has_zero(&plan.ids.gids) {
        Credentials { uid: 0, gid: 0, groups: Vec::new() }
    } else {
        Credentials { uid: user.uid, gid: user.gid, groups: Vec::new() }
    }
}

fn switch_ids(to: &Credentials, writer: IdWriter) -> std::io::Result<()> {
    // Groups first, the user last: each needs the power that the next may take away. With a single id
    // `setgroups` is denied for good, and the host's groups stay as unmapped ones.
    match writer {
        IdWriter::Direct | IdWriter::Helpers => process::set_groups(&to.groups)?,
        IdWriter::Single => {}
    }
    process::set_gid(to.gid)?;
    process::set_uid(to.uid)
}

fn drop_power(user: &Credentials, writer: IdWriter) -> Result<(), Failure> {
    // From here on no set of capabilities moves by itself when ids change, so that the next three steps
    // can be taken in this order.
    faults::lock_securebits().step("lock the secure bits")?;
    switch_ids(user, writer).step("become the pen's user")?;
    faults::drop_capabilities().step("drop all capabilities")?;
    if !faults::is_off("no-new-privs") {
        process::set_no_new_privs().step("set no-new-privs")?;
    }
    Ok(())
}
