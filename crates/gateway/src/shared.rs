//! What all connections of one gateway have in common.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use axum::http::HeaderValue;
use clawpen_engine::approvals_file::now_ms;
use clawpen_engine::call::Desk;
use clawpen_engine::config_file::{Sound, View, Views};
use clawpen_engine::config_store::Surroundings;
use clawpen_engine::devices::Devices;
use clawpen_engine::runner::Runner;
use clawpen_rules::access::connect::DeviceRule;
use clawpen_rules::access::origin::OriginRules;
use clawpen_rules::access::proxy::TrustedProxies;
use clawpen_rules::config::locate::Locations;
use clawpen_rules::timestamp::Timestamp;
use clawpen_wire::gateway::{ErrorShape, MAX_PENDING_PER_ADDRESS};
use serde_json::{Value, json};
use tokio::sync::Semaphore;

use crate::approvals::Approvals;
use crate::auth::Guard;
use crate::cron::Planner;
use crate::heart::Heart;
use crate::http::responses::Answered;
use crate::hub::Hub;
use crate::journal::Journal;
use crate::methods::health::LastHealth;
use crate::metrics::Metrics;
use crate::runs::Runs;
use crate::throttle::{self, Throttle};

/// How often the config may be changed by one client: so many times a window.
const WRITES: usize = 3;
const WRITES_WINDOW: Duration = Duration::from_secs(60);
const MAX_WRITERS: usize = 10_000;

pub(crate) struct Shared {
    pub(crate) around: Surroundings,
    pub(crate) locations: Locations,
    pub(crate) guard: Guard,
    pub(crate) origins: OriginRules,
    pub(crate) device_rule: DeviceRule,
    /// `Strict-Transport-Security`, where the config asks for it.
    pub(crate) strict_transport: Option<HeaderValue>,
    pub(crate) proxies: TrustedProxies,
    pub(crate) devices: Devices,
    pub(crate) hub: Hub,
    pub(crate) health: LastHealth,
    pub(crate) views: Views,
    pub(crate) approvals: Approvals,
    pub(crate) desk: Arc<Desk>,
    pub(crate) runner: Runner,
    pub(crate) runs: Runs,
    pub(crate) answered: Answered,
    pub(crate) cron: Planner,
    pub(crate) heart: Heart,
    pub(crate) journal: Journal,
    pub(crate) metrics: Metrics,
    pub(crate) throttle: Throttle,
    /// Of the token of the webhooks, apart: whoever guesses it locks nobody else out.
    pub(crate) hook_throttle: Throttle,
    /// Why the hooks are shut, as it was last written down.
    pub(crate) hooks_shut: Mutex<String>,
    /// One for every run of a webhook that has not ended.
    pub(crate) hook_runs: Arc<Semaphore>,
    pub(crate) started: Instant,
    pub(crate) handshake_timeout: Duration,
    pub(crate) is_ready: AtomicBool,
    pub(crate) strangers: Strangers,
    pub(crate) writes: Mutex<HashMap<(String, IpAddr), Vec<Instant>>>,
}

impl Shared {
    pub(crate) fn now() -> Timestamp {
        Timestamp::from_millis(now_ms())
    }

    /// The config of this moment.
    pub(crate) fn view(&self) -> Result<Arc<View>, ErrorShape> {
        self.views.get(&self.around).map_err(|error| unavailable(&error))
    }

    /// The config of this moment, if it is sound.
    pub(crate) fn sound(&self) -> Result<Arc<Sound>, ErrorShape> {
        self.view()?.state.clone().map_err(|findings| {
            let issues: Vec<Value> = findings
                .iter()
                .map(|finding| json!({ "path": finding.key, "message": finding.message }))
                .collect();
            ErrorShape::unavailable("the config is not valid; mend it first")
                .with_details(json!({ "issues": issues }))
        })
    }

    /// Takes one of a client's few changes of the config; the error says when the next is due.
    pub(crate) fn take_write(
        &self,
        method: &str,
        who: (String, IpAddr),
        now: Instant,
    ) -> Result<(), ErrorShape> {
        let Ok(mut writes) = self.writes.lock() else {
            return Err(ErrorShape::unavailable("try again"));
        };
        if writes.len() >= MAX_WRITERS {
            writes.retain(|_, times| {
                times.iter().any(|time| now.duration_since(*time) < WRITES_WINDOW)
            });
        }
        let times = writes.entry(who).or_default();
        times.retain(|time| now.duration_since(*time) < WRITES_WINDOW);
        if let (true, Some(first)) = (times.len() >= WRITES, times.first()) {
            let left = WRITES_WINDOW.saturating_sub(now.duration_since(*first));
            let left_ms = u64::try_from(left.as_millis()).unwrap_or(u64::MAX).max(1);
            let seconds = left_ms.div_ceil(1000);
            return Err(ErrorShape {
                retry_after_ms: Some(left_ms),
                ..ErrorShape::unavailable(format!(
                    "rate limit exceeded for {method}; retry after {seconds}s"
                ))
                .with_details(json!({ "method": method, "limit": "3 per 60s" }))
            });
        }
        times.push(now);
        Ok(())
    }
}

/// An error that is nobody's fault at the other end. What it says names files and causes, no secrets.
pub(crate) fn unavailable(error: &dyn std::error::Error) -> ErrorShape {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let more = error.to_string();
        if !text.contains(&more) {
            text = format!("{text}: {more}");
        }
        cause = error.source();
    }
    ErrorShape::unavailable(text)
}

/// Connections that have not logged in yet, by address.
#[derive(Debug, Clone, Default)]
pub(crate) struct Strangers(Arc<Mutex<HashMap<IpAddr, usize>>>);

/// One of them; it counts until it is dropped.
#[derive(Debug)]
pub(crate) struct Stranger {
    all: Strangers,
    address: IpAddr,
}

impl Strangers {
    /// Counts one more, unless there are too many of that address.
    pub(crate) fn admit(&self, address: IpAddr) -> Option<Stranger> {
        let address = throttle::place(address);
        let mut counts = self.0.lock().ok()?;
        let count = counts.entry(address).or_default();
        if *count >= MAX_PENDING_PER_ADDRESS {
            return None;
        }
        *count += 1;
        Some(Stranger { all: self.clone(), address })
    }
}

impl Drop for Stranger {
    fn drop(&mut self) {
        let Ok(mut counts) = self.all.0.lock() else { return };
        if let Some(count) = counts.get_mut(&self.address) {
            *count = count.saturating_sub(1);
            if *count == 0 {
                counts.remove(&self.address);
            }
        }
    }
}
