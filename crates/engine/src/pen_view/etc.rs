//! `/etc` of a pen: written here, with the few things of the host that programs cannot do without.

use std::fmt::Write as _;
use std::path::Path;

use clawpen_rules::native::{NativePen, Root};

use super::Builder;
use super::host::{Found, Host, ViewError};

/// Taken from the host as they are: how libraries are found, which of several programs is meant,
/// whom TLS trusts.
const FROM_HOST: &[&str] = &[
    "ld.so.cache",
    "alternatives",
    "ssl/certs",
    "ssl/openssl.cnf",
    "ca-certificates.conf",
    "pki/tls/certs",
    "pki/ca-trust",
    "os-release",
    "debian_version",
    "localtime",
    "timezone",
    "protocols",
    "services",
];
/// Written for every pen, also over those of an image.
pub(super) const WRITTEN: &[&str] = &["hosts", "hostname", "resolv.conf", "mtab"];
/// The name of the machine inside.
pub(crate) const HOST_NAME: &str = "pen";
/// The name of the pen's user.
const USER_NAME: &str = "agent";

pub(super) fn write(view: &mut Builder, pen: &NativePen, host: &Host) -> Result<(), ViewError> {
    match pen.root() {
        Root::HostView => {
            for name in FROM_HOST {
                take(view, host, Path::new("/etc"), name)?;
            }
            view.file("/etc/passwd", passwd(pen));
            view.file("/etc/group", group(pen));
            view.file("/etc/nsswitch.conf", "passwd: files\ngroup: files\nhosts: files dns\n");
        }
        // The image has brought its own.
        Root::Directory(_) => {}
    }
    view.file("/etc/hosts", hosts(pen));
    view.file("/etc/hostname", format!("{HOST_NAME}\n"));
    view.file("/etc/resolv.conf", resolv_conf(pen));
    view.link("/etc/mtab", "/proc/self/mounts".into());
    Ok(())
}

/// One entry: a link that stays among the system's directories is a link inside too; what is small
/// is copied, because a mount costs more than a copy.
fn take(view: &mut Builder, host: &Host, etc: &Path, name: &str) -> Result<(), ViewError> {
    let source = etc.join(name);
    let target = format!("/etc/{name}");
    match host.look(&source)? {
        Found::Nothing | Found::Other => {}
        Found::Link(to) => {
            let leads = Path::new("/etc").join(&to);
            let stays = leads.starts_with("/usr") || to.starts_with("../usr");
            if stays {
                view.link(&target, to);
            } else if let Some(contents) = host.text(&source) {
                view.file(&target, contents);
            }
        }
        Found::Directory => view.read_only(&host.real(&source)?, &target, host),
        Found::File => match host.text(&source) {
            Some(contents) => view.file(&target, contents),
            None => view.read_only(&host.real(&source)?, &target, host),
        },
    }
    Ok(())
}

fn passwd(pen: &NativePen) -> String {
    let user = pen.user();
    let home = pen.workdir();
    let mut text = String::new();
    // Writing to a String cannot fail.
    if user.uid == 0 {
        let _ = writeln!(text, "root:x:0:{}:root:{home}:/bin/sh", user.gid);
    } else {
        let _ = writeln!(text, "root:x:0:0:root:/:/usr/sbin/nologin");
        let _ = writeln!(text, "{USER_NAME}:x:{}:{}:agent:{home}:/bin/sh", user.uid, user.gid);
    }
    text.push_str("nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n");
    text
}

fn group(pen: &NativePen) -> String {
    let gid = pen.user().gid;
    let own = if gid == 0 { String::new() } else { format!("{USER_NAME}:x:{gid}:\n") };
    format!("root:x:0:\n{own}tty:x:5:\nnogroup:x:65534:\n")
}

fn hosts(pen: &NativePen) -> String {
    let mut text = format!(
        "127.0.0.1 localhost\n::1 localhost ip6-localhost ip6-loopback\n127.0.1.1 {HOST_NAME}\n"
    );
    for host in pen.hosts() {
        let _ = writeln!(text, "{} {}", host.address, host.name);
    }
    text
}

fn resolv_conf(pen: &NativePen) -> String {
    let mut text = String::new();
    for server in pen.dns() {
        let _ = writeln!(text, "nameserver {server}");
    }
    text
}
