//! Signals are blocked per thread, and every test has a thread of its own.

use std::thread;

use super::*;
use crate::process::{Pid, kill};

#[test]
fn epoll_tells_what_can_be_read_and_who_hung_up() {
    let epoll = Epoll::new().unwrap();
    let (reader, writer) = pipe().unwrap();
    epoll.add(reader.as_fd(), 7, Interest::Read).unwrap();
    let mut events = Vec::new();
    epoll.wait(&mut events, Some(Duration::ZERO)).unwrap();
    assert_eq!(events, []);
    write(writer.as_fd(), b"x").unwrap();
    epoll.wait(&mut events, None).unwrap();
    let readable = Event { token: 7, readable: true, writable: false, hung_up: false };
    assert_eq!(events, [readable]);
    drop(writer);
    epoll.wait(&mut events, None).unwrap();
    assert_eq!(events, [Event { hung_up: true, ..readable }]);
    epoll.modify(reader.as_fd(), 8, Interest::None).unwrap();
    epoll.wait(&mut events, None).unwrap();
    assert_eq!(events, [Event { token: 8, readable: false, writable: false, hung_up: true }]);
    epoll.remove(reader.as_fd()).unwrap();
    epoll.wait(&mut events, Some(Duration::ZERO)).unwrap();
    assert_eq!(events, []);
}

#[test]
fn poll_numbers_its_answers_by_place() {
    let (reader, writer) = pipe().unwrap();
    let both = [(reader.as_fd(), Interest::Read), (writer.as_fd(), Interest::Write)];
    let writable = Event { token: 1, readable: false, writable: true, hung_up: false };
    assert_eq!(poll(&both, None).unwrap(), [writable]);
    assert_eq!(poll(&both[..1], Some(Duration::from_millis(1))).unwrap(), []);
}

#[test]
fn a_timer_fires_once_and_can_be_cleared() {
    let timer = Timer::new().unwrap();
    assert!(!timer.has_fired().unwrap());
    timer.set(Duration::ZERO).unwrap();
    poll(&[(timer.as_fd(), Interest::Read)], None).unwrap();
    assert!(timer.has_fired().unwrap());
    assert!(!timer.has_fired().unwrap());
    timer.set(Duration::ZERO).unwrap();
    timer.clear().unwrap();
    assert!(!timer.has_fired().unwrap());
}

#[test]
fn a_signal_tells_who_sent_it() {
    let received = thread::spawn(|| {
        let signals = SignalFd::new(&[Signal::WINCH]).unwrap();
        // Sent to the process; the other threads ignore it by default, so make it this thread's.
        // SAFETY: gettid and tgkill take and give integers.
        let thread = unsafe { libc::syscall(libc::SYS_gettid) };
        // SAFETY: as above.
        unsafe { libc::syscall(libc::SYS_tgkill, Pid::this().get(), thread, libc::SIGWINCH) };
        (signals.read().unwrap(), signals.read().unwrap())
    });
    let origin = Origin::Process(Pid::this().get());
    let expected = Received { signal: Signal::WINCH, origin };
    assert_eq!(received.join().unwrap(), (Some(expected), None));
}

#[test]
fn a_sender_that_names_itself_is_not_believed() {
    let received = thread::spawn(|| {
        let signals = SignalFd::new(&[Signal::WINCH]).unwrap();
        // SAFETY: gettid takes nothing and gives an integer.
        let thread = unsafe { libc::syscall(libc::SYS_gettid) };
        // Number, error, code, then a sender that is not us.
        let mut info = [0_i32; 32];
        (info[0], info[2]) = (libc::SIGWINCH, libc::SI_QUEUE);
        let own = Pid::this().get();
        let call = libc::SYS_rt_tgsigqueueinfo;
        // SAFETY: the kernel reads the 128 bytes of `info`, which outlives the call.
        let sent = unsafe { libc::syscall(call, own, thread, libc::SIGWINCH, info.as_ptr()) };
        (sent, signals.read().unwrap())
    });
    let expected = Received { signal: Signal::WINCH, origin: Origin::Claimed };
    assert_eq!(received.join().unwrap(), (0, Some(expected)));
}

#[test]
fn blocked_signals_wait_until_the_guard_is_gone() {
    let pending = thread::spawn(|| {
        let mask = || rustix_mask();
        let before = mask();
        let guard = SignalsBlocked::all().unwrap();
        let during = mask();
        drop(guard);
        (before == mask(), during != before)
    });
    assert_eq!(pending.join().unwrap(), (true, true));
}

/// The thread's mask, as `/proc` shows it.
fn rustix_mask() -> String {
    let status = std::fs::read_to_string("/proc/thread-self/status").unwrap();
    status.lines().find(|line| line.starts_with("SigBlk")).unwrap().to_owned()
}

#[test]
fn a_broken_pipe_is_an_error() {
    ignore_broken_pipes().unwrap();
    let (reader, writer) = pipe().unwrap();
    drop(reader);
    assert_eq!(write(writer.as_fd(), b"x").unwrap_err().kind(), io::ErrorKind::BrokenPipe);
}

#[test]
fn a_nonblocking_read_says_that_nothing_is_there() {
    let (reader, _writer) = pipe().unwrap();
    set_nonblocking(reader.as_fd()).unwrap();
    let nothing = read(reader.as_fd(), &mut [0]).unwrap_err();
    assert_eq!(nothing.kind(), io::ErrorKind::WouldBlock);
    assert_eq!(read(open_null().unwrap().as_fd(), &mut [0]).unwrap(), 0);
}

#[test]
fn a_signal_to_nobody_is_an_error() {
    let nobody = Pid::new(i32::MAX).unwrap();
    assert_eq!(kill(nobody, Signal::TERM).unwrap_err().raw_os_error(), Some(libc::ESRCH));
}
