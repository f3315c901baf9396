//! Images made on this machine, from no registry.

use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};

use anyhow::{Context as _, Result};
use clawpen_engine::backend::docker::{Endpoint, Pen};
use clawpen_engine::images::{BuildError, Gone, Images, Kind, Method, Order, Recipe, State};
use clawpen_engine::supervisor_image;
use clawpen_tests::docker::{BASE, Place};
use clawpen_tests::home::Run;
use clawpen_wire::pen::Lifetime;

use crate::container::docker;
use crate::engine::{Data, OwnEngine};
use crate::pen::sh;
use crate::yard::Yard;

/// The images of the place's engine.
fn images(place: &Place) -> Result<Images> {
    let state = place.path("state");
    let state = state.to_str().context("a path of a test is text")?;
    Ok(Images::at(&Endpoint::Unix(place.socket.clone()), state)?)
}

/// Makes an image under a name of its own, uses it as a sandbox would, and removes it.
fn make_and_use(place: &Place, order: &Order, expected: Method) -> Result<()> {
    let images = images(place)?;
    let mut said = Vec::new();
    let built = images.build(order, &mut |line| said.push(line.to_owned()));
    let built = built.with_context(|| said.join("\n"))?;
    assert_eq!(built.method, expected);
    assert_eq!(built.recipe, order.recipe.hash());
    assert!(!said.is_empty() && built.log.is_file());
    let checked = images.check(&order.image)?;
    assert_eq!((checked.user.as_str(), checked.problems), ("sandbox", Vec::new()));
    let listed = images.list()?;
    let ours = listed.iter().find(|image| image.name == order.image).context("it is listed")?;
    assert_eq!((ours.kind, ours.state), (Some(Kind::Base), State::Current));
    assert_eq!(ours.method.as_deref(), Some(expected.as_str()));
    used(place, &order.image)?;
    let directory = place.path("exported");
    // What a build and an export that were killed have left is taken away by the next.
    let label = format!("clawpen.export={}", place.path("state/clawpen/images").display());
    for left in [
        &["create", "--label", &label, &order.image, "true"][..],
        &["tag", &order.image, "clawpen-content:left"],
    ] {
        assert!(docker(place, left).status()?.success(), "{left:?}");
    }
    images.export(&order.image, &directory, &mut |_| {})?;
    for list in [
        &["ps", "--all", "--quiet", "--filter", &format!("label={label}")][..],
        &["images", "--quiet", "clawpen-content"],
    ] {
        assert_eq!(String::from_utf8(docker(place, list).output()?.stdout)?, "", "{list:?}");
    }
    assert!(directory.join("usr/bin/python3").exists());
    assert!(std::fs::read_dir(directory.join("dev"))?.next().is_none());
    let sources = std::fs::read_to_string(directory.join("etc/passwd"))?;
    assert!(sources.contains("sandbox:"), "{sources}");
    assert_eq!(images.remove(&order.image)?, Gone::Removed);
    assert_eq!(images.remove(&order.image)?, Gone::WasNotThere);
    Ok(())
}

/// A command of the image's own user finds the tools, and what it writes is his outside too.
fn used(place: &Place, image: &str) -> Result<()> {
    place.owned_by(1000, 1000)?;
    let backend = place.backend(supervisor_image::IMAGE)?;
    let spec = place.spec(&format!("{{image: '{image}'}}"))?;
    let mut pen = Pen::start(&backend, &spec, Lifetime::UntilDisconnect)?;
    assert_eq!(sh(&mut pen, "id -un; pwd")?, "sandbox\n/workspace\n");
    sh(
        &mut pen,
        "git --version; rg --version; jq --version; python3 -c 'print(1)'; curl --version",
    )?;
    sh(&mut pen, "umask 027; echo x > note; mkdir -m 0700 private")?;
    let note = std::fs::metadata(place.path("workspace/note"))?;
    assert_eq!((note.uid(), note.gid(), note.mode() & 0o777), (1000, 1000, 0o640));
    let private = std::fs::metadata(place.path("workspace/private"))?;
    assert_eq!((private.uid(), private.mode() & 0o777), (1000, 0o700));
    pen.remove()?;
    Ok(())
}

fn order(name: &str, below: &str, method: Method) -> Result<Order> {
    let recipe = Recipe::plain(Kind::Base).with("DEBIAN_IMAGE", below)?;
    Ok(Order { recipe, image: format!("clawpen-test-{name}:{}", std::process::id()), method })
}

#[test]
fn where_nothing_can_be_pulled_the_base_image_is_made_from_packages() -> Result<()> {
    let Some(place) = Place::new()? else { return Ok(()) };
    let nowhere = order("nowhere", "clawpen-test-nowhere:1", Method::Auto)?;
    let refused = images(&place)?.build(&nowhere, &mut |_| {}).unwrap_err();
    assert!(matches!(refused, BuildError::NeitherWay { .. }), "{refused}");
    // The engine of the tests has no network, so the image that is named by default cannot be had either.
    let plain = Recipe::plain(Kind::Base);
    let order = Order { recipe: plain, ..order("packages", BASE, Method::Auto)? };
    make_and_use(&place, &order, Method::Packages)
}

#[test]
fn where_the_image_below_is_there_its_dockerfile_is_run() -> Result<()> {
    let Some(place) = Place::new()? else { return Ok(()) };
    let order = order("dockerfile", BASE, Method::Auto)?;
    make_and_use(&place, &order, Method::Dockerfile)
}

#[test]
fn a_missing_image_is_a_problem_with_its_remedy() -> Result<()> {
    let Some(place) = Place::new()? else { return Ok(()) };
    let checked = images(&place)?.check("clawpen-test-nowhere:1")?;
    assert_eq!(checked.image, None);
    assert!(checked.problems[0].contains("docker pull clawpen-test-nowhere:1"), "{checked:?}");
    Ok(())
}

/// Stands where `mmdebstrap` is looked for, says something and does `then`. The archive that it is to
/// write is `$out`.
fn stand_in(yard: &Yard, then: &str) -> Result<()> {
    let script = format!(
        "#!/bin/sh\nfor word; do case $word in *.tar) out=$word;; esac; done\n\
         echo I: unpacking\necho W: nothing is well >&2\n{then}\n"
    );
    let path = yard.home.path("bin/mmdebstrap");
    std::fs::create_dir_all(yard.home.path("bin"))?;
    std::fs::write(&path, script)?;
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755))?;
    Ok(())
}

#[test]
fn a_missing_image_of_ours_is_made_on_demand_with_plain_progress_and_a_log() -> Result<()> {
    let Some(engine) = OwnEngine::start(Data::Disk)? else { return Ok(()) };
    let yard = Yard::on(engine.place()?, Kind::Base.image(), "")?;
    let run = |words: &[&str]| {
        let mut command = yard.command(words);
        let path = format!("{}:/usr/bin:/bin", yard.home.path("bin").display());
        Run::of(command.env("PATH", path))
    };
    let missing = run(&["exec", "--", "true"]);
    assert_eq!(missing.code, Some(125), "{}", missing.stdout);
    assert!(missing.stderr.contains("clawpen image build base"), "{}", missing.stderr);
    stand_in(&yard, "exit 4")?;
    let log = yard.home.path(".openclaw/clawpen/images/base.log");
    let failed = run(&["exec", "--build", "--", "true"]);
    assert_ne!(failed.code, Some(0));
    for part in ["nothing is well", &log.display().to_string()] {
        assert!(failed.stderr.contains(part), "{part}: {}", failed.stderr);
    }
    assert!(std::fs::read_to_string(&log)?.contains("I: unpacking"));
    assert_eq!((yard.rows().len(), engine.containers()?.len()), (0, 0));
    stand_in(&yard, &format!("cp {} \"$out\"", engine.archive().display()))?;
    let made = run(&["exec", "--build", "--", "sh", "-c", "echo works"]);
    assert_eq!((made.code, made.stdout.as_str()), (Some(0), "works\n"), "{}", made.stderr);
    // Nobody has a terminal here: a line each, with the time, and nothing that steers a cursor.
    assert!(made.stderr.lines().any(|line| line.contains(" s  ")), "{}", made.stderr);
    assert!(!made.stderr.contains('\u{1b}') && !made.stderr.contains('\r'), "{}", made.stderr);
    let built = run(&["image", "list", "--json"]).json();
    assert_eq!(built["images"][0]["image"], Kind::Base.image(), "{built}");
    Ok(())
}
