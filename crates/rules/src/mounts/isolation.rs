//! Which networks and confinement profiles a container may ask for.
//!
//! Asked twice: while a config is read, and again before every container is made. The sentences
//! are the same both times.

use std::fmt;

use crate::config::sandbox::DockerConfig;
use crate::config::setting::Setting;

/// What is judged before a container is made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Isolation<'a> {
    pub network: Option<&'a str>,
    pub join: NamespaceJoin,
    pub seccomp_profile: Option<&'a str>,
    pub apparmor_profile: Option<&'a str>,
}

impl<'a> Isolation<'a> {
    /// What a resolved config asks for.
    pub fn of(docker: &'a DockerConfig) -> Self {
        let text = |setting: &'a Option<Setting<String>>| {
            setting.as_ref().map(|setting| setting.value.as_str())
        };
        Self {
            network: Some(&docker.network.value),
            join: match &docker.allow_container_namespace_join {
                Some(Setting { value: true, .. }) => NamespaceJoin::Allowed,
                Some(_) | None => NamespaceJoin::Refused,
            },
            seccomp_profile: text(&docker.seccomp_profile),
            apparmor_profile: text(&docker.apparmor_profile),
        }
    }
}

/// Whether `dangerouslyAllowContainerNamespaceJoin` is set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NamespaceJoin {
    Allowed,
    Refused,
}

/// Whose network is judged: a browser needs one, so the advice differs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NetworkUser {
    Sandbox,
    Browser,
}

/// The two kinds of profiles.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProfileKind {
    Seccomp,
    AppArmor,
}

/// A network that would not isolate. The text is the setting as written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NetworkRefusal {
    /// The host's own network.
    Host { user: NetworkUser, network: String },
    /// Another container's network, or a namespace given by its path.
    Join { user: NetworkUser, network: String },
}

/// A profile that would not confine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProfileRefusal {
    pub kind: ProfileKind,
    /// As written.
    pub profile: String,
}

/// What [`decide_isolation`] refuses.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum IsolationRefusal {
    Network(NetworkRefusal),
    Profile(ProfileRefusal),
}

/// Decides on network, seccomp and `AppArmor`, in this order; an absent setting is fine.
pub fn decide_isolation(asked: &Isolation<'_>) -> Result<(), IsolationRefusal> {
    if let Some(network) = asked.network {
        decide_network(network, asked.join).map_err(IsolationRefusal::Network)?;
    }
    let profiles = [
        (ProfileKind::Seccomp, asked.seccomp_profile),
        (ProfileKind::AppArmor, asked.apparmor_profile),
    ];
    for (kind, profile) in profiles {
        if let Some(profile) = profile {
            decide_profile(kind, profile).map_err(IsolationRefusal::Profile)?;
        }
    }
    Ok(())
}

/// Judges `docker.network`.
pub fn decide_network(network: &str, join: NamespaceJoin) -> Result<(), NetworkRefusal> {
    judge_network(NetworkUser::Sandbox, network, join)
}

/// Judges `browser.network`.
pub fn decide_browser_network(network: &str, join: NamespaceJoin) -> Result<(), NetworkRefusal> {
    judge_network(NetworkUser::Browser, network, join)
}

fn judge_network(
    user: NetworkUser,
    network: &str,
    join: NamespaceJoin,
) -> Result<(), NetworkRefusal> {
    let mode = network.trim().to_lowercase();
    if mode == "host" {
        return Err(NetworkRefusal::Host { user, network: network.to_owned() });
    }
    // `ns:/path` is Podman's way to enter any namespace, the host's (`ns:/proc/1/ns/net`) as well.
    let joins = mode.starts_with("container:") || mode.starts_with("ns:");
    match join {
        NamespaceJoin::Refused if joins => {
            Err(NetworkRefusal::Join { user, network: network.to_owned() })
        }
        NamespaceJoin::Refused | NamespaceJoin::Allowed => Ok(()),
    }
}

/// Judges `docker.seccompProfile` or `docker.apparmorProfile`. Only names are looked at: a profile
/// file that allows everything is found by what is observed in the running sandbox.
pub fn decide_profile(kind: ProfileKind, profile: &str) -> Result<(), ProfileRefusal> {
    if profile.trim().to_lowercase() == "unconfined" {
        return Err(ProfileRefusal { kind, profile: profile.to_owned() });
    }
    Ok(())
}

impl fmt::Display for NetworkRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Host { user, network } => {
                let (whose, instead) = match user {
                    NetworkUser::Sandbox => ("network", "`bridge` or `none`"),
                    NetworkUser::Browser => ("browser network", "`bridge` or a network of its own"),
                };
                write!(
                    f,
                    "{whose} `{network}` is refused: with `host` the sandbox would sit on the host's \
                     own network; use {instead}"
                )
            }
            Self::Join { user, network } => {
                let whose = match user {
                    NetworkUser::Sandbox => "network",
                    NetworkUser::Browser => "browser network",
                };
                write!(
                    f,
                    "{whose} `{network}` is refused: like every `container:*` it shares a network that \
                     is not the sandbox's own; use a bridge network, or set \
                     sandbox.docker.dangerouslyAllowContainerNamespaceJoin=true"
                )
            }
        }
    }
}

impl fmt::Display for ProfileRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (kind, without) = match self.kind {
            ProfileKind::Seccomp => ("seccomp", "every system call would be open"),
            ProfileKind::AppArmor => ("apparmor", "no mandatory access control would apply"),
        };
        write!(
            f,
            "{kind} profile `{}` is refused: under `unconfined` {without}; name a profile or leave the \
             key out",
            self.profile
        )
    }
}

impl fmt::Display for IsolationRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Network(refusal) => refusal.fmt(f),
            Self::Profile(refusal) => refusal.fmt(f),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(network: &str, join: NamespaceJoin, fine: [bool; 2]) {
        let found =
            [decide_network(network, join).is_ok(), decide_browser_network(network, join).is_ok()];
        assert_eq!(found, fine, "{network}");
    }

    #[test]
    fn the_host_network_is_refused_however_it_is_written() {
        for network in ["host", "HOST", " host\t", "Host"] {
            check(network, NamespaceJoin::Allowed, [false; 2]);
        }
        for network in ["bridge", "none", "my-host", "", " ", "hostx"] {
            check(network, NamespaceJoin::Refused, [true; 2]);
        }
    }

    #[test]
    fn b32_joining_a_namespace_needs_the_flag() {
        for network in ["container:x", " Container:x", "container:", "ns:/proc/1/ns/net", "NS:/x"] {
            check(network, NamespaceJoin::Refused, [false; 2]);
            check(network, NamespaceJoin::Allowed, [true; 2]);
        }
    }

    #[test]
    fn unconfined_is_no_profile() {
        for profile in ["unconfined", " UNCONFINED "] {
            assert!(decide_profile(ProfileKind::Seccomp, profile).is_err(), "{profile}");
        }
        for profile in ["", "default", "unconfined.json", "/x.json"] {
            assert_eq!(decide_profile(ProfileKind::AppArmor, profile), Ok(()), "{profile}");
        }
    }

    #[test]
    fn the_first_problem_is_reported() {
        let asked = Isolation {
            network: Some("none"),
            join: NamespaceJoin::Refused,
            seccomp_profile: Some("Unconfined"),
            apparmor_profile: Some("unconfined"),
        };
        let refusal = ProfileRefusal { kind: ProfileKind::Seccomp, profile: "Unconfined".into() };
        assert_eq!(decide_isolation(&asked), Err(IsolationRefusal::Profile(refusal)));
        let fine = Isolation { seccomp_profile: None, apparmor_profile: None, ..asked };
        assert_eq!(decide_isolation(&fine), Ok(()));
    }

    #[test]
    fn a_refusal_names_the_setting_and_the_way_out() {
        let refusal = decide_network("HOST", NamespaceJoin::Refused).unwrap_err();
        assert_eq!(
            refusal.to_string(),
            "network `HOST` is refused: with `host` the sandbox would sit on the host's own network; \
             use `bridge` or `none`"
        );
        let refusal = decide_browser_network("container:x", NamespaceJoin::Refused).unwrap_err();
        assert_eq!(
            refusal.to_string(),
            "browser network `container:x` is refused: like every `container:*` it shares a network \
             that is not the sandbox's own; use a bridge network, or set \
             sandbox.docker.dangerouslyAllowContainerNamespaceJoin=true"
        );
    }
}
