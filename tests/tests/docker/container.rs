//! What the engine makes of a spec: exactly what was asked for, or nothing.

use std::process::Command;

use anyhow::{Context as _, Result};
use clawpen_engine::backend::docker::DockerFailure;
use clawpen_engine::channel::{Channel, ConnectError};
use clawpen_tests::docker::{Place, SCRATCH};
use clawpen_wire::pen::Lifetime;

/// Serves like a supervisor until it is killed, as far as the engine can see.
const LISTENS: &[u8] = b"#!/usr/bin/python3
import os, socket, sys
os.chdir(sys.argv[3])
s = socket.socket(socket.AF_UNIX)
s.bind('s')
os.chmod('s', 0o666)
s.listen()
while True:
    s.accept()
";
/// Lets a child of its own listen, as a command of the same user could.
const STANDS_IN: &[u8] = b"#!/usr/bin/python3
import os, socket, sys
os.chdir(sys.argv[3])
if os.fork():
    os.wait()
s = socket.socket(socket.AF_UNIX)
s.bind('s')
os.chmod('s', 0o666)
s.listen()
while True:
    s.accept()
";
const FAILS: &[u8] = b"#!/bin/sh\necho no luck today >&2\nexit 3\n";

#[test]
fn a_supervisor_that_fails_leaves_its_last_words_and_no_container() -> Result<()> {
    let Some(place) = Place::new()? else { return Ok(()) };
    let backend = place.backend(FAILS)?;
    let failure = backend.create(&place.spec("{}")?, Lifetime::Persistent).unwrap_err();
    let DockerFailure::Ended { code, said } = failure else { panic!("{failure}") };
    assert_eq!((code, said.trim()), (Some(3), "no luck today"));
    assert_eq!(left_over(&place)?, "");
    Ok(())
}

#[test]
fn a_container_is_what_its_spec_says_and_goes_with_its_value() -> Result<()> {
    let Some(place) = Place::new()? else { return Ok(()) };
    place.owned_by(1000, 1000)?;
    let backend = place.backend(LISTENS)?;
    let (container, _stream) = backend.create(
        &place.spec("{env: {A: 'b'}, pidsLimit: 64, memory: '64m'}")?,
        Lifetime::Persistent,
    )?;
    assert!(container.first_process() > 1);
    assert!(left_over(&place)?.contains("Up"));
    drop(container);
    assert_eq!(left_over(&place)?, "");
    Ok(())
}

#[test]
fn a_kept_container_is_found_again_until_it_is_removed() -> Result<()> {
    let Some(place) = Place::new()? else { return Ok(()) };
    let backend = place.backend(LISTENS)?;
    let (made, _stream) = backend.create(&place.spec("{}")?, Lifetime::Persistent)?;
    let id = made.id().to_owned();
    made.keep();
    let again = backend.create(&place.spec("{}")?, Lifetime::Persistent);
    assert!(matches!(again, Err(DockerFailure::NameTaken { .. })), "{again:?}");
    let found = backend.open(&place.name()?)?.context("kept")?;
    assert_eq!(found.id(), id);
    found.connect()?;
    found.remove()?;
    assert!(backend.open(&place.name()?)?.is_none());
    assert_eq!(left_over(&place)?, "");
    assert_eq!(std::fs::read_dir(place.path("home/run"))?.count(), 0);
    Ok(())
}

#[test]
fn who_answers_in_the_supervisors_place_is_found_out() -> Result<()> {
    let Some(place) = Place::new()? else { return Ok(()) };
    let backend = place.backend(STANDS_IN)?;
    let (container, stream) = backend.create(&place.spec("{}")?, Lifetime::Persistent)?;
    let refused = Channel::connect(stream, container.first_process()).unwrap_err();
    assert!(matches!(refused, ConnectError::WrongPeer { .. }), "{refused}");
    Ok(())
}

#[test]
fn what_an_image_brings_of_its_own_is_a_difference() -> Result<()> {
    let Some(place) = Place::new()? else { return Ok(()) };
    let image = format!("clawpen-test-volume:{}", std::process::id());
    let tree = place.path("tree");
    std::fs::create_dir(&tree)?;
    let pack = Command::new("tar").arg("-C").arg(&tree).args(["-c", "."]).output()?.stdout;
    std::fs::write(place.path("tar"), pack)?;
    let import = ["import", "--change", "VOLUME /cache", "-", &image];
    let imported =
        docker(&place, &import).stdin(std::fs::File::open(place.path("tar"))?).output()?;
    assert!(imported.status.success(), "{imported:?}");
    let backend = place.backend(FAILS)?;
    let failure =
        backend.create(&place.spec(&format!("{{image: '{image}'}}"))?, Lifetime::Persistent);
    let removed = docker(&place, &["rmi", "--force", &image]).output()?;
    assert!(removed.status.success(), "{removed:?}");
    let Err(DockerFailure::Differs(found)) = failure else { panic!("{failure:?}") };
    assert_eq!(found[0].field, "Mounts[/cache]", "{found:?}");
    assert_eq!(left_over(&place)?, "");
    Ok(())
}

#[test]
fn an_image_that_is_missing_is_named_with_the_command_that_makes_it() -> Result<()> {
    let Some(place) = Place::new()? else { return Ok(()) };
    let backend = place.backend(FAILS)?;
    let spec = place.spec("{image: 'clawpen-test-nowhere:1'}")?;
    let failure = backend.create(&spec, Lifetime::Persistent).unwrap_err();
    assert!(failure.to_string().contains("docker pull clawpen-test-nowhere:1"), "{failure}");
    Ok(())
}

#[test]
fn an_image_without_a_shell_cannot_even_start_a_script() -> Result<()> {
    let Some(place) = Place::new()? else { return Ok(()) };
    let backend = place.backend(FAILS)?;
    let spec = place.spec(&format!("{{image: '{SCRATCH}'}}"))?;
    let failure = backend.create(&spec, Lifetime::Persistent).unwrap_err();
    assert!(failure.to_string().contains("no such file"), "{failure}");
    assert_eq!(left_over(&place)?, "");
    Ok(())
}

/// What the engine itself says about containers of this place.
pub(crate) fn left_over(place: &Place) -> Result<String> {
    let filter = format!("name={}", place.name()?);
    let list = ["ps", "--all", "--filter", &filter, "--format", "{{.Names}} {{.Status}}"];
    let output = docker(place, &list).output().context("docker")?;
    Ok(String::from_utf8(output.stdout)?.trim().to_owned())
}

pub(crate) fn docker(place: &Place, args: &[&str]) -> Command {
    let mut command = Command::new("docker");
    command.args(args).env("DOCKER_HOST", format!("unix://{}", place.socket.display()));
    command
}
