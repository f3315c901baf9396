//! Answers the `exec-allowlist` rows: commands through the analyser, and its parts by themselves.
//!
//! Ours says more than a row holds, so two things are cut to the row's shape: the reference looks at
//! no segment after the first pipeline that is not admitted, and at no verdict after the first miss
//! in a pipeline. Its plan is a text; ours is shown as one.

mod decision;
mod files;

use std::collections::BTreeMap;

use anyhow::{Context as _, Result};
use clawpen_rules::approval::{Coverage, policy_asks};
use clawpen_rules::command::{
    Admission, Analysis, Entry, Invocation, Pattern, Profile, Program, Request, SafeBins, Segment,
    SegmentVerdict, SkillProgram, Trust, Verdict, analyse, decide, detect_inline_code,
    detect_obfuscation,
};
use clawpen_rules::exec_host::{Ask, Security};
use serde_json::{Value, json};

use super::world::World;
use super::{Answer, Row};
use files::FixtureFiles;

/// Answers one row.
pub fn answer(row: &Row, world: &World) -> Result<Answer> {
    let input = &row.input;
    Ok(Answer::Given(match row.category() {
        "approval" | "combine" | "fallback" | "gateway-decision" => {
            decision::answer(row.category(), input, world)?
        }
        "glob" => {
            let home = Some(world.get("HOME"));
            json!({"matches": Pattern::glob_fits(text(input, "pattern"), home, text(input, "target"))})
        }
        "inline-eval" => {
            let hit = detect_inline_code(&texts(&input["argv"]));
            json!({"hit": hit.map(|hit| json!({
                "executable": hit.executable,
                "normalizedExecutable": hit.name,
                "flag": hit.flag,
            }))})
        }
        "obfuscation" => {
            let found = detect_obfuscation(text(input, "command"));
            json!({
                "detected": !found.is_empty(),
                "matchedPatterns": found.iter().map(|shape| shape.id).collect::<Vec<_>>(),
                "reasons": found.iter().map(|shape| shape.what).collect::<Vec<_>>(),
            })
        }
        _ => command(input, world)?,
    }))
}

fn command(input: &Value, world: &World) -> Result<Value> {
    let files = FixtureFiles::new(world.fixture());
    let home = Some(world.get("HOME"));
    let environment = BTreeMap::from([("PATH".to_owned(), text(input, "path").to_owned())]);
    let request = Request {
        text: text(input, "command"),
        cwd: text(input, "cwd"),
        home,
        environment: &environment,
    };
    let entries = entries(&input["allowlist"], home);
    let safe_bins = safe_bins(input);
    let skills = skills(input);
    let trust = Trust { entries: &entries, safe_bins: &safe_bins, skills: &skills };
    let analysis = match analyse(&request, &files) {
        Ok(analysis) => analysis,
        Err(clawpen_rules::command::NotAnalysable::LineContinuation) => {
            // The reference notices it before it looks for reasons.
            return Ok(not_analysed(Value::Null));
        }
        Err(why) => return Ok(not_analysed(json!(why.to_string()))),
    };
    let verdict = decide(&analysis, &trust, &files);
    let coverage = if verdict.is_satisfied() { Coverage::Covered } else { Coverage::Missed };
    let seen = Seen::new(&analysis, &verdict);
    let mut answer = json!({
        "analysisOk": true,
        "reason": null,
        "allowlistSatisfied": verdict.is_satisfied(),
        "matchedPatterns": seen.patterns(&entries)?,
        "segmentSatisfiedBy": seen.verdicts.iter().map(|verdict| admitted_by(verdict)).collect::<Vec<_>>(),
        "segments": seen.segments.iter().map(|segment| shape(segment)).collect::<Vec<_>>(),
        "allowAlwaysPatterns": remembered(&analysis, &seen, &files),
        "requiresApproval": requires_approval(coverage),
    });
    match analysis.freeze(&files) {
        _ if seen.is_cut => answer["enforcedError"] = json!("more segments than verdicts"),
        Ok(plan) => answer["enforcedCommand"] = json!(plan.command_line()),
        Err(why) => answer["enforcedError"] = json!(why.to_string()),
    }
    Ok(answer)
}

fn not_analysed(reason: Value) -> Value {
    json!({
        "analysisOk": false,
        "reason": reason,
        "allowlistSatisfied": false,
        "matchedPatterns": [],
        "segmentSatisfiedBy": [],
        "segments": [],
        "requiresApproval": requires_approval(Coverage::NotAnalysable),
    })
}

/// As much of an answer as the reference looks at.
struct Seen<'a> {
    segments: Vec<&'a Segment>,
    verdicts: Vec<&'a SegmentVerdict>,
    /// Pipelines are left out.
    is_cut: bool,
}

impl<'a> Seen<'a> {
    fn new(analysis: &'a Analysis, verdict: &'a Verdict) -> Self {
        let mut seen = Self { segments: Vec::new(), verdicts: Vec::new(), is_cut: false };
        let count = analysis.pipelines().len();
        for (index, (pipeline, verdicts)) in
            analysis.pipelines().iter().zip(&verdict.pipelines).enumerate()
        {
            seen.segments.extend(&pipeline.segments);
            for verdict in verdicts {
                seen.verdicts.push(verdict);
                if let SegmentVerdict::Missed(_) = verdict {
                    seen.is_cut = index + 1 < count;
                    return seen;
                }
            }
        }
        seen
    }

    fn patterns(&self, entries: &[Entry]) -> Result<Vec<String>> {
        let indices = self.verdicts.iter().filter_map(|verdict| match verdict {
            SegmentVerdict::Admitted(Admission::Entry(index)) => Some(*index),
            SegmentVerdict::Admitted(_) | SegmentVerdict::Missed(_) => None,
        });
        let pattern = |index: usize| entries.get(index).map(|e| e.pattern.as_str().to_owned());
        indices.map(|index| pattern(index).context("an entry that is not there")).collect()
    }
}

fn admitted_by(verdict: &SegmentVerdict) -> Value {
    match verdict {
        SegmentVerdict::Admitted(Admission::Entry(_)) => json!("allowlist"),
        SegmentVerdict::Admitted(Admission::SafeBin) => json!("safeBins"),
        SegmentVerdict::Admitted(Admission::Skill) => json!("skills"),
        SegmentVerdict::Missed(_) => Value::Null,
    }
}

fn remembered(analysis: &Analysis, seen: &Seen<'_>, files: &FixtureFiles) -> Vec<String> {
    let mut paths: Vec<String> = Vec::new();
    for segment in &seen.segments {
        let entry = analysis.remember_segment(segment, files);
        paths.extend(entry.map(|entry| entry.path).filter(|path| !paths.contains(path)));
    }
    paths
}

fn shape(segment: &Segment) -> Value {
    let (argv, wrappers, blocked, program, policy) = match &segment.invocation {
        Invocation::Runs(runs) => {
            let wrappers: Vec<&str> = runs.wrappers.iter().map(|wrapper| wrapper.name).collect();
            (&runs.argv, wrappers, None, &runs.program, runs.policy_program())
        }
        Invocation::Blocked(blocked) => {
            (&blocked.argv, vec![], Some(blocked.wrapper), &blocked.program, &blocked.program)
        }
    };
    json!({
        "raw": segment.raw,
        "argv": segment.argv,
        "effectiveArgv": argv,
        "wrapperChain": wrappers,
        "policyBlocked": blocked.is_some(),
        "blockedWrapper": blocked,
        "executable": executable(program),
        "policyPath": policy.found.as_ref().map(|found| &found.path),
    })
}

fn executable(program: &Program) -> Value {
    let found = program.found.as_ref();
    json!({
        "raw": program.word,
        "path": found.map(|found| &found.path),
        "realPath": found.map(|found| &found.facts.real_path),
        "name": found.map_or(program.word.as_str(), |found| found.name()),
    })
}

fn requires_approval(coverage: Coverage) -> Value {
    let mut table = serde_json::Map::new();
    for ask in Ask::ALL {
        for security in Security::ALL {
            table.insert(format!("{ask}/{security}"), policy_asks(security, ask, coverage).into());
        }
    }
    Value::Object(table)
}

fn entries(list: &Value, home: Option<&str>) -> Vec<Entry> {
    let patterns = list.as_array().into_iter().flatten();
    let patterns = patterns.map(|entry| entry["pattern"].as_str().unwrap_or_default());
    let entry = |text| Entry { pattern: Pattern::compile(text, home), binding: None, pin: None };
    patterns.map(entry).collect()
}

fn safe_bins(input: &Value) -> SafeBins {
    let names = texts(&input["safeBins"]);
    let directories = texts(&input["trustedSafeBinDirs"]);
    let safe_bins =
        SafeBins::new(names.iter().map(String::as_str), directories.iter().map(String::as_str));
    let profiles = input["safeBinProfiles"].as_object().into_iter().flatten();
    profiles.fold(safe_bins, |safe_bins, (name, profile)| {
        let number = |key: &str| profile[key].as_u64().and_then(|n| usize::try_from(n).ok());
        let positional = (number("minPositional").unwrap_or(0), number("maxPositional"));
        let values = texts(&profile["allowedValueFlags"]);
        let denied = texts(&profile["deniedFlags"]);
        let borrow = |words: &[String]| -> Vec<String> { words.to_vec() };
        let (values, denied) = (borrow(&values), borrow(&denied));
        let values: Vec<&str> = values.iter().map(String::as_str).collect();
        let denied: Vec<&str> = denied.iter().map(String::as_str).collect();
        safe_bins.with_profile(name, Profile::new(positional, &values, &denied))
    })
}

fn skills(input: &Value) -> Vec<SkillProgram> {
    if input["autoAllowSkills"].as_bool() != Some(true) {
        return Vec::new();
    }
    let skills = input["skillBins"].as_array().into_iter().flatten();
    let skill = |skill: &Value| SkillProgram {
        name: text(skill, "name").to_owned(),
        path: text(skill, "resolvedPath").to_owned(),
    };
    skills.map(skill).collect()
}

fn text<'a>(value: &'a Value, key: &str) -> &'a str {
    value[key].as_str().unwrap_or_default()
}

fn texts(value: &Value) -> Vec<String> {
    let items = value.as_array().into_iter().flatten();
    items.map(|item| item.as_str().unwrap_or_default().to_owned()).collect()
}
