//! One block of the config as its two writers wrote it: `agents.defaults` and the agent's entry.
//!
//! Each question goes to the agent first, then to the defaults. A value of the wrong type counts
//! as absent: the schema has reported it, and a config that skipped the schema must not bring the
//! program down.

use std::collections::HashMap;

use crate::config::Config;
use crate::config::setting::{Layer, Origin, Setting};
use crate::config::tree::{At, Member, Node, Object, Place, Span, Value, join_key};
use crate::ids::AgentId;

/// The same block in both layers.
#[derive(Debug, Clone)]
pub(super) struct Layers<'a> {
    /// Its key path in the defaults, where a built-in value would be changed.
    key: String,
    defaults: Option<At<'a>>,
    agent: Option<At<'a>>,
}

impl<'a> Layers<'a> {
    /// The `sandbox` blocks.
    pub(super) fn sandbox(config: &'a Config, agent: Option<&AgentId>) -> Self {
        Self {
            key: "agents.defaults.sandbox".to_owned(),
            defaults: config.at(&["agents", "defaults", "sandbox"]),
            agent: agent.and_then(|id| config.agent(id)?.get("sandbox")),
        }
    }

    /// What everybody shares: no agent has a say.
    pub(super) fn without_agent(&self) -> Self {
        Self { agent: None, ..self.clone() }
    }

    /// A block below this one.
    pub(super) fn block(&self, key: &str) -> Self {
        let below = |at: &Option<At<'a>>| at.as_ref().and_then(|at| at.get(key));
        Self {
            key: join_key(&self.key, key),
            defaults: below(&self.defaults),
            agent: below(&self.agent),
        }
    }

    /// Where the agent wrote `key`, whatever it wrote there.
    pub(super) fn agent_origin(&self, key: &str) -> Option<Origin> {
        Some(Origin::written(Layer::Agent, &self.agent.as_ref()?.get(key)?))
    }

    /// The value of the nearest layer that has one.
    pub(super) fn pick<T>(
        &self,
        key: &str,
        read: impl Fn(&Node) -> Option<T>,
    ) -> Option<Setting<T>> {
        self.pick_named(&[key], read)
    }

    /// The same for a key with several names; within one layer the first name counts.
    pub(super) fn pick_named<T>(
        &self,
        names: &[&str],
        read: impl Fn(&Node) -> Option<T>,
    ) -> Option<Setting<T>> {
        [Layer::Agent, Layer::Defaults].into_iter().find_map(|layer| {
            names.iter().find_map(|name| {
                let at = self.layer(layer)?.get(name)?;
                Some(Setting::new(read(at.node)?, Origin::written(layer, &at)))
            })
        })
    }

    /// The value of the nearest layer, else the built-in one.
    pub(super) fn pick_or<T>(
        &self,
        key: &str,
        read: impl Fn(&Node) -> Option<T>,
        built_in: T,
    ) -> Setting<T> {
        self.pick(key, read).unwrap_or_else(|| self.built_in(key, built_in))
    }

    /// A value of this program, changed by `key` of this block.
    pub(super) fn built_in<T>(&self, key: &str, value: T) -> Setting<T> {
        Setting::new(value, Origin::built_in(join_key(&self.key, key)))
    }

    /// The lists of both layers, defaults first; `None` if no layer has a list.
    pub(super) fn joined(&self, key: &str) -> Option<Vec<Setting<String>>> {
        let mut joined: Option<Vec<Setting<String>>> = None;
        for layer in [Layer::Defaults, Layer::Agent] {
            let Some(at) = self.layer(layer).and_then(|block| block.get(key)) else { continue };
            if at.node.as_array().is_none() {
                continue;
            }
            let texts = at.items().into_iter().filter_map(|item| {
                let value = item.node.as_str()?.to_owned();
                Some(Setting::new(value, Origin::written(layer, &item)))
            });
            joined.get_or_insert_default().extend(texts);
        }
        joined
    }

    /// The members of a map in one layer; `None` if that layer has no such map.
    pub(super) fn members<T>(
        &self,
        layer: Layer,
        key: &str,
        read: impl Fn(&Node) -> Option<T>,
    ) -> Option<Vec<(String, Setting<T>)>> {
        let map = self.layer(layer)?.get(key)?;
        map.node.as_object()?;
        let members = map.members().into_iter().filter_map(|(name, at)| {
            let setting = Setting::new(read(at.node)?, Origin::written(layer, &at));
            Some((name.to_owned(), setting))
        });
        Some(members.collect())
    }

    fn layer(&self, layer: Layer) -> Option<&At<'a>> {
        match layer {
            Layer::Agent => self.agent.as_ref(),
            Layer::Defaults => self.defaults.as_ref(),
            Layer::BuiltIn | Layer::Derived => None,
        }
    }
}

/// Lays later members over earlier ones of the same name. A name keeps the position where it
/// stood first, and integer-like names lead, as in JavaScript: the order is visible in the
/// container's arguments.
pub(super) fn overlay<T>(members: Vec<(String, Setting<T>)>) -> Vec<(String, Setting<T>)> {
    let order = Object::from_members(members.iter().map(|(name, _)| placeholder(name)).collect());
    let mut last: HashMap<String, Setting<T>> = members.into_iter().collect();
    order.members().iter().filter_map(|member| last.remove_entry(&member.key)).collect()
}

fn placeholder(name: &str) -> Member {
    Member {
        key: name.to_owned(),
        key_place: Place::default(),
        key_span: Span::default(),
        node: Node::synthetic(Value::Null),
    }
}
