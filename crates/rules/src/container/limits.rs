//! How much of the machine a container may use, from the config's numbers and texts to the engine's.

use super::Limits;
use super::build::written;
use crate::config::sandbox::{Amount, DockerConfig, Ulimit};
use crate::config::setting::Setting;
use crate::js_number;

/// The limits that mean something: numbers above zero, amounts that are not blank.
pub(super) fn configured_limits(docker: &DockerConfig) -> Limits {
    let positive = |number: &Option<Setting<f64>>| {
        let number = number.as_ref()?.value;
        (number > 0.0).then(|| js_number::format(number))
    };
    let amount = |amount: &Option<Setting<Amount>>| match &amount.as_ref()?.value {
        Amount::Text(text) => written(text),
        Amount::Number(number) => number.is_finite().then(|| js_number::format(*number)),
    };
    Limits {
        pids: positive(&docker.pids_limit),
        memory: amount(&docker.memory),
        memory_swap: amount(&docker.memory_swap),
        cpus: positive(&docker.cpus),
        gpus: docker.gpus.as_ref().and_then(|gpus| written(&gpus.value)),
        ulimits: Vec::new(),
    }
}

/// `soft:hard`, one of them, or nothing; below zero counts as zero.
pub(super) fn ulimit(limit: &Ulimit) -> Option<String> {
    let clamped = |number: &f64| js_number::format(number.max(0.0));
    match limit {
        Ulimit::Text(text) => written(text),
        Ulimit::Number(number) => Some(js_number::format(*number)),
        Ulimit::Pair { soft: Some(soft), hard: Some(hard) } => {
            Some(format!("{}:{}", clamped(soft), clamped(hard)))
        }
        Ulimit::Pair { soft: Some(only), hard: None }
        | Ulimit::Pair { soft: None, hard: Some(only) } => Some(clamped(only)),
        Ulimit::Pair { soft: None, hard: None } => None,
    }
}
