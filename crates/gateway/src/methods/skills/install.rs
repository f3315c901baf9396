//! `skills.install`: what a skill needs is installed on this machine, as its `SKILL.md` says and the rules let it.

use std::time::Duration;

use clawpen_engine::config_file::Sound;
use clawpen_engine::skill_install::{self, InstallError, Installed};
use clawpen_rules::workspace::install::{
    self as rule, HasBrew, Kind, MAX_SPECS, Preferences, Spec,
};
use clawpen_rules::workspace::skills::SKILL_FILE;
use clawpen_wire::gateway::ErrorShape;
use serde_json::{Value, json};

use super::{front_matter, has_program, metadata, skills};
use crate::approvals::with_broker;
use crate::methods::text;
use crate::shared::{Shared, unavailable};

const TIME: u64 = 300_000;
const MOST_TIME: u64 = 900_000;

/// The ways that a page offers.
pub(super) fn ways(shared: &Shared, sound: &Sound, about: &Value) -> Value {
    let specs = specs(about);
    let preferences = Preferences::of(&sound.store.loaded.config);
    let has_brew = if has_program(shared, "brew") { HasBrew::Yes } else { HasBrew::No };
    let offered = rule::offered(&specs, preferences, has_brew);
    let shown = offered.into_iter().map(|spec| {
        json!({
            "id": spec.id,
            "kind": spec.kind.as_str(),
            "label": spec.label(preferences),
            "bins": spec.bins,
        })
    });
    shown.collect()
}

/// What the metadata of a skill says about installing it. What names no installer is left out.
fn specs(about: &Value) -> Vec<Spec> {
    let listed = about["install"].as_array().into_iter().flatten().take(MAX_SPECS).enumerate();
    let words = |value: &Value| -> Vec<String> {
        let all = value.as_array().into_iter().flatten().filter_map(Value::as_str);
        all.map(str::to_owned).collect()
    };
    let read = |(index, one): (usize, &Value)| {
        let kind = Kind::parse(one["kind"].as_str().or_else(|| one["type"].as_str())?.trim())?;
        let text = |key: &str| one[key].as_str().map(str::trim).filter(|text| !text.is_empty());
        let id = text("id").map_or_else(|| format!("{}-{index}", kind.as_str()), str::to_owned);
        Some(Spec {
            id,
            kind,
            label: text("label").map(str::to_owned),
            bins: words(&one["bins"]),
            systems: words(&one["os"]),
            subject: text(kind.subject_key())?.to_owned(),
        })
    };
    listed.filter_map(read).collect()
}

pub(crate) fn install(shared: &Shared, params: &Value) -> Result<Value, ErrorShape> {
    let sound = shared.sound()?;
    let (name, id) = (text(params, "name"), text(params, "installId"));
    let agent = sound.store.loaded.config.default_agent();
    let skill = skills(&sound, &agent).into_iter().find(|skill| skill.name == name);
    let skill = skill.ok_or_else(|| failed(format!("Skill not found: {name}")))?;
    let specs = specs(&metadata(&front_matter(&skill.text)));
    let spec = specs.into_iter().find(|spec| spec.id == id);
    let spec = spec.ok_or_else(|| failed(format!("Installer not found: {id}")))?;
    let author = skill_install::author(&sound.store, &skill.base.join(SKILL_FILE));
    let author = author.map_err(|error| not_done(&error))?;
    let preferences = Preferences::of(&sound.store.loaded.config);
    let decided = rule::decide(&spec, &author, preferences);
    let time = params["timeoutMs"].as_u64().unwrap_or(TIME).clamp(1000, MOST_TIME);
    let time = Duration::from_millis(time);
    let done = with_broker(shared, |broker| {
        Ok(match &decided {
            Ok(install) => skill_install::run(&sound.store, broker, install, time).map(Some),
            Err(refusal) => skill_install::refuse(broker, refusal).map(|()| None),
        })
    });
    let done = done?.map_err(|error| unavailable(&error))?.map_err(|error| not_done(&error))?;
    match (done, decided) {
        (Some(done), _) => answer(&done),
        (None, Err(refusal)) => Err(failed(refusal.to_string())),
        (None, Ok(_)) => Err(failed("nothing was run".to_owned())),
    }
}

fn answer(done: &Installed) -> Result<Value, ErrorShape> {
    let message = match (done.code, done.ended) {
        (Some(0), _) => "Installed".to_owned(),
        (Some(code), _) => {
            let last = done.errors.lines().rev().find(|line| !line.trim().is_empty());
            let last: String = last.unwrap_or_default().trim().chars().take(200).collect();
            format!("Install failed (exit {code}): {last}")
        }
        (None, why) => format!("Install failed: {}", why.unwrap_or("it ended without a code")),
    };
    let body = json!({
        "ok": done.code == Some(0),
        "message": message,
        "stdout": done.output,
        "stderr": done.errors,
        "code": done.code,
    });
    if done.code == Some(0) {
        return Ok(body);
    }
    Err(ErrorShape { payload: Some(Box::new(body)), ..ErrorShape::unavailable(message) })
}

fn not_done(error: &InstallError) -> ErrorShape {
    failed(unavailable(error).message)
}

/// Nothing was run.
fn failed(message: String) -> ErrorShape {
    let body =
        json!({ "ok": false, "message": message, "stdout": "", "stderr": "", "code": Value::Null });
    ErrorShape { payload: Some(Box::new(body)), ..ErrorShape::unavailable(message) }
}
