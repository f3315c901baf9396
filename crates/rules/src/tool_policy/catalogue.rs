//! The tools we know, as data: their groups and the profiles that hold them.
//!
//! The order of the rows is the order in which groups and profiles list their tools.

use Profile::{Coding, Messaging, Minimal};
use ToolSection::{
    Agents, Automation, Fs, Media, Memory, Messaging as MessagingSection, Nodes, Runtime, Sessions,
    Ui, Web,
};

/// The part of the catalogue a tool belongs to; `group:<section>` names all of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ToolSection {
    Fs,
    Runtime,
    Web,
    Memory,
    Sessions,
    Ui,
    Messaging,
    Automation,
    Nodes,
    Agents,
    Media,
}

/// `tools.profile`: a ready-made allow list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Profile {
    Minimal,
    Coding,
    Messaging,
    /// No list at all: everything is allowed.
    Full,
}

/// Whether `group:openclaw` names a tool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OpenclawGroup {
    /// The coding tools: denying the group leaves them, surprising as that is.
    Outside,
    Inside,
}

/// One row of the catalogue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CatalogueTool {
    pub name: &'static str,
    pub section: ToolSection,
    pub profiles: &'static [Profile],
    pub openclaw: OpenclawGroup,
}

const fn coding_tool(name: &'static str, section: ToolSection) -> CatalogueTool {
    CatalogueTool { name, section, profiles: &[Coding], openclaw: OpenclawGroup::Outside }
}

const fn tool(
    name: &'static str,
    section: ToolSection,
    profiles: &'static [Profile],
) -> CatalogueTool {
    CatalogueTool { name, section, profiles, openclaw: OpenclawGroup::Inside }
}

/// Every tool of the core.
pub const CATALOGUE: &[CatalogueTool] = &[
    coding_tool("read", Fs),
    coding_tool("write", Fs),
    coding_tool("edit", Fs),
    coding_tool("apply_patch", Fs),
    coding_tool("exec", Runtime),
    coding_tool("process", Runtime),
    tool("code_execution", Runtime, &[Coding]),
    tool("web_search", Web, &[Coding]),
    tool("web_fetch", Web, &[Coding]),
    tool("x_search", Web, &[Coding]),
    tool("memory_search", Memory, &[Coding]),
    tool("memory_get", Memory, &[Coding]),
    tool("sessions_list", Sessions, &[Coding, Messaging]),
    tool("sessions_history", Sessions, &[Coding, Messaging]),
    tool("sessions_send", Sessions, &[Coding, Messaging]),
    tool("sessions_spawn", Sessions, &[Coding]),
    tool("sessions_yield", Sessions, &[Coding]),
    tool("subagents", Sessions, &[Coding]),
    tool("session_status", Sessions, &[Minimal, Coding, Messaging]),
    tool("browser", Ui, &[]),
    tool("canvas", Ui, &[]),
    tool("message", MessagingSection, &[Messaging]),
    tool("cron", Automation, &[Coding]),
    tool("gateway", Automation, &[]),
    tool("nodes", Nodes, &[]),
    tool("agents_list", Agents, &[]),
    tool("image", Media, &[Coding]),
    tool("image_generate", Media, &[Coding]),
    tool("tts", Media, &[]),
];

/// Chat channels that come with the product; each may bring a tool of the same name.
pub const CHANNELS: &[&str] = &[
    "telegram",
    "whatsapp",
    "discord",
    "irc",
    "googlechat",
    "slack",
    "signal",
    "imessage",
    "line",
];

/// Names that exist at run time without a row of their own.
const RUNTIME_NAMES: &[&str] = &["whatsapp_login", "pdf"];

const SECTIONS: &[ToolSection] =
    &[Fs, Runtime, Web, Memory, Sessions, Ui, MessagingSection, Automation, Nodes, Agents, Media];

/// What every group name starts with.
pub(super) const GROUP_PREFIX: &str = "group:";
/// The group of all tools that plugins bring; known only where the tools are.
pub(super) const PLUGIN_GROUP: &str = "group:plugins";
const OPENCLAW_GROUP: &str = "group:openclaw";

impl ToolSection {
    /// The group of this section's tools.
    pub const fn group_name(self) -> &'static str {
        match self {
            Self::Fs => "group:fs",
            Self::Runtime => "group:runtime",
            Self::Web => "group:web",
            Self::Memory => "group:memory",
            Self::Sessions => "group:sessions",
            Self::Ui => "group:ui",
            Self::Messaging => "group:messaging",
            Self::Automation => "group:automation",
            Self::Nodes => "group:nodes",
            Self::Agents => "group:agents",
            Self::Media => "group:media",
        }
    }
}

impl Profile {
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Minimal => "minimal",
            Self::Coding => "coding",
            Self::Messaging => "messaging",
            Self::Full => "full",
        }
    }

    /// Exact spelling only.
    pub fn parse(text: &str) -> Option<Self> {
        [Self::Minimal, Self::Coding, Self::Messaging, Self::Full]
            .into_iter()
            .find(|profile| profile.as_str() == text)
    }

    /// The tools the profile allows; `None` means it restricts nothing.
    pub fn tools(self) -> Option<Vec<&'static str>> {
        match self {
            Self::Full => None,
            Self::Minimal | Self::Coding | Self::Messaging => {
                let held = CATALOGUE.iter().filter(|tool| tool.profiles.contains(&self));
                Some(held.map(|tool| tool.name).collect())
            }
        }
    }

    /// The narrowest profile that holds `name`.
    pub fn narrowest_with(name: &str) -> Self {
        let row = find(name);
        [Self::Minimal, Self::Messaging, Self::Coding]
            .into_iter()
            .find(|profile| row.is_some_and(|tool| tool.profiles.contains(profile)))
            .unwrap_or(Self::Full)
    }
}

/// The row of a tool, by its normal name.
pub fn find(name: &str) -> Option<&'static CatalogueTool> {
    CATALOGUE.iter().find(|tool| tool.name == name)
}

/// The tools of a group, by its normal name; `None` for what is no group or only known at run time.
pub fn group(name: &str) -> Option<Vec<&'static str>> {
    let held = |wanted: &dyn Fn(&CatalogueTool) -> bool| {
        CATALOGUE.iter().filter(|tool| wanted(tool)).map(|tool| tool.name).collect()
    };
    if name == OPENCLAW_GROUP {
        return Some(held(&|tool| tool.openclaw == OpenclawGroup::Inside));
    }
    let section = SECTIONS.iter().find(|section| section.group_name() == name)?;
    Some(held(&|tool| tool.section == *section))
}

/// Every group name.
pub fn group_names() -> impl Iterator<Item = &'static str> {
    SECTIONS.iter().map(|section| section.group_name()).chain([OPENCLAW_GROUP, PLUGIN_GROUP])
}

/// Every tool name that may stand in a list without being a mistake.
pub fn tool_names() -> impl Iterator<Item = &'static str> {
    let rows = CATALOGUE.iter().map(|tool| tool.name);
    rows.chain(RUNTIME_NAMES.iter().copied()).chain(CHANNELS.iter().copied())
}
