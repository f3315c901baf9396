//! `clawpen doctor`: what this machine offers for sandboxes, what would be used, what is missing
//! and how to get it. Ends with 1 if the configured sandbox cannot be had.

use std::path::Path;

use clawpen_engine::backend::{Engines, Plan};
use clawpen_engine::call::{OpenError, Prepared};
use clawpen_engine::machine::{self, CgroupPlace, Machine, Subordinate, UserNamespaces};
use clawpen_rules::backend::Backend;
use clawpen_rules::facts::floor;
use clawpen_rules::native::ids::Helpers;
use clawpen_rules::native::{KEYS, Meaning, Support};
use serde_json::json;

use super::CommandError;
use super::exec::without_yard;
use crate::args::{DoctorArgs, Format};
use crate::exit::{self, Outcome};
use crate::output::{Output, safe};

/// One thing looked at.
struct Finding {
    what: &'static str,
    state: State,
    found: String,
    /// How to get it, or what it costs not to have it.
    advice: Option<String>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Good,
    /// Works without, with less.
    Less,
    /// No native pen without it.
    Missing,
}

impl State {
    const fn word(self) -> &'static str {
        match self {
            Self::Good => "ok",
            Self::Less => "less",
            Self::Missing => "missing",
        }
    }
}

pub(crate) fn run(args: &DoctorArgs, output: &Output) -> Result<Outcome, CommandError> {
    let machine = machine::look();
    let findings = findings(&machine);
    let attempt = attempt(args, output);
    let is_sound = attempt.is_ok();
    match args.format.format() {
        Format::Json => print_json(&machine, &findings, &attempt, output)?,
        Format::Text => print_text(&machine, &findings, &attempt, output)?,
    }
    Ok(if is_sound { Outcome::Done } else { Outcome::Code(exit::ERROR) })
}

/// What would be used.
pub(crate) struct Used {
    backend: Backend,
    name: String,
    /// How many facts hold in it.
    pub(crate) facts: usize,
}

fn attempt(args: &DoctorArgs, output: &Output) -> Result<Used, String> {
    let (_, prepared) =
        without_yard(&args.target, output).map_err(|error: CommandError| error.report())?;
    make_and_remove(prepared)
}

/// The only proof that a sandbox can be had is to have one: makes it, and removes it.
pub(crate) fn make_and_remove(prepared: Result<Prepared, OpenError>) -> Result<Used, String> {
    let told = |error: CommandError| error.report();
    let prepared = prepared.map_err(|error| told(CommandError::Open(error)))?;
    let backend = match &prepared.plan {
        Plan::Native(_) => Backend::Native,
        Plan::Docker(_) => Backend::Docker,
    };
    let engines = Engines::default();
    let sandbox = prepared.make(&engines).map_err(|error| told(CommandError::Open(error)))?;
    let used = Used { backend, name: prepared.name().to_owned(), facts: sandbox.facts().len() };
    sandbox.remove().map_err(|error| crate::config_report::chain(&error))?;
    Ok(used)
}

fn findings(machine: &Machine) -> Vec<Finding> {
    let mut found = vec![user_namespaces(machine), host_ids(machine), idmapped(machine)];
    found.extend([landlock(machine), seccomp(machine)]);
    found.extend(machine.cgroups.iter().map(limit));
    found.push(engine(machine));
    found
}

fn good(what: &'static str, found: &str) -> Finding {
    Finding { what, state: State::Good, found: found.to_owned(), advice: None }
}

fn less(what: &'static str, found: &str, advice: &str) -> Finding {
    let advice = Some(advice.to_owned());
    Finding { what, state: State::Less, found: found.to_owned(), advice }
}

fn missing(what: &'static str, found: &str, advice: &str) -> Finding {
    Finding { state: State::Missing, ..less(what, found, advice) }
}

fn user_namespaces(machine: &Machine) -> Finding {
    match &machine.user_namespaces {
        UserNamespaces::Yes => good("user namespaces", "allowed"),
        UserNamespaces::No(switch) => missing(
            "user namespaces",
            &format!("forbidden by {switch}"),
            "allow them there, or run as root; without them there are no native pens",
        ),
    }
}

fn host_ids(machine: &Machine) -> Finding {
    match (machine.subordinate, machine.helpers) {
        (Subordinate::Yes, _) if machine.uid == 0 => {
            good("host ids", "a range of unprivileged ids per pen")
        }
        (Subordinate::Yes, _) => good("host ids", "your subordinate ids, through newuidmap"),
        (Subordinate::No, Helpers::Missing) => less(
            "host ids",
            "one id: newuidmap is not installed",
            "install the package uidmap; a pen then has users besides its own",
        ),
        (Subordinate::No, Helpers::Present) => less(
            "host ids",
            "one id: none are set aside for you",
            "ask root for: usermod --add-subuids 100000-165535 --add-subgids 100000-165535 YOU",
        ),
    }
}

fn idmapped(machine: &Machine) -> Finding {
    if machine.uid == 0 {
        return good("idmapped mounts", "workspaces keep their owner");
    }
    good("idmapped mounts", "not needed: you own the workspace inside too")
}

fn landlock(machine: &Machine) -> Finding {
    match machine.landlock_abi {
        0 => less(
            "landlock",
            "not in this kernel",
            "use Linux 5.13 or newer with lsm=landlock; mounts and ids still hold",
        ),
        abi => good("landlock", &format!("ABI {abi}")),
    }
}

fn seccomp(machine: &Machine) -> Finding {
    if machine.has_seccomp {
        return good("seccomp", "filters");
    }
    missing("seccomp", "not in this kernel", "use a kernel with CONFIG_SECCOMP_FILTER")
}

fn limit(place: &CgroupPlace) -> Finding {
    let what = match place.controller {
        "memory" => "limit: memory",
        "pids" => "limit: pids",
        _ => "limit: cpu",
    };
    let at = place.directory.as_deref().map(Path::to_string_lossy);
    match (place.support, at) {
        (Support::Yes, Some(at)) => good(what, &at),
        _ if place.controller == "pids" => {
            good(what, "no cgroup of ours; the pen's user namespace keeps it")
        }
        (_, Some(at)) => less(
            what,
            &format!("{at} is not ours"),
            "have the cgroup delegated (systemd: Delegate=yes); until then a config with this limit \
             is refused",
        ),
        (_, None) => less(what, "no such controller", "a config with this limit is refused"),
    }
}

fn engine(machine: &Machine) -> Finding {
    if machine.sockets.is_empty() {
        return less("container engine", "none listens", "only needed for backend docker");
    }
    let sockets: Vec<String> =
        machine.sockets.iter().map(|path| path.display().to_string()).collect();
    good("container engine", &sockets.join(", "))
}

fn print_text(
    machine: &Machine,
    findings: &[Finding],
    attempt: &Result<Used, String>,
    output: &Output,
) -> Result<(), CommandError> {
    let who = if machine.uid == 0 { "root".to_owned() } else { format!("user {}", machine.uid) };
    let mut lines =
        vec![output.bold(&format!("This machine, Linux {}, as {who}:", safe(&machine.kernel)))];
    for finding in findings {
        lines.push(format!(
            "  {:8}{:18}{}",
            finding.state.word(),
            finding.what,
            safe(&finding.found)
        ));
        lines.extend(finding.advice.as_ref().map(|advice| format!("          -> {advice}")));
    }
    lines.push(String::new());
    match attempt {
        Ok(used) => {
            lines.push(output.bold(&format!(
                "Sandbox {} on {}: made, {} facts hold, removed.",
                safe(&used.name),
                used.backend.as_str(),
                used.facts
            )));
            let floor = floor(used.backend);
            lines.push("  The floor there:".to_owned());
            lines.extend(floor.holds.iter().map(|promise| format!("    + {promise}")));
            lines.extend(floor.not.iter().map(|promise| format!("    - not promised: {promise}")));
        }
        Err(problem) => {
            lines.push(output.bold("The configured sandbox cannot be had:"));
            lines.extend(problem.lines().map(|line| format!("  {}", safe(line))));
        }
    }
    output.lines(&lines)?;
    Ok(())
}

fn print_json(
    machine: &Machine,
    findings: &[Finding],
    attempt: &Result<Used, String>,
    output: &Output,
) -> Result<(), CommandError> {
    let finding = |finding: &Finding| {
        json!({
            "what": finding.what,
            "state": finding.state.word(),
            "found": finding.found,
            "advice": finding.advice,
        })
    };
    let key = |key: &clawpen_rules::native::Key| {
        let meaning = match key.meaning {
            Meaning::Enforced => "enforced",
            Meaning::Partly => "partly",
            Meaning::Refused => "refused",
        };
        json!({ "key": key.name, "meaning": meaning, "how": key.how })
    };
    let sandbox = match attempt {
        Ok(used) => json!({
            "ok": true,
            "backend": used.backend.as_str(),
            "name": used.name,
            "facts": used.facts,
            "floor": floor(used.backend).holds,
            "notPromised": floor(used.backend).not,
        }),
        Err(problem) => json!({ "ok": false, "problem": problem }),
    };
    output.json(&json!({
        "kernel": machine.kernel,
        "uid": machine.uid,
        "findings": findings.iter().map(finding).collect::<Vec<_>>(),
        "sandbox": sandbox,
        "nativeKeys": KEYS.iter().map(key).collect::<Vec<_>>(),
    }))?;
    Ok(())
}
