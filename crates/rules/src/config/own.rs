//! `clawpen.json`: our own settings, beside `openclaw.json`.
//!
//! Everything in it is optional. It has the same layers (`defaults`, then `agents.<id>`), and
//! `backend` may stand in either file.

use std::time::Duration;

use super::include::ConfigFiles;
use super::json5;
use super::load::{self, Finding, Invalid, LoadError};
use super::schema::{self, keys};
use super::setting::{Layer, Origin, Setting};
use super::tree::{At, FileId, Node, Value};
use crate::approval::resolver::Elicitation;
use crate::container::WorkspaceLabel;
use crate::ids::AgentId;
use crate::workspace::removal::{RemovalPolicy, Removed};

/// Stands for `clawpen.json` in the places of its values, which live beside those of the config.
pub const FILE: FileId = FileId(u16::MAX);

/// The loaded `clawpen.json`; empty if there is none.
#[derive(Debug, Clone, Default)]
pub struct OwnConfig {
    root: Option<Node>,
    file: Option<String>,
}

/// Our settings for one agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OwnSettings {
    /// Beats `sandbox.backend` of `openclaw.json` when set.
    pub backend: Option<Setting<String>>,
    /// Secret-looking variables that may enter the sandbox all the same.
    pub env_allow: Setting<Vec<String>>,
    /// Commands of an agent are asked about in the sandbox too.
    pub ask_in_sandbox: Setting<bool>,
    pub approvals: ApprovalSettings,
    /// `tools.exec` and `tools.fs` widen a profile, as the reference's older release does.
    pub implicit_tool_grants: Setting<bool>,
    pub native: NativeSettings,
    pub docker: DockerSettings,
    /// When the sandbox of a session is made.
    pub start: Setting<Start>,
    /// Doors that live long make pens ahead.
    pub ahead: Setting<bool>,
    /// What becomes of private workspaces.
    pub workspaces: RemovalPolicy,
}

/// `start`: when a sandbox is made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Start {
    /// With the first call that needs it.
    Lazy,
    /// As soon as its session begins, and at once after it was replaced.
    Eager,
}

impl Start {
    pub const ALL: [Self; 2] = [Self::Lazy, Self::Eager];

    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Lazy => "lazy",
            Self::Eager => "eager",
        }
    }

    fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|known| known.as_str() == text)
    }
}

/// `approvals`: how people are asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ApprovalSettings {
    /// How long a person has to answer.
    pub timeout: Setting<Duration>,
    /// How far the word goes that an MCP client passes on.
    pub elicitation: Setting<Elicitation>,
}

/// The reference's two minutes.
const APPROVAL_SECONDS: u64 = 120;

/// `native`: what only native pens have.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct NativeSettings {
    /// An unpacked image in place of the host's programs.
    pub rootfs: Option<Setting<String>>,
    /// Layers that must be in force although the floor does not ask for them.
    pub require: Option<Setting<Vec<String>>>,
}

/// `docker`: what only containers have, and the reference's config has no key for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DockerSettings {
    /// How the engine labels the workspace.
    pub workspace_label: Setting<WorkspaceLabel>,
}

/// `audit`: how long records are kept. One chain serves all agents, so there are no layers.
#[derive(Debug, Clone, PartialEq)]
pub struct AuditSettings {
    /// Zero: for ever.
    pub keep_days: Setting<f64>,
    /// A clock that jumps ahead must not cost the whole chain.
    pub keep_at_least: Setting<f64>,
}

impl OwnConfig {
    /// The settings of the audit chain.
    pub fn audit(&self) -> AuditSettings {
        let block = self.root.as_ref().map(At::root).and_then(|root| root.get("audit"));
        let pick = |key: &str, built_in: f64| {
            let written = block.as_ref().and_then(|block| block.get(key)).and_then(|at| {
                Some(Setting::new(at.node.as_number()?, Origin::written(Layer::Defaults, &at)))
            });
            let origin = || Origin::built_in(format!("audit.{key}"));
            written.unwrap_or_else(|| Setting::new(built_in, origin()))
        };
        AuditSettings {
            keep_days: pick("keepDays", 365.0),
            keep_at_least: pick("keepAtLeast", 10_000.0),
        }
    }

    /// Where it was read from, if it exists.
    pub fn file(&self) -> Option<&str> {
        self.file.as_deref()
    }

    /// The settings of one agent: its own, else the defaults, else the built-in ones.
    pub fn resolve(&self, agent: &AgentId) -> OwnSettings {
        let root = self.root.as_ref().map(At::root);
        let defaults = root.as_ref().and_then(|root| root.get("defaults"));
        let own = root.as_ref().and_then(|root| root.get("agents")).and_then(|agents| {
            let mut members = agents.members().into_iter();
            members.find(|(id, _)| AgentId::normalize(id) == *agent).map(|(_, entry)| entry)
        });
        let layers = [(Layer::Agent, own), (Layer::Defaults, defaults)];
        let pick = |key: &str| {
            layers.iter().find_map(|(layer, block)| {
                let at = block.as_ref()?.get(key)?;
                let origin = Origin::written(*layer, &at);
                Some((at, origin))
            })
        };
        let backend = pick("backend").and_then(|(at, origin)| {
            let text = at.node.as_str()?.trim();
            (!text.is_empty()).then(|| Setting::new(text.to_owned(), origin))
        });
        let env_allow = pick("envAllow")
            .and_then(|(at, origin)| Some(Setting::new(at.strings()?, origin)))
            .unwrap_or_else(|| Setting::new(Vec::new(), Origin::built_in("defaults.envAllow")));
        // Whatever is written there and is no plain `false` asks.
        let ask_in_sandbox =
            pick("askInSandbox").filter(|(at, _)| at.node.value != Value::Null).map_or_else(
                || Setting::new(false, Origin::built_in("defaults.askInSandbox")),
                |(at, origin)| Setting::new(at.node.as_bool() != Some(false), origin),
            );
        let approvals = approvals(&layers);
        let implicit_tool_grants = pick("implicitToolGrants")
            .and_then(|(at, origin)| Some(Setting::new(at.node.as_bool()?, origin)))
            .unwrap_or_else(|| {
                Setting::new(false, Origin::built_in("defaults.implicitToolGrants"))
            });
        let native = NativeSettings {
            rootfs: pick_in(&layers, "native", "rootfs").and_then(|(at, origin)| {
                Some(Setting::new(at.node.as_str()?.trim().to_owned(), origin))
            }),
            require: pick_in(&layers, "native", "require")
                .and_then(|(at, origin)| Some(Setting::new(at.strings()?, origin))),
        };
        let label = pick_in(&layers, "docker", "workspaceLabel").and_then(|(at, origin)| {
            Some(Setting::new(WorkspaceLabel::parse(at.node.as_str()?)?, origin))
        });
        let no_label = || {
            Setting::new(WorkspaceLabel::None, Origin::built_in("defaults.docker.workspaceLabel"))
        };
        let docker = DockerSettings { workspace_label: label.unwrap_or_else(no_label) };
        let start = pick("start")
            .and_then(|(at, origin)| Some(Setting::new(Start::parse(at.node.as_str()?)?, origin)))
            .unwrap_or_else(|| Setting::new(Start::Lazy, Origin::built_in("defaults.start")));
        // Whatever is written there and is no plain `true` makes nothing ahead.
        let ahead = pick("ahead").map_or_else(
            || Setting::new(true, Origin::built_in("defaults.ahead")),
            |(at, origin)| Setting::new(at.node.as_bool() == Some(true), origin),
        );
        let workspaces = removal(&layers);
        OwnSettings {
            backend,
            env_allow,
            ask_in_sandbox,
            approvals,
            implicit_tool_grants,
            native,
            docker,
            start,
            ahead,
            workspaces,
        }
    }
}

/// `approvals`.
fn approvals(layers: &[(Layer, Option<At<'_>>)]) -> ApprovalSettings {
    let timeout = pick_in(layers, "approvals", "timeoutSec").and_then(|(at, origin)| {
        // Nobody can answer within no time at all, so that is a second.
        let seconds = whole(at.node.as_number()?).max(1);
        Some(Setting::new(Duration::from_secs(seconds), origin))
    });
    let usual = || {
        let origin = Origin::built_in("defaults.approvals.timeoutSec");
        Setting::new(Duration::from_secs(APPROVAL_SECONDS), origin)
    };
    let elicitation = pick_in(layers, "approvals", "elicitation").map_or_else(
        || {
            let origin = Origin::built_in("defaults.approvals.elicitation");
            Setting::new(Elicitation::Sandbox, origin)
        },
        // What cannot be read is nobody's word.
        |(at, origin)| {
            let word = at.node.as_str().and_then(Elicitation::parse);
            Setting::new(word.unwrap_or(Elicitation::Off), origin)
        },
    );
    ApprovalSettings { timeout: timeout.unwrap_or_else(usual), elicitation }
}

/// `workspaces`.
fn removal(layers: &[(Layer, Option<At<'_>>)]) -> RemovalPolicy {
    let mut policy = RemovalPolicy::built_in();
    if let Some((at, origin)) = pick_in(layers, "workspaces", "removed")
        && let Some(removed) = at.node.as_str().and_then(Removed::parse)
    {
        policy.removed = Setting::new(removed, origin);
    }
    let days = |key: &str| {
        let (at, origin) = pick_in(layers, "workspaces", key)?;
        Some(Setting::new(whole(at.node.as_number()?), origin))
    };
    if let Some(days) = days("afterDays") {
        policy.after_days = days;
    }
    if let Some(days) = days("trashDays") {
        policy.trash_days = days;
    }
    policy
}

/// The schema lets only whole numbers through, zero or more.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a cast from float saturates, which is what is wanted"
)]
const fn whole(number: f64) -> u64 {
    number as u64
}

/// A value of a block such as `native`, from the nearest layer that writes it.
fn pick_in<'a>(
    layers: &[(Layer, Option<At<'a>>)],
    name: &str,
    key: &str,
) -> Option<(At<'a>, Origin)> {
    layers.iter().find_map(|(layer, block)| {
        let at = block.as_ref()?.get(name)?.get(key)?;
        let origin = Origin::written(*layer, &at);
        Some((at, origin))
    })
}

/// Reads and checks the file.
pub(super) fn load(path: &str, files: &impl ConfigFiles) -> Result<OwnConfig, LoadError> {
    let Some(text) = load::read(path, files)? else { return Ok(OwnConfig::default()) };
    let invalid = |mut findings: Vec<Finding>| {
        // It is the only file of this report.
        for place in findings.iter_mut().filter_map(|finding| finding.place.as_mut()) {
            place.file = FileId(0);
        }
        LoadError::Invalid(Invalid {
            file: path.to_owned(),
            files: vec![path.to_owned()],
            findings,
            warnings: Vec::new(),
        })
    };
    let parsed = json5::parse(&text, FILE)
        .map_err(|error| invalid(vec![load::parse_finding(&error, FILE)]))?;
    let issues = schema::check_against(&parsed.root, &keys::OWN);
    if issues.is_empty() {
        Ok(OwnConfig { root: Some(parsed.root), file: Some(path.to_owned()) })
    } else {
        Err(invalid(issues.into_iter().map(load::finding).collect()))
    }
}
