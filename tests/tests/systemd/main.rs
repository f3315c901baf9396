//! The units of `clawpen service install` under a real systemd: it finds nothing wrong with them, starts the gateway, starts it
//! again after a kill, and ends it without its sandboxes.
//!
//! Needs root and the package `systemd`; `cargo xtask ci` installs it. Each test has a machine of its own as far as systemd can
//! tell (`machine.sh`).
#![forbid(unsafe_code)]
#![expect(clippy::unwrap_used, reason = "a test without its set-up cannot go on")]

use std::fs;
use std::net::TcpListener;
use std::path::Path;
use std::process::Command;

use clawpen_tests::home::Home;
use clawpen_tests::replay::explain::binary;
use serde_json::Value;

const SYSTEMD: &str = "/usr/lib/systemd/systemd";
/// systemd 254 knows it; older ones say that they do not, and go on.
const NEWER: &str = "Unknown key 'DelegateSubgroup' in section [Service], ignoring.";

#[expect(clippy::print_stderr, reason = "whoever runs the tests should know what was left out")]
fn is_there() -> bool {
    let is_there = Path::new(SYSTEMD).exists() && nix::unistd::geteuid().is_root();
    let is_promised = std::env::var_os("CLAWPEN_TEST_SERVICES").is_some();
    assert!(is_there || !is_promised, "no systemd, or not root, though services were promised");
    if !is_there {
        eprintln!("skipped: needs root and the package systemd; run `cargo xtask ci`");
    }
    is_there
}

/// What came to pass on a machine, by name.
struct Facts(String);

impl Facts {
    fn of(home: &Home, kind: &str) -> Self {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/systemd/machine.sh");
        let mut machine = Command::new("unshare");
        machine.args(["--mount", "--uts", "--ipc", "--propagation", "private"]);
        if kind == "system" {
            // Whoever is process 1 brings the loopback device up.
            machine.arg("--net");
        }
        let machine = machine
            .args(["sh".as_ref(), script.as_os_str(), binary().unwrap().as_os_str()])
            .args([home.path("").as_os_str(), kind.as_ref()])
            .env_clear()
            .output();
        let machine = machine.unwrap();
        let said = String::from_utf8_lossy(&machine.stdout).into_owned();
        assert!(said.contains("config "), "{said}\n{}", String::from_utf8_lossy(&machine.stderr));
        Self(said)
    }

    #[track_caller]
    fn get(&self, name: &str) -> &str {
        let lines = self.0.lines();
        let found = lines.filter_map(|line| line.split_once(' ')).find(|(known, _)| *known == name);
        found.unwrap_or_else(|| panic!("no `{name}` in {}", self.0)).1
    }

    fn json(&self, name: &str) -> Value {
        serde_json::from_str(self.get(name)).unwrap()
    }

    #[track_caller]
    fn check(&self) {
        assert_eq!(self.get("start"), "0", "{}", self.0);
        assert_eq!(self.get("state"), "active", "{}", self.0);
        assert_eq!(self.json("status")["gateway"]["answers"], true, "{}", self.0);
        assert_eq!(self.get("reloaded"), "active 0");
        assert_eq!(self.get("restarted"), "active 1");
        assert_eq!(self.get("stopped"), "inactive success");
        // What was made outlives the service.
        assert_eq!((self.get("wrote"), self.get("kept")), ("penned", "penned"));
        let after = self.json("after");
        assert_eq!(
            (&after["gateway"]["running"], &after["sandboxes"]["running"]),
            (&false.into(), &1.into())
        );
        // Written by the unit itself, after a pen was tried under its limits.
        assert_eq!(self.get("config"), "backend:\"native\",");
    }
}

#[test]
fn systemd_finds_nothing_wrong_with_the_units() {
    if !is_there() {
        return;
    }
    let home = Home::new();
    let root = home.path("root");
    let root = root.to_str().unwrap();
    assert_eq!(home.run(&["service", "install", "--user"]).code, Some(0));
    assert_eq!(home.run(&["service", "install", "--system", "--root", root]).code, Some(0));
    for (scope, unit) in [
        ("--user", ".config/systemd/user/clawpen.service"),
        ("--system", "root/etc/systemd/system/clawpen.service"),
    ] {
        let verified = Command::new("systemd-analyze")
            .args(["verify", "--man=no", scope])
            .arg(home.path(unit))
            .env("XDG_RUNTIME_DIR", home.path(""))
            .env("HOME", home.path(""))
            .output();
        let verified = verified.unwrap();
        let said = String::from_utf8_lossy(&verified.stderr).into_owned();
        // The machine's own units may have faults of theirs.
        let about_ours = said.lines().filter(|line| line.contains("clawpen"));
        let other: Vec<&str> = about_ours.filter(|line| !line.ends_with(NEWER)).collect();
        assert_eq!(other, Vec::<&str>::new(), "{scope}: {said}");
    }
}

#[test]
fn a_user_service_starts_restarts_and_leaves_its_sandboxes() {
    if !is_there() {
        return;
    }
    let home = Home::new();
    assert_eq!(home.run(&["service", "install", "--user"]).code, Some(0));
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let variables = home.path(".config/clawpen/gateway.env");
    fs::write(variables, format!("OPENCLAW_GATEWAY_PORT={port}\n")).unwrap();
    let facts = Facts::of(&home, "user");
    facts.check();
    // The file of variables was read.
    let url = format!("http://127.0.0.1:{port}");
    assert_eq!(facts.json("status")["gateway"]["url"], url.as_str());
}

#[test]
fn a_system_service_starts_restarts_and_leaves_its_sandboxes() {
    if !is_there() {
        return;
    }
    let facts = Facts::of(&Home::new(), "system");
    facts.check();
    assert_eq!(facts.json("status")["stateDir"], "/var/lib/clawpen/.openclaw");
}
