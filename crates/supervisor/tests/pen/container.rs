//! The mode `serve`: process 1 of a container that someone else made. `unshare` stands in for the engine.

use std::process::{Child, Command, Stdio};
use std::time::Instant;

use clawpen_wire::supervisor::{End, Request};

use crate::harness::{Host, Maker, PATIENCE, exec, is_root, place, spec};

struct Container(Child);

impl Drop for Container {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Starts the supervisor as an ordinary user in a pid namespace of its own.
fn start(directory: &std::path::Path, user: u32) -> Container {
    let program = env!("CARGO_BIN_EXE_clawpen-supervisor");
    let child = Command::new("unshare")
        .args(["--pid", "--mount-proc", "--fork", "--kill-child", "setpriv"])
        .args([format!("--reuid={user}"), format!("--regid={user}"), "--clear-groups".into()])
        .args(["--inh-caps=-all", "--bounding-set=-all", program, "serve"])
        .args([directory.join("spec"), directory.join("socket")])
        .stdin(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    Container(child)
}

#[test]
fn the_same_supervisor_serves_in_a_container_that_someone_else_made() {
    if !is_root() {
        println!("skipped: needs root to make a container by hand");
        return;
    }
    let (directory, workspace) = place();
    let mut spec = spec(Maker::Root, &workspace);
    spec.make = None;
    spec.serve.workdir = workspace.clone();
    spec.serve.roots.truncate(1);
    spec.serve.roots[0].path = workspace.clone();
    spec.serve.landlock.rules.retain(|rule| rule.path != std::path::Path::new("/work"));
    std::fs::write(directory.path().join("spec"), spec.to_bytes().unwrap()).unwrap();
    std::fs::create_dir(directory.path().join("socket")).unwrap();
    for path in [workspace.clone(), directory.path().join("socket")] {
        std::os::unix::fs::chown(path, Some(1000), Some(1000)).unwrap();
    }
    // The built program may lie where an ordinary user cannot reach it.
    let program = env!("CARGO_BIN_EXE_clawpen-supervisor");
    let reachable = Command::new("setpriv")
        .args(["--reuid=1000", "--regid=1000", "--clear-groups", "test", "-x", program])
        .status()
        .unwrap();
    if !reachable.success() {
        println!("skipped: `{program}` cannot be reached by an ordinary user");
        return;
    }
    let _container = start(directory.path(), 1000);
    let started = Instant::now();
    while !directory.path().join("socket/s").exists() {
        assert!(started.elapsed() < PATIENCE, "the supervisor does not listen");
        std::thread::yield_now();
    }
    let mut host = Host::connect(&directory.path().join("socket"));
    let report = host.facts();
    assert!(report.landlock.enforced);
    assert_eq!(report.workload.descriptors, [0, 1, 2]);
    host.call(Request::Seal, |_| {});
    assert_eq!(host.shell("id -u; echo $PPID > ppid; cat ppid | wc -l"), "1000\n1\n");
    let ran = host.run(exec(&["sh", "-c", "exit 5"])).unwrap();
    assert_eq!(ran.end(), End::Code(5));
}

#[test]
fn a_container_started_as_someone_else_is_refused() {
    if !is_root() {
        println!("skipped: needs root to make a container by hand");
        return;
    }
    let (directory, workspace) = place();
    let mut spec = spec(Maker::Root, &workspace);
    spec.make = None;
    std::fs::write(directory.path().join("spec"), spec.to_bytes().unwrap()).unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_clawpen-supervisor"))
        .arg("serve")
        .args([directory.path().join("spec"), directory.path().to_path_buf()])
        .output()
        .unwrap();
    assert!(!output.status.success());
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.contains("started as 0:0") && said.contains("1000:1000"), "{said}");
}
