//! Works out the answer we mean to give to a command row, from the recorded one.
//!
//! Starts from the recorded segments, changes what we read differently, and puts the answer together
//! again. Nothing of the product is used.

use serde_json::{Value, json};

use super::carriers::{Role, role};
use super::places::{self, File};
use super::safe_bins;
use super::text::{self, name, quote};

/// One recorded segment, and what we make of it.
#[derive(Debug, Clone)]
struct Segment {
    raw: String,
    argv: Vec<String>,
    effective: Vec<String>,
    chain: Vec<String>,
    blocked: Option<String>,
    /// What admitted it, if that was recorded.
    by: Option<String>,
}

/// The answer to a text that we do not analyse.
pub(super) fn refused() -> Value {
    json!({
        "analysisOk": false,
        "reason": "not analysed",
        "allowlistSatisfied": false,
        "matchedPatterns": [],
        "segmentSatisfiedBy": [],
        "segments": [],
        "requiresApproval": approval(Covered::No),
    })
}

/// The answer we mean to give to a row that the reference analyses.
pub(super) fn ours(input: &Value, expected: Value) -> Value {
    if expected["analysisOk"] != true {
        return expected;
    }
    let command = input["command"].as_str().unwrap_or_default();
    let counts = text::pipelines(command);
    let mut segments: Vec<Segment> = Vec::new();
    for (index, recorded) in expected["segments"].as_array().into_iter().flatten().enumerate() {
        let mut segment = Segment::read(recorded, expected["segmentSatisfiedBy"][index].as_str());
        segment.reread();
        segment.block();
        if segment.argv.first().is_none_or(String::is_empty) {
            return refused();
        }
        segments.push(segment);
    }
    // Segments that the reference did not look at.
    for (raw, words) in super::segments(input).into_iter().skip(segments.len()) {
        if words.first().is_none_or(String::is_empty) {
            return refused();
        }
        segments.push(Segment::unwrapped(raw, words));
    }
    Answer { input, segments }.put_together(&counts)
}

impl Segment {
    fn read(value: &Value, by: Option<&str>) -> Self {
        let texts = |key: &str| -> Vec<String> {
            let items = value[key].as_array().into_iter().flatten();
            items.filter_map(Value::as_str).map(str::to_owned).collect()
        };
        Self {
            raw: value["raw"].as_str().unwrap_or_default().to_owned(),
            argv: texts("argv"),
            effective: texts("effectiveArgv"),
            chain: texts("wrapperChain"),
            blocked: value["blockedWrapper"].as_str().map(str::to_owned),
            by: by.map(str::to_owned),
        }
    }

    /// A segment without its wrappers, as far as their options are the usual ones.
    fn unwrapped(raw: String, words: Vec<String>) -> Self {
        let mut effective = words.as_slice();
        let mut chain = Vec::new();
        while let Some(wrapper) = effective.first().map(|word| name(word))
            && let Some(start) = wrapped(&wrapper, effective)
        {
            effective = effective.get(start..).unwrap_or_default();
            chain.push(wrapper);
        }
        let effective = effective.to_vec();
        Self { raw, argv: words, effective, chain, blocked: None, by: None }
    }

    /// Keeps empty words; takes here-documents out, with their delimiters.
    fn reread(&mut self) {
        let wrapped = self.argv.len() - self.effective.len();
        let mut words = text::words(&self.raw).into_iter();
        self.argv.clear();
        while let Some(word) = words.next() {
            match word.split_once("<<") {
                Some((before, delimiter))
                    if !self.raw.contains("'<<") && !self.raw.contains("\"<<") =>
                {
                    self.argv.extend((!before.is_empty()).then(|| before.to_owned()));
                    if delimiter.is_empty() || delimiter == "-" {
                        words.next();
                    }
                }
                _ => self.argv.push(word),
            }
        }
        self.effective = self.argv.get(wrapped..).unwrap_or_default().to_vec();
    }

    /// `env -` empties the environment, `env a=b` sets a variable whatever the name, `time -o` writes
    /// a file, and a wrapper around nothing wraps nothing.
    fn block(&mut self) {
        let layers = self.layers();
        let program = self.effective.first().map_or("", String::as_str);
        let last = layers.len().saturating_sub(1);
        if layers.is_empty() {
            return;
        }
        let refused = layers.iter().enumerate().position(|(index, words)| {
            let options = words.get(1..).unwrap_or_default();
            if index == last && program.is_empty() {
                return true;
            }
            let sets = index == last && (program.starts_with('-') || program.contains('='));
            match words.first().map(|word| name(word)).as_deref() {
                Some("env") => sets || options.iter().any(|word| word == "-"),
                Some("time") => options.iter().any(|word| {
                    ["-o", "-a", "--output", "--append"].iter().any(|flag| word.starts_with(flag))
                }),
                _ => false,
            }
        });
        if let Some(index) = refused {
            let before: usize = layers.iter().take(index).map(Vec::len).sum();
            self.blocked = self.chain.get(index).cloned();
            self.effective = self.argv.get(before..).unwrap_or_default().to_vec();
            self.chain.clear();
        }
    }

    /// The words of each wrapper.
    fn layers(&self) -> Vec<Vec<String>> {
        let own = self.argv.len() - self.effective.len();
        let mut layers: Vec<Vec<String>> = Vec::new();
        for word in self.argv.get(..own).unwrap_or_default() {
            if self.chain.get(layers.len()).is_some_and(|wrapper| *wrapper == name(word)) {
                layers.push(Vec::new());
            }
            if let Some(layer) = layers.last_mut() {
                layer.push(word.clone());
            }
        }
        layers
    }

    fn multiplexer(&self) -> Option<&String> {
        self.chain.last().filter(|wrapper| ["busybox", "toybox"].contains(&wrapper.as_str()))
    }
}

/// Where the command of a wrapper starts, if it has only options that everybody uses.
fn wrapped(wrapper: &str, words: &[String]) -> Option<usize> {
    let second = words.get(1).map_or("", String::as_str);
    let start = match (wrapper, second) {
        ("nice", "-n") | ("stdbuf", "-o" | "-i" | "-e") => 3,
        ("env" | "nice" | "nohup" | "time", word) if !word.starts_with('-') => 1,
        ("timeout", word) if !word.starts_with('-') => 2,
        _ => return None,
    };
    words.get(start).is_some_and(|word| !word.is_empty()).then_some(start)
}

/// An answer in the making.
struct Answer<'a> {
    input: &'a Value,
    segments: Vec<Segment>,
}

impl Answer<'_> {
    fn put_together(mut self, counts: &[usize]) -> Value {
        let mut verdicts = Vec::new();
        let mut patterns = Vec::new();
        let mut visible = 0;
        let mut missed = false;
        for count in counts {
            let end = (visible + count).min(self.segments.len());
            for segment in self.segments.get(visible..end).unwrap_or_default() {
                let (by, pattern) = self.verdict(segment);
                patterns.extend(pattern);
                missed = by.is_none();
                verdicts.push(by);
                if missed {
                    break;
                }
            }
            visible = end;
            if missed {
                break;
            }
        }
        let is_cut = visible < self.segments.len();
        self.segments.truncate(visible);
        let satisfied = !missed;
        let mut answer = json!({
            "analysisOk": true,
            "reason": null,
            "allowlistSatisfied": satisfied,
            "matchedPatterns": patterns,
            "segmentSatisfiedBy": verdicts,
            "segments": self.segments.iter().map(|segment| self.shape(segment)).collect::<Vec<_>>(),
            "allowAlwaysPatterns": self.remembered(),
            "requiresApproval": approval(if satisfied { Covered::Yes } else { Covered::No }),
        });
        match self.plan().filter(|_| !is_cut) {
            Some(plan) => answer["enforcedCommand"] = json!(plan),
            None => answer["enforcedError"] = json!("no plan"),
        }
        answer
    }

    fn program(&self, segment: &Segment) -> Option<File> {
        places::program(self.input, segment.effective.first()?)
    }

    /// The program that entries are about.
    fn policy(&self, segment: &Segment) -> Option<File> {
        match segment.multiplexer() {
            Some(_) => places::program(self.input, segment.layers().last()?.first()?),
            None => self.program(segment),
        }
    }

    /// What the words come to, by the name that was typed and the file it leads to.
    fn role(&self, segment: &Segment) -> Role {
        let mut roles = vec![role(&segment.effective)];
        if let Some(file) = self.program(segment) {
            for path in [file.path, file.real] {
                let mut argv = segment.effective.clone();
                argv[0] = path;
                roles.push(role(&argv));
            }
        }
        // What busybox is told to pass on is a program of its own.
        if segment.multiplexer().is_some() && matches!(roles[0], Role::PassesOn(_)) {
            return Role::Carrier(String::new());
        }
        let carrier = roles.iter().find(|role| matches!(role, Role::Carrier(_)));
        carrier
            .or_else(|| roles.iter().find(|role| **role != Role::Plain))
            .cloned()
            .unwrap_or(Role::Plain)
    }

    fn verdict(&self, segment: &Segment) -> (Option<String>, Option<String>) {
        let nothing = (None, None);
        let wrappers = segment.layers();
        let mut kept = wrappers.iter().zip(&segment.chain).filter(|(_, wrapper)| *wrapper != "env");
        let is_lost = kept.any(|(words, _)| places::program(self.input, &words[0]).is_none());
        let (Some(policy), None, false) = (self.policy(segment), &segment.blocked, is_lost) else {
            return nothing;
        };
        let candidates = match self.role(segment) {
            Role::Carrier(_) => return nothing,
            Role::Plain => vec![policy.path.clone()],
            Role::ShellScript(word) => match places::script(self.input, &word) {
                Some(script) => vec![policy.path.clone(), script.path],
                None => return nothing,
            },
            Role::Script(word) => match places::script(self.input, &word) {
                Some(_) => vec![policy.path.clone()],
                None => return nothing,
            },
            Role::PassesOn(argv) => match places::program(self.input, &argv[0]) {
                Some(carried) => vec![carried.path],
                None => return nothing,
            },
        };
        if let Some(pattern) = self.listed(&candidates) {
            return (Some("allowlist".to_owned()), Some(pattern));
        }
        let words = segment.effective.get(1..).unwrap_or_default();
        let directory = policy.path.rsplit_once('/').map_or("", |(directory, _)| directory);
        let is_trusted = self.list("trustedSafeBinDirs").any(|trusted| trusted == directory);
        let reads_more = name(&policy.path) == "jq" && words.iter().any(|word| reads_more(word));
        let is_safe = is_trusted && safe_bins::admits(self.input, &name(&policy.path), words);
        match segment.by.as_deref() {
            _ if is_safe && !reads_more => (Some("safeBins".to_owned()), None),
            Some("skills") => (Some("skills".to_owned()), None),
            _ => nothing,
        }
    }

    fn list(&self, key: &str) -> impl Iterator<Item = &str> {
        self.input[key].as_array().into_iter().flatten().filter_map(Value::as_str)
    }

    fn listed(&self, candidates: &[String]) -> Option<String> {
        let entries = self.input["allowlist"].as_array().into_iter().flatten();
        let patterns: Vec<&str> = entries.filter_map(|entry| entry["pattern"].as_str()).collect();
        let everything = patterns.iter().find(|pattern| pattern.trim() == "*");
        let matching = || {
            candidates.iter().find_map(|path| {
                patterns.iter().find(|pattern| {
                    let names_path = pattern.contains(['/', '\\', '~']);
                    let expanded = match pattern.trim().strip_prefix("~/") {
                        Some(rest) => format!("${{HOME}}/{rest}"),
                        None => pattern.trim().to_owned(),
                    };
                    // A placeholder stands for an absolute path.
                    let plain = |text: &str| text.replace("${", "/").replace('}', "");
                    names_path && fits(plain(&expanded).as_bytes(), plain(path).as_bytes())
                })
            })
        };
        everything.or_else(matching).map(|pattern| (*pattern).to_owned())
    }

    fn remembered(&self) -> Vec<String> {
        let mut paths: Vec<String> = Vec::new();
        for segment in
            self.segments.iter().filter(|s| s.blocked.is_none() && s.multiplexer().is_none())
        {
            let program = self.program(segment);
            let path = match self.role(segment) {
                Role::Carrier(_) => None,
                Role::Plain => program.map(|file| file.path),
                Role::ShellScript(word) => places::script(self.input, &word).map(|file| file.path),
                Role::Script(word) => {
                    places::script(self.input, &word).and(program).map(|file| file.path)
                }
                Role::PassesOn(argv) => places::program(self.input, &argv[0]).map(|file| file.path),
            };
            paths.extend(path.filter(|path| !paths.contains(path)));
        }
        paths
    }

    fn plan(&self) -> Option<String> {
        let command = self.input["command"].as_str().unwrap_or_default();
        let bare = text::bare(command, text::Double::Hidden);
        let bare = text::without_comment(&bare);
        let mut signs = Vec::new();
        let mut rest = bare;
        while let Some(start) = rest.find(['|', '&', ';']) {
            let sign =
                ["||", "&&", "|", ";"].into_iter().find(|sign| rest[start..].starts_with(sign))?;
            signs.push(sign);
            rest = &rest[start + sign.len()..];
        }
        let mut line = String::new();
        for (index, segment) in self.segments.iter().enumerate() {
            if index > 0 {
                line = format!("{line} {} ", signs.get(index - 1)?);
            }
            line.push_str(&self.step(segment)?);
        }
        Some(line)
    }

    fn step(&self, segment: &Segment) -> Option<String> {
        if segment.blocked.is_some() {
            return None;
        }
        let real = |word: &str| places::program(self.input, word).map(|file| file.real);
        let mut words: Vec<String> = Vec::new();
        for (layer, wrapper) in segment.layers().iter().zip(&segment.chain) {
            if wrapper != "env" {
                let (first, rest) = layer.split_first()?;
                words.push(real(first)?);
                words.extend_from_slice(rest);
            }
        }
        let argv = match self.role(segment) {
            Role::PassesOn(argv) => argv,
            Role::ShellScript(word) | Role::Script(word) => {
                places::script(self.input, &word)?;
                segment.effective.clone()
            }
            Role::Plain | Role::Carrier(_) => segment.effective.clone(),
        };
        let (first, rest) = argv.split_first()?;
        words.push(if segment.multiplexer().is_some() { first.clone() } else { real(first)? });
        words.extend_from_slice(rest);
        Some(words.iter().map(|word| quote(word)).collect::<Vec<_>>().join(" "))
    }

    fn shape(&self, segment: &Segment) -> Value {
        let program = self.program(segment);
        let raw = segment.effective.first().cloned().unwrap_or_default();
        let last = |file: &File| file.path.rsplit('/').next().unwrap_or_default().to_owned();
        json!({
            "raw": segment.raw,
            "argv": segment.argv,
            "effectiveArgv": segment.effective,
            "wrapperChain": segment.chain,
            "policyBlocked": segment.blocked.is_some(),
            "blockedWrapper": segment.blocked,
            "executable": {
                "raw": raw,
                "path": program.as_ref().map(|file| &file.path),
                "realPath": program.as_ref().map(|file| &file.real),
                "name": program.as_ref().map_or(raw.clone(), last),
            },
            "policyPath": self.policy(segment).map(|file| file.path),
        })
    }
}

/// Whether every segment is admitted.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Covered {
    Yes,
    No,
}

fn approval(covered: Covered) -> Value {
    let mut table = serde_json::Map::new();
    for ask in ["off", "on-miss", "always"] {
        for security in ["deny", "allowlist", "full"] {
            let misses = ask == "on-miss" && security == "allowlist" && covered == Covered::No;
            table.insert(format!("{ask}/{security}"), json!(ask == "always" || misses));
        }
    }
    Value::Object(table)
}

/// Says whether a `jq` program names the environment or a module.
fn reads_more(program: &str) -> bool {
    let is_name = |c: char| c.is_alphanumeric() || matches!(c, '_' | '.' | '$');
    let mut names = program.split(|c| !is_name(c)).map(|name| name.split('.').next());
    names.any(|name| matches!(name, Some("env" | "$ENV" | "import" | "include")))
}

/// `**` any, `*` and `?` anything but a slash.
fn fits(pattern: &[u8], path: &[u8]) -> bool {
    match pattern {
        [] => path.is_empty(),
        [b'*', b'*', rest @ ..] => (0..=path.len()).any(|skip| fits(rest, &path[skip..])),
        [b'*', rest @ ..] => {
            let most = path.iter().position(|byte| *byte == b'/').unwrap_or(path.len());
            (0..=most).any(|skip| fits(rest, &path[skip..]))
        }
        [b'?', rest @ ..] => {
            path.split_first().is_some_and(|(first, path)| *first != b'/' && fits(rest, path))
        }
        [first, rest @ ..] => {
            path.split_first().is_some_and(|(byte, path)| byte == first && fits(rest, path))
        }
    }
}
