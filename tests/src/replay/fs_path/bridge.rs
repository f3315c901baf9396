//! Answers `bridge` rows: a real pen with the row's mounts, and the engine's file bridge into it.
//!
//! The recording had a container. What a file call does is the supervisor's business, which is the
//! same in every sandbox, so a native pen will do; what changed on the host is looked up before and
//! after.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use anyhow::{Context as _, Result, bail};
use clawpen_engine::backend::{Engines, NativePlan, Place, Plan};
use clawpen_engine::fs_bridge::{Bridge, BridgeError, IfMissing};
use clawpen_engine::host_files::RealFiles;
use clawpen_rules::config::Config;
use clawpen_rules::config::json5;
use clawpen_rules::config::own::NativeSettings;
use clawpen_rules::config::sandbox::{SandboxConfig, Scope, WorkspaceAccess};
use clawpen_rules::config::tree::FileId;
use clawpen_rules::container::{ContainerSpec, Identity};
use clawpen_rules::environment::Filter;
use clawpen_rules::mounts::{BindPolicy, KnownPlaces};
use clawpen_rules::native::{self, NativePen, Offer};
use clawpen_rules::scope::ScopeKey;
use clawpen_rules::session::Session;
use clawpen_rules::workspace::{Directories, Layout};
use clawpen_wire::pen::Lifetime;
use clawpen_wire::supervisor::{Depth, FileKind, Parents};
use serde_json::{Map, Value, json};

use super::text;
use crate::replay::world::World;

const MOST: u64 = 1024 * 1024;

pub(super) fn answer(input: &Value, world: &World) -> Result<Value> {
    let table = super::table(input)?;
    let state = world.get("STATE_DIR");
    let pen = pen(input, state)?;
    let name = format!("bridge-{}", std::process::id());
    let plan = Plan::Native(Box::new(NativePlan { pen, require: Vec::new() }));
    let place = Place { name: &name, state_dir: state, about: "" };
    let mut pen =
        Engines::default().start(&plan, place, Lifetime::UntilDisconnect, &mut |_| Ok(()))?;
    let base = Path::new(world.get("BASE"));
    let before = look(base)?;
    let mut bridge = Bridge {
        table: &table,
        home: world.get("HOME"),
        working_directory: None,
        files: &RealFiles,
        channel: pen.channel()?,
    };
    let answer = call(&mut bridge, input)?;
    let after = look(base)?;
    let mut answer = match answer {
        Ok(answer) => answer,
        Err(error) => json!({ "error": format!("{:#}", anyhow::Error::new(error)) }),
    };
    answer["hostChanges"] = Value::Object(changes(&before, &after));
    Ok(answer)
}

fn call(bridge: &mut Bridge<'_, RealFiles>, input: &Value) -> Result<Result<Value, BridgeError>> {
    let args = &input["args"];
    let path = text(args, "filePath");
    let is = |key: &str, default: bool| args[key].as_bool().unwrap_or(default);
    let ok = |()| json!({ "ok": true });
    Ok(match text(input, "op") {
        "stat" => bridge.stat(path).map(|found| match found {
            None => json!({ "missing": true }),
            Some(found) => match found.kind {
                FileKind::File => json!({ "type": "file", "size": found.size }),
                // How large a directory is differs from one file system to the next.
                FileKind::Directory => json!({ "type": "directory" }),
                FileKind::Link | FileKind::Other => json!({ "type": "other" }),
            },
        }),
        "readFile" => bridge
            .read(path, MOST)
            .map(|bytes| json!({ "content": String::from_utf8_lossy(&bytes) })),
        "writeFile" => {
            let parents = if is("mkdir", true) { Parents::Make } else { Parents::Required };
            bridge.write(path, text(args, "data").as_bytes(), parents).map(ok)
        }
        "mkdirp" => bridge.make_directory(path).map(ok),
        "remove" => {
            let depth = if is("recursive", false) { Depth::Tree } else { Depth::One };
            let missing = if is("force", true) { IfMissing::Fine } else { IfMissing::Fail };
            bridge.remove(path, depth, missing).map(ok)
        }
        "rename" => bridge.rename(text(args, "from"), text(args, "to")).map(ok),
        other => bail!("unknown operation `{other}`"),
    })
}

/// The pen that the row describes.
fn pen(input: &Value, state: &str) -> Result<NativePen> {
    let sandbox = &input["sandbox"];
    let access = WorkspaceAccess::parse(text(sandbox, "workspaceAccess")).context("access")?;
    let workspace = text(sandbox, "workspaceDir").to_owned();
    let mut binds: Vec<Value> = sandbox["binds"].as_array().cloned().unwrap_or_default();
    let agent = match access {
        WorkspaceAccess::None | WorkspaceAccess::ReadOnly => text(sandbox, "agentWorkspaceDir"),
        WorkspaceAccess::ReadWrite => {
            let agent = text(sandbox, "agentWorkspaceDir");
            if agent != workspace && !agent.is_empty() {
                binds.push(format!("{agent}:/agent").into());
            }
            workspace.as_str()
        }
    };
    let workdir = text(sandbox, "containerWorkdir");
    let docker = json!({
        "workdir": workdir,
        "binds": binds,
        "dangerouslyAllowExternalBindSources": true,
        "dangerouslyAllowReservedContainerTargets": true,
    });
    let config = json!({"agents": {"defaults": {"sandbox": {"docker": docker}}}}).to_string();
    let parsed = json5::parse(&config, FileId(0)).map_err(|why| anyhow::anyhow!("{why:?}"))?;
    let config = Config::from_tree(parsed.root, Vec::new());
    let docker = SandboxConfig::resolve(&config, None, state)?.docker;
    let directories = Directories {
        sandbox: workspace.clone(),
        agent: agent.to_owned(),
        workdir: docker.workdir.value.clone(),
    };
    let layout = Layout::plan(access, &directories);
    let scope = ScopeKey::new(Scope::Shared, &Session::resolve(&config, ""));
    let name = scope.container_name(Scope::Shared, "bridge-");
    let identity = Identity { name, scope, created_at_ms: 1, fingerprint: None };
    let policy =
        BindPolicy::resolve(&docker, &layout.bind_roots(), &KnownPlaces::default(), &RealFiles);
    let spec = ContainerSpec::locked_down(identity, &layout, docker.image.clone())
        .configured(&docker, &Filter::except_credentials())
        .build(&policy, &RealFiles)?;
    native::decide(&spec, &docker, &NativeSettings::default(), Offer::default())
        .map_err(|refused| anyhow::anyhow!("{refused:?}"))
}

/// Every file below a directory: contents, `dir`, or where a link points.
fn look(base: &Path) -> Result<BTreeMap<String, String>> {
    let mut found = BTreeMap::new();
    let mut left = vec![base.to_owned()];
    while let Some(directory) = left.pop() {
        for entry in fs::read_dir(&directory)? {
            let path = entry?.path();
            let name = path.to_str().context("a path of a row is text")?.to_owned();
            let kind = fs::symlink_metadata(&path)?.file_type();
            if kind.is_dir() {
                // Our own state is no business of the row.
                if !name.ends_with("/home") {
                    left.push(path);
                    found.insert(format!("{name}/"), "dir".to_owned());
                }
            } else if kind.is_symlink() {
                found.insert(name, format!("-> {}", fs::read_link(&path)?.display()));
            } else {
                found.insert(name, String::from_utf8_lossy(&fs::read(&path)?).into_owned());
            }
        }
    }
    Ok(found)
}

fn changes(
    before: &BTreeMap<String, String>,
    after: &BTreeMap<String, String>,
) -> Map<String, Value> {
    let mut changes = Map::new();
    for (path, contents) in after {
        if before.get(path) != Some(contents) {
            changes.insert(path.clone(), contents.clone().into());
        }
    }
    let gone = before.keys().filter(|path| !after.contains_key(*path));
    changes.extend(gone.map(|path| (path.clone(), Value::Null)));
    changes
}
