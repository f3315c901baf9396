//! `exec` rows: the call that starts one command. The engine that runs it is imagined: it prints
//! nothing and succeeds.

use clawpen_engine::host_files::RealFiles;
use clawpen_rules::config::sandbox::WorkspaceAccess;
use clawpen_rules::container::exec::{
    ElevatedRefused, Elevation, ExecHost, ExecPlace, ExecRequest, ExecSpec,
};
use clawpen_rules::elevated::{GateFailure, GateScope};
use clawpen_rules::environment::Filter;
use clawpen_rules::workspace::{Directories, Layout};
use serde_json::{Value, json};

use super::{any_name, pairs, replace};
use crate::replay::Answer;
use crate::replay::world::World;

pub(super) fn answer(input: &Value, world: &World) -> Answer {
    let tool = &input["tool"];
    let text = |value: &'static str| input[value].as_str().unwrap_or_default();
    let Some(elevation) = elevation(input) else { return Answer::NotYet };
    let request = ExecRequest {
        command: tool["command"].as_str().unwrap_or_default(),
        workdir: tool["workdir"].as_str(),
        env: pairs(&tool["env"]),
        host: tool["host"].as_str().and_then(host),
        elevation,
    };
    let directories = Directories {
        sandbox: String::new(),
        agent: text("workspaceDir").to_owned(),
        workdir: text("containerWorkdir").to_owned(),
    };
    let layout = Layout::plan(WorkspaceAccess::ReadWrite, &directories);
    let filter = Filter::except_credentials();
    let place = ExecPlace {
        layout: &layout,
        env: pairs(&input["sandboxEnv"]),
        filter: &filter,
        path: world.get("HOST_PATH"),
        path_prepend: input["pathPrepend"]
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(Value::as_str)
            .collect(),
    };
    Answer::Given(match ExecSpec::plan(&request, &place, &RealFiles) {
        Err(refused) => json!({ "error": refused.to_string(), "calls": [] }),
        Ok(spec) => {
            let note = spec.workdir().fallback().map(|fallback| format!("{fallback}\n\n"));
            let name = any_name();
            let mut call = spec.docker_args(&name);
            replace(&mut call, name.as_str(), text("containerName"));
            json!({
                "calls": [call],
                "status": "completed",
                "text": note.unwrap_or_default() + "(no output)",
            })
        }
    })
}

fn host(text: &str) -> Option<ExecHost> {
    [ExecHost::Sandbox, ExecHost::Gateway, ExecHost::Node]
        .into_iter()
        .find(|host| host.to_string() == text)
}

/// `None` if the command would really leave the sandbox: there is no host to run it on here.
fn elevation(input: &Value) -> Option<Elevation<'_>> {
    let gates = &input["elevated"];
    let is = |gate: &str| gates[gate].as_bool() == Some(true);
    let open = is("enabled") && is("allowed");
    let level = gates["defaultLevel"].as_str().filter(|_| open).unwrap_or("off");
    match input["tool"]["elevated"].as_bool() {
        Some(false) => Some(Elevation::NotAsked),
        None if level == "off" => Some(Elevation::NotAsked),
        Some(true) if !open => {
            let gate = if is("enabled") {
                GateFailure::AllowFrom(GateScope::Global, "<provider>".to_owned())
            } else {
                GateFailure::Enabled(GateScope::Global)
            };
            // The recorded tool belonged to this session.
            let session = Some(input["sessionKey"].as_str().unwrap_or("agent:main:main"));
            let provider = input["messageProvider"].as_str();
            Some(Elevation::Shut(ElevatedRefused { gate, provider, session }))
        }
        Some(true) | None => None,
    }
}
