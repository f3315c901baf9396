//! Which skills are copied into a private workspace, and under which names.
//!
//! Takes the places that skills come from, what was found there, and what the session may do; gives a
//! [`SkillPlan`]. Of two skills of one name the one from the later place wins.
//!
//! A skill is text that the model reads with the tool `read`: where the tool policy refuses `read`, no
//! skill is copied, because nothing could use it and everything in a sandbox can be leaked. An agent's
//! own list (`agents.list[].skills`, else `agents.defaults.skills`) and `skills.entries.<name>.enabled`
//! take away further ones.

use std::collections::{BTreeMap, BTreeSet};

use crate::config::Config;
use crate::config::locate::{Locations, expand_tilde};
use crate::config::setting::{Layer, Origin, Setting};
use crate::ids::AgentId;
use crate::posix;
use crate::tool_policy::{self, Layers, Tool, Verdict};

/// Where the copies stand in the workspace.
pub const DIRECTORY: &str = "skills";

/// What makes a directory a skill.
pub const SKILL_FILE: &str = "SKILL.md";

/// A larger `SKILL.md` is none.
pub const MAX_SKILL_FILE: u64 = 256_000;

/// Skills of one place beyond this many are left out.
pub const MAX_PER_SOURCE: usize = 200;

/// What one skill may hold.
pub const MAX_SKILL_BYTES: u64 = 64 * 1024 * 1024;
pub const MAX_SKILL_ENTRIES: usize = 5_000;
pub const MAX_DEPTH: usize = 24;

/// Never looked into: not written by people.
pub const PASSED_OVER: &[&str] = &["node_modules"];

/// A place that skills come from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SkillSource {
    /// Whom it belongs to; links up to here are followed, below it none is.
    pub root: String,
    /// Below `root`.
    pub below: String,
    pub kind: SourceKind,
}

/// In rising precedence.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum SourceKind {
    Extra,
    Managed,
    Personal,
    AgentPersonal,
    Workspace,
}

impl SourceKind {
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Extra => "extra",
            Self::Managed => "managed",
            Self::Personal => "personal",
            Self::AgentPersonal => "agent",
            Self::Workspace => "workspace",
        }
    }

    /// Whether no agent's workspace holds it: an agent that writes its own workspace does not choose what is there.
    pub const fn is_of_host(self) -> bool {
        match self {
            Self::Extra | Self::Managed | Self::Personal => true,
            Self::AgentPersonal | Self::Workspace => false,
        }
    }
}

/// Whether the tool `read` may be called, with the words of the tool policy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reading {
    Allowed,
    Refused(String),
}

/// What decides which skills a session gets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SkillPolicy {
    pub reading: Reading,
    /// Only these, by name.
    pub only: Option<Setting<Vec<String>>>,
    /// Switched off, by name.
    pub off: BTreeMap<String, Origin>,
}

/// A skill that was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FoundSkill {
    /// Place in the list of sources.
    pub source: usize,
    /// Name of its directory.
    pub directory: String,
    /// What it calls itself.
    pub name: String,
}

/// One copy to make.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SkillCopy {
    pub skill: FoundSkill,
    /// Below [`DIRECTORY`]: one component.
    pub target: String,
}

/// What is copied, and what is not.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SkillPlan {
    pub copies: Vec<SkillCopy>,
    pub left_out: Vec<(FoundSkill, LeftOut)>,
}

/// Why a skill is not copied.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LeftOut {
    #[error("the session may not read: {0}")]
    NoReading(String),
    #[error("`{}` does not list it", .0.key)]
    NotListed(Origin),
    #[error("`{}` switches it off", .0.key)]
    SwitchedOff(Origin),
    #[error("a skill of the same name from a nearer place is used")]
    Shadowed,
    #[error("its name cannot be used for a directory")]
    BadName,
}

impl SkillPolicy {
    /// Reads the lists of an agent and asks the tool policy about `read`.
    pub fn resolve(config: &Config, agent: &AgentId, layers: &Layers) -> Self {
        let reading = match tool_policy::decide(layers, &Tool::core("read")) {
            Verdict::Allowed(_) => Reading::Allowed,
            Verdict::Blocked(block) => Reading::Refused(block.to_string()),
        };
        let own = config.agent(agent).and_then(|entry| entry.get("skills"));
        let defaults = config.at(&["agents", "defaults", "skills"]);
        let lists = [(Layer::Agent, own), (Layer::Defaults, defaults)];
        let only = lists.into_iter().find_map(|(layer, at)| {
            let at = at?;
            Some(Setting::new(at.strings()?, Origin::written(layer, &at)))
        });
        let entries = config.at(&["skills", "entries"]).map(|at| at.members()).unwrap_or_default();
        let off = entries.into_iter().filter_map(|(name, entry)| {
            let switch = entry.get("enabled")?;
            let origin = Origin::written(Layer::Defaults, &switch);
            (switch.node.as_bool() == Some(false)).then(|| (name.to_owned(), origin))
        });
        Self { reading, only, off: off.collect() }
    }
}

/// The places that an agent's skills come from, the weakest first.
pub fn sources(config: &Config, locations: &Locations, agent_workspace: &str) -> Vec<SkillSource> {
    let source =
        |root: String, below: &str, kind| SkillSource { root, below: below.to_owned(), kind };
    let extra = config.at(&["skills", "load", "extraDirs"]).and_then(|at| at.strings());
    let mut sources: Vec<SkillSource> = extra
        .unwrap_or_default()
        .iter()
        .map(|text| posix::resolve(&locations.home, &expand_tilde(text.trim(), &locations.home)))
        .map(|root| source(root, "", SourceKind::Extra))
        .collect();
    sources.extend([
        source(locations.state_dir.clone(), "skills", SourceKind::Managed),
        source(locations.home.clone(), ".agents/skills", SourceKind::Personal),
        source(agent_workspace.to_owned(), ".agents/skills", SourceKind::AgentPersonal),
        source(agent_workspace.to_owned(), "skills", SourceKind::Workspace),
    ]);
    sources
}

/// Decides about one skill, whatever else there is.
pub fn decide(policy: &SkillPolicy, skill: &FoundSkill) -> Result<(), LeftOut> {
    if let Reading::Refused(why) = &policy.reading {
        return Err(LeftOut::NoReading(why.clone()));
    }
    if let Some(origin) = policy.off.get(&skill.name) {
        return Err(LeftOut::SwitchedOff(origin.clone()));
    }
    match &policy.only {
        Some(only) if !only.value.contains(&skill.name) => {
            Err(LeftOut::NotListed(only.origin.clone()))
        }
        Some(_) | None if !is_plain_name(&skill.directory) => Err(LeftOut::BadName),
        Some(_) | None => Ok(()),
    }
}

/// Plans the copies: one for each name, `-2`, `-3`, … where two names share a directory's name.
#[must_use]
pub fn plan(policy: &SkillPolicy, found: Vec<FoundSkill>) -> SkillPlan {
    let mut plan = SkillPlan::default();
    let mut chosen: BTreeMap<String, FoundSkill> = BTreeMap::new();
    for skill in found {
        if let Err(why) = decide(policy, &skill) {
            plan.left_out.push((skill, why));
            continue;
        }
        let nearer = chosen.get(&skill.name).is_none_or(|known| known.source < skill.source);
        let shadowed = if nearer { chosen.insert(skill.name.clone(), skill) } else { Some(skill) };
        plan.left_out.extend(shadowed.map(|skill| (skill, LeftOut::Shadowed)));
    }
    let mut taken = BTreeSet::new();
    for skill in chosen.into_values() {
        let numbered = (2..).map(|number: u32| format!("{}-{number}", skill.directory));
        let mut names = std::iter::once(skill.directory.clone()).chain(numbered);
        let free = names.find(|name| !taken.contains(name));
        let target = free.unwrap_or_else(|| skill.directory.clone());
        taken.insert(target.clone());
        plan.copies.push(SkillCopy { skill, target });
    }
    plan
}

/// What a skill calls itself: `name:` in the front matter of its file, else its directory's name.
pub fn name_in(text: &str, directory: &str) -> String {
    let mut lines = text.lines();
    let named = (lines.next().map(str::trim_end) == Some("---"))
        .then(|| {
            let front = lines.take_while(|line| line.trim_end() != "---").take(64);
            front.into_iter().find_map(|line| line.strip_prefix("name:"))
        })
        .flatten();
    let named = named.map(|name| name.trim().trim_matches(['"', '\'']).trim());
    named.filter(|name| !name.is_empty()).unwrap_or(directory).to_owned()
}

/// Says whether a directory of this name is looked at: hidden ones and those nobody writes are not.
pub fn is_looked_at(name: &str) -> bool {
    !name.starts_with('.') && !PASSED_OVER.contains(&name)
}

fn is_plain_name(name: &str) -> bool {
    let is_control = |c: char| c.is_control();
    !name.is_empty()
        && name.len() <= 200
        && !name.starts_with(['.', '-'])
        && !name.contains('/')
        && !name.contains(is_control)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn skill(source: usize, directory: &str, name: &str) -> FoundSkill {
        FoundSkill { source, directory: directory.to_owned(), name: name.to_owned() }
    }

    fn open() -> SkillPolicy {
        SkillPolicy { reading: Reading::Allowed, only: None, off: BTreeMap::new() }
    }

    #[track_caller]
    fn check(policy: &SkillPolicy, found: &[FoundSkill], copies: &[&str], left_out: &[&str]) {
        let plan = plan(policy, found.to_vec());
        let shown: Vec<String> = plan
            .copies
            .iter()
            .map(|copy| format!("{} from {}: {}", copy.skill.name, copy.skill.source, copy.target))
            .collect();
        assert_eq!(shown, copies);
        let shown: Vec<String> =
            plan.left_out.iter().map(|(skill, why)| format!("{}: {why}", skill.name)).collect();
        assert_eq!(shown, left_out);
    }

    #[test]
    fn the_nearest_place_wins_and_equal_directories_are_numbered() {
        let found = [skill(0, "git", "git"), skill(1, "git", "hub"), skill(2, "git2", "git")];
        let shadowed = "git: a skill of the same name from a nearer place is used";
        check(&open(), &found, &["git from 2: git2", "hub from 1: git"], &[shadowed]);
        let found = [skill(2, "a", "x"), skill(1, "b", "x")];
        check(&open(), &found, &["x from 2: a"], &[&shadowed.replace("git", "x")]);
        let found = [skill(0, "d", "a"), skill(0, "d", "b"), skill(0, "d", "c")];
        check(&open(), &found, &["a from 0: d", "b from 0: d-2", "c from 0: d-3"], &[]);
    }

    #[test]
    fn without_reading_no_skill_enters() {
        let policy = SkillPolicy { reading: Reading::Refused("denied".to_owned()), ..open() };
        let found = [skill(0, "git", "git")];
        check(&policy, &found, &[], &["git: the session may not read: denied"]);
    }

    #[test]
    fn lists_and_switches_take_away() {
        let origin = |key: &str| Origin::derived(key);
        let policy = SkillPolicy {
            only: Some(Setting::new(vec!["a".to_owned(), "b".to_owned()], origin("skills"))),
            off: BTreeMap::from([("b".to_owned(), origin("skills.entries.b.enabled"))]),
            ..open()
        };
        let found = [skill(0, "a", "a"), skill(0, "b", "b"), skill(0, "c", "c")];
        let left_out =
            ["b: `skills.entries.b.enabled` switches it off", "c: `skills` does not list it"];
        check(&policy, &found, &["a from 0: a"], &left_out);
        let bad = "x: its name cannot be used for a directory";
        check(&open(), &[skill(0, ".x", "x"), skill(0, "-x", "x")], &[], &[bad, bad]);
    }

    #[test]
    fn a_shadowed_skill_that_is_refused_does_not_come_back() {
        // The nearer one is left out by name, and so is the farther one of the same name.
        let policy =
            SkillPolicy { off: BTreeMap::from([("a".to_owned(), Origin::derived("k"))]), ..open() };
        let off = "a: `k` switches it off";
        check(&policy, &[skill(0, "a", "a"), skill(1, "a", "a")], &[], &[off, off]);
    }

    #[test]
    fn a_skill_names_itself_in_its_front_matter() {
        for (text, expected) in [
            ("---\nname: GitHub\ndescription: x\n---\nname: no", "GitHub"),
            ("---\nname: 'quoted name'\n---", "quoted name"),
            ("---\r\nname: crlf\r\n---\r\n", "crlf"),
            ("---\ndescription: x\n---\nname: body", "dir"),
            ("# title\nname: body", "dir"),
            ("---\nname:   \n---", "dir"),
            ("", "dir"),
        ] {
            assert_eq!(name_in(text, "dir"), expected, "{text:?}");
        }
    }
}
