//! Which tools a program may call over HTTP (`POST /tools/invoke`).
//!
//! Takes a tool's name and `gateway.tools`; gives the tool, or why this door has none of that name. Commands and files
//! are for agents, whatever the config says; tools that start or steer agents are closed until `gateway.tools.allow`
//! names them. The session's own policy is asked after this, and is not asked here.

use super::BuiltTool;
use super::sessions::SessionTool;
use crate::tool_policy::{self, Layers, Tool};

/// A tool that acts outside every sandbox, and so can be called without an agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Callable {
    Sessions(SessionTool),
    WebFetch,
}

/// Whether the door has a tool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    Open(Callable),
    Closed(Why),
}

/// Why it has not.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Why {
    /// There is none of this name, or none in this build.
    Absent,
    /// It acts in a sandbox, for an agent.
    ForAgents,
    /// It starts or steers agents, and `gateway.tools.allow` does not name it.
    Steers,
    /// `gateway.tools.deny` names it.
    Denied,
}

/// `gateway.tools`, as written.
#[derive(Debug, Clone, Copy, Default)]
pub struct DoorLists<'a> {
    pub allow: &'a [&'a str],
    pub deny: &'a [&'a str],
}

/// Decides whether the door has a tool of this name, for arguments with this `action`.
#[must_use]
pub fn decide((name, action): (&str, Option<&str>), lists: DoorLists<'_>) -> Verdict {
    let tool = Tool::core(name);
    let name = tool.name().as_str();
    let callable = match (BuiltTool::parse(name), SessionTool::parse(name)) {
        (Some(BuiltTool::WebFetch), _) => Callable::WebFetch,
        (Some(BuiltTool::File(_) | BuiltTool::Exec | BuiltTool::Process), _) => {
            return Verdict::Closed(Why::ForAgents);
        }
        (None, Some(tool)) => Callable::Sessions(tool),
        (None, None) => return Verdict::Closed(Why::Absent),
    };
    if steers(callable, action) && !lists.allow.iter().any(|allowed| allowed.trim() == name) {
        return Verdict::Closed(Why::Steers);
    }
    if tool_policy::decide(&Layers::of_policy(&[], lists.deny), &tool).is_allowed() {
        Verdict::Open(callable)
    } else {
        Verdict::Closed(Why::Denied)
    }
}

/// Whether a tool makes agents do something, or ends what they do.
fn steers(tool: Callable, action: Option<&str>) -> bool {
    match tool {
        Callable::Sessions(SessionTool::Send | SessionTool::Spawn) => true,
        Callable::Sessions(SessionTool::Subagents) => {
            action.is_some_and(|action| action.trim() != "list")
        }
        Callable::Sessions(
            SessionTool::List | SessionTool::History | SessionTool::Status | SessionTool::Agents,
        )
        | Callable::WebFetch => false,
    }
}

impl Callable {
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Sessions(tool) => tool.as_str(),
            Self::WebFetch => BuiltTool::WebFetch.as_str(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tools::FileTool;

    #[track_caller]
    fn check(name: &str, (allow, deny): (&[&str], &[&str]), expected: Verdict) {
        assert_eq!(decide((name, None), DoorLists { allow, deny }), expected, "{name}");
    }

    #[test]
    fn what_acts_for_an_agent_is_never_had_here() {
        let all: &[&str] = &["exec", "read", "write", "edit", "apply_patch", "process", "*"];
        for tool in BuiltTool::all().filter(|tool| *tool != BuiltTool::WebFetch) {
            check(tool.as_str(), (all, &[]), Verdict::Closed(Why::ForAgents));
        }
        check(FileTool::Read.as_str(), (&[], &[]), Verdict::Closed(Why::ForAgents));
        check("bash", (all, &[]), Verdict::Closed(Why::ForAgents));
    }

    #[test]
    fn what_looks_is_open_and_what_steers_must_be_named() {
        use SessionTool::{Agents, History, List, Send, Spawn, Status, Subagents};
        let open = |tool| Verdict::Open(Callable::Sessions(tool));
        for tool in [List, History, Status, Subagents, Agents] {
            check(tool.as_str(), (&[], &[]), open(tool));
            check(tool.as_str(), (&[], &[tool.as_str()]), Verdict::Closed(Why::Denied));
        }
        for tool in [Send, Spawn] {
            check(tool.as_str(), (&[], &[]), Verdict::Closed(Why::Steers));
            check(tool.as_str(), (&["*"], &[]), Verdict::Closed(Why::Steers));
            check(tool.as_str(), (&[tool.as_str()], &[]), open(tool));
            check(tool.as_str(), (&[tool.as_str()], &["sessions_*"]), Verdict::Closed(Why::Denied));
        }
        check("web_fetch", (&[], &[]), Verdict::Open(Callable::WebFetch));
        check("web_fetch", (&[], &["group:web"]), Verdict::Closed(Why::Denied));
    }

    #[test]
    fn sub_agents_are_shown_and_steered_only_by_whoever_is_let() {
        let open = Verdict::Open(Callable::Sessions(SessionTool::Subagents));
        let closed = Verdict::Closed(Why::Steers);
        let named: &[&str] = &["subagents"];
        for (action, allow, expected) in [
            (None, &[] as &[&str], open),
            (Some("list"), &[], open),
            (Some(" list "), &[], open),
            (Some("kill"), &[], closed),
            (Some("steer"), &[], closed),
            (Some(" Steer"), &["*"], closed),
            (Some(""), &[], closed),
            (Some("kill"), named, open),
            (Some("steer"), named, open),
        ] {
            let found = decide(("subagents", action), DoorLists { allow, deny: &[] });
            assert_eq!(found, expected, "{action:?}");
        }
        let lists = DoorLists { allow: named, deny: named };
        assert_eq!(decide(("subagents", None), lists), Verdict::Closed(Why::Denied));
    }

    #[test]
    fn what_this_build_has_not_stays_absent() {
        for name in ["nosuch", "cron", "gateway", "whatsapp_login", "memory_search", "", "Ｅxec"] {
            check(name, (&[name], &[]), Verdict::Closed(Why::Absent));
        }
    }
}
