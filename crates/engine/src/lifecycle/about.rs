//! What a sandbox tells about itself: enough to write its row anew, and what is mounted in it.

use clawpen_rules::backend::Backend;
use clawpen_rules::ids::AgentId;
use clawpen_rules::mounts::Access;
use clawpen_rules::native::{HostDirectory, HostOrigin};
use clawpen_rules::reuse::Mounts;
use clawpen_rules::scope::ScopeKey;
use clawpen_rules::timestamp::{Moment, Timestamp};
use clawpen_rules::workspace::SKILLS_MOUNT;
use serde::{Deserialize, Serialize};

use crate::backend::Plan;
use crate::registry::{Identity, Kind, NewRow, Survivor};

/// Kept beside the sandbox as JSON. Fields are only ever added.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct About {
    name: String,
    /// Only shells were there before.
    #[serde(default)]
    kind: Option<String>,
    backend: String,
    scope: String,
    session: Option<String>,
    agent: Option<String>,
    image: String,
    fingerprint: String,
    workspace_dir: String,
    created_at_ms: u64,
    /// `source target access`, in order.
    mounts: Vec<String>,
}

impl About {
    pub(super) fn new(row: &NewRow, plan: &Plan, now: &Moment) -> Self {
        Self {
            name: row.name.clone(),
            kind: Some(row.kind.as_str().to_owned()),
            backend: row.backend.as_str().to_owned(),
            scope: row.scope.as_str().to_owned(),
            session: row.session.clone(),
            agent: row.agent.as_ref().map(|agent| agent.as_str().to_owned()),
            image: row.image.clone(),
            fingerprint: row.fingerprint.clone(),
            workspace_dir: row.workspace_dir.clone(),
            created_at_ms: now.wall.as_millis(),
            mounts: mounts(plan),
        }
    }

    pub(super) fn to_text(&self) -> String {
        // Plain strings and numbers always print.
        serde_json::to_string(self).unwrap_or_default()
    }

    pub(super) fn parse(text: &str) -> Option<Self> {
        serde_json::from_str(text).ok()
    }

    /// Whether what is mounted is what `plan` would mount.
    pub(super) fn mounts_of(&self, plan: &Plan) -> Mounts {
        if self.mounts == mounts(plan) { Mounts::Same } else { Mounts::Differ }
    }

    /// The row that it had.
    pub(super) fn survivor(self, identity: Identity, protocol: u32) -> Option<Survivor> {
        let kind = self.kind.map_or(Some(Kind::Sandbox), |kind| Kind::parse(&kind))?;
        let row = NewRow {
            name: self.name,
            kind,
            backend: Backend::parse(&self.backend)?,
            scope: ScopeKey::stored(&self.scope)?,
            session: self.session,
            agent: self.agent.as_deref().map(AgentId::normalize),
            image: self.image,
            fingerprint: self.fingerprint,
            workspace_dir: self.workspace_dir,
        };
        let created = Moment::wall(Timestamp::from_millis(self.created_at_ms));
        Some(Survivor { row, identity, protocol, created })
    }
}

/// What a sandbox that is in use must have in common with the one that is wanted. The host's skills are not in it: a
/// sandbox that has not got them yet, or still has them, shows nobody what is not his.
fn mounts(plan: &Plan) -> Vec<String> {
    let is_skills = |target: &str, access| match access {
        Access::ReadOnly => target.ends_with(&format!("/{SKILLS_MOUNT}")),
        Access::ReadWrite => false,
    };
    let access = |access| match access {
        Access::ReadOnly => "ro",
        Access::ReadWrite => "rw",
    };
    match plan {
        Plan::Native(plan) => {
            let show = |one: HostDirectory<'_>| {
                format!("{} {} {}", one.source, one.target, access(one.access))
            };
            let all = plan.pen.host_directories().into_iter();
            let counted = |one: &HostDirectory<'_>| {
                one.origin == HostOrigin::Bind || !is_skills(one.target, one.access)
            };
            all.filter(counted).map(show).collect()
        }
        Plan::Docker(spec) => {
            let own = spec.mounts().iter().filter(|one| !is_skills(&one.target, one.access));
            let own =
                own.map(|one| format!("{} {} {}", one.source, one.target, access(one.access)));
            let bound = spec.binds().iter().map(|one| {
                format!("{} {} {}", one.real_source(), one.target(), access(one.access()))
            });
            let tmpfs = spec.tmpfs().iter().map(|one| format!("tmpfs {one}"));
            own.chain(bound).chain(tmpfs).collect()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::registry::DockerIdentity;

    #[test]
    fn what_says_nothing_of_its_kind_is_a_shell() {
        let kind_of = |kind: &str| {
            let text = format!(
                r#"{{"name": "n", {kind}"backend": "docker", "scope": "agent:main", "session": null, "agent": "main",
                    "image": "i", "fingerprint": "f", "workspaceDir": "/w", "createdAtMs": 1, "mounts": []}}"#
            );
            let identity = Identity::Docker(DockerIdentity {
                container_id: "c".to_owned(),
                endpoint: "unix:///s".to_owned(),
                state_label: "m".to_owned(),
            });
            About::parse(&text).unwrap().survivor(identity, 1).map(|survivor| survivor.row.kind)
        };
        assert_eq!(kind_of(""), Some(Kind::Sandbox));
        assert_eq!(kind_of(r#""kind": "sandbox", "#), Some(Kind::Sandbox));
        assert_eq!(kind_of(r#""kind": "browser", "#), Some(Kind::Browser));
        assert_eq!(kind_of(r#""kind": "ghost", "#), None);
    }
}
