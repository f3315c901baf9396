//! Each test confines a thread of its own: a domain belongs to a thread.

use std::fs::{self, File};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::thread;

use super::*;

/// Runs `body` confined by a rule set as a kernel of this ABI would build it.
fn confined<T: Send>(request: &Request<'_>, abi: u32, body: impl Fn() -> T + Sync) -> T {
    let ruleset = Ruleset::build_at(request, abi).unwrap();
    thread::scope(|scope| {
        let thread = scope.spawn(|| {
            crate::process::set_no_new_privs().unwrap();
            ruleset.restrict_self().unwrap();
            body()
        });
        thread.join().unwrap()
    })
}

/// `None` is success.
fn refusal<T>(result: io::Result<T>) -> Option<i32> {
    result.err().map(|error| error.raw_os_error().unwrap_or(0))
}

fn best() -> u32 {
    abi().unwrap().expect("a kernel with Landlock")
}

#[test]
fn every_abi_refuses_writing_and_allows_what_was_given() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("file");
    fs::write(&file, "text").unwrap();
    let handle = File::open(directory.path()).unwrap();
    for abi in 1..=best().min(7) {
        let read = Access::READ | Access::EXECUTE;
        let request =
            Request { paths: vec![(handle.as_fd(), read)], tcp: None, scope: Scope::Open };
        let seen = confined(&request, abi, || {
            let create = refusal(fs::write(directory.path().join("new"), "x"));
            (refusal(fs::read(&file)), create, refusal(fs::read("/etc/passwd")))
        });
        assert_eq!(seen, (None, Some(libc::EACCES), Some(libc::EACCES)), "ABI {abi}");
    }
}

#[test]
fn a_right_on_a_file_is_only_about_this_file() {
    let directory = tempfile::tempdir().unwrap();
    let [given, other] = ["given", "other"].map(|name| directory.path().join(name));
    fs::write(&given, "").unwrap();
    fs::write(&other, "").unwrap();
    let handle = File::open(&given).unwrap();
    // READ and WRITE hold rights on directories, which the kernel refuses on a file.
    let paths = vec![(handle.as_fd(), Access::READ | Access::WRITE)];
    let request = Request { paths, tcp: None, scope: Scope::Open };
    let write = |path: &Path| refusal(fs::write(path, "x"));
    let seen = confined(&request, best(), || (write(&given), write(&other)));
    assert_eq!(seen, (None, Some(libc::EACCES)));
}

#[test]
fn tcp_ports_are_closed_but_for_those_given() {
    if best() < 4 {
        return;
    }
    let server = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = server.local_addr().unwrap().port();
    let connect = || refusal(TcpStream::connect(("127.0.0.1", port)));
    let tcp = Some(TcpPorts { bind: vec![], connect: vec![port] });
    let open = Request { tcp, ..Request::default() };
    assert_eq!(confined(&open, best(), connect), None);
    let closed = Request { tcp: Some(TcpPorts::default()), ..Request::default() };
    assert_eq!(confined(&closed, best(), connect), Some(libc::EACCES));
    let untouched = Request::default();
    assert_eq!(confined(&untouched, best(), connect), None);
}

#[test]
fn coverage_grows_with_the_abi() {
    let request = Request { tcp: Some(TcpPorts::default()), ..Request::default() };
    let check = |abi, files, network, scopes| {
        assert_eq!(Coverage::of(&request, abi), Coverage { abi, files, network, scopes });
    };
    check(1, 0x1fff, 0, 0);
    check(2, 0x3fff, 0, 0);
    check(3, 0x7fff, 0, 0);
    check(4, 0x7fff, 3, 0);
    check(5, 0xffff, 3, 0);
    check(6, 0xffff, 3, 3);
    check(7, 0xffff, 3, 3);
}
