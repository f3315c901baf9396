//! Sockets of this process with itself.

use std::fs::{self, File};
use std::io::Read as _;
use std::os::fd::AsFd as _;
use std::os::unix::fs::PermissionsExt as _;

use super::*;

#[test]
fn a_socket_listens_or_is_connected() {
    let directory = tempfile::tempdir().unwrap();
    let place = crate::beneath::open_root(directory.path()).unwrap();
    let listener = listen(place.as_fd(), OsStr::new("s")).unwrap();
    let (one, other) = pair(Kind::Stream).unwrap();
    let connected = connect(place.as_fd(), OsStr::new("s")).unwrap();
    let found =
        [&listener, &one, &other, &connected].map(|socket| is_listening(socket.as_fd()).unwrap());
    assert_eq!(found, [true, false, false, false]);
}

#[test]
fn a_long_directory_is_no_obstacle_and_the_peer_is_known() {
    let directory = tempfile::tempdir().unwrap();
    let deep = directory.path().join("d".repeat(200));
    fs::create_dir(&deep).unwrap();
    let handle = File::open(&deep).unwrap();
    let name = OsStr::new("s");
    let listener = listen(handle.as_fd(), name).unwrap();
    let mode = fs::metadata(deep.join("s")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let client = connect(handle.as_fd(), name).unwrap();
    let server = accept(listener.as_fd()).unwrap().unwrap();
    let this = Peer {
        pid: rustix::process::getpid().as_raw_pid(),
        uid: rustix::process::geteuid().as_raw(),
        gid: rustix::process::getegid().as_raw(),
    };
    assert_eq!(peer(client.as_fd()).unwrap(), this);
    assert_eq!(peer(server.as_fd()).unwrap(), this);
    peer_pidfd(client.as_fd()).unwrap();
    let refused = listen(handle.as_fd(), OsStr::new("../s")).unwrap_err();
    assert_eq!(refused.kind(), io::ErrorKind::InvalidInput);
}

#[test]
fn descriptors_travel_and_too_many_are_refused() {
    let (left, right) = pair(Kind::Messages).unwrap();
    let file = crate::memfd::sealed("x", b"inside", crate::memfd::Use::Read).unwrap();
    let send_two = || send(left.as_fd(), b"hi", &[file.as_fd(), left.as_fd()]).unwrap();
    let mut buffer = [0; 16];

    assert_eq!(send_two(), 2);
    let message = receive(right.as_fd(), &mut buffer, 2).unwrap();
    assert_eq!((message.bytes, message.descriptors.len()), (2, 2));
    let mut text = String::new();
    let mut received = message.descriptors.into_iter();
    File::from(received.next().unwrap()).read_to_string(&mut text).unwrap();
    assert_eq!(text, "inside");
    let flags = rustix::io::fcntl_getfd(received.next().unwrap()).unwrap();
    assert!(flags.contains(rustix::io::FdFlags::CLOEXEC));

    send_two();
    let refused = receive(right.as_fd(), &mut buffer, 1).unwrap_err();
    assert_eq!(refused.kind(), io::ErrorKind::InvalidData);

    // A message that is cut is no message.
    send(left.as_fd(), b"longer than two", &[]).unwrap();
    let refused = receive(right.as_fd(), &mut buffer[..2], 0).unwrap_err();
    assert_eq!(refused.kind(), io::ErrorKind::InvalidData);
}

#[test]
fn what_cannot_be_sent_is_refused() {
    let (left, right) = pair(Kind::Stream).unwrap();
    let check = |bytes: &[u8], descriptors: &[BorrowedFd<'_>], expected: i32| {
        let refused = send(left.as_fd(), bytes, descriptors).unwrap_err();
        assert_eq!(refused.raw_os_error(), Some(expected));
    };
    check(b"x", &[left.as_fd(); MAX_DESCRIPTORS + 1], libc::EINVAL);
    check(b"", &[left.as_fd()], libc::EINVAL);
    send(left.as_fd(), b"x", &[left.as_fd(); MAX_DESCRIPTORS]).unwrap();
    let mut buffer = [0; 1];
    let message = receive(right.as_fd(), &mut buffer, MAX_DESCRIPTORS).unwrap();
    assert_eq!(message.descriptors.len(), MAX_DESCRIPTORS);
    drop((message, right));
    check(b"x", &[], libc::EPIPE);
}
