//! The settings of exec that say what is trusted besides the allowlist: safe filters and their
//! grammars, where they may lie, and whether code in words is always asked about.
//!
//! The agent's value counts before the global one; grammars of both are joined, the agent's first.
//! A grammar that cannot be read admits nothing.

use super::InlineRule;
use crate::command::{DEFAULT_DIRECTORIES, DEFAULT_NAMES, Profile, SafeBins};
use crate::config::Config;
use crate::config::tree::{At, Node, Value};
use crate::ids::AgentId;

/// What `tools.exec` says about trust.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExecSettings {
    pub safe_bins: SafeBins,
    pub inline: InlineRule,
    /// Directories put before `PATH`.
    pub path_prepend: Vec<String>,
}

impl ExecSettings {
    /// The settings of one agent.
    pub fn resolve(config: &Config, agent: &AgentId) -> Self {
        let own = config.agent(agent).and_then(|entry| entry.path(&["tools", "exec"]));
        let blocks = [own, config.at(&["tools", "exec"])];
        let names = list(&blocks, "safeBins");
        let directories = list(&blocks, "safeBinTrustedDirs").unwrap_or_default();
        let default_names = || DEFAULT_NAMES.iter().map(|name| (*name).to_owned()).collect();
        let names: Vec<String> = names.unwrap_or_else(default_names);
        let directories =
            DEFAULT_DIRECTORIES.iter().copied().chain(directories.iter().map(String::as_str));
        let mut safe_bins = SafeBins::new(names.iter().map(String::as_str), directories);
        for block in blocks.iter().rev().flatten() {
            let Some(profiles) = block.get("safeBinProfiles") else { continue };
            for (name, written) in profiles.members() {
                safe_bins = safe_bins.with_profile(name, profile(&written));
            }
        }
        Self {
            safe_bins,
            inline: inline_rule(&blocks),
            path_prepend: list(&blocks, "pathPrepend").unwrap_or_default(),
        }
    }
}

/// The nearest list of texts.
fn list(blocks: &[Option<At<'_>>], key: &str) -> Option<Vec<String>> {
    blocks.iter().flatten().find_map(|block| block.get(key)?.strings())
}

/// Only a plain `false` (or silence) leaves code in words to the policy.
fn inline_rule(blocks: &[Option<At<'_>>]) -> InlineRule {
    let written = blocks.iter().flatten().find_map(|block| {
        let at = block.get("strictInlineEval")?;
        (at.node.value != Value::Null).then_some(at)
    });
    match written.map(|at| &at.node.value) {
        None | Some(Value::Bool(false)) => InlineRule::AsPolicySays,
        Some(
            Value::Bool(true)
            | Value::Null
            | Value::Number(_)
            | Value::String(_)
            | Value::Array(_)
            | Value::Object(_),
        ) => InlineRule::AlwaysAsk,
    }
}

/// A grammar as written; one that admits nothing if any of it cannot be read.
fn profile(written: &At<'_>) -> Profile {
    read_profile(written).unwrap_or_else(|| Profile::new((1, Some(0)), &[], &[]))
}

fn read_profile(written: &At<'_>) -> Option<Profile> {
    const KNOWN: [&str; 4] = ["minPositional", "maxPositional", "allowedValueFlags", "deniedFlags"];
    if !written
        .node
        .as_object()?
        .members()
        .iter()
        .all(|member| KNOWN.contains(&member.key.as_str()))
    {
        return None;
    }
    let least = match written.node.get("minPositional") {
        None => 0,
        Some(node) => count(node)?,
    };
    let most = match written.node.get("maxPositional") {
        None => None,
        Some(node) => Some(count(node)?),
    };
    let flags = |key: &str| match written.get(key) {
        None => Some(Vec::new()),
        Some(at) => {
            at.strings().filter(|flags| Some(flags.len()) == at.node.as_array().map(<[Node]>::len))
        }
    };
    let (values, denied) = (flags("allowedValueFlags")?, flags("deniedFlags")?);
    let values: Vec<&str> = values.iter().map(String::as_str).collect();
    let denied: Vec<&str> = denied.iter().map(String::as_str).collect();
    Some(Profile::new((least, most), &values, &denied))
}

/// A small whole number.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "the number is checked to be whole and between 0 and 1000"
)]
fn count(node: &Node) -> Option<usize> {
    let number = node.as_number()?;
    let is_count = number.fract() == 0.0 && (0.0..=1000.0).contains(&number);
    is_count.then_some(number as usize)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::json5;
    use crate::config::tree::FileId;

    fn settings(text: &str) -> ExecSettings {
        let config = Config::from_tree(json5::parse(text, FileId(0)).unwrap().root, Vec::new());
        ExecSettings::resolve(&config, &AgentId::main())
    }

    #[test]
    fn the_agents_list_replaces_the_global_one_and_directories_only_add() {
        assert_eq!(settings("{}").safe_bins, SafeBins::default());
        let own = settings(
            "{tools: {exec: {safeBins: ['sort'], safeBinTrustedDirs: ['/opt/bin']}}, \
             agents: {list: [{id: 'main', tools: {exec: {safeBins: ['wc']}}}]}}",
        );
        assert_eq!(own.safe_bins, SafeBins::new(["wc"], ["/bin", "/usr/bin", "/opt/bin"]));
        let none = settings("{tools: {exec: {safeBins: []}}}");
        assert_eq!(none.safe_bins, SafeBins::new([], ["/bin", "/usr/bin"]));
    }

    #[test]
    fn b30_a_grammar_that_cannot_be_read_admits_nothing() {
        let nothing = Profile::new((1, Some(0)), &[], &[]);
        for written in ["'x'", "{maxPositional: 1.5}", "{deniedFlags: [1]}", "{allowFlags: ['-x']}"]
        {
            let text = format!("{{tools: {{exec: {{safeBinProfiles: {{cut: {written}}}}}}}}}");
            let expected = SafeBins::default().with_profile("cut", nothing.clone());
            assert_eq!(settings(&text).safe_bins, expected, "{written}");
        }
        let good = "{tools: {exec: {safeBinProfiles: {cut: {maxPositional: 0, allowedValueFlags: ['-f']}}}}}";
        let expected =
            SafeBins::default().with_profile("cut", Profile::new((0, Some(0)), &["-f"], &[]));
        assert_eq!(settings(good).safe_bins, expected);
    }

    #[test]
    fn b30_anything_but_a_plain_false_asks_about_code() {
        for (written, expected) in [
            ("false", InlineRule::AsPolicySays),
            ("null", InlineRule::AsPolicySays),
            ("true", InlineRule::AlwaysAsk),
            ("'no'", InlineRule::AlwaysAsk),
        ] {
            let text = format!("{{tools: {{exec: {{strictInlineEval: {written}}}}}}}");
            assert_eq!(settings(&text).inline, expected, "{written}");
        }
    }
}
