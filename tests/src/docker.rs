//! Containers for tests: a spec from a few words of config, on the engine that is at hand.
//!
//! `cargo xtask test docker` starts an engine and makes the images. Without them a test says that it
//! is skipped; where the services were promised, that is a failure.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, bail};
use clawpen_engine::backend::docker::{DockerBackend, Endpoint, locate};
use clawpen_engine::host_files::RealFiles;
use clawpen_rules::config::Config;
use clawpen_rules::config::json5;
use clawpen_rules::config::sandbox::{SandboxConfig, WorkspaceAccess};
use clawpen_rules::config::tree::FileId;
use clawpen_rules::container::{ContainerSpec, Identity, WorkspaceLabel};
use clawpen_rules::environment::Filter;
use clawpen_rules::mounts::{BindPolicy, KnownPlaces};
use clawpen_rules::scope::ScopeKey;
use clawpen_rules::session::Session;
use clawpen_rules::workspace::{Directories, Layout};

/// A small Debian whose user is 1000:1000.
pub const BASE: &str = "clawpen-test-base:latest";
/// One static program, `/probe`, and nothing else; its user is 65534:65534.
pub const SCRATCH: &str = "clawpen-test-scratch:latest";

/// Our own browser image, as `clawpen image build browser` makes it.
pub const BROWSER: &str = "clawpen-test-browser:latest";

/// A place for one test: a workspace, a home for the backend, a name of its own.
#[derive(Debug)]
pub struct Place {
    directory: tempfile::TempDir,
    pub socket: PathBuf,
}

impl Place {
    /// On Docker. `None`, with a word on standard error, if there is no engine and none was promised.
    pub fn new() -> Result<Option<Self>> {
        Self::on(locate(|name| std::env::var(name).ok())?)
    }

    /// On a Docker that has the browser image; nothing, with a word, where it has not and none was promised.
    pub fn with_browser() -> Result<Option<Self>> {
        let Some(place) = Self::new()? else { return Ok(None) };
        let mut inspect = Command::new("docker");
        inspect.args(["image", "inspect", "--format", "{{.Id}}", BROWSER]);
        let host = format!("unix://{}", place.socket.display());
        if inspect.env("DOCKER_HOST", host).output()?.status.success() {
            return Ok(Some(place));
        }
        if std::env::var_os("CLAWPEN_TEST_SERVICES").is_some() {
            bail!("the services were promised, and there is no image `{BROWSER}`");
        }
        skipped(&format!("no image `{BROWSER}`"));
        Ok(None)
    }

    /// The same on Podman.
    pub fn of_podman() -> Result<Option<Self>> {
        let host = std::env::var("CLAWPEN_TEST_PODMAN").unwrap_or_default();
        let path = host.strip_prefix("unix://").unwrap_or("/run/podman/podman.sock");
        Self::on(Endpoint::Unix(path.into()))
    }

    fn on(endpoint: Endpoint) -> Result<Option<Self>> {
        let socket = endpoint.socket().context("tests use an engine's socket")?.to_owned();
        if !socket.exists() {
            if std::env::var_os("CLAWPEN_TEST_SERVICES").is_some() {
                bail!("the services were promised, and there is no engine at {}", socket.display());
            }
            skipped(&format!("no engine at {}", socket.display()));
            return Ok(None);
        }
        Self::at(socket).map(Some)
    }

    /// On the engine of a socket.
    pub fn at(socket: PathBuf) -> Result<Self> {
        let directory = tempfile::Builder::new().prefix("pen").tempdir()?;
        std::fs::create_dir(directory.path().join("workspace"))?;
        Ok(Self { directory, socket })
    }

    /// The engine, with `supervisor` as the first process of its containers.
    pub fn backend(&self, supervisor: &'static [u8]) -> Result<DockerBackend> {
        Ok(DockerBackend::connect(
            &Endpoint::Unix(self.socket.clone()),
            &self.path("home"),
            supervisor,
        )?)
    }

    /// A path of this place on the host; `workspace` is what a container sees at its workdir.
    pub fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// Gives the workspace to a user, as whoever runs the gateway would own it.
    pub fn owned_by(&self, uid: u32, gid: u32) -> Result<()> {
        std::os::unix::fs::chown(self.path("workspace"), Some(uid), Some(gid))?;
        Ok(())
    }

    /// The name that containers of this place have.
    pub fn name(&self) -> Result<String> {
        Ok(self.spec("{}")?.identity().name.as_str().to_owned())
    }

    /// A spec from the text of `sandbox.docker`; the base image unless it names one.
    pub fn spec(&self, docker: &str) -> Result<ContainerSpec> {
        self.labelled_spec(docker, WorkspaceLabel::None)
    }

    /// The same with a label on its workspace.
    pub fn labelled_spec(&self, docker: &str, label: WorkspaceLabel) -> Result<ContainerSpec> {
        let text = format!("{{agents: {{defaults: {{sandbox: {{docker: {docker}}}}}}}}}");
        let parsed =
            json5::parse(&text, FileId(0)).map_err(|problem| anyhow::anyhow!("{problem:?}"))?;
        let config = Config::from_tree(parsed.root, Vec::new());
        let state = self.path("state");
        let state = state.to_str().context("a path of a test is text")?;
        let mut docker = SandboxConfig::resolve(&config, None, state)?.docker;
        if docker.image.value.starts_with("openclaw-sandbox:") {
            BASE.clone_into(&mut docker.image.value);
        }
        let directories = Directories {
            sandbox: state.to_owned(),
            agent: text_of(&self.path("workspace"))?,
            workdir: docker.workdir.value.clone(),
        };
        let layout = Layout::plan(WorkspaceAccess::ReadWrite, &directories);
        let scope = ScopeKey::new(
            clawpen_rules::config::sandbox::Scope::Shared,
            &Session::resolve(&config, ""),
        );
        let unique = self.directory.path().file_name().unwrap_or_default().to_string_lossy();
        let prefix =
            format!("clawpen-test-{}-", unique.replace(|c: char| !c.is_alphanumeric(), ""));
        let name = scope.container_name(clawpen_rules::config::sandbox::Scope::Shared, &prefix);
        let identity = Identity { name, scope, created_at_ms: 1, fingerprint: None };
        let policy =
            BindPolicy::resolve(&docker, &layout.bind_roots(), &KnownPlaces::default(), &RealFiles);
        let image = docker.image.clone();
        let builder = ContainerSpec::locked_down(identity, &layout, image)
            .configured(&docker, &Filter::except_credentials())
            .label_workspace(label);
        Ok(builder.build(&policy, &RealFiles)?)
    }
}

fn text_of(path: &Path) -> Result<String> {
    Ok(path.to_str().context("a path of a test is text")?.to_owned())
}

#[expect(clippy::print_stderr, reason = "the house's way to say that a test did not run")]
fn skipped(why: &str) {
    eprintln!("skipped: {why}; run `cargo xtask test docker`");
}
