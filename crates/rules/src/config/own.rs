//! `clawpen.json`: our own settings, beside `openclaw.json`.
//!
//! Everything in it is optional. It has the same layers (`defaults`, then `agents.<id>`), and
//! `backend` may stand in either file.

use super::include::ConfigFiles;
use super::json5;
use super::load::{self, Finding, Invalid, LoadError};
use super::schema::{self, keys};
use super::setting::{Layer, Origin, Setting};
use super::tree::{At, FileId, Node, Value};
use crate::ids::AgentId;

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
    /// `tools.exec` and `tools.fs` widen a profile, as the reference's older release does.
    pub implicit_tool_grants: Setting<bool>,
    pub native: NativeSettings,
}

/// `native`: what only native pens have.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct NativeSettings {
    /// An unpacked image in place of the host's programs.
    pub rootfs: Option<Setting<String>>,
    /// Layers that must be in force although the floor does not ask for them.
    pub require: Option<Setting<Vec<String>>>,
}

impl OwnConfig {
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
        let implicit_tool_grants = pick("implicitToolGrants")
            .and_then(|(at, origin)| Some(Setting::new(at.node.as_bool()?, origin)))
            .unwrap_or_else(|| {
                Setting::new(false, Origin::built_in("defaults.implicitToolGrants"))
            });
        let native = NativeSettings {
            rootfs: pick_native(&layers, "rootfs").and_then(|(at, origin)| {
                Some(Setting::new(at.node.as_str()?.trim().to_owned(), origin))
            }),
            require: pick_native(&layers, "require")
                .and_then(|(at, origin)| Some(Setting::new(at.strings()?, origin))),
        };
        OwnSettings { backend, env_allow, ask_in_sandbox, implicit_tool_grants, native }
    }
}

/// A value of the `native` block, from the nearest layer that writes it.
fn pick_native<'a>(layers: &[(Layer, Option<At<'a>>)], key: &str) -> Option<(At<'a>, Origin)> {
    layers.iter().find_map(|(layer, block)| {
        let at = block.as_ref()?.get("native")?.get(key)?;
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
