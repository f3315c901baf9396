//! Answers the `validate` rows: the checks before a container is made.

use clawpen_engine::host_files::RealFiles;
use clawpen_rules::mounts::{
    self, BindDecision, BindPolicy, Blocklist, Isolation, KnownPlaces, NamespaceJoin,
    ReservedTargets, Roots, Sources, Targets,
};
use serde_json::{Value, json};

use crate::replay::world::World;
use crate::replay::{Answer, Row};

pub(super) fn answer(row: &Row, world: &World) -> Answer {
    let cfg = &row.input["cfg"];
    let refusal = match refused_bind(cfg, world) {
        Some(refusal) => Some(refusal),
        None => mounts::decide_isolation(&isolation(cfg)).err().map(|refusal| refusal.to_string()),
    };
    Answer::Given(match refusal {
        None => json!({ "ok": true }),
        Some(refusal) => json!({ "error": refusal }),
    })
}

fn refused_bind(cfg: &Value, world: &World) -> Option<String> {
    let binds = strings(&cfg["binds"]);
    let policy = BindPolicy {
        sources: sources(cfg),
        targets: match cfg["allowReservedContainerTargets"].as_bool() {
            Some(true) => Targets::Anywhere,
            Some(false) | None => Targets::NotOver(ReservedTargets::new("/workspace")),
        },
        blocklist: Blocklist::resolve(&known_places(&binds, world), &RealFiles),
    };
    binds.iter().find_map(|bind| match mounts::decide(bind, &policy, &RealFiles) {
        BindDecision::Refuse(refusal) => Some(refusal.to_string()),
        BindDecision::Allow(_) | BindDecision::Blank => None,
    })
}

/// The throw-away home counts only in rows that name a place of the throw-away world: that world
/// lies in the machine's temporary directory, and a row that binds `/tmp` is not about our homes.
fn known_places(binds: &[&str], world: &World) -> KnownPlaces {
    let is_about_world = binds.iter().any(|bind| bind.contains(world.get("BASE")));
    let homes = is_about_world.then(|| world.get("HOME").to_owned());
    KnownPlaces { homes: homes.into_iter().collect(), ..KnownPlaces::default() }
}

fn sources(cfg: &Value) -> Sources {
    let outside = cfg["allowSourcesOutsideAllowedRoots"].as_bool() == Some(true);
    if outside || cfg["allowedSourceRoots"].is_null() {
        return Sources::Anywhere;
    }
    Sources::Below(Roots::resolve(&strings(&cfg["allowedSourceRoots"]), &RealFiles))
}

fn isolation(cfg: &Value) -> Isolation<'_> {
    Isolation {
        network: cfg["network"].as_str(),
        join: match cfg["dangerouslyAllowContainerNamespaceJoin"].as_bool() {
            Some(true) => NamespaceJoin::Allowed,
            Some(false) | None => NamespaceJoin::Refused,
        },
        seccomp_profile: cfg["seccompProfile"].as_str(),
        apparmor_profile: cfg["apparmorProfile"].as_str(),
    }
}

fn strings(value: &Value) -> Vec<&str> {
    value.as_array().into_iter().flatten().filter_map(Value::as_str).collect()
}
