//! Containers that outlive the process that made them, through the real binary.

use std::process::{Command, Stdio};

use anyhow::Result;
use clawpen_tests::docker::{BASE, Place};
use clawpen_tests::home::{Home, Run};
use serde_json::{Value, json};

use crate::container::docker;

/// A home whose containers no other test can have, on the engine at hand.
struct Yard {
    home: Home,
    place: Place,
    prefix: String,
}

impl Yard {
    fn new(docker: &str) -> Result<Option<Self>> {
        let Some(place) = Place::new()? else { return Ok(None) };
        let name = place.path("").display().to_string();
        let unique: String = name.chars().filter(char::is_ascii_alphanumeric).collect();
        let prefix = format!("clawpen-test-{unique}-");
        let home = Home::with_config(&format!(
            "{{agents: {{defaults: {{sandbox: {{backend: 'docker', docker: {{image: '{BASE}', \
             containerPrefix: '{prefix}', {docker}}}}}}}}}}}"
        ));
        Ok(Some(Self { home, place, prefix }))
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = self.home.command(args);
        command.env("DOCKER_HOST", format!("unix://{}", self.place.socket.display()));
        command.stdin(Stdio::null());
        command
    }

    fn run(&self, args: &[&str]) -> Run {
        Run::of(&mut self.command(args))
    }

    #[track_caller]
    fn sh(&self, script: &str) -> String {
        let run = self.run(&["exec", "--", "sh", "-c", script]);
        assert_eq!(run.code, Some(0), "{script}: {}", run.stderr);
        run.stdout
    }

    fn name(&self) -> String {
        format!("{}agent-main-f331f052", self.prefix)
    }

    fn rows(&self) -> Vec<Value> {
        let run = self.run(&["sandbox", "list", "--json"]);
        run.json()["containers"].as_array().cloned().unwrap_or_default()
    }

    /// The engine's own word about our containers.
    fn containers(&self) -> Result<Vec<String>> {
        let filter = format!("name={}", self.prefix);
        let args = ["ps", "--all", "--no-trunc", "--filter", &filter, "--format", "{{.ID}}"];
        let listed = docker(&self.place, &args).output()?;
        Ok(String::from_utf8(listed.stdout)?.lines().map(str::to_owned).collect())
    }
}

impl Drop for Yard {
    fn drop(&mut self) {
        for id in self.containers().unwrap_or_default() {
            drop(docker(&self.place, &["rm", "--force", &id]).output());
        }
    }
}

#[test]
fn a_container_is_found_again_and_started_when_it_stopped() -> Result<()> {
    let Some(yard) = Yard::new("setupCommand: 'echo once >> /workspace/setups'")? else {
        return Ok(());
    };
    yard.sh("echo kept > /tmp/note");
    assert_eq!(yard.sh("cat /tmp/note setups"), "kept\nonce\n");
    let made = yard.containers()?;
    assert_eq!(made.len(), 1);
    docker(&yard.place, &["stop", "--time", "0", &made[0]]).output()?;
    assert_eq!(yard.rows()[0]["clawpen"]["state"], json!("stopped"));
    // The same container, proven anew; its setup has run.
    assert_eq!(yard.sh("cat setups; test ! -e /tmp/note"), "once\n");
    assert_eq!(yard.containers()?, made);
    let removed = yard.run(&["sandbox", "remove", "--all", "--force"]);
    assert_eq!(removed.code, Some(0), "{}", removed.stdout);
    assert_eq!(yard.containers()?, Vec::<String>::new());
    Ok(())
}

#[test]
fn two_first_calls_at_once_share_one_container_115252() -> Result<()> {
    let Some(yard) = Yard::new("")? else { return Ok(()) };
    let start = |_| {
        let mut command = yard.command(&["exec", "--", "readlink", "/proc/self/ns/pid"]);
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()
    };
    let calls: Vec<_> = (0..4).map(start).collect::<std::io::Result<_>>()?;
    let mut seen = Vec::new();
    for call in calls {
        let output = call.wait_with_output()?;
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        seen.push(output.stdout);
    }
    seen.dedup();
    assert_eq!((seen.len(), yard.containers()?.len()), (1, 1));
    Ok(())
}

#[test]
fn fresh_containers_stand_beside_the_scopes_own() -> Result<()> {
    let Some(yard) = Yard::new("")? else { return Ok(()) };
    let own = yard.sh("readlink /proc/self/ns/pid");
    let fresh = yard.run(&["exec", "--fresh", "--", "readlink", "/proc/self/ns/pid"]);
    assert_eq!(fresh.code, Some(0), "{}", fresh.stderr);
    assert_ne!(own, fresh.stdout);
    assert_eq!(yard.containers()?.len(), 1);
    Ok(())
}

#[test]
fn a_name_that_is_somebody_elses_is_an_error_and_left_alone_51363() -> Result<()> {
    let Some(yard) = Yard::new("")? else { return Ok(()) };
    docker(&yard.place, &["create", "--name", &yard.name(), BASE, "sleep", "1"]).output()?;
    let theirs = yard.containers()?;
    let run = yard.run(&["exec", "--", "true"]);
    assert_eq!(run.code, Some(125));
    assert!(run.stderr.contains("left alone"), "{}", run.stderr);
    assert_eq!(yard.rows(), Vec::<Value>::new());
    let removed = yard.run(&["sandbox", "remove", "--all", "--force", "--adopt"]);
    assert!(removed.stdout.contains("No sandbox matches."), "{}", removed.stdout);
    assert_eq!(yard.containers()?, theirs);
    Ok(())
}

#[test]
fn the_references_containers_are_listed_and_touched_only_when_adopted() -> Result<()> {
    let Some(yard) = Yard::new("")? else { return Ok(()) };
    let name = yard.name();
    let label = ["--label", "openclaw.sandbox=1"];
    docker(&yard.place, &["create", "--name", &name, label[0], label[1], BASE, "sleep", "1"])
        .output()?;
    let entry = json!({
        "containerName": name, "sessionKey": "agent:main", "createdAtMs": 1, "lastUsedAtMs": 2,
        "image": BASE,
    });
    let registry = yard.home.path(".openclaw/sandbox");
    std::fs::create_dir_all(&registry)?;
    std::fs::write(registry.join("containers.json"), json!({ "entries": [entry] }).to_string())?;
    let run = yard.run(&["exec", "--", "true"]);
    assert_eq!(run.code, Some(125));
    assert!(run.stderr.contains("--adopt"), "{}", run.stderr);
    assert_eq!(yard.rows()[0]["clawpen"]["madeBy"], json!("reference"));
    let untouched = yard.run(&["sandbox", "remove", "--all", "--force"]);
    assert!(untouched.stdout.contains("No sandbox matches."), "{}", untouched.stdout);
    assert_eq!(yard.containers()?.len(), 1);
    let adopted = yard.run(&["sandbox", "remove", "--all", "--force", "--adopt"]);
    assert!(adopted.stdout.contains("Done: 1 removed"), "{}", adopted.stdout);
    assert_eq!(yard.containers()?, Vec::<String>::new());
    assert_eq!(yard.sh("echo ours"), "ours\n");
    Ok(())
}

#[test]
fn a_failed_setup_command_leaves_no_container_143685() -> Result<()> {
    let Some(yard) = Yard::new("setupCommand: 'echo no >&2; exit 9'")? else { return Ok(()) };
    let run = yard.run(&["exec", "--", "true"]);
    assert_eq!(run.code, Some(125));
    assert!(run.stderr.contains("code 9: no"), "{}", run.stderr);
    assert_eq!((yard.rows().len(), yard.containers()?.len()), (0, 0));
    Ok(())
}

#[test]
fn an_engine_that_is_gone_is_no_reason_to_forget_a_row() -> Result<()> {
    let Some(yard) = Yard::new("")? else { return Ok(()) };
    yard.sh("true");
    // Its row says where it is, so another engine in the environment changes nothing.
    let mut command = yard.home.command(&["sandbox", "list", "--json"]);
    let elsewhere = Run::of(command.env("DOCKER_HOST", "unix:///nowhere/docker.sock"));
    assert_eq!(elsewhere.json()["containers"][0]["running"], json!(true));
    assert_eq!(elsewhere.json()["clawpen"]["problems"], json!([]));
    assert_eq!(yard.rows().len(), 1);
    Ok(())
}
