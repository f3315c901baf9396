//! What one message costs to write and to read. An exec is two small ones each way; the budget for
//! all of the channel's own work on it is 30 µs.
#![expect(clippy::expect_used, reason = "a bench whose frames are broken measures nothing")]

use clawpen_wire::pen::{
    BindOwner, Credentials, IdPlan, IdRange, IdWriter, LandlockPlan, Lifetime, MakePlan,
    MountFlags, MountStep, Namespaces, Network, PenSpec, ServeCaps, ServePlan, Submounts,
};
use clawpen_wire::supervisor::frame::{self, Inbox, Message};
use clawpen_wire::supervisor::{
    End, EnvVar, EnvironmentBase, Event, Exec, ExecOutput, Exited, Output, Request, StderrMode,
    StdinMode, Stream, Usage,
};
use divan::{Bencher, black_box, counter::BytesCount};

fn main() {
    divan::main();
}

#[divan::bench]
fn write_exec(bencher: Bencher<'_, '_>) {
    let (request, mut out) = (Request::Exec(exec()), Vec::new());
    bencher.bench_local(|| write(&mut out, &request));
}

#[divan::bench]
fn read_exec(bencher: Bencher<'_, '_>) {
    let bytes = framed(&Request::Exec(exec()));
    let mut inbox = Inbox::of_requests();
    bencher.bench_local(|| {
        inbox.room()[..bytes.len()].copy_from_slice(&bytes);
        inbox.filled(bytes.len());
        let frame = inbox.next_frame().expect("a frame").expect("whole");
        black_box(frame.decode::<Request<'_>>()).is_ok()
    });
}

#[divan::bench]
fn write_exited(bencher: Bencher<'_, '_>) {
    let (event, mut out) = (exited(), Vec::new());
    bencher.bench_local(|| write(&mut out, &event));
}

#[divan::bench]
fn read_exited(bencher: Bencher<'_, '_>) {
    let bytes = framed(&exited());
    let mut inbox = Inbox::of_events();
    bencher.bench_local(|| {
        inbox.room()[..bytes.len()].copy_from_slice(&bytes);
        inbox.filled(bytes.len());
        let frame = inbox.next_frame().expect("a frame").expect("whole");
        black_box(frame.decode::<Event<'_>>()).is_ok()
    });
}

#[divan::bench(args = [4096, 65_536, 262_144])]
fn write_output(bencher: Bencher<'_, '_>, length: usize) {
    let bytes = vec![7; length];
    let event = Event::Output(Output { stream: Stream::Stdout, offset: 0, bytes: &bytes });
    let mut out = Vec::new();
    bencher.counter(BytesCount::new(length)).bench_local(|| write(&mut out, &event));
}

/// Decoding alone: the bytes stay where the socket put them.
#[divan::bench(args = [4096, 262_144])]
fn read_output(bencher: Bencher<'_, '_>, length: usize) {
    let bytes = vec![7; length];
    let event = Event::Output(Output { stream: Stream::Stdout, offset: 0, bytes: &bytes });
    let bytes = framed(&event);
    let mut inbox = Inbox::of_events();
    let mut rest = bytes.as_slice();
    while !rest.is_empty() {
        let room = inbox.room();
        let (now, later) = rest.split_at(rest.len().min(room.len()));
        room[..now.len()].copy_from_slice(now);
        inbox.filled(now.len());
        rest = later;
    }
    let frame = inbox.next_frame().expect("a frame").expect("whole");
    bencher.bench_local(|| black_box(frame.decode::<Event<'_>>()).is_ok());
}

#[divan::bench]
fn write_pen_spec(bencher: Bencher<'_, '_>) {
    let spec = pen_spec();
    bencher.bench_local(|| black_box(spec.to_bytes()).is_ok());
}

#[divan::bench]
fn read_pen_spec(bencher: Bencher<'_, '_>) {
    let bytes = pen_spec().to_bytes().expect("within the caps");
    bencher.bench_local(|| black_box(PenSpec::from_bytes(&bytes)).is_ok());
}

/// Writes into the same buffer over and over, as a connection does.
fn write<'w, M: Message<'w>>(out: &mut Vec<u8>, message: &M) -> bool {
    out.clear();
    frame::append(out, 1, message).is_ok()
}

fn framed<'w, M: Message<'w>>(message: &M) -> Vec<u8> {
    let mut out = Vec::new();
    frame::append(&mut out, 1, message).expect("within the caps");
    out
}

fn exited() -> Event<'static> {
    let usage = Usage { user_us: 1, system_us: 2, max_rss_kib: 3, wall_us: 4 };
    Event::Exited(Exited { end: End::Code(0), timed_out: false, usage })
}

/// A shell command with twenty variables.
fn exec() -> Exec {
    let variable = |number: i32| EnvVar {
        name: format!("VARIABLE_{number}").into(),
        value: "/usr/local/bin:/usr/bin:/bin".into(),
    };
    Exec {
        argv: ["sh", "-c", "make -j2 test"].map(Into::into).to_vec(),
        cwd: Some("/workspace/project".into()),
        base: EnvironmentBase::Sandbox,
        env: (0..20).map(variable).collect(),
        stdin: StdinMode::Null,
        stderr: StderrMode::Separate,
        tty: None,
        timeout_ms: 60_000,
        grace_ms: 0,
        output: ExecOutput::Stream { window: 1 << 20 },
    }
}

/// Forty binds and a filter of 500 instructions: about what a native pen has.
fn pen_spec() -> PenSpec {
    let bind = |number: i32| MountStep::Bind {
        source: format!("/usr/share/part-{number}").into(),
        target: format!("/usr/share/part-{number}").into(),
        flags: MountFlags { bits: MountFlags::READ_ONLY },
        submounts: Submounts::Leave,
        owner: BindOwner::AsIs,
    };
    let ids = vec![IdRange { inside: 0, outside: 0x7000_0000, count: 65_536 }];
    let make = MakePlan {
        hostname: "pen".into(),
        namespaces: Namespaces::ALL,
        ids: IdPlan { writer: IdWriter::Direct, uids: ids.clone(), gids: ids },
        root: (0..40).map(bind).collect(),
        network: Network::None,
        cgroups: Vec::new(),
    };
    let serve = ServePlan {
        lifetime: Lifetime::UntilDisconnect,
        user: Credentials { uid: 1000, gid: 1000, groups: Vec::new() },
        workdir: "/workspace".into(),
        env: exec().env,
        rlimits: Vec::new(),
        umask: 0o022,
        seccomp: vec![0; 4000],
        landlock: LandlockPlan { lowest_abi: 1, rules: Vec::new(), tcp: true },
        roots: Vec::new(),
        caps: ServeCaps::default(),
    };
    PenSpec { make: Some(Box::new(make)), serve }
}
