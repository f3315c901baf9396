//! Decides which caller of the gateway may use which method, and see which event.
//!
//! A caller has a role and the scopes of his credential; what he says about himself gives him nothing.
//! A method that no table names needs `operator.admin`: forgetting one here closes it.

pub mod connect;
pub mod listen;
pub mod origin;
pub mod proxy;
pub mod run;
pub mod tls;
pub mod trusted_user;

use std::collections::BTreeSet;
use std::fmt;

/// What a credential allows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Scope {
    Admin,
    Approvals,
    Pairing,
    Read,
    Write,
}

impl Scope {
    /// All of them, in the order of their names.
    pub const ALL: [Self; 5] =
        [Self::Admin, Self::Approvals, Self::Pairing, Self::Read, Self::Write];

    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Admin => "operator.admin",
            Self::Approvals => "operator.approvals",
            Self::Pairing => "operator.pairing",
            Self::Read => "operator.read",
            Self::Write => "operator.write",
        }
    }

    /// A word that is none of ours means nothing.
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|scope| scope.as_str() == text)
    }
}

impl fmt::Display for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The scopes of one credential.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Scopes(BTreeSet<Scope>);

impl Scopes {
    pub const fn none() -> Self {
        Self(BTreeSet::new())
    }

    /// From the words of a client or a file.
    pub fn of<'a>(words: impl IntoIterator<Item = &'a str>) -> Self {
        Self(words.into_iter().filter_map(Scope::parse).collect())
    }

    /// Says whether the scope is there, itself or through a wider one.
    pub fn covers(&self, scope: Scope) -> bool {
        let has = |scope| self.0.contains(&scope);
        has(scope) || has(Scope::Admin) || (scope == Scope::Read && has(Scope::Write))
    }

    /// Says whether this credential may do all that another may.
    pub fn covers_all(&self, others: &Self) -> bool {
        others.0.iter().all(|scope| self.covers(*scope))
    }

    /// With every scope that a wider one includes, sorted by name: what a device token lists.
    #[must_use]
    pub fn expanded(&self) -> Self {
        let mut all = self.0.clone();
        if all.contains(&Scope::Admin) {
            all.insert(Scope::Write);
        }
        if all.contains(&Scope::Write) {
            all.insert(Scope::Read);
        }
        Self(all)
    }

    pub fn words(&self) -> Vec<&'static str> {
        self.0.iter().map(|scope| scope.as_str()).collect()
    }
}

/// What a connection is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    Operator,
    Node,
}

impl Role {
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Operator => "operator",
            Self::Node => "node",
        }
    }

    pub fn parse(text: &str) -> Option<Self> {
        [Self::Operator, Self::Node].into_iter().find(|role| role.as_str() == text)
    }
}

/// What a method asks of its caller.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Need {
    /// Anybody who has logged in.
    Nothing,
    Scope(Scope),
    /// Machines that run commands for us, and no person.
    NodeRole,
}

/// Whether a caller may use a method.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    Allowed,
    WrongRole(Role),
    Missing(Scope),
}

/// Methods that only reading is needed for.
const READ: &[&str] = &[
    "status",
    "config.get",
    "config.schema.lookup",
    "agents.list",
    "agents.files.list",
    "agents.files.get",
    "agent.identity.get",
    "sessions.list",
    "sessions.preview",
    "sessions.resolve",
    "sessions.get",
    "sessions.subscribe",
    "sessions.unsubscribe",
    "sessions.messages.subscribe",
    "sessions.messages.unsubscribe",
    "sessions.usage",
    "models.list",
    "skills.status",
    "tools.catalog",
    "tools.effective",
    "cron.list",
    "cron.status",
    "cron.runs",
    "system-presence",
    "last-heartbeat",
    "logs.tail",
    "gateway.identity.get",
    "usage.status",
    "usage.cost",
    "channels.status",
    "chat.history",
    "node.list",
    "sandbox.list",
    "sandbox.explain",
    // Not built; whoever may not is told so before he is told that.
    "doctor.memory.status",
    "node.describe",
    "sessions.usage.logs",
    "sessions.usage.timeseries",
    "talk.config",
    "tts.providers",
    "tts.status",
    "voicewake.get",
];
const WRITE: &[&str] = &[
    "agent",
    "agent.wait",
    "chat.send",
    "chat.abort",
    "sessions.create",
    "sessions.send",
    "sessions.steer",
    "sessions.abort",
    "wake",
    // Not built.
    "browser.request",
    "node.invoke",
    "poll",
    "push.test",
    "send",
    "talk.mode",
    "talk.speak",
    "tts.convert",
    "tts.disable",
    "tts.enable",
    "tts.setProvider",
    "voicewake.set",
];
const APPROVALS: &[&str] = &[
    "exec.approval.request",
    "exec.approval.waitDecision",
    "exec.approval.resolve",
    "exec.approval.list",
    "exec.approval.get",
    // Not built.
    "plugin.approval.request",
    "plugin.approval.resolve",
    "plugin.approval.waitDecision",
];
const PAIRING: &[&str] = &[
    "device.pair.list",
    "device.pair.approve",
    "device.pair.reject",
    "device.pair.remove",
    "device.token.rotate",
    "device.token.revoke",
    // Not built.
    "node.pair.approve",
    "node.pair.list",
    "node.pair.reject",
    "node.pair.request",
    "node.pair.verify",
    "node.rename",
];
const NODE: &[&str] = &["skills.bins", "node.invoke.result", "node.event", "node.pending.pull"];

/// What a method asks for.
pub fn need(method: &str) -> Need {
    if method == "health" {
        return Need::Nothing;
    }
    let is_in = |list: &[&str]| list.contains(&method);
    if is_in(NODE) {
        Need::NodeRole
    } else if is_in(READ) {
        Need::Scope(Scope::Read)
    } else if is_in(WRITE) {
        Need::Scope(Scope::Write)
    } else if is_in(APPROVALS) {
        Need::Scope(Scope::Approvals)
    } else if is_in(PAIRING) {
        Need::Scope(Scope::Pairing)
    } else {
        Need::Scope(Scope::Admin)
    }
}

/// Decides whether a caller may use a method.
#[must_use]
pub fn decide(method: &str, role: Role, scopes: &Scopes) -> Access {
    match (need(method), role) {
        (Need::Nothing, Role::Operator | Role::Node) | (Need::NodeRole, Role::Node) => {
            Access::Allowed
        }
        (Need::NodeRole, Role::Operator) | (Need::Scope(_), Role::Node) => Access::WrongRole(role),
        (Need::Scope(scope), Role::Operator) => {
            if scopes.covers(scope) {
                Access::Allowed
            } else {
                Access::Missing(scope)
            }
        }
    }
}

/// Decides whether a connection gets an event.
#[must_use]
pub fn decide_event(event: &str, role: Role, scopes: &Scopes) -> Access {
    let scope = if event.starts_with("exec.approval.") {
        Scope::Approvals
    } else if event.starts_with("device.pair.") || event.starts_with("node.pair.") {
        Scope::Pairing
    } else if event.starts_with("session")
        || matches!(event, "chat" | "agent" | "cron" | "heartbeat")
    {
        // What is said in sessions, and what planned jobs and heartbeats came to, is for those who may read them; the reference tells it to everybody.
        Scope::Read
    } else {
        return Access::Allowed;
    };
    match role {
        Role::Node => Access::WrongRole(role),
        Role::Operator if scopes.covers(scope) => Access::Allowed,
        Role::Operator => Access::Missing(scope),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_method_is_open_to_its_scope_and_to_wider_ones() {
        check("health", &[], Access::Allowed);
        check("config.get", &[], Access::Missing(Scope::Read));
        check("config.get", &["operator.read"], Access::Allowed);
        check("config.get", &["operator.write"], Access::Allowed);
        check("config.get", &["operator.approvals"], Access::Missing(Scope::Read));
        check("config.set", &["operator.read", "operator.write"], Access::Missing(Scope::Admin));
        check("config.schema", &["operator.read"], Access::Missing(Scope::Admin));
        check("exec.approvals.get", &["operator.approvals"], Access::Missing(Scope::Admin));
        check("exec.approval.resolve", &["operator.read"], Access::Missing(Scope::Approvals));
        check("chat.send", &["operator.read"], Access::Missing(Scope::Write));
        check("device.pair.list", &["operator.write"], Access::Missing(Scope::Pairing));
        check("skills.bins", &["operator.admin"], Access::WrongRole(Role::Operator));
        check("a.method.nobody.listed", &["operator.write"], Access::Missing(Scope::Admin));
        check("device.pair.approve", &["operator.admin"], Access::Allowed);
        assert_eq!(
            decide("agents.list", Role::Node, &Scopes::none()),
            Access::WrongRole(Role::Node)
        );
    }

    #[track_caller]
    fn check(method: &str, scopes: &[&str], expected: Access) {
        let scopes = Scopes::of(scopes.iter().copied());
        assert_eq!(decide(method, Role::Operator, &scopes), expected, "{method}");
    }

    #[test]
    fn events_about_approvals_and_devices_are_not_for_everybody() {
        let read = Scopes::of(["operator.read"]);
        for (event, expected) in [
            ("tick", Access::Allowed),
            ("exec.approval.requested", Access::Missing(Scope::Approvals)),
            ("device.pair.requested", Access::Missing(Scope::Pairing)),
        ] {
            assert_eq!(decide_event(event, Role::Operator, &read), expected, "{event}");
        }
        let none = decide_event("cron", Role::Operator, &Scopes::of(["operator.approvals"]));
        assert_eq!(none, Access::Missing(Scope::Read));
        let admin = Scopes::of(["operator.admin"]);
        assert_eq!(
            decide_event("exec.approval.requested", Role::Node, &admin),
            Access::WrongRole(Role::Node)
        );
    }

    #[test]
    fn a_token_lists_what_its_scopes_include() {
        let admin = Scopes::of(["operator.admin", "operator.root", "OPERATOR.READ"]);
        assert_eq!(admin.words(), ["operator.admin"]);
        assert_eq!(admin.expanded().words(), ["operator.admin", "operator.read", "operator.write"]);
        assert!(admin.covers_all(&Scopes::of(["operator.pairing", "operator.write"])));
        assert!(!Scopes::of(["operator.write"]).covers_all(&admin));
    }
}
