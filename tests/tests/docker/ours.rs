//! What is ours at an engine and what only looks so: copies, other engines, other state directories.

use std::fs;

use anyhow::{Context as _, Result, ensure};
use clawpen_tests::docker::BASE;
use clawpen_tests::home::Run;

use crate::container::docker;
use crate::fake::{Fake, address, empty};
use crate::yard::Yard;

fn said(yard: &Yard, args: &[&str]) -> Result<String> {
    let output = docker(&yard.place, args).output()?;
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    ensure!(output.status.success(), "docker {args:?}: {text}");
    Ok(String::from_utf8(output.stdout)?.trim().to_owned())
}

/// Something that a test made by hand, gone with it.
struct ByHand<'a>(&'a Yard, Vec<String>);

impl Drop for ByHand<'_> {
    fn drop(&mut self) {
        for command in &self.1 {
            drop(docker(&self.0.place, &command.split(' ').collect::<Vec<_>>()).output());
        }
    }
}

#[test]
fn a_copy_of_a_sandbox_is_somebody_elses_and_lives() -> Result<()> {
    let Some(yard) = Yard::new("")? else { return Ok(()) };
    yard.sh("echo kept > /tmp/note");
    let made = yard.containers()?;
    let original = made.first().context("a container")?;
    // Its name is none of ours: what it has of us is the labels, which came with the image.
    let image = format!("{}copy:1", yard.prefix.to_lowercase());
    let name = format!("copy-of-{}", yard.name());
    let _by_hand =
        ByHand(&yard, vec![format!("rm --force {name}"), format!("rmi --force {image}")]);
    said(&yard, &["commit", original, &image])?;
    let run = ["run", "--detach", "--entrypoint", "sleep", "--name", &name, &image, "600"];
    let copy = said(&yard, &run)?;
    let label = "{{index .Config.Labels \"clawpen.state\"}}";
    let labels = [original.as_str(), copy.as_str()]
        .map(|id| said(&yard, &["inspect", "--format", label, id]));
    let [of_original, of_copy] = labels;
    assert_eq!(of_original?, of_copy?);
    for _ in 0..2 {
        let listed = yard.run(&["sandbox", "list", "--json"]);
        assert_eq!(listed.code, Some(0), "{}", listed.stderr);
    }
    let state = said(&yard, &["inspect", "--format", "{{.State.Running}}", &copy])?;
    assert_eq!(state, "true");
    assert_eq!(yard.sh("cat /tmp/note"), "kept\n");
    // Nor is it taken for the sandbox that it was made from.
    let removed = yard.run(&["sandbox", "remove", "--all", "--force"]);
    assert_eq!(removed.code, Some(0), "{}", removed.stderr);
    assert_eq!(said(&yard, &["inspect", "--format", "{{.State.Running}}", &copy])?, "true");
    Ok(())
}

#[test]
fn a_label_on_anybodys_container_does_not_make_it_ours() -> Result<()> {
    let Some(yard) = Yard::new("")? else { return Ok(()) };
    yard.sh("echo kept > /tmp/note");
    let made = yard.containers()?;
    let original = made.first().context("a container")?;
    let label = |name: &str| {
        let format = format!("{{{{index .Config.Labels \"{name}\"}}}}");
        said(&yard, &["inspect", "--format", &format, original])
            .map(|value| format!("--label={name}={value}"))
    };
    let (mark, run) = (label("clawpen.state")?, label("clawpen.run")?);
    let (name, other) = (format!("of-others-{}", yard.name()), "/tmp:/.clawpen/run");
    let _by_hand = ByHand(&yard, vec![format!("rm --force {name}")]);
    let args = ["run", "--detach", &mark, &run, "--volume", other, "--name", &name];
    let id = said(&yard, &[&args[..], &["--entrypoint", "sleep", BASE, "600"]].concat())?;
    let listed = yard.run(&["sandbox", "list"]);
    assert_eq!(listed.code, Some(0), "{}", listed.stderr);
    assert_eq!(said(&yard, &["inspect", "--format", "{{.State.Running}}", &id])?, "true");
    assert_eq!(yard.sh("cat /tmp/note"), "kept\n");
    Ok(())
}

#[test]
fn the_janitor_of_one_engine_leaves_the_sandboxes_of_another_alone() -> Result<()> {
    let Some(yard) = Yard::new("")? else { return Ok(()) };
    yard.sh("echo kept > /tmp/note");
    let other = Fake::start(empty)?;
    let mut list = yard.command(&["sandbox", "list", "--json"]);
    let listed = Run::of(list.env("DOCKER_HOST", address(&other.socket())));
    assert_eq!(listed.code, Some(0), "{}", listed.stderr);
    let asked = other.heard();
    assert!(asked.iter().any(|line| line.contains("/containers/json")), "{asked:?}");
    assert_eq!(yard.sh("cat /tmp/note"), "kept\n");
    Ok(())
}

#[test]
fn a_sandbox_whose_socket_was_lost_is_replaced_with_a_word() -> Result<()> {
    let Some(yard) = Yard::new("")? else { return Ok(()) };
    yard.sh("true");
    let made = yard.containers()?;
    fs::remove_dir_all(yard.home.path(".openclaw/clawpen/docker/run"))?;
    let run = yard.run(&["exec", "--", "echo", "there"]);
    assert_eq!((run.code, run.stdout.as_str()), (Some(0), "there\n"), "{}", run.stderr);
    assert!(run.stderr.contains("the socket that led into it is gone"), "{}", run.stderr);
    let now = yard.containers()?;
    assert_eq!(now.len(), 1);
    assert_ne!(now, made);
    Ok(())
}

/// As in a development container that has the engine's socket and the same user name.
#[test]
fn a_second_state_directory_of_the_same_path_touches_nothing_of_the_first() -> Result<()> {
    let Some(yard) = Yard::new("")? else { return Ok(()) };
    yard.sh("echo kept > /tmp/note");
    let made = yard.containers()?;
    let (here, aside) = (yard.home.path(".openclaw"), yard.home.path("aside"));
    fs::rename(&here, &aside)?;
    fs::create_dir(&here)?;
    fs::copy(aside.join("openclaw.json"), here.join("openclaw.json"))?;
    let run = yard.run(&["exec", "--", "true"]);
    assert_eq!(run.code, Some(125), "{}", run.stderr);
    assert!(run.stderr.contains("not of this state directory"), "{}", run.stderr);
    let listed = yard.run(&["sandbox", "list"]);
    assert_eq!(listed.code, Some(0), "{}", listed.stderr);
    assert_eq!(yard.containers()?, made);
    // Even with the same mark, as in a copy: its places are not here.
    fs::copy(aside.join("clawpen/docker/id"), here.join("clawpen/docker/id"))?;
    let run = yard.run(&["exec", "--", "true"]);
    assert_eq!(run.code, Some(125), "{}", run.stderr);
    assert!(run.stderr.contains("docker rm --force"), "{}", run.stderr);
    let listed = yard.run(&["sandbox", "list"]);
    assert_eq!(listed.code, Some(0), "{}", listed.stderr);
    assert_eq!(yard.containers()?, made);
    fs::remove_dir_all(&here)?;
    fs::rename(&aside, &here)?;
    assert_eq!(yard.sh("cat /tmp/note"), "kept\n");
    Ok(())
}
