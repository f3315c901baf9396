//! Builds the programs that run in sandboxes as static binaries and leaves them where they are embedded: the
//! supervisor (`supervisor_image.rs`) and the searching program (`tools/search.rs`).
//!
//! A nested `cargo build` with a target directory of its own: they must be static (they run
//! in images without a libc), while `crt-static` without an explicit `--target` would also hit the
//! proc-macros of this workspace. The flags of the outer build are not passed on: they were chosen for
//! a different binary (coverage, sanitizers, a linter standing in for the compiler).

use std::env;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

/// What is embedded.
const PROGRAMS: &[&str] = &["clawpen-supervisor", "clawpen-search"];
/// What they are made of; a change in any of these builds them again.
const SOURCES: &[&str] = &[
    "search/src",
    "search/Cargo.toml",
    "supervisor/src",
    "supervisor/Cargo.toml",
    "os/src",
    "os/Cargo.toml",
    "wire/src",
    "wire/Cargo.toml",
];

/// Variables of Cargo and rustc that say where to find things, not what to build.
const KEPT: &[&str] =
    &["CARGO", "CARGO_HOME", "CARGO_MAKEFLAGS", "RUSTC", "RUSTUP_HOME", "RUSTUP_TOOLCHAIN"];
const KEPT_PREFIXES: &[&str] =
    &["CARGO_NET_", "CARGO_HTTP_", "CARGO_REGISTRIES_", "CARGO_REGISTRY_"];

fn main() {
    let crates = crates_directory();
    for source in SOURCES {
        println!("cargo::rerun-if-changed={}", crates.join(source).display());
    }
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed={}", crates.join("../Cargo.lock").display());

    let target = variable("TARGET");
    let out = PathBuf::from(variable("OUT_DIR"));
    let nested = out.join("supervisor-target");
    let status = supervisor_build(&crates, &nested, &target)
        .status()
        .unwrap_or_else(|error| panic!("cannot start cargo for the embedded programs: {error}"));
    assert!(status.success(), "the embedded programs did not build; see the messages above");

    for program in PROGRAMS {
        let built = nested.join(&target).join("supervisor").join(program);
        std::fs::copy(&built, out.join(program))
            .unwrap_or_else(|error| panic!("cannot copy `{}`: {error}", built.display()));
    }
}

fn supervisor_build(crates: &Path, nested: &Path, target: &OsString) -> Command {
    let mut cargo = Command::new(variable("CARGO"));
    for (name, _) in env::vars_os() {
        if name.to_str().is_none_or(is_of_outer_build) {
            cargo.env_remove(name);
        }
    }
    cargo
        // A position-independent static binary: address randomisation also for process 1.
        .env("CARGO_ENCODED_RUSTFLAGS", "-Ctarget-feature=+crt-static")
        .current_dir(crates.join("supervisor"))
        .args([
            "build",
            "--quiet",
            "--package",
            "clawpen-supervisor",
            "--package",
            "clawpen-search",
            "--profile",
            "supervisor",
            "--target",
        ])
        .arg(target)
        .arg("--target-dir")
        .arg(nested);
    if env::var_os("CARGO_FEATURE_FAULT_SWITCHES").is_some() {
        cargo.args(["--features", "clawpen-supervisor/fault-switches"]);
    }
    cargo
}

fn is_of_outer_build(name: &str) -> bool {
    let ours = ["CARGO", "RUST", "CLIPPY", "__CARGO"].iter().any(|prefix| name.starts_with(prefix));
    ours && !KEPT.contains(&name) && !KEPT_PREFIXES.iter().any(|prefix| name.starts_with(prefix))
}

fn crates_directory() -> PathBuf {
    let engine = PathBuf::from(variable("CARGO_MANIFEST_DIR"));
    engine.parent().unwrap_or(&engine).to_path_buf()
}

fn variable(name: &str) -> OsString {
    env::var_os(name).unwrap_or_else(|| panic!("cargo did not set `{name}`"))
}
