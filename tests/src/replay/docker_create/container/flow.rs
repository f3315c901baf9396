//! `flow` and `browser` rows: the docker calls of a first use. The calls come from the specs; the
//! engine that answers them is imagined: nothing exists yet but images and networks, unless the row
//! says otherwise.

use anyhow::{Context as _, Result};
use clawpen_engine::host_files::RealFiles;
use clawpen_rules::backend::{self, Backend};
use clawpen_rules::browser::{
    self, BrowserDecision, BrowserPlan, BrowserSpec, NetworkNeed, ViewerPassword,
};
use clawpen_rules::config::sandbox::{DockerConfig, Owner, SandboxConfig};
use clawpen_rules::container::{ContainerSpec, Identity};
use clawpen_rules::environment::Filter;
use clawpen_rules::mounts::{BindPolicy, KnownPlaces};
use clawpen_rules::scope::ScopeKey;
use clawpen_rules::session::{self, Placement, Session};
use clawpen_rules::tool_policy::{self, Layers, SandboxPolicy, Tool, Verdict};
use clawpen_rules::workspace::{Directories, Layout, private_directory};
use serde_json::{Value, json};

use super::create_args::any_fingerprint;
use super::{config, replace};
use crate::replay::Answer;
use crate::replay::world::{NOW_MS, World};

/// Stands for the password until it is swapped for the row's placeholder.
const PASSWORD: &str = "Pa55word";

pub(super) fn answer(input: &Value, world: &World) -> Result<Answer> {
    let tree = config(&input["config"])?;
    let session = Session::resolve(&tree, input["sessionKey"].as_str().unwrap_or_default());
    let mut sandbox =
        match SandboxConfig::resolve(&tree, Some(session.agent()), world.get("STATE_DIR")) {
            Ok(sandbox) => sandbox,
            Err(error) => return Ok(failed(&error, &[])),
        };
    match session::decide(sandbox.mode.value, &session) {
        Placement::Direct(_) => {
            return Ok(Answer::Given(json!({ "sandboxed": false, "calls": [] })));
        }
        Placement::Sandboxed(_) => {}
    }
    match backend::decide(&sandbox) {
        Err(refused) => return Ok(failed(&refused, &[])),
        Ok(Backend::Docker) => {}
        Ok(Backend::Native | Backend::Ssh | Backend::OpenShell | Backend::Kubernetes) => {
            return Ok(Answer::NotYet);
        }
    }
    if let Some(owner) = owner(&input["workspaceOwner"]) {
        sandbox.docker.run_as_owner(owner);
    }
    let scope = ScopeKey::new(sandbox.scope.value, &session);
    // Rows start behind the loader, which knows the home directory.
    let root = match sandbox.workspace_root.value.strip_prefix('~') {
        Some(below) if below.is_empty() || below.starts_with('/') => {
            format!("{}{below}", world.get("HOME"))
        }
        _ => sandbox.workspace_root.value.clone(),
    };
    let directories = Directories {
        sandbox: private_directory(&root, &scope, sandbox.scope.value),
        agent: input["workspaceDir"].as_str().context("workspaceDir")?.to_owned(),
        workdir: sandbox.docker.workdir.value.clone(),
    };
    let layout = Layout::plan(sandbox.workspace_access.value, &directories);
    let known = KnownPlaces { homes: vec![world.get("HOME").to_owned()], ..KnownPlaces::default() };
    let mut first_use =
        FirstUse { facts: &input["docker"], calls: Vec::new(), sandbox, scope, layout, known };
    let layers = Layers::of_sandbox(&SandboxPolicy::resolve(&tree, session.agent()));
    let tool = tool_policy::decide(&layers, &Tool::core("browser"));
    let outcome = first_use.shell().and_then(|()| first_use.browser(&tool));
    let calls = first_use.shown_calls();
    Ok(match outcome {
        Ok(browser) => {
            Answer::Given(json!({ "calls": calls, "context": first_use.context(browser) }))
        }
        Err(error) => failed(&error, &calls),
    })
}

fn failed(error: &impl ToString, calls: &[Vec<String>]) -> Answer {
    Answer::Given(json!({ "error": error.to_string(), "calls": calls }))
}

fn owner(value: &Value) -> Option<Owner> {
    let number = |key: &str| u32::try_from(value[key].as_u64()?).ok();
    Some(Owner { uid: number("uid")?, gid: number("gid")? })
}

/// A sandbox that is used for the first time.
struct FirstUse<'a> {
    /// What the row says about the engine.
    facts: &'a Value,
    calls: Vec<Vec<String>>,
    sandbox: SandboxConfig,
    scope: ScopeKey,
    layout: Layout,
    known: KnownPlaces,
}

impl FirstUse<'_> {
    fn shell(&mut self) -> Result<(), String> {
        let docker = self.sandbox.docker.clone();
        let identity = self.identity(&docker.container_prefix.value);
        let name = identity.name.as_str().to_owned();
        self.call(["inspect", "-f", "{{.State.Running}}", &name]);
        self.call(["image", "inspect", &docker.image.value]);
        self.image(&docker.image.value, "build it with `clawpen images` or pull it")?;
        let policy = self.policy(&docker);
        let spec = ContainerSpec::locked_down(identity, &self.layout, docker.image.clone())
            .configured(&docker, &Filter::except_credentials())
            .build(&policy, &RealFiles)
            .map_err(|refused| refused.to_string())?;
        self.calls.push(spec.docker_args());
        self.succeed("create")?;
        self.call(["start", &name]);
        self.succeed("start")?;
        if let Some(setup) = spec.setup_args() {
            self.calls.push(setup);
            self.succeed("exec")?;
        }
        Ok(())
    }

    /// The browser's container, if the session gets one.
    fn browser(&mut self, tool: &Verdict<'_>) -> Result<Option<BrowserSpec>, String> {
        match browser::decide(&self.sandbox.browser, tool) {
            BrowserDecision::Start => {}
            BrowserDecision::NotEnabled(_) | BrowserDecision::ToolDenied => return Ok(None),
        }
        let identity = self.identity(&self.sandbox.browser.container_prefix.value);
        let name = identity.name.as_str().to_owned();
        self.call(["inspect", "-f", "{{.State.Running}}", &name]);
        let need = browser::decide_network(&self.sandbox).map_err(|refused| refused.to_string())?;
        if let NetworkNeed::Bridge(network) = need {
            self.call(["network", "inspect", &network]);
            if self.facts["network"] == "missing" {
                self.call(["network", "create", "--driver", "bridge", &network]);
            }
            self.succeed("network")?;
        }
        let docker = self.sandbox.browser_docker();
        let image = docker.image.value.clone();
        self.call(["image", "inspect", &image]);
        self.image(&image, "build it with `clawpen images`")?;
        let policy = self.policy(&docker);
        let plan = BrowserPlan {
            identity,
            layout: &self.layout,
            config: &self.sandbox,
            filter: &Filter::except_credentials(),
            password: ViewerPassword::parse(PASSWORD),
        };
        let spec =
            BrowserSpec::build(plan, &policy, &RealFiles).map_err(|refused| refused.to_string())?;
        self.calls.push(spec.docker_args());
        self.succeed("create")?;
        self.call(["start", &name]);
        self.succeed("start")?;
        for port in spec.published_ports() {
            self.call(["port", &name, &format!("{port}/tcp")]);
        }
        Ok(Some(spec))
    }

    fn policy(&self, docker: &DockerConfig) -> BindPolicy {
        BindPolicy::resolve(docker, &self.layout.bind_roots(), &self.known, &RealFiles)
    }

    fn identity(&self, prefix: &str) -> Identity {
        Identity {
            name: self.scope.container_name(self.sandbox.scope.value, prefix),
            scope: self.scope.clone(),
            created_at_ms: NOW_MS,
            fingerprint: Some(any_fingerprint()),
        }
    }

    fn call<const N: usize>(&mut self, args: [&str; N]) {
        self.calls.push(args.map(str::to_owned).into());
    }

    fn image(&self, image: &str, advice: &str) -> Result<(), String> {
        self.succeed("image")?;
        if self.facts["image"] == "missing" {
            return Err(format!("image `{image}` is missing; {advice}"));
        }
        Ok(())
    }

    /// Fails if the row says that the engine refuses this kind of call.
    fn succeed(&self, verb: &str) -> Result<(), String> {
        match self.facts[format!("{verb}Error")].as_str() {
            Some(words) => Err(format!("docker {verb} failed: {words}")),
            None => Ok(()),
        }
    }

    /// The calls with what changes per run shown as its placeholder.
    fn shown_calls(&self) -> Vec<Vec<String>> {
        let mut calls = self.calls.clone();
        let hash = format!("openclaw.configHash={}", any_fingerprint());
        let password = format!("OPENCLAW_BROWSER_NOVNC_PASSWORD={PASSWORD}");
        for call in &mut calls {
            replace(call, &hash, "openclaw.configHash=${CONFIG_HASH}");
            replace(call, &password, "OPENCLAW_BROWSER_NOVNC_PASSWORD=${NOVNC_PASSWORD}");
        }
        calls
    }

    fn context(&self, browser: Option<BrowserSpec>) -> Value {
        let docker = &self.sandbox.docker;
        let identity = self.identity(&docker.container_prefix.value);
        json!({
            "backendId": "docker",
            "containerName": identity.name.as_str(),
            "workspaceDir": self.layout.mounted(),
            "agentWorkspaceDir": self.layout.agent(),
            "workspaceAccess": self.layout.access().as_str(),
            "containerWorkdir": self.layout.workdir(),
            "user": docker.user.as_ref().map(|user| user.value.trim()).filter(|user| !user.is_empty()),
            "browser": browser.map(|browser| json!({
                "containerName": browser.container().identity().name.as_str(),
                "hasNoVncUrl": browser.viewer().is_some(),
            })),
        })
    }
}
