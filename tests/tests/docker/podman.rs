//! The same on Podman, through the socket that it keeps for Docker's clients.

use std::os::unix::fs::MetadataExt as _;
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use clawpen_engine::backend::docker::Pen;
use clawpen_engine::channel::WriteOptions;
use clawpen_engine::supervisor_image;
use clawpen_rules::facts::Holds;
use clawpen_tests::docker::Place;
use clawpen_wire::pen::Lifetime;
use clawpen_wire::supervisor::{End, Place as In};

use crate::container::left_over;
use crate::pen::{run, sh};

#[test]
fn a_container_of_podman_is_made_proven_used_and_removed() -> Result<()> {
    let Some(place) = Place::of_podman()? else { return Ok(()) };
    place.owned_by(1000, 1000)?;
    let backend = place.backend(supervisor_image::IMAGE)?;
    let limits = "{pidsLimit: 64, memory: '256m', cpus: 0.5, ulimits: {nofile: 100}}";
    let mut pen = Pen::start(&backend, &place.spec(limits)?, Lifetime::UntilDisconnect)?;
    for line in pen.facts() {
        assert_eq!(line.holds, Holds::Yes, "{line:?}");
    }
    assert_eq!(sh(&mut pen, "id -u; id -g; pwd; ulimit -n")?, "1000\n1000\n/workspace\n100\n");
    assert_eq!(run(&mut pen, &["sh", "-c", "exit 7"])?.0, End::Code(7));
    assert_eq!(sh(&mut pen, "tail -n +3 /proc/net/dev | cut -d: -f1 | tr -d ' '")?, "lo\n");
    for path in ["/x", "/etc/x", "/.clawpen/run/x", "/.clawpen/supervisor"] {
        let (end, _, _) = run(&mut pen, &["sh", "-c", &format!("echo x > {path}")])?;
        assert_ne!(end, End::Code(0), "{path}");
    }
    let note = || In::InPen("/workspace/note".into());
    pen.channel()?.write(note(), WriteOptions::default(), &mut &b"there"[..])?;
    assert_eq!(sh(&mut pen, "cat note")?, "there");
    let made = std::fs::metadata(place.path("workspace/note"))?;
    assert_eq!((made.uid(), made.gid(), made.mode() & 0o777), (1000, 1000, 0o644));
    pen.remove()?;
    assert_eq!(left_over(&place)?, "");
    Ok(())
}

/// Limits that no config sets are those of whoever made the container.
#[test]
fn a_container_of_podman_comes_back_for_somebody_with_other_limits() -> Result<()> {
    let Some(place) = Place::of_podman()? else { return Ok(()) };
    place.owned_by(1000, 1000)?;
    let backend = place.backend(supervisor_image::IMAGE)?;
    let spec = place.spec("{}")?;
    let mut pen = Pen::start(&backend, &spec, Lifetime::Persistent)?;
    let limit = sh(&mut pen, "ulimit -Hn")?;
    drop(pen);
    let Some(container) = backend.open(&place.name()?)? else { panic!("it stays") };
    let id = container.id().to_owned();
    let first_process = container.first_process().to_string();
    assert!(Command::new("kill").args(["-KILL", &first_process]).status()?.success());
    let deadline = Instant::now() + Duration::from_secs(20);
    while backend.open(&id)?.is_some() {
        assert!(Instant::now() < deadline, "it still runs");
    }
    let us = std::process::id().to_string();
    let fewer = Command::new("prlimit").args(["--pid", &us, "--nofile=1000:1000"]).status()?;
    assert!(fewer.success());
    let mut pen = Pen::restart(&backend, &id, &spec)?.context("it is ours")?;
    assert_eq!(sh(&mut pen, "ulimit -Hn")?, limit);
    drop(pen);
    backend.remove(&id)?;
    assert_eq!(left_over(&place)?, "");
    Ok(())
}

#[test]
fn a_kept_container_of_podman_answers_again() -> Result<()> {
    let Some(place) = Place::of_podman()? else { return Ok(()) };
    place.owned_by(1000, 1000)?;
    let backend = place.backend(supervisor_image::IMAGE)?;
    let mut pen = Pen::start(&backend, &place.spec("{}")?, Lifetime::Persistent)?;
    sh(&mut pen, "echo kept > note")?;
    drop(pen);
    let Some(container) = backend.open(&place.name()?)? else { panic!("it stays") };
    container.connect()?;
    container.remove()?;
    assert_eq!(left_over(&place)?, "");
    Ok(())
}

/// Podman reads a profile by itself, when it makes the container and whenever it likes.
#[test]
fn podman_gets_the_profile_that_was_checked_from_a_file_of_ours() -> Result<()> {
    let Some(place) = Place::of_podman()? else { return Ok(()) };
    place.owned_by(1000, 1000)?;
    let backend = place.backend(supervisor_image::IMAGE)?;
    let (theirs, denies) = (place.path("profile.json"), ["mkdir", "mkdirat"]);
    let rule = serde_json::json!({"names": denies, "action": "SCMP_ACT_ERRNO", "errnoRet": 1});
    let profile = serde_json::json!({"defaultAction": "SCMP_ACT_ALLOW", "syscalls": [rule]});
    std::fs::write(&theirs, profile.to_string())?;
    let spec = place.spec(&format!("{{seccompProfile: '{}'}}", theirs.display()))?;
    let mut pen = Pen::start(&backend, &spec, Lifetime::UntilDisconnect)?;
    assert_ne!(run(&mut pen, &["mkdir", "/workspace/made"])?.0, End::Code(0));
    let Some(container) = backend.open(&place.name()?)? else { panic!("it runs") };
    let host = container.inspection().host_config.clone().unwrap_or_default();
    let kept = place.path("home/seccomp").display().to_string();
    let options = host.security_opt.unwrap_or_default();
    assert!(options.iter().any(|option| option.contains(&kept)), "{options:?}");
    pen.remove()?;
    Ok(())
}
