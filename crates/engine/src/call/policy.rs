//! Which tools a session has, and what is said about one that it has not.

use clawpen_rules::config::setting::{Layer, Origin};
use clawpen_rules::explain::Configs;
use clawpen_rules::session::Placement;
use clawpen_rules::tool_policy::{
    self, Block, BlockReason, Layers, SandboxRefusal, Tool, Verdict, catalogue, sandbox_refusal,
};
use clawpen_rules::tools::BuiltTool;
use clawpen_rules::web::limits;

use super::Prepared;
use super::failure::ToolCallError;
use crate::config_store::Store;

/// The layers that the tools of a session are under. Whoever calls tools acts in the sandbox, so its policy holds even
/// where the mode does not ask for a sandbox.
pub(super) fn layers(store: &Store, prepared: &Prepared) -> Layers {
    match prepared.explanation.placement {
        Placement::Sandboxed(_) => prepared.explanation.layers.clone(),
        Placement::Direct(_) => {
            let configs = Configs { config: &store.loaded.config, own: &store.loaded.own };
            prepared.explanation.layers_inside(configs)
        }
    }
}

/// The tools that are offered.
pub(super) fn offered(layers: &Layers, store: &Store) -> Vec<BuiltTool> {
    let open = BuiltTool::all().filter(|tool| is_open(layers, *tool));
    open.filter(|tool| is_enabled(*tool, store)).collect()
}

/// Whether the config has the tool at all; a switch of its own, apart from the policy.
fn is_enabled(tool: BuiltTool, store: &Store) -> bool {
    match tool {
        BuiltTool::WebFetch => limits::is_enabled(&store.loaded.config),
        BuiltTool::File(_) | BuiltTool::Exec | BuiltTool::Process => true,
    }
}

pub(super) fn is_open(layers: &Layers, tool: BuiltTool) -> bool {
    tool_policy::decide(layers, &Tool::core(tool.as_str())).is_allowed()
}

/// The tool of this name, if the session may call it.
pub(super) fn admit(
    name: &str,
    layers: &Layers,
    (store, prepared): (&Store, &Prepared),
) -> Result<BuiltTool, ToolCallError> {
    let tool = Tool::core(name);
    // No change of the policy would bring one that is not there.
    let built = BuiltTool::parse(tool.name().as_str());
    let built = built.ok_or_else(|| ToolCallError::NoTool(absent(&tool)))?;
    ask(name, layers, (store, prepared))?;
    if !is_enabled(built, store) {
        let name = built.as_str();
        let text = format!(
            "the tool `{name}` is switched off\nRule: `tools.web.fetch.enabled` is not true\nSmallest change: \
             `tools.web.fetch.enabled`: true"
        );
        return Err(ToolCallError::Closed(text));
    }
    Ok(built)
}

/// Whether the policy opens a tool of this name to the session; whoever asks has the tool.
pub(super) fn ask(
    name: &str,
    layers: &Layers,
    (store, prepared): (&Store, &Prepared),
) -> Result<(), ToolCallError> {
    let tool = Tool::core(name);
    let block = match tool_policy::decide(layers, &tool) {
        Verdict::Allowed(_) => return Ok(()),
        Verdict::Blocked(block) => block,
    };
    let explanation = &prepared.explanation;
    // Its advice speaks of the mode, which is not what put a session of mode `off` in here.
    let by_sandbox = match explanation.placement {
        Placement::Direct(_) => None,
        Placement::Sandboxed(_) => sandbox_refusal(
            &explanation.policy,
            SandboxRefusal {
                asked: name,
                mode: explanation.sandbox.mode.value,
                session_key: explanation.session.key().map_or("", |key| key.as_str()),
                agent: explanation.session.agent(),
            },
        ),
    };
    let mut text = closed(&tool, &block, (layers, store));
    if let Some(more) = by_sandbox {
        text.push('\n');
        text.push_str(&more);
    }
    Err(ToolCallError::Closed(text))
}

/// What is said about a tool that a rule closes: rule, place and the smallest change.
pub(super) fn closed(tool: &Tool, block: &Block<'_>, (layers, store): (&Layers, &Store)) -> String {
    let origin = match block.reason {
        BlockReason::Denied(entry) | BlockReason::DeniedWithPartner(entry) => &entry.origin,
        BlockReason::NotListed(origin) => origin,
    };
    let changes: Vec<String> =
        tool_policy::smallest_change(layers, tool).iter().map(ToString::to_string).collect();
    let mut text = format!(
        "the tool `{}` is closed to this session\nRule: {block}\nWritten: {}",
        tool.name(),
        place(origin, store)
    );
    if !changes.is_empty() {
        text.push_str("\nSmallest change: ");
        text.push_str(&changes.join(", then "));
    }
    text
}

fn absent(tool: &Tool) -> String {
    let name = clawpen_rules::command::escape(tool.name().as_str());
    match catalogue::find(tool.name().as_str()) {
        // The reference has it only where a model that sees images is configured; no model is called here.
        Some(_) if name == "image" => format!(
            "the tool `{name}` is not offered: it asks a model that sees images, and this door has none; `read` shows \
             image files"
        ),
        Some(_) => format!("the tool `{name}` is not offered: this build has none for this door"),
        None => format!("there is no tool `{name}`"),
    }
}

/// Where a rule is written: key, file, line and column.
fn place(origin: &Origin, store: &Store) -> String {
    match (origin.layer, origin.place) {
        (Layer::BuiltIn, _) => format!("`{}`, built in", origin.key),
        (Layer::Derived | Layer::Defaults | Layer::Agent, None) => format!("`{}`", origin.key),
        (Layer::Derived | Layer::Defaults | Layer::Agent, Some(at)) => {
            let file = store.file(at.file).unwrap_or("the config");
            format!("`{}` in {file}:{}:{}", origin.key, at.line, at.column)
        }
    }
}
