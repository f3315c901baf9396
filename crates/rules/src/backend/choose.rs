//! Decides which backend a new config names: the one that works on this machine with the least around it.
//!
//! Takes what was found by trying; gives the backend with its reason. An existing config is never asked about here.

use super::Backend;

/// What a machine offers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Offer {
    /// A native pen was made and removed; else why not.
    pub native: Result<(), String>,
    /// Where a container engine listens.
    pub engine: Option<String>,
}

/// The backend for a new config, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Choice {
    /// It was tried.
    Native,
    /// No native pen can be had, and an engine listens.
    Docker { engine: String, why_not_native: String },
    /// Neither can be had. The config still says `native`, so that calls are refused and nothing runs on the host.
    NothingYet { why_not_native: String },
}

/// Chooses. Native first: no daemon, no image, nobody else's root.
pub fn decide(offer: Offer) -> Choice {
    match (offer.native, offer.engine) {
        (Ok(()), _) => Choice::Native,
        (Err(why_not_native), Some(engine)) => Choice::Docker { engine, why_not_native },
        (Err(why_not_native), None) => Choice::NothingYet { why_not_native },
    }
}

impl Choice {
    /// What is written down.
    pub const fn backend(&self) -> Backend {
        match self {
            Self::Native | Self::NothingYet { .. } => Backend::Native,
            Self::Docker { .. } => Backend::Docker,
        }
    }

    /// In one line, for a person.
    pub fn reason(&self) -> String {
        let first = |text: &str| text.lines().next().unwrap_or_default().to_owned();
        match self {
            Self::Native => {
                "this machine makes pens itself: no daemon and no image needed".to_owned()
            }
            Self::Docker { engine, why_not_native } => {
                let why = first(why_not_native);
                format!("a container engine listens at {engine}; no native pen: {why}")
            }
            Self::NothingYet { why_not_native } => {
                let why = first(why_not_native);
                format!(
                    "neither native pens nor a container engine can be had yet, so every call is refused until then: {why}"
                )
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(native: Result<(), &str>, engine: Option<&str>, backend: Backend, said: &str) {
        let native = native.map_err(str::to_owned);
        let choice = decide(Offer { native, engine: engine.map(str::to_owned) });
        assert_eq!(choice.backend(), backend, "{choice:?}");
        assert!(choice.reason().contains(said), "{}", choice.reason());
    }

    #[test]
    fn native_where_it_works_an_engine_where_only_that_does_and_never_the_host() {
        check(Ok(()), None, Backend::Native, "itself");
        check(Ok(()), Some("/run/e.sock"), Backend::Native, "itself");
        check(
            Err("no\nmore"),
            Some("/run/e.sock"),
            Backend::Docker,
            "/run/e.sock; no native pen: no",
        );
        check(Err("no"), None, Backend::Native, "every call is refused");
    }
}
