//! Layers that this program brings itself.

use super::{
    LayerKind, Model, PolicyLayer, Remedy, SenderStanding, Session, ToolPlacement, Trigger,
};
use crate::config::Config;
use crate::config::sandbox::WorkspaceAccess;
use crate::config::setting::{Layer, Origin};
use crate::config::tree::{At, Node};
use crate::tool_policy::list::Written;
use crate::tool_policy::name::{ToolName, fold};

/// Tools that steer the gateway or reach other devices: the owner's, whatever the lists say.
const OWNER_TOOLS: &[&str] = &["whatsapp_login", "cron", "gateway", "nodes"];

/// Tools that a program may not call by name over HTTP unless `gateway.tools.allow` says so.
const NOT_INVOKED: &[&str] =
    &["sessions_spawn", "sessions_send", "cron", "gateway", "whatsapp_login"];

/// Providers whose models are trained on the patch format.
const PATCH_PROVIDERS: &[&str] = &["openai", "openai-codex"];

fn layer(kind: LayerKind, deny: &[&str], origin: &Origin) -> PolicyLayer {
    let entry = |name: &&str| Written { text: (*name).to_owned(), origin: origin.clone() };
    PolicyLayer::new(kind, &[], &deny.iter().map(entry).collect::<Vec<_>>())
}

/// A tool that calls itself like a group would slip past the deny entry of that name, which stands
/// for the group's tools. No honest tool has such a name.
pub(super) fn group_names() -> PolicyLayer {
    layer(LayerKind::GroupNames, &["group:*"], &Origin::derived("tool names"))
}

/// With a read-only workspace there is nothing to write to.
pub(super) fn workspace_access(placement: &ToolPlacement) -> Option<PolicyLayer> {
    let ToolPlacement::Sandbox { access } = placement else { return None };
    match access.value {
        WorkspaceAccess::None | WorkspaceAccess::ReadWrite => None,
        WorkspaceAccess::ReadOnly => {
            // Not a list entry that could be taken out, wherever the setting is written.
            let origin = Origin { layer: Layer::Derived, ..access.origin.clone() };
            let remedy = Remedy::Set { key: origin.key.clone(), value: "rw".to_owned() };
            let denied = ["write", "edit", "apply_patch"];
            Some(layer(LayerKind::WorkspaceAccess, &denied, &origin).with_remedy(remedy))
        }
    }
}

/// `apply_patch` is made for some models, and can be switched off.
pub(super) fn apply_patch(config: &Config, session: &Session) -> Option<PolicyLayer> {
    let agent = config.agent(&session.agent);
    let setting = |key: &str| -> Option<At<'_>> {
        let path = ["tools", "exec", "applyPatch", key];
        agent.as_ref().and_then(|agent| agent.path(&path)).or_else(|| config.at(&path))
    };
    let closed = |origin: &Origin, remedy| {
        Some(layer(LayerKind::ApplyPatch, &["apply_patch"], origin).with_remedy(remedy))
    };
    if let Some(at) = setting("enabled").filter(|at| at.node.as_bool() == Some(false)) {
        let remedy = Remedy::Set { key: at.key.clone(), value: "true".to_owned() };
        return closed(
            &Origin { layer: Layer::Derived, ..Origin::written(Layer::Defaults, &at) },
            remedy,
        );
    }
    let model = session.model.as_ref()?;
    if !PATCH_PROVIDERS.contains(&fold(&model.provider).as_str()) {
        return closed(&Origin::derived("model provider"), Remedy::None);
    }
    let list = setting("allowModels")?;
    let names: Vec<String> =
        list.node.as_array()?.iter().filter_map(Node::as_str).map(fold).collect();
    let names: Vec<String> = names.into_iter().filter(|name| !name.is_empty()).collect();
    if names.is_empty() || model.names().iter().any(|name| names.contains(name)) {
        return None;
    }
    let entry = model.names().last().cloned().unwrap_or_default();
    let origin = Origin { layer: Layer::Derived, ..Origin::written(Layer::Defaults, &list) };
    closed(&origin, Remedy::AddEntry { key: list.key.clone(), entry })
}

impl Model {
    /// The names a list may use for the model: its id, then with the provider before it.
    pub(super) fn names(&self) -> Vec<String> {
        let (provider, id) = (fold(&self.provider), fold(self.id.as_deref().unwrap_or_default()));
        if id.is_empty() {
            return Vec::new();
        }
        if id.contains('/') { vec![id] } else { vec![id.clone(), format!("{provider}/{id}")] }
    }
}

/// A memory flush may read, and write the one file it is for; nothing else.
pub(super) fn memory_flush(trigger: Trigger) -> Option<PolicyLayer> {
    match trigger {
        Trigger::Message => None,
        Trigger::MemoryFlush => {
            let origin = Origin::derived("memory flush");
            let entry = |name: &str| Written { text: name.to_owned(), origin: origin.clone() };
            // Patching goes with writing everywhere else; here only the two tools are meant.
            let (allow, deny) = ([entry("read"), entry("write")], [entry("apply_patch")]);
            Some(PolicyLayer::new(LayerKind::MemoryFlush, &allow, &deny))
        }
    }
}

/// A voice call already speaks: it has no use for a second voice.
pub(super) fn message_provider(provider: Option<&str>) -> Option<PolicyLayer> {
    let is_voice = provider.is_some_and(|provider| fold(provider) == "voice");
    is_voice
        .then(|| layer(LayerKind::MessageProvider, &["tts"], &Origin::derived("message provider")))
}

/// Closes the owner's tools to everyone else.
pub(super) fn owner_only(sender: SenderStanding) -> Option<PolicyLayer> {
    match sender {
        SenderStanding::Owner => None,
        SenderStanding::Other => {
            let origin = Origin::derived("sender");
            let mut layer = layer(LayerKind::OwnerOnly, OWNER_TOOLS, &origin);
            layer.deny.push_owner_tools(origin);
            Some(layer.with_remedy(Remedy::OwnerSpeaks))
        }
    }
}

/// What a program may not call directly.
pub(super) fn direct_invoke(config: &Config) -> PolicyLayer {
    let list = |key| {
        let at = config.at(&["gateway", "tools", key]);
        at.and_then(|at| Written::read(Layer::Defaults, &at)).unwrap_or_default()
    };
    let lifted: Vec<ToolName> =
        list("allow").iter().map(|entry| ToolName::normalize(&entry.text)).collect();
    let kept = NOT_INVOKED.iter().filter(|name| !lifted.iter().any(|tool| tool.as_str() == **name));
    let key = "gateway.tools.allow";
    let mut deny = Written::built_in(&kept.copied().collect::<Vec<_>>(), key);
    deny.extend(list("deny"));
    let remedy = Remedy::AddTool { key: key.to_owned() };
    PolicyLayer::new(LayerKind::DirectInvoke, &[], &deny).with_remedy(remedy)
}
