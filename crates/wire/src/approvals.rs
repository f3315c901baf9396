//! An approval as it is kept and printed: what was asked, the frozen plan, and what became of it.
//!
//! [`Plan`] is also how a plan is kept in the database, so it is read as well as written. Variables
//! are there by name only. [`Request`] has the reference's keys.

use serde::{Deserialize, Serialize};

/// What `clawpen approvals list --json` prints.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct List {
    pub approvals: Vec<Approval>,
}

/// One approval.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Approval {
    pub id: String,
    /// `pending`, `settled`, `withdrawn`, `running`, `ended`, `refused` or `lost`.
    pub state: String,
    pub created_at_ms: u64,
    pub expires_at_ms: u64,
    pub request: Request,
    pub reasons: Vec<String>,
    /// What silence stands for.
    pub ask_fallback: String,
    /// Where it was asked: `cli`, `mcp`, `websocket`, `http` or `socket`.
    pub door: String,
    pub client: Option<String>,
    /// `running`, `gone` or `unknown`.
    pub asker: String,
    pub plan: Option<Plan>,
    /// Whether "allow always" would remember something.
    pub can_remember: bool,
    /// `allow-once`, `allow-always` or `deny`; absent while nobody answered.
    pub decision: Option<String>,
    pub resolved_by: Option<String>,
    /// `exit 0`, `signal 9`, `timed out` or `lost`, of what ran.
    pub ending: Option<String>,
}

/// What is asked about, with the reference's keys.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Request {
    /// With everything that cannot be seen spelled out.
    pub command: String,
    pub command_argv: Option<Vec<String>>,
    pub env_keys: Vec<String>,
    pub cwd: String,
    pub host: String,
    pub security: String,
    pub ask: String,
    pub agent_id: String,
    pub resolved_path: Option<String>,
    pub session_key: Option<String>,
}

/// A frozen plan.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Plan {
    /// Its name: the hash of all of it, values of variables included.
    pub hash: String,
    /// `words` or `shell`.
    pub form: String,
    pub cwd: String,
    /// Names only.
    pub environment: Vec<String>,
    pub steps: Vec<Step>,
}

/// One program to start.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Step {
    /// Blank, `|`, `&&`, `||` or `;`.
    pub joint: String,
    pub file: File,
    pub argv: Vec<String>,
    pub others: Vec<File>,
    pub input: Option<String>,
}

/// A file that must be what it was.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct File {
    pub path: String,
    pub real_path: String,
    pub device: u64,
    pub inode: u64,
    pub sha256: String,
}

/// What `clawpen approvals resolve --json` prints.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Resolved {
    pub ok: bool,
    pub id: String,
    pub decision: String,
    pub resolved_by: Option<String>,
    /// Patterns that "allow always" added.
    pub remembered: Vec<String>,
    /// Why nothing changed, or what did not work.
    pub reason: Option<String>,
}

/// A line of `clawpen approvals watch --json`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Event {
    /// `exec.approval.requested` or `exec.approval.resolved`.
    pub event: String,
    pub approval: Approval,
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOLDEN: &str = include_str!("../golden/approvals-v1.txt");

    #[test]
    fn the_shapes_are_those_of_version_1() {
        let text = |text: &str| text.to_owned();
        let file = File {
            path: text("/usr/bin/sh"),
            real_path: text("/usr/bin/dash"),
            device: 1,
            inode: 2,
            sha256: text("ab"),
        };
        let step = Step {
            joint: String::new(),
            file: file.clone(),
            argv: vec![text("sh"), text("x")],
            others: vec![file],
            input: None,
        };
        let plan = Plan {
            hash: text("cd"),
            form: text("words"),
            cwd: text("/srv"),
            environment: vec![text("PATH")],
            steps: vec![step],
        };
        let request = Request {
            command: text("sh x"),
            command_argv: Some(vec![text("sh"), text("x")]),
            env_keys: vec![text("PATH")],
            cwd: text("/srv"),
            host: text("gateway"),
            security: text("allowlist"),
            ask: text("on-miss"),
            agent_id: text("main"),
            resolved_path: Some(text("/usr/bin/dash")),
            session_key: None,
        };
        let approval = Approval {
            id: text("i"),
            state: text("pending"),
            created_at_ms: 1,
            expires_at_ms: 2,
            request,
            reasons: vec![text("because")],
            ask_fallback: text("deny"),
            door: text("mcp"),
            client: Some(text("editor")),
            asker: text("running"),
            plan: Some(plan.clone()),
            can_remember: true,
            decision: None,
            resolved_by: None,
            ending: None,
        };
        let resolved = Resolved {
            ok: true,
            id: text("i"),
            decision: text("allow-always"),
            resolved_by: Some(text("user 0")),
            remembered: vec![text("p")],
            reason: None,
        };
        let event = Event { event: text("exec.approval.requested"), approval: approval.clone() };
        let lines =
            [json(&List { approvals: vec![approval] }), json(&event), json(&resolved), json(&plan)];
        assert_eq!(lines.join("\n") + "\n", GOLDEN);
        // A plan of the database is read again.
        let kept = GOLDEN.lines().last().map(serde_json::from_str::<Plan>);
        assert_eq!(kept.unwrap().unwrap(), plan);
    }

    fn json(value: &impl Serialize) -> String {
        serde_json::to_string(value).unwrap()
    }
}
