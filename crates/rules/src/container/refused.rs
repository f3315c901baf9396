//! Why a container is not made: the problem, and the key that set the value.

use std::fmt;

use super::ShapeProblem;
use crate::config::setting::Origin;
use crate::host_files::FactError;
use crate::mounts::{self, IsolationRefusal};

/// A container may not be made like this.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ContainerRefused {
    pub problem: SpecProblem,
    /// What set the value; `None` for what no key sets.
    pub origin: Option<Origin>,
}

/// What is wrong with a container's spec.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SpecProblem {
    #[error("{0}")]
    Bind(Box<mounts::Refusal>),
    #[error("a bind is blank; remove it or write `source:target`")]
    BlankBind,
    #[error("{0}")]
    Isolation(IsolationRefusal),
    #[error("network `{network}` {problem}; name `none`, `bridge` or a network of your own")]
    Network { network: String, problem: ShapeProblem },
    #[error("image `{image}` {problem}; write it as `name:tag`")]
    Image { image: String, problem: ShapeProblem },
    #[error("container name `{name}` {problem}; choose another prefix")]
    Name { name: String, problem: ShapeProblem },
    #[error("workdir `{workdir}` {problem}; use a directory such as `/workspace`")]
    Workdir { workdir: String, problem: ShapeProblem },
    #[error("host directory `{path}` {problem}; it cannot be mounted")]
    HostDirectory { path: String, problem: ShapeProblem },
    #[error(
        "workspace `{path}` shows `{shown}`, which no sandbox may see; choose another directory"
    )]
    WorkspaceShows { path: String, shown: String },
    #[error(
        "workspace `{path}` could write `{file}`, which programs on the host take commands from; choose \
         another directory"
    )]
    WorkspaceRuns { path: String, file: String },
    #[error("workspace `{path}` cannot be judged: {problem}")]
    WorkspaceUnknown { path: String, problem: FactError },
    #[error("tmpfs `{entry}` {problem}")]
    Tmpfs { entry: String, problem: ShapeProblem },
    #[error("user `{user}` {problem}; write it as `user`, `uid` or `uid:gid`")]
    User { user: String, problem: ShapeProblem },
    #[error("capability `{name}` {problem}; write it like `NET_RAW` or `ALL`")]
    Capability { name: String, problem: ShapeProblem },
    #[error("limit `{name}` {problem}; write it like `nofile`")]
    Ulimit { name: String, problem: ShapeProblem },
    #[error("`{argument}` holds a NUL, which no engine can receive; remove it")]
    Nul { argument: String },
    /// The script itself may hold secrets, so it is not shown.
    #[error("the setup command holds a NUL, which no engine can receive; remove it")]
    NulInSetup,
}

pub(super) fn refused(problem: SpecProblem, origin: Option<&Origin>) -> ContainerRefused {
    ContainerRefused { problem, origin: origin.cloned() }
}

impl std::error::Error for ContainerRefused {}

impl fmt::Display for ContainerRefused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { problem, origin } = self;
        match origin {
            Some(origin) => write!(f, "{problem} (set by `{}`)", origin.key),
            None => write!(f, "{problem}"),
        }
    }
}
