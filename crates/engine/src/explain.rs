//! Answers `explain` and `why`: looks up the facts, asks the rules, shapes the answer.
//!
//! No engine, daemon or sandbox is touched: everything is read from files.

use std::os::unix::fs::MetadataExt as _;
use std::time::{SystemTime, UNIX_EPOCH};

use clawpen_rules::approval::environment::EnvironmentRefused;
use clawpen_rules::backend::Backend;
use clawpen_rules::browser::BrowserDecision;
use clawpen_rules::config::locate::shorten_home;
use clawpen_rules::config::sandbox::{Owner, WorkspaceAccess};
use clawpen_rules::config::setting::{Layer, Origin, Setting};
use clawpen_rules::explain::{self, Configs, ExplainError, Explanation, Facts, origins};
use clawpen_rules::ids::AgentId;
use clawpen_rules::mounts::Access;
use clawpen_rules::session::{self, AgentMismatch, ExplainFlags, Session};
use clawpen_rules::tool_policy::{self, AllowReason, Layers, ToolPlacement, Verdict};
use clawpen_rules::workspace::persistence::{self, Kept};
use clawpen_rules::workspace::seeds::Standing;
use clawpen_wire::explain as wire;

use crate::config_store::Store;
use crate::error_text::chain;
use crate::exec_question;
use crate::host_files::OneLook;
use crate::known_places;
use crate::session_store;
use crate::workspaces::{self, Wanted, Workspaces};

/// Where the reference's documentation of all this is.
const DOCS_URL: &str = "https://docs.openclaw.ai/sandbox";

/// Whom a question is about, and which channels are taken as registered.
#[derive(Debug, Clone, Copy, Default)]
pub struct Question<'a> {
    pub agent: Option<&'a str>,
    pub session: Option<&'a str>,
    pub channels: &'a [String],
}

/// A question that could not be answered.
#[derive(Debug, thiserror::Error)]
pub enum QuestionError {
    #[error(transparent)]
    Mismatch(#[from] AgentMismatch),
    #[error(transparent)]
    Explain(#[from] ExplainError),
    /// A call wants to set a variable that no call may set on the host.
    #[error(transparent)]
    Environment(#[from] EnvironmentRefused),
}

/// Explains a session under the config of `store`.
pub fn explain(store: &Store, question: &Question<'_>) -> Result<Explanation, QuestionError> {
    let config = &store.loaded.config;
    let configs = Configs { config, own: &store.loaded.own };
    let flags = ExplainFlags { agent: question.agent, session: question.session };
    let session = session::resolve_for_explain(config, flags)?;
    let facts = facts(store, configs, &session, question.channels)?;
    Ok(explain::explain(configs, session, &facts, &OneLook::default())?)
}

fn facts(
    store: &Store,
    configs: Configs<'_>,
    session: &Session,
    channels: &[String],
) -> Result<Facts, ExplainError> {
    let locations = &store.locations;
    let agent_workspace = locations.agent_workspace(configs.config, session.agent());
    let workspace = &agent_workspace.value;
    let layout = explain::layout(configs, session, &locations.state_dir, workspace)?;
    let record = locations.session_store(configs.config, session.agent());
    let recorded = session
        .key()
        .map(|key| session_store::channels(std::path::Path::new(&record), key))
        .unwrap_or_default();
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Ok(Facts {
        state_dir: locations.state_dir.clone(),
        owner: owner(layout.mounted()),
        agent_workspace,
        known_places: known_places::look_up(store),
        host_skills: workspaces::host_skills(store, &layout),
        recorded_channel: recorded.into_iter().next(),
        channels: channels.to_vec(),
        now_ms: u64::try_from(now.as_millis()).unwrap_or(u64::MAX),
    })
}

/// The owner of a directory; of a missing one, whoever would make it: this process.
pub(crate) fn owner(directory: &str) -> Option<Owner> {
    let facts =
        std::fs::metadata(directory).or_else(|_missing| std::fs::metadata("/proc/self")).ok()?;
    Some(Owner { uid: facts.uid(), gid: facts.gid() })
}

/// The answer in the shape that leaves us. `warnings` are the config's.
pub fn to_wire(explanation: &Explanation, store: &Store, warnings: Vec<String>) -> wire::Explain {
    let Explanation {
        session,
        sandbox,
        placement: _,
        policy,
        layers: _,
        elevated,
        runtime: _,
        unenforced: _,
        ignored: _,
    } = explanation;
    let words = |list: Vec<&str>| list.into_iter().map(str::to_owned).collect();
    let source = |source: &tool_policy::ListSource| wire::Source {
        source: source.scope.as_str().to_owned(),
        key: source.key.to_owned(),
    };
    wire::Explain {
        docs_url: DOCS_URL.to_owned(),
        agent_id: session.agent().to_string(),
        session_key: session.key().map(ToString::to_string).unwrap_or_default(),
        main_session_key: session.main_key().to_string(),
        sandbox: wire::Sandbox {
            mode: sandbox.mode.value.as_str().to_owned(),
            scope: sandbox.scope.value.as_str().to_owned(),
            per_session: sandbox.scope.value.as_str() == "session",
            workspace_access: sandbox.workspace_access.value.as_str().to_owned(),
            workspace_root: sandbox.workspace_root.value.clone(),
            session_is_sandboxed: explanation.is_sandboxed(),
            tools: wire::Tools {
                allow: words(policy.allow_names()),
                deny: words(policy.deny_names()),
                sources: wire::Sources {
                    allow: source(&policy.allow_source),
                    deny: source(&policy.deny_source),
                },
            },
        },
        elevated: wire::Elevated {
            enabled: elevated.enabled,
            channel: elevated.channel.as_ref().map(|channel| channel.as_str().to_owned()),
            allowed_by_config: elevated.allowed_by_config,
            always_allowed_by_config: elevated.always_allowed_by_config,
            allow_from: wire::AllowFrom {
                global: elevated.allow_from_global.clone(),
                agent: elevated.allow_from_agent.clone(),
            },
            failures: elevated
                .failures
                .iter()
                .map(|failure| wire::Failure {
                    gate: failure.gate().to_owned(),
                    key: failure.key(),
                })
                .collect(),
        },
        fix_it: fix_it(explanation),
        clawpen: own_findings(explanation, store, warnings),
    }
}

/// What the tool policies of every configured agent hold that its author should know.
pub fn policy_warnings(store: &Store) -> Vec<String> {
    let config = &store.loaded.config;
    let mut agents: Vec<AgentId> = config.agents().into_iter().map(|(id, _)| id).collect();
    if agents.is_empty() {
        agents.push(AgentId::main());
    }
    let mut warnings = Vec::new();
    for agent in agents {
        let access = Setting::new(WorkspaceAccess::None, Origin::derived(""));
        let session = tool_policy::Session {
            placement: ToolPlacement::Sandbox { access },
            ..tool_policy::Session::host(agent)
        };
        for warning in Layers::resolve(config, &session).warnings() {
            let text = warning.to_string();
            if !warnings.contains(&text) {
                warnings.push(text);
            }
        }
    }
    warnings
}

/// Why the session's sandbox would not be started, each with the place of the value to change.
pub fn refusals(explanation: &Explanation, store: &Store) -> Vec<String> {
    let refusals = explanation.refusals().into_iter();
    refusals
        .map(|(refused, origin)| {
            let text = refused.to_string();
            let Some(origin) = origin else { return text };
            let place = origin.place.map(|place| {
                let file = store.file(place.file).unwrap_or_default();
                let file = shorten_home(file, &store.locations.home);
                format!("{file}:{}:{}", place.line, place.column)
            });
            let is_named = text.contains(&origin.key);
            match (place, is_named) {
                (Some(place), true) => format!("{text} (at {place})"),
                (Some(place), false) => format!("{text} (set by `{}` at {place})", origin.key),
                (None, true) => text,
                (None, false) => format!("{text} (`{}` changes it)", origin.key),
            }
        })
        .collect()
}

/// The keys that change what is shown, in the reference's order.
fn fix_it(explanation: &Explanation) -> Vec<String> {
    let mut keys: Vec<String> = Vec::new();
    if explanation.sandbox.mode.value.as_str() != "off" {
        keys.extend(
            ["agents.defaults.sandbox.mode=off", "agents.list[].sandbox.mode=off"]
                .map(str::to_owned),
        );
    }
    for section in ["tools.sandbox.tools", "agents.list[].tools.sandbox.tools"] {
        keys.extend(["allow", "alsoAllow", "deny"].map(|list| format!("{section}.{list}")));
    }
    keys.push("tools.elevated.enabled".to_owned());
    let channel = explanation.elevated.channel.as_ref();
    keys.extend(channel.map(|channel| format!("tools.elevated.allowFrom.{}", channel.as_str())));
    keys
}

/// What becomes of a browser that the config enables. A key that does less than it says must say so.
fn browser(explanation: &Explanation) -> Option<String> {
    match explanation.browser() {
        BrowserDecision::NotEnabled(_) => None,
        BrowserDecision::ToolDenied => {
            Some("enabled, and not started: the sandbox's tool policy closes `browser`".to_owned())
        }
        BrowserDecision::Start => match &explanation.runtime.browser {
            Some(Ok(spec)) => Some(format!(
                "`clawpen sandbox browser` starts {} and opens a bridge to it; agents have no tool `browser` in \
                 this build",
                spec.container().identity().name.as_str()
            )),
            Some(Err(_)) | None => Some("enabled, and refused at start".to_owned()),
        },
    }
}

fn own_findings(
    explanation: &Explanation,
    store: &Store,
    mut warnings: Vec<String>,
) -> wire::Clawpen {
    warnings.extend(explanation.layers.warnings().iter().map(ToString::to_string));
    warnings.extend(exec_question::placement_notes(store, explanation));
    let ignored = explanation.ignored.iter();
    warnings.extend(ignored.map(|origin| {
        format!(
            "`{}` has no effect: the sandbox is shared, so only the defaults shape it",
            origin.key
        )
    }));
    match &explanation.runtime.spec {
        // What the container opens is of no concern while the session runs on the host.
        Ok(_) if !explanation.is_sandboxed() => {}
        Ok(spec) => {
            // An unknown backend stands among the refusals.
            let backend = Backend::parse(&explanation.sandbox.backend.value);
            let doors = backend.map(|backend| spec.open_doors(backend)).unwrap_or_default();
            warnings.extend(doors.iter().map(ToString::to_string));
            let kept_out = spec.kept_out().iter();
            warnings.extend(
                kept_out.map(|(name, reason)| format!("variable `{name}` stays outside: {reason}")),
            );
            let remarks = spec.env_remarks().iter();
            warnings.extend(remarks.map(|(name, remark)| format!("variable `{name}`: {remark}")));
        }
        // It stands among the refusals.
        Err(_) => {}
    }
    let origins = origins::lines(&explanation.sandbox).into_iter().map(|line| {
        let origin = origin(&line.origin, line.value, store);
        (line.key, origin)
    });
    let tools = tool_policy::decide_all(&explanation.layers)
        .map(|(tool, verdict)| (tool.name().to_string(), tool_verdict(&verdict)));
    let workspace =
        explanation.is_sandboxed().then(|| workspace(explanation, store, &mut warnings));
    wire::Clawpen {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        config_files: store.loaded.config.files().to_vec(),
        state_dir: store.locations.state_dir.clone(),
        backend: explanation.sandbox.backend.value.clone(),
        placement: explanation.placement.to_string(),
        runtime: explanation.is_sandboxed().then(|| runtime(explanation)),
        workspace,
        browser: browser(explanation),
        refusals: refusals(explanation, store),
        warnings,
        origins: origins.collect(),
        tools: tools.collect(),
    }
}

fn runtime(explanation: &Explanation) -> wire::Runtime {
    let runtime = &explanation.runtime;
    let is_own = runtime.layout.mounted() == runtime.layout.agent();
    let mounts = explanation.mount_table();
    wire::Runtime {
        scope_key: runtime.scope_key.as_str().to_owned(),
        name: runtime.name.as_str().to_owned(),
        workdir: runtime.layout.workdir().to_owned(),
        config_hash: runtime.fingerprint.as_str().to_owned(),
        workspace_source: if is_own { "agent" } else { "sandbox" }.to_owned(),
        workspace_dir: runtime.layout.mounted().to_owned(),
        mounts: mounts
            .mounts()
            .iter()
            .map(|mount| wire::Mount {
                host_root: mount.host_root.clone(),
                container_root: mount.container_root.clone(),
                writable: mount.access == Access::ReadWrite,
                source: mount.source.as_str().to_owned(),
            })
            .collect(),
    }
}

/// What is kept where. Looks at the files, and changes none.
fn workspace(
    explanation: &Explanation,
    store: &Store,
    warnings: &mut Vec<String>,
) -> wire::Workspace {
    let layout = &explanation.runtime.layout;
    let wanted = Wanted::of(explanation, store);
    let compared = Workspaces::new(&store.locations.state_dir).compare(&wanted);
    let compared = compared.unwrap_or_else(|error| {
        warnings.push(format!("the seeded files cannot be compared: {}", chain(&error)));
        Vec::new()
    });
    let seeds = compared.iter().filter(|file| file.standing != Standing::Absent);
    let seeds = seeds.map(|file| wire::Seed {
        name: file.name.to_owned(),
        standing: file.standing.as_str().to_owned(),
        meaning: file.standing.to_string(),
    });
    let places = persistence::places(layout, explanation.sandbox.scope.value).into_iter();
    let policy = store.loaded.own.resolve(explanation.session.agent()).workspaces;
    wire::Workspace {
        seeds: seeds.collect(),
        change_to_originals: persistence::admins_change(layout),
        persists: places
            .map(|Kept { at, host, lasts }| wire::Persists {
                at,
                host,
                lasts: lasts.as_str().to_owned(),
                meaning: lasts.explained().to_owned(),
            })
            .collect(),
        removed: wire::Removal {
            removed: policy.removed.value.as_str().to_owned(),
            after_days: policy.after_days.value,
            trash_days: policy.trash_days.value,
        },
    }
}

/// An origin in the shape that leaves us.
pub fn origin(origin: &Origin, value: String, store: &Store) -> wire::Origin {
    let layer = match origin.layer {
        Layer::BuiltIn => "built-in",
        Layer::Defaults => "defaults",
        Layer::Agent => "agent",
        Layer::Derived => "derived",
    };
    wire::Origin {
        value,
        layer: layer.to_owned(),
        key: origin.key.clone(),
        file: origin.place.and_then(|place| store.file(place.file).map(str::to_owned)),
        line: origin.place.map(|place| place.line),
        column: origin.place.map(|place| place.column),
    }
}

/// A verdict in the shape that leaves us.
pub fn tool_verdict(verdict: &Verdict<'_>) -> wire::ToolVerdict {
    match verdict {
        Verdict::Allowed(AllowReason::NoAllowList) => wire::ToolVerdict {
            allowed: true,
            layer: "none".to_owned(),
            reason: "no list denies it and no layer has an allow list".to_owned(),
        },
        Verdict::Allowed(AllowReason::Listed { layer, entry }) => wire::ToolVerdict {
            allowed: true,
            layer: layer.label(),
            reason: format!("allowed by `{}` in `{}`", entry.text, entry.origin.key),
        },
        Verdict::Blocked(block) => wire::ToolVerdict {
            allowed: false,
            layer: block.layer.label(),
            reason: block.to_string(),
        },
    }
}
