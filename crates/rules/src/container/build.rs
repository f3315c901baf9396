//! Builds a container's spec: each call opens one door, [`ContainerBuilder::build`] checks the whole.
//!
//! A value keeps its origin until it is checked, so that a refusal names the key to change.

use super::limits::{configured_limits, ulimit};
use super::refused::refused;
use super::{
    ContainerRefused, ContainerSpec, Identity, Limits, Network, RootFilesystem, SpecProblem,
    WorkspaceLabel, shape,
};
use crate::config::sandbox::{DockerConfig, Ulimit};
use crate::config::setting::{Origin, Setting};
use crate::environment::{Filter, Filtered};
use crate::host_files::HostFiles;
use crate::mounts::{
    self, BindDecision, BindPolicy, CheckedBind, Isolation, IsolationRefusal, NamespaceJoin,
    ProfileKind, WorkspaceRefusal,
};
use crate::workspace::Layout;

/// A container in the making; everything is shut until a call opens it.
#[derive(Debug, Clone)]
pub struct ContainerBuilder<'a> {
    identity: Identity,
    layout: &'a Layout,
    /// What set the layout's workdir, if known.
    workdir: Option<Origin>,
    directories: Option<DirectoryOrigins>,
    image: Setting<String>,
    labels: Vec<(String, String)>,
    root: RootFilesystem,
    tmpfs: Option<Setting<Vec<String>>>,
    network: Option<Setting<String>>,
    join: NamespaceJoin,
    user: Option<Setting<String>>,
    env: Filtered,
    cap_drop: Option<Setting<Vec<String>>>,
    seccomp: Option<Setting<String>>,
    apparmor: Option<Setting<String>>,
    dns: Vec<String>,
    extra_hosts: Vec<String>,
    limits: Limits,
    ulimits: Vec<(String, Setting<Ulimit>)>,
    binds: Vec<Setting<String>>,
    workspace_label: WorkspaceLabel,
    setup: Option<String>,
    ports: Vec<u16>,
}

/// What set the host directories of a layout.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DirectoryOrigins {
    /// Of `workspaceRoot`.
    pub root: Origin,
    /// Of the agent's workspace.
    pub agent: Origin,
}

fn is_set(flag: Option<&Setting<bool>>) -> bool {
    flag.is_some_and(|flag| flag.value)
}

impl<'a> ContainerBuilder<'a> {
    pub(super) fn new(identity: Identity, layout: &'a Layout, image: Setting<String>) -> Self {
        Self {
            identity,
            layout,
            workdir: None,
            directories: None,
            image,
            labels: Vec::new(),
            root: RootFilesystem::ReadOnly,
            tmpfs: None,
            network: None,
            join: NamespaceJoin::Refused,
            user: None,
            env: Filtered::default(),
            cap_drop: None,
            seccomp: None,
            apparmor: None,
            dns: Vec::new(),
            extra_hosts: Vec::new(),
            limits: Limits::default(),
            ulimits: Vec::new(),
            binds: Vec::new(),
            workspace_label: WorkspaceLabel::None,
            setup: None,
            ports: Vec::new(),
        }
    }

    /// Opens what the config asks for. A derived user must already be in it; its image is not used:
    /// the one given at the start stays.
    #[must_use]
    pub fn configured(mut self, docker: &DockerConfig, filter: &Filter) -> Self {
        self.workdir = Some(docker.workdir.origin.clone());
        let env = docker.env.iter().map(|(name, value)| (name.as_str(), value.value.as_str()));
        let list = |items: &Option<Setting<Vec<String>>>| {
            items.iter().flat_map(|items| &items.value).cloned().collect::<Vec<_>>()
        };
        let builder = self
            .tmpfs(docker.tmpfs.clone())
            .network(docker.network.clone())
            .environment(filter.apply(env))
            .drop_capabilities(docker.cap_drop.clone())
            .profiles(docker.seccomp_profile.clone(), docker.apparmor_profile.clone())
            .names(list(&docker.dns), list(&docker.extra_hosts))
            .limits(configured_limits(docker))
            .ulimits(docker.ulimits.clone().unwrap_or_default())
            .binds(docker.binds.clone().unwrap_or_default());
        let builder = match &docker.user {
            Some(user) => builder.user(user.clone()),
            None => builder,
        };
        let builder = match &docker.setup_command {
            Some(setup) => builder.setup(&setup.value),
            None => builder,
        };
        let builder = if docker.read_only_root.value { builder } else { builder.writable_root() };
        if is_set(docker.allow_container_namespace_join.as_ref()) {
            return builder.allow_namespace_join();
        }
        builder
    }

    /// Says what set the layout's directories, so that a refusal can name it.
    #[must_use]
    pub fn directories_set_by(mut self, origins: DirectoryOrigins) -> Self {
        self.directories = Some(origins);
        self
    }

    /// Adds a label besides those of the identity; one without a name or value is passed over.
    #[must_use]
    pub fn label(mut self, name: &str, value: &str) -> Self {
        if !name.is_empty() && !value.is_empty() {
            self.labels.push((name.to_owned(), value.to_owned()));
        }
        self
    }

    /// Makes the image's own files writable.
    #[must_use]
    pub fn writable_root(mut self) -> Self {
        self.root = RootFilesystem::Writable;
        self
    }

    /// Mounts memory at these places (`path[:options]`).
    #[must_use]
    pub fn tmpfs(mut self, entries: Setting<Vec<String>>) -> Self {
        self.tmpfs = Some(entries);
        self
    }

    /// Connects it. A blank name leaves the choice to the engine.
    #[must_use]
    pub fn network(mut self, name: Setting<String>) -> Self {
        self.network = Some(name);
        self
    }

    /// Lets `network` be that of another container.
    #[must_use]
    pub fn allow_namespace_join(mut self) -> Self {
        self.join = NamespaceJoin::Allowed;
        self
    }

    /// Runs it as this user; a blank one counts as none.
    #[must_use]
    pub fn user(mut self, user: Setting<String>) -> Self {
        self.user = Some(user);
        self
    }

    /// Gives it these variables.
    #[must_use]
    pub fn environment(mut self, env: Filtered) -> Self {
        self.env = env;
        self
    }

    /// Drops only these capabilities instead of all.
    #[must_use]
    pub fn drop_capabilities(mut self, names: Setting<Vec<String>>) -> Self {
        self.cap_drop = Some(names);
        self
    }

    /// Replaces the engine's seccomp and `AppArmor` profiles.
    #[must_use]
    pub fn profiles(
        mut self,
        seccomp: Option<Setting<String>>,
        apparmor: Option<Setting<String>>,
    ) -> Self {
        (self.seccomp, self.apparmor) = (seccomp, apparmor);
        self
    }

    /// Sets name servers and extra host names; blank ones are passed over.
    #[must_use]
    pub fn names(mut self, dns: Vec<String>, extra_hosts: Vec<String>) -> Self {
        let written = |items: Vec<String>| -> Vec<String> {
            items.into_iter().filter(|item| !item.trim().is_empty()).collect()
        };
        (self.dns, self.extra_hosts) = (written(dns), written(extra_hosts));
        self
    }

    /// Limits it.
    #[must_use]
    pub fn limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }

    /// Adds limits of the process; blank names and empty pairs are passed over.
    #[must_use]
    pub fn ulimits(mut self, ulimits: Vec<(String, Setting<Ulimit>)>) -> Self {
        self.ulimits = ulimits;
        self
    }

    /// Binds host paths besides the layout's own.
    #[must_use]
    pub fn binds(mut self, binds: Vec<Setting<String>>) -> Self {
        self.binds = binds;
        self
    }

    /// Lets the engine label the layout's own mounts.
    #[must_use]
    pub fn label_workspace(mut self, label: WorkspaceLabel) -> Self {
        self.workspace_label = label;
        self
    }

    /// Runs a script in it once it is started; a blank one counts as none.
    #[must_use]
    pub fn setup(mut self, script: &str) -> Self {
        self.setup = (!script.trim().is_empty()).then(|| script.to_owned());
        self
    }

    /// Publishes ports, each on some free port of the host's loopback address; there is no other way to
    /// publish one.
    #[must_use]
    pub fn publish(mut self, ports: Vec<u16>) -> Self {
        self.ports = ports;
        self
    }

    /// Checks the whole and gives the spec. The first problem refuses it: binds in their order, then
    /// network and profiles, then the shape of everything else.
    pub fn build(
        self,
        policy: &BindPolicy,
        files: &impl HostFiles,
    ) -> Result<ContainerSpec, ContainerRefused> {
        let binds = self.checked_binds(policy, files)?;
        self.check_isolation()?;
        self.check_places(&binds)?;
        let workspaces = self.check_workspace(policy, files)?;
        self.check_words()?;
        let network = self.checked_network()?;
        let mut limits = self.limits.clone();
        limits.ulimits = self.checked_ulimits()?;
        let Filtered { kept: mut env, blocked, remarks } = self.env;
        env.set("OPENCLAW_CLI", "1");
        let spec = ContainerSpec {
            identity: self.identity,
            labels: self.labels,
            image: self.image.value,
            root: self.root,
            tmpfs: self.tmpfs.map(|tmpfs| tmpfs.value).unwrap_or_default(),
            network,
            user: self.user.as_ref().and_then(|user| written(&user.value)),
            env,
            kept_out: blocked,
            env_remarks: remarks,
            cap_drop: self.cap_drop.map_or_else(|| vec!["ALL".to_owned()], |names| names.value),
            seccomp: self.seccomp.as_ref().and_then(|profile| written(&profile.value)),
            apparmor: self.apparmor.as_ref().and_then(|profile| written(&profile.value)),
            dns: self.dns,
            extra_hosts: self.extra_hosts,
            limits,
            workdir: self.layout.workdir().to_owned(),
            mounts: self.layout.mounts(),
            workspace_label: self.workspace_label,
            workspaces,
            binds,
            setup: self.setup,
            ports: self.ports,
        };
        // The last net: an argument that ends early could drop a flag's value.
        let mut args = spec.docker_args().into_iter();
        if let Some(argument) = args.find(|argument| argument.contains('\0')) {
            return Err(refused(SpecProblem::Nul { argument }, None));
        }
        match &spec.setup {
            Some(setup) if setup.contains('\0') => Err(refused(SpecProblem::NulInSetup, None)),
            Some(_) | None => Ok(spec),
        }
    }

    fn checked_binds(
        &self,
        policy: &BindPolicy,
        files: &impl HostFiles,
    ) -> Result<Vec<CheckedBind>, ContainerRefused> {
        let checked = self.binds.iter().map(|bind| {
            let problem = match mounts::decide(&bind.value, policy, files) {
                BindDecision::Allow(checked) => return Ok(checked),
                BindDecision::Blank => SpecProblem::BlankBind,
                BindDecision::Refuse(refusal) => SpecProblem::Bind(Box::new(refusal)),
            };
            Err(refused(problem, Some(&bind.origin)))
        });
        checked.collect()
    }

    fn check_isolation(&self) -> Result<(), ContainerRefused> {
        let asked = Isolation {
            network: value(self.network.as_ref()),
            join: self.join,
            seccomp_profile: value(self.seccomp.as_ref()),
            apparmor_profile: value(self.apparmor.as_ref()),
        };
        mounts::decide_isolation(&asked).map_err(|refusal| {
            let setting = match &refusal {
                IsolationRefusal::Network(_) => &self.network,
                IsolationRefusal::Profile(profile) => match profile.kind {
                    ProfileKind::Seccomp => &self.seccomp,
                    ProfileKind::AppArmor => &self.apparmor,
                },
            };
            let origin = setting.as_ref().map(|setting| &setting.origin);
            refused(SpecProblem::Isolation(refusal), origin)
        })
    }

    /// Checks that no workspace shows what no sandbox may see, and gives what was looked at.
    fn check_workspace(
        &self,
        policy: &BindPolicy,
        files: &impl HostFiles,
    ) -> Result<Vec<String>, ContainerRefused> {
        let mut real = Vec::new();
        for mount in self.layout.mounts() {
            let decided = mounts::decide_workspace(&mount.source, mount.access, policy, files);
            let refusal = match decided {
                Ok(path) => {
                    real.push(path);
                    continue;
                }
                Err(refusal) => refusal,
            };
            let origin = self.directory_origin(&mount.source);
            let path = mount.source;
            let problem = match refusal {
                WorkspaceRefusal::Shows { path: shown } => {
                    SpecProblem::WorkspaceShows { path, shown }
                }
                WorkspaceRefusal::RunsOnHost { path: file } => {
                    SpecProblem::WorkspaceRuns { path, file }
                }
                WorkspaceRefusal::Unknown(problem) => {
                    SpecProblem::WorkspaceUnknown { path, problem }
                }
            };
            return Err(refused(problem, origin));
        }
        Ok(real)
    }

    /// What set a directory of the layout, if known.
    fn directory_origin(&self, directory: &str) -> Option<&Origin> {
        let origins = self.directories.as_ref()?;
        Some(if directory == self.layout.agent() { &origins.agent } else { &origins.root })
    }

    /// Checks that everything has a place of its own in the container.
    fn check_places(&self, binds: &[CheckedBind]) -> Result<(), ContainerRefused> {
        let mounts = self.layout.mounts();
        for mount in &mounts {
            shape::mount_end(&mount.source).map_err(|problem| {
                let path = mount.source.clone();
                let origin = self.directory_origin(&mount.source);
                refused(SpecProblem::HostDirectory { path, problem }, origin)
            })?;
        }
        let workdir = self.layout.workdir();
        // The skills stand below the workspace on purpose.
        let skills = self.layout.skills_mount();
        let others = mounts.iter().skip(1).filter(|mount| Some(*mount) != skills.as_ref());
        let others: Vec<&str> = others.map(|mount| mount.target.as_str()).collect();
        shape::workdir(workdir, &others).map_err(|problem| {
            let problem = SpecProblem::Workdir { workdir: workdir.to_owned(), problem };
            refused(problem, self.workdir.as_ref())
        })?;
        let mounted = mounts.iter().map(|mount| mount.target.as_str());
        let taken: Vec<&str> = mounted.chain(binds.iter().map(CheckedBind::target)).collect();
        check_all(self.tmpfs.as_ref(), |entry| {
            let problem = shape::tmpfs(entry, &taken).err()?;
            Some(SpecProblem::Tmpfs { entry: entry.to_owned(), problem })
        })
    }

    /// Checks that names are names.
    fn check_words(&self) -> Result<(), ContainerRefused> {
        let name = self.identity.name.as_str();
        shape::name(name).map_err(|problem| {
            refused(SpecProblem::Name { name: name.to_owned(), problem }, None)
        })?;
        let image = &self.image;
        shape::image(&image.value).map_err(|problem| {
            let problem = SpecProblem::Image { image: image.value.clone(), problem };
            refused(problem, Some(&image.origin))
        })?;
        if let Some(user) = &self.user
            && let Some(name) = written(&user.value)
        {
            shape::user(&name).map_err(|problem| {
                refused(SpecProblem::User { user: name.clone(), problem }, Some(&user.origin))
            })?;
        }
        check_all(self.cap_drop.as_ref(), |name| {
            let problem = shape::identifier(name).err()?;
            Some(SpecProblem::Capability { name: name.to_owned(), problem })
        })
    }

    fn checked_network(&self) -> Result<Network, ContainerRefused> {
        let Some(setting) = &self.network else { return Ok(Network::None) };
        let text = setting.value.as_str();
        if text.trim().is_empty() {
            return Ok(Network::EngineDefault);
        }
        let joined = text
            .get(.."container:".len())
            .filter(|prefix| prefix.eq_ignore_ascii_case("container:"))
            .and_then(|prefix| text.strip_prefix(prefix));
        // The plain shape also shuts out the engine's long form, in which `name=host` is `host`.
        shape::name(joined.unwrap_or(text)).map_err(|problem| {
            let problem = SpecProblem::Network { network: text.to_owned(), problem };
            refused(problem, Some(&setting.origin))
        })?;
        Ok(match joined {
            Some(name) => Network::Joined(name.to_owned()),
            None if text == "none" => Network::None,
            None => Network::Named(text.to_owned()),
        })
    }

    fn checked_ulimits(&self) -> Result<Vec<(String, String)>, ContainerRefused> {
        let mut checked = Vec::new();
        for (name, limit) in &self.ulimits {
            let (Some(name), Some(value)) = (written(name), ulimit(&limit.value)) else { continue };
            shape::identifier(&name).map_err(|problem| {
                refused(SpecProblem::Ulimit { name: name.clone(), problem }, Some(&limit.origin))
            })?;
            checked.push((name, value));
        }
        Ok(checked)
    }
}

fn check_all(
    items: Option<&Setting<Vec<String>>>,
    problem: impl Fn(&str) -> Option<SpecProblem>,
) -> Result<(), ContainerRefused> {
    let Some(items) = items else { return Ok(()) };
    match items.value.iter().find_map(|item| problem(item)) {
        Some(problem) => Err(refused(problem, Some(&items.origin))),
        None => Ok(()),
    }
}

fn value(setting: Option<&Setting<String>>) -> Option<&str> {
    setting.map(|setting| setting.value.as_str())
}

/// The text without blanks around it; `None` if nothing is left.
pub(super) fn written(text: &str) -> Option<String> {
    Some(text.trim()).filter(|text| !text.is_empty()).map(str::to_owned)
}
