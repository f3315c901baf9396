//! The images that tests start, made here and from no registry.
//!
//! *Base* is a small Debian (also unpacked, as a root file system for native pens). *Scratch* holds
//! one static program and nothing else: no shell, no C library, no `/etc`. *Browser* is the product's own.
//!
//! Each image carries the recipe it was made from as a label; a changed recipe makes a new one.

use std::fs::{self, File};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, bail};

use super::engine::Engine;
use super::{packages, quiet};
use crate::tools::{cargo, root, run};

/// What tests call the images; `tests/src/docker.rs` knows the same names.
const BASE: &str = "clawpen-test-base:latest";
const SCRATCH: &str = "clawpen-test-scratch:latest";
const BROWSER: &str = "clawpen-test-browser:latest";

const SUITE: &str = "bookworm";
const PACKAGES: &str = "bash,ca-certificates,curl,git,jq,python3,ripgrep";
/// The user that the base image names; tests ask for others too.
const BASE_USER: &str = "1000:1000";
/// The source of the only program in the scratch image.
const PROBE: &str = "tests/programs/probe.rs";
const LABEL: &str = "clawpen.recipe";

/// Makes sure of the base image; gives its unpacked root file system.
pub(super) fn base(engine: &Engine, directory: &Path) -> Result<PathBuf> {
    let recipe = recipe(&[SUITE, PACKAGES, BASE_USER]);
    let rootfs = directory.join(format!("base-{recipe}"));
    if !rootfs.is_dir() {
        // Unpacked beside its place and renamed, so that a killed run leaves no half image.
        let half = directory.join("base-in-the-making");
        if half.exists() {
            fs::remove_dir_all(&half).with_context(|| half.display().to_string())?;
        }
        let include = format!("--include={PACKAGES}");
        let mut make = Command::new(packages::find("mmdebstrap").context("no `mmdebstrap`")?);
        run(make.args(["--quiet", "--variant=minbase", &include, SUITE]).arg(&half))
            .context("cannot make a Debian from packages")?;
        fs::rename(&half, &rootfs).with_context(|| rootfs.display().to_string())?;
    }
    if !has(engine, BASE, &recipe) {
        import(engine, &rootfs, BASE, &[&format!("USER {BASE_USER}"), &label(&recipe)])?;
    }
    Ok(rootfs)
}

/// Makes sure of the scratch image.
pub(super) fn scratch(engine: &Engine, directory: &Path) -> Result<()> {
    let source = root().join(PROBE);
    let text = fs::read_to_string(&source).with_context(|| source.display().to_string())?;
    let recipe = recipe(&[&text]);
    if has(engine, SCRATCH, &recipe) {
        return Ok(());
    }
    let tree = directory.join(format!("scratch-{recipe}"));
    fs::create_dir_all(&tree).with_context(|| tree.display().to_string())?;
    compile_static(&source, &tree.join("probe"))?;
    import(engine, &tree, SCRATCH, &["USER 65534:65534", &label(&recipe)])
}

/// Makes sure of the browser image: the product's own, made from packages by the product. One that was made from the
/// same files is kept, so that an engine that keeps its data makes it once.
pub(super) fn browser(engine: &Engine, directory: &Path) -> Result<()> {
    let source = |name: &str| {
        let path = root().join("images/browser").join(name);
        fs::read_to_string(&path).with_context(|| path.display().to_string())
    };
    let files = [source("Dockerfile")?, source("entrypoint.sh")?, source("setup.sh")?];
    let recipe = recipe(&[&files[0], &files[1], &files[2]]);
    let state = directory.join("browser");
    let stamp = state.join("made-from");
    let id = || {
        let inspect = engine.docker(&["image", "inspect", "--format", "{{.Id}}", BROWSER]).output();
        inspect.map(|found| String::from_utf8_lossy(&found.stdout).trim().to_owned())
    };
    let made_from = |id: &str| format!("{recipe} {id}");
    let known = fs::read_to_string(&stamp).unwrap_or_default();
    let there = id()?;
    if !there.is_empty() && known == made_from(&there) {
        return Ok(());
    }
    // What it replaces would stay on a small disk under no name.
    drop(engine.docker(&["image", "rm", BROWSER]).output());
    let mut build = cargo(&["run", "--quiet", "--package", "clawpen", "--", "image", "build"]);
    build.args(["browser", "--method", "packages", "--tag", BROWSER, "--json"]);
    build.env("DOCKER_HOST", engine.host()).env_remove("DOCKER_CONTEXT");
    quiet(build.env("OPENCLAW_STATE_DIR", &state))?;
    fs::write(&stamp, made_from(&id()?)).with_context(|| stamp.display().to_string())
}

/// Compiles one file to a program that needs nothing else.
fn compile_static(source: &Path, program: &Path) -> Result<()> {
    let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let version = Command::new(&rustc).arg("-vV").output().context("cannot run rustc")?;
    let version = String::from_utf8_lossy(&version.stdout).into_owned();
    let host = version.lines().find_map(|line| line.strip_prefix("host: "));
    let host = host.context("rustc names no host")?;
    let mut compile = Command::new(rustc);
    // With an explicit target, or the flag would reach what runs in the compiler as well.
    compile.args(["--edition=2024", "-O", "-Ctarget-feature=+crt-static", "-Cstrip=symbols"]);
    run(compile.args(["--target", host, "-o"]).arg(program).arg(source))
}

fn label(recipe: &str) -> String {
    format!("LABEL {LABEL}={recipe}")
}

fn recipe(parts: &[&str]) -> String {
    let mut hash = DefaultHasher::new();
    parts.hash(&mut hash);
    format!("{:016x}", hash.finish())
}

fn has(engine: &Engine, image: &str, recipe: &str) -> bool {
    let format = format!("{{{{index .Config.Labels \"{LABEL}\"}}}}");
    let mut inspect = engine.docker(&["image", "inspect", "--format", &format, image]);
    let found = inspect.stderr(Stdio::null()).output();
    found.is_ok_and(|found| String::from_utf8_lossy(&found.stdout).trim() == recipe)
}

/// Packs a directory into an image. By way of a file, so that a half archive is seen as one.
fn import(engine: &Engine, tree: &Path, image: &str, changes: &[&str]) -> Result<()> {
    let archive = tree.with_extension("tar");
    let mut pack = Command::new("tar");
    // The image's device nodes are the engine's business.
    pack.args(["--numeric-owner", "--exclude=./dev/*", "-C"]).arg(tree).arg("-cf").arg(&archive);
    quiet(pack.arg("."))?;
    let mut import = engine.docker(&["import"]);
    for change in changes {
        import.args(["--change", change]);
    }
    let input = File::open(&archive).with_context(|| archive.display().to_string())?;
    let imported = quiet(import.args(["-", image]).stdin(input));
    fs::remove_file(&archive).with_context(|| archive.display().to_string())?;
    imported?;
    if !super::works(&mut engine.docker(&["image", "inspect", image])) {
        bail!("image `{image}` was imported but is not there");
    }
    Ok(())
}
