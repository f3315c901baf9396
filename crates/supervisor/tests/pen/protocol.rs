//! The connection: who may connect, what comes first, what a broken or hostile peer achieves.

use std::os::fd::AsFd as _;

use clawpen_wire::pen::Lifetime;
use clawpen_wire::supervisor::{ErrorCode, Event, Failed, Hello, Reach, Request, Signal, VERSION};

use crate::any_maker;
use crate::harness::{Host, Pen, exec};

fn persistent() -> Pen {
    Pen::with(any_maker(), |spec| spec.serve.lifetime = Lifetime::Persistent)
}

fn code(event: &Event<'_>) -> Option<ErrorCode> {
    match event {
        Event::Failed(Failed { code, .. }) => Some(*code),
        _ => None,
    }
}

#[test]
fn nothing_runs_before_the_host_has_sealed() {
    let mut pen = Pen::unsealed(any_maker(), |_| {}).unwrap();
    assert_eq!(pen.host.run(exec(&["true"])).unwrap_err().code, ErrorCode::NotSealed);
    let stat = clawpen_wire::supervisor::Stat {
        place: crate::harness::below("x"),
        links: clawpen_wire::supervisor::Links::Report,
    };
    pen.host.call(Request::Stat(stat), |event| assert_eq!(code(event), Some(ErrorCode::NotSealed)));
    pen.host.call(Request::Seal, |event| assert_eq!(*event, Event::Done));
    assert_eq!(pen.host.shell("echo now"), "now\n");
}

#[test]
fn the_first_word_is_hello_and_the_version_must_fit() {
    let pen = persistent();
    let mut host = Host::connect_silently(pen.directory.path());
    host.send(0, &Request::Ping);
    host.next(|channel, event| assert_eq!((channel, code(event)), (0, Some(ErrorCode::Protocol))));
    assert!(host.is_closed());
    let mut host = Host::connect_silently(pen.directory.path());
    host.send(0, &Request::Hello(Hello { oldest: VERSION + 1, newest: VERSION + 9 }));
    host.next(|channel, event| assert_eq!((channel, code(event)), (0, Some(ErrorCode::Version))));
    assert!(host.is_closed());
    let mut host = Host::connect_silently(pen.directory.path());
    host.send(0, &Request::Hello(Hello { oldest: 0, newest: VERSION + 9 }));
    host.next(|_, event| {
        assert!(
            matches!(event, Event::Welcome(welcome) if welcome.version == VERSION && welcome.sealed)
        );
    });
}

#[test]
fn a_channel_in_use_and_a_senseless_request_break_the_connection_only() {
    let pen = persistent();
    let mut host = Host::connect(pen.directory.path());
    host.send(5, &Request::Exec(exec(&["sleep", "1000"])));
    host.send(5, &Request::Exec(exec(&["true"])));
    let mut broken = None;
    while broken.is_none() {
        broken = host.next(|channel, event| (channel == 0).then(|| code(event)));
    }
    assert_eq!(broken, Some(Some(ErrorCode::Protocol)));
    assert!(host.is_closed());
    let mut host = Host::connect(pen.directory.path());
    // Late frames of calls that have ended are dropped.
    host.send(77, &Request::Stdin(b"x"));
    host.send(77, &Request::Credit(5));
    host.send(77, &Request::WriteCommit);
    host.call(Request::Ping, |event| assert_eq!(*event, Event::Done));
    assert_eq!(host.processes().processes, [], "the command went with its connection");
}

#[test]
fn rubbish_ends_the_connection_and_not_the_pen() {
    let pen = persistent();
    let mut state = 0x1234_5678_9abc_def0_u64;
    let mut random = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    };
    for round in 0..300 {
        let mut host = Host::connect(pen.directory.path());
        let mut bytes = Vec::new();
        for _ in 0..20 {
            let length = random() % 200;
            let counted = if random() % 8 == 0 { random() } else { length + 5 };
            bytes.extend(u32::try_from(counted & 0xffff_ffff).unwrap().to_le_bytes());
            bytes.extend(u32::try_from(random() % 4).unwrap().to_le_bytes());
            bytes.push(u8::try_from(random() % 48).unwrap());
            bytes.extend(
                (0..length).map(|_| {
                    u8::try_from(random() & if round % 2 == 0 { 0xff } else { 1 }).unwrap()
                }),
            );
        }
        host.send_raw(&bytes);
        host.hang_up();
    }
    let mut host = Host::connect(pen.directory.path());
    assert_eq!(host.shell("echo here"), "here\n");
}

#[test]
fn a_host_that_does_not_read_costs_little_and_holds_up_nobody() {
    let pen = persistent();
    for number in 0..2000 {
        std::fs::write(pen.workspace.join(format!("{number:0200}")), "").unwrap();
    }
    let mut deaf = Host::connect(pen.directory.path());
    deaf.set_write_timeout();
    let list = clawpen_wire::supervisor::List {
        place: crate::harness::below(""),
        cursor: 0,
        limit: 1024,
        listing: clawpen_wire::supervisor::Listing::Full,
    };
    let mut bytes = Vec::new();
    for channel in 1..5000 {
        clawpen_wire::supervisor::frame::append(&mut bytes, channel, &Request::List(list.clone()))
            .unwrap();
    }
    deaf.send_raw(&bytes);
    let mut host = Host::connect(pen.directory.path());
    assert_eq!(host.shell("echo here"), "here\n");
    let status = std::fs::read_to_string(format!("/proc/{}/status", pen.pid)).unwrap();
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    let peak: u64 = peak.trim().trim_end_matches(" kB").parse().unwrap();
    assert!(peak < 16 * 1024, "{peak} KiB");
}

#[test]
fn the_workload_cannot_connect_even_if_it_finds_the_socket() {
    // The socket's directory as part of the workspace: what must never happen, and still opens nothing.
    let mut pen =
        Pen::unsealed(any_maker(), |spec| spec.serve.lifetime = Lifetime::Persistent).unwrap();
    std::fs::hard_link(pen.directory.path().join("s"), pen.workspace.join("s")).unwrap();
    std::fs::set_permissions(
        pen.workspace.join("s"),
        std::os::unix::fs::PermissionsExt::from_mode(0o777),
    )
    .unwrap();
    pen.host.call(Request::Seal, |_| {});
    let script = "import socket;s=socket.socket(socket.AF_UNIX);s.connect('/work/s');\
                  s.sendall(bytes([9,0,0,0, 0,0,0,0, 1, 1,0, 1,0]));print(s.recv(100))";
    let ran = pen.host.run(exec(&["python3", "-c", script])).unwrap();
    assert!(
        ran.text() == "b''\n" || String::from_utf8_lossy(&ran.err).contains("Error"),
        "{ran:?}"
    );
}

#[test]
fn shutdown_is_answered_and_obeyed() {
    let mut pen = persistent();
    pen.host.call(Request::Shutdown, |event| assert_eq!(*event, Event::Done));
    pen.wait_for_end();
}

#[test]
fn a_pen_that_is_to_stay_ends_with_its_maker_until_it_is_sealed() {
    let persistent = |spec: &mut clawpen_wire::pen::PenSpec| {
        spec.serve.lifetime = Lifetime::Persistent;
    };
    let mut pen = Pen::unsealed(any_maker(), persistent).unwrap();
    pen.host.hang_up();
    pen.wait_for_end();
    let mut pen = Pen::unsealed(any_maker(), persistent).unwrap();
    pen.host.call(Request::Seal, |_| {});
    pen.host.hang_up();
    let mut again = crate::harness::Host::connect(pen.directory.path());
    assert_eq!(again.shell("echo here"), "here\n");
}

#[test]
fn whoever_connects_sees_process_1_at_the_other_end() {
    for &maker in crate::makers() {
        let pen = Pen::new(maker);
        let stream =
            std::os::unix::net::UnixStream::connect(pen.directory.path().join("s")).unwrap();
        let peer = clawpen_os::sockets::peer(std::os::fd::AsFd::as_fd(&stream)).unwrap();
        assert_eq!(peer.pid, pen.pid);
    }
}

/// Hosts keep connections for their next call: those must not shut others out.
#[test]
fn a_connection_that_rests_makes_room_and_one_that_works_does_not() {
    const MOST: usize = 64;
    let mut pen = Pen::with(any_maker(), |spec| {
        spec.serve.lifetime = Lifetime::Persistent;
        spec.serve.caps.processes = 2 * 64;
    });
    let mut hosts: Vec<Host> = (1..MOST).map(|_| Host::connect(pen.directory.path())).collect();
    // These two are used again, so that another one is it that has rested longest.
    assert_eq!(pen.host.shell("echo used"), "used\n");
    assert_eq!(hosts[0].shell("echo used"), "used\n");
    let mut late = Host::connect(pen.directory.path());
    assert_eq!(late.shell("echo here"), "here\n");
    assert!(hosts[1].is_closed());
    assert_eq!(hosts[0].shell("echo still"), "still\n");

    hosts[1] = late;
    let mut working = Vec::new();
    for host in hosts.iter_mut().chain([&mut pen.host]) {
        let channel = host.channel();
        host.send(channel, &Request::Exec(exec(&["sleep", "1000"])));
        host.next(|_, event| assert!(matches!(event, Event::Started(_)), "{event:?}"));
        working.push((host, channel));
    }
    assert_eq!(working.len(), MOST);
    assert!(Host::connect_silently(pen.directory.path()).is_closed());
    // Nobody had to go for it.
    for (host, channel) in working {
        host.send(channel, &Request::Signal(Signal { signal: 9, reach: Reach::Tree }));
        host.next(|of, event| {
            assert_eq!(of, channel);
            assert!(matches!(event, Event::Exited(_)), "{event:?}");
        });
    }
}

/// A host that has begun to speak is not at rest, also if it was not heard yet.
#[test]
fn a_call_that_is_on_its_way_is_not_cut_off_to_make_room() {
    const MOST: usize = 64;
    let mut pen = persistent();
    let mut hosts: Vec<Host> = (1..MOST).map(|_| Host::connect(pen.directory.path())).collect();
    assert_eq!(pen.host.shell("echo used"), "used\n");
    let signal = |signal| clawpen_os::process::pidfd_signal(pen.pidfd.as_fd(), signal).unwrap();
    // While it does not look, somebody new comes, and then the one that has rested longest calls.
    signal(clawpen_os::process::Signal::STOP);
    let mut late = Host::connect_silently(pen.directory.path());
    let channel = hosts[0].channel();
    hosts[0].send(channel, &Request::Ping);
    signal(clawpen_os::process::Signal::CONT);
    late.send(0, &Request::Hello(Hello { oldest: VERSION, newest: VERSION }));
    late.next(|_, event| assert!(matches!(event, Event::Welcome(_)), "{event:?}"));
    hosts[0].next(|of, event| assert_eq!((of, event), (channel, &Event::Done)));
}
