//! Containers of a real engine: exactly what was asked for, or none.

use std::process::Command;

use anyhow::{Context as _, Result};
use clawpen_engine::backend::docker::DockerFailure;
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
const FAILS: &[u8] = b"#!/bin/sh\necho no luck today >&2\nexit 3\n";

#[test]
fn a_supervisor_that_fails_leaves_its_last_words_and_no_container() -> Result<()> {
    let Some(place) = Place::new()? else { return Ok(()) };
    let backend = place.backend(FAILS)?;
    let failure = backend.create(&place.spec("{}")?, Lifetime::Persistent).unwrap_err();
    let DockerFailure::Ended { code, said } = failure else { panic!("{failure}") };
    assert_eq!((code, said.trim()), (3, "no luck today"));
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
fn left_over(place: &Place) -> Result<String> {
    let filter = format!("name={}", place.name()?);
    let output = Command::new("docker")
        .args(["ps", "--all", "--filter", &filter, "--format", "{{.Names}} {{.Status}}"])
        .env("DOCKER_HOST", format!("unix://{}", place.socket.display()))
        .output()
        .context("docker")?;
    Ok(String::from_utf8(output.stdout)?.trim().to_owned())
}
