//! A source of a mount that is changed between our check and the engine's mount: by a command in
//! another sandbox, whose workspace it lies in.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use clawpen_engine::backend::docker::{DockerBackend, DockerFailure, Order, Pen, StartError};
use clawpen_engine::channel::Command;
use clawpen_engine::supervisor_image;
use clawpen_rules::container::ContainerSpec;
use clawpen_rules::facts::Fact;
use clawpen_tests::docker::Place;
use clawpen_wire::pen::Lifetime;

use crate::container::{docker, left_over};
use crate::pen::sh;

/// Somebody else's directory, open to all by its mode: only the mount can keep it out.
fn secret(place: &Place) -> Result<std::path::PathBuf> {
    let secret = place.path("secret");
    fs::create_dir(&secret)?;
    fs::set_permissions(&secret, fs::Permissions::from_mode(0o777))?;
    fs::set_permissions(place.path(""), fs::Permissions::from_mode(0o755))?;
    fs::write(secret.join("canary"), "canary")?;
    Ok(secret)
}

/// A workspace with a directory that is bound once more.
fn spec(place: &Place) -> Result<ContainerSpec> {
    let data = place.path("workspace/data");
    place.spec(&format!("{{user: '1000:1000', binds: ['{}:/data:rw']}}", data.display()))
}

fn make_data(place: &Place) -> Result<()> {
    place.owned_by(1000, 1000)?;
    fs::create_dir(place.path("workspace/data"))?;
    std::os::unix::fs::chown(place.path("workspace/data"), Some(1000), Some(1000))?;
    Ok(())
}

/// As a command inside would do it, in one moment that the test chooses.
fn swap(place: &Place, secret: &Path) -> Result<()> {
    let data = place.path("workspace/data");
    fs::rename(&data, place.path("workspace/aside"))?;
    symlink(secret, &data)?;
    Ok(())
}

#[track_caller]
fn is_refused(error: &StartError) {
    let DockerFailure::Facts(found) = &error.cause else { panic!("{error:?}") };
    let facts: Vec<&Fact> = found.iter().map(|mismatch| &mismatch.fact).collect();
    assert_eq!(facts, [&Fact::Mount("/data".to_owned())], "{error:?}");
}

#[test]
fn a_link_in_the_place_of_a_checked_source_is_found_out_after_the_mount() -> Result<()> {
    let Some(place) = Place::new()? else { return Ok(()) };
    make_data(&place)?;
    let secret = secret(&place)?;
    let backend = place.backend(supervisor_image::IMAGE)?;
    let spec = spec(&place)?;
    let name = spec.identity().name.as_str().to_owned();
    let order = Order { spec: &spec, name: &name, lifetime: Lifetime::Persistent, about: "" };
    // The engine has taken the name, and has not mounted yet.
    let made = Pen::make(&backend, &order, &mut |_| {
        swap(&place, &secret).map_err(|error| panic!("{error:#}"))
    });
    is_refused(&made.map(|_| ()).unwrap_err());
    assert_eq!(left_over(&place)?, "");
    Ok(())
}

#[test]
fn a_container_that_is_started_again_gets_what_was_checked_or_nothing() -> Result<()> {
    let Some(place) = Place::new()? else { return Ok(()) };
    make_data(&place)?;
    let secret = secret(&place)?;
    let backend = place.backend(supervisor_image::IMAGE)?;
    let spec = spec(&place)?;
    let name = spec.identity().name.as_str().to_owned();
    let order = Order { spec: &spec, name: &name, lifetime: Lifetime::Persistent, about: "{}" };
    let mut pen = Pen::make(&backend, &order, &mut |_| Ok(()))?;
    sh(&mut pen, "echo mine > /data/mine")?;
    drop(pen);
    docker(&place, &["stop", "--time", "0", &name]).output()?;
    swap(&place, &secret)?;
    let refused = Pen::restart(&backend, &name, &spec).map(|_| ()).unwrap_err();
    assert!(matches!(refused.cause, DockerFailure::SourceChanged { .. }), "{refused:?}");
    fs::remove_file(place.path("workspace/data"))?;
    fs::rename(place.path("workspace/aside"), place.path("workspace/data"))?;
    let Some(mut pen) = Pen::restart(&backend, &name, &spec)? else { bail!("it is ours") };
    assert_eq!(sh(&mut pen, "cat /data/mine")?, "mine\n");
    drop(pen);
    docker(&place, &["rm", "--force", &name]).output()?;
    Ok(())
}

/// The real attack: the first sandbox swaps as fast as it can while others are started.
#[test]
fn no_sandbox_sees_what_another_ones_command_puts_a_link_to() -> Result<()> {
    let Some(place) = Place::new()? else { return Ok(()) };
    make_data(&place)?;
    let secret = secret(&place)?;
    let backend = place.backend(supervisor_image::IMAGE)?;
    let mut attacker =
        Pen::start(&backend, &place.spec("{user: '1000:1000'}")?, Lifetime::UntilDisconnect)?;
    let script = format!(
        "ln -s {} evil; while :; do mv -T data aside && mv -T evil data; sleep 0.02; \
         mv -T data evil && mv -T aside data; sleep 0.02; done",
        secret.display()
    );
    attacker.channel()?.start(&Command::new(["/bin/sh", "-c", &script]), 1024)?;
    let (mut proven, mut refused) = (0, 0);
    let deadline = Instant::now() + Duration::from_secs(240);
    while (proven < 2 || refused < 2) && Instant::now() < deadline {
        match attempt(&place, &backend, proven + refused)? {
            Attempt::Proven => proven += 1,
            Attempt::Refused => refused += 1,
            Attempt::Unlucky => {}
        }
    }
    attacker.remove()?;
    assert!(proven > 0 && refused > 0, "the attack was not met: {proven}, {refused}");
    Ok(())
}

enum Attempt {
    /// The right directory is in it.
    Proven,
    /// It came up with another, and was not used.
    Refused,
    /// Our own check saw the link, or nothing at all.
    Unlucky,
}

fn attempt(place: &Place, backend: &DockerBackend, number: usize) -> Result<Attempt> {
    let Ok(spec) = spec(place) else { return Ok(Attempt::Unlucky) };
    let name = format!("{}-{number}", spec.identity().name.as_str());
    let lifetime = Lifetime::UntilDisconnect;
    let order = Order { spec: &spec, name: &name, lifetime, about: "" };
    match Pen::make(backend, &order, &mut |_| Ok(())) {
        Ok(mut pen) => {
            let seen = sh(&mut pen, "ls -A /data")?;
            assert!(!seen.contains("canary"), "it got out: {seen}");
            pen.remove()?;
            Ok(Attempt::Proven)
        }
        Err(error) if matches!(error.cause, DockerFailure::Facts(_)) => {
            is_refused(&error);
            Ok(Attempt::Refused)
        }
        // The link or nothing was there when it was opened, or when the engine looked.
        Err(_) => Ok(Attempt::Unlucky),
    }
}
