//! One command in a sandbox: its environment, its directory and the script that starts it.
//!
//! Takes what the tool asked for, the sandbox's layout and the host's PATH; gives an [`ExecSpec`]
//! or the reason why there is none. The environment passes the same filter as at creation. A
//! directory that cannot be used is replaced by the workspace itself, with a note for the model.
//! Whether the call needs anyone's approval is not asked here.

use std::fmt;

use super::workdir::{self, Workdir};
use crate::elevated::GateFailure;
use crate::environment::{BlockReason, Environment, Filter};
use crate::host_files::HostFiles;
use crate::scope::ContainerName;
use crate::workspace::Layout;

/// Carries PATH into the sandbox: the shell's profile would overwrite PATH itself.
const PATH_CARRIER: &str = "OPENCLAW_PREPEND_PATH";
/// Puts the carried entries before the sandbox's own, after the profile ran.
const TAKE_PATH: &str =
    "export PATH=\"${OPENCLAW_PREPEND_PATH}:$PATH\"; unset OPENCLAW_PREPEND_PATH; ";

/// What the exec tool was asked to do.
#[derive(Debug, Clone, Default)]
pub struct ExecRequest<'a> {
    pub command: &'a str,
    pub workdir: Option<&'a str>,
    /// Variables of this call, in order.
    pub env: Vec<(&'a str, &'a str)>,
    pub host: Option<ExecHost>,
    pub elevation: Elevation<'a>,
}

/// What the command runs in.
#[derive(Debug, Clone)]
pub struct ExecPlace<'a> {
    pub layout: &'a Layout,
    /// `docker.env`, in order, as configured.
    pub env: Vec<(&'a str, &'a str)>,
    pub filter: &'a Filter,
    /// The gateway's own PATH.
    pub path: &'a str,
    /// `tools.exec.pathPrepend`.
    pub path_prepend: Vec<&'a str>,
}

/// Where commands run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExecHost {
    Sandbox,
    Gateway,
    Node,
}

/// Whether the call wants out of the sandbox, and what the gates say to that.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Elevation<'a> {
    #[default]
    NotAsked,
    /// Asked for, and a gate is shut.
    Shut(ElevatedRefused<'a>),
}

/// Elevated was asked for and is not available.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ElevatedRefused<'a> {
    /// The gate that is shut.
    pub gate: GateFailure,
    /// The channel the message came through, if known.
    pub provider: Option<&'a str>,
    pub session: Option<&'a str>,
}

/// A command was not started.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ExecRefused {
    #[error("there is nothing to run; give `command` some text")]
    EmptyCommand,
    #[error("`command` holds a NUL, which no program can receive; remove it")]
    NulInCommand,
    #[error("{0}")]
    Elevated(String),
    #[error(
        "this session's commands do not run on the {requested}: tools.exec.host={configured} is in \
         force, and only tools.exec.host={requested} would change that"
    )]
    OtherHost { requested: ExecHost, configured: ExecHost },
}

/// A command ready to be started. Made by [`ExecSpec::plan`] only.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExecSpec {
    workdir: Workdir,
    env: Environment,
    /// The PATH entries to put before the sandbox's own; never empty text.
    path: Option<String>,
    command: String,
    blocked: Vec<(String, BlockReason)>,
}

impl ExecSpec {
    /// Plans one command in the sandbox.
    pub fn plan(
        request: &ExecRequest<'_>,
        place: &ExecPlace<'_>,
        files: &impl HostFiles,
    ) -> Result<Self, ExecRefused> {
        if request.command.is_empty() {
            return Err(ExecRefused::EmptyCommand);
        }
        if request.command.contains('\0') {
            return Err(ExecRefused::NulInCommand);
        }
        if let Elevation::Shut(refused) = &request.elevation {
            return Err(ExecRefused::Elevated(refused.to_string()));
        }
        if let Some(requested) = request.host.filter(|host| *host != ExecHost::Sandbox) {
            return Err(ExecRefused::OtherHost { requested, configured: ExecHost::Sandbox });
        }
        let workdir = workdir::decide(request.workdir, place.layout, files);
        let configured = place.env.iter().copied().chain(request.env.iter().copied());
        let filtered = place.filter.apply(configured);
        let mut env = Environment::default();
        env.set("PATH", place.path);
        env.set("HOME", workdir.container());
        for (name, value) in filtered.kept.iter() {
            env.set(name, value);
        }
        env.set("OPENCLAW_SHELL", "exec");
        let path = env.remove("PATH").map(|path| prepend(&place.path_prepend, path));
        Ok(Self {
            workdir,
            env,
            path: path.filter(|path| !path.is_empty()),
            command: request.command.to_owned(),
            blocked: filtered.blocked,
        })
    }

    /// The directory the command starts in, and whether it is the one asked for.
    pub const fn workdir(&self) -> &Workdir {
        &self.workdir
    }

    /// The variables, without PATH.
    pub const fn env(&self) -> &Environment {
        &self.env
    }

    /// The PATH entries that come before the sandbox's own.
    pub fn path(&self) -> Option<&str> {
        self.path.as_deref()
    }

    /// The variables that were kept out, with the reasons.
    pub fn blocked(&self) -> &[(String, BlockReason)] {
        &self.blocked
    }

    /// All variables, with the one that carries PATH.
    pub fn variables(&self) -> impl Iterator<Item = (&str, &str)> {
        let carrier = self.path.as_deref().map(|path| (PATH_CARRIER, path));
        self.env.iter().chain(carrier)
    }

    /// What `/bin/sh -lc` is given.
    pub fn script(&self) -> String {
        let prefix = if self.path.is_some() { TAKE_PATH } else { "" };
        format!("{prefix}{}", self.command)
    }

    /// The same as arguments of `docker`, for the container called `name`.
    pub fn docker_args(&self, name: &ContainerName) -> Vec<String> {
        let mut args: Vec<String> =
            ["exec", "-i", "-w", self.workdir.container()].map(str::to_owned).into();
        for (variable, value) in self.variables() {
            args.extend(["-e".to_owned(), format!("{variable}={value}")]);
        }
        args.extend([name.as_str(), "/bin/sh", "-lc"].map(str::to_owned));
        args.push(self.script());
        args
    }
}

/// Puts entries before those of a PATH; each entry stays where it comes first.
fn prepend(entries: &[&str], path: String) -> String {
    if entries.iter().all(|entry| entry.trim().is_empty()) {
        return path;
    }
    let mut merged: Vec<&str> = Vec::new();
    for entry in entries.iter().copied().chain(path.split(':')).map(str::trim) {
        if !entry.is_empty() && !merged.contains(&entry) {
            merged.push(entry);
        }
    }
    merged.join(":")
}

impl fmt::Display for ExecHost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Sandbox => "sandbox",
            Self::Gateway => "gateway",
            Self::Node => "node",
        })
    }
}

impl fmt::Display for ElevatedRefused<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let gate = self.gate.gate();
        let key = match self.gate {
            GateFailure::Enabled(_) => "enabled",
            GateFailure::Provider | GateFailure::AllowFrom(..) => "allowFrom.<provider>",
        };
        writeln!(f, "this command may not leave the sandbox (runtime=sandboxed)")?;
        write!(f, "the gate that is shut: {gate}, set by tools.elevated.{key}")?;
        writeln!(f, " and agents.list[].tools.elevated.{key}")?;
        let provider = self.provider.map(|provider| format!("provider={provider}"));
        let session = self.session.map(|session| format!("session={session}"));
        let known: Vec<String> = provider.into_iter().chain(session).collect();
        if !known.is_empty() {
            writeln!(f, "asked by: {}", known.join(" "))?;
        }
        write!(
            f,
            "keys that open it:\n- tools.elevated.enabled\n- tools.elevated.allowFrom.<provider>\n\
             - agents.list[].tools.elevated.enabled\n- agents.list[].tools.elevated.allowFrom.<provider>"
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::sandbox::{Scope, WorkspaceAccess};
    use crate::elevated::GateScope;
    use crate::host_files::FileTable;
    use crate::scope::ScopeKey;
    use crate::workspace::Directories;

    #[test]
    fn a_command_sees_path_home_config_and_call_in_that_order() {
        check(
            &[("LANG", "C.UTF-8"), ("A", "1")],
            &[("B", "2"), ("A", "3")],
            &["HOME=/workspace", "LANG=C.UTF-8", "A=3", "B=2", "OPENCLAW_SHELL=exec"],
            Some("/usr/bin:/bin"),
        );
        check(
            &[("HOME", "/h"), ("PATH", "/p")],
            &[("OPENCLAW_SHELL", "x")],
            &["HOME=/h", "OPENCLAW_SHELL=exec"],
            Some("/p"),
        );
        check(&[("PATH", "")], &[], &["HOME=/workspace", "OPENCLAW_SHELL=exec"], None);
    }

    #[test]
    fn what_creation_keeps_out_stays_out_of_every_command() {
        check(
            &[("MY_TOKEN", "t"), ("OK", "1")],
            &[("X_SECRET", "s"), ("A=B_TOKEN", "x"), ("NUL", "a\0b")],
            &["HOME=/workspace", "OK=1", "OPENCLAW_SHELL=exec"],
            Some("/usr/bin:/bin"),
        );
    }

    #[test]
    fn prepended_entries_come_first_and_once() {
        let merged = |entries: &[&str], path: &str| prepend(entries, path.to_owned());
        assert_eq!(merged(&["/a", " /b "], "/usr/bin:/a"), "/a:/b:/usr/bin");
        assert_eq!(merged(&[], "/x::/x"), "/x::/x");
        assert_eq!(merged(&[" "], "/x"), "/x");
        assert_eq!(merged(&["/a"], ""), "/a");
    }

    #[test]
    fn refusals_come_before_anything_is_planned() {
        let shut = ElevatedRefused {
            gate: GateFailure::Enabled(GateScope::Global),
            provider: None,
            session: None,
        };
        let elevation = Elevation::Shut(shut.clone());
        let request = |command| ExecRequest { command, ..ExecRequest::default() };
        refuse(&request(""), &ExecRefused::EmptyCommand);
        refuse(&request("a\0b"), &ExecRefused::NulInCommand);
        refuse(
            &ExecRequest { host: Some(ExecHost::Gateway), ..request("ls") },
            &ExecRefused::OtherHost { requested: ExecHost::Gateway, configured: ExecHost::Sandbox },
        );
        refuse(
            &ExecRequest { elevation, host: Some(ExecHost::Node), ..request("ls") },
            &ExecRefused::Elevated(shut.to_string()),
        );
    }

    fn layout() -> Layout {
        let directories = Directories {
            sandbox: "/state".into(),
            agent: "/ws".into(),
            workdir: "/workspace".into(),
        };
        Layout::plan(WorkspaceAccess::ReadWrite, &directories)
    }

    fn place<'a>(layout: &'a Layout, filter: &'a Filter) -> ExecPlace<'a> {
        ExecPlace { layout, env: Vec::new(), filter, path: "/usr/bin:/bin", path_prepend: vec![] }
    }

    #[track_caller]
    fn refuse(request: &ExecRequest<'_>, expected: &ExecRefused) {
        let (layout, filter) = (layout(), Filter::except_credentials());
        let planned = ExecSpec::plan(request, &place(&layout, &filter), &FileTable::new());
        assert_eq!(planned.as_ref(), Err(expected));
    }

    #[track_caller]
    fn check(
        configured: &[(&str, &str)],
        call: &[(&str, &str)],
        expected: &[&str],
        path: Option<&str>,
    ) {
        let (layout, filter) = (layout(), Filter::except_credentials());
        let place = ExecPlace { env: configured.to_vec(), ..place(&layout, &filter) };
        let request = ExecRequest { command: "ls", env: call.to_vec(), ..ExecRequest::default() };
        let spec = ExecSpec::plan(&request, &place, &FileTable::new()).unwrap();
        let carried = path.map(|path| format!("{PATH_CARRIER}={path}"));
        let script = if path.is_some() { format!("{TAKE_PATH}ls") } else { "ls".to_owned() };
        let mut wanted: Vec<String> = ["exec", "-i", "-w", "/workspace"].map(Into::into).into();
        for pair in expected.iter().map(|pair| (*pair).to_owned()).chain(carried) {
            wanted.extend(["-e".to_owned(), pair]);
        }
        wanted.extend(["x-shared", "/bin/sh", "-lc", &script].map(str::to_owned));
        let name = ScopeKey::stored("x").unwrap().container_name(Scope::Shared, "x-");
        assert_eq!(spec.docker_args(&name), wanted);
    }
}
